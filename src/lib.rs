//! frontdesk: a company's front desk on the web, in one binary.
//!
//! ARCHITECTURE.md shows how requests and submissions flow through its modules.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod allocator;
pub mod cli;
pub mod config;
pub mod deliver;
pub mod fault;
pub mod fetch;
pub mod forms;
pub mod inbox;
pub mod intake;
pub mod limits;
pub mod pages;
pub mod panics;
pub mod resources;
pub mod screening;
pub mod store;
pub mod submission;
pub mod web;
