//! When a delivery is tried again, and when it is given to the operator to decide: pure functions of what happened.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::outcome::{Cause, Outcome};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// What lies between two attempts, in seconds: about three days in all (Standard Webhooks' schedule).
const DELAYS: [u64; 9] =
    [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// The longest that another side may ask us to stay away, and so the furthest that a delivery may lie ahead.
pub const LONGEST_DELAY: Duration = Duration::from_hours(27);

/// The longest that a delivery waits of which `failures` attempts have failed, unless the other side asked for more.
pub fn longest_wait(failures: u32) -> Duration {
    let longest_interruption = 1 << LONGEST_BACKOFF;
    let seconds = match usize::try_from(failures).ok().and_then(|failures| failures.checked_sub(1)) {
        Some(last) => DELAYS[last.min(DELAYS.len() - 1)].max(longest_interruption),
        None => longest_interruption,
    };
    Duration::from_millis(seconds * 1100)
}

/// How often in a row an attempt may be interrupted by the end of our own process before it is suspected to be the cause.
const MOST_INTERRUPTIONS: u32 = 20;

/// What is interrupted again and again waits up to two to the power of this, in seconds.
const LONGEST_BACKOFF: u32 = 8;

/// What is to become of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has arrived.
    Delivered,
    /// It is tried again at this time.
    Again(Timestamp),
    /// It waits for the operator.
    Parked,
}

/// Judges the outcome of an attempt that ended at `now` and that followed `failures` failed ones.
pub fn judge(outcome: &Outcome, id: Uuid, failures: u32, now: Timestamp) -> Verdict {
    let failure = match outcome {
        Outcome::Delivered(_) => return Verdict::Delivered,
        Outcome::Failed(failure) => failure,
    };
    if matches!(failure.cause, Cause::Refused | Cause::Gone) {
        return Verdict::Parked;
    }
    let Some(delay) = delay(id, failures) else { return Verdict::Parked };
    let asked = failure.retry_after.unwrap_or_default().min(LONGEST_DELAY);
    Verdict::Again(later(now, delay.max(asked)))
}

/// Judges an attempt of which nobody heard the end, the `interrupted`-th in a row.
///
/// The first is repeated at once, since most often nothing was wrong with it: the process was stopped. Those that are
/// interrupted again and again wait longer and longer, so that whatever ends the process with them can't keep it from running.
pub fn judge_interrupted(interrupted: u32, now: Timestamp) -> Verdict {
    match interrupted {
        0 | 1 => Verdict::Again(now),
        n if n >= MOST_INTERRUPTIONS => Verdict::Parked,
        n => Verdict::Again(later(now, Duration::from_secs(1 << (n - 2).min(LONGEST_BACKOFF)))),
    }
}

/// How long to wait after another failure, if there is to be another attempt at all. Up to a tenth more or less than the
/// schedule says, so that what failed together doesn't come back together; for one delivery and attempt it is always the same.
fn delay(id: Uuid, failures: u32) -> Option<Duration> {
    let seconds = *DELAYS.get(usize::try_from(failures).ok()?)?;
    let millis = seconds * 1000;
    let spread = millis / 5;
    // The second half of a UUID version 7 is mostly random.
    let (_, random) = id.as_u64_pair();
    Some(Duration::from_millis(millis - spread / 2 + mix(random.wrapping_add(failures.into())) % spread))
}

/// Spreads a number evenly over all others (SplitMix64's finaliser).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::outcome::Failure;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn the_second_attempt_follows_after_about_five_seconds_and_all_of_it_takes_about_three_days() {
        for n in 0..1000_u128 {
            let id = Uuid::from_u128(n << 100 | n);
            let waits: Vec<Duration> = (0..).map_while(|failures| delay(id, failures)).collect();
            assert_eq!(waits.len(), 9);
            let first = waits[0].as_millis();
            assert!((4500..=5500).contains(&first), "{first}");
            let days = waits.iter().sum::<Duration>().as_secs_f64() / 86_400.0;
            assert!((2.8..3.5).contains(&days), "{days}");
        }
    }

    #[test]
    fn each_wait_is_up_to_a_tenth_longer_or_shorter_than_the_schedule_says() {
        let (minute, hour) = (60, 60 * 60);
        let schedule =
            [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour];
        for (failures, seconds) in (0..).zip(schedule.map(Duration::from_secs)) {
            let waits = (0..1000).filter_map(|n| delay(Uuid::from_u128(n), failures));
            let (shortest, longest) =
                waits.fold((Duration::MAX, Duration::ZERO), |(a, b), wait| (a.min(wait), b.max(wait)));
            assert!(
                shortest >= seconds * 9 / 10 && shortest < seconds * 91 / 100,
                "{shortest:?} of {seconds:?}"
            );
            assert!(
                longest <= seconds * 11 / 10 && longest > seconds * 109 / 100,
                "{longest:?} of {seconds:?}"
            );
            // What keeps a delivery from lying too far ahead must leave it as it is.
            assert_eq!(longest_wait(failures + 1), (seconds * 11 / 10).max(Duration::from_millis(281_600)));
        }
        assert_eq!(longest_wait(0), Duration::from_millis(281_600), "an interruption's longest, and a tenth");
        assert_eq!(longest_wait(100), longest_wait(9));
    }

    #[test]
    fn what_failed_together_does_not_come_back_together() {
        let mut waits: Vec<Duration> = (0..1000).filter_map(|n| delay(Uuid::from_u128(n), 1)).collect();
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 900, "{} different waits among 1000", waits.len());
        assert!(waits[waits.len() - 1] > waits[0] + Duration::from_secs(50));
    }

    #[test]
    fn an_outcome_decides_what_becomes_of_a_delivery() {
        check(&Outcome::delivered("250 ok"), 3, Verdict::Delivered);
        check(&Outcome::failed(Cause::Refused, "554 no"), 0, Verdict::Parked);
        check(&Outcome::failed(Cause::Gone, "410 Gone"), 0, Verdict::Parked);
        check(&Outcome::failed(Cause::Channel, "refused"), 9, Verdict::Parked);
        check(&Outcome::failed(Cause::Notice, "400"), 9, Verdict::Parked);
        for cause in [Cause::Channel, Cause::Notice] {
            let expected = Verdict::Again(NOW + delay(Uuid::nil(), 8).unwrap());
            check(&Outcome::failed(cause, "later"), 8, expected);
        }
    }

    #[test]
    fn who_asks_for_time_is_given_it_within_reason() {
        let asked = |after: Duration| {
            Outcome::Failed(Failure {
                cause: Cause::Channel,
                answer: "429".to_owned(),
                retry_after: Some(after),
            })
        };
        let hour = Duration::from_hours(1);
        check(&asked(hour), 0, Verdict::Again(NOW + hour));
        // Never sooner than the schedule, or ten attempts would be over in ten seconds.
        let scheduled = delay(Uuid::nil(), 1).unwrap();
        check(&asked(Duration::from_secs(1)), 1, Verdict::Again(NOW + scheduled));
        check(&asked(hour * 10_000), 0, Verdict::Again(NOW + LONGEST_DELAY));
    }

    #[test]
    fn an_interrupted_attempt_is_repeated_at_once_and_then_ever_later() {
        let seconds = |n| Verdict::Again(NOW + Duration::from_secs(n));
        for (interrupted, expected) in
            [(1, seconds(0)), (2, seconds(1)), (3, seconds(2)), (10, seconds(256)), (19, seconds(256))]
        {
            assert_eq!(judge_interrupted(interrupted, NOW), expected, "{interrupted}");
        }
        assert_eq!(judge_interrupted(20, NOW), Verdict::Parked);
    }

    #[test]
    fn no_delay_is_longer_than_the_longest() {
        for n in 0..1000 {
            assert!(delay(Uuid::from_u128(n), 8).unwrap() <= LONGEST_DELAY);
            for failures in 0..9 {
                assert!(delay(Uuid::from_u128(n), failures).unwrap() <= longest_wait(failures + 1));
            }
        }
        for failures in 0..12 {
            for interrupted in 0..MOST_INTERRUPTIONS {
                let Verdict::Again(at) = judge_interrupted(interrupted, NOW) else {
                    panic!("it is tried again")
                };
                assert!(at <= NOW + longest_wait(failures));
            }
            assert!(longest_wait(failures) <= LONGEST_DELAY);
        }
    }

    #[test]
    fn numbers_are_mixed_as_splitmix64_mixes_them() {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        for (from, expected) in [
            (0, 0xe220_a839_7b1d_cdaf),
            (GAMMA, 0x6e78_9e6a_a1b9_65f4),
            (GAMMA.wrapping_mul(2), 0x06c4_5d18_8009_454f),
        ] {
            assert_eq!(mix(from), expected, "{from:x}");
        }
    }

    #[test]
    fn what_would_be_due_after_the_end_of_all_calendars_is_due_then() {
        assert_eq!(judge_interrupted(2, Timestamp::MAX), Verdict::Again(Timestamp::MAX));
    }

    fn check(outcome: &Outcome, failures: u32, expected: Verdict) {
        assert_eq!(judge(outcome, Uuid::nil(), failures, NOW), expected, "{outcome:?} after {failures}");
    }
}
