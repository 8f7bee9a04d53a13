//! Releases and removes submissions, in the caller's transaction.

use std::collections::BTreeSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::confirmation::{self, confirmation_rule};
use super::{Sql, values};
use crate::store::error::StoreError;
use crate::submission::delivery::{Route, SUSPICIOUS_RANK, choose};
use crate::submission::parse_fields;
use crate::submission::route::reads_fields;
use crate::submission::visitor_mail::is_visitor_channel;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub submissions: usize,
    pub deliveries: usize,
    /// How many of the removed deliveries were complete. Their receivers still have the content.
    pub delivered: usize,
    pub attempts: usize,
    /// Whether the write-ahead log was truncated, so that no file of the database contains removed data.
    pub is_wiped: bool,
}

impl Erased {
    /// Adds the counts from another transaction.
    pub(super) fn add(&mut self, other: &Erased) {
        self.submissions += other.submissions;
        self.deliveries += other.deliveries;
        self.delivered += other.delivered;
        self.attempts += other.attempts;
    }
}

/// Releases a held submission: makes its held deliveries due with a fresh retry schedule, and inserts missing
/// ones, because channels may have been added or renamed in the meantime. Ends the wait for a confirmation.
/// Keeps the screening verdict, so that false positives can be counted. Returns whether the submission exists
/// and was held.
///
/// If the form needs a confirmation that has not been asked for, asks for it instead: the submission stays
/// held, and the result is true.
pub(super) fn release(
    tx: &dyn Sql,
    id: Uuid,
    now: Timestamp,
    channels: &[Route],
) -> Result<bool, StoreError> {
    if await_confirmation(tx, id, now, channels)? {
        return Ok(true);
    }
    confirmation::close(tx, id, "released")?;
    let released = tx.execute(
        "UPDATE submission SET held_at = NULL, held_because = NULL, held_as_spam = 0, flood = 0, released_at = ?2
         WHERE id = ?1 AND held_at IS NOT NULL",
        values![id, now],
    )?;
    tx.execute(
        "UPDATE delivery SET state = 'waiting', due_at = ?2, failures = 0, interrupted = 0
         WHERE submission = ?1 AND state = 'held'",
        values![id, now],
    )?;
    if released == 1 {
        add_deliveries(tx, id, Some(now), channels)?;
    }
    Ok(released == 1)
}

/// If a held, unencrypted submission needs a confirmation and none has been asked for, asks for it, records
/// the release, and returns true. The submission then stays held, for this reason only, until its visitor
/// confirms the address, or until the next release.
fn await_confirmation(
    tx: &dyn Sql,
    id: Uuid,
    now: Timestamp,
    channels: &[Route],
) -> Result<bool, StoreError> {
    if !channels.iter().any(|route| route.visitor.is_some()) {
        return Ok(false);
    }
    // With PostgreSQL, lock the row, so that only one of several concurrent releases asks for confirmation.
    let lock = tx.dialect().row_lock_clause();
    tx.query(&format!("SELECT 1 FROM submission WHERE id = ?1 {lock}"), values![id])?;
    let held = "SELECT form, coalesce((SELECT max(rank) FROM delivery WHERE submission = ?1), 0) AS rank
         FROM submission WHERE id = ?1 AND held_at IS NOT NULL AND sealed IS NULL
         AND NOT EXISTS (SELECT 1 FROM confirmation WHERE submission = ?1)";
    let Some(row) = tx.row(held, values![id])? else { return Ok(false) };
    let Some(rule) = confirmation_rule(channels, row.text("form")?) else { return Ok(false) };
    tx.execute(
        "UPDATE submission SET flood = 0, released_at = ?2, held_at = ?2, held_because = ?3, held_as_spam = 0
         WHERE id = ?1",
        values![id, now, confirmation::UNCONFIRMED],
    )?;
    confirmation::open(tx, id, now, row.get("rank")?, rule)?;
    Ok(true)
}

/// Inserts a submission's missing deliveries for the `channels` that get it ([`choose`]). They are due at
/// `due_at`, or held if `due_at` is `None`. An encrypted submission gets no deliveries, because no channel
/// can read it. The new deliveries get the highest rank of the submission's other deliveries, or
/// [`SUSPICIOUS_RANK`] if there are no others. Returns the number of new deliveries. Fails if the submission
/// is not stored, or not processed yet.
pub(super) fn add_deliveries(
    tx: &dyn Sql,
    id: Uuid,
    due_at: Option<Timestamp>,
    channels: &[Route],
) -> Result<usize, StoreError> {
    let state = if due_at.is_some() { "waiting" } else { "held" };
    let row = tx.one("SELECT form, fields FROM submission WHERE id = ?1", values![id])?;
    let form = row.text("form")?;
    let fields = if reads_fields(channels, form) {
        parse_fields(row.text("fields")?.as_bytes()).map_err(StoreError::Damaged)?
    } else {
        Vec::new()
    };
    let mut count = 0;
    for channel in choose(channels, form, &fields) {
        count += tx.execute(
            "INSERT INTO delivery (submission, channel, state, due_at, rank)
             SELECT id, ?2, ?3, CAST(?4 AS bigint),
                 coalesce((SELECT max(rank) FROM delivery WHERE submission = ?1), ?5)
             FROM submission WHERE id = ?1 AND sealed IS NULL
             ON CONFLICT (submission, channel) DO NOTHING",
            values![id, channel.name, state, due_at, SUSPICIOUS_RANK],
        )?;
    }
    Ok(count)
}

/// Returns those `ids` for which a submission exists, processed or not, in ascending order and each once.
/// `ids` must be sorted. `lock` is the locking clause for the queries.
pub(in crate::store) fn accepted_among(
    sql: &dyn Sql,
    ids: &[[u8; 16]],
    lock: &str,
) -> Result<Vec<[u8; 16]>, StoreError> {
    // Query the intake first: in the other order, both queries would miss a row that is processed in between.
    let mut found = sql.query_in("SELECT id FROM intake WHERE", "id", ids, lock)?;
    found.extend(sql.query_in("SELECT id FROM submission WHERE", "id", ids, lock)?);
    // Remove duplicates: both queries find a row that is processed in between.
    let ids = found.iter().map(|row| row.get("id")).collect::<Result<BTreeSet<_>, StoreError>>()?;
    Ok(ids.into_iter().collect())
}

/// Removes these submissions with their deliveries, attempts, notes, annotations and confirmations, and the
/// last answers of all channels that have attempted to deliver them. Lessons and the ids of repeats stay. The
/// ids must be sorted and distinct. The counts of deliveries exclude mails to visitors; the count of attempts
/// includes theirs.
pub(super) fn remove_submissions(tx: &dyn Sql, ids: &[[u8; 16]]) -> Result<Erased, StoreError> {
    let mut erased = Erased::default();
    for row in tx.query_in("SELECT state, channel FROM delivery WHERE", "submission", ids, "")? {
        // Do not count mails to visitors, which contain none of the submission's content.
        if !is_visitor_channel(row.text("channel")?) {
            erased.deliveries += 1;
            erased.delivered += usize::from(row.text("state")? == "delivered");
        }
    }
    let mut tried = BTreeSet::new();
    for row in tx.query_in("SELECT channel FROM attempt WHERE", "submission", ids, "")? {
        erased.attempts += 1;
        tried.insert(row.get::<String>("channel")?);
    }
    // Clear the stored answer of each channel, because it may quote a removed submission.
    for channel in tried {
        tx.execute("UPDATE channel SET answer = NULL WHERE name = ?1", values![channel])?;
    }
    // Delete from the intake first: this waits for a row that is being processed, and the second statement
    // then finds it in the other table.
    erased.submissions = tx.execute_in("DELETE FROM intake WHERE", "id", &[], ids)?
        + tx.execute_in("DELETE FROM submission WHERE", "id", &[], ids)?;
    Ok(erased)
}
