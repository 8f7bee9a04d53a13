//! The test desk, and a small HTTP client that says exactly what it is told to say.

mod client;
mod desk;
pub mod dice;
pub mod http2;
pub mod http_peer;
pub mod lanes;
pub mod load;
pub mod office;
pub mod opensmtpd;
pub mod pebble;
pub mod redis;
#[expect(dead_code, reason = "unit tests include it as well, and use more of it")]
pub mod smtp_peer;
pub mod tls;

pub use client::{Answer, Connection, compose};
pub use desk::{Desk, example_site, frontdesk, libfaketime, store_of};
