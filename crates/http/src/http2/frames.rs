//! Parses the frame headers of incoming HTTP/2 data (RFC 9113 §4.1), and skips the payloads.

use crate::protocol_detection::PREFACE;

/// The length of a frame header in bytes.
const HEADER: usize = 9;

/// The header of a frame, without the stream identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The length of the payload in bytes; at most 2^24 - 1.
    pub(super) length: u32,
    /// The frame type. Unknown types are permitted, and hyper ignores them (RFC 9113 §5.5).
    pub(super) kind: u8,
    pub(super) flags: u8,
}

impl Frame {
    pub(super) const DATA: u8 = 0x0;
    pub(super) const HEADERS: u8 = 0x1;
    pub(super) const RST_STREAM: u8 = 0x3;
    pub(super) const SETTINGS: u8 = 0x4;
    pub(super) const WINDOW_UPDATE: u8 = 0x8;
    pub(super) const CONTINUATION: u8 = 0x9;

    pub(super) const END_STREAM: u8 = 0x1;
    pub(super) const END_HEADERS: u8 = 0x4;
    pub(super) const PADDED: u8 = 0x8;
}

/// Parses the frames of one connection, which may arrive in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Frames {
    preface_left: usize,
    header: [u8; HEADER],
    /// The number of bytes of the current frame header that have arrived.
    known: usize,
    payload_left: u32,
    /// The number of header blocks that have begun.
    blocks: u64,
    /// Whether a header block has begun and is still incomplete.
    in_block: bool,
    /// Whether the current frame is the last in its header block.
    ends_block: bool,
}

impl Frames {
    /// Creates a parser that skips the connection preface first, without checking its content.
    pub(super) fn new() -> Self {
        Self { preface_left: PREFACE.len(), ..Self::default() }
    }

    /// Parses the next bytes, and calls `show` for each frame header that they complete.
    pub(super) fn parse(&mut self, mut bytes: &[u8], mut show: impl FnMut(Frame)) {
        let skip = |bytes: &mut &[u8], count: usize| {
            let count = count.min(bytes.len());
            *bytes = &bytes[count..];
            count
        };
        self.preface_left -= skip(&mut bytes, self.preface_left);
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let skipped = skip(&mut bytes, self.payload_left as usize);
                self.payload_left -= u32::try_from(skipped).unwrap_or(self.payload_left);
                self.close_block_if_complete();
                continue;
            }
            self.header[self.known] = bytes[0];
            self.known += 1;
            bytes = &bytes[1..];
            if self.known == HEADER {
                self.known = 0;
                let [a, b, c, kind, flags, ..] = self.header;
                let frame = Frame { length: u32::from_be_bytes([0, a, b, c]), kind, flags };
                self.payload_left = frame.length;
                if kind == Frame::HEADERS && !self.in_block {
                    self.blocks += 1;
                    self.in_block = true;
                }
                self.ends_block =
                    matches!(kind, Frame::HEADERS | Frame::CONTINUATION) && flags & Frame::END_HEADERS != 0;
                self.close_block_if_complete();
                show(frame);
            }
        }
    }

    /// The number of the incomplete header block (RFC 9113 §4.3), if there is one.
    pub(super) fn open_block(&self) -> Option<u64> {
        self.in_block.then_some(self.blocks)
    }

    fn close_block_if_complete(&mut self) {
        if self.payload_left == 0 && self.ends_block {
            self.in_block = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Parses the preface and `sent` in one piece and in small pieces.
    fn check(sent: &[Vec<u8>], expected: &[(u8, u8, u32)], open_block: Option<u64>) {
        let sent = [PREFACE.to_vec(), sent.concat()].concat();
        for size in [sent.len(), 1, 7] {
            let (mut frames, mut seen) = (Frames::new(), Vec::new());
            for piece in sent.chunks(size) {
                frames.parse(piece, |frame| seen.push((frame.kind, frame.flags, frame.length)));
            }
            assert_eq!(seen, expected, "in pieces of {size}");
            assert_eq!(frames.open_block(), open_block, "in pieces of {size}");
        }
    }

    #[test]
    fn frames_are_parsed_in_pieces_of_any_size() {
        check(&[], &[], None);
        check(&[frame(4, 0, &[])], &[(4, 0, 0)], None);
        // A payload that looks like frames is skipped.
        let nested = [frame(6, 0, &[0; 8]), frame(6, 0, &[0; 8])].concat();
        check(&[frame(0, 0, &nested), frame(8, 0, &[0; 4])], &[(0, 0, 34), (8, 0, 4)], None);
        check(&[frame(0, 0, &vec![7; 70_000]), frame(6, 1, &[0; 8])], &[(0, 0, 70_000), (6, 1, 8)], None);
    }

    #[test]
    fn a_header_block_ends_with_its_last_fragment() {
        check(&[frame(1, 4, b"abc")], &[(1, 4, 3)], None);
        check(&[frame(1, 0, b"abc")], &[(1, 0, 3)], Some(1));
        check(&[frame(1, 0, b"abc"), frame(9, 0, b"d")], &[(1, 0, 3), (9, 0, 1)], Some(1));
        check(&[frame(1, 0, b"abc"), frame(9, 4, b"d")], &[(1, 0, 3), (9, 4, 1)], None);
        check(&[frame(1, 0, b""), frame(9, 4, b"")], &[(1, 0, 0), (9, 4, 0)], None);
        let mut cut = frame(1, 4, b"abc");
        cut.pop();
        check(&[frame(1, 4, b"abc"), cut], &[(1, 4, 3), (1, 4, 3)], Some(2));
    }
}
