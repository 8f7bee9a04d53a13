//! The life of a delivery in the database: claimed under a lease, sent elsewhere, recorded.
//!
//! Each function belongs into a transaction of the caller's and leaves it whole. None of them sends anything.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::rows::{self, SUBMISSION};
use super::{Cell, Dialect, Row, Sql, bound, steps, values};
use crate::screening::{self, Reason};
use crate::store::StoreError;
use crate::store::fingerprint::Secret;
use crate::store::flood;
use crate::submission::delivery::{Claimed, Claims, Lease, Next, Route, Target, Want};
use crate::submission::outcome::{Cause, Outcome};
use crate::submission::reasons_json;
use crate::submission::schedule::{self, Verdict};

/// Takes over what an earlier process of this inbox had begun and not ended. To be called once nobody else sends; on a server
/// others may, and nothing of theirs is touched.
///
/// Returns how many there were.
pub(in crate::store) fn recover(tx: &dyn Sql, now: Timestamp) -> Result<usize, StoreError> {
    if tx.dialect() == Dialect::Postgres {
        mend_waits(tx, now)?;
        return Ok(0);
    }
    let count = retake(tx, &[], now)?;
    // Whoever starts anew believes in every channel that was failing: perhaps that is why it was stopped.
    for channel in tx.query("SELECT name FROM channel WHERE paused_at IS NOT NULL", &[])? {
        let channel = channel.get::<String>(0)?;
        resume(tx, &channel)?;
        let mut from = Some(now);
        while let Some(later) = from {
            from = bring_forward(tx, &channel, later, now)?.from;
        }
    }
    mend_waits(tx, now)?;
    Ok(count)
}

/// Queues again what is noted as begun and is not under way in truth. Returns how many there were. On a server it may be under way
/// elsewhere, and its lease has to run out.
pub(in crate::store) fn retake(
    tx: &dyn Sql,
    under_way: &[Lease],
    now: Timestamp,
) -> Result<usize, StoreError> {
    if tx.dialect() == Dialect::Postgres {
        return Ok(0);
    }
    let begun = tx.query(&format!("SELECT {DELIVERY} FROM delivery WHERE state = 'sending'"), &[])?;
    let mut count = 0;
    for row in &begun {
        let found = Found::new(row)?;
        if !found.is_among(under_way) {
            interrupt(tx, &found, now)?;
            count += 1;
        }
    }
    Ok(count)
}

/// What waits for longer than its failures account for was put there by a clock that has been set back since. Nobody notices
/// a clock that is set while nobody runs, and with only [`mend_times`] a day's delay could follow from a day's correction.
pub(in crate::store) fn mend_waits(tx: &dyn Sql, now: Timestamp) -> Result<(), StoreError> {
    let mut far = Vec::new();
    // Two queries, because each has a partial index that leaves out completed deliveries.
    for (again, and) in [(false, ""), (true, " AND blame IS DISTINCT FROM 'asked'")] {
        // A loose index scan: look up one channel after the other, and its rows.
        let next = format!(
            "SELECT channel FROM delivery WHERE channel > ?1 AND due_at IS NOT NULL AND {} ORDER BY channel LIMIT 1",
            condition(again)
        );
        let waiting = format!(
            "SELECT submission, failures, due_at FROM delivery
             WHERE channel = ?1 AND due_at > ?2 AND state = 'waiting' AND {}{and}",
            condition(again)
        );
        let mut channel = String::new();
        while let Some(row) = tx.row(&next, values![channel])? {
            channel = row.get(0)?;
            for row in tx.query(&waiting, values![channel, now.as_millisecond()])? {
                let wait = schedule::longest_wait(row.get(1)?);
                if row.get::<i64>(2)? > now.as_millisecond().saturating_add(millis(wait)) {
                    far.push((row.get::<[u8; 16]>(0)?, channel.clone()));
                }
            }
        }
    }
    for (submission, channel) in far {
        tx.execute(
            "UPDATE delivery SET due_at = ?3 WHERE submission = ?1 AND channel = ?2",
            values![submission, channel, now.as_millisecond()],
        )?;
    }
    Ok(())
}

/// Begins attempts at what is due, as many as there is room for in each channel. Channels in `paced` send what busy networks have sent at
/// the pace of [`BusyPace`].
pub(in crate::store) fn claim(
    tx: &dyn Sql,
    secret: &Secret,
    wants: &[Want],
    paced: &[String],
    under_way: &[Lease],
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<Claims>, StoreError> {
    let claim = |want: &Want| {
        let is_paced = paced.contains(&want.target.name);
        claim_in(tx, secret, want, is_paced, under_way, now, lease)
    };
    wants.iter().map(claim).collect()
}

fn claim_in(
    tx: &dyn Sql,
    secret: &Secret,
    want: &Want,
    is_paced: bool,
    under_way: &[Lease],
    now: Timestamp,
    lease: Duration,
) -> Result<Claims, StoreError> {
    let channel = &want.target.name;
    if is_off(tx, secret, &want.target)? {
        for again in [false, true] {
            let park = format!(
                "UPDATE delivery SET state = 'parked', due_at = NULL
                 WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND {}",
                condition(again)
            );
            tx.execute(&park, values![channel])?;
        }
        return Ok(Claims { is_off: true, ..Claims::default() });
    }
    mend_times(tx, channel, now)?;
    let mut claimed = Vec::new();
    let mut pace = if is_paced { Some(BusyPace::read(tx, channel, now)?) } else { None };
    let may_begin = pace.as_ref().map_or(usize::MAX, BusyPace::may_begin);
    // First attempts leave one place now and then, so that they cannot keep repeated ones waiting.
    let is_reserved = turns(want, AGAIN_EVERY) > 0
        && want.room.again > 0
        && next_due(tx, channel, true)?.is_some_and(|at| at <= now);
    for again in [false, true] {
        // What has failed before may take what first attempts leave, up to its own part.
        let left = want.room.any.saturating_sub(claimed.len());
        let places =
            if again { left.min(want.room.again) } else { left.saturating_sub(usize::from(is_reserved)) };
        let most = places + under_way.len();
        let due = match (places, again) {
            (0, _) => Vec::new(),
            (_, false) => due_first(tx, want, may_begin, now, most)?,
            (_, true) => due_again(tx, channel, now, most)?,
        };
        for found in due.into_iter().filter(|found| !found.is_among(under_way)).take(places) {
            if found.is_sending {
                // Whoever had it has not been heard of for as long as an attempt may take.
                if interrupt(tx, &found, now)? == Some(now) {
                    claimed.extend(begin(tx, found, again, now, lease)?);
                }
            } else {
                if let Some(pace) = pace.as_mut().filter(|_| !again && found.is_busy()) {
                    pace.count();
                }
                claimed.extend(begin(tx, found, again, now, lease)?);
            }
        }
    }
    let mut next = Next { first: next_due(tx, channel, false)?, again: next_due(tx, channel, true)? };
    let mut is_waiting = false;
    if let Some(pace) = pace {
        pace.write(tx, channel)?;
        if pace.may_begin() == 0 && next.first.is_some_and(|at| at <= now) {
            // What busy networks have sent is not looked for before its pace allows it.
            next.first = next_not_busy(tx, channel)?.into_iter().chain([pace.next()]).min();
            is_waiting = true;
        }
    }
    Ok(Claims { claimed, is_off: false, is_paused: is_paused(tx, channel)?, is_paced: is_waiting, next })
}

/// What lies further ahead than anything ever should was put there by a clock that has been set back since. Makes up to 200 due that
/// have failed, and as many others; the next call goes on.
fn mend_times(tx: &dyn Sql, channel: &str, now: Timestamp) -> Result<(), StoreError> {
    for again in [false, true] {
        // What has not failed waits for an interruption or a lease at most.
        let furthest = if again { schedule::LONGEST_DELAY } else { LONGEST_WITHOUT_FAILURE };
        let far = now.as_millisecond().saturating_add(millis(furthest));
        let mend = format!(
            "UPDATE delivery SET due_at = ?3 WHERE channel = ?1 AND due_at > ?2 AND {0} AND submission IN
                 (SELECT submission FROM delivery WHERE channel = ?1 AND due_at > ?2 AND {0} ORDER BY due_at DESC LIMIT {1})",
            condition(again),
            steps::ROWS
        );
        tx.execute(&mend, values![channel, far, now.as_millisecond()])?;
    }
    Ok(())
}

/// How far ahead a delivery may lie that has not failed since it was queued: longer than any lease or interruption.
const LONGEST_WITHOUT_FAILURE: Duration = Duration::from_mins(10);

const DELIVERY: &str = "submission, channel, state, attempts, failures, interrupted, rank";

/// A delivery as the worker's side needs it.
struct Found {
    submission: Uuid,
    channel: String,
    is_sending: bool,
    attempts: u32,
    failures: u32,
    interrupted: u32,
    /// See [`flood::rank`].
    rank: i64,
}

impl Found {
    fn new(row: &Row) -> Result<Found, StoreError> {
        Ok(Found {
            submission: Uuid::from_bytes(row.get(0)?),
            channel: row.get(1)?,
            is_sending: row.get::<String>(2)? == "sending",
            attempts: row.get(3)?,
            failures: row.get(4)?,
            interrupted: row.get(5)?,
            rank: row.get(6)?,
        })
    }

    /// Whether it is a submission of a network that has sent many.
    fn is_busy(&self) -> bool {
        self.rank % flood::SUSPICIOUS >= BUSY_RANK
    }

    fn is_among(&self, under_way: &[Lease]) -> bool {
        under_way.iter().any(|lease| lease.submission == self.submission && lease.channel == self.channel)
    }
}

/// First attempts that are due: the forms take turns, and of each form the lowest ranks come first, so that neither one form nor one
/// network keeps others from being delivered. Suspicious submissions come last.
///
/// Of what busy networks have sent no more than `may_begin` deliveries are returned.
fn due_first(
    tx: &dyn Sql,
    want: &Want,
    may_begin: usize,
    now: Timestamp,
    most: usize,
) -> Result<Vec<Found>, StoreError> {
    let channel = &want.target.name;
    let index = turn_index(tx);
    let forms = waiting_forms(tx, channel)?;
    // Skip rows that another replica is claiming instead of waiting.
    let lock = tx.dialect().lock_free_rows();
    let due = format!(
        "SELECT {DELIVERY} FROM delivery {index}
         WHERE channel = ?1 AND form = ?2 AND rank >= ?5 AND rank < ?6 AND due_at <= ?3 AND {}
         ORDER BY rank, due_at LIMIT ?4 {lock}",
        condition(false)
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut by_form = Vec::with_capacity(forms.len());
    let ranks = if may_begin == 0 {
        QUIET_RANKS
    } else {
        [0..flood::SUSPICIOUS, flood::SUSPICIOUS..2 * flood::SUSPICIOUS]
    };
    for form in &forms {
        let mut rows = Vec::new();
        for ranks in &ranks {
            rows.extend(
                tx.query(&due, values![channel, form, now.as_millisecond(), most, ranks.start, ranks.end])?,
            );
        }
        by_form.push(rows);
    }
    by_form.retain(|rows| !rows.is_empty());
    let mut found = Vec::new();
    for (at, rows) in by_form.iter().enumerate() {
        let turn = (at + want.turn) % by_form.len();
        for (place, row) in rows.iter().enumerate() {
            found.push((place, turn, Found::new(row)?));
        }
    }
    found.sort_by_key(|(place, turn, found)| (found.rank >= flood::SUSPICIOUS, *place, *turn));
    let by_rank = found.into_iter().map(|(_, _, found)| found);
    let mut found = Vec::new();
    let oldest = turns(want, OLDEST_EVERY);
    if oldest > 0 {
        found = by_due_time(tx, channel, false, now, oldest, "ASC")?;
    }
    let is_oldest = |other: &Found| found.iter().any(|oldest| oldest.submission == other.submission);
    let rest: Vec<Found> = by_rank.filter(|other| !is_oldest(other)).collect();
    found.extend(rest);
    let mut busy = 0;
    found.retain(|found| {
        // What was begun before was counted then.
        let counts = found.is_busy() && !found.is_sending;
        busy += usize::from(counts);
        !counts || busy <= may_begin
    });
    Ok(found)
}

/// Without the hint, SQLite would choose the index by due time.
fn turn_index(tx: &dyn Sql) -> &'static str {
    match tx.dialect() {
        Dialect::Sqlite => "INDEXED BY delivery_turn",
        Dialect::Postgres => "",
    }
}

/// The forms for which first attempts wait.
fn waiting_forms(tx: &dyn Sql, channel: &str) -> Result<Vec<String>, StoreError> {
    let next_form = format!(
        "SELECT form FROM delivery {} WHERE channel = ?1 AND form > ?2 AND due_at IS NOT NULL AND failures = 0
         ORDER BY form LIMIT 1",
        turn_index(tx)
    );
    // An earlier version, which shares the database, leaves the form out.
    let mut forms = vec![String::new()];
    while let Some(row) = tx.row(&next_form, values![channel, forms.last().map_or("", String::as_str)])? {
        forms.push(row.get(0)?);
    }
    Ok(forms)
}

/// When the next first attempt is due that is not of a busy network.
fn next_not_busy(tx: &dyn Sql, channel: &str) -> Result<Option<Timestamp>, StoreError> {
    let due = format!(
        "SELECT due_at FROM delivery {} WHERE channel = ?1 AND form = ?2 AND rank = ?3 AND due_at IS NOT NULL AND failures = 0
         ORDER BY due_at LIMIT 1",
        turn_index(tx)
    );
    let mut next: Option<Timestamp> = None;
    for form in waiting_forms(tx, channel)? {
        for rank in QUIET_RANKS.into_iter().flatten() {
            if let Some(row) = tx.row(&due, values![channel, form, rank])? {
                let at = rows::time(row.get(0)?)?;
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
    }
    Ok(next)
}

/// From this rank on, which counts anew for suspicious submissions, a submission is of a busy network: 16 or more others of it count
/// besides it (three an hour count as none).
const BUSY_RANK: i64 = 5;

/// The ranks of submissions that are not of a busy network.
const QUIET_RANKS: [Range<i64>; 2] = [0..BUSY_RANK, flood::SUSPICIOUS..flood::SUSPICIOUS + BUSY_RANK];

/// How fast a mail channel sends what busy networks have sent: 160 messages at once and 8 an hour, which is at most 352 in a day. One
/// network gets 88 more before it is busy. So it never uses up a provider's quota of a day, which begins at 500.
///
/// This is the generic cell rate algorithm. Its state is in the database, for all replicas and beyond a restart.
struct BusyPace {
    now: Timestamp,
    /// When nothing counts any more.
    rested: Timestamp,
    is_changed: bool,
}

/// How many messages may follow each other at once.
const BUSY_BURST: u32 = 160;
/// How long one message counts.
const BUSY_STEP: Duration = Duration::from_secs(450);

impl BusyPace {
    fn read(tx: &dyn Sql, channel: &str, now: Timestamp) -> Result<BusyPace, StoreError> {
        if tx.dialect() == Dialect::Postgres {
            // Another replica that claims at the same time waits until this one has counted.
            tx.execute(
                "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                values![BusyPace::name(channel), now.as_millisecond().to_be_bytes()],
            )?;
            tx.query("SELECT 1 FROM meta WHERE name = ?1 FOR UPDATE", values![BusyPace::name(channel)])?;
        }
        let latest = later(now, BUSY_STEP * (BUSY_BURST + 1));
        // What lies further ahead was written by a clock that has been set back since.
        let rested = remembered(tx, &BusyPace::name(channel))?.filter(|at| (now..=latest).contains(at));
        Ok(BusyPace { now, rested: rested.unwrap_or(now), is_changed: false })
    }

    fn name(channel: &str) -> String {
        format!("busy pace of {channel}")
    }

    /// How many may begin now.
    fn may_begin(&self) -> usize {
        let debt = Duration::try_from(self.rested.duration_since(self.now)).unwrap_or_default();
        let left = (BUSY_STEP * BUSY_BURST).saturating_sub(debt);
        usize::try_from(left.as_millis() / BUSY_STEP.as_millis()).unwrap_or(usize::MAX)
    }

    /// One begins.
    fn count(&mut self) {
        self.rested = later(self.rested, BUSY_STEP);
        self.is_changed = true;
    }

    /// When the next one may begin, while none may.
    fn next(&self) -> Timestamp {
        self.rested.checked_sub(BUSY_STEP * (BUSY_BURST - 1)).unwrap_or(self.now)
    }

    fn write(&self, tx: &dyn Sql, channel: &str) -> Result<(), StoreError> {
        if self.is_changed {
            remember(tx, &BusyPace::name(channel), self.rested)?;
        }
        Ok(())
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// One in so many attempts is for the delivery that has been due for longest, whatever its rank: none waits for ever.
const OLDEST_EVERY: usize = 8;
/// One in so many attempts is a repeated one, if one is due.
const AGAIN_EVERY: usize = 4;

/// How many of the attempts that may begin now get a number that is a multiple of `every`, counting all attempts of the channel.
fn turns(want: &Want, every: usize) -> usize {
    (want.turn.saturating_add(want.room.any)) / every - want.turn / every
}

/// Retries that are due, of the [`LOOK_AT`] that have been due for longest and of as many that are due since a short time, the lowest
/// ranks first.
fn due_again(tx: &dyn Sql, channel: &str, now: Timestamp, most: usize) -> Result<Vec<Found>, StoreError> {
    let look_at = most.max(LOOK_AT);
    let mut found = by_due_time(tx, channel, true, now, look_at, "ASC")?;
    if found.len() == look_at {
        for late in by_due_time(tx, channel, true, now, look_at, "DESC")? {
            if !found.iter().any(|other| other.submission == late.submission) {
                found.push(late);
            }
        }
    }
    found.sort_by_key(|found| found.rank);
    Ok(found)
}

/// Up to `most` deliveries that are due, those that have been due for longest first (`ASC`) or last (`DESC`).
fn by_due_time(
    tx: &dyn Sql,
    channel: &str,
    again: bool,
    now: Timestamp,
    most: usize,
    order: &str,
) -> Result<Vec<Found>, StoreError> {
    let lock = tx.dialect().lock_free_rows();
    let due = format!(
        "SELECT {DELIVERY} FROM delivery WHERE channel = ?1 AND due_at <= ?2 AND {} ORDER BY due_at {order} LIMIT ?3 {lock}",
        condition(again)
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    tx.query(&due, values![channel, now.as_millisecond(), most])?.iter().map(Found::new).collect()
}

/// How many retries are sorted by rank, from either end of the due times. A bound is fair: a retry is among them when it becomes due, and
/// again and again later, because the schedule spreads due times.
const LOOK_AT: usize = 64;

fn next_due(tx: &dyn Sql, channel: &str, again: bool) -> Result<Option<Timestamp>, StoreError> {
    let next = format!(
        "SELECT due_at FROM delivery WHERE channel = ?1 AND due_at IS NOT NULL AND {} ORDER BY due_at LIMIT 1",
        condition(again)
    );
    tx.row(&next, values![channel])?.map(|row| rows::time(row.get(0)?)).transpose()
}

/// Written so that SQLite sees that the partial index applies.
const fn condition(again: bool) -> &'static str {
    if again { "failures > 0" } else { "failures = 0" }
}

/// Begins an attempt: from here on it is ours until the lease is over.
fn begin(
    tx: &dyn Sql,
    found: Found,
    again: bool,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Claimed>, StoreError> {
    let number = found.attempts.saturating_add(1);
    let key = (found.submission.as_bytes(), &found.channel);
    tx.execute(
        "INSERT INTO attempt (submission, channel, number, began_at) VALUES (?1, ?2, ?3, ?4)",
        values![key.0, key.1, number, now.as_millisecond()],
    )?;
    tx.execute("UPDATE delivery SET state = 'sending', due_at = ?3, attempts = ?4 WHERE submission = ?1 AND channel = ?2", values![key.0, key.1, now.as_millisecond().saturating_add(millis(lease)), number])?;
    let lease = Lease { submission: found.submission, channel: found.channel, number };
    let row = tx.one(
        &format!("SELECT {SUBMISSION} FROM accepted s WHERE id = ?1"),
        values![lease.submission.as_bytes()],
    )?;
    let outcome = match rows::submission(&row) {
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
fn interrupt(tx: &dyn Sql, found: &Found, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    keep_as_it_is(tx, found.submission)?;
    let interrupted = found.interrupted.saturating_add(1);
    let again = match schedule::judge_interrupted(interrupted, now) {
        Verdict::Again(at) => Some(at),
        Verdict::Delivered | Verdict::Parked => None,
    };
    let due_at = again.map(Timestamp::as_millisecond);
    let key = (found.submission.as_bytes(), &found.channel);
    let row = tx.one(
        "UPDATE delivery SET interrupted = ?3,
             due_at = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NULL THEN CAST(?4 AS bigint) END,
             state = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NOT NULL THEN 'held'
                          WHEN CAST(?4 AS bigint) IS NULL THEN 'parked' ELSE 'waiting' END
         WHERE submission = ?1 AND channel = ?2
         RETURNING state = 'waiting'",
        values![key.0, key.1, interrupted, due_at],
    )?;
    let waits: bool = row.get(0)?;
    Ok(again.filter(|_| waits))
}

/// Records how an attempt ended and what is to become of its delivery. Returns whether all of the submission's deliveries have
/// arrived with that.
///
/// A report that comes after the lease was lost is noted all the same. It changes the delivery only if it has arrived: that is
/// true whoever has the lease.
pub(in crate::store) fn record(
    tx: &dyn Sql,
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
                (Cause::Channel | Cause::Deferred | Cause::Gone, None) => "channel",
                (Cause::Unclear, None) => "unclear",
                (Cause::Notice | Cause::Refused, None) => "notice",
            };
            (false, &failure.answer, Some(blame))
        }
    };
    keep_as_it_is(tx, lease.submission)?;
    let key = (lease.submission.as_bytes(), &lease.channel, lease.number);
    tx.execute(
        "UPDATE attempt SET ended_at = ?4, delivered = ?5, answer = ?6
         WHERE submission = ?1 AND channel = ?2 AND number = ?3",
        values![key.0, key.1, key.2, now.as_millisecond(), delivered, answer],
    )?;
    match verdict {
        Verdict::Delivered => {
            tx.execute(
                "UPDATE delivery SET state = 'delivered', due_at = NULL, interrupted = 0, blame = NULL
                 WHERE submission = ?1 AND channel = ?2",
                values![key.0, key.1],
            )?;
        }
        Verdict::Again(_) | Verdict::Parked => {
            let due_at = match verdict {
                Verdict::Again(at) => Some(at.as_millisecond()),
                _ => None,
            };
            tx.execute("UPDATE delivery SET interrupted = 0, blame = ?5, failures = failures + 1,
                     due_at = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NULL THEN CAST(?4 AS bigint) END,
                     state = CASE WHEN (SELECT held_at FROM submission WHERE id = ?1) IS NOT NULL THEN 'held'
                                  WHEN CAST(?4 AS bigint) IS NULL THEN 'parked' ELSE 'waiting' END
                 WHERE submission = ?1 AND channel = ?2 AND state = 'sending' AND attempts = ?3", values![key.0, key.1, key.2, due_at, blame])?;
        }
    }
    is_settled(tx, lease.submission)
}

/// Sees to it that a submission is neither held nor released before the end of this transaction. In a file nobody else writes meanwhile; on a
/// server the operator could, and what he has decided and what becomes of the delivery would each go by what the other was before.
fn keep_as_it_is(tx: &dyn Sql, id: Uuid) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        tx.query("SELECT 1 FROM submission WHERE id = ?1 FOR SHARE", values![id.as_bytes()])?;
    }
    Ok(())
}

/// Whether everything that was to be done with a submission has been done.
pub(in crate::store) fn is_settled(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state <> 'delivered')",
        values![id.as_bytes()],
    )
}

/// Whether at least one channel has confirmed a submission.
pub(in crate::store) fn is_confirmed(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM delivery WHERE submission = ?1 AND state = 'delivered'", values![id.as_bytes()])
}

/// Notes that a channel works again.
pub(in crate::store) fn resume(tx: &dyn Sql, channel: &str) -> Result<(), StoreError> {
    // The stored answer may quote a visitor, and is out of date now.
    tx.execute("UPDATE channel SET paused_at = NULL, answer = CASE WHEN off_at IS NOT NULL THEN answer END WHERE name = ?1", values![channel]).map(drop)
}

/// What one step of [`bring_forward`] has done.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct BroughtForward {
    /// How many deliveries are due now.
    pub count: usize,
    /// From when on the next step looks for deliveries that are due later. Nothing if there are none.
    pub from: Option<Timestamp>,
}

/// After a channel's outage, makes deliveries due that wait because of it: one step makes up to 200 due that were due at `from` or later.
/// An attempt that failed because of the channel alone does not count any more: a mail server that takes a message now and then would
/// otherwise use up all attempts within an hour. The last failure stays, and so do those that the content may have caused, so a delivery
/// that the receiver never accepts is still parked in the end.
pub(in crate::store) fn bring_forward(
    tx: &dyn Sql,
    channel: &str,
    from: Timestamp,
    now: Timestamp,
) -> Result<BroughtForward, StoreError> {
    let later = format!(
        "SELECT submission, due_at FROM delivery
         WHERE channel = ?1 AND due_at >= ?2 AND due_at > ?3 AND state = 'waiting' AND blame IN ('channel', 'unclear') AND {}
         ORDER BY due_at LIMIT {}",
        condition(true),
        steps::ROWS
    );
    let rows = tx.query(&later, values![channel, from.as_millisecond(), now.as_millisecond()])?;
    let mut ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
    ids.sort_unstable();
    let count = tx.execute_with_in(
        "UPDATE delivery SET due_at = ?1, failures = CASE WHEN blame = 'channel' AND failures > 1 THEN failures - 1 ELSE failures END
         WHERE channel = ?2 AND state = 'waiting' AND failures > 0 AND blame IN ('channel', 'unclear') AND submission",
        values![now.as_millisecond(), channel],
        &ids,
    )?;
    let last = rows.last().filter(|_| rows.len() == steps::ROWS);
    let from = last.map(|row| rows::time(row.get(1)?)).transpose()?;
    Ok(BroughtForward { count, from })
}

/// Notes that a channel fails so often that it is only probed.
pub(in crate::store) fn pause(
    tx: &dyn Sql,
    channel: &str,
    answer: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO channel (name, paused_at, answer) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(channel.paused_at, ?2), answer = ?3",
        values![channel, now.as_millisecond(), answer],
    )?;
    Ok(())
}

/// Notes that nothing may be sent to where a channel leads any more.
pub(in crate::store) fn switch_off(
    tx: &dyn Sql,
    secret: &Secret,
    target: &Target,
    answer: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO channel (name, target, off_at, answer) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET target = ?2, off_at = ?3, answer = ?4",
        values![target.name, secret.target(&target.leads_to), now.as_millisecond(), answer],
    )?;
    Ok(())
}

/// Whether a channel is noted as one that is only probed.
fn is_paused(tx: &dyn Sql, channel: &str) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM channel WHERE name = ?1 AND paused_at IS NOT NULL", values![channel])
}

/// Whether a channel is switched off. One that leads elsewhere by now is not.
fn is_off(tx: &dyn Sql, secret: &Secret, target: &Target) -> Result<bool, StoreError> {
    let off =
        tx.row("SELECT target FROM channel WHERE name = ?1 AND off_at IS NOT NULL", values![target.name])?;
    match off.map(|row| row.get::<Option<[u8; 16]>>(0)).transpose()? {
        None => Ok(false),
        Some(hash) if hash == Some(secret.target(&target.leads_to)) => Ok(true),
        Some(_) => {
            tx.execute(
                "UPDATE channel SET off_at = NULL, answer = NULL WHERE name = ?1",
                values![target.name],
            )?;
            Ok(false)
        }
    }
}

/// Whether no channel has to deliver `submission s` any more, as a condition; the values for its parameters are appended. `channels` are
/// those that are configured. A held submission would be delivered after its release by the channels for which it has deliveries, and
/// by those that take its form: see [`edit::release`](super::edit::release).
pub(super) fn has_nothing_to_deliver(channels: &[Route], values: &mut Vec<Cell>) -> String {
    let mut bind = |text: &str| {
        values.push(Cell::Text(text.to_owned()));
        format!("?{}", values.len())
    };
    let mut is_configured = vec!["FALSE".to_owned()];
    let mut is_missing = String::new();
    for channel in channels {
        let name = bind(&channel.name);
        let forms: Vec<String> = channel.forms.iter().map(|form| bind(form)).collect();
        let takes_form =
            if forms.is_empty() { "TRUE".to_owned() } else { format!("s.form IN ({})", forms.join(", ")) };
        is_missing.push_str(&format!(
            " AND NOT (s.held_at IS NOT NULL AND {takes_form}
              AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND channel = {name}))"
        ));
        is_configured.push(format!("channel = {name}"));
    }
    format!(
        "NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND state <> 'delivered'
         AND (s.held_at IS NULL OR state = 'sending' OR {})){is_missing}",
        is_configured.join(" OR ")
    )
}

/// Replaces a submission's fields by what only its recipient can read, once no channel has to deliver it any more.
pub(in crate::store) fn seal(
    tx: &dyn Sql,
    id: Uuid,
    sealed: &[u8],
    channels: &[Route],
) -> Result<bool, StoreError> {
    // On a server, the submission must not be released between the two statements.
    tx.query(
        &format!("SELECT 1 FROM submission WHERE id = ?1 {}", tx.dialect().lock()),
        values![id.as_bytes()],
    )?;
    let mut values = vec![Cell::Blob(id.as_bytes().to_vec())];
    let condition = has_nothing_to_deliver(channels, &mut values);
    if !tx.exists(&format!("SELECT 1 FROM submission s WHERE s.id = ?1 AND {condition}"), &bound(&values))? {
        return Ok(false);
    }
    let is_sealed = tx.execute(
        "UPDATE submission SET fields = '{}', sealed = ?2 WHERE id = ?1 AND sealed IS NULL",
        values![id.as_bytes(), sealed],
    )? == 1;
    if is_sealed {
        strip_reasons(tx, id)?;
        // Who refused it may have quoted it.
        tx.execute(
            "UPDATE attempt SET answer = NULL WHERE submission = ?1 AND delivered = 0",
            values![id.as_bytes()],
        )?;
    }
    Ok(is_sealed)
}

/// Keeps signals and points of what screening said, and nothing that could name whom a submission is about.
fn strip_reasons(tx: &dyn Sql, id: Uuid) -> Result<(), StoreError> {
    let row = tx.one(
        "SELECT reasons, score, CASE WHEN withheld = 1 AND released_at IS NULL THEN held_because END
         FROM submission WHERE id = ?1",
        values![id.as_bytes()],
    )?;
    let Some(reasons) = row.get::<Option<String>>(0)? else { return Ok(()) };
    // What cannot be read cannot be stripped either, and must not stay.
    let reasons: Vec<Reason> =
        rows::reasons(&reasons).unwrap_or_default().into_iter().map(Reason::without_detail).collect();
    tx.execute(
        "UPDATE submission SET reasons = ?2 WHERE id = ?1",
        values![id.as_bytes(), reasons_json(&reasons).to_string()],
    )?;
    // While screening holds it, the line that says why has the details as well. The operator's own words stay.
    let Some(because) = row.get::<Option<String>>(2)? else { return Ok(()) };
    let score: Option<u32> = row.get(1)?;
    let Some(threshold) = threshold(&because) else { return Ok(()) };
    let score = score.unwrap_or_default();
    let stripped = screening::Verdict { score, reasons, hold: true, suspicious: false, threshold };
    tx.execute(
        "UPDATE submission SET held_because = ?2 WHERE id = ?1",
        values![id.as_bytes(), stripped.because()],
    )
    .map(drop)
}

/// The threshold at the end of what [`screening::Verdict::because`] makes: it is kept nowhere else. None for a text without details.
fn threshold(because: &str) -> Option<u32> {
    because.strip_suffix(" points")?.rsplit(' ').next()?.parse().ok()
}

/// When something of that name was last done.
pub(in crate::store) fn remembered(tx: &dyn Sql, name: &str) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.row("SELECT value FROM meta WHERE name = ?1", values![name])?;
    row.map(|row| rows::time(i64::from_be_bytes(row.get(0)?))).transpose()
}

/// Notes when something of that name was done.
pub(in crate::store) fn remember(tx: &dyn Sql, name: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
        values![name, at.as_millisecond().to_be_bytes()],
    )?;
    Ok(())
}

pub(in crate::store) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
