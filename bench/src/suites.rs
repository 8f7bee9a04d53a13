//! The measurement suites.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::Bench;
use crate::figures::{Section, Target};
use crate::peer::frontdesk;
use crate::rounds::{self, Rounds};

pub mod connections;
pub mod loading;
pub mod memory;
pub mod pages;
pub mod smoke;
pub mod submissions;
pub mod tls;

type Run = fn(&Bench) -> Result<Section>;

#[derive(Debug, Clone, Copy)]
pub struct Suite {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub run: Run,
}

const fn suite(name: &'static str, title: &'static str, about: &'static str, run: Run) -> Suite {
    Suite { name, title, about, run }
}

/// All suites, in the order of the report.
pub const ALL: &[Suite] = &[
    suite("pages", "Pages", include_str!("report/pages.md"), pages::run),
    suite("connections", "Connections", include_str!("report/connections.md"), connections::run),
    suite("tls", "HTTPS", include_str!("report/tls.md"), tls::run),
    suite("memory", "Memory", include_str!("report/memory.md"), memory::run),
    suite("submissions", "Submissions", include_str!("report/submissions.md"), submissions::run),
    suite("loading", "Loading a site", include_str!("report/loading.md"), loading::run),
];

impl Section {
    /// Adds a server's rounds to the raw results, which go to a separate file.
    pub fn record(&mut self, case: &str, server: &str, samples: &[impl Serialize]) -> Result<()> {
        for sample in samples {
            self.raw.push(json!({ "case": case, "server": server, "result": serde_json::to_value(sample)? }));
        }
        Ok(())
    }

    /// Adds a table and the raw results. The ratios are relative to the server `reference`.
    pub fn add_table(
        &mut self,
        name: &str,
        title: &str,
        note: &str,
        servers: &[Rounds],
        reference: &str,
    ) -> Result<()> {
        self.tables.push(rounds::table(name, title, note, servers, reference));
        self.record_all(name, servers)
    }

    pub fn record_all(&mut self, case: &str, servers: &[Rounds]) -> Result<()> {
        servers.iter().try_for_each(|rounds| self.record(case, &rounds.label, &rounds.samples))
    }

    /// Records which of these servers, all under full load, were disturbed by other programs.
    pub fn record_disturbance(&mut self, case: &str, servers: &[Rounds]) {
        let disturbed = servers.iter().filter(|rounds| rounds.were_disturbed());
        let disturbed: Vec<&str> = disturbed.map(|rounds| &*rounds.label).collect();
        if disturbed.len() == servers.len() {
            self.disturbed.push(format!("{case} (all)"));
        } else if !disturbed.is_empty() {
            self.disturbed.push(format!("{case} ({})", disturbed.join(", ")));
        }
    }

    /// Adds a target: a minimum ratio of frontdesk to another server.
    pub fn compare(&mut self, title: &str, servers: &[Rounds], other: &str, target: f64) -> Result<()> {
        let (ratio, measure) =
            rounds::ratio(rounds::find(servers, frontdesk::NAME)?, rounds::find(servers, other)?);
        let name = format!("{title}: frontdesk / {other}, {measure}");
        self.targets.push(Target::at_least(name, target, ratio.median));
        Ok(())
    }

    pub fn add_condition(&mut self, name: &str, value: impl Into<String>) {
        self.conditions.push((name.into(), value.into()));
    }
}
