//! `[server]`: listening sockets, connections, proxies and timeouts.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::reader::{Reader, key};
use super::value;
use crate::store::DatabaseUrl;
use crate::web::{self, Address};

/// The least value of `server.max_memory`, in bytes.
const MIN_MEMORY: u64 = 64 << 20;

/// The greatest value of `server.max_memory`, in bytes: 1024 TiB, more than any machine has.
const MAX_MEMORY: u64 = 1 << 50;

/// The greatest number of connections, far beyond what one machine holds.
const MAX_CONNECTIONS: i64 = 10_000_000;

/// The greatest number of threads.
const MAX_WORKERS: i64 = 1024;

/// The range of a timeout: from whole seconds to an hour.
pub(super) fn timeouts(least_seconds: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(least_seconds)..=Duration::from_hours(1)
}

/// The values of `[server]`.
pub(super) struct ServerValues {
    pub(super) listen: Vec<Address>,
    pub(super) ops_listen: Option<Address>,
    /// Options of other sections have placeholders.
    pub(super) web: web::WebOptions,
}

pub(super) fn read(r: &mut Reader<'_>, folder: &Path) -> ServerValues {
    let mut listen = r.get(key("server.listen", "127.0.0.1:8080").needs_restart(), value::addresses);
    let mut ops_listen =
        r.get(key("server.ops_listen", "127.0.0.1:8081").needs_restart(), value::optional_address);
    for address in listen.iter_mut().chain(&mut ops_listen) {
        resolve(address, folder);
    }
    let workers = r.get(key("server.workers", "0").needs_restart(), value::count(0..=MAX_WORKERS));
    let connections = || value::count(1..=MAX_CONNECTIONS);
    let web = web::WebOptions {
        workers: match workers {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            workers => workers,
        },
        max_connections: r.get(key("server.max_connections", "10000"), connections()),
        max_connections_per_source: r.get(key("server.max_connections_per_source", "256"), connections()),
        max_connections_per_network: r.get(key("server.max_connections_per_network", "2048"), connections()),
        max_memory: r.get(key("server.max_memory", "auto"), value::memory_limit(MIN_MEMORY..=MAX_MEMORY)),
        trusted_proxies: r.get(key("server.trusted_proxies", "[]"), value::networks),
        proxy_protocol: r.get(key("server.proxy_protocol", "false"), value::flag),
        forwarded_header: r.get(key("server.forwarded_header", "x-forwarded-for"), value::forwarded_header),
        first_byte_timeout: r.get(key("server.first_byte_timeout", "5s"), value::duration(timeouts(1))),
        header_timeout: r.get(key("server.header_timeout", "5s"), value::duration(timeouts(1))),
        body_timeout: r.get(key("server.body_timeout", "10s"), value::duration(timeouts(1))),
        idle_timeout: r.get(key("server.idle_timeout", "10s"), value::duration(timeouts(1))),
        exchange_timeout: r.get(key("server.exchange_timeout", "30s"), value::duration(timeouts(1))),
        drain: r.get(key("server.drain", "0s"), value::duration(timeouts(0))),
        shutdown_grace: r.get(key("server.shutdown_grace", "10s"), value::duration(timeouts(0))),
        fast_path: r.get(key("server.fast_lane", "true"), value::flag),
        confirmed_forms: Vec::new(),
        confirm_timeout: Duration::ZERO,
        log_requests: false,
        inbox: DatabaseUrl::Sqlite(PathBuf::new()),
        channels: Vec::new(),
        tls: web::tls::TlsOptions::default(),
    };
    r.refuse_if(
        web.exchange_timeout <= web.body_timeout,
        "server.exchange_timeout",
        "must be longer than `server.body_timeout`, or a slow body would get no answer",
    );
    ServerValues { listen, ops_listen, web }
}

/// Makes the path of a Unix socket relative to the site's folder.
pub(super) fn resolve(address: &mut Address, folder: &Path) {
    if let Address::Unix(path) = address {
        *path = folder.join(&*path);
    }
}
