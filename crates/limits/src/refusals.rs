//! Counts refused requests by source and form in bounded memory, until the store records the counts.
//!
//! Keeps separate counts for up to [`MAX_COUNTED`] pairs of source and form, and one total per form for all
//! other sources. Counts that have not been recorded are lost when the process ends.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::source::{RefusedRequests, Source};

/// Maximum number of pairs of source and form that are counted separately. Each takes about 50 bytes.
pub const MAX_COUNTED: usize = 1000;

/// Counts refused requests per source and form. All workers share one counter.
#[derive(Default)]
pub struct RefusalCounter {
    counts: Mutex<RefusalCounts>,
}

/// Counts by source and form. Sources that are not counted separately share one count per form (`None`).
type RefusalCounts = HashMap<(Option<Source>, &'static str), u64>;

impl RefusalCounter {
    /// Counts a refused request. If [`MAX_COUNTED`] pairs are counted already, a new one is only added to the
    /// form's total. Returns whether the request is the first one since the last [`Self::drain`].
    pub fn record(&self, source: Source, form: &'static str) -> bool {
        let mut counts = self.lock();
        let is_first = counts.is_empty();
        let is_full = counts.len() >= MAX_COUNTED;
        match counts.entry((Some(source), form)) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(_) if is_full => *counts.entry((None, form)).or_default() += 1,
            Entry::Vacant(count) => {
                count.insert(1);
            }
        }
        is_first
    }

    /// Returns the counts, largest first, and resets them.
    pub fn drain(&self) -> Vec<RefusedRequests> {
        let counts = mem::take(&mut *self.lock());
        let mut refused: Vec<_> = counts
            .into_iter()
            .map(|((source, form), count)| RefusedRequests { source, form, count })
            .collect();
        refused.sort_unstable_by_key(|refused| (Reverse(refused.count), refused.source, refused.form));
        refused
    }

    fn lock(&self) -> MutexGuard<'_, RefusalCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_source_and_form_the_most_first() {
        let refusals = RefusalCounter::default();
        for (n, form) in [(1, "contact"), (2, "contact"), (1, "contact"), (1, "waitlist"), (1, "contact")] {
            refusals.record(source(n), form);
        }
        let one = Some(source(1));
        check(&refusals, &[(one, "contact", 3), (one, "waitlist", 1), (Some(source(2)), "contact", 1)]);
        check(&refusals, &[]);
    }

    #[test]
    fn further_sources_are_counted_together() {
        let refusals = RefusalCounter::default();
        let all = u32::try_from(MAX_COUNTED).unwrap() + 500;
        for n in 0..all {
            refusals.record(source(n), "contact");
        }
        // A pair that already has its own count keeps it.
        refusals.record(source(7), "contact");
        refusals.record(source(all), "waitlist");
        let drained = refusals.drain();
        assert!(drained.len() <= MAX_COUNTED + 2, "{}", drained.len());
        assert_eq!(drained.iter().map(|refused| refused.count).sum::<u64>(), u64::from(all) + 2);
        let others = |form| drained.iter().find(|refused| refused.source.is_none() && refused.form == form);
        assert_eq!(others("contact").map(|others| others.count), Some(500));
        assert_eq!(others("waitlist").map(|others| others.count), Some(1));
        assert!(drained.contains(&RefusedRequests { source: Some(source(7)), form: "contact", count: 2 }));
        // After `drain`, pairs are counted separately again.
        refusals.record(source(all), "contact");
        check(&refusals, &[(Some(source(all)), "contact", 1)]);
    }

    #[test]
    fn concurrent_counting_loses_nothing() {
        let refusals = RefusalCounter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        refusals.record(source(n % 10), "contact");
                    }
                });
            }
        });
        assert_eq!(refusals.drain().iter().map(|refused| refused.count).collect::<Vec<_>>(), [400; 10]);
    }

    fn source(n: u32) -> Source {
        Source::V4(n.to_be_bytes())
    }

    fn check(refusals: &RefusalCounter, expected: &[(Option<Source>, &'static str, u64)]) {
        let found = refusals.drain().into_iter().map(|refused| (refused.source, refused.form, refused.count));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
