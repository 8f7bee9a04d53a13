//! The requests of the group caches: the same URLs as browsers and agents request them, in turn.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::{Method, header};

use super::basis::Basis;
use crate::client::Client;
use crate::clients::{CHROME, CLAUDE_CODE, WebClient};
use crate::exchange::{Exchange, Representation, Request};
use crate::group::Group;
use crate::page::Page;

/// A path that no site has.
pub const UNKNOWN_PATH: &str = "/frontdesk-audit-no-such-page";

/// The exchanges of the group caches. A field is empty if its requests were not sent: because the
/// site does not negotiate, has no `ETag` or no redirect, or because the budget did not suffice.
#[derive(Default)]
pub struct CachesSurvey {
    /// The index of the page in [`Basis::pages`] whose URL was requested: the first one, unless only a
    /// later one has Markdown.
    pub page: usize,
    /// An agent, a browser and an agent at an unused URL. Only the first request if the site does not
    /// negotiate.
    pub agent_first: Vec<Arc<Exchange>>,
    /// A browser, an agent and a browser at another unused URL.
    pub browser_first: Vec<Arc<Exchange>>,
    /// A browser, an agent and a browser at the page's own URL; the first two are those of the basis.
    pub in_turn: Vec<Arc<Exchange>>,
    /// A browser that accepts gzip, and one that accepts no coding, at one URL.
    pub encodings: Vec<Arc<Exchange>>,
    /// A browser with the `ETag` of the HTML.
    pub not_modified_html: Option<Arc<Exchange>>,
    /// An agent with the `ETag` of the Markdown.
    pub not_modified_markdown: Option<Arc<Exchange>>,
    /// An agent with the `ETag` of the HTML, if that of the Markdown is another.
    pub crossed: Option<Arc<Exchange>>,
    /// A HEAD request of the page's own URL by an agent, or by a browser if the site does not negotiate.
    pub head_html: Option<Arc<Exchange>>,
    pub head_markdown: Option<Arc<Exchange>>,
    /// A URL that does not exist, after redirects, by a browser and by an agent. Each has an unused
    /// query of its own.
    pub not_found_html: Option<Arc<Exchange>>,
    pub not_found_markdown: Option<Arc<Exchange>>,
    /// The page at an unused URL by a client that accepts only PDF.
    pub not_acceptable: Option<Arc<Exchange>>,
    /// The URL that redirected the first browser, by an agent.
    pub redirect_markdown: Option<Arc<Exchange>>,
}

impl CachesSurvey {
    /// Sends the requests of the group: at most 20 if the site negotiates, otherwise at most 7.
    pub(crate) async fn survey(client: &Client, basis: &Basis) -> CachesSurvey {
        let mut survey = CachesSurvey::default();
        survey.try_page(client, basis, 0).await;
        // The first page is not enough to tell: a cache may have only its HTML.
        let negotiated = basis.pages.iter().position(|page| page.markdown.is_some());
        if let Some(index) = negotiated.filter(|_| !survey.negotiates()) {
            survey.try_page(client, basis, index).await;
        }
        let page = &basis.pages[survey.page];
        survey.survey_sequences(client, page).await;
        survey.survey_conditions(client, page).await;
        survey.survey_statuses(client, basis).await;
        survey
    }

    /// Whether the site has Markdown for agents, at the URLs of pages or at least where no cache has a
    /// response yet.
    pub fn negotiates(&self) -> bool {
        self.agent_first.iter().chain(&self.in_turn).any(|exchange| is_markdown(exchange))
    }

    /// Requests a page as an agent at a URL of which no cache has a response.
    async fn try_page(&mut self, client: &Client, basis: &Basis, index: usize) {
        let page = &basis.pages[index];
        self.page = index;
        let browser = if index == 0 { basis.arrival.last() } else { Some(&page.html) };
        self.in_turn = [browser, page.agent.as_ref()].into_iter().flatten().cloned().collect();
        self.agent_first = send_in_order(client, vec![request(&client.fresh(&page.url), CLAUDE_CODE)]).await;
    }

    async fn survey_sequences(&mut self, client: &Client, page: &Page) {
        let second = client.fresh(&page.url);
        let browser = |coding| request(&second, CHROME).header(header::ACCEPT_ENCODING, coding);
        let mut codings = vec![browser("gzip"), browser("identity")];
        if !self.negotiates() {
            self.encodings = send_in_order(client, codings).await;
            return;
        }
        let first = self.agent_first.first().map(|exchange| exchange.url());
        let after_agent =
            first.map_or_else(Vec::new, |first| vec![request(first, CHROME), request(first, CLAUDE_CODE)]);
        codings.splice(0..0, [browser("gzip"), request(&second, CLAUDE_CODE)]);
        let (agent_first, mut browser_first) =
            tokio::join!(send_in_order(client, after_agent), send_in_order(client, codings));
        self.agent_first.extend(agent_first);
        self.encodings = browser_first.iter().skip(2).cloned().collect();
        browser_first.truncate(3);
        self.browser_first = browser_first;
        // The last request at a URL that others use is a browser's: a cache without a key for `Accept`
        // that expires now must not keep Markdown for people.
        self.in_turn.extend(send_in_order(client, vec![request(&page.url, CHROME)]).await);
    }

    async fn survey_conditions(&mut self, client: &Client, page: &Page) {
        let etag =
            |exchange: &Arc<Exchange>| exchange.success().map(|response| response.header(header::ETAG));
        let html = etag(&page.html).filter(|etag| !etag.is_empty());
        let agent = page.agent.as_ref().filter(|_| page.markdown.is_some());
        let markdown = agent.and_then(etag).filter(|etag| !etag.is_empty());
        let is_other =
            |html: &&String| markdown.as_ref().is_some_and(|own| opaque_tag(own) != opaque_tag(html));
        let other = html.as_ref().filter(is_other);
        let conditional = async |as_client: WebClient, etag: Option<&String>| {
            let request = request(&page.url, as_client).header(header::IF_NONE_MATCH, etag?);
            client.send(Group::Caches, request).await.ok()
        };
        (self.not_modified_html, self.not_modified_markdown) =
            tokio::join!(conditional(CHROME, html.as_ref()), conditional(CLAUDE_CODE, markdown.as_ref()));
        self.crossed = conditional(CLAUDE_CODE, other).await;
    }

    async fn survey_statuses(&mut self, client: &Client, basis: &Basis) {
        let url = &basis.pages[self.page].url;
        let head = async |as_client: WebClient| {
            let request = Request::new(Method::HEAD, url).accept(as_client.accept);
            client.send(Group::Caches, request).await.ok()
        };
        let not_found = async |as_client: WebClient| {
            let url = client.fresh(&url.join(UNKNOWN_PATH).ok()?);
            client.follow(Group::Caches, request(&url, as_client)).await.ok()?.pop()
        };
        if !self.negotiates() {
            (self.head_html, self.not_found_html) = tokio::join!(head(CHROME), not_found(CHROME));
            return;
        }
        self.not_found_html = not_found(CHROME).await;
        (self.head_markdown, self.not_found_markdown) =
            tokio::join!(head(CLAUDE_CODE), not_found(CLAUDE_CODE));
        let pdf = Request::get(&client.fresh(url)).accept("application/pdf");
        self.not_acceptable = client.send(Group::Caches, pdf).await.ok();
        if let [redirect, _, ..] = &*basis.arrival {
            self.redirect_markdown =
                client.send(Group::Caches, request(redirect.url(), CLAUDE_CODE)).await.ok();
        }
    }
}

/// An `ETag` without the mark of weak ones, as `If-None-Match` compares it (RFC 9110 §13.1.2).
pub fn opaque_tag(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

/// Whether the client got a page as Markdown.
fn is_markdown(exchange: &Exchange) -> bool {
    exchange.success().is_some_and(|response| response.representation() == Representation::Markdown)
}

fn request(url: &Url, as_client: WebClient) -> Request {
    Request::get(url).accept(as_client.accept)
}

/// Sends each request after the response to the one before. Ends early if a request is not permitted.
async fn send_in_order(client: &Client, requests: Vec<Request>) -> Vec<Arc<Exchange>> {
    let mut exchanges = Vec::new();
    for request in requests {
        let Ok(exchange) = client.send(Group::Caches, request).await else { break };
        exchanges.push(exchange);
    }
    exchanges
}
