//! The machine-readable files, each built once from the same pages and form definitions that are served and that validate.
//!
//! A file of the operator's in `static/` at the same path replaces any of them.

mod agents;
mod feed;
mod forms;
mod llms;
mod openapi;
mod robots;
mod sitemap;
mod well_known;

use crate::pages::{Operator, Site, Summary, bracketed};

pub use forms::page_forms;

/// What the resources say beside what the pages and forms tell.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The site's name.
    pub title: String,
    /// One or two sentences about it.
    pub description: String,
    /// A language tag (BCP 47).
    pub language: String,
    /// Scheme and authority, without a trailing slash.
    pub base_url: String,
    /// Whose website it is.
    pub operator: Operator,
    /// Where vulnerabilities are reported.
    pub security_email: String,
    /// What may be done with the content.
    pub signals: Signals,
    /// Quotas of the forms for one source, a minute and an hour; none where they are switched off.
    pub quotas: Option<(u32, u32)>,
    /// Within which the same content, or the same `Idempotency-Key`, is the same submission.
    pub duplicate_window: std::time::Duration,
    /// The day from which `security.txt` counts its validity.
    pub today: jiff::civil::Date,
}

/// The operator's preferences in `robots.txt` (contentsignals.org); none where nothing is said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Signals {
    /// Building a search index.
    pub search: Option<bool>,
    /// Using pages as input of an answer.
    pub ai_input: Option<bool>,
    /// Training models.
    pub ai_train: Option<bool>,
}

/// Links that the home page's header carries, so that agents find the rest (RFC 8288, RFC 8631, RFC 9727).
pub fn home_links() -> Vec<String> {
    vec![
        "</.well-known/api-catalog>; rel=\"api-catalog\"".to_owned(),
        "</openapi.json>; rel=\"service-desc\"; type=\"application/json\"".to_owned(),
        "</agents.md>; rel=\"service-doc\"; type=\"text/markdown\"".to_owned(),
        "</llms.txt>; rel=\"describedby\"; type=\"text/plain\"".to_owned(),
    ]
}

/// The paths of the resources and the forms' endpoints, which no page may take.
pub fn paths() -> Vec<&'static str> {
    let resources = [
        "/llms.txt",
        "/llms-full.txt",
        "/agents.md",
        "/openapi.json",
        "/sitemap-index.xml",
        "/sitemap.xml",
        "/sitemap.md",
        "/robots.txt",
        "/blog/rss.xml",
        "/.well-known/security.txt",
        "/.well-known/api-catalog",
    ];
    resources.into_iter().chain(crate::inbox::form::FORMS.iter().map(|form| form.path)).collect()
}

/// Puts every resource on the site where the operator has no file of their own.
pub fn add(site: &mut Site, options: &Options) {
    let markdown = "text/markdown; charset=utf-8";
    let text = "text/plain; charset=utf-8";
    let pages = site.pages().to_vec();
    let llms_full = llms::full(site, options);
    site.insert_resource("/llms.txt", text, llms::guide(&pages, options));
    site.insert_resource("/llms-full.txt", text, llms_full);
    site.insert_resource("/agents.md", markdown, agents::build(&pages, options));
    site.insert_resource("/openapi.json", "application/json", openapi::build(&pages, options));
    site.insert_resource("/sitemap-index.xml", "application/xml", sitemap::index(&pages, options));
    site.insert_resource("/sitemap.xml", "application/xml", sitemap::urls(&pages, options));
    site.insert_resource("/sitemap.md", markdown, sitemap::markdown(&pages, options));
    site.insert_resource("/robots.txt", text, robots::build(options));
    site.insert_resource("/blog/rss.xml", "application/rss+xml", feed::build(&pages, options));
    if !options.security_email.is_empty() {
        // Without a contact it would not be one (RFC 9116 §2.5.3).
        site.insert_resource("/.well-known/security.txt", text, well_known::security_txt(&pages, options));
    }
    let linkset = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";
    site.insert_resource("/.well-known/api-catalog", linkset, well_known::api_catalog(&pages, options));
}

/// Whether there is a page at this path that guides list.
fn has(pages: &[Summary], path: &str) -> bool {
    pages.iter().any(|page| page.path == path)
}

/// What is said of limits, if there are any.
fn limited(options: &Options) -> &'static str {
    if options.quotas.is_some() { "; both are rate limited and monitored for abuse" } else { "" }
}

/// `24 hours`, `90 minutes`
fn in_words(duration: std::time::Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60);
    let (number, unit) =
        if minutes.is_multiple_of(60) { (minutes / 60, "hour") } else { (minutes, "minute") };
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

/// `- [Title](address): description`
fn list_item(base_url: &str, path: &str, page: &Summary) -> String {
    let title = bracketed(&page.title);
    match &page.description {
        Some(description) => format!("- [{title}]({base_url}{path}): {description}\n"),
        None => format!("- [{title}]({base_url}{path})\n"),
    }
}

/// Text as it may stand in XML 1.0, whose character set has hardly any control characters.
fn xml(text: &str) -> String {
    let allowed = |c: &char| {
        matches!(c, '\t' | '\n' | '\r') || (!c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))
    };
    let clean: String = text.chars().filter(allowed).collect();
    crate::pages::html::escape(&clean)
}
