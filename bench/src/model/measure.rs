//! Measures the costs that the model needs, and compares its predictions with measurements: pages requested
//! at random intervals, and submissions through one replica with PostgreSQL and Redis.
//!
//! The replica has one core; the load generator, PostgreSQL and Redis share the other.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::SIMULATED;
use super::calibration::{Calibration, ComparedFigure, Comparison, DeliveryCosts, SubmissionBytes};
use super::queue::{self, Stage};
use super::submissions::{self, Costs, System};
use crate::Bench;
use crate::content::{Content, LARGE, PageRequest};
use crate::figures::Unit;
use crate::load::{self, Sample, open};
use crate::machine::Cores;
use crate::peer::postgres::Postgres;
use crate::peer::{Peer, create_folder, free_address, frontdesk, postgres};
use crate::process::Usage;
use crate::rounds::{Spread, percentile};
use crate::suites::submissions::{CONTACT, Channel, Site, check_stored, frontdesk_options, send};

/// Requests per second at which the server is nearly idle but the load generator does not sleep.
const QUIET: f64 = 5_000.0;
/// Utilisations of the server's core at which predictions for pages on the fast path are compared with
/// measurements. The load generator cannot produce much more load.
const FAST_LOADS: [f64; 2] = [0.3, 0.5];
/// The same for pages on the general path.
const GENERAL_LOADS: [f64; 2] = [0.5, 0.8];
const RATES: [f64; 2] = [200.0, 1_000.0];
const CONNECTIONS: usize = 64;
const LARGE_INBOX: f64 = 1e6;

pub fn run(bench: &Bench) -> Result<Calibration> {
    std::fs::create_dir_all(&bench.out)?;
    let (content, ours) = Content::start(bench, None)?;
    let mut comparisons = compare_pages(bench, &content, &ours, "fast path", FAST_LOADS)?;
    drop(ours);
    let general_path = content.start_general_path(bench)?;
    comparisons.extend(compare_pages(bench, &content, &general_path, "general path", GENERAL_LOADS)?);
    drop(general_path);
    let (max_rate, costs) = measure_submissions(bench, &mut comparisons)?;
    for comparison in &comparisons {
        for figure in &comparison.figures {
            let (model, measured) =
                (figure.unit.format(figure.predicted), figure.unit.format_spread(&figure.measured));
            bench.log(&format!("{}: {}: model {model}, measured {measured}", comparison.load, figure.name));
        }
    }
    let (bytes, delivery) = measure_bytes(bench)?;
    let mut machine = crate::machine::describe(bench);
    let shown = ["processor", "cores", "memory", "kernel", "system", "frontdesk"];
    machine.retain(|(name, _)| shown.contains(&name.as_str()));
    Ok(Calibration {
        measured: crate::today(),
        machine,
        rounds: bench.rounds,
        seconds: bench.length.as_secs_f64(),
        max_rate,
        costs,
        delivery,
        bytes,
        comparisons,
    })
}

fn spread<T>(rounds: &[T], figure: impl Fn(&T) -> f64) -> Spread {
    Spread::of(rounds.iter().map(figure))
}

/// Measures the 12 KB page on one core, and compares predictions with measurements at several loads.
fn compare_pages(
    bench: &Bench,
    content: &Content,
    peer: &Peer,
    name: &str,
    loads: [f64; 2],
) -> Result<Vec<Comparison>> {
    let exchanges = [content.exchange(peer, PageRequest::html(LARGE))?];
    let load = bench.load(CONNECTIONS);
    let at = |rate: f64, seed: usize| {
        let measure = || open::run(&load, rate, seed as u64, peer, load::cycle(&exchanges));
        // Other programs can slow the server down temporarily.
        let retry = |error: anyhow::Error| {
            bench.log(&format!("measurement failed, retrying: {error:#}"));
            measure()
        };
        measure().or_else(retry).or_else(retry)
    };
    let (mut saturated, mut quiet) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.log(&format!("{name}: calibration {}", round + 1));
        saturated.push(load::run(&load, peer, load::cycle(&exchanges))?);
        quiet.push(at(QUIET, round)?);
    }
    // All times are in microseconds.
    let cost = spread(&saturated, Sample::cost).median;
    let generator = spread(&saturated, |sample| sample.generator / sample.rate()).median * 1e6;
    let wake_up = (spread(&quiet, Sample::cost).median - cost).max(0.0);
    let alone = cost + wake_up + generator;
    // Use the minimum, because the median includes time taken by other programs.
    let delay = (spread(&quiet, |sample| sample.p50).least - alone).max(0.0);
    let half_of_generator = Stage { service: generator / 2.0, wake_up: 0.0 };
    let stages = [half_of_generator, Stage { service: cost, wake_up }, half_of_generator];
    let mut measured = loads.map(|_| Vec::new());
    for round in 0..bench.rounds {
        for (load, samples) in loads.iter().zip(&mut measured) {
            bench.log(&format!("{name}: {:.0} %, round {}", load * 100.0, round + 1));
            samples.push(at(load * 1e6 / cost, 100 + round)?);
        }
    }
    let compare = |(load, samples): (&f64, &Vec<Sample>)| {
        let (utilisation, responses) = queue::simulate(&stages, load / cost, SIMULATED, 1);
        let response = |share| percentile(&responses, share) + delay;
        let figure = ComparedFigure::new;
        let figures = vec![
            figure("core utilisation", Unit::Share, utilisation[1], spread(samples, Sample::busy)),
            figure("p50", Unit::Micros, response(0.5), spread(samples, |sample| sample.p50)),
            figure("p99", Unit::Micros, response(0.99), spread(samples, |sample| sample.p99)),
        ];
        let title = format!("12 KB page, {name}, {:.0} % of a core", load * 100.0);
        Comparison { load: title, rate: load * 1e6 / cost, figures }
    };
    Ok(loads.iter().zip(&measured).map(compare).collect())
}

struct Stack {
    // Fields are dropped in this order: the replica must end first.
    replica: Peer,
    postgres: Postgres,
    redis: Peer,
    channel: Channel,
    number: u64,
}

/// The results of a round. Costs are per submission. Times are in microseconds.
struct Round {
    sample: Sample,
    replica: f64,
    postgres: f64,
    redis: f64,
    batch_size: f64,
    /// Mean duration of a sync in PostgreSQL.
    sync: f64,
    wal: f64,
    /// Submissions per second, from the start of the round until all are delivered.
    delivery_rate: f64,
}

impl Stack {
    /// Starts PostgreSQL, Redis without persistence, and a replica with this channel.
    fn start(bench: &Bench, site: &Site, channel: Channel) -> Result<Self> {
        let postgres = postgres::start(bench, Cores::Generator)?;
        let (own, address) = (create_folder()?, free_address()?);
        let mut redis = Command::new("redis-server");
        redis.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        redis.arg(address.port().to_string()).arg("--dir").arg(own.path());
        let redis = Peer::start(bench, "Redis", Cores::Generator, &redis, address, own)?;
        let site = site.folder_for(channel);
        let options = frontdesk_options(&site)
            .set("STORE__URL", postgres.url("frontdesk"))
            .set("LIMITS__SHARED_URL", format!("redis://{}", redis.address));
        let replica = frontdesk::start(bench, options)?;
        Ok(Self { replica, postgres, redis, channel, number: 0 })
    }

    fn server_usage(&self) -> [Usage; 3] {
        [&self.replica, &self.postgres.peer, &self.redis].map(Peer::usage)
    }

    /// Stored submissions, write transactions, bytes of WAL, syncs, and the duration of all syncs in
    /// milliseconds.
    fn counters(&self) -> Result<[f64; 5]> {
        Ok([
            self.postgres
                .query_number("SELECT (SELECT count(*) FROM submission) + (SELECT count(*) FROM intake)")?,
            self.postgres.query_number("SELECT pg_snapshot_xmax(pg_current_snapshot())")?,
            self.postgres.query_number("SELECT pg_current_wal_lsn() - '0/0'")?,
            self.postgres.query_number("SELECT wal_sync FROM pg_stat_wal")?,
            self.postgres.query_number("SELECT wal_sync_time FROM pg_stat_wal")?,
        ])
    }

    /// Runs a round with this number of connections. If `rate` is set, submissions arrive at random at this
    /// mean rate. With [`Channel::Maildir`], also waits for all deliveries. Fails if an acknowledged
    /// submission is missing.
    fn run_round(&mut self, bench: &Bench, connections: usize, rate: Option<f64>) -> Result<Round> {
        self.number += 1;
        let (began, usage, counters) = (Instant::now(), self.server_usage(), self.counters()?);
        let load = bench.load(connections);
        let (sample, acknowledged) = send(&load, rate, &self.replica, CONTACT, self.number)?;
        // PostgreSQL updates its counters once a second, and `send` has already paused for half a second.
        std::thread::sleep(Duration::from_millis(700));
        if self.channel == Channel::Maildir {
            self.wait_for_deliveries()?;
        }
        let (elapsed, usage_after, counters_after) = (began.elapsed(), self.server_usage(), self.counters()?);
        let [stored, commits, wal, syncs, sync_millis] =
            std::array::from_fn(|part| counters_after[part] - counters[part]);
        check_stored(&load, &self.replica, acknowledged, stored as u64)?;
        let [replica, postgres, redis] = std::array::from_fn(|part| {
            usage_after[part].since(&usage[part]).iter().sum::<u64>() as f64 / 1e3 / stored
        });
        Ok(Round {
            sample,
            replica,
            postgres,
            redis,
            batch_size: stored / commits.max(1.0),
            sync: sync_millis * 1e3 / syncs.max(1.0),
            wal: wal / stored,
            delivery_rate: stored / elapsed.as_secs_f64(),
        })
    }

    fn wait_for_deliveries(&self) -> Result<()> {
        let began = Instant::now();
        let pending =
            "SELECT (SELECT count(*) FROM intake) + count(*) FROM delivery WHERE due_at IS NOT NULL";
        while self.postgres.query_number(pending)? > 0.0 {
            let is_late = began.elapsed() > Duration::from_mins(3);
            ensure!(!is_late, "deliveries did not finish within three minutes: {}", self.replica.stderr());
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

/// Splits a cost, measured in batches of 1 and of `size`, into a cost per batch and a cost per submission.
fn split_cost(single: f64, large: f64, size: f64) -> (f64, f64) {
    // single = batch + each; large = batch / size + each
    let batch = ((single - large) / (1.0 - 1.0 / size)).clamp(0.0, single);
    (batch, single - batch)
}

fn measure_submissions(bench: &Bench, comparisons: &mut Vec<Comparison>) -> Result<(Spread, Costs)> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let (mut single, mut large) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.log(&format!("submissions: calibration {}", round + 1));
        single.push(stack.run_round(bench, 1, None)?);
        large.push(stack.run_round(bench, CONNECTIONS, None)?);
    }
    let batch_size = spread(&large, |round| round.batch_size).median;
    ensure!(
        batch_size > 1.5,
        "cannot separate the cost of a batch from that of a submission: {CONNECTIONS} connections produced only \
         {batch_size:.1} submissions per batch (more than 1.5 needed)"
    );
    let split = |cost: fn(&Round) -> f64| {
        split_cost(spread(&single, cost).median, spread(&large, cost).median, batch_size)
    };
    let (replica_batch, replica) = split(|round| round.replica);
    let (postgres_batch, postgres) = split(|round| round.postgres);
    let redis = spread(&large, |round| round.redis).median;
    // Use minimums, because the medians include time taken by other programs.
    let sync = spread(&single, |round| round.sync).least;
    let alone = spread(&single, |round| round.sample.p50).least;
    // The rest of the response time with one connection. The difference can be negative, because some CPU
    // time is spent after the response.
    let wait = (alone - (replica_batch + replica + postgres_batch + postgres + redis + sync)).max(0.0);
    let costs = Costs { replica, replica_batch, redis, postgres, postgres_batch, sync, wait };
    let system =
        System { replicas: 1, replica_cores: 1, postgres_cores: 1, round_trip: 0.0, standby: 0.0, costs };
    for rate in RATES {
        let mut rounds = Vec::new();
        for round in 0..bench.rounds {
            bench.log(&format!("submissions: {rate} a second, round {}", round + 1));
            rounds.push(stack.run_round(bench, CONNECTIONS, Some(rate))?);
        }
        let model = submissions::simulate(&system, rate / 1e6, SIMULATED, 1);
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&model.responses, share));
        let busy = |cpu: f64| cpu * rate / 1e6;
        let figure = |name, unit, predicted, measured: &dyn Fn(&Round) -> f64| {
            ComparedFigure::new(name, unit, predicted, spread(&rounds, measured))
        };
        let figures = vec![
            figure("batch size", Unit::Count, model.batch_size, &|round| round.batch_size),
            figure("replica CPU", Unit::Share, model.replica, &|round| busy(round.replica)),
            figure("PostgreSQL CPU", Unit::Share, model.postgres, &|round| busy(round.postgres)),
            figure("p50", Unit::Micros, p50, &|round| round.sample.p50),
            figure("p99", Unit::Micros, p99, &|round| round.sample.p99),
        ];
        comparisons.push(Comparison { load: "Submissions".to_owned(), rate, figures });
    }
    Ok((spread(&large, |round| round.sample.rate()), costs))
}

fn measure_bytes(bench: &Bench) -> Result<(SubmissionBytes, DeliveryCosts)> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let wal = |stack: &mut Stack, rate, prepare: &[&str]| -> Result<f64> {
        let mut rounds = Vec::new();
        for _ in 0..bench.rounds {
            prepare.iter().try_for_each(|statement| stack.postgres.execute(statement))?;
            rounds.push(stack.run_round(bench, 16, rate)?);
        }
        Ok(spread(&rounds, |round| round.wal).median)
    };
    let wal_fresh = wal(&mut stack, None, &[])?;
    bench.log("large inbox");
    // Submissions that were received one millisecond apart and delivered on the first attempt.
    let message = "word ".repeat(100);
    let statements = format!(include_str!("submissions.sql"), count = LARGE_INBOX, message = message);
    stack.postgres.execute(&statements)?;
    let [rows, ..] = stack.counters()?;
    let table = |name: &str| -> Result<f64> {
        Ok(stack.postgres.query_number(&format!("SELECT pg_total_relation_size('{name}')"))? / rows)
    };
    let [submission, delivery, attempt] = [table("submission")?, table("delivery")?, table("attempt")?];
    let mut cold = |compression: &str| {
        let set = format!("ALTER SYSTEM SET wal_compression = {compression}");
        wal(&mut stack, Some(200.0), &[&set, "SELECT pg_reload_conf()", "CHECKPOINT"])
    };
    let (wal_cold, wal_compressed) = (cold("off")?, cold("lz4")?);
    drop(stack);
    bench.log("deliveries");
    let mut stack = Stack::start(bench, &site, Channel::Maildir)?;
    let (mut low_rate, mut highest) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        low_rate.push(stack.run_round(bench, 4, Some(200.0))?);
        // One second of submissions takes half a minute to deliver, so run only two rounds at this rate.
        if round < 2 {
            highest.push(stack.run_round(bench, CONNECTIONS, None)?);
        }
    }
    let costs = DeliveryCosts {
        postgres_low_rate: spread(&low_rate, |round| round.postgres).median,
        postgres: spread(&highest, |round| round.postgres).median,
        replica: spread(&highest, |round| round.replica).median,
        rate: spread(&highest, |round| round.delivery_rate),
    };
    let wal_delivered = spread(&low_rate, |round| round.wal).median;
    let bytes =
        SubmissionBytes { wal_fresh, wal_delivered, wal_cold, wal_compressed, submission, delivery, attempt };
    Ok((bytes, costs))
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
