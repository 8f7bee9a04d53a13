//! Text that several resources share.

use super::options::ResourceOptions;
use crate::forms::text::escape_html;
use crate::pages::{PageSummary, escape_text};

pub(super) fn has_page(pages: &[PageSummary], path: &str) -> bool {
    pages.iter().any(|page| page.path == path)
}

/// A clause about the forms' rate limits, for the end of a sentence; empty if limits are disabled.
pub(super) fn rate_limit_clause(resources: &ResourceOptions) -> &'static str {
    if resources.quotas.is_some() { "; both are rate limited and monitored for abuse" } else { "" }
}

/// Formats a duration: `24 hours`, `90 minutes`.
pub(super) fn format_duration(duration: std::time::Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60);
    let (number, unit) =
        if minutes.is_multiple_of(60) { (minutes / 60, "hour") } else { (minutes, "minute") };
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

/// A Markdown list item: `- [Title](address): description`.
pub(super) fn list_item(base_url: &str, path: &str, page: &PageSummary) -> String {
    let title = escape_text(&page.title);
    let (separator, description) =
        page.description.as_ref().map_or(("", "".into()), |text| (": ", escape_text(text)));
    // Faster than `format!`, which matters on sites with thousands of pages.
    ["- [", &title, "](", base_url, path, ")", separator, &description, "\n"].concat()
}

/// Escapes text for XML 1.0, and drops the characters that XML 1.0 forbids: most control characters, U+FFFE
/// and U+FFFF (§2.2).
pub(super) fn escape_xml(text: &str) -> String {
    let is_allowed = |c: &char| {
        matches!(c, '\t' | '\n' | '\r') || (!c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))
    };
    let allowed: String = text.chars().filter(is_allowed).collect();
    escape_html(&allowed)
}
