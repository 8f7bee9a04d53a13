//! When an answer may leave that must not tell by its time what was done for it.
//!
//! To keep an address that is new to the waitlist takes a little longer than to count one that is known: a few microseconds, which
//! thousands of requests would show. So these answers leave so long after the submission came as keeping one takes at
//! most, whatever was done. How long that is follows from what it took lately, in powers of two of a millisecond.
//!
//! Where several submissions are under way they are written together, and what one of them takes is hidden among the others. Then
//! nobody waits.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest time, which is what timers resolve.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest: a disk that is slower than this hides more by its own unsteadiness.
const LONGEST: Duration = Duration::from_millis(64);

/// With so many under way, this one included, nobody is alone.
const COMPANY: usize = 5;

/// After so many answers that would have been in time for half of it, the time is halved.
const PATIENCE: u32 = 1024;

/// The pace of one server. Shared by all who answer.
#[derive(Debug)]
pub struct Pace {
    under_way: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How long after it came a submission is answered.
    time: Duration,
    /// How many have taken no longer than half of it, one after the other.
    early: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { under_way: AtomicUsize::new(0), state: Mutex::new(State { time: 2 * SHORTEST, early: 0 }) }
    }
}

impl Pace {
    /// A submission that is under way until this is dropped.
    pub fn enter(&self) -> Step<'_> {
        let others = self.under_way.fetch_add(1, Relaxed);
        Step { pace: self, is_alone: others + 1 < COMPANY }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One submission on its way.
#[derive(Debug)]
pub struct Step<'a> {
    pace: &'a Pace,
    is_alone: bool,
}

impl Step<'_> {
    /// How much longer to wait with the answer, where keeping the submission took so long.
    pub fn rest(&self, took: Duration) -> Duration {
        if !self.is_alone {
            return Duration::ZERO;
        }
        let mut state = self.pace.lock();
        let time = state.time;
        if took > time {
            let next = SHORTEST
                * u32::try_from(took.as_millis() + 1).unwrap_or(u32::MAX).next_power_of_two().min(64);
            *state = State { time: next.min(LONGEST), early: 0 };
        } else if took > time / 2 {
            state.early = 0;
        } else if time > SHORTEST {
            state.early += 1;
            if state.early == PATIENCE {
                *state = State { time: time / 2, early: 0 };
            }
        }
        time.saturating_sub(took)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.pace.under_way.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn whatever_it_took_the_answer_leaves_at_the_same_time() {
        let pace = Pace::default();
        for took in [0, 1, 300, 1999, 2000] {
            assert_eq!(micros(took) + pace.enter().rest(micros(took)), micros(2000), "{took}");
        }
    }

    #[test]
    fn who_takes_longer_makes_all_others_wait_as_long() {
        let pace = Pace::default();
        for (took, then) in [(2001, 4), (7999, 8), (9000, 16), (70_000, 64), (500_000, 64)] {
            assert_eq!(pace.enter().rest(micros(took)), Duration::ZERO, "it is late already");
            assert_eq!(pace.enter().rest(micros(0)), Duration::from_millis(then), "{took}");
        }
    }

    #[test]
    fn a_disk_that_has_become_faster_is_noticed() {
        let pace = Pace::default();
        pace.enter().rest(micros(7000));
        let time = |pace: &Pace| pace.lock().time.as_millis();
        assert_eq!(time(&pace), 8);
        for _ in 0..PATIENCE - 1 {
            pace.enter().rest(micros(4000));
        }
        // One that needs more than half of it, and it begins anew.
        pace.enter().rest(micros(4001));
        for _ in 0..PATIENCE - 1 {
            pace.enter().rest(micros(100));
        }
        assert_eq!(time(&pace), 8);
        pace.enter().rest(micros(100));
        assert_eq!(time(&pace), 4);
        for _ in 0..10 * PATIENCE {
            pace.enter().rest(micros(100));
        }
        assert_eq!(time(&pace), 1, "and no shorter");
    }

    #[test]
    fn in_company_nobody_waits() {
        let pace = Pace::default();
        let mut steps: Vec<Step<'_>> = (0..COMPANY - 1).map(|_| pace.enter()).collect();
        assert!(steps.iter().all(|step| !step.rest(micros(100)).is_zero()));
        let one_more = pace.enter();
        assert_eq!(one_more.rest(micros(100)), Duration::ZERO);
        drop(one_more);
        steps.pop();
        assert!(!pace.enter().rest(micros(100)).is_zero());
    }
}
