//! Sends the same bytes to the fast path and the hyper path of HTTP/1.1 in memory, and returns both
//! responses. The fuzz target `lanes` uses this module as well.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use frontdesk_app::{AppState, PublicSite, WebOptions};
use frontdesk_http::{Options, ResponseStream, ShutdownPhase, Worker};
use frontdesk_inbox::intake::{Intake, IntakeOptions};
use frontdesk_inbox::store::{Store, StoreOptions};
use frontdesk_site as pages;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// Two workers that serve the same site, one with the fast path and one with hyper only.
pub struct Lanes {
    fast: Worker<PublicSite>,
    full: Worker<PublicSite>,
    runtime: tokio::runtime::Runtime,
    phase: (watch::Sender<ShutdownPhase>, watch::Receiver<ShutdownPhase>),
    _folder: tempfile::TempDir,
}

impl Lanes {
    /// Serves a small site with one page of each kind.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let prose = "A sentence that repeats itself, so that it is worth an encoding.\n".repeat(120);
        put("pages/index.md", "---\ntitle: Home\ndescription: Home.\n---\nShort.\n");
        put(
            "pages/long.md",
            &format!("---\ntitle: Long\ndescription: Long.\naliases: [/old/]\n---\n{prose}"),
        );
        put("pages/größe.md", "---\ntitle: Größe\ndescription: A name that is escaped.\n---\nText.\n");
        put("static/data.bin", "0123456789");
        put("static/plain.txt", &prose);
        let options = pages::PagesOptions {
            title: "Lanes".into(),
            language: "en".into(),
            base_url: "https://www.example.com".into(),
            home_links: vec!["</llms.txt>; rel=\"describedby\"".into()],
            ..pages::PagesOptions::default()
        };
        let worker = |fast_path| {
            let loaded = pages::load(folder.path(), &options, &[]);
            let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
            site.compress(usize::MAX, None);
            let inbox = folder.path().join(format!("inbox-{fast_path}.sqlite"));
            let store = Store::open(&StoreOptions::new(inbox)).expect("a store");
            let intake = Intake::start(store, IntakeOptions::default()).expect("a thread");
            let http = Options { fast_path, ..Options::default() };
            let app = AppState::new(site, intake, WebOptions { http, ..WebOptions::default() });
            Worker::new(app.server.clone(), PublicSite::new(&app))
        };
        let (fast, full) = (worker(true), worker(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { fast, full, runtime, phase: watch::channel(ShutdownPhase::Serving), _folder: folder }
    }

    /// The common response of both paths to these pieces; panics if they differ.
    pub fn answers_to(&self, pieces: &[&[u8]]) -> String {
        self.answers(pieces, false)
    }

    /// The same for a client that reads slowly. hyper's response to an invalid request then depends on its
    /// progress with the previous response, so only complete responses are compared.
    pub fn answers_slowly(&self, pieces: &[&[u8]]) -> String {
        self.answers(pieces, true)
    }

    /// How many responses a connection sends before its worker can serve others, if these requests arrive at
    /// once.
    pub fn responses_in_a_turn(&self, requests: &str) -> usize {
        let wire = Rc::new(RefCell::new(Wire { pieces: vec![requests.into()], ..Wire::default() }));
        let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let stream = Shared(wire.clone());
        let mut connection = std::pin::pin!(self.fast.serve_stream(stream, peer, self.phase.1.clone()));
        self.runtime.block_on(std::future::poll_fn(|cx| {
            assert!(connection.as_mut().poll(cx).is_pending(), "the connection has ended");
            Poll::Ready(())
        }));
        String::from_utf8_lossy(&wire.borrow().written).matches("HTTP/1.1 ").count()
    }

    /// How many of `count` connections get a response to a second request that arrives together with the end
    /// of their grace period at shutdown, as after a pause of the whole process. They have sent `first`.
    pub fn served_after_a_pause(&self, count: usize, first: &str) -> usize {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (shutdown, phase) = watch::channel(ShutdownPhase::Serving);
        let wires: Vec<Rc<RefCell<Wire>>> = (0..count).map(|_| Rc::default()).collect();
        let serve = |wire: &Rc<RefCell<Wire>>| {
            Box::pin(self.fast.serve_stream(Shared(wire.clone()), peer, phase.clone()))
        };
        let mut connections: Vec<_> = wires.iter().map(serve).collect();
        let mut poll_all = |cx: &mut Context<'_>| {
            for connection in &mut connections {
                assert!(connection.as_mut().poll(cx).is_pending(), "a connection has ended");
            }
            Poll::Ready(())
        };
        self.runtime.block_on(async {
            for wire in &wires {
                let pieces = vec![first.into()];
                *wire.borrow_mut() = Wire { pieces, at_end: AtEnd::StayConnected, ..Wire::default() };
            }
            std::future::poll_fn(&mut poll_all).await;
            shutdown.send_replace(ShutdownPhase::Stopping);
            std::future::poll_fn(&mut poll_all).await;
            std::thread::sleep(Duration::from_millis(1100));
            // The timers of the connections have ended after this one.
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
        let _runtime = self.runtime.enter();
        let mut served = 0;
        for (wire, mut connection) in wires.iter().zip(connections) {
            *wire.borrow_mut() =
                Wire { pieces: vec![b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".into()], ..Wire::default() };
            let _ = connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            served += usize::from(wire.borrow().written.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
        served
    }

    /// The size of a connection's state in bytes.
    pub fn size_of_a_connection(&self) -> usize {
        let stream = Shared(Rc::default());
        std::mem::size_of_val(&self.fast.serve_stream(
            stream,
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            self.phase.1.clone(),
        ))
    }

    fn answers(&self, pieces: &[&[u8]], is_slow: bool) -> String {
        let fast = self.transcript(&self.fast, pieces, is_slow);
        let full = self.transcript(&self.full, pieces, is_slow);
        let differs = fast.lines().zip(full.lines()).find(|(fast, full)| fast != full);
        assert!(fast == full, "{}\ndiffers in {differs:?}", pieces.concat().escape_ascii());
        fast
    }

    /// The response with its header fields sorted by name and without `date`, and how the connection ends.
    fn transcript(&self, worker: &Worker<PublicSite>, pieces: &[&[u8]], is_slow: bool) -> String {
        let wire = Rc::new(RefCell::new(Wire { is_slow, ..Wire::default() }));
        wire.borrow_mut().pieces =
            pieces.iter().rev().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
        let stream = Shared(wire.clone());
        let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        self.runtime.block_on(worker.serve_stream(stream, peer, self.phase.1.clone()));
        let wire = wire.borrow();
        let mut told = String::new();
        let mut rest = &wire.written[..];
        while !rest.is_empty() {
            rest = tell_answer(rest, &mut told);
        }
        let waited = if wire.has_waited { "It waits for more." } else { "It closes." };
        told.push_str(waited);
        told
    }
}

/// Appends an answer in a comparable form, and returns the remaining bytes.
fn tell_answer<'a>(bytes: &'a [u8], told: &mut String) -> &'a [u8] {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(end)) = answer.parse(bytes) else {
        // The bytes are HTTP/2 frames, which both workers handle in the same way.
        let _ = writeln!(told, "{}", bytes.escape_ascii());
        return b"";
    };
    let body = &bytes[end..];
    let mut length = 0;
    let mut lines = Vec::new();
    for field in answer.headers.iter().filter(|field| field.name != "date") {
        if field.name == "content-length" {
            length =
                std::str::from_utf8(field.value).ok().and_then(|text| text.parse().ok()).expect("a number");
        }
        lines.push(format!("{}: {}", field.name, field.value.escape_ascii()));
    }
    assert_eq!(answer.headers.len(), lines.len() + 1, "one date: {}", bytes[..end].escape_ascii());
    lines.sort_unstable();
    // An answer to HEAD has a length but no body. No body of the test site begins like an answer.
    if body.is_empty() || body.starts_with(b"HTTP/1.") {
        length = 0;
    }
    // The response may be incomplete if the client aborted the body of its request.
    let (body, rest) = body.split_at(length.min(body.len()));
    let _ = writeln!(told, "{:?} {:?} {:?}", answer.version, answer.code, answer.reason);
    let _ = writeln!(told, "{}\n", lines.join("\n"));
    let _ = writeln!(told, "{}", body.escape_ascii());
    rest
}

/// A connection whose client sends pieces, and reads everything.
#[derive(Debug, Default)]
struct Wire {
    /// The remaining pieces in reverse order.
    pieces: Vec<Vec<u8>>,
    written: Vec<u8>,
    is_slow: bool,
    writes: usize,
    at_end: AtEnd,
    /// Whether the server has asked for more after everything was sent.
    has_waited: bool,
    has_hung_up: bool,
}

/// The behavior of a client after everything was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AtEnd {
    /// It disconnects when the server waits for more.
    #[default]
    Disconnect,
    StayConnected,
}

struct Shared(Rc<RefCell<Wire>>);

impl ResponseStream for Shared {}

impl AsyncRead for Shared {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.borrow_mut();
        match wire.pieces.pop() {
            // An empty piece means that nothing has arrived yet.
            Some(piece) if piece.is_empty() => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(mut piece) => {
                let rest = piece.split_off(piece.len().min(room.remaining()));
                room.put_slice(&piece);
                if rest.is_empty() {
                    if !wire.pieces.is_empty() {
                        wire.pieces.push(Vec::new());
                    }
                } else {
                    wire.pieces.push(rest);
                }
            }
            None if wire.at_end == AtEnd::StayConnected => return Poll::Pending,
            None if wire.has_hung_up => {}
            None => {
                wire.has_waited = true;
                wire.has_hung_up = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Shared {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        let mut count = bytes.len();
        if wire.is_slow {
            wire.writes += 1;
            // Every third write finds no room, and no write finds room for all of a long answer.
            if wire.writes.is_multiple_of(3) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            count = count.min(3001);
        }
        wire.written.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Generates requests from a small grammar: each byte of `script` appends a part of a request, so that most
/// requests are nearly valid. The byte after a 255 is sent unchanged, and 254 begins a new piece. The bytes
/// of a piece arrive together.
pub fn compose(script: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = vec![Vec::new()];
    let mut script = script.iter();
    while let Some(byte) = script.next() {
        let last = pieces.last_mut().expect("there is one");
        match byte {
            255 => last.extend(script.next()),
            254 => pieces.push(Vec::new()),
            // Appends whole requests frequently, because few would be complete otherwise.
            200..=253 => {
                let at = usize::from(*byte) % TARGETS.len();
                last.extend_from_slice(format!("GET {} HTTP/1.1\r\nHost: a\r\n", TARGETS[at]).as_bytes());
                if let Some(field) = script.next() {
                    last.extend_from_slice(FIELDS[usize::from(*field) % FIELDS.len()].as_bytes());
                    last.extend_from_slice(b"\r\n\r\n");
                }
            }
            150..=199 => {
                last.extend_from_slice(FIELDS[usize::from(*byte) % FIELDS.len()].as_bytes());
                last.extend_from_slice(b"\r\n");
            }
            100..=149 => {
                let at = usize::from(*byte);
                let (method, target) = (METHODS[at % METHODS.len()], TARGETS[at / 2 % TARGETS.len()]);
                last.extend_from_slice(format!("{method} {target} HTTP/1.1\r\n").as_bytes());
            }
            _ => last.extend_from_slice(BITS[usize::from(*byte) % BITS.len()].as_bytes()),
        }
    }
    pieces
}

const METHODS: [&str; 8] = ["GET", "HEAD", "GET", "POST", "OPTIONS", "get", "CONNECT", "GE T"];

pub const TARGETS: [&str; 42] = [
    "/",
    "/long/",
    "/long.md",
    "/index.md",
    "/plain.txt",
    "/data.bin",
    "/nothing/",
    "/long",
    "/old/",
    "/gr%C3%B6%C3%9Fe/",
    "/größe/",
    "/long/?a=b",
    "/?",
    "//",
    "/./",
    "/../",
    "/a%2fb",
    "/%",
    "/%ff",
    "/%00",
    "/long%2f",
    "*",
    "http://a/",
    "http://b/long/",
    "https://a:1/?x",
    "a:80",
    "/#x",
    "/long/#x",
    "/a\\b",
    "/\"",
    "/{}",
    "/|",
    "/^",
    "/`",
    "/<>",
    "/api/contact",
    "/api/waitlist",
    "/api/contact?x",
    "/long/index.html",
    "",
    "/api/",
    "/api/nothing?x",
];

pub const FIELDS: [&str; 67] = [
    "Accept: text/markdown",
    "Accept: text/html",
    "Accept: application/json",
    "Accept: */*;q=0",
    "accept:",
    "Accept: text/html;q=0.1, text/markdown",
    "Accept: text/html\r\nAccept: text/markdown;q=2",
    "ACCEPT: ,,text/markdown",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Encoding: gzip",
    "Accept-Encoding: br;q=0, zstd",
    "Accept-Encoding: identity;q=0",
    "Accept-Encoding: gzip\r\naccept-encoding: br",
    "If-None-Match: *",
    "If-None-Match: \"a\", W/*",
    "If-None-Match: \"a\"\r\nIf-None-Match: *",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: Keep-Alive, x",
    "Connection: upgrade",
    "Connection:",
    "Upgrade: h2c",
    "Content-Length: 0",
    "Content-Length: 3",
    "Content-Length: 3, 3",
    "Content-Length: +1",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: identity",
    "Expect: 100-continue",
    "Expect: x",
    "Host: b",
    "Host:",
    "Host: [::1]:8080",
    "Host: a b",
    "Host: a:b",
    "Host: a@b",
    "Host: a_b.c-d:80",
    "host: A",
    "Range: bytes=0-1",
    "Cookie: a=b",
    "X-Request-Id: abc",
    "X-Forwarded-For: 192.0.2.7",
    "X-Forwarded-Proto: http",
    "TE: trailers",
    "Trailer: x",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: close",
    "User-Agent: x",
    "x: y",
    " folded",
    "a b: c",
    "no colon",
    ": empty",
    "x:\ty \t",
    "x: \u{e9}",
    "Content-Type: application/json",
    "Origin: null",
    "Sec-Fetch-Mode: navigate",
    "If-Modified-Since: Fri, 20 Nov 2026 00:00:00 GMT",
    "Accept-Encoding: x-gzip;q=0.001",
    "Accept: text/*",
    "If-Match: *",
    "If-Match: \"a\"",
    "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
];

const BITS: [&str; 20] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\r\n\r\n",
    "\n\n",
    "GET",
    "/",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "Host: a\r\n",
    ":",
    "\0",
    "0\r\n\r\n",
    "3\r\nabc\r\n",
    "{\"email\":\"ada@example.com\"}",
    "GET / HTTP/1.0\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "x",
];
