//! The daily mail to each user of the inbox: follow-ups that are due, and how many submissions are new, open,
//! held and failed. It names senders and forms, and contains nothing else that visitors wrote.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::smtp::SmtpOptions;
use super::user_mail::UserMail;
use frontdesk_forms::text::{shorten, visible};
use frontdesk_inbox::store::{Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::delivery_outcome::Outcome;
use frontdesk_inbox::submission::{Status, Submission};

/// A mail names at most this many follow-ups.
const MAX_NAMED: usize = 20;
/// Submissions are counted up to this number.
const MAX_COUNTED: usize = 1000;
/// Time after which no further follow-ups are searched for. Only a search among more than a thousand due
/// follow-ups, most of them done, can take so long.
const READ_TIME: Duration = Duration::from_secs(5);
/// Maximum length of the name of a sender, in characters.
const MAX_NAME: usize = 80;
/// How long after its due time a mail is still sent, if the server was down or the mail server failed.
pub const MAX_DELAY: Duration = Duration::from_hours(4);

/// The line below [`MAX_NAMED`] follow-ups if there are others.
const MORE: &str = "- and more";
/// The line below the follow-ups if [`READ_TIME`] passed before all submissions were searched.
const PERHAPS_MORE: &str = "- and perhaps more: not all were searched";

#[derive(Clone, Debug)]
pub struct ReminderOptions {
    /// The time of day at which the mails are due, in the time zone of this machine.
    pub at: Time,
    /// The addresses of the users, which are also their names as assignees.
    pub users: Vec<String>,
    pub smtp: SmtpOptions,
    pub site: String,
}

/// The most recent time, up to `now`, when mails were due, unless that is longer ago than [`MAX_DELAY`].
pub fn due_at(now: &Zoned, at: Time) -> Option<Timestamp> {
    let of = |day: Date| day.to_datetime(at).to_zoned(now.time_zone().clone()).ok();
    let days = [Some(now.date()), now.date().yesterday().ok()];
    let due = days.into_iter().flatten().filter_map(of).find(|due| due <= now)?.timestamp();
    let delay = now.timestamp().duration_since(due);
    (delay <= SignedDuration::try_from(MAX_DELAY).unwrap_or_default()).then_some(due)
}

/// The content of the mail to one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reminder {
    /// One line for each due follow-up of the user or of no user, newest submission first, at most
    /// `MAX_NAMED`.
    pub follow_ups: Vec<String>,
    /// The line below the follow-ups if there are, or may be, others.
    others: Option<&'static str>,
    /// The number of submissions of the last day, by form. Only the newest `MAX_COUNTED` are counted.
    pub new: BTreeMap<String, usize>,
    /// The numbers of open, held and failed submissions, each up to `MAX_COUNTED`.
    pub counts: [usize; 3],
}

impl Reminder {
    /// Reads the content for `user` as of `now`. Includes follow-ups of no user. Omits submissions that are
    /// held or spam from follow-ups and new ones, and those that are done from follow-ups.
    pub fn read(inbox: &InboxReader, user: &str, now: &Zoned) -> Result<Reminder, StoreError> {
        let mut found: Vec<Submission> = Vec::new();
        let (began, mut is_partial) = (Instant::now(), false);
        for assignee in [user, ""] {
            let due = Filter {
                assignee: Some(assignee.to_owned()),
                follow_up_until: Some(now.date()),
                is_done: Some(false),
                is_held: Some(false),
                is_spam: Some(false),
                limit: Some(MAX_NAMED + 1),
                ..Filter::default()
            };
            let page = inbox.page(&due, None, MAX_NAMED + 1, &|| began.elapsed() >= READ_TIME)?;
            is_partial |= page.is_partial;
            found.extend(page.submissions);
        }
        found.sort_by_key(|submission| std::cmp::Reverse(submission.id));
        let ids: Vec<_> = found.iter().map(|submission| submission.id).collect();
        let annotations = inbox.annotations(&ids)?;
        let line = |submission: &Submission| {
            let annotation = annotations.get(&submission.id);
            let day = annotation.and_then(|annotation| annotation.follow_up);
            let day = day.map(|day| day.to_string()).unwrap_or_default();
            let is_free = annotation.is_some_and(|annotation| annotation.assignee.is_none());
            let whose = if is_free { ", unassigned" } else { "" };
            format!("{} ({}), due {day}{whose}", name_of(submission), visible(&submission.form))
        };
        let follow_ups = found.iter().take(MAX_NAMED).map(line).collect();
        let since = now.timestamp().checked_sub(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MIN);
        let recent = Filter {
            from: Some(since),
            is_held: Some(false),
            is_spam: Some(false),
            limit: Some(MAX_COUNTED),
            ..Filter::default()
        };
        let mut new = BTreeMap::new();
        for submission in inbox.list(&recent)? {
            *new.entry(submission?.form).or_default() += 1;
        }
        let [open, _] = inbox.count_open(MAX_COUNTED)?;
        let [held, failed] = [Status::Held, Status::Parked];
        let counts = [open, inbox.count_up_to(held, MAX_COUNTED)?, inbox.count_up_to(failed, MAX_COUNTED)?];
        let others = if found.len() > MAX_NAMED { Some(MORE) } else { is_partial.then_some(PERHAPS_MORE) };
        Ok(Reminder { follow_ups, others, new, counts })
    }

    /// Whether no mail is needed: no follow-up is due, and there are no new submissions. Open, held and
    /// failed submissions alone need none.
    pub fn is_empty(&self) -> bool {
        self.follow_ups.is_empty() && self.others.is_none() && self.new.is_empty()
    }

    /// The text of the mail, with lines that end in CRLF.
    pub fn text(&self) -> String {
        let count = |count: usize| match count {
            MAX_COUNTED.. => format!("{MAX_COUNTED} or more"),
            count => count.to_string(),
        };
        let mut lines = Vec::new();
        if !self.follow_ups.is_empty() || self.others.is_some() {
            lines.push("Follow up today:".to_owned());
            lines.extend(self.follow_ups.iter().map(|line| format!("- {line}")));
            lines.extend(self.others.map(str::to_owned));
            lines.push(String::new());
        }
        if !self.new.is_empty() {
            lines.push("New since yesterday:".to_owned());
            lines.extend(self.new.iter().map(|(form, n)| format!("- {}: {n}", visible(form))));
            let is_partial = self.new.values().sum::<usize>() >= MAX_COUNTED;
            let more = format!("- and perhaps more: only the newest {MAX_COUNTED} were counted");
            lines.extend(is_partial.then_some(more));
            lines.push(String::new());
        }
        let [open, held, failed] = self.counts.map(count);
        lines.push(format!("In total: {open} open, {held} held, {failed} not delivered."));
        lines.join("\r\n") + "\r\n"
    }
}

/// The name of the sender, shortened to [`MAX_NAME`]. `encrypted` if it cannot be read; `no name` if there is
/// none or it looks like an e-mail or web address.
fn name_of(submission: &Submission) -> String {
    if submission.sealed.is_some() {
        return "encrypted".to_owned();
    }
    let field = |name: &str| submission.get(name).map(str::trim).filter(|text| !text.is_empty());
    let parts: Vec<&str> = [field("firstname"), field("lastname")].into_iter().flatten().collect();
    let full = Some(parts.join(" ")).filter(|name| !name.is_empty());
    // Omit addresses: mail programs turn them into links, and users trust this mail.
    let is_name = |name: &String| !name.contains(['@', '/']) && !name.contains("www.");
    let name = field("name").map(str::to_owned).or(full).filter(is_name);
    let name = name.unwrap_or_else(|| "no name".to_owned());
    visible(&shorten(&name, MAX_NAME))
}

/// Sends a user's mail. Every attempt for the same `due` has the same Message-ID and date.
pub async fn send(options: &ReminderOptions, user: &str, reminder: &Reminder, due: Timestamp) -> Outcome {
    let id = blake3::hash(format!("{user} {due}").as_bytes()).to_hex();
    let mail = UserMail {
        to: user,
        subject: format!("Your day in the inbox of {}", options.site),
        text: reminder.text(),
        id: format!("{}.reminder", &id[..32]),
        at: due,
    };
    mail.send(&options.smtp).await
}

/// Converts a time to this machine's time zone, in which mails are due.
pub fn local(now: Timestamp) -> Zoned {
    now.to_zoned(TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_is_due_for_some_hours_after_its_time_of_day() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let check = |now: &str, expected: Option<&str>| {
            let now = now.parse::<Timestamp>().unwrap().to_zoned(zone.clone());
            let due = due_at(&now, Time::constant(8, 0, 0, 0));
            assert_eq!(due, expected.map(|due| due.parse().unwrap()), "{now}");
        };
        check("2026-11-27T06:59:59Z", None);
        check("2026-11-27T07:00:00Z", Some("2026-11-27T07:00:00Z"));
        check("2026-11-27T11:00:00Z", Some("2026-11-27T07:00:00Z"));
        check("2026-11-27T11:00:01Z", None);
    }

    #[test]
    fn the_text_says_what_is_due_and_new() {
        let mut reminder = Reminder { counts: [3, 0, 1000], ..Reminder::default() };
        assert!(reminder.is_empty());
        let partial = Reminder { others: Some(PERHAPS_MORE), ..Reminder::default() };
        assert!(!partial.is_empty());
        assert!(
            partial.text().starts_with("Follow up today:\r\n- and perhaps more: not all were searched\r\n")
        );
        reminder.follow_ups.push("Ada (contact), due 2026-11-27".to_owned());
        reminder.new.insert("contact".to_owned(), 2);
        assert_eq!(
            reminder.text(),
            "Follow up today:\r\n- Ada (contact), due 2026-11-27\r\n\r\nNew since yesterday:\r\n- contact: 2\r\n\r\n\
             In total: 3 open, 0 held, 1000 or more not delivered.\r\n"
        );
        reminder.new.insert("waitlist".to_owned(), 997);
        assert!(reminder.text().contains("\r\n- contact: 2\r\n- waitlist: 997\r\n\r\n"));
        // The newest 1000 do not say how many older ones there are, of any form.
        reminder.new.insert("waitlist".to_owned(), 998);
        let more = "- and perhaps more: only the newest 1000 were counted";
        assert!(reminder.text().contains(&format!("\r\n- contact: 2\r\n- waitlist: 998\r\n{more}\r\n\r\n")));
    }
}
