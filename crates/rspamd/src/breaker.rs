//! A circuit breaker that stops requests to rspamd while it fails. The caller passes the time.

use std::time::{Duration, Instant};

/// The number of consecutive failures after which requests to rspamd pause.
const MAX_FAILURES: u32 = 5;
/// The length of the first pause. Each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// The circuit breaker for requests to rspamd.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Failures since the last success.
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    length: Duration,
    ends_at: Instant,
    /// Whether the trial request after the pause is queued or in progress.
    is_on_trial: bool,
}

/// A change of the circuit breaker that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Requests to rspamd pause for this long.
    Paused(Duration),
    Resumed,
}

impl Breaker {
    /// The number of requests that may be queued now: none in a pause, and one after it until its result is
    /// known.
    pub fn allowance(&self, now: Instant) -> usize {
        match &self.pause {
            None => usize::MAX,
            Some(pause) => usize::from(now >= pause.ends_at && !pause.is_on_trial),
        }
    }

    /// Whether requests that are already queued must not be sent.
    pub fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| !pause.is_on_trial)
    }

    /// Records that requests were queued, at most as many as [`Self::allowance`] permits. After a pause, this
    /// begins the trial.
    pub fn begin(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.is_on_trial = true;
        }
    }

    /// Records a usable answer, which ends a pause. Returns a change to log, if any.
    pub fn succeed(&mut self) -> Option<Change> {
        self.failures = 0;
        self.pause.take().map(|_| Change::Resumed)
    }

    /// Records a request without a usable answer. Failures during a pause, of requests that were sent before
    /// it, do not prolong it; one during the trial starts a longer pause. Returns a change to log only if the
    /// first pause begins.
    pub fn fail(&mut self, now: Instant) -> Option<Change> {
        self.failures = self.failures.saturating_add(1);
        match &mut self.pause {
            Some(pause) if pause.is_on_trial => {
                let length = (pause.length * 2).min(LONGEST_PAUSE);
                *pause = Pause { length, ends_at: now + length, is_on_trial: false };
                None
            }
            None if self.failures >= MAX_FAILURES => {
                let length = FIRST_PAUSE;
                self.pause = Some(Pause { length, ends_at: now + length, is_on_trial: false });
                Some(Change::Paused(length))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_failures_in_a_row_lead_to_a_pause() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            assert!((1..MAX_FAILURES).all(|_| breaker.fail(now).is_none()));
            assert_eq!((breaker.succeed(), breaker.allowance(now)), (None, usize::MAX));
        }
        assert!((1..MAX_FAILURES).all(|_| breaker.fail(now).is_none()));
        assert_eq!(breaker.fail(now), Some(Change::Paused(FIRST_PAUSE)));
        assert_eq!((breaker.allowance(now), breaker.is_paused()), (0, true));
    }

    #[test]
    fn after_a_pause_one_request_decides() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            breaker.fail(now);
        }
        for length in [30, 60, 120, 240, 480, 600, 600] {
            assert_eq!(breaker.fail(now), None, "a request from before the pause is late");
            assert_eq!(breaker.allowance(now + SECOND * (length - 1)), 0, "{length} s");
            now += SECOND * length;
            assert_eq!(breaker.allowance(now), 1, "{length} s");
            breaker.begin();
            assert_eq!((breaker.allowance(now), breaker.is_paused()), (0, false));
            assert_eq!(breaker.fail(now), None, "the log has the begin of the outage");
            assert!(breaker.is_paused());
        }
        now += LONGEST_PAUSE;
        breaker.begin();
        assert_eq!(breaker.succeed(), Some(Change::Resumed));
        assert_eq!((breaker.allowance(now), breaker.succeed()), (usize::MAX, None));
    }
}
