//! Double opt-in: begins and ends the wait for the confirmation of an entry's address.
//!
//! While the confirmation of an entry is open, the entry is held, so nothing delivers it.

use uuid::Uuid;

use super::deliver::{is_high_volume, to_millis};
use super::{Sql, values};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use crate::submission::visitor::{ConfirmRule, VisitorMail};

/// Why an entry is held whose address is not confirmed.
pub(super) const UNCONFIRMED: &str = "its address has not been confirmed";

/// The rule for entries whose address must be confirmed; `None` if the form needs no confirmation.
pub fn confirm_rule(channels: &[Route], form: &str) -> Option<ConfirmRule> {
    channels.iter().find_map(|route| route.rule_for(VisitorMail::Confirmation, form)?.confirm)
}

/// Begins the wait for the confirmation of an entry, which must be held. The mail is due at `at`, in
/// milliseconds. `rank` is that of the entry's deliveries: mails for networks that have sent many entries
/// come after all others.
pub(super) fn open(tx: &dyn Sql, id: Uuid, at: i64, rank: i64, rule: ConfirmRule) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO confirmation (submission, state, expires_at, mail_at, low_priority) VALUES (?1, 'open', ?2, ?3, ?4)",
        values![id, at + to_millis(rule.within), at, i64::from(is_high_volume(rank))],
    )
    .map(drop)
}

/// Ends the wait for a confirmation, and removes mails that have not been sent. Returns whether the
/// confirmation was open.
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
