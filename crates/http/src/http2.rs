//! Serves HTTP/2 (RFC 9113) on one connection.
//!
//! `guard.rs` counts abusive frames, `deadlines.rs` computes the deadlines, and `memory.rs` estimates the
//! memory that the connection uses. The limits below bound that memory.

mod deadlines;
mod frames;
mod guard;
mod memory;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use self::deadlines::Deadlines;
use self::guard::Guard;
use self::memory::{CONNECTION_WINDOW, ConnMemory, MAX_CONCURRENT_STREAMS};
use super::connection_deadline::{HEADER_LIMIT, Observed, Observer, run_until_deadline};
use super::connection_memory::{Closing, Slot};
use super::counters::CloseReason;
use super::handler::PublicHandler;
use super::options::Timeouts;
use super::response_body::ResponseBody;
use super::service;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Peer, Scheme};
use super::worker_context::{ConnContext, Worker};
use super::write_buffer::{CollectedWrites, collect_writes};

/// The flow-control window for one request body: one byte less than the maximum length of a form's body.
const STREAM_WINDOW: u32 = 65_535;

/// The maximum size of hyper's send buffer for one response, in bytes.
const SEND_BUFFER: usize = 32 * 1024;

/// The maximum number of streams that the client may reset while they are waiting for hyper to accept them.
const RESET_UNSEEN: usize = 32;

/// The maximum number of streams per connection that hyper resets because of client errors.
const RESET_BY_US: usize = 256;

/// Bodies go to hyper in chunks of this many bytes, so that the server knows how much hyper has taken.
const CHUNK: usize = 16 * 1024;

/// The maximum number of requests that a connection's own task polls per turn; the others become tasks, so
/// that a client with many requests does not make others wait.
const RESPONSES_PER_TURN: u32 = 16;

/// Serves requests until the connection ends or misses a deadline, the client sends too many abusive frames,
/// or the server stops. When the server begins to drain or to stop, or an idle connection misses a deadline
/// or is evicted, sends GOAWAY, and ends after the requests in progress. Counts why the server closed the
/// connection. `read` contains bytes that were already read from the stream.
pub(super) async fn serve<H: PublicHandler, S: AsyncRead + AsyncWrite + Unpin>(
    conn: ConnContext<'_, H>,
    read: Bytes,
    stream: S,
) {
    let ConnContext { worker, timeouts, scheme, peer, mut phase, slot } = conn;
    let counters = &worker.server.counters;
    let conn = Http2Conn::new(timeouts, slot, scheme);
    let service = service_fn(|request| respond(worker.clone(), scheme, peer, request, conn.begin_request()));
    let stream = Observed::new(read, stream, conn.clone());
    let (stream, writes) = collect_writes(stream, &worker.spare_buffer);
    let connection = http2::Builder::new(OnThisThread(conn.clone()))
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(HEADER_LIMIT).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESET_UNSEEN)
        .max_local_error_reset_streams(RESET_BY_US)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // The drain does not close a connection that was opened during it: its client would only reconnect.
    let begun = *phase.borrow();
    // Ignore errors here and below: the peer has disconnected or violated the protocol (hyper sent GOAWAY).
    // `is_over`: no GOAWAY follows, because the connection has ended, must close now or is late with a
    // request. `is_overdue`: a deadline has passed.
    let (is_over, is_overdue) = tokio::select! {
        ended = conn.run(connection.as_mut(), &writes) => {
            (ended.is_some() || conn.is_closing_now() || !conn.deadlines.borrow().is_idle(), ended.is_none())
        }
        _ = phase.wait_for(|phase| *phase == ShutdownPhase::Stopping || *phase != begun) => (false, false),
    };
    if conn.guard.borrow().is_budget_exceeded() {
        counters.record_close(CloseReason::Glitches);
    } else if conn.is_closing_now() {
        counters.record_close(CloseReason::Memory);
    } else if is_overdue {
        counters.record_close(match (is_over, conn.is_evicted(), conn.first_byte.get()) {
            (true, ..) => CloseReason::Exchange,
            (_, true, _) => CloseReason::Evicted,
            (.., Some(_)) => CloseReason::FirstByte,
            (.., None) => CloseReason::Idle,
        });
    }
    if is_over {
        return;
    }
    // This sends GOAWAY. Requests that the client sends before it receives the frame are still served. A
    // final GOAWAY names the last of them, so the client knows which requests it may retry (RFC 9113 §6.8).
    connection.as_mut().graceful_shutdown();
    conn.deadlines.borrow_mut().stopping_since = Some(Instant::now());
    let _ = conn.run(connection, &writes).await;
}

/// Responds to one request, and starts the deadline for sending the response. Removes the body of a response
/// to HEAD, and sets its `Content-Length` if that is missing and the body was not empty.
async fn respond<H: PublicHandler>(
    worker: Worker<H>,
    scheme: Scheme,
    peer: Peer,
    request: Request<Incoming>,
    mut active_request: ActiveRequest,
) -> Result<Response<ChunkedBody>, Infallible> {
    let is_head = request.method() == Method::HEAD;
    let (mut head, mut body) =
        service::respond(&worker, scheme, peer, request, &active_request.conn.slot).await.into_parts();
    if is_head {
        // A response to HEAD has the headers of the GET response, but no body (RFC 9110 §9.3.2).
        if !body.is_empty() {
            head.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
        }
        body = ResponseBody::default();
    }
    let length = body.len();
    active_request.unsent = Some(length);
    active_request.conn.deadlines.borrow_mut().answer_began(active_request.number, length, Instant::now());
    Ok(Response::from_parts(head, ChunkedBody { body, active_request }))
}

/// The state that the stream, the requests and the deadline check share. They all run on one thread.
struct Http2Conn {
    /// The deadline for the first byte; `None` after it has arrived.
    first_byte: Cell<Option<Instant>>,
    guard: RefCell<Guard>,
    deadlines: RefCell<Deadlines>,
    memory: RefCell<ConnMemory>,
    /// How many more responses the connection may send before it must let other connections run.
    responses_left: Cell<u32>,
    began: Instant,
    slot: Arc<Slot>,
}

impl Http2Conn {
    /// Starts the deadline for the first byte, and charges the memory of an idle connection.
    fn new(timeouts: Timeouts, slot: Arc<Slot>, scheme: Scheme) -> Rc<Self> {
        let now = Instant::now();
        Rc::new(Self {
            first_byte: Cell::new(Some(now + timeouts.first_byte)),
            guard: RefCell::new(Guard::new(now)),
            deadlines: RefCell::new(Deadlines::new(timeouts, now)),
            memory: RefCell::new(ConnMemory::new(&slot, scheme)),
            responses_left: Cell::new(0),
            began: now,
            slot,
        })
    }

    /// Runs hyper's `connection` to its end or until sending fails, and sends what it writes. Returns `None`
    /// once a deadline has passed.
    async fn run<F: Future, S: AsyncWrite + Unpin>(
        &self,
        mut connection: Pin<&mut F>,
        writes: &CollectedWrites<S>,
    ) -> Option<()> {
        let turns = std::future::poll_fn(|cx| {
            self.responses_left.set(RESPONSES_PER_TURN);
            writes.poll_turn(cx, connection.as_mut()).map(drop)
        });
        run_until_deadline(|| self.next_deadline(), std::pin::pin!(turns)).await
    }

    /// Counts one response towards those that the connection may send in this turn. Returns false, and counts
    /// nothing, if none is left.
    fn take_response(&self) -> bool {
        let left = self.responses_left.get();
        self.responses_left.set(left.saturating_sub(1));
        left > 0
    }

    /// The next deadline; a time in the past if the server must close the connection now.
    fn next_deadline(&self) -> Instant {
        if self.is_closing_now() || self.is_evicted() {
            return self.began;
        }
        self.first_byte.get().unwrap_or_else(|| self.deadlines.borrow().next_deadline())
    }

    /// Whether the connection was selected for eviction, and is now idle with all responses sent.
    fn is_evicted(&self) -> bool {
        self.slot.closing() == Some(Closing::WhenIdle)
            && self.deadlines.borrow().is_idle()
            && self.deadlines.borrow().is_flushed()
    }

    /// Whether the connection must close immediately because the server is short of memory.
    fn is_closing_now(&self) -> bool {
        self.slot.closing() == Some(Closing::Now)
    }

    /// Starts a request's deadline, and charges its memory. Dropping the returned value ends both.
    fn begin_request(self: &Rc<Self>) -> ActiveRequest {
        let number = self.deadlines.borrow_mut().exchange_began(Instant::now());
        self.memory.borrow_mut().on_request_begin();
        ActiveRequest { conn: self.clone(), number, unsent: None }
    }
}

impl Observer for Rc<Http2Conn> {
    /// Updates the deadlines and the memory charge. Fails if the client has sent too many abusive frames.
    fn bytes_read(&self, bytes: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        self.first_byte.set(None);
        self.memory.borrow_mut().received(bytes.len());
        let mut guard = self.guard.borrow_mut();
        if guard.charge_frames(bytes, now) {
            return Err(io::Error::other("too many abusive frames"));
        }
        self.deadlines.borrow_mut().set_open_block(guard.frames.open_block(), now);
        Ok(())
    }

    fn bytes_written(&self, count: usize) {
        self.memory.borrow_mut().set_write_pending(false);
        self.guard.borrow_mut().sent(count);
        self.deadlines.borrow_mut().written(count, Instant::now());
    }

    fn write_pending(&self) {
        self.memory.borrow_mut().set_write_pending(true);
    }
}

/// A request in progress. Dropped when hyper has taken the response, when the client cancels the request, or
/// after a panic.
struct ActiveRequest {
    conn: Rc<Http2Conn>,
    number: u64,
    /// The number of response bytes that hyper has not taken yet; `None` until the response is ready.
    unsent: Option<u64>,
}

impl Drop for ActiveRequest {
    /// Ends the request's deadline and its memory charge. Refunds part of the cost of its frames if hyper has
    /// taken the complete response.
    fn drop(&mut self) {
        if self.unsent == Some(0) {
            self.conn.guard.borrow_mut().refund_completed_request();
        }
        let unsent = self.unsent.unwrap_or_default();
        self.conn.deadlines.borrow_mut().exchange_ended(self.number, unsent, Instant::now());
        self.conn.memory.borrow_mut().on_request_end();
    }
}

/// The body of a response, in pieces of [`CHUNK`] bytes.
struct ChunkedBody {
    body: ResponseBody,
    active_request: ActiveRequest,
}

impl Body for ChunkedBody {
    type Data = Bytes;
    /// The file was truncated or modified while being sent. hyper then resets the stream.
    type Error = io::Error;

    /// The next piece, of at most [`CHUNK`] bytes. Never returns `Pending`, but may wait for the disk.
    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let chunk = this.body.next_piece(CHUNK);
        this.active_request.unsent = Some(this.body.len());
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.len())
    }
}

/// Runs the futures that read requests and send responses.
#[derive(Clone)]
struct OnThisThread(Rc<Http2Conn>);

impl<F: Future<Output: 'static> + 'static> Executor<F> for OnThisThread {
    /// Polls the future once, unless the connection has used up [`RESPONSES_PER_TURN`], because most
    /// responses are ready immediately: a task costs more than such a response. A future that has to wait
    /// becomes a task, which polls it again with its own waker.
    fn execute(&self, future: F) {
        let mut future = Box::pin(future);
        let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        // As in a task, a panic ends only this request: dropping the future resets its stream.
        let is_done = self.0.take_response() && catch_unwind(AssertUnwindSafe(poll)).unwrap_or(true);
        if !is_done {
            tokio::task::spawn_local(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn a_panic_ends_only_its_request() {
        let conn = Http2Conn::new(Options::default().timeouts, Arc::default(), Scheme::Http);
        conn.responses_left.set(2);
        let executor = OnThisThread(conn.clone());
        executor.execute(async { panic!("a defect in a handler") });
        let is_done = Rc::new(Cell::new(false));
        let other = is_done.clone();
        executor.execute(async move { other.set(true) });
        assert!(is_done.get());
        assert_eq!(conn.responses_left.get(), 0);
    }
}
