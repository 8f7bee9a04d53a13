//! A failing channel does not delay other channels, is probed at bounded intervals, and resumes as soon as it
//! works again.

use std::time::Duration;

use frontdesk_inbox::submission::delivery::{Delivery, DeliveryState};

use crate::support::PATIENCE;
use crate::support::channel_site::{ChannelSite, NAME, maildir, smtp, until, webhook};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::smtp_peer::{At, Do, Script, SmtpPeer};

#[test]
fn channels_that_hang_delay_no_other() {
    let silent = HttpPeer::start([Reply::Silence]);
    let speechless = SmtpPeer::start(vec![Script::with(At::Greeting, Do::Nothing)]);
    let mailbox = tempfile::tempdir().expect("a folder");
    let channels = [
        webhook("silent", &silent.url("/"), ""),
        smtp("speechless", speechless.address.port(), ""),
        maildir("box", &mailbox.path().join("box")),
    ];
    let site = ChannelSite::open(&channels.concat(), &[]);
    let (mut slowest, mut first_arrived) = (0, None);
    for number in 0..10 {
        let id = site.submit(number);
        let arrived = site.wait_for(id, "box", |delivery| delivery.state == DeliveryState::Delivered);
        let received = site.reader().get(id).expect("it can be read").expect("it is there").received_at;
        let at = arrived.attempts[0].end.as_ref().expect("it has ended").at;
        first_arrived.get_or_insert(at);
        slowest = slowest.max(at.as_millisecond() - received.as_millisecond());
    }
    eprintln!("beside two channels that hang, the third took {slowest} ms at most");
    // No delivery waited for a hanging channel, whose attempts time out after twenty seconds at the earliest.
    assert!(slowest < 20_000, "{slowest} ms");
    let first = site.id(0);
    for hanging in ["silent", "speechless"] {
        let delivery = site.delivery(first, hanging);
        let end = delivery.attempts[0].end.as_ref().map(|end| end.at);
        assert!(end.is_none_or(|end| Some(end) > first_arrived), "{hanging}: {delivery:#?}");
    }
}

#[test]
fn the_second_attempt_follows_after_five_seconds_with_the_same_content() {
    let failing = HttpPeer::start([Reply::status(500), Reply::status(200)]);
    let greylisting = SmtpPeer::start(vec![Script::usual().greylisting()]);
    let channels =
        [webhook("failing", &failing.url("/"), ""), smtp("greylisting", greylisting.address.port(), "")];
    let site = ChannelSite::open(&channels.concat(), &[]);
    let id = site.submit(1);
    for channel in ["failing", "greylisting"] {
        let delivery = site.wait_for(id, channel, |delivery| delivery.state == DeliveryState::Delivered);
        let [first, second] = &delivery.attempts[..] else { panic!("{channel}: {delivery:#?}") };
        let gap = second.began_at.duration_since(first.end.as_ref().expect("it has ended").at).as_millis();
        eprintln!("{channel}: the second attempt followed after {gap} ms");
        assert!(gap >= 4_500, "{channel}: {gap} ms");
    }
    let requests = failing.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].header("webhook-id"), Some(&*id.to_string()));
    assert_eq!(requests[1].header("webhook-id"), Some(&*id.to_string()));
    assert_eq!(greylisting.record().received.len(), 1);
    site.assert_discreet();
}

#[test]
fn a_message_that_may_have_arrived_is_sent_once_more_and_then_parked() {
    let vague = SmtpPeer::start(vec![Script::with(At::End, Do::Close)]);
    let site = ChannelSite::open(&smtp("vague", vague.address.port(), ""), &[]);
    let id = site.submit(1);
    let is_uncertain = |delivery: &Delivery, attempts: usize| {
        let ends = delivery.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
        ends.filter(|end| end.delivered.is_none()).count() == attempts
    };
    let first = site.wait_for(id, "vague", |delivery| is_uncertain(delivery, 1));
    assert_eq!(first.state, DeliveryState::Waiting);
    // The operator does not wait for an hour.
    site.inbox(&["retry", "--channel", "vague"]);
    let second = site.wait_for(id, "vague", |delivery| is_uncertain(delivery, 2));
    assert_eq!((second.state, second.due_at), (DeliveryState::Parked, None));
    // Both messages must be recognizable as the same.
    let record = vague.record();
    let [first, second] = &record.received[..] else { panic!("{record:?}") };
    assert_eq!((&first.from, &first.to, &first.raw), (&second.from, &second.to, &second.raw));
    let message_id = format!("Message-ID: <{id}.submission@example.com>");
    assert!(String::from_utf8_lossy(&first.raw).contains(&message_id));
    assert!(site.inbox(&["show", &id.to_string()]).contains("uncertain after "));
    site.assert_discreet();
}

#[test]
fn an_attempt_that_a_stop_ends_after_the_message_is_uncertain() {
    let silent = SmtpPeer::start(vec![Script::with(At::End, Do::Nothing)]);
    let mut site = ChannelSite::open(
        &smtp("silent", silent.address.port(), ""),
        &[("FRONTDESK_SERVER__SHUTDOWN_GRACE", "1s")],
    );
    let id = site.submit(1);
    until(|| (!silent.record().received.is_empty()).then_some(())).expect("the message has arrived");
    site.server.terminate();
    site.server.restart();
    let delivery = site.delivery(id, "silent");
    assert_eq!((delivery.state, delivery.attempts.len()), (DeliveryState::Waiting, 1), "{delivery:#?}");
    let end = delivery.attempts[0].end.as_ref().expect("it has ended");
    assert_eq!(end.delivered, None, "{end:?}");
    let wait = delivery.due_at.expect("it waits").duration_since(end.at);
    assert!(wait.as_secs() >= 3600, "{wait:?}");
    site.assert_discreet();
}

#[test]
fn a_refused_recipient_is_named_and_the_others_get_everything() {
    let script = Script::usual().refusing("left@example.com").closing_after(1);
    let peer = SmtpPeer::start(vec![script]);
    let channel = smtp("team", peer.address.port(), "").replace("to = [", "to = [\"left@example.com\", ");
    let site = ChannelSite::open(&channel, &[]);
    let ids: Vec<_> = (0..3).map(|number| site.submit(number)).collect();
    site.wait_for_count("team", DeliveryState::Parked, 3);
    assert_eq!(peer.record().received.len(), 3);
    assert!(
        site.inbox(&["show", &ids[0].to_string()]).contains("not delivered to left@example.com: 550 5.1.1")
    );
    // A retry goes only to the refused address.
    peer.follow(vec![Script::usual()]);
    site.inbox(&["retry", "--channel", "team"]);
    site.wait_for_count("team", DeliveryState::Delivered, 3);
    let record = peer.record();
    assert!(record.received[3..].iter().all(|received| received.to == ["left@example.com"]), "{record:?}");
    site.assert_discreet();
}

#[test]
fn a_channel_that_is_gone_stays_switched_off_until_the_operator_retries() {
    let gone = HttpPeer::start([Reply::status(410)]);
    let mut site = ChannelSite::open(&webhook("gone", &gone.url("/"), ""), &[]);
    site.submit(0);
    site.wait_for_count("gone", DeliveryState::Parked, 1);
    let off = |site: &ChannelSite| {
        let channels = site.reader().channels().expect("it can be read");
        channels[0].obstacle.as_ref().is_some_and(|obstacle| obstacle.off)
    };
    until(|| off(&site).then_some(())).expect("it is switched off");
    gone.follow([Reply::status(200)]);
    for number in 1..4 {
        site.submit(number);
    }
    site.wait_for_count("gone", DeliveryState::Parked, 4);
    assert!(site.server.inbox().iter().all(|submission| submission["status"] == "parked"));
    site.server.kill();
    site.server.restart();
    site.submit(4);
    site.wait_for_count("gone", DeliveryState::Parked, 5);
    assert!(off(&site));
    assert_eq!(gone.requests().len(), 1, "nothing more is sent to a receiver that is gone");

    let said = site.inbox(&["retry", "--channel", "gone"]);
    assert!(said.starts_with("5 retries are due now"), "{said}");
    site.wait_for_count("gone", DeliveryState::Delivered, 5);
    assert!(!off(&site));
    assert_eq!(gone.requests().len(), 6);
    site.submit(5);
    site.wait_for_count("gone", DeliveryState::Delivered, 6);
    site.assert_discreet();
}

#[test]
fn a_channel_that_keeps_failing_is_probed_and_catches_up() {
    const FIRST: usize = 8;
    let ill = HttpPeer::start([Reply::saying(503, NAME)]);
    let site = ChannelSite::open(&webhook("ill", &ill.url("/"), "concurrency = 1"), &[]);
    for number in 0..FIRST {
        site.submit(number);
    }
    let is_paused = || {
        let channels = site.reader().channels().expect("it can be read");
        let obstacle = channels[0].obstacle.as_ref();
        obstacle.is_some_and(|obstacle| !obstacle.off).then_some(())
    };
    until(is_paused).expect("it is paused");
    site.submit(FIRST);
    ill.wait_for(9, PATIENCE);
    ill.follow([Reply::status(200)]);
    // Each of the four probes may have been a retry, whose delivery is not due again for five minutes.
    let has_caught_up = || {
        let channels = site.reader().channels().expect("it can be read");
        (channels[0].count(DeliveryState::Delivered) > FIRST - 4).then_some(())
    };
    until(has_caught_up).expect("it catches up");
    let requests = ill.requests();
    // After five failures in a row, four probes follow at intervals of five seconds.
    for (before, after) in [(4, 5), (8, 9)] {
        let gap = requests[after].at - requests[before].at;
        assert!(gap >= Duration::from_millis(4900), "{gap:?}");
    }
    site.assert_discreet();
}
