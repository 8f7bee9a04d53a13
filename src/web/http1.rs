//! HTTP/1.0 and HTTP/1.1 (RFC 9112) on one connection.

mod clock;
mod lane;

use std::cell::Cell;
use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http_body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) use clock::Clock;
pub(super) use lane::Lane;

use self::lane::{Left, Visitor};
use super::connection::{HEADER_LIMIT, Observed, keep_watch, last_request};
use super::memory::cost;
use super::protocol::Rewound;
use super::socket::Scheme;
use super::visit::Visit;
use super::{Stage, Worker, router};

/// A request may have this many header fields.
const HEADER_FIELDS: usize = 100;

/// Answers one request after the other. `clock` has seen what was read of the stream already, which is `begun`.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut visit: Visit<'_>,
    begun: Bytes,
    mut stream: S,
    clock: Clock,
) {
    // Once the server is to end, each answer says that it is the last, which hyper does.
    let begun = if visit.options.fast_lane && *visit.stage.borrow() == Stage::Serving {
        match in_lane(&mut visit, begun, &mut stream, &clock).await {
            Left::ForHyper(begun) => begun,
            Left::Ended => return,
        }
    } else {
        begun
    };
    let stream = Rewound::new(begun, Observed::new(stream, clock.clone()));
    // Boxed, because most connections never need it, and it is large.
    Box::pin(in_hyper(visit, stream, clock)).await;
}

/// As long as requests are plain.
async fn in_lane<S: AsyncRead + AsyncWrite + Unpin>(
    visit: &mut Visit<'_>,
    begun: Bytes,
    stream: &mut S,
    clock: &Clock,
) -> Left {
    let is_closing = Cell::new(false);
    let stage = visit.stage.clone();
    let visitor = Visitor {
        desk: &visit.worker.desk,
        lane: &visit.worker.lane,
        scheme: visit.scheme,
        peer: visit.peer,
        clock,
        stage: &stage,
        is_closing: &is_closing,
        begun,
    };
    let mut lane = std::pin::pin!(visitor.serve(stream));
    let mut watched = std::pin::pin!(keep_watch(|| clock.deadline(), lane.as_mut()));
    let left = tokio::select! {
        biased;
        left = watched.as_mut() => left,
        () = last_request(&mut visit.stage) => {
            is_closing.set(true);
            watched.await
        }
    };
    left.unwrap_or_else(|| {
        visit.worker.desk.metrics.shed(clock.overdue());
        Left::Ended
    })
}

/// Whatever comes.
async fn in_hyper<S: AsyncRead + AsyncWrite + Unpin>(visit: Visit<'_>, stream: S, clock: Clock) {
    let Visit { worker: Worker { desk, .. }, scheme, peer, mut stage, slot, .. } = visit;
    let _charge = slot.charge(cost::HTTP1 + if scheme == Scheme::Https { cost::UNREAD_TLS } else { 0 });
    let observed = stage.clone();
    let service = service_fn(|request| {
        clock.request_began();
        let (clock, observed, slot) = (clock.clone(), observed.clone(), slot.clone());
        let is_head = request.method() == http::Method::HEAD;
        async move {
            let mut response = router::answer(desk, scheme, peer, request, &slot).await;
            if *observed.borrow() != Stage::Serving {
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
            () = last_request(&mut stage) => None,
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
