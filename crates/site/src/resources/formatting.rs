//! Formats text for resources: durations, headings, list items, templates and XML.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};

use crate::{PageSummary, escape_sentence, escape_text};
use frontdesk_convert::{escape_heading, escape_paragraph};
use frontdesk_forms::text::escape_html;

/// Whether a page with this percent-encoded path is listed.
pub(super) fn has_page(pages: &[PageSummary], path: &str) -> bool {
    pages.iter().any(|page| page.path == path)
}

/// Formats a duration without its fraction of a second, rounded up to whole minutes: `24 hours`, `90
/// minutes`.
pub(super) fn format_duration(duration: std::time::Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60);
    let (number, unit) =
        if minutes.is_multiple_of(60) { (minutes / 60, "hour") } else { (minutes, "minute") };
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

/// A first-level heading, and the summary as a blockquote unless it is empty (llmstxt.org). Escapes both,
/// because they are text, not Markdown.
pub(super) fn heading(title: &str, summary: &str) -> String {
    let (title, summary) = (escape_heading(title), escape_paragraph(summary));
    if summary.is_empty() { format!("# {title}\n") } else { format!("# {title}\n\n> {summary}\n") }
}

/// A Markdown list item: `- [Title](address): description`. Escapes the texts; omits an empty description.
pub(super) fn list_item(base_url: &str, path: &str, page: &PageSummary) -> String {
    let title = escape_text(&page.title);
    let description = page.description.as_ref().filter(|text| !text.trim().is_empty());
    let (separator, description) = description.map_or(("", "".into()), |text| (": ", escape_sentence(text)));
    // Faster than `format!`, which matters on sites with thousands of pages.
    ["- [", &title, "](", base_url, path, ")", separator, &description, "\n"].concat()
}

/// Renders an embedded template. Escapes nothing. Empty if the template fails.
pub(super) fn render(template: &str, values: Value) -> String {
    // A test renders all templates, so errors do not occur.
    environment().render_str(template, values).unwrap_or_default()
}

/// Renders an embedded template, and escapes all values with [`escape_xml`]. Empty if the template fails.
pub(super) fn render_xml(template: &str, values: Value) -> String {
    let mut environment = environment();
    environment.set_formatter(|output, _, value| Ok(output.write_str(&escape_xml(&value.to_string()))?));
    environment.render_str(template, values).unwrap_or_default()
}

/// A template engine that drops the line break after each block tag.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).build().unwrap_or_default());
    environment
}

/// Escapes text for XML 1.0. Drops U+FFFE, U+FFFF, and all control characters except tabs and line ends; XML
/// 1.0 forbids most of them (§2.2).
pub(super) fn escape_xml(text: &str) -> String {
    let is_allowed = |c: &char| {
        matches!(c, '\t' | '\n' | '\r') || (!c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))
    };
    let allowed: String = text.chars().filter(is_allowed).collect();
    escape_html(&allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_a_summary_only_if_there_is_one() {
        assert_eq!(heading("Title", "What it\nis."), "# Title\n\n> What it is.\n");
        assert_eq!(heading("Title", ""), "# Title\n");
        assert_eq!(heading("List<T>", " \n"), "# List\\<T>\n");
        assert_eq!(heading("Why F #", "- Cranes"), "# Why F \\#\n\n> \\- Cranes\n");
    }

    #[test]
    fn list_items_escape_their_texts() {
        let page = |title: &str, description: Option<&str>| PageSummary {
            title: title.to_owned(),
            description: description.map(str::to_owned),
            ..PageSummary::default()
        };
        for (page, expected) in [
            (page("A [b]", Some("c *d*")), "- [A \\[b\\]](https://a/x.md): c \\*d\\*\n"),
            (
                page("https://b/_c_/ [d]", Some("e* https://f/_g_/ h")),
                "- [https://b/\\_c\\_/ \\[d\\]](https://a/x.md): e\\* https://f/_g_/ h\n",
            ),
            (page("A", Some(" ")), "- [A](https://a/x.md)\n"),
            (page("A", None), "- [A](https://a/x.md)\n"),
        ] {
            assert_eq!(list_item("https://a", "/x.md", &page), expected);
        }
    }
}
