//! The requests of the group links: a few of the URLs that pages, lists and declarations name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use frontdesk_convert::Url;
use http::{Method, header};

use super::caches::CachesSurvey;
use super::first_requests::{FirstRequests, sitemap_entries};
use crate::client::{Client, redirect_target};
use crate::client_profiles::{ANY, CHROME, CLAUDE_CODE, PRODUCT_TOKEN, WebClient};
use crate::exchange::{Exchange, Request};
use crate::language::languages;
use crate::link_header::parse_link_header;
use crate::page::Page;
use crate::rule_group::Group;

/// Maximum number of rounds after the first. Each follows one link of each list, within the request budget.
const MAX_FURTHER_ROUNDS: usize = 9;

/// Maximum number of feeds to request: sites often have one for news and one for comments.
const MAX_FEEDS: usize = 2;

/// Requests that must be left for a further round: a link of each list, and some HEADs that are refused or
/// redirects.
const REQUESTS_PER_ROUND: usize = 6;

/// The links that the audit followed. A URL in several of `llms`, `pages`, `markdown` and `sitemap` is
/// followed once, for the list that reaches it first.
#[derive(Default)]
pub struct LinksSurvey {
    pub llms: Vec<FollowedLink>,
    pub pages: Vec<FollowedLink>,
    pub markdown: Vec<FollowedLink>,
    pub sitemap: Vec<FollowedLink>,
    /// The first feeds that the pages declare, at most [`MAX_FEEDS`].
    pub feeds: Vec<FollowedLink>,
    /// A version of a page in another language. The page links to it, and the audit fetches it as a browser.
    pub language: Option<FollowedLink>,
    /// The canonical URL that a page declares, if it is not the page's own URL.
    pub canonical: Option<FollowedLink>,
    /// The address of a page with Markdown, with the slash at its end added or removed, as an agent gets it.
    /// Not requested if a cache might keep the Markdown for browsers.
    pub slash: Option<FollowedLink>,
}

/// A link that the audit followed, and the responses that it led to.
pub struct FollowedLink {
    /// The exchange whose body or header has the link.
    pub source: Arc<Exchange>,
    /// The redirects within the site and the last response; never empty.
    pub chain: Vec<Arc<Exchange>>,
}

impl FollowedLink {
    pub fn target(&self) -> &Url {
        self.chain[0].url()
    }

    /// The exchange with the last response, after all redirects.
    pub fn last(&self) -> &Arc<Exchange> {
        &self.chain[self.chain.len() - 1]
    }

    /// Why the link leads to no page: the status of the last response if that is 404, 410 or 5xx, or a clause
    /// about a redirect without a target. `None` without a response, and for other statuses, such as 401 and
    /// 403, which may depend on the client.
    pub fn failure(&self) -> Option<String> {
        match self.last().response()?.status.as_u16() {
            status @ (404 | 410 | 500..=599) => Some(status.to_string()),
            status @ (301 | 302 | 303 | 307 | 308) if redirect_target(self.last()).is_none() => {
                Some(format!("{status} without a valid `Location`"))
            }
            _ => None,
        }
    }
}

impl LinksSurvey {
    /// Sends the requests of the group: at most 9, and one more for each redirect and for each HEAD that is
    /// refused. Then follows more of the listed links, while the budget has requests left.
    pub(crate) async fn survey(
        client: &Client,
        first_requests: &FirstRequests,
        caches: &CachesSurvey,
    ) -> LinksSurvey {
        let mut survey = LinksSurvey::default();
        let mut follower = LinkFollower::new(client, first_requests);
        let pages = &first_requests.pages;
        let mut lists = listed_links(first_requests, caches);
        for list in &mut lists {
            list.links.retain(|(url, _)| follower.permits(url));
        }
        survey.follow_lists(&mut follower, &mut lists).await;
        let mut seen = HashSet::new();
        let declared = pages.iter().flat_map(|page| feeds(page).into_iter().map(move |url| (url, page)));
        let declared = declared.filter(|(url, _)| follower.permits(url) && seen.insert(url.clone()));
        for (url, page) in declared.take(MAX_FEEDS).collect::<Vec<_>>() {
            survey.feeds.extend(follower.follow(&url, &page.html, Method::GET, ANY).await);
        }
        survey.language = follower.follow_first(pages, CHROME, other_language).await;
        survey.canonical = follower.follow_first(pages, CHROME, other_canonical).await;
        if caches.is_agent_harmless {
            survey.slash = follower.follow_first(pages, first_requests.agent, other_slash).await;
        }
        for _ in 0..MAX_FURTHER_ROUNDS {
            if client.remaining() >= REQUESTS_PER_ROUND {
                survey.follow_lists(&mut follower, &mut lists).await;
            }
        }
        survey
    }

    /// Requests one more link of each list. Links with a known response are added without a request.
    async fn follow_lists(&mut self, follower: &mut LinkFollower<'_>, lists: &mut [LinkList<'_>; 4]) {
        let found = [&mut self.llms, &mut self.pages, &mut self.markdown, &mut self.sitemap];
        for (list, found) in lists.iter_mut().zip(found) {
            found.extend(follower.follow_next(list).await);
        }
    }
}

/// The links that documents of one kind contain.
struct LinkList<'a> {
    /// The absolute URLs that were not followed yet, each with the exchange that contains the link.
    links: Vec<(Url, &'a Arc<Exchange>)>,
    method: Method,
    as_client: WebClient,
}

/// The links of `llms.txt`, of the content of the HTML pages, of their Markdown, and of the sitemap: at most
/// [`MAX_LISTED`] of each, in the order of [`LinksSurvey::follow_lists`]. Leaves out links with a query in
/// pages and their Markdown, and links of the Markdown that the HTML has too, if it lacks others. Of the
/// sitemaps, takes only the last one, if it is a `<urlset>`.
fn listed_links<'a>(first_requests: &'a FirstRequests, caches: &CachesSurvey) -> [LinkList<'a>; 4] {
    let pages = &first_requests.pages;
    let llms = first_requests
        .llms
        .iter()
        .flat_map(|llms| first_requests.llms_links.iter().map(move |url| (url.clone(), llms)));
    let content =
        pages.iter().flat_map(|page| content_links(page).into_iter().map(move |url| (url, &page.html)));
    let sitemap = first_requests.sitemaps.last().filter(|sitemap| sitemap_entries(sitemap).0 == "urlset");
    let sitemap = sitemap
        .into_iter()
        .flat_map(|own| first_requests.sitemap_urls.iter().map(move |url| (url.clone(), own)));
    [
        LinkList { links: llms.take(MAX_LISTED).collect(), method: Method::GET, as_client: ANY },
        LinkList { links: content.take(MAX_LISTED).collect(), method: Method::HEAD, as_client: CHROME },
        LinkList {
            links: pages.iter().flat_map(markdown_links).take(MAX_LISTED).collect(),
            method: Method::HEAD,
            // Request as an agent only if harmless: a cache may turn HEAD into GET and store the Markdown.
            as_client: if caches.is_agent_harmless { first_requests.agent } else { CHROME },
        },
        LinkList { links: sitemap.take(MAX_LISTED).collect(), method: Method::HEAD, as_client: CHROME },
    ]
}

/// Maximum number of links to read from documents of one kind.
const MAX_LISTED: usize = 1_000;

/// Follows links of the site that `robots.txt` permits.
struct LinkFollower<'a> {
    client: &'a Client,
    first_requests: &'a FirstRequests,
    /// The earliest response for each URL to a GET request with only the `Accept` of a real client. Redirects
    /// are left out.
    known: HashMap<Url, Arc<Exchange>>,
    /// The URLs that were already followed for a list.
    seen: HashSet<Url>,
}

impl<'a> LinkFollower<'a> {
    /// Creates a follower that reuses the responses the audit has received so far.
    fn new(client: &'a Client, first_requests: &'a FirstRequests) -> LinkFollower<'a> {
        // Use only plain requests: others may be conditional or have an `Accept` that no real client sends.
        let accepted =
            [CHROME, CLAUDE_CODE, first_requests.agent, ANY].map(|client| client.accept.as_bytes());
        let is_plain = |exchange: &Arc<Exchange>| {
            let Request { method, headers, .. } = &exchange.request;
            let is_accept = |(name, value): &(_, http::HeaderValue)| {
                *name == header::ACCEPT && accepted.contains(&value.as_bytes())
            };
            *method == Method::GET
                && headers.len() == 1
                && headers.iter().all(is_accept)
                && redirect_target(exchange).is_none()
        };
        // Insert the earliest response to a URL last, so that the map keeps it.
        let plain = client.exchanges().into_iter().filter(is_plain).rev();
        let known = plain.map(|exchange| (exchange.url().clone(), exchange)).collect();
        LinkFollower { client, first_requests, known, seen: HashSet::new() }
    }

    /// Whether the URL belongs to the site and `robots.txt` permits it.
    fn permits(&self, url: &Url) -> bool {
        self.client.is_same_site(url) && self.first_requests.rules.permits(PRODUCT_TOKEN, url)
    }

    /// Takes the responses that are known, drops links that were already followed, and requests one of the
    /// other links: in the middle of those that are left, so that several calls spread over the list.
    async fn follow_next(&mut self, list: &mut LinkList<'_>) -> Vec<FollowedLink> {
        let mut followed = Vec::new();
        let LinkFollower { known, seen, .. } = self;
        list.links.retain(|(url, source)| match known.get(url) {
            _ if seen.contains(url) => false,
            Some(known) => {
                seen.insert(url.clone());
                followed.push(FollowedLink { source: (*source).clone(), chain: vec![known.clone()] });
                false
            }
            None => true,
        });
        if !list.links.is_empty() {
            let (url, source) = list.links.remove(list.links.len() / 2);
            seen.insert(url.clone());
            followed.extend(self.follow(&url, source, list.method.clone(), list.as_client).await);
        }
        followed
    }

    /// Requests the first permitted URL that `link` returns for one of the pages, even if its response is
    /// known.
    async fn follow_first(
        &mut self,
        pages: &[Page],
        as_client: WebClient,
        link: impl Fn(&Page) -> Option<Url>,
    ) -> Option<FollowedLink> {
        let found = pages.iter().filter_map(|page| Some((link(page)?, page)));
        let (url, page) = found.into_iter().find(|(url, _)| self.permits(url))?;
        self.follow(&url, &page.html, Method::GET, as_client).await
    }

    /// Requests a link, and follows its redirects as the client does. If the last response to HEAD is
    /// missing, has a status of 400 or above, or redirects without a target, starts again with GET: some
    /// servers do not support HEAD. `None` if a request, also the second one, may not be sent.
    async fn follow(
        &self,
        url: &Url,
        source: &Arc<Exchange>,
        method: Method,
        as_client: WebClient,
    ) -> Option<FollowedLink> {
        let request = |method| Request::new(method, url).accept(as_client.accept);
        let chain = self.client.follow(Group::Links, request(method.clone())).await.ok()?;
        let mut followed = FollowedLink { source: source.clone(), chain };
        let is_refused = followed.last().response().is_none_or(|response| response.status.as_u16() >= 400)
            || followed.failure().is_some();
        if method == Method::HEAD && is_refused {
            followed.chain = self.client.follow(Group::Links, request(Method::GET)).await.ok()?;
        }
        Some(followed)
    }
}

/// The links of a page's content, as its conversion to Markdown has them, to other URLs; without fragments.
/// Skips URLs with a query.
fn content_links(page: &Page) -> Vec<Url> {
    let links = page.reference.links.iter().filter_map(|link| page.resolve(link));
    links.filter(|url| url.query().is_none() && *url != page.url).collect()
}

/// The links of a page's Markdown, negotiated or from its twin, to other URLs; leaves out fragments, and URLs
/// with a query. If the content of the HTML lacks some of the links, returns only those: the conversion may
/// have made them wrong.
fn markdown_links(page: &Page) -> Vec<(Url, &Arc<Exchange>)> {
    let negotiated = page.agent.as_ref().zip(page.markdown.as_ref());
    let twin = page.twin.as_ref().zip(page.twin_markdown.as_ref());
    let in_html: HashSet<_> = content_links(page).into_iter().collect();
    let mut links: Vec<_> = [negotiated, twin]
        .into_iter()
        .flatten()
        .flat_map(|(exchange, markdown)| markdown.links.iter().map(move |link| (exchange, link)))
        .filter_map(|(exchange, link)| {
            let mut url = exchange.url().join(link).ok()?;
            url.set_fragment(None);
            let is_own = url == page.url || url == *exchange.url();
            (url.query().is_none() && !is_own).then_some((url, exchange))
        })
        .collect();
    if links.iter().any(|(url, _)| !in_html.contains(url)) {
        links.retain(|(url, _)| !in_html.contains(url));
    }
    links
}

/// The targets of a page's links that match a CSS selector.
fn head_links(page: &Page, css: &str) -> Vec<Url> {
    let links = page.select(css).into_iter().filter_map(|link| page.resolve(link.attribute("href")?));
    links.collect()
}

/// The RSS, Atom and JSON feeds that a page declares with `<link rel=alternate>`, on any host.
fn feeds(page: &Page) -> Vec<Url> {
    let css = "link[rel~=alternate][type='application/rss+xml'][href], \
               link[rel~=alternate][type='application/atom+xml'][href], \
               link[rel~=alternate][type='application/feed+json'][href]";
    head_links(page, css)
}

/// The first language version that a page declares, except `x-default` and the page itself.
fn other_language(page: &Page) -> Option<Url> {
    let found =
        languages(page).into_iter().find(|(url, language)| *url != page.url && language != "x-default");
    found.map(|(url, _)| url)
}

/// The first canonical URL that a page declares with `<link rel=canonical>`, or else in `Link` (RFC 6596).
pub fn canonical(page: &Page) -> Option<Url> {
    let declared = head_links(page, "link[rel~=canonical][href]").into_iter().next();
    declared.or_else(|| {
        let links = parse_link_header(&page.response().header(header::LINK));
        links.iter().find(|link| link.has_rel("canonical")).and_then(|link| link.resolve(&page.url))
    })
}

/// The page's canonical URL, unless it is the URL of the page.
fn other_canonical(page: &Page) -> Option<Url> {
    canonical(page).filter(|url| *url != page.url)
}

/// The page's URL with its trailing slash added or removed. `None` for `/` or without negotiated Markdown.
fn other_slash(page: &Page) -> Option<Url> {
    let path = page.markdown.as_ref().map(|_| page.url.path()).filter(|path| path.len() > 1)?;
    let mut url = page.url.clone();
    match path.strip_suffix('/') {
        Some(path) => url.set_path(path),
        None => url.set_path(&format!("{path}/")),
    }
    Some(url)
}
