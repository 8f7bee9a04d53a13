//! How submissions reach the operator's team: channels, and what became of each attempt.
//!
//! A [`Channel`] is one way out (a mailbox, a webhook, a Maildir). It is handed a [`Notice`] and returns an
//! [`Outcome`](crate::submission::outcome::Outcome). It keeps nothing and decides nothing about when to try again.

pub mod channel;
pub mod chores;
pub mod digest;
pub mod dispatch;
pub mod mail;
pub mod maildir;
pub mod notice;
pub mod smtp;
pub mod webhook;
pub mod worker;

/// For each channel that has to stand what visitors may send.
#[cfg(test)]
#[path = "../tests/it/corpus.rs"]
mod corpus;

pub use channel::{Channel, Kind, Options};
pub use notice::Notice;
