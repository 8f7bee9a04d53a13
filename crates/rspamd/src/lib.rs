//! Asks rspamd for its opinion on submissions, over its HTTP interface.
//!
//! [`OpinionQueue`] is a bounded queue with a thread that sends the requests. Queuing never waits for rspamd:
//! if the queue is full, or while rspamd does not answer, submissions get no opinion.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod breaker;
mod client;
mod message;
mod options;
mod queue;
mod reply;

pub use client::ping;
pub use message::Content;
pub use options::{OptionsError, Password, RspamdOptions};
pub use queue::{OpinionCounts, OpinionQueue, OpinionRequest, Record};
pub use reply::Opinion;
