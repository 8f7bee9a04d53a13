//! The files of a SQLite database: creates them for one user, and detects that they were replaced.
//!
//! SQLite keeps writing to a file that was removed or renamed, and every commit succeeds. So we check before
//! and after each commit that the names still belong to the open files.
//!
//! Nothing here opens an existing database file: closing it would drop the locks that SQLite holds on it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;

/// Explains why a missing folder is not created.
const MISSING: &str = "the folder is missing, and is created only when the server starts";

/// Creates an empty database if there is none, and syncs its name.
///
/// The folder must exist. A running server must not recreate a missing folder: its file system may be
/// unmounted, and a new inbox in the mount point would be hidden once it is mounted again. See
/// [`create_folder`].
pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    let path = std::path::absolute(path).map_err(|error| StoreError::io(path, error))?;
    let folder = path.parent().unwrap_or(&path);
    if let Err(error) = fs::metadata(folder) {
        let error = match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(error.kind(), MISSING),
            _ => error,
        };
        return Err(StoreError::io(folder, error));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StoreError::io(&path, error)),
    }
    sync_folder(folder).map_err(|error| StoreError::io(folder, error))
}

/// Creates the folder of the database `path` and its parents, and syncs their names. Only a starting server
/// and commands that create a database may call this.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let path = std::path::absolute(path).map_err(|error| StoreError::io(path, error))?;
    let folder = path.parent().unwrap_or(&path);
    let missing: Vec<&Path> = folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| StoreError::io(folder, error))?;
    // A new name is durable once its parent folder is synced.
    for holder in missing.into_iter().filter_map(Path::parent) {
        sync_folder(holder).map_err(|error| StoreError::io(holder, error))?;
    }
    Ok(())
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems cannot sync folders.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// The identities of the database, its log and its shared memory when they were opened.
#[derive(Clone)]
pub(crate) struct DatabaseFiles {
    files: [(PathBuf, Identity); 3],
    /// The size of the database at the last check, in bytes. It never shrinks.
    length: u64,
}

impl DatabaseFiles {
    /// Call this once SQLite has all three files open, after the first transaction.
    pub(super) fn of(path: &Path) -> Result<DatabaseFiles, StoreError> {
        let identify = |suffix: &str| {
            let mut name = OsString::from(path);
            name.push(suffix);
            let file = PathBuf::from(name);
            Identity::of(&file).map(|identity| (file, identity))
        };
        let length = fs::metadata(path).map_err(|error| StoreError::io(path, error))?.len();
        Ok(DatabaseFiles { files: [identify("")?, identify("-wal")?, identify("-shm")?], length })
    }

    /// [`StoreError::Moved`] unless all names still belong to the open files and the database has not become
    /// shorter.
    pub(super) fn check_in_place(&mut self) -> Result<(), StoreError> {
        let length = fs::metadata(&self.files[0].0).map_or(0, |metadata| metadata.len());
        if length < self.length {
            return Err(StoreError::Moved);
        }
        self.length = length;
        for (file, identity) in &self.files {
            // If the file cannot be inspected, reopening the database returns the cause.
            if Identity::of(file).is_ok_and(|found| found == *identity) {
                continue;
            }
            return Err(StoreError::Moved);
        }
        Ok(())
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: &Path) -> Result<Identity, StoreError> {
        let metadata = fs::metadata(file).map_err(|error| StoreError::io(file, error))?;
        Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}
