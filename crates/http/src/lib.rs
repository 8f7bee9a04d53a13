//! An HTTP server that knows no product: it serves any [`PublicHandler`] on public addresses, and any
//! [`Handler`] on a private one.
//!
//! [`Server::run`] starts worker threads, each with its own runtime and its own handler, so that neither a
//! connection's state nor a handler's caches cross threads. All workers accept from the same sockets.
//! [`serve_private`] serves a few operators and monitors on one thread.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

// These modules define and run a server.
mod counters;
mod handler;
mod options;
mod run;
mod server_state;
mod shutdown_phase;

// These modules accept, limit and close connections.
mod accept_loop;
mod balance;
mod conn_limits;
mod connection_deadline;
mod connection_memory;
mod memory;
mod private_connection_limits;
mod private_server;
mod private_server_host;
mod protocol_detection;
mod proxy_protocol;
mod serve_connection;
mod socket;
pub mod tls;
mod worker_context;

// These modules read requests and send responses.
mod ambiguity;
mod client_address;
mod date;
mod fast_path;
mod http1;
mod http2;
mod refusal;
mod request_body;
mod request_id;
mod response_body;
mod security_headers;
mod sendfile;
mod sendfile_body_copies;
mod service;
pub mod trusted_proxies;
mod write_buffer;

pub use ambiguity::host_of;
pub use client_address::{ForwardedHeader, client_ip, forwarded_client};
pub use connection_memory::Charge;
pub use counters::Counters;
pub use date::CurrentDate;
pub use fast_path::plain_request::{FieldLines, PlainRequest, is_prefetch};
pub use fast_path::plain_response::PlainResponse;
pub use handler::{Handler, PublicHandler, Request, RequestContext};
pub use memory::{NEEDED as NEEDED_MEMORY, default_limit as default_memory_limit, resident_memory};
pub use options::{Options, Timeouts};
pub use private_server::{PrivateOptions, PrivateSource, serve_private};
pub use private_server_host::PrivateName;
pub use refusal::Refusal;
pub use request_body::{ReadError, RequestBody};
pub use request_id::{RequestId, X_REQUEST_ID};
pub use response_body::{FileBody, JoinedBody, ResponseBody};
pub use run::WORKER;
pub use security_headers::{CROSS_ORIGIN_RESOURCE_POLICY, SECURITY_HEADERS};
pub use sendfile::ResponseStream;
pub use server_state::Server;
pub use shutdown_phase::ShutdownPhase;
pub use socket::{Address, BindError, Peer, Scheme, Socket, inherited_sockets, reachable};
pub use trusted_proxies::{Network, is_trusted};
pub use worker_context::Worker;

#[cfg(test)]
#[expect(dead_code, reason = "tests of webhooks use the rest")]
#[path = "../../../tests/it/support/http_peer.rs"]
mod http_peer;
