//! Code and fixes that several rules of the group caches share.

use std::sync::Arc;

use http::header;

use crate::exchange::{Exchange, Representation, Response};
use crate::page::{Page, representation_of_page};
use crate::rule::{Findings, Fix, Platform, Severity};
use crate::survey::Survey;
use crate::survey::caches::opaque_tag;

/// The fixes for a missing `Vary: Accept`.
pub(super) const VARY_FIXES: &[Fix] = &[
    Fix {
        platform: Platform::Any,
        text: "Send `Vary: Accept` (or `Vary: Accept, Accept-Encoding`) with every response of a URL that \
               negotiates, including 304, redirects and errors.",
    },
    Fix {
        platform: Platform::Nginx,
        text: "`add_header Vary Accept always;` in the `location` that uses the `map` of `$http_accept`. \
               Without `always`, nginx omits it from 404 and 406.",
    },
    Fix {
        platform: Platform::Caddy,
        text: "`header +Vary Accept` beside the matcher on `Accept`, not inside its block, and in \
               `handle_errors`.",
    },
    Fix { platform: Platform::Apache, text: "`Header always merge Vary Accept` (mod_headers)." },
    Fix {
        platform: Platform::Netlify,
        text: "Write `Vary: Accept` in `_headers`. Functions must send it themselves.",
    },
];

/// The fixes for a cache that mixes up the representations.
pub(super) const KEY_FIXES: &[Fix] = &[
    Fix {
        platform: Platform::Any,
        text: "Let the cache obey `Vary: Accept`, or add `Accept` to the cache key (CloudFront: in the cache \
               policy). Otherwise keep pages out of the cache, for example with `Cache-Control: private`. \
               Then purge it.",
    },
    Fix {
        platform: Platform::Cloudflare,
        text: "In the Cache Rule that makes pages cacheable, set Vary to `passthrough` for `accept`, and \
               send `Vary: Accept`; or bypass the cache for pages. `normalize` drops the weights before the \
               origin reads them.",
    },
    Fix {
        platform: Platform::Nginx,
        text: "Remove `Vary` from `proxy_ignore_headers`. If you cannot, `map` `$http_accept` to `html` or \
               `markdown`, and add the variable to `proxy_cache_key`.",
    },
    Fix {
        platform: Platform::Netlify,
        text: "Send `Vary: Accept` or `Netlify-Vary: header=Accept` with responses of functions and proxies.",
    },
    Fix {
        platform: Platform::Varnish,
        text: "Send `Vary: Accept` from the backend, and normalize `req.http.Accept` to two values in \
               `vcl_recv`.",
    },
];

/// The fix for representations or codings that share an `ETag`.
pub(super) const ETAG_FIXES: &[Fix] = &[Fix {
    platform: Platform::Any,
    text: "Compute the `ETag` from the bytes to send, after choosing the representation and the coding. \
           Compare `If-None-Match` with that `ETag`.",
}];

/// The name of a response's representation, for messages.
pub(super) fn kind(response: &Response) -> &'static str {
    match representation_of_page(response) {
        Representation::Html => "HTML",
        Representation::Markdown => "Markdown",
        Representation::Other => "another media type",
    }
}

/// The pages with negotiated Markdown, each with its HTML and with the response to the agent, which may come
/// from a URL with a cache-busting query.
pub(super) fn negotiated_pages(
    survey: &Survey,
) -> impl Iterator<Item = (&Page, &Arc<Exchange>, &Arc<Exchange>)> {
    let negotiated = survey.first_requests.pages.iter().filter(|page| page.markdown.is_some());
    negotiated.filter_map(|page| Some((page, &page.html, page.agent.as_ref()?)))
}

/// The `Vary` of a response in messages about a name that it lacks: “no `Vary`”, or “only `Vary: …`” with all
/// its names in lower case.
pub(super) fn vary_of(response: &Response) -> String {
    let vary = response.vary().join(", ");
    if vary.is_empty() { "no `Vary`".to_owned() } else { format!("only `Vary: {vary}`") }
}

/// The severity of a missing `Vary`: `None` with `no-store`; advice with `private`, or if the status is none
/// of those that caches store without an explicit lifetime (RFC 9110 §15.1; 206, 414 and 501 are not counted
/// among them) and the response has no lifetime above zero; otherwise broken.
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

/// Reports a response that depends on `Accept`, but lacks `Vary: Accept`, as [`report_without`] does.
pub(super) fn report_without_vary(
    findings: &mut Findings,
    exchange: &Arc<Exchange>,
    subject: &str,
    difference: &str,
) {
    report_without("Accept", findings, exchange, subject, difference);
}

/// Reports a response that depends on the request's `field` but whose `Vary` does not name it. The message is
/// “`subject` has no `Vary`, but `difference`”, with the `Vary` that it has. Reports nothing without a
/// response, and if `Vary` is `*` or the response has `no-store`.
pub(super) fn report_without(
    field: &str,
    findings: &mut Findings,
    exchange: &Arc<Exchange>,
    subject: &str,
    difference: &str,
) {
    let name = field.to_ascii_lowercase();
    let Some(response) = exchange.response().filter(|response| !response.varies_on(&name)) else { return };
    if let Some(severity) = severity_without_vary(response) {
        let vary = vary_of(response);
        let message = format!(
            "{subject} has {vary}, but {difference}: send `Vary: {field}`, or a cache may serve it to the \
             wrong clients"
        );
        findings.report_as(severity, &[exchange], message);
    }
}

/// The `ETag` without the prefix `W/`; `None` if there is none.
pub(super) fn entity_tag(response: &Response) -> Option<String> {
    let etag = response.header(header::ETAG);
    Some(opaque_tag(&etag).to_owned()).filter(|tag| !tag.is_empty())
}

/// The 304 responses for the page of the survey of caches, to a browser that sent the `ETag` of the HTML and
/// an agent that sent that of the Markdown: each with its own exchange, and with the exchange that contained
/// the `ETag`.
pub(super) fn not_modified(
    survey: &Survey,
) -> impl Iterator<Item = (&Response, &Arc<Exchange>, &Arc<Exchange>)> {
    let page = &survey.first_requests.pages[survey.caches.page];
    let pairs = [
        (Some(&page.html), survey.caches.not_modified_html.as_ref()),
        (page.agent.as_ref(), survey.caches.not_modified_markdown.as_ref()),
    ];
    pairs.into_iter().filter_map(|(before, exchange)| {
        let response = exchange?.response().filter(|response| response.status == 304)?;
        Some((response, exchange?, before?))
    })
}
