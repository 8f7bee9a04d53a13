//! Detects from the first bytes of a connection whether it uses HTTP/1 or HTTP/2.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.0 or HTTP/1.1 (RFC 9112).
    Http1,
    Http2,
}

/// The connection preface of HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The size of the first read, in bytes. Most requests fit, so detection costs no additional read.
const FIRST_READ: usize = 4096;

/// Reads until the protocol is known. Also returns the bytes that were read, or an error if the connection
/// ends before the first byte. A connection that ends within the preface of HTTP/2 counts as HTTP/1. The
/// caller enforces the deadline.
pub(super) async fn detect<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(Protocol, Bytes)> {
    let mut read = BytesMut::with_capacity(FIRST_READ);
    loop {
        let ended = stream.read_buf(&mut read).await? == 0;
        if ended && read.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // If the client closes after a part of the preface, the HTTP/1 handler reports the error.
        if let Some(protocol) = classify(&read).or(ended.then_some(Protocol::Http1)) {
            return Ok((protocol, read.freeze()));
        }
    }
}

/// The protocol of a connection that begins with these bytes; `None` if more bytes are needed to decide.
fn classify(beginning: &[u8]) -> Option<Protocol> {
    if beginning.starts_with(PREFACE) {
        Some(Protocol::Http2)
    } else if PREFACE.starts_with(beginning) {
        None
    } else {
        Some(Protocol::Http1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_deadline::{Observed, Observer};

    struct NoObserver;

    impl Observer for NoObserver {
        fn bytes_read(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn bytes_written(&self, _: usize) {}
    }

    /// Sends `sent` in one piece, and split in two at every position. The next reader must get all of it.
    async fn check(sent: &[u8], expected: Option<Protocol>) {
        for cut in 0..sent.len().max(1) {
            let (first, second) = sent.split_at(cut);
            let mut stream = tokio::io::join(AsyncReadExt::chain(first, second), tokio::io::sink());
            let told = detect(&mut stream).await;
            let Ok((protocol, read)) = told else {
                assert_eq!(expected, None, "{sent:?} cut at {cut}");
                continue;
            };
            assert_eq!(Some(protocol), expected, "{sent:?} cut at {cut}");
            let mut whole = Vec::new();
            Observed::new(read, stream, NoObserver).read_to_end(&mut whole).await.expect("it is in memory");
            assert_eq!(whole, sent, "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn the_protocol_is_detected_by_the_first_bytes() {
        check(PREFACE, Some(Protocol::Http2)).await;
        check(&[&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat(), Some(Protocol::Http2)).await;
        check(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Some(Protocol::Http1)).await;
        check(b"POST /api/waitlist HTTP/1.1\r\nHost: x\r\n\r\n", Some(Protocol::Http1)).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", Some(Protocol::Http1)).await;
        check(b"PRI /x HTTP/1.1\r\n\r\n", Some(Protocol::Http1)).await;
        check(b"PRI * HTTP/2.0\r\n", Some(Protocol::Http1)).await;
        check(b"\x16\x03\x01", Some(Protocol::Http1)).await;
        check(b"P", Some(Protocol::Http1)).await;
        check(b"", None).await;
    }
}
