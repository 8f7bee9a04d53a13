//! The generic cell rate algorithm (GCRA). Pure arithmetic, in any unit of time.
//!
//! The algorithm keeps one instant per key, the *theoretical arrival time*, at which the key's whole quota is
//! available again. The time until then is the *debt*. Each request adds a *step*, `window / quota`; one that
//! would raise the debt above the *burst*, usually a whole window, is refused and adds nothing. A key may
//! therefore use its whole quota at once, then send one request every `window / quota`: at most
//! `quota + t · quota / window` requests in any period `t`.
//!
//! [`Gcra`] is the algorithm; `rate_limiter/gcra.lua` repeats it for Redis. Arrival times in rows of a
//! database are Unix time in microseconds; those in sketches are counted in ticks ([`WindowQuota`]).

use std::time::Duration;

use super::quota::{Quota, QuotaStatus};

/// The largest quota, at which each request still costs 16 ticks.
pub const MAX_QUOTA: u32 = 1_000_000;

/// The largest debt, and the maximum number of ticks in a window. A 32-bit tick count covers 256 windows.
const MAX_TICKS: u32 = 1 << 24;

/// The maximum difference between the clocks of machines that share arrival times, in microseconds.
const CLOCK_TOLERANCE: i64 = 10_000_000;

/// The parameters of one limit, in any unit, such as microseconds, ticks of a sketch or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// How much one request adds to the debt of its key.
    pub(super) step: u64,
    /// The maximum debt. A request that would exceed it is refused.
    pub(super) burst: u64,
}

impl Gcra {
    /// A limit with times in microseconds. A step of less than one microsecond is raised to one.
    pub fn new(step: Duration, burst: Duration) -> Gcra {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Gcra { step: micros(step).max(1), burst: micros(burst) }
    }

    /// A limit of `quota` requests per `window`; a quota of 0 counts as 1.
    pub fn per(window: Duration, quota: u32) -> Gcra {
        Gcra::new(window / quota.max(1), window)
    }

    /// The debt at `now` of a key with this arrival time, in microseconds; both times are Unix times. A debt
    /// above the burst means that a clock was set back, or that another machine's clock is ahead. If it is
    /// above by up to ten seconds, it counts as the burst, so that the difference does not reset quotas;
    /// otherwise as zero, so that no key is locked out.
    pub fn debt(self, arrival: i64, now: i64) -> u64 {
        let debt = arrival.saturating_sub(now);
        if debt > i64::try_from(self.burst).unwrap_or(i64::MAX).saturating_add(CLOCK_TOLERANCE) {
            return 0;
        }
        u64::try_from(debt).unwrap_or_default().min(self.burst)
    }

    /// The time until a key with this debt is allowed one more request; zero if it is allowed now.
    pub fn wait(self, debt: u64) -> u64 {
        debt.saturating_add(self.step).saturating_sub(self.burst)
    }

    /// The number of requests that a key with this debt is allowed now.
    pub fn remaining(self, debt: u64) -> u64 {
        self.burst.saturating_sub(debt) / self.step
    }

    /// The arrival time after one more request at `now`; or, as an error, the earliest time at which that
    /// request is allowed.
    pub fn charge(self, arrival: i64, now: i64) -> Result<i64, i64> {
        self.charge_with_reserve(arrival, now, Duration::ZERO)
    }

    /// Like [`Gcra::charge`], for a request that must leave `reserve` of the burst to others with the same
    /// key. If the burst has no room for the reserve and a step, the request leaves less, so that a key that
    /// has not been used for long is always allowed one.
    pub fn charge_with_reserve(self, arrival: i64, now: i64, reserve: Duration) -> Result<i64, i64> {
        let reserve = u64::try_from(reserve.as_micros()).unwrap_or(u64::MAX);
        let reserve = reserve.min(self.burst.saturating_sub(self.step));
        let debt = self.debt(arrival, now);
        match self.wait(debt.saturating_add(reserve)) {
            0 => Ok(now.saturating_add_unsigned(debt + self.step)),
            wait => Err(now.saturating_add_unsigned(wait)),
        }
    }

    /// For a request that is never refused: the number of earlier requests that make up the debt, rounded up,
    /// and the arrival time after this request, at most a burst from `now`.
    pub fn count(self, arrival: i64, now: i64) -> (u64, i64) {
        let debt = self.debt(arrival, now);
        (debt.div_ceil(self.step), now.saturating_add_unsigned((debt + self.step).min(self.burst)))
    }
}

/// A quota whose times are counted in ticks, so that two arrival times fit into a 64-bit cell of a sketch.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowQuota {
    name: &'static str,
    pub(super) quota: u32,
    window: Duration,
    /// The step is a whole number of ticks, and a window has exactly `quota` times as many, so rounding does
    /// not change the rate.
    limit: Gcra,
    /// Ticks per nanosecond, times 2⁶⁴.
    rate: u64,
}

/// The quotas of one layer, per minute and per hour. Their names appear in the `RateLimit-Policy` field.
pub(super) fn window_quotas(quota: Quota, [minute, hour]: [&'static str; 2]) -> [WindowQuota; 2] {
    [
        WindowQuota::new(minute, quota.per_minute, Duration::from_mins(1)),
        WindowQuota::new(hour, quota.per_hour, Duration::from_hours(1)),
    ]
}

impl WindowQuota {
    /// Creates a quota. Raises 0 to 1, and lowers values above [`MAX_QUOTA`] to [`MAX_QUOTA`].
    pub(super) fn new(name: &'static str, quota: u32, window: Duration) -> WindowQuota {
        let quota = quota.clamp(1, MAX_QUOTA);
        let step = MAX_TICKS / quota;
        let rate = (u128::from(step * quota) << 64) / window.as_nanos();
        let limit = Gcra { step: step.into(), burst: (step * quota).into() };
        WindowQuota { name, quota, window, limit, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }

    /// Converts a duration to ticks, rounded down.
    pub(super) fn ticks_in(&self, elapsed: Duration) -> u64 {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let ticks = (u128::from(nanos) * u128::from(self.rate)) >> 64;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    pub(super) fn debt_after_request(&self, debt: u32) -> u32 {
        debt + ticks(self.limit.step)
    }

    /// The largest debt: a whole window.
    pub(super) fn max_debt(&self) -> u32 {
        ticks(self.limit.burst)
    }

    /// The time until a key with this debt is allowed one more request; zero if it is allowed now.
    fn time_until_allowed(&self, debt: u32) -> Duration {
        match self.limit.wait(debt.into()) {
            0 => Duration::ZERO,
            wait => self.ticks_to_time(ticks(wait)),
        }
    }

    /// Converts ticks to a duration, rounded up.
    pub(super) fn ticks_to_time(&self, ticks: u32) -> Duration {
        let nanos = (u128::from(ticks) << 64).div_ceil(u128::from(self.rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The quota status to report for a key with this debt.
    pub(super) fn status_for_debt(&self, debt: u32) -> QuotaStatus {
        let window_seconds = self.window.as_secs();
        let Gcra { step, burst } = self.limit;
        let ticks_until_one_more = step - burst.saturating_sub(debt.into()) % step;
        QuotaStatus {
            name: self.name,
            quota: self.quota,
            window_seconds,
            remaining: ticks(self.limit.remaining(debt.into())),
            effective_window_seconds: (ticks_until_one_more * window_seconds).div_ceil(burst),
        }
    }
}

/// The time until both windows allow one more request; zero if they allow it now.
pub(super) fn time_until_allowed([a, b]: &[WindowQuota; 2], [debt, other]: [u32; 2]) -> Duration {
    a.time_until_allowed(debt).max(b.time_until_allowed(other))
}

/// Converts to 32 bits without loss: a debt of a [`WindowQuota`] is at most [`MAX_TICKS`] plus one step.
fn ticks(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_at_once_and_then_one_request_a_step() {
        let limit = Gcra::per(Duration::from_mins(1), 3);
        let step = 20_000_000;
        let mut arrival = 0;
        for now in [0, 0, 0, step, 2 * step] {
            arrival = limit.charge(arrival, now).expect("it is allowed");
        }
        assert_eq!((arrival, limit.charge(arrival, 2 * step + 1)), (5 * step, Err(3 * step)));
        assert_eq!(limit.remaining(limit.debt(arrival, 4 * step)), 2);
        assert_eq!(limit.count(arrival, 2 * step), (3, 5 * step), "the debt stays within the burst");
        assert_eq!(limit.count(arrival, 5 * step - 1), (1, 6 * step));
    }

    #[test]
    fn a_reserve_leaves_a_part_of_the_burst_but_always_room_for_one() {
        let half = Duration::from_secs(30);
        let charge =
            |quota, arrival| Gcra::per(Duration::from_mins(1), quota).charge_with_reserve(arrival, 0, half);
        assert_eq!([charge(4, 0), charge(4, 15_000_000)], [Ok(15_000_000), Ok(30_000_000)]);
        assert_eq!(charge(4, 30_000_000), Err(15_000_000));
        assert_eq!([charge(1, 0), charge(1, 60_000_000)], [Ok(60_000_000), Err(60_000_000)]);
    }

    #[test]
    fn a_clock_that_was_set_back_neither_resets_a_quota_nor_locks_it() {
        let limit = Gcra::per(Duration::from_mins(1), 3);
        let arrival = 60_000_000;
        assert_eq!(limit.debt(arrival, -CLOCK_TOLERANCE), 60_000_000);
        assert_eq!(limit.debt(arrival, -CLOCK_TOLERANCE - 1), 0);
        assert_eq!(limit.debt(arrival, arrival + 1), 0);
        assert_eq!(limit.debt(i64::MAX, i64::MIN), 0);
    }

    #[test]
    fn a_window_of_ticks_is_a_window_of_time_for_every_quota() {
        for window in [Duration::from_mins(1), Duration::from_hours(1)] {
            for quota in [1, 2, 3, 7, 30, 300, 3_000, 99_991, 999_999, MAX_QUOTA] {
                let pace = WindowQuota::new("x", quota, window);
                let ticks = u64::from(pace.max_debt());
                // Because of rounding, the window may end one tick early.
                assert!(
                    (ticks - 1..=ticks).contains(&pace.ticks_in(window)),
                    "{quota} {} {ticks}",
                    pace.ticks_in(window)
                );
                // The error does not grow over a hundred thousand windows.
                let off = (ticks * 100_000).abs_diff(pace.ticks_in(window * 100_000));
                assert!(off <= 1, "{quota} {off}");
                assert!(pace.limit.step >= 16, "{quota}");
            }
        }
    }

    #[test]
    fn a_wait_in_time_covers_at_least_its_ticks() {
        let pace = WindowQuota::new("x", 7, Duration::from_mins(1));
        for begun in [0, 1, 999, 123_456_789, 31_536_000_000_000_000] {
            let begun = Duration::from_nanos(begun);
            for ticks in [1, 2, 1000, pace.max_debt()] {
                let waited = pace.ticks_in(begun + pace.ticks_to_time(ticks)) - pace.ticks_in(begun);
                assert!(
                    (u64::from(ticks)..=u64::from(ticks) + 1).contains(&waited),
                    "{begun:?} {ticks} {waited}"
                );
            }
        }
    }
}
