//! Parses times from arguments, and formats times for output.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeArgument {
    At(Timestamp),
    /// The beginning of a day: midnight in the operator's time zone.
    Day(Date),
    /// A duration before the current time.
    Ago(SignedDuration),
}

impl TimeArgument {
    /// Parses an RFC 3339 time, a date, or an age: a whole number followed by s, m, h, d or w. Also accepts
    /// other times that jiff can parse, such as one without seconds. The error is a sentence about the
    /// format.
    pub fn parse(text: &str) -> Result<TimeArgument, String> {
        parse_age(text)
            .map(TimeArgument::Ago)
            .or_else(|| parse_date(text).map(TimeArgument::Day))
            .or_else(|| text.parse().ok().map(TimeArgument::At))
            .ok_or_else(|| {
                "it must be a time such as 2026-11-20T14:00:00Z, a date such as 2026-11-20, or an age such as 30m, 2h or 3d"
                    .to_owned()
            })
    }

    /// The point in time. An age is counted back from `now`, but not beyond the earliest representable time.
    /// A day begins in the time zone of `now`.
    pub fn at(self, now: &Zoned) -> Timestamp {
        match self {
            TimeArgument::At(moment) => moment,
            TimeArgument::Day(day) => {
                let midnight = day.to_zoned(now.time_zone().clone());
                midnight.map_or(Timestamp::MIN, |midnight| midnight.timestamp())
            }
            TimeArgument::Ago(age) => now.timestamp().checked_sub(age).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Parses an age such as `3d`: digits, then `s`, `m` (minutes), `h`, `d` or `w`. `None` if it is not an age,
/// or too long to be counted in seconds.
fn parse_age(text: &str) -> Option<SignedDuration> {
    let seconds = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(SignedDuration::from_secs(number.parse::<i64>().ok()?.checked_mul(seconds)?))
}

/// Parses a date such as `2026-11-20`. `None` for any other format.
pub fn parse_date(text: &str) -> Option<Date> {
    // Reject a time of day, which jiff would accept and ignore.
    if text.len() != 10 || text.bytes().any(|b| !b.is_ascii_digit() && b != b'-') {
        return None;
    }
    text.parse().ok()
}

/// Formats a time as RFC 3339 in UTC, with milliseconds, for programs.
pub fn format_utc(moment: Timestamp) -> String {
    format!("{moment:.3}")
}

/// Formats a time as RFC 3339 with milliseconds, in the operator's time zone.
pub fn format_time(moment: Timestamp, zone: &TimeZone) -> String {
    if *zone == TimeZone::UTC {
        return format_utc(moment);
    }
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

/// Formats a time for a table or a spreadsheet, in the operator's time zone: `2026-11-20 14:03:05`.
pub fn format_local(moment: Timestamp, zone: &TimeZone) -> String {
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats the time from `now` to `moment`, rounded down in the largest unit that fits: `in 4 min`, `3 h ago`
/// or `now`.
pub fn format_distance(moment: Timestamp, now: Timestamp) -> String {
    let seconds = moment.as_second() - now.as_second();
    let (number, unit) = match seconds.abs() {
        0 => return "now".to_owned(),
        s @ ..60 => (s, "s"),
        s @ ..3600 => (s / 60, "min"),
        s @ ..86_400 => (s / 3600, "h"),
        s if s / 86_400 == 1 => (1, "day"),
        s => (s / 86_400, "days"),
    };
    if seconds > 0 { format!("in {number} {unit}") } else { format!("{number} {unit} ago") }
}

/// Formats the time between two moments, rounded down, in minutes at most: `120 ms`, `3.4 s` or `150 min`. A
/// negative time is `0 ms`.
pub fn format_duration(from: Timestamp, to: Timestamp) -> String {
    match to.as_millisecond() - from.as_millisecond() {
        ms @ ..1000 => format!("{} ms", ms.max(0)),
        ms @ ..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms => format!("{} min", ms / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_a_date_or_an_age() {
        check("2026-11-20T14:00:00Z", Some("2026-11-20T14:00:00Z"));
        check("2026-11-20T14:00:00+02:00", Some("2026-11-20T12:00:00Z"));
        check("2026-11-20", Some("2026-11-20T00:00:00Z"));
        check("45s", Some("2026-11-20T14:02:20Z"));
        check("30m", Some("2026-11-20T13:33:05Z"));
        check("2h", Some("2026-11-20T12:03:05Z"));
        check("3d", Some("2026-11-17T14:03:05Z"));
        check("1w", Some("2026-11-13T14:03:05Z"));
        check("99999999999d", Some(&Timestamp::MIN.to_string()));
        for text in
            ["", "d", "2", "-2h", "+2h", "2.5h", "2 h", "2026-13-01", "2026-11-20T14:00", "yesterday", "3日"]
        {
            check(text, None);
        }
        check("9999999999999999999d", None);
    }

    #[test]
    fn a_distance_is_in_the_largest_unit() {
        let format = |text: &str| format_distance(text.parse().unwrap(), NOW.parse().unwrap());
        assert_eq!(format("2026-11-20T14:03:05.9Z"), "now");
        assert_eq!(format("2026-11-20T14:03:10Z"), "in 5 s");
        assert_eq!(format("2026-11-20T14:08:04Z"), "in 4 min");
        assert_eq!(format("2026-11-20T11:03:05Z"), "3 h ago");
        assert_eq!(format("2026-11-19T14:03:05Z"), "1 day ago");
        assert_eq!(format("2026-11-22T14:03:05Z"), "in 2 days");
    }

    #[test]
    fn a_duration_is_in_a_suitable_unit() {
        let format = |ms: i64| {
            let end = Timestamp::from_millisecond(1_000_000 + ms).unwrap();
            format_duration(Timestamp::from_millisecond(1_000_000).unwrap(), end)
        };
        assert_eq!([format(-5), format(0), format(999)], ["0 ms", "0 ms", "999 ms"]);
        assert_eq!([format(1000), format(3450), format(59_999)], ["1.0 s", "3.4 s", "59.9 s"]);
        assert_eq!([format(60_000), format(150_000)], ["1 min", "2 min"]);
    }

    const NOW: &str = "2026-11-20T14:03:05Z";

    fn check(text: &str, expected: Option<&str>) {
        let now = NOW.parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        let found = TimeArgument::parse(text).ok().map(|when| when.at(&now));
        assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{text}");
    }
}
