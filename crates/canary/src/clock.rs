//! Compares this machine's clock with that of another server.

use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::report::{Outcome, Step, StepResult};

/// Beyond this difference in seconds, receivers of webhooks refuse signatures, and certificates may not be valid yet.
const MAX_SECONDS: i64 = 60;

/// Judges the difference from the time in a response's `Date` (RFC 9110 §6.6.1). `None` without a valid one.
pub(crate) fn compare(headers: &HeaderMap, server: &str, now: Timestamp) -> Option<StepResult> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let theirs = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    let ahead = now.duration_since(theirs).as_secs();
    let (outcome, text) = if ahead.abs() <= MAX_SECONDS {
        (Outcome::Ok, "the clock agrees with that of another server".to_owned())
    } else {
        let direction = if ahead > 0 { "ahead" } else { "behind" };
        let text = format!(
            "this machine's clock is {} s {direction} of that of {server}: receivers refuse signatures, and certificates may not be \
             valid; synchronize it (NTP)",
            ahead.abs()
        );
        (Outcome::Failed, text)
    };
    Some(StepResult { step: Step::Clock, subject: server.to_owned(), outcome, text, took: Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_minute_of_difference_is_tolerated() {
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let judge = |date: &'static str| {
            let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]);
            compare(&headers, "ping.example.com", now).map(|step| (step.outcome, step.text))
        };
        assert_eq!(judge("Fri, 20 Nov 2026 12:00:59 GMT").unwrap().0, Outcome::Ok);
        let (outcome, text) = judge("Fri, 20 Nov 2026 11:58:00 GMT").unwrap();
        assert_eq!(outcome, Outcome::Failed);
        assert!(
            text.starts_with("this machine's clock is 120 s ahead of that of ping.example.com"),
            "{text}"
        );
        assert!(judge("Fri, 20 Nov 2026 12:02:00 GMT").unwrap().1.contains("120 s behind"));
        assert_eq!(judge("yesterday"), None);
        assert_eq!(compare(&HeaderMap::new(), "ping.example.com", now), None);
    }
}
