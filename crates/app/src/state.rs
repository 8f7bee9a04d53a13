//! The state that all workers share, and the snapshot of site and configuration that a reload replaces.

#![expect(clippy::disallowed_methods, reason = "refused requests are counted per day")]

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::STRICT_TRANSPORT_SECURITY;
use jiff::Zoned;

use super::agent_signature::{self, Agents, SiteOrigin};
use super::live_reload::LiveReload;
use super::metrics::Metrics;
use super::options::WebOptions;
use super::page_views::PageViews;
use super::response::{HttpResponse, add_security_headers};
use frontdesk_deliver::worker::Confirmations;
use frontdesk_desk::DeskOptions;
use frontdesk_http::{Options, Scheme, Server};
use frontdesk_inbox::intake::Intake;
use frontdesk_inbox::store::{Store, StoreError};
use frontdesk_limits::rate_limiter::RateLimiter;
use frontdesk_limits::refusals::RefusalCounter;
use frontdesk_limits::{self as limits, ByteLimiter, ByteOptions};
use frontdesk_process::disk_space::DiskMonitor;
use frontdesk_site::Site;

#[derive(Clone)]
pub struct AppState {
    pub store: Store,
    pub intake: Intake,
    pub refusals: Arc<RefusalCounter>,
    pub page_views: PageViews,
    /// Free space on the disk that holds the submissions.
    pub disk: Arc<DiskMonitor>,
    /// The site and the options in effect. A request uses the same snapshot to its end, even during a reload.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// The public HTTP server, which shares `snapshot`.
    pub server: Arc<Server<Snapshot>>,
    /// The options of the inbox's web interface.
    pub desk: Arc<ArcSwap<DeskOptions>>,
    pub metrics: Metrics,
    /// Notifies open pages of reloads under `serve --watch`; otherwise `None`.
    pub live_reload: Option<Arc<LiveReload>>,
}

impl AppState {
    /// A state that serves `site` without rate limits, byte limits, TLS, live reload or directories of
    /// agents, for tests and benchmarks.
    pub fn new(site: Site, intake: Intake, options: WebOptions) -> Self {
        let agents = agent_signature::AgentOptions {
            directories: Vec::new(),
            allow_private: false,
            extra_roots: None,
            origin: SiteOrigin::from_url(&site.base_url),
            key_timeout: agent_signature::KEY_TIMEOUT,
        };
        let limits = limits::LimitOptions { enabled: false, ..limits::LimitOptions::default() };
        let byte_limits = ByteOptions { enabled: false, ..ByteOptions::default() };
        let snapshot = Snapshot {
            site: Arc::new(site),
            confirmations: Confirmations::default(),
            limiter: Arc::new(RateLimiter::new(&limits, None)),
            byte_limiter: Arc::new(ByteLimiter::new(&byte_limits)),
            agents: Arc::new(Agents::new(&agents)),
            options: Arc::new(options),
            generation: 1,
        };
        let snapshot = Arc::new(ArcSwap::from_pointee(snapshot));
        Self {
            store: intake.store().clone(),
            intake,
            refusals: Arc::default(),
            page_views: PageViews::default(),
            disk: Arc::new(DiskMonitor::idle()),
            server: Arc::new(Server::new(snapshot.clone(), None)),
            desk: Arc::default(),
            snapshot,
            metrics: Metrics::new(Arc::default()),
            live_reload: None,
        }
    }

    /// Stores the counts of requests refused since the last call, under today's date. If that fails, these
    /// counts are lost; nothing depends on them.
    pub async fn store_refusals(&self) -> Result<(), StoreError> {
        self.store.record_refusals(self.refusals.drain(), Zoned::now().date()).await
    }

    /// A copy of the state for one worker, with counters of its own.
    pub(super) fn for_worker(&self) -> Self {
        Self { page_views: self.page_views.for_worker(), metrics: self.metrics.for_worker(), ..self.clone() }
    }
}

/// Everything that a reload replaces at once. A reload keeps the limiters, and the agents with their fetched
/// keys, if their options have not changed.
#[derive(Clone)]
pub struct Snapshot {
    pub site: Arc<Site>,
    /// Lets a form's handler wait until a channel has confirmed the submission.
    pub confirmations: Confirmations,
    pub limiter: Arc<RateLimiter>,
    pub byte_limiter: Arc<ByteLimiter>,
    pub agents: Arc<Agents>,
    pub options: Arc<WebOptions>,
    /// The sequence number of this snapshot: 1 when the server starts, incremented by each reload.
    pub generation: u64,
}

impl Snapshot {
    /// Adds the security headers that the response lacks and, over TLS, `Strict-Transport-Security` if the
    /// options have it.
    pub(super) fn add_common_headers(&self, scheme: Scheme, response: HttpResponse) -> HttpResponse {
        let mut response = add_security_headers(response, &self.options.content_security_policy);
        // Send HSTS only over TLS (RFC 6797 §7.2).
        if let (Scheme::Https, Some(hsts)) = (scheme, &self.options.http.tls.hsts) {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.value());
        }
        response
    }
}

impl AsRef<Options> for Snapshot {
    fn as_ref(&self) -> &Options {
        &self.options.http
    }
}
