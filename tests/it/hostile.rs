//! Hostile traffic: crowds that hold connections, clients with strange pacing, and HTTP/2 that breaks the rules.

mod conformance;
mod cost;
mod crowds;
mod pacing;
