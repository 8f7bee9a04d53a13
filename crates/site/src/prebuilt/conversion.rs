//! The conversion of a page of a build: its Markdown, and what else the site uses of it.

use std::collections::HashSet;
use std::sync::Arc;

use blake3::{Hash, Hasher};
use bytes::Bytes;
use frontdesk_convert::{Converted, Loss, Metadata, attributes};
use frontdesk_process::panics::Panic;
use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use super::form_control_check::{ShownForm, read_forms};
use super::forms::FormTexts;
use super::html_pages::HtmlPage;
use crate::fault::Fault;
use crate::link_resolution::is_local_file;
use crate::options::BuildOptions;
use crate::rules::content_security_policy::content_security_policy;

/// Identifies the code that converts pages, and the versions of its libraries: a conversion by other code may
/// differ.
const CONVERTER: &str = env!("FRONTDESK_CONVERTER");

/// A page with scripts and fewer letters and digits than this probably needs its scripts to show its text.
const MIN_SHELL_LETTERS: usize = 30;

/// The conversion of a page. Cloning it copies no text.
#[derive(Debug, Clone)]
pub(super) struct Conversion {
    pub facts: Arc<Facts>,
    /// The Markdown without front matter. `None` if it was dropped, because another conversion of the page is
    /// used.
    pub markdown: Option<Bytes>,
}

/// The result of converting a page, except for the Markdown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    #[serde(with = "MetadataFields")]
    pub metadata: Metadata,
    /// The content security policy.
    pub policy: String,
    /// The names of forms in the page's attributes `data-frontdesk`.
    pub forms: Vec<String>,
    /// The controls of the forms with `data-frontdesk`, except for those in a `<template>`.
    pub controls: Vec<ShownForm>,
    /// Two hashes of each block of links; see [`Converted::link_blocks`].
    pub link_blocks: Vec<[u64; 2]>,
    pub declared_title: Option<String>,
    pub has_title_as_heading: bool,
    pub is_selected: bool,
    pub problem: Option<Problem>,
}

/// A reason to doubt a page or its Markdown, which is reported as a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Problem {
    message: String,
    hint: String,
}

/// Mirrors the fields of [`Metadata`], whose crate does not use serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Metadata")]
struct MetadataFields {
    title: Option<String>,
    description: Option<String>,
    url: Option<String>,
    canonical: Option<String>,
    site: Option<String>,
    author: Option<String>,
    published: Option<String>,
    modified: Option<String>,
    language: Option<String>,
    image: Option<String>,
    redirect: Option<String>,
    forbids_index: bool,
    is_unlisted: bool,
}

/// The parts of a page that also occur on other pages: blocks of links, and the site's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shared {
    /// The hashes of the blocks of links that the page shares with other pages.
    pub links: HashSet<u64>,
    /// The name of the site, if the title or the first-level heading of the Markdown contains it.
    pub site_name: Option<String>,
    /// Whether most pages, at least three, have the site's name as their whole title. False if `site_name` is
    /// `None`.
    pub has_common_title: bool,
}

impl Conversion {
    /// Keeps the parts of the converter's result that the site uses. `html` is the HTML of the page.
    pub fn new(html: &str, converted: Converted) -> Self {
        let problem = find_problem(html, &converted);
        let policy = content_security_policy(&converted.embedded);
        let Converted {
            metadata,
            forms,
            markdown,
            link_blocks,
            declared_title,
            has_title_as_heading,
            is_selected,
            ..
        } = converted;
        let controls = if forms.is_empty() { Vec::new() } else { read_forms(html) };
        let facts = Facts {
            metadata,
            policy,
            forms,
            controls,
            link_blocks,
            declared_title,
            has_title_as_heading,
            is_selected,
            problem,
        };
        // Drop the unused capacity of the text.
        Self { facts: Arc::new(facts), markdown: Some(markdown.into_boxed_str().into_boxed_bytes().into()) }
    }

    /// The result for a page whose conversion panicked: Markdown that links to the HTML. The page's inline
    /// code is unknown, so the policy permits all of it.
    pub fn unconverted(page: &HtmlPage<'_>) -> Self {
        let metadata = Metadata { title: Some(page.path.clone()), ..Metadata::default() };
        let policy = content_security_policy(&frontdesk_convert::Embedded {
            // The content security policy then limits only which sites may show the page in a frame.
            has_policy: true,
            ..frontdesk_convert::Embedded::default()
        });
        let markdown = format!("This page is available as HTML: <{}>\n", page.url);
        Self {
            facts: Arc::new(Facts { metadata, policy, ..Facts::default() }),
            markdown: Some(markdown.into()),
        }
    }

    /// A warning that a conversion of `page` panicked, with the consequence for the page's Markdown.
    pub fn defect(&self, page: &HtmlPage<'_>, panic: &Panic) -> Fault {
        let is_converted = self.text() != Self::unconverted(page).text();
        let consequence = if is_converted {
            "the page's Markdown may contain links and a site name that other pages share"
        } else {
            "the page's Markdown only links to its HTML"
        };
        Fault::defect(&page.file.name, panic, consequence)
    }

    /// The Markdown without front matter. Empty if another conversion of the page is used instead.
    pub fn text(&self) -> &str {
        self.markdown.as_deref().and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }
}

/// The first problem of a page: its Markdown was truncated, text of the page is missing from it, the page
/// needs a file on the author's computer, or there is hardly any text. Pages that forbid indexing may have
/// hardly any text.
fn find_problem(html: &str, converted: &Converted) -> Option<Problem> {
    let problem =
        |message: &str, hint: &str| Some(Problem { message: message.to_owned(), hint: hint.to_owned() });
    if converted.is_truncated {
        return problem(
            "the page is too large or too deeply nested, so a part of it is missing from the Markdown",
            "",
        );
    }
    if converted.loss.letters > 0 {
        let Loss { letters, of, first, element, rule } = &converted.loss;
        let reason = rule.map_or_else(|| "a defect of the converter".to_owned(), |rule| rule.to_string());
        let message = format!(
            "{letters} of {of} letters of the main region are missing from the Markdown; the first missing text is \
             {first:?} in <{element}> ({reason})"
        );
        return problem(&message, "`frontdesk convert --explain FILE` shows what is left out, and why");
    }
    if let Some(link) = find_local_link(html) {
        let message = format!("`{link}` is a file on a computer, which visitors cannot open");
        return problem(&message, "add the file to the site, and link to it there");
    }
    if converted.metadata.is_unlisted {
        return None;
    }
    if converted.page_letters < MIN_SHELL_LETTERS && html.contains("<script") {
        let hint = "agents do not run scripts: configure the generator to render the page to HTML";
        return problem("the page has almost no text unless its scripts run", hint);
    }
    let hint = "in frontdesk.toml, set `[convert] main = \"…\"` to a CSS selector for the main content; \
                try a selector with `frontdesk convert FILE --selector …`";
    let is_empty = converted.page_letters > 0 && !converted.markdown.contains(char::is_alphanumeric);
    if is_empty { problem("the page has text, but its Markdown has none", hint) } else { None }
}

/// The first link of a page to a file on the author's computer ([`is_local_file`]).
fn find_local_link(html: &str) -> Option<&str> {
    let page = html.as_bytes();
    let may_begin_path = |colon: usize| {
        let before = &page[..colon];
        let is_drive = before.last().is_some_and(u8::is_ascii_alphabetic)
            && !before.iter().nth_back(1).is_some_and(u8::is_ascii_alphanumeric)
            && matches!(page.get(colon + 1), Some(b'/' | b'\\'));
        is_drive || before.last_chunk().is_some_and(|scheme: &[u8; 4]| scheme.eq_ignore_ascii_case(b"file"))
    };
    // Most pages have no such text. Looking for it first saves 3 % of the instructions of a first start.
    if !memchr_iter(b':', page).any(may_begin_path) {
        return None;
    }
    let is_link = |name: &str| ["src", "href"].iter().any(|link| link.eq_ignore_ascii_case(name));
    let mut links = attributes(html).filter(|(name, _)| is_link(name)).map(|(_, value)| &html[value]);
    links.find(|link| is_local_file(link))
}

impl Problem {
    /// Converts the problem into a warning about the page named `page`.
    pub fn fault(&self, page: &str) -> Fault {
        let fault = Fault::warning(page, None, self.message.clone());
        if self.hint.is_empty() { fault } else { fault.hint(self.hint.clone()) }
    }
}

/// Hashes the inputs that are the same for all pages of a build: the converter, the selectors, and the forms.
pub(super) fn hash_settings(build: &BuildOptions, forms: &FormTexts) -> Hash {
    let mut hasher = Hasher::new_derive_key("frontdesk settings of conversions");
    let forms = forms.iter().flat_map(|(name, text)| [name, text]);
    for text in [CONVERTER, &build.main, &build.exclude].into_iter().chain(forms.map(String::as_str)) {
        add_text(&mut hasher, text);
    }
    hasher.finalize()
}

/// Hashes everything that the conversion of a page depends on. Conversions with the same hash are equal.
pub(super) fn hash_inputs(page: &HtmlPage<'_>, settings: &Hash, shared: &Shared) -> Hash {
    let mut hasher = Hasher::new_derive_key("frontdesk inputs of a conversion");
    hasher.update(settings.as_bytes()).update(page.file.blob.hash.as_bytes());
    add_text(&mut hasher, &page.url);
    let mut links: Vec<u64> = shared.links.iter().copied().collect();
    links.sort_unstable();
    hasher.update(&links.len().to_le_bytes());
    for link in links {
        hasher.update(&link.to_le_bytes());
    }
    if let Some(name) = &shared.site_name {
        add_text(&mut hasher, name);
    }
    hasher.update(&[u8::from(shared.has_common_title)]);
    hasher.finalize()
}

fn add_text(hasher: &mut Hasher, text: &str) {
    hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
}
