//! The test desk, and a small HTTP client that says exactly what it is told to say.

mod client;
mod desk;
pub mod opensmtpd;

pub use client::{Answer, Connection};
pub use desk::{Desk, example_site, frontdesk};
