//! What the operator decides about submissions: again, hold, release, erase.
//!
//! Each function belongs into a transaction of the caller's.

use std::collections::BTreeSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::rows::condition;
use super::{Cell, Sql, bound, values};
use crate::inbox::store::fingerprint::Secret;
use crate::inbox::store::{Erased, Retry, StoreError};

/// Queues parked and waiting deliveries, so that they are tried at once and begin their schedule anew. Channels that were
/// switched off or paused are believed in again where they have one of them, or where `retry` names them. Returns how many there are.
pub(super) fn retry(tx: &dyn Sql, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
    let (chosen, mut values) = condition(&retry.which);
    let mut sql = format!(
        "state IN ({}) AND submission IN (SELECT s.id FROM accepted s WHERE s.held_at IS NULL AND {chosen})",
        if retry.parked_only { "'parked'" } else { "'parked', 'waiting'" },
    );
    if let Some(channel) = &retry.channel {
        values.push(Cell::Text(channel.clone()));
        sql.push_str(&format!(" AND channel = ?{}", values.len()));
        tx.execute(
            "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL WHERE name = ?1",
            values![channel],
        )?;
    }
    tx.execute(
        &format!(
            "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL
             WHERE name IN (SELECT channel FROM delivery WHERE {sql})"
        ),
        &bound(&values),
    )?;
    // What could not be processed is tried again as well.
    let set_aside = if retry.channel.is_none() {
        tx.execute(
            &format!(
                "UPDATE intake SET error = NULL WHERE id IN (SELECT s.id FROM accepted s WHERE s.error IS NOT NULL AND {chosen})"
            ),
            &bound(&values),
        )?
    } else {
        0
    };
    values.push(Cell::Integer(now.as_millisecond()));
    let deliveries = tx.execute(
        &format!(
            "UPDATE delivery SET state = 'waiting', due_at = ?{}, failures = 0, interrupted = 0 WHERE {sql}",
            values.len()
        ),
        &bound(&values),
    )?;
    Ok(deliveries + set_aside)
}

/// Keeps back what is not delivered yet. Returns whether it was not held before, or only because of a flood, and not delivered by
/// every channel: then there is nothing to keep back.
pub(super) fn hold(tx: &dyn Sql, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
    // The end of a flood does not release what the operator holds.
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

/// Delivers what was held. What screening said of it stays, so that one sees what it was wrong about. Returns whether the submission is there and was held.
pub(super) fn release(tx: &dyn Sql, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
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
    Ok(released == 1)
}

/// How many submissions came from an e-mail address, in whatever case it was written.
pub(super) fn count_from(sql: &dyn Sql, secret: &Secret, email: &str) -> Result<usize, StoreError> {
    sql.one("SELECT count(*) FROM accepted WHERE sender = ?1", values![secret.sender(email)])?.count(0)
}

/// Removes everything that came from an e-mail address, in whatever case it was written.
pub(super) fn erase(tx: &dyn Sql, secret: &Secret, email: &str) -> Result<Erased, StoreError> {
    let found =
        tx.query("SELECT id, source FROM accepted WHERE sender = ?1", values![secret.sender(email)])?;
    let mut ids = Vec::with_capacity(found.len());
    for row in &found {
        ids.push(row.get(0)?);
        tx.execute("DELETE FROM pressure WHERE source = ?1", values![row.get::<[u8; 16]>(1)?])?;
    }
    ids.sort_unstable();
    remove(tx, &ids)
}

/// Removes these submissions with their deliveries and attempts, and what channels last answered where one of them was sent. The ids
/// must be sorted.
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
    // What a channel last said may quote any of them.
    for channel in tried {
        tx.execute("UPDATE channel SET answer = NULL WHERE name = ?1", values![channel])?;
    }
    // The intake comes first: a row that is just being processed is waited for, and found where it is then. Deliveries and attempts go
    // with their submission.
    erased.submissions = tx.execute_in("DELETE FROM intake WHERE id", ids)?
        + tx.execute_in("DELETE FROM submission WHERE id", ids)?;
    Ok(erased)
}
