//! The web interface of the inbox, on its own private address: lists, shows and changes submissions.
//!
//! It runs in its own thread, so it does not delay visitors. Connections, streams, bodies and times are
//! limited. Blocking work, such as queries, runs on a small pool of threads.

#![expect(clippy::disallowed_methods, reason = "requests, sessions and relative times need the clock")]

mod action;
mod app;
mod auth;
mod body;
mod chart;
mod guard;
mod html;
mod live;
mod mailto;
mod notice;
pub mod options;
mod page;
mod readers;
mod request;
mod route;
mod view;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

pub use self::guard::HostName;
pub use self::options::InboxOptions;

use self::app::{InboxApp, MAX_EXPORTS};
use super::listener::PAUSE_AFTER_ERROR;
use super::private_conns::PrivateConns;
use super::socket::Socket;
use super::state::AppState;

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 128;
/// Maximum number of threads for queries and changes. Exports have further ones.
const MAX_THREADS: usize = 8;
const HEADER_LIMIT: usize = 16 * 1024;
/// How long a client may take to send the header of a request, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may stay open. Browsers open a new one for the rest of a live list.
const MAX_CONNECTION_TIME: Duration = Duration::from_mins(15);

/// Serves requests until `stopped` is true.
pub(super) fn run(app: Arc<AppState>, socket: Socket, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS + MAX_EXPORTS)
        .thread_name("inbox-pool")
        .build()?;
    let served = runtime.block_on(async move {
        let address = socket.address()?;
        let place = app.snapshot.load().options.inbox.clone();
        let inbox = Arc::new(InboxApp::new(app, address, place.clone()));
        tokio::spawn(live::watch_list(inbox.clone(), place));
        let listener = socket.into_listener()?;
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
            let options = inbox.app.snapshot.load().options.clone();
            let Some(conn) = conns.admit(peer, &options.inbox_pages.trusted_proxies) else { continue };
            let inbox = inbox.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let (inbox, conn) = (&inbox, &conn);
                    async move { Ok::<_, Infallible>(route::respond(inbox, conn, peer, request).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .max_buf_size(HEADER_LIMIT)
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                conn.run(tokio::time::timeout(MAX_CONNECTION_TIME, connection)).await;
            });
        }
    });
    // A query or an erasure that is still running must not delay the end of the process.
    runtime.shutdown_background();
    served
}
