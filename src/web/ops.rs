//! The private address: health checks and metrics.
//!
//! Each connection serves one request within [`Timeouts::exchange`](super::options::Timeouts). At most
//! [`MAX_CONNECTIONS`] are open, so a faulty monitor cannot exhaust the server.

#![expect(clippy::disallowed_methods, reason = "a probe reads the clock")]

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::conn_limits::Connections;
use super::listener::PAUSE_AFTER_ERROR;
use super::metrics::queue_cache::QueueCache;
use super::metrics::report::report;
use super::private_conns::PrivateConns;
use super::response::{HttpResponse, method_not_allowed, text, with_header};
use super::socket::Socket;
use super::state::{AppState, ShutdownPhase};

const MAX_CONNECTIONS: usize = 64;

const HEADER_LIMIT: usize = 8 * 1024;

/// Serves requests until `stopped` is true. From [`ShutdownPhase::Draining`] on, `/readyz` returns 503, so
/// that load balancers choose other servers.
pub(super) fn run(
    app: Arc<AppState>,
    socket: Socket,
    connections: Arc<Connections>,
    phase: watch::Receiver<ShutdownPhase>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = socket.into_listener()?;
        let figures = QueueCache::new();
        let conns = PrivateConns::new(MAX_CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
            };
            let accepted = accepted.and_then(|(stream, peer)| Ok((TcpStream::from_std(stream)?, peer)));
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                continue;
            };
            let Some(conn) = conns.admit(peer, &[]) else { continue };
            let (app, phase, figures) = (app.clone(), phase.clone(), figures.clone());
            let connections = connections.clone();
            tokio::spawn(async move {
                let longest = app.snapshot.load().options.timeouts.exchange;
                let service = service_fn(|request| {
                    let (app, connections, figures, phase) = (&app, &connections, &figures, *phase.borrow());
                    let conn = &conn;
                    async move {
                        let _answering = conn.answer();
                        Ok::<_, Infallible>(
                            respond_to_probe(app, connections, figures, phase, &request).await,
                        )
                    }
                });
                let connection = http1::Builder::new()
                    .keep_alive(false)
                    .max_buf_size(HEADER_LIMIT)
                    .header_read_timeout(None)
                    .serve_connection(TokioIo::new(stream), service);
                conn.run(tokio::time::timeout(longest, connection)).await;
            });
        }
    })
}

async fn respond_to_probe(
    app: &AppState,
    connections: &Connections,
    figures: &Arc<QueueCache>,
    phase: ShutdownPhase,
    request: &Request<Incoming>,
) -> HttpResponse {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return method_not_allowed("GET, HEAD");
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" if phase != ShutdownPhase::Serving => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        // For load balancers: a server that cannot store submissions can still serve pages.
        "/readyz" if request.uri().query() == Some("exclude=store") => text(StatusCode::OK, "ready\n"),
        "/readyz" => match app.store.health() {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(error) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("submissions cannot be stored: {error}\n"))
            }
        },
        "/metrics" => {
            let (body, media_type) = report(app, connections, figures, jiff::Timestamp::now()).await;
            with_header(text(StatusCode::OK, body), CONTENT_TYPE, media_type)
        }
        _ => text(StatusCode::NOT_FOUND, "This address serves /livez, /readyz and /metrics.\n"),
    }
}
