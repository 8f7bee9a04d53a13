//! One line of the log for each request, where the operator wants that. It says nothing of who asked.

use std::time::Duration;

use http::StatusCode;

use super::metrics::{Class, Seen};
use super::request_id::RequestId;
use crate::pages::{Site, path};

/// The target of these lines: switched on by `log.requests` alone, whatever the level.
pub const TARGET: &str = "frontdesk_requests";

/// A request and its answer.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) id: RequestId,
    pub(super) method: &'a str,
    /// As it was sent, without the query.
    pub(super) path: &'a str,
    pub(super) seen: Seen,
    pub(super) status: StatusCode,
    /// Of the body, in bytes.
    pub(super) length: u64,
    pub(super) took: Duration,
}

/// Says what was asked and answered. No query, address, User-Agent or Referer; a path only where the site has it, and a method
/// only where it is known: anything else could hold what a visitor has typed.
pub(super) fn log(site: &Site, exchange: &Exchange<'_>) {
    let seen = exchange.seen;
    let path = path::decode(exchange.path).ok();
    // A request that is sent elsewhere because it came in the clear may be for anything.
    let path = path.filter(|path| seen.class == Class::Form || site.get(path).is_some());
    tracing::info!(
        target: TARGET,
        request = %exchange.id,
        method = known(exchange.method),
        path = path.as_deref().unwrap_or("-"),
        class = seen.class.name(),
        status = exchange.status.as_u16(),
        representation = seen.representation.name(),
        bytes = if exchange.method == "HEAD" { 0 } else { exchange.length },
        took_us = u64::try_from(exchange.took.as_micros()).unwrap_or(u64::MAX),
        "answered"
    );
}

/// The methods of RFC 9110 and PATCH, or `other`.
fn known(method: &str) -> &str {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" => method,
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_somebody_has_made_up_is_not_told() {
        assert_eq!(known("PATCH"), "PATCH");
        assert_eq!(known("ADA"), "other");
        assert_eq!(known("get"), "other");
    }
}
