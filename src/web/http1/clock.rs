//! One HTTP/1 connection's deadlines. Every phase has one, so that no client can hold a connection by saying nothing, or too little.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::web::Options;
use crate::web::connection::{Observer, Sending};
use crate::web::metrics::Shed;
use crate::web::source::{Closing, Slot};

/// What a connection waits for, and until when. Shared by the stream, the service and the watchdog, all on one thread.
#[derive(Debug, Clone)]
pub(in crate::web) struct Clock(Rc<State>);

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
    slot: Arc<Slot>,
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
    pub(in crate::web) fn new(options: &Options, slot: Arc<Slot>) -> Self {
        let now = Instant::now();
        Self(Rc::new(State {
            phase: Cell::new(Phase::Waiting),
            deadline: Cell::new(now + options.first_byte_timeout),
            has_asked: Cell::new(false),
            answer: Cell::new(Sending::new(now, 0)),
            header_timeout: options.header_timeout,
            exchange_timeout: options.exchange_timeout,
            idle_timeout: options.idle_timeout,
            slot,
        }))
    }

    /// The slot of the connection, which other threads read.
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.0.slot
    }

    /// The deadline of what the connection is doing now; in the past if the server is closing it.
    pub(in crate::web) fn deadline(&self) -> Instant {
        if self.must_close().is_some() { self.0.answer.get().began } else { self.0.deadline.get() }
    }

    /// Why the server closes the connection now, if it does. One that is closed when idle may finish a request that is under way and an
    /// answer that is still being sent.
    fn must_close(&self) -> Option<Shed> {
        match self.0.slot.closing()? {
            Closing::Now => Some(Shed::Memory),
            Closing::WhenIdle => self.is_idle().then_some(Shed::Evicted),
        }
    }

    fn is_idle(&self) -> bool {
        self.0.phase.get() == Phase::Waiting && self.0.answer.get().unsent() == 0
    }

    /// What a connection is closed for whose deadline is over.
    pub(in crate::web) fn overdue(&self) -> Shed {
        if let Some(reason) = self.must_close() {
            return reason;
        }
        match self.0.phase.get() {
            Phase::Waiting if self.0.has_asked.get() => Shed::Idle,
            Phase::Waiting => Shed::FirstByte,
            Phase::Header => Shed::Header,
            Phase::Exchange => Shed::Exchange,
        }
    }

    fn set(&self, phase: Phase, deadline: Instant) {
        self.0.phase.set(phase);
        self.0.deadline.set(deadline);
    }

    /// Something has come of a request.
    pub(super) fn request_begins(&self) {
        if self.0.phase.get() == Phase::Waiting {
            let deadline = Instant::now() + self.0.header_timeout;
            // A pipelined request must not cut short the answer before it.
            let unsent = self.0.answer.get().unsent() > 0;
            self.set(Phase::Header, if unsent { deadline.max(self.0.deadline.get()) } else { deadline });
        }
    }

    /// A request that had come whole has been answered at `now`, and the answer is sent.
    pub(super) fn answered(&self, now: Instant) {
        self.0.has_asked.set(true);
        self.0.answer.set(Sending::new(now, 0));
        self.set(Phase::Waiting, now + self.0.idle_timeout);
    }

    /// A request's header is complete.
    pub(super) fn request_began(&self) {
        self.0.has_asked.set(true);
        self.set(Phase::Exchange, Instant::now() + self.0.exchange_timeout);
    }

    /// The answer is ready to be sent, with a body of this length.
    pub(super) fn answer_began(&self, length: u64) {
        let began = Instant::now();
        self.0.answer.set(Sending::new(began, length));
        self.set(Phase::Waiting, began + self.0.idle_timeout);
    }
}

impl Observer for Clock {
    fn bytes_arrived(&self, _: &[u8]) -> io::Result<()> {
        self.request_begins();
        Ok(())
    }

    fn bytes_left(&self, count: usize) {
        let mut answer = self.0.answer.get();
        answer.written += count as u64;
        self.0.answer.set(answer);
        if self.0.phase.get() == Phase::Waiting {
            // Progress buys time, but no more than a reader at the slowest allowed speed has earned.
            self.0.deadline.set(Instant::now().min(answer.earned()) + self.0.idle_timeout);
        }
    }
}
