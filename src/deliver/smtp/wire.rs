//! The stream beneath an SMTP connection: it bounds what a server may say at a time.
//!
//! The library reads a reply's line to its end, however long that is, and keeps what has come with it for later. Here a
//! server gets an allowance of octets until we speak again, and the reader gets no more than a line at once: what a server, or somebody in
//! between, says after its answer to STARTTLS is not taken for something that was said under TLS, but spoils the handshake.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most octets that are read between two writes. A chain of certificates has to fit in.
pub const MAX_UNASKED_BYTES: usize = 32 * 1024;

/// The most lines: with each, the library reads the whole answer from its beginning.
pub const MAX_UNASKED_LINES: usize = 500;

/// A stream that is read a line at a time.
pub struct Wire<S> {
    inner: S,
    peer: SocketAddr,
    /// Read, and not yet handed on, from `at`.
    held: Vec<u8>,
    at: usize,
    bytes_left: usize,
    lines_left: usize,
    has_spoken: Arc<AtomicBool>,
}

impl<S> Wire<S> {
    /// `has_spoken` becomes true with the first octet that is written: then the greeting has come.
    pub fn new(inner: S, peer: SocketAddr, has_spoken: Arc<AtomicBool>) -> Wire<S> {
        let (bytes_left, lines_left) = (MAX_UNASKED_BYTES, MAX_UNASKED_LINES);
        Wire { inner, peer, held: Vec::new(), at: 0, bytes_left, lines_left, has_spoken }
    }
}

fn endless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer has no end")
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.at == wire.held.len() {
            let mut chunk = [0; 4096];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut wire.inner).poll_read(cx, &mut chunk))?;
            let count = chunk.filled().len();
            wire.bytes_left = wire.bytes_left.checked_sub(count).ok_or_else(endless)?;
            wire.held.clear();
            wire.held.extend_from_slice(chunk.filled());
            wire.at = 0;
        }
        let held = &wire.held[wire.at..];
        let line = held.iter().position(|b| *b == b'\n').map_or(held.len(), |end| end + 1);
        let count = line.min(out.remaining());
        if held[..count].ends_with(b"\n") {
            wire.lines_left = wire.lines_left.checked_sub(1).ok_or_else(endless)?;
        }
        out.put_slice(&held[..count]);
        wire.at += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        (wire.bytes_left, wire.lines_left) = (MAX_UNASKED_BYTES, MAX_UNASKED_LINES);
        wire.has_spoken.store(true, Ordering::Relaxed);
        Pin::new(&mut wire.inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> AsyncTokioStream for Wire<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S> fmt::Debug for Wire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn wire(bytes: &[u8]) -> Wire<&[u8]> {
        Wire::new(bytes, SocketAddr::from(([127, 0, 0, 1], 25)), Arc::default())
    }

    #[tokio::test]
    async fn no_more_than_a_line_is_handed_on_at_once() {
        let mut wire = wire(b"220 go\r\n250-forged\r\nhalf");
        let mut line = [0; 64];
        let mut lines = Vec::new();
        while let count @ 1.. = wire.read(&mut line).await.expect("it is short") {
            lines.push(String::from_utf8_lossy(&line[..count]).into_owned());
        }
        assert_eq!(lines, ["220 go\r\n", "250-forged\r\n", "half"]);
    }

    #[tokio::test]
    async fn nobody_is_listened_to_without_end() {
        for endless in [vec![b'2'; MAX_UNASKED_BYTES + 1], b"250-\r\n".repeat(MAX_UNASKED_LINES + 1)] {
            let mut heard = Vec::new();
            let error = wire(&endless).read_to_end(&mut heard).await.expect_err("it is too long");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(heard.len() <= MAX_UNASKED_BYTES && heard.len() < endless.len());
        }
    }
}
