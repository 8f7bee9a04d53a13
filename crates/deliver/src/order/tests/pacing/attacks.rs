//! Attacks that use up a receiver's daily quota, exploit its outages, or send content that makes it fail.

use super::*;
use frontdesk_inbox::submission::delivery::Capacity;
use frontdesk_screening::verdict::{ScreeningVerdict, Signal};

const MINUTE: Duration = Duration::from_mins(1);
/// The longest acceptable wait for a visitor, in seconds.
const TEN_MINUTES: u64 = 600;

impl Channel {
    /// A waitlist request that a network sends at the current time.
    fn request(&self, network: u32, email: &str) -> Arrival {
        let received_at = self.start + self.elapsed;
        Arrival { source: self.message(network, "x").source, received_at, ..waitlist(email) }
    }

    fn parked(&self, sent: &[(Uuid, Duration)]) -> usize {
        let parked = "SELECT EXISTS (SELECT 1 FROM delivery WHERE submission = ?1 AND state = 'parked')";
        let is_parked = |(id, _): &&(Uuid, Duration)| -> bool {
            self.inbox.database.query_row(parked, [id.as_bytes()], |row| row.get(0)).unwrap()
        };
        sent.iter().filter(is_parked).count()
    }
}

/// A provider that accepts 500 messages on the first day.
fn quota_of_500(refusal: Cause) -> impl FnMut(&Claimed, Duration) -> Outcome {
    daily_quota(500, 1, refusal)
}

/// A provider that accepts messages to `quota` recipients in total on the first day. Each message has
/// `recipients` of them.
fn daily_quota(quota: u32, recipients: u32, refusal: Cause) -> impl FnMut(&Claimed, Duration) -> Outcome {
    let mut used = 0;
    move |_, elapsed| {
        if elapsed < DAY && used + recipients > quota {
            return Outcome::failed(refusal, "daily quota exceeded");
        }
        used += recipients;
        Outcome::delivered("250")
    }
}

#[test]
fn released_copies_of_held_messages_count_for_their_network() {
    let mut channel = Channel::mail(1);
    let mut quota = quota_of_500(Cause::Channel);
    let marked = ScreeningVerdict { score: 65, suspicious: true, threshold: 100, ..Default::default() };
    for minute in 0..36_u64 {
        for n in 0..15 {
            // Screening holds the first copy because of the honeypot; the second one releases it.
            let clean = channel.message(1, &format!("hostile {minute} {n}"));
            let second = Arrival { evidence: Evidence::Verdict(marked.clone()), ..clean.clone() };
            let id = channel.accept_new(&clean.held_for(&[(Signal::Honeypot, "filled in")]));
            channel.accept_repeat(&second, id);
        }
        channel.run(MINUTE * u32::try_from(minute + 1).unwrap(), SECOND, &mut quota);
    }
    assert!(channel.delivered.len() < 200, "{}", channel.delivered.len());
    let visitor = [(channel.visitor(0), channel.elapsed)];
    channel.run(DAY * 2, SECOND, &mut quota);
    assert!(channel.waits(&visitor)[0] < TEN_MINUTES, "{:?}", channel.waits(&visitor));
}

#[test]
fn a_hundred_networks_leave_some_of_the_days_quota_to_visitors() {
    for (recipients, quota) in [(1, 500), (2, 700)] {
        let mut channel = Channel::mail(recipients);
        let mut quota = daily_quota(quota, recipients, Cause::Channel);
        for n in 0..10 {
            let sent = |network| match n % 2 {
                0 => channel.message(network, &format!("hostile {network} {n}")),
                _ => channel.request(network, &format!("hostile{network}.{n}@example.com")),
            };
            let sent: Vec<Arrival> = (0..100).map(sent).collect();
            channel.accept_all(&sent);
            channel.run(MINUTE * 20 * (n + 1), SECOND, &mut quota);
        }
        let mut visitors = Vec::new();
        for n in 0..20 {
            visitors.push((channel.visitor(n), channel.elapsed));
            channel.run(channel.elapsed + Duration::from_hours(1), SECOND, &mut quota);
        }
        let waits = channel.waits(&visitors);
        assert!(waits.iter().all(|wait| *wait < TEN_MINUTES), "{waits:?}");
    }
}

#[test]
fn channels_of_one_account_share_its_pace_by_recipients() {
    let channel = |name, account: &str, recipients| Route {
        quota: Some(DailyQuota { account: account.to_owned(), recipients }),
        ..Route::new(name)
    };
    let mut network = Channel::new();
    network.options.channels = vec![
        channel("team", "desk@mail.example.com", 2),
        channel("copy", "desk@mail.example.com", 1),
        channel("other", "other@mail.example.com", 1),
        channel("list", "list@mail.example.com", 1000),
    ];
    let attack: Vec<Arrival> = (0..300).map(|n| network.message(1, &format!("hostile {n}"))).collect();
    network.accept_all(&attack);
    let claim = |name: &str, at: Duration| {
        let target = ChannelTarget { name: name.to_owned(), destination: String::new() };
        let want = ClaimRequest { target, capacity: Capacity { any: 400, retries: 0 }, earlier_attempts: 0 };
        network.claim(&[want], at).claimed.len()
    };
    // Each channel sends the two submissions of the network's daily allowance, plus those that its pace
    // allows.
    assert_eq!(
        ["team", "copy", "other", "list"].map(|name| claim(name, SECOND)),
        [2 + 50, 2, 2 + 100, 2 + 1]
    );
    assert_eq!(["team", "copy", "other", "list"].map(|name| claim(name, MINUTE)), [0; 4]);
}

#[test]
fn a_paced_webhook_leaves_some_of_the_days_quota_to_visitors() {
    let mut channel = Channel::mail(1);
    let mut quota = quota_of_500(Cause::Deferred);
    let attack: Vec<Arrival> = (0..600).map(|n| channel.message(1, &format!("hostile {n}"))).collect();
    channel.accept_all(&attack);
    channel.run(MINUTE * 20, SECOND, &mut quota);
    let visitor = [(channel.visitor(0), channel.elapsed)];
    channel.run(DAY * 2, SECOND, &mut quota);
    assert!(channel.waits(&visitor)[0] < TEN_MINUTES, "{:?}", channel.waits(&visitor));
}

/// The receiver takes 30 s to fail on hostile content. A hundred networks send one such message to each form,
/// every 20 minutes.
#[test]
fn content_on_which_a_receiver_hangs_delays_others_by_minutes() {
    for rounds in [1, 9] {
        let mut channel = Channel::new();
        let takes = Duration::from_secs(30);
        let mut receive = |claimed: &Claimed, _: Duration| {
            if is_honest(claimed) {
                Outcome::delivered("200")
            } else {
                Outcome::failed(Cause::Unclear, "silence")
            }
        };
        for round in 0..rounds {
            let mut sent = Vec::new();
            for network in 0..100 {
                sent.push(channel.message(network, &format!("poison {network} {round}")));
                sent.push(channel.request(network, &format!("poison{network}.{round}@example.com")));
            }
            channel.accept_all(&sent);
            if round + 1 < rounds {
                channel.run(MINUTE * 20 * (round + 1), takes, &mut receive);
            }
        }
        channel.run(channel.elapsed + MINUTE, takes, &mut receive);
        let visitor = [(channel.visitor(0), channel.elapsed)];
        while channel.delivered.is_empty() && channel.elapsed < DAY {
            channel.run(channel.elapsed + MINUTE, takes, &mut receive);
        }
        assert!(channel.waits(&visitor)[0] < TEN_MINUTES, "{rounds} rounds: {:?}", channel.waits(&visitor));
    }
}

/// The receiver accepts waitlist requests and fails on messages. Each accepted request ends the channel's
/// pause, and the messages are retried.
#[test]
fn a_partial_outage_parks_nothing() {
    for (minutes, is_attacked) in [(10, false), (10, true), (20, true)] {
        let mut channel = Channel::new();
        let outage = MINUTE * minutes;
        let mut receive = |claimed: &Claimed, elapsed: Duration| {
            if claimed.submission.form == "contact" && elapsed < outage {
                return Outcome::failed(Cause::Unclear, "503");
            }
            Outcome::delivered("200")
        };
        let visitors: Vec<_> = (0..3).map(|n| (channel.visitor(n), Duration::ZERO)).collect();
        if is_attacked {
            for n in 0..6 {
                channel.accept_new(&channel.message(1, &format!("hostile {n}")));
            }
        }
        let mut sent = 0;
        while channel.elapsed < outage {
            channel.run(channel.elapsed + SECOND * 40, SECOND, &mut receive);
            if is_attacked {
                channel.accept_new(&channel.request(1, &format!("hostile{sent}@example.com")));
                sent += 1;
            }
        }
        channel.run(DAY * 4, SECOND, &mut receive);
        assert_eq!(channel.parked(&visitors), 0, "{minutes} minutes");
        assert!(channel.waits(&visitors).iter().all(|wait| *wait < 3600), "{:?}", channel.waits(&visitors));
    }
}

#[test]
fn a_webhook_that_fails_beyond_its_rate_has_nothing_parked() {
    for every in [1, 3] {
        let mut channel = Channel::new();
        let mut free_at = Duration::ZERO;
        let mut receive = |_: &Claimed, elapsed: Duration| {
            if elapsed < free_at {
                return Outcome::failed(Cause::Unclear, "503");
            }
            free_at = elapsed + MINUTE * every;
            Outcome::delivered("200")
        };
        let visitors: Vec<_> = (0..40).map(|n| (channel.visitor(n), Duration::ZERO)).collect();
        channel.run(DAY * 4, SECOND, &mut receive);
        assert_eq!(channel.parked(&visitors), 0, "one in {every} minutes");
    }
}

/// Content that always makes a receiver fail must not be retried forever.
#[test]
fn content_that_always_fails_is_parked_in_spite_of_outages() {
    let mut channel = Channel::new();
    let mut fails = poisoned(Cause::Unclear, None);
    for n in 0..6 {
        channel.accept_new(&channel.message(n, &format!("poison {n}")));
    }
    let poison = [(channel.accept_new(&channel.message(7, "poison")), Duration::ZERO)];
    for hour in 1..=10 * 24 {
        channel.run(Duration::from_hours(hour), SECOND, &mut fails);
        channel.visitor(u32::try_from(hour).unwrap());
    }
    assert_eq!(channel.parked(&poison), 1);
}

#[test]
fn a_copy_that_has_failed_twice_absorbs_no_repeat() {
    let mut channel = Channel::new();
    let mut receive = |_: &Claimed, _: Duration| Outcome::failed(Cause::Unclear, "503");
    let copy = channel.accept_new(&channel.request(1, "CEO@bigcorp.example"));
    channel.run(MINUTE * 60, SECOND, &mut receive);
    let due = "SELECT due_at FROM delivery WHERE submission = ?1";
    let due: i64 = channel.inbox.database.query_row(due, [copy.as_bytes()], |row| row.get(0)).unwrap();
    let due = Duration::from_millis(u64::try_from(due - channel.start.as_millisecond()).unwrap());
    channel.run(due.checked_sub(MINUTE * 4).unwrap(), SECOND, &mut receive);
    let visitor = channel.accept_new(&channel.request(10_000, "ceo@bigcorp.example"));
    assert_ne!(visitor, copy);
}

/// Accepts `per_minute` messages a minute with a burst of five, as a token bucket. Refuses others with 429,
/// and with Retry-After if `asks`.
fn rate_limit(per_minute: u32, asks: bool) -> impl FnMut(&Claimed, Duration) -> Outcome {
    let step = MINUTE / per_minute;
    let mut used_until = Duration::ZERO;
    move |_, elapsed| {
        let next = used_until.max(elapsed) + step;
        let Some(wait) = next.checked_sub(elapsed + step * 5).filter(|wait| !wait.is_zero()) else {
            used_until = next;
            return Outcome::delivered("200");
        };
        Outcome::failed(Cause::Deferred, "429").with_retry_after(asks.then_some(wait + SECOND))
    }
}

impl Channel {
    /// Submissions from one network to both forms within a minute.
    fn flood(&self, minute: u32, count: u32) -> Vec<Arrival> {
        let sent = |n| match n % 2 {
            0 => self.message(1, &format!("hostile {minute} {n}")),
            _ => self.request(1, &format!("hostile{minute}.{n}@example.com")),
        };
        (0..count).map(sent).collect()
    }
}

#[test]
fn a_flood_at_a_rate_limited_webhook_delays_no_visitor() {
    for (per_minute, is_marked) in [(30, true), (10, false), (2, false)] {
        let mut channel = Channel::new();
        let mut receive = rate_limit(per_minute, true);
        let mut visitors = Vec::new();
        for minute in 0..40_u32 {
            channel.accept_all(&channel.flood(minute, per_minute + 5));
            channel.run(MINUTE * minute + SECOND * 20, SECOND / 4, &mut receive);
            if minute % 10 == 5 {
                let mut visitor = channel.message(10_000 + minute, &format!("honest {minute}"));
                if is_marked {
                    let verdict = ScreeningVerdict { score: 60, suspicious: true, ..Default::default() };
                    visitor.evidence = Evidence::Verdict(verdict);
                }
                visitors.push((channel.accept_new(&visitor), channel.elapsed));
            }
            channel.run(MINUTE * (minute + 1), SECOND / 4, &mut receive);
        }
        let waits = channel.waits(&visitors);
        assert!(waits.iter().all(|wait| *wait < 180), "{per_minute} a minute: {waits:?}");
    }
}

#[test]
fn after_an_outage_retries_of_visitors_precede_those_of_a_flood() {
    let mut channel = Channel::new();
    let mut limit = rate_limit(30, false);
    let mut receive = |claimed: &Claimed, elapsed: Duration| {
        if elapsed < MINUTE * 40 { Outcome::failed(Cause::Unclear, "503") } else { limit(claimed, elapsed) }
    };
    let mut visitors = Vec::new();
    for minute in 0..100_u32 {
        channel.accept_all(&channel.flood(minute, if minute < 40 { 30 } else { 10 }));
        if minute < 40 && minute % 5 == 2 {
            visitors.push((channel.visitor(minute), channel.elapsed));
        }
        channel.run(MINUTE * (minute + 1), SECOND / 2, &mut receive);
    }
    let waits = channel.waits(&visitors);
    assert!(waits.iter().all(|wait| *wait < 40 * 60 + 3600), "{waits:?}");
}

/// The receiver takes 20 s to refuse hostile content temporarily. Fifty networks send one such message to
/// each form, and others send one every 12 seconds.
#[test]
fn slowly_refused_content_delays_visitors_of_both_forms_by_minutes() {
    for is_message in [true, false] {
        let mut channel = Channel::new();
        let takes = Duration::from_secs(20);
        let mut receive = |claimed: &Claimed, _: Duration| {
            if is_honest(claimed) || claimed.submission.get("email") == Some("ceo@company.example") {
                Outcome::delivered("250")
            } else {
                Outcome::failed(Cause::Deferred, "451 4.7.1")
            }
        };
        let mut sent: Vec<Arrival> = (0..50).map(|n| channel.message(n, &format!("poison {n}"))).collect();
        sent.extend((0..50).map(|n| channel.request(n, &format!("poison{n}@example.com"))));
        channel.accept_all(&sent);
        channel.run(MINUTE, takes, &mut receive);
        let id = if is_message {
            channel.visitor(0)
        } else {
            channel.accept_new(&channel.request(10_000, "ceo@company.example"))
        };
        let visitor = [(id, channel.elapsed)];
        for n in 0..100 {
            channel.accept_new(&channel.message(50 + n % 50, &format!("poison drip {n}")));
            channel.run(channel.elapsed + SECOND * 12, takes, &mut receive);
        }
        channel.run(channel.elapsed + DAY, takes, &mut receive);
        let waits = channel.waits(&visitor);
        assert!(waits[0] < 1200, "{waits:?}");
    }
}

/// Five networks send one submission to each form every 20 minutes, after another network has exhausted the
/// rate limit for high-volume networks.
#[test]
fn a_visitors_third_submission_precedes_networks_that_send_all_day() {
    for is_repeat in [true, false] {
        let mut channel = Channel::mail(1);
        let mut receive = |_: &Claimed, _: Duration| Outcome::delivered("250");
        let burst: Vec<Arrival> = (0..110).map(|n| channel.message(900, &format!("burst {n}"))).collect();
        channel.accept_all(&burst);
        let mut visitors = Vec::new();
        for round in 0..12 {
            for network in 0..5 {
                channel.accept_new(&channel.message(network, &format!("hostile {network} {round}")));
                let email = format!("hostile{network}.{round}@example.com");
                channel.accept_new(&channel.request(network, &email));
            }
            if round == 6 {
                let first = channel.request(20_000, "ada@company.example");
                let id = channel.accept_new(&first);
                if is_repeat {
                    // A double click uses up no allowance.
                    channel.accept_repeat(&first, id);
                } else {
                    channel.accept_new(&channel.message(20_000, "honest first"));
                }
                let last = channel.message(20_000, "honest last");
                visitors.push((channel.accept_new(&last), channel.elapsed));
            }
            channel.run(channel.elapsed + MINUTE * 20, SECOND, &mut receive);
        }
        let waits = channel.waits(&visitors);
        assert!(waits[0] < if is_repeat { 10 } else { 3600 }, "{waits:?}");
    }
}
