//! Counts connections, and why the server closed them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why the server refused or closed a connection that the client may still have needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// The server is at or close to its maximum number of connections.
    All,
    /// The source is at its maximum number of connections.
    Source,
    /// The network is at its maximum number of connections.
    Network,
    /// The connection was idle, and the server was close to the maximum number of connections.
    Evicted,
    /// Memory was short, and the source held the most memory.
    Memory,
    /// No file descriptor was free.
    Descriptors,
    /// The client did not send its first byte in time.
    FirstByte,
    /// The header of an HTTP/1 request was not complete in time.
    Header,
    /// No further request arrived in time, or the client read a response too slowly.
    Idle,
    /// A response was not ready in time. With HTTP/2, also: a header was not complete in time, or the client
    /// read a response too slowly.
    Exchange,
    /// The TLS handshake failed or did not complete in time.
    Handshake,
    /// The client sent too many abusive HTTP/2 frames.
    Glitches,
}

/// The metric label of each [`CloseReason`], in the order of the variants.
const CLOSE_REASONS: [&str; 12] = [
    "all",
    "source",
    "network",
    "evicted",
    "memory",
    "descriptors",
    "first_byte",
    "header",
    "idle",
    "exchange",
    "handshake",
    "glitches",
];

/// Counts the connections of a server since its start.
#[derive(Debug, Default)]
pub struct Counters {
    opened: AtomicU64,
    closed: AtomicU64,
    close_reasons: [AtomicU64; CLOSE_REASONS.len()],
}

impl Counters {
    /// How many connections were admitted.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// How many connections are open.
    pub fn open(&self) -> u64 {
        // Read `closed` first, or connections that open and close in between could make the difference
        // negative.
        let closed = self.closed.load(Relaxed);
        self.opened().saturating_sub(closed)
    }

    /// How many connections the server closed or refused, by reason. The names are used as metric labels.
    pub fn closed_by_server(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLOSE_REASONS.into_iter().zip(self.close_reasons.iter().map(|count| count.load(Relaxed)))
    }

    pub(super) fn record_close(&self, reason: CloseReason) {
        self.close_reasons[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts a connection as open until the result is dropped.
    pub(super) fn count_connection(&self) -> OpenConn<'_> {
        self.opened.fetch_add(1, Relaxed);
        OpenConn(self)
    }
}

pub(super) struct OpenConn<'a>(&'a Counters);

impl Drop for OpenConn<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_reasons_are_counted() {
        let counters = Counters::default();
        let first = counters.count_connection();
        drop(counters.count_connection());
        assert_eq!((counters.opened(), counters.open()), (2, 1));
        drop(first);
        assert_eq!((counters.opened(), counters.open()), (2, 0));
        counters.record_close(CloseReason::Header);
        counters.record_close(CloseReason::Glitches);
        let counted: Vec<_> = counters.closed_by_server().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("header", 1), ("glitches", 1)]);
    }
}
