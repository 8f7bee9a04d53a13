//! Enforces limits on HTTP/1 and HTTP/2 connections: a stream wrapper reports the bytes that pass through,
//! and [`run_until_deadline`] ends a connection whose deadline has passed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::shutdown_phase::ShutdownPhase;

/// Maximum length of a request's header in bytes.
pub(super) const HEADER_LIMIT: usize = 16 * 1024;

/// How long idle connections accept requests during shutdown, so that requests in transit are served.
pub(super) const LAST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// Minimum rate at which a client must read a response, in bytes per second.
pub(super) const MIN_READ_RATE: u64 = 16 * 1024;

/// The progress of sending all responses since the time `began`.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendProgress {
    pub(super) began: Instant,
    /// Total length of the response bodies in bytes; on the fast path, including headers.
    pub(super) length: u64,
    /// Total number of bytes written to the stream, including headers.
    pub(super) written: u64,
}

impl SendProgress {
    pub(super) fn new(began: Instant, length: u64) -> Self {
        Self { began, length, written: 0 }
    }

    /// An estimate of the body bytes that have not been written yet. For responses through hyper, too low by
    /// the size of the headers, which count in `written` but not in `length`.
    pub(super) fn unsent(&self) -> u64 {
        self.length.saturating_sub(self.written)
    }

    /// The time by which a client that reads at [`MIN_READ_RATE`] would have read everything written so far.
    pub(super) fn earned(&self) -> Instant {
        self.began + Duration::from_secs(self.written / MIN_READ_RATE)
    }
}

/// Waits until the server stops accepting connections, or the sender of `phase` is dropped, and then for
/// another [`LAST_REQUEST_GRACE`].
pub(super) async fn wait_for_shutdown(phase: &mut watch::Receiver<ShutdownPhase>) {
    let observed = phase.clone();
    // Unconstrained, because the first poll must register the waker even if the task's budget is used up.
    let mut stopping =
        std::pin::pin!(unconstrained(phase.wait_for(|phase| *phase == ShutdownPhase::Stopping)));
    let mut last_waker = LastWaker::default();
    std::future::poll_fn(|cx| {
        // Polling takes a lock that all threads share, so do not poll for each request.
        if !last_waker.changed(cx) && observed.has_changed().is_ok_and(|has_changed| !has_changed) {
            return Poll::Pending;
        }
        stopping.as_mut().poll(cx).map(drop)
    })
    .await;
    tokio::time::sleep(LAST_REQUEST_GRACE).await;
}

/// The waker of the last poll. It stays registered, so the same waker need not be registered again.
#[derive(Debug, Default)]
struct LastWaker(Option<Waker>);

impl LastWaker {
    /// Stores the waker, and returns whether it differs from the previous one.
    fn changed(&mut self, cx: &Context<'_>) -> bool {
        let has_changed = !self.0.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if has_changed {
            self.0 = Some(cx.waker().clone());
        }
        has_changed
    }
}

/// Runs `connection` until it ends. Returns `None` when `deadline()` has passed. The deadline may change, but
/// an earlier one counts only from the next wake-up on.
pub(super) async fn run_until_deadline<F: Future>(
    deadline: impl Fn() -> Instant,
    connection: Pin<&mut F>,
) -> Option<F::Output> {
    let mut connection = connection;
    let mut last_waker = LastWaker::default();
    let mut alarm = std::pin::pin!(tokio::time::sleep_until(deadline()));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let at = deadline();
        // Resetting the alarm is expensive, so a later deadline takes effect only when the alarm fires.
        if at < alarm.deadline() {
            alarm.as_mut().reset(at);
        } else if !last_waker.changed(cx) && !alarm.is_elapsed() {
            return Poll::Pending;
        }
        // Unconstrained: even if the task's budget is used up, the alarm must be registered.
        while Pin::new(&mut unconstrained(alarm.as_mut())).poll(cx).is_ready() {
            let at = deadline();
            if at <= Instant::now() {
                return Poll::Ready(None);
            }
            alarm.as_mut().reset(at);
        }
        Poll::Pending
    })
    .await
}

/// Receives reports of what passes through an [`Observed`] stream.
pub(super) trait Observer {
    /// At least one byte was read. If this method returns an error, the read fails and the connection ends.
    fn bytes_read(&self, bytes: &[u8]) -> io::Result<()>;

    fn bytes_written(&self, count: usize);

    /// A write is blocked until the client reads more.
    fn write_pending(&self) {}
}

/// A stream that reports its reads and writes to an [`Observer`].
pub(super) struct Observed<S, O> {
    /// Bytes that were already read from the stream. Reads return them first.
    unread: Bytes,
    stream: S,
    observer: O,
}

impl<S, O: Observer> Observed<S, O> {
    pub(super) fn new(unread: Bytes, stream: S, observer: O) -> Self {
        Self { unread, stream, observer }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Reports the result of a write, unless it is an error, and returns it unchanged.
    fn report_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => self.observer.bytes_written(count),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.observer.write_pending(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin, O: Observer + Unpin> AsyncRead for Observed<S, O> {
    /// Reads the unread bytes first, then from the stream. Fails if the observer rejects the bytes.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = if this.unread.is_empty() {
            Pin::new(&mut this.stream).poll_read(cx, buffer)
        } else {
            // When `split_to` takes all bytes, `unread` gives up its buffer, which is then freed.
            buffer.put_slice(&this.unread.split_to(this.unread.len().min(buffer.remaining())));
            Poll::Ready(Ok(()))
        };
        match &buffer.filled()[before..] {
            [] => result,
            bytes => {
                this.observer.bytes_read(bytes).map_or_else(|error| Poll::Ready(Err(error)), |()| result)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, O: Observer + Unpin> AsyncWrite for Observed<S, O> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.report_write(written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.report_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
