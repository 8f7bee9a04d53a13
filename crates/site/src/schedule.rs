//! Decides which pages are published: drafts, expired pages and pages with a date in the future appear only
//! in a preview.

use std::borrow::Cow;

use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The reason why only a preview shows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpublished {
    Draft,
    /// The page will be published at this time.
    Until(Timestamp),
    /// The page was published until its expiry time.
    Expired,
}

/// A page that will be published or taken down at the time `at`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduledPage {
    pub at: Timestamp,
    /// The page's source file, relative to the site's folder.
    pub file: String,
    /// Whether the page is taken down at the time `at`. If false, the page is published then.
    pub expires: bool,
}

/// Why a page is not published at `now`; `None` if it is published. A draft is a draft at any time, and an
/// expired page is expired even if `publish_at` is later. If `now` is `None`, no time is in the future, so a
/// page with `expire_at` is expired.
pub(super) fn unpublished(
    is_draft: bool,
    publish_at: Option<Timestamp>,
    expire_at: Option<Timestamp>,
    now: Option<Timestamp>,
) -> Option<Unpublished> {
    let is_future = |at: &Timestamp| now.is_some_and(|now| now < *at);
    if is_draft {
        return Some(Unpublished::Draft);
    }
    if expire_at.is_some_and(|at| !is_future(&at)) {
        return Some(Unpublished::Expired);
    }
    publish_at.filter(is_future).map(Unpublished::Until)
}

/// Parses the time at which a page is published or taken down: a date, which means its midnight, or a date
/// with a time, in ISO 8601 or in a form that [`to_iso`] knows. The time zone is UTC unless the text has an
/// offset or the name of a zone, as in `[Europe/Berlin]` (RFC 9557). `None` for any other text, and for a
/// zone that this machine does not know.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = to_iso(text);
    let zoned = || {
        if text.contains('[') {
            return text.parse::<Zoned>().ok();
        }
        text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()
    };
    text.parse().ok().or_else(|| zoned().map(|time| time.timestamp()))
}

/// Parses a publication time as [`parse_time`] does. Of a text that can mean several times, because it ends
/// with the abbreviation of a time zone (`EST` is used in America and in Australia), because the order of
/// day and month is not certain (`07/08/2022`), or because it is a month or a year, returns the latest, so
/// that no page is published early. For a month or a year, this is its last day.
pub(super) fn parse_publication_time(text: &str) -> Option<Timestamp> {
    if let Some(time) = parse_time(text) {
        return Some(time);
    }
    let text = simplify(text);
    let (day, clock) = split_clock(&text).unwrap_or((&text, String::new()));
    let forms = DATE_FORMS.iter().chain(&AMBIGUOUS_FORMS);
    let in_month = || Some(parse_date("%Y-%m-%d", &format!("{day}-01"))?.last_of_month());
    let in_year = || parse_date("%Y-%m-%d", &format!("{day}-12-31"));
    let latest = forms.filter_map(|form| parse_date(form, day)).max().or_else(in_month).or_else(in_year)?;
    let is_zone = |zone: &&str| {
        (2..=5).contains(&zone.len())
            && zone.bytes().all(|b| b.is_ascii_uppercase())
            && !["AM", "PM"].contains(zone)
    };
    // Assume UTC-12 if the time zone is a name: this is the latest time that the text can mean.
    let clock = match clock.split_once(' ').filter(|(_, zone)| is_zone(zone)) {
        Some((time, _)) => format!("{time}-12:00"),
        None => clock,
    };
    parse_time(&format!("{latest}{clock}"))
}

/// The forms of dates, besides ISO 8601, whose order of day and month is certain; `%b` and `%B` are names of
/// months in English. Leading zeros are optional.
#[rustfmt::skip]
const DATE_FORMS: [&str; 11] = [
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y年%m月%d日", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y",
    "%d %b %Y", "%d %B %Y", "%d-%b-%Y",
];

/// Numeric date formats: some countries put the day first, and others the month.
const AMBIGUOUS_FORMS: [&str; 6] = ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y"];

/// Parses a date in the format `form`. Rejects years before 1000, because `27` does not mean the year 27.
fn parse_date(form: &str, text: &str) -> Option<Date> {
    Date::strptime(form, text).ok().filter(|date| date.year() >= 1000)
}

/// Rewrites in ISO 8601 a date such as `Jul 08 2022`, `8 July 2022` or `2022/7/8`, also with a time such as
/// `9:30 PM`, `9:30:00 +0200` or `9:30 UTC` after it, a time such as `Fri, 08 Jul 2022 09:30:00 +0200` (RFC
/// 2822), or Unix time, because site generators accept these. Also removes what [`simplify`] removes. Returns
/// any other text unchanged.
pub(super) fn to_iso(text: &str) -> Cow<'_, str> {
    let in_known_form = |text: &str| {
        let (day, clock) = split_clock(text).unwrap_or((text, String::new()));
        let date = DATE_FORMS.iter().find_map(|form| parse_date(form, day))?;
        Some(format!("{date}{clock}"))
    };
    let rfc2822 = || Some(rfc2822::parse(text).ok()?.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
    let unix_time = || {
        // Accept only Unix times from 2001 to 2033, because other numbers of this length may be dates.
        let is_time = matches!(text.len(), 10 | 13) && text.starts_with('1');
        let time: i64 = text.parse().ok().filter(|_| is_time)?;
        let seconds = if text.len() == 13 { time / 1000 } else { time };
        Some(Timestamp::from_second(seconds).ok()?.to_string())
    };
    let known = in_known_form(text).or_else(rfc2822).or_else(unix_time);
    known.or_else(|| in_known_form(&simplify(text))).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Removes from a date what does not change its meaning: `[[…]]` of Obsidian around it, the name of the
/// weekday (`Friday` or `Fri`), the ending of an ordinal (`3rd`), the words `at` and `of`, dots in
/// abbreviations, and what JavaScript adds to the offset: `GMT` before it and a name in parentheses behind
/// it. Writes `Sept` as `Sep`.
fn simplify(text: &str) -> String {
    const WEEKDAYS: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let text = text.strip_prefix("[[").and_then(|text| text.strip_suffix("]]")).unwrap_or(text);
    let text = text.split(" (").next().unwrap_or_default();
    let simplify_word = |word: &str| {
        let lower = word.trim_end_matches(['.', ',']).to_ascii_lowercase();
        let is_weekday = lower.len() >= 3 && WEEKDAYS.iter().any(|day| day.starts_with(&lower));
        let has_digit = lower.contains(|c: char| c.is_ascii_digit());
        let number = if has_digit { lower.trim_end_matches(|c: char| c.is_ascii_alphabetic()) } else { "" };
        let comma = if word.ends_with(',') { "," } else { "" };
        let offset = word.strip_prefix("GMT").filter(|offset| offset.len() == "+0100".len());
        match (number, &lower[number.len()..]) {
            ("", "at" | "of") => None,
            ("", "sept") => Some(format!("Sep{comma}")),
            ("", _) => (!is_weekday).then(|| word.replace('.', "")),
            (_, "st" | "nd" | "rd" | "th") => Some(format!("{number}{comma}")),
            _ => Some(offset.unwrap_or(word).to_owned()),
        }
    };
    text.split_whitespace().filter_map(simplify_word).collect::<Vec<_>>().join(" ")
}

/// Splits a text at the `T` or the spaces before a time of day. Returns the text before it and, in ISO 8601,
/// `T` and the time: with two digits of the hour, which AM or PM converts to 00 to 23, with `Z` for the zones
/// UTC, GMT and Z, without spaces before an offset, and with brackets around a name such as `Europe/Berlin`.
/// Other text after the time stays as it is. `None` if there is no time.
fn split_clock(text: &str) -> Option<(&str, String)> {
    let (before, after) = text.split_once(':')?;
    let day = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let hour = &before[day.len()..];
    let day = day.strip_suffix('T').unwrap_or_else(|| day.trim_end().trim_end_matches(','));
    if !(1..=2).contains(&hour.len()) || day.len() + hour.len() == before.len() {
        return None;
    }
    let end = after.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.' | ','));
    let (rest, zone) = after.split_at(end.unwrap_or(after.len()));
    let hour_of_twelve = hour.parse::<u8>().ok().filter(|hour| (1..=12).contains(hour)).map(|hour| hour % 12);
    let (hour, zone) = match (hour_of_twelve, zone.trim_start().to_ascii_uppercase().as_str()) {
        (Some(hour), "AM") => (hour.to_string(), ""),
        (Some(hour), "PM") => ((hour + 12).to_string(), ""),
        _ => (hour.to_owned(), zone),
    };
    let named;
    let zone = match zone.trim_start() {
        name if ["UTC", "GMT", "Z"].iter().any(|utc| name.eq_ignore_ascii_case(utc)) => "Z",
        offset if offset.starts_with(['+', '-']) => offset,
        name if name.contains('/') && !name.contains('[') => {
            named = format!("[{name}]");
            &named
        }
        _ => zone,
    };
    Some((day, format!("T{hour:0>2}:{rest}{zone}")))
}

/// The time at which a page with only a date is published: midnight in UTC. `None` if it cannot be
/// represented.
pub fn start_of_day(date: Date) -> Option<Timestamp> {
    date.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

/// Formats a time in English for readers: `1 December 2026, 09:00 UTC`.
pub fn format_time(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%-d %B %Y, %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_page_is_published_at_its_date_in_utc_or_at_its_time() {
        for (written, expected) in [
            ("2026-12-01", "2026-12-01T00:00Z"),
            ("2026-12-01T09:30", "2026-12-01T09:30Z"),
            ("2026-12-01 09:30:00", "2026-12-01T09:30Z"),
            ("2026-12-01T09:30:00Z", "2026-12-01T09:30Z"),
            ("2026-12-01T09:30:00+01:00", "2026-12-01T08:30Z"),
            ("2026-12-01 09:30:00 +0100", "2026-12-01T08:30Z"),
            ("2026-12-01 09:30:00 UTC", "2026-12-01T09:30Z"),
            ("2026-12-01T00:30:00+11:00", "2026-11-30T13:30Z"),
            ("Jul 08 2022", "2022-07-08T00:00Z"),
            ("July 8, 2022", "2022-07-08T00:00Z"),
            ("8 jul 2022", "2022-07-08T00:00Z"),
            ("08 July 2022", "2022-07-08T00:00Z"),
            ("2022/7/8", "2022-07-08T00:00Z"),
            ("2022-7-8", "2022-07-08T00:00Z"),
            ("Fri, 08 Jul 2022 00:30:00 +0200", "2022-07-07T22:30Z"),
            ("Fri, 08 Jul 2022 09:30:00 GMT", "2022-07-08T09:30Z"),
            ("2016-04-24 9:05:00 +0200", "2016-04-24T07:05Z"),
            ("2016-04-24 9:05:00.5 +02:00", "2016-04-24T07:05:00.5Z"),
            ("2016-04-24T9:05", "2016-04-24T09:05Z"),
            ("2014/7/7 20:46:25", "2014-07-07T20:46:25Z"),
            ("2014/7/7 2:46 -0700", "2014-07-07T09:46Z"),
            ("2014-7-7  2:46Z", "2014-07-07T02:46Z"),
            ("July 8, 2022 9:30 utc", "2022-07-08T09:30Z"),
            ("8 Jul 2022 09:30:00 GMT", "2022-07-08T09:30Z"),
        ] {
            assert_eq!(parse_time(written), Some(time(expected)), "{written}");
        }
    }

    #[test]
    fn dates_of_several_programs_have_one_meaning() {
        for (written, expected) in [
            ("Sept 3, 2021", "2021-09-03T00:00Z"),
            ("Wednesday, March 3, 2021", "2021-03-03T00:00Z"),
            ("Wed. 3rd of Mar. 2021", "2021-03-03T00:00Z"),
            ("March 3rd, 2021 at 12:30 a.m.", "2021-03-03T00:30Z"),
            ("Wed Mar 03 2021 09:30:00 GMT+0100 (CET)", "2021-03-03T08:30Z"),
            ("2021-03-03 12:30 PM", "2021-03-03T12:30Z"),
            ("2021-03-03 9:30pm", "2021-03-03T21:30Z"),
            ("2021-03-03, 9:30", "2021-03-03T09:30Z"),
            ("3 March 2021, 9:30", "2021-03-03T09:30Z"),
            ("03-Mar-2021", "2021-03-03T00:00Z"),
            ("2021.03.03", "2021-03-03T00:00Z"),
            ("2021年3月3日", "2021-03-03T00:00Z"),
            ("1589932800", "2020-05-20T00:00Z"),
            ("1589932800000", "2020-05-20T00:00Z"),
            ("[[2021-03-03]]", "2021-03-03T00:00Z"),
        ] {
            assert_eq!(parse_time(written), Some(time(expected)), "{written}");
        }
        // Whether 07/08 is in July or in August depends on the reader.
        for other in [
            "tomorrow",
            "",
            "07/08/2022",
            "8.7.2022",
            "Jul 32 2022",
            "Jul 08 2022 at noon",
            "2022",
            "8 Jul 27",
            "27/7/8",
            "2022-07-08 9:30 EST",
            "2022-07-08 13:30 PM",
            "2022-07-08 0:30 AM",
            "2021030309",
            "158993280",
            "2022-07",
            "2022-07-08 25:30",
            "2022-07-08 100:30",
            "2022-07-089:30",
            "2022-07-08 9:30 UTC+2",
            "9:30",
        ] {
            assert_eq!(parse_time(other), None, "{other}");
        }
        // `None` on a machine without a database of time zones.
        for written in ["2022-07-08T09:30[America/New_York]", "2022-07-08 9:30 America/New_York"] {
            let named = parse_time(written);
            assert!(named.is_none_or(|at| at == time("2022-07-08T13:30Z")), "{named:?}");
        }
        assert_eq!(parse_time("2022-07-08T09:30[Nowhere/Else]"), None);
    }

    #[test]
    fn a_publication_time_with_several_meanings_is_the_latest() {
        for (written, expected) in [
            ("2026-12-01 9:30", Some("2026-12-01T09:30Z")),
            ("2026-12-01 9:30:00 EST", Some("2026-12-01T21:30Z")),
            ("2026/12/1 09:30 CEST", Some("2026-12-01T21:30Z")),
            ("07/08/2026", Some("2026-08-07T00:00Z")),
            ("12-1-2026 9:30", Some("2026-12-01T09:30Z")),
            ("1.12.2026 9:30 MSK", Some("2026-12-01T21:30Z")),
            ("25/12/2026", Some("2026-12-25T00:00Z")),
            ("2026-12-01 9:30 PM", Some("2026-12-01T21:30Z")),
            ("Tue, 12/1/2026 9:30", Some("2026-12-01T09:30Z")),
            ("2026-02", Some("2026-02-28T00:00Z")),
            ("2026", Some("2026-12-31T00:00Z")),
            ("26", None),
            ("2026-13", None),
            ("2026-12-01 at noon", None),
            ("07/08/26", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse_publication_time(written), expected.map(time), "{written}");
        }
    }

    #[test]
    fn drafts_and_future_pages_are_unpublished() {
        let check = |is_draft, publish_at: Option<&str>, now: Option<&str>, expected| {
            let result = unpublished(is_draft, publish_at.map(time), None, now.map(time));
            assert_eq!(result, expected, "{is_draft} {publish_at:?} {now:?}");
        };
        let (before, date) = (Some("2026-11-30T23:59:59.999Z"), Some("2026-12-01T00:00Z"));
        check(false, None, before, None);
        check(false, date, before, Some(Unpublished::Until(time("2026-12-01T00:00Z"))));
        check(false, date, date, None);
        check(false, date, None, None);
        check(true, date, before, Some(Unpublished::Draft));
        check(true, None, date, Some(Unpublished::Draft));
        assert_eq!(start_of_day(jiff::civil::date(2026, 12, 1)), date.map(time));
    }

    #[test]
    fn a_page_is_published_until_its_expiry() {
        let date = Some(time("2026-12-01T00:00Z"));
        for (now, expected) in [
            (Some("2026-11-30T23:59:59Z"), None),
            (Some("2026-12-01T00:00Z"), Some(Unpublished::Expired)),
            (None, Some(Unpublished::Expired)),
        ] {
            assert_eq!(unpublished(false, None, date, now.map(time)), expected, "{now:?}");
        }
    }

    #[test]
    fn times_are_formatted_in_utc() {
        assert_eq!(format_time(time("2026-12-01T00:30:00+11:00")), "30 November 2026, 13:30 UTC");
    }
}
