//! Measures frontdesk and other servers, and writes the report. `scripts/bench` runs this program and prints
//! the help.

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
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::{Figures, Section};
use crate::machine::{Cores, Machine};
use crate::settings::{Bench, report_progress};
use crate::suites::Suite;

fn main() -> ExitCode {
    match run_command() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_command() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["yardstick", address, file] => return peer::yardstick::serve(address, Path::new(file)),
        ["log", address, response, log] => {
            return peer::log::serve(address, Path::new(response), Path::new(log));
        }
        _ => {}
    }
    let mut bench = Bench {
        frontdesk: "frontdesk".into(),
        machine: Machine::of_this_process()?,
        rounds: 5,
        warm_up: Duration::from_millis(300),
        length: Duration::from_secs(2),
        tools: "target/test-tools".into(),
        out: "target/bench".into(),
        long: false,
    };
    let (commands, suites) = parse_arguments(&arguments, &mut bench)?;
    // Each connection needs a descriptor here and one in the server, which inherits the limit.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    machine::pin(&bench.machine.core_numbers(Cores::Generator))?;
    match commands[..] {
        [] => measure_suites(&bench, &suites),
        ["--smoke"] => {
            (bench.warm_up, bench.length) = (Duration::from_millis(50), Duration::from_millis(300));
            suites::smoke::run(&bench)
        }
        ["--check-arguments"] => Ok(()),
        // The tables in `docs/pages/scale.md` depend on the report's figures, so update or check them too.
        ["report"] => report::write(&bench).and_then(|()| model::write()),
        ["report", "--check"] => report::check().and_then(|()| model::check()),
        ["model"] => model::write(),
        ["model", "--measure"] => model::measure(&bench),
        _ => bail!("these commands cannot be combined: {}", commands.join(" ")),
    }
}

fn parse_arguments<'a>(arguments: &[&'a str], bench: &mut Bench) -> Result<(Vec<&'a str>, Vec<&'a str>)> {
    let (mut commands, mut suites) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter().copied();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument {
            "--frontdesk" => bench.frontdesk = value()?.into(),
            "--tools" => bench.tools = value()?.into(),
            "--out" => bench.out = value()?.into(),
            "--rounds" => bench.rounds = value()?.parse().context("--rounds needs a number")?,
            "--seconds" => {
                bench.length = Duration::from_secs_f64(value()?.parse().context("--seconds needs a number")?);
            }
            "--long" => bench.long = true,
            "--smoke" | "--check-arguments" | "--check" | "--measure" | "report" | "model" => {
                commands.push(argument);
            }
            name if suites::ALL.iter().any(|suite| suite.name == name) => suites.push(name),
            other => {
                let known: Vec<&str> = suites::ALL.iter().map(|suite| suite.name).collect();
                bail!("unknown suite or option '{other}'; the suites are: {}", known.join(" "));
            }
        }
    }
    if bench.rounds == 0 || bench.length.is_zero() {
        bail!("--rounds and --seconds must not be zero");
    }
    Ok((commands, suites))
}

/// Runs the named suites, or all suites if `names` is empty.
fn measure_suites(bench: &Bench, names: &[&str]) -> Result<()> {
    std::fs::create_dir_all(&bench.out)?;
    for suite in suites::ALL.iter().filter(|suite| names.is_empty() || names.contains(&suite.name)) {
        report_progress(&format!("suite {}", suite.name));
        let section = measure_suite(bench, suite).with_context(|| format!("suite {}", suite.name))?;
        let text = report::summary(&section)?;
        std::io::stdout().write_all(text.as_bytes())?;
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
    let [length, warm_up] = [bench.length, bench.warm_up].map(|duration| duration.as_secs_f64());
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
