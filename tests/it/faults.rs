//! What was acknowledged is never lost: kills at every step, disks that fail or are full, clocks that jump.
//!
//! `docs/reliability.md` says what is promised and how each proof works. `FRONTDESK_FAULTS` says how much of it is run:
//! `short` in `scripts/test`, `long` by hand; without it the inner loop has a glimpse of each.

mod clocks;
mod disks;
mod full;
mod kills;
mod stand;
mod tracer;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Seconds, for the inner loop.
    Glimpse,
    /// Minutes.
    Short,
    /// As much as it takes to believe it.
    Long,
}

impl Extent {
    fn get() -> Extent {
        match std::env::var("FRONTDESK_FAULTS").as_deref() {
            Err(_) | Ok("") => Extent::Glimpse,
            Ok("short") => Extent::Short,
            Ok("long") => Extent::Long,
            Ok(other) => panic!("FRONTDESK_FAULTS is \"short\", \"long\" or not set, and not {other:?}"),
        }
    }

    /// What belongs to it.
    fn of<T>(self, glimpse: T, short: T, long: T) -> T {
        match self {
            Extent::Glimpse => glimpse,
            Extent::Short => short,
            Extent::Long => long,
        }
    }
}
