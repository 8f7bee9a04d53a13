//! The generic cell rate algorithm over one window, in whole ticks: arithmetic and nothing else.
//!
//! It keeps one instant, the *theoretical arrival time*: when whoever is counted would have recovered completely. How far that is
//! ahead of now is the *debt*. Each request adds `window / quota` to it; one that would take it beyond a whole window is refused and
//! adds nothing. So the whole quota may be used at once, after that one request each `window / quota`, and in any stretch of time `t`
//! never more than `quota + t · quota / window`.

use std::time::Duration;

use super::{Layer, Standing};

/// The largest quota: 16 ticks a request.
pub const MAX_QUOTA: u32 = 1_000_000;

/// The most ticks that a window is divided into, and so the largest debt. A count of 32 bits holds 256 windows.
const MAX_TICKS: u32 = 1 << 24;

/// One quota over one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    layer: Layer,
    name: &'static str,
    quota: u32,
    window: Duration,
    /// What one request costs. The window is `quota` times this long, so that counting in ticks rounds no rate.
    step: u32,
    /// Ticks a nanosecond, times 2⁶⁴.
    rate: u64,
}

impl Pace {
    /// A quota of 0 counts as 1.
    pub(super) fn new(layer: Layer, name: &'static str, quota: u32, window: Duration) -> Pace {
        let quota = quota.clamp(1, MAX_QUOTA);
        let step = MAX_TICKS / quota;
        let rate = (u128::from(step * quota) << 64) / window.as_nanos();
        Pace { layer, name, quota, window, step, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }

    /// The tick in which an instant lies, counted from the limiter's start.
    pub(super) fn tick(&self, elapsed: Duration) -> u64 {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let ticks = (u128::from(nanos) * u128::from(self.rate)) >> 64;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// How many ticks it is until one more request fits; 0 if it fits now.
    pub(super) fn wait(&self, debt: u32) -> u32 {
        debt.saturating_sub(self.step * (self.quota - 1))
    }

    /// The debt after one more request.
    pub(super) fn charged(&self, debt: u32) -> u32 {
        debt + self.step
    }

    /// How many requests the window has room for.
    pub(super) fn quota(self) -> u32 {
        self.quota
    }

    /// The largest debt that there can be.
    pub(super) fn most(&self) -> u32 {
        self.step * self.quota
    }

    /// The time after which so many ticks have passed, wherever in its tick one begins.
    pub(super) fn duration(&self, ticks: u32) -> Duration {
        let nanos = (u128::from(ticks) << 64).div_ceil(u128::from(self.rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// What is said of a debt.
    pub(super) fn standing(&self, debt: u32) -> Standing {
        let window_seconds = self.window.as_secs();
        Standing {
            layer: self.layer,
            name: self.name,
            quota: self.quota,
            window_seconds,
            remaining: self.quota.saturating_sub(debt.div_ceil(self.step)),
            reset_seconds: (u64::from(debt) * window_seconds).div_ceil(u64::from(self.most())),
        }
    }
}

/// How long it is until one more request fits into both windows; zero if it fits now.
pub(super) fn wait(paces: &[Pace; 2], debts: [u32; 2]) -> Duration {
    let wait = |at: usize| match paces[at].wait(debts[at]) {
        0 => Duration::ZERO,
        ticks => paces[at].duration(ticks),
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
                let pace = Pace::new(Layer::Source, "x", quota, window);
                let ticks = u64::from(pace.most());
                // In the last nanosecond before the window's end, to the tick's rounding, it is one tick less.
                assert!(
                    (ticks - 1..=ticks).contains(&pace.tick(window)),
                    "{quota} {} {ticks}",
                    pace.tick(window)
                );
                // And so it is after a hundred thousand windows.
                let off = (ticks * 100_000).abs_diff(pace.tick(window * 100_000));
                assert!(off <= 1, "{quota} {off}");
                assert!(pace.step >= 16, "{quota}");
            }
        }
    }

    #[test]
    fn who_waits_for_some_ticks_has_waited_for_at_least_so_many() {
        let pace = Pace::new(Layer::Source, "x", 7, Duration::from_mins(1));
        for begun in [0, 1, 999, 123_456_789, 31_536_000_000_000_000] {
            let begun = Duration::from_nanos(begun);
            for ticks in [1, 2, 1000, pace.most()] {
                let waited = pace.tick(begun + pace.duration(ticks)) - pace.tick(begun);
                assert!(
                    (u64::from(ticks)..=u64::from(ticks) + 1).contains(&waited),
                    "{begun:?} {ticks} {waited}"
                );
            }
        }
    }
}
