//! The private address: health checks and metrics.
//!
//! Each connection serves one request within the time limit of requests. At most [`MAX_CONNECTIONS`] are
//! open, so a faulty monitor cannot exhaust the server.

#![expect(clippy::disallowed_methods, reason = "a probe reads the clock")]

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use tokio::sync::watch;

use super::metrics::queue_cache::QueueCache;
use super::metrics::report::report;
use super::response::{HttpResponse, method_not_allowed, text, with_header};
use super::state::{AppState, Snapshot};
use frontdesk_http::{Handler, PrivateOptions, Request, ResponseBody, ShutdownPhase};

const MAX_CONNECTIONS: usize = 64;

/// Responds to probes. From [`ShutdownPhase::Draining`] on, `/readyz` returns 503, so that load balancers
/// choose other servers.
pub(super) struct Probes {
    pub(super) app: Arc<AppState>,
    pub(super) queue: Arc<QueueCache>,
    pub(super) phase: watch::Receiver<ShutdownPhase>,
}

/// The options of the private listener: one request per connection, within the request timeout.
pub(super) fn options(snapshot: &Snapshot) -> PrivateOptions {
    let timeout = snapshot.options.http.timeouts.exchange;
    PrivateOptions {
        hsts: None,
        max_connections: MAX_CONNECTIONS,
        trusted_proxies: Vec::new(),
        keep_alive: false,
        header_timeout: timeout,
        connection_timeout: timeout,
        blocking_threads: 1,
    }
}

impl Handler for Probes {
    type Snapshot = Snapshot;
    type Body = ResponseBody;

    /// Serves `/livez`, `/readyz` and `/metrics` for GET and HEAD. `/readyz` is 503 if submissions cannot be
    /// stored, unless the query is `exclude=store`, and during shutdown.
    async fn respond(&self, _: &Arc<Snapshot>, request: Request<'_>) -> HttpResponse {
        let head = request.head;
        if head.method != Method::GET && head.method != Method::HEAD {
            return method_not_allowed("GET, HEAD");
        }
        let is_serving = *self.phase.borrow() == ShutdownPhase::Serving;
        match head.uri.path() {
            "/livez" => text(StatusCode::OK, "alive\n"),
            "/readyz" if !is_serving => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            // A load balancer can still send page requests to a server that cannot store submissions.
            "/readyz" if head.uri.query() == Some("exclude=store") => text(StatusCode::OK, "ready\n"),
            "/readyz" => match self.app.store.health() {
                Ok(()) => text(StatusCode::OK, "ready\n"),
                Err(error) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, format!("submissions cannot be stored: {error}\n"))
                }
            },
            "/metrics" => {
                let (body, media_type) = report(&self.app, &self.queue, jiff::Timestamp::now()).await;
                with_header(text(StatusCode::OK, body), CONTENT_TYPE, media_type)
            }
            _ => text(StatusCode::NOT_FOUND, "This address serves /livez, /readyz and /metrics.\n"),
        }
    }
}
