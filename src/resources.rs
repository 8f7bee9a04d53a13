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

use crate::pages::file::{Cache, File};
use crate::pages::{Operator, Site, Summary, bracketed, in_parallel};

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
    /// Within this time, messages with the same content are one submission.
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

const TEXT: &str = "text/plain; charset=utf-8";
const MARKDOWN: &str = "text/markdown; charset=utf-8";
const XML: &str = "application/xml";
const LINKSET: &str = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";

/// A resource's text; none where there is nothing true to say.
type Build = fn(&Site, &Options) -> Option<String>;

/// Every resource: where it is, what it is, and how it is made.
const RESOURCES: [(&str, &str, Build); 11] = [
    ("/llms.txt", TEXT, |site, options| Some(llms::guide(site.pages(), options))),
    ("/llms-full.txt", TEXT, |site, options| Some(llms::full(site, options))),
    ("/agents.md", MARKDOWN, |site, options| Some(agents::build(site.pages(), options))),
    ("/openapi.json", "application/json", |site, options| Some(openapi::build(site.pages(), options))),
    ("/sitemap-index.xml", XML, |site, options| Some(sitemap::index(site.pages(), options))),
    ("/sitemap.xml", XML, |site, options| Some(sitemap::urls(sitemap::parts(site.pages())[0].1, options))),
    ("/sitemap.md", MARKDOWN, |site, options| Some(sitemap::markdown(site.pages(), options))),
    ("/robots.txt", TEXT, |_, options| Some(robots::build(options))),
    ("/blog/rss.xml", "application/rss+xml", |site, options| Some(feed::build(site.pages(), options))),
    // Without a contact it would not be one (RFC 9116 §2.5.3).
    ("/.well-known/security.txt", TEXT, |site, options| {
        (!options.security_email.is_empty()).then(|| well_known::security_txt(site.pages(), options))
    }),
    ("/.well-known/api-catalog", LINKSET, |site, options| {
        Some(well_known::api_catalog(site.pages(), options))
    }),
];

/// The paths of the resources and the forms' endpoints, which no page may take.
pub fn paths() -> Vec<&'static str> {
    let endpoints = crate::forms::FORMS.iter().map(|form| form.path);
    RESOURCES.iter().map(|(path, ..)| *path).chain(endpoints).collect()
}

/// Puts every resource on the site where the operator has no file of their own.
pub fn add(site: &mut Site, options: &Options) {
    let files = in_parallel(&RESOURCES, |(_, media_type, build)| {
        Some(File::new(media_type, Cache::Revalidate, build(site, options)?))
    });
    for ((path, ..), file) in RESOURCES.iter().zip(files) {
        if let Some(file) = file {
            site.insert_resource(path, file);
        }
    }
    let further: Vec<(String, File)> = sitemap::parts(site.pages())
        .into_iter()
        .skip(1)
        .map(|(path, pages)| (path, File::new(XML, Cache::Revalidate, sitemap::urls(pages, options))))
        .collect();
    for (path, file) in further {
        site.insert_resource(&path, file);
    }
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
