//! Code and fixes that several rules of the group caches share.

use std::sync::Arc;

use http::header;

use crate::exchange::{Exchange, Representation, Response};
use crate::page::{Page, representation_of_page};
use crate::rule::{Findings, Fix, Platform, Severity};
use crate::survey::Survey;
use crate::survey::caches::opaque_tag;

/// How to send `Vary: Accept`.
pub(super) const VARY_FIXES: &[Fix] = &[
    Fix {
        platform: Platform::Any,
        text: "Send `Vary: Accept` (or `Vary: Accept, Accept-Encoding`) with every response of an address \
               whose responses depend on `Accept`, also with 304, redirects and errors.",
    },
    Fix {
        platform: Platform::Nginx,
        text: "`add_header Vary Accept always;` where the map of `$http_accept` is used; without `always`, \
               404 and 406 do not have it.",
    },
    Fix {
        platform: Platform::Caddy,
        text: "`header +Vary Accept` in the same block as the matcher on `Accept`, and in `handle_errors`.",
    },
    Fix { platform: Platform::Apache, text: "`Header always merge Vary Accept` (mod_headers)." },
    Fix {
        platform: Platform::Netlify,
        text: "`Vary: Accept` in `_headers`; functions set `Vary` or `Netlify-Vary: header=Accept` \
               themselves.",
    },
];

/// How to separate the representations in a cache.
pub(super) const KEY_FIXES: &[Fix] = &[
    Fix {
        platform: Platform::Any,
        text: "Let the cache store a response for each preferred representation: it must respect `Vary: \
               Accept`, or have `Accept` in its key (CloudFront: in the cache policy). Otherwise do not let \
               it store pages: `Cache-Control: private` or a rule. Then purge it.",
    },
    Fix {
        platform: Platform::Cloudflare,
        text: "Turn on Vary for `accept` in the Cache Rule that makes pages cacheable (normalized to \
               `text/html` and `text/markdown`), or bypass the cache for pages. Without it, the key has the \
               URL only.",
    },
    Fix {
        platform: Platform::Nginx,
        text: "Remove `Vary` from `proxy_ignore_headers`, or map `$http_accept` to `html` or `markdown` and \
               add the variable to `proxy_cache_key`.",
    },
    Fix {
        platform: Platform::Netlify,
        text: "Send `Netlify-Vary: header=Accept` with responses of functions and proxies.",
    },
    Fix {
        platform: Platform::Varnish,
        text: "Send `Vary: Accept` from the backend, and normalize `req.http.Accept` to two values in \
               `vcl_recv`.",
    },
];

/// How to give each representation and coding its own validator.
pub(super) const ETAG_FIXES: &[Fix] = &[Fix {
    platform: Platform::Any,
    text: "Compute the `ETag` from the bytes that are sent, after choosing the representation and the \
           coding, and compare `If-None-Match` with the `ETag` of the response that would be sent.",
}];

/// The name of what a client got, for messages.
pub(super) fn kind(response: &Response) -> &'static str {
    match representation_of_page(response) {
        Representation::Html => "HTML",
        Representation::Markdown => "Markdown",
        Representation::Other => "another media type",
    }
}

/// The pages that exist as HTML and as Markdown at one address, with both exchanges.
pub(super) fn negotiated_pages(
    survey: &Survey,
) -> impl Iterator<Item = (&Page, &Arc<Exchange>, &Arc<Exchange>)> {
    let negotiated = survey.basis.pages.iter().filter(|page| page.markdown.is_some());
    negotiated.filter_map(|page| Some((page, &page.html, page.agent.as_ref()?)))
}

/// The `Vary` of a response, for messages.
pub(super) fn vary_of(response: &Response) -> String {
    let vary = response.vary().join(", ");
    if vary.is_empty() { "no `Vary`".to_owned() } else { format!("only `Vary: {vary}`") }
}

/// How much it hurts if a response without the right `Vary` differs for another client: nothing if no cache
/// may store it, little if only the client's own cache may, or if a cache may not assume a lifetime for such
/// a status (RFC 9110 §15.1) and the response states none.
pub(super) fn severity_without_vary(response: &Response) -> Option<Severity> {
    let is_cacheable =
        matches!(response.status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410);
    let has_lifetime = response.shared_lifetime().is_some_and(|seconds| seconds > 0);
    if response.cache_directive("no-store").is_some() {
        None
    } else if response.cache_directive("private").is_none() && (is_cacheable || has_lifetime) {
        Some(Severity::Broken)
    } else {
        Some(Severity::Advice)
    }
}

/// Reports a response that depends on `Accept` but does not say so. `subject` and `difference` are parts of
/// the sentence: "`subject` has no `Vary`, but `difference`".
pub(super) fn report_without_vary(
    findings: &mut Findings,
    exchange: &Arc<Exchange>,
    subject: &str,
    difference: &str,
) {
    let Some(response) = exchange.response().filter(|response| !response.varies_on("accept")) else { return };
    if let Some(severity) = severity_without_vary(response) {
        let vary = vary_of(response);
        let message =
            format!("{subject} has {vary}, but {difference}: a cache may serve it to the wrong clients");
        findings.report_as(severity, &[exchange], message);
    }
}

/// The `ETag` without the mark of weak ones; `None` if there is none.
pub(super) fn entity_tag(response: &Response) -> Option<String> {
    let etag = response.header(header::ETAG);
    Some(opaque_tag(&etag).to_owned()).filter(|tag| !tag.is_empty())
}

/// The 304 responses to clients that sent the `ETag` of what they got before, with the exchange before.
pub(super) fn not_modified(
    survey: &Survey,
) -> impl Iterator<Item = (&Response, &Arc<Exchange>, &Arc<Exchange>)> {
    let page = &survey.basis.pages[survey.caches.page];
    let pairs = [
        (Some(&page.html), survey.caches.not_modified_html.as_ref()),
        (page.agent.as_ref(), survey.caches.not_modified_markdown.as_ref()),
    ];
    pairs.into_iter().filter_map(|(before, exchange)| {
        let response = exchange?.response().filter(|response| response.status == 304)?;
        Some((response, exchange?, before?))
    })
}
