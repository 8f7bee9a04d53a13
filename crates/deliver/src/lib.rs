//! Delivers submissions to the operator's team through channels, and mails to visitors.
//!
//! A [`Channel`] (SMTP, a webhook or a Maildir) sends a [`Notification`] and returns an [`Outcome`]. A
//! channel stores nothing and does not decide when to retry.
//!
//! [`Outcome`]: frontdesk_inbox::submission::delivery_outcome::Outcome

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod canary;
pub mod channel;
pub mod circuit_breaker;
pub mod daily_user_reminder;
pub mod mail;
pub mod maildir;
pub mod maintenance;
pub mod notification;
pub mod order;
pub mod problem_digest;
pub mod smtp;
pub mod test_message;
mod uncertain_delivery;
pub mod user_mail;
pub mod visitor_mail;
mod wait_for_delivery;
pub mod webhook;
pub mod worker;

/// Injection payloads that every channel must deliver unchanged.
#[cfg(test)]
#[path = "../../../tests/it/corpus.rs"]
mod corpus;

#[cfg(test)]
#[path = "../../../tests/it/support/http_peer.rs"]
mod http_peer;
#[cfg(test)]
#[path = "../../../tests/it/support/port.rs"]
mod port;
#[cfg(test)]
#[path = "../../../tests/it/support/smtp_peer.rs"]
mod smtp_peer;

pub use channel::{Channel, ChannelOptions, TransportOptions};
pub use notification::Notification;
