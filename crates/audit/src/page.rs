//! A page of the audited site, as browsers and as agents get it.

use std::sync::Arc;

use frontdesk_convert::{Converted, HtmlElement, HtmlTree, Options, Selector, Url, convert};

use crate::exchange::{Exchange, Representation, Response};
use crate::markdown::MarkdownPage;

/// Maximum number of bytes of HTML to parse per page. The parsed tree takes up to 100 times as much memory.
const MAX_HTML: usize = 1 << 20;

/// Maximum length of a resolved link in bytes; longer links cannot be requested.
const MAX_URL: usize = 2_000;

/// A page with its HTML and, if the site negotiates, its Markdown.
pub struct Page {
    /// The URL of the page after redirects.
    pub url: Url,
    /// The response to a browser, with status 200 and HTML.
    pub html: Arc<Exchange>,
    pub tree: HtmlTree,
    /// The URL against which links are resolved: `<base href>`, or the page's own URL.
    base: Url,
    /// The Markdown that frontdesk makes from the HTML.
    pub converted: Converted,
    /// The parsed Markdown that frontdesk makes from the HTML. Rules compare the site's own Markdown with it.
    pub reference: MarkdownPage,
    /// The response to an agent that prefers Markdown, at a cache-busting URL; at the page's own if only that
    /// has Markdown. `None` if the request was not sent.
    pub agent: Option<Arc<Exchange>>,
    /// The Markdown at the page's URL, if the response to the agent is Markdown.
    pub markdown: Option<MarkdownPage>,
    /// The response to the address that the HTML or its `Link` field declares as the page's Markdown, or that
    /// `llms.txt` names.
    pub twin: Option<Arc<Exchange>>,
    /// The parsed body of the twin. `None` unless the status is 200, and the body is plain text or Markdown:
    /// declared, or recognized by its syntax.
    pub twin_markdown: Option<MarkdownPage>,
}

impl Page {
    /// Reads the response to a browser. `None` unless it is HTML with status 200. Parses at most [`MAX_HTML`]
    /// bytes, and marks a longer page as truncated in `converted`.
    pub(crate) fn read(html: &Arc<Exchange>) -> Option<Page> {
        let response = html.success().filter(|response| response.representation() == Representation::Html)?;
        let url = html.url().clone();
        let text = response.text();
        let is_cut = text.len() > MAX_HTML;
        let text = &text[..text.floor_char_boundary(MAX_HTML)];
        let tree = HtmlTree::parse(text);
        let mut converted = convert(text, &Options { url: Some(url.clone()), ..Options::default() });
        converted.is_truncated |= is_cut;
        let base = read_base(&tree, &url);
        let reference = MarkdownPage::parse(&converted.markdown);
        Some(Page {
            url,
            html: html.clone(),
            tree,
            base,
            converted,
            reference,
            agent: None,
            markdown: None,
            twin: None,
            twin_markdown: None,
        })
    }

    /// Replaces the response to an agent, and its Markdown: `None` unless the status is 200 and the body is
    /// Markdown.
    pub(crate) fn set_agent(&mut self, exchange: Arc<Exchange>) {
        let is_markdown = |response: &&Response| representation_of_page(response) == Representation::Markdown;
        self.markdown =
            exchange.success().filter(is_markdown).map(|response| MarkdownPage::parse(&response.text()));
        self.agent = Some(exchange);
    }

    /// Stores the response with the twin, and its Markdown if the status is 200 and the body is Markdown, or
    /// is declared as plain text and not HTML.
    pub(crate) fn set_twin(&mut self, exchange: Arc<Exchange>) {
        let is_markdown = |response: &&Response| match representation_of_page(response) {
            Representation::Markdown => true,
            Representation::Html => false,
            Representation::Other => response.media_type() == "text/plain",
        };
        self.twin_markdown =
            exchange.success().filter(is_markdown).map(|response| MarkdownPage::parse(&response.text()));
        self.twin = Some(exchange);
    }

    /// The response to the browser.
    pub fn response(&self) -> &Response {
        self.html.response().unwrap_or_else(|| unreachable!("checked when the page was read"))
    }

    /// The elements that match a CSS selector, in the part of the page that is parsed. Leaves out those in
    /// `<noscript>` and `<template>`, which a browser does not show; a template with a shadow root is shown.
    /// Panics if the selector is invalid.
    pub fn select(&self, css: &str) -> Vec<HtmlElement<'_>> {
        let is_inert = |above: HtmlElement<'_>| match above.name() {
            "template" => above.attribute("shadowrootmode").is_none(),
            name => name == "noscript",
        };
        let mut elements = self.tree.all(&selector(css));
        elements.retain(|element| !element.ancestors().any(is_inert));
        elements
    }

    /// Resolves a link of the page, also against `<base href>`; without the fragment. `None` for links that
    /// are not `http` or `https`, or longer than [`MAX_URL`].
    pub fn resolve(&self, link: &str) -> Option<Url> {
        resolve(&self.base, link)
    }

    /// The first URL of a sitemap that the page declares with `<link rel=sitemap>`. It may be on another
    /// site.
    pub fn sitemap(&self) -> Option<Url> {
        self.select("link[rel~=sitemap][href]").iter().find_map(|link| self.resolve(link.attribute("href")?))
    }
}

/// The kind of a response at the address of a page or its twin. Text that looks like Markdown is Markdown
/// even if it has no media type, or is called plain text or `application/octet-stream`.
pub(crate) fn representation_of_page(response: &Response) -> Representation {
    let is_vague = matches!(&*response.media_type(), "" | "text/plain" | "application/octet-stream");
    match response.representation() {
        Representation::Other if is_vague && looks_like_markdown(&response.body) => Representation::Markdown,
        representation => representation,
    }
}

/// Whether the response to a request for a page or its twin is Markdown with status 200.
pub(crate) fn is_markdown(exchange: &Exchange) -> bool {
    exchange.success().is_some_and(|response| representation_of_page(response) == Representation::Markdown)
}

/// Whether the bytes are UTF-8 text without NUL, with a line that begins with one to six `#` and a space,
/// with `- ` or with `* `, or that has `](` as in a link.
fn looks_like_markdown(body: &[u8]) -> bool {
    let is_markup = |line: &str| {
        let rest = line.trim_start_matches('#');
        let is_heading = (1..=6).contains(&(line.len() - rest.len())) && rest.starts_with(' ');
        is_heading || line.starts_with("- ") || line.starts_with("* ") || line.contains("](")
    };
    str::from_utf8(body).is_ok_and(|text| !text.contains('\0') && text.lines().any(is_markup))
}

fn selector(css: &str) -> Selector {
    Selector::parse(css).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The URL of the first `<base href>`, or the page's own `url` if there is none or it is invalid.
fn read_base(tree: &HtmlTree, url: &Url) -> Url {
    let elements = tree.all(&selector("base[href]"));
    let href = elements.first().and_then(|base| base.attribute("href"));
    href.and_then(|href| url.join(href.trim()).ok()).unwrap_or_else(|| url.clone())
}

/// Resolves a link against `base`; without the fragment. `None` for links that are not `http` or `https`, or
/// longer than [`MAX_URL`].
pub(crate) fn resolve(base: &Url, link: &str) -> Option<Url> {
    let mut url = base.join(link.trim()).ok()?;
    url.set_fragment(None);
    (matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_URL).then_some(url)
}
