//! Composes requests and parses responses. Supports the part of HTTP/1.1 (RFC 9112) that is needed to check
//! responses.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use httparse::Status;

/// Eight of the ten headers that a current version of Chrome sends. [`get`] adds the others: `Host` and
/// `Accept-Encoding`.
pub const BROWSER: &str = "Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Windows\"\r\n\
    User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) \
    AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
    application/signed-exchange;v=b3;q=0.7\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n";

/// The headers of an agent that prefers Markdown, except `Host` and `Accept-Encoding`.
pub const AGENT: &str = "User-Agent: Mozilla/5.0 (compatible; Agent/1.0)\r\n\
    Accept: text/markdown, text/html;q=0.5\r\n";

/// The name for no encoding.
pub const IDENTITY: &str = "identity";

/// A GET request that accepts these encodings, such as "gzip, br". `condition` makes it conditional.
pub fn get(client: &str, path: &str, encodings: &str, condition: Option<(&str, &str)>) -> Vec<u8> {
    let condition = condition.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let head = format!("GET {path} HTTP/1.1\r\nHost: www.example.com\r\n{client}");
    format!("{head}Accept-Encoding: {encodings}\r\n{condition}\r\n").into_bytes()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Length of the status line, the headers and the empty line, in bytes.
    pub head_length: usize,
    pub headers: Vec<(String, String)>,
    /// The body without chunk framing, but still compressed.
    pub body: Vec<u8>,
    /// The body as sent, with chunk framing.
    pub framed: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The `Content-Encoding`.
    pub fn encoding(&self) -> &str {
        self.header("content-encoding").unwrap_or(IDENTITY)
    }

    /// Checks the status and body of the response at the beginning of `bytes`. Parses the response only if
    /// its status, header length or framed body differs from the expected one. Returns the length of the
    /// response; `None` while the response is incomplete.
    pub fn check(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let whole = self.head_length + self.framed.len();
        if bytes.len() >= whole
            && parse_status(bytes) == Some(self.status)
            && bytes[..self.head_length].ends_with(b"\r\n\r\n")
            && bytes[self.head_length..whole] == self.framed
        {
            return Ok(Some(whole));
        }
        let Some((response, whole)) = parse_response(bytes)? else { return Ok(None) };
        let (status, expected) = (response.status, self.status);
        ensure!(status == expected, "the status is {status} instead of {expected}");
        ensure!(response.body == self.body, "the body differs from the expected one");
        Ok(Some(whole))
    }
}

/// Sends a request on a new connection and reads the response. Each read times out after ten seconds.
pub fn send(address: SocketAddr, request: &[u8]) -> Result<Response> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request)?;
    read_response(&mut stream).with_context(|| format!("request to {address}"))
}

/// Reads one response. Fails if it is invalid, or if the connection is closed before its end.
pub fn read_response(stream: &mut impl Read) -> Result<Response> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut buffer).context("failed to read the response")?;
        ensure!(count > 0, "the connection was closed before the response was complete");
        bytes.extend_from_slice(&buffer[..count]);
        if let Some((response, _)) = parse_response(&bytes)? {
            return Ok(response);
        }
    }
}

/// Parses the response at the beginning of `bytes`. Also returns its length; `None` while it is incomplete.
pub fn parse_response(bytes: &[u8]) -> Result<Option<(Response, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let Status::Complete(head_length) = head.parse(bytes).context("invalid response")? else {
        return Ok(None);
    };
    let headers = head.headers.iter();
    let text = |value| String::from_utf8_lossy(value).into_owned();
    let headers: Vec<_> =
        headers.map(|header| (header.name.to_ascii_lowercase(), text(header.value))).collect();
    let status = head.code.unwrap_or_default();
    let mut response = Response { status, head_length, headers, ..Response::default() };
    let rest = &bytes[head_length..];
    let complete = match (status, response.header("content-length"), response.header("transfer-encoding")) {
        (304 | 204, ..) => Some((Vec::new(), 0)),
        (_, _, Some("chunked")) => unchunk(rest)?,
        (_, Some(length), None) => {
            let length = length.parse().context("invalid Content-Length")?;
            rest.get(..length).map(|body| (body.to_vec(), length))
        }
        _ => bail!("a response has neither Content-Length nor chunked encoding"),
    };
    let Some((body, length)) = complete else { return Ok(None) };
    (response.body, response.framed) = (body, rest[..length].to_vec());
    Ok(Some((response, head_length + length)))
}

/// The status code in the status line at the beginning of `bytes`.
fn parse_status(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Decodes a chunked body (RFC 9112 §7.1). Also returns its length with framing; `None` while it is
/// incomplete.
fn unchunk(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let parsed = httparse::parse_chunk_size(&bytes[at..]).ok().context("invalid chunk size")?;
        let Status::Complete((begin, size)) = parsed else { return Ok(None) };
        let (begin, size) = (at + begin, size as usize);
        let Some(chunk) = bytes.get(begin..begin + size + 2) else { return Ok(None) };
        ensure!(chunk.ends_with(b"\r\n"), "a chunk is longer than its declared size");
        at = begin + size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_parsed_once_it_is_complete() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: b: c\r\n\r\nabcHTTP/1.1";
        for length in 0..whole.len() {
            let parsed = parse_response(&whole[..length]).expect("a response");
            assert_eq!(parsed.is_some(), length >= whole.len() - 8, "{length}");
        }
        let (response, length) = parse_response(whole).expect("a response").expect("complete");
        assert_eq!(
            (response.status, response.body.as_slice(), length),
            (200, b"abc".as_slice(), whole.len() - 8)
        );
        assert_eq!(response.header("x-a"), Some("b: c"));
    }

    #[test]
    fn chunks_are_joined() {
        let whole =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse_response(&whole[..length]).expect("a response"), None, "{length}");
        }
        let (response, length) = parse_response(whole).expect("a response").expect("complete");
        assert_eq!((response.body.as_slice(), length), (b"abc0123456789".as_slice(), whole.len()));
        assert_eq!(response.framed, whole[response.head_length..]);
    }

    #[test]
    fn a_304_has_no_body_despite_content_length() {
        let (response, _) = parse_response(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n")
            .expect("a response")
            .expect("complete");
        assert_eq!((response.status, response.body.len()), (304, 0));
    }

    fn expected() -> Response {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 1\r\n\r\nabc";
        parse_response(whole).expect("a response").expect("complete").0
    }

    fn check(response: &str, right: Option<usize>) {
        assert_eq!(expected().check(response.as_bytes()).ok().flatten(), right, "{response}");
    }

    #[test]
    fn a_response_with_expected_status_and_body_is_correct() {
        let usual = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 2\r\n\r\nabc";
        check(usual, Some(usual.len()));
        let longer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 12\r\n\r\nabc";
        check(longer, Some(longer.len()));
        check(&usual[..usual.len() - 1], None);
    }

    #[test]
    fn a_wrong_response_is_an_error() {
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 2\r\n\r\nabd",
            "HTTP/1.1 500 OK\r\nContent-Length: 3\r\nDate: 2\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: 2\r\n\r\nab",
            "nonsense\r\n\r\n",
        ] {
            assert!(expected().check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_browser_sends_ten_headers() {
        let request = String::from_utf8(get(BROWSER, "/", "identity", None)).expect("text");
        assert_eq!(request.matches("\r\n").count() - 2, 10);
    }
}
