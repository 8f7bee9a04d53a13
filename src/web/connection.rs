//! What holds a connection to its bounds, whatever is spoken on it: a stream that is watched, and a deadline that is enforced.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::Stage;

/// A request's header may be this long, in bytes.
pub(super) const HEADER_LIMIT: usize = 16 * 1024;

/// When the server stops, a connection that waits for a request may still bring one for so long: who has just sent it must not find
/// the connection closed.
pub(super) const LAST_REQUEST: Duration = Duration::from_secs(1);

/// A client must read at least this many bytes of an answer a second.
pub(super) const SLOWEST_READER: u64 = 16 * 1024;

/// When answers began to be sent, how long their bodies are, and how many bytes have been written since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    pub(super) began: Instant,
    pub(super) length: u64,
    pub(super) written: u64,
}

impl Sending {
    pub(super) fn new(began: Instant, length: u64) -> Self {
        Self { began, length, written: 0 }
    }

    /// Bytes that are still to be written, as far as can be told from outside of HTTP's framing.
    pub(super) fn unsent(&self) -> u64 {
        self.length.saturating_sub(self.written)
    }

    /// Until when a reader at the slowest allowed speed would have been busy with what has been written.
    pub(super) fn earned(&self) -> Instant {
        self.began + Duration::from_secs(self.written / SLOWEST_READER)
    }
}

/// Returns when the server lets nobody in any more, and [`LAST_REQUEST`] is over.
pub(super) async fn last_request(stage: &mut watch::Receiver<Stage>) {
    let observed = stage.clone();
    // It must have been asked once, even where others have used up the task's turn.
    let mut told = std::pin::pin!(unconstrained(stage.wait_for(|stage| *stage == Stage::Stopping)));
    let mut asked = Asked::default();
    std::future::poll_fn(|cx| {
        // To ask takes a lock that all threads share, for each request that wakes a connection.
        if !asked.is_new(cx) && observed.has_changed().is_ok_and(|has_changed| !has_changed) {
            return Poll::Pending;
        }
        told.as_mut().poll(cx).map(drop)
    })
    .await;
    tokio::time::sleep(LAST_REQUEST).await;
}

/// Who is to be woken by something that waits for long, and need not be told again each time he is woken by something else.
#[derive(Debug, Default)]
struct Asked(Option<Waker>);

impl Asked {
    /// Whether it is somebody else than the last time.
    fn is_new(&mut self, cx: &Context<'_>) -> bool {
        let is_new = !self.0.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_new {
            self.0 = Some(cx.waker().clone());
        }
        is_new
    }
}

/// Runs `connection` to its end or past its deadline, which may move meanwhile; none if the deadline has passed.
pub(super) async fn keep_watch<F: Future>(
    deadline: impl Fn() -> Instant,
    connection: Pin<&mut F>,
) -> Option<F::Output> {
    let mut connection = connection;
    let mut asked = Asked::default();
    let mut alarm = std::pin::pin!(tokio::time::sleep_until(deadline()));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let at = deadline();
        // The alarm is only ever moved forward when the deadline has: most requests are answered within one poll, and then
        // it stays where it is and is checked when it rings.
        if at < alarm.deadline() {
            alarm.as_mut().reset(at);
        } else if !asked.is_new(cx) && !alarm.is_elapsed() {
            return Poll::Pending;
        }
        // Likewise: an alarm that puts off being set because the task has had its turn would never ring.
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

/// Who is told what passes through a stream.
pub(super) trait Observer {
    /// These bytes have arrived, at least one. An error is one of the stream, and ends the connection.
    fn bytes_arrived(&self, bytes: &[u8]) -> io::Result<()>;

    /// So many bytes have left.
    fn bytes_left(&self, count: usize);

    /// A write waits for the client to read.
    fn write_pending(&self) {}
}

/// A stream whose observer is told what arrives and leaves.
#[derive(Debug)]
pub(super) struct Observed<S, O> {
    stream: S,
    observer: O,
}

impl<S, O: Observer> Observed<S, O> {
    pub(super) fn new(stream: S, observer: O) -> Self {
        Self { stream, observer }
    }

    /// The stream, which nobody observes any more.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Passes on how a write went.
    fn noting(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => self.observer.bytes_left(count),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.observer.write_pending(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin, O: Observer + Unpin> AsyncRead for Observed<S, O> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buffer);
        match &buffer.filled()[before..] {
            [] => result,
            bytes => {
                this.observer.bytes_arrived(bytes).map_or_else(|error| Poll::Ready(Err(error)), |()| result)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, O: Observer + Unpin> AsyncWrite for Observed<S, O> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.noting(written)
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
        this.noting(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
