//! Limits the requests of each source that carry no valid login, so that they cost little: a source above the
//! limit gets 429 before the inbox's database is read.

use http::StatusCode;

use frontdesk_http::{Network, RequestContext, Scheme, is_trusted};
use frontdesk_limits::{LimitOptions, LocalLimiter, Quota, Source};

/// Limits of requests without a valid login, per source and per network. The quota `form` is not used.
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

    /// Whether the source of a request, or its network, has used up its requests. False for requests without
    /// a limit ([`limited_source`]).
    pub(super) fn is_exhausted(&self, proxies: &[Network], context: &RequestContext) -> bool {
        let statuses = limited_source(proxies, context)
            .and_then(|source| self.0.status(source, context.began.into_std()));
        statuses.is_some_and(|statuses| statuses.iter().any(|status| status.remaining == 0))
    }

    /// Counts a request whose response is a 401, which means that the request has no valid login. Does
    /// nothing for other statuses and for requests without a limit ([`limited_source`]).
    pub(super) fn count(&self, proxies: &[Network], context: &RequestContext, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED
            && let Some(source) = limited_source(proxies, context)
        {
            self.0.check(source, context.began.into_std());
        }
    }
}

/// The source of a request that the limit applies to: one over TLS, or from another machine. `None` for
/// trusted proxies, whose connections belong to many clients.
fn limited_source(proxies: &[Network], context: &RequestContext) -> Option<Source> {
    let RequestContext { peer, scheme, .. } = context;
    let is_open = *scheme == Scheme::Https || !peer.address().is_loopback();
    (is_open && !is_trusted(proxies, *peer)).then(|| Source::from(peer.address()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use frontdesk_http::Peer;

    fn context(address: [u8; 4], scheme: Scheme, began: Instant) -> RequestContext {
        RequestContext { peer: Peer::at(IpAddr::from(address)), scheme, began }
    }

    #[test]
    fn only_requests_without_a_login_are_counted() {
        let (limiter, now) = (StrangerLimiter::new(), Instant::now());
        let own = context([192, 0, 2, 1], Scheme::Https, now);
        for _ in 0..1000 {
            limiter.count(&[], &own, StatusCode::OK);
        }
        for _ in 0..LIMITS.source.per_minute {
            assert!(!limiter.is_exhausted(&[], &own));
            limiter.count(&[], &own, StatusCode::UNAUTHORIZED);
        }
        assert!(limiter.is_exhausted(&[], &own));
        let other = context([192, 0, 2, 2], Scheme::Https, now);
        assert!(!limiter.is_exhausted(&[], &other), "another source is not affected");
        let later = RequestContext { began: now + Duration::from_secs(2), ..own };
        assert!(!limiter.is_exhausted(&[], &later), "it recovers");
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
            let source = limited_source(&proxies, &context(address, scheme, Instant::now()));
            assert_eq!(source.is_some(), is_limited, "{address:?} {scheme:?}");
        }
    }
}
