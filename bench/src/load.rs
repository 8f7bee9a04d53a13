//! The load generator: keeps connections busy with one request after another, and checks the status and body
//! of each response.
//!
//! Each core has one thread, which waits for responses with epoll. During the measurement, a response that
//! arrives in one piece is not copied, and a response with a header of the expected length is not parsed.

pub mod handshakes;

use std::borrow::Cow;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::http::Response;
use crate::peer::Peer;
use crate::process::usage_between;
use crate::settings::{Bench, Cores, WARM_UP, pin};

/// A response must be shorter than this, in bytes.
const BUFFER: usize = 512 * 1024;
/// The measurement fails if no response arrives for this long.
const RESPONSE_TIMEOUT: Timespec = Timespec { tv_sec: 15, tv_nsec: 0 };
/// Number of loopback addresses to connect from. A single source address has too few ports.
const SOURCES: usize = 8;

/// Returns the next request of a thread, and the expected response.
pub type Script<'a> = Box<dyn FnMut() -> (Cow<'a, [u8]>, &'a Response) + 'a>;

/// A script for [`run`] that cycles through `exchanges`: requests and their expected responses.
pub fn cycle<'a>(exchanges: &'a [(Vec<u8>, Response)]) -> impl Fn(usize) -> Script<'a> {
    move |first| {
        let mut exchanges = exchanges.iter().cycle().skip(first % exchanges.len());
        Box::new(move || {
            let (request, response) = exchanges.next().expect("the list is not empty");
            (Cow::Borrowed(request), response)
        })
    }
}

#[derive(Debug, Clone)]
pub struct Load {
    /// The cores that generate load, with one thread each.
    pub cores: Vec<usize>,
    pub connections: usize,
    pub warm_up: Duration,
    pub length: Duration,
}

impl Load {
    /// Load on this number of connections, generated on the load generator's core.
    pub fn new(bench: &Bench, connections: usize) -> Self {
        let cores = bench.core_numbers(Cores::Generator);
        Self { cores, connections, warm_up: WARM_UP, length: bench.length }
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// Number of correct responses. An incorrect response makes the measurement fail.
    pub responses: u64,
    /// The same, including the warm-up.
    pub with_warm_up: u64,
    pub seconds: f64,
    /// CPU time of the server, user and system, in seconds.
    pub server: f64,
    /// CPU time of the server's busiest thread, in seconds.
    pub busiest: f64,
    /// CPU utilisation of the load generator. If it is close to 1, the load generator is the bottleneck.
    pub generator: f64,
    /// Response times in microseconds.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Sample {
    /// Summarizes response times and the CPU times of threads (in descending order), all in nanoseconds.
    /// Fails if there were no responses.
    pub fn new(mut latencies: Vec<u64>, length: Duration, threads: &[u64], generator: f64) -> Result<Self> {
        ensure!(!latencies.is_empty(), "the server answered no requests within {length:?}");
        latencies.sort_unstable();
        let micros = |share| percentile(&latencies, share) as f64 / 1e3;
        Ok(Self {
            responses: latencies.len() as u64,
            with_warm_up: latencies.len() as u64,
            seconds: length.as_secs_f64(),
            server: threads.iter().sum::<u64>() as f64 / 1e9,
            busiest: threads.first().copied().unwrap_or(0) as f64 / 1e9,
            generator,
            p50: micros(0.5),
            p99: micros(0.99),
            p999: micros(0.999),
        })
    }

    pub fn rate(&self) -> f64 {
        self.responses as f64 / self.seconds
    }

    /// CPU time that the server spends on each response, in microseconds.
    pub fn cost(&self) -> f64 {
        self.server * 1e6 / self.responses as f64
    }

    /// CPU utilisation of the server. 1 means one fully used core.
    pub fn busy(&self) -> f64 {
        self.server / self.seconds
    }
}

/// Measures `server` while all connections are busy. `script` is called once per thread, with the index of
/// the thread's first connection.
pub fn run<'a>(load: &Load, server: &Peer, script: impl Fn(usize) -> Script<'a> + Sync) -> Result<Sample> {
    let threads = load.cores.len().min(load.connections);
    let connect = |thread: usize| {
        pin(None, &[load.cores[thread]])?;
        let [first, next] = [thread, thread + 1].map(|thread| load.connections * thread / threads);
        Worker::connect(server.address, next - first, script(first))
    };
    measure(load, server, threads, connect, Worker::run_closed_loop)
}

/// Measures `server` while threads generate load: each calls `prepare` with its number and, once all are
/// ready, `generate`, which returns after the measurement. Fails if a thread does, or if there were no
/// responses.
pub fn measure<W>(
    load: &Load,
    server: &Peer,
    threads: usize,
    prepare: impl Fn(usize) -> Result<W> + Sync,
    generate: impl Fn(W, Recorder) -> Result<Recorder> + Sync,
) -> Result<Sample> {
    let ready = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let (ready, prepare, generate) = (&ready, &prepare, &generate);
        let start = move |number| {
            scope.spawn(move || {
                let prepared = prepare(number);
                ready.wait();
                generate(prepared?, Recorder::new(load))
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        ready.wait();
        let Recorder { start, end, .. } = Recorder::new(load);
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let (began, before) = (Instant::now(), server.usage());
        let own_time = || clock_gettime(ClockId::ProcessCPUTime);
        let own = own_time();
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let own = own_time() - own;
        let (observed, after) = (began.elapsed(), server.usage());
        let (mut latencies, mut warm_up) = (Vec::new(), 0);
        for thread in running {
            let recorder = thread.join().map_err(|_| anyhow!("a load generator thread panicked"))??;
            latencies.extend(recorder.latencies);
            warm_up += recorder.warm_up;
        }
        let length = load.length.as_secs_f64();
        let own = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
        let generator = own / length / load.cores.len().min(threads) as f64;
        let mut sample = Sample::new(latencies, load.length, &usage_between(&before, &after), generator)?;
        // Reading `/proc` takes time, so scale the CPU times to the length of the measurement.
        let scale = length / observed.as_secs_f64();
        sample.with_warm_up += warm_up;
        sample.server *= scale;
        sample.busiest *= scale;
        Ok(sample)
    })
}

/// Records the response times during the measurement.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    end: Instant,
    latencies: Vec<u64>,
    /// Number of responses before the measurement.
    warm_up: u64,
}

impl Recorder {
    fn new(load: &Load) -> Self {
        let start = Instant::now() + load.warm_up;
        Self { start, end: start + load.length, latencies: Vec::new(), warm_up: 0 }
    }

    /// Records the response time of a response that arrived at `now`. During the warm-up, only counts it.
    pub fn record(&mut self, sent: Instant, now: Instant) {
        if now < self.start {
            self.warm_up += 1;
        } else {
            self.latencies.push(now.saturating_duration_since(sent).as_nanos() as u64);
        }
    }
}

/// A thread of the load generator with its connections.
struct Worker<'a> {
    script: Script<'a>,
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection<'a>>,
    buffer: Vec<u8>,
}

struct Connection<'a> {
    stream: TcpStream,
    sent: Instant,
    /// The response to the latest request.
    expected: Option<&'a Response>,
    /// The beginning of a response that arrives in several pieces.
    partial: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// Opens `count` non-blocking connections from all source addresses in turn.
    fn connect(address: SocketAddr, count: usize, script: Script<'a>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let stream = connect_from(number % SOURCES, address)
                .with_context(|| format!("connection {} to {address}", number + 1))?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
            connections.push(Connection {
                stream,
                sent: Instant::now(),
                expected: None,
                partial: Vec::new(),
            });
        }
        Ok(Self { script, epoll, connections, buffer: vec![0; BUFFER] })
    }

    /// Keeps each connection busy until the measurement ends. Fails if a response is incorrect, or if none
    /// arrives for [`RESPONSE_TIMEOUT`].
    fn run_closed_loop(mut self, mut recorder: Recorder) -> Result<Recorder> {
        for number in 0..self.connections.len() {
            self.send(number, Instant::now())?;
        }
        let mut events = Vec::with_capacity(512);
        loop {
            let wait = || epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&RESPONSE_TIMEOUT));
            let count = retry_on_intr(wait)?;
            ensure!(count > 0, "no response arrived for {} seconds", RESPONSE_TIMEOUT.tv_sec);
            for event in events.drain(..) {
                let number = event.data.u64() as usize;
                if !self.receive(number)? {
                    continue;
                }
                let now = Instant::now();
                if now >= recorder.end {
                    return Ok(recorder);
                }
                recorder.record(self.connections[number].sent, now);
                self.send(number, now)?;
            }
        }
    }

    /// Sends the next request on a connection. The response time is measured from `now`.
    fn send(&mut self, number: usize, now: Instant) -> Result<()> {
        let connection = &mut self.connections[number];
        let (request, expected) = (self.script)();
        (connection.sent, connection.expected) = (now, Some(expected));
        // The previous request was answered, so the socket buffer has room for the whole request.
        let sent = connection.stream.write(&request).context("failed to send a request")?;
        ensure!(sent == request.len(), "a request of {} bytes exceeds the socket buffer", request.len());
        Ok(())
    }

    /// Reads and checks the available bytes on a connection. Returns whether the response is complete.
    fn receive(&mut self, number: usize) -> Result<bool> {
        let Connection { stream, expected, partial, .. } = &mut self.connections[number];
        let count = match stream.read(&mut self.buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            count => count.context("failed to read a response")?,
        };
        ensure!(count > 0, "the server closed a connection");
        // A read that does not fill the buffer empties the socket. epoll reports when more bytes arrive.
        ensure!(count < BUFFER, "a response is longer than {BUFFER} bytes");
        let received = &self.buffer[..count];
        let is_first = partial.is_empty();
        if !is_first {
            partial.extend_from_slice(received);
        }
        let bytes = if is_first { received } else { &partial[..] };
        let expected = expected.context("a response arrived before the first request")?;
        let Some(length) = expected.check(bytes)? else {
            if is_first {
                partial.extend_from_slice(received);
            }
            return Ok(false);
        };
        ensure!(length == bytes.len(), "unexpected bytes after a response");
        partial.clear();
        Ok(true)
    }
}

/// Connects to `address` from loopback address number `source`.
pub fn connect_from(source: usize, address: SocketAddr) -> Result<TcpStream> {
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2 + source as u8), 0);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &from)?;
    connect(&socket, &address)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A percentile of `sorted` by the nearest-rank method. `share` is 0.99 for the 99th percentile. Panics if
/// `sorted` is empty.
fn percentile<T: Copy>(sorted: &[T], share: f64) -> T {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sorted: Vec<u64> = (1..=30).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| percentile(&sorted, share)), [1, 15, 30, 30]);
    }
}
