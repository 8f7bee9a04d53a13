//! Open-loop load: requests that arrive at random at a given mean rate, regardless of earlier responses.
//!
//! Response times are measured from the scheduled arrival, even if all connections are busy and the request
//! is sent later. Otherwise a slow server would reduce its own load (coordinated omission).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Load, Recorder, Sample, Script, Worker, measure};
use crate::machine::pin;
use crate::peer::Peer;
use crate::random::Random;

/// Below this rate (per second), the thread sleeps until the next arrival or response. At higher rates, it
/// polls, because a sleeping thread would wake up too late.
const SLEEPS_BELOW: f64 = 5_000.0;
/// How long to wait for late responses after the measurement.
const DRAIN: Duration = Duration::from_millis(500);
/// Maximum backlog, in seconds of arrivals. If the backlog exceeds it, the measurement fails.
const MAX_BACKLOG: f64 = 0.5;

/// Sends `rate` requests per second from one thread. Fails if the server cannot keep up.
pub fn run<S: Script>(
    load: &Load,
    rate: f64,
    seed: u64,
    server: &Peer,
    script: impl Fn(usize, usize) -> S + Sync,
) -> Result<Sample> {
    let connect = |_| {
        pin(&load.machine.core_numbers(load.cores)[..1])?;
        Worker::connect(server.address, load.connections, script(0, load.connections))
    };
    let generate = |worker: Worker<S>, recorder| worker.run_open_loop(recorder, rate, Random::seeded(seed));
    measure(load, server, 1, connect, generate)
}

impl<S: Script> Worker<S> {
    /// Sends requests at random times until the measurement ends, and then waits up to [`DRAIN`] for the
    /// remaining responses.
    fn run_open_loop(mut self, mut recorder: Recorder, rate: f64, mut random: Random) -> Result<Recorder> {
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let mut backlog: VecDeque<Instant> = VecDeque::new();
        let mut events = Vec::with_capacity(512);
        let mut interval = || Duration::from_secs_f64(random.exponential(1.0 / rate));
        let mut next = Instant::now() + interval();
        loop {
            let now = Instant::now();
            if recorder.is_over(now) {
                let is_waiting = idle.len() < self.connections.len() || !backlog.is_empty();
                if !is_waiting || now > recorder.end + DRAIN {
                    return Ok(recorder);
                }
            }
            while next <= now {
                if next < recorder.end {
                    backlog.push_back(next);
                }
                next += interval();
            }
            let keeps_up = (backlog.len() as f64) < rate * MAX_BACKLOG;
            ensure!(keeps_up, "the server cannot keep up with {rate:.0} requests per second");
            for _ in 0..backlog.len().min(idle.len()) {
                let (Some(due), Some(number)) = (backlog.pop_front(), idle.pop_front()) else { break };
                self.send(number, due)?;
            }
            let sleep =
                if rate < SLEEPS_BELOW { next.saturating_duration_since(now) } else { Duration::ZERO };
            self.wait(&mut events, sleep)?;
            for event in &events {
                let number = event.data.u64() as usize;
                if !self.receive(number)? {
                    continue;
                }
                let sent = self.connections[number].sent;
                if sent >= recorder.start {
                    recorder.record(sent, Instant::now());
                }
                self.script.on_response(number);
                idle.push_back(number);
            }
        }
    }
}
