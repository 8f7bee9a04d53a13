//! One HTTP/2 connection's deadlines: what is asked on it at the same time, each request with a deadline of its own, and how long it
//! may be quiet. No frame but a request buys time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::web::Options;
use crate::web::connection::{LAST_REQUEST, SLOWEST_READER, Sending};

/// What a connection waits for, and until when.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// The header block that is being received, by its number, and until when it must be complete.
    header: Option<(u64, Instant)>,
    exchanges: HashMap<u64, Exchange>,
    begun: u64,
    /// What is being sent, of all answers together.
    sending: Sending,
    /// Bytes that were written since the connection began.
    written: u64,
    /// Since when nothing has been asked or read.
    quiet_since: Instant,
    stopping_since: Option<Instant>,
    header_timeout: Duration,
    exchange_timeout: Duration,
    idle_timeout: Duration,
}

/// A request and its answer.
#[derive(Debug, Clone, Copy)]
enum Exchange {
    /// The answer must begin until then.
    Awaited { until: Instant },
    /// The answer is being sent: since when, how long its body is, and what the connection had written before.
    Answered { since: Instant, length: u64, written_before: u64 },
}

impl Deadlines {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        Self {
            header: None,
            exchanges: HashMap::new(),
            begun: 0,
            sending: Sending::new(now, 0),
            written: 0,
            quiet_since: now,
            stopping_since: None,
            header_timeout: options.header_timeout,
            exchange_timeout: options.exchange_timeout,
            idle_timeout: options.idle_timeout,
        }
    }

    /// The earliest of all; when it passes, the connection ends.
    pub(super) fn earliest(&self) -> Instant {
        let quiet = match self.stopping_since {
            Some(since) if self.exchanges.is_empty() => self.quiet_since.max(since) + LAST_REQUEST,
            _ => self.quiet_since + self.idle_timeout,
        };
        let until = |exchange: &Exchange| match *exchange {
            Exchange::Awaited { until } => until,
            // All answers share the connection: what was read of others meanwhile has delayed this one.
            Exchange::Answered { since, length, written_before } => {
                let read = length + self.written - written_before;
                since + self.idle_timeout + Duration::from_secs(read / SLOWEST_READER)
            }
        };
        // While the client waits for us it may be as quiet as it likes.
        let waits_for_us =
            self.exchanges.values().any(|exchange| matches!(exchange, Exchange::Awaited { .. }));
        let header = self.header.map(|(_, until)| until);
        let exchanges = self.exchanges.values().map(until);
        exchanges.chain(header).chain((!waits_for_us).then_some(quiet)).min().unwrap_or(quiet)
    }

    /// Whether nothing is under way, and no header is being received.
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges.is_empty() && self.header.is_none()
    }

    /// Whether all answers are written.
    pub(super) fn is_flushed(&self) -> bool {
        self.sending.unsent() == 0
    }

    /// A request's header is being received, the one of this number, or none.
    pub(super) fn receives_header(&mut self, block: Option<u64>, now: Instant) {
        if self.header.map(|(number, _)| number) != block {
            self.header = block.map(|number| (number, now + self.header_timeout));
        }
    }

    /// A request has come in. The number under which its exchange is known.
    pub(super) fn exchange_began(&mut self, now: Instant) -> u64 {
        self.begun += 1;
        self.exchanges.insert(self.begun, Exchange::Awaited { until: now + self.exchange_timeout });
        self.begun
    }

    /// Its answer is ready to be sent, with a body of this length.
    pub(super) fn answer_began(&mut self, exchange: u64, length: u64, now: Instant) {
        if self.sending.unsent() == 0 {
            self.sending = Sending::new(now, 0);
        }
        self.sending.length += length;
        self.quiet_since = self.quiet_since.max(now);
        let answered = Exchange::Answered { since: now, length, written_before: self.written };
        self.exchanges.insert(exchange, answered);
    }

    /// The exchange is over; so much of its answer will never be sent.
    pub(super) fn exchange_ended(&mut self, exchange: u64, unsent: u64, now: Instant) {
        self.exchanges.remove(&exchange);
        self.sending.length = self.sending.length.saturating_sub(unsent);
        self.quiet_since = self.quiet_since.max(now);
    }

    /// So many bytes were written. Progress buys time, but no more than a reader at the slowest allowed speed has earned, and only
    /// while there is an answer to be read.
    pub(super) fn written(&mut self, count: usize, now: Instant) {
        self.written += count as u64;
        if self.sending.unsent() > 0 {
            self.sending.written += count as u64;
            self.quiet_since = self.quiet_since.max(now.min(self.sending.earned()));
        }
    }

    /// The connection is to end: who asks for nothing more is not waited for.
    pub(super) fn stopping(&mut self, now: Instant) {
        self.stopping_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Deadlines of 5 s for a header, 20 s for an answer and 10 s for being quiet, and their beginning.
    fn begin() -> (Deadlines, Instant) {
        let options = Options {
            header_timeout: 5 * SECOND,
            exchange_timeout: 20 * SECOND,
            idle_timeout: 10 * SECOND,
            ..Options::default()
        };
        let now = Instant::now();
        (Deadlines::new(&options, now), now)
    }

    /// How many seconds after `start` the connection would end.
    fn check(deadlines: &Deadlines, start: Instant, expected: u64) {
        assert_eq!(deadlines.earliest() - start, Duration::from_secs(expected));
    }

    #[test]
    fn a_connection_may_be_quiet_for_so_long_since_its_last_exchange() {
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
        // Nothing is owed, so that what is written now answers no request.
        deadlines.written(17, start + 20 * SECOND);
        check(&deadlines, start, 26);
    }

    #[test]
    fn each_exchange_has_its_own_deadline() {
        let (mut deadlines, start) = begin();
        let first = deadlines.exchange_began(start);
        let second = deadlines.exchange_began(start + 5 * SECOND);
        check(&deadlines, start, 20);
        deadlines.exchange_ended(first, 0, start + 6 * SECOND);
        check(&deadlines, start, 25);
        // One that is answered again and again does not keep another alive.
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
    fn a_header_must_be_complete_in_time_and_each_has_its_own() {
        let (mut deadlines, start) = begin();
        deadlines.receives_header(Some(1), start + SECOND);
        check(&deadlines, start, 6);
        assert!(!deadlines.is_idle());
        deadlines.receives_header(Some(1), start + 3 * SECOND);
        check(&deadlines, start, 6);
        deadlines.receives_header(Some(2), start + 3 * SECOND);
        check(&deadlines, start, 8);
        deadlines.receives_header(None, start + 4 * SECOND);
        check(&deadlines, start, 10);
    }

    #[test]
    fn an_answer_must_be_read_and_not_too_slowly() {
        let answered = |length: u64| {
            let (mut deadlines, start) = begin();
            let exchange = deadlines.exchange_began(start);
            deadlines.answer_began(exchange, length, start);
            (deadlines, start)
        };
        let length = 100 * SLOWEST_READER;
        // Nothing is read at all.
        let (deadlines, start) = answered(length);
        check(&deadlines, start, 10);
        // At full speed: as long as it lasts, and no longer than it may.
        let (mut deadlines, start) = answered(length);
        for second in 1..=99 {
            deadlines.written(16 * 1024, start + second * SECOND);
        }
        check(&deadlines, start, 109);
        // At a tenth of it: each piece earns a tenth of a second.
        let (mut deadlines, start) = answered(length);
        for second in 1..=10 {
            deadlines.written(1639, start + second * SECOND);
        }
        check(&deadlines, start, 11);
        // Much at once earns no more than from now on.
        let (mut deadlines, start) = answered(length);
        deadlines.written(90 * 16 * 1024, start + SECOND);
        check(&deadlines, start, 11);
    }

    #[test]
    fn answers_that_share_a_connection_wait_for_each_other() {
        let (mut deadlines, start) = begin();
        let exchanges: Vec<u64> = (0..4).map(|_| deadlines.exchange_began(start)).collect();
        for exchange in &exchanges {
            deadlines.answer_began(*exchange, 10 * SLOWEST_READER, start);
        }
        for second in 1..=19 {
            deadlines.written(16 * 1024, start + second * SECOND);
        }
        check(&deadlines, start, 29);
        deadlines.exchange_ended(exchanges[0], 0, start + 19 * SECOND);
        // One that is not read at all, while others are, has what its own length and theirs take.
        let stalled = deadlines.exchange_began(start + 19 * SECOND);
        deadlines.answer_began(stalled, 2 * SLOWEST_READER, start + 19 * SECOND);
        deadlines.written(4 * 16 * 1024, start + 23 * SECOND);
        check(&deadlines, start, 33);
        deadlines.exchange_ended(exchanges[1], 0, start + 30 * SECOND);
        check(&deadlines, start, 35);
        deadlines.exchange_ended(stalled, 2 * SLOWEST_READER, start + 30 * SECOND);
        // Those that are given up are not waited for.
        for exchange in &exchanges[2..] {
            deadlines.exchange_ended(*exchange, 10 * SLOWEST_READER, start + 31 * SECOND);
        }
        deadlines.written(16 * 1024, start + 35 * SECOND);
        check(&deadlines, start, 41);
    }

    #[test]
    fn a_server_that_stops_waits_for_what_is_under_way_only() {
        let (mut deadlines, start) = begin();
        let exchange = deadlines.exchange_began(start);
        deadlines.stopping(start + 2 * SECOND);
        check(&deadlines, start, 20);
        deadlines.answer_began(exchange, 100, start + 3 * SECOND);
        check(&deadlines, start, 13);
        deadlines.exchange_ended(exchange, 0, start + 4 * SECOND);
        check(&deadlines, start, 5);
    }
}
