//! Checks form requests against local limits, or against limits that servers share in Redis or Valkey.
//!
//! Shared limits apply the same rule as local ones, but a script in Redis counts the requests. While Redis
//! does not respond, each server uses its local limits. The local limits also count the requests that Redis
//! allowed, so that a Redis outage does not reset the quotas.

mod redis;
mod redis_connection_pool;
mod redis_options;
mod script;

use std::time::Instant;

use super::local::LocalLimiter;
use super::quota::{LimitDecision, LimitOptions, QuotaStatuses};
use super::rule::{LimitRule, ScriptReply};
use crate::source::Source;
use redis::RedisClient;
pub use redis::{BOUNDS, Fallback, RedisMetrics, test_connection};
pub use redis_options::RedisOptions;
use script::Operation;
pub use script::SCRIPT;

/// Checks requests against the rate limits. All workers share one limiter.
pub struct RateLimiter {
    /// Makes the decision if Redis does not. Also counts the decisions that Redis makes.
    pub local: LocalLimiter,
    shared: Option<RedisClient>,
}

impl RateLimiter {
    /// With shared limits, unless limits are disabled, waits at most two seconds for the first connection to
    /// Redis. While there is none, the local limits decide. A dedicated thread logs failures and reconnects
    /// until the limiter is dropped. Logs a warning if sources are hashed without a secret.
    pub fn new(limits: &LimitOptions, shared: Option<&RedisOptions>) -> RateLimiter {
        let share = |options: &RedisOptions| {
            if let Err(problem) = options.describe_hash_secret() {
                tracing::warn!(redis = %options, "{problem}");
            }
            RedisClient::start(options, LimitRule::new(limits))
        };
        RateLimiter { local: LocalLimiter::new(limits), shared: shared.filter(|_| limits.enabled).map(share) }
    }

    /// Checks a request from `source` at `now`. If all quotas allow the request, counts it against them.
    /// Waits at most [`RedisOptions::timeout`] for Redis, and not at all while the circuit breaker is open.
    /// Requests that Redis allows are counted locally, too. Without a valid reply, the local limits decide.
    pub async fn check(&self, source: Source, now: Instant) -> LimitDecision {
        if let Some(shared) = &self.shared {
            // Boxed, so that the future stays small if limits are not shared.
            let decision = Box::pin(shared.call_script(Operation::Charge, source, LimitRule::decide)).await;
            if let Some(decision) = decision {
                self.local.record_redis_decision(source, decision.admission, now);
                return decision;
            }
        }
        self.local.check(source, now)
    }

    /// Reads the quota status of `source`. `None` if limits are disabled. Waits for Redis as in
    /// [`RateLimiter::check`].
    pub async fn status(&self, source: Source, now: Instant) -> Option<QuotaStatuses> {
        if let Some(shared) = &self.shared {
            let read = |rule: &LimitRule, reply: ScriptReply| rule.statuses(reply.debts);
            let statuses = Box::pin(shared.call_script(Operation::Report, source, read)).await;
            if statuses.is_some() {
                return statuses;
            }
        }
        self.local.status(source, now)
    }

    /// Metrics for the connection to Redis; `None` if limits are not shared.
    pub fn metrics(&self) -> Option<RedisMetrics> {
        self.shared.as_ref().map(RedisClient::metrics)
    }
}
