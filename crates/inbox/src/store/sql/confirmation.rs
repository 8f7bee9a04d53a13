//! The confirmation of an entry's address (double opt-in): begins and ends the wait for it.
//!
//! While the confirmation of an entry is open, the entry is held, so nothing delivers it.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Sql, values};
use crate::store::error::StoreError;
use crate::submission::delivery::{HIGH_VOLUME_RANK, Route};
use crate::submission::schedule;
use crate::submission::visitor_mail::{ConfirmationRule, VisitorMail};

/// The stored reason for holding an entry until its address is confirmed.
pub(super) const UNCONFIRMED: &str = "its address has not been confirmed";

/// The rule by which a form's entries are confirmed, from the first channel that has one; `None` if the form
/// needs no confirmation.
pub fn confirmation_rule(channels: &[Route], form: &str) -> Option<ConfirmationRule> {
    channels.iter().find_map(|route| {
        let rules = &route.rule_for(VisitorMail::Confirmation, form)?.confirmations;
        rules.iter().find(|(name, _)| name == form).map(|(_, rule)| *rule)
    })
}

/// Begins the wait for the confirmation of an entry, which must be held. Fails if a confirmation of this
/// entry is stored, even one that has ended. The mail is due at `at`. `rank` is that of the entry's
/// deliveries: mails for high-volume networks come after all others.
pub(super) fn open(
    tx: &dyn Sql,
    id: Uuid,
    at: Timestamp,
    rank: i64,
    rule: ConfirmationRule,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO confirmation (submission, state, expires_at, mail_at, low_priority) VALUES (?1, 'open', ?2, ?3, ?4)",
        values![id, schedule::add_delay(at, rule.within), at, rank >= HIGH_VOLUME_RANK],
    )
    .map(drop)
}

/// Ends the wait for a confirmation: sets `state` ('confirmed' or 'released'), and removes mails that have
/// not been sent. Returns whether the confirmation was open; if not, changes nothing.
pub(super) fn close(tx: &dyn Sql, id: Uuid, state: &str) -> Result<bool, StoreError> {
    let closed = tx.execute(
        "UPDATE confirmation SET state = ?2, mail_at = NULL WHERE submission = ?1 AND state = 'open'",
        values![id, state],
    )?;
    if closed == 1 {
        for mail in [VisitorMail::Confirmation, VisitorMail::Reminder] {
            tx.execute(
                "DELETE FROM delivery WHERE submission = ?1 AND channel = ?2 AND state IN ('waiting', 'held')",
                values![id, mail.name()],
            )?;
        }
    }
    Ok(closed == 1)
}
