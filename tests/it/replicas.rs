//! Replicas that share one inbox on a PostgreSQL primary with a standby, and one Redis, while processes,
//! servers, links and clocks fail.
//!
//! Each replica and each server is on a separate host: a network namespace that a router connects to the
//! others, so that tests can cut the link between any two of them. This needs root.
//! `docs/pages/reliability.md` states the guarantees; `FRONTDESK_REPLICAS` selects the extent: `short` in
//! `scripts/test`, `long` by hand.

mod clients;
mod faults;
mod network;
mod redis;
mod replica;
mod scenarios;
mod servers;
mod testbed;
mod verify;

/// The extent of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// A minute or two: each kind of fault once.
    Short,
    /// The longest run, for reliable figures.
    Long,
}

impl Scale {
    /// The extent that `FRONTDESK_REPLICAS` selects.
    fn get() -> Scale {
        match std::env::var("FRONTDESK_REPLICAS").as_deref() {
            Err(_) | Ok("" | "short") => Scale::Short,
            Ok("long") => Scale::Long,
            Ok(other) => panic!("FRONTDESK_REPLICAS is \"short\", \"long\" or not set, but is {other:?}"),
        }
    }
}
