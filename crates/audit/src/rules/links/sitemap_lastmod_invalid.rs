//! The dates of the sitemap are valid.

use super::list_texts::sitemap_texts;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::xml;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-lastmod-invalid",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "Each `<lastmod>` is a date, or a date and time with a time zone.",
    matters: "Search engines ignore other values (W3C Datetime, which sitemaps.org requires).",
    hurts: "Search engines, which visit changed pages late.",
    fixes: &[Fix { platform: Platform::Any, text: "Write `2026-11-01` or `2026-11-01T12:00:00Z`." }],
    check,
};

/// Reports at most one finding per sitemap, with the number of invalid dates and the first of them. Skips a
/// sitemap that cannot be parsed, and those that [`sitemap_texts`] leaves out.
fn check(survey: &Survey, findings: &mut Findings) {
    for (sitemap, text) in sitemap_texts(survey) {
        let Ok(document) = xml::parse(&text, false) else { continue };
        let dates = document.descendants().filter(|node| node.tag_name().name() == "lastmod");
        let values = dates.map(|node| node.text().unwrap_or_default().trim());
        let faulty: Vec<_> = values.filter(|value| !is_date(value)).collect();
        if let Some(first) = faulty.first() {
            let first: String = first.chars().take(40).collect();
            findings.report(
                &[sitemap],
                format!(
                    "Invalid `<lastmod>` in the sitemap: {} in total, starting with `{first}`: write dates such \
                     as `2026-11-01`",
                    faulty.len()
                ),
            );
        }
    }
}

/// Whether a text is a year, a month, a date, or a date with a time and a time zone.
fn is_date(text: &str) -> bool {
    let is_number =
        |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.len() {
        4 => is_number(text, 4),
        7 => is_date(&format!("{text}-01")),
        10 => text.parse::<jiff::civil::Date>().is_ok(),
        // A date with a time, which may omit the seconds.
        _ => {
            let zone = text.rfind(['Z', 'z', '+', '-']).filter(|at| *at > 10);
            let Some((time, zone)) = zone.map(|at| text.split_at(at)) else { return false };
            let seconds = if time.len() == 16 { ":00" } else { "" };
            format!("{time}{seconds}{zone}").parse::<jiff::Timestamp>().is_ok()
        }
    }
}
