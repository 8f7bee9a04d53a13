//! What waits for the operator's attention, in a few sentences, once a day.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::notice::{About, Notice};
use crate::store::disk::{MinFree, Shortage};
use crate::store::{ChannelState, Filter, Flood, Place, Reader, StoreError};
use crate::submission::Status;
use crate::submission::delivery::State;

/// What needs somebody to look at it. It holds counts and names of channels, and nothing that a visitor sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Set if the file system of the inbox is nearly full.
    pub shortage: Option<Shortage>,
    /// Submissions that are held.
    pub held: usize,
    /// Submissions that could not be processed and are set aside.
    pub set_aside: usize,
    /// The channels, with what keeps them from delivering and how many deliveries they have in which state.
    pub channels: Vec<ChannelState>,
    /// The channels with deliveries that nobody makes though they have long been due, and how many those are.
    pub overdue: Vec<(String, usize)>,
    /// The channels with deliveries that have failed again and again and are still tried, and how many those are.
    pub failing: Vec<(String, usize)>,
}

/// What has been due for longer waits for something else than its turn.
const LONG_DUE: Duration = Duration::from_hours(1);

/// So many failures take more than half an hour by the schedule.
const MANY_FAILURES: u32 = 4;

impl Digest {
    /// Reads the counts, as they are at `now`, and looks at the file system of `place`, which is where `inbox` is.
    pub fn read(
        inbox: &Reader,
        place: &Place,
        min_free: MinFree,
        now: Timestamp,
    ) -> Result<Digest, StoreError> {
        let shortage = Shortage::at(place, min_free);
        let held = inbox.count(&Filter { status: Some(Status::Held), ..Filter::default() })?;
        let overdue = inbox.overdue(now.checked_sub(LONG_DUE).unwrap_or(Timestamp::MIN))?;
        Ok(Digest {
            shortage,
            held,
            set_aside: inbox.queue()?.set_aside,
            channels: inbox.channels()?,
            overdue,
            failing: inbox.failing(MANY_FAILURES)?,
        })
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// A sentence for each thing that needs attention, with what to do about it.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.shortage.iter().map(Shortage::to_string).collect();
        match self.held {
            0 => {}
            1 => lines.push(
                "1 submission is held until you release or discard it (frontdesk inbox list --status held).".to_owned(),
            ),
            n => lines.push(format!(
                "{n} submissions are held until you release or discard them (frontdesk inbox list --status held)."
            )),
        }
        match self.set_aside {
            0 => {}
            n => lines.push(format!(
                "{n} {} could not be processed and {} set aside (frontdesk inbox list --status parked; frontdesk inbox show ID tells why; \
                 frontdesk inbox retry --parked).",
                if n == 1 { "submission" } else { "submissions" },
                if n == 1 { "is" } else { "are" },
            )),
        }
        for channel in &self.channels {
            let name = &channel.name;
            match &channel.obstacle {
                Some(obstacle) if obstacle.off => lines.push(format!(
                    "Channel \"{name}\" has been switched off since {:.0}: the other side said that it is gone. Once it is there again, or its address \
                     is changed, run: frontdesk inbox retry --channel {name}",
                    obstacle.since
                )),
                // What it says may quote a visitor, and this goes to others than its submission did.
                Some(obstacle) => lines.push(format!(
                    "Channel \"{name}\" has been failing since {:.0} and is only probed; what is meant for it waits (frontdesk inbox stats tells what it says).",
                    obstacle.since
                )),
                None => {}
            }
            let overdue = self.overdue.iter().find(|(other, _)| other == name);
            if let (None, Some((_, n))) = (&channel.obstacle, overdue) {
                lines.push(format!(
                    "{n} {} for channel \"{name}\" should have been tried more than an hour ago: is a channel of that name still configured, and \
                     does the server run?",
                    if *n == 1 { "delivery" } else { "deliveries" },
                ));
            }
            let failing = self.failing.iter().find(|(other, _)| other == name);
            if let (None, Some((_, n))) = (&channel.obstacle, failing) {
                lines.push(format!(
                    "{n} {} for channel \"{name}\" failed again and again and {} still tried (frontdesk inbox list --status waiting; \
                     frontdesk inbox show ID tells why).",
                    if *n == 1 { "delivery" } else { "deliveries" },
                    if *n == 1 { "is" } else { "are" },
                ));
            }
            match channel.count(State::Parked) {
                0 => {}
                n => lines.push(format!(
                    "{n} {} for channel \"{name}\" {} parked (frontdesk inbox list --status parked; frontdesk inbox retry --parked --channel {name}).",
                    if n == 1 { "delivery" } else { "deliveries" },
                    if n == 1 { "is" } else { "are" },
                )),
            }
        }
        lines
    }

    /// As it is sent on a day. Its id is the day's, so that however often it has to be sent it is recognised.
    pub fn notice(&self, now: Timestamp) -> Notice {
        let day = now.to_zoned(TimeZone::UTC).date();
        let title = "The inbox needs your attention".to_owned();
        notice(About::Digest, &format!("digest {day}"), title, self.lines(), now)
    }

    /// The channels by which it is best told, the best first: whichever is well, then the others. One that is switched off is
    /// not among them.
    pub fn order<'a>(&self, channels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let ill = |name: &str| {
            let known = self.channels.iter().find(|channel| channel.name == name);
            known.map_or(0, |channel| match &channel.obstacle {
                Some(obstacle) if obstacle.off => 3,
                Some(_) => 2,
                None => u8::from(channel.count(State::Parked) > 0),
            })
        };
        let mut names: Vec<&str> = channels.filter(|name| ill(name) < 3).collect();
        names.sort_by_key(|name| ill(name));
        names
    }
}

/// The notice that submissions are held because of floods. Its id is a hash of the hour, so replicas use the same id for one flood.
pub(super) fn flood_notice(floods: &[Flood], now: Timestamp) -> Notice {
    let line = |flood: &Flood| {
        format!(
            "{}: {} held. Its quota (limits.form_per_minute, limits.form_per_hour) is exceeded, and the networks that sent them have sent \
             many. Other submissions are delivered. When the flood ends, these are delivered as well; to look at them now: \
             frontdesk inbox list --status held --form {}",
            flood.form,
            if flood.held == 1 {
                "1 submission is".to_owned()
            } else {
                format!("{} submissions are", flood.held)
            },
            flood.form
        )
    };
    let hour = now.as_second().div_euclid(3600);
    let words = floods.iter().map(line).collect();
    notice(About::Flood, &format!("flood {hour}"), "A form is being flooded".to_owned(), words, now)
}

/// A notice about the inbox. Its id is a hash of `name`, so that a receiver recognises the same notice if it is sent again.
fn notice(about: About, name: &str, title: String, words: Vec<String>, now: Timestamp) -> Notice {
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    Notice {
        id: uuid::Builder::from_random_bytes(id).into_uuid(),
        about,
        created_at: now,
        form: None,
        is_suspicious: false,
        title,
        words,
        fields: Vec::new(),
        may_be_there: true,
    }
}

/// The last moment at or before `now` at which a digest was due, where it is due each day at that time in UTC.
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

    use crate::store::disk::Space;
    use crate::submission::delivery::Obstacle;

    #[test]
    fn where_all_is_well_there_is_nothing_to_say() {
        let digest = Digest { channels: vec![channel("crm", None, 0)], ..Digest::default() };
        assert!(digest.is_empty());
    }

    #[test]
    fn everything_that_needs_attention_has_its_sentence() {
        let space = Space { free: 1 << 20, size: 1 << 40 };
        let digest = Digest {
            shortage: Some(Shortage { space, reserve: 1 << 30 }),
            held: 2,
            set_aside: 1,
            channels: vec![
                channel("crm", Some(false), 0),
                channel("mail", None, 1),
                channel("old", Some(true), 3),
                channel("renamed", None, 0),
            ],
            // Why nothing is delivered by that one is said already.
            overdue: vec![("crm".to_owned(), 9), ("renamed".to_owned(), 2)],
            failing: vec![("crm".to_owned(), 9), ("mail".to_owned(), 3)],
        };
        let lines = digest.lines();
        let begin = [
            "Only 1.0 MiB of 1.0 TiB is free where the inbox is",
            "2 submissions are held",
            "1 submission could not be processed and is set aside",
            "Channel \"crm\" has been failing since 2026-11-20T06:00:00Z",
            "3 deliveries for channel \"mail\" failed again and again and are still tried",
            "1 delivery for channel \"mail\" is parked",
            "Channel \"old\" has been switched off since 2026-11-20T06:00:00Z",
            "3 deliveries for channel \"old\" are parked",
            "2 deliveries for channel \"renamed\" should have been tried more than an hour ago",
        ];
        assert_eq!(lines.len(), begin.len(), "{lines:#?}");
        for (line, begin) in lines.iter().zip(begin) {
            assert!(line.starts_with(begin), "{line}");
            assert!(!line.contains("nobody@example.com"), "another side may quote a visitor: {line}");
        }
    }

    #[test]
    fn it_is_told_over_a_channel_that_is_well_where_there_is_one() {
        let digest = Digest {
            channels: vec![
                channel("crm", Some(false), 0),
                channel("mail", None, 1),
                channel("old", Some(true), 0),
                channel("team", None, 0),
            ],
            ..Digest::default()
        };
        let order = digest.order(["crm", "mail", "new", "old", "team"].into_iter());
        assert_eq!(order, ["new", "team", "mail", "crm"]);
    }

    #[test]
    fn a_day_has_one_digest() {
        let digest = Digest { held: 1, ..Digest::default() };
        let at = |text: &str| digest.notice(text.parse().unwrap()).id;
        assert_eq!(at("2026-11-20T07:00:00Z"), at("2026-11-20T23:59:59Z"));
        assert_ne!(at("2026-11-20T07:00:00Z"), at("2026-11-21T07:00:00Z"));
        assert_ne!(at("2026-11-20T07:00:00Z"), Uuid::nil());
    }

    #[test]
    fn it_is_due_once_a_day() {
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
            deliveries: vec![(State::Delivered, 7), (State::Parked, parked)],
        }
    }
}
