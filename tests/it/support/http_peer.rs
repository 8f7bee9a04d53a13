//! An HTTP peer that can misbehave: it reacts to each request as a script says, and records the requests.
//!
//! Uses the standard library only. Each connection has its own thread; dropping the peer ends all of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which waiting threads check whether the peer was dropped.
const LOOK: Duration = Duration::from_millis(10);

/// The reaction to one request (or to one connection, if no request is read).
#[derive(Clone, Debug)]
pub enum Reply {
    /// Sends a complete response after a delay.
    Answer { status: u16, headers: Vec<(String, String)>, body: Vec<u8>, delay: Duration },
    /// Closes the connection before reading anything.
    CloseBeforeRequest,
    /// Reads the request and closes the connection.
    CloseAfterRequest,
    /// Reads the request, sends the beginning of a header and closes the connection.
    HalfHeader,
    /// Sends a header byte by byte and never completes it.
    HeaderDrip { every: Duration },
    /// Sends header lines until the client disconnects.
    EndlessHeaders,
    /// Sends `100 Continue` until the client disconnects.
    EndlessInterim,
    /// Reads the request and does not respond.
    Silence,
    /// Announces a body of this many bytes and sends it until the client disconnects.
    LongBody { status: u16, bytes: u64 },
    /// Announces a body and never sends it.
    StalledBody { status: u16 },
    /// Sends these bytes and closes the connection.
    Raw(Vec<u8>),
}

impl Reply {
    /// A response without additional headers.
    pub fn status(status: u16) -> Reply {
        Reply::Answer { status, headers: Vec::new(), body: Vec::new(), delay: Duration::ZERO }
    }

    /// A response with a header.
    pub fn with(status: u16, name: &str, value: &str) -> Reply {
        let headers = vec![(name.to_owned(), value.to_owned())];
        Reply::Answer { status, headers, body: Vec::new(), delay: Duration::ZERO }
    }

    /// A response with a body.
    pub fn saying(status: u16, body: &str) -> Reply {
        Reply::Answer { status, headers: Vec::new(), body: body.into(), delay: Duration::ZERO }
    }

    /// A response after a delay.
    pub fn late(status: u16, delay: Duration) -> Reply {
        Reply::Answer { status, headers: Vec::new(), body: Vec::new(), delay }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names and values as sent, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The time at which the last byte arrived.
    pub at: Instant,
    /// The status of the scripted response; `None` if the script had no complete one.
    pub answered: Option<u16>,
}

impl Request {
    /// The value of the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    script: Vec<Reply>,
    step: usize,
    requests: Vec<Request>,
    connections: usize,
    sent: u64,
    is_over: bool,
}

impl State {
    fn next(&mut self) -> Reply {
        let reply = self.script[self.step.min(self.script.len() - 1)].clone();
        self.step += 1;
        reply
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the peer panics")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Takes the next step of the script. The last step is repeated.
    fn next(&self) -> Reply {
        self.lock().next()
    }

    /// Records a request, and returns the next step of the script as its reply.
    fn take(&self, mut request: Request) -> Reply {
        let mut state = self.lock();
        let reply = state.next();
        if let Reply::Answer { status, .. } = reply {
            request.answered = Some(status);
        }
        state.requests.push(request);
        drop(state);
        self.changed.notify_all();
        reply
    }

    /// The next step of the script, which is not consumed.
    fn upcoming(&self) -> Reply {
        let state = self.lock();
        state.script[state.step.min(state.script.len() - 1)].clone()
    }
}

/// A running peer. By default, it listens on a free port on 127.0.0.1.
pub struct HttpPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl HttpPeer {
    /// Starts a peer. Each request uses the next step of the script, and the last step is repeated.
    pub fn start(script: impl IntoIterator<Item = Reply>) -> HttpPeer {
        HttpPeer::start_at((Ipv4Addr::LOCALHOST, 0).into(), script)
    }

    /// Starts a peer at an address in the calling thread's network namespace.
    pub fn start_at(address: SocketAddr, script: impl IntoIterator<Item = Reply>) -> HttpPeer {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        shared.lock().script = script.into_iter().collect();
        assert!(!shared.lock().script.is_empty(), "a script needs at least one step");
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.is_over() {
                    break;
                }
                accepting.change(|state| state.connections += 1);
                let shared = Arc::clone(&accepting);
                // The client causes these errors, and its test checks them.
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        HttpPeer { address, shared }
    }

    /// The address on which the peer listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of this target.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Replaces the script.
    pub fn follow(&self, script: impl IntoIterator<Item = Reply>) {
        let script: Vec<Reply> = script.into_iter().collect();
        assert!(!script.is_empty(), "a script needs at least one step");
        self.shared.change(|state| {
            state.script = script;
            state.step = 0;
        });
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// The number of bytes of long bodies and endless headers that were sent.
    pub fn sent(&self) -> u64 {
        self.shared.lock().sent
    }

    /// Waits until the peer has received this many requests.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is exceeded.
    pub fn wait_for(&self, count: usize, limit: Duration) -> Vec<Request> {
        let (state, result) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), limit, |state| state.requests.len() < count)
            .expect("no thread of the peer panics");
        assert!(!result.timed_out(), "{} of {count} requests within {limit:?}", state.requests.len());
        state.requests.clone()
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_over = true);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves request after request until either side closes the connection.
fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    if matches!(shared.upcoming(), Reply::CloseBeforeRequest) {
        shared.next();
        return stream.shutdown(Shutdown::Both);
    }
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, shared)? {
        let closes = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let reply = shared.take(request);
        if !answer(&mut stream, &reply, shared)? || closes {
            break;
        }
    }
    stream.shutdown(Shutdown::Both)
}

/// Replies as in the script. Returns whether the connection stays open.
fn answer(stream: &mut TcpStream, reply: &Reply, shared: &Shared) -> std::io::Result<bool> {
    match reply {
        Reply::Answer { status, headers, body, delay } => {
            pause(*delay, shared);
            let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            if !matches!(status, 100..=199 | 204 | 304) {
                head.push_str(&format!("Content-Length: {}\r\n", body.len()));
            }
            send(stream, &[head.as_bytes(), b"\r\n", body].concat(), shared)?;
            Ok(true)
        }
        Reply::CloseBeforeRequest | Reply::CloseAfterRequest => Ok(false),
        Reply::HalfHeader => {
            send(stream, b"HTTP/1.1 200 OK\r\nContent-Le", shared)?;
            Ok(false)
        }
        Reply::HeaderDrip { every } => {
            send(stream, b"HTTP/1.1 200 OK\r\nX-Drip: ", shared)?;
            while !shared.is_over() {
                pause(*every, shared);
                send(stream, b"x", shared)?;
            }
            Ok(false)
        }
        Reply::EndlessHeaders => {
            send(stream, b"HTTP/1.1 200 OK\r\n", shared)?;
            while !shared.is_over() {
                send_counted(stream, "X-More: and more\r\n".repeat(512).as_bytes(), shared)?;
            }
            Ok(false)
        }
        Reply::EndlessInterim => {
            while !shared.is_over() {
                send_counted(stream, "HTTP/1.1 100 Continue\r\n\r\n".repeat(512).as_bytes(), shared)?;
            }
            Ok(false)
        }
        Reply::Silence => {
            wait_until_gone(stream, shared);
            Ok(false)
        }
        Reply::LongBody { status, bytes } => {
            let head = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {bytes}\r\n\r\n");
            send(stream, head.as_bytes(), shared)?;
            let mut left = *bytes;
            while left > 0 && !shared.is_over() {
                let chunk = [b'x'; 16 * 1024];
                let count = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
                send_counted(stream, &chunk[..count], shared)?;
                left -= count as u64;
            }
            Ok(false)
        }
        Reply::StalledBody { status } => {
            send(
                stream,
                format!("HTTP/1.1 {status} Scripted\r\nContent-Length: 7\r\n\r\nso").as_bytes(),
                shared,
            )?;
            wait_until_gone(stream, shared);
            Ok(false)
        }
        Reply::Raw(bytes) => {
            send(stream, bytes, shared)?;
            Ok(false)
        }
    }
}

/// Reads one request. `None` if the client has disconnected.
fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    shared: &Shared,
) -> std::io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if !receive(stream, buffer, shared)? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let mut request = Request {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        headers: lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
        body: Vec::new(),
        at: Instant::now(),
        answered: None,
    };
    let length: usize = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if !receive(stream, buffer, shared)? {
            return Ok(None);
        }
    }
    request.body = buffer.drain(..length).collect();
    request.at = Instant::now();
    Ok(Some(request))
}

/// Appends newly arrived bytes. Returns false at the end of the connection.
fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>, shared: &Shared) -> std::io::Result<bool> {
    let mut chunk = [0; 16 * 1024];
    while !shared.is_over() {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                buffer.extend_from_slice(&chunk[..count]);
                return Ok(true);
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn send_counted(stream: &mut TcpStream, bytes: &[u8], shared: &Shared) -> std::io::Result<()> {
    send(stream, bytes, shared)?;
    shared.change(|state| state.sent += bytes.len() as u64);
    Ok(())
}

fn send(stream: &mut TcpStream, mut bytes: &[u8], shared: &Shared) -> std::io::Result<()> {
    while !bytes.is_empty() && !shared.is_over() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait_until_gone(stream: &mut TcpStream, shared: &Shared) {
    let mut ignored = Vec::new();
    while receive(stream, &mut ignored, shared).unwrap_or(false) {
        ignored.clear();
    }
}

fn pause(delay: Duration, shared: &Shared) {
    let end = Instant::now() + delay;
    while !shared.is_over() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(LOOK));
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
