//! Serves a private address: a few operators and monitors, over HTTP/1, on one thread.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http_body::{Body, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::LocalOptions;
use tokio::sync::watch;
use tokio::time::Instant;

use super::body::RequestBody;
use super::connection::HEADER_LIMIT;
use super::handler::{Handler, Request, RequestContext};
use super::listener::PAUSE_AFTER_ERROR;
use super::private_conns::{Answering, PrivateConn, PrivateConns};
use super::slot::Slot;
use super::socket::{Peer, Scheme, Socket};
use super::trusted_proxies::Network;

/// How a private listener limits its clients.
#[derive(Debug, Clone)]
pub struct PrivateOptions {
    /// Maximum number of open connections; a source may have half of them. At a limit, the connection that
    /// has waited longest for a complete request is closed. Read at the start only.
    pub max_connections: usize,
    /// Peers whose connections belong to many clients, so that only the total applies to them.
    pub trusted_proxies: Vec<Network>,
    /// Whether a connection may carry several requests.
    pub keep_alive: bool,
    /// How long a client may take to send the header of a request, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long a connection may stay open.
    pub connection_timeout: Duration,
    /// Maximum number of threads for blocking work of the handler. Read at the start only.
    pub blocking_threads: usize,
}

/// Serves requests on this thread until `stopped` is true, and then drops the open connections.
/// `make_handler` runs in the runtime of this thread. `options` reads the current options from the snapshot
/// for each connection. If a limit of connections is reached, the connection that has waited longest for a
/// complete request is closed without a response. If all connections are being answered, the new one is
/// closed.
pub fn serve_private<H: Handler>(
    socket: Socket,
    snapshot: &Arc<ArcSwap<H::Snapshot>>,
    options: fn(&H::Snapshot) -> PrivateOptions,
    make_handler: impl FnOnce() -> H,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let PrivateOptions { max_connections, blocking_threads, .. } = options(&snapshot.load());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(blocking_threads)
        .thread_name(format!("{}-pool", std::thread::current().name().unwrap_or("private")))
        .build_local(LocalOptions::default())?;
    let served = runtime.block_on(async {
        let handler = Arc::new(make_handler());
        let listener = socket.into_listener()?;
        let conns = PrivateConns::new(max_connections);
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
            let options = options(&snapshot.load());
            let Some(conn) = conns.admit(peer, &options.trusted_proxies) else { continue };
            let (handler, snapshot) = (handler.clone(), snapshot.clone());
            tokio::task::spawn_local(async move {
                let service = service_fn(|request| {
                    let (handler, snapshot, conn) = (&*handler, snapshot.load_full(), &conn);
                    async move { Ok::<_, Infallible>(respond(handler, &snapshot, conn, peer, request).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .keep_alive(options.keep_alive)
                    .max_buf_size(HEADER_LIMIT)
                    .header_read_timeout(options.header_timeout)
                    .serve_connection(TokioIo::new(stream), service);
                conn.run(tokio::time::timeout(options.connection_timeout, connection)).await;
            });
        }
    });
    // Blocking work that is still running must not delay the end of the process.
    runtime.shutdown_background();
    served
}

/// Passes a request to the handler. If the response is a stream, the connection counts as busy until its end.
async fn respond<H: Handler>(
    handler: &H,
    snapshot: &Arc<H::Snapshot>,
    conn: &Arc<PrivateConn>,
    peer: Peer,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<BusyBody<H::Body>> {
    let context = RequestContext { peer, scheme: Scheme::Http, began: Instant::now() };
    let (head, body) = request.into_parts();
    let mut body = RequestBody::new(body, &Arc::<Slot>::default(), Some(conn.clone()));
    let request = Request { head: &head, body: &mut body, context };
    let response = handler.respond(snapshot, request).await;
    let answering = body.answering;
    // A body in memory needs no mark: a client could read it slowly to keep its connection.
    response.map(|body| {
        let is_stream = body.size_hint().exact().is_none();
        BusyBody { body, _answering: answering.filter(|_| is_stream) }
    })
}

/// A body that marks its connection as busy until the end of a stream.
struct BusyBody<B> {
    body: B,
    _answering: Option<Answering>,
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
