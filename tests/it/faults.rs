//! Acknowledged submissions survive faults: kills at every step, failing and full disks, clock changes.
//!
//! `docs/pages/reliability.md` states the guarantees and the method of each test. `FRONTDESK_FAULTS` sets how
//! long the tests run: `short` (as in `scripts/test`), `long`, or a few seconds if it is not set.

mod clocks;
mod disks;
mod full;
mod kills;
mod testbed;
mod tracer;

/// How long the tests run.
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
    /// Reads `FRONTDESK_FAULTS`.
    fn get() -> Scale {
        match std::env::var("FRONTDESK_FAULTS").as_deref() {
            Err(_) | Ok("") => Scale::Glimpse,
            Ok("short") => Scale::Short,
            Ok("long") => Scale::Long,
            Ok(other) => panic!("FRONTDESK_FAULTS is \"short\", \"long\" or not set, but is {other:?}"),
        }
    }

    fn of<T>(self, glimpse: T, short: T, long: T) -> T {
        match self {
            Scale::Glimpse => glimpse,
            Scale::Short => short,
            Scale::Long => long,
        }
    }
}
