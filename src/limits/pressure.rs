//! Counts the requests that the limiter refuses, until they are written down: who presses the door, and how hard.
//!
//! Memory is bounded: of [`MAX_COUNTED`] pairs of source and form each is counted for itself, and whoever comes after them is
//! counted among the others of the form, until [`Pressure::drain`] begins anew. Counting costs one look into a hash
//! map under a lock that nobody holds for longer than that. What is lost with the process is lost.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::Source;

/// How many pairs of source and form are counted one by one between two drainings, at about 50 bytes each.
pub const MAX_COUNTED: usize = 1000;

/// Requests that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whose; nobody's where it stands for all whom there was no room to count one by one.
    pub source: Option<Source>,
    /// The form that they were sent to.
    pub form: &'static str,
    /// How many.
    pub count: u64,
}

/// Counts refused requests by source and form. Shared by all who refuse them.
#[derive(Default)]
pub struct Pressure {
    counts: Mutex<Counts>,
}

/// Each form has at most one count without a source, so that these need no bound.
type Counts = HashMap<(Option<Source>, &'static str), u64>;

impl fmt::Debug for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pressure").finish_non_exhaustive()
    }
}

impl Pressure {
    /// Nobody has been refused yet.
    pub fn new() -> Pressure {
        Pressure::default()
    }

    /// Counts a refused request, and says whether it is the first since the last draining.
    pub fn note(&self, source: Source, form: &'static str) -> bool {
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

    /// What was counted since it was last asked, the most first, for `Store::pressed`.
    pub fn drain(&self) -> Vec<Refused> {
        let counts = mem::take(&mut *self.lock());
        let mut refused: Vec<_> =
            counts.into_iter().map(|((source, form), count)| Refused { source, form, count }).collect();
        refused.sort_by_key(|refused| (Reverse(refused.count), refused.source, refused.form));
        refused
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_source_and_form_the_most_first() {
        let pressure = Pressure::new();
        for (n, form) in [(1, "contact"), (2, "contact"), (1, "contact"), (1, "waitlist"), (1, "contact")] {
            pressure.note(source(n), form);
        }
        let one = Some(source(1));
        check(&pressure, &[(one, "contact", 3), (one, "waitlist", 1), (Some(source(2)), "contact", 1)]);
        check(&pressure, &[]);
    }

    #[test]
    fn whoever_finds_no_room_is_counted_among_the_others() {
        let pressure = Pressure::new();
        let all = u32::try_from(MAX_COUNTED).unwrap() + 500;
        for n in 0..all {
            pressure.note(source(n), "contact");
        }
        // Whoever is counted already still is.
        pressure.note(source(7), "contact");
        pressure.note(source(all), "waitlist");
        let drained = pressure.drain();
        assert!(drained.len() <= MAX_COUNTED + 2, "{}", drained.len());
        assert_eq!(drained.iter().map(|refused| refused.count).sum::<u64>(), u64::from(all) + 2);
        let others = |form| drained.iter().find(|refused| refused.source.is_none() && refused.form == form);
        assert_eq!(others("contact").map(|others| others.count), Some(500));
        assert_eq!(others("waitlist").map(|others| others.count), Some(1));
        assert!(drained.contains(&Refused { source: Some(source(7)), form: "contact", count: 2 }));
        // Then there is room again.
        pressure.note(source(all), "contact");
        check(&pressure, &[(Some(source(all)), "contact", 1)]);
    }

    #[test]
    fn those_who_count_at_once_lose_nothing() {
        let pressure = Pressure::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        pressure.note(source(n % 10), "contact");
                    }
                });
            }
        });
        assert_eq!(pressure.drain().iter().map(|refused| refused.count).collect::<Vec<_>>(), [400; 10]);
    }

    fn source(n: u32) -> Source {
        Source::V4(n.to_be_bytes())
    }

    fn check(pressure: &Pressure, expected: &[(Option<Source>, &'static str, u64)]) {
        let found = pressure.drain().into_iter().map(|refused| (refused.source, refused.form, refused.count));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
