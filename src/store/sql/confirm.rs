//! Double opt-in: the mails that ask visitors to confirm their addresses, and the confirmation.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::to_millis;
use super::opt_in::{close, confirm_rule};
use super::transaction::Transaction;
use super::visitor::{MailFate, MailRequest};
use super::{edit, rows, values};
use crate::store::error::StoreError;
use crate::store::link::LinkToken;
use crate::submission::delivery::Route;
use crate::submission::parse_fields;
use crate::submission::visitor::VisitorMail;

/// The time until another try if the address has had a mail within a day.
const RETRY: Duration = Duration::from_hours(1);

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Open,
    /// The address is confirmed, now or earlier.
    Confirmed,
    Expired,
    /// The server did not issue the link, or the entry was removed.
    Unknown,
}

impl Transaction<'_> {
    /// The state of a link. Changes nothing.
    pub fn link_state(&self, token: &LinkToken, now: Timestamp) -> Result<LinkState, StoreError> {
        if !token.is_genuine(self.secret) {
            return Ok(LinkState::Unknown);
        }
        let state = "SELECT state FROM confirmation WHERE submission = ?1";
        let Some(row) = self.sql.row(state, values![token.submission])? else {
            return Ok(LinkState::Unknown);
        };
        let is_expired = self.to_database_time(now).as_second() >= i64::from(token.expires_at);
        Ok(match row.text(0)? {
            "confirmed" => LinkState::Confirmed,
            _ if is_expired => LinkState::Expired,
            _ => LinkState::Open,
        })
    }

    /// Confirms the address of an entry, and queues the entry for `channels`. Returns the link's state, and
    /// whether this call changed it.
    pub fn confirm(
        &self,
        token: &LinkToken,
        now: Timestamp,
        channels: &[Route],
    ) -> Result<(LinkState, bool), StoreError> {
        let (tx, id) = (self.sql, token.submission);
        // With PostgreSQL, only one of several simultaneous calls confirms the address.
        tx.query(
            &format!("SELECT 1 FROM submission WHERE id = ?1 {}", tx.dialect().row_lock_clause()),
            values![id],
        )?;
        let state = self.link_state(token, now)?;
        if state != LinkState::Open {
            return Ok((state, false));
        }
        let now = self.to_database_time(now);
        let is_open = close(tx, id, "confirmed")?;
        tx.execute(
            "UPDATE confirmation SET state = 'confirmed', confirmed_at = ?2 WHERE submission = ?1",
            values![id, now.as_millisecond()],
        )?;
        // If the operator has released the entry, it has been delivered.
        if is_open {
            edit::release(tx, id, now, channels)?;
            self.announce()?;
        }
        Ok((LinkState::Confirmed, true))
    }

    /// Renews the confirmation of an entry that was sent again: its visitor gets another mail, unless one was
    /// sent within a day or is about to be. `at` is in milliseconds.
    pub fn renew_confirmation(&self, id: Uuid, at: i64) -> Result<(), StoreError> {
        let renewed = self.sql.execute(
            "UPDATE confirmation SET mail_at = ?2, reminds = 0
             WHERE submission = ?1 AND state = 'open' AND (mail_at IS NULL OR reminds = 1) AND coalesce(mailed_at, 0) <= ?3",
            values![id, at, at - rows::DAY_IN_MILLISECONDS],
        )?;
        if renewed == 1 {
            self.sql.execute(
                "UPDATE submission SET held_at = ?2 WHERE id = ?1 AND held_at < ?2",
                values![id, at],
            )?;
        }
        Ok(())
    }

    /// Queues up to `most` mails that ask visitors to confirm their addresses, or remind them. Returns the
    /// number of examined entries. Mails beyond a limit wait.
    pub fn queue_confirmations(
        &self,
        now: Timestamp,
        most: usize,
        channels: &[Route],
    ) -> Result<usize, StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now).as_millisecond());
        let due = format!(
            "SELECT c.submission, c.reminds, s.form, s.fields,
                 coalesce((SELECT max(rank) FROM delivery WHERE submission = c.submission), 0)
             FROM confirmation c JOIN submission s ON s.id = c.submission
             WHERE c.mail_at <= ?1 AND s.sealed IS NULL ORDER BY c.mail_at LIMIT ?2 {}",
            tx.dialect().skip_locked_clause()
        );
        let due = tx.query(&due, values![now, most])?;
        for row in &due {
            let (id, reminds, form): (Uuid, bool, &str) = (row.get(0)?, row.get(1)?, row.text(2)?);
            let fields = parse_fields(row.text(3)?.as_bytes()).unwrap_or_default();
            let email = fields.iter().find(|(name, _)| name == "email").map_or("", |(_, value)| value);
            let mail = if reminds { VisitorMail::Reminder } else { VisitorMail::Confirmation };
            let request = MailRequest { mail, submission: id, form, email, rank: row.get(4)?, at: now };
            let fate = self.queue_visitor_mail(&request, channels)?;
            let rule = confirm_rule(channels, form);
            let mail_at = match (fate, rule) {
                (MailFate::OverLimit, _) => return Ok(0),
                (MailFate::Repeated, _) if !reminds => Some(now + to_millis(RETRY)),
                (MailFate::Queued, Some(rule)) if !reminds => {
                    rule.remind_after.map(|after| now + to_millis(after))
                }
                _ => None,
            };
            tx.execute("UPDATE confirmation SET mail_at = ?2 WHERE submission = ?1", values![id, mail_at])?;
            if let (MailFate::Queued, Some(rule), false) = (fate, rule, reminds) {
                tx.execute(
                    "UPDATE confirmation SET reminds = 1, mailed_at = ?2, expires_at = ?3 WHERE submission = ?1",
                    values![id, now, now + to_millis(rule.within)],
                )?;
            }
        }
        Ok(due.len())
    }

    /// The token for the link in a mail; `None` if the entry needs no confirmation any more.
    pub(super) fn link_token(&self, id: Uuid) -> Result<Option<LinkToken>, StoreError> {
        let expires_at = "SELECT expires_at FROM confirmation WHERE submission = ?1 AND state = 'open'";
        let row = self.sql.row(expires_at, values![id])?;
        row.map(|row| Ok(LinkToken::issue(self.secret, id, row.get(0)?))).transpose()
    }
}
