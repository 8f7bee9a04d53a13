//! Measures the cost of shared limits in Redis: `cargo bench -p frontdesk-benches --bench shared_limits`.
//! Starts its own `redis-server`.
//!
//! Compares four ways to call Redis, in turn and under the same load: through a rate limiter, which also
//! composes keys, enforces a timeout, updates metrics and counts requests against the local limits; directly
//! with the same script, over a connection on the calling thread, as in the rate limiter; with the same
//! script, over a connection on another thread; and directly with an empty script.
//!
//! Then measures a rate limiter without Redis, and the delay of requests while Redis is stopped.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::future::Future;
use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frontdesk_limits::rate_limiter::{self, RateLimiter, SCRIPT};
use frontdesk_limits::{LimitOptions, LocalLimiter, Quota, Source};
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, LocalSet};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);

/// The number of sources, which send requests in turn.
const SOURCES: u32 = 50_000;

/// A quota that is never exhausted: refusals cost less and would distort the figures.
const QUOTA: u32 = 1_000_000;

const WAYS: [&str; 4] = ["rate limiter", "direct", "via another thread", "empty script"];

fn main() {
    let redis = Redis::start();
    let quota = Quota { per_minute: QUOTA, per_hour: QUOTA };
    let limits = LimitOptions { enabled: true, source: quota, network: quota, form: quota };
    let mut options = rate_limiter::RedisOptions::parse(&redis.url()).expect("an address");
    // Under the highest load, responses take longer than the default timeout.
    options.timeout = Duration::from_secs(5);
    let gate: &'static RateLimiter = Box::leak(Box::new(RateLimiter::new(&limits, Some(&options))));
    let runtime = runtime();
    let (near, hash, empty) = runtime.block_on(connect(&redis.url()));
    let (hash, empty): (&'static str, &'static str) = (hash.leak(), empty.leak());
    let far = elsewhere(redis.url());

    println!(
        "{:>8} {:>18} {:>12} {:>14} {:>14} {:>14} {:>8}",
        "at once", "", "calls/s", "us of waiting", "us of client", "us of Redis", "× direct"
    );
    for at_once in [1, 16, 256] {
        let mut taken = [const { Vec::new() }; WAYS.len()];
        for _ in 0..ROUNDS {
            for (way, taken) in taken.iter_mut().enumerate() {
                let (near, far) = (near.clone(), far.clone());
                taken.push(round(&runtime, &redis, at_once, move |number| {
                    let (near, far) = (near.clone(), far.clone());
                    async move {
                        match way {
                            0 => drop(black_box(gate.check(source(number), Instant::now()).await)),
                            1 => call(near, hash, number).await,
                            2 => call(far, hash, number).await,
                            _ => call(near, empty, number).await,
                        }
                    }
                }));
            }
        }
        let medians = taken.map(|rounds| Cost::median(&rounds));
        for (way, cost) in WAYS.iter().zip(medians) {
            println!(
                "{at_once:>8} {way:>18} {:>12.0} {:>14.1} {:>14.1} {:>14.1} {:>8.2}",
                1e6 * f64::from(at_once) / cost.waiting,
                cost.waiting,
                cost.client,
                cost.redis,
                cost.waiting / medians[1].waiting,
            );
        }
    }
    let figures = gate.metrics().expect("shared limits");
    assert_eq!(figures.fallbacks, [0; 3], "Redis has decided every request");

    alone(&runtime, &limits);
    failover(&runtime, &redis, &limits);
}

/// Compares the cost of a check in the local limiter and in a rate limiter without shared limits.
fn alone(runtime: &Runtime, limits: &LimitOptions) {
    const CHECKS: u32 = 1_000_000;
    let (limiter, gate) = (LocalLimiter::new(limits), RateLimiter::new(limits, None));
    let now = Instant::now();
    let each = |began: Instant| began.elapsed().as_secs_f64() * 1e9 / f64::from(CHECKS);
    let mut rounds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for number in 0..CHECKS {
            black_box(limiter.check(source(number), now));
        }
        rounds[0].push(each(began));
        let began = Instant::now();
        runtime.block_on(async {
            for number in 0..CHECKS {
                black_box(gate.check(source(number), now).await);
            }
        });
        rounds[1].push(each(began));
    }
    let [limiter, gate] = rounds.map(median);
    println!(
        "\nwithout Redis: {limiter:.0} ns per check by the local limiter, {gate:.0} ns by the rate limiter"
    );
}

/// Measures the delay of requests after Redis stops responding.
fn failover(runtime: &Runtime, redis: &Redis, limits: &LimitOptions) {
    let options = rate_limiter::RedisOptions::parse(&redis.url()).expect("an address");
    let gate = RateLimiter::new(limits, Some(&options));
    kill_process(Pid::from_child(&redis.child), Signal::STOP).expect("Redis is running");
    let mut waits: Vec<f64> = (0..1000)
        .map(|number| {
            let began = Instant::now();
            black_box(runtime.block_on(gate.check(source(number), began)));
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    kill_process(Pid::from_child(&redis.child), Signal::CONT).expect("Redis is running");
    let began = Instant::now();
    while !gate.metrics().is_some_and(|figures| figures.is_connected) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let held_up = waits.iter().filter(|ms| **ms > 5.0).count();
    waits.sort_by(f64::total_cmp);
    println!(
        "Redis stopped: {held_up} of 1000 requests were delayed, {:.1} ms at most; the median delay was {:.4} ms; reconnected {} ms after Redis continued",
        waits[999],
        waits[500],
        began.elapsed().as_millis()
    );
}

/// The cost of a call in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    waiting: f64,
    client: f64,
    redis: f64,
}

impl Cost {
    fn median(rounds: &[Cost]) -> Cost {
        let of = |part: fn(&Cost) -> f64| median(rounds.iter().map(part).collect());
        Cost {
            waiting: of(|cost| cost.waiting),
            client: of(|cost| cost.client),
            redis: of(|cost| cost.redis),
        }
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Runs `at_once` concurrent tasks on one thread. Each task repeats the call. Returns the mean cost of a
/// call.
fn round<F: Future<Output = ()> + 'static>(
    runtime: &Runtime,
    redis: &Redis,
    at_once: u32,
    call: impl Fn(u32) -> F + Clone + 'static,
) -> Cost {
    let (ours, theirs) = (cpu_time_micros("self"), cpu_time_micros(&redis.child.id().to_string()));
    let began = Instant::now();
    let task = async move |first: u32| {
        let mut calls = 0;
        while began.elapsed() < ROUND {
            call(first + calls * at_once).await;
            calls += 1;
        }
        calls
    };
    let mut calls = 0;
    LocalSet::new().block_on(runtime, async {
        let mut tasks = JoinSet::new();
        for first in 0..at_once {
            let task = task.clone();
            tasks.spawn_local(async move { task(first).await });
        }
        while let Some(done) = tasks.join_next().await {
            calls += done.expect("no panic");
        }
    });
    let each = |micros: f64| micros / f64::from(calls);
    Cost {
        waiting: each(began.elapsed().as_secs_f64() * 1e6) * f64::from(at_once),
        client: each(cpu_time_micros("self") - ours),
        redis: each(cpu_time_micros(&redis.child.id().to_string()) - theirs),
    }
}

/// Calls the script with keys of the same length as those of the rate limiter.
async fn call(mut connection: MultiplexedConnection, hash: &str, number: u32) {
    let number = number % SOURCES;
    let mut call = redis::Cmd::with_capacity(13, 320);
    call.arg("EVALSHA").arg(hash).arg(3);
    call.arg(format!("bare:source:{number:032x}"));
    call.arg(format!("bare:network:{:032x}", number >> 8));
    call.arg("bare:form:contact:1000000:1000000").arg(1);
    for _ in 0..6 {
        call.arg(QUOTA);
    }
    let answer: redis::Value = call.query_async(&mut connection).await.expect("a response");
    black_box(answer);
}

/// Connects and loads the scripts. Returns the connection, and the hashes of the script and the empty script.
async fn connect(url: &str) -> (MultiplexedConnection, String, String) {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(url).expect("an address");
    let mut connection =
        client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection");
    let mut load = async |script: &str| -> String {
        redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await.expect("a hash")
    };
    let (hash, empty) = (load(SCRIPT).await, load("return 1").await);
    (connection, hash, empty)
}

/// Opens a connection on another thread, which runs until the program ends.
fn elsewhere(url: String) -> MultiplexedConnection {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let (connection, ..) = connect(&url).await;
            let _ = sender.send(connection);
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().expect("a connection")
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn source(number: u32) -> Source {
    Source::V4((number % SOURCES).to_be_bytes())
}

/// The CPU time used by all threads of a process, in microseconds.
fn cpu_time_micros(pid: &str) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("Linux");
    let nanos = tasks.flatten().filter_map(|task| {
        let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e3
}

/// A Redis server that ends with this program.
struct Redis {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start() -> Redis {
        let folder = tempfile::tempdir().expect("a folder");
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Redis { child, port, _folder: folder }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
