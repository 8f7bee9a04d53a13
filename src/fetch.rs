//! Outgoing HTTP requests with checked addresses, time limits and size limits.
//!
//! Each request has its own connection. The client resolves the name, checks the addresses, connects to one
//! of them, sets up TLS, sends the request and reads the response. It resolves a name only once, follows no
//! redirects, and reads a limited part of the response.

pub mod address;
mod client;
pub mod url;

pub use client::{
    ExtraRoots, FetchClient, FetchError, FetchResponse, FetchTimeouts, NameResolver, tls_config,
};
pub use url::Url;

#[cfg(test)]
#[path = "../tests/it/support/http_peer.rs"]
pub(crate) mod http_peer;
#[cfg(test)]
#[path = "../tests/it/support/port.rs"]
pub(crate) mod port;
