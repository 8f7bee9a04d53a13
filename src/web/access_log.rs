//! One line of the log for each request, where the operator wants that. It says nothing of who asked.

use std::time::Duration;

use http::Method;
use http::request::Parts;
use http_body::Body as _;

use super::Live;
use super::answer::Answer;
use super::metrics::{Class, Seen};
use super::request_id::RequestId;
use super::socket::Peer;
use crate::pages::path;

/// The target of these lines: switched on by `log.requests` alone, whatever the level.
pub const TARGET: &str = "frontdesk_requests";

/// Says what was asked and answered. No query, address, User-Agent or Referer; a path only where the site has it, and a method
/// only where it is known: anything else could hold what a visitor has typed.
pub(super) fn log(live: &Live, peer: Peer, head: &Parts, seen: Seen, answer: &Answer, took: Duration) {
    let id = RequestId::told_in(answer.headers())
        .unwrap_or_else(|| RequestId::of(peer, &head.headers, &live.options));
    let path = path::decode(head.uri.path()).ok();
    // A request that is sent elsewhere because it came in the clear may be for anything.
    let path = path.filter(|path| seen.class == Class::Form || live.site.get(path).is_some());
    let bytes = match head.method {
        Method::HEAD => 0,
        _ => answer.body().size_hint().upper().unwrap_or_default(),
    };
    tracing::info!(
        target: TARGET,
        request = %id,
        method = known(&head.method),
        path = path.as_deref().unwrap_or("-"),
        class = seen.class.name(),
        status = answer.status().as_u16(),
        representation = seen.representation.name(),
        bytes,
        took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "answered"
    );
}

/// The methods of RFC 9110 and PATCH, or `other`.
fn known(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::DELETE
        | Method::CONNECT
        | Method::OPTIONS
        | Method::TRACE
        | Method::PATCH => method.as_str(),
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_somebody_has_made_up_is_not_told() {
        assert_eq!(known(&Method::PATCH), "PATCH");
        assert_eq!(known(&Method::from_bytes(b"ADA").unwrap()), "other");
        assert_eq!(known(&Method::from_bytes(b"get").unwrap()), "other");
    }
}
