//! Hostile traffic: crowds that hold connections or memory, clients with strange pacing, and HTTP/2 that
//! breaks the rules.

mod conformance;
mod cost;
mod crowds;
mod memory;
mod pacing;
