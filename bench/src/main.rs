//! Measures frontdesk beside other servers and writes the report. `scripts/bench` builds and calls it, and has its help.

mod compare;
mod content;
mod cores;
mod figures;
mod http;
mod latency;
mod load;
mod machine;
mod model;
mod peer;
mod process;
mod report;
mod rounds;
mod submission;
mod suites;
mod svg;
mod tls;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cores::{Cores, Machine};
use crate::figures::{Figures, Section};
use crate::suites::Suite;

/// What every suite needs to know.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The server that is measured.
    pub frontdesk: PathBuf,
    /// One of its peers, which no package of the system has.
    pub static_web_server: PathBuf,
    /// Which core is whose.
    pub machine: Machine,
    /// How often each server is measured.
    pub rounds: usize,
    /// Before each round, uncounted.
    pub warm_up: Duration,
    /// How long a round is.
    pub length: Duration,
    /// Where peers are installed that no package of the system has.
    pub tools: PathBuf,
    /// Where every single round is kept.
    pub out: PathBuf,
    /// The project's folder.
    pub repository: PathBuf,
    /// Whether long runs may take long: what takes more than a few minutes is left out otherwise.
    pub long: bool,
}

impl Bench {
    /// Tells whoever waits what is going on.
    pub fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "bench: {what}");
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    /// These suites, all of them where none is named.
    Measure(Vec<String>),
    /// A short look whether it works.
    Smoke,
    /// Nothing: whether the arguments are right was asked.
    Known,
    /// Writes the report, or only compares it with its figures.
    Report { check: bool },
    /// Writes the tables of `docs/scale.md`, after a measurement or not.
    Model { measure: bool },
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, file] = arguments.as_slice()
        && command == "yardstick"
    {
        return peer::yardstick::serve(Path::new(file));
    }
    if let [command, growth, answer, log] = arguments.as_slice()
        && command == "log"
    {
        return peer::log::serve(growth, Path::new(answer), Path::new(log));
    }
    let machine = Machine::of_this_process()?;
    let (bench, task) = parse(&arguments, machine)?;
    raise_descriptor_limit();
    machine.keep_to(Cores::Generator)?;
    match task {
        Task::Known => Ok(()),
        Task::Smoke => suites::smoke::run(&bench),
        Task::Measure(names) => measure(&bench, &names),
        // What several machines do follows from what one does.
        Task::Report { check: false } => report::write(&bench).and_then(|()| model::write(&bench)),
        Task::Report { check: true } => report::check(&bench).and_then(|()| model::check(&bench)),
        Task::Model { measure: false } => model::write(&bench),
        Task::Model { measure: true } => model::measure(&bench),
    }
}

fn parse(arguments: &[String], machine: Machine) -> Result<(Bench, Task)> {
    let mut bench = Bench {
        frontdesk: "frontdesk".into(),
        static_web_server: "static-web-server".into(),
        machine,
        rounds: 5,
        warm_up: Duration::from_millis(300),
        length: Duration::from_secs(2),
        tools: "target/test-tools".into(),
        out: "target/bench".into(),
        repository: ".".into(),
        long: false,
    };
    let mut suites = Vec::new();
    let (mut smoke, mut known, mut report, mut check) = (false, false, false, false);
    let (mut model, mut measure) = (false, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--frontdesk" => bench.frontdesk = value()?.into(),
            "--static-web-server" => bench.static_web_server = value()?.into(),
            "--tools" => bench.tools = value()?.into(),
            "--out" => bench.out = value()?.into(),
            "--repository" => bench.repository = value()?.into(),
            "--rounds" => bench.rounds = value()?.parse().context("--rounds wants a number")?,
            "--seconds" => {
                bench.length = Duration::from_secs_f64(value()?.parse().context("--seconds wants a number")?);
            }
            "--long" => bench.long = true,
            "--smoke" => smoke = true,
            "--known" => known = true,
            "--check" => check = true,
            "--measure" => measure = true,
            "report" => report = true,
            "model" => model = true,
            name if suites::ALL.iter().any(|suite| suite.name == name) => suites.push(name.to_owned()),
            other => {
                let known: Vec<&str> = suites::ALL.iter().map(|suite| suite.name).collect();
                bail!("no suite or option is called '{other}'; suites are: {}", known.join(" "));
            }
        }
    }
    if bench.rounds == 0 || bench.length.is_zero() {
        bail!("there must be a round, and it must take some time");
    }
    if smoke {
        (bench.warm_up, bench.length) = (Duration::from_millis(50), Duration::from_millis(300));
        return Ok((bench, Task::Smoke));
    }
    if model {
        return Ok((bench, Task::Model { measure }));
    }
    let task = match (known, report) {
        (true, _) => Task::Known,
        (_, true) => Task::Report { check },
        _ => Task::Measure(suites),
    };
    Ok((bench, task))
}

/// As far as it goes: thousands of connections are two descriptors each, one here and one in a server, which inherits the limit.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Runs the suites of these names, all of them where none is named.
fn measure(bench: &Bench, names: &[String]) -> Result<()> {
    std::fs::create_dir_all(&bench.out)?;
    for suite in
        suites::ALL.iter().filter(|suite| names.is_empty() || names.iter().any(|name| name == suite.name))
    {
        bench.say(&format!("suite {}", suite.name));
        let section = measure_one(bench, suite).with_context(|| format!("suite {}", suite.name))?;
        let text = report::brief(&section)?;
        std::io::stdout().write_all(text.as_bytes())?;
        let path = bench.out.join(format!("{}.json", suite.name));
        std::fs::write(&path, Figures { sections: vec![section] }.to_json()?)?;
    }
    Ok(())
}

fn measure_one(bench: &Bench, suite: &Suite) -> Result<Section> {
    let outcome = (suite.run)(bench)?;
    let raw = bench.out.join(format!("{}.raw.json", suite.name));
    std::fs::write(&raw, serde_json::to_string_pretty(&outcome.raw)?)?;
    let mut conditions = vec![(
        "rounds".to_owned(),
        format!(
            "{} of {} s, after {} s that are not counted",
            bench.rounds,
            bench.length.as_secs_f64(),
            bench.warm_up.as_secs_f64()
        ),
    )];
    conditions.extend(outcome.conditions);
    if !outcome.disturbed.is_empty() {
        let disturbed = outcome.disturbed.join("; ");
        bench.say(&format!("something else has used the machine meanwhile: {disturbed}"));
        conditions.push(("disturbed by something else on the machine".to_owned(), disturbed));
    }
    Ok(Section {
        suite: suite.name.into(),
        measured: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: machine::describe(bench),
        conditions,
        tables: outcome.tables,
        curves: outcome.curves,
        bars: outcome.bars,
    })
}
