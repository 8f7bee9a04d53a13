//! Measures the costs of submissions through one replica with PostgreSQL and Redis.
//!
//! The replica has one core; the load generator, PostgreSQL and Redis share the other. `scripts/bench` starts
//! PostgreSQL, and sets `FRONTDESK_TEST_POSTGRES_TLS` to its URL.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::figures::{self, Spread};
use crate::load::{Load, Sample};
use crate::machine::{Cores, pin_process};
use crate::peer::{Peer, create_folder, free_address, frontdesk};
use crate::process::{self, Usage};
use crate::settings::{Bench, report_progress};
use crate::suites::submissions::{CONTACT, Channel, Site, check_stored, frontdesk_options, send};
use crate::versions;

const CONNECTIONS: usize = 64;
const LARGE_INBOX: f64 = 1e6;

/// The contents of `docs/assets/scale/figures.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    pub measured: String,
    pub machine: Vec<(String, String)>,
    pub rounds: usize,
    pub seconds: f64,
    pub costs: Costs,
    /// Submissions per second that one replica stored while 64 visitors were waiting.
    pub stored: Spread,
    /// Submissions per second that one replica stored and delivered to a Maildir.
    pub delivered: Spread,
    /// Bytes per submission: rows of the table.
    pub bytes: Vec<(String, f64)>,
}

/// Times in microseconds. `replica`, `redis` and `postgres` are CPU times for each submission, and those with
/// `_batch` for each batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    pub replica: f64,
    pub replica_batch: f64,
    pub redis: f64,
    pub postgres: f64,
    pub postgres_batch: f64,
    /// Duration of a sync of PostgreSQL's write-ahead log.
    pub sync: f64,
    /// CPU times to store a submission and deliver it to one Maildir.
    pub delivery_replica: f64,
    pub delivery_postgres: f64,
}

pub fn run(bench: &Bench) -> Result<Measurements> {
    std::fs::create_dir_all(&bench.out)?;
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let mut measured = measure_costs(bench, &mut stack)?;
    measure_bytes(bench, &mut stack, &mut measured)?;
    drop(stack);
    let mut stack = Stack::start(bench, &site, Channel::Maildir)?;
    measure_deliveries(bench, &mut stack, &mut measured)?;
    Ok(measured)
}

struct Stack {
    // Fields are dropped in this order: the replica must end first.
    replica: Peer,
    redis: Peer,
    postgres: Postgres,
    channel: Channel,
    number: u64,
}

struct Postgres {
    url: String,
    process: u32,
}

impl Postgres {
    /// Empties the database, and moves the server to the core of the load generator.
    fn prepare(bench: &Bench) -> Result<Self> {
        let url = std::env::var("FRONTDESK_TEST_POSTGRES_TLS").context("no PostgreSQL: run scripts/bench")?;
        let mut postgres = Self { url, process: 0 };
        for statement in [
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            "ALTER SYSTEM SET max_wal_size = '4GB'",
            "ALTER SYSTEM SET track_wal_io_timing = on",
            "SELECT pg_reload_conf()",
        ] {
            postgres.query(statement)?;
        }
        let process =
            postgres.query_number("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")?;
        postgres.process = process as u32;
        for process in process::process_tree(postgres.process) {
            pin_process(process, &bench.machine.core_numbers(Cores::Generator))?;
        }
        Ok(postgres)
    }

    fn query(&self, sql: &str) -> Result<String> {
        process::output(Command::new("psql").arg(&self.url).args([
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
        ]))
    }

    fn query_number(&self, sql: &str) -> Result<f64> {
        self.query(sql)?.trim().parse().with_context(|| format!("not a number: {sql}"))
    }
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

fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Spread {
    Spread::of(rounds.iter().map(figure))
}

impl Stack {
    /// Starts Redis without persistence, and a replica with this channel.
    fn start(bench: &Bench, site: &Site, channel: Channel) -> Result<Self> {
        let postgres = Postgres::prepare(bench)?;
        let (own, address) = (create_folder()?, free_address()?);
        let mut redis = Command::new("redis-server");
        redis.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        redis.arg(address.port().to_string()).arg("--dir").arg(own.path());
        let redis = Peer::start(bench, "Redis", Cores::Generator, &redis, address, own)?;
        let site = site.folder_for(channel);
        let options = frontdesk_options(&site)
            .set("STORE__URL", &postgres.url)
            .set("LIMITS__SHARED_URL", format!("redis://{}", redis.address));
        let replica = frontdesk::start(bench, options)?;
        Ok(Self { replica, redis, postgres, channel, number: 0 })
    }

    fn server_usage(&self) -> [Usage; 3] {
        [self.replica.usage(), process::cpu_usage(self.postgres.process), self.redis.usage()]
    }

    /// Stored submissions, write transactions, bytes of WAL, syncs, and the duration of all syncs in
    /// milliseconds.
    fn counters(&self) -> Result<[f64; 5]> {
        let [mut rows, mut commits, mut wal, mut syncs, mut millis] = [0.0; 5];
        for (counter, sql) in [
            (&mut rows, "SELECT (SELECT count(*) FROM submission) + (SELECT count(*) FROM intake)"),
            (&mut commits, "SELECT pg_snapshot_xmax(pg_current_snapshot())"),
            (&mut wal, "SELECT pg_current_wal_lsn() - '0/0'"),
            (&mut syncs, "SELECT wal_sync FROM pg_stat_wal"),
            (&mut millis, "SELECT wal_sync_time FROM pg_stat_wal"),
        ] {
            *counter = self.postgres.query_number(sql)?;
        }
        Ok([rows, commits, wal, syncs, millis])
    }

    /// Runs a round with this number of visitors. With [`Channel::Maildir`], also waits for all deliveries.
    /// Fails if an acknowledged submission is missing.
    fn run_round(&mut self, bench: &Bench, connections: usize) -> Result<Round> {
        self.number += 1;
        let (began, usage, counters) = (Instant::now(), self.server_usage(), self.counters()?);
        let load = Load::new(bench, connections);
        let (sample, acknowledged) = send(&load, &self.replica, CONTACT, self.number)?;
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

fn measure_costs(bench: &Bench, stack: &mut Stack) -> Result<Measurements> {
    let (mut single, mut large) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        report_progress(&format!("submissions, round {round}"));
        single.push(stack.run_round(bench, 1)?);
        large.push(stack.run_round(bench, CONNECTIONS)?);
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
    // Use the minimum, because the median includes time taken by other programs.
    let sync = spread(&single, |round| round.sync).least;
    let mut machine = versions::describe(bench);
    let shown = ["processor", "cores", "memory", "kernel", "system", "frontdesk"];
    machine.retain(|(name, _)| shown.contains(&name.as_str()));
    Ok(Measurements {
        measured: figures::today(),
        machine,
        rounds: bench.rounds,
        seconds: bench.length.as_secs_f64(),
        costs: Costs { replica, replica_batch, redis, postgres, postgres_batch, sync, ..Costs::default() },
        stored: spread(&large, |round| round.sample.rate()),
        delivered: Spread::exactly(0.0),
        bytes: Vec::new(),
    })
}

/// Measures the bytes of the write-ahead log and of the tables.
fn measure_bytes(bench: &Bench, stack: &mut Stack, measured: &mut Measurements) -> Result<()> {
    let mut wal = |stack: &mut Stack, connections, name: &str, prepare: &[&str]| -> Result<()> {
        let mut rounds = Vec::new();
        for _ in 0..bench.rounds {
            prepare.iter().try_for_each(|statement| stack.postgres.query(statement).map(drop))?;
            rounds.push(stack.run_round(bench, connections)?);
        }
        measured.bytes.push((name.to_owned(), spread(&rounds, |round| round.wal).median));
        Ok(())
    };
    wal(stack, 16, "WAL, recently written pages", &[])?;
    report_progress("large inbox");
    // Submissions that were received one millisecond apart and delivered on the first attempt.
    let message = "word ".repeat(100);
    stack.postgres.query(&format!(
        include_str!("submissions.sql"),
        count = LARGE_INBOX,
        message = message
    ))?;
    let [rows, ..] = stack.counters()?;
    for (compression, name) in [
        ("off", "WAL, inbox of a million just after a checkpoint"),
        ("lz4", "the same with `wal_compression = lz4`"),
    ] {
        let set = format!("ALTER SYSTEM SET wal_compression = {compression}");
        wal(stack, 1, name, &[&set, "SELECT pg_reload_conf()", "CHECKPOINT"])?;
    }
    let mut all = 0.0;
    for (table, name) in [("submission", "submissions"), ("delivery", "deliveries"), ("attempt", "attempts")]
    {
        let size = format!("SELECT pg_total_relation_size('{table}')");
        let each = stack.postgres.query_number(&size)? / rows;
        measured.bytes.push((format!("table of {name}"), each));
        all += each;
    }
    measured.bytes.push(("all tables".to_owned(), all));
    Ok(())
}

fn measure_deliveries(bench: &Bench, stack: &mut Stack, measured: &mut Measurements) -> Result<()> {
    report_progress("deliveries");
    let mut rounds = Vec::new();
    // One second of submissions takes half a minute to deliver.
    for _ in 0..bench.rounds.min(2) {
        rounds.push(stack.run_round(bench, CONNECTIONS)?);
    }
    measured.costs.delivery_replica = spread(&rounds, |round| round.replica).median;
    measured.costs.delivery_postgres = spread(&rounds, |round| round.postgres).median;
    measured.delivered = spread(&rounds, |round| round.delivery_rate);
    let wal = spread(&rounds, |round| round.wal).median;
    measured.bytes.insert(1, ("WAL, with a delivery".to_owned(), wal));
    Ok(())
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
