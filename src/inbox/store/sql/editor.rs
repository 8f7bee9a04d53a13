//! What the operator changes in the inbox, from a process of his own, while a server writes to it or after it has stopped.

use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::{Sql, change, edit};
use crate::inbox::store::fingerprint::Secret;
use crate::inbox::store::{Erased, Place, Retry, StoreError, bell, postgres, sqlite};

/// How long we wait for the server to let us in between its own transactions.
const PATIENCE: Duration = Duration::from_secs(20);

/// The inbox, open for the operator's changes. Each is committed and synced when it returns, and the server hears of it at once.
pub struct Editor {
    sql: Box<dyn Sql>,
    secret: Secret,
    place: Place,
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor").finish_non_exhaustive()
    }
}

impl Editor {
    /// Opens the database. [`StoreError::Missing`] where there is none yet.
    pub fn open(place: impl Into<Place>) -> Result<Editor, StoreError> {
        let place = place.into();
        let (sql, secret): (Box<dyn Sql>, Secret) = match &place {
            Place::Sqlite(path) => {
                let (connection, secret) = sqlite::open_to_edit(path, PATIENCE)?;
                (Box::new(connection), secret)
            }
            Place::Postgres(server) => {
                let (link, secret) = postgres::open_to_edit(server)?;
                (Box::new(link), secret)
            }
        };
        Ok(Editor { sql, secret, place })
    }

    /// Queues deliveries to be tried at once, and returns how many.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        self.change(|tx, _| edit::retry(tx, retry, theirs(tx, now)?))
    }

    /// Keeps back what is not delivered yet of a submission. Returns whether it was not held before, and not
    /// delivered by every channel.
    pub fn hold(&mut self, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::hold(tx, id, because, theirs(tx, now)?))
    }

    /// Delivers what was held. Returns whether the submission is there and was held.
    pub fn release(&mut self, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::release(tx, id, theirs(tx, now)?))
    }

    /// How many submissions came from an e-mail address, in whatever case it was written.
    pub fn count_from(&self, email: &str) -> Result<usize, StoreError> {
        edit::count_from(&*self.sql, &self.secret, email)
    }

    /// Removes everything that came from an e-mail address, in whatever case it was written, from the tables, and in a SQLite file
    /// from pages that are free now and from the log. Where a reader keeps the log from being emptied for long,
    /// [`Erased::is_wiped`] is false; so it is with PostgreSQL, which overwrites what was removed when it needs the room.
    pub fn erase(&mut self, email: &str) -> Result<Erased, StoreError> {
        let erased = self.change(|tx, secret| edit::erase(tx, secret, email))?;
        let is_wiped = match &self.place {
            Place::Sqlite(_) => self.empty_log()?,
            Place::Postgres(_) => false,
        };
        Ok(Erased { is_wiped, ..erased })
    }

    /// Copies the log into the database and cuts it off, so that no earlier state can be read from it.
    fn empty_log(&self) -> Result<bool, StoreError> {
        let started = Instant::now();
        let emptied = loop {
            match sqlite::empty_log(&*self.sql) {
                Ok(false) | Err(StoreError::Locked) if started.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(StoreError::Locked) => break Ok(false),
                emptied => break emptied,
            }
        };
        sqlite::wait_for_locks(&*self.sql, PATIENCE)?;
        emptied
    }

    fn change<T>(
        &mut self,
        change: impl Fn(&dyn Sql, &Secret) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (sql, began) = (&*self.sql, Instant::now());
        let found = loop {
            let changed = sql.transaction(|| {
                let found = change(sql, &self.secret)?;
                bell::announce(sql)?;
                Ok(found)
            });
            match changed {
                // Replicas were at the same rows, in another order.
                Err(StoreError::Locked) if began.elapsed() < PATIENCE => {}
                changed => break changed?,
            }
        };
        if let Place::Sqlite(path) = &self.place {
            bell::ring(path);
        }
        Ok(found)
    }
}

/// The same moment by the database's clock, by which it is looked whether something is due.
fn theirs(sql: &dyn Sql, ours: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(ours.saturating_add(change::clock_ahead(sql)?).unwrap_or(ours))
}
