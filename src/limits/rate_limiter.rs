//! Checks a form request against local limits, or against limits shared with other servers through Redis or
//! Valkey.
//!
//! Shared limits apply the same rule as local ones, counted by a script that runs in Redis. While Redis does
//! not respond, each server uses its local limits. These count what Redis allowed, so no quota starts afresh.

mod local_pool;
mod options;
mod redis;
mod script;

use std::time::{Duration, Instant};

use super::local::LocalLimiter;
use super::quota::{DecisionCounts, LimitDecision, LimitOptions, QuotaStatuses};
use super::rule::LimitRule;
use crate::forms::source::Source;
pub use options::{DEFAULT_TIMEOUT, HashSecret, RedisOptions};
use redis::RedisClient;
pub use redis::{BOUNDS, Fallback, RedisMetrics};
pub use script::SCRIPT;
use script::{Keys, Operation};

/// Checks requests against the rate limits. Shared by all workers.
#[derive(Debug)]
pub struct RateLimiter {
    local: LocalLimiter,
    /// None if limits are not shared or are disabled.
    shared: Option<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: RedisClient,
    rule: LimitRule,
    keys: Keys,
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
        match &self.shared {
            None => self.local.check(source, now),
            // Boxed, so that the future stays small where limits are not shared.
            Some(shared) => Box::pin(self.check_shared(shared, source, now)).await,
        }
    }

    async fn check_shared(&self, shared: &Shared, source: Source, now: Instant) -> LimitDecision {
        let request = shared.keys.request(Operation::Charge, source, &shared.rule);
        match shared.client.call_script(&request, |entry| shared.rule.decide(entry)).await {
            Some(decision) => {
                self.local.record_shared(source, decision.admission, now);
                decision
            }
            None => self.local.check(source, now),
        }
    }

    /// The status of `source` without charging a request. None if limits are disabled. Waits as
    /// [`RateLimiter::check`] does.
    pub async fn status(&self, source: Source, now: Instant) -> Option<QuotaStatuses> {
        match &self.shared {
            None => self.local.status(source, now),
            Some(shared) => Box::pin(self.shared_status(shared, source, now)).await,
        }
    }

    async fn shared_status(&self, shared: &Shared, source: Source, now: Instant) -> Option<QuotaStatuses> {
        let request = shared.keys.request(Operation::Look, source, &shared.rule);
        let statuses = shared.client.call_script(&request, |entry| shared.rule.statuses(entry.debts)).await;
        statuses.or_else(|| self.local.status(source, now))
    }

    /// This server's decisions since the start, local and shared.
    pub fn counts(&self) -> DecisionCounts {
        self.local.counts()
    }

    /// Estimates how many sources owe something; see [`LocalLimiter::sources`].
    pub fn sources(&self) -> u64 {
        self.local.sources()
    }

    /// Metrics of the connection to Redis. None if limits are not shared.
    pub fn metrics(&self) -> Option<RedisMetrics> {
        self.shared.as_ref().map(|shared| shared.client.metrics())
    }
}

/// Tests the connection to Redis. Returns the time that a check takes, or the problem and its remedy. Blocks
/// for at most a second.
pub fn test_connection(options: &RedisOptions) -> Result<Duration, String> {
    redis::test_connection(options)
}
