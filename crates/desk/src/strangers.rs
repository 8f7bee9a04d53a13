//! Limits the requests of each source that carry no valid login, so that they cost little: a source above the
//! limit gets 429 before the inbox's database is read.

use std::time::Instant;

use http::StatusCode;

use frontdesk_http::{Network, RequestContext, Scheme, is_trusted};
use frontdesk_limits::{LimitOptions, LocalLimiter, Quota, Source};

/// Requests without a valid login that a source and its network may send.
const LIMITS: LimitOptions = LimitOptions {
    enabled: true,
    source: Quota { per_minute: 60, per_hour: 600 },
    network: Quota { per_minute: 600, per_hour: 6000 },
    form: Quota { per_minute: 1, per_hour: 1 },
};

pub(super) struct StrangerLimiter(LocalLimiter);

impl StrangerLimiter {
    pub(super) fn new() -> Self {
        Self(LocalLimiter::small(&LIMITS))
    }

    /// The source of a request that the limit applies to: one over TLS, or from another machine. `None` for
    /// trusted proxies, whose connections belong to many clients.
    pub(super) fn source(proxies: &[Network], context: &RequestContext) -> Option<Source> {
        let RequestContext { peer, scheme, .. } = context;
        let address = peer.address();
        let is_open = *scheme == Scheme::Https || !address.is_loopback();
        (is_open && !is_trusted(proxies, *peer)).then(|| Source::from(address))
    }

    /// Whether the source has used up its requests.
    pub(super) fn is_exhausted(&self, source: Source, now: Instant) -> bool {
        let statuses = self.0.status(source, now);
        statuses.is_some_and(|statuses| statuses.iter().any(|status| status.remaining == 0))
    }

    /// Counts a request if it was refused for want of a login.
    pub(super) fn count(&self, source: Source, status: StatusCode, now: Instant) {
        if status == StatusCode::UNAUTHORIZED {
            self.0.check(source, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use frontdesk_http::Peer;

    #[test]
    fn only_requests_without_a_login_are_counted() {
        let (limiter, now) = (StrangerLimiter::new(), Instant::now());
        let source = |last: u8| Source::from(IpAddr::from([192, 0, 2, last]));
        for _ in 0..1000 {
            limiter.count(source(1), StatusCode::OK, now);
        }
        for _ in 0..LIMITS.source.per_minute {
            assert!(!limiter.is_exhausted(source(1), now));
            limiter.count(source(1), StatusCode::UNAUTHORIZED, now);
        }
        assert!(limiter.is_exhausted(source(1), now));
        assert!(!limiter.is_exhausted(source(2), now), "another source is not affected");
        assert!(!limiter.is_exhausted(source(1), now + std::time::Duration::from_secs(2)), "it recovers");
    }

    #[test]
    fn operators_on_this_machine_and_proxies_are_not_limited() {
        let proxies = ["192.0.2.9".parse().expect("a network")];
        for (address, scheme, is_limited) in [
            ([127, 0, 0, 1], Scheme::Http, false),
            ([127, 0, 0, 1], Scheme::Https, true),
            ([192, 0, 2, 1], Scheme::Http, true),
            ([192, 0, 2, 1], Scheme::Https, true),
            ([192, 0, 2, 9], Scheme::Http, false),
            ([192, 0, 2, 9], Scheme::Https, false),
        ] {
            let context =
                RequestContext { peer: Peer::at(address.into()), scheme, began: tokio::time::Instant::now() };
            let found = StrangerLimiter::source(&proxies, &context);
            assert_eq!(found.is_some(), is_limited, "{address:?} {scheme:?}");
        }
    }
}
