//! Submissions through one replica with PostgreSQL and Redis: the costs by which several servers are sized
//! (`docs/pages/scale.md`).
//!
//! The replica has one core; the load generator, PostgreSQL and Redis share the other. `scripts/bench` starts
//! PostgreSQL, and sets `FRONTDESK_TEST_POSTGRES_TLS` to its URL.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use serde::Serialize;
use tempfile::TempDir;

use super::submissions::{CONTACT, Channel, check_stored, copy_starter, frontdesk_options, send};
use crate::figures::{Row, Section, Spread, Table, Unit};
use crate::load::{Load, Sample};
use crate::peer::{self, FRONTDESK, Peer, Reserved, frontdesk};
use crate::process::{self, Usage};
use crate::settings::{Bench, Cores, pin, report_progress};

const CONNECTIONS: usize = 64;
const LARGE_INBOX: f64 = 1e6;
/// Applies changes of PostgreSQL's settings.
const RELOAD: &str = "SELECT pg_reload_conf()";

/// Measures batches of one submission and large batches, whose difference gives the cost of a batch; then a
/// large inbox; and then deliveries, with an empty database.
pub fn run(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let mut stack = Stack::start(bench, Channel::Dead)?;
    let (mut single, mut large) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        report_progress(&format!("submissions, round {round}"));
        single.push(stack.run_round(bench, 1)?);
        large.push(stack.run_round(bench, CONNECTIONS)?);
    }
    let cold = measure_large_inbox(bench, &mut stack)?;
    drop(stack);
    report_progress("deliveries");
    let mut stack = Stack::start(bench, Channel::Maildir)?;
    // One second of submissions takes half a minute to deliver.
    let delivered = (0..bench.rounds.min(2)).map(|_| stack.run_round(bench, CONNECTIONS));
    let delivered = delivered.collect::<Result<Vec<Round>>>()?;
    let bytes = [
        Row::new("WAL, recently written pages", [spread(&large, |round| round.wal)]),
        Row::new("WAL, with a delivery", [spread(&delivered, |round| round.wal)]),
    ];

    let batch_size = spread(&large, |round| round.batch_size).median;
    ensure!(
        batch_size > 1.5,
        "batches of {batch_size:.1} submissions are too small to tell the cost of a batch"
    );
    let split = |cost: fn(&Round) -> f64| {
        split_cost(spread(&single, cost).median, spread(&large, cost).median, batch_size).map(Spread::exactly)
    };
    // The minimum, because the median includes time taken by other programs.
    let sync = spread(&single, |round| round.sync).least;
    let costs = [
        Row::new("replica CPU", split(|round| round.replica)),
        Row::new("PostgreSQL CPU", split(|round| round.postgres)),
        Row::new("sync of the WAL", [0.0, sync].map(Spread::exactly)),
        Row::new("Redis CPU", [spread(&large, |round| round.redis)]),
        Row::new("replica CPU with delivery", [spread(&delivered, |round| round.replica)]),
        Row::new("PostgreSQL CPU with delivery", [spread(&delivered, |round| round.postgres)]),
    ];
    let rates = [
        Row::new("stored, 64 concurrent visitors", [spread(&large, |round| round.sample.rate())]),
        Row::new("stored and delivered to a Maildir", [spread(&delivered, |round| round.delivery_rate)]),
    ];
    let [each, batch] = ["per submission", "per batch"].map(|title| (title, Unit::Micros));
    section.tables = vec![
        Table::new("scale-costs", "Costs of a submission", "", [each, batch], costs),
        Table::new("scale-rates", "Submissions of one replica", "", [("per second", Unit::Count)], rates),
        Table::new(
            "scale-bytes",
            "Bytes in PostgreSQL",
            "",
            [("bytes per submission", Unit::Count)],
            bytes.into_iter().chain(cold),
        ),
    ];
    section.record("one visitor", FRONTDESK, &single)?;
    section.record("64 visitors", FRONTDESK, &large)?;
    section.record("64 visitors, with deliveries", FRONTDESK, &delivered)?;
    Ok(section)
}

/// Splits a cost, measured in batches of 1 and of `size`, into a cost per submission and a cost per batch.
fn split_cost(single: f64, large: f64, size: f64) -> [f64; 2] {
    // single = batch + each; large = batch / size + each
    let batch = ((single - large) / (1.0 - 1.0 / size)).clamp(0.0, single);
    [single - batch, batch]
}

/// Measures the bytes of the write-ahead log (WAL) just after a checkpoint, and of the tables with their
/// indexes.
fn measure_large_inbox(bench: &Bench, stack: &mut Stack) -> Result<Vec<Row>> {
    report_progress("large inbox");
    // Submissions that were received one millisecond apart and delivered on the first attempt.
    let message = "word ".repeat(100);
    let insert = format!(include_str!("scale.sql"), count = LARGE_INBOX, message = message);
    stack.postgres.query(&[&insert])?;
    let mut rows = Vec::new();
    for (compression, name) in [
        ("off", "WAL, inbox of a million just after a checkpoint"),
        ("lz4", "the same with `wal_compression = lz4`"),
    ] {
        let set = format!("ALTER SYSTEM SET wal_compression = {compression}");
        let mut rounds = Vec::new();
        for _ in 0..bench.rounds {
            stack.postgres.query(&[&set, RELOAD, "CHECKPOINT"])?;
            rounds.push(stack.run_round(bench, 1)?);
        }
        rows.push(Row::new(name, [spread(&rounds, |round| round.wal)]));
    }
    let [stored, ..] = stack.counters()?;
    let mut all = 0.0;
    for (table, name) in [("submission", "submissions"), ("delivery", "deliveries"), ("attempt", "attempts")]
    {
        let size = stack.postgres.query_number(&format!("SELECT pg_total_relation_size('{table}')"))?;
        rows.push(Row::new(format!("table of {name}"), [Spread::exactly(size / stored)]));
        all += size / stored;
    }
    rows.push(Row::new("all tables", [Spread::exactly(all)]));
    Ok(rows)
}

/// A replica of frontdesk with its PostgreSQL and Redis.
struct Stack {
    // Fields are dropped in this order: the replica must end first.
    replica: Peer,
    redis: Peer,
    postgres: Postgres,
    channel: Channel,
    number: u64,
    _site: TempDir,
}

/// A PostgreSQL server that `scripts/bench` has started, with the id of its first process.
struct Postgres {
    url: String,
    process: u32,
}

impl Postgres {
    /// Empties the database, changes settings of the server, and moves it to the core of the load generator.
    fn prepare(bench: &Bench) -> Result<Self> {
        let url = std::env::var("FRONTDESK_TEST_POSTGRES_TLS").context("no PostgreSQL: run scripts/bench")?;
        let mut postgres = Self { url, process: 0 };
        postgres.query(&["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"])?;
        postgres.query(&[
            "ALTER SYSTEM SET max_wal_size = '4GB'",
            "ALTER SYSTEM SET track_wal_io_timing = on",
            RELOAD,
        ])?;
        let process = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)";
        postgres.process = postgres.query_number(process)? as u32;
        for process in process::process_tree(postgres.process) {
            pin(Pid::from_raw(process.cast_signed()), &bench.core_numbers(Cores::Generator))?;
        }
        Ok(postgres)
    }

    /// Runs statements, each in a transaction of its own. Returns their rows.
    fn query(&self, statements: &[&str]) -> Result<String> {
        let mut psql = Command::new("psql");
        psql.arg(&self.url).args(["-qAtX", "-v", "ON_ERROR_STOP=1"]);
        process::output(psql.args(statements.iter().flat_map(|statement| ["-c", statement])))
    }

    fn query_number(&self, sql: &str) -> Result<f64> {
        self.query(&[sql])?.trim().parse().with_context(|| format!("not a number: {sql}"))
    }
}

/// The results of a round. Costs are per submission. Times are in microseconds.
#[derive(Debug, Serialize)]
struct Round {
    sample: Sample,
    replica: f64,
    postgres: f64,
    redis: f64,
    batch_size: f64,
    /// Mean duration of a sync in PostgreSQL.
    sync: f64,
    /// Bytes of write-ahead log.
    wal: f64,
    /// Submissions per second, from the start of the round until all are delivered.
    delivery_rate: f64,
}

fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Spread {
    Spread::of(rounds.iter().map(figure))
}

impl Stack {
    /// Empties the database, and starts Redis without persistence and a replica with this channel.
    fn start(bench: &Bench, channel: Channel) -> Result<Self> {
        let postgres = Postgres::prepare(bench)?;
        let reserved = Reserved::new()?;
        let mut redis = peer::command("redis-server");
        redis.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        redis.arg(reserved.address.port().to_string()).arg("--dir").arg(reserved.folder.path());
        let redis = Peer::start(bench, "Redis", Cores::Generator, &mut redis, reserved)?;
        let site = copy_starter(bench, channel)?;
        let options = frontdesk_options(site.path())
            .set("STORE__URL", &postgres.url)
            .set("LIMITS__SHARED_URL", format!("redis://{}", redis.address));
        let replica = frontdesk::start(bench, options)?;
        Ok(Self { replica, redis, postgres, channel, number: 0, _site: site })
    }

    fn server_usage(&self) -> [Usage; 3] {
        let postgres = process::cpu_usage(self.postgres.process);
        [self.replica.usage(), postgres, self.redis.usage()]
    }

    /// Stored submissions, write transactions, bytes of WAL, syncs, and the duration of all syncs in
    /// milliseconds.
    fn counters(&self) -> Result<[f64; 5]> {
        let counters = self.postgres.query(&[
            "SELECT (SELECT count(*) FROM submission) + (SELECT count(*) FROM intake), \
             pg_snapshot_xmax(pg_current_snapshot()), pg_current_wal_lsn() - '0/0', wal_sync, wal_sync_time \
             FROM pg_stat_wal",
        ])?;
        let counters = counters.trim().split('|').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        counters.try_into().ok().context("PostgreSQL sent an unexpected row")
    }

    /// Runs a round with this number of visitors. With [`Channel::Maildir`], also waits for all deliveries.
    /// Fails if an acknowledged submission is missing.
    fn run_round(&mut self, bench: &Bench, connections: usize) -> Result<Round> {
        self.number += 1;
        let (began, usage, counters) = (Instant::now(), self.server_usage(), self.counters()?);
        let load = Load::new(bench, connections);
        let sample = send(&load, &self.replica, CONTACT, self.number)?;
        // PostgreSQL updates its counters once a second, and `send` has already paused for half a second.
        std::thread::sleep(Duration::from_millis(700));
        if self.channel == Channel::Maildir {
            self.wait_for_deliveries()?;
        }
        let (elapsed, usage_after, counters_after) = (began.elapsed(), self.server_usage(), self.counters()?);
        let [stored, commits, wal, syncs, sync_millis] =
            std::array::from_fn(|part| counters_after[part] - counters[part]);
        check_stored(&load, &self.replica, &sample, stored as u64)?;
        let [replica, postgres, redis] = std::array::from_fn(|part| {
            let spent = process::usage_between(&usage[part], &usage_after[part]);
            spent.iter().sum::<u64>() as f64 / 1e3 / stored
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

    /// Waits until no submission is in the intake and no delivery is due. Fails after three minutes.
    fn wait_for_deliveries(&self) -> Result<()> {
        let began = Instant::now();
        let pending =
            "SELECT (SELECT count(*) FROM intake) + count(*) FROM delivery WHERE due_at IS NOT NULL";
        while self.postgres.query_number(pending)? > 0.0 {
            let is_late = began.elapsed() > Duration::from_mins(3);
            ensure!(
                !is_late,
                "deliveries did not finish within three minutes: {}",
                self.replica.last_output()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_split_into_submission_and_batch() {
        let [each, batch] = split_cost(130.0, 40.0, 10.0);
        assert!((batch - 100.0).abs() < 1e-9 && (each - 30.0).abs() < 1e-9, "{each} {batch}");
        // Noise must not make a cost negative.
        assert!(split_cost(10.0, 20.0, 10.0)[1].abs() < 1e-9);
    }
}
