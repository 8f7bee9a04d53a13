//! A folder of TOML files within the site's folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::named_file;

pub(super) const EXTENSION: &str = ".toml";
/// Maximum size of the file of a form or a lexicon, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// The names of the files without extension, sorted by their bytes. Leaves out hidden files and other
/// extensions, such as those of editors' backups. Also lists a folder whose name has the extension; [`read`]
/// refuses it. A folder that does not exist is empty.
pub(super) fn list(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(EXTENSION).filter(|name| !name.starts_with('.') && !name.is_empty());
        names.extend(name.map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads the file `name` plus [`EXTENSION`] in a folder. The error says why it cannot be read.
pub(super) fn read(folder: &Path, name: &str) -> Result<String, String> {
    let text = named_file::read_text(&folder.join(format!("{name}{EXTENSION}")));
    let text = text.map_err(|error| error.to_string())?;
    if text.len() > MAX_BYTES { Err(format!("it is larger than {} KiB", MAX_BYTES >> 10)) } else { Ok(text) }
}
