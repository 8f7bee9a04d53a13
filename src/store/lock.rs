//! Says which process has an inbox in use, so that nothing is put in its place meanwhile.
//!
//! The lock is advisory (`flock`) and on a file of its own beside the database, `inbox.sqlite-lock`: SQLite's locks on the database
//! come and go, and a lock on a file that is replaced would no longer mean anything. The file stays; the lock ends with the process,
//! however that ends.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::postgres::link::{Link, Session};
use super::sql::Sql;
use super::{Place, StoreError};

/// The right to an inbox, until it is dropped.
#[derive(Debug)]
pub struct Lock(Kind);

#[derive(Debug)]
enum Kind {
    /// Closing it gives the lock back.
    File { _file: File },
    /// The lock is the connection's.
    Server(Box<Link>),
}

/// Taking a lock on a server takes no time.
const LOCKING: Session = Session { writes: true, statement: Duration::from_secs(5) };

impl Lock {
    /// Takes the lock of an inbox. Nothing if another process has it, or this one. With a PostgreSQL server it is an advisory lock of
    /// the session, which ends with it.
    pub fn of(place: &Place) -> Result<Option<Lock>, StoreError> {
        match place {
            Place::Sqlite(path) => Lock::try_take(path).map_err(|error| StoreError::io(path, error)),
            Place::Postgres(server) => {
                let link = Link::open(server, LOCKING)?;
                let taken = "SELECT pg_try_advisory_lock(hashtextextended('frontdesk chores ' || current_schema(), 0))";
                let sql: &dyn Sql = &link;
                let is_taken: bool = sql.one(taken, &[])?.get(0)?;
                Ok(is_taken.then_some(Lock(Kind::Server(Box::new(link)))))
            }
        }
    }

    /// Whether it is still ours: a connection may be lost.
    pub fn is_held(&self) -> bool {
        match &self.0 {
            Kind::File { .. } => true,
            Kind::Server(link) => !link.is_lost(),
        }
    }

    /// Takes the lock of the inbox at `database`, whether or not there is one yet. Nothing if another process has it, or this one.
    ///
    /// The file is made for this user only. Its folder must exist.
    pub fn try_take(database: &Path) -> io::Result<Option<Lock>> {
        let database = std::path::absolute(database)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(file_of(&database))?;
        Ok(hold(&file)?.then_some(Lock(Kind::File { _file: file })))
    }
}

/// Locks an open file without waiting; whether that went well.
pub(super) fn hold(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn file_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-lock");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_at_a_time_has_the_inbox() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("inbox.sqlite");
        let lock = Lock::try_take(&database).unwrap().unwrap();
        assert!(Lock::try_take(&database).unwrap().is_none());
        assert!(Lock::try_take(&folder.path().join("other.sqlite")).unwrap().is_some());
        drop(lock);
        assert!(Lock::try_take(&database).unwrap().is_some());
        let metadata = std::fs::metadata(folder.path().join("inbox.sqlite-lock")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_missing_folder_is_an_error_and_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let error = Lock::try_take(&folder.path().join("data/inbox.sqlite")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!folder.path().join("data").exists());
    }
}
