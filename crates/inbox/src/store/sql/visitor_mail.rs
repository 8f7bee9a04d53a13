//! Queues mails to visitors: at most one of each kind a day to each mailbox, and a limited number per hour to
//! all of them, to each domain, and because of each network.
//!
//! The state of each limit is in a row of `visitor_rate`, whose key is a keyed hash.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::submission_rows::{self, DAY_IN_MILLISECONDS, MAX_ROWS};
use super::transaction::Transaction;
use super::{Dialect, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Hash;
use crate::submission::delivery::Route;
use crate::submission::visitor_mail::{MailLimit, VisitorMail, VisitorRule};
use frontdesk_forms::mailbox_identity::{mailbox_key, recipient_domain};
use frontdesk_limits::Gcra;

const HOUR: i64 = 60 * 60 * 1000;
/// How long each mail counts towards an hourly limit.
const WINDOW: Duration = Duration::from_hours(1);
/// The longest time until a mail is due: the maximum of `forms.waitlist.remind_after` (89 days) plus a day.
const LONGEST_WAIT: i64 = 90 * DAY_IN_MILLISECONDS;
/// An episode is a period in which [`MailLimit::All`] is used up. It ends once no mail has exceeded the limit
/// for this long.
const EPISODE_GAP: i64 = HOUR;
/// Minimum interval between two updates of [`LIMITED_AT`] while the limit is used up, in milliseconds.
const EPISODE_PRECISION: i64 = 60 * 1000;
/// Keys under which the inbox stores the beginning and the end of the latest episode in which
/// [`MailLimit::All`] was used up, and the beginning of the latest one that the team has been notified of.
const LIMITED_SINCE: &str = "visitor mails limited since";
const LIMITED_AT: &str = "visitor mails limited at";
const ANNOUNCED: &str = "visitor mails limit announced";

/// The classes of mails about confirmations, as values of `reminds` and `low_priority`, in the order in which
/// they are queued.
pub(super) const CLASSES: [(i64, i64); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// A request to send a mail to a visitor because of the visitor's submission.
#[derive(Clone, Copy, Debug)]
pub struct MailRequest<'a> {
    pub mail: VisitorMail,
    pub submission: Uuid,
    pub form: &'a str,
    /// The visitor's e-mail address, to which the mail is sent.
    pub email: &'a str,
    /// The keyed hash of the network that the submission came from.
    pub network: Hash,
    /// Whether the network has sent many submissions. Mails because of such networks can use up only half
    /// of [`MailLimit::All`], but at least one mail.
    pub low_priority: bool,
    /// When the mail is due, as Unix time in milliseconds.
    pub at: i64,
}

/// The outcome of a [`MailRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFate {
    Queued,
    /// No channel sends this mail for the form, or the address may not receive it.
    NotPermitted,
    /// The mailbox has been sent a mail of the same kind within the last day.
    Repeated,
    /// As many mails as an hour allows have been sent. There is room for one more at `room_at`, as Unix time
    /// in milliseconds.
    OverLimit {
        limit: MailLimit,
        room_at: i64,
    },
}

/// The new row of `visitor_rate` for one limit, to be stored when the mail is queued.
struct MailCharge {
    key: Hash,
    /// When the limit will have recovered completely, as Unix time in microseconds.
    rested: i64,
}

impl Transaction<'_> {
    /// Queues a mail to a visitor, and counts it towards the limits as of its due time. Does neither if no
    /// rule permits the mail, a limit is used up, or the mailbox has had such a mail within a day. Records
    /// when [`MailLimit::All`] is used up. Resets an existing delivery of this mail for the submission, even
    /// one that is delivered.
    pub fn queue_visitor_mail(
        &self,
        request: &MailRequest<'_>,
        channels: &[Route],
    ) -> Result<MailFate, StoreError> {
        let MailRequest { mail, submission, form, email, at, .. } = *request;
        let rule = channels.iter().find_map(|route| route.rule_for(mail, form));
        let Some(rule) = rule.filter(|rule| rule.permits(email)) else {
            return Ok(MailFate::NotPermitted);
        };
        let charged = match self.check_limits(rule, request)? {
            Ok(charged) => charged,
            Err(fate) => {
                if matches!(fate, MailFate::OverLimit { limit: MailLimit::All, .. }) {
                    self.note_limit(at)?;
                }
                return Ok(fate);
            }
        };
        if !self.claim_mailbox(mail, email, at)? {
            return Ok(MailFate::Repeated);
        }
        for MailCharge { key, rested } in charged {
            self.sql.execute(
                "INSERT INTO visitor_rate (key, rested) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET rested = ?2",
                values![key, rested],
            )?;
        }
        self.sql.execute(
            "INSERT INTO delivery (submission, channel, state, due_at, rank) VALUES (?1, ?2, 'waiting', ?3, 0)
             ON CONFLICT (submission, channel) DO UPDATE SET state = 'waiting', due_at = ?3, failures = 0, interrupted = 0",
            values![submission, mail.name(), at],
        )?;
        Ok(MailFate::Queued)
    }

    /// Checks whether the limits have room for one more mail. Returns the rows to store for it; the inner
    /// error is the first limit that is used up, and when it has room again. Mails of low priority leave half
    /// of [`MailLimit::All`] to others. Skips limits that are off, and the domain limit for large mailbox
    /// providers. Stores nothing. With PostgreSQL, makes other replicas wait until this transaction ends.
    fn check_limits(
        &self,
        rule: &VisitorRule,
        request: &MailRequest<'_>,
    ) -> Result<Result<Vec<MailCharge>, MailFate>, StoreError> {
        if self.sql.dialect() == Dialect::Postgres {
            // Let replicas queue mails one at a time, so that they keep to the limits and do not deadlock.
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended('frontdesk visitor mails ' || current_schema(), 0))";
            self.sql.query(lock, &[])?;
        }
        let domain = recipient_domain(request.email);
        let limits = [
            (MailLimit::All, Some(rule.limits.all), Some(rule.mail.name().as_bytes())),
            (MailLimit::Network, rule.limits.network, Some(request.network.as_slice())),
            (MailLimit::Domain, rule.limits.domain, domain.as_ref().map(String::as_bytes)),
        ];
        let mut charged = Vec::with_capacity(limits.len());
        for (limit, per_hour, subject) in limits {
            let (Some(per_hour), Some(subject)) = (per_hour, subject) else { continue };
            let key = self.secret.mail_rate(limit, subject);
            let rested = self.sql.value("SELECT rested FROM visitor_rate WHERE key = ?1", values![key])?;
            let now = request.at.saturating_mul(1000);
            let is_reserved = limit == MailLimit::All && request.low_priority;
            let reserve = if is_reserved { WINDOW / 2 } else { Duration::ZERO };
            match Gcra::per(WINDOW, per_hour).charge_with_reserve(rested.unwrap_or(now), now, reserve) {
                Ok(rested) => charged.push(MailCharge { key, rested }),
                Err(room_at) => {
                    // Round up to milliseconds, so that the limit really has room at `room_at`.
                    let room_at = room_at.saturating_add(999).div_euclid(1000);
                    return Ok(Err(MailFate::OverLimit { limit, room_at }));
                }
            }
        }
        Ok(Ok(charged))
    }

    /// Records that [`MailLimit::All`] is used up: begins an episode if the last time is more than
    /// [`EPISODE_GAP`] ago, and otherwise prolongs the current one, at most once a minute.
    fn note_limit(&self, at: i64) -> Result<(), StoreError> {
        let last = self.stored_time(LIMITED_AT)?.map(Timestamp::as_millisecond);
        let last = last.filter(|last| (last - EPISODE_GAP..last + EPISODE_GAP).contains(&at));
        if last.is_some_and(|last| at < last + EPISODE_PRECISION) {
            return Ok(());
        }
        let at = submission_rows::to_timestamp(at)?;
        if last.is_none() {
            self.store_time(LIMITED_SINCE, at)?;
        }
        self.store_time(LIMITED_AT, at)
    }

    /// When the latest episode began in which [`MailLimit::All`] was used up, unless the team has been
    /// notified of it, or it began at least a day ago or more than a day in the future.
    pub fn unannounced_mail_limit(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let Some(since) = self.stored_time(LIMITED_SINCE)? else { return Ok(None) };
        let age = self.to_database_time(now).as_millisecond() - since.as_millisecond();
        let is_recent = (-DAY_IN_MILLISECONDS..DAY_IN_MILLISECONDS).contains(&age);
        Ok((is_recent && self.stored_time(ANNOUNCED)? != Some(since)).then_some(since))
    }

    /// Records that the team has been told that [`MailLimit::All`] was used up at `since`.
    pub fn record_mail_limit_notice(&self, since: Timestamp) -> Result<(), StoreError> {
        self.store_time(ANNOUNCED, since)
    }

    /// Returns true and records the mail, unless the mailbox has had a mail of this kind within a day.
    fn claim_mailbox(&self, mail: VisitorMail, email: &str, at: i64) -> Result<bool, StoreError> {
        let claimed = self.sql.execute(
            "INSERT INTO visitor_mail (address, mail, until) VALUES (?1, ?2, ?3)
             ON CONFLICT (address, mail) DO UPDATE SET until = ?3 WHERE visitor_mail.until <= ?4",
            values![self.secret.mailbox(&mailbox_key(email)), mail.name(), at + DAY_IN_MILLISECONDS, at],
        )?;
        Ok(claimed == 1)
    }

    /// Removes what mails to visitors no longer need: mailboxes that had a mail more than a day ago, limits
    /// that are not used at all, and mails that have been waiting for a day although no channel sends them
    /// any more. Also removes mailboxes and limits whose times are too far in the future because the clock
    /// was set back, and makes confirmation mails with such times due. Each step removes up to 200 rows.
    /// Returns whether there may be more to remove.
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
        for (condition, bound) in [("rested < ?1", now * 1000), ("rested > ?1", (now + 2 * HOUR) * 1000)] {
            let forget = format!(
                "DELETE FROM visitor_rate WHERE key IN
                 (SELECT key FROM visitor_rate WHERE {condition} ORDER BY rested LIMIT {MAX_ROWS} {lock})"
            );
            has_more |= tx.execute(&forget, values![bound])? == MAX_ROWS;
        }
        for mail in VisitorMail::ALL {
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

impl InboxReader {
    /// When [`MailLimit::All`] was last used up, to the minute.
    pub fn mails_limited_at(&self) -> Result<Option<Timestamp>, StoreError> {
        submission_rows::stored_number(&*self.sql, LIMITED_AT)?.map(submission_rows::to_timestamp).transpose()
    }
}
