//! Several desks, one inbox: replicas over a PostgreSQL primary and its standby, and a Redis, while
//! processes, servers, links and clocks fail.
//!
//! Each replica and each server is on a host of its own: a network namespace, joined to the others by a
//! router, so that any way between two of them can be cut. It takes root. `docs/reliability.md` says what is
//! promised and what may be; `FRONTDESK_REPLICAS` says how much is run: `short` in `scripts/test`, `long` by
//! hand.

mod clients;
mod counter;
mod desks;
mod faults;
mod net;
mod promises;
mod reckoning;
mod servers;
mod stand;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// A minute or two: each kind of fault once.
    Short,
    /// As much as it takes to believe it.
    Long,
}

impl Extent {
    fn get() -> Extent {
        match std::env::var("FRONTDESK_REPLICAS").as_deref() {
            Err(_) | Ok("" | "short") => Extent::Short,
            Ok("long") => Extent::Long,
            Ok(other) => panic!("FRONTDESK_REPLICAS is \"short\", \"long\" or not set, and not {other:?}"),
        }
    }
}
