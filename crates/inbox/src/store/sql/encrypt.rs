//! Replaces the fields of submissions that no channel has to deliver any more with encrypted ones.

use serde_json::json;
use uuid::Uuid;

use super::submission_rows::{self, NEEDS_TEXT};
use super::transaction::Transaction;
use super::{Cell, Sql, bind_all, values};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use frontdesk_screening::verdict::ScreeningReason;

impl Transaction<'_> {
    /// Replaces a submission's fields and the source of the lead with their encrypted form. Also removes the
    /// details of its screening reasons, and receivers' replies to failed attempts. Changes nothing and
    /// returns false if a channel still has to deliver the submission, or if it is already encrypted or not
    /// processed.
    pub fn seal(&self, id: Uuid, sealed: &[u8], channels: &[Route]) -> Result<bool, StoreError> {
        let tx = self.sql;
        // With PostgreSQL, lock the row, to prevent a release between the check and the update.
        tx.query(
            &format!("SELECT 1 FROM submission WHERE id = ?1 {}", tx.dialect().row_lock_clause()),
            values![id],
        )?;
        let mut values = vec![Cell::Blob(id.as_bytes().to_vec())];
        let condition = has_nothing_to_deliver(channels, &mut values);
        let settled = format!("SELECT 1 FROM submission s WHERE s.id = ?1 AND {condition}");
        if !tx.exists(&settled, &bind_all(&values))? {
            return Ok(false);
        }
        let is_sealed = tx.execute(
            "UPDATE submission SET fields = '{}', lead = NULL, sealed = ?2 WHERE id = ?1 AND sealed IS NULL",
            values![id, sealed],
        )? == 1;
        if is_sealed {
            strip_reasons(tx, id)?;
            // Clear the answers of attempts that failed: a receiver's refusal may quote the submission.
            tx.execute(
                "UPDATE attempt SET answer = NULL WHERE submission = ?1 AND (delivered IS NULL OR delivered = 0)",
                values![id],
            )?;
        }
        Ok(is_sealed)
    }
}

/// Removes the details of a submission's screening reasons, because they could identify a person. Removes all
/// reasons if one is malformed, and those with unknown signals, because they may contain details.
fn strip_reasons(tx: &dyn Sql, id: Uuid) -> Result<(), StoreError> {
    let reasons = tx.one_value("SELECT reasons FROM submission WHERE id = ?1", values![id])?;
    let Some(reasons) = Option::map(reasons, |text: String| submission_rows::parse_reasons(&text)) else {
        return Ok(());
    };
    let reasons: Vec<ScreeningReason> =
        reasons.unwrap_or_default().into_iter().map(ScreeningReason::without_detail).collect();
    tx.execute("UPDATE submission SET reasons = ?2 WHERE id = ?1", values![id, json!(reasons).to_string()])
        .map(drop)
}

/// A condition on `submission s`: true if no channel still has to deliver the submission. Appends the
/// condition's parameters to `values`. A submission must stay readable for:
///
/// - If it is not held: each unfinished delivery, even of a channel that is no longer configured.
/// - If it is held: each attempt under way, each unfinished delivery of a configured channel, and each
///   channel to the team that accepts the form and has no delivery of it. The channels' conditions
///   ([`Route::when`]) are ignored, because they may change before the release.
///
/// Mails to visitors count as deliveries. Parked deliveries count as unfinished, but parked mails to visitors
/// do not.
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
