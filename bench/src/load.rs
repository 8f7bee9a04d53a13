//! The load generator: keeps connections busy with one request after the other, and checks each response byte
//! by byte.
//!
//! One thread for each core waits with epoll. During the measurement, a response that arrives in one piece is
//! not allocated, and a response with a header of the expected length is not parsed.

pub mod open;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::http::{self, Response};
use crate::latency::Latencies;
use crate::machine::{Cores, Machine, pin};
use crate::process::{self, Usage};

/// Maximum length of a response, header and body.
const MAX_RESPONSE: usize = 4 << 20;
/// The measurement fails if no response arrives for this time.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Number of loopback addresses that connections come from, because one has too few ports.
const SOURCES: usize = 8;

/// The requests of a thread and the expected responses.
pub trait Script {
    /// The next request of `connection`.
    fn next(&mut self, connection: usize) -> &[u8];

    /// The expected response to the last request of `connection`.
    fn expected(&self, connection: usize) -> &Expected;

    /// Called for each correct response, also during the warm-up.
    fn on_response(&mut self, _connection: usize) {}
}

/// The expected response.
#[derive(Debug, Clone)]
pub struct Expected {
    status: u16,
    status_line: Vec<u8>,
    /// Responses with another header length are parsed.
    head_length: usize,
    body: Vec<u8>,
    /// The body with chunk framing, if any.
    framed: Vec<u8>,
}

impl Expected {
    /// Expects the status and the body of this response.
    pub fn like(response: &Response) -> Self {
        Self {
            status: response.status,
            status_line: format!("HTTP/1.1 {} ", response.status).into_bytes(),
            head_length: response.head_length,
            body: response.body.clone(),
            framed: response.framed.clone(),
        }
    }

    /// The length of the response at the beginning of `bytes`; `None` while it is incomplete, an error if it
    /// is wrong.
    fn check(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let whole = self.head_length + self.framed.len();
        if bytes.len() >= whole
            && bytes.starts_with(&self.status_line)
            && bytes[..self.head_length].ends_with(b"\r\n\r\n")
            && bytes[self.head_length..whole] == self.framed
        {
            return Ok(Some(whole));
        }
        let Some((response, whole)) = http::parse(bytes)? else { return Ok(None) };
        ensure!(
            response.status == self.status,
            "the status is {} instead of {}",
            response.status,
            self.status
        );
        ensure!(response.body == self.body, "the body is wrong");
        Ok(Some(whole))
    }
}

/// Cycles through a list of requests. Each connection starts at another one.
#[derive(Debug, Clone)]
pub struct Cycle<'a> {
    exchanges: &'a [(Vec<u8>, Expected)],
    places: Vec<usize>,
}

impl<'a> Cycle<'a> {
    /// Panics if `exchanges` is empty.
    pub fn new(exchanges: &'a [(Vec<u8>, Expected)], connections: usize) -> Self {
        Self { exchanges, places: (0..connections).map(|number| number % exchanges.len()).collect() }
    }
}

impl Script for Cycle<'_> {
    fn next(&mut self, connection: usize) -> &[u8] {
        let place = &mut self.places[connection];
        *place = (*place + 1) % self.exchanges.len();
        &self.exchanges[*place].0
    }

    fn expected(&self, connection: usize) -> &Expected {
        &self.exchanges[self.places[connection]].1
    }
}

/// The settings of a load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub machine: Machine,
    /// The cores that generate load, one thread each.
    pub cores: Cores,
    pub connections: usize,
    /// Time before the measurement.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub length: Duration,
}

/// The server answered no request during the measurement.
#[derive(Debug)]
pub struct NoResponses(Duration);

impl std::error::Error for NoResponses {}

impl std::fmt::Display for NoResponses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the server answered no request in {:?}", self.0)
    }
}

/// The result of a round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// Correct responses. A wrong one ends the measurement.
    pub responses: u64,
    /// Length of the measurement.
    pub seconds: f64,
    /// CPU time of the server, user and system, in seconds.
    pub server: f64,
    /// CPU time of its busiest thread, in seconds.
    pub busiest: f64,
    /// CPU utilisation of the load generator. Near 1, it limits the server.
    pub generator: f64,
    /// Response times in microseconds.
    pub p50: f64,
    /// Microseconds.
    pub p99: f64,
    /// Microseconds.
    pub p999: f64,
}

impl Sample {
    /// Responses a second.
    pub fn rate(&self) -> f64 {
        self.responses as f64 / self.seconds
    }

    /// CPU time of the server for a response, in microseconds.
    pub fn cost(&self) -> f64 {
        self.server * 1e6 / self.responses as f64
    }

    /// CPU utilisation of the server: 1 is one core.
    pub fn busy(&self) -> f64 {
        self.server / self.seconds
    }

    /// A sample with these responses and response times.
    pub fn of(latencies: &Latencies, seconds: f64) -> Self {
        let micros = |share| latencies.percentile(share) as f64 / 1e3;
        let (p50, p99, p999) = (micros(0.5), micros(0.99), micros(0.999));
        Self { responses: latencies.total(), seconds, p50, p99, p999, ..Self::default() }
    }
}

/// Runs `load` against the server at `address` with the process `server`. `script` gets the number of the
/// first connection and the number of connections of each thread.
pub fn run<S: Script>(
    load: &Load,
    address: SocketAddr,
    server: u32,
    script: impl Fn(usize, usize) -> S + Sync,
) -> Result<Sample> {
    let cores = load.machine.numbers(load.cores);
    let shares = shares(load.connections, cores.len());
    let threads = cores.iter().zip(&shares).filter(|(_, (_, count))| *count > 0).count();
    let ready = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (core, (first, count)) in cores.iter().copied().zip(shares).filter(|(_, (_, count))| *count > 0) {
            let (ready, script) = (&ready, &script);
            running.push(scope.spawn(move || {
                let prepared = pin(&[core]).and_then(|()| Worker::new(address, count, script(first, count)));
                ready.wait();
                prepared?.run(Window::new(load))
            }));
        }
        ready.wait();
        let window = Window::new(load);
        window.sleep_to_start();
        let (began, before) = (Instant::now(), process::usage(server));
        window.sleep_to_end();
        let (elapsed, after) = (began.elapsed(), process::usage(server));
        let mut generator = Duration::ZERO;
        let mut latencies = Latencies::default();
        for thread in running {
            let done = thread.join().map_err(|_| anyhow!("the load generator panicked"))??;
            latencies.merge(&done.latencies);
            generator += done.busy;
        }
        sample(&latencies, load.length, elapsed, &before, &after, generator / threads as u32)
    })
}

/// The sample of a measurement of this length. The CPU time of the server was read after `observed`, because
/// reading `/proc` takes time. Fails with [`NoResponses`] if there was no response.
pub fn sample(
    latencies: &Latencies,
    length: Duration,
    observed: Duration,
    before: &Usage,
    after: &Usage,
    generator: Duration,
) -> Result<Sample> {
    if latencies.total() == 0 {
        return Err(NoResponses(length).into());
    }
    let spent = after.since(before);
    let scale = length.as_secs_f64() / observed.as_secs_f64() / 1e9;
    Ok(Sample {
        server: spent.iter().sum::<u64>() as f64 * scale,
        busiest: spent.first().copied().unwrap_or(0) as f64 * scale,
        generator: generator.as_secs_f64() / length.as_secs_f64(),
        ..Sample::of(latencies, length.as_secs_f64())
    })
}

/// The first connection and the number of connections of each thread.
fn shares(connections: usize, threads: usize) -> Vec<(usize, usize)> {
    let place = |thread: usize| connections * thread / threads;
    (0..threads).map(|thread| (place(thread), place(thread + 1) - place(thread))).collect()
}

/// The time of the measurement.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    fn new(load: &Load) -> Self {
        let start = Instant::now() + load.warm_up;
        Self { start, end: start + load.length }
    }

    fn sleep_to_start(&self) {
        std::thread::sleep(self.start.saturating_duration_since(Instant::now()));
    }

    fn sleep_to_end(&self) {
        std::thread::sleep(self.end.saturating_duration_since(Instant::now()));
    }
}

/// The connections of a thread.
struct Worker<S> {
    script: S,
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// The beginning of a response that arrives in several partial.
    partial: Vec<u8>,
}

/// The result of a thread.
struct WorkerResult {
    latencies: Latencies,
    busy: Duration,
}

impl<S: Script> Worker<S> {
    fn new(address: SocketAddr, count: usize, script: S) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let stream = connect_from(number % SOURCES, address)
                .with_context(|| format!("connection {} to {address}", number + 1))?;
            epoll::add(
                &epoll,
                &stream,
                epoll::EventData::new_u64(number as u64),
                epoll::EventFlags::IN | epoll::EventFlags::ET,
            )?;
            connections.push(Connection { stream, sent: Instant::now(), partial: Vec::new() });
        }
        Ok(Self { script, epoll, connections, buffer: vec![0; 256 * 1024] })
    }

    fn run(mut self, window: Window) -> Result<WorkerResult> {
        let mut latencies = Latencies::default();
        let mut busy_at_start = None;
        for number in 0..self.connections.len() {
            self.connections[number].sent = Instant::now();
            self.send(number)?;
        }
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 512];
        let patience = Timespec { tv_sec: RESPONSE_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        loop {
            let count = match epoll::wait(&self.epoll, &mut events, Some(&patience)) {
                Ok(0) => bail!("no response for {RESPONSE_TIMEOUT:?}"),
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                let number = event.data.u64() as usize;
                if !self.receive(number)? {
                    continue;
                }
                let now = Instant::now();
                if now >= window.end {
                    let busy = cpu_time().saturating_sub(busy_at_start.unwrap_or_default());
                    return Ok(WorkerResult { latencies, busy });
                }
                if now >= window.start {
                    busy_at_start.get_or_insert_with(cpu_time);
                    latencies.record((now - self.connections[number].sent).as_nanos() as u64);
                }
                self.script.on_response(number);
                self.connections[number].sent = now;
                self.send(number)?;
            }
        }
    }

    fn send(&mut self, number: usize) -> Result<()> {
        let request = self.script.next(number);
        let sent = self.connections[number].stream.write(request).context("a request cannot be sent")?;
        // The previous request was answered, so the socket buffer is empty.
        ensure!(sent == request.len(), "a request of {} bytes does not fit into the socket", request.len());
        Ok(())
    }

    /// Reads the available bytes. Returns whether a response is complete.
    fn receive(&mut self, number: usize) -> Result<bool> {
        loop {
            let (is_complete, count) = self.receive_once(number)?;
            // A read that does not fill the buffer has emptied the socket; epoll reports further bytes.
            if is_complete || count < self.buffer.len() {
                return Ok(is_complete);
            }
        }
    }

    /// The same for one read. Also returns the number of bytes.
    fn receive_once(&mut self, number: usize) -> Result<(bool, usize)> {
        let connection = &mut self.connections[number];
        let count = match connection.stream.read(&mut self.buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((false, 0)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok((false, self.buffer.len())),
            Err(error) => return Err(error).context("a response cannot be read"),
        };
        let expected = self.script.expected(number);
        if connection.partial.is_empty() {
            let Some(length) = expected.check(&self.buffer[..count])? else {
                connection.partial.extend_from_slice(&self.buffer[..count]);
                return Ok((false, count));
            };
            ensure!(length == count, "unexpected bytes after a response");
            return Ok((true, count));
        }
        connection.partial.extend_from_slice(&self.buffer[..count]);
        ensure!(connection.partial.len() <= MAX_RESPONSE, "a response is longer than {MAX_RESPONSE} bytes");
        if connection.partial.len() < expected.head_length.min(MAX_RESPONSE) {
            return Ok((false, count));
        }
        let Some(length) = expected.check(&connection.partial)? else { return Ok((false, count)) };
        ensure!(length == connection.partial.len(), "unexpected bytes after a response");
        connection.partial.clear();
        Ok((true, count))
    }
}

/// Connects from the loopback address with this number.
pub fn connect_from(source: usize, address: SocketAddr) -> Result<TcpStream> {
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2 + source as u8), 0);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &from)?;
    connect(&socket, &address)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 1\r\n\r\nabc";
        Expected::like(&http::parse(whole).expect("a response").expect("complete").0)
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
    fn connections_are_divided_among_threads() {
        assert_eq!(shares(5, 2), [(0, 2), (2, 3)]);
        assert_eq!(shares(1, 2), [(0, 0), (0, 1)]);
        assert_eq!(shares(64, 1), [(0, 64)]);
    }
}
