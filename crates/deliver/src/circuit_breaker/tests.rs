//! Tests the pauses of channels and the number of attempts in progress.

use uuid::Uuid;

use super::*;
use frontdesk_inbox::submission::delivery::NextDue;
use frontdesk_inbox::submission::{Status, Submission};

const START: Duration = Duration::ZERO;
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_working_channel_that_another_process_paused_is_resumed() {
    let mut channel = ChannelHealth::new(2);
    let delivered = Outcome::delivered("250");
    channel.note_stored_pause(true);
    assert_eq!(channel.end(false, &delivered, START), HealthChange::Resumed { after_outage: true });
    assert_eq!(channel.end(false, &delivered, START), HealthChange::None);
    channel.note_stored_pause(true);
    channel.note_stored_pause(false);
    assert_eq!(channel.end(false, &delivered, START), HealthChange::None);
    // If this process has also paused the channel, the probes of this process end the pause.
    for _ in 0..TRIP_AFTER {
        fail(&mut channel, Cause::Channel, START);
    }
    channel.note_stored_pause(true);
    assert!(channel.is_reported() && !channel.is_paused_elsewhere);
}

#[test]
fn retries_leave_half_of_the_capacity_to_first_attempts() {
    let mut channel = ChannelHealth::new(4);
    assert_eq!(channel.capacity(START), Capacity { any: 4, retries: 2 });
    channel.begin(true);
    channel.begin(true);
    assert_eq!(channel.capacity(START), Capacity { any: 2, retries: 0 });
    channel.begin(false);
    channel.begin(false);
    assert_eq!(channel.capacity(START), Capacity::default());
    channel.end(false, &fine(), START);
    assert_eq!(channel.capacity(START), Capacity { any: 1, retries: 0 });
    channel.end(true, &fine(), START);
    assert_eq!(channel.capacity(START), Capacity { any: 2, retries: 1 });
    assert_eq!(ChannelHealth::new(1).capacity(START), Capacity { any: 1, retries: 1 });
}

#[test]
fn five_consecutive_failures_pause_the_channel_with_backoff() {
    let mut channel = ChannelHealth::new(4);
    for _ in 1..TRIP_AFTER {
        assert_eq!(fail(&mut channel, Cause::Channel, START), HealthChange::None);
    }
    assert_eq!(fail(&mut channel, Cause::Channel, START), HealthChange::Paused);
    let mut now = START;
    for pause in [10, 20, 40, 60, 60] {
        assert_eq!(channel.capacity(now), Capacity::default());
        now = channel.wakes_at(now).unwrap();
        assert_eq!(channel.capacity(now), Capacity { any: 1, retries: 1 });
        let began = now;
        channel.begin(true);
        assert_eq!(channel.capacity(now), Capacity::default(), "one probe at a time");
        assert_eq!(channel.wakes_at(now), None);
        assert_eq!(channel.end(true, &failed(Cause::Channel), now), HealthChange::None);
        assert_eq!(
            channel.wakes_at(now).map(|at| at.saturating_sub(began)),
            Some(Duration::from_secs(pause))
        );
    }
    now = channel.wakes_at(now).unwrap();
    channel.begin(true);
    assert_eq!(channel.end(true, &fine(), now), HealthChange::Resumed { after_outage: true });
    assert_eq!(channel.capacity(now), Capacity { any: 4, retries: 2 });
}

#[test]
fn only_failures_of_the_channel_pause_it() {
    let mut channel = ChannelHealth::new(4);
    for _ in 0..20 {
        assert_eq!(fail(&mut channel, Cause::Notification, START), HealthChange::None);
        assert_eq!(fail(&mut channel, Cause::Refused, START), HealthChange::None);
    }
    for _ in 0..20 {
        for _ in 1..TRIP_AFTER {
            assert_eq!(fail(&mut channel, Cause::Channel, START), HealthChange::None);
        }
        channel.begin(false);
        assert_eq!(channel.end(false, &fine(), START), HealthChange::None);
    }
    assert!(!channel.is_reported());
}

#[test]
fn attempts_that_started_before_a_pause_do_not_extend_it() {
    let mut channel = ChannelHealth::new(8);
    for _ in 0..8 {
        channel.begin(false);
    }
    for _ in 0..8 {
        channel.end(false, &failed(Cause::Channel), START);
    }
    assert_eq!(channel.wakes_at(START), Some(FIRST_PAUSE));
}

#[test]
fn a_short_pause_is_no_outage() {
    let mut channel = ChannelHealth::new(4);
    for _ in 0..TRIP_AFTER {
        fail(&mut channel, Cause::Channel, START);
    }
    let now = channel.wakes_at(START).unwrap();
    channel.begin(false);
    assert_eq!(channel.end(false, &fine(), now), HealthChange::Resumed { after_outage: false });
}

#[test]
fn a_retry_after_pauses_the_channel() {
    let mut channel = ChannelHealth::new(2);
    let asked =
        |seconds| Outcome::failed(Cause::Channel, "429").with_retry_after(Some(Duration::from_secs(seconds)));
    channel.begin(false);
    channel.begin(false);
    assert_eq!(channel.end(false, &asked(120), START), HealthChange::Paused);
    assert_eq!(channel.end(false, &failed(Cause::Channel), START), HealthChange::None);
    assert_eq!(channel.wakes_at(START), Some(Duration::from_mins(2)));
    let now = Duration::from_mins(2);
    channel.begin(true);
    assert_eq!(channel.end(true, &asked(100_000), now), HealthChange::None);
    assert_eq!(channel.wakes_at(now), Some(now + MAX_RETRY_AFTER));
}

#[test]
fn errors_that_content_may_cause_pause_the_channel_for_five_seconds() {
    let mut channel = ChannelHealth::new(3);
    for _ in 1..TRIP_AFTER {
        assert_eq!(fail(&mut channel, Cause::Unclear, START), HealthChange::None);
    }
    assert_eq!(fail(&mut channel, Cause::Unclear, START), HealthChange::Paused);
    let mut now = START;
    for _ in 0..20 {
        assert_eq!(channel.capacity(now), Capacity::default());
        assert_eq!(channel.wakes_at(now), Some(now + FIRST_PAUSE));
        now += FIRST_PAUSE;
        for left in (1..=PROBES).rev() {
            let probes = left.min(3);
            assert_eq!(channel.capacity(now), Capacity { any: probes, retries: probes });
            assert_eq!(fail(&mut channel, Cause::Unclear, now), HealthChange::None);
        }
    }
    // A reply with `Retry-After` uses up a probe, and the next pause lasts at most 15 seconds.
    now += FIRST_PAUSE;
    for _ in 1..PROBES {
        fail(&mut channel, Cause::Unclear, now);
    }
    channel.begin(false);
    let asks = failed(Cause::Unclear).with_retry_after(Some(Duration::from_hours(1)));
    assert_eq!(channel.end(false, &asks, now), HealthChange::None);
    now += MAX_UNCLEAR_RETRY_AFTER;
    assert_eq!(channel.capacity(now), Capacity { any: 3, retries: 3 });
    channel.begin(false);
    assert_eq!(channel.end(false, &fine(), now), HealthChange::Resumed { after_outage: true });
}

#[test]
fn after_a_temporary_refusal_and_a_success_deliveries_go_one_at_a_time() {
    let mut channel = ChannelHealth::new(4);
    for _ in 0..3 {
        channel.begin(false);
    }
    for _ in 0..3 {
        assert_eq!(
            channel.end(false, &failed(Cause::Deferred), START),
            HealthChange::None,
            "a short pause is not reported"
        );
    }
    let mut now = START + FIRST_DEFERRAL;
    assert_eq!(channel.wakes_at(START), Some(now), "late refusals do not prolong the pause");
    assert_eq!(channel.capacity(now), Capacity { any: 1, retries: 1 });
    channel.begin(false);
    assert_eq!(channel.capacity(now), Capacity::default());
    assert_eq!(channel.end(false, &fine(), now), HealthChange::Accepting);
    let mut gaps = Vec::new();
    while let Some(ends) = channel.wakes_at(now) {
        assert_eq!(channel.capacity(now), Capacity::default());
        gaps.push(ends.saturating_sub(now));
        now = ends;
        assert_eq!(channel.capacity(now), Capacity { any: 1, retries: 1 });
        channel.begin(false);
        channel.end(false, &fine(), now);
    }
    assert!(gaps.is_sorted_by(|a, b| a > b) && gaps.len() > 20, "{gaps:?}");
    assert_eq!(channel.capacity(now), Capacity { any: 4, retries: 2 });
    // Each refusal after a success doubles the gap.
    for gap in [3, 5, 9, 15, 15] {
        channel.begin(false);
        channel.end(false, &failed(Cause::Deferred), now);
        assert_eq!(channel.gap.as_secs(), gap);
        now = channel.wakes_at(now).unwrap();
        channel.begin(false);
        channel.end(false, &fine(), now);
        now += channel.gap;
    }
}

#[test]
fn repeated_temporary_refusals_lengthen_the_pause_and_are_reported() {
    let mut channel = ChannelHealth::new(4);
    assert_eq!(fail(&mut channel, Cause::Deferred, START), HealthChange::None);
    let mut now = START;
    for (pause, probes, turn) in [
        (3, 1, HealthChange::None),
        (6, PROBES, HealthChange::None),
        (12, PROBES, HealthChange::Paused),
        (15, PROBES, HealthChange::None),
        (15, PROBES, HealthChange::None),
    ] {
        let until = now + Duration::from_secs(pause);
        assert_eq!(channel.wakes_at(now), Some(until));
        now = until;
        for left in (1..probes).rev() {
            assert_eq!(fail(&mut channel, Cause::Deferred, now), HealthChange::None);
            assert_eq!(channel.capacity(now), Capacity { any: left, retries: left });
        }
        assert_eq!(fail(&mut channel, Cause::Deferred, now), turn);
    }
    channel.begin(false);
    assert_eq!(channel.end(false, &fine(), now), HealthChange::Resumed { after_outage: true });
}

#[test]
fn retry_after_is_ignored_after_an_early_acceptance() {
    let mut channel = ChannelHealth::new(4);
    let asks = failed(Cause::Deferred).with_retry_after(Some(Duration::from_hours(2)));
    channel.begin(false);
    channel.end(false, &asks, START);
    let now = START + MAX_DEFERRED_RETRY_AFTER;
    assert_eq!(channel.wakes_at(START), Some(now));
    channel.begin(false);
    channel.end(false, &fine(), now);
    for (now, pause) in [(now, FIRST_DEFERRAL), (now + DISTRUST, MAX_DEFERRED_RETRY_AFTER)] {
        channel.begin(false);
        channel.end(false, &asks, now);
        assert_eq!(channel.wakes_at(now), Some(now + pause));
        channel.begin(false);
        channel.end(false, &fine(), now + pause);
    }
}

#[test]
fn clearing_the_stored_pause_ends_the_pause() {
    let target = ChannelTarget { name: "crm".to_owned(), destination: String::new() };
    let mut dispatcher = Dispatcher::new([(target, 4)]);
    let channel = &mut dispatcher.channels[0].1;
    for _ in 0..TRIP_AFTER {
        fail(channel, Cause::Channel, START);
    }
    let noted = Claims { is_paused: true, ..Claims::default() };
    assert_eq!(dispatcher.begin(0, noted, Timestamp::UNIX_EPOCH, START).sleep, Some(FIRST_PAUSE));
    assert_eq!(dispatcher.claim_requests(START)[0].capacity, Capacity::default());
    let sleep = dispatcher.begin(0, Claims::default(), Timestamp::UNIX_EPOCH, START).sleep;
    assert_eq!(sleep, Some(MIN_SLEEP));
    assert_eq!(dispatcher.claim_requests(START)[0].capacity, Capacity { any: 4, retries: 2 });
}

#[test]
fn a_channel_that_is_gone_stays_off_until_it_is_switched_on() {
    let mut channel = ChannelHealth::new(2);
    channel.begin(false);
    assert_eq!(fail(&mut channel, Cause::Gone, START), HealthChange::Off);
    assert_eq!(channel.end(false, &fine(), START), HealthChange::None);
    assert_eq!(channel.capacity(Duration::from_hours(99)), Capacity::default());
    assert_eq!(channel.wakes_at(START), None);
    channel.set_enabled(true);
    assert_eq!(channel.capacity(START), Capacity { any: 2, retries: 1 });
}

#[test]
fn a_probe_waits_for_attempts_in_progress_and_the_end_of_the_pause() {
    for under_way in [&[false][..], &[true], &[false, true]] {
        let mut channel = ChannelHealth::new(4);
        for again in under_way {
            channel.begin(*again);
        }
        for _ in 0..TRIP_AFTER {
            fail(&mut channel, Cause::Channel, START);
        }
        assert_eq!(channel.wakes_at(START), None, "{under_way:?}");
        assert_eq!(channel.capacity(FIRST_PAUSE), Capacity::default(), "{under_way:?}");
        for again in under_way {
            channel.end(*again, &failed(Cause::Channel), START);
        }
        assert_eq!(channel.wakes_at(START), Some(FIRST_PAUSE), "{under_way:?}");
        assert_eq!(channel.wakes_at(FIRST_PAUSE), None, "the pause is over");
        assert_eq!(channel.capacity(FIRST_PAUSE), Capacity { any: 1, retries: 1 });
    }
}

#[test]
fn a_pause_of_thirty_seconds_counts_as_an_outage() {
    for (seconds, after_outage) in [(29, false), (30, true), (31, true)] {
        let mut channel = ChannelHealth::new(4);
        let began = Duration::from_secs(1000);
        for _ in 0..TRIP_AFTER {
            fail(&mut channel, Cause::Channel, began);
        }
        channel.begin(false);
        let turn = channel.end(false, &fine(), began + Duration::from_secs(seconds));
        assert_eq!(turn, HealthChange::Resumed { after_outage }, "{seconds}");
    }
}

#[test]
fn an_attempt_counts_for_its_channel_until_it_ends() {
    let mut dispatcher = dispatcher();
    let claims = Claims { claimed: vec![claimed(1, false), claimed(2, true)], ..Claims::default() };
    let begun = dispatcher.begin(0, claims.clone(), NOW, START);
    assert_eq!((begun.claimed, begun.switched_on), (claims.claimed, None));
    assert_eq!(dispatcher.under_way, [claimed(1, false).lease, claimed(2, true).lease]);
    assert_eq!(capacities(&dispatcher), [Capacity { any: 2, retries: 1 }, Capacity { any: 1, retries: 1 }]);
    assert_eq!(dispatcher.target(1).name, "mail");
    assert_eq!(dispatcher.end(0, &claimed(1, false).lease, false, &fine(), START), HealthChange::None);
    assert_eq!(dispatcher.under_way, [claimed(2, true).lease]);
    assert_eq!(capacities(&dispatcher), [Capacity { any: 3, retries: 1 }, Capacity { any: 1, retries: 1 }]);
}

#[test]
fn without_capacity_the_store_is_queried_at_intervals() {
    let mut dispatcher = dispatcher();
    assert_eq!(dispatcher.idle_time(START, START), None, "both channels have capacity");
    dispatcher.channels[0].1.set_enabled(false);
    assert_eq!(dispatcher.idle_time(START, START), None, "one channel has capacity");
    dispatcher.channels[1].1.begin(false);
    assert_eq!(dispatcher.idle_time(START, START), Some(MIN_CLAIM_INTERVAL));
    assert_eq!(dispatcher.idle_time(START, MIN_CLAIM_INTERVAL / 5), Some(MIN_CLAIM_INTERVAL / 5 * 4));
    assert_eq!(dispatcher.idle_time(START, MIN_CLAIM_INTERVAL), None);
    assert_eq!(dispatcher.idle_time(START, MIN_CLAIM_INTERVAL * 9), None);
    let paused = &mut dispatcher.channels[1].1;
    paused.end(false, &Outcome::Delivered(String::new()), START);
    paused.health = HealthState::Paused(Pause::following(None, Cause::Channel, None, START));
    assert_eq!(dispatcher.idle_time(START, START), Some(MIN_CLAIM_INTERVAL));
    let soon = FIRST_PAUSE.saturating_sub(MIN_CLAIM_INTERVAL / 2);
    assert_eq!(
        dispatcher.idle_time(soon, START),
        Some(MIN_CLAIM_INTERVAL / 2),
        "the sleep does not exceed the pause"
    );
    assert_eq!(dispatcher.idle_time(FIRST_PAUSE, START), None);
}

#[test]
fn a_switch_by_the_operator_is_reported_once() {
    let mut dispatcher = dispatcher();
    let off = || Claims { is_off: true, ..Claims::default() };
    let begun = dispatcher.begin(0, off(), NOW, START);
    assert_eq!((begun.switched_on, begun.sleep), (Some(false), None));
    assert_eq!(capacities(&dispatcher)[0], Capacity::default());
    let begun = dispatcher.begin(0, off(), NOW, START);
    assert_eq!((begun.switched_on, begun.sleep), (None, None));
    let begun = dispatcher.begin(0, Claims::default(), NOW, START);
    assert_eq!((begun.switched_on, begun.sleep), (Some(true), Some(MIN_SLEEP)));
    assert_eq!(capacities(&dispatcher)[0], Capacity { any: 4, retries: 2 });
    let begun = dispatcher.begin(0, Claims::default(), NOW, START);
    assert_eq!((begun.switched_on, begun.sleep), (None, None));
}

#[test]
fn the_sleep_ends_when_a_delivery_with_capacity_is_due() {
    let at = |milliseconds| Some(Timestamp::from_millisecond(milliseconds).unwrap());
    let check = |under_way: &[bool], first, again, expected: Option<u64>| {
        let claimed = (1..).zip(under_way).map(|(n, again)| claimed(n, *again)).collect();
        let claims = Claims { claimed, next: NextDue { first, retry: again }, ..Claims::default() };
        let sleep = dispatcher().begin(0, claims, NOW, START).sleep;
        assert_eq!(sleep, expected.map(Duration::from_millis), "{under_way:?} {first:?} {again:?}");
    };
    check(&[], None, None, None);
    check(&[], at(60_000), at(30_000), Some(30_000));
    check(&[], at(20_000), at(30_000), Some(20_000));
    check(&[true, true], at(60_000), at(30_000), Some(60_000));
    check(&[true, true], None, at(30_000), None);
    check(&[false; 4], at(60_000), at(30_000), None);
    // An overdue delivery was not claimed, so the minimum sleep applies.
    check(&[], at(-1), None, Some(50));
    check(&[], at(49), None, Some(50));
    check(&[], at(51), None, Some(51));
}

#[test]
fn a_paused_channel_sleeps_until_the_pause_ends() {
    let mut dispatcher = dispatcher();
    for _ in 0..TRIP_AFTER {
        fail(&mut dispatcher.channels[0].1, Cause::Channel, START);
    }
    let noted =
        Claims { is_paused: true, next: NextDue { first: Some(NOW), retry: Some(NOW) }, ..Claims::default() };
    let later = Duration::from_secs(2);
    let begun = dispatcher.begin(0, noted, NOW, later);
    assert_eq!(begun.sleep, Some(FIRST_PAUSE.saturating_sub(later)));
    // Attempts that the store claimed before the pause are still sent and do not end the pause.
    let claims = Claims { claimed: vec![claimed(1, false)], ..Claims::default() };
    assert_eq!(dispatcher.begin(0, claims, NOW, later).claimed, [claimed(1, false)]);
    assert!(dispatcher.channels[0].1.is_reported());
}

fn dispatcher() -> Dispatcher {
    let channel = |name: &str| ChannelTarget { name: name.to_owned(), destination: String::new() };
    Dispatcher::new([(channel("crm"), 4), (channel("mail"), 1)])
}

fn capacities(dispatcher: &Dispatcher) -> Vec<Capacity> {
    dispatcher.claim_requests(START).into_iter().map(|want| want.capacity).collect()
}

fn claimed(n: u8, is_retry: bool) -> Claimed {
    let id = Uuid::from_u128(n.into());
    let submission = Submission {
        id,
        form: "contact".to_owned(),
        definition: None,
        received_at: NOW,
        status: Status::Waiting,
        held: None,
        screening: None,
        released_at: None,
        error: None,
        agent: None,
        fields: Vec::new(),
        sealed: None,
        source: String::new(),
        repeats: 0,
        confirmation: None,
        lead: frontdesk_forms::LeadSource::default(),
    };
    let lease = Lease { submission: id, channel: "crm".to_owned(), number: 1 };
    Claimed {
        lease,
        submission,
        failures: u32::from(is_retry),
        uncertain: 0,
        reached: Vec::new(),
        dated_at: NOW,
        is_retry,
        link: None,
    }
}

fn fail(channel: &mut ChannelHealth, cause: Cause, now: Duration) -> HealthChange {
    channel.begin(false);
    channel.end(false, &failed(cause), now)
}

fn fine() -> Outcome {
    Outcome::delivered("fine")
}

fn failed(cause: Cause) -> Outcome {
    Outcome::failed(cause, "no")
}
