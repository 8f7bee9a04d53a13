//! What the operator changes in the inbox, from a process of his own, while a server writes to it or after it has stopped.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::discard::{self, HeldFilter};
use super::{Sql, change, edit, pressure, steps, values};
use crate::store::fingerprint::Secret;
use crate::store::{Erased, Place, Retry, StoreError, bell, postgres, sqlite};
use crate::submission::delivery::Route;

/// How long we wait for the server to let us in between its own transactions.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long until rows that others have locked, or a log that others read, are tried again.
const PAUSE: Duration = Duration::from_millis(20);

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

    /// Queues deliveries to be tried at once, in transactions of a bounded number of rows, and returns how many. What is parked or waits
    /// when this is called is tried again, unless an attempt at it is begun meanwhile. After an error those of earlier transactions
    /// are queued.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        let found = edit::Retried::find(&*self.sql, retry)?;
        let mut count = 0;
        for part in found.parts() {
            count += self.step(|tx| {
                let count = edit::retry(tx, &part, theirs(tx, now)?)?;
                bell::announce(tx)?;
                Ok(count)
            })?;
            self.ring();
        }
        Ok(count)
    }

    /// Keeps back what is not delivered yet of a submission. Returns whether it was not held before, and not
    /// delivered by every channel.
    pub fn hold(&mut self, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::hold(tx, id, because, theirs(tx, now)?))
    }

    /// Releases a held submission to the `channels` that take its form, ahead of other waiting ones. Returns whether it exists and was
    /// held.
    pub fn release(&mut self, id: Uuid, channels: &[Route], now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| {
            let is_released = edit::release(tx, id, theirs(tx, now)?, channels)?;
            if is_released {
                tx.execute("UPDATE delivery SET rank = 0 WHERE submission = ?1", values![id.as_bytes()])?;
            }
            Ok(is_released)
        })
    }

    /// How many submissions came from an e-mail address, in whatever case it was written.
    pub fn count_from(&self, email: &str) -> Result<usize, StoreError> {
        edit::count_from(&*self.sql, &self.secret, email)
    }

    /// Removes everything that came from an e-mail address, in whatever case it was written, from the tables, and in a SQLite file
    /// from pages that are free now and from the log. Where a reader keeps the log from being emptied for long,
    /// [`Erased::is_wiped`] is false; so it is with PostgreSQL, which overwrites what was removed when it needs the room.
    ///
    /// It does so in transactions of a bounded size. What is accepted after it was called stays, unless it was counted as a repeat of a
    /// submission that is removed. After an error those of earlier transactions are gone, and the next call removes the rest.
    pub fn erase(&mut self, email: &str) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        let days = pressure::days(&*self.sql)?;
        let mut forgotten = BTreeSet::new();
        let (mut after, last) = ([0; 16], edit::newest(&*self.sql)?.unwrap_or_default());
        loop {
            // Search outside of the transactions: in a SQLite file, a search inside one would block all writers.
            let (page, sources) = edit::page_from(&*self.sql, &self.secret, email, after, last)?;
            let Some(removable) = page.last() else { break };
            after = removable.id;
            let sources: Vec<_> = sources.difference(&forgotten).copied().collect();
            self.step(|tx| pressure::forget_sources(tx, &days, &sources))?;
            forgotten.extend(sources);
            for ids in steps::groups(&page) {
                self.remove(ids, edit::accepted_among, &mut erased)?;
            }
        }
        self.remove_orphaned_repeats()?;
        self.wipe(erased)
    }

    fn remove_orphaned_repeats(&self) -> Result<(), StoreError> {
        let mut after = [0; 16];
        loop {
            let ids = edit::orphaned_repeats(&*self.sql, after)?;
            let Some(last) = ids.last() else { return Ok(()) };
            after = *last;
            self.step(|tx| edit::remove_repeats(tx, &ids))?;
        }
    }

    /// Removes the held submissions that a filter selects, in transactions of a bounded size, and wipes them as
    /// [`Editor::erase`] does. What is held meanwhile may be removed with them, unless the filter's `before` excludes it. After an
    /// error those of earlier transactions are gone.
    pub fn discard_held(&mut self, filter: &HeldFilter) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        let mut after = discard::START;
        while let Some((page, last)) = discard::page(&*self.sql, filter, after)? {
            after = last;
            for ids in steps::groups(&page) {
                self.remove(ids, discard::held_among, &mut erased)?;
            }
        }
        self.wipe(erased)
    }

    /// Removes those of these submissions that are held, in the same way.
    pub fn discard(&mut self, ids: &[Uuid]) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        for ids in ids.chunks(steps::ROWS) {
            let mut ids: Vec<_> = ids.iter().map(|id| id.into_bytes()).collect();
            ids.sort_unstable();
            self.remove(ids, discard::held_among, &mut erased)?;
        }
        self.wipe(erased)
    }

    /// Removes those of these submissions that `among` finds, in one transaction unless others have some of them locked: waiting for those
    /// could end in a deadlock with the replica that processes the intake. The ids must be sorted.
    fn remove(
        &self,
        mut ids: Vec<[u8; 16]>,
        among: impl Fn(&dyn Sql, &[[u8; 16]], &str) -> Result<Vec<[u8; 16]>, StoreError>,
        erased: &mut Erased,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let removed =
                self.step(|tx| edit::remove(tx, &among(tx, &ids, tx.dialect().lock_free_rows())?))?;
            erased.add(&removed);
            ids = among(&*self.sql, &ids, "")?;
            if ids.is_empty() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(StoreError::Locked);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Commits one of many changes, then pauses so that other writers can get the lock.
    fn step<T>(&self, change: impl Fn(&dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let has_lock_since = Cell::new(Instant::now());
        let done = self.transact(|tx| {
            has_lock_since.set(Instant::now());
            change(tx)
        })?;
        if let Place::Sqlite(_) = self.place {
            // The server asks for the file's lock again and again, after pauses of up to 100 ms, and gives up after two seconds. It gets its
            // turn if we leave the lock alone for longer than we have had it.
            std::thread::sleep(has_lock_since.get().elapsed() * 2);
        }
        Ok(done)
    }

    /// Sees to it that what was removed is in no file any more, and notes whether that is so.
    fn wipe(&self, erased: Erased) -> Result<Erased, StoreError> {
        let is_wiped = match &self.place {
            Place::Sqlite(_) => self.empty_log()?,
            Place::Postgres(_) => false,
        };
        Ok(Erased { is_wiped, ..erased })
    }

    /// Copies the log into the database and cuts it off, so that no earlier state can be read from it.
    fn empty_log(&self) -> Result<bool, StoreError> {
        // Most of a long log is copied while others can write: the checkpoint that cuts it off lets nobody write. Where this one fails,
        // that one says why.
        let _ = self.sql.query("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        let started = Instant::now();
        let emptied = loop {
            match sqlite::empty_log(&*self.sql) {
                Ok(false) | Err(StoreError::Locked) if started.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                Err(StoreError::Locked) => break Ok(false),
                emptied => break emptied,
            }
        };
        sqlite::wait_for_locks(&*self.sql, PATIENCE)?;
        emptied
    }

    /// Changes something of which others hear at once.
    fn change<T>(
        &mut self,
        change: impl Fn(&dyn Sql, &Secret) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let found = self.transact(|tx| {
            let found = change(tx, &self.secret)?;
            bell::announce(tx)?;
            Ok(found)
        })?;
        self.ring();
        Ok(found)
    }

    /// Notifies the server of a commit to a SQLite file. With PostgreSQL, the transaction itself sends the notification.
    fn ring(&self) {
        if let Place::Sqlite(path) = &self.place {
            bell::ring(path);
        }
    }

    /// Commits a change, and tries again for a while where that needs locks that others have.
    fn transact<T>(&self, change: impl Fn(&dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (sql, began) = (&*self.sql, Instant::now());
        loop {
            match sql.transaction(|| change(sql)) {
                // Replicas were at the same rows, in another order.
                Err(StoreError::Locked) if began.elapsed() < PATIENCE => {}
                changed => return changed,
            }
        }
    }
}

/// The same moment by the database's clock, by which it is looked whether something is due.
fn theirs(sql: &dyn Sql, ours: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(ours.saturating_add(change::clock_ahead(sql)?).unwrap_or(ours))
}
