//! HTTP/1.1 over a plain socket, for requests that no well-behaved client sends.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names, in lower case, and values in the order of arrival.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, or `None`. Panics if it occurs more than once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert!(values.next().is_none(), "{name} came more than once: {:?}", self.headers);
        first
    }

    /// The values of a header that may occur more than once.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }
}

/// A connection for any number of requests.
#[derive(Debug)]
pub struct Connection<S: Read = TcpStream> {
    stream: BufReader<S>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("the server accepts")
    }

    /// Like [`Self::open`], but returns an error if the connection fails: the server may have ended.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Closes the sending direction.
    pub fn close_writing(&mut self) {
        // The server may already have closed the connection.
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Write);
    }
}

impl<S: Read + Write> Connection<S> {
    /// Uses an open stream.
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub fn stream(&self) -> &S {
        self.stream.get_ref()
    }

    /// Sends the bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Sends a request with a Host header and returns the answer.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.send(&compose(method, target, headers, body))?;
        self.answer(method == "HEAD")
    }

    /// Reads one response. `head` means that the response has no body, regardless of `Content-Length`.
    pub fn answer(&mut self, head: bool) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or_else(|| broken(&status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map(|(_, length)| length.parse().expect("a length"));
        let bodiless = head || status == 304 || status == 204 || (100..200).contains(&status);
        let mut body = vec![0; if bodiless { 0 } else { length.unwrap_or(0) }];
        self.stream.read_exact(&mut body)?;
        if !bodiless && headers.contains(&("transfer-encoding".to_owned(), "chunked".to_owned())) {
            body = self.chunks()?;
        }
        Ok(Answer { status, headers, body })
    }

    /// Reads a chunked body without trailers (RFC 9112 §7.1). frontdesk sends none, but proxies do.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16).map_err(|_| broken(&line))?;
            let start = body.len();
            body.resize(start + size, 0);
            self.stream.read_exact(&mut body[start..])?;
            if !self.line()?.is_empty() {
                return Err(broken("a chunk ends with a line end"));
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    /// Reads further bytes until the server closes the connection.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

fn broken(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP: {line:?}"))
}

/// A request as bytes.
pub fn compose(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: www.example.com\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
