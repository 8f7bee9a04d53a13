//! The first requests: `robots.txt`, the page that the operator named, the lists of pages, and a few pages.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use frontdesk_convert::Url;
use http::StatusCode;
use roxmltree::Document;

use crate::client::{Client, Denial, challenge, redirect_target};
use crate::client_profiles::{CHROME, CLAUDE_CODE, MARKDOWN_ONLY, PRODUCT_TOKEN, WebClient};
use crate::declared_markdown::declared_twin;
use crate::error::AuditError;
use crate::exchange::{Exchange, Representation, Request};
use crate::markdown::MarkdownPage;
use crate::page::{Page, is_markdown};
use crate::robots::Robots;
use crate::rule_group::Group;
use crate::xml;

/// The results of the first requests, which all other parts of the survey use.
pub struct FirstRequests {
    /// The URL that the operator named, after redirects.
    pub url: Url,
    /// The exchanges from the named URL through its redirects to the page.
    pub named_url_chain: Vec<Arc<Exchange>>,
    pub robots: Arc<Exchange>,
    /// The rules of `robots.txt`; empty unless it is text with status 200.
    pub rules: Rc<Robots>,
    /// The response to `/llms.txt`, which may be an error, or to the one in the folder of the audited page if
    /// only that exists. After redirects, if they lead to text.
    pub llms: Option<Arc<Exchange>>,
    /// The links of `llms.txt`, absolute, without fragments and duplicates, in order; empty if there is none.
    pub llms_links: Vec<Url>,
    /// The responses: first for the sitemap of this site that `robots.txt` names, otherwise for the one that
    /// the first page names with `<link rel=sitemap>`, otherwise for `/sitemap.xml` or that in the folder of
    /// the audited page. If it is an index, then for its first sitemap.
    pub sitemaps: Vec<Arc<Exchange>>,
    /// The URLs of pages in the sitemap, in order, at most [`MAX_SITEMAP_URLS`].
    pub sitemap_urls: Vec<Url>,
    /// The pages to compare: first the one that the operator named. Never empty.
    pub pages: Vec<Page>,
    /// The agent whose `Accept` the survey sends: Claude Code, or [`MARKDOWN_ONLY`].
    pub agent: WebClient,
    /// The response with status 200 but without Markdown that Claude Code got for the first page. Its media
    /// types have equal weights. Only if the site has Markdown for clients that accept nothing else.
    pub tie: Option<Arc<Exchange>>,
}

/// Maximum number of URLs from a sitemap, or links from a page, to check against `robots.txt`.
const MAX_CANDIDATES: usize = 1_000;

/// Maximum number of URLs that are read from a sitemap.
pub const MAX_SITEMAP_URLS: usize = 50_000;

impl FirstRequests {
    /// Whether an agent got at least one of the pages as Markdown.
    pub fn negotiates(&self) -> bool {
        self.pages.iter().any(|page| page.markdown.is_some())
    }

    /// Sends the first requests. Fails if the named URL does not lead to an HTML page with status 200, or if
    /// the request for it or for `robots.txt` may not be sent. If a cache may have caused Markdown there,
    /// reads the page at a cache-busting URL.
    pub(crate) async fn survey(client: &Client, target: &Url) -> Result<FirstRequests, AuditError> {
        let named_url_chain = fetch_named_url(client, target).await?;
        let last = named_url_chain[named_url_chain.len() - 1].clone();
        let url = last.url().clone();
        let page = match Page::read(&last) {
            Some(page) => page,
            None => read_fresh(client, &last)
                .await
                .ok_or_else(|| AuditError::NotServed(refusal(&named_url_chain)))?,
        };
        let robots = url.join("/robots.txt").map_err(|error| AuditError::Unreachable(error.to_string()))?;
        let robots = client.send(Group::Files, Request::get(&robots).accept("*/*")).await;
        let robots = robots.map_err(|denial| unsent("robots.txt", &denial))?;
        let rules = Rc::new(text_of(&robots).map_or_else(Robots::default, |text| Robots::parse(&text)));
        client.respect(rules.clone());

        let llms = at_root_or_below(client, &url, "llms.txt").await;
        let llms_links = llms.as_deref().map_or_else(Vec::new, llms_links);
        let named = rules.sitemaps.iter().filter_map(|sitemap| url.join(sitemap).ok()).chain(page.sitemap());
        let named = named.into_iter().find(|sitemap| client.is_same_site(sitemap));
        let (sitemaps, sitemap_urls) = survey_sitemaps(client, &url, named).await;
        let mut first_requests = FirstRequests {
            url,
            named_url_chain,
            robots,
            rules,
            llms,
            llms_links,
            sitemaps,
            sitemap_urls,
            pages: vec![page],
            agent: CLAUDE_CODE,
            tie: None,
        };
        first_requests.survey_pages(client).await;
        Ok(first_requests)
    }

    /// Fetches further pages, at most one redirect away, and each page as an agent at a cache-busting URL and
    /// at the address of its Markdown, declared or listed in `llms.txt`, if that is another URL of this site.
    /// If Claude Code gets the first page, but none of the pages as Markdown, tries [`MARKDOWN_ONLY`] on the
    /// first page. If that returns Markdown, requests all pages again as this agent.
    async fn survey_pages(&mut self, client: &Client) {
        let chosen = self.choose_pages(client);
        let requests = chosen.iter().map(|url| Request::get(url).accept(CHROME.accept)).collect();
        for mut exchange in client.send_all(Group::Parity, requests).await.into_iter().flatten() {
            // Follow one redirect: a sitemap often names pages with `.html` or without a trailing slash.
            let target = redirect_target(&exchange).filter(|target| client.is_same_site(target));
            if let Some(target) = target.filter(|target| !self.has_page(target)) {
                let request = Request::get(&target).accept(CHROME.accept);
                let Ok(page) = client.send(Group::Parity, request).await else { continue };
                exchange = page;
            }
            let page = Page::read(&exchange).filter(|page| !self.has_page(&page.url));
            self.pages.extend(page);
        }
        self.ask_as_agent(client, CLAUDE_CODE).await;
        let html = self.pages[0].agent.clone().filter(|agent| agent.success().is_some());
        if let Some(html) = html.filter(|_| !self.negotiates()) {
            let request = Request::get(&client.fresh(&self.pages[0].url)).accept(MARKDOWN_ONLY.accept);
            let only = client.send(Group::Parity, request).await;
            if only.is_ok_and(|only| is_markdown(&only)) {
                self.tie = Some(html);
                self.ask_as_agent(client, MARKDOWN_ONLY).await;
            }
        }
        let twin = |page: &Page| declared_twin(page).or_else(|| self.listed_twin(page));
        let twins: Vec<_> = self.pages.iter().map(twin).collect();
        for (page, twin) in self.pages.iter_mut().zip(twins) {
            if let Some(twin) = twin.filter(|twin| client.is_same_site(twin) && *twin != page.url) {
                let request = Request::get(&twin).accept("*/*");
                client.send(Group::Parity, request).await.into_iter().for_each(|twin| page.set_twin(twin));
            }
        }
    }

    /// Sets `agent`, and requests each page as it, at a cache-busting URL: at the page's own URL, a cache
    /// whose key lacks `Accept` would keep the Markdown for browsers. If the request for a page is not sent,
    /// the page keeps its earlier response.
    async fn ask_as_agent(&mut self, client: &Client, agent: WebClient) {
        self.agent = agent;
        let request = |page: &Page| Request::get(&client.fresh(&page.url)).accept(agent.accept);
        let requests = self.pages.iter().map(request).collect();
        let exchanges = client.send_all(Group::Parity, requests).await;
        for (page, exchange) in self.pages.iter_mut().zip(exchanges) {
            if let Ok(exchange) = exchange {
                page.set_agent(exchange);
            }
        }
    }

    fn has_page(&self, url: &Url) -> bool {
        self.pages.iter().any(|page| page.url == *url)
    }

    /// The first link in `llms.txt` on the page's host and without a query whose path is that of the page
    /// with a Markdown ending: `/a.md`, `/a.html.md`, `/a/index.md` or `/a/index.html.md` for `/a`, `/a/`
    /// and `/a.html`.
    fn listed_twin(&self, page: &Page) -> Option<Url> {
        let path = page.url.path();
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(".html").unwrap_or(path);
        let path = path.strip_suffix("/index").unwrap_or(path);
        let is_twin = |url: &&Url| {
            let own = url.path().strip_suffix(".md").map(|own| own.strip_suffix(".html").unwrap_or(own));
            let is_own = own.is_some_and(|own| own.strip_suffix("/index").unwrap_or(own) == path);
            is_own && url.host_str() == page.url.host_str() && url.query().is_none()
        };
        self.llms_links.iter().find(is_twin).cloned()
    }

    /// Pages to compare in addition to the first, at most as many as the options ask for: spread over the
    /// sitemap, or over the links of the first page if no URL of the sitemap is suitable. Leaves out the
    /// first page, URLs with a query, of other sites, and of files other than HTML. Takes URLs that
    /// `robots.txt` disallows only if there are too few others: the client declines them, and the report
    /// says so.
    fn choose_pages(&self, client: &Client) -> Vec<Url> {
        let wanted = client.options().pages.saturating_sub(1);
        let first = &self.pages[0];
        let linked = || {
            let links = first.select("main a[href], article a[href], a[href]");
            links.into_iter().filter_map(|link| first.resolve(link.attribute("href")?)).collect::<Vec<_>>()
        };
        let is_page = |url: &&Url| {
            let name = url.path().rsplit('/').next().unwrap_or_default();
            let is_document = !name.contains('.') || name.ends_with(".html") || name.ends_with(".htm");
            is_document && url.query().is_none() && client.is_same_site(url) && **url != first.url
        };
        // Selects the URLs of pages, and splits them by whether `robots.txt` permits the audit to fetch them.
        let sort = |urls: &[Url]| -> (Vec<Url>, Vec<Url>) {
            let mut seen = HashSet::new();
            let pages: Vec<_> =
                urls.iter().filter(is_page).filter(|url| seen.insert(*url)).cloned().collect();
            let candidates = spread(&pages, MAX_CANDIDATES);
            candidates.into_iter().partition(|url| self.rules.permits(PRODUCT_TOKEN, url))
        };
        let (mut permitted, mut disallowed) = sort(&self.sitemap_urls);
        if permitted.is_empty() {
            let (linked, others) = sort(&linked());
            permitted = linked;
            disallowed.extend(others);
        }
        let mut chosen = spread(&permitted, wanted);
        chosen.extend(disallowed.into_iter().take(wanted - chosen.len()));
        chosen
    }
}

/// At most `wanted` of the URLs, evenly spaced and in order.
fn spread(urls: &[Url], wanted: usize) -> Vec<Url> {
    let count = wanted.min(urls.len());
    (0..count).map(|index| urls[index * urls.len() / count].clone()).collect()
}

/// Fetches the URL that the operator named as a browser does, and follows its redirects. Returns all
/// exchanges, at least one. Fails if the request may not be sent, or if the last exchange has no response.
async fn fetch_named_url(client: &Client, target: &Url) -> Result<Vec<Arc<Exchange>>, AuditError> {
    let request = Request::get(target).accept(CHROME.accept);
    let chain = client.follow(Group::Basics, request).await.map_err(|denial| unsent("the page", &denial))?;
    let last = &chain[chain.len() - 1];
    if let Err(error) = &last.outcome {
        return Err(AuditError::Unreachable(format!("cannot fetch {}: {error}", last.url())));
    }
    Ok(chain)
}

/// If a browser got Markdown at the URL of a page, reads the page at a cache-busting URL instead, since a
/// cache may have caused that. The result has the original URL. `None` if the response was not Markdown, or
/// if the cache-busting URL has no HTML either.
async fn read_fresh(client: &Client, wrong: &Exchange) -> Option<Page> {
    wrong.success().filter(|response| response.representation() == Representation::Markdown)?;
    let request = Request::get(&client.fresh(wrong.url())).accept(CHROME.accept);
    let mut page = Page::read(&client.send(Group::Basics, request).await.ok()?)?;
    page.url = wrong.url().clone();
    Some(page)
}

/// The error for an audit that is not allowed to send a request for `what`.
fn unsent(what: &str, denial: &Denial) -> AuditError {
    AuditError::NotServed(format!("cannot request {what}: {denial}"))
}

/// Describes why the last response of a chain, which is not HTML with status 200, is not a page that can be
/// audited.
fn refusal(chain: &[Arc<Exchange>]) -> String {
    let Some(exchange) = chain.last() else { return String::new() };
    let url = exchange.url();
    let Some(response) = exchange.response() else { return format!("{url} gave no response") };
    if let Some(challenge) = challenge(response) {
        return format!("{url}: {challenge}");
    }
    if let Some(target) = redirect_target(exchange) {
        if chain.iter().any(|earlier| *earlier.url() == target) {
            let sets_cookie = response.headers.contains_key(http::header::SET_COOKIE);
            let cookie = if sets_cookie {
                ": the site sets a cookie, which neither the audit nor agents send back"
            } else {
                ""
            };
            return format!("the redirects lead back to {target} and never reach a page{cookie}");
        }
        return format!("{url} redirects to {target}: audit that URL if it is the site");
    }
    match response.status {
        StatusCode::UNAUTHORIZED => {
            format!("{url} asks for a login: send credentials with `--header 'Authorization: …'`")
        }
        StatusCode::OK => match &*response.media_type() {
            "" => format!("{url} is not an HTML page, and has no `Content-Type`: audit a page"),
            kind => format!("{url} is not an HTML page (`Content-Type: {kind}`): audit a page"),
        },
        status => format!("{url} answered {status}"),
    }
}

/// Fetches the file at `path`, which is resolved against `url` and may be absolute. Follows redirects within
/// the site, but returns the first response unless they lead to text ([`text_of`]): a redirect to a page
/// means that there is no file. `None` if the request may not be sent.
pub(crate) async fn at(client: &Client, url: &Url, path: &str) -> Option<Arc<Exchange>> {
    let chain = client.follow(Group::Files, Request::get(&url.join(path).ok()?).accept("*/*")).await.ok()?;
    chain.last().filter(|last| text_of(last).is_some()).or(chain.first()).cloned()
}

/// Fetches a file at the root of the site. If that is no text ([`text_of`]), and the audited page is in a
/// folder, such as a project on a code host, fetches the file from that folder. Returns the response at the
/// root if neither is text. `None` if the request at the root may not be sent.
async fn at_root_or_below(client: &Client, url: &Url, name: &str) -> Option<Arc<Exchange>> {
    let root = at(client, url, &format!("/{name}")).await?;
    if text_of(&root).is_some() || url.join(".").is_ok_and(|folder| folder.path() == "/") {
        return Some(root);
    }
    let below = at(client, url, name).await.filter(|below| text_of(below).is_some());
    Some(below.unwrap_or(root))
}

/// The body as text, if the status is 200 and the body is not an HTML page. It may be incomplete or binary.
pub(crate) fn text_of(exchange: &Exchange) -> Option<String> {
    let response = exchange.success()?;
    (!response.is_page()).then(|| response.text().into_owned())
}

/// The `http` and `https` links of `llms.txt`: absolute, without fragments and duplicates, in order.
fn llms_links(exchange: &Exchange) -> Vec<Url> {
    let Some(text) = text_of(exchange) else { return Vec::new() };
    let targets = MarkdownPage::parse(&text).links;
    let mut seen = HashSet::new();
    let links = targets.iter().filter_map(|target| {
        let mut url = exchange.url().join(target).ok()?;
        url.set_fragment(None);
        matches!(url.scheme(), "http" | "https").then_some(url)
    });
    links.filter(|url| seen.insert(url.clone())).collect()
}

/// Returns the responses of [`FirstRequests::sitemaps`], and the URLs of the last one. If the first part of
/// an index cannot be requested, these are the URLs of the parts.
async fn survey_sitemaps(client: &Client, url: &Url, named: Option<Url>) -> (Vec<Arc<Exchange>>, Vec<Url>) {
    let first = match named {
        Some(named) => at(client, url, named.as_str()).await,
        None => at_root_or_below(client, url, "sitemap.xml").await,
    };
    let Some(first) = first else { return Default::default() };
    let (kind, mut urls) = sitemap_entries(&first);
    let mut sitemaps = vec![first];
    if kind == "sitemapindex"
        && let Some(part) = urls.first().map(|part| locate_part(client, url, part))
        && let Ok(part) = client.send(Group::Files, Request::get(&part).accept("*/*")).await
    {
        urls = sitemap_entries(&part).1;
        sitemaps.push(part);
    }
    (sitemaps, urls)
}

/// The URL of a part of a sitemap. A site on a private address may be a local copy, which names the parts by
/// their public URLs: they are expected at the same paths, without their queries.
fn locate_part(client: &Client, url: &Url, part: &Url) -> Url {
    let is_elsewhere = !client.is_public() && !client.is_same_site(part);
    let own = is_elsewhere.then(|| url.join(part.path()).ok()).flatten();
    own.unwrap_or_else(|| part.clone())
}

/// The name of a sitemap's root element, empty if it cannot be parsed as XML or lacks status 200, and the
/// first [`MAX_SITEMAP_URLS`] absolute URLs of its [`sitemap_locations`].
pub(crate) fn sitemap_entries(exchange: &Exchange) -> (String, Vec<Url>) {
    let Some(text) = text_of(exchange) else { return Default::default() };
    let Ok(document) = xml::parse(&text, false) else { return Default::default() };
    let urls = sitemap_locations(&document).filter_map(|(_, url)| url).take(MAX_SITEMAP_URLS);
    (document.root_element().tag_name().name().to_owned(), urls.collect())
}

/// Each `<loc>` of a `<url>` or `<sitemap>`: its text, and the URL if the text is an absolute URL.
pub(crate) fn sitemap_locations<'a>(
    document: &'a Document<'_>,
) -> impl Iterator<Item = (&'a str, Option<Url>)> {
    let is_entry = |name: &str| matches!(name, "url" | "sitemap");
    let locations = document.descendants().filter(move |node| {
        let parent = || node.parent_element().is_some_and(|parent| is_entry(parent.tag_name().name()));
        node.tag_name().name() == "loc" && parent()
    });
    let texts = locations.map(|node| node.text().unwrap_or_default().trim());
    texts.map(|text| (text, Url::parse(text).ok().filter(Url::has_host)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::rules::fixtures::{page, public, survey};

    #[tokio::test]
    async fn pages_are_chosen_from_those_that_robots_txt_permits() {
        for (rules, sitemap, links, expected) in [
            ("", &["/", "/a", "/b", "/c", "/d"][..], &["/x"][..], &["/a", "/c"][..]),
            (
                "Disallow: /a
Disallow: /c",
                &["/a", "/b", "/c", "/d"],
                &["/x"],
                &["/b", "/d"],
            ),
            (
                "Disallow: /a
Disallow: /c",
                &["/a", "/b", "/c"],
                &["/x"],
                &["/b", "/a"],
            ),
            ("Disallow: /a", &["/a", "/a/b"], &["/x", "/a/c", "/y"], &["/x", "/y"]),
            ("Disallow: /a", &["/a", "/a/b"], &["/a/c"], &["/a", "/a/b"]),
            ("Disallow: /x", &["/a.pdf", "/a?b"], &["/x", "/y#z", "/y"], &["/y", "/x"]),
        ] {
            let target = Url::parse("http://127.0.0.1/").unwrap();
            let html: String = links.iter().map(|link| format!("<a href='{link}'>x</a>")).collect();
            let mut first_requests = survey(&page(target.as_str(), &[], &html), public()).first_requests;
            first_requests.rules = Rc::new(Robots::parse(&format!(
                "User-agent: *
{rules}"
            )));
            first_requests.sitemap_urls = sitemap.iter().map(|path| target.join(path).unwrap()).collect();
            let options = Options { pages: 3, ..Options::default() };
            let client = Client::new(&target, &options, 1).await.unwrap();
            let chosen = first_requests.choose_pages(&client);
            assert_eq!(chosen.iter().map(Url::path).collect::<Vec<_>>(), expected, "{rules} {sitemap:?}");
        }
    }
}
