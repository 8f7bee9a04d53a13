//! Measures the costs that the model needs, and compares it with this machine: pages with random arrivals,
//! and submissions through one replica with PostgreSQL and Redis.
//!
//! The replica has one core; the load generator, PostgreSQL and Redis share the other.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::SIMULATED;
use super::calibration::{Calibration, ComparedFigure, Comparison, DeliveryCosts, SubmissionBytes};
use super::queue::{self, Stage};
use super::submissions::{self, Costs, System};
use crate::Bench;
use crate::content::{LARGE, check_headers, write_site};
use crate::figures::Unit;
use crate::http::{self, ClientKind, get};
use crate::load::{self, Cycle, Expected, Sample};
use crate::machine::Cores;
use crate::peer::postgres::Postgres;
use crate::peer::{Peer, folder, free_address, frontdesk, postgres};
use crate::process::Usage;
use crate::rounds::Spread;
use crate::submission::{Visitors, fixed_request};
use crate::suites::submissions::{CONTACT, Channel, Site, is_accepted, with_open_limits};

/// Requests a second that leave the server nearly idle, while the load generator does not sleep.
const QUIET: f64 = 5_000.0;
/// Loads of a core at which pages on the fast path are compared. The load generator cannot send many more
/// requests.
const FAST_LOADS: [f64; 2] = [0.3, 0.5];
/// Loads of a core at which pages on the general path are compared.
const GENERAL_LOADS: [f64; 2] = [0.5, 0.8];
/// Submissions a second at which the model is compared.
const RATES: [f64; 2] = [200.0, 1_000.0];
/// Each connection has at most one request in progress.
const CONNECTIONS: usize = 64;
/// Submissions in a large inbox.
const LARGE_INBOX: f64 = 1e6;

/// Measures everything.
pub fn run(bench: &Bench) -> Result<Calibration> {
    std::fs::create_dir_all(&bench.out)?;
    let mut comparisons = Vec::new();
    for (name, fast_path, loads) in [("fast path", true, FAST_LOADS), ("general path", false, GENERAL_LOADS)]
    {
        pages(bench, name, fast_path, loads, &mut comparisons)?;
    }
    let (max_rate, costs) = submissions(bench, &mut comparisons)?;
    for comparison in &comparisons {
        for figure in &comparison.figures {
            let (model, measured) =
                (figure.unit.format(figure.predicted), figure.unit.format_spread(&figure.measured));
            bench.log(&format!("{}: {}: model {model}, measured {measured}", comparison.load, figure.name));
        }
    }
    let (bytes, delivery) = bytes(bench)?;
    Ok(Calibration {
        measured: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: crate::machine::describe(bench)
            .into_iter()
            .filter(|(name, _)| {
                ["processor", "cores", "memory", "kernel", "system", "frontdesk"].contains(&name.as_str())
            })
            .collect(),
        rounds: bench.rounds,
        seconds: bench.length.as_secs_f64(),
        max_rate,
        costs,
        delivery,
        bytes,
        comparisons,
    })
}

/// Repeats a measurement up to twice, because other programs can prevent a constant rate.
fn with_retries<T>(bench: &Bench, mut measure: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..2 {
        match measure() {
            Err(error) => bench.log(&format!("retrying: {error:#}")),
            done => return done,
        }
    }
    measure()
}

/// Used for waiting times: the median contains time of other programs.
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).least
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).median
}

/// The 12 KB page on one core, at several loads of the core.
fn pages(
    bench: &Bench,
    name: &str,
    fast_path: bool,
    loads: [f64; 2],
    comparisons: &mut Vec<Comparison>,
) -> Result<()> {
    let site = folder()?;
    write_site(site.path())?;
    let options = frontdesk::Options::new("frontdesk", site.path())
        .set("FRONTDESK_SERVER__FAST_LANE", fast_path.to_string());
    let peer = frontdesk::start(bench, &options)?;
    let request = get(ClientKind::Browser, LARGE.path, "identity", None);
    let response = http::send(peer.address, &request)?;
    check_headers(&response, true)?;
    let exchanges = [(request, Expected::like(&response))];
    let load = bench.load(CONNECTIONS);
    let saturate =
        || load::run(&load, peer.address, peer.process(), |_, count| Cycle::new(&exchanges, count));
    let at = |rate: f64, seed| {
        load::open::run(&load, rate, seed, peer.address, peer.process(), |_, count| {
            Cycle::new(&exchanges, count)
        })
    };
    let (mut saturated, mut quiet) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.log(&format!("{name}: calibration {}", round + 1));
        saturated.push(saturate()?);
        quiet.push(with_retries(bench, || at(QUIET, round as u64))?);
    }
    // All in microseconds.
    let cost = median(saturated.iter().map(Sample::cost));
    let generator = median(saturated.iter().map(|sample| sample.generator / sample.rate())) * 1e6;
    let wake_up = (median(quiet.iter().map(Sample::cost)) - cost).max(0.0);
    let alone = cost + wake_up + generator;
    let delay = (least(quiet.iter().map(|sample| sample.p50)) - alone).max(0.0);
    let half_of_generator = Stage { service: generator / 2.0, wake_up: 0.0 };
    let stages = [half_of_generator, Stage { service: cost, wake_up }, half_of_generator];
    let mut measured = loads.map(|_| Vec::new());
    for round in 0..bench.rounds {
        for (load, samples) in loads.iter().zip(&mut measured) {
            bench.log(&format!("{name}: {:.0} %, round {}", load * 100.0, round + 1));
            samples.push(with_retries(bench, || at(load * 1e6 / cost, 100 + round as u64))?);
        }
    }
    for (load, samples) in loads.iter().zip(&measured) {
        let model = queue::simulate(&stages, load / cost, SIMULATED, 1);
        let response = |part| model.percentile(part) + delay;
        let of = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value));
        comparisons.push(Comparison {
            load: format!("12 KB page, {name}, {:.0} % of a core", load * 100.0),
            rate: load * 1e6 / cost,
            figures: vec![
                ComparedFigure::new("core utilisation", Unit::Share, model.utilisation[1], of(Sample::busy)),
                ComparedFigure::new("p50", Unit::Micros, response(0.5), of(|sample| sample.p50)),
                ComparedFigure::new("p99", Unit::Micros, response(0.99), of(|sample| sample.p99)),
            ],
        });
    }
    Ok(())
}

/// A replica with its PostgreSQL and its Redis.
struct Stack {
    // Fields are dropped in this order: the replica must end first.
    replica: Peer,
    postgres: Postgres,
    redis: Peer,
    expected: Expected,
    number: u64,
}

/// The result of a round, for each submission. Times are in microseconds.
struct Round {
    sample: Sample,
    /// CPU time.
    replica: f64,
    /// CPU time.
    postgres: f64,
    /// CPU time.
    redis: f64,
    batch_size: f64,
    /// Duration of a sync of PostgreSQL.
    sync: f64,
    /// Bytes of its WAL.
    wal: f64,
}

impl Stack {
    fn start(bench: &Bench, site: &Site, channel: Channel) -> Result<Self> {
        let postgres = postgres::start(bench, Cores::Generator)?;
        let redis = start_redis(bench)?;
        let options = with_open_limits(frontdesk::Options::new("frontdesk", &site.of(channel)))
            .set("FRONTDESK_STORE__URL", postgres.url())
            .set("FRONTDESK_LIMITS__SHARED_URL", format!("redis://{}", redis.address));
        let replica = frontdesk::start(bench, &options)?;
        let response = http::send(replica.address, &fixed_request(CONTACT))?;
        ensure!(is_accepted(&response), "a submission gets {}: {}", response.status, replica.stderr());
        Ok(Self { replica, postgres, redis, expected: Expected::like(&response), number: 0 })
    }

    fn usage(&self) -> [Usage; 3] {
        [&self.replica, &self.postgres.peer, &self.redis].map(Peer::usage)
    }

    fn stored(&self) -> Result<f64> {
        self.postgres.number("SELECT count(*) FROM accepted")
    }

    /// Counters of PostgreSQL: writing transactions, bytes of WAL, syncs, and milliseconds of syncs.
    fn counters(&self) -> Result<[f64; 4]> {
        Ok([
            self.postgres.number("SELECT pg_snapshot_xmax(pg_current_snapshot())")?,
            self.postgres.number("SELECT pg_current_wal_lsn() - '0/0'")?,
            self.postgres.number("SELECT wal_sync FROM pg_stat_wal")?,
            self.postgres.number("SELECT wal_sync_time FROM pg_stat_wal")?,
        ])
    }

    /// Runs a round with so many connections: always busy, or with random arrivals at `rate`. Fails if an
    /// acknowledged submission is missing.
    fn round(&mut self, bench: &Bench, connections: usize, rate: Option<f64>) -> Result<Round> {
        self.number += 1;
        let acknowledged = AtomicU64::new(0);
        let load = bench.load(connections);
        let (address, process, number) = (self.replica.address, self.replica.process(), self.number);
        let script = |first, _| Visitors::new(CONTACT, &self.expected, &acknowledged, number, first);
        let (rows, usage, counters) = (self.stored()?, self.usage(), self.counters()?);
        let sample = match rate {
            None => load::run(&load, address, process, script)?,
            Some(rate) => load::open::run(&load, rate, number, address, process, script)?,
        };
        // The last submissions are still being stored, and PostgreSQL updates its counters once a second.
        std::thread::sleep(Duration::from_millis(1_200));
        let (stored, usage_after, counters_after) = (self.stored()? - rows, self.usage(), self.counters()?);
        let acknowledged = acknowledged.load(Relaxed) as f64;
        ensure!(
            (acknowledged..=acknowledged + connections as f64).contains(&stored),
            "{acknowledged} submissions were acknowledged and {stored} stored"
        );
        let [replica, postgres, redis] = [0, 1, 2].map(|part: usize| {
            usage_after[part].since(&usage[part]).iter().sum::<u64>() as f64 / 1e3 / stored
        });
        let [commits, wal, syncs, sync_millis] =
            [0, 1, 2, 3].map(|part: usize| counters_after[part] - counters[part]);
        Ok(Round {
            sample,
            replica,
            postgres,
            redis,
            batch_size: stored / commits.max(1.0),
            sync: sync_millis * 1e3 / syncs.max(1.0),
            wal: wal / stored,
        })
    }
}

/// Redis without persistence.
fn start_redis(bench: &Bench) -> Result<Peer> {
    let address = free_address()?;
    let own = folder()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    command.arg(address.port().to_string()).arg("--dir").arg(own.path());
    Peer::start(bench, "Redis", Cores::Generator, &command, address, own)
}

/// The cost of a batch and of a submission, from the costs of a submission in batches of one and in batches
/// of `size`.
fn split_cost(single: f64, large: f64, size: f64) -> (f64, f64) {
    // single = batch + each; large = batch / size + each
    let batch = ((single - large) / (1.0 - 1.0 / size)).clamp(0.0, single);
    (batch, single - batch)
}

/// Measures the costs of submissions, and compares the model at several rates. Returns the maximum rate and
/// the costs.
fn submissions(bench: &Bench, comparisons: &mut Vec<Comparison>) -> Result<(Spread, Costs)> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let (mut single, mut large) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.log(&format!("submissions: calibration {}", round + 1));
        single.push(stack.round(bench, 1, None)?);
        large.push(stack.round(bench, CONNECTIONS, None)?);
    }
    let of = |rounds: &[Round], value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let batch_size = of(&large, |round| round.batch_size);
    ensure!(batch_size > 1.5, "{CONNECTIONS} connections give batches of {batch_size:.1}");
    let split = |value| split_cost(of(&single, value), of(&large, value), batch_size);
    let (replica_batch, replica) = split(|round| round.replica);
    let (postgres_batch, postgres) = split(|round| round.postgres);
    let redis = of(&large, |round| round.redis);
    // The rest of the response time with one connection. CPU time after the response can make it zero.
    let sync = least(single.iter().map(|round| round.sync));
    let known = replica_batch + replica + postgres_batch + postgres + redis + sync;
    let wait = (least(single.iter().map(|round| round.sample.p50)) - known).max(0.0);
    let costs = Costs { replica, replica_batch, redis, postgres, postgres_batch, sync, wait };
    let system =
        System { replicas: 1, replica_cores: 1, postgres_cores: 1, round_trip: 0.0, standby: 0.0, costs };
    for rate in RATES {
        let mut rounds = Vec::new();
        for round in 0..bench.rounds {
            bench.log(&format!("submissions: {rate} a second, round {}", round + 1));
            rounds.push(stack.round(bench, CONNECTIONS, Some(rate))?);
        }
        let model = submissions::simulate(&system, rate / 1e6, SIMULATED, 1);
        let of = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
        let busy = |cpu: f64| cpu * rate / 1e6;
        let figure = ComparedFigure::new;
        comparisons.push(Comparison {
            load: "Submissions".to_owned(),
            rate,
            figures: vec![
                figure("batch size", Unit::Count, model.batch_size, of(&|round| round.batch_size)),
                figure("replica CPU", Unit::Share, model.replica, of(&|round| busy(round.replica))),
                figure("PostgreSQL CPU", Unit::Share, model.postgres, of(&|round| busy(round.postgres))),
                figure("p50", Unit::Micros, model.percentile(0.5), of(&|round| round.sample.p50)),
                figure("p99", Unit::Micros, model.percentile(0.99), of(&|round| round.sample.p99)),
            ],
        });
    }
    Ok((Spread::of(large.iter().map(|round| round.sample.rate())), costs))
}

/// Measures the bytes of a submission in WAL and tables, and the costs with delivery.
fn bytes(bench: &Bench) -> Result<(SubmissionBytes, DeliveryCosts)> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let mut fresh = Vec::new();
    for _ in 0..bench.rounds {
        fresh.push(stack.round(bench, 16, None)?.wal);
    }
    bench.log("large inbox");
    fill(&stack.postgres)?;
    let table = |name: &str| stack.postgres.number(&format!("SELECT pg_total_relation_size('{name}')"));
    let rows = stack.stored()?;
    let [submission, delivery_row, attempt] =
        [table("submission")?, table("delivery")?, table("attempt")?].map(|bytes| bytes / rows);
    let mut cold = |compression: &str| -> Result<f64> {
        let mut seen = Vec::new();
        for _ in 0..bench.rounds {
            stack.postgres.run(&format!("ALTER SYSTEM SET wal_compression = {compression}"))?;
            stack.postgres.run("SELECT pg_reload_conf()")?;
            stack.postgres.run("CHECKPOINT")?;
            seen.push(stack.round(bench, 16, Some(200.0))?.wal);
        }
        Ok(median(seen))
    };
    let (cold, compressed) = (cold("off")?, cold("lz4")?);
    drop(stack);
    bench.log("deliveries");
    let mut stack = Stack::start(bench, &site, Channel::Maildir)?;
    let (mut low_rate, mut highest) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        low_rate.push(deliver(bench, &mut stack, 4, Some(200.0))?);
        // Half a minute is needed to deliver the submissions of a second.
        if round < 2 {
            highest.push(deliver(bench, &mut stack, CONNECTIONS, None)?);
        }
    }
    let of = |rounds: &[Delivered], value: fn(&Delivered) -> f64| median(rounds.iter().map(value));
    let delivery = DeliveryCosts {
        postgres_low_rate: of(&low_rate, |round| round.postgres),
        postgres: of(&highest, |round| round.postgres),
        replica: of(&highest, |round| round.replica),
        rate: Spread::of(highest.iter().map(|round| round.rate)),
    };
    let bytes = SubmissionBytes {
        wal_fresh: median(fresh),
        wal_delivered: of(&low_rate, |round| round.wal),
        wal_cold: cold,
        wal_compressed: compressed,
        submission,
        delivery: delivery_row,
        attempt,
    };
    Ok((bytes, delivery))
}

/// The result of a round with deliveries, for each submission.
struct Delivered {
    /// Bytes of WAL.
    wal: f64,
    /// Microseconds of CPU.
    postgres: f64,
    /// Microseconds of CPU.
    replica: f64,
    /// Deliveries a second.
    rate: f64,
}

/// Runs a round and waits until everything is delivered.
fn deliver(bench: &Bench, stack: &mut Stack, connections: usize, rate: Option<f64>) -> Result<Delivered> {
    let (rows, usage, counters) = (stack.stored()?, stack.usage(), stack.counters()?);
    let began = Instant::now();
    stack.round(bench, connections, rate)?;
    while stack.postgres.number("SELECT count(*) FROM delivery WHERE due_at IS NOT NULL")? > 0.0 {
        ensure!(
            began.elapsed() < Duration::from_mins(3),
            "deliveries take too long: {}",
            stack.replica.stderr()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let (stored, elapsed, after) = (stack.stored()? - rows, began.elapsed(), stack.usage());
    let [replica, postgres] =
        [0, 1].map(|part: usize| after[part].since(&usage[part]).iter().sum::<u64>() as f64 / 1e3 / stored);
    let wal = (stack.counters()?[1] - counters[1]) / stored;
    Ok(Delivered { wal, postgres, replica, rate: stored / elapsed.as_secs_f64() })
}

/// Fills the inbox with a million submissions, one each millisecond, each delivered at the first attempt.
fn fill(postgres: &Postgres) -> Result<()> {
    let message = "word ".repeat(100);
    postgres.run(&format!(
        "SET synchronous_commit = off;
         CREATE TEMP TABLE new AS
           SELECT i, (lpad(to_hex(1600000000000 + i), 12, '0') || '7' || substr(md5('a' || i), 1, 3) ||
             '8' || substr(md5('b' || i), 1, 15))::uuid AS id
           FROM generate_series(1, {LARGE_INBOX}) AS i;
         INSERT INTO submission (id, form, received_at, fields, source, sender, score, content)
           SELECT id, 'contact', 1600000000000 + i,
             json_build_object(
               'name', 'Ada Lovelace', 'email', 'a' || i || '@example.com', 'message', '{message}' || i),
             decode(md5('c' || i), 'hex'), decode(md5('d' || i), 'hex'), 0,
             overlay(decode(md5('e' || i), 'hex') PLACING
               decode(lpad(to_hex((1600000000000 + i) / 86400000), 4, '0'), 'hex') FROM 1 FOR 2) FROM new;
         INSERT INTO delivery (submission, channel, state, attempts)
           SELECT id, 'team', 'delivered', 1 FROM new;
         INSERT INTO attempt (submission, channel, number, began_at, ended_at, delivered)
           SELECT id, 'team', 1, 1600000000000 + i, 1600000000001 + i, 1 FROM new;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_split_into_batch_and_submission() {
        let (batch, each) = split_cost(130.0, 40.0, 10.0);
        assert!((batch - 100.0).abs() < 1e-9 && (each - 30.0).abs() < 1e-9, "{batch} {each}");
        // Noise must not make a cost negative.
        assert_eq!(split_cost(10.0, 20.0, 10.0), (0.0, 10.0));
    }
}
