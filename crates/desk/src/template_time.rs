//! The clock and the time zone of a request, and times for templates.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::{Value, context};

use crate::time::{format_distance, format_utc};

/// The clock and the time zone of a request.
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) zone: TimeZone,
}

impl Clock {
    /// The date of a time, such as `28 November 2026`.
    pub(super) fn day(&self, time: Timestamp) -> String {
        time.to_zoned(self.zone.clone()).strftime("%-d %B %Y").to_string()
    }

    /// A time for a `<time>` element: machine-readable, in full, and relative to now.
    pub(super) fn time(&self, time: Timestamp) -> Value {
        context! {
            iso => format_utc(time),
            full => time.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
            short => format_distance(time, self.now),
        }
    }
}
