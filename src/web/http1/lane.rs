//! The fast lane: plain requests over HTTP/1.1, answered from bytes that exist already.
//!
//! A request is plain if it is a GET or HEAD for something that is in memory, has come in one piece, and asks for no more than a look at
//! its fields (`lane/plain.rs`). Anything else ends the lane: the connection goes on in hyper's, which begins with the bytes that were read
//! so far and answers all that follows. What is answered is chosen by the same function in both (`get_page::choose`); a fuzz
//! target looks for bytes that they answer differently.
//!
//! The connections of a worker share the buffers here, because a request that has come whole is answered before anybody else is
//! looked at. So a connection that waits has no buffer at all.

mod head;
mod plain;
mod recall;

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use self::head::Heads;
use self::plain::{Lines, MOST_FIELDS, Plain};
use self::recall::Recall;
use super::Clock;
use crate::pages::file::Body;
use crate::pages::negotiate::{self, Codings, Media};
use crate::pages::path;
use crate::web::access_log::{self, Exchange};
use crate::web::connection::{HEADER_LIMIT, Observer as _};
use crate::web::get_page::{self, Asked, Choice, Form, matches_etag};
use crate::web::memory::cost;
use crate::web::request_id::{RequestId, X_REQUEST_ID};
use crate::web::router::form_at;
use crate::web::socket::{Peer, Scheme};
use crate::web::{Desk, Stage};

/// A body of at most so many bytes is copied behind its header, because handing over two pieces costs the kernel more.
const COPIED: usize = 4096;

/// What the connections of one worker share.
#[derive(Debug)]
pub(in crate::web) struct Lane {
    /// What has just been read from one of them.
    read: RefCell<Box<[u8]>>,
    /// The answer to it.
    answer: RefCell<Vec<u8>>,
    heads: RefCell<Heads>,
    accept: RefCell<Recall<Option<Media>>>,
    accept_encoding: RefCell<Recall<Codings>>,
}

impl Lane {
    pub(in crate::web) fn new() -> Self {
        Self {
            read: RefCell::new(vec![0; HEADER_LIMIT].into()),
            answer: RefCell::new(Vec::with_capacity(2 * COPIED)),
            heads: RefCell::new(Heads::new()),
            accept: RefCell::default(),
            accept_encoding: RefCell::default(),
        }
    }
}

/// How a connection has left the lane.
#[derive(Debug)]
pub(super) enum Left {
    /// It is over.
    Ended,
    /// Something has come that is not plain: these bytes, and what follows.
    ForHyper(Bytes),
}

/// One connection in the lane.
pub(super) struct Visitor<'a> {
    pub(super) desk: &'a Desk,
    pub(super) lane: &'a Lane,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) clock: &'a Clock,
    /// Changes when the server is told to end. hyper then says to each client that its answer is the connection's last.
    pub(super) stage: &'a watch::Receiver<Stage>,
    /// Whether no further request is waited for.
    pub(super) is_closing: &'a Cell<bool>,
    /// What has come of requests that are not answered yet.
    pub(super) begun: Bytes,
}

/// What ends a round of answering and reading.
enum Round {
    Left(Left),
    /// The client makes no room for the rest of an answer.
    Unsent(Chain<Bytes, Bytes>),
}

impl Visitor<'_> {
    /// Answers plain requests one after the other, until something else comes or the connection ends.
    pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut self, stream: &mut S) -> Left {
        loop {
            let left = match std::future::poll_fn(|cx| self.poll_round(cx, stream)).await {
                Round::Left(left) => left,
                Round::Unsent(rest) => {
                    let unread = if self.scheme == Scheme::Https { cost::UNREAD_TLS } else { 0 };
                    let held = self.begun.len() + rest.first_ref().len() + unread;
                    let _charge = self.clock.slot().charge(held);
                    match self.send(stream, rest).await {
                        Ok(()) => continue,
                        Err(_) => return Left::Ended,
                    }
                }
            };
            if matches!(left, Left::Ended) {
                // Whoever is gone already need not hear it.
                let _ = stream.shutdown().await;
            }
            return left;
        }
    }

    /// Answers what has come, then waits for more.
    fn poll_round<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<Round> {
        let buffer = &mut *self.lane.read.borrow_mut();
        let begun = take(&mut self.begun);
        let Some(beginning) = buffer.get_mut(..begun.len()) else {
            return Poll::Ready(Round::Left(Left::ForHyper(begun)));
        };
        beginning.copy_from_slice(&begun);
        let mut length = begun.len();
        // Looking at the clock costs, and a connection that is woken for nothing need not.
        let mut since = (length > 0).then(Instant::now);
        loop {
            let mut answered = 0;
            while answered < length {
                let unanswered = &buffer[answered..length];
                let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
                let Some(request) = plain::read(unanswered, &mut fields).filter(|_| !self.is_told_to_end())
                else {
                    return Poll::Ready(self.for_hyper(unanswered));
                };
                let answer = &mut *self.lane.answer.borrow_mut();
                answer.clear();
                let since = since.get_or_insert_with(Instant::now);
                let Some((body, now)) = self.compose(&request, *since, answer) else {
                    return Poll::Ready(self.for_hyper(unanswered));
                };
                *since = now;
                answered += request.length;
                match write(cx, stream, answer, &body) {
                    Ok(None) => self.clock.answered(now),
                    Ok(Some(rest)) => {
                        let whole = answer.len() + body.len();
                        self.clock.request_began();
                        self.clock.answer_began(whole as u64);
                        self.clock.bytes_left(whole - rest.remaining());
                        self.begun = Bytes::copy_from_slice(&buffer[answered..length]);
                        return Poll::Ready(Round::Unsent(rest));
                    }
                    Err(_) => return Poll::Ready(Round::Left(Left::Ended)),
                }
            }
            if self.is_closing.get() {
                return Poll::Ready(Round::Left(Left::Ended));
            }
            let mut room = ReadBuf::new(buffer);
            match Pin::new(&mut *stream).poll_read(cx, &mut room) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    length = room.filled().len();
                    since = None;
                }
                Poll::Ready(_) => return Poll::Ready(Round::Left(Left::Ended)),
            }
        }
    }

    /// The channel says once that all is served; whatever it has said since leads to the end.
    fn is_told_to_end(&self) -> bool {
        self.stage.has_changed().unwrap_or(true)
    }

    /// Hands over what has come.
    fn for_hyper(&self, unanswered: &[u8]) -> Round {
        self.clock.request_begins();
        Round::Left(Left::ForHyper(Bytes::copy_from_slice(unanswered)))
    }

    /// Writes the answer's header into `answer`, and its body too if that is short; returns the body if it is not, and when that
    /// was done. None if the answer is not one of those that are in memory.
    fn compose(
        &self,
        request: &Plain<'_, '_>,
        began: Instant,
        answer: &mut Vec<u8>,
    ) -> Option<(Bytes, Instant)> {
        let live = self.desk.live.load();
        if self.scheme == Scheme::Http && live.options.tls.redirect.is_some() {
            return None;
        }
        let path = path::decode(request.path).ok()?;
        if form_at(&path).is_some() {
            return None;
        }
        let wishes = Wishes { request, lane: self.lane };
        let (Choice::Send(sent), seen) = get_page::choose(&live.site, &path, true, &wishes) else {
            return None;
        };
        self.lane.heads.borrow_mut().write(answer, &sent, self.scheme, &live, began);
        let mut body = Bytes::new();
        if !request.is_head && sent.form != Form::Unmodified {
            if sent.body.bytes.len() <= COPIED {
                answer.extend_from_slice(&sent.body.bytes);
            } else {
                body = sent.body.bytes.clone();
            }
        }
        let now = Instant::now();
        let took = now - began;
        self.desk.metrics.request(seen, sent.status(), took);
        if live.options.log_requests {
            let exchange = Exchange {
                id: RequestId::of(self.peer, request.all(X_REQUEST_ID.as_str()), &live.options),
                method: if request.is_head { "HEAD" } else { "GET" },
                path: request.path,
                seen,
                status: sent.status(),
                length: if sent.form == Form::Unmodified { 0 } else { sent.body.bytes.len() as u64 },
                took,
            };
            access_log::log(&live.site, &exchange);
        }
        Some((body, now))
    }

    /// Sends the rest of an answer as fast as the client takes it.
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
            self.clock.bytes_left(count);
        }
        stream.flush().await
    }
}

/// What a plain request asks for. Most of it has been asked for before.
struct Wishes<'a> {
    request: &'a Plain<'a, 'a>,
    lane: &'a Lane,
}

impl Asked for Wishes<'_> {
    fn media(&self) -> Option<Media> {
        match self.request.accept {
            Lines::None => negotiate::choose([]),
            Lines::One(line) => self.lane.accept.borrow_mut().of(line, |line| negotiate::choose([line])),
            Lines::Many => negotiate::choose(self.request.all("accept")),
        }
    }

    fn codings(&self) -> Codings {
        match self.request.accept_encoding {
            Lines::None => Codings::default(),
            Lines::One(line) => self.lane.accept_encoding.borrow_mut().of(line, |line| Codings::read([line])),
            Lines::Many => Codings::read(self.request.all("accept-encoding")),
        }
    }

    /// A request with `If-Match` is not plain.
    fn fails_if_match(&self, _: &Body) -> bool {
        false
    }

    fn has(&self, body: &Body) -> bool {
        match self.request.if_none_match {
            Lines::None => false,
            Lines::One(line) => matches_etag(line, body.etag()),
            Lines::Many => self.request.all("if-none-match").any(|line| matches_etag(line, body.etag())),
        }
    }
}

/// Writes as much as can be written at once; returns what is left, which nothing but a client that does not read leaves.
fn write<S: AsyncWrite + Unpin>(
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
    // TLS may still hold some of it.
    match Pin::new(stream).poll_flush(cx) {
        Poll::Ready(result) => result.map(|()| None),
        Poll::Pending => Ok(Some(Bytes::new().chain(Bytes::new()))),
    }
}
