//! Names of the request headers that frontdesk trusts if they come from a trusted proxy. A proxy must overwrite or remove each of them,
//! because a client can send them as well.
//!
//! The code that reads such a header takes its name from here. Tests compare the packaged, documented and exported configurations of
//! proxies with [`TRUSTED_HEADERS`].

/// The client's address, and those of the proxies before the last one.
pub const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The same as [`X_FORWARDED_FOR`], in the syntax of RFC 7239.
pub const FORWARDED: &str = "forwarded";

/// Whether the client's request came over TLS: `https` or `http`.
pub const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// Correlates a request with its log entries on the proxy and the server. An answer 500 has it as well.
pub const X_REQUEST_ID: &str = "x-request-id";

/// All of them, in lower case. [`X_FORWARDED_FOR`] and [`FORWARDED`] are never both read (`server.forwarded_header`).
pub const TRUSTED_HEADERS: [&str; 4] = [X_FORWARDED_FOR, FORWARDED, X_FORWARDED_PROTO, X_REQUEST_ID];
