//! HTTP/1.0 and HTTP/1.1 (RFC 9112) on one connection.

mod clock;

use std::convert::Infallible;

use http::header::{CONNECTION, HeaderValue};
use http_body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) use clock::Clock;

use super::connection::{HEADER_LIMIT, keep_watch, last_request};
use super::router;
use super::visit::Visit;

/// A request may have this many header fields.
const HEADER_FIELDS: usize = 100;

/// Answers one request after the other. `clock` observes the stream already; it may have seen its first bytes.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(visit: Visit<'_>, stream: S, clock: Clock) {
    let Visit { desk, scheme, peer, mut stop, .. } = visit;
    let stopping = stop.clone();
    let service = service_fn(|request| {
        clock.request_began();
        let (clock, stopping) = (clock.clone(), stopping.clone());
        let is_head = request.method() == http::Method::HEAD;
        async move {
            let mut response = router::answer(desk, scheme, peer, request).await;
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
    let watched = {
        let mut watched = std::pin::pin!(keep_watch(|| clock.deadline(), connection.as_mut()));
        tokio::select! {
            watched = &mut watched => Some(watched),
            () = last_request(&mut stop) => None,
        }
    };
    let watched = if let Some(watched) = watched {
        watched
    } else {
        connection.as_mut().graceful_shutdown();
        keep_watch(|| clock.deadline(), connection).await
    };
    // An error is the peer's: it went away or sent what is no HTTP, and has been answered if that was possible.
    if watched.is_none() {
        desk.metrics.shed(clock.overdue());
    }
}
