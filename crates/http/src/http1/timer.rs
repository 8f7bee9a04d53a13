//! The deadlines of an HTTP/1 connection: one for each phase, so that slow clients cannot keep it open.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::Instant;

use crate::connection_deadline::{Observer, SendProgress};
use crate::connection_memory::{Closing, Slot};
use crate::counters::CloseReason;
use crate::options::Timeouts;

/// The phase of a connection and its deadline, which the stream, the service and `run_until_deadline` share
/// on one thread.
pub(crate) struct ConnTimer {
    phase: Cell<RequestPhase>,
    deadline: Cell<Instant>,
    has_had_request: Cell<bool>,
    /// How much of the current response has been sent; between responses, how much of the last one.
    response: Cell<SendProgress>,
    timeouts: Timeouts,
    pub(crate) slot: Arc<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestPhase {
    /// Waiting for the first byte of a request. The previous response may not have been sent completely yet.
    Waiting,
    /// Reading the rest of a request's header.
    Header,
    /// Reading the body of the request, and preparing the response.
    Exchange,
}

impl ConnTimer {
    /// Starts with the deadline for the first byte of the first request.
    pub(crate) fn new(timeouts: Timeouts, slot: Arc<Slot>) -> Rc<Self> {
        let now = Instant::now();
        Rc::new(Self {
            phase: Cell::new(RequestPhase::Waiting),
            deadline: Cell::new(now + timeouts.first_byte),
            has_had_request: Cell::new(false),
            response: Cell::new(SendProgress::new(now, 0)),
            timeouts,
            slot,
        })
    }

    /// The deadline of the current phase; a time in the past if the server must close the connection now.
    pub(crate) fn deadline(&self) -> Instant {
        if self.must_close().is_some() { self.response.get().began } else { self.deadline.get() }
    }

    /// Why the server must close the connection now; `None` if the connection may stay open. With
    /// [`Closing::WhenIdle`], the request in progress and its response are completed first.
    fn must_close(&self) -> Option<CloseReason> {
        match self.slot.closing()? {
            Closing::Now => Some(CloseReason::Memory),
            Closing::WhenIdle => {
                let is_idle = self.phase.get() == RequestPhase::Waiting && self.response.get().unsent() == 0;
                is_idle.then_some(CloseReason::Evicted)
            }
        }
    }

    /// Why a connection whose deadline has passed is closed.
    pub(crate) fn close_reason(&self) -> CloseReason {
        if let Some(reason) = self.must_close() {
            return reason;
        }
        match self.phase.get() {
            RequestPhase::Waiting if self.has_had_request.get() => CloseReason::Idle,
            RequestPhase::Waiting => CloseReason::FirstByte,
            RequestPhase::Header => CloseReason::Header,
            RequestPhase::Exchange => CloseReason::Exchange,
        }
    }

    fn set(&self, phase: RequestPhase, deadline: Instant) {
        self.phase.set(phase);
        self.deadline.set(deadline);
    }

    /// Starts the deadline for a request's header. Has no effect between the first byte of a request and the
    /// start of its response.
    pub(crate) fn on_first_byte(&self) {
        if self.phase.get() == RequestPhase::Waiting {
            let deadline = Instant::now() + self.timeouts.header;
            // A pipelined request must not shorten the deadline of the response before it.
            let unsent = self.response.get().unsent() > 0;
            self.set(RequestPhase::Header, if unsent { deadline.max(self.deadline.get()) } else { deadline });
        }
    }

    /// Records that a response has been sent completely, and starts the idle timeout.
    pub(crate) fn on_response_sent(&self, now: Instant) {
        self.has_had_request.set(true);
        self.response.set(SendProgress::new(now, 0));
        self.set(RequestPhase::Waiting, now + self.timeouts.idle);
    }

    /// Starts the deadline for the beginning of the response.
    pub(crate) fn on_header_complete(&self) {
        self.has_had_request.set(true);
        self.set(RequestPhase::Exchange, Instant::now() + self.timeouts.exchange);
    }

    /// Records that the server begins to send a response, and starts the timeout within which the client must
    /// read. `length` is that of the body; on the fast path, that of the whole response.
    pub(crate) fn on_response_start(&self, length: u64) {
        let began = Instant::now();
        self.response.set(SendProgress::new(began, length));
        self.set(RequestPhase::Waiting, began + self.timeouts.idle);
    }
}

impl Observer for Rc<ConnTimer> {
    fn bytes_read(&self, _: &[u8]) -> io::Result<()> {
        self.on_first_byte();
        Ok(())
    }

    /// Counts the bytes as progress in sending the response, which extends the deadline, but no further
    /// than for a client that reads at the minimum rate. It does not if a further request has arrived.
    fn bytes_written(&self, count: usize) {
        let mut response = self.response.get();
        response.written += count as u64;
        self.response.set(response);
        if self.phase.get() == RequestPhase::Waiting {
            // Progress extends the deadline, but no further than for a client that reads at the minimum rate.
            self.deadline.set(Instant::now().min(response.earned()) + self.timeouts.idle);
        }
    }
}
