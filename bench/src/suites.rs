//! The suites: what can be measured, one file each.

use anyhow::Result;
use serde::Serialize;

use crate::Bench;
use crate::compare::Rounds;
use crate::figures::{Bar, Curve, Table};

pub mod connections;
pub mod loading;
pub mod memory;
pub mod pages;
pub mod smoke;
pub mod submissions;
pub mod tls;

/// A suite.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// As it is called on the command line and in the report.
    pub name: &'static str,
    /// Its heading in the report.
    pub title: &'static str,
    /// Measures it.
    pub run: fn(&Bench) -> Result<Outcome>,
}

/// All of them, in the order of the report.
pub const ALL: &[Suite] = &[
    Suite { name: "pages", title: "Pages", run: pages::run },
    Suite { name: "connections", title: "Connections", run: connections::run },
    Suite { name: "tls", title: "HTTPS", run: tls::run },
    Suite { name: "memory", title: "Memory", run: memory::run },
    Suite { name: "submissions", title: "Submissions", run: submissions::run },
    Suite { name: "loading", title: "Loading a site", run: loading::run },
];

/// What a suite has measured.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How, as far as it is the suite's own: pairs of what and which.
    pub conditions: Vec<(String, String)>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Figures that depend on something.
    pub curves: Vec<Curve>,
    /// What was to be reached.
    pub bars: Vec<Bar>,
    /// What was measured while something else used the machine.
    pub disturbed: Vec<String>,
    /// Every single round, for `target/bench/`.
    pub raw: Vec<Raw>,
}

/// One round of one server.
#[derive(Debug, Serialize)]
pub struct Raw {
    /// What was measured.
    pub case: String,
    /// Whose round it was.
    pub server: String,
    /// What was seen.
    pub seen: serde_json::Value,
}

impl Outcome {
    /// Keeps rounds as they were.
    pub fn keep(&mut self, case: &str, server: &str, samples: &[impl Serialize]) -> Result<()> {
        for sample in samples {
            let seen = serde_json::to_value(sample)?;
            self.raw.push(Raw { case: case.into(), server: server.into(), seen });
        }
        Ok(())
    }

    /// Notes which of these servers, all of which had always something to do, did not have their core to themselves.
    pub fn look_for_disturbance(&mut self, case: &str, servers: &[Rounds]) {
        let disturbed: Vec<&str> =
            servers.iter().filter(|rounds| rounds.were_disturbed()).map(|rounds| &*rounds.label).collect();
        if disturbed.len() == servers.len() {
            self.disturbed.push(format!("{case} (all)"));
        } else if !disturbed.is_empty() {
            self.disturbed.push(format!("{case} ({})", disturbed.join(", ")));
        }
    }

    /// One more of the suite's own conditions.
    pub fn condition(&mut self, what: &str, which: impl Into<String>) {
        self.conditions.push((what.into(), which.into()));
    }
}
