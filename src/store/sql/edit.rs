//! The operator's changes of submissions: retry, hold, release, and removal.
//!
//! The functions run in the caller's transaction.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::SUSPICIOUS_RANK;
use super::rows::{self, Filter, Removable, condition};
use super::{Cell, Sql, bound, values};
use crate::store::error::StoreError;
use crate::store::fingerprint::Secret;
use crate::submission::delivery::Route;

/// Selects deliveries to be retried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// The submissions. The filter's limit is ignored.
    pub which: Filter,
    /// Only deliveries of this channel.
    pub channel: Option<String>,
    /// Whether to leave out deliveries that wait for their next attempt.
    pub parked_only: bool,
}

/// The numbers of removed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Removed submissions.
    pub submissions: usize,
    pub deliveries: usize,
    /// Deliveries among them that had arrived at their receivers, which still have them.
    pub delivered: usize,
    pub attempts: usize,
    /// Whether the write-ahead log was truncated too, so that no file of the database contains removed data.
    pub is_wiped: bool,
}

impl Erased {
    /// Adds the numbers of another transaction.
    pub(super) fn add(&mut self, other: &Erased) {
        self.submissions += other.submissions;
        self.deliveries += other.deliveries;
        self.delivered += other.delivered;
        self.attempts += other.attempts;
    }
}

/// The deliveries, submissions and channels that a retry selects when it begins.
#[derive(Debug, Default)]
pub(crate) struct Retried {
    /// The deliveries of each channel, sorted by submission.
    deliveries: BTreeMap<String, Vec<Untried>>,
    /// Submissions that could not be processed.
    set_aside: Vec<[u8; 16]>,
    /// Channels to switch on again.
    channels: Vec<String>,
}

/// A delivery to be retried, unless an attempt has begun since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untried {
    submission: [u8; 16],
    attempts: u32,
}

/// A part of a retry that is small enough for one transaction.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Channels(&'a [String]),
    SetAside(&'a [[u8; 16]]),
    Deliveries(&'a str, &'a [Untried]),
}

impl Retried {
    /// Selects what a retry concerns: parked and waiting deliveries, submissions that could not be processed,
    /// and channels with one of the deliveries or named by `retry`. Visitors do not wait for this.
    pub fn find(sql: &dyn Sql, retry: &Retry) -> Result<Retried, StoreError> {
        let (chosen, mut values) = condition(&retry.which);
        let mut found = Retried::default();
        if retry.channel.is_none() {
            let set_aside =
                format!("SELECT s.id FROM accepted s WHERE s.error IS NOT NULL AND {chosen} ORDER BY s.id");
            let rows = sql.query(&set_aside, &bound(&values))?;
            found.set_aside = rows.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
        }
        let mut deliveries = format!(
            "SELECT submission, channel, attempts FROM delivery
             WHERE state IN ({}) AND submission IN (SELECT s.id FROM accepted s WHERE s.held_at IS NULL AND {chosen})",
            if retry.parked_only { "'parked'" } else { RETRIED },
        );
        if let Some(channel) = &retry.channel {
            values.push(Cell::Text(channel.clone()));
            deliveries.push_str(&format!(" AND channel = ?{}", values.len()));
        }
        for row in sql.query(&deliveries, &bound(&values))? {
            let untried = Untried { submission: row.get(0)?, attempts: row.get(2)? };
            match found.deliveries.get_mut(row.text(1)?) {
                Some(others) => others.push(untried),
                None => drop(found.deliveries.insert(row.get(1)?, vec![untried])),
            }
        }
        for deliveries in found.deliveries.values_mut() {
            deliveries.sort_unstable_by_key(|untried| untried.submission);
        }
        found.channels = found.deliveries.keys().chain(&retry.channel).cloned().collect();
        Ok(found)
    }

    /// The parts of the retry in order, one transaction each.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let channels = self.channels.chunks(rows::MAX_ROWS).map(Part::Channels);
        let set_aside = self.set_aside.chunks(rows::MAX_ROWS).map(Part::SetAside);
        let deliveries = self.deliveries.iter().flat_map(|(channel, deliveries)| {
            deliveries.chunks(rows::MAX_ROWS).map(move |deliveries| Part::Deliveries(channel, deliveries))
        });
        channels.chain(set_aside).chain(deliveries)
    }
}

/// The states of deliveries that can be retried.
const RETRIED: &str = "'parked', 'waiting'";

/// Executes a part of a retry: deliveries become due at once and start their schedule again, submissions that
/// were set aside are processed again, and channels are switched on. Returns the number of deliveries and
/// submissions. Deliveries that were attempted since the retry began are not changed.
pub(crate) fn retry(tx: &dyn Sql, part: &Part<'_>, now: Timestamp) -> Result<usize, StoreError> {
    match part {
        Part::Channels(names) => {
            for name in *names {
                tx.execute(
                    "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL WHERE name = ?1",
                    values![name],
                )?;
            }
            Ok(0)
        }
        Part::SetAside(ids) => {
            tx.execute_in("UPDATE intake SET error = NULL WHERE error IS NOT NULL AND id", ids)
        }
        Part::Deliveries(channel, deliveries) => {
            let ids: Vec<_> = deliveries.iter().map(|untried| untried.submission).collect();
            let select = format!(
                "SELECT channel, attempts, submission FROM delivery WHERE state IN ({RETRIED}) AND submission"
            );
            let mut unchanged = Vec::with_capacity(ids.len());
            for row in tx.query_in(&select, &ids, tx.dialect().lock())? {
                let (attempts, submission): (u32, [u8; 16]) = (row.get(1)?, row.get(2)?);
                let found = deliveries.binary_search_by_key(&submission, |untried| untried.submission).ok();
                if row.text(0)? == *channel && found.is_some_and(|at| deliveries[at].attempts == attempts) {
                    unchanged.push(submission);
                }
            }
            tx.execute_with_in(
                "UPDATE delivery SET state = 'waiting', due_at = ?1, failures = 0, interrupted = 0
                 WHERE channel = ?2 AND submission",
                values![now.as_millisecond(), channel],
                &unchanged,
            )
        }
    }
}

/// Holds a submission's unfinished deliveries. Returns whether the submission was not held before, or only
/// because of a flood; false also if every channel has delivered it.
pub(super) fn hold(tx: &dyn Sql, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
    // The end of a flood must not release submissions that the operator holds.
    let was_in_flood = tx.execute(
        "UPDATE submission SET flood = 0, withheld = 0, held_because = ?2 WHERE id = ?1 AND flood = 1",
        values![id.as_bytes(), because],
    )? == 1;
    if was_in_flood {
        return Ok(true);
    }
    let held = tx.execute(
        "UPDATE submission SET held_at = ?2, held_because = ?3 WHERE id = ?1 AND held_at IS NULL
         AND (EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state <> 'delivered')
              OR NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1))",
        values![id.as_bytes(), now.as_millisecond(), because],
    )? == 1;
    if held {
        tx.execute(
            "UPDATE delivery SET state = 'held', due_at = NULL
             WHERE submission = ?1 AND state IN ('waiting', 'parked')",
            values![id.as_bytes()],
        )?;
    }
    Ok(held)
}

/// Releases a held submission to the `channels` that take its form, and to those for which it has held
/// deliveries. Keeps the verdict of screening, so that false positives can be counted. Returns whether the
/// submission exists and was held.
///
/// Channels may have been added or renamed since the hold: missing deliveries are inserted.
pub(super) fn release(
    tx: &dyn Sql,
    id: Uuid,
    now: Timestamp,
    channels: &[Route],
) -> Result<bool, StoreError> {
    let released = tx.execute(
        "UPDATE submission SET held_at = NULL, held_because = NULL, flood = 0, released_at = ?2
         WHERE id = ?1 AND held_at IS NOT NULL",
        values![id.as_bytes(), now.as_millisecond()],
    )?;
    tx.execute(
        "UPDATE delivery SET state = 'waiting', due_at = ?2, failures = 0, interrupted = 0
         WHERE submission = ?1 AND state = 'held'",
        values![id.as_bytes(), now.as_millisecond()],
    )?;
    if released == 1 {
        add_deliveries(tx, id, Some(now), channels)?;
    }
    Ok(released == 1)
}

/// Inserts the deliveries that a submission lacks for the `channels` that take its form: due at a time, or
/// held. An encrypted submission gets none, because no channel can read it. Their rank is that of its other
/// deliveries, or a high one.
pub(super) fn add_deliveries(
    tx: &dyn Sql,
    id: Uuid,
    due_at: Option<Timestamp>,
    channels: &[Route],
) -> Result<(), StoreError> {
    let state = if due_at.is_some() { "waiting" } else { "held" };
    let due_at = due_at.map(Timestamp::as_millisecond);
    let submission = tx.one("SELECT form FROM submission WHERE id = ?1", values![id.as_bytes()])?;
    let form = submission.text(0)?;
    for channel in channels.iter().filter(|channel| channel.takes(form)) {
        tx.execute(
            "INSERT INTO delivery (submission, channel, state, due_at, form, rank)
             SELECT id, ?2, ?3, CAST(?4 AS bigint), form,
                 coalesce((SELECT max(rank) FROM delivery WHERE submission = ?1), ?5)
             FROM submission WHERE id = ?1 AND sealed IS NULL
             ON CONFLICT (submission, channel) DO NOTHING",
            values![id.as_bytes(), channel.name, state, due_at, SUSPICIOUS_RANK],
        )?;
    }
    Ok(())
}

/// The number of submissions from an e-mail address, without regard to case.
pub(super) fn count_from(sql: &dyn Sql, secret: &Secret, email: &str) -> Result<usize, StoreError> {
    sql.one("SELECT count(*) FROM accepted WHERE sender = ?1", values![secret.sender(email)])?.count(0)
}

/// The id of the submission that was accepted last.
pub(super) fn newest(sql: &dyn Sql) -> Result<Option<[u8; 16]>, StoreError> {
    let row = sql.row("SELECT id FROM accepted ORDER BY id DESC LIMIT 1", &[])?;
    row.map(|row| row.get(0)).transpose()
}

/// The next submissions from an e-mail address with ids after `after` and up to `last`, and their sources.
pub(super) fn page_from(
    sql: &dyn Sql,
    secret: &Secret,
    email: &str,
    after: [u8; 16],
    last: [u8; 16],
) -> Result<(Vec<Removable>, BTreeSet<[u8; 16]>), StoreError> {
    let page = format!(
        "SELECT s.id, {}, s.source FROM accepted s WHERE s.sender = ?1 AND s.id > ?2 AND s.id <= ?3
         ORDER BY s.id LIMIT {}",
        rows::size_of(sql.dialect(), "s"),
        rows::MAX_ROWS,
    );
    let rows = sql.query(&page, values![secret.sender(email), after, last])?;
    let page = rows.iter().map(|row| Removable::read(row, 0, 1)).collect::<Result<_, _>>()?;
    let sources = rows.iter().map(|row| row.get(2)).collect::<Result<_, _>>()?;
    Ok((page, sources))
}

/// Those of `ids` that exist, in ascending order. `lock` is the locking clause of the queries.
pub(super) fn accepted_among(
    sql: &dyn Sql,
    ids: &[[u8; 16]],
    lock: &str,
) -> Result<Vec<[u8; 16]>, StoreError> {
    // The intake comes first: the second query finds a row that is processed between the two.
    let mut found = sql.query_in("SELECT id FROM intake WHERE id", ids, lock)?;
    found.extend(sql.query_in("SELECT id FROM submission WHERE id", ids, lock)?);
    let mut ids = found.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// A page of ids, after `after`, of recorded repeats whose original no longer exists.
pub(super) fn orphaned_repeats(sql: &dyn Sql, after: [u8; 16]) -> Result<Vec<[u8; 16]>, StoreError> {
    let orphaned = format!(
        "SELECT r.id FROM repeat r WHERE r.id > ?1 AND NOT EXISTS (SELECT 1 FROM submission s WHERE s.id = r.submission)
         ORDER BY r.id LIMIT {}",
        rows::MAX_ROWS
    );
    sql.query(&orphaned, values![after])?.iter().map(|row| row.get(0)).collect()
}

/// Removes the records of these repeats.
pub(super) fn remove_repeats(tx: &dyn Sql, ids: &[[u8; 16]]) -> Result<(), StoreError> {
    tx.execute_in("DELETE FROM repeat WHERE id", ids).map(drop)
}

/// Removes these submissions with their deliveries and attempts, and the last answers of channels to which
/// one of them was sent. The ids must be sorted.
pub(super) fn remove(tx: &dyn Sql, ids: &[[u8; 16]]) -> Result<Erased, StoreError> {
    let mut erased = Erased::default();
    for row in tx.query_in("SELECT state, submission FROM delivery WHERE submission", ids, "")? {
        erased.deliveries += 1;
        erased.delivered += usize::from(row.text(0)? == "delivered");
    }
    let mut tried = BTreeSet::new();
    for row in tx.query_in("SELECT channel, submission FROM attempt WHERE submission", ids, "")? {
        erased.attempts += 1;
        tried.insert(row.get::<String>(0)?);
    }
    // A channel's last answer may quote any of them.
    for channel in tried {
        tx.execute("UPDATE channel SET answer = NULL WHERE name = ?1", values![channel])?;
    }
    // The intake comes first: a row that is being processed is waited for, and then found in the other table.
    // Deliveries and attempts are removed with their submission.
    erased.submissions = tx.execute_in("DELETE FROM intake WHERE id", ids)?
        + tx.execute_in("DELETE FROM submission WHERE id", ids)?;
    Ok(erased)
}
