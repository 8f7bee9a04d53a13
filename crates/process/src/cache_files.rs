//! Cache folders: their files can be created again. Files are replaced atomically, end with a hash of their
//! content, and are removed when they are no longer used.

#![expect(clippy::disallowed_methods, reason = "abandoned temporary files are removed by age")]

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

/// The age after which a temporary file counts as abandoned. Another process may still be writing a younger
/// one.
const MAX_WRITE_TIME: Duration = Duration::from_mins(10);

/// Replaces a file atomically, without syncing it. Creates the folder if it is missing, but not its parent
/// folder. Other users can read neither the file nor a folder that this creates; an existing folder keeps its
/// permissions.
pub fn write_file(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    if !folder.is_dir() {
        // Do not create parent folders: if the data folder is missing, it may not be mounted.
        match DirBuilder::new().mode(0o700).create(folder) {
            // Another process has just created the folder.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            created => created?,
        }
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    // Name the draft after the writer: other processes and threads may write the same file at the same time.
    let writer = (std::process::id(), std::thread::current().id());
    let draft = folder.join(format!("{name}.{writer:?}"));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(content))
        // No sync is needed: the hash detects files that a power failure has damaged.
        .and_then(|()| fs::rename(&draft, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Removes the files whose names satisfy `is_unused`, except temporary files that a process may still be
/// writing: names with a dot, changed in the last ten minutes. Ignores a missing folder, names that are not
/// UTF-8, and files that cannot be removed.
pub fn remove_files(folder: &Path, is_unused: impl Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let may_be_in_progress = || {
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
            name.contains('.') && age.is_none_or(|age| age < MAX_WRITE_TIME)
        };
        if is_unused(name) && !may_be_in_progress() {
            // Ignore errors, because another process may have removed the file.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Whether a name begins with a hash of 64 hexadecimal digits, as the names of cached files and their drafts
/// do.
pub fn begins_with_hash(name: &str) -> bool {
    name.len() >= 64 && name.as_bytes()[..64].iter().all(u8::is_ascii_hexdigit)
}

/// The bytes of a cache file: the parts of its beginning, which identify it, the content, and a hash of all
/// of these.
pub fn build_cache_file(beginning: &[&[u8]], content: &[u8]) -> Vec<u8> {
    let mut file = [&beginning.concat(), content].concat();
    let hash = blake3::hash(&file);
    file.extend(hash.as_bytes());
    file
}

/// The content of a file that [`build_cache_file`] has made. `None` if the file is damaged or begins with
/// other parts.
pub fn parse_cache_file(file: &Bytes, beginning: &[&[u8]]) -> Option<Bytes> {
    let (text, hash) = file.split_last_chunk::<32>()?;
    let content = text.strip_prefix(&*beginning.concat())?;
    (blake3::hash(text) == *hash).then(|| file.slice_ref(content))
}
