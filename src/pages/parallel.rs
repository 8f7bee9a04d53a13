//! Runs independent work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to every item, using all cores. Returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let run = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return done };
                done.push((at, work(item)));
            }
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = run();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    for (at, result) in done {
        results[at] = Some(result);
    }
    results.into_iter().flatten().collect()
}
