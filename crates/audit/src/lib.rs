//! Checks from outside whether a site is right for people, agents and caches.
//!
//! An audit has two phases. The survey sends requests, at most as many as the budget permits, and keeps each
//! exchange. The rules are pure functions of the survey: each has a file in `rules/`, which says what it
//! checks, why that matters and how to repair it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod audit;
mod baseline;
mod cache_status;
mod client;
mod client_profiles;
mod declared_markdown;
mod error;
mod exchange;
mod language;
mod link_header;
mod markdown;
mod openapi;
mod options;
mod page;
mod report;
mod robots;
mod rule;
mod rule_group;
mod rules;
mod survey;
mod target_url;
mod usage_preferences;
mod words;
mod xml;

pub use audit::audit;
pub use baseline::Baseline;
pub use error::AuditError;
pub use exchange::{Exchange, Representation, Request, Response};
pub use frontdesk_convert::Url;
pub use frontdesk_fetch::ExtraRoots;
pub use options::Options;
pub use report::{NotJudged, Report};
pub use rule::{Finding, Fix, Platform, Rule, Severity};
pub use rule_group::Group;
pub use rules::rules;
pub use target_url::{is_loopback, parse_target};
