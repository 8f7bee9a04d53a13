//! Counts the steps of long work, so that a command can show how much is done.
//!
//! The counters belong to the process, because the work is deep inside of libraries and on several threads.
//! They change nothing of what the process does. If several parts of a server begin work at the same time,
//! the counters are those of the last one; only commands, which do one thing, show them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

static STAGE: Mutex<&str> = Mutex::new("");
static DONE: AtomicU64 = AtomicU64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// The current stage of the work, and how much of it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkState {
    /// The name of the stage, which says what its steps are, such as "rows verified".
    pub stage: &'static str,
    pub done: u64,
    /// The total number of steps in the stage; 0 if it is not known.
    pub total: u64,
}

/// Begins a stage with this many steps, or with 0 if the number is not known.
pub fn begin(stage: &'static str, total: u64) {
    let mut current = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    *current = stage;
    DONE.store(0, Ordering::Relaxed);
    TOTAL.store(total, Ordering::Relaxed);
}

/// Counts steps of the current stage.
pub fn advance(steps: usize) {
    DONE.fetch_add(steps as u64, Ordering::Relaxed);
}

/// The current state. Caps `done` at a known total, because the work may take more steps than expected.
pub fn current() -> WorkState {
    let stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let total = TOTAL.load(Ordering::Relaxed);
    let done = DONE.load(Ordering::Relaxed);
    WorkState { stage: *stage, done: if total == 0 { done } else { done.min(total) }, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_on_all_threads_until_the_next_stage() {
        begin("rows copied", 100);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| advance(2)));
            }
        });
        assert_eq!(current(), WorkState { stage: "rows copied", done: 80, total: 100 });
        advance(30);
        assert_eq!(current().done, 100, "more rows than were counted before");
        begin("rows verified", 0);
        advance(7);
        assert_eq!(current(), WorkState { stage: "rows verified", done: 7, total: 0 });
    }
}
