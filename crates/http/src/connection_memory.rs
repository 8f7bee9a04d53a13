//! A connection's slot: how much memory the connection holds, and whether the server wants to close it.
//!
//! Code that holds memory for a client charges it to the slot ([`Slot::charge`]), and drops the charge and
//! the memory together.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use http::HeaderMap;

/// The memory that each part of a connection takes, in bytes: measured values, rounded up.
pub(super) mod cost {
    /// The memory of any connection: its task, its socket and its slot.
    pub(crate) const CONNECTION: usize = 6 * 1024;
    /// A TLS handshake: 64 KiB (the longest message that rustls accepts) may arrive before the handshake is
    /// complete.
    pub(crate) const HANDSHAKE: usize = 64 * 1024;
    /// The memory of a TLS session, excluding bytes that are waiting to be sent.
    pub(crate) const TLS: usize = 16 * 1024;
    /// The memory of encrypted bytes for a client that does not read: the limit of rustls's buffer.
    pub(crate) const UNREAD_TLS: usize = 64 * 1024;
    /// The memory of an HTTP/1 connection that hyper serves: buffers that include a request's header.
    pub(crate) const HTTP1: usize = 32 * 1024;
    /// The memory of an HTTP/2 connection before its first request: buffers and header tables.
    pub(crate) const HTTP2: usize = 16 * 1024;
    /// The memory of HTTP/2 frames for a client that does not read: the size of the write buffer.
    pub(crate) const UNSENT_FRAMES: usize = 64 * 1024;
    /// The memory of an HTTP/2 request in progress, or of a response that waits for the client to read.
    pub(crate) const STREAM: usize = 5 * 1024;
    /// The memory of an entry in the stream table, which does not shrink after many simultaneous requests.
    pub(crate) const STREAM_PLACE: usize = 1024;
    /// The memory of a header field, excluding its name and value, which are in the connection's buffers.
    pub(crate) const FIELD: usize = 112;
}

/// The memory that the table of these header fields takes, in bytes, according to its capacity. Excludes the
/// names and values.
pub(super) fn fields_cost(headers: &HeaderMap) -> usize {
    cost::FIELD * headers.capacity().max(headers.len())
}

/// Memory that is charged to a connection until this value is dropped.
pub struct Charge {
    slot: Arc<Slot>,
    bytes: usize,
}

impl Charge {
    /// Changes the charge to `bytes`.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => return,
            Some(more) => self.slot.held.fetch_add(more, Relaxed),
            None => self.slot.held.fetch_sub(self.bytes - bytes, Relaxed),
        };
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.slot.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// How urgently the server closes a connection to free resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// As soon as the connection has no request in progress and all responses are sent.
    WhenIdle = 1,
    Now = 2,
}

/// The state that a connection shares with the threads that may close it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// How soon the connection must close: a [`Closing`] as a number, or 0 if it may stay open.
    closing: AtomicU8,
    waker: OnceLock<Waker>,
    /// The sum of the connection's charges, in bytes.
    held: AtomicUsize,
}

impl Slot {
    /// Sets the task to wake when the connection must close. Only the first call has an effect.
    pub(super) fn set_waker(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    /// How soon the connection must close; `None` if it may stay open.
    pub(super) fn closing(&self) -> Option<Closing> {
        match self.closing.load(Relaxed) {
            0 => None,
            1 => Some(Closing::WhenIdle),
            _ => Some(Closing::Now),
        }
    }

    /// Requests that the connection be closed, and wakes its task. A later call cannot postpone the closing.
    pub(super) fn close(&self, closing: Closing) {
        self.closing.fetch_max(closing as u8, Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Runs `future` to completion, or returns `None` once the slot is set to [`Closing::Now`]. Notices that
    /// only when polled, so the task must have called [`Self::set_waker`].
    pub(super) async fn unless_closed<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let poll = |cx: &mut Context<'_>| match self.closing() {
            Some(Closing::Now) => Poll::Ready(None),
            _ => future.as_mut().poll(cx).map(Some),
        };
        std::future::poll_fn(poll).await
    }

    /// Charges memory to the connection until the charge is dropped.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.held.fetch_add(bytes, Relaxed);
        Charge { slot: self.clone(), bytes }
    }

    /// The memory that the connection holds, in bytes: [`cost::CONNECTION`] and all charges.
    pub(super) fn cost(&self) -> usize {
        cost::CONNECTION + self.held.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn charges_are_returned_after_any_sequence_of_changes(
            sizes in prop::collection::vec((0..100_000_usize, prop::option::of(0..100_000_usize)), 0..50),
            kept in 0..50_usize,
        ) {
            let slot = Arc::new(Slot::default());
            let mut charges = Vec::new();
            for (first, then) in &sizes {
                let mut charge = slot.charge(*first);
                if let Some(bytes) = then {
                    charge.resize(*bytes);
                }
                charges.push(charge);
            }
            charges.truncate(kept);
            let expected: usize = sizes.iter().take(kept).map(|(first, then)| then.unwrap_or(*first)).sum();
            prop_assert_eq!(slot.held.load(Relaxed), expected);
            drop(charges);
            prop_assert_eq!(slot.held.load(Relaxed), 0);
        }
    }
}
