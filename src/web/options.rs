//! The web server's options: timeouts, limits, trusted proxies, TLS, and what `/metrics` reports.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;

use super::client::ForwardedHeader;
use super::cors::PageOrigin;
use super::inbox::options::InboxOptions;
use super::response::content_security_policy;
use super::tls;
use super::trusted_proxies::Network;
use frontdesk_inbox::store::DatabaseUrl;
use frontdesk_site::AllowedHosts;

/// Time limits for a connection and its requests.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From accepting a connection to its first byte.
    pub first_byte: Duration,
    /// From the first byte of a request to the end of its header.
    pub header: Duration,
    /// For reading the body of a form.
    pub body: Duration,
    /// Between two requests on a connection, and between two reads of a response; on average, a client must
    /// read 16 KiB per second. Connections from trusted proxies may be idle for longer.
    pub idle: Duration,
    /// From the end of a request's header to the beginning of the response.
    pub exchange: Duration,
}

/// Options of the form endpoints: requests that they accept in addition to JSON from this site.
#[derive(Debug, Clone, Default)]
pub struct FormOptions {
    /// Whether browsers may send the forms of this site's pages without JavaScript.
    pub html_posts: bool,
    /// The other origins whose pages may send the forms.
    pub allowed_origins: Vec<PageOrigin>,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate switch")]
pub struct WebOptions {
    /// Number of threads that serve requests.
    pub workers: usize,
    /// Maximum number of open connections; further connections are closed at once.
    pub max_connections: usize,
    /// Maximum number of connections from one IPv4 address or IPv6 /64, except for trusted proxies.
    pub max_connections_per_source: usize,
    /// Maximum per IPv4 /24 or IPv6 /48, except for trusted proxies; at least `max_connections_per_source`.
    pub max_connections_per_network: usize,
    /// Resident memory, in bytes, above which the largest connections are closed. `None` means no limit.
    pub max_memory: Option<u64>,
    /// Peers whose forwarding headers are trusted.
    pub trusted_proxies: Vec<Network>,
    /// Whether connections from trusted proxies begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The header in which trusted proxies name the client.
    pub forwarded_header: ForwardedHeader,
    pub timeouts: Timeouts,
    /// How long the server continues to accept connections after it is asked to stop. During this time,
    /// `/readyz` returns 503.
    pub drain: Duration,
    /// How long requests in progress have to finish after [`WebOptions::drain`].
    pub shutdown_grace: Duration,
    /// Names of the forms whose 200 response waits until a channel has confirmed the submission.
    pub confirmed_forms: Vec<&'static str>,
    /// Time limit for a confirmation. After this time, the response is 500, but delivery continues.
    pub confirm_timeout: Duration,
    pub forms: FormOptions,
    /// Whether the fast path, rather than hyper, serves plain HTTP/1.1 requests. Responses are the same.
    pub fast_path: bool,
    pub log_requests: bool,
    /// Whether page views are counted.
    pub count_views: bool,
    /// Options of the inbox's web interface.
    pub inbox_pages: InboxOptions,
    /// The inbox database, whose submissions and deliveries `/metrics` counts.
    pub inbox: DatabaseUrl,
    /// Names of the channels, for `/metrics`.
    pub channels: Vec<String>,
    pub tls: tls::TlsOptions,
    /// The content security policy of responses without one of their own.
    pub content_security_policy: HeaderValue,
}

impl Default for WebOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            max_connections: 10_000,
            max_connections_per_source: 256,
            max_connections_per_network: 2048,
            max_memory: None,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            forwarded_header: ForwardedHeader::XForwardedFor,
            timeouts: Timeouts {
                first_byte: Duration::from_secs(5),
                header: Duration::from_secs(5),
                body: Duration::from_secs(10),
                idle: Duration::from_secs(10),
                exchange: Duration::from_secs(30),
            },
            drain: Duration::ZERO,
            shutdown_grace: Duration::from_secs(10),
            confirmed_forms: Vec::new(),
            confirm_timeout: Duration::from_secs(15),
            forms: FormOptions::default(),
            fast_path: true,
            log_requests: false,
            count_views: true,
            inbox: DatabaseUrl::Sqlite(PathBuf::new()),
            inbox_pages: InboxOptions::default(),
            channels: Vec::new(),
            tls: tls::TlsOptions::default(),
            content_security_policy: content_security_policy(&AllowedHosts::default()),
        }
    }
}
