//! Connections to PostgreSQL, with and without a connection pooler.

mod block_on;
mod connect;
mod connection_settings;
pub mod pooler;
pub mod session_settings;

pub use block_on::block_on_with_timeout;
pub use connect::{Connected, OnNotification, connect};
pub use connection_settings::Server;
