//! The files of a SQLite database: creates them with access for one user, and detects when they are replaced.
//!
//! SQLite keeps writing to a file that was removed or renamed, and every commit appears to succeed. The
//! writer therefore checks before and after each commit that the paths still refer to the open files. It does
//! not open the files for that: closing them would drop the locks that SQLite holds on them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;

const MISSING: &str = "the folder is missing; it is created only when the server starts";
const DISAPPEARED: &str =
    "the inbox is no longer there (is its file system mounted?); it is created only when the server starts";
const SUPPLANTED: &str =
    "another inbox is there now; put the former file back, or restart the server to use this one";

/// Creates an empty database file if there is none, and syncs its folder, which must exist; see
/// [`create_folder`]. A running server must recreate neither the folder nor a database that it has opened:
/// their file system may be unmounted, and a new inbox in the mount point would be hidden once it is mounted
/// again.
pub(super) fn create_database(path: &Path) -> Result<(), StoreError> {
    let path = absolute(path)?;
    let folder = path.parent().unwrap_or(&path);
    if let Err(error) = fs::metadata(folder) {
        let error = match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(error.kind(), MISSING),
            _ => error,
        };
        return Err(StoreError::io(folder, error));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(StoreError::io(&path, error)),
        _ => sync_folder(folder),
    }
}

/// Fails if the database file is missing.
pub(super) fn expect_database(path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(disappeared(path)),
        found => found.map(drop).map_err(|error| StoreError::io(path, error)),
    }
}

/// The error for a database that was open and is now missing or without tables.
pub(super) fn disappeared(path: &Path) -> StoreError {
    StoreError::io(path, io::Error::new(io::ErrorKind::NotFound, DISAPPEARED))
}

/// The error for a database that has been replaced with another inbox.
pub(super) fn supplanted(path: &Path) -> StoreError {
    StoreError::io(path, io::Error::other(SUPPLANTED))
}

/// Creates the folder of the database at `path`, and any missing parents, durably and with access for this
/// user only; existing folders keep their modes. Only a starting server and commands that create a database
/// may call this.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let path = absolute(path)?;
    let folder = path.parent().unwrap_or(&path);
    let missing: Vec<&Path> = folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| StoreError::io(folder, error))?;
    // A new folder is durable only once its parent folder is synced.
    missing.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// Syncs a folder, so that the names in it are durable. Does nothing on file systems that cannot sync
/// folders.
pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(StoreError::io(folder, error))
        }
        _ => Ok(()),
    }
}

/// Makes a path absolute, without resolving symbolic links.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| StoreError::io(path, error))
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The device and the inode of a file.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Identifies the open files of a database: the database itself, its log and its shared memory.
#[derive(Clone)]
pub(crate) struct DatabaseFiles {
    files: [(PathBuf, FileId); 3],
    /// The size of the database at the last check, in bytes. The database never shrinks.
    length: u64,
}

impl DatabaseFiles {
    /// Identifies the files that are now at the paths, and fails if one is missing. Call this after the first
    /// transaction, when SQLite has all three files open.
    pub(super) fn identify(path: &Path) -> Result<DatabaseFiles, StoreError> {
        let identify = |suffix: &str| {
            let file = with_suffix(path, suffix);
            let id = file_id(&file).map_err(|error| StoreError::io(&file, error))?;
            Ok::<_, StoreError>((file, id))
        };
        let length = fs::metadata(path).map_err(|error| StoreError::io(path, error))?.len();
        Ok(DatabaseFiles { files: [identify("")?, identify("-wal")?, identify("-shm")?], length })
    }

    /// Fails with [`StoreError::Moved`] if a path refers to a different file, or the database has shrunk.
    pub(crate) fn check_in_place(&mut self) -> Result<(), StoreError> {
        let length = fs::metadata(&self.files[0].0).map_or(0, |metadata| metadata.len());
        // Treat an unreadable file as moved: reopening the database then reports the cause.
        let is_in_place = |(file, id): &(PathBuf, FileId)| file_id(file).is_ok_and(|found| found == *id);
        if length < self.length || !self.files.iter().all(is_in_place) {
            return Err(StoreError::Moved(self.files[0].0.clone()));
        }
        self.length = length;
        Ok(())
    }
}
