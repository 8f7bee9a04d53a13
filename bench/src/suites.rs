//! The measurement suites.

use anyhow::Result;

use crate::figures::Section;
use crate::settings::Bench;

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
