//! Submissions stored a second, compared with a plain log and with other form backends.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Outcome;
use crate::Bench;
use crate::figures::{Column, Curve, Line, Row, Table, Target, Unit};
use crate::http::{self, Response};
use crate::load::{self, Expected, Sample};
use crate::machine::Cores;
use crate::peer::log::Growth;
use crate::peer::{Peer, forms, frontdesk, log, yardstick};
use crate::rounds::{self, Rounds, Spread, interleave};
use crate::submission::{Form, Visitors, fixed_request};

pub const CONTACT: Form = Form { path: "/api/contact", has_message: true };
/// The contact form in Directus.
const ITEMS: Form = Form { path: "/items/contact", has_message: true };
const WAITLIST: Form = Form { path: "/api/waitlist", has_message: false };

/// Concurrent visitors, and the target as a ratio to the yardstick.
const CONNECTIONS: [(usize, f64); 2] = [(64, 0.45), (256, 0.4)];
/// Duration of a constant load. The intake must not grow without limit.
const SUSTAINED: Duration = Duration::from_mins(1);
/// Sizes of the inbox. The last one is measured only in a long run.
const GROWTH: [u64; 5] = [0, 10_000, 100_000, 1_000_000, 10_000_000];

/// A quota that no source exceeds, so that limits are counted but refuse nothing.
const QUOTA: &str = "1000000";

const YARDSTICK: &str = "yardstick (log, append)";
const PREALLOCATED: &str = "yardstick (log, preallocated)";
const FRONTDESK: &str = "frontdesk";
const DELIVERING: &str = "frontdesk, delivering";
const DIRECTUS: &str = "Directus";

/// The channel of the measured site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A webhook that refuses connections, so that deliveries wait.
    Dead,
    Maildir,
}

impl Channel {
    const fn configuration(self) -> &'static str {
        match self {
            Self::Dead => "kind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\nallow_private = true\n",
            Self::Maildir => "kind = \"maildir\"\npath = \"mail\"\nto = [\"team@example.com\"]\n",
        }
    }
}

/// A server that is started in each round.
struct Server {
    name: &'static str,
    start: Start,
}

type Start = Box<dyn Fn(&Bench) -> Result<Running>>;

/// Counts the stored submissions of a server.
type Count = Box<dyn Fn(&Bench, &Peer) -> Result<u64>>;

/// A running server.
struct Running {
    peer: Peer,
    /// `None` for a log that wraps around.
    stored: Option<Count>,
    /// Removed with the server.
    _data: Option<TempDir>,
}

pub fn run(bench: &Bench) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let site = Site::new(bench)?;
    let like = {
        let running = start_frontdesk(bench, &site, FRONTDESK, Channel::Dead)?;
        let response = http::send(running.peer.address, &fixed_request(CONTACT))?;
        ensure!(
            response.status == 200 && response.body == b"{\"ok\":true}",
            "a submission gets {}",
            response.status
        );
        yardstick::bytes_like(&response)
    };
    outcome.condition("disk", "all servers store submissions on the same disk");
    for (connections, target) in CONNECTIONS {
        contact(bench, &site, &like, connections, target, &mut outcome)?;
    }
    alone(bench, &site, &mut outcome)?;
    waitlist(bench, &site, &mut outcome)?;
    if bench.long {
        sustained(bench, &site, &like, &mut outcome)?;
    }
    growth(bench, &site, &like, &mut outcome)?;
    Ok(outcome)
}

/// The contact form on all servers in turn.
fn contact(
    bench: &Bench,
    site: &Site,
    like: &[u8],
    connections: usize,
    target: f64,
    outcome: &mut Outcome,
) -> Result<()> {
    let log = |name: &'static str, growth: Growth| {
        let like = like.to_vec();
        Server { name, start: Box::new(move |bench| start_log(bench, name, growth, &like)) }
    };
    let ours = |name: &'static str, channel: Channel| {
        let site = site.clone();
        Server { name, start: Box::new(move |bench| start_frontdesk(bench, &site, name, channel)) }
    };
    let handler = |name: &'static str, start: fn(&Bench, TempDir) -> Result<Peer>| Server {
        name,
        start: Box::new(move |bench| start_handler(bench, start)),
    };
    let servers = [
        log(YARDSTICK, Growth::Appended),
        ours(FRONTDESK, Channel::Dead),
        log(PREALLOCATED, Growth::Preallocated),
        ours(DELIVERING, Channel::Maildir),
        handler("Node, own handler", forms::node),
        handler("PHP-FPM, own handler", forms::php),
        handler(DIRECTUS, forms::directus),
    ];
    // Directus needs half a minute to start, so it runs during all rounds.
    let directus = start_handler(bench, forms::directus)?;
    let (mut number, mut syncs) = (0, Vec::new());
    let samples = interleave(
        bench.rounds,
        &servers,
        |server| server.name.into(),
        |server| {
            number += 1;
            bench.log(&format!("{connections} connections, {}", server.name));
            if server.name == FRONTDESK {
                syncs.push(one_sync(bench)?);
            }
            if server.name == DIRECTUS {
                return measure(bench, &directus, ITEMS, connections, number);
            }
            measure(bench, &(server.start)(bench)?, CONTACT, connections, number)
        },
    )?;
    let rounds: Vec<Rounds> = servers
        .iter()
        .zip(samples)
        .map(|(server, samples)| Rounds { label: server.name.into(), samples })
        .collect();
    let case = format!("submissions-{connections}");
    for rounds in &rounds {
        outcome.record(&case, &rounds.label, &rounds.samples)?;
    }
    let of = |name: &str| rounds.iter().find(|rounds| rounds.label == name).context("it was measured");
    let (frontdesk, yardstick, directus) = (of(FRONTDESK)?, of(YARDSTICK)?, of(DIRECTUS)?);
    let ratio = |other: &Rounds| Spread::of_ratios(&frontdesk.rates(), &other.rates()).median;
    outcome.targets.push(Target::at_least(
        format!("submissions/s, {connections} connections: frontdesk / yardstick"),
        target,
        ratio(yardstick),
        Unit::Ratio,
    ));
    outcome.targets.push(Target::at_least(
        format!("submissions/s, {connections} connections: frontdesk / Directus"),
        20.0,
        ratio(directus),
        Unit::Ratio,
    ));
    // A batch contains the submissions of all connections.
    let sync = Spread::of(syncs);
    let batch = frontdesk.spread(Sample::cost).median * connections as f64;
    outcome.targets.push(Target::at_most(
        format!(
            "p99, {connections} connections: five syncs of {} and a batch",
            Unit::Micros.format(sync.median)
        ),
        5.0 * sync.median + batch,
        frontdesk.spread(|sample| sample.p99).median,
        Unit::Micros,
    ));
    outcome.condition(
        &format!("one sync, {connections} connections"),
        format!("{} for overwriting 64 KiB", Unit::Micros.format_spread(&sync)),
    );
    let title = format!("Contact form, {connections} concurrent visitors");
    outcome.tables.push(rounds::table(&case, &title, "", &rounds, YARDSTICK));
    Ok(())
}

/// Measures one visitor who sends one submission after another.
fn alone(bench: &Bench, site: &Site, outcome: &mut Outcome) -> Result<()> {
    let mut all = Vec::new();
    for form in [CONTACT, WAITLIST] {
        let (mut samples, mut syncs) = (Vec::new(), Vec::new());
        for round in 0..bench.rounds {
            syncs.push(one_sync(bench)?);
            let running = start_frontdesk(bench, site, FRONTDESK, Channel::Dead)?;
            samples.push(measure(bench, &running, form, 1, 1 + round as u64)?);
        }
        let rounds = Rounds { label: format!("frontdesk, {}", form.path), samples };
        let sync = Spread::of(syncs).median;
        outcome.targets.push(Target::at_most(
            format!(
                "one visitor alone, {}: two syncs of {} and 200 µs",
                form.path,
                Unit::Micros.format(sync)
            ),
            2.0 * sync + 200.0,
            rounds.spread(|sample| sample.p50).median,
            Unit::Micros,
        ));
        outcome.record("alone", &rounds.label, &rounds.samples)?;
        all.push(rounds);
    }
    outcome.tables.push(rounds::table("submissions-alone", "One visitor alone", "", &all, ""));
    Ok(())
}

/// Measures a minute in which submissions are accepted and processed, with the server on one core and on two.
fn sustained(bench: &Bench, site: &Site, like: &[u8], outcome: &mut Outcome) -> Result<()> {
    const CONNECTIONS: usize = 64;
    let bench = &Bench { length: SUSTAINED, ..bench.clone() };
    let log = start_log(bench, YARDSTICK, Growth::Appended, like)?;
    let yardstick = measure(bench, &log, CONTACT, CONNECTIONS, 1)?;
    drop(log);
    let mut rows = Vec::new();
    for (cores, name, target) in
        [(Cores::Servers, "processed on the same core", 0.3), (Cores::Both, "on both cores", 0.45)]
    {
        bench.log(&format!("a minute, {name}"));
        let folder = tempfile::tempdir_in(&bench.out)?;
        let data = folder.path().join("data");
        let path = site.of(Channel::Dead);
        // One worker thread in both cases: the second core is for the writer.
        let mut options = with_open_limits(frontdesk::Options::new(FRONTDESK, &path).on(cores))
            .set("FRONTDESK_SERVER__WORKERS", "1");
        options.data = Some(data.clone());
        let running = Running { peer: frontdesk::start(bench, &options)?, stored: None, _data: None };
        let sample = measure(bench, &running, CONTACT, CONNECTIONS, 1)?;
        let pending = forms::sqlite(&data.join("inbox.sqlite"), "SELECT count(*) FROM intake")?;
        let pending: f64 = pending.trim().parse().context("a count")?;
        drop(running);
        outcome.targets.push(Target::at_least(
            format!("a minute, {name}, {CONNECTIONS} connections: frontdesk / yardstick"),
            target,
            sample.rate() / yardstick.rate(),
            Unit::Ratio,
        ));
        outcome.record("sustained", name, std::slice::from_ref(&sample))?;
        let figures = [sample.rate(), sample.p99, pending].map(Spread::exactly);
        rows.push(Row::new(name.to_owned(), figures));
    }
    outcome.tables.push(Table {
        name: "submissions-sustained".into(),
        title: "Contact form for a minute".into(),
        note: "64 concurrent visitors. The intake is counted half a second after the last submission.".into(),
        columns: vec![
            Column::new("submissions/s", Unit::Count),
            Column::new("p99", Unit::Micros),
            Column::new("rows in the intake", Unit::Count),
        ],
        rows,
        plotted: None,
    });
    Ok(())
}

fn waitlist(bench: &Bench, site: &Site, outcome: &mut Outcome) -> Result<()> {
    let mut all = Vec::new();
    for (number, connections) in [16, 64, 256].into_iter().enumerate() {
        let mut samples = Vec::new();
        for round in 0..bench.rounds {
            let running = start_frontdesk(bench, site, FRONTDESK, Channel::Dead)?;
            let number = 1 + (number * bench.rounds + round) as u64;
            samples.push(measure(bench, &running, WAITLIST, connections, number)?);
        }
        all.push(Rounds { label: format!("frontdesk, {connections} visitors"), samples });
    }
    for rounds in &all {
        outcome.record("waitlist", &rounds.label, &rounds.samples)?;
    }
    outcome.tables.push(rounds::table("submissions-waitlist", "Waitlist", "", &all, ""));
    Ok(())
}

/// The contact form by size of the inbox.
fn growth(bench: &Bench, site: &Site, like: &[u8], outcome: &mut Outcome) -> Result<()> {
    const CONNECTIONS: usize = 64;
    let folder = tempfile::tempdir_in(&bench.out)?;
    let data = folder.path().join("data");
    let (mut rates, mut delays, mut log, mut costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    let points = if bench.long { GROWTH.len() } else { GROWTH.len() - 1 };
    let mut rows = 0;
    for wanted in &GROWTH[..points] {
        bench.log(&format!("an inbox of {wanted} submissions"));
        if *wanted > 0 {
            fill(&data, rows, *wanted)?;
        }
        rows = *wanted;
        let (mut ours, mut yardstick) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            number += 1;
            let running = start_frontdesk_in(bench, site, FRONTDESK, Channel::Dead, data.clone(), None)?;
            ours.push(measure(bench, &running, CONTACT, CONNECTIONS, number)?);
            drop(running);
            let running = start_log(bench, YARDSTICK, Growth::Appended, like)?;
            yardstick.push(measure(bench, &running, CONTACT, CONNECTIONS, number)?);
        }
        outcome.record(&format!("growth-{wanted}"), FRONTDESK, &ours)?;
        outcome.record(&format!("growth-{wanted}"), YARDSTICK, &yardstick)?;
        // A logarithmic axis has no zero.
        let at = (*wanted).max(1000) as f64;
        rates.push((at, Spread::of(ours.iter().map(Sample::rate))));
        delays.push((at, Spread::of(ours.iter().map(|sample| sample.p99))));
        costs.push(Spread::of(ours.iter().map(Sample::cost)).median);
        log.push((at, Spread::of(yardstick.iter().map(Sample::rate))));
    }
    outcome.targets.push(Target::at_most(
        format!("CPU time of a submission: inbox of {} / empty inbox", Unit::Count.format(rows as f64)),
        1.3,
        costs[points - 1] / costs[0],
        Unit::Ratio,
    ));
    let rows = GROWTH[..points].iter().zip(rates.iter().zip(delays.iter().zip(&log)));
    outcome.tables.push(Table {
        name: "submissions-growth".into(),
        title: "Contact form, by size of the inbox".into(),
        note: "64 concurrent visitors. All submissions in the inbox are delivered.".into(),
        columns: vec![
            Column::new("submissions/s", Unit::Count),
            Column::new("p99", Unit::Micros),
            Column::new("yardstick", Unit::Count),
        ],
        rows: rows
            .map(|(rows, ((_, rate), ((_, delay), (_, log))))| {
                Row::new(Unit::Count.format(*rows as f64), [*rate, *delay, *log])
            })
            .collect(),
        plotted: None,
    });
    outcome.curves.push(Curve {
        name: "submissions-growth-rate".into(),
        title: "Submissions a second, by size of the inbox (1,000: empty)".into(),
        x: "submissions in the inbox".into(),
        y: Column::new("submissions/s", Unit::Count),
        log_y: true,
        lines: vec![
            Line { label: FRONTDESK.into(), points: rates },
            Line { label: "yardstick".into(), points: log },
        ],
    });
    outcome.curves.push(Curve {
        name: "submissions-growth-p99".into(),
        title: "p99, by size of the inbox (1,000: empty)".into(),
        x: "submissions in the inbox".into(),
        y: Column::new("p99", Unit::Micros),
        log_y: true,
        lines: vec![Line { label: FRONTDESK.into(), points: delays }],
    });
    Ok(())
}

/// One round. Fails if an acknowledged submission is missing.
fn measure(bench: &Bench, running: &Running, form: Form, connections: usize, number: u64) -> Result<Sample> {
    let Running { peer, stored, .. } = running;
    let count = || stored.as_ref().map(|stored| stored(bench, peer)).transpose();
    let before = count()?;
    let response = http::send(peer.address, &fixed_request(form))?;
    ensure!(is_accepted(&response), "a submission gets {} from {}", response.status, peer.name);
    let (expected, acknowledged) = (Expected::like(&response), AtomicU64::new(0));
    let sample = load::run(&bench.load(connections), peer.address, peer.process(), |first, _| {
        Visitors::new(form, &expected, &acknowledged, number, first)
    })?;
    // The last submissions are still being stored.
    std::thread::sleep(Duration::from_millis(500));
    if let (Some(before), Some(after)) = (before, count()?) {
        let (acknowledged, stored) = (acknowledged.load(Relaxed), after - before);
        let most = acknowledged + connections as u64 + 1;
        ensure!(
            (acknowledged..=most).contains(&stored),
            "{} acknowledged {acknowledged} submissions and stored {stored}",
            peer.name
        );
    }
    Ok(sample)
}

/// Directus sends 204, all others 200 with the same body.
pub fn is_accepted(response: &Response) -> bool {
    response.status == 204 || (response.status == 200 && response.body == b"{\"ok\":true}")
}

/// Microseconds to overwrite and sync 64 KiB: the median of 50.
fn one_sync(bench: &Bench) -> Result<f64> {
    const LENGTH: usize = 64 * 1024;
    const PLACES: u64 = 64;
    let path = bench.out.join("sync.tmp");
    let file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
    let bytes = vec![1; LENGTH];
    for place in 0..PLACES {
        file.write_all_at(&bytes, place * LENGTH as u64)?;
    }
    file.sync_all()?;
    let mut took = Vec::new();
    for number in 0..50 {
        file.write_all_at(&bytes, (number % PLACES) * LENGTH as u64)?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&path)?;
    Ok(Spread::of(took).median)
}

/// Copies of the starter site, one for each channel.
#[derive(Debug, Clone)]
pub struct Site {
    folder: std::rc::Rc<TempDir>,
}

impl Site {
    pub fn new(bench: &Bench) -> Result<Self> {
        let folder = tempfile::tempdir_in(&bench.out)?;
        let site = Self { folder: folder.into() };
        for channel in [Channel::Dead, Channel::Maildir] {
            let path = site.of(channel);
            let copied =
                Command::new("cp").arg("-r").arg(bench.repository.join("starter")).arg(&path).status()?;
            ensure!(copied.success(), "the starter site cannot be copied");
            let file = path.join("frontdesk.toml");
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(
                &file,
                format!("{text}\n[[channel]]\nname = \"team\"\n{}", channel.configuration()),
            )?;
        }
        Ok(site)
    }

    /// The folder of the site with this channel.
    pub fn of(&self, channel: Channel) -> PathBuf {
        self.folder.path().join(if channel == Channel::Dead { "dead" } else { "maildir" })
    }
}

fn start_frontdesk(bench: &Bench, site: &Site, name: &'static str, channel: Channel) -> Result<Running> {
    let folder = tempfile::tempdir_in(&bench.out)?;
    let data = folder.path().join("data");
    start_frontdesk_in(bench, site, name, channel, data, Some(folder))
}

fn start_frontdesk_in(
    bench: &Bench,
    site: &Site,
    name: &'static str,
    channel: Channel,
    data: PathBuf,
    folder: Option<TempDir>,
) -> Result<Running> {
    let site = site.of(channel);
    let mut options = with_open_limits(frontdesk::Options::new(name, &site));
    options.data = Some(data.clone());
    let peer = frontdesk::start(bench, &options)?;
    let stored = move |bench: &Bench, _: &Peer| stored_by_frontdesk(bench, &site, &data);
    Ok(Running { peer, stored: Some(Box::new(stored)), _data: folder })
}

/// Adds limits that refuse nothing, and trusts the source addresses in the requests.
pub fn with_open_limits(options: frontdesk::Options) -> frontdesk::Options {
    let mut options = options.set("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8");
    for window in [
        "PER_MINUTE",
        "PER_HOUR",
        "NETWORK_PER_MINUTE",
        "NETWORK_PER_HOUR",
        "FORM_PER_MINUTE",
        "FORM_PER_HOUR",
    ] {
        options = options.set(&format!("FRONTDESK_LIMITS__{window}"), QUOTA);
    }
    options
}

/// The count from `frontdesk inbox stats`.
fn stored_by_frontdesk(bench: &Bench, site: &Path, data: &Path) -> Result<u64> {
    let mut command = Command::new(&bench.frontdesk);
    command.args(["inbox", "stats", "--json", "--site"]).arg(site).arg("--data-dir").arg(data);
    let output = command.output().context("frontdesk inbox cannot be run")?;
    ensure!(output.status.success(), "frontdesk inbox: {}", String::from_utf8_lossy(&output.stderr));
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let by_status = stats["by_status"].as_object().context("no by_status in the statistics")?;
    Ok(by_status.values().filter_map(serde_json::Value::as_u64).sum())
}

fn start_log(bench: &Bench, name: &'static str, growth: Growth, like: &[u8]) -> Result<Running> {
    let peer = log::start(bench, name, growth, like, tempfile::tempdir_in(&bench.out)?)?;
    let stored: Count = Box::new(|_, peer| log::stored(peer.folder()));
    Ok(Running { peer, stored: (growth == Growth::Appended).then_some(stored), _data: None })
}

fn start_handler(bench: &Bench, start: fn(&Bench, TempDir) -> Result<Peer>) -> Result<Running> {
    let peer = start(bench, tempfile::tempdir_in(std::fs::canonicalize(&bench.out)?)?)?;
    Ok(Running { peer, stored: Some(Box::new(|_, peer| forms::stored(peer.folder()))), _data: None })
}

/// Fills a closed inbox from `from` to `to` submissions.
fn fill(data: &Path, from: u64, to: u64) -> Result<()> {
    let message = "word ".repeat(100);
    let now = jiff::Timestamp::now().as_millisecond();
    let first = now - 60 * 24 * 3_600_000;
    // A content hash begins with the day.
    let day = |at: i64| at.div_euclid(24 * 3_600_000);
    let days: Vec<String> = (day(first)..=day(now) + 1).map(|day| format!("({day}, x'{day:04x}')")).collect();
    let days = days.join(", ");
    let statements = format!(
        "PRAGMA synchronous = off; PRAGMA foreign_keys = off; PRAGMA cache_size = -262144; BEGIN;
         CREATE TEMP TABLE days (day INTEGER PRIMARY KEY, prefix BLOB);
         INSERT INTO days VALUES {days};
         CREATE TEMP TABLE new AS
           WITH RECURSIVE n (i) AS (SELECT {from} + 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to})
           SELECT i, CAST(char(1) || printf('%015d', i) AS BLOB) AS id FROM n;
         INSERT INTO submission (id, form, received_at, fields, source, sender, score, content)
           SELECT id, 'contact', {first} + i,
             '{{\"name\":\"Ada\",\"email\":\"a' || i || '@example.com\",\"message\":\"{message}' || i || '\"}}',
             randomblob(16), randomblob(16), 0,
             CAST((SELECT prefix FROM days WHERE day = ({first} + i) / 86400000) || randomblob(14) AS BLOB)
             FROM new;
         INSERT INTO delivery (submission, channel, state, attempts)
           SELECT id, 'team', 'delivered', 1 FROM new;
         COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"
    );
    forms::sqlite(&data.join("inbox.sqlite"), &statements).map(drop)
}
