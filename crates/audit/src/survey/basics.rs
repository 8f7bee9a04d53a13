//! The requests of the group basics: the site without TLS, its protocol, its other host name, and assets.
//! The requests that all groups build on are in `first_requests.rs`.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::Method;

use super::first_requests::FirstRequests;
use crate::client::{Client, redirect_target};
use crate::client_profiles::{ANY, CHROME, PRODUCT_TOKEN};
use crate::exchange::{Exchange, Representation, Request};
use crate::rule_group::Group;

/// Exchanges about the site as a whole. For a site at a private address, only assets are requested.
#[derive(Default)]
pub struct BasicsSurvey {
    /// Whether the site has a public address, so that its traffic crosses the internet.
    pub is_public: bool,
    /// The responses at the `http` URL of a page of an `https` site, and at the target if that URL
    /// redirects to `http` again.
    pub without_tls: Vec<Arc<Exchange>>,
    /// The protocol that TLS selects from `h2` and `http/1.1`; the error is a sentence. `None` if no
    /// handshake was made.
    pub protocol: Option<Result<String, String>>,
    /// The response at the first page's URL with `www.` added to the host or removed from it.
    pub other_host: Option<Arc<Exchange>>,
    /// At most [`MAX_ASSETS`] of the first stylesheet, script and image of the first page: the responses
    /// after redirects to HEAD, or to GET if HEAD failed.
    pub assets: Vec<Asset>,
}

/// A file of this site that a browser loads for a page.
pub struct Asset {
    pub kind: AssetKind,
    pub exchange: Arc<Exchange>,
}

impl Asset {
    /// Why a browser cannot use the file, as a clause: it is HTML, or its status is 404, 410 or at least 500.
    /// `None` for other errors, which may depend on the client, and without a response.
    pub fn failure(&self) -> Option<String> {
        let response = self.exchange.response()?;
        let status = response.status.as_u16();
        if matches!(status, 404 | 410 | 500..) {
            return Some(format!("answers {}", response.status));
        }
        (status == 200 && response.representation() == Representation::Html).then(|| "is HTML".to_owned())
    }
}

/// How a page uses an [`Asset`]: by `<link>`, `<script>` or `<img>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssetKind {
    Stylesheet,
    Script,
    Image,
}

/// Maximum number of assets to request for the first page.
const MAX_ASSETS: usize = 2;

/// A second file is requested only if the budget has this many requests left: the groups that follow may need
/// them.
const RESERVED_REQUESTS: usize = 20;

impl BasicsSurvey {
    /// Sends the requests of the group; only those for assets if the site has a private address. There are at
    /// most six, two of them for assets; each redirect and each asset whose HEAD fails adds one.
    pub(crate) async fn survey(client: &Client, first_requests: &FirstRequests) -> BasicsSurvey {
        let is_public = client.is_public();
        let assets = ask_for_assets(client, first_requests).await;
        let mut survey = BasicsSurvey { is_public, assets, ..BasicsSurvey::default() };
        if !is_public {
            return survey;
        }
        if first_requests.url.scheme() == "https" {
            survey.protocol = client.negotiate_protocol(Group::Basics, &first_requests.url).await.ok();
            survey.without_tls = ask_without_tls(client, first_requests).await;
        }
        if let Some(url) = other_host(&first_requests.url) {
            let request = Request::get(&url).accept(CHROME.accept);
            survey.other_host = client.send(Group::Basics, request).await.ok();
        }
        survey
    }
}

/// Selects external scripts that modern browsers run: `type` is missing, empty, JavaScript or `module`.
pub(crate) const SCRIPT: &str = "script[src]:not([nomodule]):is(:not([type]), [type=''], [type=module i], \
                      [type$='/javascript' i], [type$='/x-javascript' i], [type$='/ecmascript' i])";

/// Requests at most [`MAX_ASSETS`] of the first stylesheet, script and image of the first page that are files
/// of this site and that `robots.txt` permits. Skips `disabled` stylesheets, `nomodule` scripts, data blocks
/// (HTML §4.12.1), and URLs that are empty or those of the page itself, which are placeholders. Uses HEAD,
/// and GET if that shows an [`Asset::failure`]. Requests only one if the budget is low.
async fn ask_for_assets(client: &Client, first_requests: &FirstRequests) -> Vec<Asset> {
    let page = &first_requests.pages[0];
    let known = [
        (AssetKind::Stylesheet, "link[rel=stylesheet i][href]:not([disabled])", "href"),
        (AssetKind::Script, SCRIPT, "src"),
        (AssetKind::Image, "img[src]", "src"),
    ];
    let found = known.into_iter().filter_map(|(kind, css, name)| {
        let is_link = |link: &&str| !link.is_empty() && !link.starts_with('#');
        let mut urls = page
            .select(css)
            .into_iter()
            .filter_map(|element| page.resolve(element.attribute(name).map(str::trim).filter(is_link)?));
        let is_asked = |url: &Url| {
            *url != page.url && client.is_same_site(url) && first_requests.rules.permits(PRODUCT_TOKEN, url)
        };
        Some((kind, urls.find(is_asked)?))
    });
    let mut assets = Vec::new();
    for (kind, url) in found.take(MAX_ASSETS) {
        if !assets.is_empty() && client.remaining() < RESERVED_REQUESTS {
            break;
        }
        let ask = async |method| {
            let request = Request::new(method, &url).accept(ANY.accept);
            client.follow(Group::Basics, request).await.ok()?.pop()
        };
        let Some(exchange) = ask(Method::HEAD).await else { break };
        let mut asset = Asset { kind, exchange };
        // Repeat a failed request with GET, because some servers do not handle HEAD correctly.
        if asset.failure().is_some()
            && let Some(exchange) = ask(Method::GET).await
        {
            asset.exchange = exchange;
        }
        assets.push(asset);
    }
    assets
}

/// Requests a page over `http` as a browser, and the target if that redirects to `http` again, once. Prefers
/// a page below the home page: only its redirect shows whether the path is kept. Requests nothing if the URL
/// has a port.
async fn ask_without_tls(client: &Client, first_requests: &FirstRequests) -> Vec<Arc<Exchange>> {
    let page = first_requests
        .pages
        .iter()
        .map(|page| &page.url)
        .find(|url| url.path() != "/")
        .unwrap_or(&first_requests.url);
    let mut url = page.clone();
    if url.port().is_some() || url.set_scheme("http").is_err() {
        return Vec::new();
    }
    let send =
        async |url: &Url| client.send(Group::Basics, Request::get(url).accept(CHROME.accept)).await.ok();
    let Some(first) = send(&url).await else { return Vec::new() };
    let again = redirect_target(&first).filter(|target| target.scheme() == "http" && *target != url);
    let mut exchanges = vec![first];
    if let Some(target) = again {
        exchanges.extend(send(&target).await);
    }
    exchanges
}

/// The URL with `www.` added to a name of two labels, or removed from a name that has it. `None` for other
/// names and for IP addresses.
fn other_host(url: &Url) -> Option<Url> {
    let host = url.domain()?;
    let other = match host.strip_prefix("www.") {
        Some(rest) => rest.to_owned(),
        None if host.matches('.').count() == 1 => format!("www.{host}"),
        None => return None,
    };
    let mut url = url.clone();
    url.set_host(Some(&other)).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_host_has_www_or_lacks_it() {
        for (url, expected) in [
            ("https://example.com/a", Some("https://www.example.com/a")),
            ("https://www.example.com/a", Some("https://example.com/a")),
            ("https://docs.example.com/", None),
            ("https://192.0.2.1/", None),
        ] {
            let other = other_host(&Url::parse(url).unwrap());
            assert_eq!(other.as_ref().map(Url::as_str), expected, "{url}");
        }
    }
}
