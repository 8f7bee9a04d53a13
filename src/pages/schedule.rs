//! Decides which pages are published. Drafts and pages with a date in the future are not, except in a preview.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::front_matter::FrontMatter;

/// Why a page is not published, so that only a preview shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpublished {
    Draft,
    /// The page is published at this time.
    Until(Timestamp),
}

/// A page that is published later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduledPage {
    pub at: Timestamp,
    /// The source file, relative to the site's folder.
    pub file: String,
}

/// Why the page is not published at `now`; `None` if it is. If `now` is `None`, no date is in the future.
pub(super) fn unpublished(page: &FrontMatter, now: Option<Timestamp>) -> Option<Unpublished> {
    if page.draft {
        return Some(Unpublished::Draft);
    }
    let at = page.publish_at.or_else(|| start_of_day(page.date?))?;
    now.filter(|now| *now < at).map(|_| Unpublished::Until(at))
}

/// Parses the time at which a page is published: a date, or a date with a time. The time zone is UTC unless
/// the text has an offset.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let without_zone = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| without_zone().map(|time| time.timestamp()))
}

fn start_of_day(date: Date) -> Option<Timestamp> {
    date.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

/// Formats a time for readers: `1 December 2026, 09:00 UTC`.
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
            ("2026-12-01T00:30:00+11:00", "2026-11-30T13:30Z"),
        ] {
            assert_eq!(parse_time(written), Some(time(expected)), "{written}");
        }
        assert_eq!(parse_time("tomorrow"), None);
        assert_eq!(parse_time(""), None);
    }

    #[test]
    fn drafts_and_future_pages_are_unpublished() {
        let page = |draft, date: Option<&str>, publish_at: Option<&str>| FrontMatter {
            draft,
            date: date.map(|date| date.parse().expect("a date")),
            publish_at: publish_at.map(time),
            ..FrontMatter::default()
        };
        let now = time("2026-11-30T23:59:59Z");
        let until = |text| Some(Unpublished::Until(time(text)));
        for (page, expected) in [
            (page(false, None, None), None),
            (page(true, Some("2026-12-01"), None), Some(Unpublished::Draft)),
            (page(false, Some("2026-11-30"), None), None),
            (page(false, Some("2026-12-01"), None), until("2026-12-01T00:00Z")),
            // The time has precedence over the date, which may be the date in another time zone.
            (page(false, Some("2026-12-01"), Some("2026-11-30T13:30Z")), None),
            (
                page(false, Some("2026-11-30"), Some("2026-11-30T23:59:59.5Z")),
                until("2026-11-30T23:59:59.5Z"),
            ),
        ] {
            assert_eq!(unpublished(&page, Some(now)), expected, "{page:?}");
        }
        let future = page(false, Some("2026-12-01"), None);
        assert_eq!(unpublished(&future, Some(time("2026-12-01T00:00Z"))), None, "published at its date");
        assert_eq!(unpublished(&future, None), None);
    }

    #[test]
    fn times_are_formatted_in_utc() {
        assert_eq!(format_time(time("2026-12-01T00:30:00+11:00")), "30 November 2026, 13:30 UTC");
    }
}
