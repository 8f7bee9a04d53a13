//! One connection's deadlines. Every phase has one, so that no client can hold a connection by saying nothing, or too little.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Options;
use super::metrics::Shed;

/// A client must read at least this many bytes of an answer a second.
const SLOWEST_READER: u64 = 16 * 1024;

/// What a connection waits for, and until when. Shared by the stream, the service and the watchdog, all on one thread.
#[derive(Debug, Clone)]
pub(super) struct Clock(Rc<State>);

#[derive(Debug)]
struct State {
    phase: Cell<Phase>,
    deadline: Cell<Instant>,
    /// Whether there has been a request.
    has_asked: Cell<bool>,
    /// The answer that is being sent, or was sent last.
    answer: Cell<Sending>,
    header_timeout: Duration,
    exchange_timeout: Duration,
    idle_timeout: Duration,
}

/// When an answer was ready, how long its body is, and how many bytes have been written since.
#[derive(Debug, Clone, Copy)]
struct Sending {
    began: Instant,
    length: u64,
    written: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For the first byte of a request; what is left of the last answer is sent meanwhile.
    Waiting,
    /// For the rest of a request's header.
    Header,
    /// For the answer; the body is read meanwhile.
    Exchange,
}

impl Clock {
    pub(super) fn new(options: &Options) -> Self {
        let now = Instant::now();
        Self(Rc::new(State {
            phase: Cell::new(Phase::Waiting),
            deadline: Cell::new(now + options.first_byte_timeout),
            has_asked: Cell::new(false),
            answer: Cell::new(Sending { began: now, length: 0, written: 0 }),
            header_timeout: options.header_timeout,
            exchange_timeout: options.exchange_timeout,
            idle_timeout: options.idle_timeout,
        }))
    }

    fn set(&self, phase: Phase, deadline: Instant) {
        self.0.phase.set(phase);
        self.0.deadline.set(deadline);
    }

    fn bytes_arrived(&self) {
        if self.0.phase.get() == Phase::Waiting {
            let deadline = Instant::now() + self.0.header_timeout;
            let answer = self.0.answer.get();
            // A pipelined request must not cut short the answer before it.
            let unsent = answer.written < answer.length;
            self.set(Phase::Header, if unsent { deadline.max(self.0.deadline.get()) } else { deadline });
        }
    }

    fn bytes_left(&self, count: usize) {
        let mut answer = self.0.answer.get();
        answer.written += count as u64;
        self.0.answer.set(answer);
        if self.0.phase.get() == Phase::Waiting {
            // Progress buys time, but no more than a reader at the slowest allowed speed has earned.
            let earned = answer.began + Duration::from_secs(answer.written / SLOWEST_READER);
            self.0.deadline.set(Instant::now().min(earned) + self.0.idle_timeout);
        }
    }

    /// Passes on how a write went.
    fn noting(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.bytes_left(count);
        }
        written
    }

    /// A request's header is complete.
    pub(super) fn request_began(&self) {
        self.0.has_asked.set(true);
        self.set(Phase::Exchange, Instant::now() + self.0.exchange_timeout);
    }

    /// The answer is ready to be sent, with a body of this length.
    pub(super) fn answer_began(&self, length: u64) {
        let began = Instant::now();
        self.0.answer.set(Sending { began, length, written: 0 });
        self.set(Phase::Waiting, began + self.0.idle_timeout);
    }

    /// What a connection is closed for whose deadline is over.
    pub(super) fn overdue(&self) -> Shed {
        match self.0.phase.get() {
            Phase::Waiting if self.0.has_asked.get() => Shed::Idle,
            Phase::Waiting => Shed::FirstByte,
            Phase::Header => Shed::Header,
            Phase::Exchange => Shed::Exchange,
        }
    }

    /// Runs `connection` to its end or past its deadline; whether it ended by itself.
    pub(super) async fn watch<F: Future>(&self, connection: Pin<&mut F>) -> Option<F::Output> {
        let mut connection = connection;
        let mut alarm = std::pin::pin!(tokio::time::sleep_until(self.0.deadline.get()));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = connection.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let deadline = self.0.deadline.get();
            // The alarm is only ever moved forward when the deadline has: most requests are answered within one poll, and then
            // it stays where it is and is checked when it rings.
            if deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
            while alarm.as_mut().poll(cx).is_ready() {
                let deadline = self.0.deadline.get();
                if deadline <= Instant::now() {
                    return Poll::Ready(None);
                }
                alarm.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}

/// A stream that tells the clock when bytes arrive and leave.
#[derive(Debug)]
pub(super) struct Timed<S> {
    stream: S,
    clock: Clock,
}

impl<S> Timed<S> {
    pub(super) fn new(stream: S, clock: Clock) -> Self {
        Self { stream, clock }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.clock.bytes_arrived();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.clock.noting(Pin::new(&mut this.stream).poll_write(cx, bytes))
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
        this.clock.noting(Pin::new(&mut this.stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
