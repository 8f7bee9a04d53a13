//! Writes a file that gets its name only once it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The suffix of the file's name until the file is complete.
const PARTIAL: &str = ".partial";

/// Errors from syncing a folder that can be written to, but not synced.
const CANNOT_SYNC: [io::ErrorKind; 3] =
    [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported];

/// Calls `write` with a file that only its owner can read, and returns its result. The file's name ends with
/// `PARTIAL` until it is complete and synced, so an error or a full disk leaves no new file, and leaves an
/// existing file unchanged. An existing file is an error of the kind `AlreadyExists` without `force`. With
/// `force`, a symbolic link stays, and its target is replaced; a broken link is itself replaced. Devices and
/// pipes are written directly, and need `force`.
pub fn write_to_file<T, E: From<io::Error>>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let exists = fs::symlink_metadata(path).is_ok();
    if exists && !force {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
    }
    // Replace the target of a symbolic link instead of the link, unless the link is broken.
    let target = Some(path).filter(|_| exists).and_then(|path| fs::canonicalize(path).ok());
    let target = target.unwrap_or_else(|| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(&target)?);
        let written = write(&mut out)?;
        out.flush()?;
        return Ok(written);
    }
    let partial = PartialFile::create(&target)?;
    let mut out = BufWriter::new(&partial.file);
    let written = write(&mut out)?;
    out.flush()?;
    drop(out);
    partial.rename_to(&target, force)?;
    Ok(written)
}

/// A locked temporary file in the folder of its target. Dropping it removes the temporary file, unless that
/// file was renamed to the target.
struct PartialFile {
    path: PathBuf,
    file: File,
    is_renamed: bool,
}

impl PartialFile {
    /// Creates the file, or empties one that an interrupted process has left. Fails if another writer, also
    /// of this process, has it open, or if it is a symbolic link.
    fn create(target: &Path) -> io::Result<PartialFile> {
        let mut path = target.as_os_str().to_owned();
        path.push(PARTIAL);
        let path = PathBuf::from(path);
        loop {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
            file.try_lock().map_err(|_| io::Error::other("another process is writing this file"))?;
            // Another process may have renamed or removed the file before it was locked.
            let ours = file.metadata()?;
            let is_ours = |found: fs::Metadata| (found.dev(), found.ino()) == (ours.dev(), ours.ino());
            if fs::symlink_metadata(&path).is_ok_and(is_ours) {
                file.set_permissions(fs::Permissions::from_mode(0o600))?;
                file.set_len(0)?;
                return Ok(PartialFile { path, file, is_renamed: false });
            }
        }
    }

    /// Syncs the file, gives it its final name and syncs the folder, so that a power failure loses neither.
    /// Fails if there is a file with that name, unless `replace` is set.
    fn rename_to(mut self, target: &Path, replace: bool) -> io::Result<()> {
        self.file.sync_all()?;
        if replace {
            fs::rename(&self.path, target)?;
        } else {
            match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
                // Where `NOREPLACE` is not supported, use a hard link, which also fails if `target` exists.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    fs::hard_link(&self.path, target)?;
                    fs::remove_file(&self.path)?;
                }
                renamed => renamed?,
            }
        }
        self.is_renamed = true;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        match File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()) {
            // A folder without read permission cannot be opened, and some file systems cannot sync folders.
            Err(error) if !CANNOT_SYNC.contains(&error.kind()) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, force: bool, text: &str) -> io::Result<()> {
        write_to_file(path, force, |out| out.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failed_export_leaves_no_file_and_an_existing_one_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let fail = |force| {
            write_to_file(&path, force, |out| {
                out.write_all(&vec![b'x'; 100_000])?;
                Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))
            })
        };
        assert_eq!(fail(false).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(folder.path()), [""; 0]);
        write(&path, false, "old").unwrap();
        fail(true).unwrap_err();
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["out.csv".to_owned()], "old".to_owned())
        );
        // The disk is full.
        assert!(write_to_file(Path::new("/dev/full"), true, |out| out.write_all(b"x")).is_err());
    }

    #[test]
    fn a_file_is_replaced_only_with_force_and_belongs_to_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        fs::write(&path, "old").unwrap();
        let refused = write(&path, false, "new").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        // A file that appears while the export is written stays, too.
        let other = folder.path().join("other.csv");
        let refused = write_to_file(&other, false, |_| fs::write(&other, "theirs")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, true, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_interrupted_export_is_replaced_and_a_running_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        fs::write(folder.path().join("out.csv.partial"), "interrupted").unwrap();
        let nested = write_to_file(&path, false, |out| {
            out.write_all(b"first")?;
            let error = write(&path, false, "second").unwrap_err();
            assert!(format!("{error:#}").contains("another process is writing this file"), "{error:#}");
            Ok::<_, io::Error>(())
        });
        nested.unwrap();
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["out.csv".to_owned()], "first".to_owned())
        );
    }
}
