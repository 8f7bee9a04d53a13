//! The requests of the group negotiation: one page, requested in many ways.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::header;

use super::caches::CachesSurvey;
use super::first_requests::FirstRequests;
use crate::client::Client;
use crate::client_profiles::{
    ANY, AS_BROWSER, AS_CRAWLERS, CODEX, CURSOR, FIREFOX, GEMINI_CLI, OLD_JAVA, OPENCODE, WebClient,
};
use crate::exchange::{Exchange, Representation, Request};
use crate::page::representation_of_page;
use crate::rule_group::Group;

/// Exchanges about one page: the first that negotiates, otherwise the first. Each has a query that no cache
/// has seen, unless the site does not serve the page with a query. An exchange is missing if its request was
/// not sent.
#[derive(Default)]
pub struct NegotiationSurvey {
    /// Whether at least one agent got the page as Markdown, in this survey or an earlier one.
    pub negotiates: bool,
    /// The responses to agents that prefer Markdown: Cursor, if the site accepts a cache-busting query, and
    /// OpenCode and Gemini CLI, if the site negotiates.
    pub agents: Vec<(WebClient, Arc<Exchange>)>,
    /// The responses to clients that prefer HTML. The first also sends the `User-Agent` of a browser.
    pub browsers: Vec<(WebClient, Arc<Exchange>)>,
    /// The response to a client that accepts anything (`*/*`).
    pub any: Option<Arc<Exchange>>,
    /// The response to a client without `Accept`; only requested if the crawler without `Accept` got
    /// Markdown, or was not sent.
    pub no_accept: Option<Arc<Exchange>>,
    /// The response to a client that accepts `text/markdown;q=0.5`, and in a second `Accept` line
    /// `text/html`.
    pub html_preferred: Option<Arc<Exchange>>,
    /// The response to a client that sends the types of `html_preferred` in one line; only if
    /// `html_preferred` got Markdown.
    pub html_in_one_line: Option<Arc<Exchange>>,
    /// The responses to unusual `Accept` headers that prefer Markdown; only if one request that combines
    /// them got no Markdown.
    pub unusual_accepts: UnusualAccepts,
    /// The response to a client that excludes Markdown, accepts media types whose names contain
    /// `text/markdown`, and `text/*` with less weight.
    pub unwanted: Option<Arc<Exchange>>,
    /// The response to a client that accepts anything except Markdown. Requested only if Markdown was sent to
    /// another client that excludes it.
    pub excluded: Option<Arc<Exchange>>,
    /// The response to a client that accepts media types with similar names, and HTML with less weight; only
    /// if `unwanted` got Markdown.
    pub lookalike: Option<Arc<Exchange>>,
    /// The responses to crawlers and agents that accept anything, by their product tokens; without those that
    /// `robots.txt` forbids. One sends no `Accept`, which means the same as that of the others.
    pub crawlers: Vec<(&'static str, Arc<Exchange>)>,
}

/// The responses to requests with an unusual `Accept` that prefers Markdown and gives HTML the weight 0.5.
#[derive(Default)]
pub struct UnusualAccepts {
    /// The response to an `Accept` that lists HTML before Markdown.
    pub markdown_last: Option<Arc<Exchange>>,
    /// The response to a request with two `Accept` lines. The second line lists HTML.
    pub two_lines: Option<Arc<Exchange>>,
    /// The response to an `Accept` with `TEXT/MARKDOWN`.
    pub capitals: Option<Arc<Exchange>>,
    /// The response to an `Accept` with `text/markdown; charset=utf-8`.
    pub charset: Option<Arc<Exchange>>,
    /// The response to an `Accept` with `text/markdown;variant=GFM` (RFC 7763).
    pub variant: Option<Arc<Exchange>>,
}

impl NegotiationSurvey {
    /// Sends the requests of the group `negotiation`: at most 13, and 8 more if `Accept` is misread.
    pub(crate) async fn survey(
        client: &Client,
        first_requests: &FirstRequests,
        caches: &CachesSurvey,
    ) -> NegotiationSurvey {
        let negotiating = first_requests.pages.iter().find(|page| page.markdown.is_some());
        let Some(page) = negotiating.or(first_requests.pages.first()) else {
            return NegotiationSurvey::default();
        };
        let is_fresh = caches.cache_busting_refusal().is_none();
        let mut asker = Asker { client, url: &page.url, is_fresh };
        let mut survey = NegotiationSurvey::default();
        // Send this `Accept` only with a cache-busting query, or a cache might give browsers the Markdown.
        let [cursor] = if is_fresh { asker.ask([&[CURSOR.accept]]).await } else { [None] };
        // If no request was sent, add no query to further URLs: `robots.txt` may forbid unknown queries.
        asker.is_fresh = cursor.is_some();
        survey.negotiates = page.markdown.is_some() || got(cursor.as_ref(), Representation::Markdown);
        survey.agents.extend(cursor.map(|exchange| (CURSOR, exchange)));

        let as_firefox = asker.request(&[FIREFOX.accept]).header(header::USER_AGENT, AS_BROWSER);
        let [firefox, any] = asker.send([as_firefox, asker.request(&[ANY.accept])]).await;
        survey.browsers.extend(firefox.map(|exchange| (FIREFOX, exchange)));
        survey.any = any;
        if survey.negotiates {
            survey.ask_in_many_ways(&asker).await;
        }
        // Send crawlers' `User-Agent` values: some sites choose Markdown by this field.
        let may_ask = |token| asker.is_fresh && first_requests.rules.permits(token, &page.url);
        let crawlers = AS_CRAWLERS.iter().filter(|(token, _)| may_ask(token));
        for (index, (token, user_agent)) in crawlers.enumerate() {
            let accept = [ANY.accept];
            let request = asker.request(if index == 0 { &[] } else { &accept });
            let [exchange] = asker.send([request.header(header::USER_AGENT, user_agent)]).await;
            survey.crawlers.extend(exchange.map(|exchange| (*token, exchange)));
        }
        let mut crawlers = survey.crawlers.iter().map(|(_, exchange)| exchange);
        let crawler = crawlers.find(|exchange| !exchange.request.has_accept());
        if survey.negotiates && (crawler.is_none() || got(crawler, Representation::Markdown)) {
            [survey.no_accept] = asker.ask([&[]]).await;
        }
        survey
    }

    /// Requests the page as further clients and with unusual `Accept` headers. First combines several headers
    /// into one request; requests them one by one only if that gets the wrong representation.
    async fn ask_in_many_ways(&mut self, asker: &Asker<'_>) {
        let [opencode, gemini, codex, java, html_preferred, markdown, unwanted] = asker
            .ask([
                &[OPENCODE.accept],
                &[GEMINI_CLI.accept],
                &[CODEX.accept],
                &[OLD_JAVA.accept],
                &["text/markdown;q=0.5", "text/html"],
                // This request combines mixed case, a parameter, and two `Accept` lines.
                &["TEXT/Markdown;variant=GFM", "Text/HTML;q=0.5"],
                &["text/markdown;q=0, text/markdownx, application/x-text-markdown, text/*;q=0.5"],
            ])
            .await;
        self.agents.extend(opencode.map(|exchange| (OPENCODE, exchange)));
        self.agents.extend(gemini.map(|exchange| (GEMINI_CLI, exchange)));
        self.browsers.extend(codex.map(|exchange| (CODEX, exchange)));
        self.browsers.extend(java.map(|exchange| (OLD_JAVA, exchange)));
        if got(unwanted.as_ref(), Representation::Markdown) {
            [self.excluded, self.lookalike] = asker
                .ask([
                    &["text/markdown;q=0, */*"],
                    &["text/markdownx, application/x-text-markdown, text/html;q=0.5"],
                ])
                .await;
        }
        self.unwanted = unwanted;
        if got(html_preferred.as_ref(), Representation::Markdown) {
            [self.html_in_one_line] = asker.ask([&["text/markdown;q=0.5, text/html"]]).await;
        }
        self.html_preferred = html_preferred;
        if !got(markdown.as_ref(), Representation::Markdown) {
            let [markdown_last, two_lines, capitals, charset, variant] = asker
                .ask([
                    &["text/html;q=0.5, text/markdown"],
                    &["text/markdown", "text/html;q=0.5"],
                    &["TEXT/MARKDOWN, text/html;q=0.5"],
                    &["text/markdown; charset=utf-8, text/html;q=0.5"],
                    &["text/markdown;variant=GFM, text/html;q=0.5"],
                ])
                .await;
            self.unusual_accepts = UnusualAccepts { markdown_last, two_lines, capitals, charset, variant };
        }
    }
}

/// Whether the response is this representation with status 200.
fn got(exchange: Option<&Arc<Exchange>>, representation: Representation) -> bool {
    exchange
        .and_then(|exchange| exchange.success())
        .is_some_and(|response| representation_of_page(response) == representation)
}

/// Requests one page with different `Accept` headers.
struct Asker<'a> {
    client: &'a Client,
    url: &'a Url,
    /// Whether to add a cache-busting query to the URL.
    is_fresh: bool,
}

impl Asker<'_> {
    /// A request with these `Accept` lines; at a new cache-busting URL if `is_fresh`.
    fn request(&self, accept: &[&str]) -> Request {
        let url = if self.is_fresh { self.client.fresh(self.url) } else { self.url.clone() };
        accept.iter().fold(Request::get(&url), |request, line| request.accept(line))
    }

    async fn ask<const N: usize>(&self, accepts: [&[&str]; N]) -> [Option<Arc<Exchange>>; N] {
        self.send(accepts.map(|accept| self.request(accept))).await
    }

    /// Sends the requests; `None` for each that may not be sent.
    async fn send<const N: usize>(&self, requests: [Request; N]) -> [Option<Arc<Exchange>>; N] {
        let mut outcomes = self.client.send_all(Group::Negotiation, requests.into()).await.into_iter();
        std::array::from_fn(|_| outcomes.next().and_then(Result::ok))
    }
}
