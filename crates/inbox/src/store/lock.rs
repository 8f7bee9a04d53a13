//! The lock that allows only one process to deliver from an inbox (SQLite) or to maintain it (PostgreSQL).
//!
//! With SQLite, this is an advisory lock (`flock`) on `inbox.sqlite-lock`, a file beside the database. The
//! database file itself cannot serve as the lock file: SQLite constantly takes and releases its own locks on
//! it, and a lock on a replaced file would have no effect. The lock file is never removed; the lock ends with
//! the process.

#![expect(
    clippy::disallowed_methods,
    reason = "the pause is as short as the other process's look at the lock"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::postgres::connection::PgConnection;
use super::postgres::maintenance_lease::MaintenanceLease;
use super::sqlite::files::with_suffix;

/// How often a locked file is tried, and the pause between the tries: [`Lock::is_held_elsewhere`] holds a
/// lock for less than that.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(10);

/// An inbox's lock. Dropping it releases the lock.
pub enum Lock {
    /// Closing the file releases the lock.
    File { _file: File },
    /// The lease of the maintenance role in a PostgreSQL database.
    Server(MaintenanceLease),
    /// An advisory lock held by this connection's open transaction.
    Transaction(Box<PgConnection>),
}

impl Lock {
    /// Tries to take an inbox's lock; `None` if it is held, also by this process. With PostgreSQL, it is a
    /// lease, which a thread renews.
    pub fn try_acquire(place: &DatabaseUrl) -> Result<Option<Lock>, StoreError> {
        match place {
            DatabaseUrl::Sqlite(path) => {
                Lock::try_lock_file(path).map_err(|error| StoreError::io(path, error))
            }
            DatabaseUrl::Postgres(server) => Ok(MaintenanceLease::try_acquire(server)?.map(Lock::Server)),
        }
    }

    /// Whether an inbox's lock is held, as it is by a running server. Also true if this process holds it;
    /// `false` if that cannot be determined. With SQLite, takes a shared lock for some microseconds.
    pub fn is_held_elsewhere(place: &DatabaseUrl) -> bool {
        match place {
            DatabaseUrl::Sqlite(path) => {
                let file = File::open(with_suffix(path, "-lock"));
                file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
            }
            DatabaseUrl::Postgres(server) => MaintenanceLease::is_taken(server).unwrap_or(false),
        }
    }

    /// Whether the lock is still held. The lock of a SQLite file is never lost; the others are lost with the
    /// connection, or if the lease was not renewed.
    pub fn is_held(&self) -> bool {
        match self {
            Lock::File { .. } => true,
            Lock::Server(lease) => lease.is_held(),
            Lock::Transaction(link) => !link.is_lost(),
        }
    }

    /// Like [`Lock::try_acquire`], for a SQLite file. Its folder must exist, but the file need not.
    pub fn try_lock_file(database: &Path) -> io::Result<Option<Lock>> {
        let file = open_locked(&with_suffix(&std::path::absolute(database)?, "-lock"))?;
        Ok(file.map(|file| Lock::File { _file: file }))
    }
}

/// Opens and locks a file; `None` if it is locked already, also by this process, and still is after some
/// milliseconds. Creates a missing file, with access for this user only.
pub(super) fn open_locked(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Ok(lock_file(&file, || sleep(PAUSE))?.then_some(file))
}

/// Tries to lock a file [`TRIES`] times, and calls `pause` in between. Returns whether it is locked now.
fn lock_file(file: &File, mut pause: impl FnMut()) -> io::Result<bool> {
    for tried in 1..=TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if tried < TRIES => pause(),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_at_a_time_has_the_inbox() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("inbox.sqlite");
        let place = DatabaseUrl::Sqlite(database.clone());
        assert!(!Lock::is_held_elsewhere(&place));
        let lock = Lock::try_lock_file(&database).unwrap().unwrap();
        assert!(Lock::is_held_elsewhere(&place));
        assert!(Lock::try_lock_file(&database).unwrap().is_none());
        assert!(Lock::try_lock_file(&folder.path().join("other.sqlite")).unwrap().is_some());
        drop(lock);
        assert!(!Lock::is_held_elsewhere(&place));
        assert!(Lock::try_lock_file(&database).unwrap().is_some());
        let metadata = std::fs::metadata(folder.path().join("inbox.sqlite-lock")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_look_at_the_lock_does_not_keep_a_server_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.sqlite-lock");
        let file = open_locked(&path).unwrap().unwrap();
        let look = File::open(&path).unwrap();
        assert!(look.try_lock_shared().is_err());
        file.unlock().unwrap();
        look.try_lock_shared().unwrap();
        assert!(!lock_file(&file, || {}).unwrap());
        assert!(lock_file(&file, || look.unlock().unwrap()).unwrap());
    }

    #[test]
    fn a_missing_folder_is_an_error_and_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let error = Lock::try_lock_file(&folder.path().join("data/inbox.sqlite")).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!folder.path().join("data").exists());
    }
}
