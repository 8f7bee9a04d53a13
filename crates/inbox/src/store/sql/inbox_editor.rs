//! Makes the operator's changes from a separate process, whether or not a server is running.

#![expect(clippy::disallowed_methods, reason = "a command may sleep so that the server can take the lock")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::discard::{self, HeldFilter};
use super::lesson::Teacher;
use super::operator_log::{EntryWriter, OperatorAction};
use super::person;
use super::release_and_remove::Erased;
use super::submission_rows::{self, ASKS, Filter, Removable, TO_TEAM, filter_condition};
use super::{
    Cell, FromRow as _, Sql, bind_all, confirmation, lesson, release_and_remove, transaction, values,
};
use crate::store::database_url::DatabaseUrl;
use crate::store::error::StoreError;
use crate::store::keyed_hash::{Hash, Secret};
use crate::store::{open, sqlite};
use crate::submission::delivery::Route;
use frontdesk_forms::mailbox_identity::mailbox_key;
use frontdesk_process::{file_signal, progress};
use frontdesk_screening::Lexicon;
use frontdesk_screening::learned::LessonKind;

/// How long to wait for locks that the running server holds on the database.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause before another try while rows or the database are locked, or readers block the truncation of the
/// write-ahead log.
const PAUSE: Duration = Duration::from_millis(20);

/// Selects deliveries to be retried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// Selects the submissions whose deliveries are retried. The filter's limit is ignored.
    pub which: Filter,
    /// Selects only deliveries through this channel. The channel is switched on in any case.
    pub channel: Option<String>,
    /// Selects only parked deliveries. If false, selects parked and waiting deliveries.
    pub parked_only: bool,
}

/// An inbox that is open for the operator's changes. When a method returns, its change has been committed and
/// synced. All changes except removals also notify the server.
pub struct Editor {
    sql: Box<dyn Sql>,
    secret: Secret,
    place: DatabaseUrl,
    /// The name of the user, for the operator log.
    user: String,
    /// The phrases that screening recognizes in texts. Lessons are made with the same phrases.
    lexicon: Arc<Lexicon>,
}

impl Editor {
    /// Opens the database. Fails with [`StoreError::Missing`] if there is none or it is empty, and with
    /// [`StoreError::Locked`] while a PostgreSQL inbox is being copied. [`Editor::on_behalf_of`] sets the
    /// user for the operator log.
    pub fn open(place: impl Into<DatabaseUrl>) -> Result<Editor, StoreError> {
        let place = place.into();
        let (sql, secret) = open::open_to_edit(&place, LOCK_TIMEOUT)?;
        Ok(Editor { sql, secret, place, user: String::new(), lexicon: Lexicon::built_in() })
    }

    /// Sets the name of the user who makes the changes.
    #[must_use]
    pub fn on_behalf_of(self, user: &str) -> Editor {
        Editor { user: user.to_owned(), ..self }
    }

    /// Sets the site's phrases, with which lessons are made. Without this call, lessons are made with the
    /// built-in phrases.
    #[must_use]
    pub fn teaching_with(self, lexicon: &Arc<Lexicon>) -> Editor {
        Editor { lexicon: lexicon.clone(), ..self }
    }

    /// Returns what a change needs to store lessons. Call this outside of transactions: preparing the phrases
    /// takes long, and SQLite's other writers would wait.
    pub(super) fn teacher(&self, now: Timestamp) -> Teacher<'_> {
        self.lexicon.prepare();
        Teacher { secret: &self.secret, lexicon: &self.lexicon, now }
    }

    /// The name of the user who makes the changes; empty unless [`Editor::on_behalf_of`] has set it.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// An entry of the operator log, which the change must write in its transaction.
    pub(super) fn log_entry(&self, action: OperatorAction) -> EntryWriter {
        EntryWriter::new(&self.user, action)
    }

    /// Records in the operator log that a test message was sent through a channel. Sends nothing.
    pub fn log_test(&mut self, channel: &str) -> Result<(), StoreError> {
        let entry = self.log_entry(OperatorAction::Test).through(Some(channel));
        self.commit_and_notify(|tx| entry.add(tx, 1))
    }

    /// Makes the parked and waiting deliveries that `retry` selects due at once and restarts their schedules,
    /// clears the errors of submissions that were set aside so that they are processed again, and switches on
    /// or resumes the channels of these deliveries and the one that `retry` names. Returns the number of
    /// deliveries and submissions. Skips held submissions (except for mails that ask for a confirmation), and
    /// a delivery if an attempt begins during the call. If `retry` names a channel, submissions stay set
    /// aside; if it names neither a channel nor a submission, mails to visitors are skipped. Uses
    /// transactions of bounded size; after an error, earlier ones stay committed.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        let selected = Selected::find(&*self.sql, retry)?;
        self.retry_selected(&selected, now)
    }

    /// Retries what [`Selected::find`] has selected, as [`Editor::retry`] describes: in several transactions,
    /// and without deliveries that have been attempted since. Returns the number of deliveries and
    /// submissions.
    pub(crate) fn retry_selected(&self, selected: &Selected, now: Timestamp) -> Result<usize, StoreError> {
        let mut count = 0;
        let entry = self.log_entry(OperatorAction::Retry);
        let entry = entry.about(selected.submission).through(selected.channel.as_deref());
        let deliveries = selected.deliveries.values().map(Vec::len).sum::<usize>();
        progress::begin("deliveries", (deliveries + selected.set_aside.len()) as u64);
        let mut commit = |change: &dyn Fn(&dyn Sql) -> Result<usize, StoreError>| {
            let changed = self.commit_step(|tx| {
                let count = change(tx)?;
                entry.add(tx, count)?;
                transaction::announce(tx).map(|()| count)
            })?;
            count += changed;
            progress::advance(changed);
            self.notify_file_listeners();
            Ok::<_, StoreError>(())
        };
        let switch_on = "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL WHERE name = ?1";
        for names in selected.channels.chunks(submission_rows::MAX_ROWS) {
            commit(&|tx| {
                names.iter().try_for_each(|name| tx.execute(switch_on, values![name]).map(drop))?;
                Ok(0)
            })?;
        }
        let process = "UPDATE intake SET error = NULL WHERE error IS NOT NULL AND";
        for ids in selected.set_aside.chunks(submission_rows::MAX_ROWS) {
            commit(&|tx| tx.execute_in(process, "id", &[], ids))?;
        }
        for (channel, untried) in &selected.deliveries {
            for untried in untried.chunks(submission_rows::MAX_ROWS) {
                commit(&|tx| make_due(tx, channel, untried, to_database_time(tx, now)?))?;
            }
        }
        Ok(count)
    }

    /// Holds a submission and its waiting and parked deliveries, and removes its lesson, such as one from an
    /// earlier release. If a flood or a missing confirmation already holds it, replaces that cause by the
    /// operator's reason; the next release then asks for the missing confirmation again. Returns false if the
    /// submission does not exist or is not processed yet, is held for any other reason, or has been delivered
    /// by every channel. A submission without deliveries to the team is held, too.
    pub fn hold(&mut self, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.commit_and_notify(|tx| self.hold_in(tx, id, because, false, now))
    }

    /// Holds a submission in the caller's transaction, as [`Editor::hold`] describes. `is_spam` records that
    /// the spam mark is the cause, so that removing the mark ends the hold.
    pub(super) fn hold_in(
        &self,
        tx: &dyn Sql,
        id: Uuid,
        because: &str,
        is_spam: bool,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        // The end of the flood must not release a submission that the operator holds.
        let mut is_held = tx.execute(
            "UPDATE submission SET flood = 0, withheld = 0, held_because = ?2, held_as_spam = ?3
             WHERE id = ?1 AND flood = 1",
            values![id, because, is_spam],
        )? == 1;
        // The link in a mail must not release a submission that the operator holds. The next release asks
        // for the confirmation again.
        if !is_held && confirmation::close(tx, id, "released")? {
            tx.execute("DELETE FROM confirmation WHERE submission = ?1", values![id])?;
            let hold =
                "UPDATE submission SET held_at = ?2, held_because = ?3, held_as_spam = ?4 WHERE id = ?1";
            tx.execute(hold, values![id, to_database_time(tx, now)?, because, is_spam])?;
            is_held = true;
        } else if !is_held {
            let hold = format!(
                "UPDATE submission SET held_at = ?2, held_because = ?3, held_as_spam = ?4
                 WHERE id = ?1 AND held_at IS NULL
                 AND (EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state <> 'delivered' AND {TO_TEAM})
                      OR NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND {TO_TEAM}))"
            );
            is_held = tx.execute(&hold, values![id, to_database_time(tx, now)?, because, is_spam])? == 1;
            if is_held {
                let hold = "UPDATE delivery SET state = 'held', due_at = NULL
                     WHERE submission = ?1 AND state IN ('waiting', 'parked')";
                tx.execute(hold, values![id])?;
            }
        }
        if is_held {
            // This hold revokes an earlier release, so remove the lesson of that release.
            lesson::remove(tx, id)?;
            self.log_entry(OperatorAction::Hold).about(id).add(tx, 1)?;
        }
        Ok(is_held)
    }

    /// Releases a held submission to `channels`; its deliveries go before others that wait. If a confirmation
    /// must be asked for first, queues the mail that asks, and the submission stays held. In both cases,
    /// stores the lesson that the submission is honest if screening had held it, not a flood or a mark of
    /// spam, and returns true. Returns false if it does not exist or is not held.
    pub fn release(&mut self, id: Uuid, channels: &[Route], now: Timestamp) -> Result<bool, StoreError> {
        let teacher = self.teacher(now);
        self.commit_and_notify(|tx| self.release_in(tx, teacher, id, channels))
    }

    /// Releases a submission in the caller's transaction, as [`Editor::release`] describes.
    pub(super) fn release_in(
        &self,
        tx: &dyn Sql,
        teacher: Teacher<'_>,
        id: Uuid,
        channels: &[Route],
    ) -> Result<bool, StoreError> {
        let is_lesson = lesson::is_held_by_screening(tx, id)?;
        let is_released = release_and_remove::release(tx, id, to_database_time(tx, teacher.now)?, channels)?;
        if is_released {
            tx.execute("UPDATE delivery SET rank = 0 WHERE submission = ?1", values![id])?;
            tx.execute("UPDATE confirmation SET low_priority = 0 WHERE submission = ?1", values![id])?;
            if is_lesson {
                lesson::teach(tx, teacher, id, LessonKind::Honest)?;
            }
            self.log_entry(OperatorAction::Release).about(id).add(tx, 1)?;
        }
        Ok(is_released)
    }

    /// Queues a submission for those of the `channels` that get it
    /// ([`choose`](crate::submission::delivery::choose)) and have no delivery of it, ahead of other waiting
    /// submissions. Returns the number of new deliveries: none for a held or encrypted
    /// submission, and none before it is processed.
    pub fn deliver(&mut self, id: Uuid, channels: &[Route], now: Timestamp) -> Result<usize, StoreError> {
        let entry = self.log_entry(OperatorAction::Deliver).about(id);
        self.commit_and_notify(|tx| {
            let count = add_missing_deliveries(tx, id, channels, now)?;
            if count > 0 {
                let waiting = "UPDATE delivery SET rank = 0 WHERE submission = ?1 AND state = 'waiting'";
                tx.execute(waiting, values![id])?;
                entry.add(tx, count)?;
            }
            Ok(count)
        })
    }

    /// Queues all submissions that are neither held nor encrypted and have no delivery to the team, for the
    /// `channels` that get them, with the rank of suspicious submissions or, if there are mails to the
    /// visitor, the highest rank of these. Returns the number of new deliveries. Uses transactions of bounded
    /// size; after an error, earlier ones stay committed, and the next call queues the rest.
    pub fn deliver_kept(&mut self, channels: &[Route], now: Timestamp) -> Result<usize, StoreError> {
        let page = format!(
            "SELECT s.id FROM submission s WHERE s.held_at IS NULL AND s.id > ?1
             AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND {TO_TEAM}) ORDER BY s.id LIMIT {}",
            submission_rows::MAX_ROWS
        );
        let entry = self.log_entry(OperatorAction::Deliver);
        let (mut count, mut after) = (0, [0; 16]);
        loop {
            let ids = self.sql.column::<[u8; 16]>(&page, values![after])?;
            let Some(last) = ids.last() else { return Ok(count) };
            after = *last;
            progress::advance(ids.len());
            count += self.commit_step(|tx| {
                let added =
                    ids.iter().map(|id| add_missing_deliveries(tx, Uuid::from_bytes(*id), channels, now));
                let added = added.sum::<Result<usize, StoreError>>()?;
                if added > 0 {
                    entry.add(tx, added)?;
                }
                transaction::announce(tx).map(|()| added)
            })?;
            self.notify_file_listeners();
        }
    }

    /// The number of submissions with this address, ignoring case, in a field of the e-mail type.
    pub fn count_from(&self, email: &str) -> Result<usize, StoreError> {
        let count = format!("SELECT count(*) FROM ({}) AS person", person::ids(self.sql.dialect()));
        self.sql.one_value(&count, values![self.secret.sender(email)])
    }

    /// Removes all submissions that contain an e-mail address in a field of that type, ignoring case, with
    /// their lessons, the counts of refused requests from their sources, the records of mails to the mailbox,
    /// and the ids of repeats whose original is gone. With SQLite, also overwrites the removed data and
    /// truncates the write-ahead log; [`Erased::is_wiped`] is false if a reader blocks the truncation for too
    /// long, and always with PostgreSQL, which overwrites removed rows later.
    ///
    /// Uses transactions of bounded size. Submissions that are accepted after the call begins are kept,
    /// unless they are counted as repeats of a removed one. After an error, earlier transactions stay
    /// committed, and the next call removes the rest.
    pub fn erase(&mut self, email: &str) -> Result<Erased, StoreError> {
        let mailbox = self.secret.mailbox(&mailbox_key(email));
        self.commit_step(|tx| tx.execute("DELETE FROM visitor_mail WHERE address = ?1", values![mailbox]))?;
        self.erase_person(&self.secret.sender(email))
    }

    /// Like [`Editor::erase`], by the keyed hash of the address, for encrypted submissions. Keeps the records
    /// of mails to the mailbox, which expire.
    pub fn erase_person(&mut self, person: &Hash) -> Result<Erased, StoreError> {
        let entry = self.log_entry(OperatorAction::Erase);
        self.commit_step(|tx| lesson::forget_person(tx, person))?;
        let mut erased = Erased::default();
        let days = self.sql.column::<i64>("SELECT DISTINCT day FROM pressure", &[])?;
        let mut forgotten = BTreeSet::new();
        let newest = self.sql.value("SELECT id FROM accepted ORDER BY id DESC LIMIT 1", &[])?;
        let last: [u8; 16] = newest.unwrap_or_default();
        let page = format!(
            "SELECT s.id, {} AS bytes, s.source FROM accepted s WHERE s.id IN
                 (SELECT id FROM ({}) AS person WHERE id > ?2 AND id <= ?3 ORDER BY id LIMIT {}) ORDER BY s.id",
            submission_rows::size_expression(self.sql.dialect(), "s"),
            person::ids(self.sql.dialect()),
            submission_rows::MAX_ROWS,
        );
        let mut after = [0; 16];
        loop {
            // Search outside the transactions: with SQLite, a transaction blocks all other writers.
            let found = self.sql.query(&page, values![*person, after, last])?;
            let Some(row) = found.last() else { break };
            after = row.get("id")?;
            let page = found.iter().map(Removable::from_row).collect::<Result<Vec<_>, _>>()?;
            let sources = found.iter().map(|row| row.get("source")).collect::<Result<BTreeSet<_>, _>>()?;
            let sources: Vec<_> = sources.difference(&forgotten).copied().collect();
            self.commit_step(|tx| {
                // The table's key begins with the day, so delete by day.
                let forget = "DELETE FROM pressure WHERE day = ?1 AND";
                days.iter()
                    .try_for_each(|day| tx.execute_in(forget, "source", values![day], &sources).map(drop))
            })?;
            forgotten.extend(sources);
            for ids in submission_rows::split_into_groups(&page) {
                self.remove(ids, release_and_remove::accepted_among, None, &entry, &mut erased)?;
            }
        }
        self.remove_orphaned_repeats()?;
        self.wipe_log(erased)
    }

    /// Removes the ids of repeats whose original is no longer stored.
    fn remove_orphaned_repeats(&self) -> Result<(), StoreError> {
        let orphaned = format!(
            "SELECT r.id FROM repeat r WHERE r.id > ?1 AND NOT EXISTS (SELECT 1 FROM submission s WHERE s.id = r.submission)
             ORDER BY r.id LIMIT {}",
            submission_rows::MAX_ROWS
        );
        let mut after = [0; 16];
        loop {
            let ids = self.sql.column::<[u8; 16]>(&orphaned, values![after])?;
            let Some(last) = ids.last() else { return Ok(()) };
            after = *last;
            self.commit_step(|tx| tx.execute_in("DELETE FROM repeat WHERE", "id", &[], &ids))?;
        }
    }

    /// Removes the held submissions that a filter selects, in transactions of bounded size, and wipes them
    /// like [`Editor::erase`]. May include submissions that become held in the meantime, unless the filter's
    /// `before` excludes them. Stores lessons like [`Editor::discard`]. After an error, earlier transactions
    /// stay committed.
    pub fn discard_held(&mut self, filter: &HeldFilter, now: Timestamp) -> Result<Erased, StoreError> {
        let entry = self.log_entry(OperatorAction::Discard);
        let mut erased = Erased::default();
        let mut after = discard::START;
        while let Some((page, last)) = discard::read_page(&*self.sql, filter, after)? {
            after = last;
            for ids in submission_rows::split_into_groups(&page) {
                self.remove(ids, discard::held_among, Some(now), &entry, &mut erased)?;
            }
        }
        self.wipe_log(erased)
    }

    /// Removes the held submissions among `ids`, which must be distinct, unconfirmed ones included, in
    /// transactions of bounded size, and wipes them like [`Editor::erase`]. Skips all others. Also stores
    /// lessons of spam for those that screening held or that are marked as spam, but at most 20 in each
    /// transaction.
    pub fn discard(&mut self, ids: &[Uuid], now: Timestamp) -> Result<Erased, StoreError> {
        let mut entry = self.log_entry(OperatorAction::Discard);
        if let [id] = ids {
            entry = entry.about(*id);
        }
        let mut erased = Erased::default();
        for ids in ids.chunks(submission_rows::MAX_ROWS) {
            let mut ids: Vec<_> = ids.iter().map(|id| id.into_bytes()).collect();
            ids.sort_unstable();
            self.remove(ids, discard::held_among, Some(now), &entry, &mut erased)?;
        }
        self.wipe_log(erased)
    }

    /// Removes the submissions that `among` selects from `ids`, which must be sorted, and adds their counts
    /// to `erased` and `entry`. With `discarded_at`, also stores lessons that these are spam
    /// ([`lesson::teach_discarded`]). Each transaction skips locked rows, because waiting for them could
    /// cause a deadlock with the replica that processes the intake; further transactions, after pauses,
    /// remove the rest. Fails with [`StoreError::Locked`] if a row stays locked for [`LOCK_TIMEOUT`].
    fn remove(
        &self,
        mut ids: Vec<[u8; 16]>,
        among: impl Fn(&dyn Sql, &[[u8; 16]], &str) -> Result<Vec<[u8; 16]>, StoreError>,
        discarded_at: Option<Timestamp>,
        entry: &EntryWriter,
        erased: &mut Erased,
    ) -> Result<(), StoreError> {
        let teacher = discarded_at.map(|at| self.teacher(at));
        let began = Instant::now();
        loop {
            let removed = self.commit_step(|tx| {
                let ids = among(tx, &ids, tx.dialect().skip_locked_clause())?;
                if let Some(teacher) = teacher {
                    lesson::teach_discarded(tx, teacher, &ids)?;
                }
                let removed = release_and_remove::remove_submissions(tx, &ids)?;
                if removed.submissions > 0 {
                    entry.add(tx, removed.submissions)?;
                }
                Ok(removed)
            })?;
            erased.add(&removed);
            progress::advance(removed.submissions);
            ids = among(&*self.sql, &ids, "")?;
            if ids.is_empty() {
                return Ok(());
            }
            if began.elapsed() > LOCK_TIMEOUT {
                return Err(StoreError::Locked);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Commits one of many changes, with retries ([`Editor::commit_with_retries`]). With SQLite, then sleeps
    /// for twice as long as the change took, so that other processes can write. Does not notify the server.
    fn commit_step<T>(&self, change: impl Fn(&dyn Sql) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut has_lock_since = Instant::now();
        let done = self.commit_with_retries(|tx| {
            has_lock_since = Instant::now();
            change(tx)
        })?;
        if let DatabaseUrl::Sqlite(_) = self.place {
            // The server tries to get the lock for two seconds, with pauses of up to 100 ms. To let one of
            // its tries succeed, leave the lock free for longer than we held it.
            std::thread::sleep(has_lock_since.elapsed() * 2);
        }
        Ok(done)
    }

    /// Truncates SQLite's write-ahead log, for which it waits up to [`LOCK_TIMEOUT`], and returns `erased`
    /// with the result in [`Erased::is_wiped`], which is false if readers block it for longer. Does nothing
    /// with PostgreSQL.
    fn wipe_log(&self, erased: Erased) -> Result<Erased, StoreError> {
        if let DatabaseUrl::Postgres(_) = self.place {
            return Ok(erased);
        }
        progress::begin("wiping the database's log", 0);
        // Copy most of a long log while others can write, because the checkpoint that truncates it blocks all
        // writers. If this copy fails, that checkpoint returns the error.
        let _ = self.sql.query("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        let started = Instant::now();
        let emptied = loop {
            match sqlite::truncate_wal(&*self.sql) {
                Ok(false) | Err(StoreError::Locked) if started.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(PAUSE);
                }
                Err(StoreError::Locked) => break Ok(false),
                emptied => break emptied,
            }
        };
        // `truncate_wal` has set the timeout to zero, so restore it.
        sqlite::set_lock_timeout(&*self.sql, LOCK_TIMEOUT)?;
        Ok(Erased { is_wiped: emptied?, ..erased })
    }

    /// Commits a change (see [`Editor::commit_with_retries`]), and notifies the server.
    pub(super) fn commit_and_notify<T>(
        &self,
        change: impl Fn(&dyn Sql) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let found = self.commit_with_retries(|tx| {
            let found = change(tx)?;
            transaction::announce(tx)?;
            Ok(found)
        })?;
        self.notify_file_listeners();
        Ok(found)
    }

    /// Notifies the server of a commit. With PostgreSQL, the transaction has already done so.
    fn notify_file_listeners(&self) {
        if let DatabaseUrl::Sqlite(path) = &self.place {
            file_signal::signal(path);
        }
    }

    /// Commits a change. If other processes hold locks that it needs, pauses and retries for up to
    /// [`LOCK_TIMEOUT`]. Calls `change` again for each retry.
    fn commit_with_retries<T>(
        &self,
        mut change: impl FnMut(&dyn Sql) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (sql, began) = (&*self.sql, Instant::now());
        loop {
            match sql.transaction(|| change(sql)) {
                // Retry: another process holds the lock, or has locked the same rows in a different order.
                // The pause matters for errors that the database returns without waiting for the lock, as
                // after a deadlock.
                Err(StoreError::Locked) if began.elapsed() < LOCK_TIMEOUT => std::thread::sleep(PAUSE),
                changed => return changed,
            }
        }
    }
}

/// The deliveries, submissions and channels that a [`Retry`] selects when it begins.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// The ids and attempt counts of each channel's deliveries, sorted by submission.
    deliveries: BTreeMap<String, Vec<Untried>>,
    set_aside: Vec<[u8; 16]>,
    channels: Vec<String>,
    /// The only submission that the retry concerns, if it is limited to one. For the operator log.
    submission: Option<Uuid>,
    /// The only channel that the retry concerns, if it is limited to one. For the operator log.
    channel: Option<String>,
}

/// A delivery to be retried: the submission's id, and the number of attempts when it was selected. The number
/// of a damaged row may be negative.
type Untried = ([u8; 16], i64);

impl Selected {
    /// Selects everything that a retry affects, including the channel that `retry` names. Skips held
    /// submissions, except for the mails that ask for a confirmation. Selects submissions that were set aside
    /// only if no channel is named, and mails to visitors only if a channel or a submission is. Call this
    /// outside a transaction, so that visitors do not wait for it.
    pub fn find(sql: &dyn Sql, retry: &Retry) -> Result<Selected, StoreError> {
        let (chosen, mut values) = filter_condition(&retry.which);
        let mut found =
            Selected { submission: retry.which.id, channel: retry.channel.clone(), ..Selected::default() };
        if retry.channel.is_none() {
            let set_aside =
                format!("SELECT s.id FROM accepted s WHERE s.error IS NOT NULL AND {chosen} ORDER BY s.id");
            found.set_aside = sql.column(&set_aside, &bind_all(&values))?;
        }
        let mut deliveries = format!(
            "SELECT submission, channel, attempts FROM delivery
             WHERE state IN ({}) AND (submission IN (SELECT s.id FROM accepted s WHERE s.held_at IS NULL AND {chosen})
                 OR ({ASKS} AND submission IN (SELECT s.id FROM accepted s WHERE {chosen})))",
            if retry.parked_only { "'parked'" } else { RETRIED },
        );
        if let Some(channel) = &retry.channel {
            values.push(Cell::Text(channel.clone()));
            deliveries.push_str(&format!(" AND channel = ?{}", values.len()));
        } else if retry.which.id.is_none() {
            // Leave out emails to visitors: most parked ones are for addresses that do not exist.
            deliveries.push_str(&format!(" AND {TO_TEAM}"));
        }
        for row in sql.query(&deliveries, &bind_all(&values))? {
            let untried = (row.get("submission")?, row.get("attempts")?);
            found.deliveries.entry(row.get("channel")?).or_default().push(untried);
        }
        found.deliveries.values_mut().for_each(|deliveries| deliveries.sort_unstable());
        found.channels = found.deliveries.keys().chain(&retry.channel).cloned().collect();
        Ok(found)
    }
}

const RETRIED: &str = "'parked', 'waiting'";

/// Makes a channel's deliveries due, with a fresh retry schedule, and returns their number. Skips those that
/// have been attempted since they were selected, or are neither parked nor waiting any more.
fn make_due(tx: &dyn Sql, channel: &str, untried: &[Untried], now: Timestamp) -> Result<usize, StoreError> {
    let ids: Vec<_> = untried.iter().map(|(submission, _)| *submission).collect();
    let select = format!("SELECT channel, attempts, submission FROM delivery WHERE state IN ({RETRIED}) AND");
    let mut unchanged = Vec::with_capacity(ids.len());
    for row in tx.query_in(&select, "submission", &ids, tx.dialect().row_lock_clause())? {
        let found: Untried = (row.get("submission")?, row.get("attempts")?);
        if row.text("channel")? == channel && untried.binary_search(&found).is_ok() {
            unchanged.push(found.0);
        }
    }
    tx.execute_in(
        "UPDATE delivery SET state = 'waiting', due_at = ?1, failures = 0, interrupted = 0
         WHERE channel = ?2 AND",
        "submission",
        values![now, channel],
        &unchanged,
    )
}

/// Converts a time from this process's clock to the database's clock.
fn to_database_time(sql: &dyn Sql, ours: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(ours.saturating_add(transaction::clock_ahead(sql)?).unwrap_or(ours))
}

/// Inserts a submission's missing deliveries, due now. Returns their number: none if it is held, encrypted,
/// or not in the table of processed submissions.
fn add_missing_deliveries(
    tx: &dyn Sql,
    id: Uuid,
    channels: &[Route],
    now: Timestamp,
) -> Result<usize, StoreError> {
    if !tx.exists("SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NULL", values![id])? {
        return Ok(0);
    }
    release_and_remove::add_deliveries(tx, id, Some(to_database_time(tx, now)?), channels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::Fixture;

    #[test]
    fn a_change_that_fails_at_once_is_retried_after_a_pause() {
        let fixture = Fixture::new();
        let editor = Editor::open(&fixture.options.url).unwrap();
        let mut failures = 0;
        let began = Instant::now();
        let change = |_: &dyn Sql| {
            if failures == 3 {
                return Ok(());
            }
            failures += 1;
            Err(StoreError::Locked)
        };
        editor.commit_with_retries(change).unwrap();
        assert!(began.elapsed() >= PAUSE * 3, "{:?}", began.elapsed());
    }
}
