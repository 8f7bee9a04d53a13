//! Claims due deliveries under a lease, in the caller's transaction: fetches candidates, lets [`Choose`]
//! decide which of them are sent, and begins their attempts.

use std::time::Duration;

use jiff::Timestamp;

use super::delivery_results::{self, DELIVERY, failures_condition};
use super::submission_rows::{self, SUBMISSION, read_submission};
use super::transaction::Transaction;
use super::{Dialect, Sql, values};
use crate::store::error::StoreError;
use crate::submission::delivery::{
    Candidates, Choose, ClaimRequest, Claimed, Claims, DailyQuota, DueDelivery, HIGH_VOLUME_RANK, Lease,
    NextDue, Route,
};
use crate::submission::delivery_outcome::{Cause, Outcome};
use crate::submission::schedule::{self, NextStep};
use crate::submission::visitor_mail::is_visitor_channel;
use frontdesk_limits::Gcra;

impl Transaction<'_> {
    /// Claims due deliveries that `choose` selects, up to the capacity of each channel: leases them, and
    /// records the start of their attempts. Skips deliveries with a lease in `under_way`, the attempts of
    /// this process. Returns one result for each of `wants`, in the same order. `channels` are the configured
    /// channels; on those with a daily quota, `Pace` limits first attempts for high-volume networks.
    ///
    /// Also switches a channel on if its target has changed, parks the waiting deliveries of one that is
    /// switched off, requeues attempts whose lease has expired, repairs due times in the far future, parks
    /// submissions that cannot be sent, and issues the links in mails to visitors.
    pub fn claim(
        &self,
        wants: &[ClaimRequest],
        channels: &[Route],
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
        choose: Choose,
    ) -> Result<Vec<Claims>, StoreError> {
        let mut all = Vec::with_capacity(wants.len());
        for want in wants {
            let channel = channels.iter().find(|channel| channel.name == want.target.name);
            let quota = channel.and_then(|channel| channel.quota.as_ref());
            let mut claims = self.claim_for_channel(want, quota, under_way, now, lease, choose)?;
            if is_visitor_channel(&want.target.name) {
                for claimed in &mut claims.claimed {
                    let token = self.issue_link_token(&want.target.name, claimed.lease.submission, now)?;
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

    /// Claims the deliveries of one channel, as [`Transaction::claim`] describes. If the channel is switched
    /// off, claims none and parks those that wait. The due times in the result follow the database's clock,
    /// and links are missing.
    fn claim_for_channel(
        &self,
        want: &ClaimRequest,
        quota: Option<&DailyQuota>,
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
        choose: Choose,
    ) -> Result<Claims, StoreError> {
        let (tx, channel, now) = (self.sql, &want.target.name, self.to_database_time(now));
        if self.refresh_switched_off(&want.target)? {
            delivery_results::park_waiting(tx, channel)?;
            return Ok(Claims { is_off: true, ..Claims::default() });
        }
        delivery_results::clamp_far_due_times(tx, channel, now)?;
        let mut pace = quota.map(|quota| Pace::load_for_update(self, quota, now)).transpose()?;
        let high_volume = pace.as_ref().map_or(usize::MAX, Pace::remaining);
        let mut claimed = Vec::new();
        for found in choose(want, self.candidates(want, high_volume, under_way, now)?) {
            if found.is_sending {
                // The lease of an earlier attempt has expired: send the delivery now only if it is to be
                // retried at once.
                if delivery_results::requeue(tx, &found, now)? != Some(now) {
                    continue;
                }
            } else if let Some(pace) = pace.as_mut().filter(|_| found.is_paced()) {
                // The rate limit applies only to first attempts for high-volume networks.
                pace.count_message();
            }
            claimed.extend(begin_attempt(tx, found, now, lease)?);
        }
        let mut next = NextDue { first: next_due(tx, channel, false)?, retry: next_due(tx, channel, true)? };
        let mut is_paced = false;
        if let Some(pace) = pace {
            pace.store(self)?;
            if pace.remaining() == 0 && next.first.is_some_and(|at| at <= now) {
                // Deliveries for high-volume networks wait until the pace of their mail account allows the
                // next message.
                let allowed_at = pace.allowed_at()?;
                next.first = next_of_low_volume(tx, channel)?.into_iter().chain([allowed_at]).min();
                is_paced = true;
            }
        }
        Ok(Claims { claimed, is_off: false, is_paused: self.is_paused(channel)?, is_paced, next })
    }

    /// The due deliveries among which `choose` selects, first attempts and retries. Leaves out those that are
    /// under way, those for which `want` has no capacity, and, if `high_volume` is zero, first attempts for
    /// high-volume networks. `now` and the result follow the database's clock. Parks deliveries that cannot
    /// be read. PostgreSQL locks the rows until the end of the transaction, and skips rows that are locked.
    pub(crate) fn candidates(
        &self,
        want: &ClaimRequest,
        high_volume: usize,
        under_way: &[Lease],
        now: Timestamp,
    ) -> Result<Candidates, StoreError> {
        let mut due = Vec::new();
        for (is_retry, capacity) in [(false, want.capacity.any), (true, want.capacity.retries)] {
            if capacity > 0 {
                let ranks = if high_volume > 0 || is_retry { i64::MAX } else { HIGH_VOLUME_RANK };
                // Read additional rows, because deliveries that are under way are removed below.
                let most = want.capacity.any + under_way.len();
                due.extend(candidates(self.sql, &want.target.name, is_retry, ranks, now, most, under_way)?);
            }
        }
        due.retain(|found: &DueDelivery| !found.is_leased(under_way));
        Ok(Candidates { due, high_volume })
    }
}

/// The table of deliveries, read by the index on ranks of first attempts or of retries. SQLite would
/// otherwise choose the index on due times.
fn table_by_rank(tx: &dyn Sql, is_retry: bool) -> String {
    let index = if is_retry { "delivery_again_rank" } else { "delivery_first_rank" };
    tx.dialect().table_with_index("delivery", index)
}

/// The lowest rank above `rank` among a channel's retries or its first attempts, due or not.
fn next_rank(tx: &dyn Sql, channel: &str, is_retry: bool, rank: i64) -> Result<Option<i64>, StoreError> {
    let next = format!(
        "SELECT rank FROM {} WHERE channel = ?1 AND rank > ?2 AND due_at IS NOT NULL AND {} ORDER BY rank LIMIT 1",
        table_by_rank(tx, is_retry),
        failures_condition(is_retry)
    );
    tx.value(&next, values![channel, rank])
}

/// Fetches the due first attempts, or the due retries, among which the order of deliveries chooses. For each
/// rank below `ranks`, these are the `most` deliveries that have been due the longest. The lowest rank that
/// has `most` deliveries also contributes its `most` newest ones.
///
/// However many deliveries are due, these are enough to choose `most` deliveries by rank, by due time and
/// newest first: of the ranks below the last of those that are chosen by rank, all deliveries are candidates.
/// So an attacker cannot hide a visitor's delivery behind others, except as the order of deliveries permits.
/// The number of ranks is small (see `intake::flood::rank`), and each is found by an index.
///
/// Parks those whose row is damaged, unless their attempts are in `under_way`.
fn candidates(
    tx: &dyn Sql,
    channel: &str,
    is_retry: bool,
    ranks: i64,
    now: Timestamp,
    most: usize,
    under_way: &[Lease],
) -> Result<Vec<DueDelivery>, StoreError> {
    // With PostgreSQL, skip rows that another replica is claiming.
    let due = |order: &str| {
        format!(
            "SELECT {DELIVERY} FROM {} WHERE channel = ?1 AND rank = ?2 AND due_at <= ?3 AND {} \
             ORDER BY due_at {order} LIMIT ?4 {}",
            table_by_rank(tx, is_retry),
            failures_condition(is_retry),
            tx.dialect().skip_locked_clause()
        )
    };
    let (oldest, newest) = (due("ASC"), due("DESC"));
    let mut found: Vec<DueDelivery> = Vec::new();
    let mut last = -1;
    while let Some(rank) = next_rank(tx, channel, is_retry, last)?.filter(|rank| *rank < ranks) {
        let values = values![channel, rank, now, most];
        let is_last_by_rank = found.len() < most;
        let of_rank = tx.query(&oldest, values)?;
        found.extend(delivery_results::read_or_park(tx, &of_rank, under_way, now)?);
        if of_rank.len() == most && is_last_by_rank {
            for newest in delivery_results::read_or_park(tx, &tx.query(&newest, values)?, under_way, now)? {
                if !found.iter().any(|other| other.submission == newest.submission) {
                    found.push(newest);
                }
            }
        }
        last = rank;
    }
    Ok(found)
}

/// The earliest time at which a first attempt (or a retry, with `is_retry`) is due or a lease ends. Ignores
/// times before 1970, which only damaged rows have: the next claim parks them.
fn next_due(tx: &dyn Sql, channel: &str, is_retry: bool) -> Result<Option<Timestamp>, StoreError> {
    let next = format!(
        "SELECT due_at FROM delivery WHERE channel = ?1 AND due_at >= 0 AND {} ORDER BY due_at LIMIT 1",
        failures_condition(is_retry)
    );
    tx.value(&next, values![channel])
}

/// When the next first attempt of a submission from a low-volume network is due, or its lease ends. May be in
/// the past.
fn next_of_low_volume(tx: &dyn Sql, channel: &str) -> Result<Option<Timestamp>, StoreError> {
    let due = format!(
        "SELECT due_at FROM {} WHERE channel = ?1 AND rank = ?2 AND due_at >= 0 AND {} ORDER BY due_at LIMIT 1",
        table_by_rank(tx, false),
        failures_condition(false)
    );
    let (mut next, mut last) = (None, -1);
    while let Some(rank) = next_rank(tx, channel, false, last)?.filter(|rank| *rank < HIGH_VOLUME_RANK) {
        next = next.into_iter().chain(tx.value(&due, values![channel, rank])?).min();
        last = rank;
    }
    Ok(next)
}

/// Records the start of an attempt, and leases its delivery. `None` if the submission is encrypted or cannot
/// be read: the attempt then counts as failed, and the delivery is parked.
fn begin_attempt(
    tx: &dyn Sql,
    found: DueDelivery,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Claimed>, StoreError> {
    let number = found.attempts.saturating_add(1);
    tx.execute(
        "INSERT INTO attempt (submission, channel, number, began_at) VALUES (?1, ?2, ?3, ?4)",
        values![found.submission, found.channel, number, now],
    )?;
    tx.execute(
        "UPDATE delivery SET state = 'sending', due_at = ?3, attempts = ?4 WHERE submission = ?1 AND channel = ?2",
        values![found.submission, found.channel, schedule::add_delay(now, lease), number],
    )?;
    let is_retry = found.is_retry();
    let lease = Lease { submission: found.submission, channel: found.channel, number };
    let outcome = match read_claimed(tx, lease.clone(), found.failures, is_retry, now) {
        Ok(Some(claimed)) => return Ok(Some(claimed)),
        Ok(None) => {
            Outcome::failed(Cause::Refused, "the submission is encrypted, so only its recipient can read it")
        }
        // An unreadable row must not block other deliveries. Other errors, such as those of a query for the
        // definition, may not occur again.
        Err(error) if error.is_caused_by_row() => {
            tracing::error!(id = %lease.submission, channel = lease.channel, %error, "cannot read a stored submission or its delivery, so the delivery is parked; see `frontdesk inbox show ID`");
            // Clear recipients that cannot be read, or they would make the operator's retry fail, too.
            if delivery_results::earlier_attempts(tx, &lease).is_err() {
                tx.execute(
                    "UPDATE delivery SET recipients = NULL WHERE submission = ?1 AND channel = ?2",
                    values![lease.submission, lease.channel],
                )?;
            }
            Outcome::failed(Cause::Refused, error.to_string())
        }
        Err(error) => return Err(error),
    };
    delivery_results::record_outcome(tx, &lease, &outcome, NextStep::Parked, now)?;
    Ok(None)
}

/// Reads the data for an attempt that begins at `now`. `None` if the submission is encrypted.
fn read_claimed(
    tx: &dyn Sql,
    lease: Lease,
    failures: u32,
    is_retry: bool,
    now: Timestamp,
) -> Result<Option<Claimed>, StoreError> {
    let row =
        tx.one(&format!("SELECT {SUBMISSION} FROM accepted s WHERE id = ?1"), values![lease.submission])?;
    let submission = read_submission(tx, &row)?;
    if submission.sealed.is_some() {
        return Ok(None);
    }
    let (uncertain, recipients) = delivery_results::earlier_attempts(tx, &lease)?;
    Ok(Some(Claimed {
        dated_at: if lease.number > 1 { delivery_results::message_date(tx, &lease, now)? } else { now },
        lease,
        submission,
        failures,
        uncertain,
        reached: recipients.reached,
        is_retry,
        link: None,
    }))
}

/// Limits how fast first attempts for high-volume networks use up an account's daily quota: 100 recipients at
/// once and 6 per hour, so at most 244 per day. Other submissions are not limited here, because each network
/// sends at most two of them per day.
///
/// For example, a hundred networks use 200 + 244 of the quota in a day if each submission is sent to one
/// recipient, and 400 + 244 if two channels or two recipients share the account. Mail providers usually allow
/// at least 500 a day.
///
/// The state of the limit (GCRA's theoretical arrival time) is in the database, so all replicas share it.
struct Pace {
    name: String,
    limit: Gcra,
    /// GCRA's theoretical arrival time, as Unix time in microseconds.
    arrival: i64,
    now: i64,
    is_changed: bool,
}

/// The maximum burst of first attempts for high-volume networks, in recipients.
const HIGH_VOLUME_BURST: u32 = 100;
/// Once the burst is used up, one more recipient is permitted each time this has passed.
const HIGH_VOLUME_STEP: Duration = Duration::from_mins(10);

impl Pace {
    /// Loads the limit of high-volume networks for the account that `quota` names, and locks it until the end
    /// of the transaction.
    fn load_for_update(tx: &Transaction<'_>, quota: &DailyQuota, now: Timestamp) -> Result<Pace, StoreError> {
        let name = format!("pace of {}", quota.account);
        let now = now.as_microsecond();
        if tx.sql.dialect() == Dialect::Postgres {
            // Create the row if it is missing, then lock it, so that other replicas wait before they claim.
            tx.sql.execute(
                "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                values![name, now.to_be_bytes()],
            )?;
            tx.sql.query("SELECT 1 FROM meta WHERE name = ?1 FOR UPDATE", values![name])?;
        }
        // A message to more recipients than the burst allows uses up the whole burst, but can still be sent.
        let step = HIGH_VOLUME_STEP * quota.recipients.clamp(1, HIGH_VOLUME_BURST);
        let limit = Gcra::new(step, HIGH_VOLUME_STEP * HIGH_VOLUME_BURST);
        let arrival = submission_rows::stored_number(tx.sql, &name)?.unwrap_or(now);
        Ok(Pace { name, limit, arrival, now, is_changed: false })
    }

    /// The number of messages that may be sent now, each to [`DailyQuota::recipients`] recipients.
    fn remaining(&self) -> usize {
        usize::try_from(self.limit.remaining(self.limit.debt(self.arrival, self.now))).unwrap_or(usize::MAX)
    }

    /// Counts a message to [`DailyQuota::recipients`] recipients, without checking that it is permitted. Not
    /// in the database before [`Self::store`].
    fn count_message(&mut self) {
        (_, self.arrival) = self.limit.count(self.arrival, self.now);
        self.is_changed = true;
    }

    fn store(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        if self.is_changed { submission_rows::store_number(tx.sql, &self.name, self.arrival) } else { Ok(()) }
    }

    /// When the next message may be sent if none may be sent now.
    fn allowed_at(&self) -> Result<Timestamp, StoreError> {
        let at = self.limit.charge(self.arrival, self.now).err().unwrap_or(self.now);
        Timestamp::from_microsecond(at).map_err(|_| StoreError::Damaged("a time is out of range"))
    }
}
