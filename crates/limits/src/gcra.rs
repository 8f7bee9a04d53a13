//! The generic cell rate algorithm (GCRA) for one window, in whole ticks. Pure arithmetic.
//!
//! The algorithm keeps one instant per key, the *theoretical arrival time*, at which the key's whole quota is
//! available again. The time until then is the *debt*. Each request adds `window / quota`; one that would
//! raise the debt above a whole window is refused and adds nothing. A key may therefore use its whole quota
//! at once, then send one request every `window / quota`: at most `quota + t · quota / window` requests
//! in any period `t`.

use std::time::Duration;

use super::quota::{Quota, QuotaStatus};

/// The largest quota, at which each request still costs 16 ticks.
pub const MAX_QUOTA: u32 = 1_000_000;

/// The largest debt, and the maximum number of ticks in a window. A 32-bit tick count covers 256 windows.
const MAX_TICKS: u32 = 1 << 24;

#[derive(Clone, Copy, Debug)]
pub(super) struct WindowQuota {
    name: &'static str,
    pub(super) quota: u32,
    window: Duration,
    /// Ticks per request, a whole number. A window has exactly `quota` times as many ticks, so rounding does
    /// not change the rate.
    step: u32,
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
    /// A quota of 0 is treated as 1, and one above [`MAX_QUOTA`] as [`MAX_QUOTA`].
    pub(super) fn new(name: &'static str, quota: u32, window: Duration) -> WindowQuota {
        let quota = quota.clamp(1, MAX_QUOTA);
        let step = MAX_TICKS / quota;
        let rate = (u128::from(step * quota) << 64) / window.as_nanos();
        WindowQuota { name, quota, window, step, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }

    /// Converts a duration to ticks, rounded down.
    pub(super) fn ticks_in(&self, elapsed: Duration) -> u64 {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let ticks = (u128::from(nanos) * u128::from(self.rate)) >> 64;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    pub(super) fn ticks_until_allowed(&self, debt: u32) -> u32 {
        debt.saturating_sub(self.step * (self.quota - 1))
    }

    pub(super) fn debt_after_request(&self, debt: u32) -> u32 {
        debt + self.step
    }

    /// The largest debt: a whole window.
    pub(super) fn max_debt(&self) -> u32 {
        self.step * self.quota
    }

    /// Converts ticks to a duration, rounded up.
    pub(super) fn ticks_to_time(&self, ticks: u32) -> Duration {
        let nanos = (u128::from(ticks) << 64).div_ceil(u128::from(self.rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(super) fn status_for_debt(&self, debt: u32) -> QuotaStatus {
        let window_seconds = self.window.as_secs();
        QuotaStatus {
            name: self.name,
            quota: self.quota,
            window_seconds,
            remaining: self.quota.saturating_sub(debt.div_ceil(self.step)),
            reset_seconds: (u64::from(debt) * window_seconds).div_ceil(u64::from(self.max_debt())),
        }
    }
}

/// The time until both windows allow one more request; zero if they allow it now.
pub(super) fn time_until_allowed(windows: &[WindowQuota; 2], debts: [u32; 2]) -> Duration {
    let wait = |at: usize| match windows[at].ticks_until_allowed(debts[at]) {
        0 => Duration::ZERO,
        ticks => windows[at].ticks_to_time(ticks),
    };
    wait(0).max(wait(1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
                assert!(pace.step >= 16, "{quota}");
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
