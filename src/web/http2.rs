//! HTTP/2 (RFC 9113) on one connection: any number of requests after each other, a bounded number at once.
//!
//! What a client sends is counted frame by frame (`guard.rs`), what it is waited for has deadlines (`deadlines.rs`), and what it can
//! make the server keep is bounded by the caps below and charged to it (`account.rs`).

mod account;
mod deadlines;
mod frames;
mod guard;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use self::account::Account;
use self::deadlines::Deadlines;
use self::guard::Guard;
use super::connection::{HEADER_LIMIT, Observed, Observer, keep_watch};
use super::metrics::Shed;
use super::socket::{Peer, Scheme};
use super::source::{Closing, Slot};
use super::visit::Visit;
use super::{Desk, Options, Stage, Worker, router};

/// Requests that may be under way at once (`SETTINGS_MAX_CONCURRENT_STREAMS`); further ones are refused.
const CONCURRENT: u32 = 100;

/// What may be sent of one request's body before we have read it, in bytes: a form fits, but for its last byte.
const STREAM_WINDOW: u32 = 65_535;

/// And of all bodies on a connection together.
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// What is kept of one answer beside the page itself, in bytes.
const SEND_BUFFER: usize = 32 * 1024;

/// Requests that may be cancelled before they were looked at, and be remembered.
const RESET_UNSEEN: usize = 32;

/// Streams that a client may make us reset in the life of a connection, by errors of its own.
const RESET_BY_US: usize = 256;

/// A body is given out in pieces of this many bytes, so that it is known how far a client has got.
const PIECE: usize = 16 * 1024;

/// Answers requests until the connection ends, is quiet for too long, costs too much or the server stops.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(visit: Visit<'_>, stream: S) {
    let Visit { worker: Worker { desk, .. }, options, scheme, peer, mut stage, slot } = visit;
    let session = Session::new(&options, slot, scheme);
    let service = service_fn(|request| answer(desk.clone(), scheme, peer, request, session.exchange()));
    let connection = http2::Builder::new(OnThisThread)
        .max_concurrent_streams(CONCURRENT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(HEADER_LIMIT).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESET_UNSEEN)
        .max_local_error_reset_streams(RESET_BY_US)
        .serve_connection(TokioIo::new(Observed::new(stream, session.clone())), service);
    let mut connection = std::pin::pin!(connection);
    // Whoever comes while the server drains is not sent away before he has asked: he would come again, to the same end.
    let begun = *stage.borrow();
    // An error here or below is the peer's: it went away, or has been told by GOAWAY what is wrong if that was possible.
    let (is_over, is_overdue) = tokio::select! {
        ended = keep_watch(|| session.earliest(), connection.as_mut()) => {
            (ended.is_some() || session.is_shed() || !session.is_idle(), ended.is_none())
        }
        _ = stage.wait_for(|stage| *stage == Stage::Stopping || *stage != begun) => (false, false),
    };
    if session.costs_too_much() {
        desk.metrics.shed(Shed::Glitches);
    } else if session.is_shed() {
        desk.metrics.shed(Shed::Memory);
    } else if is_overdue {
        let waited = match (session.is_evicted(), session.is_silent()) {
            (true, _) => Shed::Evicted,
            (false, true) => Shed::FirstByte,
            (false, false) => Shed::Idle,
        };
        desk.metrics.shed(if is_over { Shed::Exchange } else { waited });
    }
    if is_over {
        return;
    }
    // The client is told that no more is taken, and that what it has sent until it hears of this is: a request that crosses the end
    // of an idle connection is not lost, nor is it unknown whether it was answered (RFC 9113 §6.8).
    connection.as_mut().graceful_shutdown();
    session.stopping();
    let _ = keep_watch(|| session.earliest(), connection).await;
}

async fn answer(
    desk: Arc<Desk>,
    scheme: Scheme,
    peer: Peer,
    request: Request<Incoming>,
    mut exchange: Exchange,
) -> Result<Response<Pieces>, Infallible> {
    let is_head = request.method() == Method::HEAD;
    let (mut head, body) =
        router::answer(&desk, scheme, peer, request, &exchange.session.0.slot).await.into_parts();
    let mut bytes = body.collect().await.unwrap_or_default().to_bytes();
    if is_head {
        // What the body would be, and none of it (RFC 9110 §9.3.2).
        if !bytes.is_empty() {
            head.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(bytes.len()));
        }
        bytes = Bytes::new();
    }
    exchange.answered(bytes.len() as u64);
    Ok(Response::from_parts(head, Pieces { bytes, exchange }))
}

/// What the stream, the exchanges and the watchdog of one connection share, all on one thread.
#[derive(Debug, Clone)]
struct Session(Rc<State>);

#[derive(Debug)]
struct State {
    /// Until when the client must say something at all; none once it has.
    first_byte: Cell<Option<Instant>>,
    guard: RefCell<Guard>,
    deadlines: RefCell<Deadlines>,
    account: RefCell<Account>,
    began: Instant,
    slot: Arc<Slot>,
}

impl Session {
    fn new(options: &Options, slot: Arc<Slot>, scheme: Scheme) -> Self {
        let now = Instant::now();
        let deadlines = Deadlines::new(options, now);
        Self(Rc::new(State {
            first_byte: Cell::new(Some(now + options.first_byte_timeout)),
            guard: RefCell::new(Guard::new(now)),
            deadlines: RefCell::new(deadlines),
            account: RefCell::new(Account::new(&slot, scheme)),
            began: now,
            slot,
        }))
    }

    /// The next deadline. It is over if the server closes the connection.
    fn earliest(&self) -> Instant {
        if self.is_shed() || self.is_evicted() {
            return self.0.began;
        }
        self.0.first_byte.get().unwrap_or_else(|| self.0.deadlines.borrow().earliest())
    }

    /// Whether the connection is to be closed to make room, has no request under way and no answer
    /// that is still being sent.
    fn is_evicted(&self) -> bool {
        self.0.slot.closing() == Some(Closing::WhenIdle)
            && self.is_idle()
            && self.0.deadlines.borrow().is_flushed()
    }

    /// Whether the connection is to be closed at once because memory is short.
    fn is_shed(&self) -> bool {
        self.0.slot.closing() == Some(Closing::Now)
    }

    /// Whether the client has said nothing yet, as it may after a handshake.
    fn is_silent(&self) -> bool {
        self.0.first_byte.get().is_some()
    }

    /// Whether nothing is under way, and no header is being received.
    fn is_idle(&self) -> bool {
        self.0.deadlines.borrow().is_idle()
    }

    /// Whether the client has sent more that means nothing than it may.
    fn costs_too_much(&self) -> bool {
        self.0.guard.borrow().is_exceeded()
    }

    fn stopping(&self) {
        self.0.deadlines.borrow_mut().stopping(Instant::now());
    }

    /// A request has come in.
    fn exchange(&self) -> Exchange {
        let number = self.0.deadlines.borrow_mut().exchange_began(Instant::now());
        self.0.account.borrow_mut().request_began();
        Exchange { session: self.clone(), number, unsent: None }
    }
}

impl Observer for Session {
    fn bytes_arrived(&self, bytes: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        self.0.first_byte.set(None);
        self.0.account.borrow_mut().received(bytes.len());
        let mut guard = self.0.guard.borrow_mut();
        guard.arrived(bytes, now).map_err(io::Error::other)?;
        self.0.deadlines.borrow_mut().receives_header(guard.open_block(), now);
        Ok(())
    }

    fn bytes_left(&self, count: usize) {
        self.0.account.borrow_mut().set_write_pending(false);
        self.0.guard.borrow_mut().sent(count);
        self.0.deadlines.borrow_mut().written(count, Instant::now());
    }

    fn write_pending(&self) {
        self.0.account.borrow_mut().set_write_pending(true);
    }
}

/// A request that is under way, until it is dropped: because its answer was taken, or because nobody wants it any more.
#[derive(Debug)]
struct Exchange {
    session: Session,
    number: u64,
    /// What is left of the answer, in bytes; none while there is no answer.
    unsent: Option<u64>,
}

impl Exchange {
    fn answered(&mut self, length: u64) {
        self.unsent = Some(length);
        self.session.0.deadlines.borrow_mut().answer_began(self.number, length, Instant::now());
    }

    fn taken(&mut self, count: usize) {
        self.unsent = self.unsent.map(|unsent| unsent.saturating_sub(count as u64));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.unsent == Some(0) {
            self.session.0.guard.borrow_mut().answered();
        }
        let unsent = self.unsent.unwrap_or_default();
        self.session.0.deadlines.borrow_mut().exchange_ended(self.number, unsent, Instant::now());
        self.session.0.account.borrow_mut().request_ended();
    }
}

/// An answer's body, of which a piece is given out whenever there is room for it.
#[derive(Debug)]
struct Pieces {
    bytes: Bytes,
    exchange: Exchange,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let piece = this.bytes.split_to(PIECE.min(this.bytes.len()));
        this.exchange.taken(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Runs each request on the thread of its connection.
#[derive(Debug, Clone, Copy)]
struct OnThisThread;

impl<F> Executor<F> for OnThisThread
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
