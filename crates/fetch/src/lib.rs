//! Outgoing HTTP requests with checked addresses, time limits and size limits.
//!
//! Each request uses its own connection. The client resolves a name only once and follows no redirects.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod address_check;
mod client;
mod response;
pub mod url;
mod verifier;

pub use client::{
    CertificateFault, ExtraRoots, FetchClient, FetchError, FetchPhase, FetchTimeouts, NameResolver,
    addresses_to_try, tls_config, without_byte_order_marks,
};
pub use response::{FetchResponse, read_response};
pub use url::Url;
