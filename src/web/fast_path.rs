//! The fast path: serves plain HTTP/1.1 requests without the HTTP library.
//!
//! A request is plain if it is a GET or HEAD for a representation in memory, arrives in one piece, and has no
//! header that needs special handling (`fast_path/plain_request.rs`). On any other request, the connection
//! falls back to hyper, which gets the unserved bytes and serves all further requests. On both paths,
//! responses come from `get_page::choose` and `Selection::head`, and a fuzz target compares them.
//!
//! The connections of a worker can share one set of buffers, because each request that has arrived is served
//! before another connection is polled. Idle connections therefore need no buffers.

mod header_writer;
mod plain_request;

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http::Method;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use self::header_writer::HeaderWriter;
use self::plain_request::{FieldLines, MAX_FIELDS, PlainRequest};
use super::access_log::{self, ServedRequest};
use super::confirm::is_link;
use super::connection::{HEADER_LIMIT, Observer as _};
use super::get_page::{self, Choice, RequestPreferences, matches_etag};
use super::http1::timer::ConnTimer;
use super::page_views::PageView;
use super::preferences::PreferenceCache;
use super::range::ByteRange;
use super::request_id::{RequestId, X_REQUEST_ID};
use super::slot::cost;
use super::socket::{Peer, Scheme};
use super::state::{AppState, ShutdownPhase};
use frontdesk_forms::Form;
use frontdesk_site::file::EncodedBody;
use frontdesk_site::negotiate::{self, Codings, Media};
use frontdesk_site::path;

/// Maximum length in bytes of a body that is copied into the buffer after its header. Longer bodies are
/// written as a second slice, which costs the kernel more than copying a short body.
const MAX_COPIED: usize = 4096;

/// Buffers and caches that the connections of one worker share.
pub(super) struct FastPath {
    /// The bytes that were just read from a connection.
    request: RefCell<Box<[u8]>>,
    response: RefCell<Vec<u8>>,
    headers: RefCell<HeaderWriter>,
}

impl FastPath {
    pub(super) fn new() -> Self {
        Self {
            request: RefCell::new(vec![0; HEADER_LIMIT].into()),
            response: RefCell::new(Vec::with_capacity(2 * MAX_COPIED)),
            headers: RefCell::new(HeaderWriter::new()),
        }
    }
}

/// Why the fast path no longer serves a connection.
pub(super) enum Exit {
    Closed,
    /// hyper must serve the requests that begin with these bytes.
    Fallback(Bytes),
}

pub(super) struct FastPathConn<'a> {
    pub(super) app: &'a AppState,
    pub(super) fast_path: &'a FastPath,
    pub(super) preferences: &'a PreferenceCache,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) timer: &'a Rc<ConnTimer>,
    /// hyper takes over when shutdown begins: only its responses announce the end of the connection.
    pub(super) phase: &'a watch::Receiver<ShutdownPhase>,
    /// Whether to close the connection after serving the requests that have arrived.
    pub(super) is_closing: &'a Cell<bool>,
    /// Bytes that have arrived but have not been served.
    pub(super) unserved: Bytes,
}

enum PollOutcome {
    Exit(Exit),
    /// The socket's buffer is full; this part of a response has not been sent yet.
    Unsent(Chain<Bytes, Bytes>),
    /// The connection has sent as many responses as one turn allows.
    TurnEnded,
}

/// The maximum number of responses that a connection sends per turn, so that pipelining clients do not make
/// others wait.
const RESPONSES_PER_TURN: u32 = 8;

impl FastPathConn<'_> {
    /// Serves plain requests until a request arrives that is not plain, or the connection ends.
    pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut self, stream: &mut S) -> Exit {
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
                    let held = self.unserved.len() + rest.first_ref().len() + unread;
                    let _charge = self.timer.slot.charge(held);
                    if self.send(stream, rest).await.is_err() {
                        return Exit::Closed;
                    }
                }
            }
        }
    }

    /// Serves the requests that have arrived, then reads more.
    fn poll_requests<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<PollOutcome> {
        let buffer = &mut *self.fast_path.request.borrow_mut();
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
                let response = &mut *self.fast_path.response.borrow_mut();
                response.clear();
                let since = since.get_or_insert_with(Instant::now);
                let Some((body, now)) = self.compose(&request, *since, response) else {
                    return Poll::Ready(self.hand_over_to_hyper(unserved));
                };
                *since = now;
                served += request.length;
                match poll_write_response(cx, stream, response, &body) {
                    Ok(None) => self.timer.on_response_sent(now),
                    Ok(Some(rest)) => {
                        let whole = response.len() + body.len();
                        self.timer.on_header_complete();
                        self.timer.on_response_start(whole as u64);
                        self.timer.bytes_written(whole - rest.remaining());
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

    fn hand_over_to_hyper(&self, unserved: &[u8]) -> PollOutcome {
        self.timer.on_first_byte();
        PollOutcome::Exit(Exit::Fallback(Bytes::copy_from_slice(unserved)))
    }

    /// Writes the header into `response`, followed by the body if it is short. Returns the body if it is long
    /// (otherwise, no bytes) and the current time, or `None` if hyper must serve the request.
    fn compose(
        &self,
        request: &PlainRequest<'_, '_>,
        began: Instant,
        response: &mut Vec<u8>,
    ) -> Option<(Bytes, Instant)> {
        let snapshot = self.app.snapshot.load();
        if self.scheme == Scheme::Http && snapshot.options.tls.redirect.is_some() {
            return None;
        }
        let path = path::decode(request.path).ok()?;
        if Form::at(&path).is_some() || is_link(&path) {
            return None;
        }
        let preferences = PlainPreferences { request, cache: self.preferences };
        let method = if request.is_head { &Method::HEAD } else { &Method::GET };
        let (Choice::Send(selection), labels) =
            get_page::choose(&snapshot.site, &path, request.query, method, &preferences)
        else {
            return None;
        };
        self.fast_path.headers.borrow_mut().write(response, &selection, self.scheme, &snapshot, began);
        let content_length = selection.content_length();
        let mut body = Bytes::new();
        if !request.is_head && content_length.is_some() {
            if selection.body.bytes.len() <= MAX_COPIED {
                response.extend_from_slice(&selection.body.bytes);
            } else {
                body = selection.body.bytes.clone();
            }
        }
        if let Some(page) = selection.viewed_page(snapshot.options.count_views && !request.is_head)
            && !request.is_prefetch
        {
            self.app.page_views.record(&PageView {
                page,
                representation: labels.representation,
                user_agent: request.user_agent,
                referer: request.referer,
                host: request.host,
                base_url: &snapshot.site.base_url,
            });
        }
        let now = Instant::now();
        let served = ServedRequest {
            method: method.as_str(),
            path: request.path,
            labels,
            status: selection.status(),
            length: content_length.unwrap_or_default() as u64,
            took: now - began,
        };
        access_log::record(self.app, &snapshot, &served, || {
            let proxies = &snapshot.options.trusted_proxies;
            RequestId::from_proxy_or_new(self.peer, request.values_of(X_REQUEST_ID.as_str()), proxies)
        });
        Some((body, now))
    }

    async fn send<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        mut rest: Chain<Bytes, Bytes>,
    ) -> io::Result<()> {
        while rest.has_remaining() {
            let count = stream.write_buf(&mut rest).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.timer.bytes_written(count);
        }
        stream.flush().await
    }
}

/// The preferences of a plain request. Most header values are found in the cache.
struct PlainPreferences<'a> {
    request: &'a PlainRequest<'a, 'a>,
    cache: &'a PreferenceCache,
}

impl RequestPreferences for PlainPreferences<'_> {
    fn media(&self) -> Option<Media> {
        match self.request.accept {
            FieldLines::None => negotiate::choose([]),
            FieldLines::One(line) => self.cache.media(line),
            FieldLines::Many => negotiate::choose(self.request.values_of("accept")),
        }
    }

    fn codings(&self) -> Codings {
        match self.request.accept_encoding {
            FieldLines::None => Codings::default(),
            FieldLines::One(line) => self.cache.codings(line),
            FieldLines::Many => Codings::parse(self.request.values_of("accept-encoding")),
        }
    }

    /// Always false, because requests with `If-Match` are not plain.
    fn fails_if_match(&self, _: &EncodedBody) -> bool {
        false
    }

    fn matches_if_none_match(&self, body: &EncodedBody) -> bool {
        match self.request.if_none_match {
            FieldLines::None => false,
            FieldLines::One(line) => matches_etag(line, body.etag()),
            FieldLines::Many => {
                self.request.values_of("if-none-match").any(|line| matches_etag(line, body.etag()))
            }
        }
    }

    /// Always `None`, because requests with `Range` are not plain.
    fn range(&self) -> Option<ByteRange> {
        None
    }

    /// Always false, because `If-Range` only matters with `Range`.
    fn fails_if_range(&self, _: &EncodedBody) -> bool {
        false
    }
}

/// Writes as much as the socket accepts. Returns the rest, or `None` if all has been written and flushed.
fn poll_write_response<S: AsyncWrite + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut S,
    head: &[u8],
    body: &Bytes,
) -> io::Result<Option<Chain<Bytes, Bytes>>> {
    let mut written = 0;
    while written < head.len() + body.len() {
        let left = &head[written.min(head.len())..];
        let stream = Pin::new(&mut *stream);
        let count = if body.is_empty() {
            stream.poll_write(cx, left)
        } else {
            let body = &body[written.saturating_sub(head.len())..];
            stream.poll_write_vectored(cx, &[IoSlice::new(left), IoSlice::new(body)])
        };
        match count {
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(count)) => written += count,
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => {
                let body = body.slice(written.saturating_sub(head.len())..);
                return Ok(Some(Bytes::copy_from_slice(left).chain(body)));
            }
        }
    }
    // TLS may have buffered part of the response, so flush it.
    match Pin::new(stream).poll_flush(cx) {
        Poll::Ready(result) => result.map(|()| None),
        Poll::Pending => Ok(Some(Bytes::new().chain(Bytes::new()))),
    }
}
