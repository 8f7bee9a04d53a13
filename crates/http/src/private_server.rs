//! Serves a private address: a few operators and monitors, over HTTP/1, on one thread, with or without TLS.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::STRICT_TRANSPORT_SECURITY;
use http_body::{Body, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::accept_loop::{AcceptOutage, PAUSE_AFTER_ERROR, is_of_one_connection};
use super::connection_deadline::HEADER_LIMIT;
use super::connection_memory::Slot;
use super::handler::{Handler, Request, RequestContext};
use super::private_connection_limits::{Answering, PrivateConn, PrivateConns};
use super::private_server_host::{PrivateName, SharedConn};
use super::refusal::Refusal;
use super::request_body::RequestBody;
use super::socket::{Address, Listener, Peer, Scheme, Socket};
use super::tls::{self, Accepted, Hsts};
use super::trusted_proxies::Network;

/// The limits of a private listener, and the options for its responses.
#[derive(Debug, Clone)]
pub struct PrivateOptions {
    /// Maximum number of open connections; a source may have half of them. At a limit, the connection that
    /// has waited longest for a complete request is closed. Read only at startup.
    pub max_connections: usize,
    /// Proxies whose connections carry many clients. Only `max_connections` limits these connections.
    pub trusted_proxies: Vec<Network>,
    /// The `Strict-Transport-Security` header of responses over TLS.
    pub hsts: Option<Hsts>,
    /// Whether a connection may carry several requests.
    pub keep_alive: bool,
    /// How long a client may take to send the header of a request, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long a connection may stay open.
    pub connection_timeout: Duration,
    /// Maximum number of threads for blocking work of the handler. Read only at startup.
    pub blocking_threads: usize,
}

/// Where the connections of a private listener come from.
pub enum PrivateSource {
    /// A dedicated socket without TLS.
    Socket(Socket),
    /// A dedicated TLS socket. Clients that do not request the name are refused.
    TlsSocket(Socket, Arc<PrivateName>),
    /// The public TLS sockets, for clients that request the name.
    PublicSockets(Arc<PrivateName>),
}

/// An accepted connection: a new one, or one that a public socket has passed on.
enum Incoming {
    New(std::net::TcpStream, Peer),
    /// From a public socket, after the handshake.
    Shared(SharedConn),
}

impl PrivateSource {
    /// The address of the listener's own socket; `None` if it shares the public sockets.
    pub fn address(&self) -> io::Result<Option<Address>> {
        match self {
            Self::Socket(socket) | Self::TlsSocket(socket, _) => socket.address().map(Some),
            Self::PublicSockets(_) => Ok(None),
        }
    }

    /// Registers the listener with the runtime, and takes the connections from public sockets. These can be
    /// taken only once: a second source gets none.
    fn open(self) -> io::Result<OpenSource> {
        let (listener, name, shared) = match self {
            Self::Socket(socket) => (Some(socket.into_listener()?), None, None),
            Self::TlsSocket(socket, name) => (Some(socket.into_listener()?), Some(name), None),
            Self::PublicSockets(name) => (None, None, name.take_conns()),
        };
        Ok(OpenSource { listener, name, shared })
    }
}

/// A private listener's source of connections, registered with the runtime that serves them.
struct OpenSource {
    listener: Option<Listener>,
    /// The host name that clients of `listener` must request over TLS; `None` if `listener` has no TLS.
    name: Option<Arc<PrivateName>>,
    /// The connections from public sockets.
    shared: Option<mpsc::Receiver<SharedConn>>,
}

/// Serves requests on this thread until `stopped` is true or its sender is dropped, and then drops the open
/// connections. `make_handler` runs in the runtime of this thread. `options` reads the current options from
/// the snapshot for each connection. If a limit of connections is reached, the connection that has waited
/// longest for a complete request is closed without a response. If all connections are being answered, the
/// new one is closed. Logs the first of several errors of accepting connections, and pauses after each that
/// concerns more than one connection. Fails only if the runtime or the listener cannot be created.
pub fn serve_private<H: Handler>(
    source: PrivateSource,
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
        let OpenSource { listener, name, mut shared } = source.open()?;
        let conns = PrivateConns::new(max_connections);
        let mut outage = AcceptOutage::default();
        loop {
            let incoming = tokio::select! {
                (stream, peer) = accept(listener.as_ref(), &mut outage) => Incoming::New(stream, peer),
                conn = receive(shared.as_mut()) => Incoming::Shared(conn),
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
            };
            let options = options(&snapshot.load());
            let (Incoming::New(_, peer) | Incoming::Shared(SharedConn { peer, .. })) = &incoming;
            let Some(conn) = conns.admit(*peer, &options.trusted_proxies) else { continue };
            let private =
                Private { handler: handler.clone(), snapshot: snapshot.clone(), conn: conn.clone(), options };
            let name = name.clone();
            tokio::task::spawn_local(async move {
                let time = private.options.connection_timeout;
                // Boxed, because the future is large.
                let serving = Box::pin(private.serve(incoming, name.as_deref()));
                conn.run(tokio::time::timeout(time, serving)).await;
            });
        }
    });
    // Blocking work that is still running must not delay the end of the process.
    runtime.shutdown_background();
    served
}

/// The next connection of the listener. Tries again after an error, with a pause unless the error concerns
/// only one connection. Logs the first error of an outage. Waits forever without a listener.
async fn accept(listener: Option<&Listener>, outage: &mut AcceptOutage) -> (std::net::TcpStream, Peer) {
    let Some(listener) = listener else { return pending().await };
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                outage.end(listener);
                return accepted;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                outage.begin(listener, &error);
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

/// The next connection from the public sockets. Never returns if `shared` is `None` or closed.
async fn receive(shared: Option<&mut mpsc::Receiver<SharedConn>>) -> SharedConn {
    let next = match shared {
        Some(shared) => shared.recv().await,
        None => None,
    };
    match next {
        Some(conn) => conn,
        None => std::future::pending().await,
    }
}

/// An admitted connection of a private listener, with its handler and options.
struct Private<H: Handler> {
    handler: Arc<H>,
    snapshot: Arc<ArcSwap<H::Snapshot>>,
    conn: Arc<PrivateConn>,
    options: PrivateOptions,
}

impl<H: Handler> Private<H> {
    /// Performs the TLS handshake of a new connection if the listener has a `name`, then serves requests
    /// until the connection ends. If the handshake fails or the client does not request that name, closes the
    /// connection without a log entry; a plain-text request first gets [`Refusal::PlainText`]. A connection
    /// from a public socket also ends when that socket drops it.
    async fn serve(self, incoming: Incoming, name: Option<&PrivateName>) {
        match (incoming, name) {
            (Incoming::New(stream, peer), None) => {
                let Ok(stream) = TcpStream::from_std(stream) else { return };
                self.serve_http1(stream, peer, Scheme::Http, pending()).await;
            }
            (Incoming::New(stream, peer), Some(name)) => {
                let Ok(stream) = TcpStream::from_std(stream) else { return };
                let time = self.options.header_timeout;
                let route = |requested: Option<&str>| name.route_on_own_socket(requested);
                let refusal = || Refusal::PlainText.into_response();
                if let Ok(Accepted::Private(stream)) = tls::accept(stream, time, time, route, refusal).await {
                    self.serve_http1(stream, peer, Scheme::Https, pending()).await;
                }
            }
            (Incoming::Shared(SharedConn { stream, peer, mut admitted, evicted }), _) => {
                let evicted = async {
                    if evicted.await.is_err() {
                        // The public socket dropped its handle, so `admitted` closes and ends the connection.
                        pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = self.serve_http1(stream, peer, Scheme::Https, evicted) => {}
                    () = admitted.closed() => {}
                }
            }
        }
    }

    /// Serves requests until the connection ends. Responses over TLS have the HSTS header of the options, if
    /// there is one. After `evicted`, closes it once it is idle.
    async fn serve_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: Peer,
        scheme: Scheme,
        evicted: impl Future<Output = ()>,
    ) {
        let service = service_fn(|request| {
            let (handler, snapshot, conn) = (&*self.handler, self.snapshot.load_full(), &self.conn);
            let context = RequestContext { peer, scheme, began: Instant::now() };
            let hsts = self.options.hsts.as_ref().filter(|_| scheme == Scheme::Https);
            async move {
                let mut response = respond(handler, &snapshot, conn, context, request).await;
                // Send HSTS only over TLS (RFC 6797 §7.2).
                if let Some(hsts) = hsts {
                    response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.value());
                }
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(self.options.keep_alive)
            .max_buf_size(HEADER_LIMIT)
            .header_read_timeout(self.options.header_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // An error means that the client has disconnected, or was too slow.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = evicted => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// Passes a request to the handler. If the response is a stream, and the request's body has been read, the
/// connection counts as busy until the end of the stream.
async fn respond<H: Handler>(
    handler: &H,
    snapshot: &Arc<H::Snapshot>,
    conn: &Arc<PrivateConn>,
    context: RequestContext,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<BusyBody<H::Body>> {
    let (head, body) = request.into_parts();
    // Charge memory to a slot that is not counted: private handlers have no memory limit.
    let mut body = RequestBody::new(body, &Arc::<Slot>::default(), Some(conn.clone()));
    let request = Request { head: &head, body: &mut body, context };
    let response = handler.respond(snapshot, request).await;
    let answering = body.answering;
    // Keep the guard only for streams: a client that reads any other body slowly must not hold a connection.
    response.map(|body| {
        let is_stream = body.size_hint().exact().is_none();
        BusyBody { body, _answering: answering.filter(|_| is_stream) }
    })
}

/// A response body. A stream can hold a guard that keeps its connection when others are closed at a limit.
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
