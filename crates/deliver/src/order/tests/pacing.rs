//! How long visitors wait for deliveries while attackers send content that receivers refuse. The tests run
//! the store, the dispatcher and the schedule with a simulated clock.

use std::collections::HashMap;
use std::time::Duration;

use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::store::{Accepted, DatabaseUrl};
use frontdesk_inbox::submission::delivery::{
    ChannelTarget, ClaimRequest, Claimed, Claims, DailyQuota, Route,
};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_inbox::submission::schedule::{self, NextStep};
use frontdesk_inbox::testing::fixture::{channels, contact, waitlist};
use frontdesk_inbox::testing::inbox::Options;
use frontdesk_inbox::testing::memory::MemoryInbox;
use frontdesk_limits::{MAX_QUOTA, Quota, Source};
use frontdesk_screening::Evidence;
use jiff::Timestamp;
use uuid::Uuid;

use crate::circuit_breaker::{Dispatcher, HealthChange};
use crate::order;

mod attacks;
mod rate_limits;
mod retries;

const LEASE: Duration = Duration::from_mins(3);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

/// A channel that makes up to four attempts at a time.
struct Channel {
    inbox: MemoryInbox,
    options: Options,
    dispatcher: Dispatcher,
    start: Timestamp,
    elapsed: Duration,
    attempts: usize,
    /// The random state that determines the order in which attempts reach the receiver.
    order: u64,
    delivered: HashMap<Uuid, Duration>,
}

impl Channel {
    /// A mail channel to this many recipients, which sends submissions from high-volume networks at a limited
    /// pace.
    fn mail(recipients: u32) -> Channel {
        let mut channel = Channel::new();
        let quota = DailyQuota { account: "desk@mail.example.com".to_owned(), recipients };
        channel.options.channels[0].quota = Some(quota);
        // Limits are on, but no submission exceeds them.
        channel.options.intake.form_quota = Some(Quota { per_minute: MAX_QUOTA, per_hour: MAX_QUOTA });
        channel
    }

    fn new() -> Channel {
        let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
        let dispatcher = Dispatcher::new([(target, 4)]);
        // The path is not used.
        let options = Options::new(DatabaseUrl::Sqlite("inbox.db".into()));
        Channel {
            inbox: MemoryInbox::default(),
            options: Options { channels: channels(&["box"], &[]), ..options },
            dispatcher,
            start: Timestamp::now(),
            elapsed: Duration::ZERO,
            attempts: 0,
            order: 0,
            delivered: HashMap::new(),
        }
    }

    /// A message that a network sends at the current time.
    fn message(&self, network: u32, text: &str) -> Arrival {
        let [_, a, b, c] = network.to_be_bytes();
        Arrival {
            source: Source::V4([a + 10, b, c, 1]),
            received_at: self.start + self.elapsed,
            ..contact(text)
        }
    }

    fn accept_all(&mut self, arrivals: &[Arrival]) -> Vec<Accepted> {
        self.inbox.accept_all(&self.options, arrivals)
    }

    /// Accepts a submission, which must not be a repeat, and returns its id.
    fn accept_new(&mut self, arrival: &Arrival) -> Uuid {
        match self.accept_all(std::slice::from_ref(arrival))[..] {
            [Accepted::New(id)] => id,
            ref other => panic!("mistaken for a repeat: {other:?}"),
        }
    }

    /// Accepts a submission, which must be a repeat of `original`.
    fn accept_repeat(&mut self, arrival: &Arrival, original: Uuid) {
        assert_eq!(self.accept_all(std::slice::from_ref(arrival)), [Accepted::Duplicate(original)]);
    }

    fn visitor(&mut self, network: u32) -> Uuid {
        self.accept_new(&self.message(10_000 + network, &format!("honest {network}")))
    }

    fn claim(&self, requests: &[ClaimRequest], at: Duration) -> Claims {
        let (channels, under_way) = (&self.options.channels, &self.dispatcher.under_way);
        let tx = self.inbox.transaction();
        tx.claim(requests, channels, under_way, self.start + at, LEASE, order::choose).unwrap().remove(0)
    }

    /// Claims the deliveries that may begin and lets the receiver reply. Returns how long the worker would
    /// sleep, or `None` if an attempt began.
    fn step(&mut self, receive: &mut Receiver<'_>) -> Option<Duration> {
        let (elapsed, now) = (self.elapsed, self.start + self.elapsed);
        let claims = self.claim(&self.dispatcher.claim_requests(elapsed), elapsed);
        let begun = self.dispatcher.begin(0, claims, now, elapsed);
        if begun.claimed.is_empty() {
            return Some(begun.sleep.unwrap_or(Duration::from_mins(1)));
        }
        let mut claimed = begun.claimed;
        while !claimed.is_empty() {
            // The worker sends attempts that begin together on separate connections, so they reach the
            // receiver in any order.
            self.order = schedule::splitmix64(self.order);
            let claimed = claimed.remove(usize::try_from(self.order % claimed.len() as u64).unwrap());
            self.attempts += 1;
            let outcome = receive(&claimed, elapsed);
            let Claimed { lease, failures, is_retry, .. } = claimed;
            let verdict = schedule::next_step(&outcome, lease.submission, failures, 0, now);
            self.inbox.transaction().record(&lease, &outcome, verdict, now).unwrap();
            if verdict == NextStep::Delivered {
                self.delivered.insert(lease.submission, elapsed);
            }
            match self.dispatcher.end(0, &lease, is_retry, &outcome, elapsed) {
                HealthChange::Paused => self.inbox.transaction().pause("box", "", now).unwrap(),
                HealthChange::Resumed { after_outage } => self.inbox.resume("box", after_outage, now),
                HealthChange::Accepting => {
                    self.inbox.transaction().bring_deferred_forward("box", now).unwrap();
                }
                HealthChange::None | HealthChange::Off => {}
            }
        }
        None
    }

    /// Continues until this time. Each group of attempts that begin together takes `takes`.
    fn run(&mut self, until: Duration, takes: Duration, receive: &mut Receiver<'_>) {
        while self.elapsed < until {
            let sleep = self.step(receive);
            self.elapsed = (self.elapsed + sleep.unwrap_or(takes)).min(until);
        }
    }

    /// How long each delivery took or, if it has not arrived, has been waiting, in seconds.
    fn waits(&self, sent: &[(Uuid, Duration)]) -> Vec<u64> {
        let wait = |(id, at): &(Uuid, Duration)| {
            self.delivered.get(id).unwrap_or(&self.elapsed).saturating_sub(*at).as_secs()
        };
        sent.iter().map(wait).collect()
    }
}

type Receiver<'a> = dyn FnMut(&Claimed, Duration) -> Outcome + 'a;

fn is_honest(claimed: &Claimed) -> bool {
    claimed.submission.get("message").is_some_and(|text| text.starts_with("honest"))
}

/// A receiver that replies to attackers' content with an error.
fn poisoned(cause: Cause, retry_after: Option<Duration>) -> impl FnMut(&Claimed, Duration) -> Outcome {
    move |claimed, _| {
        if is_honest(claimed) {
            return Outcome::delivered("200");
        }
        Outcome::failed(cause, "no").with_retry_after(retry_after)
    }
}

#[test]
fn content_that_a_receiver_fails_on_delays_others_by_minutes() {
    let hour = Some(Duration::from_hours(1));
    for (networks, each, cause, retry_after, most) in [
        (1, 100, Cause::Unclear, None, 10),
        (100, 1, Cause::Unclear, None, 200),
        (100, 1, Cause::Unclear, hour, 2400),
        (100, 1, Cause::Deferred, None, 1200),
    ] {
        let mut channel = Channel::new();
        let poison: Vec<Arrival> = (0..each)
            .flat_map(|n| (0..networks).map(move |network| (network, n)))
            .map(|(network, n)| channel.message(network, &format!("poison {network} {n}")))
            .collect();
        channel.accept_all(&poison);
        channel.elapsed = 10 * SECOND;
        let visitor = [(channel.visitor(0), channel.elapsed)];
        while channel.delivered.is_empty() && channel.elapsed < DAY {
            channel.run(channel.elapsed + 10 * SECOND, SECOND, &mut poisoned(cause, retry_after));
        }
        let waited = channel.waits(&visitor)[0];
        assert!(waited <= most, "{networks} {each} {cause:?} {retry_after:?}: {waited:?}");
    }
}

#[test]
fn content_that_fails_again_and_again_delays_others_by_minutes() {
    for (cause, most) in [(Cause::Unclear, 300), (Cause::Deferred, 700)] {
        let mut channel = Channel::new();
        let mut receive = poisoned(cause, None);
        let mut visitors = Vec::new();
        for round in 0..2 {
            let poison: Vec<Arrival> = (0..100)
                .map(|network| channel.message(network, &format!("poison {network} {round}")))
                .collect();
            channel.accept_all(&poison);
            for minute in [0, 5, 15] {
                channel.run(Duration::from_mins(20 * round + minute), SECOND, &mut receive);
                let number = u32::try_from(visitors.len()).unwrap();
                visitors.push((channel.visitor(number), channel.elapsed));
            }
            channel.run(Duration::from_mins(20 * round + 20), SECOND, &mut receive);
        }
        let waits = channel.waits(&visitors);
        assert!(waits.iter().all(|wait| *wait <= most), "{cause:?}: {waits:?}");
    }
}

/// A mail server that accepts 20 messages a minute and temporarily refuses more. One network sends as much as
/// the limits allow, or a hundred networks send one message a minute each.
#[test]
fn a_server_that_limits_the_rate_takes_what_visitors_send_in_time() {
    for (at_once, per_minute, networks) in [(300, 45, 1), (0, 100, 100)] {
        let mut channel = Channel::new();
        let (mut hostile, mut visitors) = (0, Vec::new());
        let (mut tokens, mut refilled) = (20, 0);
        let mut limited = |_: &Claimed, elapsed: Duration| {
            let filled = elapsed.as_secs() / 3;
            tokens = (tokens + filled - refilled).min(20);
            refilled = filled;
            if tokens == 0 {
                return Outcome::failed(Cause::Deferred, "451 4.7.1 too much mail");
            }
            tokens -= 1;
            Outcome::delivered("250")
        };
        for minute in 0..17 {
            let count = if minute == 0 { at_once.max(per_minute) } else { per_minute };
            let sent: Vec<Arrival> = (hostile..hostile + count)
                .map(|n| channel.message(n % networks, &format!("hostile {n}")))
                .collect();
            channel.accept_all(&sent);
            hostile += count;
            if (4..10).contains(&minute) {
                visitors.push((channel.visitor(minute), channel.elapsed));
            }
            channel.run(Duration::from_mins(u64::from(minute) + 1), SECOND, &mut limited);
        }
        let waits = channel.waits(&visitors);
        assert!(waits.iter().all(|wait| *wait < 400), "{waits:?}");
        assert!(channel.delivered.len() > 300, "the server accepts 20 a minute");
    }
}

/// A mail provider that accepts 500 messages a day and refuses more until the next day.
#[test]
fn a_network_that_sends_many_leaves_some_of_the_days_quota_to_others() {
    let mut channel = Channel::mail(1);
    let mut taken = 0;
    let mut quota = |_: &Claimed, elapsed: Duration| {
        if elapsed < DAY && taken == 500 {
            return Outcome::failed(Cause::Channel, "550 5.4.5 daily quota exceeded");
        }
        taken += 1;
        Outcome::delivered("250")
    };
    let attack: Vec<Arrival> = (0..600).map(|n| channel.message(1, &format!("hostile {n}"))).collect();
    channel.accept_all(&attack);
    channel.run(Duration::from_mins(40), SECOND, &mut quota);
    assert!((100..115).contains(&channel.delivered.len()), "{}", channel.delivered.len());
    let verdict = frontdesk_screening::verdict::ScreeningVerdict {
        score: 60,
        suspicious: true,
        threshold: 100,
        ..Default::default()
    };
    let marked = Arrival { evidence: Evidence::Verdict(verdict), ..channel.message(20_000, "marked") };
    let mut visitors = vec![(channel.accept_new(&marked), channel.elapsed)];
    for (number, hours) in (0..).zip([1, 6, 12, 23]) {
        visitors.push((channel.visitor(number), channel.elapsed));
        channel.run(Duration::from_hours(hours), SECOND, &mut quota);
    }
    assert!(channel.attempts < 450, "{}", channel.attempts);
    let waits = channel.waits(&visitors);
    assert!(waits.iter().all(|wait| *wait < 10), "{waits:?}");
    // The channel continues until all have arrived.
    channel.run(DAY * 5, SECOND, &mut quota);
    assert_eq!(channel.delivered.len(), 605);
}

/// Many networks use up the quota, but no delivery is parked because of that.
#[test]
fn messages_refused_by_a_quota_are_delivered_the_next_day() {
    let mut channel = Channel::mail(1);
    let mut taken = 0;
    let mut quota = |_: &Claimed, elapsed: Duration| {
        if elapsed < DAY && taken == 20 {
            return Outcome::failed(Cause::Channel, "550 5.4.5 daily quota exceeded");
        }
        taken += 1;
        Outcome::delivered("250")
    };
    let attack: Vec<Arrival> =
        (0..30).map(|network| channel.message(network, &format!("hostile {network}"))).collect();
    channel.accept_all(&attack);
    channel.run(Duration::from_mins(40), SECOND, &mut quota);
    let visitor = channel.visitor(0);
    channel.run(DAY, SECOND, &mut quota);
    assert_eq!(channel.delivered.len(), 20);
    // The next message that arrives shows that the channel works again, so waiting deliveries become due.
    channel.visitor(1);
    channel.run(DAY + Duration::from_mins(10), SECOND, &mut quota);
    assert!(channel.delivered.contains_key(&visitor) && channel.delivered.len() == 32);
}

/// A mail server that accepts one message every three minutes, like one whose quota is restored bit by bit.
#[test]
fn a_server_that_takes_few_messages_has_none_of_them_parked() {
    for cause in [Cause::Deferred, Cause::Channel] {
        let mut channel = Channel::new();
        let mut free_at = Duration::ZERO;
        let mut slow = |_: &Claimed, elapsed: Duration| {
            if elapsed < free_at {
                return Outcome::failed(cause, "450 later");
            }
            free_at = elapsed + Duration::from_mins(3);
            Outcome::delivered("250")
        };
        for number in 0..40 {
            channel.visitor(number);
        }
        channel.run(DAY * 2, SECOND, &mut slow);
        assert_eq!(channel.delivered.len(), 40, "{cause:?}");
    }
}

#[test]
fn a_copy_that_waits_for_long_does_not_keep_a_visitor_waiting() {
    let mut channel = Channel::new();
    let mut busy_for_a_minute = |_: &Claimed, elapsed: Duration| {
        if elapsed < Duration::from_mins(1) {
            return Outcome::failed(Cause::Deferred, "429").with_retry_after(Some(Duration::from_hours(2)));
        }
        Outcome::delivered("200")
    };
    channel.accept_new(&channel.message(1, "the same"));
    channel.run(Duration::from_mins(45), SECOND, &mut busy_for_a_minute);
    let visitor = (channel.accept_new(&channel.message(2, "the same")), channel.elapsed);
    channel.run(Duration::from_mins(50), SECOND, &mut busy_for_a_minute);
    assert!(channel.waits(&[visitor])[0] < 60);
}
