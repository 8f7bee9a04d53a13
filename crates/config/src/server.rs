//! `[server]`: listening sockets, connections, proxies and timeouts.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::reader::{Reader, deliveries, requests, restart};
use super::value_parsers;
use frontdesk_app::WebOptions;
use frontdesk_http::{Address, ForwardedHeader, Options, Timeouts};

/// Valid range of `server.max_memory`, in bytes: up to 1024 TiB, more than any machine has.
const MEMORY: RangeInclusive<u64> = 64 << 20..=1 << 50;
/// Maximum value of each connection limit, far more than one machine can hold.
const MAX_CONNECTIONS: i64 = 10_000_000;

/// The valid range of a timeout: from `least_seconds` to one hour.
pub(super) fn timeout_range(least_seconds: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(least_seconds)..=Duration::from_hours(1)
}

/// Reads `[server]`: the public addresses, the private one, if it is enabled, and the options of the web
/// server, in which those of other sections have their defaults. Resolves paths of sockets against the site's
/// folder. Refuses a request's deadline that is not longer than that of its body.
pub(super) fn read(r: &mut Reader<'_>) -> (Vec<Address>, Option<Address>, WebOptions) {
    let mut listen = r.get(
        restart("server.listen"),
        "127.0.0.1:8080",
        "The public address, or a list of several. A port alone is on 127.0.0.1, and port 0 picks a free port. \
         \":80\" listens on every interface, \"unix:/run/frontdesk/http.sock\" serves a proxy on this machine. \
         Sockets that a service manager passes replace these addresses.",
        value_parsers::listen_addresses,
    );
    let mut ops_listen = r.get(
        restart("server.ops_listen"),
        "127.0.0.1:8081",
        "The private address for health checks and metrics (/livez, /readyz, /metrics), or \"off\". Keep it \
         off the public network.",
        value_parsers::optional_listen_address,
    );
    for address in listen.iter_mut().chain(&mut ops_listen) {
        resolve_socket_path(address, r.site_folder());
    }
    let web = read_web(r);
    r.refuse_if(
        web.http.timeouts.exchange <= web.http.timeouts.body,
        "server.exchange_timeout",
        "must be longer than `server.body_timeout`, or a request with a slow body would get no response",
    );
    (listen, ops_listen, web)
}

/// Reads all keys of `[server]` except the addresses. `workers = 0` means one for each core.
fn read_web(r: &mut Reader<'_>) -> WebOptions {
    let workers = r.get(
        restart("server.workers"),
        "0",
        "Threads that answer requests; 0 starts one per core.",
        value_parsers::count(0..=1024),
    );
    let connections = || value_parsers::count(1..=MAX_CONNECTIONS);
    let mut http = Options {
        workers: match workers {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            workers => workers,
        },
        max_connections: r.get(
            requests("server.max_connections"),
            "10000",
            "The most connections in total, from one source (an IPv4 address or IPv6 /64), and from one \
             network (an IPv4 /24 or IPv6 /48; at least the limit of a source). Only the total applies to \
             trusted proxies. While less than a sixteenth of the total is free, the server closes idle \
             connections, first those of the source that has the most.",
            connections(),
        ),
        max_connections_per_source: r.get(
            requests("server.max_connections_per_source"),
            "256",
            "",
            connections(),
        ),
        max_connections_per_network: r.get(
            requests("server.max_connections_per_network"),
            "2048",
            "",
            connections(),
        ),
        max_memory: r.get(
            requests("server.max_memory"),
            "auto",
            "The most resident memory that the process should use, such as \"512MB\" or \"1GiB\". \"auto\" \
             is half of the memory of the machine, or of the control group if that is less (at least 120 \
             MiB, if that much exists); \"off\" sets no limit. Near the limit, the server closes the \
             connections that hold the most memory, first those of the network and source that use the most, \
             and refuses these sources for ten seconds. Connections of trusted proxies stay open.",
            value_parsers::memory_limit(MEMORY),
        ),
        ..Options::default()
    };
    read_proxies(r, &mut http);
    http.timeouts = read_timeouts(r);
    read_shutdown(r, &mut http);
    http.fast_path = r.get(
        requests("server.fast_lane"),
        "true",
        "Whether a fast path answers plain GET and HEAD requests over HTTP/1.1. Without it the HTTP \
         library sends the same responses, more slowly.",
        value_parsers::parse_bool,
    );
    let count_views = r.get(
        requests("server.count_views"),
        "true",
        "Whether page views are counted by day, page, representation, kind of client and referring host, \
         without cookies and addresses. `frontdesk stats` shows the counts, which are kept for 400 days \
         (docs/pages/statistics.md).",
        value_parsers::parse_bool,
    );
    WebOptions { http, count_views, ..WebOptions::default() }
}

/// Reads the trusted proxies, whether they use the PROXY protocol, and the header in which they name the
/// client.
fn read_proxies(r: &mut Reader<'_>, http: &mut Options) {
    let forwarded_headers =
        [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded].map(|header| (header.name(), header));
    http.trusted_proxies = r.get(
        requests("server.trusted_proxies"),
        "[]",
        "Proxies whose header names the client, as addresses or blocks such as [\"10.0.0.0/8\"]. The \
         client is the right-most address in the header that is not a trusted proxy.",
        value_parsers::parse_networks,
    );
    http.proxy_protocol = r.get(
            requests("server.proxy_protocol"),
            "false",
            "Whether the connections of these proxies begin with a PROXY protocol header (version 1 or 2), as \
             HAProxy and load balancers send it. If that header names no client (UNKNOWN, LOCAL), the header below is \
             not read.",
            value_parsers::parse_bool,
        );
    http.forwarded_header = r.get(
        requests("server.forwarded_header"),
        "x-forwarded-for",
        "The header that names the client, \"x-forwarded-for\" or \"forwarded\" (RFC 7239). The server \
         ignores the other one. Set the one that your proxy writes: it may pass on the other as the \
         client sent it.",
        value_parsers::one_of(&forwarded_headers),
    );
}

/// Reads how long a shutdown still accepts connections, and then waits for open requests.
fn read_shutdown(r: &mut Reader<'_>, http: &mut Options) {
    http.drain = r.get(
            requests("server.drain"),
            "0s",
            "On shutdown, the server first drains: for this long, it accepts connections while /readyz answers \
             503, so that load balancers stop using it (set \"5s\" behind one: docs/pages/balancing.md). Then open \
             requests may finish within the grace period.",
            value_parsers::duration(timeout_range(0)),
        );
    http.shutdown_grace =
        r.get(deliveries("server.shutdown_grace"), "10s", "", value_parsers::duration(timeout_range(0)));
}

/// Reads the timeouts of connections and requests, which share one documentation text.
fn read_timeouts(r: &mut Reader<'_>) -> Timeouts {
    Timeouts {
        first_byte: r.get(
            requests("server.first_byte_timeout"),
            "5s",
            "How long a client may take to send the first byte of a connection, the header of a request, and \
             the body of a form; how long a connection may be idle, or a response unread; and how long \
             a request may take from its header to the end of the response. Connections of trusted \
             proxies may be idle for at least 75 seconds.",
            value_parsers::duration(timeout_range(1)),
        ),
        header: r.get(requests("server.header_timeout"), "5s", "", value_parsers::duration(timeout_range(1))),
        body: r.get(requests("server.body_timeout"), "10s", "", value_parsers::duration(timeout_range(1))),
        idle: r.get(requests("server.idle_timeout"), "10s", "", value_parsers::duration(timeout_range(1))),
        exchange: r.get(
            requests("server.exchange_timeout"),
            "30s",
            "",
            value_parsers::duration(timeout_range(1)),
        ),
    }
}

/// Resolves the path of a Unix socket against the site's folder.
pub(super) fn resolve_socket_path(address: &mut Address, folder: &Path) {
    if let Address::Unix(path) = address {
        *path = folder.join(&*path);
    }
}
