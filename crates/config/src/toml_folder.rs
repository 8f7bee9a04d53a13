//! A folder of TOML files within the site's folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::named_file;
use super::reader::Reader;
use frontdesk_site::fault::Fault;

pub(super) const EXTENSION: &str = ".toml";
/// Maximum size of the file of a form or a lexicon, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// The names of the files in `folder`, a folder of the site's folder, without extension and sorted by their
/// bytes. Leaves out hidden files and other extensions, such as those of editors' backups. Also lists a
/// folder whose name has the extension; [`read`] refuses it. A folder that does not exist is empty. Reports a
/// folder that cannot be read, and files such as `a.TOML` and `a.toml.txt`, as faults about the keys `keys`.
pub(super) fn list(r: &mut Reader<'_>, folder: &str, keys: &str) -> Vec<String> {
    let found = file_names(&r.site_folder().join(folder)).unwrap_or_else(|error| {
        r.report(Fault::error(folder, None, format!("cannot be read: {error}")).about(keys));
        Vec::new()
    });
    let mut names = Vec::new();
    for name in found.iter().filter(|name| !name.starts_with('.')) {
        let lower = name.to_ascii_lowercase();
        if let Some(stem) = name.strip_suffix(EXTENSION) {
            names.push(stem.to_owned());
        } else if let Some(stem) = [EXTENSION, ".toml.txt"].iter().find_map(|end| lower.strip_suffix(end)) {
            let message = format!("the file is ignored, because its name does not end with `{EXTENSION}`");
            let hint = format!("rename it to `{}{EXTENSION}`", &name[..stem.len()]);
            r.report(Fault::warning(format!("{folder}/{name}"), None, message).hint(hint).about(keys));
        }
    }
    names
}

/// The names of the files and folders in a folder, sorted by their bytes; empty if it does not exist.
fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Reads the file `name` plus [`EXTENSION`] in a folder. The error says why it cannot be read, for example
/// because it is larger than [`MAX_BYTES`].
pub(super) fn read(folder: &Path, name: &str) -> Result<String, String> {
    let text = named_file::read_text(&folder.join(format!("{name}{EXTENSION}")));
    let text = text.map_err(|error| error.to_string())?;
    if text.len() > MAX_BYTES { Err(format!("it is larger than {} KiB", MAX_BYTES >> 10)) } else { Ok(text) }
}
