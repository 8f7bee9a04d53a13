//! Queues mails to visitors: at most one of each kind a day to each address, and a limited number of each
//! kind per hour to all of them.

use jiff::Timestamp;
use uuid::Uuid;

use super::rows::{self, DAY_IN_MILLISECONDS, MAX_ROWS};
use super::transaction::Transaction;
use super::{Dialect, values};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use crate::submission::visitor::{VisitorMail, VisitorRule, mailbox_key};

const HOUR: i64 = 60 * 60 * 1000;
/// The longest time until a mail is due: the maximum of `forms.waitlist.remind_after`, and a day.
const LONGEST_WAIT: i64 = 90 * DAY_IN_MILLISECONDS;

/// The classes of mails about confirmations, as values of `reminds` and `low_priority`, in the order in which
/// they are queued.
pub(super) const CLASSES: [(i64, i64); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// Names the stored time at which the mails of the last hour stop counting.
fn pace_name(mail: VisitorMail) -> String {
    format!("pace of {}", mail.name())
}

/// A mail that a visitor's submission calls for.
#[derive(Clone, Copy, Debug)]
pub struct MailRequest<'a> {
    pub mail: VisitorMail,
    pub submission: Uuid,
    pub form: &'a str,
    /// The visitor's address.
    pub email: &'a str,
    /// Whether the network has sent many submissions. Such networks can use up only half of the limit per
    /// hour.
    pub low_priority: bool,
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
        let MailRequest { mail, submission, form, email, low_priority, at } = *request;
        let rule = channels.iter().find_map(|route| route.rule_for(mail, form));
        let Some(rule) = rule.filter(|rule| rule.permits(email)) else {
            return Ok(MailFate::NotPermitted);
        };
        let Some(rested) = self.count_in_hour(rule, low_priority, at)? else {
            return Ok(MailFate::OverLimit);
        };
        if !self.claim_address(mail, email, at)? {
            return Ok(MailFate::Repeated);
        }
        self.store_time(&pace_name(mail), rested)?;
        self.sql.execute(
            "INSERT INTO delivery (submission, channel, state, due_at, form, rank) VALUES (?1, ?2, 'waiting', ?3, ?4, 0)
             ON CONFLICT (submission, channel) DO UPDATE SET state = 'waiting', due_at = ?3, failures = 0, interrupted = 0",
            values![submission, mail.name(), at, form],
        )?;
        Ok(MailFate::Queued)
    }

    /// The time to store after another mail; `None` if the limit is used up. The generic cell rate algorithm,
    /// as for high-volume networks.
    fn count_in_hour(
        &self,
        rule: &VisitorRule,
        low_priority: bool,
        at: i64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let name = pace_name(rule.mail);
        if self.sql.dialect() == Dialect::Postgres {
            // Create the row if it is missing, then lock it, so that other replicas wait.
            self.sql.execute(
                "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                values![name, at.to_be_bytes()],
            )?;
            self.sql.query("SELECT 1 FROM meta WHERE name = ?1 FOR UPDATE", values![name])?;
        }
        let rested = self.stored_time(&name)?.map_or(at, Timestamp::as_millisecond).max(at);
        let after = rested + (HOUR / i64::from(rule.per_hour.max(1))).max(1);
        let limit = if low_priority { HOUR / 2 } else { HOUR };
        (after <= at + limit).then(|| rows::to_timestamp(after)).transpose()
    }

    /// Whether the address has had no such mail within a day. If so, records that it gets one now.
    fn claim_address(&self, mail: VisitorMail, email: &str, at: i64) -> Result<bool, StoreError> {
        let claimed = self.sql.execute(
            "INSERT INTO visitor_mail (address, mail, until) VALUES (?1, ?2, ?3)
             ON CONFLICT (address, mail) DO UPDATE SET until = ?3 WHERE visitor_mail.until <= ?4",
            values![self.secret.mailbox(&mailbox_key(email)), mail.name(), at + DAY_IN_MILLISECONDS, at],
        )?;
        Ok(claimed == 1)
    }

    /// Removes what mails to visitors no longer need: addresses that had a mail more than a day ago, and
    /// mails that have been waiting for a day although no channel sends them any more. Also repairs times
    /// that were written before the clock was set back. Removes up to 200 rows of each kind, and returns
    /// whether there may be more.
    pub fn tidy_visitor_mails(&self, now: Timestamp, channels: &[Route]) -> Result<bool, StoreError> {
        let (tx, now) = (self.sql, self.to_database_time(now).as_millisecond());
        let lock = tx.dialect().skip_locked_clause();
        let mut has_more = false;
        for (condition, bound) in [("until < ?1", now), ("until > ?1", now + DAY_IN_MILLISECONDS + HOUR)] {
            let forget = format!(
                "DELETE FROM visitor_mail WHERE (address, mail) IN
                 (SELECT address, mail FROM visitor_mail WHERE {condition} ORDER BY until LIMIT {MAX_ROWS} {lock})"
            );
            has_more |= tx.execute(&forget, values![bound])? == MAX_ROWS;
        }
        for mail in VisitorMail::ALL {
            let name = pace_name(mail);
            if self.stored_time(&name)?.is_some_and(|pace| pace.as_millisecond() > now + 2 * HOUR) {
                self.store_time(&name, rows::to_timestamp(now)?)?;
            }
            if !channels.iter().any(|route| route.name == mail.name()) {
                for condition in ["failures = 0", "failures > 0"] {
                    let stale = format!(
                        "DELETE FROM delivery WHERE (submission, channel) IN (SELECT submission, channel FROM delivery
                         WHERE channel = ?1 AND due_at < ?2 AND {condition} AND state = 'waiting' LIMIT {MAX_ROWS} {lock})"
                    );
                    let removed = tx.execute(&stale, values![mail.name(), now - DAY_IN_MILLISECONDS])?;
                    has_more |= removed == MAX_ROWS;
                }
            }
        }
        for (reminds, low_priority) in CLASSES {
            tx.execute(
                "UPDATE confirmation SET mail_at = ?1 WHERE reminds = ?2 AND low_priority = ?3 AND mail_at > ?4",
                values![now, reminds, low_priority, now + LONGEST_WAIT + HOUR],
            )?;
        }
        Ok(has_more)
    }
}
