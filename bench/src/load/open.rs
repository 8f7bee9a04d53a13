//! Load that does not wait for anybody: requests come at random moments, at a rate that is given, whether or not earlier ones are answered.
//!
//! A latency begins when a request was to come, even if every connection was busy then and it was sent later: so a server that is slow for a
//! moment cannot keep requests away from itself.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rustix::event::{Timespec, epoll};

use super::{Done, Load, Sample, Script, Window, Worker, processor_time, sample};
use crate::cores::keep_to;
use crate::latency::Latencies;
use crate::model::random::Random;
use crate::process;

/// Above so many requests a second the thread does not sleep between two of them: it would wake too late.
const SLEEPS_BELOW: f64 = 5_000.0;
/// What comes so late is still waited for when the time that is measured is over.
const DRAIN: Duration = Duration::from_millis(500);
/// Where so many seconds' requests wait, the server does not keep up.
const BACKLOG: f64 = 0.5;

/// Puts `rate` requests a second on the server at `address`, whose processes descend from `server`, over as many connections as `load` has.
/// They come from one thread, on the first of `load`'s cores. An error where the server does not keep up.
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
        let running = scope.spawn(move || -> Result<Done> {
            keep_to(&[core])?;
            let worker = Worker::new(address, connections, script(0, connections))?;
            let window = Window::new(load);
            let _ = ready.send(window);
            worker.run_openly(window, rate, Random::seeded(seed))
        });
        // Nothing is sent where it cannot connect, and then it says why.
        let Ok(window) = prepared.recv() else {
            let ended = running.join().map_err(|_| anyhow!("the load generator has panicked"))?;
            return Err(ended.err().unwrap_or_else(|| anyhow!("the load generator has ended")));
        };
        window.sleep_to_start();
        let (began, before) = (Instant::now(), process::usage(server));
        window.sleep_to_end();
        let (elapsed, after) = (began.elapsed(), process::usage(server));
        let done = running.join().map_err(|_| anyhow!("the load generator has panicked"))??;
        let answers = done.latencies.total();
        ensure!(answers > 0, "{address} has answered nothing in {:?}", load.length);
        Ok(sample(answers, load.length, elapsed, &before, &after, done.busy).with(&done.latencies))
    })
}

impl<S: Script> Worker<S> {
    fn run_openly(mut self, window: Window, rate: f64, mut random: Random) -> Result<Done> {
        let mut latencies = Latencies::default();
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let mut late: VecDeque<Instant> = VecDeque::new();
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 512];
        let mut interval = || Duration::from_secs_f64(random.exponential(1.0 / rate));
        let mut next = Instant::now() + interval();
        let (mut busy_at_start, mut busy) = (None, None);
        loop {
            let now = Instant::now();
            if now >= window.start {
                busy_at_start.get_or_insert_with(processor_time);
            }
            if now >= window.end {
                busy.get_or_insert_with(|| {
                    processor_time().saturating_sub(busy_at_start.unwrap_or_default())
                });
                let waits = idle.len() < self.connections.len() || !late.is_empty();
                if !waits || now > window.end + DRAIN {
                    return Ok(Done { latencies, busy: busy.unwrap_or_default() });
                }
            }
            while next <= now {
                if next < window.end {
                    late.push_back(next);
                }
                next += interval();
            }
            ensure!(
                (late.len() as f64) < rate * BACKLOG,
                "the server does not keep up with {rate:.0} requests a second"
            );
            while !late.is_empty() && !idle.is_empty() {
                let (Some(due), Some(number)) = (late.pop_front(), idle.pop_front()) else { break };
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
                    latencies.note(now.saturating_duration_since(sent).as_nanos() as u64);
                }
                self.script.answered(number);
                idle.push_back(number);
            }
        }
    }
}
