//! Serves HTTP/1.0 and HTTP/1.1 (RFC 9112) on one connection.

pub(super) mod timer;

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use self::timer::ConnTimer;
use super::connection_deadline::{HEADER_LIMIT, Observed, run_until_deadline, wait_for_shutdown};
use super::connection_memory::cost;
use super::fast_path::{Exit, FastPathConn};
use super::handler::PublicHandler;
use super::sendfile::ResponseStream;
use super::service;
use super::shutdown_phase::ShutdownPhase;
use super::socket::Scheme;
use super::worker_context::ConnContext;

/// Maximum number of header fields in a request.
const MAX_FIELDS: usize = 100;

/// Serves requests until the connection ends, misses a deadline, or the server stops. Uses the fast path
/// first, unless the options disable it or a shutdown has begun. From the first request that the fast path
/// declines, uses hyper. `unserved` was already read from the stream.
pub(super) async fn serve<H: PublicHandler, S: ResponseStream>(
    mut conn: ConnContext<'_, H>,
    mut unserved: Bytes,
    mut stream: S,
    timer: Rc<ConnTimer>,
) {
    // The fast path is not used during shutdown: only hyper announces that the connection will close.
    let fast_path = (**conn.worker.server.snapshot.load()).as_ref().fast_path;
    if fast_path && *conn.phase.borrow() == ShutdownPhase::Serving {
        match serve_fast_path(&mut conn, unserved, &mut stream, &timer).await {
            Exit::Fallback(rest) => unserved = rest,
            Exit::Closed => return,
        }
    }
    let stream = Observed::new(unserved, stream, timer.clone());
    // Boxed, because this future is large and most connections never need it.
    Box::pin(serve_hyper(conn, stream, timer)).await;
}

/// Serves plain requests on the fast path. Returns [`Exit::Fallback`] at the first request that is not plain,
/// that the handler declines, or that arrives after shutdown has begun. Returns [`Exit::Closed`] when the
/// connection ends, misses a deadline (which is counted), or is idle when the server stops.
async fn serve_fast_path<H: PublicHandler, S: ResponseStream>(
    conn: &mut ConnContext<'_, H>,
    unserved: Bytes,
    stream: &mut S,
    timer: &Rc<ConnTimer>,
) -> Exit {
    let is_closing = Cell::new(false);
    let phase = conn.phase.clone();
    let fast = FastPathConn {
        worker: conn.worker,
        scheme: conn.scheme,
        peer: conn.peer,
        timer,
        phase: &phase,
        is_closing: &is_closing,
        unserved,
    };
    let mut serving = std::pin::pin!(fast.serve(stream));
    let mut watched = std::pin::pin!(run_until_deadline(|| timer.deadline(), serving.as_mut()));
    let exit = tokio::select! {
        biased;
        exit = watched.as_mut() => exit,
        () = wait_for_shutdown(&mut conn.phase) => {
            is_closing.set(true);
            watched.await
        }
    };
    exit.unwrap_or_else(|| {
        conn.worker.server.counters.record_close(timer.close_reason());
        Exit::Closed
    })
}

/// Serves all further requests with hyper, until the connection ends, misses a deadline (which is counted),
/// or the server stops. In that last case, a request in progress is completed first. Responses after the
/// start of the drain have `Connection: close`.
async fn serve_hyper<H: PublicHandler, S: AsyncRead + AsyncWrite + Unpin>(
    conn: ConnContext<'_, H>,
    stream: S,
    timer: Rc<ConnTimer>,
) {
    let ConnContext { worker, scheme, peer, mut phase, slot, .. } = conn;
    let _charge = slot.charge(cost::HTTP1 + if scheme == Scheme::Https { cost::UNREAD_TLS } else { 0 });
    let observed = phase.clone();
    let service = service_fn(|request| {
        timer.on_header_complete();
        let (timer, observed, slot) = (timer.clone(), observed.clone(), slot.clone());
        let is_head = request.method() == http::Method::HEAD;
        async move {
            let mut response = service::respond(worker, scheme, peer, request, &slot).await;
            if *observed.borrow() != ShutdownPhase::Serving {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let length = response.body().len();
            timer.on_response_start(if is_head { 0 } else { length });
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEADER_LIMIT)
        .max_headers(MAX_FIELDS)
        // A client that has closed its sending side may still read the response.
        .half_close(true)
        // hyper's own timeout is not needed: the timer has a deadline for every phase, including the header.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let watched = {
        let mut watched = std::pin::pin!(run_until_deadline(|| timer.deadline(), connection.as_mut()));
        tokio::select! {
            // After a pause of the whole process, a request and the end of the grace period come together.
            biased;
            watched = &mut watched => Some(watched),
            () = wait_for_shutdown(&mut phase) => None,
        }
    };
    let watched = if let Some(watched) = watched {
        watched
    } else {
        connection.as_mut().graceful_shutdown();
        run_until_deadline(|| timer.deadline(), connection).await
    };
    // Only count a missed deadline: a connection error means that the client has left or sent invalid HTTP.
    if watched.is_none() {
        worker.server.counters.record_close(timer.close_reason());
    }
}
