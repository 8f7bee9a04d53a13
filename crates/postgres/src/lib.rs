//! Connections to PostgreSQL, with and without a connection pooler.

mod block_on;
mod connect;
pub mod pooler;
mod server;
pub mod session_settings;

pub use block_on::block_on_with_timeout;
pub use connect::{Connected, OnNotification, connect};
pub use server::Server;
