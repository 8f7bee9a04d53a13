//! Tests both layers together: their guarantees, and their agreement with a model that has an exact entry for
//! each source.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::gcra::MAX_QUOTA;
use crate::quota::{Layer, Quota};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_rested_source_may_send_its_quota_at_once_and_then_one_each_interval() {
    let (limiter, start) = (LocalLimiter::new(&LimitOptions::default()), Instant::now());
    for _ in 0..30 {
        assert!(allows(&limiter, source(1), start));
    }
    let wait = waits(&limiter, source(1), start).unwrap();
    assert!(is_about(wait, 2 * SECOND), "{wait:?}");
    assert!(!allows(&limiter, source(1), start + (2 * SECOND).saturating_sub(TICK)));
    assert!(allows(&limiter, source(1), start + wait));
    assert!(!allows(&limiter, source(1), start + wait));
}

#[test]
fn the_hourly_quota_applies_beside_the_minutely_one() {
    let (limiter, start) = (LocalLimiter::new(&LimitOptions::default()), Instant::now());
    // The quota per minute allows one request every two seconds indefinitely.
    let allowed = (0..1800).filter(|i| allows(&limiter, source(1), start + 2 * *i * SECOND)).count();
    assert!((590..=600).contains(&allowed), "{allowed}");
    let refused = limiter.check(source(1), start + HOUR).statuses.unwrap();
    assert_eq!((refused[0].remaining > 0, refused[1].remaining), (true, 0));
}

#[test]
fn a_decision_has_the_values_of_the_header_fields() {
    let (limiter, start) = (LocalLimiter::new(&LimitOptions::default()), Instant::now());
    let check = |decision: LimitDecision, expected: [(&str, u32, u64, u32, u64); 4]| {
        let said = decision
            .statuses
            .unwrap()
            .map(|s| (s.name, s.quota, s.window_seconds, s.remaining, s.effective_window_seconds));
        assert_eq!(said, expected);
    };
    check(
        limiter.check(source(1), start),
        [
            ("minute", 30, 60, 29, 2),
            ("hour", 300, 3600, 299, 12),
            ("network-minute", 300, 60, 299, 1),
            ("network-hour", 3000, 3600, 2999, 2),
        ],
    );
    let later = start + SECOND + TICK_OF_AN_HOUR;
    for _ in 0..29 {
        limiter.check(source(1), later);
    }
    // A refused request reports the same status as before.
    for _ in 0..3 {
        check(
            limiter.check(source(1), later),
            [
                ("minute", 30, 60, 0, 1),
                ("hour", 300, 3600, 270, 11),
                ("network-minute", 300, 60, 271, 1),
                ("network-hour", 3000, 3600, 2970, 1),
            ],
        );
    }
}

#[test]
fn no_exhausted_quota_has_a_window_beyond_the_wait() {
    let (limiter, start) = (LocalLimiter::new(&LimitOptions::default()), Instant::now());
    let mut refused = 0;
    for tenths in 0..1200 {
        let decision = limiter.check(source(1), start + tenths * SECOND / 10);
        let statuses = decision.statuses.unwrap();
        assert!(statuses.iter().all(|status| status.effective_window_seconds > 0), "{statuses:?}");
        if let Admission::Refused { retry_after, .. } = decision.admission {
            let mut exhausted = statuses.iter().filter(|status| status.remaining == 0);
            let longest = exhausted.clone().map(|status| status.effective_window_seconds).max();
            let wait = retry_after.as_nanos().div_ceil(SECOND.as_nanos());
            assert!(longest.is_some_and(|seconds| u128::from(seconds) <= wait), "{decision:?}");
            assert!(exhausted.all(|status| status.effective_window_seconds <= status.window_seconds));
            refused += 1;
        }
    }
    assert!(refused > 900, "{refused}");
}

#[test]
fn reading_the_status_costs_nothing() {
    let (limiter, start) = (LocalLimiter::new(&LimitOptions::default()), Instant::now());
    for _ in 0..100 {
        assert_eq!(limiter.status(source(1), start).unwrap().map(|s| s.remaining), [30, 300, 300, 3000]);
    }
    let taken = limiter.check(source(1), start).statuses;
    assert_eq!(limiter.status(source(1), start), taken);
    assert_eq!(limiter.counts(), DecisionCounts { allowed: 1, ..DecisionCounts::default() });
}

#[test]
fn sources_have_their_own_quota_and_share_that_of_their_network() {
    let options = LimitOptions {
        source: Quota { per_minute: 1, per_hour: 10 },
        network: Quota { per_minute: 3, per_hour: 30 },
        ..LimitOptions::default()
    };
    for neighbors in [["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"], V6_NEIGHBORS] {
        let (limiter, start) = (LocalLimiter::with_table_bits(&options, 12, 12), Instant::now());
        let neighbors = neighbors.map(address);
        for source in &neighbors[..3] {
            assert!(allows(&limiter, *source, start));
            assert!(!allows(&limiter, *source, start));
        }
        let Admission::Refused { by, retry_after } = limiter.check(neighbors[3], start).admission else {
            panic!("the network has used its quota");
        };
        assert_eq!(by, Layer::Network);
        assert!(is_about(retry_after, 20 * SECOND), "{retry_after:?}");
        // A request that the network's quota refused was not charged to the source.
        assert_eq!(limiter.status(neighbors[3], start).unwrap().map(|s| s.remaining), [1, 10, 0, 27]);
        // Requests that the sources' quotas refused were not charged to the network either.
        assert!(allows(&limiter, neighbors[3], start + retry_after));
        for stranger in ["198.51.100.1", "192.0.3.1", "2001:db8:2::1"] {
            assert!(allows(&limiter, address(stranger), start), "{stranger}");
        }
        let tally = limiter.counts();
        assert_eq!((tally.allowed, tally.refused_by_source, tally.refused_by_network), (7, 3, 1));
    }
}

#[test]
fn decisions_of_redis_count_locally() {
    let options = LimitOptions {
        source: Quota { per_minute: 3, per_hour: 30 },
        network: Quota { per_minute: 4, per_hour: 40 },
        ..LimitOptions::default()
    };
    let (limiter, start) = (LocalLimiter::with_table_bits(&options, 12, 12), Instant::now());
    let [first, second] = ["192.0.2.1", "192.0.2.2"].map(address);
    let refused = |by| Admission::Refused { by, retry_after: SECOND };
    let adopt = |source, admission| limiter.record_redis_decision(source, admission, start);
    adopt(first, Admission::Allowed);
    adopt(first, Admission::Allowed);
    let remaining = |source| limiter.status(source, start).unwrap().map(|standing| standing.remaining);
    assert_eq!(remaining(first), [1, 28, 2, 38]);
    adopt(first, refused(Layer::Source));
    adopt(first, refused(Layer::Network));
    assert_eq!(remaining(first), [1, 28, 2, 38], "refused requests are not charged");
    // No layer is charged more than its quota, and each layer is charged independently of the other.
    for _ in 0..5 {
        adopt(first, Admission::Allowed);
    }
    assert_eq!(remaining(first), [0, 27, 0, 36]);
    assert_eq!(remaining(second), [3, 30, 0, 36]);
    let tally = limiter.counts();
    assert_eq!(tally.allowed, 7);
    assert_eq!((tally.refused_by_source, tally.refused_by_network), (1, 1));
}

const V6_NEIGHBORS: [&str; 4] =
    ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:ffff::1"];

#[test]
fn a_wider_layer_never_allows_less_than_a_narrower_one() {
    let high = Quota { per_minute: 10_000, per_hour: 20_000 };
    let (limiter, start) =
        (LocalLimiter::new(&LimitOptions { source: high, ..LimitOptions::default() }), Instant::now());
    for _ in 0..10_000 {
        let admission = limiter.check(source(1), start).admission;
        assert_eq!(admission, Admission::Allowed);
    }
    assert!(!allows(&limiter, source(1), start));
    let options = LimitOptions { source: high, ..LimitOptions::default() };
    assert_eq!(options.form_quota(), Some(high));
    assert_eq!(LimitOptions { enabled: false, ..options }.form_quota(), None);
}

#[test]
fn a_disabled_limiter_counts_nothing() {
    let limiter = LocalLimiter::new(&LimitOptions { enabled: false, ..tiny(1) });
    for _ in 0..10_000 {
        let decision = limiter.check(source(1), Instant::now());
        let admission = Admission::Allowed;
        assert_eq!(decision, LimitDecision { admission, statuses: None });
    }
    assert_eq!((limiter.status(source(1), Instant::now()), limiter.estimate_sources()), (None, 0));
    assert_eq!(limiter.counts(), DecisionCounts::default());
}

#[test]
fn the_number_of_sources_is_estimated_until_they_have_recovered() {
    let (limiter, start) = (LocalLimiter::with_table_bits(&tiny(10), 16, 12), Instant::now());
    assert_eq!(limiter.estimate_sources(), 0);
    limiter.check(source(0), start);
    assert_eq!(limiter.estimate_sources(), 1);
    for n in 1..50_000 {
        limiter.check(source(n << 4), start);
    }
    let estimate = limiter.estimate_sources();
    assert!((47_500..=52_500).contains(&estimate), "{estimate}");
    limiter.status(source(0), start + MINUTE);
    assert_eq!(
        limiter.estimate_sources(),
        0,
        "each source has sent one request, which expires after six seconds"
    );
}

#[test]
fn a_clock_that_was_read_before_another_changes_nothing() {
    let (limiter, start) = (LocalLimiter::new(&tiny(2)), Instant::now());
    limiter.check(source(9), start);
    let now = start + 10 * SECOND;
    assert!(allows(&limiter, source(1), now) && allows(&limiter, source(1), now));
    for early in [Duration::ZERO, TICK, SECOND, 10 * SECOND, 3 * HOUR] {
        let read_earlier = now.checked_sub(early).unwrap_or(start);
        assert!(!allows(&limiter, source(1), read_earlier), "{early:?}");
    }
}

#[test]
fn expired_debts_do_not_return_over_years() {
    // Counts wrap around after 256 minutes and after 256 hours. With each gap, cells are a different distance
    // behind the current time when they are next used.
    for gap in [61 * SECOND, 59 * MINUTE, 61 * MINUTE, 255 * MINUTE, 256 * MINUTE, 257 * HOUR, 9000 * HOUR] {
        let (limiter, start) = (LocalLimiter::with_table_bits(&tiny(2), 10, 10), Instant::now());
        let mut now = start;
        for n in 0..2000 {
            // Each round uses a new source, and one that has recovered since the previous round.
            for source in [source(1), source(1000 + n)] {
                assert!(allows(&limiter, source, now), "{gap:?} {n}");
                assert!(allows(&limiter, source, now), "{gap:?} {n}");
                assert!(!allows(&limiter, source, now), "{gap:?} {n}");
            }
            now += gap;
        }
    }
}

#[test]
fn an_exhausted_source_recovers_on_time_while_others_keep_sending() {
    // A wrong count would show up one window before the counts wrap around, which happens every 256 minutes.
    // The test therefore exhausts and checks sources for longer than two wraps.
    let (limiter, start) = (LocalLimiter::with_table_bits(&tiny(4), 12, 12), Instant::now());
    for step in 0..600u32 {
        let now = start + step * MINUTE;
        let source = source(step % 7);
        if step % 7 == 0 {
            exhaust(&limiter, source, now);
            assert!(!allows(&limiter, source, now + 14 * SECOND), "{step}");
            assert!(allows(&limiter, source, now + 15 * SECOND + TICK), "{step}");
        } else {
            assert!(allows(&limiter, source, now), "{step}");
        }
    }
}

#[test]
fn a_hundred_thousand_exhausted_sources_block_under_one_stranger_in_1000() {
    // Both the number of sources and the sketch are an eighth of the full size.
    let (attackers, strangers) = (100_000 / 8, 200_000 / 8);
    let (limiter, start) =
        (LocalLimiter::with_table_bits(&in_wide_networks(30, 300), 17, 15), Instant::now());
    for n in 0..attackers {
        exhaust(&limiter, scattered(n), start);
    }
    let refused = (0..strangers).filter(|n| !allows(&limiter, scattered(1_000_000 + n), start)).count();
    assert!(refused * 1000 < strangers as usize, "{refused} of {strangers}");
    assert!((0..attackers).all(|n| !allows(&limiter, scattered(n), start)), "attackers are still refused");
}

#[test]
fn decisions_differ_from_an_exact_table_in_fewer_than_one_in_a_thousand() {
    // About ten sources per cell, as if ten million sources used a full-size sketch.
    let (bits, keys) = (14, 160_000u32);
    let options = in_wide_networks(30, 300);
    let (limiter, start) = (LocalLimiter::with_table_bits(&options, bits, bits), Instant::now());
    let mut exact: HashMap<u32, [f64; 2]> = HashMap::new();
    let (mut differing, mut refused, mut wrongly_allowed) = (0, 0, 0);
    let requests = 500_000u32;
    for request in 0..requests {
        let now = f64::from(request) / f64::from(requests) * 3600.0;
        // One request in five comes from one of a hundred sources that exceed their quotas.
        let random = mix(request);
        let key = if random.is_multiple_of(5) { random / 5 % 100 } else { 100 + random / 5 % keys };
        let arrivals = exact.entry(key).or_default();
        let rule = [(30.0, 60.0), (300.0, 3600.0)];
        let fits = rule.iter().zip(&*arrivals).all(|((q, w), a)| a - now <= w / q * (q - 1.0) + 1e-3);
        if fits {
            for ((q, w), a) in rule.iter().zip(arrivals) {
                *a = a.max(now) + w / q;
            }
        }
        let allowed = allows(&limiter, scattered(key), start + Duration::from_secs_f64(now));
        refused += u32::from(!fits);
        differing += u32::from(allowed != fits);
        wrongly_allowed += u32::from(allowed && !fits);
    }
    assert!(refused > 10_000, "{refused}");
    assert!(differing * 1000 < requests, "{differing} of {requests}");
    assert_eq!(wrongly_allowed, 0);
}

/// Slightly longer than a tick of a quota per minute.
const TICK: Duration = Duration::from_micros(4);

/// Slightly longer than a tick of a quota per hour.
const TICK_OF_AN_HOUR: Duration = Duration::from_micros(220);

fn is_about(duration: Duration, expected: Duration) -> bool {
    duration >= expected.saturating_sub(TICK) && duration <= expected + TICK
}

fn source(n: u32) -> Source {
    Source::V4(n.to_be_bytes())
}

/// Spreads sources over networks, so that hardly any two share one.
fn scattered(n: u32) -> Source {
    source(n.wrapping_mul(0x9e37_79b1))
}

fn mix(n: u32) -> u32 {
    let n = (n ^ (n >> 16)).wrapping_mul(0x7feb_352d);
    let n = (n ^ (n >> 15)).wrapping_mul(0x846c_a68b);
    n ^ (n >> 16)
}

fn address(text: &str) -> Source {
    Source::from(text.parse::<std::net::IpAddr>().unwrap())
}

fn waits(limiter: &LocalLimiter, source: Source, now: Instant) -> Option<Duration> {
    match limiter.check(source, now).admission {
        Admission::Allowed => None,
        Admission::Refused { retry_after, .. } => Some(retry_after),
    }
}

fn allows(limiter: &LocalLimiter, source: Source, now: Instant) -> bool {
    waits(limiter, source, now).is_none()
}

/// Sends requests until one is refused. The quota must be below 100.
fn exhaust(limiter: &LocalLimiter, source: Source, now: Instant) {
    assert!((0..100).any(|_| !allows(limiter, source, now)));
}

/// Options in which only a source's quota per minute is small enough to be exceeded.
fn tiny(per_minute: u32) -> LimitOptions {
    let wide = Quota { per_minute: MAX_QUOTA, per_hour: MAX_QUOTA };
    LimitOptions {
        enabled: true,
        source: Quota { per_minute, per_hour: MAX_QUOTA },
        network: wide,
        form: wide,
    }
}

/// Options in which only a source's quotas are small enough to be exceeded.
fn in_wide_networks(per_minute: u32, per_hour: u32) -> LimitOptions {
    LimitOptions { source: Quota { per_minute, per_hour }, ..tiny(1) }
}

/// A limiter with small tables, because some tests create hundreds of limiters.
fn small(per_minute: u32, per_hour: u32) -> LocalLimiter {
    LocalLimiter::with_table_bits(&in_wide_networks(per_minute, per_hour), 8, 8)
}

proptest! {
    #[test]
    fn no_stretch_of_time_holds_more_than_the_quota_and_what_recovers_in_it(
        per_minute in prop_oneof![1..40u32, Just(MAX_QUOTA)],
        per_hour in 1..200u32,
        gaps in prop::collection::vec(prop_oneof![Just(0u64), 0..3_000u64, 0..600_000u64], 1..300),
    ) {
        let (limiter, start) = (small(per_minute, per_hour), Instant::now());
        let mut now = start;
        let mut allowed = Vec::new();
        for gap in gaps {
            now += Duration::from_millis(gap);
            if allows(&limiter, source(1), now) {
                allowed.push(now);
            }
        }
        for (quota, window, tick) in [(per_minute, MINUTE, TICK), (per_hour, HOUR, TICK_OF_AN_HOUR)] {
            for (i, from) in allowed.iter().enumerate() {
                for (to, count) in allowed[i..].iter().zip(1u128..) {
                    let stretch = (to.duration_since(*from) + tick).as_nanos();
                    let most = u128::from(quota) * (window.as_nanos() + stretch) / window.as_nanos();
                    prop_assert!(count <= most, "{} in {:?}", count, *to - *from);
                }
            }
        }
    }

    #[test]
    fn after_retry_after_a_request_is_allowed_and_not_before(
        per_minute in 1..40u32,
        per_hour in 1..60u32,
        gaps in prop::collection::vec(0..5_000u64, 1..200),
    ) {
        let (limiter, mut now) = (small(per_minute, per_hour), Instant::now());
        for gap in gaps {
            now += Duration::from_millis(gap);
            if let Some(wait) = waits(&limiter, source(1), now) {
                prop_assert!(!wait.is_zero());
                if let Some(too_early) = wait.checked_sub(2 * TICK_OF_AN_HOUR) {
                    prop_assert!(!allows(&limiter, source(1), now + too_early));
                }
                now += wait;
                prop_assert!(allows(&limiter, source(1), now));
            }
        }
    }

    #[test]
    fn the_remaining_quota_can_be_used_at_once(
        per_minute in 1..40u32,
        gaps in prop::collection::vec(0..5_000u64, 1..50),
    ) {
        let (limiter, mut now) = (small(per_minute, 10_000), Instant::now());
        let mut remaining = per_minute;
        for gap in gaps {
            now += Duration::from_millis(gap);
            remaining = limiter.check(source(1), now).statuses.unwrap()[0].remaining;
        }
        for _ in 0..remaining {
            prop_assert!(allows(&limiter, source(1), now));
        }
        prop_assert!(!allows(&limiter, source(1), now));
    }

    #[test]
    fn sharing_a_sketch_never_increases_a_sources_quota(
        requests in prop::collection::vec((0..200u32, 0..2_000u64), 1..400),
    ) {
        // The sketch is so small that all keys collide.
        let crowded = LocalLimiter::with_table_bits(&in_wide_networks(3, 20), 3, 3);
        let mut alone: HashMap<u32, LocalLimiter> = HashMap::new();
        let start = Instant::now();
        crowded.status(source(0), start);
        let mut now = start;
        for (who, gap) in requests {
            now += Duration::from_millis(gap);
            if allows(&crowded, source(who), now) {
                let own = alone.entry(who).or_insert_with(|| small(3, 20));
                // Start this limiter's clock at the same time, so that both limiters count the same ticks.
                own.status(source(who), start);
                prop_assert!(allows(own, source(who), now));
            }
        }
    }
}
