//! Submissions for a minute, with their processing on the same core and on both cores, and while a backlog is
//! being processed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::submissions::{CONTACT, Channel, check_stored, copy_starter, frontdesk_options, send};
use crate::figures::{Row, Section, Spread, Table, Target, Unit};
use crate::http;
use crate::load::{Load, Sample};
use crate::peer::log::Growth;
use crate::peer::{forms, frontdesk, log};
use crate::settings::{Bench, Cores, report_progress};
use crate::submission::fixed_request;

const VISITORS: usize = 64;
/// The length of the measurement with processing, in rounds: a minute, unless rounds have another length.
const ROUNDS: u32 = 30;
/// The number of accepted and unprocessed submissions at the start of the measurement with a backlog.
const BACKLOG: u64 = 300_000;
/// The length of the measurement with a backlog, in rounds. The backlog must last for longer.
const BACKLOG_ROUNDS: u32 = 8;

pub fn run(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let site = copy_starter(bench, Channel::Dead)?;
    let like = {
        let peer = frontdesk::start(bench, frontdesk_options(site.path()))?;
        http::send(peer.address, &fixed_request(CONTACT))?
    };
    report_progress("a minute, yardstick");
    let folder = tempfile::tempdir_in(std::fs::canonicalize(&bench.out)?)?;
    let minute = Load { length: bench.length * ROUNDS, ..Load::new(bench, VISITORS) };
    let peer = log::start(bench, "yardstick", Growth::Appended, &like, folder)?;
    let yardstick = send(&minute, &peer, CONTACT, 0)?;
    drop(peer);
    let options = frontdesk_options(site.path());
    let sustained = measure(bench, &options, &minute, 0)?;
    // One worker still accepts all submissions; processing may use the core of the load generator.
    let both = frontdesk::Options { cores: Cores::Both, ..options.clone() }.set("SERVER__WORKERS", "1");
    let beside = measure(bench, &both, &minute, 0)?;
    let drained =
        measure(bench, &options, &Load { length: bench.length * BACKLOG_ROUNDS, ..minute }, BACKLOG)?;
    section.targets.extend([
        Target::at_least(
            "submissions/s for a minute, 64 connections: frontdesk / yardstick",
            0.3,
            sustained.sample.rate() / yardstick.rate(),
        ),
        Target::at_least(
            "submissions/s for a minute, processing on both cores: frontdesk / yardstick",
            0.45,
            beside.sample.rate() / yardstick.rate(),
        ),
        Target::at_most(
            "submissions not processed after a minute, in seconds of arrival",
            1.0,
            sustained.left as f64 / sustained.sample.rate(),
            Unit::Count,
        ),
        Target::at_most("p99 while a backlog is processed", 10_000.0, drained.sample.p99, Unit::Micros),
        Target::at_least(
            "submissions/s while a backlog is processed: frontdesk / yardstick",
            0.3,
            drained.sample.rate() / yardstick.rate(),
        ),
    ]);
    let row = |label: &str, measured: &Sustained| {
        let Sustained { sample, processed, left } = measured;
        let rate = *processed as f64 / sample.seconds;
        let cells = [sample.rate(), sample.cost(), sample.p50, sample.p99, rate, *left as f64];
        Row::new(label, cells.map(Spread::exactly))
    };
    let raw = Sustained { sample: yardstick, processed: 0, left: 0 };
    let rows = [
        row("yardstick (log, append), a minute", &raw),
        row("frontdesk, a minute", &sustained),
        row("frontdesk, on both cores", &beside),
        row("frontdesk, with a backlog", &drained),
    ];
    let columns = [
        ("requests/s", Unit::Count),
        ("CPU time per request", Unit::Micros),
        ("p50", Unit::Micros),
        ("p99", Unit::Micros),
        ("processed/s", Unit::Count),
        ("unprocessed at the end", Unit::Count),
    ];
    let note = "64 concurrent visitors. Processing screens each submission and queues its delivery. \
                The backlog has 300,000 submissions at the start.";
    let title = "Contact form, for a minute";
    section.tables.push(Table::new("submissions-sustained", title, note, columns, rows));
    Ok(section)
}

struct Sustained {
    sample: Sample,
    /// How many submissions were processed.
    processed: u64,
    /// How many submissions were not processed at the end.
    left: u64,
}

/// Measures frontdesk, with `backlog` unprocessed submissions at the start.
fn measure(bench: &Bench, options: &frontdesk::Options<'_>, load: &Load, backlog: u64) -> Result<Sustained> {
    let folder = tempfile::tempdir_in(std::fs::canonicalize(&bench.out)?)?;
    let options = frontdesk::Options { data: Some(folder.path().to_owned()), ..options.clone() };
    let database = folder.path().join("inbox.sqlite");
    let start = || {
        let own = tempfile::tempdir_in(std::fs::canonicalize(&bench.out)?)?;
        frontdesk::start_in(bench, options.clone(), own)
    };
    if backlog > 0 {
        report_progress("a backlog");
        // Killed under load, so that some rows of the intake are left to multiply.
        let peer = start()?;
        send(&Load { length: Duration::from_millis(500), ..load.clone() }, &peer, CONTACT, 1)?;
        drop(peer);
        forms::sqlite(&database, &include_str!("sustained.sql").replace("{backlog}", &backlog.to_string()))?;
    }
    let peer = start()?;
    let before = count(&database, "submission")?;
    report_progress(&format!("{} s, frontdesk, backlog {backlog}", load.length.as_secs()));
    let sample = send(load, &peer, CONTACT, 2)?;
    let (left, after) = (count(&database, "intake")?, count(&database, "submission")?);
    if backlog == 0 {
        // Both tables in one statement, because processing goes on.
        check_stored(load, &peer, &sample, count(&database, "accepted")? - before)?;
    }
    Ok(Sustained { sample, processed: after - before, left })
}

fn count(database: &Path, table: &str) -> Result<u64> {
    let count = forms::sqlite(database, &format!("SELECT count(*) FROM {table}"))?;
    count.trim().parse().context("invalid count")
}
