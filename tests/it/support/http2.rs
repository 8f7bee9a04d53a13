//! HTTP/2 with prior knowledge: a well-behaved client, and one that sends arbitrary frames.

use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::PATIENCE;
use super::client::Answer;

/// A well-behaved client.
#[derive(Debug)]
pub struct Http2 {
    runtime: tokio::runtime::Runtime,
    sender: SendRequest<Sent>,
}

impl Http2 {
    /// Connects with prior knowledge of HTTP/2.
    pub fn open(address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let sender = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .expect("the preface is sent");
            tokio::spawn(connection);
            sender
        });
        Self { runtime, sender }
    }

    /// Sends a request to `www.example.com` and returns the answer.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, hyper::Error> {
        let body = Sent { bytes: Some(Bytes::copy_from_slice(body)), is_all: true };
        self.send(compose(method, target, headers, body))
    }

    /// Sends a request with a body that never ends.
    pub fn request_and_stall(
        &mut self,
        target: &str,
        headers: &[(&str, &str)],
        beginning: &'static [u8],
    ) -> Result<Answer, hyper::Error> {
        let body = Sent { bytes: Some(Bytes::from_static(beginning)), is_all: false };
        self.send(compose("POST", target, headers, body))
    }

    fn send(&mut self, request: http::Request<Sent>) -> Result<Answer, hyper::Error> {
        self.runtime.block_on(async {
            self.sender.ready().await?;
            let (head, body) = self.sender.send_request(request).await?.into_parts();
            let headers = head.headers.iter().map(|(name, value)| {
                (name.as_str().to_owned(), value.to_str().expect("a header is text").to_owned())
            });
            let body = body.collect().await?.to_bytes().to_vec();
            Ok(Answer { status: head.status.as_u16(), headers: headers.collect(), body })
        })
    }
}

fn compose(method: &str, target: &str, headers: &[(&str, &str)], body: Sent) -> http::Request<Sent> {
    let mut request = http::Request::builder()
        .method(method)
        .version(http::Version::HTTP_2)
        .uri(format!("http://www.example.com{target}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).expect("a request")
}

/// A request's body.
#[derive(Debug)]
struct Sent {
    bytes: Option<Bytes>,
    /// Whether the body has an end.
    is_all: bool,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(hyper::body::Frame::data(bytes)))),
            None if self.is_all => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_all && self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }
}

/// The connection preface.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// The flag that marks a SETTINGS or PING frame as an acknowledgement.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A frame as bytes (RFC 9113 §4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request's header as HPACK (RFC 7541), using the static table and no Huffman coding. `path` must be
/// shorter than 127 bytes.
pub fn header(method: &str, path: &str) -> Vec<u8> {
    let method = match method {
        "GET" => 0x82,
        "POST" => 0x83,
        other => panic!("{other} is not in the static table"),
    };
    let length =
        |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("it is short");
    let authority = "www.example.com";
    [&[method, 0x86, 0x04, length(path)], path.as_bytes(), &[0x01, length(authority)], authority.as_bytes()]
        .concat()
}

/// A header field as HPACK literals, without references to the tables.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        let length = text.len();
        // An integer with a prefix of 7 bits (RFC 7541 §5.1).
        if length < 127 {
            bytes.push(u8::try_from(length).expect("it is short"));
        } else {
            bytes.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                bytes.push(u8::try_from(rest % 128 + 128).expect("it is a byte"));
                rest /= 128;
            }
            bytes.push(u8::try_from(rest).expect("it is a byte"));
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// A received frame.
#[derive(Debug, Clone)]
pub struct Received {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A connection on which tests send arbitrary frames.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// Connects, and sends the preface and the first SETTINGS.
    pub fn open(address: SocketAddr, settings: &[u8]) -> Self {
        Self::over(TcpStream::connect(address).expect("the server accepts"), settings)
    }

    /// Like [`Self::open`], over an open stream.
    pub fn over(stream: TcpStream, settings: &[u8]) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("it can be set");
        stream.set_nodelay(true).expect("it can be set");
        let mut frames = Self { stream };
        frames.send(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()).expect("sent");
        frames
    }

    /// Sends these bytes. Returns an error if the server has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = self.stream.write_all(bytes);
        let is_stuck = sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        assert!(!is_stuck, "the server neither reads nor closes the connection");
        sent
    }

    /// The next frame, or `None` if the server has closed the connection.
    pub fn next(&mut self) -> Option<Received> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Received { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    /// Reads until no more frames arrive. Returns whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        while self.next().is_some() {}
        let rest = self.stream.read(&mut [0]);
        rest.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |length| length == 0)
    }

    /// The next frame of this kind, or `None` if the connection is closed. Skips others.
    pub fn next_of(&mut self, kind: u8) -> Option<Received> {
        std::iter::from_fn(|| self.next()).find(|frame| frame.kind == kind)
    }
}
