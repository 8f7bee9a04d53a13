//! The deadlines of an HTTP/2 connection: for each request, for each response, and for idle periods. Only
//! requests and progress in sending responses extend a deadline; other frames do not.

use std::time::Duration;

use tokio::time::Instant;

use crate::connection_deadline::{LAST_REQUEST_GRACE, MIN_READ_RATE, SendProgress};
use crate::options::Timeouts;

/// The state from which [`Deadlines::next_deadline`] is calculated.
pub(super) struct Deadlines {
    /// The header block that is being received: its number and its deadline.
    header: Option<(u64, Instant)>,
    /// The numbers of the requests in progress, and their phases. A search is fast enough, because there are
    /// rarely more than ten.
    exchanges: Vec<(u64, StreamPhase)>,
    /// The number of requests so far.
    begun: u64,
    /// The combined send progress of all responses.
    sending: SendProgress,
    /// The number of bytes written since the connection began.
    written: u64,
    /// The start of the idle timeout: when a response last began, a request last ended, or the client last
    /// read.
    quiet_since: Instant,
    /// When the server began to stop. After that, the connection waits only briefly for further requests.
    pub(super) stopping_since: Option<Instant>,
    timeouts: Timeouts,
}

#[derive(Debug, Clone, Copy)]
enum StreamPhase {
    /// The response must begin by `until`.
    Processing { until: Instant },
    /// The response is being sent: its start time, its length, and the bytes that were written before it.
    Responding { since: Instant, length: u64, written_before: u64 },
}

impl Deadlines {
    pub(super) fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self {
            header: None,
            exchanges: Vec::new(),
            begun: 0,
            sending: SendProgress::new(now, 0),
            written: 0,
            quiet_since: now,
            stopping_since: None,
            timeouts,
        }
    }

    /// The earliest deadline, at which the server closes the connection: that of the header that is being
    /// received, of a request in progress, or the idle timeout. The idle timeout does not apply while a
    /// response is being prepared. While the connection is being shut down without a request in progress, it
    /// is [`LAST_REQUEST_GRACE`].
    pub(super) fn next_deadline(&self) -> Instant {
        let quiet = match self.stopping_since {
            Some(since) if self.exchanges.is_empty() => self.quiet_since.max(since) + LAST_REQUEST_GRACE,
            _ => self.quiet_since + self.timeouts.idle,
        };
        let until = |(_, exchange): &(u64, StreamPhase)| match *exchange {
            StreamPhase::Processing { until } => until,
            // All responses share the connection, so allow time for the bytes of the other responses, too.
            StreamPhase::Responding { since, length, written_before } => {
                let read = length + self.written - written_before;
                since + self.timeouts.idle + Duration::from_secs(read / MIN_READ_RATE)
            }
        };
        // The idle timeout does not apply while the client is waiting for a response.
        let is_processing =
            self.exchanges.iter().any(|(_, exchange)| matches!(exchange, StreamPhase::Processing { .. }));
        let header = self.header.map(|(_, until)| until);
        let exchanges = self.exchanges.iter().map(until);
        exchanges.chain(header).chain((!is_processing).then_some(quiet)).min().unwrap_or(quiet)
    }

    /// Whether no request is in progress and no header is being received.
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges.is_empty() && self.header.is_none()
    }

    /// Whether all responses have been written, estimated from their lengths.
    pub(super) fn is_flushed(&self) -> bool {
        self.sending.unsent() == 0
    }

    /// Sets the number of the header block that is being received, if there is one. A new block gets a
    /// deadline.
    pub(super) fn set_open_block(&mut self, block: Option<u64>, now: Instant) {
        if self.header.map(|(number, _)| number) != block {
            self.header = block.map(|number| (number, now + self.timeouts.header));
        }
    }

    /// Starts the deadline for the response to a new request. Returns the number of the request.
    pub(super) fn exchange_began(&mut self, now: Instant) -> u64 {
        self.begun += 1;
        self.exchanges.push((self.begun, StreamPhase::Processing { until: now + self.timeouts.exchange }));
        self.begun
    }

    /// Records that the response to the request with the number `exchange` is ready, with a body of `length`
    /// bytes, and starts the deadline for reading it.
    pub(super) fn answer_began(&mut self, exchange: u64, length: u64, now: Instant) {
        if self.sending.unsent() == 0 {
            self.sending = SendProgress::new(now, 0);
        }
        self.sending.length += length;
        self.quiet_since = self.quiet_since.max(now);
        let answered = StreamPhase::Responding { since: now, length, written_before: self.written };
        if let Some((_, phase)) = self.exchanges.iter_mut().find(|(number, _)| *number == exchange) {
            *phase = answered;
        }
    }

    /// Records the end of a request. `unsent` is the number of response bytes that will never be sent.
    pub(super) fn exchange_ended(&mut self, exchange: u64, unsent: u64, now: Instant) {
        self.exchanges.retain(|(number, _)| *number != exchange);
        self.sending.length = self.sending.length.saturating_sub(unsent);
        self.quiet_since = self.quiet_since.max(now);
    }

    /// Records written bytes. While a response is being sent, they extend the deadline, but no further than
    /// for a client that reads at the minimum rate.
    pub(super) fn written(&mut self, count: usize, now: Instant) {
        self.written += count as u64;
        if self.sending.unsent() > 0 {
            self.sending.written += count as u64;
            self.quiet_since = self.quiet_since.max(now.min(self.sending.earned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Deadlines with timeouts of 5 s for a header, 20 s for a response and 10 s for an idle connection, and
    /// their start time.
    fn begin() -> (Deadlines, Instant) {
        let (first_byte, header, exchange, idle) = (SECOND, 5 * SECOND, 20 * SECOND, 10 * SECOND);
        let timeouts = Timeouts { first_byte, header, body: SECOND, idle, exchange };
        let now = Instant::now();
        (Deadlines::new(timeouts, now), now)
    }

    /// Checks that the connection would be closed `expected` seconds after `start`.
    fn check(deadlines: &Deadlines, start: Instant, expected: u64) {
        assert_eq!(deadlines.next_deadline() - start, Duration::from_secs(expected));
    }

    #[test]
    fn the_idle_timeout_begins_after_the_last_response() {
        let (mut deadlines, start) = begin();
        check(&deadlines, start, 10);
        assert!(deadlines.is_idle());
        let exchange = deadlines.exchange_began(start + 4 * SECOND);
        assert!(!deadlines.is_idle());
        check(&deadlines, start, 24);
        deadlines.answer_began(exchange, 0, start + 15 * SECOND);
        check(&deadlines, start, 25);
        deadlines.exchange_ended(exchange, 0, start + 16 * SECOND);
        check(&deadlines, start, 26);
        // No response is being sent, so written bytes extend nothing.
        deadlines.written(17, start + 20 * SECOND);
        check(&deadlines, start, 26);
    }

    #[test]
    fn each_request_has_its_own_deadline() {
        let (mut deadlines, start) = begin();
        let first = deadlines.exchange_began(start);
        let second = deadlines.exchange_began(start + 5 * SECOND);
        check(&deadlines, start, 20);
        deadlines.exchange_ended(first, 0, start + 6 * SECOND);
        check(&deadlines, start, 25);
        // Completed requests do not extend the deadline of another request.
        for second in 6..25 {
            let now = start + second * SECOND;
            let other = deadlines.exchange_began(now);
            deadlines.answer_began(other, 1000, now);
            deadlines.written(1000, now);
            deadlines.exchange_ended(other, 0, now);
        }
        check(&deadlines, start, 25);
        deadlines.exchange_ended(second, 0, start + 25 * SECOND);
        check(&deadlines, start, 35);
    }

    #[test]
    fn each_header_has_its_own_deadline() {
        let (mut deadlines, start) = begin();
        deadlines.set_open_block(Some(1), start + SECOND);
        check(&deadlines, start, 6);
        assert!(!deadlines.is_idle());
        deadlines.set_open_block(Some(1), start + 3 * SECOND);
        check(&deadlines, start, 6);
        deadlines.set_open_block(Some(2), start + 3 * SECOND);
        check(&deadlines, start, 8);
        deadlines.set_open_block(None, start + 4 * SECOND);
        check(&deadlines, start, 10);
    }

    #[test]
    fn a_response_must_be_read_fast_enough() {
        let answered = |length: u64| {
            let (mut deadlines, start) = begin();
            let exchange = deadlines.exchange_began(start);
            deadlines.answer_began(exchange, length, start);
            (deadlines, start)
        };
        let length = 100 * MIN_READ_RATE;
        // The client reads nothing.
        let (deadlines, start) = answered(length);
        check(&deadlines, start, 10);
        // The client reads at the minimum rate, so the deadline keeps moving.
        let (mut deadlines, start) = answered(length);
        for second in 1..=99 {
            deadlines.written(16 * 1024, start + second * SECOND);
        }
        check(&deadlines, start, 109);
        // The client reads at a tenth of that rate: each write extends the deadline by a tenth of a second.
        let (mut deadlines, start) = answered(length);
        for second in 1..=10 {
            deadlines.written(1639, start + second * SECOND);
        }
        check(&deadlines, start, 11);
        // After a burst, the idle timeout begins at the time of the burst, no later.
        let (mut deadlines, start) = answered(length);
        deadlines.written(90 * 16 * 1024, start + SECOND);
        check(&deadlines, start, 11);
    }

    #[test]
    fn concurrent_responses_delay_each_other() {
        let (mut deadlines, start) = begin();
        let exchanges: Vec<u64> = (0..4).map(|_| deadlines.exchange_began(start)).collect();
        for exchange in &exchanges {
            deadlines.answer_began(*exchange, 10 * MIN_READ_RATE, start);
        }
        for second in 1..=19 {
            deadlines.written(16 * 1024, start + second * SECOND);
        }
        check(&deadlines, start, 29);
        deadlines.exchange_ended(exchanges[0], 0, start + 19 * SECOND);
        // A stalled response is given time for its own length and for the bytes of the other responses.
        let stalled = deadlines.exchange_began(start + 19 * SECOND);
        deadlines.answer_began(stalled, 2 * MIN_READ_RATE, start + 19 * SECOND);
        deadlines.written(4 * 16 * 1024, start + 23 * SECOND);
        check(&deadlines, start, 33);
        deadlines.exchange_ended(exchanges[1], 0, start + 30 * SECOND);
        check(&deadlines, start, 35);
        deadlines.exchange_ended(stalled, 2 * MIN_READ_RATE, start + 30 * SECOND);
        // The connection does not wait for canceled requests.
        for exchange in &exchanges[2..] {
            deadlines.exchange_ended(*exchange, 10 * MIN_READ_RATE, start + 31 * SECOND);
        }
        deadlines.written(16 * 1024, start + 35 * SECOND);
        check(&deadlines, start, 41);
    }

    #[test]
    fn a_stopping_server_waits_for_open_requests_only() {
        let (mut deadlines, start) = begin();
        let exchange = deadlines.exchange_began(start);
        deadlines.stopping_since = Some(start + 2 * SECOND);
        check(&deadlines, start, 20);
        deadlines.answer_began(exchange, 100, start + 3 * SECOND);
        check(&deadlines, start, 13);
        deadlines.exchange_ended(exchange, 0, start + 4 * SECOND);
        check(&deadlines, start, 5);
    }
}
