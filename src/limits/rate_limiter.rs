//! Checks a form request against local limits, or against limits shared with other servers through Redis or
//! Valkey.
//!
//! Shared limits apply the same rule as local ones, counted by a script that runs in Redis. While Redis does
//! not respond, each server uses its local limits. These count what Redis allowed, so no quota starts afresh.

mod local_pool;
mod options;
mod redis;
mod script;

use std::time::Instant;

use super::local::LocalLimiter;
use super::quota::{DecisionCounts, LimitDecision, LimitOptions, QuotaStatuses};
use super::rule::{LimitRule, ScriptReply};
use crate::forms::source::Source;
pub use options::{DEFAULT_TIMEOUT, HashSecret, RedisOptions};
use redis::RedisClient;
pub use redis::{BOUNDS, Fallback, RedisMetrics, test_connection};
pub use script::SCRIPT;
use script::{Keys, Operation};

/// Checks requests against the rate limits. Shared by all workers.
pub struct RateLimiter {
    local: LocalLimiter,
    shared: Option<Shared>,
}

struct Shared {
    client: RedisClient,
    rule: LimitRule,
    keys: Keys,
}

impl Shared {
    /// Calls the script and converts its reply with `read`. None if the local limits have to decide.
    async fn call<T>(
        &self,
        operation: Operation,
        source: Source,
        read: impl Fn(&LimitRule, ScriptReply) -> Option<T>,
    ) -> Option<T> {
        let request = self.keys.request(operation, source, &self.rule);
        self.client.call_script(&request, |reply| read(&self.rule, reply)).await
    }
}

impl RateLimiter {
    /// Creates a limiter that has counted no request. With shared limits, waits at most two seconds for the
    /// first connection to Redis. A dedicated thread logs failures and reconnects until the limiter is
    /// dropped.
    pub fn new(limits: &LimitOptions, shared: Option<&RedisOptions>) -> RateLimiter {
        let share = |options: &RedisOptions| {
            let (rule, secret) = (LimitRule::new(limits), options.hash_secret());
            if secret == HashSecret::Missing {
                tracing::warn!(redis = %options, "{secret}");
            }
            Shared { client: RedisClient::start(options), rule, keys: Keys::new(options.hash_secret_text()) }
        };
        RateLimiter { local: LocalLimiter::new(limits), shared: shared.filter(|_| limits.enabled).map(share) }
    }

    /// Checks a request of `source` at `now`. Charges it if all quotas allow it. Waits for Redis at most
    /// [`RedisOptions::timeout`], and not at all while the circuit breaker is open.
    pub async fn check(&self, source: Source, now: Instant) -> LimitDecision {
        if let Some(shared) = &self.shared {
            // Boxed, so that the future stays small where limits are not shared.
            let decision = Box::pin(shared.call(Operation::Charge, source, LimitRule::decide)).await;
            if let Some(decision) = decision {
                self.local.record_shared(source, decision.admission, now);
                return decision;
            }
        }
        self.local.check(source, now)
    }

    /// The status of `source` without charging a request. None if limits are disabled. Waits as
    /// [`RateLimiter::check`] does.
    pub async fn status(&self, source: Source, now: Instant) -> Option<QuotaStatuses> {
        if let Some(shared) = &self.shared {
            let read = |rule: &LimitRule, reply: ScriptReply| rule.statuses(reply.debts);
            let statuses = Box::pin(shared.call(Operation::Look, source, read)).await;
            if statuses.is_some() {
                return statuses;
            }
        }
        self.local.status(source, now)
    }

    /// This server's decisions since the start, local and shared.
    pub fn counts(&self) -> DecisionCounts {
        self.local.counts()
    }

    /// Estimates how many sources owe something; see [`LocalLimiter::sources`].
    pub fn sources(&self) -> u64 {
        self.local.sources()
    }

    pub fn metrics(&self) -> Option<RedisMetrics> {
        self.shared.as_ref().map(|shared| shared.client.metrics())
    }
}
