//! Queues mails to visitors: at most one a day to each address, and a limited number per hour to all of them.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::to_millis;
use super::rows::{self, DAY_IN_MILLISECONDS};
use super::transaction::Transaction;
use super::{Dialect, values};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use crate::submission::visitor::{VisitorMail, VisitorRule, mailbox_key};

/// Names the stored time at which the mails of the last hour stop counting.
const PACE: &str = "pace of visitor mails";
const HOUR: i64 = 60 * 60 * 1000;
/// The maximum number of expired rows that are removed when a mail is queued.
const FORGOTTEN_AT_A_TIME: i64 = 4;

/// A mail that a visitor's submission calls for.
#[derive(Clone, Copy, Debug)]
pub struct MailRequest<'a> {
    pub mail: VisitorMail,
    pub submission: Uuid,
    pub form: &'a str,
    /// The visitor's address.
    pub email: &'a str,
    pub rank: i64,
    /// When the mail is due, as Unix time in milliseconds.
    pub at: i64,
}

/// The outcome of a [`MailRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFate {
    Queued,
    /// No channel sends such mails, or the address may not get them.
    NotPermitted,
    /// The address has had such a mail within a day.
    Repeated,
    /// All visitors together have had as many mails as an hour allows.
    OverLimit,
}

impl Transaction<'_> {
    /// Queues a mail to a visitor, unless a limit forbids it. A transaction that is rolled back has used up
    /// nothing.
    pub fn queue_visitor_mail(
        &self,
        request: &MailRequest<'_>,
        channels: &[Route],
    ) -> Result<MailFate, StoreError> {
        let MailRequest { mail, submission, form, email, rank, at } = *request;
        let rule = channels.iter().find_map(|route| route.rule_for(mail, form));
        let Some(rule) = rule.filter(|rule| rule.permits(email)) else {
            return Ok(MailFate::NotPermitted);
        };
        let Some(rested) = self.count_in_hour(rule, at)? else { return Ok(MailFate::OverLimit) };
        if !self.claim_address(mail, email, at)? {
            return Ok(MailFate::Repeated);
        }
        self.store_time(PACE, rested)?;
        self.sql.execute(
            "INSERT INTO delivery (submission, channel, state, due_at, form, rank) VALUES (?1, ?2, 'waiting', ?3, ?4, ?5)
             ON CONFLICT (submission, channel) DO UPDATE SET state = 'waiting', due_at = ?3, failures = 0, interrupted = 0",
            values![submission, mail.name(), at, form, rank],
        )?;
        Ok(MailFate::Queued)
    }

    /// The new value of [`PACE`] after another mail; `None` if the limit is used up. The generic cell rate
    /// algorithm, as for high-volume networks.
    fn count_in_hour(&self, rule: &VisitorRule, at: i64) -> Result<Option<Timestamp>, StoreError> {
        let now = rows::to_timestamp(at)?;
        if self.sql.dialect() == Dialect::Postgres {
            // Create the row if it is missing, then lock it, so that other replicas wait.
            self.sql.execute(
                "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                values![PACE, at.to_be_bytes()],
            )?;
            self.sql.query("SELECT 1 FROM meta WHERE name = ?1 FOR UPDATE", values![PACE])?;
        }
        let stored = self.stored_time(PACE)?.map_or(at, Timestamp::as_millisecond);
        // A time that is much later was written before the clock was set back.
        let rested = if stored > at + 2 * HOUR { at } else { stored.max(now.as_millisecond()) };
        let after = rested + (HOUR / i64::from(rule.per_hour.max(1))).max(1);
        (after <= at + HOUR).then(|| rows::to_timestamp(after)).transpose()
    }

    /// Whether the address has had no such mail within a day. If so, records that it gets one now.
    fn claim_address(&self, mail: VisitorMail, email: &str, at: i64) -> Result<bool, StoreError> {
        let until = at + DAY_IN_MILLISECONDS;
        let lock = self.sql.dialect().skip_locked_clause();
        let forget = format!(
            "DELETE FROM visitor_mail WHERE (address, mail) IN
             (SELECT address, mail FROM visitor_mail WHERE until < ?1 ORDER BY until LIMIT {FORGOTTEN_AT_A_TIME} {lock})"
        );
        self.sql.execute(&forget, values![at])?;
        let claimed = self.sql.execute(
            "INSERT INTO visitor_mail (address, mail, until) VALUES (?1, ?2, ?3)
             ON CONFLICT (address, mail) DO UPDATE SET until = ?3
             WHERE visitor_mail.until <= ?4 OR visitor_mail.until > ?5",
            // A time that is much later was written before the clock was set back.
            values![
                self.secret.mailbox(&mailbox_key(email)),
                mail.name(),
                until,
                at,
                until + to_millis(Duration::from_hours(1))
            ],
        )?;
        Ok(claimed == 1)
    }
}
