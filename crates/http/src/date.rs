//! The current date for the `Date` header, formatted at most once a second.

#![expect(clippy::disallowed_methods, reason = "the Date header has the current time")]

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::time::Instant;

/// The value of `Date` (RFC 9110 §6.6.1), and the time at which it must be updated.
#[derive(Debug)]
pub struct CurrentDate {
    value: HeaderValue,
    /// The `Date` header line, with its line break.
    line: String,
    until: Option<Instant>,
}

impl Default for CurrentDate {
    fn default() -> Self {
        Self::new()
    }
}

impl CurrentDate {
    pub fn new() -> Self {
        Self { value: HeaderValue::from_static(""), line: String::new(), until: None }
    }

    /// The value of `Date`. `now` must be the current time.
    pub fn value_at(&mut self, now: Instant) -> &HeaderValue {
        self.update(now);
        &self.value
    }

    /// The header line with the date, and its line break. `now` must be the current time.
    pub(super) fn line_at(&mut self, now: Instant) -> &str {
        self.update(now);
        &self.line
    }

    /// Reads the system clock and formats the date, unless the current value is still from this second.
    fn update(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now < until) {
            return;
        }
        let time = Timestamp::now();
        if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&time)
            && let Ok(value) = HeaderValue::from_str(&date)
        {
            self.value = value;
            self.line = format!("date: {date}\r\n");
        }
        let past = Duration::from_nanos(time.subsec_nanosecond().unsigned_abs().into());
        self.until = Some(now + Duration::from_secs(1).saturating_sub(past));
    }
}
