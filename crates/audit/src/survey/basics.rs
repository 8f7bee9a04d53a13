//! The requests of the group basics: the site without TLS, its protocol, and its other host name.

use std::sync::Arc;

use frontdesk_convert::Url;

use super::basis::Basis;
use crate::client::{Client, redirect_target};
use crate::clients::CHROME;
use crate::exchange::{Exchange, Request};
use crate::group::Group;

/// Exchanges about the site as a whole. Sites at private addresses are asked nothing.
#[derive(Default)]
pub struct BasicsSurvey {
    /// Whether the site has a public address, so that its traffic crosses the internet.
    pub is_public: bool,
    /// A page of an `https` site at its `http` URL; if that redirects to `http` again, also the target.
    pub without_tls: Vec<Arc<Exchange>>,
    /// The protocol that TLS selects from `h2` and `http/1.1`; the error is a sentence. `None` if it was not
    /// asked.
    pub protocol: Option<Result<String, String>>,
    /// The first page at the same host with `www.`, or without it.
    pub other_host: Option<Arc<Exchange>>,
}

impl BasicsSurvey {
    /// Sends the requests of the group: at most four.
    pub(crate) async fn survey(client: &Client, basis: &Basis) -> BasicsSurvey {
        let is_public = client.is_public();
        let mut survey = BasicsSurvey { is_public, ..BasicsSurvey::default() };
        if !is_public {
            return survey;
        }
        if basis.url.scheme() == "https" {
            survey.protocol = client.negotiate_protocol(Group::Basics, &basis.url).await.ok();
            survey.without_tls = ask_without_tls(client, basis).await;
        }
        if let Some(url) = other_host(&basis.url) {
            let request = Request::get(&url).accept(CHROME.accept);
            survey.other_host = client.send(Group::Basics, request).await.ok();
        }
        survey
    }
}

/// Requests a page below the home page if there is one: only its redirect shows whether the path is kept.
async fn ask_without_tls(client: &Client, basis: &Basis) -> Vec<Arc<Exchange>> {
    let page = basis.pages.iter().map(|page| &page.url).find(|url| url.path() != "/").unwrap_or(&basis.url);
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

/// The URL with `www.` added to a name of two labels, or removed from a longer one.
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
