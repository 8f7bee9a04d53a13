//! When an answer may leave that must not tell by its time what was done for it.
//!
//! To keep an address that is new to the waitlist takes a little longer than to count one that is known: a few microseconds, which
//! thousands of requests would show. So these answers leave so long after the submission came as keeping one takes nearly
//! always, whatever was done. How long that is follows from what it took lately, in powers of two of a millisecond.
//!
//! Where several submissions are under way they are written together, and what one of them takes is hidden among the others. Then
//! nobody waits.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest time, which is what timers resolve.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest: a machine that is slower than this hides more by its own unsteadiness.
const LONGEST: Duration = Duration::from_millis(16);

/// With so many under way, this one included, nobody is alone.
const COMPANY: usize = 32;

/// After so many submissions it is looked at how long they took.
const WINDOW: u32 = 256;

/// Of these so many may have taken longer than the time there is, without its being doubled.
const LATE: u32 = 4;

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
    /// Of the submissions in this window, how many there were, took longer than that, and longer than half of it.
    seen: u32,
    late: u32,
    late_for_half: u32,
}

impl State {
    fn of(time: Duration) -> State {
        State { time, seen: 0, late: 0, late_for_half: 0 }
    }

    fn note(&mut self, took: Duration) {
        self.seen += 1;
        self.late += u32::from(took > self.time);
        self.late_for_half += u32::from(took > self.time / 2);
        if self.late > LATE && self.time < LONGEST {
            *self = State::of(self.time * 2);
        } else if self.seen == WINDOW {
            let halved = self.late_for_half <= LATE / 2 && self.time > SHORTEST;
            *self = State::of(if halved { self.time / 2 } else { self.time });
        }
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { under_way: AtomicUsize::new(0), state: Mutex::new(State::of(2 * SHORTEST)) }
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
        let rest = state.time.saturating_sub(took);
        state.note(took);
        rest
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
        for took in [0, 1, 300, 1000, 1999, 2000] {
            assert_eq!(micros(took) + pace.enter().rest(micros(took)), micros(2000), "{took}");
        }
    }

    #[test]
    fn a_disk_that_has_become_slower_makes_all_wait_longer_and_no_single_one_does() {
        let pace = Pace::default();
        for _ in 0..LATE {
            assert_eq!(pace.enter().rest(micros(70_000)), Duration::ZERO, "it is late already");
            check(&pace, 2);
        }
        pace.enter().rest(micros(2001));
        check(&pace, 4);
        for _ in 0..100 {
            pace.enter().rest(micros(70_000));
        }
        check(&pace, 16);
    }

    #[test]
    fn one_that_has_become_faster_makes_them_wait_less() {
        let pace = Pace::default();
        for (late, then) in [(LATE / 2 + 1, 2), (LATE / 2, 1), (0, 1)] {
            for number in 0..WINDOW {
                pace.enter().rest(micros(if number < late { 1001 } else { 500 }));
            }
            check(&pace, then);
        }
    }

    fn check(pace: &Pace, milliseconds: u64) {
        assert_eq!(pace.lock().time, Duration::from_millis(milliseconds));
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
