//! The load generator: keeps a number of connections busy with one request after the other, and checks each answer byte by byte.
//!
//! One thread a core waits with epoll. In the time that is measured nothing is allocated for an answer that arrives in one piece,
//! and nothing is parsed whose head is as long as it was the first time. It is the same for all servers.

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

use crate::cores::{Cores, Machine, keep_to};
use crate::http::{self, Answer};
use crate::latency::Latencies;
use crate::process::{self, Usage};

/// An answer may be this long, head and body.
const LARGEST: usize = 4 << 20;
/// Without an answer to anybody for so long, the server counts as stuck.
const PATIENCE: Duration = Duration::from_secs(15);
/// Connections come from so many addresses of the loopback network, so that there are ports enough.
const SOURCES: usize = 8;

/// What is sent on a connection, and what the right answer to it is. Each thread has one of its own.
pub trait Script {
    /// The request that `connection` sends next.
    fn next(&mut self, connection: usize) -> &[u8];

    /// What the answer must be to what `connection` has sent last.
    fn expected(&self, connection: usize) -> &Expected;

    /// Told of each right answer, in the time that is measured and before it.
    fn answered(&mut self, _connection: usize) {}
}

/// The right answer.
#[derive(Debug, Clone)]
pub struct Expected {
    status: u16,
    /// How it begins.
    status_line: Vec<u8>,
    /// As it was the first time; another length is parsed.
    head_length: usize,
    body: Vec<u8>,
    /// The body as it was sent the first time, in chunks or not.
    framed: Vec<u8>,
}

impl Expected {
    /// The same status and body as this answer's.
    pub fn like(answer: &Answer) -> Self {
        Self {
            status: answer.status,
            status_line: format!("HTTP/1.1 {} ", answer.status).into_bytes(),
            head_length: answer.head_length,
            body: answer.body.clone(),
            framed: answer.framed.clone(),
        }
    }

    /// The length of a right answer at the beginning of `bytes`; none while it is incomplete, an error if it is not right.
    fn check(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let whole = self.head_length + self.framed.len();
        if bytes.len() >= whole
            && bytes.starts_with(&self.status_line)
            && bytes[..self.head_length].ends_with(b"\r\n\r\n")
            && bytes[self.head_length..whole] == self.framed
        {
            return Ok(Some(whole));
        }
        let Some((answer, whole)) = http::parse(bytes)? else { return Ok(None) };
        ensure!(answer.status == self.status, "the answer is {} instead of {}", answer.status, self.status);
        ensure!(answer.body == self.body, "the answer's body is not the right one");
        Ok(Some(whole))
    }
}

/// One request after the other from a fixed list, on each connection from another place on.
#[derive(Debug, Clone)]
pub struct Cycle<'a> {
    exchanges: &'a [(Vec<u8>, Expected)],
    places: Vec<usize>,
}

impl<'a> Cycle<'a> {
    /// Through these, which must not be none.
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

/// How much load, from where and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Which cores are which.
    pub machine: Machine,
    /// On which of them it is generated, one thread each.
    pub cores: Cores,
    /// All of them busy all the time.
    pub connections: usize,
    /// Before anything is counted.
    pub warm_up: Duration,
    /// What is counted.
    pub length: Duration,
}

/// What was seen in one round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// Right answers. There are no others: a wrong one ends the measurement.
    pub answers: u64,
    /// In which they came.
    pub seconds: f64,
    /// Processor time of the server, user's and system's, in seconds.
    pub server: f64,
    /// Of it, the busiest thread's.
    pub busiest: f64,
    /// The share of its cores that the load generator used: near 1 the server could have done more.
    pub generator: f64,
    /// Latencies in microseconds.
    pub p50: f64,
    /// Likewise.
    pub p90: f64,
    /// Likewise.
    pub p99: f64,
    /// Likewise.
    pub p999: f64,
}

impl Sample {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// Microseconds of the server's processor time for one answer.
    pub fn cost(&self) -> f64 {
        self.server * 1e6 / self.answers as f64
    }

    /// Of how much of a core the server has used.
    pub fn busy(&self) -> f64 {
        self.server / self.seconds
    }

    /// Puts the latencies in.
    pub fn with(mut self, latencies: &Latencies) -> Self {
        let micros = |share| latencies.percentile(share) as f64 / 1e3;
        (self.p50, self.p90) = (micros(0.5), micros(0.9));
        (self.p99, self.p999) = (micros(0.99), micros(0.999));
        self
    }
}

/// Puts `load` on the server at `address`, whose processes descend from `server`. `script` makes what a thread with so many
/// connections, the number of whose first one it is told, sends.
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
                let prepared =
                    keep_to(&[core]).and_then(|()| Worker::new(address, count, script(first, count)));
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
        let mut answers = 0;
        let mut generator = Duration::ZERO;
        let mut latencies = Latencies::default();
        for thread in running {
            let done = thread.join().map_err(|_| anyhow!("the load generator has panicked"))??;
            latencies.add(&done.latencies);
            answers += done.latencies.total();
            generator += done.busy;
        }
        ensure!(answers > 0, "{address} has answered nothing in {:?}", load.length);
        Ok(sample(answers, load.length, elapsed, &before, &after, generator / threads as u32)
            .with(&latencies))
    })
}

/// A sample of a window of this length, in which the server was looked at for `observed`.
pub fn sample(
    answers: u64,
    length: Duration,
    observed: Duration,
    before: &Usage,
    after: &Usage,
    generator: Duration,
) -> Sample {
    let spent = after.since(before);
    // The two windows differ by what it takes to read `/proc`.
    let scale = length.as_secs_f64() / observed.as_secs_f64() / 1e9;
    Sample {
        answers,
        seconds: length.as_secs_f64(),
        server: spent.iter().sum::<u64>() as f64 * scale,
        busiest: spent.first().copied().unwrap_or(0) as f64 * scale,
        generator: generator.as_secs_f64() / length.as_secs_f64(),
        ..Sample::default()
    }
}

/// The first connection and the number of connections of each thread.
fn shares(connections: usize, threads: usize) -> Vec<(usize, usize)> {
    let place = |thread: usize| connections * thread / threads;
    (0..threads).map(|thread| (place(thread), place(thread + 1) - place(thread))).collect()
}

/// When it is counted.
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

/// One thread's connections.
struct Worker<S> {
    script: S,
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    /// Where what arrives is read to.
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// What has arrived of an answer that came in several pieces.
    pieces: Vec<u8>,
}

/// What one thread has done.
struct Done {
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
            connections.push(Connection { stream, sent: Instant::now(), pieces: Vec::new() });
        }
        Ok(Self { script, epoll, connections, buffer: vec![0; 256 * 1024] })
    }

    fn run(mut self, window: Window) -> Result<Done> {
        let mut latencies = Latencies::default();
        let mut busy_at_start = None;
        for number in 0..self.connections.len() {
            self.connections[number].sent = Instant::now();
            self.send(number)?;
        }
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 512];
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        loop {
            let count = match epoll::wait(&self.epoll, &mut events, Some(&patience)) {
                Ok(0) => bail!("nobody was answered for {PATIENCE:?}"),
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
                    let busy = processor_time().saturating_sub(busy_at_start.unwrap_or_default());
                    return Ok(Done { latencies, busy });
                }
                if now >= window.start {
                    busy_at_start.get_or_insert_with(processor_time);
                    latencies.note((now - self.connections[number].sent).as_nanos() as u64);
                }
                self.script.answered(number);
                self.connections[number].sent = now;
                self.send(number)?;
            }
        }
    }

    fn send(&mut self, number: usize) -> Result<()> {
        let request = self.script.next(number);
        let sent = self.connections[number].stream.write(request).context("a request cannot be sent")?;
        // The last one was answered, so that there is room for this one.
        ensure!(sent == request.len(), "a request of {} bytes does not fit into the socket", request.len());
        Ok(())
    }

    /// Reads what has arrived; whether an answer is complete and right.
    fn receive(&mut self, number: usize) -> Result<bool> {
        loop {
            let (is_right, count) = self.receive_once(number)?;
            // What does not fill the buffer is all there was, and of more the kernel will tell.
            if is_right || count < self.buffer.len() {
                return Ok(is_right);
            }
        }
    }

    /// Likewise for what can be read at a time, and how much that was.
    fn receive_once(&mut self, number: usize) -> Result<(bool, usize)> {
        let connection = &mut self.connections[number];
        let count = match connection.stream.read(&mut self.buffer) {
            Ok(0) => bail!("the server has closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((false, 0)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok((false, self.buffer.len())),
            Err(error) => return Err(error).context("an answer cannot be read"),
        };
        let expected = self.script.expected(number);
        if connection.pieces.is_empty() {
            let Some(length) = expected.check(&self.buffer[..count])? else {
                connection.pieces.extend_from_slice(&self.buffer[..count]);
                return Ok((false, count));
            };
            ensure!(length == count, "there is something behind an answer");
            return Ok((true, count));
        }
        connection.pieces.extend_from_slice(&self.buffer[..count]);
        ensure!(connection.pieces.len() <= LARGEST, "an answer is longer than {LARGEST} bytes");
        if connection.pieces.len() < expected.head_length.min(LARGEST) {
            return Ok((false, count));
        }
        let Some(length) = expected.check(&connection.pieces)? else { return Ok((false, count)) };
        ensure!(length == connection.pieces.len(), "there is something behind an answer");
        connection.pieces.clear();
        Ok((true, count))
    }
}

/// Connects from one of the loopback network's addresses.
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

/// Of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 1\r\n\r\nabc";
        Expected::like(&http::parse(whole).expect("an answer").expect("a whole one").0)
    }

    fn check(answer: &str, right: Option<usize>) {
        assert_eq!(expected().check(answer.as_bytes()).ok().flatten(), right, "{answer}");
    }

    #[test]
    fn an_answer_is_right_if_status_and_body_are() {
        let usual = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 2\r\n\r\nabc";
        check(usual, Some(usual.len()));
        let longer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: 12\r\n\r\nabc";
        check(longer, Some(longer.len()));
        check(&usual[..usual.len() - 1], None);
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
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
    fn threads_share_all_connections() {
        assert_eq!(shares(5, 2), [(0, 2), (2, 3)]);
        assert_eq!(shares(1, 2), [(0, 0), (0, 1)]);
        assert_eq!(shares(64, 1), [(0, 64)]);
    }
}
