//! Counts each request in the metrics and, with `log.requests`, logs it without identifying the client.

use std::time::Duration;

use http::StatusCode;

use super::metrics::{Class, RequestLabels};
use super::state::{AppState, Snapshot};
use frontdesk_http::RequestId;
use frontdesk_site::path;

/// The tracing target of the access log. `log.requests` enables it, independently of the log level.
pub const ACCESS_LOG_TARGET: &str = "frontdesk_requests";

pub(super) struct ServedRequest<'a> {
    pub(super) method: &'a str,
    /// The path without the query, still percent-encoded.
    pub(super) path: &'a str,
    pub(super) labels: RequestLabels,
    pub(super) status: StatusCode,
    /// Length of the response's body in bytes. For HEAD, the length of the body that GET would get.
    pub(super) length: u64,
    pub(super) took: Duration,
}

/// Counts a request and, with `log.requests`, logs it. The log has no query, address, User-Agent or Referer,
/// because these could contain anything that a visitor typed. For the same reason, an unknown method is
/// logged as `other`, and a path that is neither in the site nor that of a form as `-`.
pub(super) fn record(
    app: &AppState,
    snapshot: &Snapshot,
    request: &ServedRequest<'_>,
    id: impl FnOnce() -> RequestId,
) {
    let labels = request.labels;
    app.metrics.record_request(labels, request.status, request.took);
    if !snapshot.options.log_requests {
        return;
    }
    let path = path::decode(request.path).ok();
    // Log only paths that exist. The class does not show that: each redirect to HTTPS has the class
    // `redirect`.
    let path = path.filter(|path| labels.class == Class::Form || snapshot.site.get(path).is_some());
    tracing::info!(
        target: ACCESS_LOG_TARGET,
        request = %id(),
        method = method_label(request.method),
        path = path.as_deref().unwrap_or("-"),
        class = labels.class.name(),
        status = request.status.as_u16(),
        representation = labels.representation.name(),
        bytes = if request.method == "HEAD" { 0 } else { request.length },
        took_us = u64::try_from(request.took.as_micros()).unwrap_or(u64::MAX),
        "answered"
    );
}

/// The method if RFC 9110 defines it or if it is PATCH; otherwise `other`.
fn method_label(method: &str) -> &str {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" => method,
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_are_not_logged() {
        assert_eq!(method_label("PATCH"), "PATCH");
        assert_eq!(method_label("ADA"), "other");
        assert_eq!(method_label("get"), "other");
    }
}
