//! Requests as they are sent, and answers as they are read: just enough of HTTP/1.1 (RFC 9112) to check each one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// The headers that a browser sends besides `Host` and `Accept-Encoding`: ten in all, those of a current Chrome.
const BROWSER: [(&str, &str); 8] = [
    ("Connection", "keep-alive"),
    ("sec-ch-ua", "\"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \"Not_A Brand\";v=\"99\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Windows\""),
    (
        "User-Agent",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    ),
    ("Sec-Fetch-Mode", "navigate"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
];

/// The headers of an agent that asks for Markdown, likewise.
const AGENT: [(&str, &str); 2] =
    [("User-Agent", "Mozilla/5.0 (compatible; Agent/1.0)"), ("Accept", "text/markdown, text/html;q=0.5")];

/// Who is asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A person's browser.
    Browser,
    /// An agent that would rather read Markdown.
    Agent,
}

impl Asker {
    /// What it sends besides `Host` and `Accept-Encoding`.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Browser => &BROWSER,
            Self::Agent => &AGENT,
        }
    }
}

/// A GET of `path`, whose answer may have the encodings that are named ("identity", "gzip, br").
pub fn get(asker: Asker, path: &str, encodings: &str, if_none_match: Option<&str>) -> Vec<u8> {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: www.example.com\r\n");
    for (name, value) in asker.headers() {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Accept-Encoding: {encodings}\r\n");
    if let Some(etag) = if_none_match {
        request += &format!("If-None-Match: {etag}\r\n");
    }
    request += "\r\n";
    request.into_bytes()
}

/// An answer's head and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Of the status line.
    pub status: u16,
    /// The length of status line and headers with the empty line, in bytes.
    pub head_length: usize,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// As it was sent, compressed or not.
    pub body: Vec<u8>,
    /// The same with what is between its chunks, where it was sent in chunks.
    pub framed: Vec<u8>,
}

impl Answer {
    /// The value of the header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Sends one request on a connection of its own and reads its answer, within ten seconds.
pub fn ask(address: SocketAddr, request: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("nobody answers at {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        if let Some((answer, _)) = parse(&bytes)? {
            return Ok(answer);
        }
        let count = stream.read(&mut piece).with_context(|| format!("{address} does not answer in time"))?;
        ensure!(count > 0, "{address} closed the connection within an answer");
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// The answer at the beginning of `bytes` and its whole length; none while it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).context("a head is no text")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
    let Some(status) = status else { bail!("this is no answer: {status_line:?}") };
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, head_length: end + 4, headers, body: Vec::new(), framed: Vec::new() };
    let behind = &bytes[answer.head_length..];
    let length = match (status, answer.header("content-length"), answer.header("transfer-encoding")) {
        (304 | 204, ..) => 0,
        (_, _, Some("chunked")) => match unchunk(behind)? {
            Some((body, length)) => {
                (answer.body, answer.framed) = (body, behind[..length].to_vec());
                let whole = answer.head_length + length;
                return Ok(Some((answer, whole)));
            }
            None => return Ok(None),
        },
        (_, Some(length), None) => length.parse().context("the Content-Length is no number")?,
        _ => bail!("an answer does not say how long it is"),
    };
    let Some(body) = behind.get(..length) else { return Ok(None) };
    (answer.body, answer.framed) = (body.to_vec(), body.to_vec());
    let whole = answer.head_length + length;
    Ok(Some((answer, whole)))
}

/// The body that was sent in chunks (RFC 9112 §7.1), and how long it was with what is between them; none while it is incomplete.
fn unchunk(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = bytes[at..].windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&bytes[at..at + line]).context("a chunk's length is no text")?;
        let size = usize::from_str_radix(size, 16).context("a chunk's length is no number")?;
        let begin = at + line + 2;
        let Some(chunk) = bytes.get(begin..begin + size + 2) else { return Ok(None) };
        ensure!(chunk.ends_with(b"\r\n"), "a chunk is longer than it says");
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
    fn an_answer_is_read_once_it_is_complete() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: b: c\r\n\r\nabcHTTP/1.1";
        for length in 0..whole.len() {
            let parsed = parse(&whole[..length]).expect("it is an answer");
            assert_eq!(parsed.is_some(), length >= whole.len() - 8, "{length}");
        }
        let (answer, length) = parse(whole).expect("an answer").expect("a whole one");
        assert_eq!(
            (answer.status, answer.body.as_slice(), length),
            (200, b"abc".as_slice(), whole.len() - 8)
        );
        assert_eq!(answer.header("x-a"), Some("b: c"));
    }

    #[test]
    fn chunks_are_put_together() {
        let whole =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]).expect("it is an answer"), None, "{length}");
        }
        let (answer, length) = parse(whole).expect("an answer").expect("a whole one");
        assert_eq!((answer.body.as_slice(), length), (b"abc0123456789".as_slice(), whole.len()));
        assert_eq!(answer.framed, whole[answer.head_length..]);
    }

    #[test]
    fn a_304_has_no_body_whatever_its_length_says() {
        let (answer, _) = parse(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n")
            .expect("an answer")
            .expect("a whole one");
        assert_eq!((answer.status, answer.body.len()), (304, 0));
    }

    #[test]
    fn a_browser_sends_ten_headers() {
        let request = String::from_utf8(get(Asker::Browser, "/", "identity", None)).expect("a text");
        assert_eq!(request.matches("\r\n").count() - 2, 10);
    }
}
