//! Sends the requests of an audit: within a budget, two at a time, paced, to one site only.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use frontdesk_convert::Url;
use frontdesk_fetch::{FetchClient, FetchTimeouts, NameResolver, Url as FetchUrl, address_check::is_public};
use frontdesk_process::progress;
use http::{HeaderValue, Method, header};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::client_profiles::{PRODUCT_TOKEN, USER_AGENT};
use crate::error::AuditError;
use crate::exchange::{Exchange, FRESH_QUERY, MAX_BODY, Request, Response};
use crate::options::Options;
use crate::robots::Robots;
use crate::rule_group::Group;

/// Maximum number of concurrent requests.
const PARALLEL: usize = 2;

/// The audit sends no more requests once its decoded responses exceed this many bytes in total.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// The audit sends no more requests after this time for each request of its budget: five minutes for 60
/// requests.
const TIME_PER_REQUEST: Duration = Duration::from_secs(5);

/// The audit sends no more requests after this many timeouts in a row.
const MAX_TIMEOUTS: usize = 3;

/// Maximum number of redirects that are followed from one URL.
const MAX_REDIRECTS: usize = 5;

const TIMEOUTS: FetchTimeouts = FetchTimeouts {
    resolve: Duration::from_secs(5),
    connect: Duration::from_secs(5),
    tls: Duration::from_secs(5),
    answer: Duration::from_secs(15),
    body: Duration::from_secs(15),
};

/// Why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The request budget is used up.
    Budget,
    /// `robots.txt` forbids the page to the audit. Does not apply to [`Group::Files`] and [`Group::Forms`],
    /// whose URLs sites disallow to keep them out of search results.
    Robots,
    /// The URL belongs to another site.
    OtherHost,
    /// The audit sends no more requests: the site asked for fewer, shows a challenge, does not answer, is too
    /// slow or sent too many bytes. The text is a clause that names the reason.
    Stopped(String),
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Denial::Budget => f.write_str("the request budget is used up (`--max-requests`)"),
            Denial::Robots => write!(f, "robots.txt disallows the page for {PRODUCT_TOKEN}"),
            Denial::OtherHost => f.write_str("the URL is on another host, to which this audit sends nothing"),
            Denial::Stopped(reason) => f.write_str(reason),
        }
    }
}

/// The HTTP client of one audit. Records every exchange and every request that it declined to send.
pub struct Client {
    http: FetchClient,
    options: Options,
    target: Url,
    /// The host of the site without `www.`, with its port if that is not the default. Requests go only to
    /// this host, with or without `www.`.
    host: String,
    /// Whether the host has a public address.
    is_public: bool,
    /// The rules of `robots.txt`; `None` until it has been fetched.
    robots: RefCell<Option<Rc<Robots>>>,
    permits: Semaphore,
    next_start: Cell<Option<Instant>>,
    deadline: Instant,
    bytes: Cell<usize>,
    sent: Cell<usize>,
    /// Makes the cache-busting queries of [`Client::fresh`] differ from the queries of earlier audits.
    seed: u64,
    /// The number of cache-busting queries so far.
    fresh: Cell<u64>,
    exchanges: RefCell<Vec<Arc<Exchange>>>,
    denials: RefCell<Vec<(Group, Denial)>>,
    stopped: RefCell<Option<String>>,
    /// The number of consecutive requests that timed out.
    timeouts: Cell<usize>,
}

impl Client {
    /// Creates the client of an audit, and starts its deadline, which grows with the number of permitted
    /// requests. Resolves the host of `target`, and permits private addresses only if all of its addresses
    /// are private. `seed` makes cache-busting queries unique; the current time is suitable. Also begins the
    /// progress stage `requests`. Fails if [`fetch_url`] rejects the URL, or if the host cannot be resolved
    /// within the timeout.
    pub async fn new(target: &Url, options: &Options, seed: u64) -> Result<Client, AuditError> {
        let url = fetch_url(target).map_err(AuditError::Unreachable)?;
        let resolving = NameResolver::System.resolve(url.host(), url.port());
        let resolved = tokio::time::timeout(TIMEOUTS.resolve, resolving).await;
        let addresses = resolved
            .map_err(|_| format!("resolving {} took too long", url.host()))
            .and_then(|found| found.map_err(|error| format!("cannot resolve {}: {error}", url.host())))
            .map_err(AuditError::Unreachable)?;
        let is_private = addresses.iter().all(|address| !is_public(*address));
        let user_agent = options.user_agent.clone().unwrap_or(HeaderValue::from_static(USER_AGENT));
        let http = FetchClient::new(NameResolver::System, is_private, options.extra_roots.as_ref(), TIMEOUTS)
            .with_user_agent(user_agent)
            .with_max_body(MAX_BODY);
        progress::begin("requests", options.max_requests as u64);
        Ok(Client {
            http,
            options: options.clone(),
            target: target.clone(),
            host: site_host(target),
            is_public: !is_private,
            robots: RefCell::default(),
            permits: Semaphore::new(PARALLEL),
            next_start: Cell::new(None),
            deadline: Instant::now()
                + TIME_PER_REQUEST * u32::try_from(options.max_requests).unwrap_or(u32::MAX),
            bytes: Cell::new(0),
            sent: Cell::new(0),
            seed,
            fresh: Cell::new(0),
            exchanges: RefCell::default(),
            denials: RefCell::default(),
            stopped: RefCell::default(),
            timeouts: Cell::new(0),
        })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether at least one of the site's addresses is public.
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// Whether the URL belongs to the audited site: `http` or `https`, the same host with or without `www.`,
    /// and the same port. The default ports of both schemes count as the same.
    pub fn is_same_site(&self, url: &Url) -> bool {
        matches!(url.scheme(), "http" | "https") && site_host(url) == self.host
    }

    /// Returns the URL with a new cache-busting query, so that no cache has a response for it.
    pub fn fresh(&self, url: &Url) -> Url {
        self.fresh.set(self.fresh.get() + 1);
        let mut fresh = url.clone();
        let number = format!("{FRESH_QUERY}{:x}{:02x}", self.seed, self.fresh.get());
        let query = url.query().map_or_else(|| number.clone(), |query| format!("{query}&{number}"));
        fresh.set_query(Some(&query));
        fresh
    }

    /// From now on, declines requests that `robots.txt` forbids, except those for files and forms
    /// ([`Denial::Robots`]).
    pub fn respect(&self, robots: Rc<Robots>) {
        *self.robots.borrow_mut() = Some(robots);
    }

    /// Sends a request for a group of rules, after waiting for a free slot and for the pace. Follows no
    /// redirect. Adds the operator's header fields if the URL may get them, and `Accept-Encoding: gzip`
    /// unless the request has that field. A failed connection is an exchange whose outcome is the error. A
    /// response may stop all further requests, see [`Denial::Stopped`].
    pub async fn send(&self, group: Group, request: Request) -> Result<Arc<Exchange>, Denial> {
        let number = self.admit(group, &request.url)?;
        let permit = self.permits.acquire().await;
        self.wait_for_turn().await;
        let mut headers = request.headers.clone();
        if !headers.iter().any(|(name, _)| name == header::ACCEPT_ENCODING) {
            headers.push((header::ACCEPT_ENCODING, HeaderValue::from_static("gzip")));
        }
        if self.is_entitled(&request.url) {
            headers.extend(self.options.headers.iter().cloned());
        }
        let outcome = match fetch_url(&request.url) {
            Ok(url) => {
                let sending =
                    self.http.send(request.method.clone(), &url, headers, request.body.clone().into_bytes());
                // The future of the HTTP client is large: boxing it keeps the futures of whole surveys small.
                Box::pin(sending).await.map(Response::from_fetched)
            }
            Err(sentence) => Err(sentence.into()),
        };
        drop(permit);
        progress::advance(1);
        self.note_timeout(outcome.as_ref().is_err_and(|error| error.is_timeout));
        let outcome = outcome.map_err(|error| error.sentence);
        let exchange = Arc::new(Exchange { number, request, outcome });
        self.note_response(&exchange);
        self.exchanges.borrow_mut().push(exchange.clone());
        Ok(exchange)
    }

    /// Sends requests two at a time, and returns the outcomes in the order of the requests.
    pub async fn send_all(&self, group: Group, requests: Vec<Request>) -> Vec<Result<Arc<Exchange>, Denial>> {
        let queue = RefCell::new(requests.into_iter().enumerate());
        let outcomes = RefCell::new(Vec::new());
        let lane = async || {
            loop {
                let next = queue.borrow_mut().next();
                let Some((index, request)) = next else { return };
                let outcome = self.send(group, request).await;
                outcomes.borrow_mut().push((index, outcome));
            }
        };
        tokio::join!(lane(), lane());
        let mut outcomes = outcomes.into_inner();
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Sends a request and follows at most [`MAX_REDIRECTS`] redirects within the site, always with GET, even
    /// if the request was a HEAD, because rules read the page to which a redirect leads. Keeps the header
    /// fields and the body. Returns all exchanges, at least one; the last may be a redirect that was not
    /// followed.
    pub async fn follow(&self, group: Group, request: Request) -> Result<Vec<Arc<Exchange>>, Denial> {
        let mut chain = vec![self.send(group, request).await?];
        while chain.len() <= MAX_REDIRECTS
            && let Some(last) = chain.last()
            && let Some(target) = redirect_target(last)
            && self.is_same_site(&target)
        {
            let next = Request { url: target, method: Method::GET, ..last.request.clone() };
            match self.send(group, next).await {
                Ok(exchange) => chain.push(exchange),
                Err(_) => break,
            }
        }
        Ok(chain)
    }

    /// The protocol that an `https` server selects: `h2` or `http/1.1`, which is also assumed if the server
    /// ignores the offer. The inner error is a sentence about the handshake. Costs a request of the budget,
    /// but is not kept as an exchange.
    pub async fn negotiate_protocol(
        &self,
        group: Group,
        url: &Url,
    ) -> Result<Result<String, String>, Denial> {
        self.admit(group, url)?;
        let permit = self.permits.acquire().await;
        self.wait_for_turn().await;
        let outcome = match fetch_url(url) {
            Ok(url) => self.http.negotiate_protocol(&url).await.map_err(|error| error.sentence),
            Err(error) => Err(error),
        };
        drop(permit);
        progress::advance(1);
        Ok(outcome.map(|protocol| protocol.unwrap_or_else(|| "http/1.1".to_owned())))
    }

    /// All exchanges so far, in the order in which they were completed.
    pub fn exchanges(&self) -> Vec<Arc<Exchange>> {
        self.exchanges.borrow().clone()
    }

    /// The number of requests counted against the budget, including TLS handshakes without a request.
    pub fn sent(&self) -> usize {
        self.sent.get()
    }

    /// Whether the operator's header fields, which may be credentials, may be sent to a URL: to the origin
    /// that the operator named, and over TLS to the same site.
    fn is_entitled(&self, url: &Url) -> bool {
        url.origin() == self.target.origin() || (url.scheme() == "https" && self.is_same_site(url))
    }

    /// The number of requests that the budget still permits.
    pub fn remaining(&self) -> usize {
        self.options.max_requests.saturating_sub(self.sent.get())
    }

    /// The group and the reason of each request that was not sent, in order.
    pub fn denials(&self) -> Vec<(Group, Denial)> {
        self.denials.borrow().clone()
    }

    /// Charges a request to the budget and returns its number. If the request must not be sent, charges
    /// nothing, and records and returns the reason. Does not apply `robots.txt` to files and forms
    /// ([`Denial::Robots`]).
    fn admit(&self, group: Group, url: &Url) -> Result<usize, Denial> {
        let is_forbidden = || {
            let robots = self.robots.borrow();
            robots.as_ref().is_some_and(|robots| !robots.permits(PRODUCT_TOKEN, url))
        };
        let stopped = self.stopped.borrow().clone();
        let denial = if let Some(reason) = stopped {
            Denial::Stopped(reason)
        } else if Instant::now() > self.deadline {
            Denial::Stopped("the site answered too slowly".to_owned())
        } else if self.bytes.get() > MAX_TOTAL_BYTES {
            Denial::Stopped("the site's responses have more than 64 MiB in total".to_owned())
        } else if !self.is_same_site(url) {
            Denial::OtherHost
        } else if !matches!(group, Group::Files | Group::Forms) && is_forbidden() {
            Denial::Robots
        } else if self.sent.get() >= self.options.max_requests {
            Denial::Budget
        } else {
            self.sent.set(self.sent.get() + 1);
            return Ok(self.sent.get());
        };
        self.denials.borrow_mut().push((group, denial.clone()));
        Err(denial)
    }

    /// Waits until this request may start. The next one may start [`Options::pace`] later.
    async fn wait_for_turn(&self) {
        let now = Instant::now();
        let start = self.next_start.get().map_or(now, |next| next.max(now));
        self.next_start.set(Some(start + self.options.pace));
        sleep_until(start).await;
    }

    /// Counts timeouts in a row, and stops all further requests after [`MAX_TIMEOUTS`]. Any other outcome
    /// resets the count.
    fn note_timeout(&self, is_timeout: bool) {
        self.timeouts.set(if is_timeout { self.timeouts.get() + 1 } else { 0 });
        if self.timeouts.get() == MAX_TIMEOUTS {
            *self.stopped.borrow_mut() = Some("the site does not answer".to_owned());
        }
    }

    /// Counts the decoded bytes of a response. Stops all further requests if it shows a challenge or asks for
    /// fewer requests (429, or 503 with `Retry-After`); if the request has a `User-Agent` of its own, only if
    /// the status is 429.
    fn note_response(&self, exchange: &Exchange) {
        let Some(response) = exchange.response() else { return };
        self.bytes.set(self.bytes.get() + response.body.len());
        // If a server refuses a crawler's `User-Agent`, the audit continues, unless the status is 429.
        let has_other_name = exchange.request.headers.iter().any(|(name, _)| name == header::USER_AGENT);
        let is_busy = response.status == 429
            || (response.status == 503 && response.headers.contains_key(header::RETRY_AFTER));
        if has_other_name && response.status != 429 {
            return;
        }
        if let Some(challenge) = challenge(response) {
            *self.stopped.borrow_mut() = Some(challenge);
        } else if is_busy {
            let status = response.status.as_u16();
            *self.stopped.borrow_mut() = Some(format!("the site asked for fewer requests ({status})"));
        }
    }
}

/// A clause that names the bot protection which refused a request; `None` unless the status is 202, 401, 402,
/// 403, 405, 429 or 503, and a field of a known product is present.
pub(crate) fn challenge(response: &Response) -> Option<String> {
    let named = [
        ("cf-mitigated", "Cloudflare"),
        ("x-vercel-mitigated", "Vercel"),
        ("x-amzn-waf-action", "AWS WAF"),
        ("x-datadome", "DataDome"),
        ("x-sucuri-block", "Sucuri"),
    ];
    let is_refusal =
        matches!(response.status.as_u16(), 401..=403 | 405 | 429 | 503) || response.status == 202;
    let (_, product) = named.iter().find(|(name, _)| is_refusal && response.headers.contains_key(*name))?;
    let status = response.status.as_u16();
    Some(format!(
        "{product} answered with a challenge or a block ({status}): allow the user agent {PRODUCT_TOKEN} there"
    ))
}

/// The absolute target of a redirect, without its fragment; `None` for other responses, and for redirects
/// whose `Location` is missing, empty or no URL.
pub(crate) fn redirect_target(exchange: &Exchange) -> Option<Url> {
    let response = exchange.response()?;
    if !matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.header(header::LOCATION);
    let location = Some(location.trim()).filter(|location| !location.is_empty())?;
    let mut target = exchange.url().join(location).ok()?;
    target.set_fragment(None);
    Some(target)
}

/// The host without `www.`, and the port unless it is the default of the URL's scheme.
fn site_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix("www.").unwrap_or(host);
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Converts a URL for the HTTP client, without its fragment. The error is a sentence.
fn fetch_url(url: &Url) -> Result<FetchUrl, String> {
    let mut url = url.clone();
    url.set_fragment(None);
    FetchUrl::parse_unencrypted(url.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_stay_with_the_named_origin_and_tls() {
        for (target, url, expected) in [
            ("https://127.0.0.1/", "https://127.0.0.1/a", true),
            ("https://127.0.0.1/", "http://127.0.0.1/a", false),
            ("https://127.0.0.1/", "https://127.0.0.1:8443/", false),
            ("https://127.0.0.1/", "https://example.com/", false),
            ("http://127.0.0.1/", "http://127.0.0.1/a", true),
            ("http://127.0.0.1/", "https://127.0.0.1/a", true),
        ] {
            let [target, url] = [target, url].map(|text| Url::parse(text).unwrap());
            let client = Client::new(&target, &Options::default(), 1).await.unwrap();
            assert_eq!(client.is_entitled(&url), expected, "{target} {url}");
        }
    }

    #[tokio::test]
    async fn a_silent_site_is_not_asked_again() {
        let target = Url::parse("http://127.0.0.1:9/").unwrap();
        let client = Client::new(&target, &Options::default(), 1).await.unwrap();
        for is_timeout in [true, true, false, true, true] {
            client.note_timeout(is_timeout);
            assert!(client.admit(Group::Basics, &target).is_ok());
        }
        client.note_timeout(true);
        let denial = client.admit(Group::Basics, &target).unwrap_err();
        assert_eq!(denial, Denial::Stopped("the site does not answer".to_owned()));
    }
}
