//! Detects HTTP/2 clients that flood the server with frames that are cheap to send but costly to process.
//!
//! PING, SETTINGS and RST_STREAM frames, empty frames and headers that never end cost the client next to
//! nothing, but make the server work, respond or allocate memory: CVE-2019-9511 to 9518 (data dribble, ping
//! flood, resource loop, reset flood, settings flood, header leak, internal buffering, empty frames),
//! CVE-2023-44487 (rapid reset) and CVE-2024-27316 (CONTINUATION flood). Each of these frames is valid on its
//! own, so the guard counts them in a leaky bucket, and completed responses refund some of the cost. Browsers
//! do not fill the bucket.

use std::time::Duration;

use tokio::time::Instant;

use super::frames::{Frame, Frames};

/// The size of the leaky bucket, in units. Above this level, the server closes the connection.
const BUDGET: u32 = 1000;

/// The time that the bucket takes to leak one unit.
const LEAK: Duration = Duration::from_millis(20);

/// How many units flow out of the bucket once hyper has taken the whole response to a request.
const REQUEST_REFUND: u32 = 4;

/// How many bytes the server must send to allow the client one free WINDOW_UPDATE frame.
const BYTES_PER_UPDATE: u64 = 512;

/// How many free WINDOW_UPDATE frames can accumulate: enough for a client that reads 32 MiB before it sends
/// its first one.
const MAX_FREE_UPDATES: u64 = 65_536;

/// DATA frames of fewer bytes are charged unless they end the stream: normal clients do not send them.
const SMALL_DATA: u32 = 64;

/// The leaky bucket of one connection.
pub(super) struct Guard {
    pub(super) frames: Frames,
    /// The level of the bucket, in units.
    charged: u32,
    leaked_at: Instant,
    /// The number of sent bytes that have not been offset against a WINDOW_UPDATE frame yet.
    unused_sent: u64,
}

impl Guard {
    pub(super) fn new(now: Instant) -> Self {
        Self { frames: Frames::new(), charged: 0, leaked_at: now, unused_sent: 0 }
    }

    /// Charges for the frames in received bytes, after the bucket has leaked. WINDOW_UPDATE frames that sent
    /// bytes have paid for are free. Returns whether the budget is exceeded.
    pub(super) fn charge_frames(&mut self, bytes: &[u8], now: Instant) -> bool {
        let (mut cost, mut updates) = (0_u32, 0);
        self.frames.parse(bytes, |frame| {
            cost = cost.saturating_add(cost_of(frame));
            updates += u64::from(frame.kind == Frame::WINDOW_UPDATE);
        });
        let free_updates = updates.min(self.unused_sent / BYTES_PER_UPDATE);
        self.unused_sent -= free_updates * BYTES_PER_UPDATE;
        cost = cost.saturating_sub(u32::try_from(free_updates).unwrap_or(u32::MAX));
        if cost > 0 {
            let leaked = now.duration_since(self.leaked_at).as_millis() / LEAK.as_millis();
            let leaked = u32::try_from(leaked).unwrap_or(u32::MAX);
            self.leaked_at += LEAK * leaked;
            self.charged = self.charged.saturating_sub(leaked).saturating_add(cost);
        }
        self.is_budget_exceeded()
    }

    pub(super) fn is_budget_exceeded(&self) -> bool {
        self.charged > BUDGET
    }

    /// Records sent bytes, which allow the client free WINDOW_UPDATE frames.
    pub(super) fn sent(&mut self, count: usize) {
        self.unused_sent = (self.unused_sent + count as u64).min(MAX_FREE_UPDATES * BYTES_PER_UPDATE);
    }

    /// Takes [`REQUEST_REFUND`] units out of the bucket.
    pub(super) fn refund_completed_request(&mut self) {
        self.charged = self.charged.saturating_sub(REQUEST_REFUND);
    }
}

/// How many units a frame adds to the bucket. Zero for DATA that is long, or that ends its stream.
fn cost_of(frame: Frame) -> u32 {
    let has = |flag| frame.flags & flag != 0;
    match frame.kind {
        Frame::DATA if has(Frame::END_STREAM) => 0,
        Frame::DATA if frame.length == 0 => 10,
        // The frame header does not contain the length of the padding, so assume the maximum of 256 bytes.
        Frame::DATA if frame.length < SMALL_DATA + if has(Frame::PADDED) { 256 } else { 0 } => 1,
        Frame::DATA => 0,
        // References to the header table are cheap to send but costly to expand: long headers cost more.
        Frame::HEADERS if frame.length > 0 => 1 + frame.length / 2048,
        // Normal clients send no empty HEADERS frames, and at most two CONTINUATION frames for a long header.
        Frame::HEADERS => 20,
        Frame::CONTINUATION => 10 + frame.length / 2048,
        // For each SETTINGS frame, the server updates all streams and sends an acknowledgement.
        Frame::SETTINGS => 5,
        // Charge little: a browser that leaves a page may cancel hundreds of requests, but does so rarely.
        Frame::RST_STREAM => 2,
        // PING, PRIORITY, WINDOW_UPDATE, unknown types, and types that a client must not send.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol_detection::PREFACE;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let bytes = u32::try_from(length).expect("it is short").to_be_bytes();
        [&bytes[1..], &[kind, flags, 0, 0, 0, 1], &vec![0; length]].concat()
    }

    fn guard(now: Instant) -> Guard {
        let mut guard = Guard::new(now);
        assert!(!guard.charge_frames(PREFACE, now), "the preface is free");
        guard
    }

    /// Checks how many repetitions of `sent` close the connection; `None` if 5,000 do not.
    fn check(sent: &[Vec<u8>], expected: Option<usize>) {
        let now = Instant::now();
        let (mut guard, sent) = (guard(now), sent.concat());
        let ended = (1..=5000).find(|_| guard.charge_frames(&sent, now));
        assert_eq!(ended, expected);
    }

    #[test]
    fn a_flood_ends_the_connection() {
        check(&[frame(6, 0, 8)], Some(1001)); // PING
        check(&[frame(6, 1, 8)], Some(1001)); // PING with ACK
        check(&[frame(4, 0, 6)], Some(201)); // SETTINGS
        check(&[frame(4, 1, 0)], Some(201)); // SETTINGS with ACK
        check(&[frame(2, 0, 5)], Some(1001)); // PRIORITY
        check(&[frame(8, 0, 4)], Some(1001)); // WINDOW_UPDATE
        check(&[frame(0x42, 0, 0)], Some(1001)); // unknown type
        check(&[frame(0, 0, 0)], Some(101)); // empty DATA
        check(&[frame(0, 8, 200)], Some(1001)); // DATA with padding only
        check(&[frame(0, 0, 1)], Some(1001)); // DATA, dribbling
        check(&[frame(9, 0, 0)], Some(101)); // CONTINUATION
        check(&[frame(9, 0, 16_384)], Some(56));
        check(&[frame(1, 0, 0)], Some(51)); // empty HEADERS
        check(&[frame(1, 5, 30), frame(3, 0, 4)], Some(334)); // rapid reset
        check(&[frame(1, 5, 16_384)], Some(112)); // long headers without responses
    }

    #[test]
    fn request_bodies_are_free() {
        check(&[frame(0, 0, 16_384)], None);
        check(&[frame(0, 0, 64)], None);
        check(&[frame(0, 1, 0)], None);
    }

    #[test]
    fn completed_requests_pay_for_their_other_frames() {
        let now = Instant::now();
        let mut guard = guard(now);
        let request = [frame(1, 5, 200), frame(2, 0, 5), frame(8, 0, 4), frame(6, 0, 8)].concat();
        for _ in 0..10_000 {
            assert!(!guard.charge_frames(&request, now), "the request pays for them");
            guard.refund_completed_request();
        }
    }

    #[test]
    fn a_download_pays_for_its_window_updates() {
        let now = Instant::now();
        let mut guard = guard(now);
        // One update per 4 KiB, for the stream and for the connection.
        guard.sent(16 << 20);
        for _ in 0..2 * (16 << 20) / 4096 {
            assert!(!guard.charge_frames(&frame(8, 0, 4), now), "the download pays for it");
        }
        // Updates after every few bytes are charged.
        let ended = (1..=50_000).find(|_| {
            guard.sent(10);
            guard.charge_frames(&frame(8, 0, 4), now)
        });
        assert!(ended.is_some());
    }

    #[test]
    fn the_bucket_leaks() {
        let mut now = Instant::now();
        let mut guard = guard(now);
        for _ in 0..10_000 {
            assert!(!guard.charge_frames(&frame(6, 0, 8), now), "50 frames a second are free");
            now += LEAK;
        }
        let ended = (1..=5000).find(|_| guard.charge_frames(&frame(6, 0, 8), now));
        assert!(ended > Some(900), "no credit accumulates: {ended:?}");
        assert!(ended <= Some(1002), "no credit accumulates: {ended:?}");
    }
}
