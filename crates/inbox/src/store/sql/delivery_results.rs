//! Records the outcomes of attempts, and changes when deliveries are due, in the caller's transaction.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::submission_rows::{self, NEEDS_TEXT, TO_TEAM};
use super::transaction::Transaction;
use super::{Bind, Dialect, FromRow, Row, Sql, Value, from_row, values};
use crate::store::error::StoreError;
use crate::submission::delivery::{DueDelivery, HIGH_VOLUME_RANK, Lease};
use crate::submission::delivery_outcome::{AttemptFailure, Cause, Outcome, Recipients};
use crate::submission::schedule::{self, NextStep};

/// The methods take and return times by this process's clock. Only the `from` that
/// [`Transaction::bring_forward`] takes and returns is by the database's clock.
impl Transaction<'_> {
    /// Prepares the deliveries for a process that begins to send. With SQLite, requeues the attempts that an
    /// earlier process left unfinished (see [`Transaction::requeue_orphans`]), resumes all paused channels,
    /// and makes those of their deliveries due that wait because of an outage. Returns the number of requeued
    /// attempts. Call this only while no other process is sending from a SQLite file.
    pub fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        let count = self.requeue_orphans(&[], now)?;
        if self.sql.dialect() == Dialect::Sqlite {
            // Try paused channels again at once: the operator may have restarted the server to fix them.
            let paused = "SELECT name FROM channel WHERE paused_at IS NOT NULL";
            for channel in self.sql.column::<String>(paused, &[])? {
                self.resume(&channel)?;
                let mut from = Some(now);
                while let Some(later) = from {
                    (_, from) = self.bring_forward(&channel, later, now)?;
                }
            }
        }
        Ok(count)
    }

    /// Requeues attempts that are recorded as begun but are not in `under_way`, and returns their number.
    /// Such attempts exist if the commit that recorded them was reported as failed. Parks those whose row is
    /// damaged. Only the process that sends deliveries may call this. With PostgreSQL, nothing is requeued,
    /// because other replicas may be sending the attempts.
    pub fn requeue_orphans(&self, under_way: &[Lease], now: Timestamp) -> Result<usize, StoreError> {
        if self.sql.dialect() == Dialect::Postgres {
            return Ok(0);
        }
        let begun = format!("SELECT {DELIVERY} FROM delivery WHERE state = 'sending'");
        let now = self.to_database_time(now);
        let mut found = read_or_park(self.sql, &self.sql.query(&begun, &[])?, under_way, now)?;
        found.retain(|found| !found.is_leased(under_way));
        for found in &found {
            requeue(self.sql, found, now)?;
        }
        Ok(found.len())
    }

    /// Makes deliveries due now if they are scheduled for later than the retry schedule allows, which happens
    /// if the clock was set back in the meantime. Leaves retries whose time the receiver set, and retries
    /// after an uncertain outcome. `clamp_far_due_times` alone is not enough: after the clock is set back by
    /// a day, it would leave deliveries delayed by a day.
    pub fn clamp_due_times(&self, now: Timestamp) -> Result<(), StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now));
        let mut far = Vec::new();
        // First attempts and retries have separate partial indexes, so they need separate queries.
        for (is_retry, and) in [(false, ""), (true, " AND coalesce(blame, '') NOT IN ('asked', 'uncertain')")]
        {
            // A loose index scan: find each channel, then its rows.
            let next = format!(
                "SELECT channel FROM delivery WHERE channel > ?1 AND due_at IS NOT NULL AND {} ORDER BY channel LIMIT 1",
                failures_condition(is_retry)
            );
            let waiting = format!(
                "SELECT submission, failures, due_at FROM delivery
                 WHERE channel = ?1 AND due_at > ?2 AND state = 'waiting' AND {}{and}",
                failures_condition(is_retry)
            );
            let mut channel = String::new();
            while let Some(found) = tx.value(&next, values![channel])? {
                channel = found;
                for row in tx.query(&waiting, values![channel, now])? {
                    let failures = row.get("failures").unwrap_or(u32::MAX);
                    let latest = schedule::add_delay(now, schedule::longest_wait(failures));
                    // The query returns only times after `now`, so an out-of-range time is too late.
                    if !row.get::<Timestamp>("due_at").is_ok_and(|at| at <= latest) {
                        far.push((row.get::<Uuid>("submission")?, channel.clone()));
                    }
                }
            }
        }
        for (submission, channel) in far {
            tx.execute(
                "UPDATE delivery SET due_at = ?3 WHERE submission = ?1 AND channel = ?2",
                values![submission, channel, now],
            )?;
        }
        Ok(())
    }

    /// Records the outcome of an attempt, and makes its delivery delivered, due for the next attempt, parked,
    /// or held if the submission has been held in the meantime (except mails that ask for a confirmation). If
    /// the lease was taken over, a failure changes only the lists of reached and missing recipients; a
    /// success completes the delivery. Returns whether the submission is not held and no channel needs its
    /// text any more.
    pub fn record(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        next: NextStep,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let next = match next {
            NextStep::RetryAt(at) => NextStep::RetryAt(self.to_database_time(at)),
            next => next,
        };
        record_outcome(self.sql, lease, outcome, next, self.to_database_time(now))
    }

    /// Extends the leases of this process's attempts, which may take longer than a lease, until `lease` from
    /// now. Skips those that have ended, and those that are no longer the latest attempt of their delivery.
    pub fn extend_leases(
        &self,
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let ends = schedule::add_delay(self.to_database_time(now), lease);
        for attempt in under_way {
            self.sql.execute(
                "UPDATE delivery SET due_at = ?4
                 WHERE submission = ?1 AND channel = ?2 AND state = 'sending' AND attempts = ?3",
                values![attempt.submission, attempt.channel, attempt.number, ends],
            )?;
        }
        Ok(())
    }

    /// Whether at least one channel has delivered a submission to the team, to some of its recipients at
    /// least.
    pub fn has_reached_team(&self, id: Uuid) -> Result<bool, StoreError> {
        let reached = format!(
            "SELECT 1 FROM delivery WHERE submission = ?1 AND (state = 'delivered' OR recipients IS NOT NULL) AND {TO_TEAM}"
        );
        self.sql.exists(&reached, values![id])
    }

    /// After a channel's outage, takes up to 200 deliveries that are waiting because of the outage and are
    /// scheduled for `from` or later, and makes them due now. Also forgives the latest failure of each of
    /// these deliveries that has failed more than once. Without this, deliveries to a mail server that
    /// accepts few messages would use up all their attempts within an hour. Failures that the content may
    /// have caused are forgiven only until the submission reaches `FORGIVENESS_AGE`, so a delivery that the
    /// receiver never accepts is eventually parked.
    ///
    /// Returns the number of deliveries, and the `from` for the next call; `None` if there are no more.
    pub fn bring_forward(
        &self,
        channel: &str,
        from: Timestamp,
        now: Timestamp,
    ) -> Result<(usize, Option<Timestamp>), StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now));
        let later = format!(
            "SELECT submission, due_at FROM delivery
             WHERE channel = ?1 AND due_at >= ?2 AND due_at > ?3 AND state = 'waiting' \
             AND blame IN ('channel', 'unclear') AND {}
             ORDER BY due_at LIMIT {}",
            failures_condition(true),
            submission_rows::MAX_ROWS
        );
        let rows = tx.query(&later, values![channel, from, now])?;
        let count = make_due(tx, channel, &rows, now)?;
        let last = rows.last().filter(|_| rows.len() == submission_rows::MAX_ROWS);
        // The rows are sorted by time: if the last one is too late for a `Timestamp`, so are all that follow,
        // and `None` ends the search.
        Ok((count, last.and_then(|row| row.get("due_at").ok())))
    }

    /// Makes up to `NEXT_DEFERRED` of a channel's retries due now, lowest ranks first: only those whose last
    /// failure is blamed on the channel, such as a temporary refusal. Call this after the receiver has
    /// accepted a message, because it may accept another one now. Forgives the latest failure of each under
    /// the conditions of [`Transaction::bring_forward`]. Retries for high-volume networks keep their due
    /// times.
    pub fn bring_deferred_forward(&self, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now));
        let deferred = format!(
            "SELECT submission FROM {}
             WHERE channel = ?1 AND rank < ?3 AND due_at > ?2 AND state = 'waiting' AND blame = 'channel' AND {}
             ORDER BY rank, due_at LIMIT {NEXT_DEFERRED}",
            tx.dialect().table_with_index("delivery", "delivery_again_rank"),
            failures_condition(true)
        );
        let rows = tx.query(&deferred, values![channel, now, HIGH_VOLUME_RANK])?;
        make_due(tx, channel, &rows, now).map(drop)
    }
}

/// The number of deferred deliveries that become due when a receiver accepts a message.
const NEXT_DEFERRED: usize = 2;

/// Makes those retries in `rows` due at `now` that still wait because of an outage, forgives the latest
/// failure of each under the conditions of [`Transaction::bring_forward`], and returns their number. `rows`
/// have a column `submission`.
fn make_due(tx: &dyn Sql, channel: &str, rows: &[Row], now: Timestamp) -> Result<usize, StoreError> {
    let mut ids = rows.iter().map(|row| row.get("submission")).collect::<Result<Vec<[u8; 16]>, _>>()?;
    ids.sort_unstable();
    tx.execute_in(
        "UPDATE delivery SET due_at = ?1, failures = CASE WHEN failures > 1 AND (blame = 'channel' OR
             (SELECT received_at FROM submission WHERE id = delivery.submission) > ?3) THEN failures - 1 ELSE failures END
         WHERE channel = ?2 AND state = 'waiting' AND failures > 0 AND blame IN ('channel', 'unclear') AND",
        "submission",
        values![now, channel, now.saturating_sub(FORGIVENESS_AGE).unwrap_or(now)],
        &ids,
    )
}

/// Parks all deliveries that wait for a channel: they become dead letters.
pub(super) fn park_waiting(tx: &dyn Sql, channel: &str) -> Result<(), StoreError> {
    for is_retry in [false, true] {
        let park = format!(
            "UPDATE delivery SET state = 'parked', due_at = NULL
             WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND {}",
            failures_condition(is_retry)
        );
        tx.execute(&park, values![channel])?;
    }
    Ok(())
}

/// Makes deliveries due now if they are scheduled for later than any schedule allows, which happens if the
/// clock was set back in the meantime. Changes up to 200 retries and 200 other deliveries per call. Includes
/// the leases of attempts under way, which then expire.
pub(super) fn clamp_far_due_times(tx: &dyn Sql, channel: &str, now: Timestamp) -> Result<(), StoreError> {
    for is_retry in [false, true] {
        let furthest = if is_retry { schedule::LONGEST_DELAY } else { LONGEST_WITHOUT_FAILURE };
        let far = schedule::add_delay(now, furthest);
        let mend = format!(
            "UPDATE delivery SET due_at = ?3 WHERE channel = ?1 AND due_at > ?2 AND {0} AND submission IN
                 (SELECT submission FROM delivery WHERE channel = ?1 AND due_at > ?2 AND {0} ORDER BY due_at DESC LIMIT {1})",
            failures_condition(is_retry),
            submission_rows::MAX_ROWS
        );
        tx.execute(&mend, values![channel, far, now])?;
    }
    Ok(())
}

/// The maximum time until a delivery without failures is due: longer than any lease, and than any backoff
/// after an interruption.
const LONGEST_WITHOUT_FAILURE: Duration = Duration::from_mins(10);

/// The columns of [`DueDelivery`].
pub(super) const DELIVERY: &str =
    "submission, channel, state = 'sending' AS is_sending, attempts, failures, interrupted, rank, due_at";

from_row! { DueDelivery { submission, channel, is_sending, attempts, failures, interrupted, rank, due_at } }

/// The SQL condition for retries or for first attempts. A literal, because SQLite cannot use the partial
/// index for a parameter.
pub(super) const fn failures_condition(is_retry: bool) -> &'static str {
    if is_retry { "failures > 0" } else { "failures = 0" }
}

/// The number of a delivery's attempts whose outcome is uncertain, and the recipients that its attempts have
/// reached or missed. Fails if the delivery is not stored.
pub(super) fn earlier_attempts(tx: &dyn Sql, lease: &Lease) -> Result<(u32, Recipients), StoreError> {
    let row = tx.one(
        "SELECT recipients, (SELECT count(*) FROM attempt WHERE submission = ?1 AND channel = ?2
                             AND ended_at IS NOT NULL AND delivered IS NULL) AS uncertain
         FROM delivery WHERE submission = ?1 AND channel = ?2",
        values![lease.submission, lease.channel],
    )?;
    let recipients = row.get::<Option<String>>("recipients")?;
    let recipients = recipients.map(|text| submission_rows::parse_recipients(&text)).transpose()?;
    Ok((row.get("uncertain")?, recipients.unwrap_or_default()))
}

/// The date of the message that an attempt sends, which began at `now`: when the earliest attempt since the
/// last delivered one began. Ignores attempts that are older than [`MAX_DATE_AGE`]. Also `now` if that time
/// cannot be read.
pub(super) fn message_date(tx: &dyn Sql, lease: &Lease, now: Timestamp) -> Result<Timestamp, StoreError> {
    let first = "SELECT began_at FROM attempt WHERE submission = ?1 AND channel = ?2 AND began_at > ?3
         AND number > coalesce((SELECT max(number) FROM attempt WHERE submission = ?1 AND channel = ?2 AND delivered = 1), 0)
         ORDER BY number LIMIT 1";
    let earliest = now.saturating_sub(MAX_DATE_AGE).unwrap_or(now);
    let first: Option<i64> = tx.value(first, values![lease.submission, lease.channel, earliest])?;
    let first = first.and_then(|first| Timestamp::from_millisecond(first).ok());
    Ok(first.map_or(now, |first| first.min(now)))
}

/// Adds the recipients that an attempt has reached to those that other attempts reached, and replaces the
/// list of missing ones. An attempt that ends after a later one may lack recipients that the later one
/// reached: these are not missing. Does nothing if the delivery is complete.
fn store_recipients(tx: &dyn Sql, lease: &Lease, recipients: &Recipients) -> Result<(), StoreError> {
    let (_, mut stored) = earlier_attempts(tx, lease)?;
    stored.reached.extend(recipients.reached.iter().cloned());
    stored.reached.sort_unstable();
    stored.reached.dedup();
    let is_missing = |address: &&String| !stored.reached.contains(address);
    stored.missing = recipients.missing.iter().filter(is_missing).cloned().collect();
    tx.execute(
        "UPDATE delivery SET recipients = ?3 WHERE submission = ?1 AND channel = ?2 AND state <> 'delivered'",
        values![lease.submission, lease.channel, json!(stored).to_string()],
    )
    .map(drop)
}

/// Reads the deliveries in `rows`, which have the columns [`DELIVERY`]. Parks each one that cannot be read,
/// so that it does not block the others: see [`park_damaged`].
pub(super) fn read_or_park(
    tx: &dyn Sql,
    rows: &[Row],
    under_way: &[Lease],
    now: Timestamp,
) -> Result<Vec<DueDelivery>, StoreError> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        match DueDelivery::from_row(row) {
            Ok(delivery) => found.push(delivery),
            Err(error) => park_damaged(tx, row, under_way, &error, now)?,
        }
    }
    Ok(found)
}

/// Parks a delivery whose row cannot be read, unless its attempt is in `under_way`: an earlier attempt may
/// have sent it, and without its counts, nothing limits how often it is sent again. If the submission was
/// held in the meantime, the delivery is held instead. Ends an attempt that has no outcome as uncertain, and
/// repairs the counts, so that the operator can retry the delivery. Logs the error.
fn park_damaged(
    tx: &dyn Sql,
    row: &Row,
    under_way: &[Lease],
    error: &StoreError,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (submission, channel) = (row.value("submission")?, row.value("channel")?);
    let id = row.get::<Uuid>("submission").unwrap_or_default();
    let name = row.text("channel").unwrap_or_default();
    if under_way.iter().any(|lease| lease.submission == id && lease.channel == name) {
        return Ok(());
    }
    lock_against_hold_or_release(tx, id)?;
    let latest = "(SELECT coalesce(max(number), 0) FROM attempt WHERE submission = ?1 AND channel = ?2)";
    tx.execute(
        &format!(
            "UPDATE attempt SET ended_at = ?3, answer = ?4
             WHERE submission = ?1 AND channel = ?2 AND ended_at IS NULL AND number = {latest}"
        ),
        &[submission, channel, now.bind(), error.to_string().bind()],
    )?;
    tx.execute(
        &format!(
            "UPDATE delivery SET {REQUEUED}, attempts = {latest}, failures = ?3, interrupted = ?3
             WHERE submission = ?1 AND channel = ?2"
        ),
        &[submission, channel, 0_u32.bind(), Value::Null],
    )?;
    tracing::error!(%id, channel = name, %error, "cannot read a stored delivery, so it is parked; an attempt that had begun may have sent it: check whether the receiver has the submission, and send it with `frontdesk inbox retry ID` if not");
    Ok(())
}

/// Records an interrupted attempt, and requeues its delivery. Returns the new due time; `None` if the
/// delivery is now held or parked.
pub(super) fn requeue(
    tx: &dyn Sql,
    found: &DueDelivery,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    lock_against_hold_or_release(tx, found.submission)?;
    let interrupted = found.interrupted.saturating_add(1);
    let again = match schedule::next_step_after_interruption(interrupted, now) {
        NextStep::RetryAt(at) => Some(at),
        NextStep::Delivered | NextStep::Parked => None,
    };
    let waits: bool = tx.one_value(
        &format!(
            "UPDATE delivery SET {REQUEUED}, interrupted = ?3 WHERE submission = ?1 AND channel = ?2
             RETURNING state = 'waiting'"
        ),
        values![found.submission, found.channel, interrupted, again],
    )?;
    Ok(again.filter(|_| waits))
}

/// SQL assignments that make a delivery due at `?4`, or park it if `?4` is null. If the submission (`?1`) was
/// held in the meantime, the delivery is held instead, except for mails that ask for a confirmation.
const REQUEUED: &str = "
    due_at = CASE WHEN channel IN ('visitor:confirmation', 'visitor:reminder')
                       OR (SELECT held_at FROM submission WHERE id = ?1) IS NULL THEN CAST(?4 AS bigint) END,
    state = CASE WHEN channel NOT IN ('visitor:confirmation', 'visitor:reminder')
                      AND (SELECT held_at FROM submission WHERE id = ?1) IS NOT NULL THEN 'held'
                 WHEN CAST(?4 AS bigint) IS NULL THEN 'parked' ELSE 'waiting' END";

/// Records an outcome, as [`Transaction::record`] describes, and returns whether no channel needs the text of
/// the submission any more, which is false while it is held. An outcome that is reported after the lease was
/// taken over is stored with its attempt. It changes the delivery's state only if the attempt succeeded.
pub(super) fn record_outcome(
    tx: &dyn Sql,
    lease: &Lease,
    outcome: &Outcome,
    next: NextStep,
    now: Timestamp,
) -> Result<bool, StoreError> {
    // The column `blame` decides which deliveries become due when an outage ends, and which due times may be
    // clamped.
    let (delivered, answer, blame): (Option<i64>, _, _) = match outcome {
        Outcome::Delivered(answer) => (Some(1), answer, None),
        Outcome::Failed(failure) => {
            // Ignore a `Retry-After` if the schedule's next attempt is later anyway.
            let asked = failure.retry_after.filter(|asked| match next {
                NextStep::RetryAt(at) => schedule::add_delay(now, *asked) >= at,
                _ => true,
            });
            let blame = match (failure.cause, asked) {
                (_, Some(_)) => "asked",
                (Cause::Channel | Cause::Deferred | Cause::Gone, None) => "channel",
                (Cause::Unclear, None) => "unclear",
                (Cause::Uncertain, None) => "uncertain",
                (Cause::Notification | Cause::Refused, None) => "notice",
            };
            (if failure.cause == Cause::Uncertain { None } else { Some(0) }, &failure.answer, Some(blame))
        }
    };
    lock_against_hold_or_release(tx, lease.submission)?;
    tx.execute(
        "UPDATE attempt SET ended_at = ?4, delivered = ?5, answer = ?6
         WHERE submission = ?1 AND channel = ?2 AND number = ?3",
        values![lease.submission, lease.channel, lease.number, now, delivered, answer],
    )?;
    if next == NextStep::Delivered {
        tx.execute(
            "UPDATE delivery SET state = 'delivered', due_at = NULL, interrupted = 0, blame = NULL, recipients = NULL
             WHERE submission = ?1 AND channel = ?2",
            values![lease.submission, lease.channel],
        )?;
    } else {
        let due_at = if let NextStep::RetryAt(at) = next { Some(at) } else { None };
        tx.execute(
            &format!(
                "UPDATE delivery SET {REQUEUED}, interrupted = 0, blame = ?5, failures = failures + 1
                 WHERE submission = ?1 AND channel = ?2 AND state = 'sending' AND attempts = ?3"
            ),
            values![lease.submission, lease.channel, lease.number, due_at, blame],
        )?;
    }
    if let Outcome::Failed(AttemptFailure { recipients: Some(recipients), .. }) = outcome {
        store_recipients(tx, lease, recipients)?;
    }
    let settled = format!(
        "SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND {NEEDS_TEXT})"
    );
    tx.exists(&settled, values![lease.submission])
}

/// Locks a submission, so that the operator's decision to hold or release it and the recording of an outcome
/// cannot miss each other's changes. SQLite needs no lock, because a file has only one writer.
fn lock_against_hold_or_release(tx: &dyn Sql, id: Uuid) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        tx.query("SELECT 1 FROM submission WHERE id = ?1 FOR SHARE", values![id])?;
    }
    Ok(())
}

/// When an outage ends, a failure that the content may have caused is forgiven only if the submission is
/// younger than this, because a delivery that always fails must eventually be parked.
const FORGIVENESS_AGE: Duration = Duration::from_hours(72);

/// The maximum age of the date of a message, because mail servers refuse messages with a date far in the
/// past. It exceeds the schedule's time from the first to the last attempt, about 83 hours, so that all
/// attempts usually send the same date. If attempts take longer, because failures were forgiven or the
/// receiver asked for more time, a later attempt has a later date. Copies still have the same Message-ID.
const MAX_DATE_AGE: Duration = Duration::from_hours(96);

/// The duration in milliseconds, capped at `i64::MAX`.
pub(crate) fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
