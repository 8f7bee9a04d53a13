//! Composes a page's Markdown representation, which has the same content as its HTML.

use std::fmt::Write as _;

use super::document::{Document, PageKind};
use super::layout::{ListItem, TemplateContext};

/// The page as Markdown with YAML front matter (`title`, `description`, `last_updated`, `url`) and absolute
/// links. `url` is the page's absolute URL, and `listing` contains the pages that the page lists.
pub(super) fn compose(page: &TemplateContext<'_>, url: &str, listing: &[ListItem]) -> String {
    let TemplateContext { shared, document, view } = *page;
    let options = &shared.data.options;
    let base = &options.base_url;
    let matter = &document.front_matter;
    let mut text = String::with_capacity(document.content.markdown.len() + 1024);
    // A JSON string is also a valid YAML string.
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
    if document.kind != PageKind::NotFound {
        let _ = writeln!(text, "last_updated: {}\nurl: {}", document.updated, url);
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
            .map(|button| {
                format!("[{}]({})", escape_brackets(&button.label), make_absolute(&button.href, base, url))
            })
            .collect();
        let _ = write!(text, "\n{}\n", links.join(" · "));
    }
    let body = document.content.markdown.trim();
    let body = if body.is_empty() { String::new() } else { format!("\n{body}\n") };
    // The same order as in the templates.
    let highlights = highlights_markdown(document, base, url);
    let is_home = document.template_name() == "home";
    text.extend(if is_home { [highlights, body] } else { [body, highlights] });
    if !view.help.is_empty() {
        let _ = write!(text, "\n{}", view.help);
    }
    if !listing.is_empty() {
        text.push_str(if document.kind == PageKind::Home { "\n## Latest writing\n\n" } else { "\n" });
        for item in listing {
            let _ = write!(text, "- [{}]({}{})", escape_brackets(&item.title), base, item.path);
            if let Some(date) = &item.date {
                let _ = write!(text, " ({date})");
            }
            if let Some(description) = &item.description {
                let _ = write!(text, ": {description}");
            }
            text.push('\n');
        }
    }
    let form = matter.form.as_ref();
    if let Some(form) = form.and_then(|name| shared.data.forms.iter().find(|form| form.name == name)) {
        let _ = write!(text, "\n{}\n", form.markdown.trim());
        if !options.operator.email.is_empty() {
            let _ = write!(text, "\nOr write to <{}>.\n", options.operator.email);
        }
    }
    let _ = write!(
        text,
        "\n---\n\nGuide to this site for language models: [llms.txt]({base}/llms.txt). All pages: [sitemap.md]({base}/sitemap.md).\n"
    );
    text
}

fn highlights_markdown(document: &Document, base: &str, url: &str) -> String {
    let cards = document.front_matter.highlights.iter();
    let lines: String = cards
        .map(|card| match &card.href {
            Some(href) => {
                let (title, href) = (escape_brackets(&card.title), make_absolute(href, base, url));
                format!("- [{title}]({href}): {}\n", card.text)
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

/// Converts a link that was resolved for HTML to an absolute link. `page` is the URL of the page that
/// contains it.
pub(super) fn make_absolute(href: &str, base: &str, page: &str) -> String {
    match href.as_bytes().first() {
        Some(b'/') if !href.starts_with("//") => format!("{base}{href}"),
        Some(b'#') => format!("{page}{href}"),
        _ => href.to_owned(),
    }
}
