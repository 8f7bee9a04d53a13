//! The test desk, and a small HTTP client that says exactly what it is told to say.

mod client;
mod desk;
pub mod http2;
#[expect(dead_code, reason = "unit tests include it as well, and use more of it")]
pub mod http_peer;
pub mod office;
pub mod opensmtpd;
#[expect(dead_code, reason = "unit tests include it as well, and use more of it")]
pub mod smtp_peer;

pub use client::{Answer, Connection};
pub use desk::{Desk, example_site, frontdesk};
