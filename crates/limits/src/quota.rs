//! The types of rate limits: quotas and their defaults, decisions about requests, and the reported status.

use std::time::Duration;

/// Requests allowed per minute and per hour. 0 counts as 1. Quotas of sources and networks are capped at
/// [`MAX_QUOTA`](crate::MAX_QUOTA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub per_minute: u32,
    pub per_hour: u32,
}

impl Quota {
    /// The larger of the two quotas for each window.
    pub(super) fn at_least(self, other: Quota) -> Quota {
        Quota {
            per_minute: self.per_minute.max(other.per_minute),
            per_hour: self.per_hour.max(other.per_hour),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    pub enabled: bool,
    /// The quota of one IPv4 address or IPv6 /64.
    pub source: Quota,
    /// The quota of one IPv4 /24 or IPv6 /48. A value below `source` is raised to `source`.
    pub network: Quota,
    /// The quota of new submissions to one form from all senders combined. See [`LimitOptions::form_quota`].
    pub form: Quota,
}

impl LimitOptions {
    /// The form's quota, but never less than a network's or a source's. `None` if limits are disabled.
    pub fn form_quota(&self) -> Option<Quota> {
        self.enabled.then(|| self.form.at_least(self.network).at_least(self.source))
    }
}

impl Default for LimitOptions {
    fn default() -> LimitOptions {
        LimitOptions {
            enabled: true,
            source: Quota { per_minute: 30, per_hour: 300 },
            network: Quota { per_minute: 300, per_hour: 3_000 },
            form: Quota { per_minute: 600, per_hour: 6_000 },
        }
    }
}

/// The level at which a quota counts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// One sender: an IPv4 address or an IPv6 /64.
    Source,
    /// The sender's network: an IPv4 /24 or an IPv6 /48.
    Network,
}

/// Whether a limiter allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Allowed,
    /// The request was refused and does not count against any quota.
    Refused {
        /// The layer whose quota requires the longer wait.
        by: Layer,
        /// The time until this source may send a request, if no other request is counted first. Never zero.
        retry_after: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    pub admission: Admission,
    /// The status of the source's quotas after this request. `None` if limits are disabled.
    pub statuses: Option<QuotaStatuses>,
}

/// The status of each quota that can refuse a request: per minute and hour, of the source, then its network.
pub type QuotaStatuses = [QuotaStatus; 4];

/// A quota's status in `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The policy's name: `minute`, `hour`, `network-minute` or `network-hour`.
    pub name: &'static str,
    /// The parameter `q` of `RateLimit-Policy`: the number of requests allowed per window.
    pub quota: u32,
    /// The parameter `w` of `RateLimit-Policy`: the window in seconds.
    pub window_seconds: u64,
    /// The parameter `r` of `RateLimit`: the number of requests that are allowed right now.
    pub remaining: u32,
    /// `t`: the seconds in which no more than `remaining` requests are allowed, rounded up. Never zero. If
    /// `remaining` is zero, this is the time until one more request is allowed.
    pub effective_window_seconds: u64,
}

/// The number of decisions of each kind since the limiter was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    pub allowed: u64,
    pub refused_by_source: u64,
    pub refused_by_network: u64,
}

impl DecisionCounts {
    pub(super) fn count(&mut self, admission: Admission) {
        match admission {
            Admission::Allowed => self.allowed += 1,
            Admission::Refused { by: Layer::Source, .. } => self.refused_by_source += 1,
            Admission::Refused { by: Layer::Network, .. } => self.refused_by_network += 1,
        }
    }
}
