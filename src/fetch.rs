//! Outgoing HTTP requests with checked addresses, time limits and size limits.
//!
//! Each request has its own connection: resolve the name, check the addresses, connect to one of them, TLS,
//! request, response. The client resolves a name once, follows no redirects, and reads a limited part of the
//! response.

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
