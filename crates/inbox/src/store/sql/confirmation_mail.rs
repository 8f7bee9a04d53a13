//! The mails that ask visitors to confirm their addresses, and the links in them.

use jiff::Timestamp;
use uuid::Uuid;

use super::confirmation::{UNCONFIRMED, close, confirmation_rule};
use super::delivery_results::to_millis;
use super::submission_rows::DAY_IN_MILLISECONDS;
use super::transaction::Transaction;
use super::visitor_mail::{CLASSES, MailFate, MailRequest};
use super::{Sql, form_definition, release_and_remove, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Hash;
use crate::store::link_token::LinkToken;
use crate::submission::delivery::Route;
use crate::submission::visitor_mail::{ConfirmationRule, LimitCounts, MailLimit, VisitorMail};
use crate::submission::{first_email, parse_fields};
use frontdesk_forms::Form;

const HOUR: i64 = 60 * 60 * 1000;
/// The stored reason for holding an entry that gets no confirmation email.
const NOT_ASKED: &str = "no mail is sent to this address, so it cannot be confirmed";

/// The outcome of [`Transaction::queue_confirmations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationMails {
    pub queued: usize,
    /// For each limit, the number of mails that wait because it is used up. For [`MailLimit::All`], counts at
    /// most one mail of each kind and priority.
    pub limited: LimitCounts,
    /// Whether more emails may be due. Always false if [`MailLimit::All`] is used up.
    pub has_more: bool,
}

/// The state of a link that confirms an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Open,
    /// The address is confirmed, now or earlier.
    Confirmed,
    Expired,
    /// The server did not issue the link, the entry was removed, or the operator held it while its
    /// confirmation was open.
    Unknown,
}

impl Transaction<'_> {
    /// The state of a link. Changes nothing. If the address is confirmed, so is the link, even after it has
    /// expired. A link that has not expired is also open if the operator has released the entry.
    pub fn link_state(&self, token: &LinkToken, now: Timestamp) -> Result<LinkState, StoreError> {
        if !token.is_genuine(self.secret) {
            return Ok(LinkState::Unknown);
        }
        let state = "SELECT state FROM confirmation WHERE submission = ?1";
        let Some(state) = self.sql.value::<String>(state, values![token.submission])? else {
            return Ok(LinkState::Unknown);
        };
        let is_expired = self.to_database_time(now).as_second() >= i64::from(token.expires_at);
        Ok(match state.as_str() {
            "confirmed" => LinkState::Confirmed,
            _ if is_expired => LinkState::Expired,
            _ => LinkState::Open,
        })
    }

    /// Confirms the address of an entry if the link is open. Releases the entry to `channels`, unless the
    /// operator has done so or holds it. Returns the link's state, and whether this call changed it.
    pub fn confirm(
        &self,
        token: &LinkToken,
        now: Timestamp,
        channels: &[Route],
    ) -> Result<(LinkState, bool), StoreError> {
        let (tx, id) = (self.sql, token.submission);
        // With PostgreSQL, lock the row, so that only one of several simultaneous calls confirms the address.
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
            values![id, now],
        )?;
        // Release the entry only if the operator has not done so.
        if is_open {
            release_and_remove::release(tx, id, now, channels)?;
            self.announce()?;
        }
        Ok((LinkState::Confirmed, true))
    }

    /// Renews the confirmation of an entry that was sent again: its visitor gets another mail, unless one was
    /// sent within a day or is about to be. The entry's hold then begins at `at`, in milliseconds, if that is
    /// later. Does nothing if the confirmation is not open.
    pub fn renew_confirmation(&self, id: Uuid, at: i64) -> Result<(), StoreError> {
        // `mail_at` is when the next mail is due; with `reminds = 1`, that is the reminder.
        let renewed = self.sql.execute(
            "UPDATE confirmation SET mail_at = ?2, reminds = 0, limited_since = NULL
             WHERE submission = ?1 AND state = 'open' AND (mail_at IS NULL OR reminds = 1)
             AND (mailed_at IS NULL OR mailed_at <= ?3 OR mailed_at > ?4)",
            // Ignore a `mailed_at` that is far in the future: the clock has been set back since.
            values![id, at, at - DAY_IN_MILLISECONDS, at + HOUR],
        )?;
        if renewed == 1 {
            self.sql.execute(
                "UPDATE submission SET held_at = ?2 WHERE id = ?1 AND held_at < ?2",
                values![id, at],
            )?;
        }
        Ok(())
    }

    /// Queues mails that ask visitors to confirm their addresses, or remind them, among the first `most` that
    /// are due. First mails come before reminders, and mails for networks that have sent many entries after
    /// the others of their kind. Mails beyond a limit wait; if the limit of a domain or a network is used up,
    /// other mails are still queued. Leaves out entries that are encrypted or not held.
    pub fn queue_confirmations(
        &self,
        now: Timestamp,
        most: usize,
        channels: &[Route],
    ) -> Result<ConfirmationMails, StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now).as_millisecond());
        let due = format!(
            "SELECT c.submission AS id, s.form, s.definition, s.fields, s.received_at, coalesce(s.network, s.source) AS network,
                 c.limited_since
             FROM confirmation c JOIN submission s ON s.id = c.submission
             WHERE c.reminds = ?1 AND c.low_priority = ?2 AND c.mail_at <= ?3 AND s.sealed IS NULL AND s.held_at IS NOT NULL
             ORDER BY c.mail_at LIMIT ?4 {}",
            tx.dialect().skip_locked_clause()
        );
        let (mut mails, mut left) = (ConfirmationMails::default(), most);
        for (reminds, low_priority) in CLASSES {
            let rows = tx.query(&due, values![reminds, low_priority, now, left])?;
            for row in &rows {
                let entry = DueEntry {
                    id: row.get("id")?,
                    form: row.text("form")?,
                    definition: form_definition::of_row(tx, row)?,
                    fields: row.text("fields")?,
                    received_at: row.get("received_at")?,
                    network: row.get("network")?,
                    limited_since: row.get("limited_since")?,
                    reminds: reminds == 1,
                    low_priority: low_priority == 1,
                };
                match self.queue_confirmation(&entry, now, channels)? {
                    MailFate::OverLimit { limit, .. } => {
                        mails.limited[limit as usize] += 1;
                        if limit == MailLimit::All {
                            break;
                        }
                    }
                    fate => mails.queued += usize::from(fate == MailFate::Queued),
                }
            }
            left -= rows.len();
            mails.has_more |= left == 0;
            if left == 0 {
                break;
            }
        }
        mails.has_more &= mails.limited[MailLimit::All as usize] == 0;
        Ok(mails)
    }

    /// Queues the mail or the reminder for one entry, and sets when its next mail is due. If a limit is used
    /// up, the mail waits. If the address may get no mail, or a limit has delayed the first mail for as long
    /// as a link is valid, ends the wait for the confirmation, so that the entry waits for the operator; a
    /// reminder is only dropped. If another entry caused such a mail to the mailbox within a day, tries the
    /// first mail once more a day later. Sends nothing if the form needs no confirmation any more, and no
    /// reminder of a mail that has not been delivered.
    fn queue_confirmation(
        &self,
        entry: &DueEntry<'_>,
        now: i64,
        channels: &[Route],
    ) -> Result<MailFate, StoreError> {
        let DueEntry { id, form, reminds, low_priority, network, .. } = *entry;
        let tx = self.sql;
        let next_mail_at = |at: Option<i64>| {
            tx.execute("UPDATE confirmation SET mail_at = ?2 WHERE submission = ?1", values![id, at])
        };
        let mail = if reminds { VisitorMail::Reminder } else { VisitorMail::Confirmation };
        if reminds && !self.has_sent(VisitorMail::Confirmation, id)? {
            next_mail_at(None)?;
            return Ok(MailFate::NotPermitted);
        }
        let Some(rule) = confirmation_rule(channels, form) else {
            next_mail_at(None)?;
            return Ok(MailFate::NotPermitted);
        };
        let fields = parse_fields(entry.fields.as_bytes()).unwrap_or_default();
        let email = first_email(entry.definition, &fields).unwrap_or_default();
        let request = MailRequest { mail, submission: id, form, email, network, low_priority, at: now };
        let fate = self.queue_visitor_mail(&request, channels)?;
        // The mail no longer waits for a limit, so remove the limit from the reason for the hold.
        if entry.limited_since.is_some() && !matches!(fate, MailFate::OverLimit { .. }) {
            tx.execute("UPDATE confirmation SET limited_since = NULL WHERE submission = ?1", values![id])?;
            set_reason(tx, id, UNCONFIRMED)?;
        }
        match fate {
            // The mail stays due. The caller queues no more mails of this kind and priority.
            MailFate::OverLimit { limit: MailLimit::All, .. } => {}
            MailFate::OverLimit { limit, room_at } => self.put_off(entry, limit, room_at, now, rule)?,
            // No confirmation email is permitted for this entry, so only the operator can release it.
            MailFate::NotPermitted if !reminds => {
                close(tx, id, "released")?;
                set_reason(tx, id, NOT_ASKED)?;
            }
            // The mailbox got a confirmation email in the last day. If the entry is new, try again in a day.
            MailFate::Repeated if !reminds => {
                let is_new = entry.received_at > now - DAY_IN_MILLISECONDS;
                next_mail_at(is_new.then_some(now + DAY_IN_MILLISECONDS))?;
            }
            MailFate::Queued if !reminds => {
                tx.execute(
                    "UPDATE confirmation SET mail_at = ?2, reminds = 1, mailed_at = ?3, expires_at = ?4 WHERE submission = ?1",
                    values![
                        id,
                        rule.remind_after.map(|after| now + to_millis(after)),
                        now,
                        now + to_millis(rule.within)
                    ],
                )?;
            }
            // No mail follows the reminder, whether or not it was queued.
            _ => {
                next_mail_at(None)?;
            }
        }
        Ok(fate)
    }

    /// Postpones a mail that is beyond the limit of its domain or network until there is room, but at least
    /// by half the time that it has waited, up to an hour, or by an hour for a reminder. Once the first mail
    /// for an entry has waited for as long as a link is valid, ends the wait for the confirmation, so that
    /// the entry waits for the operator.
    fn put_off(
        &self,
        entry: &DueEntry<'_>,
        limit: MailLimit,
        room_at: i64,
        now: i64,
        rule: ConfirmationRule,
    ) -> Result<(), StoreError> {
        let since = entry.limited_since.filter(|since| *since <= now).unwrap_or(now);
        let key = limit.key();
        if !entry.reminds && now - since >= to_millis(rule.within) {
            close(self.sql, entry.id, "released")?;
            let days = (now - since) / DAY_IN_MILLISECONDS;
            let unit = if days == 1 { "day" } else { "days" };
            let reason = format!(
                "the mail that asks for the confirmation could not be sent for {days} {unit}; the limit now is `{key}`"
            );
            return set_reason(self.sql, entry.id, &reason);
        }
        // Retry old entries less often: there may be thousands of them for one domain.
        let wait = if entry.reminds { HOUR } else { ((now - since) / 2).min(HOUR) };
        self.sql.execute(
            "UPDATE confirmation SET mail_at = ?2, limited_since = ?3 WHERE submission = ?1",
            values![entry.id, room_at.max(now + wait), (!entry.reminds).then_some(since)],
        )?;
        if !entry.reminds && entry.limited_since.is_none() {
            set_reason(self.sql, entry.id, &format!("{UNCONFIRMED}: the limit `{key}` delays the mail"))?;
        }
        Ok(())
    }

    /// Whether a mail for an entry has been delivered to its visitor.
    fn has_sent(&self, mail: VisitorMail, id: Uuid) -> Result<bool, StoreError> {
        let sent = "SELECT 1 FROM delivery WHERE submission = ?1 AND channel = ?2 AND state = 'delivered'";
        self.sql.exists(sent, values![id, mail.name()])
    }

    /// Issues the token for the link in a mail that is about to be sent through `channel`. The first mail
    /// restarts the period in which the link is valid, so each attempt grants the whole period; a reminder's
    /// link keeps its expiry. `None` if the confirmation is not open, or if the link of a reminder would have
    /// expired.
    pub(super) fn issue_link_token(
        &self,
        channel: &str,
        id: Uuid,
        now: Timestamp,
    ) -> Result<Option<LinkToken>, StoreError> {
        let now = self.to_database_time(now).as_millisecond();
        if channel == VisitorMail::Confirmation.name() {
            self.sql.execute(
                "UPDATE confirmation SET expires_at = ?2 + expires_at - mailed_at, mailed_at = ?2
                 WHERE submission = ?1 AND state = 'open' AND mailed_at IS NOT NULL",
                values![id, now],
            )?;
        }
        let expires_at = "SELECT expires_at FROM confirmation WHERE submission = ?1 AND state = 'open' AND expires_at > ?2";
        let expires_at = self.sql.value(expires_at, values![id, now])?;
        Ok(expires_at.map(|expires_at| LinkToken::issue(self.secret, id, expires_at)))
    }
}

/// An entry with a confirmation email or a reminder to send.
struct DueEntry<'a> {
    id: Uuid,
    form: &'a str,
    definition: Option<&'static Form>,
    /// The entry's fields, as a JSON object.
    fields: &'a str,
    /// When the entry was received, as Unix time in milliseconds.
    received_at: i64,
    reminds: bool,
    low_priority: bool,
    network: Hash,
    /// Since when the mail has been waiting because of the limit of its domain or network, as Unix time in
    /// milliseconds.
    limited_since: Option<i64>,
}

/// Replaces the stored reason why an entry is held.
fn set_reason(tx: &dyn Sql, id: Uuid, reason: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE submission SET held_because = ?2 WHERE id = ?1", values![id, reason]).map(drop)
}
