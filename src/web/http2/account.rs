//! Estimates how much memory an HTTP/2 connection holds, and charges it to the connection.
//!
//! A request's fields and its body are charged where they are kept (`router.rs`, `body.rs`).

use std::sync::Arc;

use crate::web::memory::{Charge, cost};
use crate::web::socket::Scheme;
use crate::web::source::Slot;

/// The most that bytes from the client can keep in memory: bodies within the connection's window, and the header table (RFC 7541
/// §2.3.2). The table has room for about a hundred paths, and each is a part of the buffer of 16 KiB in which it came. An idle connection
/// was measured to keep 1.7 MB in this way.
const MOST_RECEIVED: usize = super::CONNECTION_WINDOW as usize + 100 * 16 * 1024;

/// One connection's account.
#[derive(Debug)]
pub(super) struct Account {
    charge: Charge,
    scheme: Scheme,
    /// Bytes that have arrived.
    received: usize,
    /// Requests since the connection began.
    begun: usize,
    /// Requests that are under way, now and at most.
    open: usize,
    most_open: usize,
    /// Whether a write waits for the client to read.
    is_write_pending: bool,
}

impl Account {
    pub(super) fn new(slot: &Arc<Slot>, scheme: Scheme) -> Self {
        let charge = slot.charge(cost::HTTP2);
        Self { charge, scheme, received: 0, begun: 0, open: 0, most_open: 0, is_write_pending: false }
    }

    /// Counts bytes that have arrived. They may stay in memory for as long as the connection lasts; Huffman-coded strings (RFC 7541
    /// §5.2) take more, measured up to a quarter.
    pub(super) fn received(&mut self, count: usize) {
        if self.received < MOST_RECEIVED {
            self.received = (self.received + count + count / 4).min(MOST_RECEIVED);
            self.settle();
        }
    }

    pub(super) fn request_began(&mut self) {
        self.begun += 1;
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        self.settle();
    }

    pub(super) fn request_ended(&mut self) {
        self.open -= 1;
        self.settle();
    }

    /// Whether a write waits for the client to read, or has just succeeded.
    pub(super) fn set_write_pending(&mut self, is_write_pending: bool) {
        if self.is_write_pending != is_write_pending {
            self.is_write_pending = is_write_pending;
            self.settle();
        }
    }

    fn settle(&mut self) {
        // Responses can wait in the HTTP library after their requests have ended, and it does not say how many: assume as many as can.
        let waiting = if self.is_write_pending { self.begun.min(super::CONCURRENT as usize) } else { 0 };
        let requests = self.open.max(waiting) * cost::STREAM + self.most_open * cost::STREAM_PLACE;
        let unread = if self.is_write_pending && self.scheme == Scheme::Https { cost::UNREAD_TLS } else { 0 };
        self.charge.resize(cost::HTTP2 + self.received + requests + unread);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_connection_is_charged_for_what_it_holds() {
        let slot = Arc::new(Slot::default());
        let mut account = Account::new(&slot, Scheme::Https);
        let check = |expected: usize| assert_eq!(slot.held().load(Relaxed), expected);
        check(cost::HTTP2);
        account.received(800);
        let mut base = cost::HTTP2 + 1000;
        check(base);
        for _ in 0..80 {
            account.request_began();
        }
        base += 80 * cost::STREAM_PLACE;
        check(base + 80 * cost::STREAM);
        for _ in 0..79 {
            account.request_ended();
        }
        check(base + cost::STREAM);
        // Any of the responses may wait.
        account.set_write_pending(true);
        account.set_write_pending(true);
        check(base + 80 * cost::STREAM + cost::UNREAD_TLS);
        for _ in 0..50 {
            account.request_began();
            account.request_ended();
        }
        check(base + 100 * cost::STREAM + cost::UNREAD_TLS);
        account.set_write_pending(false);
        account.request_ended();
        check(base);
        account.received(1 << 30);
        check(cost::HTTP2 + MOST_RECEIVED + 80 * cost::STREAM_PLACE);
        drop(account);
        check(0);
    }
}
