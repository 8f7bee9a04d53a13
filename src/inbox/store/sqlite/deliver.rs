//! The life of a delivery in the database: claimed under a lease, sent elsewhere, recorded.
//!
//! Each function belongs into a transaction of the caller's and leaves it whole. None of them sends anything.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::fingerprint::Secret;
use super::read::{self, SUBMISSION};
use crate::inbox::deliver::outcome::{Cause, Outcome};
use crate::inbox::deliver::schedule::{self, Verdict};
use crate::inbox::delivery::{Claimed, Claims, Lease, Next, Target, Want};
use crate::inbox::store::{StoreError, without_details};
use crate::inbox::submission::reasons_json;

/// Takes over what an earlier process of this inbox had begun and not ended. To be called once nobody else sends.
///
/// Returns how many there were.
pub(super) fn recover(tx: &Connection, now: Timestamp) -> Result<usize, StoreError> {
    let count = retake(tx, &[], now)?;
    // Whoever starts anew believes in every channel that was failing: perhaps that is why it was stopped.
    let mut paused = tx.prepare_cached("SELECT name FROM channel WHERE paused_at IS NOT NULL")?;
    let paused = paused.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    for channel in paused {
        resume(tx, &channel, true, now)?;
    }
    mend_waits(tx, now)?;
    Ok(count)
}

/// Queues again what is noted as begun and is not under way in truth. Returns how many there were.
pub(super) fn retake(tx: &Connection, under_way: &[Lease], now: Timestamp) -> Result<usize, StoreError> {
    let mut begun = tx.prepare_cached(&format!("SELECT {DELIVERY} FROM delivery WHERE state = 'sending'"))?;
    let begun = begun.query_map([], |row| Ok(Found::new(row)))?.collect::<Result<Vec<_>, _>>()?;
    let mut count = 0;
    for found in begun {
        let found = found?;
        if !found.is_among(under_way) {
            interrupt(tx, &found, now)?;
            count += 1;
        }
    }
    Ok(count)
}

/// What waits for longer than its failures account for was put there by a clock that has been set back since. Nobody notices
/// a clock that is set while nobody runs, and with only [`mend_times`] a day's delay could follow from a day's correction.
pub(super) fn mend_waits(tx: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let mut far = Vec::new();
    // In two parts, for each of which there is an index that knows nothing of what is delivered.
    for part in ["failures = 0", "failures > 0 AND blame IS NOT 'asked'"] {
        let mut statement = tx.prepare_cached(&format!(
            "SELECT submission, channel, failures, due_at FROM delivery
             WHERE state = 'waiting' AND due_at > ?1 AND {part}"
        ))?;
        let mut rows = statement.query([now.as_millisecond()])?;
        while let Some(row) = rows.next()? {
            let latest = now.as_millisecond().saturating_add(millis(schedule::longest_wait(row.get(2)?)));
            if row.get::<_, i64>(3)? > latest {
                far.push((row.get::<_, [u8; 16]>(0)?, row.get::<_, String>(1)?));
            }
        }
    }
    let mut mend =
        tx.prepare_cached("UPDATE delivery SET due_at = ?3 WHERE submission = ?1 AND channel = ?2")?;
    for (submission, channel) in far {
        mend.execute(params![submission, channel, now.as_millisecond()])?;
    }
    Ok(())
}

/// Begins attempts at what is due, as many as there is room for in each channel.
pub(super) fn claim(
    tx: &Connection,
    secret: &Secret,
    wants: &[Want],
    under_way: &[Lease],
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<Claims>, StoreError> {
    wants.iter().map(|want| claim_in(tx, secret, want, under_way, now, lease)).collect()
}

fn claim_in(
    tx: &Connection,
    secret: &Secret,
    want: &Want,
    under_way: &[Lease],
    now: Timestamp,
    lease: Duration,
) -> Result<Claims, StoreError> {
    let channel = &want.target.name;
    if is_off(tx, secret, &want.target)? {
        for again in [false, true] {
            let mut park = tx.prepare_cached(&format!(
                "UPDATE delivery SET state = 'parked', due_at = NULL
                 WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND {}",
                condition(again)
            ))?;
            park.execute([channel])?;
        }
        return Ok(Claims { is_off: true, ..Claims::default() });
    }
    mend_times(tx, channel, now)?;
    let mut claimed = Vec::new();
    for again in [false, true] {
        // What has failed before may take what first attempts leave, up to its own part.
        let places =
            want.room.any.saturating_sub(claimed.len()).min(if again { want.room.again } else { usize::MAX });
        let due =
            if places == 0 { Vec::new() } else { due(tx, channel, again, now, places + under_way.len())? };
        for found in due.into_iter().filter(|found| !found.is_among(under_way)).take(places) {
            if found.is_sending {
                // Whoever had it has not been heard of for as long as an attempt may take.
                if interrupt(tx, &found, now)? == Some(now) {
                    claimed.extend(begin(tx, found, again, now, lease)?);
                }
            } else {
                claimed.extend(begin(tx, found, again, now, lease)?);
            }
        }
    }
    let next = |again| next_due(tx, channel, again);
    let next = Next { first: next(false)?, again: next(true)? };
    Ok(Claims { claimed, is_off: false, is_paused: is_paused(tx, channel)?, next })
}

/// What lies further ahead than anything ever should was put there by a clock that has been set back since.
fn mend_times(tx: &Connection, channel: &str, now: Timestamp) -> Result<(), StoreError> {
    for again in [false, true] {
        // What has not failed waits for an interruption or a lease at most.
        let furthest = if again { schedule::LONGEST_DELAY } else { LONGEST_WITHOUT_FAILURE };
        let far = now.as_millisecond().saturating_add(millis(furthest));
        let mut mend = tx.prepare_cached(&format!(
            "UPDATE delivery SET due_at = ?3 WHERE channel = ?1 AND due_at > ?2 AND {}",
            condition(again)
        ))?;
        mend.execute(params![channel, far, now.as_millisecond()])?;
    }
    Ok(())
}

/// How far ahead a delivery may lie that has not failed since it was queued: longer than any lease or interruption.
const LONGEST_WITHOUT_FAILURE: Duration = Duration::from_mins(10);

const DELIVERY: &str = "submission, channel, state, attempts, failures, interrupted";

/// A delivery as the worker's side needs it.
struct Found {
    submission: Uuid,
    channel: String,
    is_sending: bool,
    attempts: u32,
    failures: u32,
    interrupted: u32,
}

impl Found {
    fn new(row: &Row<'_>) -> Result<Found, StoreError> {
        Ok(Found {
            submission: Uuid::from_bytes(row.get(0)?),
            channel: row.get(1)?,
            is_sending: row.get_ref(2)?.as_str().is_ok_and(|state| state == "sending"),
            attempts: row.get(3)?,
            failures: row.get(4)?,
            interrupted: row.get(5)?,
        })
    }

    fn is_among(&self, under_way: &[Lease]) -> bool {
        under_way.iter().any(|lease| lease.submission == self.submission && lease.channel == self.channel)
    }
}

fn due(
    tx: &Connection,
    channel: &str,
    again: bool,
    now: Timestamp,
    most: usize,
) -> Result<Vec<Found>, StoreError> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT {DELIVERY} FROM delivery WHERE channel = ?1 AND due_at <= ?2 AND {} ORDER BY due_at LIMIT ?3",
        condition(again)
    ))?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows =
        statement.query_map(params![channel, now.as_millisecond(), most], |row| Ok(Found::new(row)))?;
    rows.map(|found| found?).collect()
}

fn next_due(tx: &Connection, channel: &str, again: bool) -> Result<Option<Timestamp>, StoreError> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT due_at FROM delivery WHERE channel = ?1 AND due_at IS NOT NULL AND {} ORDER BY due_at LIMIT 1",
        condition(again)
    ))?;
    let due: Option<i64> = statement.query_row([channel], |row| row.get(0)).optional()?;
    due.map(read::time).transpose()
}

/// Written so that SQLite sees that the partial index applies.
const fn condition(again: bool) -> &'static str {
    if again { "failures > 0" } else { "failures = 0" }
}

/// Begins an attempt: from here on it is ours until the lease is over.
fn begin(
    tx: &Connection,
    found: Found,
    again: bool,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Claimed>, StoreError> {
    let number = found.attempts.saturating_add(1);
    let key = (found.submission.as_bytes(), &found.channel);
    tx.prepare_cached("INSERT INTO attempt (submission, channel, number, began_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![key.0, key.1, number, now.as_millisecond()])?;
    tx.prepare_cached(
        "UPDATE delivery SET state = 'sending', due_at = ?3, attempts = ?4 WHERE submission = ?1 AND channel = ?2",
    )?
    .execute(params![key.0, key.1, now.as_millisecond().saturating_add(millis(lease)), number])?;
    let lease = Lease { submission: found.submission, channel: found.channel, number };
    let submission = {
        let mut statement =
            tx.prepare_cached(&format!("SELECT {SUBMISSION} FROM submission s WHERE id = ?1"))?;
        statement.query_row([lease.submission.as_bytes()], |row| Ok(read::submission(row)))?
    };
    let outcome = match submission {
        Ok(submission) if submission.sealed.is_none() => {
            return Ok(Some(Claimed { lease, submission, failures: found.failures, again }));
        }
        Ok(_) => Outcome::failed(Cause::Refused, "it is sealed, and only its recipient can read it"),
        // One row that cannot be read must not keep the others from being delivered.
        Err(error) => Outcome::failed(Cause::Refused, error.to_string()),
    };
    record(tx, &lease, &outcome, Verdict::Parked, now)?;
    Ok(None)
}

/// Notes that nobody heard the end of an attempt, and queues the delivery again. Returns when it is due; nothing if it is held
/// by now, or parked.
fn interrupt(tx: &Connection, found: &Found, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let interrupted = found.interrupted.saturating_add(1);
    let again = match schedule::judge_interrupted(interrupted, now) {
        Verdict::Again(at) => Some(at),
        Verdict::Delivered | Verdict::Parked => None,
    };
    let mut statement = tx.prepare_cached(&format!(
        "UPDATE delivery SET interrupted = ?3, due_at = {}, state = {} WHERE submission = ?1 AND channel = ?2
         RETURNING state = 'waiting'",
        "CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NULL THEN ?4 END",
        "CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NOT NULL THEN 'held'
              WHEN ?4 IS NULL THEN 'parked' ELSE 'waiting' END"
    ))?;
    let due_at = again.map(Timestamp::as_millisecond);
    let key = (found.submission.as_bytes(), &found.channel);
    let waits: bool = statement.query_row(params![key.0, key.1, interrupted, due_at], |row| row.get(0))?;
    Ok(again.filter(|_| waits))
}

/// Records how an attempt ended and what is to become of its delivery. Returns whether all of the submission's deliveries have
/// arrived with that.
///
/// A report that comes after the lease was lost is noted all the same. It changes the delivery only if it has arrived: that is
/// true whoever has the lease.
pub(super) fn record(
    tx: &Connection,
    lease: &Lease,
    outcome: &Outcome,
    verdict: Verdict,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (delivered, answer, blame) = match outcome {
        Outcome::Delivered(answer) => (true, answer, None),
        Outcome::Failed(failure) => {
            let blame = match (failure.cause, failure.retry_after) {
                (_, Some(_)) => "asked",
                (Cause::Channel | Cause::Gone, None) => "channel",
                (Cause::Notice | Cause::Refused, None) => "notice",
            };
            (false, &failure.answer, Some(blame))
        }
    };
    let key = (lease.submission.as_bytes(), &lease.channel, lease.number);
    tx.prepare_cached(
        "UPDATE attempt SET ended_at = ?4, delivered = ?5, answer = ?6
         WHERE submission = ?1 AND channel = ?2 AND number = ?3",
    )?
    .execute(params![key.0, key.1, key.2, now.as_millisecond(), delivered, answer])?;
    match verdict {
        Verdict::Delivered => {
            tx.prepare_cached(
                "UPDATE delivery SET state = 'delivered', due_at = NULL, interrupted = 0, blame = NULL
                 WHERE submission = ?1 AND channel = ?2",
            )?
            .execute(params![key.0, key.1])?;
        }
        Verdict::Again(_) | Verdict::Parked => {
            let due_at = match verdict {
                Verdict::Again(at) => Some(at.as_millisecond()),
                _ => None,
            };
            tx.prepare_cached(
                "UPDATE delivery SET interrupted = 0, blame = ?5, failures = failures + 1,
                     due_at = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NULL THEN ?4 END,
                     state = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NOT NULL THEN 'held'
                                  WHEN ?4 IS NULL THEN 'parked' ELSE 'waiting' END
                 WHERE submission = ?1 AND channel = ?2 AND state = 'sending' AND attempts = ?3",
            )?
            .execute(params![key.0, key.1, key.2, due_at, blame])?;
        }
    }
    is_settled(tx, lease.submission)
}

/// Whether everything that was to be done with a submission has been done.
pub(super) fn is_settled(tx: &Connection, id: Uuid) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state <> 'delivered')",
    )?;
    Ok(statement.exists([id.as_bytes()])?)
}

/// Whether at least one channel has confirmed a submission, or nothing of it is to be delivered at present.
pub(super) fn is_confirmed(tx: &Connection, id: Uuid) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT 1 FROM submission WHERE id = ?1 AND (held_at IS NOT NULL
         OR EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state = 'delivered'))",
    )?;
    Ok(statement.exists([id.as_bytes()])?)
}

/// A channel works again. After an outage, what waits because of it needs to wait no longer. Its failures stay counted: what the
/// other side never takes comes to its end all the same.
pub(super) fn resume(
    tx: &Connection,
    channel: &str,
    after_outage: bool,
    now: Timestamp,
) -> Result<usize, StoreError> {
    // What it said may quote a visitor, and says nothing of it any more.
    tx.prepare_cached(
        "UPDATE channel SET paused_at = NULL, answer = CASE WHEN off_at IS NOT NULL THEN answer END WHERE name = ?1",
    )?
    .execute([channel])?;
    if !after_outage {
        return Ok(0);
    }
    let mut statement = tx.prepare_cached(
        "UPDATE delivery SET due_at = ?2
         WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND failures > 0 AND blame = 'channel'",
    )?;
    Ok(statement.execute(params![channel, now.as_millisecond()])?)
}

/// Notes that a channel fails so often that it is only probed.
pub(super) fn pause(tx: &Connection, channel: &str, answer: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO channel (name, paused_at, answer) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(paused_at, ?2), answer = ?3",
    )?
    .execute(params![channel, now.as_millisecond(), answer])?;
    Ok(())
}

/// Notes that nothing may be sent to where a channel leads any more.
pub(super) fn switch_off(
    tx: &Connection,
    secret: &Secret,
    target: &Target,
    answer: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO channel (name, target, off_at, answer) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET target = ?2, off_at = ?3, answer = ?4",
    )?
    .execute(params![target.name, secret.target(&target.leads_to), now.as_millisecond(), answer])?;
    Ok(())
}

/// Whether a channel is noted as one that is only probed.
fn is_paused(tx: &Connection, channel: &str) -> Result<bool, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT 1 FROM channel WHERE name = ?1 AND paused_at IS NOT NULL")?;
    Ok(statement.exists([channel])?)
}

/// Whether a channel is switched off. One that leads elsewhere by now is not.
fn is_off(tx: &Connection, secret: &Secret, target: &Target) -> Result<bool, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT target FROM channel WHERE name = ?1 AND off_at IS NOT NULL")?;
    let off: Option<Option<[u8; 16]>> = statement.query_row([&target.name], |row| row.get(0)).optional()?;
    match off {
        None => Ok(false),
        Some(hash) if hash == Some(secret.target(&target.leads_to)) => Ok(true),
        Some(_) => {
            tx.prepare_cached("UPDATE channel SET off_at = NULL, answer = NULL WHERE name = ?1")?
                .execute([&target.name])?;
            Ok(false)
        }
    }
}

/// Replaces a submission's fields by what only its recipient can read, once nothing is to be done with it any more.
pub(super) fn seal(tx: &Connection, id: Uuid, sealed: &[u8]) -> Result<bool, StoreError> {
    if !is_settled(tx, id)? {
        return Ok(false);
    }
    let mut statement = tx.prepare_cached(
        "UPDATE submission SET fields = '{}', sealed = ?2 WHERE id = ?1 AND sealed IS NULL",
    )?;
    let is_sealed = statement.execute(params![id.as_bytes(), sealed])? == 1;
    if is_sealed {
        strip_reasons(tx, id)?;
        // Who refused it may have quoted it.
        tx.prepare_cached("UPDATE attempt SET answer = NULL WHERE submission = ?1 AND delivered = 0")?
            .execute([id.as_bytes()])?;
    }
    Ok(is_sealed)
}

/// Keeps signals and points of what screening said, and nothing that could name whom a submission is about.
fn strip_reasons(tx: &Connection, id: Uuid) -> Result<(), StoreError> {
    let mut select = tx.prepare_cached("SELECT reasons FROM submission WHERE id = ?1")?;
    let reasons: Option<String> = select.query_row([id.as_bytes()], |row| row.get(0))?;
    let Some(reasons) = reasons else { return Ok(()) };
    // What cannot be read cannot be stripped either, and must not stay.
    let stripped = read::reasons(&reasons).map(|reasons| without_details(&reasons)).unwrap_or_default();
    tx.prepare_cached("UPDATE submission SET reasons = ?2 WHERE id = ?1")?
        .execute(params![id.as_bytes(), reasons_json(&stripped).to_string()])?;
    Ok(())
}

/// Removes up to `most` submissions that were received before `before` and with which nothing is to be done any more. What
/// waits, is being sent, is held or is parked stays.
pub(super) fn expire(tx: &Connection, before: Timestamp, most: usize) -> Result<usize, StoreError> {
    // Ids begin with the time of arrival, so that the oldest come first without another index.
    let mut expire = tx.prepare_cached(
        "DELETE FROM submission WHERE id IN (
             SELECT id FROM submission s WHERE id < ?1 AND received_at < ?2 AND held_at IS NULL
             AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND state <> 'delivered')
             ORDER BY id LIMIT ?3)
         RETURNING id",
    )?;
    let before = before.as_millisecond();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let values = params![read::id_before(before), before, most];
    let removed: Vec<[u8; 16]> = expire.query_map(values, |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut forget =
        tx.prepare_cached("DELETE FROM fingerprint WHERE submission = ?1 AND expires_at IS NULL")?;
    for id in &removed {
        forget.execute([id])?;
    }
    Ok(removed.len())
}

/// When something of that name was last done.
pub(super) fn remembered(tx: &Connection, name: &str) -> Result<Option<Timestamp>, StoreError> {
    let mut statement = tx.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    let value: Option<[u8; 8]> = statement.query_row([name], |row| row.get(0)).optional()?;
    value.map(|bytes| read::time(i64::from_be_bytes(bytes))).transpose()
}

/// Notes when something of that name was done.
pub(super) fn remember(tx: &Connection, name: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
    )?
    .execute(params![name, at.as_millisecond().to_be_bytes()])?;
    Ok(())
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod simulation;
