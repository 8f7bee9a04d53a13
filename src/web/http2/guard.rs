//! Keeps account of frames that cost the server more than the client, and says when there are too many of them.
//!
//! A client pays nothing for a PING, a SETTINGS or a RST_STREAM frame, for one that carries nothing or for a header that never ends,
//! and each makes the server work, answer or remember: CVE-2019-9511 to 9518 (data dribble, ping flood, resource loop, reset flood,
//! settings flood, header leak, internal buffering, empty frames), CVE-2023-44487 (rapid reset) and CVE-2024-27316 (CONTINUATION
//! flood) are of this kind. None of these frames is wrong by itself, so what is counted is their number beyond what answers explain,
//! in a leaky bucket that browsers, however restless, do not fill.

use std::time::Duration;

use tokio::time::Instant;

use super::frames::{Frame, Frames};

/// A connection ends when it has been charged this much more than has leaked and was paid back.
const BUDGET: u32 = 1000;

/// One leaks away in this time.
const LEAK: Duration = Duration::from_millis(20);

/// What a request pays back that was answered, and whose answer was taken to its end.
const ANSWERED: u32 = 4;

/// So many bytes that were sent explain one WINDOW_UPDATE.
const BYTES_PER_UPDATE: u64 = 512;

/// And so many at most are explained in advance, to a client that reads tens of megabytes before it says so.
const MOST_EXPLAINED: u64 = 65_536;

/// DATA that carries less than this and is not the last is not how a body is sent.
const SMALL_DATA: u32 = 64;

/// The client has sent too many frames that mean nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("more frames without a meaning than any request explains")]
pub(super) struct TooMany;

/// One connection's account.
#[derive(Debug)]
pub(super) struct Guard {
    frames: Frames,
    charged: u32,
    leaked_at: Instant,
    /// Bytes that were sent and have explained nothing yet.
    unexplaining: u64,
}

impl Guard {
    pub(super) fn new(now: Instant) -> Self {
        Self { frames: Frames::new(), charged: 0, leaked_at: now, unexplaining: 0 }
    }

    /// Takes what has arrived into account.
    pub(super) fn arrived(&mut self, bytes: &[u8], now: Instant) -> Result<(), TooMany> {
        let (mut cost, mut updates) = (0_u32, 0);
        self.frames.read(bytes, |frame| {
            cost = cost.saturating_add(price(frame));
            updates += u64::from(frame.kind == Frame::WINDOW_UPDATE);
        });
        let explained = updates.min(self.unexplaining / BYTES_PER_UPDATE);
        self.unexplaining -= explained * BYTES_PER_UPDATE;
        cost = cost.saturating_sub(u32::try_from(explained).unwrap_or(u32::MAX));
        if cost > 0 {
            self.leak(now);
            self.charged = self.charged.saturating_add(cost);
        }
        if self.is_exceeded() { Err(TooMany) } else { Ok(()) }
    }

    /// Whether there have been too many.
    pub(super) fn is_exceeded(&self) -> bool {
        self.charged > BUDGET
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.unexplaining = (self.unexplaining + count as u64).min(MOST_EXPLAINED * BYTES_PER_UPDATE);
    }

    /// A request has been answered, and the answer taken.
    pub(super) fn answered(&mut self) {
        self.charged = self.charged.saturating_sub(ANSWERED);
    }

    /// The header block that is being received.
    pub(super) fn open_block(&self) -> Option<u64> {
        self.frames.open_block()
    }

    fn leak(&mut self, now: Instant) {
        let leaked = now.duration_since(self.leaked_at).as_millis() / LEAK.as_millis();
        let leaked = u32::try_from(leaked).unwrap_or(u32::MAX);
        self.charged = self.charged.saturating_sub(leaked);
        self.leaked_at += LEAK * leaked;
    }
}

/// What a frame is charged.
fn price(frame: Frame) -> u32 {
    let has = |flag| frame.flags & flag != 0;
    match frame.kind {
        Frame::DATA if has(Frame::END_STREAM) => 0,
        Frame::DATA if frame.length == 0 => 10,
        // Padding is not told from data without looking into the payload; it is 256 bytes at most.
        Frame::DATA if frame.length < SMALL_DATA + if has(Frame::PADDED) { 256 } else { 0 } => 1,
        Frame::DATA => 0,
        // Fields that refer to the table cost more to expand than to send. A request that is answered gets this back.
        Frame::HEADERS if frame.length > 0 => 1 + frame.length / 2048,
        // Whoever has nothing to say in a fragment of a header does not send it; a long header needs one or two more.
        Frame::HEADERS => 20,
        Frame::CONTINUATION => 10 + frame.length / 2048,
        // Each makes us walk over all streams and answer.
        Frame::SETTINGS => 5,
        // Leaving a page cancels all that it waits for at once: hundreds of these may come together, but not again and again.
        Frame::RST_STREAM => 2,
        // PING, PRIORITY, WINDOW_UPDATE, what is not known, and what a client must not send.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::protocol::PREFACE;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let bytes = u32::try_from(length).expect("it is short").to_be_bytes();
        [&bytes[1..], &[kind, flags, 0, 0, 0, 1], &vec![0; length]].concat()
    }

    fn guard(now: Instant) -> Guard {
        let mut guard = Guard::new(now);
        guard.arrived(PREFACE, now).expect("it has sent nothing yet");
        guard
    }

    /// After how many repetitions of `sent` at once the connection ends; none after 5,000.
    fn check(sent: &[Vec<u8>], expected: Option<usize>) {
        let now = Instant::now();
        let (mut guard, sent) = (guard(now), sent.concat());
        let ended = (1..=5000).find(|_| guard.arrived(&sent, now).is_err());
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
        check(&[frame(0x42, 0, 0)], Some(1001)); // not known
        check(&[frame(0, 0, 0)], Some(101)); // DATA with nothing
        check(&[frame(0, 8, 200)], Some(1001)); // DATA with nothing but padding
        check(&[frame(0, 0, 1)], Some(1001)); // DATA, dribbling
        check(&[frame(9, 0, 0)], Some(101)); // CONTINUATION
        check(&[frame(9, 0, 16_384)], Some(56));
        check(&[frame(1, 0, 0)], Some(51)); // HEADERS with nothing
        check(&[frame(1, 5, 30), frame(3, 0, 4)], Some(334)); // rapid reset
        check(&[frame(1, 5, 16_384)], Some(112)); // long headers that are never answered
    }

    #[test]
    fn a_body_is_never_too_much() {
        check(&[frame(0, 0, 16_384)], None);
        check(&[frame(0, 0, 64)], None);
        check(&[frame(0, 1, 0)], None);
    }

    #[test]
    fn requests_that_are_answered_pay_for_what_comes_with_them() {
        let now = Instant::now();
        let mut guard = guard(now);
        let request = [frame(1, 5, 200), frame(2, 0, 5), frame(8, 0, 4), frame(6, 0, 8)].concat();
        for _ in 0..10_000 {
            guard.arrived(&request, now).expect("all of it is explained");
            guard.answered();
        }
    }

    #[test]
    fn a_download_explains_the_updates_of_whoever_reads_it() {
        let now = Instant::now();
        let mut guard = guard(now);
        // As a whole first, and then a word for every 4 KiB of it, for the stream and for the connection.
        guard.sent(16 << 20);
        for _ in 0..2 * (16 << 20) / 4096 {
            guard.arrived(&frame(8, 0, 4), now).expect("it is explained");
        }
        // A window that is opened a byte at a time explains one in many.
        let ended = (1..=50_000).find(|_| {
            guard.sent(10);
            guard.arrived(&frame(8, 0, 4), now).is_err()
        });
        assert!(ended.is_some());
    }

    #[test]
    fn what_leaks_away_makes_room_again() {
        let mut now = Instant::now();
        let mut guard = guard(now);
        for _ in 0..10_000 {
            guard.arrived(&frame(6, 0, 8), now).expect("50 a second are nothing");
            now += LEAK;
        }
        let ended = (1..=5000).find(|_| guard.arrived(&frame(6, 0, 8), now).is_err());
        assert!(ended > Some(900), "and no credit is gathered: {ended:?}");
        assert!(ended <= Some(1002), "and no credit is gathered: {ended:?}");
    }
}
