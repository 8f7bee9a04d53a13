//! Derives the outcome of an attempt from the status and `Retry-After` of the webhook's HTTP response.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use http::header::{AGE, CONTENT_ENCODING, DATE, HeaderMap, LOCATION, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use frontdesk_fetch::FetchResponse;
use frontdesk_forms::text::{cut, visible};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};

/// Longer delays in `Retry-After` are reduced to this limit.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(24);

const MAX_EXCERPT_CHARS: usize = 200;

/// The start of the URL to which Google Apps Script redirects after it has run a script.
const APPS_SCRIPT_OUTPUT: &str = "https://script.googleusercontent.com/macros/echo?";

/// A 2xx status means delivered, and so does a redirect to `APPS_SCRIPT_OUTPUT`: a retry would run the script
/// again. Other outcomes quote the target of a redirect, or the start of the body unless it is compressed.
pub fn outcome(answer: &FetchResponse, now: Timestamp) -> Outcome {
    let status = answer.status;
    if status.is_success() {
        return Outcome::delivered(status_text(status));
    }
    if status.is_redirection() {
        let place = answer.headers.get(LOCATION).map(|place| String::from_utf8_lossy(place.as_bytes()));
        if place.as_ref().is_some_and(|place| place.starts_with(APPS_SCRIPT_OUTPUT)) {
            return Outcome::delivered(format!("{}: the script was run", status_text(status)));
        }
        let place = place.map_or_else(|| "an unknown location".to_owned(), |place| excerpt_of(&place));
        let text = format!(
            "{}: the redirect to {place} was not followed: set the channel's `url` to the final address",
            status_text(status)
        );
        return Outcome::failed(Cause::Unclear, text);
    }
    let body = if is_compressed(answer) { &[][..] } else { &answer.body };
    let excerpt = excerpt_of(&String::from_utf8_lossy(body));
    let text =
        if excerpt.is_empty() { status_text(status) } else { format!("{}: {excerpt}", status_text(status)) };
    Outcome::failed(cause_of_status(status), text).with_retry_after(retry_after(status, &answer.headers, now))
}

/// Whether the body of a response cannot be quoted, because it is compressed although the request has
/// `Accept-Encoding: identity`: `Content-Encoding` is a single known coding, or the body begins like a gzip
/// file.
fn is_compressed(answer: &FetchResponse) -> bool {
    let coding = answer.headers.get(CONTENT_ENCODING).map_or(&b""[..], |value| value.as_bytes().trim_ascii());
    let codings = ["gzip", "x-gzip", "br", "zstd", "deflate", "compress"];
    answer.body.starts_with(b"\x1f\x8b")
        || codings.iter().any(|name| coding.eq_ignore_ascii_case(name.as_bytes()))
}

/// The cause of a failure, from a status other than 2xx and 3xx.
fn cause_of_status(status: StatusCode) -> Cause {
    match status.as_u16() {
        410 => Cause::Gone,
        429 => Cause::Deferred,
        // These statuses usually apply to every notification, but firewalls also use them to refuse
        // particular content.
        401 | 403 | 404 | 407 | 421 | 426 => Cause::Unclear,
        400..=499 => Cause::Notification,
        // The receiver is down, or the notification's content makes the receiver fail.
        _ => Cause::Unclear,
    }
}

/// Parses `Retry-After` (RFC 9110 §10.2.3): a number of seconds, or a date. Accepts decimals, rounded up to a
/// second, and the unit `s`, because APIs send them although the RFC has neither. If a proxy has joined the
/// numbers of several fields, the largest counts. Returns at most [`LONGEST_RETRY_AFTER`]. `None` for invalid
/// values, and for statuses other than 429 and 5xx.
fn retry_after(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let several = value.split(", ").map(|number| seconds(number.trim())).collect::<Option<Vec<u64>>>();
    let wait = match several.and_then(|numbers| numbers.into_iter().max()) {
        Some(seconds) => Duration::from_secs(seconds),
        // A date in the past means no delay.
        None => Duration::try_from(http_date(value)?.duration_since(now)).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

/// Parses a number of seconds, such as `120`, `1.5` or `7200s`, and rounds it up.
fn seconds(value: &str) -> Option<u64> {
    let value = value.strip_suffix('s').unwrap_or(value);
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_rounded_up = fraction.bytes().any(|digit| digit != b'0');
    // An overflow means a very long delay.
    (is_number(whole) && is_number(fraction))
        .then(|| whole.parse::<u64>().unwrap_or(u64::MAX).saturating_add(is_rounded_up.into()))
}

/// The time at which a server has sent a response, from `Date` (RFC 9110 §6.6.1). `None` without a valid
/// date, and for responses from a cache, which state the time of the original.
pub fn stated_time(headers: &HeaderMap) -> Option<Timestamp> {
    let is_cached = headers.get(AGE).is_some_and(|age| age.as_bytes().trim_ascii() != b"0");
    http_date(headers.get(DATE)?.to_str().ok()?.trim()).filter(|_| !is_cached)
}

/// Parses a date in one of the three formats of RFC 9110 §5.6.7. `UTC` and `+0000` count as `GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    let other_zone = ["UTC", "+0000"].iter().find_map(|zone| text.strip_suffix(zone));
    let text = &*other_zone.map_or_else(|| text.into(), |date| Cow::from(format!("{date}GMT")));
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"].iter().find_map(
        |form| {
            let date = strtime::parse(form, text).ok()?.to_datetime().ok()?;
            Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
        },
    )
}

fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// The first [`MAX_EXCERPT_CHARS`] characters of text from the receiver, on one line: white space is
/// collapsed, and control characters are escaped.
pub(super) fn excerpt_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(MAX_EXCERPT_CHARS).collect();
    cut(&visible(&words.join(" ")), MAX_EXCERPT_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{HeaderName, HeaderValue};

    const NOW: &str = "2026-11-20T12:00:00Z";

    #[test]
    fn each_status_has_its_cause() {
        for status in [200, 201, 202, 204, 206, 299] {
            check(status, None);
        }
        for status in [300, 301, 302, 303, 304, 307, 308, 399] {
            check(status, Some(Cause::Unclear));
        }
        for status in [401, 403, 404, 407, 421, 426] {
            check(status, Some(Cause::Unclear));
        }
        check(429, Some(Cause::Deferred));
        for status in [400, 402, 405, 406, 408, 409, 411, 413, 414, 415, 417, 418, 422, 431, 451, 499] {
            check(status, Some(Cause::Notification));
        }
        check(410, Some(Cause::Gone));
        for status in [500, 501, 502, 503, 504, 505, 507, 520, 599] {
            check(status, Some(Cause::Unclear));
        }
        for status in [101, 199, 600, 999] {
            check(status, Some(Cause::Unclear));
        }
    }

    #[test]
    fn the_outcome_quotes_status_and_body() {
        check_text(answer(200, &[], ""), "200 OK");
        check_text(answer(299, &[], "ignored"), "299");
        check_text(answer(500, &[], ""), "500 Internal Server Error");
        check_text(
            answer(400, &[], "no\r\n  such\tfield \u{1b}[31m\u{202e}"),
            r"400 Bad Request: no such field \u{1b}[31m\u{202e}",
        );
        check_text(
            answer(308, &[("location", "https://other.example.com/")], "ignored"),
            "308 Permanent Redirect: the redirect to https://other.example.com/ was not followed: set the channel's `url` to the final address",
        );
        let output = "https://script.googleusercontent.com/macros/echo?user_content_key=x&lib=y";
        check_text(answer(302, &[("location", output)], "ignored"), "302 Found: the script was run");
        check_text(
            answer(302, &[("location", "https://accounts.google.com/")], ""),
            "302 Found: the redirect to https://accounts.google.com/ was not followed: set the channel's `url` to the final address",
        );
        check_text(
            answer(302, &[], ""),
            "302 Found: the redirect to an unknown location was not followed: set the channel's `url` to the final address",
        );
        let mut long = answer(422, &[], &"x".repeat(5_000));
        check_text(&long, &format!("422 Unprocessable Entity: {}", "x".repeat(MAX_EXCERPT_CHARS)));
        long.body = vec![0xff, b'!'];
        check_text(&long, "422 Unprocessable Entity: \u{fffd}!");
        for coding in ["gzip", "BR", " zstd"] {
            check_text(answer(502, &[("content-encoding", coding)], "x"), "502 Bad Gateway");
        }
        check_text(answer(502, &[("content-encoding", "identity")], "x"), "502 Bad Gateway: x");
        long.body = b"\x1f\x8b\x08\x00".to_vec();
        check_text(long, "422 Unprocessable Entity");
    }

    #[test]
    fn the_time_of_a_response_is_that_of_its_server() {
        let stated = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            stated_time(&headers.collect()).map(|time| time.to_string())
        };
        let date = (DATE, "Fri, 20 Nov 2026 12:01:30 GMT");
        let expected = Some("2026-11-20T12:01:30Z".to_owned());
        assert_eq!(stated(std::slice::from_ref(&date)), expected);
        assert_eq!(stated(&[date.clone(), (AGE, "0")]), expected);
        assert_eq!(stated(&[date, (AGE, "30")]), None);
        assert_eq!(stated(&[(DATE, "yesterday")]), None);
        assert_eq!(stated(&[]), None);
    }

    #[test]
    fn a_retry_after_is_limited_to_a_day() {
        let day = Some(86_400);
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("86400", day),
            ("86401", day),
            ("99999999999999999999999999", day),
            ("Fri, 20 Nov 2026 12:01:30 GMT", Some(90)),
            ("Friday, 20-Nov-26 12:01:30 GMT", Some(90)),
            ("Fri Nov 20 12:01:30 2026", Some(90)),
            ("Fri Jan  1 00:00:00 2027", day),
            ("Fri, 20 Nov 2026 11:00:00 GMT", Some(0)),
            ("Thu, 31 Dec 2099 23:59:59 GMT", day),
            ("", None),
            ("soon", None),
            ("-1", None),
            ("1.5", Some(2)),
            ("300.0", Some(300)),
            ("299.997", Some(300)),
            ("7200s", Some(7200)),
            ("99999999999999999999999999.9", day),
            ("Fri, 20 Nov 2026 12:01:30 UTC", Some(90)),
            ("Fri, 20 Nov 2026 12:01:30 +0000", Some(90)),
            ("Fri, 20 Nov 2026 12:01:30 +0100", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("s", None),
            ("1,5", None),
            ("900, 900", Some(900)),
            ("60,  120, 7s", Some(120)),
            ("900, soon", None),
            ("+5", None),
            ("2026-11-20T12:01:30Z", None),
        ] {
            for (status, expected) in
                [(429, seconds), (503, seconds), (500, seconds), (400, None), (302, None)]
            {
                let Outcome::Failed(failure) = outcome_of(&answer(status, &[("retry-after", value)], ""))
                else {
                    panic!("{status}");
                };
                assert_eq!(failure.retry_after, expected.map(Duration::from_secs), "{status} {value:?}");
            }
        }
    }

    fn check(status: u16, expected: Option<Cause>) {
        let cause = match outcome_of(&answer(status, &[], "")) {
            Outcome::Delivered(_) => None,
            Outcome::Failed(failure) => Some(failure.cause),
        };
        assert_eq!(cause, expected, "{status}");
    }

    fn check_text(answer: impl std::borrow::Borrow<FetchResponse>, expected: &str) {
        let (Outcome::Delivered(text)
        | Outcome::Failed(frontdesk_inbox::submission::delivery_outcome::AttemptFailure {
            answer: text,
            ..
        })) = outcome(answer.borrow(), NOW.parse().unwrap());
        assert_eq!(text, expected);
    }

    fn outcome_of(answer: &FetchResponse) -> Outcome {
        outcome(answer, NOW.parse().unwrap())
    }

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> FetchResponse {
        FetchResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect(),
            body: body.as_bytes().to_vec(),
            is_whole: true,
            time_to_header: Duration::ZERO,
        }
    }
}
