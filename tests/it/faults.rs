//! Acknowledged submissions survive faults: kills at every step, failing and full disks, clock changes.
//!
//! `docs/pages/reliability.md` states the guarantees and the method of each test. `FRONTDESK_FAULTS` selects
//! the extent: `short` in `scripts/test`, `long` by hand, and a brief run without it.

mod clocks;
mod disks;
mod full;
mod kills;
mod testbed;
mod tracer;

/// The extent of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// A run of seconds, for the inner loop.
    Glimpse,
    /// A run of minutes.
    Short,
    /// The longest run, for reliable figures.
    Long,
}

impl Scale {
    /// The extent that `FRONTDESK_FAULTS` selects.
    fn get() -> Scale {
        match std::env::var("FRONTDESK_FAULTS").as_deref() {
            Err(_) | Ok("") => Scale::Glimpse,
            Ok("short") => Scale::Short,
            Ok("long") => Scale::Long,
            Ok(other) => panic!("FRONTDESK_FAULTS is \"short\", \"long\" or not set, but is {other:?}"),
        }
    }

    /// The value for this extent.
    fn of<T>(self, glimpse: T, short: T, long: T) -> T {
        match self {
            Scale::Glimpse => glimpse,
            Scale::Short => short,
            Scale::Long => long,
        }
    }
}
