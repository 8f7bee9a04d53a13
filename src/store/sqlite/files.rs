//! The database as files: made for one user only, and recognised again.
//!
//! SQLite goes on writing into a file that was deleted or renamed, and every commit succeeds. So before and
//! after each commit we look whether the names still lead to the files that are open.
//!
//! Nothing here opens a database file that exists: closing it would drop the locks that SQLite holds on it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Why a folder that has vanished stays away.
const MISSING: &str = "the folder is missing, and is created only when the server starts";

/// Creates an empty database where there is none, and syncs its name.
///
/// The folder must exist. A server that reopens its database must not recreate a folder that is missing: its file system may be
/// unmounted, and a new inbox in the mount point would be hidden as soon as it is mounted again. See [`create_folder`].
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

/// Creates the folder of the database `path`, and the folders above it, where they are missing, and syncs their names. Servers do so
/// when they start, commands before they make a database; nothing else may.
pub(in crate::store) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let path = std::path::absolute(path).map_err(|error| StoreError::io(path, error))?;
    let folder = path.parent().unwrap_or(&path);
    let missing: Vec<&Path> = folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| StoreError::io(folder, error))?;
    // A new name lasts once the folder that holds it is synced.
    for holder in missing.into_iter().filter_map(Path::parent) {
        sync_folder(holder).map_err(|error| StoreError::io(holder, error))?;
    }
    Ok(())
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems have nothing to sync in a folder, and say so.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// The database, its log and its shared memory, as they were when they were opened.
#[derive(Clone)]
pub(in crate::store) struct Files {
    files: [(PathBuf, Identity); 3],
    /// The database's own length when it was last looked at, in bytes. We never let it shrink.
    length: u64,
}

impl Files {
    /// To be called once SQLite has all three open: after the first transaction.
    pub(super) fn of(path: &Path) -> Result<Files, StoreError> {
        let identify = |suffix: &str| {
            let mut name = OsString::from(path);
            name.push(suffix);
            let file = PathBuf::from(name);
            Identity::of(&file).map(|identity| (file, identity))
        };
        let length = fs::metadata(path).map_err(|error| StoreError::io(path, error))?.len();
        Ok(Files { files: [identify("")?, identify("-wal")?, identify("-shm")?], length })
    }

    /// [`StoreError::Moved`] unless each name still leads to the same file, and nobody has written something shorter into the
    /// database.
    pub(super) fn are_in_place(&mut self) -> Result<(), StoreError> {
        let length = fs::metadata(&self.files[0].0).map_or(0, |metadata| metadata.len());
        if length < self.length {
            return Err(StoreError::Moved);
        }
        self.length = length;
        for (file, identity) in &self.files {
            // A file that can't even be looked at is not where it was: opening it again will say why.
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
