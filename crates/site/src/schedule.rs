//! Decides which pages are published: drafts, expired pages and pages with a date in the future appear only
//! in a preview.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

/// Why a page is not published, so that only a preview shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpublished {
    Draft,
    /// The page is published at this time.
    Until(Timestamp),
    /// The page was published until its expiry time.
    Expired,
}

/// A page that is published or taken down later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduledPage {
    pub at: Timestamp,
    /// The page's source file, relative to the site's folder.
    pub file: String,
    /// Whether the page is taken down at that time, instead of published.
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
/// offset, which a space may precede, as in Jekyll. `None` for any other text.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = to_iso(text).replace(" UTC", "Z").replace(" +", "+").replace(" -", "-");
    let without_zone = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| without_zone().map(|time| time.timestamp()))
}

/// The forms of dates, besides ISO 8601, whose order of day and month is certain; `%b` and `%B` are names of
/// months in English. Leading zeros are optional.
const DATE_FORMS: [&str; 8] =
    ["%Y-%m-%d", "%Y/%m/%d", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y"];

/// Rewrites in ISO 8601 a date such as `Jul 08 2022`, `8 July 2022` or `2022/7/8`, or a time such as `Fri, 08
/// Jul 2022 09:30:00 +0200` (RFC 2822), because site generators accept these. Returns any other text
/// unchanged.
pub(super) fn to_iso(text: &str) -> Cow<'_, str> {
    let date = || DATE_FORMS.iter().find_map(|form| Date::strptime(form, text).ok());
    if let Some(date) = date() {
        return Cow::Owned(date.to_string());
    }
    let Ok(time) = rfc2822::parse(text) else { return Cow::Borrowed(text) };
    Cow::Owned(time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
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
        ] {
            assert_eq!(parse_time(written), Some(time(expected)), "{written}");
        }
        // Whether 07/08 is in July or in August depends on the reader.
        for other in ["tomorrow", "", "07/08/2022", "8.7.2022", "Jul 32 2022", "Jul 08 2022 at noon", "2022"]
        {
            assert_eq!(parse_time(other), None, "{other}");
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
