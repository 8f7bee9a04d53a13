//! Stores an opinion from outside on a submission, and lets the deliveries that waited for it be sent.

use frontdesk_rspamd::{Opinion, OpinionRequest};
use serde_json::json;
use uuid::Uuid;

use super::transaction::Transaction;
use super::{Row, submission_rows, values};
use crate::store::error::StoreError;
use crate::submission::delivery::SUSPICIOUS_RANK;
use crate::submission::visitor_mail::VisitorMail;
use frontdesk_screening::verdict::ScreeningVerdict;

/// A condition on `submission`: true if it has an opinion. Screening had not marked such a submission. The
/// pattern cannot match a visitor's text: the JSON has no spaces, and quotation marks in its texts are
/// escaped.
pub(super) const HAS_OPINION: &str =
    "reasons IS NOT NULL AND CAST(reasons AS text) LIKE '%\"signal\":\"opinion\"%'";

/// The changes that rspamd's opinion on a submission has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpinionEffect {
    /// The submission was marked as suspicious.
    pub is_marked: bool,
    /// Deliveries have become due.
    pub has_deliveries: bool,
    /// The confirmation email has become due.
    pub has_confirmation: bool,
}

impl Transaction<'_> {
    /// Adds an opinion to a submission if it calls the submission spam, and marks the submission if it then
    /// has `marked_from` points. An entry that gets the mark, and whose visitor has not been asked for a
    /// confirmation yet, waits for the operator instead; an acknowledgement that was not sent is removed.
    /// Adds nothing to a submission that is marked as spam, was released, or is held for another reason than
    /// a missing confirmation.
    ///
    /// Also makes the deliveries and the confirmation mail due that waited for the opinion, even if there is
    /// none. Leaves deliveries that have been tried, and due times that have changed since the request.
    pub fn record_opinion(
        &self,
        request: &OpinionRequest,
        opinion: Option<&Opinion>,
        marked_from: u32,
    ) -> Result<OpinionEffect, StoreError> {
        let (tx, id) = (self.sql, request.id);
        let mut effect = OpinionEffect::default();
        if let Some(Opinion::Spam(detail)) = opinion {
            let lock = tx.dialect().row_lock_clause();
            let judged = format!(
                "SELECT score, reasons, threshold, suspicious, sealed IS NOT NULL AS is_sealed, held_at IS NOT NULL AS is_held
                 FROM submission WHERE id = ?1 AND spam_at IS NULL AND released_at IS NULL AND (held_at IS NULL OR EXISTS
                     (SELECT 1 FROM confirmation WHERE submission = ?1 AND state = 'open')) {lock}"
            );
            if let Some(row) = tx.row(&judged, values![id])? {
                effect.is_marked = self.add_opinion(id, &row, detail, marked_from)?;
            }
        }
        let (usual, delayed) = (request.usual_due_at, request.due_at);
        // Compare due times, because a release or a retry may have changed them.
        let made_due = tx.execute(
            "UPDATE delivery SET due_at = ?2 WHERE submission = ?1 AND state = 'waiting' AND attempts = 0 AND due_at = ?3",
            values![id, usual, delayed],
        )?;
        let asked = tx.execute(
            "UPDATE confirmation SET mail_at = ?2 WHERE submission = ?1 AND state = 'open' AND mail_at = ?3",
            values![id, usual, delayed],
        )?;
        Ok(OpinionEffect { has_deliveries: made_due > 0, has_confirmation: asked > 0, ..effect })
    }

    /// Adds an opinion that calls the submission spam, unless it has one; without `detail` if it is sealed.
    /// `row` has the columns that the caller selects. Returns whether this has marked the submission: false
    /// if it was marked before, or still has fewer points than `marked_from`. A new mark lowers the priority
    /// of deliveries that have not been tried, removes the unsent acknowledgement, and withdraws an unsent
    /// request for a confirmation.
    fn add_opinion(&self, id: Uuid, row: &Row, detail: &str, marked_from: u32) -> Result<bool, StoreError> {
        let tx = self.sql;
        let reasons: Option<String> = row.get("reasons")?;
        let was_marked: bool = row.get("suspicious")?;
        // A sealed submission has no details of reasons, so add none.
        let detail = if row.get("is_sealed")? { String::new() } else { detail.to_owned() };
        let verdict = ScreeningVerdict {
            score: row.get::<Option<u32>>("score")?.unwrap_or_default(),
            reasons: reasons.as_deref().map(submission_rows::parse_reasons).transpose()?.unwrap_or_default(),
            hold: false,
            suspicious: was_marked,
            threshold: row.get::<Option<u32>>("threshold")?.unwrap_or_default(),
        };
        let verdict = verdict.with_opinion(detail, marked_from);
        tx.execute(
            "UPDATE submission SET score = ?2, reasons = ?3, suspicious = ?4 WHERE id = ?1",
            values![id, verdict.score, json!(verdict.reasons).to_string(), verdict.suspicious],
        )?;
        if was_marked || !verdict.suspicious {
            return Ok(false);
        }
        tx.execute(
            "UPDATE delivery SET rank = rank + ?2 WHERE submission = ?1 AND state IN ('waiting', 'held') AND attempts = 0",
            values![id, SUSPICIOUS_RANK],
        )?;
        tx.execute(
            "DELETE FROM delivery WHERE submission = ?1 AND channel = ?2 AND state = 'waiting' AND attempts = 0",
            values![id, VisitorMail::Acknowledgement.name()],
        )?;
        if row.get("is_held")? {
            self.withdraw_confirmation(id)?;
        }
        Ok(true)
    }

    /// Lets a suspicious entry wait for the operator: removes its confirmation and the mail that asks, unless
    /// that mail has been sent or attempted. The entry then counts as held by screening. Does nothing if the
    /// confirmation is no longer open.
    fn withdraw_confirmation(&self, id: Uuid) -> Result<(), StoreError> {
        let unsent = self.sql.execute(
            "DELETE FROM delivery WHERE submission = ?1 AND channel = ?2 AND state = 'waiting' AND attempts = 0",
            values![id, VisitorMail::Confirmation.name()],
        )?;
        let withdrawn = self.sql.execute(
            "DELETE FROM confirmation WHERE submission = ?1 AND state = 'open'
             AND ((reminds = 0 AND mailed_at IS NULL) OR ?2 = 1)",
            // `reminds = 0 AND mailed_at IS NULL`: no mail was queued yet. `?2`: it was queued, and the
            // statement above has just removed it.
            values![id, unsent],
        )?;
        if withdrawn == 1 {
            self.sql.execute(
                "UPDATE submission SET withheld = 1, held_because = ?2 WHERE id = ?1",
                values![id, submission_rows::SUSPICIOUS_UNASKED],
            )?;
        }
        Ok(())
    }
}
