//! The options of a server. A reload can replace all but the number of workers and the source of
//! certificates.

use std::time::Duration;

use super::client_address::ForwardedHeader;
use super::tls::TlsOptions;
use super::trusted_proxies::Network;

/// Time limits for a connection and its requests.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Time limit from accepting a connection to its first byte.
    pub first_byte: Duration,
    /// Time limit from the first byte of a request to the end of its header.
    pub header: Duration,
    /// Time limit for reading the body of a form.
    pub body: Duration,
    /// Time limit between two requests on a connection, and between two reads of a response; on average, a
    /// client must read 16 KiB per second. Connections from trusted proxies may be idle for longer.
    pub idle: Duration,
    /// Time limit from the end of a request's header to the beginning of the response.
    pub exchange: Duration,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Number of threads that serve requests.
    pub workers: usize,
    /// Maximum number of open connections; further connections are closed at once.
    pub max_connections: usize,
    /// Maximum number of connections from one IPv4 address or IPv6 /64, except for trusted proxies.
    pub max_connections_per_source: usize,
    /// Maximum number of connections per IPv4 /24 or IPv6 /48, except for trusted proxies. A value below
    /// `max_connections_per_source` is raised to it.
    pub max_connections_per_network: usize,
    /// Maximum resident memory in bytes. The largest connections are closed shortly before it is reached
    /// (`memory.rs`). `None` means no limit.
    pub max_memory: Option<u64>,
    /// Peers whose forwarding headers are trusted.
    pub trusted_proxies: Vec<Network>,
    /// Whether connections from trusted proxies begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The header in which trusted proxies name the client.
    pub forwarded_header: ForwardedHeader,
    pub timeouts: Timeouts,
    /// How long the server continues to accept connections after it is asked to stop
    /// ([`ShutdownPhase::Draining`](super::ShutdownPhase::Draining)). The owner of the phase waits for this
    /// time.
    pub drain: Duration,
    /// How long requests in progress have to finish after [`Options::drain`].
    pub shutdown_grace: Duration,
    /// Whether the fast path, rather than hyper, serves plain HTTP/1.1 requests. Responses are the same.
    pub fast_path: bool,
    pub tls: TlsOptions,
}

impl Default for Options {
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
            fast_path: true,
            tls: TlsOptions::default(),
        }
    }
}

impl AsRef<Self> for Options {
    fn as_ref(&self) -> &Self {
        self
    }
}
