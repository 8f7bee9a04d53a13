//! The canary: its test submissions (table `canary`, and marked rows of `intake`) and the result of its last
//! run (in `meta`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::inbox_reader::InboxReader;
use super::intake::PendingRow;
use super::submission_rows::store_meta;
use super::transaction::Transaction;
use super::{Sql, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Hash;

/// The name under which the table `meta` stores the [`CanaryStatus`].
const STATUS: &str = "canary status";
/// The name under which the table `meta` stores when the last run began.
const LAST_RUN: &str = "canary run";

/// The result of the canary's last run, for commands, the web interface, metrics and the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryStatus {
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub is_ok: bool,
    /// The configured time between two runs, in seconds.
    pub every: u64,
    /// When the last successful run ended.
    pub last_success_at: Option<Timestamp>,
    /// When the first run of the current outage ended; `None` if the last run succeeded.
    pub failing_since: Option<Timestamp>,
    /// Whether the team has been notified of the current outage.
    pub is_notified: bool,
    /// The result of the run in one sentence, for operators.
    pub summary: String,
    /// All steps of the run, in the format of the crate `frontdesk-canary`.
    pub report: serde_json::Value,
}

impl CanaryStatus {
    /// Whether the next run should have ended by now: the last one is older than twice the time between two
    /// runs.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.ended_at).as_secs();
        u64::try_from(age).is_ok_and(|age| age > self.every.saturating_mul(2))
    }
}

/// The progress of one of the canary's test submissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryProgress {
    pub is_accepted: bool,
    pub is_processed: bool,
}

impl Transaction<'_> {
    /// When the last run began; `None` before the first one.
    pub fn last_canary_run(&self) -> Result<Option<Timestamp>, StoreError> {
        self.stored_time(LAST_RUN)
    }

    /// Records the start of a run and its test submissions, given as pairs of a nonce and a form.
    pub fn begin_canary_run(&self, sent: &[(Hash, &str)], now: Timestamp) -> Result<(), StoreError> {
        self.store_time(LAST_RUN, now)?;
        for (nonce, form) in sent {
            let insert = "INSERT INTO canary (nonce, form, sent_at) VALUES (?1, ?2, ?3)";
            self.sql.execute(insert, values![nonce, form, now])?;
        }
        Ok(())
    }

    /// Uses up a token. Returns false if it was used before, was issued for another form, or if its run has
    /// ended: the token then marks no submission as a test.
    pub fn use_canary(&self, nonce: &Hash, form: &str, now: Timestamp) -> Result<bool, StoreError> {
        let accept =
            "UPDATE canary SET accepted_at = ?3 WHERE nonce = ?1 AND form = ?2 AND accepted_at IS NULL";
        Ok(self.sql.execute(accept, values![nonce, form, now])? == 1)
    }

    /// Removes processed rows of the canary from the intake, and records that they were processed.
    pub(crate) fn finish_canaries(&self, rows: &[PendingRow], now: Timestamp) -> Result<(), StoreError> {
        for row in rows {
            let processed = "UPDATE canary SET processed_at = ?2 WHERE nonce = ?1";
            self.sql.execute(processed, values![row.canary, now])?;
            self.sql.execute("DELETE FROM intake WHERE id = ?1", values![row.id])?;
        }
        Ok(())
    }

    /// The progress of a test submission. Not accepted if the nonce is unknown, such as after the end of its
    /// run, which removes it.
    pub fn canary_progress(&self, nonce: &Hash) -> Result<CanaryProgress, StoreError> {
        let columns = "accepted_at IS NOT NULL AS is_accepted, processed_at IS NOT NULL AS is_processed";
        let row = self.sql.row(&format!("SELECT {columns} FROM canary WHERE nonce = ?1"), values![nonce])?;
        let Some(row) = row else { return Ok(CanaryProgress::default()) };
        Ok(CanaryProgress { is_accepted: row.get("is_accepted")?, is_processed: row.get("is_processed")? })
    }

    /// Removes from `intake` and `canary` the test submissions that were sent before this time.
    pub fn remove_canaries(&self, before: Timestamp) -> Result<(), StoreError> {
        let waiting = "DELETE FROM intake WHERE canary IS NOT NULL AND received_at < ?1";
        self.sql.execute(waiting, values![before])?;
        self.sql.execute("DELETE FROM canary WHERE sent_at < ?1", values![before]).map(drop)
    }

    /// Removes the test submissions of a run that has ended.
    pub fn end_canary_run(&self, nonces: &[Hash]) -> Result<(), StoreError> {
        for nonce in nonces {
            self.sql.execute("DELETE FROM intake WHERE canary = ?1", values![nonce])?;
            self.sql.execute("DELETE FROM canary WHERE nonce = ?1", values![nonce])?;
        }
        Ok(())
    }

    /// The result of the canary's last run; see [`InboxReader::canary_status`].
    pub fn canary_status(&self) -> Result<Option<CanaryStatus>, StoreError> {
        status(self.sql)
    }

    pub fn remove_canary_status(&self) -> Result<(), StoreError> {
        self.sql.execute("DELETE FROM meta WHERE name = ?1", values![STATUS]).map(drop)
    }

    /// Stores the result of a run, replacing the previous result.
    pub fn store_canary_status(&self, status: &CanaryStatus) -> Result<(), StoreError> {
        let json = serde_json::to_vec(status).map_err(|_| {
            StoreError::Unprocessable("the canary's status cannot be written as JSON".to_owned())
        })?;
        store_meta(self.sql, STATUS, &json)
    }
}

impl InboxReader {
    /// The result of the canary's last run. `None` before the first one has ended, after its removal, or if
    /// another version has stored it in another format.
    pub fn canary_status(&self) -> Result<Option<CanaryStatus>, StoreError> {
        status(&*self.sql)
    }
}

/// Reads the result of the canary's last run; see [`InboxReader::canary_status`].
fn status(sql: &dyn Sql) -> Result<Option<CanaryStatus>, StoreError> {
    let json: Option<Vec<u8>> = sql.value("SELECT value FROM meta WHERE name = ?1", values![STATUS])?;
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}
