//! Runs independent work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::panics;

/// The stack size, in bytes, of the threads that load a site. Parsers of templates and pages recurse. The
/// system provides memory only for the part that is used.
pub const STACK_BYTES: usize = 256 << 20;

/// The work is divided into at least this many parts for each thread, if there are as many items, so that the
/// threads end at about the same time.
const MIN_PARTS: usize = 64;

/// Applies `work` to every item, on this thread and at most one more for each other core. Returns the results
/// in the order of the items. A panic of `work` on any thread becomes a panic of the caller.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Do not count the cores for a single item: counting reads files of the control group.
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if items.len() < 2 { 1 } else { cores().min(items.len()) };
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    // Threads take several items at a time, because they wait for each other at the counter. This saves 4 %
    // of a reload of 2,000 pages.
    let taken = (items.len() / (threads * MIN_PARTS)).max(1);
    let next = AtomicUsize::new(0);
    let mut in_order: Vec<Vec<R>> = (0..items.len().div_ceil(taken)).map(|_| Vec::new()).collect();
    std::thread::scope(|scope| {
        let run = || {
            panics::capture(|| {
                let mut parts = Vec::new();
                loop {
                    let first = next.fetch_add(taken, Ordering::Relaxed);
                    let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) else { return parts };
                    parts.push((first, rest.iter().take(taken).map(&work).collect()));
                }
            })
        };
        let spawn = |_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut all = vec![run()];
        all.extend(others.into_iter().filter_map(|other| other.join().ok()));
        // Their numbers put the parts in order: a sort would be compiled for each type of results.
        for parts in all {
            for (first, part) in parts.unwrap_or_else(|panic| panics::resume(panic)) {
                in_order[first / taken] = part;
            }
        }
    });
    let mut results = Vec::with_capacity(items.len());
    for mut part in in_order {
        results.append(&mut part);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 127, 128, 129, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                in_parallel(&items, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_panic_of_any_item_becomes_one_of_the_caller() {
        let items: Vec<usize> = (0..1_000).collect();
        for bad in [0, 1, 998, 999] {
            let work = |item: &usize| assert_ne!(*item, bad, "the bad item");
            assert!(panics::capture(|| in_parallel(&items, work)).is_err(), "{bad}");
        }
    }
}
