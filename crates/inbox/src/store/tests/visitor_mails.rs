//! Mails to visitors: who gets one, how many, and that none counts as a delivery to the team.

use super::*;
use crate::submission::delivery::Delivery;
use crate::submission::delivery_outcome::Cause;
use crate::submission::visitor_mail::{HourlyLimits, VisitorMail, VisitorRule};

const THANKS: &str = VisitorMail::Acknowledgement.name();

#[test]
fn a_new_clean_message_is_acknowledged_once() {
    let fixture = acknowledging(100);
    let message = contact("Hello");
    let id = fixture.accept_new(&message);
    assert_eq!(fixture.mail(id).unwrap().state, DeliveryState::Waiting);
    fixture.accept_repeat(&later(&message, MILLISECOND), id);
    assert_eq!(fixture.mails(), 1);
    // The waitlist has no acknowledgement.
    assert!(fixture.mail(fixture.accept_new(&waitlist("ada@example.com"))).is_none());
    // Another message from the same address, or from a variant of it, on the same day.
    assert!(fixture.mail(fixture.accept_new(&from("ADA+1@Example.com", "two"))).is_none());
    let next_day = later(&from("ada@example.com", "three"), DAY);
    assert!(fixture.mail(fixture.accept_new(&next_day)).is_some());
}

#[test]
fn a_hundred_messages_from_an_address_are_acknowledged_once() {
    let fixture = acknowledging(100);
    let arrivals: Vec<Arrival> = (0..100).map(|n| contact(&n.to_string())).collect();
    for accepted in fixture.accept_all(&arrivals) {
        accepted.unwrap();
    }
    assert_eq!((fixture.list().len(), fixture.mails()), (100, 1));
}

#[test]
fn held_and_suspicious_messages_are_never_acknowledged() {
    let fixture = acknowledging(100);
    let held = fixture.accept_new(&contact("held").held_for(&[(Signal::Links, "4 links")]));
    let verdict = ScreeningVerdict { suspicious: true, ..ScreeningVerdict::default() };
    let suspicious = Arrival { evidence: Evidence::Verdict(verdict), ..contact("suspicious") };
    let suspicious = fixture.accept_new(&suspicious);
    assert!(fixture.editor().release(held, &fixture.options.channels, noon()).unwrap());
    assert_eq!((fixture.mail(held), fixture.mail(suspicious), fixture.mails()), (None, None, 0));
    // A repeat that releases a held message is not acknowledged either.
    let held = fixture.accept_new(&from("eve@example.com", "odd").held_for(&[(Signal::Links, "4 links")]));
    fixture.accept_repeat(&from("eve@example.com", "odd"), held);
    assert_eq!((fixture.status(held), fixture.mails()), (Status::Waiting, 0));
}

#[test]
fn a_flood_sends_no_mail() {
    let fixture = Fixture::with_options(|options| {
        options.channels = routes(only_all(100));
        options.intake.form_quota = Some(Quota { per_minute: 5, per_hour: 5 });
        // No flood ends while a test runs.
        options.intake.flood_ends_after = Duration::from_hours(1);
    });
    for n in 0..40 {
        let arrival = from(&format!("v{n}@example.org"), &n.to_string());
        fixture.accept_new(&Arrival { received_at: Timestamp::now(), ..arrival });
    }
    let held = fixture.list().iter().filter(|one| one.status == Status::Held).count();
    assert!(held > 30, "{held}");
    assert_eq!(fixture.mails(), 40 - held);
}

#[test]
fn all_visitors_together_get_a_limited_number_of_mails_per_hour() {
    let fixture = acknowledging(10);
    let send = |n: u8, minutes: u64| {
        let arrival = from(&format!("v{n}@example.org"), &n.to_string());
        let id = fixture.accept_new(&later(&from_network(arrival, n), Duration::from_mins(minutes)));
        fixture.mail(id).is_some()
    };
    let first: Vec<bool> = (0..14).map(|n| send(n, 0)).collect();
    assert_eq!(first.iter().filter(|sent| **sent).count(), 10, "{first:?}");
    // A tenth of an hour later, there is room for one more. A mail that was not sent used up nothing.
    assert_eq!([14, 15].map(|n| send(n, 6)), [true, false]);
    // After the clock was set back, what was sent before does not count.
    assert_eq!([16, 17].map(|n| send(n, if n == 16 { 24 * 60 } else { 0 })), [true; 2]);
}

#[test]
fn one_network_uses_up_only_half_of_the_limit() {
    let fixture = acknowledging(10);
    let send = |network: u8, n: u32| {
        let arrival = from(&format!("v{network}.{n}@example.org"), &format!("{network} {n}"));
        let id = fixture.accept_new(&from_network(arrival, network));
        fixture.mail(id).is_some()
    };
    assert_eq!((0..40).filter(|n| send(1, *n)).count(), 5);
    assert_eq!((0..4).map(|n| send(n + 2, 0)).collect::<Vec<_>>(), [true; 4]);
}

#[test]
fn a_domain_gets_a_limited_number_of_mails_per_hour() {
    let fixture = limited(HourlyLimits { all: 100, network: None, domain: Some(3) });
    let mut number = 0;
    let mut send = |email: &str, minutes: u64| {
        number += 1;
        let arrival = from_network(from(email, &number.to_string()), number);
        fixture.mail(fixture.accept_new(&later(&arrival, Duration::from_mins(minutes)))).is_some()
    };
    // The names below a domain are in the same hands.
    let names = ["a@example.com", "b@b.example.com", "c@x.c.EXAMPLE.com", "d@example.com", "e@e.example.com"];
    assert_eq!(names.map(|email| send(email, 0)), [true, true, true, false, false]);
    assert_eq!(["a@example.org", "a@example.co.uk", "a@other.co.uk"].map(|email| send(email, 0)), [true; 3]);
    assert!((0..9).all(|n| send(&format!("v{n}@gmail.com"), 0)), "a large provider");
    assert_eq!(["f@example.com", "g@example.com"].map(|email| send(email, 21)), [true, false]);
    // A mail that was not sent does not count for its mailbox.
    assert!(send("g@example.com", 60));
    assert_eq!(fixture.list().len(), number as usize, "all are kept");
}

#[test]
fn a_network_causes_a_limited_number_of_mails_per_hour() {
    let fixture = limited(HourlyLimits { all: 100, network: Some(4), domain: None });
    let send = |network: u8, n: u32| {
        let arrival = from(&format!("v{n}@{network}.example"), &format!("{network} {n}"));
        fixture.mail(fixture.accept_new(&from_network(arrival, network))).is_some()
    };
    for network in 1..4 {
        assert_eq!((0..9).filter(|n| send(network, *n)).count(), 4);
    }
}

#[test]
fn limits_survive_a_restart_and_expire() {
    let mut fixture = limited(HourlyLimits { all: 100, network: Some(9), domain: Some(1) });
    let id = fixture.accept_new(&from("a@example.com", "one"));
    assert!(fixture.mail(id).is_some());
    fixture.store.close();
    fixture.store = TestInbox::open(&fixture.options).unwrap();
    let id = fixture.accept_new(&from("b@example.com", "two"));
    assert!(fixture.mail(id).is_none());
    assert_eq!(fixture.count("visitor_rate"), 3, "all, the network and the domain");
    for row in fixture.fresh.sql().query("SELECT key FROM visitor_rate", &[]).unwrap() {
        assert_eq!(row.get::<Vec<u8>>("key").unwrap().len(), 16, "keyed hashes");
    }
    fixture.tidy(arrival_time());
    assert_eq!(fixture.count("visitor_rate"), 3);
    fixture.tidy(arrival_time() + Duration::from_mins(61));
    assert_eq!(fixture.count("visitor_rate"), 0);
}

#[test]
fn replicas_share_the_limits() {
    let fixture = limited(HourlyLimits { all: 100, network: None, domain: Some(5) });
    if fixture.options.url.file().is_some() {
        return;
    }
    let other = TestInbox::open(&fixture.options).unwrap();
    fixture.runtime.block_on(async {
        for n in 0..20 {
            let arrivals = [n, n + 20].map(|n| from(&format!("v{n}@example.com"), "Hello"));
            let [one, two] = arrivals;
            let (one, two) =
                tokio::join!(fixture.store.accept_and_process(one), other.accept_and_process(two));
            one.and(two).unwrap();
        }
    });
    assert_eq!((fixture.list().len(), fixture.mails()), (40, 5));
}

#[test]
fn aliases_of_a_mailbox_are_acknowledged_once() {
    let fixture = acknowledging(100);
    for aliases in [
        ["ada.love@gmail.com", "adalove+1@googlemail.com", "A.dalove@gmail.com"],
        ["ada.love@proton.me", "ada-love@pm.me", "ada_love+x@protonmail.com"],
        ["ada@fastmail.com", "shop@ada.fastmail.com", "ada+x@fastmail.com"],
        ["ada.love@yandex.ru", "ada-love@ya.ru", "ada-love+x@yandex.com"],
        ["ada@icloud.com", "ada@me.com", "ada+x@mac.com"],
        ["ada@outlook.com", "ada+x@outlook.com", "ADA+y@Outlook.com"],
    ] {
        let sent = aliases.map(|email| fixture.mail(fixture.accept_new(&from(email, email))).is_some());
        assert_eq!(sent, [true, false, false], "{aliases:?}");
    }
}

#[test]
fn the_team_is_notified_once_per_episode_in_which_the_limit_is_used_up() {
    let fixture = acknowledging(2);
    let mut number = 0;
    let mut send = |minutes: u64| {
        number += 1;
        let arrival = from_network(from(&format!("v{number}@example.org"), "Hello"), number);
        fixture.mail(fixture.accept_new(&later(&arrival, Duration::from_mins(minutes)))).is_some()
    };
    let minute = |minutes: u64| arrival_time() + Duration::from_mins(minutes);
    let unannounced = |now| {
        let read = fixture.store.change(move |tx| {
            let since = tx.unannounced_mail_limit(now)?;
            since.map_or(Ok(()), |since| tx.record_mail_limit_notice(since))?;
            Ok(since)
        });
        fixture.runtime.block_on(read).unwrap()
    };
    let limited_at = || fixture.reader().mails_limited_at().unwrap();
    assert_eq!([send(0), send(0)], [true, true]);
    assert_eq!((unannounced(minute(0)), limited_at()), (None, None));
    assert!(!send(5));
    assert_eq!((unannounced(minute(6)), unannounced(minute(6))), (Some(minute(5)), None));
    // Room for one mail each half hour does not end the episode.
    assert_eq!([send(31), send(32), send(64), send(85)], [true, false, true, false]);
    assert_eq!((unannounced(minute(85)), limited_at()), (None, Some(minute(85))));
    assert_eq!([send(300), send(300), send(301)], [true, true, false]);
    assert_eq!(unannounced(minute(300 + 25 * 60)), None, "too late");
    assert_eq!((unannounced(minute(302)), unannounced(minute(302))), (Some(minute(301)), None));
}

#[test]
fn no_submission_has_the_status_of_its_mail() {
    let fixture = acknowledging(100);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.finish("box", id, true);
    assert_eq!((fixture.status(id), fixture.count_of(Status::Waiting)), (Status::Delivered, 0));
    assert!(!fixture.editor().hold(id, "why", noon()).unwrap(), "the team has it");
    fixture.finish(THANKS, id, false);
    assert_eq!((fixture.status(id), fixture.count_of(Status::Parked)), (Status::Delivered, 0));
    assert_eq!(fixture.count_of(Status::Delivered), 1);

    let other = fixture.accept_new(&from("eve@example.com", "Hi"));
    fixture.finish(THANKS, other, true);
    assert_eq!((fixture.status(other), fixture.count_of(Status::Waiting)), (Status::Waiting, 1));
    assert!(!fixture.runtime.block_on(fixture.store.has_reached_team(other)).unwrap());
    // A repeat may not rely on the mail: the team's channel has parked the message.
    fixture.finish("box", other, false);
    assert_eq!(fixture.status(other), Status::Parked);
    fixture.accept_new(&later(&from("eve@example.com", "Hi"), MILLISECOND));
}

#[test]
fn a_message_without_a_channel_to_the_team_can_still_be_delivered() {
    let fixture = acknowledging(100);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.finish(THANKS, id, true);
    fixture.sql("DELETE FROM delivery WHERE channel = 'box'");
    assert_eq!((fixture.status(id), fixture.count_of(Status::Kept)), (Status::Kept, 1));
    assert_eq!(fixture.editor().deliver_kept(&fixture.options.channels, noon()).unwrap(), 1);
    assert_eq!(fixture.status(id), Status::Waiting);
}

#[test]
fn sealing_waits_until_the_mail_is_sent_or_has_failed_for_good() {
    for is_sent in [true, false] {
        let fixture = acknowledging(100);
        let id = fixture.accept_new(&contact("Hello"));
        assert!(!fixture.finish("box", id, true), "the mail needs the address");
        assert!(!fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
        let to_be_sealed =
            || fixture.reader().to_be_sealed(&fixture.options.channels, Uuid::nil(), 9).unwrap().0.len();
        assert_eq!(to_be_sealed(), 0);
        assert!(fixture.finish(THANKS, id, is_sent));
        assert_eq!(to_be_sealed(), 1);
        assert!(fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
    }
}

#[test]
fn retention_does_not_wait_for_a_mail() {
    let fixture = acknowledging(100);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.finish("box", id, true);
    let expired = fixture.store.change(|tx| tx.expire(noon() + DAY * 10, &FormScope::ALL, Uuid::nil()));
    assert_eq!(fixture.runtime.block_on(expired).unwrap().removed, 1);
}

#[test]
fn erasing_an_address_forgets_that_it_got_a_mail() {
    let fixture = acknowledging(100);
    fixture.accept_new(&from("Ada+x@example.com", "Hello"));
    assert_eq!(fixture.count("visitor_mail"), 1);
    let erased = fixture.editor().erase("ada+x@example.com").unwrap();
    assert_eq!((erased.submissions, erased.deliveries), (1, 1), "the mail has no content");
    assert_eq!((fixture.count("visitor_mail"), fixture.count("delivery")), (0, 0));
}

#[test]
fn addresses_are_forgotten_after_a_day() {
    let fixture = acknowledging(1000);
    for n in 0..10 {
        fixture.accept_new(&from(&format!("v{n}@example.org"), "Hello"));
    }
    fixture.tidy(noon());
    assert_eq!(fixture.count("visitor_mail"), 10);
    fixture.tidy(noon() + 2 * DAY);
    assert_eq!(fixture.count("visitor_mail"), 0);
}

#[test]
fn mails_that_no_channel_sends_any_more_are_removed_after_a_day() {
    let fixture = acknowledging(100);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.tidy(noon() + 2 * DAY);
    assert_eq!(fixture.mails(), 1, "its channel is only late");
    fixture.store.channels.store(vec![Route::new("box")].into());
    fixture.tidy(noon());
    assert_eq!(fixture.mails(), 1, "another replica may still have the channel");
    fixture.tidy(noon() + 2 * DAY);
    assert_eq!((fixture.mails(), fixture.status(id)), (0, Status::Waiting));
}

#[test]
fn a_retry_of_everything_leaves_out_mails_to_visitors() {
    let fixture = acknowledging(100);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.finish("box", id, false);
    fixture.finish(THANKS, id, false);
    let retry = |which: Filter, channel: Option<&str>| {
        let retry = Retry { which, channel: channel.map(str::to_owned), parked_only: true };
        fixture.editor().retry(&retry, noon()).unwrap()
    };
    assert_eq!((retry(Filter::default(), None), fixture.mail(id).unwrap().state), (1, DeliveryState::Parked));
    assert_eq!(retry(Filter::default(), Some(THANKS)), 1);
    fixture.finish(THANKS, id, false);
    assert_eq!(retry(Filter { id: Some(id), ..Filter::default() }, None), 1);
}

fn routes(limits: HourlyLimits) -> Vec<Route> {
    let own_addresses = ["desk@example.com".to_owned()].into();
    let mail = VisitorMail::Acknowledgement;
    let rule = VisitorRule { mail, own_addresses, limits, confirmations: Vec::new() };
    let thanks = Route { forms: vec!["contact".to_owned()], visitor: Some(rule), ..Route::new(THANKS) };
    vec![Route::new("box"), thanks]
}

fn acknowledging(per_hour: u32) -> Fixture {
    limited(only_all(per_hour))
}

fn limited(limits: HourlyLimits) -> Fixture {
    Fixture::with_options(|options| options.channels = routes(limits))
}

fn only_all(per_hour: u32) -> HourlyLimits {
    HourlyLimits { all: per_hour, network: None, domain: None }
}

fn from(email: &str, message: &str) -> Arrival {
    let body = serde_json::json!({"message": message, "email": email, "name": "Ada"});
    arrival(entry(&CONTACT, &body.to_string()))
}

fn from_network(arrival: Arrival, network: u8) -> Arrival {
    Arrival { source: Source::V4([192, 0, network, 1]), ..arrival }
}

/// When the submissions of these tests arrive, to the millisecond.
fn arrival_time() -> Timestamp {
    Timestamp::from_millisecond(contact("Hello").received_at.as_millisecond()).unwrap()
}

fn noon() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

impl Fixture {
    fn mail(&self, id: Uuid) -> Option<Delivery> {
        let deliveries = self.reader().deliveries(id).unwrap();
        deliveries.into_iter().find(|delivery| delivery.channel == THANKS)
    }

    /// The number of mails to visitors that were queued.
    fn mails(&self) -> usize {
        let channels = self.reader().channels().unwrap();
        let thanks = channels.iter().find(|channel| channel.name == THANKS);
        thanks.map_or(0, |channel| channel.deliveries.iter().map(|(_, count)| count).sum())
    }

    fn tidy(&self, now: Timestamp) {
        let channels = self.store.channels.load_full();
        let tidied = self.store.change(move |tx| tx.tidy_visitor_mails(now, &channels));
        assert!(!self.runtime.block_on(tidied).unwrap(), "there is no more to do");
    }

    fn count_of(&self, status: Status) -> usize {
        self.reader().count(&Filter { status: Some(status), ..Filter::default() }).unwrap()
    }

    /// Claims a delivery, and records that it succeeded or was refused for good. Returns whether the
    /// submission is settled.
    fn finish(&self, channel: &str, id: Uuid, succeeds: bool) -> bool {
        let claimed = self.claim(channel, noon());
        let lease = claimed.into_iter().map(|claimed| claimed.lease).find(|lease| lease.submission == id);
        let (outcome, next) = if succeeds {
            (Outcome::delivered("250"), NextStep::Delivered)
        } else {
            (Outcome::failed(Cause::Refused, "550"), NextStep::Parked)
        };
        let recorded = self.store.record(lease.expect("it was due"), outcome, next, noon());
        self.runtime.block_on(recorded).unwrap()
    }
}
