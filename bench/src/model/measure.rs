//! What the model is made of and compared with, measured on this machine: pages that come at random, and submissions through one desk with
//! PostgreSQL and Redis.
//!
//! The desk has one core; whoever asks, PostgreSQL and Redis share the other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::keep::{self, System};
use super::queue::{self, Stage};
use super::stored::{Bytes, Compared, Delivering, Keeping, Point, Stored};
use crate::Bench;
use crate::content::{LARGE, check_headers, write_site};
use crate::cores::Cores;
use crate::figures::Unit;
use crate::http::{self, Asker, get};
use crate::load::{self, Cycle, Expected, Load, Sample};
use crate::peer::postgres::Postgres;
use crate::peer::{Peer, folder, frontdesk, postgres, redis};
use crate::process::Usage;
use crate::rounds::Spread;
use crate::submission::{Visitors, one};
use crate::suites::submissions::{CONTACT, Channel, Site, is_right, open_to_all};

/// A rate at which a server has next to nothing to do, and at which the load generator does not sleep.
const QUIET: f64 = 5_000.0;
/// The shares of what a core can do at which pages are compared. Of plain requests the load generator cannot send many more.
const SHARES_PLAIN: [f64; 2] = [0.3, 0.5];
/// Likewise, by the general way.
const SHARES: [f64; 2] = [0.5, 0.8];
/// The rates at which submissions are compared.
const RATES: [f64; 2] = [200.0, 1_000.0];
/// So many connections, each of which has one request under way at most.
const CONNECTIONS: usize = 64;
/// What the model simulates for a comparison.
const SIMULATED: usize = 400_000;
/// How many submissions there are in an inbox that has grown.
const GROWN: f64 = 1e6;

/// Measures all of it.
pub fn run(bench: &Bench) -> Result<Stored> {
    std::fs::create_dir_all(&bench.out)?;
    let mut points = Vec::new();
    for (name, fast, shares) in [("fast lane", true, SHARES_PLAIN), ("general way", false, SHARES)] {
        pages(bench, name, fast, shares, &mut points)?;
    }
    let keeping = submissions(bench, &mut points)?;
    for point in &points {
        for figure in &point.figures {
            let (model, seen) =
                (figure.unit.write(figure.predicted), figure.unit.write_spread(&figure.measured));
            bench.say(&format!("{}: {}: {model}, measured {seen}", point.what, figure.what));
        }
    }
    let (bytes, delivering) = bytes(bench)?;
    Ok(Stored {
        measured: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: crate::machine::describe(bench)
            .into_iter()
            .filter(|(what, _)| {
                ["processor", "cores", "memory", "kernel", "system", "frontdesk"].contains(&what.as_str())
            })
            .collect(),
        rounds: bench.rounds,
        seconds: bench.length.as_secs_f64(),
        keeping,
        delivering,
        bytes,
        points,
    })
}

fn load(bench: &Bench, connections: usize) -> Load {
    Load {
        machine: bench.machine,
        cores: Cores::Generator,
        connections,
        warm_up: bench.warm_up,
        length: bench.length,
    }
}

/// Measures again, twice at most, where something else has taken the machine so that no load could be kept up.
fn steadily<T>(bench: &Bench, mut measure: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..2 {
        match measure() {
            Err(error) => bench.say(&format!("once more: {error:#}")),
            done => return done,
        }
    }
    measure()
}

/// What it takes where nothing else uses the machine: for what is waited for, of which a median has other people's work in it.
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).least
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).median
}

/// The page of 12 KB on one core, at shares of what the core can do.
fn pages(bench: &Bench, name: &str, fast: bool, shares: [f64; 2], points: &mut Vec<Point>) -> Result<()> {
    let site = folder()?;
    write_site(site.path())?;
    let options = frontdesk::Options::new("frontdesk", site.path())
        .set("FRONTDESK_SERVER__FAST_LANE", fast.to_string());
    let peer = frontdesk::start(bench, &options)?;
    let request = get(Asker::Browser, LARGE.path, "identity", None);
    let answer = http::ask(peer.address, &request)?;
    check_headers(&answer, true)?;
    let exchanges = [(request, Expected::like(&answer))];
    let load = load(bench, CONNECTIONS);
    let busy = || load::run(&load, peer.address, peer.process(), |_, count| Cycle::new(&exchanges, count));
    let at = |rate: f64, seed| {
        load::open::run(&load, rate, seed, peer.address, peer.process(), |_, count| {
            Cycle::new(&exchanges, count)
        })
    };
    let (mut saturated, mut quiet) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.say(&format!("{name}: calibration {}", round + 1));
        saturated.push(busy()?);
        quiet.push(steadily(bench, || at(QUIET, round as u64))?);
    }
    let cost = median(saturated.iter().map(Sample::cost)) / 1e6;
    let generator = median(saturated.iter().map(|sample| sample.generator / sample.rate()));
    let waking = (median(quiet.iter().map(Sample::cost)) / 1e6 - cost).max(0.0);
    let alone = cost + waking + generator;
    let delay = (least(quiet.iter().map(|sample| sample.p50)) / 1e6 - alone).max(0.0);
    let half_of_generator = Stage { service: generator / 2.0, waking: 0.0 };
    let stages = [half_of_generator, Stage { service: cost, waking }, half_of_generator];
    let mut seen = shares.map(|_| Vec::new());
    for round in 0..bench.rounds {
        for (share, seen) in shares.iter().zip(&mut seen) {
            bench.say(&format!("{name}: {:.0} %, round {}", share * 100.0, round + 1));
            seen.push(steadily(bench, || at(share / cost, 100 + round as u64))?);
        }
    }
    for (share, seen) in shares.iter().zip(&seen) {
        let rate = share / cost;
        let model = queue::simulate(&stages, rate, SIMULATED, 1);
        let response = |part| (model.percentile(part) + delay) * 1e6;
        let of = |value: fn(&Sample) -> f64| Spread::of(seen.iter().map(value));
        points.push(Point {
            what: format!("A page of 12 KB, {name}, {:.0} % of a core", share * 100.0),
            rate,
            figures: vec![
                Compared::new("of the core, busy", Unit::Share, model.utilisation[1], of(Sample::busy)),
                Compared::new("p50", Unit::Micros, response(0.5), of(|sample| sample.p50)),
                Compared::new("p90", Unit::Micros, response(0.9), of(|sample| sample.p90)),
                Compared::new("p99", Unit::Micros, response(0.99), of(|sample| sample.p99)),
            ],
        });
    }
    Ok(())
}

/// A desk with its PostgreSQL and its Redis.
struct Stack {
    // In the order in which they end.
    desk: Peer,
    postgres: Postgres,
    redis: Peer,
    expected: Expected,
    number: u64,
}

/// What one round has shown, for each submission: seconds of processor time, and how many a batch had.
struct Kept {
    sample: Sample,
    desk: f64,
    postgres: f64,
    redis: f64,
    batch: f64,
    /// A sync of PostgreSQL's, in seconds.
    sync: f64,
    /// Bytes of its log.
    wal: f64,
}

impl Stack {
    fn start(bench: &Bench, site: &Site, channel: Channel) -> Result<Self> {
        let postgres = postgres::start(bench, Cores::Generator)?;
        let redis = redis::start(bench, Cores::Generator)?;
        let options = open_to_all(frontdesk::Options::new("frontdesk", &site.of(channel)))
            .set("FRONTDESK_STORE__URL", postgres.url())
            .set("FRONTDESK_LIMITS__SHARED_URL", format!("redis://{}", redis.address));
        let desk = frontdesk::start(bench, &options)?;
        let answer = http::ask(desk.address, &one(CONTACT))?;
        ensure!(is_right(&answer), "a submission is answered with {}: {}", answer.status, desk.said());
        Ok(Self { desk, postgres, redis, expected: Expected::like(&answer), number: 0 })
    }

    fn usage(&self) -> [Usage; 3] {
        [&self.desk, &self.postgres.peer, &self.redis].map(Peer::usage)
    }

    fn kept(&self) -> Result<f64> {
        self.postgres.number("SELECT count(*) FROM accepted")
    }

    /// What PostgreSQL counts: transactions that have written, bytes of its log, syncs, and what they took in milliseconds.
    fn counted(&self) -> Result<[f64; 4]> {
        Ok([
            self.postgres.number("SELECT pg_snapshot_xmax(pg_current_snapshot())")?,
            self.postgres.number("SELECT pg_current_wal_lsn() - '0/0'")?,
            self.postgres.number("SELECT wal_sync FROM pg_stat_wal")?,
            self.postgres.number("SELECT wal_sync_time FROM pg_stat_wal")?,
        ])
    }

    /// A round, with as many connections, each always busy, or with submissions that come at random. What was acknowledged must be there.
    fn round(&mut self, bench: &Bench, connections: usize, rate: Option<f64>) -> Result<Kept> {
        self.number += 1;
        let acknowledged = AtomicU64::new(0);
        let load = load(bench, connections);
        let (address, process, number) = (self.desk.address, self.desk.process(), self.number);
        let script = |first, _| Visitors::new(CONTACT, &self.expected, &acknowledged, number, first);
        let (rows, before, counted) = (self.kept()?, self.usage(), self.counted()?);
        let sample = match rate {
            None => load::run(&load, address, process, script)?,
            Some(rate) => load::open::run(&load, rate, number, address, process, script)?,
        };
        // What was sent last, and what PostgreSQL counts, which it tells once a second.
        std::thread::sleep(Duration::from_millis(1_200));
        let (kept, after, now) = (self.kept()? - rows, self.usage(), self.counted()?);
        let told = acknowledged.load(Relaxed) as f64;
        ensure!(
            (told..=told + connections as f64).contains(&kept),
            "{told} submissions were acknowledged and {kept} kept"
        );
        let [desk, postgres, redis] = [0, 1, 2]
            .map(|part: usize| after[part].since(&before[part]).iter().sum::<u64>() as f64 / 1e9 / kept);
        let [commits, wal, syncs, took] = [0, 1, 2, 3].map(|part: usize| now[part] - counted[part]);
        Ok(Kept {
            sample,
            desk,
            postgres,
            redis,
            batch: kept / commits.max(1.0),
            sync: took / 1e3 / syncs.max(1.0),
            wal: wal / kept,
        })
    }
}

/// What a batch and what each of its submissions takes, from a round of single ones and one of large batches.
fn parts(single: f64, large: f64, size: f64) -> (f64, f64) {
    // single = batch + each; large = batch / size + each
    let batch = ((single - large) / (1.0 - 1.0 / size)).clamp(0.0, single);
    (batch, single - batch)
}

/// Submissions into PostgreSQL, with limits in Redis.
fn submissions(bench: &Bench, points: &mut Vec<Point>) -> Result<Keeping> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let (mut single, mut large) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        bench.say(&format!("submissions: calibration {}", round + 1));
        single.push(stack.round(bench, 1, None)?);
        large.push(stack.round(bench, CONNECTIONS, None)?);
    }
    let of = |rounds: &[Kept], value: fn(&Kept) -> f64| median(rounds.iter().map(value));
    let many = of(&large, |kept| kept.batch);
    ensure!(many > 1.5, "{CONNECTIONS} connections make batches of {many:.1}");
    let (desk_batch, desk) = parts(of(&single, |kept| kept.desk), of(&large, |kept| kept.desk), many);
    let (postgres_batch, postgres) =
        parts(of(&single, |kept| kept.postgres), of(&large, |kept| kept.postgres), many);
    let redis = of(&large, |kept| kept.redis);
    // What is left of the time that one takes alone is messages and wake-ups. Some of the processor time is spent beside, so that it may be nothing.
    let sync = least(single.iter().map(|kept| kept.sync));
    let known = desk_batch + desk + postgres_batch + postgres + redis + sync;
    let wait = (least(single.iter().map(|kept| kept.sample.p50)) / 1e6 - known).max(0.0);
    let costs = keep::Costs { desk, desk_batch, redis, postgres, postgres_batch, sync, wait };
    let system = System { desks: 1, desk_cores: 1, postgres_cores: 1, round_trip: 0.0, standby: 0.0, costs };
    for rate in RATES {
        let mut seen = Vec::new();
        for round in 0..bench.rounds {
            bench.say(&format!("submissions: {rate} a second, round {}", round + 1));
            seen.push(stack.round(bench, CONNECTIONS, Some(rate))?);
        }
        let model = keep::simulate(&system, rate, SIMULATED, 1);
        let of = |value: &dyn Fn(&Kept) -> f64| Spread::of(seen.iter().map(value));
        points.push(Point {
            what: format!("Submissions, {rate:.0} a second"),
            rate,
            figures: vec![
                Compared::new("submissions in a batch", Unit::Count, model.batch, of(&|kept| kept.batch)),
                Compared::new(
                    "of the desk's core, busy",
                    Unit::Share,
                    model.desk,
                    of(&|kept| kept.desk * rate),
                ),
                Compared::new(
                    "of PostgreSQL's core, busy",
                    Unit::Share,
                    model.postgres,
                    of(&|kept| kept.postgres * rate),
                ),
                Compared::new("p50", Unit::Micros, model.percentile(0.5) * 1e6, of(&|kept| kept.sample.p50)),
                Compared::new("p90", Unit::Micros, model.percentile(0.9) * 1e6, of(&|kept| kept.sample.p90)),
                Compared::new("p99", Unit::Micros, model.percentile(0.99) * 1e6, of(&|kept| kept.sample.p99)),
            ],
        });
    }
    let micros = |seconds: f64| seconds * 1e6;
    Ok(Keeping {
        most: Spread::of(large.iter().map(|kept| kept.sample.rate())),
        desk: micros(desk),
        desk_batch: micros(desk_batch),
        redis: micros(redis),
        postgres: micros(postgres),
        postgres_batch: micros(postgres_batch),
        sync: micros(sync),
        wait: micros(wait),
    })
}

/// What a submission comes to in PostgreSQL's log and on its disk, and what one takes that is delivered, too.
fn bytes(bench: &Bench) -> Result<(Bytes, Delivering)> {
    let site = Site::new(bench)?;
    let mut stack = Stack::start(bench, &site, Channel::Dead)?;
    let mut fresh = Vec::new();
    for _ in 0..bench.rounds {
        fresh.push(stack.round(bench, 16, None)?.wal);
    }
    bench.say("an inbox that has grown");
    grow(&stack.postgres)?;
    let table = |name: &str| stack.postgres.number(&format!("SELECT pg_total_relation_size('{name}')"));
    let rows = stack.kept()?;
    let [submission, delivery, attempt] =
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
    bench.say("delivered");
    let mut stack = Stack::start(bench, &site, Channel::Maildir)?;
    let (mut alone, mut many) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        alone.push(delivered(bench, &mut stack, 4, Some(200.0))?);
        // What is kept in a second takes half a minute to be delivered.
        if round < 2 {
            many.push(delivered(bench, &mut stack, CONNECTIONS, None)?);
        }
    }
    let of = |rounds: &[Delivered], value: fn(&Delivered) -> f64| median(rounds.iter().map(value));
    let delivering = Delivering {
        alone: of(&alone, |round| round.postgres),
        many: of(&many, |round| round.postgres),
        desk: of(&many, |round| round.desk),
        rate: Spread::of(many.iter().map(|round| round.rate)),
    };
    let bytes = Bytes {
        wal_fresh: median(fresh),
        wal_delivered: of(&alone, |round| round.wal),
        wal_cold: cold,
        wal_compressed: compressed,
        submission,
        delivery,
        attempt,
    };
    Ok((bytes, delivering))
}

/// What a round has shown in which everything was delivered, for each submission.
struct Delivered {
    /// Bytes of PostgreSQL's log.
    wal: f64,
    /// Microseconds of PostgreSQL's processors.
    postgres: f64,
    /// Microseconds of the desk's.
    desk: f64,
    /// So many were delivered a second.
    rate: f64,
}

/// A round, until everything is delivered.
fn delivered(bench: &Bench, stack: &mut Stack, connections: usize, rate: Option<f64>) -> Result<Delivered> {
    let (rows, before, counted) = (stack.kept()?, stack.usage(), stack.counted()?);
    let began = Instant::now();
    stack.round(bench, connections, rate)?;
    while stack.postgres.number("SELECT count(*) FROM delivery WHERE due_at IS NOT NULL")? > 0.0 {
        ensure!(
            began.elapsed() < Duration::from_mins(3),
            "not everything is delivered: {}",
            stack.desk.said()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let (kept, took, after) = (stack.kept()? - rows, began.elapsed(), stack.usage());
    let [desk, postgres] =
        [0, 1].map(|part: usize| after[part].since(&before[part]).iter().sum::<u64>() as f64 / 1e3 / kept);
    let wal = (stack.counted()?[1] - counted[1]) / kept;
    Ok(Delivered { wal, postgres, desk, rate: kept / took.as_secs_f64() })
}

/// Fills the inbox as time would: submissions of 60 days, each delivered at the first attempt.
fn grow(postgres: &Postgres) -> Result<()> {
    let message = "word ".repeat(100);
    postgres.run(&format!(
        "SET synchronous_commit = off;
         CREATE TEMP TABLE new AS
           SELECT i, (lpad(to_hex(1600000000000 + i), 12, '0') || '7' || substr(md5('a' || i), 1, 3) || '8' || substr(md5('b' || i), 1, 15))::uuid AS id
           FROM generate_series(1, {GROWN}) AS i;
         INSERT INTO submission (id, form, received_at, fields, source, sender, score, content)
           SELECT id, 'contact', 1600000000000 + i,
             json_build_object('name', 'Ada Lovelace', 'email', 'a' || i || '@example.com', 'message', '{message}' || i),
             decode(md5('c' || i), 'hex'), decode(md5('d' || i), 'hex'), 0,
             overlay(decode(md5('e' || i), 'hex') PLACING decode(lpad(to_hex((1600000000000 + i) / 86400000), 4, '0'), 'hex') FROM 1 FOR 2) FROM new;
         INSERT INTO delivery (submission, channel, state, attempts) SELECT id, 'team', 'delivered', 1 FROM new;
         INSERT INTO attempt (submission, channel, number, began_at, ended_at, delivered)
           SELECT id, 'team', 1, 1600000000000 + i, 1600000000001 + i, 1 FROM new;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_batch_takes_is_told_from_what_each_takes() {
        let (batch, each) = parts(130.0, 40.0, 10.0);
        assert!((batch - 100.0).abs() < 1e-9 && (each - 30.0).abs() < 1e-9, "{batch} {each}");
        // Noise makes neither of them negative.
        assert_eq!(parts(10.0, 20.0, 10.0), (0.0, 10.0));
    }
}
