//! What the operator decides about submissions: again, hold, release, erase.
//!
//! Each function belongs into a transaction of the caller's.

use jiff::Timestamp;
use rusqlite::{Connection, params, params_from_iter};
use uuid::Uuid;

use super::fingerprint::Secret;
use super::read::condition;
use crate::inbox::store::{Erased, Retry, StoreError};

/// Queues parked and waiting deliveries, so that they are tried at once and begin their schedule anew. Channels that were
/// switched off or paused are believed in again where they have one of them, or where `retry` names them. Returns how many there are.
pub(super) fn retry(tx: &Connection, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
    let (chosen, mut values) = condition(&retry.which);
    let mut sql = format!(
        "state IN ({}) AND submission IN (SELECT s.id FROM submission s WHERE s.held_at IS NULL AND {chosen})",
        if retry.parked_only { "'parked'" } else { "'parked', 'waiting'" },
    );
    if let Some(channel) = &retry.channel {
        values.push(channel.clone().into());
        sql.push_str(&format!(" AND channel = ?{}", values.len()));
        tx.execute(
            "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL WHERE name = ?1",
            [channel],
        )?;
    }
    tx.execute(
        &format!(
            "UPDATE channel SET off_at = NULL, paused_at = NULL, answer = NULL
             WHERE name IN (SELECT channel FROM delivery WHERE {sql})"
        ),
        params_from_iter(&values),
    )?;
    values.push(now.as_millisecond().into());
    Ok(tx.execute(
        &format!(
            "UPDATE delivery SET state = 'waiting', due_at = ?{}, failures = 0, interrupted = 0 WHERE {sql}",
            values.len()
        ),
        params_from_iter(&values),
    )?)
}

/// Keeps back what is not delivered yet. Returns whether it was not held before, and not delivered by
/// every channel: then there is nothing to keep back.
pub(super) fn hold(tx: &Connection, id: Uuid, because: &str, now: Timestamp) -> Result<bool, StoreError> {
    let held = tx.execute(
        "UPDATE submission SET held_at = ?2, held_because = ?3 WHERE id = ?1 AND held_at IS NULL
         AND (EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state <> 'delivered')
              OR NOT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1))",
        params![id.as_bytes(), now.as_millisecond(), because],
    )? == 1;
    if held {
        tx.execute(
            "UPDATE delivery SET state = 'held', due_at = NULL
             WHERE submission = ?1 AND state IN ('waiting', 'parked')",
            [id.as_bytes()],
        )?;
    }
    Ok(held)
}

/// Delivers what was held. What screening said of it stays, so that one sees what it was wrong about. Returns whether the submission is there and was held.
pub(super) fn release(tx: &Connection, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let released = tx.execute(
        "UPDATE submission SET held_at = NULL, held_because = NULL, released_at = ?2
         WHERE id = ?1 AND held_at IS NOT NULL",
        params![id.as_bytes(), now.as_millisecond()],
    )?;
    tx.execute(
        "UPDATE delivery SET state = 'waiting', due_at = ?2, failures = 0, interrupted = 0
         WHERE submission = ?1 AND state = 'held'",
        params![id.as_bytes(), now.as_millisecond()],
    )?;
    Ok(released == 1)
}

/// How many submissions came from an e-mail address, in whatever case it was written.
pub(super) fn count_from(connection: &Connection, secret: &Secret, email: &str) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM submission WHERE sender = ?1";
    let count: i64 = connection.query_row(sql, [secret.sender(email)], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Removes everything that came from an e-mail address, in whatever case it was written.
pub(super) fn erase(tx: &Connection, secret: &Secret, email: &str) -> Result<Erased, StoreError> {
    tx.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS erased (id BLOB PRIMARY KEY) WITHOUT ROWID; DELETE FROM temp.erased",
    )?;
    let submissions = tx.execute(
        "INSERT INTO temp.erased SELECT id FROM submission WHERE sender = ?1",
        [secret.sender(email)],
    )?;
    let count = |what: &str| -> Result<usize, StoreError> {
        let sql = format!("SELECT count(*) FROM {what}");
        let count: i64 = tx.query_row(&sql, [], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    };
    let deliveries = count("delivery WHERE submission IN temp.erased")?;
    let delivered = count("delivery WHERE submission IN temp.erased AND state = 'delivered'")?;
    let attempts = count("attempt WHERE submission IN temp.erased")?;
    // What a channel last said may quote any of them.
    tx.execute(
        "UPDATE channel SET answer = NULL
         WHERE name IN (SELECT channel FROM delivery WHERE submission IN temp.erased)",
        [],
    )?;
    let fingerprints = tx.execute("DELETE FROM fingerprint WHERE submission IN temp.erased", [])?;
    tx.execute(
        "DELETE FROM pressure WHERE source IN (SELECT source FROM submission WHERE id IN temp.erased)",
        [],
    )?;
    // Deliveries and attempts go with them.
    tx.execute("DELETE FROM submission WHERE id IN temp.erased", [])?;
    tx.execute_batch("DELETE FROM temp.erased")?;
    Ok(Erased { submissions, deliveries, delivered, attempts, fingerprints, is_wiped: false })
}
