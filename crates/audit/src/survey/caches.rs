//! The requests of the group caches: the same URLs as browsers and agents request them, in turn.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::{Method, header};

use super::first_requests::FirstRequests;
use crate::cache_status::{cache_evidence, has_own_lifetime};
use crate::client::Client;
use crate::client_profiles::{CHROME, WebClient};
use crate::exchange::{Exchange, Representation, Request, Response};
use crate::language::{languages, other_languages};
use crate::page::{Page, is_markdown};
use crate::rule_group::Group;

/// A path that no site is expected to have.
pub const UNKNOWN_PATH: &str = "/frontdesk-audit-no-such-page";

/// The exchanges of the group caches. A field is empty if its requests were not sent: because the
/// site does not negotiate, has no `ETag` or no redirect, or because the budget did not suffice.
#[derive(Default)]
pub struct CachesSurvey {
    /// The index of the page in [`FirstRequests::pages`] whose URL was requested: the first one, unless only
    /// a later one has Markdown.
    pub page: usize,
    /// Whether an agent may request addresses that others use: the responses at cache-busting URLs show that
    /// no cache keeps its Markdown for browsers.
    pub is_agent_harmless: bool,
    /// The responses to an agent, a browser and an agent at a cache-busting URL. Only the first, which is
    /// that of the first requests, if the site does not negotiate.
    pub agent_first: Vec<Arc<Exchange>>,
    /// The responses to a browser, an agent and again a browser at one URL with a cache-busting query.
    pub browser_first: Vec<Arc<Exchange>>,
    /// The responses to a browser, an agent and a browser at the page's own address; the first is that of
    /// the first requests. Only the browser's unless the agent is harmless, and no second browser unless the
    /// agent got Markdown.
    pub at_page_url: Vec<Arc<Exchange>>,
    /// The responses to a browser that accepts gzip, and to one that accepts no coding, at one URL.
    pub encodings: Vec<Arc<Exchange>>,
    /// The response to a browser that sends the `ETag` of the HTML in `If-None-Match`.
    pub not_modified_html: Option<Arc<Exchange>>,
    /// The response to an agent that sends the `ETag` of the Markdown in `If-None-Match`.
    pub not_modified_markdown: Option<Arc<Exchange>>,
    /// The response to an agent that sends the `ETag` of the HTML, if the Markdown has a different one.
    pub html_etag_as_agent: Option<Arc<Exchange>>,
    /// The response to HEAD as a browser, at the address of the HTML of the first requests; only if the site
    /// does not negotiate.
    pub head_html: Option<Arc<Exchange>>,
    /// The response to HEAD as an agent, at the address of the agent's response of the first requests; only
    /// if the site negotiates.
    pub head_markdown: Option<Arc<Exchange>>,
    /// The response to a browser, after redirects, at an unknown path with a cache-busting query.
    pub not_found_html: Option<Arc<Exchange>>,
    /// The response to an agent at an address that does not exist, with another cache-busting query than that
    /// of the browser; only if the site negotiates.
    pub not_found_markdown: Option<Arc<Exchange>>,
    /// The response to a client that accepts only PDF, at a cache-busting URL of the page; only if the site
    /// negotiates.
    pub not_acceptable: Option<Arc<Exchange>>,
    /// The response to an agent at the URL that the operator named, with a cache-busting query; only if that
    /// URL redirected the browser and the site negotiates.
    pub redirect_markdown: Option<Arc<Exchange>>,
    /// The response to a browser with other languages than the page's, at the address that the operator
    /// named, with a cache-busting query. Not sent if that address is no redirect and the page declares no
    /// versions.
    pub other_languages: Option<Arc<Exchange>>,
}

impl CachesSurvey {
    /// Sends the requests of the group: at most 17 if the site negotiates, otherwise at most 7, and one more
    /// for each redirect of the unknown address. If a page has Markdown for agents only at its own address,
    /// stores that response in `first_requests`.
    pub(crate) async fn survey(client: &Client, first_requests: &mut FirstRequests) -> CachesSurvey {
        // Use the first page with Markdown: for an earlier page, a cache may have only the HTML.
        let index = first_requests.pages.iter().position(|page| page.markdown.is_some()).unwrap_or(0);
        let agent = first_requests.agent;
        let page = &mut first_requests.pages[index];
        // Use the response at the page's own URL: the first page's HTML may be from a cache-busting URL.
        let browser = if index == 0 { first_requests.named_url_chain.last() } else { Some(&page.html) };
        let mut survey = CachesSurvey {
            page: index,
            agent_first: page.agent.iter().cloned().collect(),
            at_page_url: browser.into_iter().cloned().collect(),
            ..CachesSurvey::default()
        };
        // An agent that gets HTML from the origin probably leaves no Markdown in a cache.
        survey.is_agent_harmless = page.agent.as_ref().is_some_and(|agent| is_html_of_origin(agent));
        if survey.is_agent_harmless {
            survey.ask_at_page_url(client, page, agent).await;
        }
        survey.survey_sequences(client, page, agent).await;
        if page.markdown.is_some() && !survey.is_agent_harmless {
            survey.is_agent_harmless = survey.separates(page);
            if survey.is_agent_harmless {
                survey.ask_at_page_url(client, page, agent).await;
            }
        }
        survey.survey_conditions(client, page, agent).await;
        survey.survey_statuses(client, first_requests).await;
        survey.survey_languages(client, first_requests).await;
        survey
    }

    /// Whether a response in `agent_first` or `at_page_url` is Markdown: the site has Markdown for agents, at
    /// the URLs of pages or at least where no cache has a response yet. Also true if only a browser got it.
    pub fn negotiates(&self) -> bool {
        self.agent_first.iter().chain(&self.at_page_url).any(|exchange| is_markdown(exchange))
    }

    /// Why responses at cache-busting URLs prove nothing, as a clause with the status for agents: neither the
    /// first response to an agent nor that of `encodings`, to a browser, is a 2xx. `None` if one of them is,
    /// or is missing.
    pub fn cache_busting_refusal(&self) -> Option<String> {
        let refusal = |exchanges: &[Arc<Exchange>]| {
            let status = exchanges.first()?.response()?.status;
            (!status.is_success()).then_some(status)
        };
        refusal(&self.encodings)?;
        let status = refusal(&self.agent_first)?.as_u16();
        Some(format!(
            "the site answers {status} if the audit adds a cache-busting query to the page's address"
        ))
    }

    /// Requests the page's own address as an agent, and then as a browser if the agent got Markdown: a cache
    /// whose key lacks `Accept` must not keep the Markdown for browsers if its entry has just expired. Stores
    /// the Markdown in `page` if that has none.
    async fn ask_at_page_url(&mut self, client: &Client, page: &mut Page, agent: WebClient) {
        let Ok(agent) = client.send(Group::Caches, request(&page.url, agent)).await else { return };
        self.at_page_url.push(agent.clone());
        if is_markdown(&agent) {
            self.at_page_url.extend(client.send(Group::Caches, request(&page.url, CHROME)).await);
            if page.markdown.is_none() {
                page.set_agent(agent);
            }
        }
    }

    /// Whether the responses at a cache-busting URL show that no cache keeps the Markdown of a page for
    /// browsers: shared caches may not store it, all representations vary on `Accept`, or a cache that had
    /// the Markdown gave a browser the HTML. False unless the browser got HTML there.
    fn separates(&self, page: &Page) -> bool {
        let [agent, browser, others @ ..] = &*self.agent_first else { return false };
        let (Some(markdown), Some(html)) = (agent.success(), browser.success()) else { return false };
        let is_html = |response: &Response| response.representation() == Representation::Html;
        if !is_html(html) {
            return false;
        }
        let is_private = markdown.shared_lifetime() == Some(0) && !has_own_lifetime(markdown);
        let varies = [markdown, html, page.response()].iter().all(|response| response.varies_on("accept"));
        let is_stored_markdown = |exchange: &Arc<Exchange>| {
            is_markdown(exchange) && exchange.response().and_then(cache_evidence).is_some()
        };
        is_private || varies || others.iter().any(is_stored_markdown)
    }

    /// Sets `agent_first`, `browser_first` and `encodings`; only `encodings` if the site does not negotiate.
    async fn survey_sequences(&mut self, client: &Client, page: &Page, agent: WebClient) {
        let second = client.fresh(&page.url);
        let browser = |coding| request(&second, CHROME).header(header::ACCEPT_ENCODING, coding);
        let mut codings = vec![browser("gzip"), browser("identity")];
        if !self.negotiates() {
            self.encodings = send_in_order(client, codings).await;
            return;
        }
        let first = self.agent_first.first().map(|exchange| exchange.url());
        let after_agent =
            first.map_or_else(Vec::new, |first| vec![request(first, CHROME), request(first, agent)]);
        // Send to one URL a browser's request, an agent's, and the two browsers' requests in `codings`: the
        // third response belongs to both `browser_first` and `encodings`.
        codings.splice(0..0, [browser("gzip"), request(&second, agent)]);
        let (agent_first, mut browser_first) =
            tokio::join!(send_in_order(client, after_agent), send_in_order(client, codings));
        self.agent_first.extend(agent_first);
        self.encodings = browser_first.iter().skip(2).cloned().collect();
        browser_first.truncate(3);
        self.browser_first = browser_first;
    }

    /// Sets `not_modified_html`, `not_modified_markdown` and `html_etag_as_agent`. Leaves out the requests
    /// whose `ETag` is missing, those of an agent if the page has no Markdown, and `html_etag_as_agent` if
    /// both tags are the same.
    async fn survey_conditions(&mut self, client: &Client, page: &Page, as_agent: WebClient) {
        let etag =
            |exchange: &Arc<Exchange>| exchange.success().map(|response| response.header(header::ETAG));
        let html = etag(&page.html).filter(|etag| !etag.is_empty());
        let agent = page.agent.as_ref().filter(|_| page.markdown.is_some());
        let markdown = agent.and_then(etag).filter(|etag| !etag.is_empty());
        let is_other =
            |html: &&String| markdown.as_ref().is_some_and(|own| opaque_tag(own) != opaque_tag(html));
        let other = html.as_ref().filter(is_other);
        let conditional = async |as_client: WebClient, before: &Exchange, etag: Option<&String>| {
            let request = request(before.url(), as_client).header(header::IF_NONE_MATCH, etag?);
            client.send(Group::Caches, request).await.ok()
        };
        self.not_modified_html = conditional(CHROME, &page.html, html.as_ref()).await;
        let Some(agent) = agent else { return };
        self.not_modified_markdown = conditional(as_agent, agent, markdown.as_ref()).await;
        self.html_etag_as_agent = conditional(as_agent, agent, other).await;
    }

    /// Sets `not_found_html`. Then sets `head_html` if the site does not negotiate; otherwise
    /// `head_markdown`, `not_found_markdown`, `not_acceptable` and, if the named URL redirected,
    /// `redirect_markdown`.
    async fn survey_statuses(&mut self, client: &Client, first_requests: &FirstRequests) {
        let page = &first_requests.pages[self.page];
        let head = async |as_client: WebClient, get: &Exchange| {
            let request = Request::new(Method::HEAD, get.url()).accept(as_client.accept);
            client.send(Group::Caches, request).await.ok()
        };
        let Ok(unknown) = page.url.join(UNKNOWN_PATH) else { return };
        let browser = request(&client.fresh(&unknown), CHROME);
        self.not_found_html =
            client.follow(Group::Caches, browser).await.ok().and_then(|mut chain| chain.pop());
        if !self.negotiates() {
            self.head_html = head(CHROME, &page.html).await;
            return;
        }
        if let Some(agent) = &page.agent {
            self.head_markdown = head(first_requests.agent, agent).await;
        }
        // Do not follow redirects: the target may be a URL that real clients request.
        let agent = request(&client.fresh(&unknown), first_requests.agent);
        self.not_found_markdown = client.send(Group::Caches, agent).await.ok();
        let pdf = Request::get(&client.fresh(&page.url)).accept("application/pdf");
        self.not_acceptable = client.send(Group::Caches, pdf).await.ok();
        if let [redirect, _, ..] = &*first_requests.named_url_chain {
            let agent = request(&client.fresh(redirect.url()), first_requests.agent);
            self.redirect_markdown = client.send(Group::Caches, agent).await.ok();
        }
    }

    /// Sets `other_languages` if the named URL redirects or the page declares language versions.
    async fn survey_languages(&mut self, client: &Client, first_requests: &FirstRequests) {
        let [first, others @ ..] = &*first_requests.named_url_chain else { return };
        // A site that neither redirects nor declares language versions hardly ever selects a language.
        if others.is_empty() && languages(&first_requests.pages[0]).is_empty() {
            return;
        }
        let languages = other_languages(&first_requests.pages[0]).join(", ");
        let request = request(&client.fresh(first.url()), CHROME).header(header::ACCEPT_LANGUAGE, &languages);
        self.other_languages = client.send(Group::Caches, request).await.ok();
    }
}

/// An `ETag` without the prefix `W/`: `If-None-Match` uses weak comparison (RFC 9110 §13.1.2).
pub fn opaque_tag(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

/// Whether the response is HTML with status 200 and without evidence of a cache.
fn is_html_of_origin(exchange: &Exchange) -> bool {
    exchange.success().is_some_and(|response| {
        response.representation() == Representation::Html && cache_evidence(response).is_none()
    })
}

fn request(url: &Url, as_client: WebClient) -> Request {
    Request::get(url).accept(as_client.accept)
}

/// Sends requests one at a time, each after the previous response. Ends early if a request is not permitted.
async fn send_in_order(client: &Client, requests: Vec<Request>) -> Vec<Arc<Exchange>> {
    let mut exchanges = Vec::new();
    for request in requests {
        let Ok(exchange) = client.send(Group::Caches, request).await else { break };
        exchanges.push(exchange);
    }
    exchanges
}
