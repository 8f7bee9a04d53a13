//! Claims deliveries under a lease, records their outcomes, and stores the state of channels, in the caller's
//! transaction.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::rows::{self, NEEDS_TEXT, SUBMISSION, TO_TEAM};
use super::transaction::Transaction;
use super::{Cell, Dialect, Row, Sql, bind_all, values};
use crate::store::error::StoreError;
use crate::submission::delivery::{
    Capacity, ChannelTarget, ClaimRequest, Claimed, Claims, DailyQuota, Lease, NextDue, Route,
};
use crate::submission::outcome::{AttemptFailure, Cause, Outcome, Recipients};
use crate::submission::schedule::{self, NextStep};
use crate::submission::verdict::{ScreeningReason, ScreeningVerdict};
use crate::submission::visitor::is_visitor_channel;

/// All times in parameters and results follow this process's clock.
impl Transaction<'_> {
    /// Requeues the attempts that an earlier process left unfinished, as [`Transaction::requeue_orphans`]
    /// does, and returns their number. Call this only while no other process is sending.
    pub fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        let count = self.requeue_orphans(&[], now)?;
        if self.sql.dialect() == Dialect::Sqlite {
            // Try paused channels again at once: the operator may have restarted the server to fix them.
            for channel in self.sql.query("SELECT name FROM channel WHERE paused_at IS NOT NULL", &[])? {
                let channel = channel.get::<String>(0)?;
                self.resume(&channel)?;
                let mut from = Some(now);
                while let Some(later) = from {
                    (_, from) = self.bring_forward(&channel, later, now)?;
                }
            }
        }
        self.clamp_due_times(now)?;
        Ok(count)
    }

    /// Requeues attempts that are recorded as begun but are not in `under_way`, and returns their number.
    /// Such attempts exist if the commit that recorded them was reported as failed. Only the process that
    /// sends deliveries may call this. With PostgreSQL, nothing is requeued, because other replicas may be
    /// sending the attempts.
    pub fn requeue_orphans(&self, under_way: &[Lease], now: Timestamp) -> Result<usize, StoreError> {
        if self.sql.dialect() == Dialect::Postgres {
            return Ok(0);
        }
        let begun = format!("SELECT {DELIVERY} FROM delivery WHERE state = 'sending'");
        let mut count = 0;
        for row in &self.sql.query(&begun, &[])? {
            let found = DueDelivery::from_row(row)?;
            if !found.has_lease_in(under_way) {
                requeue(self.sql, &found, self.to_database_time(now))?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Makes deliveries due now if they are scheduled for later than the retry schedule allows, which happens
    /// if the clock was set back in the meantime. `clamp_far_due_times` alone is not enough: after the clock
    /// is set back by a day, it would leave deliveries delayed by a day.
    pub fn clamp_due_times(&self, now: Timestamp) -> Result<(), StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now));
        let mut far = Vec::new();
        // First attempts and retries have separate partial indexes, so they need separate queries.
        for (again, and) in [(false, ""), (true, " AND coalesce(blame, '') NOT IN ('asked', 'uncertain')")] {
            // A loose index scan: find each channel, then its rows.
            let next = format!(
                "SELECT channel FROM delivery WHERE channel > ?1 AND due_at IS NOT NULL AND {} ORDER BY channel LIMIT 1",
                failures_condition(again)
            );
            let waiting = format!(
                "SELECT submission, failures, due_at FROM delivery
                 WHERE channel = ?1 AND due_at > ?2 AND state = 'waiting' AND {}{and}",
                failures_condition(again)
            );
            let mut channel = String::new();
            while let Some(row) = tx.row(&next, values![channel])? {
                channel = row.get(0)?;
                for row in tx.query(&waiting, values![channel, now.as_millisecond()])? {
                    let wait = schedule::longest_wait(row.get(1)?);
                    if row.get::<i64>(2)? > now.as_millisecond().saturating_add(to_millis(wait)) {
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

    /// Claims due deliveries, up to the capacity of each channel. `channels` are the configured channels; on
    /// those with a daily quota, `HighVolumePace` limits first attempts for high-volume networks.
    pub fn claim(
        &self,
        wants: &[ClaimRequest],
        channels: &[Route],
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claims>, StoreError> {
        let mut all = Vec::with_capacity(wants.len());
        for want in wants {
            let channel = channels.iter().find(|channel| channel.name == want.target.name);
            let quota = channel.and_then(|channel| channel.quota.as_ref());
            let mut claims =
                claim_for_channel(self, want, quota, under_way, self.to_database_time(now), lease)?;
            if is_visitor_channel(&want.target.name) {
                for claimed in &mut claims.claimed {
                    let token = self.link_token(&want.target.name, claimed.lease.submission, now)?;
                    claimed.link = token.map(|token| token.to_string());
                }
            }
            let NextDue { first, retry } = &mut claims.next;
            *first = first.map(|at| self.to_our_time(at));
            *retry = retry.map(|at| self.to_our_time(at));
            all.push(claims);
        }
        Ok(all)
    }

    /// Records the outcome of an attempt. Returns whether no channel needs the submission's text any more.
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
    /// now.
    pub fn extend_leases(
        &self,
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let ends = schedule::add_delay(self.to_database_time(now), lease).as_millisecond();
        for attempt in under_way {
            self.sql.execute(
                "UPDATE delivery SET due_at = ?4
                 WHERE submission = ?1 AND channel = ?2 AND state = 'sending' AND attempts = ?3",
                values![attempt.submission, attempt.channel, attempt.number, ends],
            )?;
        }
        Ok(())
    }

    /// Whether at least one channel has delivered a submission, to some of its recipients at least.
    pub fn is_confirmed(&self, id: Uuid) -> Result<bool, StoreError> {
        let confirmed = format!(
            "SELECT 1 FROM delivery WHERE submission = ?1 AND (state = 'delivered' OR recipients IS NOT NULL) AND {TO_TEAM}"
        );
        self.sql.exists(&confirmed, values![id])
    }

    /// Records that a channel is paused and being probed, and stores the receiver's reply.
    pub fn pause(&self, channel: &str, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        let pause = "INSERT INTO channel (name, paused_at, answer) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(channel.paused_at, ?2), answer = ?3";
        let now = self.to_database_time(now).as_millisecond();
        self.sql.execute(pause, values![channel, now, answer]).map(drop)
    }

    /// Records that a channel works again.
    pub fn resume(&self, channel: &str) -> Result<(), StoreError> {
        // Unless the channel is off, clear the stored answer: it is outdated and may quote a visitor.
        self.sql.execute("UPDATE channel SET paused_at = NULL, answer = CASE WHEN off_at IS NOT NULL THEN answer END WHERE name = ?1", values![channel]).map(drop)
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
            rows::MAX_ROWS
        );
        let rows = tx.query(&later, values![channel, from.as_millisecond(), now.as_millisecond()])?;
        let count = make_due(tx, channel, &rows, now)?;
        let last = rows.last().filter(|_| rows.len() == rows::MAX_ROWS);
        let from = last.map(|row| rows::to_timestamp(row.get(1)?)).transpose()?;
        Ok((count, from))
    }

    /// Makes up to `NEXT_DEFERRED` of a channel's deferred deliveries due, lowest ranks first. Call this
    /// after the receiver has accepted a message, because it may accept another one now. Retries for
    /// high-volume networks keep their due times.
    pub fn bring_deferred_forward(&self, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now));
        let deferred = format!(
            "SELECT submission FROM {}
             WHERE channel = ?1 AND rank >= ?3 AND rank < ?4 AND due_at > ?2 AND state = 'waiting' AND blame = 'channel' AND {}
             ORDER BY rank, due_at LIMIT {NEXT_DEFERRED}",
            tx.dialect().table_with_index("delivery", "delivery_again_turn"),
            failures_condition(true)
        );
        for ranks in QUIET_RANKS {
            let rows = tx.query(&deferred, values![channel, now.as_millisecond(), ranks.start, ranks.end])?;
            if !rows.is_empty() {
                return make_due(tx, channel, &rows, now).map(drop);
            }
        }
        Ok(())
    }

    /// Switches a channel off until its target changes or the operator retries one of its deliveries.
    pub fn switch_off(&self, target: &ChannelTarget, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        let switch_off = "INSERT INTO channel (name, target, off_at, answer) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET target = ?2, off_at = ?3, answer = ?4";
        let destination = self.secret.target(&target.destination);
        let now = self.to_database_time(now).as_millisecond();
        self.sql.execute(switch_off, values![target.name, destination, now, answer]).map(drop)
    }

    /// Replaces a submission's fields with the encrypted ones, unless a channel still has to deliver the
    /// submission. Returns whether the fields were replaced.
    pub fn seal(&self, id: Uuid, sealed: &[u8], channels: &[Route]) -> Result<bool, StoreError> {
        let tx = self.sql;
        // With PostgreSQL, prevent a release between the two statements.
        tx.query(
            &format!("SELECT 1 FROM submission WHERE id = ?1 {}", tx.dialect().row_lock_clause()),
            values![id],
        )?;
        let mut values = vec![Cell::Blob(id.as_bytes().to_vec())];
        let condition = has_nothing_to_deliver(channels, &mut values);
        if !tx.exists(
            &format!("SELECT 1 FROM submission s WHERE s.id = ?1 AND {condition}"),
            &bind_all(&values),
        )? {
            return Ok(false);
        }
        let is_sealed = tx.execute(
            "UPDATE submission SET fields = '{}', sealed = ?2 WHERE id = ?1 AND sealed IS NULL",
            values![id, sealed],
        )? == 1;
        if is_sealed {
            strip_reasons(tx, id)?;
            // A receiver's refusal may quote the submission.
            tx.execute(
                "UPDATE attempt SET answer = NULL WHERE submission = ?1 AND (delivered IS NULL OR delivered = 0)",
                values![id],
            )?;
        }
        Ok(is_sealed)
    }

    /// The time that [`Transaction::store_time`] stored under a name.
    pub fn stored_time(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let row = self.sql.row("SELECT value FROM meta WHERE name = ?1", values![name])?;
        row.map(|row| rows::to_timestamp(i64::from_be_bytes(row.get(0)?))).transpose()
    }

    pub fn store_time(&self, name: &str, at: Timestamp) -> Result<(), StoreError> {
        let store =
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
        self.sql.execute(store, values![name, at.as_millisecond().to_be_bytes()]).map(drop)
    }
}

/// The number of deferred deliveries that become due when a receiver accepts a message.
const NEXT_DEFERRED: usize = 2;

/// Makes the waiting retries in `rows` due at `now`, forgives failures like [`Transaction::bring_forward`],
/// and returns the number of retries. The first column of `rows` is the submission's id.
fn make_due(tx: &dyn Sql, channel: &str, rows: &[Row], now: Timestamp) -> Result<usize, StoreError> {
    let mut ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
    ids.sort_unstable();
    tx.execute_in(
        "UPDATE delivery SET due_at = ?1, failures = CASE WHEN failures > 1 AND (blame = 'channel' OR
             (SELECT received_at FROM submission WHERE id = delivery.submission) > ?3) THEN failures - 1 ELSE failures END
         WHERE channel = ?2 AND state = 'waiting' AND failures > 0 AND blame IN ('channel', 'unclear') AND submission",
        values![now.as_millisecond(), channel, now.as_millisecond() - to_millis(FORGIVENESS_AGE)],
        &ids,
    )
}

/// The lowest rank of a suspicious submission.
pub const SUSPICIOUS_RANK: i64 = 64;
/// The lowest rank of a submission from a network that has used up its daily allowance. Submissions from
/// networks within their allowance have a rank of at most 7: the bit length of the number of earlier
/// submissions from the network, which is capped at 72.
pub const HIGH_VOLUME_RANK: i64 = 8;

/// Whether the rank is that of a submission from a network that has used up its daily allowance.
pub fn is_high_volume(rank: i64) -> bool {
    rank % SUSPICIOUS_RANK >= HIGH_VOLUME_RANK
}

fn claim_for_channel(
    transaction: &Transaction<'_>,
    want: &ClaimRequest,
    quota: Option<&DailyQuota>,
    under_way: &[Lease],
    now: Timestamp,
    lease: Duration,
) -> Result<Claims, StoreError> {
    let (tx, channel) = (transaction.sql, &want.target.name);
    if is_switched_off(transaction, &want.target)? {
        for again in [false, true] {
            let park = format!(
                "UPDATE delivery SET state = 'parked', due_at = NULL
                 WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND {}",
                failures_condition(again)
            );
            tx.execute(&park, values![channel])?;
        }
        return Ok(Claims { is_off: true, ..Claims::default() });
    }
    clamp_far_due_times(tx, channel, now)?;
    let mut claimed = Vec::new();
    let mut pace = quota.map(|quota| HighVolumePace::load_for_update(transaction, quota, now)).transpose()?;
    let may_begin = pace.as_ref().map_or(usize::MAX, HighVolumePace::may_begin);
    let Capacity { any: places, retries: most_retries } = want.capacity;
    let most = places + under_way.len();
    let is_free = |found: &DueDelivery| !found.has_lease_in(under_way);
    let first = if places > 0 { due_first_attempts(tx, want, may_begin, now, most)? } else { Vec::new() };
    let retries = if most_retries > 0 { due_retries(tx, want, now, most)? } else { Vec::new() };
    let mut first = first.into_iter().filter(is_free).peekable();
    let mut retries = retries.into_iter().filter(is_free).take(most_retries).peekable();
    // First attempts precede retries of the same or a higher class. Sometimes a slot is reserved for a retry,
    // so that first attempts cannot block retries.
    let mut is_reserved = count_turns(want, AGAIN_EVERY) > 0;
    for _ in 0..places {
        let again = match (first.peek(), retries.peek()) {
            (Some(first), Some(retry)) => is_reserved || retry.class() < first.class(),
            (first, _) => first.is_none(),
        };
        is_reserved &= !again;
        let Some(found) = (if again { retries.next() } else { first.next() }) else { break };
        if found.is_sending {
            // The lease of an earlier attempt has expired.
            if requeue(tx, &found, now)? != Some(now) {
                continue;
            }
        } else if let Some(pace) = pace.as_mut().filter(|_| !again && found.is_high_volume()) {
            pace.count_message();
        }
        claimed.extend(begin_attempt(tx, found, again, now, lease)?);
    }
    let mut next = NextDue { first: next_due(tx, channel, false)?, retry: next_due(tx, channel, true)? };
    let mut is_paced = false;
    if let Some(pace) = pace {
        if pace.is_changed {
            transaction.store_time(&pace.name, pace.rested)?;
        }
        if pace.may_begin() == 0 && next.first.is_some_and(|at| at <= now) {
            // Deliveries for high-volume networks have to wait until their pace allows them.
            next.first =
                next_of_quiet_network(tx, channel)?.into_iter().chain([pace.next_allowed_at()]).min();
            is_paced = true;
        }
    }
    let is_paused =
        tx.exists("SELECT 1 FROM channel WHERE name = ?1 AND paused_at IS NOT NULL", values![channel])?;
    Ok(Claims { claimed, is_off: false, is_paused, is_paced, next })
}

/// Makes deliveries due now if they are scheduled for later than any schedule allows, which happens if the
/// clock was set back in the meantime. Changes up to 200 retries and 200 other deliveries per call.
fn clamp_far_due_times(tx: &dyn Sql, channel: &str, now: Timestamp) -> Result<(), StoreError> {
    for again in [false, true] {
        let furthest = if again { schedule::LONGEST_DELAY } else { LONGEST_WITHOUT_FAILURE };
        let far = now.as_millisecond().saturating_add(to_millis(furthest));
        let mend = format!(
            "UPDATE delivery SET due_at = ?3 WHERE channel = ?1 AND due_at > ?2 AND {0} AND submission IN
                 (SELECT submission FROM delivery WHERE channel = ?1 AND due_at > ?2 AND {0} ORDER BY due_at DESC LIMIT {1})",
            failures_condition(again),
            rows::MAX_ROWS
        );
        tx.execute(&mend, values![channel, far, now.as_millisecond()])?;
    }
    Ok(())
}

/// The maximum time until a delivery without failures is due: longer than any lease, and than any backoff
/// after an interruption.
const LONGEST_WITHOUT_FAILURE: Duration = Duration::from_mins(10);

const DELIVERY: &str = "submission, channel, state, attempts, failures, interrupted, rank";

struct DueDelivery {
    submission: Uuid,
    channel: String,
    is_sending: bool,
    attempts: u32,
    failures: u32,
    interrupted: u32,
    /// See `intake::flood::rank`.
    rank: i64,
}

impl DueDelivery {
    fn from_row(row: &Row) -> Result<DueDelivery, StoreError> {
        Ok(DueDelivery {
            submission: Uuid::from_bytes(row.get(0)?),
            channel: row.get(1)?,
            is_sending: row.get::<String>(2)? == "sending",
            attempts: row.get(3)?,
            failures: row.get(4)?,
            interrupted: row.get(5)?,
            rank: row.get(6)?,
        })
    }

    /// Whether the sender's network had used up its daily allowance, which makes it a high-volume network.
    fn is_high_volume(&self) -> bool {
        is_high_volume(self.rank)
    }

    /// Deliveries of lower classes are claimed first: low-volume networks before high-volume networks, and
    /// within each group, suspicious submissions last.
    fn class(&self) -> usize {
        2 * usize::from(self.is_high_volume()) + usize::from(self.rank >= SUSPICIOUS_RANK)
    }

    fn has_lease_in(&self, under_way: &[Lease]) -> bool {
        under_way.iter().any(|lease| lease.submission == self.submission && lease.channel == self.channel)
    }
}

/// Due first attempts, sorted by [`DueDelivery::class`]. Within a class, forms take turns, and within a form,
/// the lowest ranks come first, so that no single form or network blocks the others.
///
/// Returns at most `may_begin` deliveries for high-volume networks.
fn due_first_attempts(
    tx: &dyn Sql,
    want: &ClaimRequest,
    may_begin: usize,
    now: Timestamp,
    most: usize,
) -> Result<Vec<DueDelivery>, StoreError> {
    let channel = &want.target.name;
    let delivery = delivery_by_turn(tx);
    let forms = waiting_forms(tx, channel)?;
    // Skip rows that another replica is claiming.
    let lock = tx.dialect().skip_locked_clause();
    let due = format!(
        "SELECT {DELIVERY} FROM {delivery}
         WHERE channel = ?1 AND form = ?2 AND rank >= ?5 AND rank < ?6 AND due_at <= ?3 AND {}
         ORDER BY rank, due_at LIMIT ?4 {lock}",
        failures_condition(false)
    );
    let newest = due.replace("ORDER BY rank, due_at", "ORDER BY rank DESC, due_at DESC");
    let read = |statement: &str, form: &str, ranks: &Range<i64>, most: usize| {
        let rows =
            tx.query(statement, values![channel, form, now.as_millisecond(), most, ranks.start, ranks.end])?;
        rows.iter().map(DueDelivery::from_row).collect::<Result<Vec<_>, _>>()
    };
    let mut by_form: Vec<Vec<DueDelivery>> = Vec::with_capacity(forms.len());
    let ranks =
        if may_begin == 0 { QUIET_RANKS } else { [0..SUSPICIOUS_RANK, SUSPICIOUS_RANK..2 * SUSPICIOUS_RANK] };
    for form in &forms {
        let mut of_form = Vec::new();
        for ranks in &ranks {
            let mut oldest = read(&due, form, ranks, most)?;
            // In a backlog, about one attempt in two is for the newest delivery with the lowest rank, so that
            // a visitor who writes while a receiver is slow does not have to wait for the whole backlog.
            if oldest.len() == most && count_turns(want, NEWEST_EVERY) > 0 {
                let rank = oldest[0].rank;
                for found in read(&newest, form, &(rank..rank + 1), 1)? {
                    oldest.retain(|other| other.submission != found.submission);
                    of_form.push(found);
                }
            }
            of_form.append(&mut oldest);
        }
        by_form.push(of_form);
    }
    by_form.retain(|of_form| !of_form.is_empty());
    let count = by_form.len();
    let mut found = Vec::new();
    for (at, of_form) in by_form.into_iter().enumerate() {
        let turn = (at + pseudorandom_below(want.turn, FORM_TURN, count)) % count;
        let mut places = [0; 4];
        for due in of_form {
            let place = &mut places[due.class()];
            *place += 1;
            found.push((due.class(), *place, turn, due));
        }
    }
    found.sort_by_key(|(class, place, turn, _)| (*class, *place, *turn));
    let by_rank = found.into_iter().map(|(_, _, _, due)| due);
    let oldest = count_turns(want, OLDEST_EVERY);
    let mut found = if oldest > 0 { longest_due(tx, channel, false, now, oldest)? } else { Vec::new() };
    let is_oldest = |other: &DueDelivery| found.iter().any(|oldest| oldest.submission == other.submission);
    let rest: Vec<DueDelivery> = by_rank.filter(|other| !is_oldest(other)).collect();
    found.extend(rest);
    let mut high_volume = 0;
    found.retain(|found| {
        // An interrupted attempt was already counted when it began.
        let counts = found.is_high_volume() && !found.is_sending;
        high_volume += usize::from(counts);
        !counts || high_volume <= may_begin
    });
    Ok(found)
}

/// The table of deliveries, with the index on form and rank. SQLite would otherwise choose the index on due
/// time.
fn delivery_by_turn(tx: &dyn Sql) -> String {
    tx.dialect().table_with_index("delivery", "delivery_turn")
}

/// The forms with first attempts that are waiting on a channel.
fn waiting_forms(tx: &dyn Sql, channel: &str) -> Result<Vec<String>, StoreError> {
    let next_form = format!(
        "SELECT form FROM {} WHERE channel = ?1 AND form > ?2 AND due_at IS NOT NULL AND failures = 0
         ORDER BY form LIMIT 1",
        delivery_by_turn(tx)
    );
    // Include the empty form: older versions that share this database leave the column empty.
    let mut forms = vec![String::new()];
    while let Some(row) = tx.row(&next_form, values![channel, forms.last().map_or("", String::as_str)])? {
        forms.push(row.get(0)?);
    }
    Ok(forms)
}

/// When the next first attempt for a low-volume network is due.
fn next_of_quiet_network(tx: &dyn Sql, channel: &str) -> Result<Option<Timestamp>, StoreError> {
    let due = format!(
        "SELECT due_at FROM {} WHERE channel = ?1 AND form = ?2 AND rank = ?3 AND due_at IS NOT NULL AND failures = 0
         ORDER BY due_at LIMIT 1",
        delivery_by_turn(tx)
    );
    let mut next: Option<i64> = None;
    for form in waiting_forms(tx, channel)? {
        for rank in QUIET_RANKS.into_iter().flatten() {
            let found = tx.row(&due, values![channel, form, rank])?;
            next = next.into_iter().chain(found.map(|row| row.get(0)).transpose()?).min();
        }
    }
    next.map(rows::to_timestamp).transpose()
}

/// The ranks of submissions from low-volume networks: those within their daily allowance.
const QUIET_RANKS: [Range<i64>; 2] =
    [0..HIGH_VOLUME_RANK, SUSPICIOUS_RANK..SUSPICIOUS_RANK + HIGH_VOLUME_RANK];

/// Limits how fast first attempts for high-volume networks use up an account's daily quota: 100 recipients at
/// once and 6 per hour, so at most 244 per day. Other submissions are not limited here, because each network
/// sends at most two of them per day.
///
/// For example, a hundred networks use 200 + 244 of the quota in a day if each submission is sent to one
/// recipient, and 400 + 244 if two channels or two recipients share the account. Mail providers usually allow
/// at least 500 a day.
///
/// This is the generic cell rate algorithm. Its state is in the database, so all replicas share it.
struct HighVolumePace {
    name: String,
    now: Timestamp,
    /// When all messages sent so far stop counting.
    rested: Timestamp,
    /// How far one message moves `rested` ahead.
    step: Duration,
    is_changed: bool,
}

/// The maximum burst, in recipients.
const HIGH_VOLUME_BURST: u32 = 100;
/// How long each recipient counts towards the burst.
const HIGH_VOLUME_STEP: Duration = Duration::from_mins(10);

impl HighVolumePace {
    /// Loads an account's state, and locks it until the end of the transaction.
    fn load_for_update(
        tx: &Transaction<'_>,
        quota: &DailyQuota,
        now: Timestamp,
    ) -> Result<HighVolumePace, StoreError> {
        let name = format!("pace of {}", quota.account);
        if tx.sql.dialect() == Dialect::Postgres {
            // Create the row if it is missing, then lock it, so that other replicas wait before they claim.
            tx.sql.execute(
                "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                values![name, now.as_millisecond().to_be_bytes()],
            )?;
            tx.sql.query("SELECT 1 FROM meta WHERE name = ?1 FOR UPDATE", values![name])?;
        }
        let latest = schedule::add_delay(now, HIGH_VOLUME_STEP * (HIGH_VOLUME_BURST + 1));
        // Ignore a time after `latest`: it was written before the clock was set back.
        let rested = tx.stored_time(&name)?.filter(|at| (now..=latest).contains(at)).unwrap_or(now);
        // A message to more recipients than the burst allows uses up the whole burst, but can still be sent.
        let step = HIGH_VOLUME_STEP * quota.recipients.clamp(1, HIGH_VOLUME_BURST);
        Ok(HighVolumePace { name, now, rested, step, is_changed: false })
    }

    /// The number of messages that may be sent now.
    fn may_begin(&self) -> usize {
        let debt = Duration::try_from(self.rested.duration_since(self.now)).unwrap_or_default();
        let left = (HIGH_VOLUME_STEP * HIGH_VOLUME_BURST).saturating_sub(debt);
        usize::try_from(left.as_millis() / self.step.as_millis()).unwrap_or(usize::MAX)
    }

    fn count_message(&mut self) {
        self.rested = schedule::add_delay(self.rested, self.step);
        self.is_changed = true;
    }

    fn next_allowed_at(&self) -> Timestamp {
        let room = (HIGH_VOLUME_STEP * HIGH_VOLUME_BURST).saturating_sub(self.step);
        self.rested.checked_sub(room).unwrap_or(self.now)
    }
}

/// One in this many attempts, on average, is for the delivery that has been due the longest, regardless of
/// its rank, so that no delivery waits forever.
const OLDEST_EVERY: usize = 8;
/// One in this many attempts, on average, is for the newest delivery with the lowest rank.
const NEWEST_EVERY: usize = 2;
/// One in this many attempts, on average, is a retry, if one is due.
const AGAIN_EVERY: usize = 4;

/// Chooses, on average, one in `every` of the attempts that may begin now, and returns how many were chosen.
/// The choice is pseudorandom rather than periodic. Otherwise, if attempts begin one at a time, retries,
/// forms and the receiver's refusals could alternate in step, and some deliveries would never be sent.
fn count_turns(want: &ClaimRequest, every: usize) -> usize {
    (0..want.capacity.any)
        .filter(|n| pseudorandom_below(want.turn.saturating_add(*n), every as u64, every) == 0)
        .count()
}

/// A pseudorandom number below `below` for an attempt. Different values of `salt` give independent numbers.
fn pseudorandom_below(attempt: usize, salt: u64, below: usize) -> usize {
    let mixed = schedule::splitmix64(schedule::splitmix64(attempt as u64) ^ salt);
    usize::try_from(mixed % below as u64).unwrap_or_default()
}

/// The salt for choosing the first form. The other salts are `OLDEST_EVERY`, `NEWEST_EVERY` and
/// `AGAIN_EVERY`.
const FORM_TURN: u64 = 1;

/// Due retries, sorted by [`DueDelivery::class`], rank and due time.
fn due_retries(
    tx: &dyn Sql,
    want: &ClaimRequest,
    now: Timestamp,
    most: usize,
) -> Result<Vec<DueDelivery>, StoreError> {
    let channel = &want.target.name;
    let mut found: Vec<DueDelivery> = Vec::new();
    let due = format!(
        "SELECT {DELIVERY} FROM {}
         WHERE channel = ?1 AND rank >= ?4 AND rank < ?5 AND due_at <= ?2 AND {}
         ORDER BY rank, due_at LIMIT ?3 {}",
        tx.dialect().table_with_index("delivery", "delivery_again_turn"),
        failures_condition(true),
        tx.dialect().skip_locked_clause()
    );
    let [quiet, quiet_suspicious] = QUIET_RANKS;
    let high_volume = HIGH_VOLUME_RANK..SUSPICIOUS_RANK;
    let high_volume_suspicious = SUSPICIOUS_RANK + HIGH_VOLUME_RANK..2 * SUSPICIOUS_RANK;
    for ranks in [quiet, quiet_suspicious, high_volume, high_volume_suspicious] {
        if found.len() >= most {
            break;
        }
        let mut of_class = Vec::new();
        // Retries for high-volume networks could block each other, so sometimes those that have been due the
        // longest come first. Low-volume networks have too few retries to need this.
        if ranks.start == HIGH_VOLUME_RANK {
            of_class = longest_due(tx, channel, true, now, count_turns(want, OLDEST_EVERY))?;
        }
        for row in tx.query(&due, values![channel, now.as_millisecond(), most, ranks.start, ranks.end])? {
            of_class.push(DueDelivery::from_row(&row)?);
        }
        for retry in of_class {
            if !found.iter().any(|other| other.submission == retry.submission) {
                found.push(retry);
            }
        }
    }
    Ok(found)
}

/// Up to `most` due deliveries, longest due first.
fn longest_due(
    tx: &dyn Sql,
    channel: &str,
    again: bool,
    now: Timestamp,
    most: usize,
) -> Result<Vec<DueDelivery>, StoreError> {
    let lock = tx.dialect().skip_locked_clause();
    let due = format!(
        "SELECT {DELIVERY} FROM delivery WHERE channel = ?1 AND due_at <= ?2 AND {} ORDER BY due_at LIMIT ?3 {lock}",
        failures_condition(again)
    );
    tx.query(&due, values![channel, now.as_millisecond(), most])?.iter().map(DueDelivery::from_row).collect()
}

/// When the next first attempt or, with `again`, the next retry is due.
fn next_due(tx: &dyn Sql, channel: &str, again: bool) -> Result<Option<Timestamp>, StoreError> {
    let next = format!(
        "SELECT due_at FROM delivery WHERE channel = ?1 AND due_at IS NOT NULL AND {} ORDER BY due_at LIMIT 1",
        failures_condition(again)
    );
    tx.row(&next, values![channel])?.map(|row| rows::to_timestamp(row.get(0)?)).transpose()
}

/// The condition for retries or, if `again` is false, for first attempts. Not a parameter, so that SQLite can
/// use the partial index.
const fn failures_condition(again: bool) -> &'static str {
    if again { "failures > 0" } else { "failures = 0" }
}

/// Records the start of an attempt, and leases its delivery. `None` if the submission cannot be sent; its
/// delivery is parked.
fn begin_attempt(
    tx: &dyn Sql,
    found: DueDelivery,
    again: bool,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Claimed>, StoreError> {
    let number = found.attempts.saturating_add(1);
    tx.execute(
        "INSERT INTO attempt (submission, channel, number, began_at) VALUES (?1, ?2, ?3, ?4)",
        values![found.submission, found.channel, number, now.as_millisecond()],
    )?;
    let lease_ends = schedule::add_delay(now, lease).as_millisecond();
    tx.execute("UPDATE delivery SET state = 'sending', due_at = ?3, attempts = ?4 WHERE submission = ?1 AND channel = ?2", values![found.submission, found.channel, lease_ends, number])?;
    let lease = Lease { submission: found.submission, channel: found.channel, number };
    let row =
        tx.one(&format!("SELECT {SUBMISSION} FROM accepted s WHERE id = ?1"), values![lease.submission])?;
    let outcome = match rows::read_submission(&row) {
        Ok(submission) if submission.sealed.is_none() => {
            let (uncertain, recipients) = earlier_attempts(tx, &lease)?;
            return Ok(Some(Claimed {
                lease,
                submission,
                failures: found.failures,
                uncertain,
                reached: recipients.reached,
                is_retry: again,
                link: None,
            }));
        }
        Ok(_) => {
            Outcome::failed(Cause::Refused, "the submission is sealed, so only its recipient can read it")
        }
        // An unreadable row must not block other deliveries.
        Err(error) => Outcome::failed(Cause::Refused, error.to_string()),
    };
    record_outcome(tx, &lease, &outcome, NextStep::Parked, now)?;
    Ok(None)
}

/// The number of a delivery's attempts whose outcome is uncertain, and the recipients that earlier attempts
/// reached.
fn earlier_attempts(tx: &dyn Sql, lease: &Lease) -> Result<(u32, Recipients), StoreError> {
    let row = tx.one(
        "SELECT recipients, (SELECT count(*) FROM attempt WHERE submission = ?1 AND channel = ?2
                             AND ended_at IS NOT NULL AND delivered IS NULL)
         FROM delivery WHERE submission = ?1 AND channel = ?2",
        values![lease.submission, lease.channel],
    )?;
    let recipients = row.get::<Option<String>>(0)?.map(|text| rows::parse_recipients(&text)).transpose()?;
    Ok((u32::try_from(row.count(1)?).unwrap_or(u32::MAX), recipients.unwrap_or_default()))
}

/// Records which recipients have a delivery that others do not have.
fn store_recipients(tx: &dyn Sql, lease: &Lease, recipients: &Recipients) -> Result<(), StoreError> {
    let (_, mut stored) = earlier_attempts(tx, lease)?;
    stored.reached.extend(recipients.reached.iter().cloned());
    stored.reached.sort_unstable();
    stored.reached.dedup();
    stored.missing.clone_from(&recipients.missing);
    tx.execute(
        "UPDATE delivery SET recipients = ?3 WHERE submission = ?1 AND channel = ?2 AND state <> 'delivered'",
        values![lease.submission, lease.channel, json!(stored).to_string()],
    )
    .map(drop)
}

/// Records an interrupted attempt, and requeues its delivery. Returns the new due time; `None` if the
/// delivery is now held or parked.
fn requeue(tx: &dyn Sql, found: &DueDelivery, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    lock_against_hold_or_release(tx, found.submission)?;
    let interrupted = found.interrupted.saturating_add(1);
    let again = match schedule::next_step_after_interruption(interrupted, now) {
        NextStep::RetryAt(at) => Some(at),
        NextStep::Delivered | NextStep::Parked => None,
    };
    let due_at = again.map(Timestamp::as_millisecond);
    let row = tx.one(
        &format!(
            "UPDATE delivery SET {REQUEUED}, interrupted = ?3 WHERE submission = ?1 AND channel = ?2
             RETURNING state = 'waiting'"
        ),
        values![found.submission, found.channel, interrupted, due_at],
    )?;
    let waits: bool = row.get(0)?;
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

/// See [`Transaction::record`]. An outcome that is reported after the lease has expired is recorded, but
/// changes the delivery only if the attempt succeeded.
fn record_outcome(
    tx: &dyn Sql,
    lease: &Lease,
    outcome: &Outcome,
    verdict: NextStep,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (delivered, answer, blame): (Option<i64>, _, _) = match outcome {
        Outcome::Delivered(answer) => (Some(1), answer, None),
        Outcome::Failed(failure) => {
            // Ignore a `Retry-After` if the schedule's next attempt is later anyway.
            let asked = failure.retry_after.filter(|asked| match verdict {
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
        values![lease.submission, lease.channel, lease.number, now.as_millisecond(), delivered, answer],
    )?;
    if verdict == NextStep::Delivered {
        tx.execute(
            "UPDATE delivery SET state = 'delivered', due_at = NULL, interrupted = 0, blame = NULL, recipients = NULL
             WHERE submission = ?1 AND channel = ?2",
            values![lease.submission, lease.channel],
        )?;
    } else {
        let due_at = if let NextStep::RetryAt(at) = verdict { Some(at.as_millisecond()) } else { None };
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

/// Whether a channel is switched off. If its target has changed, switches it on again.
fn is_switched_off(tx: &Transaction<'_>, target: &ChannelTarget) -> Result<bool, StoreError> {
    let off = "SELECT target FROM channel WHERE name = ?1 AND off_at IS NOT NULL";
    let off = tx.sql.row(off, values![target.name])?;
    match off.map(|row| row.get::<Option<[u8; 16]>>(0)).transpose()? {
        None => Ok(false),
        Some(hash) if hash == Some(tx.secret.target(&target.destination)) => Ok(true),
        Some(_) => {
            tx.sql.execute(
                "UPDATE channel SET off_at = NULL, answer = NULL WHERE name = ?1",
                values![target.name],
            )?;
            Ok(false)
        }
    }
}

/// A condition on `submission s`: true if no channel still has to deliver the submission. Appends the
/// condition's parameters to `values`. A held submission must stay readable for every configured channel that
/// would deliver it after a release: the channels with a delivery for it, and those that accept its form.
/// Mails to visitors need the text too, unless they have failed for good.
pub(super) fn has_nothing_to_deliver(channels: &[Route], values: &mut Vec<Cell>) -> String {
    let mut bind = |text: &str| {
        values.push(Cell::Text(text.to_owned()));
        format!("?{}", values.len())
    };
    let mut is_configured = vec!["FALSE".to_owned()];
    let mut is_missing = String::new();
    for channel in channels {
        let name = bind(&channel.name);
        is_configured.push(format!("channel = {name}"));
        if channel.visitor.is_some() {
            continue;
        }
        let forms: Vec<String> = channel.forms.iter().map(|form| bind(form)).collect();
        let takes_form =
            if forms.is_empty() { "TRUE".to_owned() } else { format!("s.form IN ({})", forms.join(", ")) };
        is_missing.push_str(&format!(
            " AND NOT (s.held_at IS NOT NULL AND {takes_form}
              AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND channel = {name}))"
        ));
    }
    format!(
        "NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND {NEEDS_TEXT}
         AND (s.held_at IS NULL OR state = 'sending' OR {})){is_missing}",
        is_configured.join(" OR ")
    )
}

/// Removes the details of a submission's screening reasons, because they could identify a person.
fn strip_reasons(tx: &dyn Sql, id: Uuid) -> Result<(), StoreError> {
    let row = tx.one(
        "SELECT reasons, score, CASE WHEN withheld = 1 AND released_at IS NULL THEN held_because END
         FROM submission WHERE id = ?1",
        values![id],
    )?;
    let Some(reasons) = row.get::<Option<String>>(0)? else { return Ok(()) };
    // Remove reasons that cannot be parsed: they may contain details.
    let reasons: Vec<ScreeningReason> = rows::parse_reasons(&reasons)
        .unwrap_or_default()
        .into_iter()
        .map(ScreeningReason::without_detail)
        .collect();
    tx.execute("UPDATE submission SET reasons = ?2 WHERE id = ?1", values![id, json!(reasons).to_string()])?;
    // The reason for a hold by screening contains the details too. It ends with the threshold, which is not
    // stored anywhere else. An operator's reason is kept.
    let Some(because) = row.get::<Option<String>>(2)? else { return Ok(()) };
    let threshold = because.strip_suffix(" points").and_then(|text| text.rsplit(' ').next()?.parse().ok());
    let Some(threshold) = threshold else { return Ok(()) };
    let score = row.get::<Option<u32>>(1)?.unwrap_or_default();
    let stripped = ScreeningVerdict { score, reasons, hold: true, suspicious: false, threshold };
    tx.execute("UPDATE submission SET held_because = ?2 WHERE id = ?1", values![id, stripped.because()])
        .map(drop)
}

/// The duration in milliseconds, capped at `i64::MAX`.
pub(crate) fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
