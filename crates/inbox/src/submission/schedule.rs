//! The retry schedule: decides when a delivery is retried, and when it becomes a dead letter. All functions
//! are pure.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::delivery_outcome::{Cause, Outcome};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Delays between attempts, in seconds: about three days in total (the schedule of Standard Webhooks).
const DELAYS: [u64; 9] =
    [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// Maximum time until the next attempt, even if the receiver asks for more. It exceeds the schedule's longest
/// delay, which is 24 hours plus a jitter of a tenth.
pub const LONGEST_DELAY: Duration = Duration::from_hours(27);

/// The maximum time until the next attempt after `failures` failures or after an interruption, unless the
/// receiver asked for more or the last outcome was uncertain.
pub fn longest_wait(failures: u32) -> Duration {
    let longest_interruption = 1 << LONGEST_BACKOFF;
    let seconds = match usize::try_from(failures).ok().and_then(|failures| failures.checked_sub(1)) {
        Some(last) => DELAYS[last.min(DELAYS.len() - 1)].max(longest_interruption),
        None => longest_interruption,
    };
    Duration::from_millis(seconds * 1100)
}

/// A delivery becomes a dead letter after this many consecutive interrupted attempts, because the delivery
/// itself may be crashing the process.
const MOST_INTERRUPTIONS: u32 = 20;

/// Binary logarithm of the maximum backoff after interruptions, in seconds (2^8 s).
const LONGEST_BACKOFF: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    Delivered,
    RetryAt(Timestamp),
    /// A dead letter: only the operator can retry it.
    Parked,
}

/// The time until the only retry of an attempt whose outcome is uncertain. Long enough for the copy to arrive
/// that the receiver may have accepted, and for a receiver that was overloaded to recover.
const UNCERTAIN_DELAY: Duration = Duration::from_hours(1);

/// Decides what follows an attempt that ended at `now`, after `failures` earlier failures, and after
/// `uncertain` earlier attempts whose outcome is uncertain. A delivery is parked after a final refusal, if
/// the receiver is gone, after the tenth failure, or after the second uncertain outcome. The first uncertain
/// outcome is retried after an hour at least. If the receiver asks for a longer delay than the schedule, a
/// retry waits for that, up to [`LONGEST_DELAY`].
pub fn next_step(outcome: &Outcome, id: Uuid, failures: u32, uncertain: u32, now: Timestamp) -> NextStep {
    let failure = match outcome {
        Outcome::Delivered(_) => return NextStep::Delivered,
        Outcome::Failed(failure) => failure,
    };
    if matches!(failure.cause, Cause::Refused | Cause::Gone) {
        return NextStep::Parked;
    }
    let Some(mut delay) = retry_delay(id, failures) else { return NextStep::Parked };
    if failure.cause == Cause::Uncertain {
        // Do not retry after a second uncertain outcome: both attempts may have delivered a copy.
        if uncertain > 0 {
            return NextStep::Parked;
        }
        delay = delay.max(UNCERTAIN_DELAY);
    }
    let asked = failure.retry_after.unwrap_or_default().min(LONGEST_DELAY);
    NextStep::RetryAt(add_delay(now, delay.max(asked)))
}

/// Decides what follows an interrupted attempt, the `interrupted`-th in a row. After the first one, the
/// delivery is retried at once, because the process was probably only restarted. After later ones, the delay
/// doubles from 1 s to 256 s, because the delivery may be crashing the process; after `MOST_INTERRUPTIONS`,
/// the delivery is parked.
pub fn next_step_after_interruption(interrupted: u32, now: Timestamp) -> NextStep {
    match interrupted {
        0 | 1 => NextStep::RetryAt(now),
        n if n >= MOST_INTERRUPTIONS => NextStep::Parked,
        n => NextStep::RetryAt(add_delay(now, Duration::from_secs(1 << (n - 2).min(LONGEST_BACKOFF)))),
    }
}

/// The scheduled time until the next attempt after `failures` earlier failures and one more; `None` if the
/// delivery has had all attempts. A jitter of up to a tenth more or less, a function of the submission's id
/// and the attempt, spreads the retries of deliveries that failed together.
fn retry_delay(id: Uuid, failures: u32) -> Option<Duration> {
    let seconds = *DELAYS.get(usize::try_from(failures).ok()?)?;
    let millis = seconds * 1000;
    let spread = millis / 5;
    // The second half of a UUID version 7 is mostly random.
    let (_, random) = id.as_u64_pair();
    Some(Duration::from_millis(
        millis - spread / 2 + splitmix64(random.wrapping_add(failures.into())) % spread,
    ))
}

/// The next output of a SplitMix64 generator with the state `x`.
pub fn splitmix64(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Adds `delay` to `now`. Returns [`Timestamp::MAX`] on overflow.
pub(crate) fn add_delay(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn the_first_retry_takes_five_seconds_and_all_take_three_days() {
        for n in 0..1000_u128 {
            let id = Uuid::from_u128(n << 100 | n);
            let waits: Vec<Duration> = (0..).map_while(|failures| retry_delay(id, failures)).collect();
            assert_eq!(waits.len(), 9);
            let first = waits[0].as_millis();
            assert!((4500..=5500).contains(&first), "{first}");
            let days = waits.iter().sum::<Duration>().as_secs_f64() / 86_400.0;
            assert!((2.8..3.5).contains(&days), "{days}");
        }
    }

    #[test]
    fn each_delay_differs_from_the_schedule_by_a_tenth_at_most() {
        let (minute, hour) = (60, 60 * 60);
        let schedule =
            [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour];
        for (failures, seconds) in (0..).zip(schedule.map(Duration::from_secs)) {
            let waits = (0..1000).filter_map(|n| retry_delay(Uuid::from_u128(n), failures));
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
            // Clamping due times must not change a scheduled delay.
            assert_eq!(longest_wait(failures + 1), (seconds * 11 / 10).max(Duration::from_millis(281_600)));
        }
        assert_eq!(
            longest_wait(0),
            Duration::from_millis(281_600),
            "the longest backoff after an interruption, and a tenth"
        );
        assert_eq!(longest_wait(100), longest_wait(9));
    }

    #[test]
    fn deliveries_that_failed_together_are_retried_apart() {
        let mut waits: Vec<Duration> = (0..1000).filter_map(|n| retry_delay(Uuid::from_u128(n), 1)).collect();
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 900, "{} different waits among 1000", waits.len());
        assert!(waits[waits.len() - 1] > waits[0] + Duration::from_secs(50));
    }

    #[test]
    fn the_cause_decides_the_next_step() {
        check(&Outcome::delivered("250 ok"), 3, NextStep::Delivered);
        check(&Outcome::failed(Cause::Refused, "554 no"), 0, NextStep::Parked);
        check(&Outcome::failed(Cause::Gone, "410 Gone"), 0, NextStep::Parked);
        check(&Outcome::failed(Cause::Channel, "refused"), 9, NextStep::Parked);
        check(&Outcome::failed(Cause::Notification, "400"), 9, NextStep::Parked);
        for cause in [Cause::Channel, Cause::Notification] {
            let expected = NextStep::RetryAt(NOW + retry_delay(Uuid::nil(), 8).unwrap());
            check(&Outcome::failed(cause, "later"), 8, expected);
        }
    }

    #[test]
    fn an_uncertain_attempt_is_retried_once_and_late() {
        let uncertain = Outcome::failed(Cause::Uncertain, "silence");
        check(&uncertain, 0, NextStep::RetryAt(NOW + UNCERTAIN_DELAY));
        check(&uncertain, 7, NextStep::RetryAt(NOW + retry_delay(Uuid::nil(), 7).unwrap()));
        check(&uncertain, 9, NextStep::Parked);
        assert_eq!(next_step(&uncertain, Uuid::nil(), 1, 1, NOW), NextStep::Parked);
        // Other failures do not change this.
        let refused = Outcome::failed(Cause::Channel, "connection refused");
        assert!(matches!(next_step(&refused, Uuid::nil(), 1, 1, NOW), NextStep::RetryAt(_)));
    }

    #[test]
    fn a_retry_after_is_respected_up_to_a_limit() {
        let asked = |after| Outcome::failed(Cause::Channel, "429").with_retry_after(Some(after));
        let hour = Duration::from_hours(1);
        check(&asked(hour), 0, NextStep::RetryAt(NOW + hour));
        // Never sooner than the schedule, or ten attempts would take ten seconds.
        let scheduled = retry_delay(Uuid::nil(), 1).unwrap();
        check(&asked(Duration::from_secs(1)), 1, NextStep::RetryAt(NOW + scheduled));
        check(&asked(hour * 10_000), 0, NextStep::RetryAt(NOW + LONGEST_DELAY));
    }

    #[test]
    fn an_interrupted_attempt_is_retried_at_once_and_then_backs_off() {
        let seconds = |n| NextStep::RetryAt(NOW + Duration::from_secs(n));
        for (interrupted, expected) in
            [(1, seconds(0)), (2, seconds(1)), (3, seconds(2)), (10, seconds(256)), (19, seconds(256))]
        {
            assert_eq!(next_step_after_interruption(interrupted, NOW), expected, "{interrupted}");
        }
        assert_eq!(next_step_after_interruption(20, NOW), NextStep::Parked);
    }

    #[test]
    fn no_delay_exceeds_the_longest_one() {
        for n in 0..1000 {
            assert!(retry_delay(Uuid::from_u128(n), 8).unwrap() <= LONGEST_DELAY);
            for failures in 0..9 {
                assert!(retry_delay(Uuid::from_u128(n), failures).unwrap() <= longest_wait(failures + 1));
            }
        }
        for failures in 0..12 {
            for interrupted in 0..MOST_INTERRUPTIONS {
                let NextStep::RetryAt(at) = next_step_after_interruption(interrupted, NOW) else {
                    panic!("it is retried")
                };
                assert!(at <= NOW + longest_wait(failures));
            }
            assert!(longest_wait(failures) <= LONGEST_DELAY);
        }
    }

    #[test]
    fn splitmix64_is_the_finaliser_of_splitmix64() {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        for (from, expected) in [
            (0, 0xe220_a839_7b1d_cdaf),
            (GAMMA, 0x6e78_9e6a_a1b9_65f4),
            (GAMMA.wrapping_mul(2), 0x06c4_5d18_8009_454f),
        ] {
            assert_eq!(splitmix64(from), expected, "{from:x}");
        }
    }

    #[test]
    fn a_due_time_beyond_the_calendar_is_clamped() {
        assert_eq!(next_step_after_interruption(2, Timestamp::MAX), NextStep::RetryAt(Timestamp::MAX));
    }

    fn check(outcome: &Outcome, failures: u32, expected: NextStep) {
        assert_eq!(
            next_step(outcome, Uuid::nil(), failures, 0, NOW),
            expected,
            "{outcome:?} after {failures}"
        );
    }
}
