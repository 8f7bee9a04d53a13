//! The daily digest of problems that need the operator's attention, and the notifications that are sent at
//! once.

use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::notification::{Notification, Topic};
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{CanaryStatus, ChannelState, DatabaseUrl, Flood, InboxReader, StoreError};
use frontdesk_inbox::submission::delivery::DeliveryState;
use frontdesk_inbox::submission::visitor_mail::{MailLimit, VisitorMail, is_visitor_channel};
use frontdesk_process::disk_space::{MinFree, Shortage};

/// The problems that need the operator's attention. The digest contains nothing that visitors wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Set if the file system that holds the inbox is nearly full.
    pub shortage: Option<Shortage>,
    pub held: usize,
    /// Number of entries whose visitors should have been asked to confirm their addresses; 0 unless one of
    /// them should have been asked more than an hour ago.
    pub unasked: usize,
    /// When mails to visitors last reached the limit for all mails; `None` if not within the last day.
    pub mails_limited_at: Option<Timestamp>,
    /// Number of submissions whose processing failed.
    pub set_aside: usize,
    /// The canary's last run, if it failed or the next one is overdue.
    pub canary: Option<CanaryProblem>,
    /// Number of panics of the server since the last digest. 0 in commands other than `serve`.
    pub panics: u64,
    /// The number of open submissions whose follow-up is due, by assignee. `None` stands for no assignee.
    pub follow_ups: Vec<(Option<String>, usize)>,
    pub channels: Vec<ChannelState>,
    /// The number of overdue deliveries of each channel that has overdue deliveries.
    pub overdue: Vec<(String, usize)>,
    /// The number of deliveries of each channel that are still being retried after `MANY_FAILURES` or more
    /// failures.
    pub failing: Vec<(String, usize)>,
}

/// A delivery that has been due for longer than this is overdue. Shorter delays are normal in a backlog.
const LONG_DUE: Duration = Duration::from_hours(1);

/// The digest reports a delivery once it has failed this many times. With the retry schedule, that takes more
/// than half an hour.
const MANY_FAILURES: u32 = 4;
/// The digest names at most this many users with follow-ups.
const MAX_ASSIGNEES: usize = 20;
/// Minimum number of refused mails to visitors that the digest reports. They must also be more than a fifth
/// of the refused and accepted mails together.
const MANY_REFUSED: usize = 3;

impl Digest {
    /// Reads the counts as of `now`, and the free space on the file system of an SQLite database. Follow-ups
    /// are due by the date in this machine's time zone. The caller sets [`Self::panics`].
    pub fn read(
        inbox: &InboxReader,
        place: &DatabaseUrl,
        min_free: MinFree,
        now: Timestamp,
    ) -> Result<Digest, StoreError> {
        let queue = inbox.queue()?;
        let is_recent = |at: &Timestamp| now.duration_since(*at).abs() < SignedDuration::from_hours(24);
        let long_ago = now.checked_sub(LONG_DUE).unwrap_or(Timestamp::MIN);
        Ok(Digest {
            shortage: Shortage::check(place.file(), min_free),
            held: queue.held,
            unasked: if queue.unasked_since.is_some_and(|since| since < long_ago) {
                queue.unasked
            } else {
                0
            },
            mails_limited_at: inbox.mails_limited_at()?.filter(is_recent),
            set_aside: queue.set_aside,
            canary: inbox.canary_status()?.and_then(|status| CanaryProblem::of(&status, now)),
            panics: 0,
            follow_ups: inbox.due_follow_ups(now.to_zoned(TimeZone::system()).date())?,
            channels: inbox.channels()?,
            overdue: inbox.overdue(long_ago)?,
            failing: inbox.failing(MANY_FAILURES)?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// One line of text for each problem. Most lines name a command that helps.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.shortage.iter().map(Shortage::to_string).collect();
        if self.held > 0 {
            let (submissions, are) = counted(self.held, "submission", "submissions");
            let them = if self.held == 1 { "it" } else { "them" };
            lines.push(format!(
                "{submissions} {are} held until you release or discard {them} (frontdesk inbox list --status held)."
            ));
        }
        if self.unasked > 0 {
            let (entries, are) = counted(self.unasked, "waitlist entry", "waitlist entries");
            lines.push(format!(
                "{entries} {are} waiting for the mail in which the visitor confirms the address, and at least one mail has been due for more than an hour \
                 (frontdesk inbox list --status unconfirmed; frontdesk inbox show ID shows whether a limit of mails to visitors is the reason).",
            ));
        }
        if let Some(at) = self.mails_limited_at {
            lines.push(format!(
                "Mails to visitors reached the limit `{}`, last at {at:.0}: messages were delivered to you without an acknowledgement, \
                 and mails that ask for a confirmation waited.",
                MailLimit::All.key()
            ));
        }
        lines.extend(self.canary.iter().map(CanaryProblem::sentence));
        lines.extend(line_about_follow_ups(&self.follow_ups));
        if self.set_aside > 0 {
            let (submissions, are) = counted(self.set_aside, "submission", "submissions");
            lines.push(format!(
                "{submissions} could not be processed and {are} set aside (frontdesk inbox list --status parked; frontdesk inbox show ID shows why; \
                 frontdesk inbox retry --parked).",
            ));
        }
        if self.panics > 0 {
            let times = if self.panics == 1 { "once".to_owned() } else { format!("{} times", self.panics) };
            lines.push(format!(
                "A defect in frontdesk ended a request or a task {times}; everything else kept running. The log names the places in the code: please report them. \
                 If content of the site triggers the defect, frontdesk check names the file."
            ));
        }
        lines.extend(self.channels.iter().flat_map(|channel| self.lines_about_channel(channel)));
        lines
    }

    /// The sentences about one channel: that it is off or paused, or else about overdue and failing
    /// deliveries; then refused recipients and parked deliveries. At most one about a channel to visitors.
    fn lines_about_channel(&self, channel: &ChannelState) -> Vec<String> {
        let mut lines = Vec::new();
        let name = &channel.name;
        let of_channel = |counts: &[(String, usize)]| {
            let (_, n) = counts.iter().find(|(other, _)| other == name)?;
            Some(counted(*n, "delivery", "deliveries"))
        };
        if is_visitor_channel(name) {
            let late = of_channel(&self.overdue).or_else(|| of_channel(&self.failing));
            lines.extend(line_about_visitor_mail(channel, late.is_some()));
            return lines;
        }
        match &channel.obstacle {
            Some(obstacle) if obstacle.off => lines.push(format!(
                "Channel \"{name}\" has been switched off since {:.0}: its receiver replied that it is gone for good. Once it is back, or its address \
                 has been changed, run: frontdesk inbox retry --channel {name}",
                obstacle.since
            )),
            // Omit the receiver's reply, which may quote a visitor: the digest may go to people who do not
            // get that visitor's submission.
            Some(obstacle) => lines.push(format!(
                "Channel \"{name}\" has been failing since {:.0} and is only being probed; its deliveries are waiting (frontdesk inbox stats shows the receiver's reply).",
                obstacle.since
            )),
            None => {
                lines.extend(of_channel(&self.overdue).map(|(deliveries, _)| format!(
                    "{deliveries} for channel \"{name}\" should have been tried more than an hour ago: is a channel with that name still configured, and \
                     is the server running?",
                )));
                lines.extend(of_channel(&self.failing).map(|(deliveries, are)| format!(
                    "{deliveries} for channel \"{name}\" failed repeatedly and {are} still being retried (frontdesk inbox list --status waiting; \
                     frontdesk inbox show ID shows why).",
                )));
            }
        }
        for (address, count) in &channel.missing {
            let (deliveries, _) = counted(*count, "delivery", "deliveries");
            lines.push(format!(
                "The mail server of channel \"{name}\" refuses {address}: {deliveries} reached the other recipients only (frontdesk inbox show ID \
                 shows the reply). Correct or remove this address in the channel's `to`, then run: frontdesk inbox retry --parked --channel {name}"
            ));
        }
        let parked = channel.count(DeliveryState::Parked);
        if parked > 0 {
            let (deliveries, are) = counted(parked, "delivery", "deliveries");
            lines.push(format!(
                "{deliveries} for channel \"{name}\" {are} parked (frontdesk inbox list --status parked; frontdesk inbox retry --parked --channel {name}).",
            ));
        }
        lines
    }

    /// The digest for the day of `now` in UTC. Its id is derived from the date, so that receivers recognize a
    /// retry.
    pub fn notification(&self, now: Timestamp) -> Notification {
        let day = now.to_zoned(TimeZone::UTC).date();
        let title = "The inbox needs your attention";
        inbox_notification(Topic::Digest, &format!("digest {day}"), title, self.lines(), now)
    }

    /// Returns the channel names in the order to try: healthy channels, those with parked deliveries, and
    /// paused ones. A channel that the inbox does not know counts as healthy. Omits channels that are
    /// switched off.
    pub fn channels_to_try<'a>(&self, channels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let severity = |name: &str| {
            let known = self.channels.iter().find(|channel| channel.name == name);
            known.map_or(0, |channel| match &channel.obstacle {
                Some(obstacle) if obstacle.off => 3,
                Some(_) => 2,
                None => u8::from(channel.count(DeliveryState::Parked) > 0),
            })
        };
        let mut names: Vec<&str> = channels.filter(|name| severity(name) < 3).collect();
        names.sort_by_key(|name| severity(name));
        names
    }
}

/// A failed run of the canary, or a run that is overdue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryProblem {
    /// When the canary's outage began or, if the canary does not fail, when its last run ended.
    pub since: Timestamp,
    /// The canary's failure in one sentence. `None` if its last run succeeded and the next one is overdue.
    pub failure: Option<String>,
}

impl CanaryProblem {
    /// Returns the problem to report, or `None` if the last run succeeded and is recent.
    pub fn of(status: &CanaryStatus, now: Timestamp) -> Option<CanaryProblem> {
        if !status.is_ok {
            let since = status.failing_since.unwrap_or(status.ended_at);
            return Some(CanaryProblem { since, failure: Some(status.summary.clone()) });
        }
        status.is_overdue(now).then_some(CanaryProblem { since: status.ended_at, failure: None })
    }

    /// Describes the problem in one sentence for operators.
    pub fn sentence(&self) -> String {
        let since = self.since;
        match &self.failure {
            Some(failure) => {
                let failure = visible(failure);
                let failure = failure.trim_end_matches('.');
                format!(
                    "The canary has been failing since {since:.0}, so submissions may be lost: {failure} (frontdesk doctor shows all steps)."
                )
            }
            None => format!(
                "The canary has not run since {since:.0}, although it should have: is the server running (frontdesk doctor)?"
            ),
        }
    }
}

/// The number of submissions that are due for a follow-up, by user:
/// `3 submissions are due for a follow-up: 1 unassigned, 2 assigned to ada.` Names at most
/// [`MAX_ASSIGNEES`] users. `None` if there are none.
fn line_about_follow_ups(by_assignee: &[(Option<String>, usize)]) -> Option<String> {
    let total: usize = by_assignee.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return None;
    }
    let (submissions, are) = counted(total, "submission", "submissions");
    let named = by_assignee.iter().take(MAX_ASSIGNEES);
    let named = named.map(|(name, count)| match name {
        Some(name) => format!("{count} assigned to {}", visible(name)),
        None => format!("{count} unassigned"),
    });
    let mut named: Vec<String> = named.collect();
    let others: usize = by_assignee.iter().skip(MAX_ASSIGNEES).map(|(_, count)| count).sum();
    named.extend((others > 0).then(|| format!("{others} assigned to other users")));
    Some(format!("{submissions} {are} due for a follow-up: {}.", named.join(", ")))
}

/// A sentence if a channel to visitors does not work; otherwise `None`. A few refused mails are normal,
/// because visitors mistype their addresses. `is_late` says whether mails are overdue, or failed repeatedly.
fn line_about_visitor_mail(channel: &ChannelState, is_late: bool) -> Option<String> {
    let name = &channel.name;
    let effect = if *name == VisitorMail::Acknowledgement.name() {
        "Submissions still reach you."
    } else {
        "Waitlist entries reach you only after the visitor has confirmed the address, or after you release them."
    };
    let [parked, delivered] =
        [DeliveryState::Parked, DeliveryState::Delivered].map(|state| channel.count(state));
    let problem = match &channel.obstacle {
        Some(obstacle) => format!(
            "Mails to visitors ({name}) have been failing since {:.0} (frontdesk inbox stats shows the mail server's reply).",
            obstacle.since
        ),
        None if parked >= MANY_REFUSED && parked * 4 > delivered => format!(
            "The mail server has refused {parked} mails to visitors ({name}) and accepted {delivered}: check that it accepts mail to any address \
             (frontdesk inbox list --channel {name}).",
        ),
        None if is_late => format!(
            "Mails to visitors ({name}) have been waiting for more than an hour or have failed repeatedly \
             (frontdesk inbox list --channel {name}).",
        ),
        None => return None,
    };
    Some(format!("{problem} {effect}"))
}

/// The notification that submissions are being held because of floods. Its id is derived from the hour, so
/// that all replicas use the same id.
pub(super) fn flood_notification(floods: &[Flood], now: Timestamp) -> Notification {
    let line = |flood: &Flood| {
        let (submissions, are) = counted(flood.held, "submission", "submissions");
        format!(
            "{}: {submissions} {are} held. The form's quota (limits.form_per_minute, limits.form_per_hour) is exceeded, and these submissions come from networks that have sent \
             many. Other submissions are still being delivered. When the flood ends, the held ones are delivered too. To view them now: \
             frontdesk inbox list --status held --form {}",
            flood.form, flood.form
        )
    };
    let name = format!("flood {}", now.as_second().div_euclid(3600));
    let lines = floods.iter().map(line).collect();
    inbox_notification(Topic::Flood, &name, "A form is being flooded", lines, now)
}

/// The notification that mails to visitors have reached their limit per hour. Its id is derived from the time
/// at which the limit was first reached, `since`, so that the replica that retries it uses the same id.
pub(super) fn mail_limit_notification(since: Timestamp, now: Timestamp) -> Notification {
    let key = MailLimit::All.key();
    let lines = vec![
        format!(
            "Since {since:.0}, visitors get no mail or less mail: within an hour, as many mails of one kind were sent as `{key}` allows. \
             Networks that have sent many submissions may use only half of this limit."
        ),
        "Messages are still delivered to you, without an acknowledgement to the visitor. Waitlist entries that must be confirmed wait for \
         the mail: frontdesk inbox list --status unconfirmed"
            .to_owned(),
        format!("If this is not an attack, raise `{key}`. To see the networks that send the most: frontdesk inbox stats --abuse"),
    ];
    let name = format!("mail limit {}", since.as_millisecond());
    inbox_notification(Topic::MailLimit, &name, "Mails to visitors have reached their limit", lines, now)
}

/// Returns the count with its noun (`1 delivery`, `2 deliveries`), and the matching verb (`is` or `are`).
fn counted(n: usize, singular: &str, plural: &str) -> (String, &'static str) {
    if n == 1 { (format!("1 {singular}"), "is") } else { (format!("{n} {plural}"), "are") }
}

/// A notification about the inbox. Its id is a hash of `name`, so that receivers recognize a retry.
fn inbox_notification(
    topic: Topic,
    name: &str,
    title: &str,
    lines: Vec<String>,
    now: Timestamp,
) -> Notification {
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    Notification {
        id: uuid::Builder::from_random_bytes(id).into_uuid(),
        topic,
        created_at: now,
        dated_at: now,
        form: None,
        definition: None,
        is_suspicious: false,
        title: title.to_owned(),
        lines,
        fields: Vec::new(),
        may_be_there: true,
        lead: frontdesk_forms::LeadSource::default(),
    }
}

/// The most recent time, `now` included, when a digest was due. Digests are due daily at `at`, in UTC.
pub fn last_due(now: Timestamp, at: Time) -> Timestamp {
    let today = now.to_zoned(TimeZone::UTC).date();
    let due =
        |date: jiff::civil::Date| TimeZone::UTC.to_timestamp(date.to_datetime(at)).unwrap_or(Timestamp::MIN);
    match due(today) {
        due if due <= now => due,
        _ => today.yesterday().map_or(Timestamp::MIN, due),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use frontdesk_inbox::submission::delivery::Obstacle;
    use frontdesk_process::disk_space::Space;

    #[test]
    fn the_canary_is_mentioned_only_if_it_failed_or_is_overdue() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let status = CanaryStatus {
            started_at: at(0),
            ended_at: at(1),
            is_ok: true,
            every: 60,
            last_success_at: Some(at(1)),
            failing_since: None,
            is_notified: false,
            summary: "form contact: 404 Not Found.".to_owned(),
            report: serde_json::Value::Null,
        };
        let line = |status: &CanaryStatus, now| {
            Digest { canary: CanaryProblem::of(status, now), ..Digest::default() }.lines()
        };
        assert_eq!(line(&status, at(100)), Vec::<String>::new());
        assert_eq!(
            line(&status, at(200)),
            [
                "The canary has not run since 2027-01-15T08:00:01Z, although it should have: is the server running (frontdesk doctor)?"
            ]
        );
        let failed = CanaryStatus { is_ok: false, failing_since: Some(at(-60)), ..status };
        assert_eq!(
            line(&failed, at(1)),
            [
                "The canary has been failing since 2027-01-15T07:59:00Z, so submissions may be lost: form contact: 404 Not Found (frontdesk doctor shows all steps)."
            ]
        );
    }

    #[test]
    fn a_digest_without_problems_is_empty() {
        let digest = Digest { channels: vec![channel("crm", None, 0)], ..Digest::default() };
        assert!(digest.is_empty());
    }

    #[test]
    fn due_follow_ups_are_counted_by_user() {
        let mut digest =
            Digest { follow_ups: vec![(None, 1), (Some("ada\u{1b}".to_owned()), 2)], ..Digest::default() };
        assert_eq!(
            digest.lines(),
            ["3 submissions are due for a follow-up: 1 unassigned, 2 assigned to ada\\u{1b}."]
        );
        digest.follow_ups = (0..22).map(|n| (Some(format!("u{n:02}")), 1)).collect();
        assert!(
            digest.lines()[0].ends_with("1 assigned to u19, 2 assigned to other users."),
            "{:?}",
            digest.lines()
        );
        digest.follow_ups.clear();
        assert!(digest.is_empty());
    }

    #[test]
    fn each_problem_is_one_sentence() {
        let space = Space { free: 1 << 20, size: 1 << 40 };
        let digest = Digest {
            panics: 0,
            shortage: Some(Shortage { space, reserve: 1 << 30 }),
            held: 2,
            unasked: 3,
            mails_limited_at: Some("2026-11-20T06:00:00Z".parse().unwrap()),
            set_aside: 1,
            canary: None,
            follow_ups: Vec::new(),
            channels: vec![
                channel("crm", Some(false), 0),
                channel("mail", None, 1),
                channel("old", Some(true), 3),
                channel("renamed", None, 0),
                channel("visitor:acknowledgement", Some(false), 0),
                channel("visitor:confirmation", None, 3),
                channel("visitor:reminder", None, 2),
            ],
            // The digest already reports that `crm` is failing, so it omits these counts for `crm`.
            overdue: vec![("crm".to_owned(), 9), ("renamed".to_owned(), 2)],
            failing: vec![("crm".to_owned(), 9), ("mail".to_owned(), 3)],
        };
        let lines = digest.lines();
        let begin = [
            "Only 1.0 MiB of 1.0 TiB is free on the inbox's disk",
            "2 submissions are held",
            "3 waitlist entries are waiting for the mail in which the visitor confirms the address, and at least one mail has been due for more than an hour (",
            "Mails to visitors reached the limit `forms.visitor_mails_per_hour`, last at 2026-11-20T06:00:00Z",
            "1 submission could not be processed and is set aside",
            "Channel \"crm\" has been failing since 2026-11-20T06:00:00Z",
            "3 deliveries for channel \"mail\" failed repeatedly and are still being retried",
            "1 delivery for channel \"mail\" is parked",
            "Channel \"old\" has been switched off since 2026-11-20T06:00:00Z",
            "3 deliveries for channel \"old\" are parked",
            "2 deliveries for channel \"renamed\" should have been tried more than an hour ago",
            "Mails to visitors (visitor:acknowledgement) have been failing since 2026-11-20T06:00:00Z",
            "The mail server has refused 3 mails to visitors (visitor:confirmation) and accepted 7",
        ];
        assert_eq!(lines.len(), begin.len(), "{lines:#?}");
        for (line, begin) in lines.iter().zip(begin) {
            assert!(line.starts_with(begin), "{line}");
            assert!(!line.contains("nobody@example.com"), "a receiver's reply may quote a visitor: {line}");
        }
    }

    #[test]
    fn a_refused_recipient_is_named() {
        let missing = [("left@example.com".to_owned(), 3)].into();
        let digest = Digest {
            channels: vec![ChannelState { missing, ..channel("mail", None, 3) }],
            ..Digest::default()
        };
        let lines = digest.lines();
        assert!(
            lines[0].starts_with(
                "The mail server of channel \"mail\" refuses left@example.com: 3 deliveries reached the other recipients only"
            ),
            "{lines:#?}"
        );
    }

    #[test]
    fn healthy_channels_are_tried_first() {
        let digest = Digest {
            channels: vec![
                channel("crm", Some(false), 0),
                channel("mail", None, 1),
                channel("old", Some(true), 0),
                channel("team", None, 0),
            ],
            ..Digest::default()
        };
        let order = digest.channels_to_try(["crm", "mail", "new", "old", "team"].into_iter());
        assert_eq!(order, ["new", "team", "mail", "crm"]);
    }

    #[test]
    fn panics_are_reported_with_what_to_do() {
        let of = |panics| Digest { panics, ..Digest::default() }.lines();
        assert!(of(0).is_empty());
        assert!(of(1)[0].starts_with("A defect in frontdesk ended a request or a task once;"), "{:?}", of(1));
        assert!(of(2)[0].contains("a task 2 times;"), "{:?}", of(2));
    }

    #[test]
    fn a_day_has_one_digest() {
        let digest = Digest { held: 1, ..Digest::default() };
        let at = |text: &str| digest.notification(text.parse().unwrap()).id;
        assert_eq!(at("2026-11-20T07:00:00Z"), at("2026-11-20T23:59:59Z"));
        assert_ne!(at("2026-11-20T07:00:00Z"), at("2026-11-21T07:00:00Z"));
        assert_ne!(at("2026-11-20T07:00:00Z"), Uuid::nil());
    }

    #[test]
    fn a_digest_is_due_once_a_day() {
        let due = |now: &str| last_due(now.parse().unwrap(), Time::constant(7, 0, 0, 0)).to_string();
        assert_eq!(due("2026-11-20T06:59:59Z"), "2026-11-19T07:00:00Z");
        assert_eq!(due("2026-11-20T07:00:00Z"), "2026-11-20T07:00:00Z");
        assert_eq!(due("2026-11-20T23:00:00Z"), "2026-11-20T07:00:00Z");
    }

    fn channel(name: &str, off: Option<bool>, parked: usize) -> ChannelState {
        let since = "2026-11-20T06:00:00Z".parse().unwrap();
        ChannelState {
            name: name.to_owned(),
            obstacle: off.map(|off| Obstacle { off, since, answer: "no nobody@example.com".to_owned() }),
            deliveries: vec![(DeliveryState::Delivered, 7), (DeliveryState::Parked, parked)],
            ..ChannelState::default()
        }
    }
}
