//! HTTP/1.0 and HTTP/1.1 (RFC 9112) on one connection.

mod clock;

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{CONNECTION, HeaderValue};
use http_body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

pub(super) use clock::Clock;

use super::connection::{HEADER_LIMIT, keep_watch, last_request};
use super::socket::Peer;
use super::{Desk, router};

/// A request may have this many header fields.
const HEADER_FIELDS: usize = 100;

/// Answers one request after the other. `clock` observes the stream already; it may have seen its first bytes.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    desk: &Arc<Desk>,
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
            let mut response = router::answer(desk, peer, request).await;
            if *stopping.borrow() {
                // The last one on this connection.
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
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = {
        let mut watched = std::pin::pin!(keep_watch(|| clock.deadline(), connection.as_mut()));
        tokio::select! {
            _ = &mut watched => true,
            () = last_request(&mut stop) => false,
        }
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        // An error here is the peer's: it went away or sent what is no HTTP, and has been answered if that was possible.
        let _ = keep_watch(|| clock.deadline(), connection).await;
    }
}
