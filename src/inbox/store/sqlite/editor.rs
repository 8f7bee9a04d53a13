//! What the operator changes in the inbox, from a process of his own, while a server writes to it or after it has stopped.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use uuid::Uuid;

use super::fingerprint::Secret;
use super::{LAYOUT, connect, edit, empty_log, layout, make_durable, read_secret};
use crate::inbox::store::{Erased, Retry, StoreError, bell};

/// How long we wait for the server to let us in between its own transactions.
const PATIENCE: Duration = Duration::from_secs(20);

/// The inbox, open for the operator's changes. Each is committed and synced when it returns, and the server hears of it at once.
pub struct Editor {
    connection: Connection,
    secret: Secret,
    path: PathBuf,
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor").finish_non_exhaustive()
    }
}

impl Editor {
    /// Opens the database at `path`. [`StoreError::Missing`] where there is none yet.
    pub fn open(path: &Path) -> Result<Editor, StoreError> {
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Err(StoreError::Missing(path.to_owned())),
            Err(error) => return Err(StoreError::io(path, error)),
        }
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(PATIENCE)?;
        match layout(&connection, path)? {
            None => return Err(StoreError::Missing(path.to_owned())),
            Some(LAYOUT) => {}
            Some(_) => return Err(StoreError::TooOld(path.to_owned())),
        }
        make_durable(&connection)?;
        let secret = read_secret(&connection)?;
        Ok(Editor { connection, secret, path: path.to_owned() })
    }

    /// Queues deliveries to be tried at once, and returns how many.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        self.change(|tx, _| edit::retry(tx, retry, now))
    }

    /// Keeps back what is not delivered yet of a submission. Returns whether it was not held before, and not
    /// delivered by every channel.
    pub fn hold(&mut self, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::hold(tx, id, because, now))
    }

    /// Delivers what was held. Returns whether the submission is there and was held.
    pub fn release(&mut self, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::release(tx, id, now))
    }

    /// How many submissions came from an e-mail address, in whatever case it was written.
    pub fn count_from(&self, email: &str) -> Result<usize, StoreError> {
        edit::count_from(&self.connection, &self.secret, email)
    }

    /// Removes everything that came from an e-mail address, in whatever case it was written, from the tables, from pages that are
    /// free now and from the log. Where a reader keeps the log from being emptied for long, [`Erased::is_wiped`] is false.
    pub fn erase(&mut self, email: &str) -> Result<Erased, StoreError> {
        let erased = self.change(|tx, secret| edit::erase(tx, secret, email))?;
        Ok(Erased { is_wiped: self.empty_log()?, ..erased })
    }

    /// Copies the log into the database and cuts it off, so that no earlier state can be read from it.
    fn empty_log(&self) -> Result<bool, StoreError> {
        let started = Instant::now();
        let emptied = loop {
            match empty_log(&self.connection) {
                Ok(false) | Err(StoreError::Locked) if started.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(StoreError::Locked) => break Ok(false),
                emptied => break emptied,
            }
        };
        self.connection.busy_timeout(PATIENCE)?;
        emptied
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>, &Secret) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = change(&transaction, &self.secret)?;
        transaction.commit()?;
        bell::ring(&self.path);
        Ok(found)
    }
}
