//! Measures frontdesk and other servers, and writes the report.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]

mod content;
mod figures;
mod http;
mod load;
mod machine;
mod model;
mod peer;
mod process;
mod random;
mod report;
mod rounds;
mod settings;
mod submission;
mod suites;
mod svg;
mod versions;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::{Figures, Section};
use crate::machine::{Cores, Machine};
use crate::settings::{Bench, WARM_UP, report_progress};
use crate::suites::Suite;

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
    /// Runs these suites, or all, and stores their figures
    Measure {
        #[arg(value_parser = PossibleValuesParser::new(suites::ALL.iter().map(|suite| suite.name)))]
        suites: Vec<String>,
    },
    /// Measures one round of frontdesk and the yardstick
    Smoke,
    /// Writes docs/pages/performance.md and docs/pages/scale.md, or checks that they match the figures
    Report {
        #[arg(long)]
        check: bool,
    },
    /// Writes the tables of docs/pages/scale.md
    Model {
        /// Measures the costs first
        #[arg(long)]
        measure: bool,
    },
    /// Runs the yardstick for pages
    Yardstick { address: String, response: PathBuf },
    /// Runs the yardstick for submissions
    Log { address: String, response: PathBuf, log: PathBuf },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report_progress(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { mut bench, command }: Arguments) -> Result<()> {
    // The yardsticks inherit their core.
    if !matches!(command, Command::Yardstick { .. } | Command::Log { .. }) {
        bench.machine = Machine::of_this_process()?;
        machine::pin(&bench.machine.core_numbers(Cores::Generator))?;
    }
    // Each connection needs a descriptor here and one in the server, which inherits the limit.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match command {
        Command::Measure { suites } => measure_suites(&bench, &suites),
        Command::Smoke => suites::smoke::run(&bench),
        // The tables in `docs/pages/scale.md` depend on the report's figures, so update or check them too.
        Command::Report { check: false } => report::write(&bench).and_then(|()| model::write()),
        Command::Report { check: true } => report::check().and_then(|()| model::check()),
        Command::Model { measure: false } => model::write(),
        Command::Model { measure: true } => model::measure(&bench),
        Command::Yardstick { address, response } => peer::yardstick::serve(&address, &response),
        Command::Log { address, response, log } => peer::log::serve(&address, &response, &log),
    }
}

/// Runs the named suites, or all suites if `names` is empty.
fn measure_suites(bench: &Bench, names: &[String]) -> Result<()> {
    std::fs::create_dir_all(&bench.out)?;
    let is_wanted = |suite: &&Suite| names.is_empty() || names.iter().any(|name| name == suite.name);
    for suite in suites::ALL.iter().filter(is_wanted) {
        report_progress(&format!("suite {}", suite.name));
        let section = measure_suite(bench, suite).with_context(|| format!("suite {}", suite.name))?;
        std::io::stdout().write_all(report::summary(&section)?.as_bytes())?;
        let path = bench.out.join(format!("{}.json", suite.name));
        figures::write(&path, &Figures { sections: vec![section] })?;
    }
    Ok(())
}

/// Runs a suite, writes its raw results, and adds conditions, date and machine to its figures.
fn measure_suite(bench: &Bench, suite: &Suite) -> Result<Section> {
    let mut section = (suite.run)(bench)?;
    let raw = bench.out.join(format!("{}.raw.json", suite.name));
    std::fs::write(&raw, serde_json::to_string_pretty(&section.raw)?)?;
    let [length, warm_up] = [bench.length, WARM_UP].map(|duration| duration.as_secs_f64());
    let rounds = format!("{} of {length} s, after a warm-up of {warm_up} s", bench.rounds);
    section.conditions.insert(0, ("rounds".to_owned(), rounds));
    if !section.disturbed.is_empty() {
        let disturbed = section.disturbed.join("; ");
        report_progress(&format!("other programs disturbed these measurements: {disturbed}"));
        section.add_condition("disturbed by other programs", disturbed);
    }
    (section.suite, section.measured) = (suite.name.into(), figures::today());
    section.machine = versions::describe(bench);
    Ok(section)
}
