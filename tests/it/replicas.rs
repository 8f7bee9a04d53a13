//! Replicas that share one inbox, over a PostgreSQL primary and its standby, and a Redis, while
//! processes, servers, links and clocks fail.
//!
//! Each replica and each server is on a host of its own: a network namespace, joined to the others by a
//! router, so that tests can cut the link between any two of them. This needs root. `docs/reliability.md`
//! states the guarantees; `FRONTDESK_REPLICAS` selects the extent: `short` in `scripts/test`, `long` by hand.

mod clients;
mod faults;
mod network;
mod redis;
mod replica;
mod scenarios;
mod servers;
mod testbed;
mod verify;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// A minute or two: each kind of fault once.
    Short,
    /// As much as it takes to believe it.
    Long,
}

impl Scale {
    fn get() -> Scale {
        match std::env::var("FRONTDESK_REPLICAS").as_deref() {
            Err(_) | Ok("" | "short") => Scale::Short,
            Ok("long") => Scale::Long,
            Ok(other) => panic!("FRONTDESK_REPLICAS is \"short\", \"long\" or not set, and not {other:?}"),
        }
    }
}
