//! One connection from its first byte to its last: whose it is, what is spoken on it, and its requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http_body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::connection::{Clock, Timed};
use super::metrics::Shed;
use super::socket::{Peer, Scheme, Stream};
use super::source::{Place, is_trusted};
use super::{Desk, proxy, router};

/// A request's header may be this long, in bytes.
const HEADER_LIMIT: usize = 16 * 1024;

/// A request may have this many header fields.
const HEADER_FIELDS: usize = 100;

/// When the server stops, a connection that waits for a request may still bring one for so long: who has just sent it must not find
/// the connection closed. The answer says that it is the last one.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// Answers one connection's requests until it ends, is idle for too long or the server stops.
pub(super) async fn attend(
    desk: &Arc<Desk>,
    scheme: Scheme,
    mut stream: Stream,
    mut peer: Peer,
    mut place: Place,
    stop: watch::Receiver<bool>,
) {
    let _open = desk.metrics.connection();
    let options = desk.live.load().options.clone();
    if options.proxy_protocol && is_trusted(&options, peer) {
        let header = tokio::time::timeout(options.first_byte_timeout, proxy::read(&mut stream)).await;
        if header.is_err() {
            desk.metrics.shed(Shed::FirstByte);
        }
        let Ok(Ok(client)) = header else { return };
        if let Some(client) = client {
            peer = Peer { address: client, is_local: false };
            if !place.belongs_to(peer, &options) {
                desk.metrics.shed(Shed::Source);
                return;
            }
        }
    }
    match scheme {
        Scheme::Http => serve_http1(desk, scheme, stream, peer, Clock::new(&options), stop).await,
        Scheme::Https => {
            let Some(tls) = &desk.tls else { return };
            let stream = match tls.accept(stream, &options).await {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(reason) => return desk.metrics.shed(reason),
            };
            // `stream.get_ref().1.alpn_protocol()` says what was chosen of the protocols that `tls` offers.
            serve_http1(desk, scheme, stream, peer, Clock::new(&options), stop).await;
        }
    }
}

/// HTTP/1.0 and HTTP/1.1 (RFC 9112).
async fn serve_http1<S: AsyncRead + AsyncWrite + Unpin>(
    desk: &Arc<Desk>,
    scheme: Scheme,
    stream: S,
    peer: Peer,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let stopping = stop.clone();
    let service = service_fn(|request| {
        clock.request_began();
        let (clock, stopping) = (clock.clone(), stopping.clone());
        let is_head = request.method() == http::Method::HEAD;
        async move {
            let mut response = router::answer(desk, scheme, peer, request).await;
            if *stopping.borrow() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let length = response.body().size_hint().upper().unwrap_or_default();
            clock.answer_began(if is_head { 0 } else { length });
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEADER_LIMIT)
        .max_headers(HEADER_FIELDS)
        // A client that has said all it has to say may still want to hear the answer.
        .half_close(true)
        // The clock has the deadlines of all phases, this one included.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Timed::new(stream, clock.clone())), service);
    let mut connection = std::pin::pin!(connection);
    let note_end = |by_itself: bool| {
        if !by_itself {
            desk.metrics.shed(clock.overdue());
        }
    };
    let ended = {
        let lingering = async {
            let _ = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(LAST_REQUEST).await;
        };
        let mut lingering = std::pin::pin!(lingering);
        let mut watched = std::pin::pin!(clock.watch(connection.as_mut()));
        tokio::select! {
            ended = &mut watched => {
                note_end(ended.is_some());
                true
            }
            () = &mut lingering => false,
        }
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        // An error here is the peer's: it went away or sent what is no HTTP, and has been answered if that was possible.
        let ended = clock.watch(Pin::new(&mut connection)).await;
        note_end(ended.is_some());
    }
}
