//! The body of a response: bytes in memory, in one piece or several, or a part of an open file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

/// Maximum length in bytes of the pieces in which files are read where the kernel cannot send them itself:
/// over TLS, HTTP/2 and hyper. As long as the pieces that HTTP/2 sends.
const PIECE: usize = 16 * 1024;

/// A part of an open file.
#[derive(Debug, Clone)]
pub struct FileBody {
    file: Arc<File>,
    offset: u64,
    length: u64,
    /// The file's expected modification time, in seconds and nanoseconds; `None` disables the check.
    modified: Option<(i64, i64)>,
}

impl FileBody {
    /// The `length` bytes of `file` from `offset` on. If the file is shorter when they are sent, the
    /// connection (HTTP/1) or the stream (HTTP/2) is aborted.
    pub fn new(file: Arc<File>, offset: u64, length: u64) -> Self {
        Self { file, offset, length, modified: None }
    }

    /// Aborts the response as soon as the file has another time of modification, because `Content-Length` and
    /// `ETag` are those of its former content. A change during the last system call is not noticed.
    #[must_use]
    pub fn unchanged_since(self, modified: (i64, i64)) -> Self {
        Self { modified: Some(modified), ..self }
    }

    /// Fails if the file has been modified. Checks nothing unless [`Self::unchanged_since`] was called.
    pub(super) fn check_unchanged(&self) -> io::Result<()> {
        let Some(modified) = self.modified else { return Ok(()) };
        let now = self.file.metadata()?;
        if (now.mtime(), now.mtime_nsec()) == modified {
            return Ok(());
        }
        Err(io::Error::other("the file has changed while it was sent"))
    }

    pub fn len(&self) -> u64 {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The offset of the part's first byte in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Removes the first `count` bytes from the part, or all if it has fewer. Does not change the file.
    pub(super) fn advance(&mut self, count: u64) {
        let count = count.min(self.length);
        self.offset += count;
        self.length -= count;
    }

    /// Reads the whole part into memory. Fails if the file is too short or has been modified.
    fn read_all(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.offset)?;
        self.check_unchanged()?;
        Ok(bytes.into())
    }

    /// Reads and removes at most [`PIECE`] bytes from the beginning. Fails if the file is too short or
    /// has been modified. Waits for the disk if the kernel does not have the bytes in memory.
    fn read_piece(&mut self) -> io::Result<Bytes> {
        let length = usize::try_from(self.length).unwrap_or(PIECE).min(PIECE);
        self.check_unchanged()?;
        let mut piece = vec![0; length];
        self.file.read_exact_at(&mut piece, self.offset)?;
        self.advance(length as u64);
        Ok(piece.into())
    }
}

/// Several pieces of memory that are sent one after another.
#[derive(Debug, Clone)]
pub struct JoinedBody {
    parts: Arc<[Bytes]>,
    /// The index in `parts` of the part with the next byte to send.
    part_index: usize,
    /// The position of the next byte to send, within its part.
    offset_in_part: usize,
    length: u64,
}

impl JoinedBody {
    /// The `length` bytes of the joined `parts` from `offset` on; fewer if the parts are shorter.
    pub fn new(parts: Arc<[Bytes]>, offset: u64, length: u64) -> Self {
        let all = parts.iter().map(|part| part.len() as u64).sum();
        let mut body = Self { parts, part_index: 0, offset_in_part: 0, length: all };
        body.advance(offset);
        body.length = body.length.min(length);
        body
    }

    /// Removes the first `count` bytes, or all if there are fewer.
    fn advance(&mut self, count: u64) {
        let count = count.min(self.length);
        self.length -= count;
        let mut rest = usize::try_from(count).unwrap_or(usize::MAX);
        while let Some(part) = self.parts.get(self.part_index) {
            let left = part.len() - self.offset_in_part;
            if rest < left {
                self.offset_in_part += rest;
                return;
            }
            rest -= left;
            self.offset_in_part = 0;
            self.part_index += 1;
        }
    }

    /// The remaining bytes, as non-empty slices.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = usize::try_from(self.length).unwrap_or(usize::MAX);
        let first = self.parts.get(self.part_index).map(|part| &part[self.offset_in_part..]);
        let others = self.parts.iter().skip(self.part_index + 1).map(|part| &part[..]);
        let slices = first.into_iter().chain(others).map_while(move |part| {
            let slice = (rest > 0).then(|| &part[..part.len().min(rest)])?;
            rest -= slice.len();
            Some(slice)
        });
        slices.filter(|slice| !slice.is_empty())
    }

    /// Copies and removes at most `limit` bytes from the beginning.
    fn read_piece(&mut self, limit: usize) -> Bytes {
        let length = usize::try_from(self.length).unwrap_or(limit).min(limit);
        let mut piece = Vec::with_capacity(length);
        for slice in self.slices() {
            piece.extend_from_slice(&slice[..slice.len().min(length - piece.len())]);
            if piece.len() == length {
                break;
            }
        }
        self.advance(length as u64);
        piece.into()
    }
}

/// The body of a response to a public request.
#[derive(Debug, Clone)]
pub enum ResponseBody {
    Bytes(Bytes),
    Joined(JoinedBody),
    File(FileBody),
}

impl ResponseBody {
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Joined(parts) => parts.length,
            Self::File(file) => file.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the first `count` bytes of the body, or all if it has fewer.
    pub(super) fn advance(&mut self, count: u64) {
        match self {
            Self::Bytes(bytes) => {
                bytes.advance(usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len()));
            }
            Self::Joined(parts) => parts.advance(count),
            Self::File(file) => file.advance(count),
        }
    }

    /// The whole body. Reads a file into memory; fails if that is not possible.
    pub fn into_bytes(self) -> io::Result<Bytes> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Joined(mut parts) => Ok(parts.read_piece(usize::MAX)),
            Self::File(file) => file.read_all(),
        }
    }

    /// Removes the next piece from the beginning: at most `limit` bytes of memory (of a joined body also at
    /// most [`PIECE`]), or at most [`PIECE`] bytes of a file, whose pieces `limit` does not shorten. `None`
    /// at the end.
    pub(super) fn next_piece(&mut self, limit: usize) -> Option<io::Result<Bytes>> {
        match self {
            _ if self.is_empty() => None,
            Self::Bytes(bytes) => Some(Ok(bytes.split_to(limit.min(bytes.len())))),
            Self::Joined(parts) => Some(Ok(parts.read_piece(PIECE.min(limit)))),
            Self::File(file) => Some(file.read_piece()),
        }
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// Yields a body of contiguous bytes as one frame, and any other body in frames of at most 16 KiB.
impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.get_mut().next_piece(usize::MAX).map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body_util::BodyExt as _;

    use super::*;

    fn file(content: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("it is open");
        Arc::new(file)
    }

    #[tokio::test]
    async fn a_file_is_read_in_pieces_from_its_offset() {
        let content: Vec<u8> = (0..=250).cycle().take(100_000).collect();
        let mut body = ResponseBody::File(FileBody::new(file(&content), 10_000, 40_000));
        assert_eq!(body.size_hint().exact(), Some(40_000));
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.expect("the file is complete").into_data().expect("data"));
        }
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [16_384, 16_384, 7232]);
        assert_eq!(pieces.concat(), content[10_000..50_000]);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let body = ResponseBody::File(FileBody::new(file(&vec![1; 20_000]), 0, 20_001));
        let error = body.collect().await.expect_err("a byte is missing");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_joined_body_is_sent_in_pieces_from_its_offset() {
        let parts: Arc<[Bytes]> =
            ["ab", "", "cde", "", "f"].map(|part| Bytes::from_static(part.as_bytes())).into();
        let all = "abcdef";
        for start in 0..=6 {
            for end in start..=7 {
                let body = || JoinedBody::new(parts.clone(), start as u64, (end - start) as u64);
                let expected = &all[start..end.min(6)];
                let whole = ResponseBody::Joined(body());
                assert_eq!(whole.len(), expected.len() as u64);
                assert_eq!(whole.into_bytes().expect("memory"), expected);
                assert_eq!(body().slices().collect::<Vec<_>>().concat(), expected.as_bytes());
                let mut rest = ResponseBody::Joined(body());
                let mut pieces = Vec::new();
                while let Some(piece) = rest.next_piece(2) {
                    pieces.push(piece.expect("memory"));
                }
                assert_eq!(pieces.concat(), expected.as_bytes());
                assert!(pieces.iter().rev().skip(1).all(|piece| piece.len() == 2), "{pieces:?}");
            }
        }
        let long: Arc<[Bytes]> = [Bytes::from(vec![1; 20_000]), Bytes::from(vec![2; 20_000])].into();
        let mut body = ResponseBody::Joined(JoinedBody::new(long.clone(), 0, 40_000));
        assert_eq!(body.size_hint().exact(), Some(40_000));
        let frame = body.frame().await.expect("a frame").expect("memory").into_data().expect("data");
        assert_eq!(frame.len(), PIECE);
        body.advance(10_000);
        assert_eq!(body.into_bytes().expect("memory"), long.concat()[PIECE + 10_000..]);
    }

    #[tokio::test]
    async fn bytes_in_memory_are_one_frame() {
        let mut body = ResponseBody::from(vec![1; 100_000]);
        let frame = body.frame().await.expect("a frame").expect("memory");
        assert_eq!(frame.into_data().expect("data").len(), 100_000);
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }
}
