//! Composes a page's Markdown representation, which has the same content as its HTML.

use std::fmt::Write as _;

use frontdesk_convert::{escape_heading, escape_paragraph, escape_sentence, escape_text};

use super::document::{Document, PageKind};
use super::file::document_version;
use super::layout::TemplateContext;
use super::page_navigation::ListItem;
use super::words::WordList;

/// The page as Markdown with YAML front matter and absolute links. `url` is the page's absolute URL.
/// `listing` contains the pages or tags that the page lists, and `forms` the names of the forms that it
/// shows.
pub(super) fn compose(page: &TemplateContext<'_>, url: &str, listing: &[ListItem], forms: &[&str]) -> String {
    let body = body_markdown(page, url, listing, forms);
    let document = page.document;
    let matter = &document.front_matter;
    // A JSON string is also a valid YAML string.
    let quoted = |value: &String| serde_json::to_string(value).unwrap_or_default();
    let data = &page.shared.data;
    let language = &page.shared.language(document).language;
    // The kind `NotFound` stands for 404 pages and confirmation pages, which have neither a date nor a URL.
    let has_url = document.kind != PageKind::NotFound;
    let fields = [
        ("title", Some(quoted(&matter.title))),
        ("llms_txt", Some(format!("{}{}/llms.txt", data.options.base_url, language.prefix))),
        ("doc_version", Some(format!("\"{}\"", document_version(&body)))),
        ("language", (data.languages.len() > 1).then(|| language.tag.clone())),
        ("description", matter.description.as_ref().map(quoted)),
        ("author", matter.author.as_ref().map(quoted)),
        ("date", matter.date.map(|date| date.to_string())),
        ("last_updated", has_url.then(|| document.updated.to_string())),
        ("url", has_url.then(|| url.to_owned())),
        ("tags", (!matter.tags.is_empty()).then(|| format!("[{}]", join(&matter.tags, quoted)))),
    ];
    let lines = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}\n", value?)));
    format!("---\n{}---\n\n{body}", lines.collect::<String>())
}

/// The Markdown below the front matter: the parts of the page in the order of the templates, and a link to
/// the sitemap.
///
/// `forms` are the names of the forms that the page shows. Leaves out drafts in `listing`.
fn body_markdown(page: &TemplateContext<'_>, url: &str, listing: &[ListItem], forms: &[&str]) -> String {
    let TemplateContext { shared, document, content, view } = *page;
    let options = &shared.data.options;
    let base = &options.base_url;
    let words = &shared.language(document).language.words;
    let matter = &document.front_matter;
    let body = content.markdown.trim();
    let mut text = String::with_capacity(body.len() + 1024);
    text.extend(["# ", &escape_heading(&matter.title), "\n"]);
    if let Some(description) = &matter.description {
        let _ = write!(text, "\n{}\n", escape_paragraph(description));
    }
    if !matter.cta.is_empty() {
        let links = matter.cta.iter().map(|button| {
            format!("[{}]({})", escape_text(&button.label), make_absolute(&button.href, base, url))
        });
        let _ = write!(text, "\n{}\n", links.collect::<Vec<_>>().join(" · "));
    }
    // As in the templates, the highlights precede the body on the home page, and follow it on other pages.
    let highlights = highlights_markdown(document, base, url);
    let is_home = document.template_name() == "home";
    if is_home {
        text.push_str(&highlights);
    }
    if !body.is_empty() {
        text.extend(["\n", body, "\n"]);
    }
    if !is_home {
        text.push_str(&highlights);
    }
    if !view.help.is_empty() {
        let _ = write!(text, "\n{}", view.help);
    }
    // Unlike the HTML, the Markdown does not list drafts, because llms-full.txt contains the Markdown.
    let listing: Vec<&ListItem> = listing.iter().filter(|item| !item.draft).collect();
    if !listing.is_empty() {
        text.push('\n');
        if document.kind == PageKind::Home {
            let _ = write!(text, "## {}\n\n", words.get("latest_writing"));
        }
        text.extend(listing.iter().map(|item| list_entry(item, base, words)));
    }
    if let Some(pagination) = &view.pagination {
        let pages = [("newer_posts", &pagination.previous), ("older_posts", &pagination.next)];
        let links = pages
            .iter()
            .filter_map(|(word, path)| Some(format!("[{}]({base}{})", words.get(word), path.as_ref()?)));
        let _ = write!(text, "\n{}\n", links.collect::<Vec<_>>().join(" · "));
    }
    let mut has_form = false;
    for form in shared.data.forms.iter().filter(|form| forms.contains(&form.definition.name)) {
        let _ = write!(text, "\n{}\n", form.markdown.trim());
        has_form = true;
    }
    if has_form && !options.operator.email.is_empty() {
        let mail = format!("<{}>", options.operator.email);
        let _ = write!(text, "\n{}\n", words.fill("or_write", &[("mail", &mail)]));
    }
    let (title, link) = (words.get("sitemap"), words.get("all_pages"));
    let _ = write!(text, "\n## {title}\n\n[{link}]({base}/sitemap.md)\n");
    text
}

/// A line of a list: the title as a link, the date, the author and the tags in parentheses, and the
/// description.
fn list_entry(item: &ListItem, base: &str, words: &WordList) -> String {
    let tags = (!item.tags.is_empty()).then(|| {
        let names = join(&item.tags, |tag| escape_text(&tag.name).into_owned());
        words.fill("listed_tags", &[("tags", &names)])
    });
    let author = item.author.as_deref().map(escape_text);
    let facts: Vec<&str> =
        [item.date.as_deref(), author.as_deref(), tags.as_deref()].into_iter().flatten().collect();
    let mut line = format!("- [{}]({base}{})", escape_text(&item.title), item.path);
    if !facts.is_empty() {
        let _ = write!(line, " ({})", facts.join("; "));
    }
    if let Some(description) = &item.description {
        let _ = write!(line, ": {}", escape_sentence(description));
    }
    line + "\n"
}

fn join<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The page's highlights (cards) as a Markdown list. Empty if the page has none.
fn highlights_markdown(document: &Document, base: &str, url: &str) -> String {
    let cards = document.front_matter.highlights.iter();
    let lines: String = cards
        .map(|card| {
            let [title, text] = [&card.title, &card.text].map(|text| escape_text(text));
            match &card.href {
                Some(href) => format!("- [{title}]({}): {text}\n", make_absolute(href, base, url)),
                None => format!("- **{title}**: {text}\n"),
            }
        })
        .collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Converts a link that was resolved for HTML to an absolute link. `page` is the URL of the page that
/// contains the link. Keeps links that begin with neither `/` nor `#`, and those that begin with `//`.
pub(super) fn make_absolute(href: &str, base: &str, page: &str) -> String {
    match href.as_bytes().first() {
        Some(b'/') if !href.starts_with("//") => format!("{base}{href}"),
        Some(b'#') => format!("{page}{href}"),
        _ => href.to_owned(),
    }
}
