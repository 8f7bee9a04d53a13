//! Decides when the next run begins.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The maximum delay of the first run after the server starts, unless the previous run was too recent.
const FIRST_DELAY: Duration = Duration::from_secs(30);

/// The time until the next run; zero if it is due. The first run begins [`FIRST_DELAY`] or a tenth of `every`
/// after `started_at`, the start of the server, whichever is sooner. But a run begins no earlier than `every`
/// after the last one, plus up to a twentieth of `every`. A server that restarts again and again thus sends
/// no more test submissions. A last run in the future is ignored: the clock was set back.
pub(crate) fn time_to_next_run(
    now: Timestamp,
    started_at: Timestamp,
    last: Option<Timestamp>,
    every: Duration,
) -> Duration {
    let first = started_at.saturating_add(FIRST_DELAY.min(every / 10)).unwrap_or(now);
    let next = last.filter(|last| *last <= now).map(|last| {
        let wait = SignedDuration::try_from(every + jitter(last, every)).unwrap_or(SignedDuration::MAX);
        last.saturating_add(wait).unwrap_or(Timestamp::MAX)
    });
    let due = next.map_or(first, |next| next.max(first));
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}

/// Up to a twentieth of `every`, derived from the time of the last run: the runs of many servers do not
/// coincide.
fn jitter(last: Timestamp, every: Duration) -> Duration {
    // The multiplier of Knuth's multiplicative hash.
    let hash = last.as_millisecond().cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    every / 20 * u32::try_from(hash).unwrap_or_default() / 65_536
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn the_first_run_begins_soon_after_the_start() {
        assert_eq!(time_to_next_run(at(0), at(0), None, HOUR), Duration::from_secs(30));
        assert_eq!(time_to_next_run(at(10), at(0), None, HOUR), Duration::from_secs(20));
        assert_eq!(time_to_next_run(at(90), at(0), None, HOUR), Duration::ZERO);
        assert_eq!(time_to_next_run(at(0), at(0), None, Duration::from_secs(10)), Duration::from_secs(1));
        assert_eq!(time_to_next_run(at(0), at(0), Some(at(-9999)), HOUR), Duration::from_secs(30));
    }

    #[test]
    fn a_restart_does_not_bring_the_next_run_forward() {
        for last in [-1, -60, -3599] {
            let wait = time_to_next_run(at(0), at(0), Some(at(last)), HOUR);
            let rest = HOUR.saturating_sub(Duration::from_secs(last.unsigned_abs()));
            assert!(wait >= rest && wait <= rest + HOUR / 20 + Duration::from_secs(30), "{last}: {wait:?}");
        }
    }

    #[test]
    fn a_run_in_the_future_is_ignored() {
        assert_eq!(time_to_next_run(at(0), at(-60), Some(at(1)), HOUR), Duration::ZERO);
    }

    #[test]
    fn the_jitter_is_a_twentieth_at_most_and_differs() {
        let jitters: Vec<Duration> = (0..20).map(|second| jitter(at(second), HOUR)).collect();
        assert!(jitters.iter().all(|jitter| *jitter < HOUR / 20), "{jitters:?}");
        assert!(jitters.iter().collect::<std::collections::BTreeSet<_>>().len() > 10, "{jitters:?}");
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }
}
