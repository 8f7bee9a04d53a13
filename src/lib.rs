//! frontdesk: a company's front desk on the web, in one binary.
//!
//! ARCHITECTURE.md shows how requests and submissions flow through its modules.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod cli;
pub mod config;
