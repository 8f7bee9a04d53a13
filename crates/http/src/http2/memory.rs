//! Estimates and charges an HTTP/2 connection's memory, except for the header fields and bodies of requests
//! (`service.rs`, `request_body.rs`).

use std::sync::Arc;

use crate::connection_memory::{Charge, Slot, cost};
use crate::socket::Scheme;

/// `SETTINGS_MAX_CONCURRENT_STREAMS`; further requests are refused.
pub(super) const MAX_CONCURRENT_STREAMS: u32 = 100;

/// The flow-control window that all request bodies on a connection share, in bytes.
pub(super) const CONNECTION_WINDOW: u32 = 256 * 1024;

/// The maximum memory that received bytes can occupy: bodies within the connection's window, and the header
/// table (RFC 7541 §2.3.2). The table has room for about a hundred paths, and each stored path keeps its
/// entire 16 KiB receive buffer in memory. In one measurement, an idle connection held 1.7 MB this way.
const MAX_RECEIVED: usize = CONNECTION_WINDOW as usize + 100 * 16 * 1024;

/// The memory that one connection is estimated to hold, and its charge.
pub(super) struct ConnMemory {
    charge: Charge,
    scheme: Scheme,
    received: usize,
    /// The number of requests since the connection began.
    begun: usize,
    /// The number of requests in progress now.
    open: usize,
    most_open: usize,
    /// Whether the last write is waiting for the client to read.
    is_write_pending: bool,
}

impl ConnMemory {
    pub(super) fn new(slot: &Arc<Slot>, scheme: Scheme) -> Self {
        let charge = slot.charge(cost::HTTP2);
        Self { charge, scheme, received: 0, begun: 0, open: 0, most_open: 0, is_write_pending: false }
    }

    /// Counts bytes that have arrived. They may stay in memory until the connection ends, but no more than
    /// [`MAX_RECEIVED`] are charged. Huffman-coded strings (RFC 7541 §5.2) need up to a quarter more memory,
    /// according to measurements.
    pub(super) fn received(&mut self, count: usize) {
        if self.received < MAX_RECEIVED {
            self.received = (self.received + count + count / 4).min(MAX_RECEIVED);
            self.update_charge();
        }
    }

    /// Counts a request. After its end, its entry in the stream table stays charged, because the table keeps
    /// the size for the most simultaneous requests.
    pub(super) fn on_request_begin(&mut self) {
        self.begun += 1;
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        self.update_charge();
    }

    pub(super) fn on_request_end(&mut self) {
        self.open -= 1;
        self.update_charge();
    }

    pub(super) fn set_write_pending(&mut self, is_write_pending: bool) {
        if self.is_write_pending != is_write_pending {
            self.is_write_pending = is_write_pending;
            self.update_charge();
        }
    }

    /// Sets the charge to the estimate for the current state.
    fn update_charge(&mut self) {
        // hyper does not report how many finished requests have queued responses, so assume the maximum.
        let waiting = if self.is_write_pending { self.begun.min(MAX_CONCURRENT_STREAMS as usize) } else { 0 };
        let requests = self.open.max(waiting) * cost::STREAM + self.most_open * cost::STREAM_PLACE;
        let unread = match (self.is_write_pending, self.scheme) {
            (false, _) => 0,
            (true, Scheme::Http) => cost::UNSENT_FRAMES,
            (true, Scheme::Https) => cost::UNSENT_FRAMES + cost::UNREAD_TLS,
        };
        self.charge.resize(cost::HTTP2 + self.received + requests + unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_charged_for_its_memory() {
        let slot = Arc::new(Slot::default());
        let mut memory = ConnMemory::new(&slot, Scheme::Https);
        let check = |expected: usize| assert_eq!(slot.cost(), cost::CONNECTION + expected);
        check(cost::HTTP2);
        memory.received(800);
        let mut base = cost::HTTP2 + 1000;
        check(base);
        for _ in 0..80 {
            memory.on_request_begin();
        }
        base += 80 * cost::STREAM_PLACE;
        check(base + 80 * cost::STREAM);
        for _ in 0..79 {
            memory.on_request_end();
        }
        check(base + cost::STREAM);
        // Any of the responses may be waiting.
        memory.set_write_pending(true);
        memory.set_write_pending(true);
        check(base + 80 * cost::STREAM + cost::UNSENT_FRAMES + cost::UNREAD_TLS);
        for _ in 0..50 {
            memory.on_request_begin();
            memory.on_request_end();
        }
        check(base + 100 * cost::STREAM + cost::UNSENT_FRAMES + cost::UNREAD_TLS);
        memory.set_write_pending(false);
        memory.on_request_end();
        check(base);
        memory.received(1 << 30);
        check(cost::HTTP2 + MAX_RECEIVED + 80 * cost::STREAM_PLACE);
        drop(memory);
        check(0);
    }
}
