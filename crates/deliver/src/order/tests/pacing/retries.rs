//! Attacks on the order of retries.

use super::*;
use frontdesk_inbox::submission::delivery::Capacity;

const MINUTE: Duration = Duration::from_mins(1);

impl Channel {
    fn ask(&self, network: u32, email: &str) -> Arrival {
        let received_at = self.start + self.elapsed;
        Arrival { source: self.message(network, "x").source, received_at, ..waitlist(email) }
    }
}

/// The receiver is down for 90 minutes. A hundred networks send 40 messages a minute in all, and the receiver
/// still fails on these after the outage. Visitors' messages from the outage must be delivered soon after it.
#[test]
fn after_an_outage_visitors_do_not_wait_for_a_backlog_of_hostile_retries() {
    let mut channel = Channel::new();
    let outage = MINUTE * 90;
    let mut receive = |claimed: &Claimed, elapsed: Duration| {
        if elapsed >= outage && is_honest(claimed) {
            Outcome::delivered("200")
        } else {
            Outcome::failed(Cause::Unclear, "503")
        }
    };
    let mut visitors = Vec::new();
    for minute in 0..90 + 65 {
        let send = |n| channel.message((minute * 40 + n) % 100, &format!("hostile {minute} {n}"));
        channel.accept_all(&(0..40).map(send).collect::<Vec<_>>());
        if minute < 90 && minute % 3 == 2 {
            visitors.push((channel.visitor(minute), channel.elapsed));
        }
        channel.run(MINUTE * (minute + 1), SECOND / 2, &mut receive);
    }
    let waits = channel.waits(&visitors).into_iter().zip(&visitors);
    let after: Vec<u64> =
        waits.map(|(wait, (_, at))| (at.as_secs() + wait).saturating_sub(outage.as_secs())).collect();
    assert!(after.iter().all(|seconds| *seconds < 900), "{after:?}");
}

/// The receiver answers hostile content with 429 and Retry-After, for example because it limits requests by
/// the sender's address. Forty networks send one such submission to each form, and sixty more follow, one a
/// minute.
#[test]
fn content_that_is_refused_with_retry_after_delays_others_by_minutes() {
    for (asked, every) in [(60, 15), (3600, 60)] {
        let mut channel = Channel::new();
        let mut receive = poisoned(Cause::Deferred, Some(Duration::from_secs(asked)));
        let both = |channel: &Channel, network: u32| {
            let email = format!("poison{network}@example.com");
            [channel.message(network, &format!("poison {network}")), channel.ask(network, &email)]
        };
        let sent: Vec<Arrival> = (0..40).flat_map(|network| both(&channel, network)).collect();
        channel.accept_all(&sent);
        channel.run(SECOND * 10, SECOND, &mut receive);
        let visitor = [(channel.visitor(0), channel.elapsed)];
        let mut networks = 40..100;
        while channel.delivered.is_empty() && channel.elapsed < DAY {
            if let Some(network) = networks.next() {
                channel.accept_all(&both(&channel, network));
            }
            channel.run(channel.elapsed + SECOND * every, SECOND, &mut receive);
        }
        let waits = channel.waits(&visitor);
        assert!(waits[0] < 900, "Retry-After: {asked}: {waits:?}");
    }
}

/// As after an outage, a visitor's retry is due at the same time as 400 retries for one network.
#[test]
fn a_visitors_retry_precedes_any_number_of_hostile_ones() {
    let mut channel = Channel::new();
    let hostile = |channel: &Channel, half: u32| -> Vec<Arrival> {
        (0..200).map(|n| channel.message(half, &format!("hostile {half} {n}"))).collect()
    };
    channel.accept_all(&hostile(&channel, 1));
    let visitor = channel.visitor(0);
    channel.accept_all(&hostile(&channel, 2));
    let claim = |any, retries, at: Duration| {
        let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
        channel
            .claim(&[ClaimRequest { target, capacity: Capacity { any, retries }, earlier_attempts: 0 }], at)
            .claimed
    };
    let failed = Outcome::failed(Cause::Unclear, "503");
    for claimed in claim(500, 0, SECOND) {
        let due = NextStep::RetryAt(channel.start + SECOND * 6);
        let tx = channel.inbox.transaction();
        tx.record(&claimed.lease, &failed, due, channel.start + SECOND).unwrap();
    }
    // The daily allowance of the two networks is four submissions.
    let next: Vec<Uuid> = claim(5, 5, SECOND * 10).iter().map(|claimed| claimed.lease.submission).collect();
    assert!(next.contains(&visitor));
}

/// A webhook accepts ten messages a minute, with a burst of five, and refuses others with 429 without
/// Retry-After. A hundred networks send 40 messages a minute in all.
#[test]
fn a_flood_at_a_rate_limited_webhook_delays_visitors_by_minutes() {
    let mut channel = Channel::new();
    let step = MINUTE / 10;
    let mut used_until = Duration::ZERO;
    let mut receive = move |_: &Claimed, elapsed: Duration| {
        let next = used_until.max(elapsed) + step;
        if next > elapsed + step * 5 {
            return Outcome::failed(Cause::Deferred, "429");
        }
        used_until = next;
        Outcome::delivered("200")
    };
    let mut visitors = Vec::new();
    for minute in 0..130 {
        let send = |n| channel.message((minute * 40 + n) % 100, &format!("hostile {minute} {n}"));
        channel.accept_all(&(0..40).map(send).collect::<Vec<_>>());
        channel.run(MINUTE * minute + SECOND * 20, SECOND / 2, &mut receive);
        if minute % 5 == 4 && minute < 90 {
            visitors.push((channel.visitor(minute), channel.elapsed));
        }
        channel.run(MINUTE * (minute + 1), SECOND / 2, &mut receive);
    }
    let waits = channel.waits(&visitors);
    assert!(waits.iter().all(|wait| *wait < 900), "{waits:?}");
}
