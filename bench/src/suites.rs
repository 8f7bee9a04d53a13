//! The measurement suites.

use anyhow::Result;

use crate::figures::Section;
use crate::settings::Bench;

pub mod connections;
pub mod kept;
pub mod loading;
pub mod memory;
pub mod pages;
pub mod scale;
pub mod smoke;
pub mod submissions;
pub mod sustained;
pub mod tls;

/// Measures a suite. `measure_suite` adds its name, date and machine.
pub type Run = fn(&Bench) -> Result<Section>;

/// All suites by name, in the order of the report.
pub const ALL: [(&str, Run); 9] = [
    ("pages", pages::run),
    ("connections", connections::run),
    ("tls", tls::run),
    ("memory", memory::run),
    ("submissions", submissions::run),
    ("sustained", sustained::run),
    ("kept", kept::run),
    ("loading", loading::run),
    ("scale", scale::run),
];
