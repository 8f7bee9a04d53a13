//! The fast path: serves plain HTTP/1.1 requests without the HTTP library. A response takes 9,500
//! instructions instead of 22,200 (benches/instructions.toml).
//!
//! A request is plain if it is a GET or HEAD, arrives in one piece, and has no header that needs special
//! handling (`fast_path/plain_request.rs`). On any other request, or if the handler declines, the connection
//! falls back to hyper, which gets the unserved bytes and serves all further requests. A fuzz target compares
//! the responses of both paths.
//!
//! The connections of a worker can share one set of buffers, because each request that has arrived is served
//! before another connection is polled. Idle connections therefore need no buffers.

pub(crate) mod plain_request;
pub(crate) mod plain_response;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use self::plain_request::{MAX_FIELDS, PlainRequest};
use self::plain_response::PlainResponse;
use super::connection_deadline::Observer as _;
use super::connection_memory::cost;
use super::handler::{PublicHandler, RequestContext};
use super::http1::timer::ConnTimer;
use super::response_body::ResponseBody;
use super::sendfile::{ResponseStream, poll_send_before_file, poll_send_file};
use super::sendfile_body_copies::MIN_COPIED;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Peer, Scheme};
use super::worker_context::Worker;

/// Why the fast path no longer serves a connection.
pub(super) enum Exit {
    Closed,
    /// hyper must serve the requests that begin with these bytes.
    Fallback(Bytes),
}

/// A connection that the fast path serves.
pub(super) struct FastPathConn<'a, H: PublicHandler> {
    pub(super) worker: &'a Worker<H>,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) timer: &'a Rc<ConnTimer>,
    /// The server's phase. hyper takes over when shutdown begins, because only its responses announce the end
    /// of the connection.
    pub(super) phase: &'a watch::Receiver<ShutdownPhase>,
    /// Whether to close the connection after serving the requests that have arrived.
    pub(super) is_closing: &'a Cell<bool>,
    /// Bytes that have arrived but have not been served.
    pub(super) unserved: Bytes,
}

enum PollOutcome {
    Exit(Exit),
    /// The socket's buffer is full; this part of a response has not been sent yet.
    Unsent(UnsentResponse),
    /// The connection has sent [`RESPONSES_PER_TURN`] responses, and must let other connections run.
    TurnEnded,
}

/// The maximum number of responses that a connection sends per turn, so that pipelining clients do not make
/// others wait.
const RESPONSES_PER_TURN: u32 = 8;

impl<H: PublicHandler> FastPathConn<'_, H> {
    /// Serves plain requests. Ends at the first one that is not plain, that the handler declines, or that
    /// arrives after the drain has begun; when the connection ends; or when it is idle while `is_closing` is
    /// set. The caller enforces the deadlines.
    pub(super) async fn serve<S: ResponseStream>(mut self, stream: &mut S) -> Exit {
        loop {
            match std::future::poll_fn(|cx| self.poll_requests(cx, stream)).await {
                PollOutcome::Exit(Exit::Closed) => {
                    // An error means that the client has already disconnected.
                    let _ = stream.shutdown().await;
                    return Exit::Closed;
                }
                PollOutcome::Exit(exit) => return exit,
                PollOutcome::TurnEnded => {
                    let _charge = self.timer.slot.charge(self.unserved.len());
                    tokio::task::yield_now().await;
                }
                PollOutcome::Unsent(rest) => {
                    let unread = if self.scheme == Scheme::Https { cost::UNREAD_TLS } else { 0 };
                    let held = self.unserved.len() + rest.head.len() + unread;
                    let _charge = self.timer.slot.charge(held);
                    if self.send(stream, rest).await.is_err() {
                        return Exit::Closed;
                    }
                }
            }
        }
    }

    /// Serves the requests that have arrived, then reads more, or closes if `is_closing` is set. Ends when a
    /// read or a write has to wait, after [`RESPONSES_PER_TURN`] responses, at a request that hyper must
    /// serve (such as an incomplete one, or any after the drain has begun), or when the connection ends.
    /// Bytes that it does not serve stay in `self.unserved`, or are handed over.
    fn poll_requests<S: ResponseStream>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<PollOutcome> {
        let buffer = &mut *self.worker.fast_path.request.borrow_mut();
        let unserved = take(&mut self.unserved);
        let Some(beginning) = buffer.get_mut(..unserved.len()) else {
            return Poll::Ready(PollOutcome::Exit(Exit::Fallback(unserved)));
        };
        beginning.copy_from_slice(&unserved);
        let mut length = unserved.len();
        // Read the clock only if a request has arrived: the task can also be woken without one.
        let mut since = (length > 0).then(Instant::now);
        let mut responses = 0;
        loop {
            let mut served = 0;
            while served < length {
                if responses == RESPONSES_PER_TURN {
                    self.unserved = Bytes::copy_from_slice(&buffer[served..length]);
                    return Poll::Ready(PollOutcome::TurnEnded);
                }
                responses += 1;
                let unserved = &buffer[served..length];
                let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
                let Some(request) = plain_request::parse(unserved, &mut fields)
                    .filter(|_| !self.phase.has_changed().unwrap_or(true))
                else {
                    return Poll::Ready(self.hand_over_to_hyper(unserved));
                };
                let response = &mut *self.worker.fast_path.response.borrow_mut();
                response.clear();
                let since = since.get_or_insert_with(Instant::now);
                let sends_files = stream.socket().is_some();
                let Some((body, now)) = self.compose(&request, *since, response, sends_files) else {
                    return Poll::Ready(self.hand_over_to_hyper(unserved));
                };
                *since = now;
                served += request.length;
                let whole = response.len() as u64 + body.len();
                match poll_write_response(cx, stream, response, body) {
                    Ok(None) => self.timer.on_response_sent(now),
                    Ok(Some(rest)) => {
                        // Part of the response is unsent, so start the deadline for the client to read it.
                        self.timer.on_header_complete();
                        self.timer.on_response_start(whole);
                        let written = whole - rest.len();
                        self.timer.bytes_written(usize::try_from(written).unwrap_or(usize::MAX));
                        self.unserved = Bytes::copy_from_slice(&buffer[served..length]);
                        return Poll::Ready(PollOutcome::Unsent(rest));
                    }
                    Err(_) => return Poll::Ready(PollOutcome::Exit(Exit::Closed)),
                }
            }
            if self.is_closing.get() {
                return Poll::Ready(PollOutcome::Exit(Exit::Closed));
            }
            let mut room = ReadBuf::new(buffer);
            match Pin::new(&mut *stream).poll_read(cx, &mut room) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    length = room.filled().len();
                    since = None;
                }
                Poll::Ready(_) => return Poll::Ready(PollOutcome::Exit(Exit::Closed)),
            }
        }
    }

    /// Ends the fast path, and starts the deadline for the header of the request that `unserved` begins with.
    fn hand_over_to_hyper(&self, unserved: &[u8]) -> PollOutcome {
        self.timer.on_first_byte();
        PollOutcome::Exit(Exit::Fallback(Bytes::copy_from_slice(unserved)))
    }

    /// Lets the handler compose the response: the header into `buffer`, followed by the body if it is short.
    /// Also returns the current time. The returned body is empty if `buffer` contains it; a long one may be a
    /// copy in a file. `None` if hyper must serve the request, because the handler declines it, plain HTTP is
    /// redirected to HTTPS, or the host is the private name.
    fn compose(
        &self,
        request: &PlainRequest<'_, '_>,
        began: Instant,
        buffer: &mut Vec<u8>,
        sends_files: bool,
    ) -> Option<(ResponseBody, Instant)> {
        let Worker { server, handler, fast_path, .. } = self.worker;
        let snapshot = server.snapshot.load();
        if self.scheme == Scheme::Http && (**snapshot).as_ref().tls.redirect.is_some() {
            return None;
        }
        if server.private_name.as_ref().is_some_and(|name| name.is_named_by(request.host)) {
            return None;
        }
        let context = RequestContext { peer: self.peer, scheme: self.scheme, began };
        let mut response = PlainResponse::new(buffer, &fast_path.date, began, sends_files);
        let now = handler.respond_plain(&snapshot, context, request, &mut response)?;
        let body = match response.body {
            ResponseBody::Bytes(bytes) if sends_files && bytes.len() >= MIN_COPIED => {
                let address = Arc::as_ptr(&snapshot).addr();
                let copy = server.body_copies.find(&bytes, address, (**snapshot).as_ref().max_memory);
                copy.map_or(ResponseBody::Bytes(bytes), ResponseBody::File)
            }
            body => body,
        };
        Some((body, now))
    }

    /// Sends and flushes the rest of a response, and reports progress to the timer.
    async fn send<S: ResponseStream>(&self, stream: &mut S, mut rest: UnsentResponse) -> io::Result<()> {
        while rest.len() > 0 {
            let count = std::future::poll_fn(|cx| rest.poll_write(cx, stream)).await?;
            self.timer.bytes_written(count);
        }
        stream.flush().await
    }
}

/// The part of a response that has not been sent. It is empty if only the flush has to wait.
#[derive(Default)]
struct UnsentResponse {
    head: Bytes,
    body: ResponseBody,
}

impl UnsentResponse {
    fn len(&self) -> u64 {
        self.head.len() as u64 + self.body.len()
    }

    /// Writes as many bytes as the stream accepts, removes them from `self`, and returns their number.
    fn poll_write<S: ResponseStream>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<usize>> {
        let count = ready!(poll_write_once(cx, stream, &self.head, &self.body))?;
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        self.body.advance((count - of_head) as u64);
        Poll::Ready(Ok(count))
    }
}

/// Writes as much as the socket accepts. Returns the rest, or `None` if all has been written and flushed.
fn poll_write_response<S: ResponseStream>(
    cx: &mut Context<'_>,
    stream: &mut S,
    mut head: &[u8],
    mut body: ResponseBody,
) -> io::Result<Option<UnsentResponse>> {
    while !head.is_empty() || !body.is_empty() {
        match poll_write_once(cx, stream, head, &body) {
            Poll::Ready(Ok(count)) => {
                let of_head = count.min(head.len());
                head = &head[of_head..];
                body.advance((count - of_head) as u64);
            }
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => return Ok(Some(UnsentResponse { head: Bytes::copy_from_slice(head), body })),
        }
    }
    // TLS may have buffered part of the response, so flush it.
    match Pin::new(stream).poll_flush(cx) {
        Poll::Ready(result) => result.map(|()| None),
        Poll::Pending => Ok(Some(UnsentResponse::default())),
    }
}

/// The number of slices, the head among them, in one write of a joined body. The parts of such a body are
/// Markdown of pages, a few kilobytes each, and separators.
const SLICES: usize = 32;

/// Writes once: `head`, and as much of `body` as the stream takes; `head` or `body` must not be empty. Of a
/// joined body, that is at most [`SLICES`] - 1 parts; of a file, nothing until `head` is sent. Returns the
/// number of bytes, at least 1. Fails with `WriteZero` if the stream takes none, and with `Unsupported` for a
/// file if the stream has no socket.
fn poll_write_once<S: ResponseStream>(
    cx: &mut Context<'_>,
    stream: &mut S,
    head: &[u8],
    body: &ResponseBody,
) -> Poll<io::Result<usize>> {
    let count = ready!(match body {
        ResponseBody::Bytes(body) if body.is_empty() => Pin::new(stream).poll_write(cx, head),
        ResponseBody::Bytes(body) => {
            Pin::new(stream).poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)])
        }
        ResponseBody::Joined(parts) => {
            let mut slices = [IoSlice::new(head); SLICES];
            let mut count = 1;
            for (slice, part) in slices[1..].iter_mut().zip(parts.slices()) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            Pin::new(stream).poll_write_vectored(cx, &slices[..count])
        }
        ResponseBody::File(file) => match stream.socket() {
            Some(socket) if head.is_empty() => poll_send_file(cx, socket, file),
            Some(socket) => poll_send_before_file(cx, socket, head),
            None => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        },
    })?;
    Poll::Ready(if count == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(count) })
}
