//! Measures frontdesk and other servers, and writes the report.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]

mod content;
mod figures;
mod http;
mod load;
mod peer;
mod process;
mod report;
mod rounds;
mod settings;
mod submission;
mod suites;
mod svg;
mod versions;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::{Figures, Section};
use crate::settings::{Bench, WARM_UP, report_progress};

/// Measures frontdesk and other servers, and writes the report. `scripts/bench` calls this program.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    bench: Bench,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs these suites, and stores their figures
    Measure {
        #[arg(required = true, value_parser = PossibleValuesParser::new(suites::ALL.map(|(name, _)| name)))]
        suites: Vec<String>,
    },
    /// Measures one round of frontdesk and the yardstick
    Smoke,
    /// Writes docs/pages/performance.md and docs/pages/scale.md, or checks that they match the figures
    Report {
        #[arg(long)]
        check: bool,
    },
    /// Runs the yardstick for pages
    Yardstick { address: String, response: PathBuf },
    /// Runs the yardstick for submissions
    Log { address: String, response: PathBuf, log: PathBuf },
}

fn main() -> Result<()> {
    let Arguments { mut bench, command } = Arguments::parse();
    // The yardsticks inherit their core.
    if !matches!(command, Command::Yardstick { .. } | Command::Log { .. }) {
        bench.choose_cores()?;
    }
    // Each connection needs a descriptor here and one in the server, which inherits the limit.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match command {
        Command::Measure { suites } => measure_suites(&bench, &suites),
        Command::Smoke => suites::smoke::run(&bench),
        Command::Report { check: false } => report::write(&bench),
        Command::Report { check: true } => report::check(),
        Command::Yardstick { address, response } => peer::yardstick::serve(&address, &response),
        Command::Log { address, response, log } => peer::log::serve(&address, &response, &log),
    }
}

/// Runs the named suites in the order of the report, prints their tables, and stores their figures in the
/// output folder.
fn measure_suites(bench: &Bench, names: &[String]) -> Result<()> {
    std::fs::create_dir_all(&bench.out)?;
    for (name, run) in suites::ALL.iter().filter(|(name, _)| names.iter().any(|wanted| wanted == name)) {
        report_progress(&format!("suite {name}"));
        let section = measure_suite(bench, name, *run).with_context(|| format!("suite {name}"))?;
        std::io::stdout().write_all(report::summary(&section)?.as_bytes())?;
        figures::write(&bench.out.join(format!("{name}.json")), &Figures { sections: vec![section] })?;
    }
    Ok(())
}

/// Runs a suite, writes its raw results, and adds conditions, date and machine to its figures.
fn measure_suite(bench: &Bench, name: &str, run: suites::Run) -> Result<Section> {
    let mut section = run(bench)?;
    let raw = bench.out.join(format!("{name}.raw.json"));
    std::fs::write(&raw, serde_json::to_string_pretty(&section.raw)?)?;
    let [length, warm_up] = [bench.length, WARM_UP].map(|duration| duration.as_secs_f64());
    let rounds = format!("{} of {length} s, after a warm-up of {warm_up} s", bench.rounds);
    section.conditions.insert(0, ("rounds".to_owned(), rounds));
    (section.suite, section.measured) = (name.into(), figures::today());
    section.machine = versions::describe(bench);
    Ok(section)
}
