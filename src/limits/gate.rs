//! Who may send a form now, as this server alone decides it, or together with others by way of a Redis or Valkey server.
//!
//! Shared limits are those of `limit.rs`: the same layers and the same rule, counted by a script that runs in Redis. While it does not
//! answer, each server falls back to limits of its own. Those know what this server has let through, so that nobody's quota is
//! fresh.

mod address;
mod link;
mod own;
mod script;

use std::time::{Duration, Instant};

use crate::limits::ledger::Rule;
use crate::limits::{self, Decision, Limiter, Source, Standings, Tally};
pub use address::{HashSecret, Options, PATIENCE};
use link::Link;
pub use link::{BOUNDS, Fallback, Figures};
pub use script::SCRIPT;
use script::{Keys, Wanted};

/// Says who may send. Shared by all who take requests.
#[derive(Debug)]
pub struct Gate {
    own: Limiter,
    /// None where limits are not shared, or where nothing is limited.
    shared: Option<Shared>,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    rule: Rule,
    keys: Keys,
}

impl Gate {
    /// A gate that has seen nobody yet. Where limits are shared it waits for a second at most, until it is known whether Redis can be
    /// used; if not, that is said in the log, and tried again and again on a thread of its own, for as long as the gate is there.
    pub fn new(limits: &limits::Options, shared: Option<&Options>) -> Gate {
        let share = |options: &Options| {
            let (rule, secret) = (Rule::new(limits), options.hash_secret());
            if secret == HashSecret::Missing {
                tracing::warn!(redis = %options, "{secret}");
            }
            Shared { link: Link::start(options), rule, keys: Keys::new(options.hash_secret_text()) }
        };
        Gate { own: Limiter::new(limits), shared: shared.filter(|_| limits.enabled).map(share) }
    }

    /// Counts a request of `source` at `now` and says whether it may go on. Waits for Redis no longer than
    /// [`Options::patience`], and not at all while that is known not to answer, or where limits are not shared.
    pub async fn take(&self, source: Source, now: Instant) -> Decision {
        match &self.shared {
            None => self.own.take(source, now),
            // Apart, so that a request takes no room for this where nothing is shared.
            Some(shared) => Box::pin(self.take_shared(shared, source, now)).await,
        }
    }

    async fn take_shared(&self, shared: &Shared, source: Source, now: Instant) -> Decision {
        let request = shared.keys.request(Wanted::Charge, source, &shared.rule);
        match shared.link.ask(&request, |entry| shared.rule.decide(entry)).await {
            Some(decision) => {
                self.own.adopt(source, decision.admission, now);
                decision
            }
            None => self.own.take(source, now),
        }
    }

    /// Where `source` stands, without counting anything; none where limits are switched off. Waits as [`Gate::take`] does.
    pub async fn look(&self, source: Source, now: Instant) -> Option<Standings> {
        match &self.shared {
            None => self.own.look(source, now),
            Some(shared) => Box::pin(self.look_shared(shared, source, now)).await,
        }
    }

    async fn look_shared(&self, shared: &Shared, source: Source, now: Instant) -> Option<Standings> {
        let request = shared.keys.request(Wanted::Look, source, &shared.rule);
        let standings = shared.link.ask(&request, |entry| shared.rule.standings(entry.debts)).await;
        standings.or_else(|| self.own.look(source, now))
    }

    /// What this server has decided since the start, alone or with others.
    pub fn tally(&self) -> Tally {
        self.own.tally()
    }

    /// About how many of the sources that this server has let through have not recovered completely: see [`Limiter::sources`].
    pub fn sources(&self) -> u64 {
        self.own.sources()
    }

    /// How it goes with Redis; none where limits are not shared.
    pub fn figures(&self) -> Option<Figures> {
        self.shared.as_ref().map(|shared| shared.link.figures())
    }
}

/// Whether these limits could be shared right now: how long an answer takes, or what is wrong and what would be right. Blocks for a
/// second at most.
pub fn try_out(options: &Options) -> Result<Duration, String> {
    link::try_out(options)
}
