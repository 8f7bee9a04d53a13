//! Audits of small sites on loopback addresses: a site without faults, and sites with one planted fault each.

#![allow(clippy::disallowed_methods, reason = "tests read clocks and wait")]

mod basics;
mod caches;
mod content;
mod engine;
mod files;
mod forms;
mod links;
mod negotiation;
mod parity;
mod site;
