//! Asking over HTTP: one request over one connection, to an address that was checked, each phase with a deadline.
//!
//! A request goes: resolve → check the addresses → connect to a checked one → TLS → request → answer. Nothing is resolved a
//! second time, no redirect is followed, and of the answer no more is read than is looked at.

pub mod address;
mod client;
pub mod url;

pub use client::{Answer, Client, Deadlines, Failed, Resolver, Roots};
pub use url::Url;

#[cfg(test)]
#[path = "../tests/it/support/http_peer.rs"]
pub(crate) mod http_peer;
#[cfg(test)]
#[path = "../tests/it/support/port.rs"]
pub(crate) mod port;
