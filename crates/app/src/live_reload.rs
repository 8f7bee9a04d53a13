//! Tells open pages that the site has been reloaded, or which errors prevented that (`serve --watch`).
//!
//! The pages' script sends `POST /_frontdesk/reload?VERSION`, and the server responds once its state has a
//! different version, or after a time limit (long polling). The method is POST because hyper serves every
//! POST request, so that the fast path needs no check.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::response::{HttpResponse, json_response, text};
use frontdesk_http::ShutdownPhase;

const PATH: &str = "/_frontdesk/reload";

/// Maximum time until the server responds although nothing has changed. Proxies commonly allow at least 30
/// seconds.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Maximum number of clients that wait at the same time. Any more get 503.
const MAX_WAITING: usize = 256;

/// Publishes the result of the last reload to any number of waiting clients.
#[derive(Debug)]
pub struct LiveReload {
    state: watch::Sender<ReloadState>,
    phase: watch::Receiver<ShutdownPhase>,
    waiting: AtomicUsize,
}

#[derive(Debug, Clone)]
struct ReloadState {
    /// The version of this state. It increases with each reload, and from one server process to the next.
    version: u64,
    /// The value of `version` when the served site was loaded.
    site_version: u64,
    loaded: Instant,
    /// The errors that prevented the last reload; empty if there were none.
    errors: Value,
    /// The number of warnings about the served site, and the first warning.
    warnings: Value,
}

impl LiveReload {
    /// The state of a site that was just loaded. `version` must exceed the versions of earlier processes.
    pub fn new(version: u64, warnings: &[impl Serialize], phase: watch::Receiver<ShutdownPhase>) -> Self {
        let state = ReloadState {
            version,
            site_version: version,
            loaded: Instant::now(),
            errors: Value::Array(Vec::new()),
            warnings: summarize(warnings),
        };
        Self { state: watch::Sender::new(state), phase, waiting: AtomicUsize::new(0) }
    }

    /// Publishes that the site was replaced, and the warnings of the new site. Clears the errors.
    pub fn publish_site(&self, warnings: &[impl Serialize]) {
        self.state.send_modify(|state| {
            let version = state.version + 1;
            *state = ReloadState {
                version,
                site_version: version,
                loaded: Instant::now(),
                errors: Value::Array(Vec::new()),
                warnings: summarize(warnings),
            };
        });
    }

    /// Publishes the errors that prevented a reload. The warnings remain, because the previous site is still
    /// served.
    pub fn publish_errors(&self, errors: &[impl Serialize]) {
        self.state.send_modify(|state| {
            state.version += 1;
            state.errors = json!(errors);
        });
    }

    /// Responds once the version differs from the one in the query, which the client already knows, and after
    /// [`max_wait`] in any case; at once if the query is no version. 503 at once during shutdown, and beyond
    /// [`MAX_WAITING`] clients. `exchange` is the time limit for a request.
    pub(super) async fn respond(&self, head: &Parts, exchange: Duration) -> HttpResponse {
        let Some(_waiting) = WaitingClient::begin(&self.waiting) else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "Too many pages wait for changes.\n");
        };
        let known: Option<u64> = head.uri.query().and_then(|query| query.parse().ok());
        let (mut state, mut phase) = (self.state.subscribe(), self.phase.clone());
        let has_stopped = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != ShutdownPhase::Serving) => true,
            _ = state.wait_for(|state| Some(state.version) != known) => false,
            () = tokio::time::sleep(max_wait(exchange)) => false,
        };
        if has_stopped {
            return text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.\n");
        }
        let ReloadState { version, site_version, loaded, errors, warnings } = self.state.borrow().clone();
        let age = u64::try_from(loaded.elapsed().as_millis()).unwrap_or(u64::MAX);
        let body = json!({
            "version": version, "site": site_version, "age": age, "errors": errors, "warnings": warnings,
        });
        json_response(StatusCode::OK, body.to_string())
    }
}

fn summarize(warnings: &[impl Serialize]) -> Value {
    json!({ "count": warnings.len(), "first": warnings.first() })
}

/// Whether a request for a decoded path is a long poll that waits for a reload.
pub(super) fn is_wait(path: &str, head: &Parts) -> bool {
    path == PATH && head.method == Method::POST
}

/// How long a client may wait: at most half of `exchange`, the time limit after which the server closes the
/// connection.
fn max_wait(exchange: Duration) -> Duration {
    MAX_WAIT.min(exchange / 2)
}

/// A waiting client, counted until it is dropped.
struct WaitingClient<'a>(&'a AtomicUsize);

impl<'a> WaitingClient<'a> {
    /// Counts a client. If [`MAX_WAITING`] clients are waiting already, returns `None` without counting it.
    fn begin(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(waiting)
    }
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn request(query: &str) -> Parts {
        let request = http::Request::post(format!("{PATH}?{query}")).body(()).expect("a request");
        request.into_parts().0
    }

    async fn ask(live: &LiveReload, query: &str) -> (StatusCode, Value) {
        let response = live.respond(&request(query), Duration::from_secs(30)).await;
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn start() -> (LiveReload, watch::Sender<ShutdownPhase>) {
        let (phase, observed) = watch::channel(ShutdownPhase::Serving);
        (LiveReload::new(100, NO_WARNINGS, observed), phase)
    }

    const NO_WARNINGS: &[Value] = &[];

    #[tokio::test]
    async fn a_client_waits_until_the_site_is_reloaded() {
        let (live, _phase) = start();
        let (status, first) = ask(&live, "").await;
        assert_eq!((status, &first["version"], &first["site"]), (StatusCode::OK, &json!(100), &json!(100)));
        // The client's future is polled first, and must still be waiting when the second one runs.
        let ((_, state), ()) = tokio::join!(ask(&live, "100"), async { live.publish_site(NO_WARNINGS) });
        assert_eq!((&state["version"], &state["site"]), (&json!(101), &json!(101)));
        let (_, late) = ask(&live, "100").await;
        assert_eq!(late["version"], 101, "a client with an old version does not wait");
    }

    #[tokio::test]
    async fn errors_are_published_until_the_next_good_reload() {
        let (live, _phase) = start();
        live.publish_errors(&[json!({ "place": "pages/a.md", "line": 3 })]);
        let (_, state) = ask(&live, "100").await;
        assert_eq!(
            (&state["version"], &state["site"]),
            (&json!(101), &json!(100)),
            "the site is the old one"
        );
        assert_eq!(state["errors"][0]["line"], 3);
        live.publish_site(NO_WARNINGS);
        let (_, state) = ask(&live, "101").await;
        assert_eq!((&state["site"], &state["errors"]), (&json!(102), &json!([])));
    }

    #[tokio::test]
    async fn the_served_sites_first_warning_and_their_number_are_published() {
        let (live, _phase) = start();
        assert_eq!(ask(&live, "").await.1["warnings"], json!({ "count": 0, "first": null }));
        live.publish_site(&["one", "two"]);
        assert_eq!(ask(&live, "100").await.1["warnings"], json!({ "count": 2, "first": "one" }));
        live.publish_errors(&["an error"]);
        let (_, state) = ask(&live, "101").await;
        assert_eq!(state["errors"], json!(["an error"]));
        assert_eq!(state["warnings"], json!({ "count": 2, "first": "one" }), "the site is still served");
        live.publish_site(NO_WARNINGS);
        assert_eq!(ask(&live, "102").await.1["warnings"], json!({ "count": 0, "first": null }));
    }

    #[tokio::test]
    async fn a_wait_ends_before_the_deadline_of_the_request() {
        let seconds = Duration::from_secs;
        assert_eq!([30, 90, 2].map(|exchange| max_wait(seconds(exchange))), [15, 20, 1].map(seconds));
        let (live, _phase) = start();
        let response = live.respond(&request("100"), Duration::ZERO).await;
        assert_eq!(response.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn shutdown_ends_every_wait() {
        let (live, phase) = start();
        let stop = async { phase.send(ShutdownPhase::Draining).expect("a receiver") };
        let ((status, _), ()) = tokio::join!(ask(&live, "100"), stop);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&live, "").await.0, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn the_number_of_waiting_clients_is_limited() {
        let (live, _phase) = start();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| WaitingClient::begin(&live.waiting)).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert_eq!(ask(&live, "").await.0, StatusCode::SERVICE_UNAVAILABLE);
        waiting.pop();
        assert_eq!(ask(&live, "").await.0, StatusCode::OK);
        drop(waiting);
        assert_eq!(live.waiting.load(Ordering::Relaxed), 0);
    }
}
