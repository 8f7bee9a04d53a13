//! Fixes, and conditions on responses, that several rules of the group negotiation share.

use std::sync::Arc;

use http::header;

use crate::cache_status::cache_evidence;
use crate::exchange::{Exchange, Representation, Response};
use crate::rule::{Fix, Platform, Severity};
use crate::survey::Survey;

/// The fix for servers that misread the syntax or the weights of `Accept`.
pub(super) const PARSE_ACCEPT: Fix = Fix {
    platform: Platform::Any,
    text: "Do not search `Accept` for a substring. Use a content negotiation library, which splits the list, \
           compares media types without regard to case, and applies the weights (`q`).",
};

pub(super) const PARSE_ACCEPT_AT_VERCEL: Fix = Fix {
    platform: Platform::Vercel,
    text: "A `has` condition on the header `accept` in `vercel.json` is a regular expression and cannot \
           compare weights: parse `Accept` in middleware.",
};

pub(super) const PARSE_ACCEPT_IN_NGINX: Fix = Fix {
    platform: Platform::Nginx,
    text: "A `map` of `$http_accept` cannot compare weights: proxy requests whose `Accept` contains \
           `text/markdown` to an application that parses it, or decide in njs.",
};

/// Whether the client got this representation with status 200 from the origin. The responses of caches are
/// judged by the rules on caches.
pub(super) fn gets(exchange: &Exchange, representation: Representation) -> bool {
    exchange.success().is_some_and(|response| {
        response.representation() == representation && cache_evidence(response).is_none()
    })
}

/// Returns `exchange` if the request was sent and the client got this representation ([`gets`]).
pub(super) fn that_gets(
    exchange: Option<&Arc<Exchange>>,
    representation: Representation,
) -> Option<&Arc<Exchange>> {
    exchange.filter(|exchange| gets(exchange, representation))
}

/// The `Accept` lines of a request in backticks, for messages.
pub(super) fn accept_of(exchange: &Exchange) -> String {
    let lines = exchange.request.headers.iter().filter(|(name, _)| name == header::ACCEPT);
    let lines: Vec<_> =
        lines.map(|(_, value)| format!("`Accept: {}`", String::from_utf8_lossy(value.as_bytes()))).collect();
    if lines.is_empty() { "no `Accept`".to_owned() } else { lines.join(" and ") }
}

/// The 200 responses of the checked pages: their HTML, the responses to agents, and their twins.
/// Leaves out the responses that claim a content coding which was not decoded.
pub(super) fn texts(survey: &Survey) -> impl Iterator<Item = (&Arc<Exchange>, &Response)> {
    let pages = survey.first_requests.pages.iter();
    let exchanges =
        pages.flat_map(|page| [Some(&page.html), page.agent.as_ref(), page.twin.as_ref()]).flatten();
    let readable = exchanges.filter_map(|exchange| Some((exchange, exchange.success()?)));
    readable.filter(|(_, response)| matches!(&*response.encoding(), "" | "gzip"))
}

/// The severity of a response that depends on the `User-Agent`: broken if caches may store it for a stated
/// time but `Vary` does not name the field, so that they serve it to all clients; otherwise advice.
pub(super) fn severity_by_cache(response: &Response) -> Severity {
    let is_stored = response.shared_lifetime().is_some_and(|seconds| seconds > 0);
    if is_stored && !response.varies_on("user-agent") { Severity::Broken } else { Severity::Advice }
}
