//! The response type, and a lenient reader for responses that hyper rejects: a webhook's receiver that
//! answered 200 has accepted the request, even if the rest of its response is malformed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum number of bytes that are read of a response body, unless the client has another limit, and
/// that a [`ResponseRecorder`] keeps.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;

/// The maximum number of bytes that are read of a connection in addition to the limit of the body: interim
/// responses, header, and the framing of a body that is sent in chunks of a few bytes. A peer that sends
/// `100 Continue` forever would otherwise keep the thread busy until the time limit: its task is always
/// ready, and tokio rarely looks for other events meanwhile.
const MAX_OTHER_BYTES: usize = 448 * 1024;

/// A response with any final status, including redirects and errors.
#[derive(Clone)]
pub struct FetchResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body, or its first bytes up to the client's limit, which is 64 KiB unless changed.
    pub body: Vec<u8>,
    /// Whether `body` is complete: false if it was longer, broke off or did not arrive in time.
    pub is_whole: bool,
    /// The time from the start of sending the request to the end of the response's header. Zero if hyper
    /// rejected the response.
    pub time_to_header: Duration,
}

/// A stream that keeps a copy of the first [`MAX_BODY_BYTES`] that it receives, and fails to read more than
/// [`MAX_OTHER_BYTES`] in addition to the limit of a body.
pub struct ResponseRecorder<S> {
    inner: S,
    received: Received,
    max_bytes: usize,
    /// The number of bytes received so far.
    length: usize,
}

/// The bytes that a [`ResponseRecorder`] has kept. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Received(Arc<Mutex<Vec<u8>>>);

impl Received {
    /// Parses the bytes received so far, as far as they are kept, with [`read_response`]. `None` if they
    /// contain no final status yet.
    pub fn response(&self) -> Option<FetchResponse> {
        read_response(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> ResponseRecorder<S> {
    /// A recorder for a response with a body of at most `max_body_bytes`.
    pub fn new(inner: S, max_body_bytes: usize) -> ResponseRecorder<S> {
        let max_bytes = max_body_bytes + MAX_OTHER_BYTES;
        ResponseRecorder { inner, received: Received::default(), max_bytes, length: 0 }
    }

    pub fn received(&self) -> Received {
        self.received.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ResponseRecorder<S> {
    /// Reads bytes, and copies the first 64 KiB. Fails if earlier reads have exceeded the maximum length.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let recorder = self.get_mut();
        if recorder.length > recorder.max_bytes {
            let error = format!("the response is longer than {} KiB", recorder.max_bytes / 1024);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, error)));
        }
        let before = out.filled().len();
        let result = Pin::new(&mut recorder.inner).poll_read(cx, out);
        let new = &out.filled()[before..];
        if !new.is_empty() {
            recorder.length += new.len();
            let mut received = recorder.received.0.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MAX_BODY_BYTES - received.len();
            received.extend_from_slice(&new[..new.len().min(room)]);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ResponseRecorder<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

/// Reads the final response leniently from the bytes that a server sent: its status, the header fields that
/// are valid, and all bytes after the header as the body, whose chunks are not decoded. Skips interim (1xx)
/// responses, and white space before a response. `None` if there is no status from 200 to 999. `is_whole` is
/// always false.
pub fn read_response(mut bytes: &[u8]) -> Option<FetchResponse> {
    loop {
        bytes = bytes.trim_ascii_start();
        let status = read_status(bytes)?;
        let mut headers = HeaderMap::new();
        let mut field = Vec::new();
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let mut length = lines.next()?.len();
        for line in lines {
            length += line.len();
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            if !is_folded {
                add_field(&mut headers, &std::mem::take(&mut field));
            }
            let line = line.trim_ascii();
            if line.is_empty() && !is_folded {
                break;
            }
            if is_folded {
                field.push(b' ');
            }
            field.extend_from_slice(line);
        }
        add_field(&mut headers, &field);
        bytes = &bytes[length..];
        if !status.is_informational() {
            let (body, time_to_header) = (bytes.to_vec(), Duration::ZERO);
            return Some(FetchResponse { status, headers, body, is_whole: false, time_to_header });
        }
    }
}

/// The status at the beginning of a response such as `HTTP/1.1 200 OK`; `None` if it is malformed.
fn read_status(line: &[u8]) -> Option<StatusCode> {
    let (protocol, rest) = line.split_first_chunk::<5>()?;
    if !protocol.eq_ignore_ascii_case(b"HTTP/") {
        return None;
    }
    let version = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let rest = &rest[version..];
    let code = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let (digits, after) = rest[code..].split_first_chunk::<3>()?;
    if code == 0 || after.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    StatusCode::from_bytes(digits).ok()
}

/// Adds a field such as `name: value`, unless it is invalid or the map is full.
fn add_field(headers: &mut HeaderMap, field: &[u8]) {
    let Some(colon) = field.iter().position(|byte| *byte == b':') else { return };
    let name = HeaderName::from_bytes(field[..colon].trim_ascii());
    let value = HeaderValue::from_bytes(field[colon + 1..].trim_ascii());
    if let (Ok(name), Ok(value)) = (name, value) {
        // Appending fails if the map has its maximum size. The field is then omitted.
        let _ = headers.try_append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_status_is_read_whatever_follows() {
        for (bytes, status) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], 200),
            (b"HTTP/1.1 200", 200),
            (b"HTTP/1.1 204\r\n", 204),
            (b"HTTP/1.1 200OK\r\n\r\n", 200),
            (b"HTTP/1.0 200 OK\n\nok", 200),
            (b"http/1.1  200 OK\r\n", 200),
            (b"HTTP/2 200 \r\n\r\n", 200),
            (b"HTTP/1.1 200 \xd3\xca\r\n\r\n", 200),
            (b"\r\nHTTP/1.1 503 \0\r\n", 503),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\n", 202),
            (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n", 200),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 200),
        ] {
            let response = read_response(bytes).map(|response| response.status.as_u16());
            assert_eq!(response, Some(status), "{bytes:?}");
        }
        for bytes in [
            &b""[..],
            b"HTTP/1.1 20",
            b"HTTP/1.1 2000 OK\r\n",
            b"HTTP/1.1 99 Short\r\n\r\n",
            b"HTTP/1.1200 OK\r\n",
            b"HTTP/1.1 OK\r\n",
            b"220 mail.example.com ESMTP\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            assert!(read_response(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn valid_fields_and_the_body_are_kept() {
        let bytes = b"HTTP/1.1 429 Slow\r\nRetry-After : 7\r\nbad field\r\nX: a\r\n  b\r\n: y\r\nN\xe9: z\r\n\r\nwait\r\n";
        let response = read_response(bytes).expect("a status");
        assert_eq!(response.headers.get("retry-after").map(HeaderValue::as_bytes), Some(&b"7"[..]));
        assert_eq!(response.headers.get("x").map(HeaderValue::as_bytes), Some(&b"a b"[..]));
        assert_eq!((response.headers.len(), response.body.as_slice()), (2, &b"wait\r\n"[..]));
        assert!(!response.is_whole);
    }
}
