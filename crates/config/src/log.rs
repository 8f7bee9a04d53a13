//! `[log]`: the format and the level of the log, and whether it has each request.

use tracing::Level;

use super::reader::{Reader, requests, restart};
use super::value_parsers;

#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Whether the log is JSON. `None` means JSON unless the log goes to a terminal.
    pub is_json: Option<bool>,
    pub level: Level,
}

/// Reads `[log]`. The second value is `log.requests`: whether the web server logs each request.
pub(super) fn read(r: &mut Reader<'_>) -> (LogOptions, bool) {
    let formats = [("auto", None), ("text", Some(false)), ("json", Some(true))];
    let levels = [
        ("error", Level::ERROR),
        ("warn", Level::WARN),
        ("info", Level::INFO),
        ("debug", Level::DEBUG),
        ("trace", Level::TRACE),
    ];
    let log = LogOptions {
        is_json: r.get(
            restart("log.format"),
            "auto",
            "The format of the log on standard error: \"text\" for people, \"json\" for programs, one object \
             per line; \"auto\" is text on a terminal and JSON elsewhere.",
            value_parsers::one_of(&formats),
        ),
        level: r.get(
            restart("log.level"),
            "info",
            "The minimum level: \"error\", \"warn\", \"info\", \"debug\" or \"trace\". No level logs a \
             submission's content or a visitor's identity.",
            value_parsers::one_of(&levels),
        ),
    };
    let logs_requests = r.get(
        requests("log.requests"),
        "false",
        "Whether each request is logged, with its response and duration but without the client.",
        value_parsers::parse_bool,
    );
    (log, logs_requests)
}
