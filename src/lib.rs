//! frontdesk: a company's front desk on the web, in one binary.
//!
//! This package contains the command line. ARCHITECTURE.md shows how requests and
//! submissions flow through the crates in `crates/`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod cli;
