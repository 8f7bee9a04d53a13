//! Runs independent work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::panics;

/// The stack size, in bytes, of the threads that load a site. Parsers of templates and pages recurse. The
/// system provides memory only for the part that is used.
pub const STACK_BYTES: usize = 256 << 20;

/// Applies `work` to every item, on this thread and at most one more for each other core. Returns the results
/// in the order of the items. A panic of `work` on any thread becomes a panic of the caller.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let run = || {
            panics::capture(|| {
                let mut done = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return done };
                    done.push((at, work(item)));
                }
            })
        };
        let spawn = |_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut all = vec![run()];
        all.extend(others.into_iter().filter_map(|other| other.join().ok()));
        all.into_iter().flat_map(|done| done.unwrap_or_else(|panic| panics::resume(panic))).collect()
    });
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    for (at, result) in done {
        results[at] = Some(result);
    }
    results.into_iter().flatten().collect()
}
