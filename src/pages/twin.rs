//! Composes a page's Markdown representation, which has the same content as its HTML.

use std::fmt::Write as _;

use super::document::{Document, PageKind};
use super::layout::ListItem;
use super::options::Operator;

/// The parts of a page's Markdown. All links in them are absolute.
pub(super) struct Parts<'a> {
    pub document: &'a Document,
    /// The page's absolute URL.
    pub url: &'a str,
    /// Scheme and authority.
    pub base_url: &'a str,
    /// The pages that this page lists.
    pub listing: &'a [ListItem],
    /// A list of the main pages, on the 404 page.
    pub help: &'a str,
    /// Instructions for sending the page's form.
    pub form: Option<&'a str>,
    pub operator: &'a Operator,
}

/// The page as Markdown with YAML front matter (`title`, `description`, `last_updated`, `url`).
pub(super) fn compose(parts: &Parts<'_>) -> String {
    let matter = &parts.document.front_matter;
    let mut text = String::with_capacity(parts.document.content.markdown.len() + 1024);
    // A JSON string is a YAML string too.
    let quoted = |value: &str| serde_json::Value::from(value).to_string();
    let _ = writeln!(text, "---\ntitle: {}", quoted(&matter.title));
    if let Some(description) = &matter.description {
        let _ = writeln!(text, "description: {}", quoted(description));
    }
    if let Some(author) = &matter.author {
        let _ = writeln!(text, "author: {}", quoted(author));
    }
    if let Some(date) = matter.date {
        let _ = writeln!(text, "date: {date}");
    }
    // The 404 page has neither a date nor a URL.
    if parts.document.kind != PageKind::NotFound {
        let _ = writeln!(text, "last_updated: {}\nurl: {}", parts.document.updated, parts.url);
    }
    if !matter.tags.is_empty() {
        let tags: Vec<String> = matter.tags.iter().map(|tag| quoted(tag)).collect();
        let _ = writeln!(text, "tags: [{}]", tags.join(", "));
    }
    let _ = write!(text, "---\n\n# {}\n", matter.title);
    if let Some(description) = &matter.description {
        let _ = write!(text, "\n{description}\n");
    }
    if !matter.cta.is_empty() {
        let links: Vec<String> = matter
            .cta
            .iter()
            .map(|button| format!("[{}]({})", escape_brackets(&button.label), absolute(&button.href, parts)))
            .collect();
        let _ = write!(text, "\n{}\n", links.join(" · "));
    }
    let body = parts.document.content.markdown.trim();
    let body = if body.is_empty() { String::new() } else { format!("\n{body}\n") };
    // The order of the templates.
    if parts.document.template() == "home" {
        text.push_str(&highlights(parts));
        text.push_str(&body);
    } else {
        text.push_str(&body);
        text.push_str(&highlights(parts));
    }
    if !parts.help.is_empty() {
        let _ = write!(text, "\n{}", parts.help);
    }
    if !parts.listing.is_empty() {
        text.push_str(if parts.document.kind == PageKind::Home { "\n## Latest writing\n\n" } else { "\n" });
        for item in parts.listing {
            let _ = write!(text, "- [{}]({}{})", escape_brackets(&item.title), parts.base_url, item.path);
            if let Some(date) = &item.date {
                let _ = write!(text, " ({date})");
            }
            if let Some(description) = &item.description {
                let _ = write!(text, ": {description}");
            }
            text.push('\n');
        }
    }
    if let Some(form) = parts.form {
        let _ = write!(text, "\n{}\n", form.trim());
        if !parts.operator.email.is_empty() {
            let _ = write!(text, "\nOr write to <{}>.\n", parts.operator.email);
        }
    }
    let _ = write!(
        text,
        "\n---\n\nGuide to this site for language models: [llms.txt]({base}/llms.txt). All pages: [sitemap.md]({base}/sitemap.md).\n",
        base = parts.base_url
    );
    text
}

/// Formats the page's cards as a list.
fn highlights(parts: &Parts<'_>) -> String {
    let cards = parts.document.front_matter.highlights.iter();
    let lines: String = cards
        .map(|card| match &card.href {
            Some(href) => {
                format!("- [{}]({}): {}\n", escape_brackets(&card.title), absolute(href, parts), card.text)
            }
            None => format!("- **{}**: {}\n", card.title, card.text),
        })
        .collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Escapes text for use between the brackets of a Markdown link.
pub fn escape_brackets(text: &str) -> String {
    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}

/// Makes a link that was resolved for HTML absolute.
fn absolute(href: &str, parts: &Parts<'_>) -> String {
    match href.as_bytes().first() {
        Some(b'/') if !href.starts_with("//") => format!("{}{href}", parts.base_url),
        Some(b'#') => format!("{}{href}", parts.url),
        _ => href.to_owned(),
    }
}
