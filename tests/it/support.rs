//! A running test server, and a small HTTP client that sends exactly the given bytes.

use std::time::Duration;

pub mod channel_site;
mod client;
pub mod http2;
pub mod http_peer;
pub mod lanes;
pub mod load;
pub mod mail_server;
pub mod panics;
pub mod pebble;
pub mod port;
pub mod prebuilt;
pub mod random;
pub mod redis;
pub mod rspamd;
mod server;
#[expect(dead_code, reason = "unit tests include it as well, and use more of it")]
pub mod smtp_peer;
pub mod tls;

pub use client::{Answer, Connection, compose};
pub use server::{TestServer, example_site, frontdesk, libfaketime, small_site, store_of};

/// Timeout for anything that must happen. Only failing tests reach it; on a busy machine many things take
/// seconds.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Deadlines so long that no test reaches them, so that only the deadline that a test sets can close a
/// connection.
pub const NO_DEADLINES: [(&str, &str); 7] = [
    ("FRONTDESK_LIMITS__ENABLED", "false"),
    ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "1h"),
    ("FRONTDESK_SERVER__HEADER_TIMEOUT", "1h"),
    ("FRONTDESK_SERVER__BODY_TIMEOUT", "30m"),
    ("FRONTDESK_SERVER__IDLE_TIMEOUT", "1h"),
    ("FRONTDESK_SERVER__EXCHANGE_TIMEOUT", "1h"),
    ("FRONTDESK_SERVER__SHUTDOWN_GRACE", "1h"),
];

/// [`NO_DEADLINES`] with these deadlines replaced.
pub fn deadlines(few: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&NO_DEADLINES, few].concat()
}

/// Makes up to ten attempts at something for which the server allows one second. `attempt` returns `None` if
/// it was too late, which happens now and then on a busy machine. If the server does not allow the second,
/// all attempts fail.
pub fn in_ten_attempts<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..10).find_map(|_| attempt()).expect("one of ten attempts is quick enough")
}
