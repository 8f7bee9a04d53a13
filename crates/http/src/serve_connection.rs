//! Determines the client and the protocol of a connection, and serves it until it ends.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::balance::AcceptedConn;
use super::connection_deadline::{Observed, run_until_deadline, wait_for_shutdown};
use super::connection_memory::{Closing, cost};
use super::counters::CloseReason;
use super::handler::PublicHandler;
use super::http1::timer::ConnTimer;
use super::private_server_host::SharedConnHandle;
use super::protocol_detection::{Protocol, detect};
use super::refusal::Refusal;
use super::sendfile::ResponseStream;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Peer, Scheme, Trust};
use super::tls::{Accepted, ServerName, TlsConn};
use super::trusted_proxies::is_trusted;
use super::worker_context::{ConnContext, Worker};
use super::{http1, http2, proxy_protocol, tls};

/// Minimum idle timeout for trusted proxies: longer than common proxies keep an idle connection open.
const PROXY_IDLE: Duration = Duration::from_secs(75);

/// Serves a connection until it ends, a deadline passes or the server stops. With
/// [`Options::proxy_protocol`](super::Options::proxy_protocol), first reads the header of a trusted proxy,
/// and counts the connection for the client that the header names, unless that is a trusted proxy, too; if it
/// names none, ignores forwarding headers. Closes the connection if the header is late or invalid, or if the
/// client is at a limit. A trusted proxy without such a header, or one that a header names, may be idle for
/// at least [`PROXY_IDLE`].
pub(super) async fn serve<H: PublicHandler>(
    worker: &Worker<H>,
    AcceptedConn { scheme, stream, mut peer, mut permit }: AcceptedConn,
    phase: watch::Receiver<ShutdownPhase>,
) {
    // If the descriptor is invalid, there is no connection to serve.
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    let counters = &worker.server.counters;
    let _open = counters.count_connection();
    let snapshot = worker.server.snapshot.load_full();
    let options = (*snapshot).as_ref();
    if options.proxy_protocol && is_trusted(&options.trusted_proxies, peer) {
        let header = Box::pin(proxy_protocol::read_header(&mut stream));
        let header = tokio::time::timeout(options.timeouts.first_byte, header).await;
        if header.is_err() {
            counters.record_close(CloseReason::FirstByte);
        }
        let Ok(Ok(client)) = header else { return };
        if let Some(client) = client {
            peer = Peer::at(client);
            if let Err(reason) = permit.assign_client(peer, options) {
                counters.record_close(reason);
                return;
            }
        } else {
            // The PROXY header names no client, for example for a health check, so ignore forwarding headers.
            peer.trust = Trust::Never;
        }
    }
    // Raise the idle timeout for a proxy, or it could reuse a connection that the server has just closed.
    let mut timeouts = options.timeouts;
    if is_trusted(&options.trusted_proxies, peer) {
        timeouts.idle = timeouts.idle.max(PROXY_IDLE);
    }
    drop(snapshot);
    let slot = permit.slot.clone();
    poll_fn(|cx| {
        slot.set_waker(cx.waker());
        Poll::Ready(())
    })
    .await;
    let conn = ConnContext { worker, timeouts, scheme, peer, phase, slot };
    match scheme {
        Scheme::Http => conn.serve_cleartext(stream).await,
        // Box the futures of TLS here and of HTTP/2 below: a future has the size of its largest state, so
        // every connection would take their memory.
        Scheme::Https => Box::pin(conn.serve_tls(stream)).await,
    }
}

impl<H: PublicHandler> Worker<H> {
    /// Serves HTTP/1 or HTTP/2 on `stream`, like a connection to a public cleartext socket, but counts it
    /// towards no limit. Requires a single-threaded tokio runtime with timers.
    pub async fn serve_stream(
        &self,
        stream: impl ResponseStream,
        peer: IpAddr,
        phase: watch::Receiver<ShutdownPhase>,
    ) {
        let timeouts = (**self.server.snapshot.load()).as_ref().timeouts;
        let (scheme, peer, slot) = (Scheme::Http, Peer::at(peer), Arc::default());
        let conn = ConnContext { worker: self, timeouts, scheme, peer, phase, slot };
        conn.serve_cleartext(stream).await;
    }
}

impl<H: PublicHandler> ConnContext<'_, H> {
    /// Detects the protocol (RFC 9113 §3.3) within an HTTP/1 request's deadlines, then serves the connection.
    /// At shutdown, closes a connection whose protocol is still unknown.
    pub(super) async fn serve_cleartext<S: ResponseStream>(mut self, stream: S) {
        let timer = ConnTimer::new(self.timeouts, self.slot.clone());
        let mut stream = Observed::new(Bytes::new(), stream, timer.clone());
        let detected = {
            let detecting = std::pin::pin!(detect(&mut stream));
            tokio::select! {
                // After a pause of the whole process, bytes and the end of the grace period come together.
                biased;
                detected = run_until_deadline(|| timer.deadline(), detecting) => {
                    detected.ok_or(timer.close_reason())
                }
                () = wait_for_shutdown(&mut self.phase) => return,
            }
        };
        match detected {
            Ok(Ok((Protocol::Http1, read))) => http1::serve(self, read, stream.into_inner(), timer).await,
            Ok(Ok((Protocol::Http2, read))) => {
                Box::pin(http2::serve(self, read, stream.into_inner())).await;
            }
            // The client has disconnected.
            Ok(Err(_)) => {}
            Err(reason) => self.worker.server.counters.record_close(reason),
        }
    }

    /// Performs the TLS handshake, then serves the protocol that ALPN has selected. Passes on a connection
    /// for the private name instead. Counts failed handshakes, and answers plain HTTP with
    /// [`Refusal::PlainText`]. Closes the connection at once if the server has no TLS.
    async fn serve_tls(self, stream: TcpStream) {
        let Some(tls) = &self.worker.server.tls else { return };
        let private = self.worker.server.private_name.as_deref();
        let charge = self.slot.charge(cost::HANDSHAKE);
        let accepted = self
            .slot
            .unless_closed(tls::accept(
                stream,
                self.timeouts.first_byte,
                self.timeouts.header,
                |name| {
                    let private = private.and_then(|private| private.route_on_public_sockets(name));
                    private.unwrap_or(ServerName::Site(tls))
                },
                || {
                    let snapshot = self.worker.server.snapshot.load();
                    self.worker.handler.refuse(&snapshot, None, Refusal::PlainText)
                },
            ))
            .await
            .unwrap_or(Err(CloseReason::Memory));
        drop(charge);
        match accepted {
            Ok(Accepted::Site(stream)) => {
                let _charge = self.slot.charge(cost::TLS);
                // ALPN (RFC 7301) has selected the protocol.
                match tls::negotiated_protocol(&stream) {
                    Protocol::Http1 => {
                        let timer = ConnTimer::new(self.timeouts, self.slot.clone());
                        http1::serve(self, Bytes::new(), stream, timer).await;
                    }
                    Protocol::Http2 => Box::pin(http2::serve(self, Bytes::new(), stream)).await,
                }
            }
            Ok(Accepted::Private(stream)) => self.pass_on(Box::new(stream)).await,
            Ok(Accepted::Done) => {}
            Err(reason) => self.worker.server.counters.record_close(reason),
        }
    }

    /// Passes a connection for the private name to its handler's thread, or closes it if too many wait or
    /// that thread has ended. Until it ends, it counts towards the limits of the public sockets, which may
    /// close it like any other. Ends it at shutdown.
    async fn pass_on(mut self, stream: Box<TlsConn>) {
        let Some(name) = &self.worker.server.private_name else { return };
        let _charge = self.slot.charge(cost::TLS + cost::HTTP1);
        let Some(SharedConnHandle { mut ended, evict }) = name.pass_on(stream, self.peer) else { return };
        let mut evict = Some(evict);
        let ended = poll_fn(|cx| {
            if self.slot.closing() == Some(Closing::WhenIdle)
                && let Some(evict) = evict.take()
            {
                let _ = evict.send(());
            }
            Pin::new(&mut ended).poll(cx).map(drop)
        });
        tokio::select! {
            closed = self.slot.unless_closed(ended) => {
                if closed.is_none() {
                    self.worker.server.counters.record_close(CloseReason::Memory);
                }
            }
            () = wait_for_shutdown(&mut self.phase) => {}
        }
    }
}
