//! The operator's changes, from a process of their own, whether or not a server runs.

#![expect(clippy::disallowed_methods, reason = "a command leaves the lock to the server")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::discard::{self, HeldFilter};
use super::edit::{Erased, Retry};
use super::rows;
use super::{Sql, abuse, edit, transaction, values};
use crate::store::error::StoreError;
use crate::store::fingerprint::Secret;
use crate::store::url::DatabaseUrl;
use crate::store::{notifier, postgres, sqlite};
use crate::submission::delivery::Route;

/// How long to wait for locks of the server.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before another try at locked rows, or at a log that has readers.
const PAUSE: Duration = Duration::from_millis(20);

/// An inbox that is open for the operator's changes. Each change is committed and synced when its method
/// returns, and the server is notified.
pub struct Editor {
    sql: Box<dyn Sql>,
    secret: Secret,
    place: DatabaseUrl,
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor").finish_non_exhaustive()
    }
}

impl Editor {
    /// Opens the database. [`StoreError::Missing`] if there is none.
    pub fn open(place: impl Into<DatabaseUrl>) -> Result<Editor, StoreError> {
        let place = place.into();
        let (sql, secret): (Box<dyn Sql>, Secret) = match &place {
            DatabaseUrl::Sqlite(path) => {
                let (connection, secret) = sqlite::open_to_edit(path, PATIENCE)?;
                (Box::new(connection), secret)
            }
            DatabaseUrl::Postgres(server) => {
                let (link, secret) = postgres::open_to_edit(server)?;
                (Box::new(link), secret)
            }
        };
        Ok(Editor { sql, secret, place })
    }

    /// Makes deliveries due at once, in transactions of a bounded size, and returns their number. Concerns
    /// the deliveries that are parked or wait at the call, unless an attempt begins meanwhile. After an
    /// error, earlier transactions stay committed.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        let found = edit::Retried::find(&*self.sql, retry)?;
        let mut count = 0;
        for part in found.parts() {
            count += self.step(|tx| {
                let count = edit::retry(tx, &part, theirs(tx, now)?)?;
                transaction::announce(tx)?;
                Ok(count)
            })?;
            self.ring();
        }
        Ok(count)
    }

    /// Holds a submission's unfinished deliveries. Returns whether it was not held before and not delivered
    /// by every channel.
    pub fn hold(&mut self, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| edit::hold(tx, id, because, theirs(tx, now)?))
    }

    /// Releases a held submission to the `channels` that take its form, ahead of other waiting ones. Returns
    /// whether it exists and was held.
    pub fn release(&mut self, id: Uuid, channels: &[Route], now: Timestamp) -> Result<bool, StoreError> {
        self.change(|tx, _| {
            let is_released = edit::release(tx, id, theirs(tx, now)?, channels)?;
            if is_released {
                tx.execute("UPDATE delivery SET rank = 0 WHERE submission = ?1", values![id.as_bytes()])?;
            }
            Ok(is_released)
        })
    }

    /// The number of submissions from an e-mail address, without regard to case.
    pub fn count_from(&self, email: &str) -> Result<usize, StoreError> {
        edit::count_from(&*self.sql, &self.secret, email)
    }

    /// Removes all submissions from an e-mail address, without regard to case. In a SQLite file, also
    /// overwrites their pages and truncates the log; [`Erased::is_wiped`] is false if a reader prevents that
    /// for too long. PostgreSQL overwrites removed rows later, so it is always false there.
    ///
    /// Uses transactions of a bounded size. Submissions that are accepted after the call stay, unless they
    /// are counted as repeats of a removed one. After an error, earlier transactions stay committed, and the
    /// next call removes the rest.
    pub fn erase(&mut self, email: &str) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        let days = abuse::days(&*self.sql)?;
        let mut forgotten = BTreeSet::new();
        let (mut after, last) = ([0; 16], edit::newest(&*self.sql)?.unwrap_or_default());
        loop {
            // Search outside of the transactions: in a SQLite file, a search inside one would block all
            // writers.
            let (page, sources) = edit::page_from(&*self.sql, &self.secret, email, after, last)?;
            let Some(removable) = page.last() else { break };
            after = removable.id;
            let sources: Vec<_> = sources.difference(&forgotten).copied().collect();
            self.step(|tx| abuse::forget_sources(tx, &days, &sources))?;
            forgotten.extend(sources);
            for ids in rows::groups(&page) {
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

    /// Removes the held submissions that a filter selects, in transactions of a bounded size, and wipes them
    /// like [`Editor::erase`]. May include submissions that are held meanwhile, unless the filter's `before`
    /// excludes them. After an error, earlier transactions stay committed.
    pub fn discard_held(&mut self, filter: &HeldFilter) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        let mut after = discard::START;
        while let Some((page, last)) = discard::page(&*self.sql, filter, after)? {
            after = last;
            for ids in rows::groups(&page) {
                self.remove(ids, discard::held_among, &mut erased)?;
            }
        }
        self.wipe(erased)
    }

    /// Removes those of these submissions that are held, in the same way.
    pub fn discard(&mut self, ids: &[Uuid]) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        for ids in ids.chunks(rows::MAX_ROWS) {
            let mut ids: Vec<_> = ids.iter().map(|id| id.into_bytes()).collect();
            ids.sort_unstable();
            self.remove(ids, discard::held_among, &mut erased)?;
        }
        self.wipe(erased)
    }

    /// Removes those of these submissions that `among` finds, in one transaction unless some are locked:
    /// waiting for them could cause a deadlock with the replica that processes the intake. The ids must be
    /// sorted.
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
        if let DatabaseUrl::Sqlite(_) = self.place {
            // The server polls the file's lock, with pauses of up to 100 ms, for two seconds. It gets the
            // lock if we leave it alone for longer than we have held it.
            std::thread::sleep(has_lock_since.get().elapsed() * 2);
        }
        Ok(done)
    }

    /// Truncates the log, and records whether no file contains removed data any more.
    fn wipe(&self, erased: Erased) -> Result<Erased, StoreError> {
        let is_wiped = match &self.place {
            DatabaseUrl::Sqlite(_) => self.truncate_wal()?,
            DatabaseUrl::Postgres(_) => false,
        };
        Ok(Erased { is_wiped, ..erased })
    }

    /// Copies the log into the database and truncates it.
    fn truncate_wal(&self) -> Result<bool, StoreError> {
        // Copy most of a long log while others can write: the checkpoint that truncates it blocks all
        // writers. If this fails, that one returns the error.
        let _ = self.sql.query("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        let started = Instant::now();
        let emptied = loop {
            match sqlite::truncate_wal(&*self.sql) {
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

    /// Commits a change and notifies the server.
    fn change<T>(
        &mut self,
        change: impl Fn(&dyn Sql, &Secret) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let found = self.transact(|tx| {
            let found = change(tx, &self.secret)?;
            transaction::announce(tx)?;
            Ok(found)
        })?;
        self.ring();
        Ok(found)
    }

    /// Notifies the server of a commit to a SQLite file. With PostgreSQL, the transaction itself sends the
    /// notification.
    fn ring(&self) {
        if let DatabaseUrl::Sqlite(path) = &self.place {
            notifier::notify(path);
        }
    }

    /// Commits a change, and retries for a while if it needs locks that others hold.
    fn transact<T>(&self, change: impl Fn(&dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (sql, began) = (&*self.sql, Instant::now());
        loop {
            match sql.transaction(|| change(sql)) {
                // Another replica has locked the same rows in another order.
                Err(StoreError::Locked) if began.elapsed() < PATIENCE => {}
                changed => return changed,
            }
        }
    }
}

/// Converts a time by our clock to the database's.
fn theirs(sql: &dyn Sql, ours: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(ours.saturating_add(transaction::clock_ahead(sql)?).unwrap_or(ours))
}
