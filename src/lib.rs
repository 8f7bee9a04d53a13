//! frontdesk: a company's front desk on the web, in one binary.
//!
//! ARCHITECTURE.md shows how requests and submissions flow through its modules.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod cli;
pub mod config;
pub mod web;

#[cfg(test)]
#[expect(dead_code, reason = "tests of webhooks use the rest")]
#[path = "../tests/it/support/http_peer.rs"]
mod http_peer;
