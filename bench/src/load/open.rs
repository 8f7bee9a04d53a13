//! Open-loop load: requests with random arrivals at a given rate, independent of earlier responses.
//!
//! A response time begins at the arrival, even if all connections are busy and the request is sent later.
//! Otherwise a slow server would reduce its own load (coordinated omission).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rustix::event::{Timespec, epoll};

use super::{Load, Sample, Script, Window, Worker, WorkerResult, cpu_time, sample};
use crate::latency::Latencies;
use crate::machine::pin;
use crate::process;
use crate::random::Random;

/// From this rate on, the thread polls instead of sleeping, because it would wake up too backlog.
const SLEEPS_BELOW: f64 = 5_000.0;
/// Time for late responses after the measurement.
const DRAIN: Duration = Duration::from_millis(500);
/// The measurement fails if the requests of this many seconds are waiting.
const MAX_BACKLOG: f64 = 0.5;

/// Sends `rate` requests a second to the server at `address` with the process `server`, from one thread on
/// the first core of `load`. Fails if the server cannot keep up.
pub fn run<S: Script>(
    load: &Load,
    rate: f64,
    seed: u64,
    address: SocketAddr,
    server: u32,
    script: impl FnOnce(usize, usize) -> S + Send,
) -> Result<Sample> {
    let core = load.machine.numbers(load.cores)[0];
    let connections = load.connections;
    std::thread::scope(|scope| {
        let (ready, prepared) = std::sync::mpsc::channel();
        let running = scope.spawn(move || -> Result<WorkerResult> {
            pin(&[core])?;
            let worker = Worker::new(address, connections, script(0, connections))?;
            let window = Window::new(load);
            let _ = ready.send(window);
            worker.run_open(window, rate, Random::seeded(seed))
        });
        // The channel closes without a message if the worker cannot connect.
        let Ok(window) = prepared.recv() else {
            let ended = running.join().map_err(|_| anyhow!("the load generator panicked"))?;
            return Err(ended.err().unwrap_or_else(|| anyhow!("the load generator ended")));
        };
        window.sleep_to_start();
        let (began, before) = (Instant::now(), process::usage(server));
        window.sleep_to_end();
        let (elapsed, after) = (began.elapsed(), process::usage(server));
        let done = running.join().map_err(|_| anyhow!("the load generator panicked"))??;
        sample(&done.latencies, load.length, elapsed, &before, &after, done.busy)
    })
}

impl<S: Script> Worker<S> {
    fn run_open(mut self, window: Window, rate: f64, mut random: Random) -> Result<WorkerResult> {
        let mut latencies = Latencies::default();
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let mut backlog: VecDeque<Instant> = VecDeque::new();
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 512];
        let mut interval = || Duration::from_secs_f64(random.exponential(1.0 / rate));
        let mut next = Instant::now() + interval();
        let (mut busy_at_start, mut busy) = (None, None);
        loop {
            let now = Instant::now();
            if now >= window.start {
                busy_at_start.get_or_insert_with(cpu_time);
            }
            if now >= window.end {
                busy.get_or_insert_with(|| cpu_time().saturating_sub(busy_at_start.unwrap_or_default()));
                let is_waiting = idle.len() < self.connections.len() || !backlog.is_empty();
                if !is_waiting || now > window.end + DRAIN {
                    return Ok(WorkerResult { latencies, busy: busy.unwrap_or_default() });
                }
            }
            while next <= now {
                if next < window.end {
                    backlog.push_back(next);
                }
                next += interval();
            }
            ensure!(
                (backlog.len() as f64) < rate * MAX_BACKLOG,
                "the server cannot keep up with {rate:.0} requests a second"
            );
            while !backlog.is_empty() && !idle.is_empty() {
                let (Some(due), Some(number)) = (backlog.pop_front(), idle.pop_front()) else { break };
                self.connections[number].sent = due;
                self.send(number)?;
            }
            let sleep = if rate < SLEEPS_BELOW {
                next.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let timeout =
                Timespec { tv_sec: sleep.as_secs().cast_signed(), tv_nsec: i64::from(sleep.subsec_nanos()) };
            let count = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                let number = event.data.u64() as usize;
                if !self.receive(number)? {
                    continue;
                }
                let (now, sent) = (Instant::now(), self.connections[number].sent);
                if sent >= window.start {
                    latencies.record(now.saturating_duration_since(sent).as_nanos() as u64);
                }
                self.script.on_response(number);
                idle.push_back(number);
            }
        }
    }
}
