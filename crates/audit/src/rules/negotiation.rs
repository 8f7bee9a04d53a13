//! Rules of the group negotiation.

mod accept_lines_ignored;
mod accept_parameters;
mod accept_refused;
mod agent_gets_html;
mod any_gets_markdown;
mod browser_gets_markdown;
mod charset_missing;
mod charset_wrong;
mod content_type_untrue;
mod head_differs;
mod markdown_content_type;
mod media_type_case;
mod not_acceptable;
mod not_found_format;
mod q_values_ignored;
mod q_zero_ignored;
mod substring_negotiation;
mod user_agent_changes_content;
mod user_agent_refused;
mod user_agent_selects_format;
mod wildcard_subtype_ignored;

use std::sync::Arc;

use http::header;

use crate::cache_status::cache_evidence;
use crate::exchange::{Exchange, Representation, Response};
use crate::rule::{Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) const RULES: &[&Rule] = &[
    &agent_gets_html::RULE,
    &browser_gets_markdown::RULE,
    &any_gets_markdown::RULE,
    &accept_refused::RULE,
    &q_values_ignored::RULE,
    &q_zero_ignored::RULE,
    &wildcard_subtype_ignored::RULE,
    &accept_lines_ignored::RULE,
    &media_type_case::RULE,
    &accept_parameters::RULE,
    &substring_negotiation::RULE,
    &not_acceptable::RULE,
    &head_differs::RULE,
    &not_found_format::RULE,
    &content_type_untrue::RULE,
    &markdown_content_type::RULE,
    &charset_missing::RULE,
    &charset_wrong::RULE,
    &user_agent_selects_format::RULE,
    &user_agent_changes_content::RULE,
    &user_agent_refused::RULE,
];

/// How to read `Accept` in general: the fix of the rules on its syntax and weights.
const PARSE_ACCEPT: Fix = Fix {
    platform: Platform::Any,
    text: "Do not search in the text of `Accept`. Parse it with a library for content negotiation: it \
           splits the list, compares names without regard to case, and applies the weights `q`.",
};

const PARSE_ACCEPT_AT_VERCEL: Fix = Fix {
    platform: Platform::Vercel,
    text: "A condition `has` on the header `accept` in `vercel.json` is a regular expression and cannot \
           compare weights: decide in a middleware with a parser of `Accept`.",
};

const PARSE_ACCEPT_IN_NGINX: Fix = Fix {
    platform: Platform::Nginx,
    text: "A `map` of `$http_accept` cannot compare weights: pass requests whose `Accept` contains \
           `text/markdown` to an application that parses it, or decide in njs.",
};

/// Whether the client got this representation with status 200 from the origin. The responses of caches are
/// judged by the rules on caches.
fn gets(exchange: &Exchange, representation: Representation) -> bool {
    exchange.success().is_some_and(|response| {
        response.representation() == representation && cache_evidence(response).is_none()
    })
}

/// The exchange, if it was sent and [`gets`] this representation.
fn that_gets(exchange: Option<&Arc<Exchange>>, representation: Representation) -> Option<&Arc<Exchange>> {
    exchange.filter(|exchange| gets(exchange, representation))
}

/// The lines of `Accept` in backticks.
fn accept_of(exchange: &Exchange) -> String {
    let lines = exchange.request.headers.iter().filter(|(name, _)| name == header::ACCEPT);
    let lines: Vec<_> =
        lines.map(|(_, value)| format!("`Accept: {}`", String::from_utf8_lossy(value.as_bytes()))).collect();
    if lines.is_empty() { "no `Accept`".to_owned() } else { lines.join(" and ") }
}

/// All responses to GET requests with text: pages, Markdown at their own addresses and at those of twins.
/// Leaves out the responses that claim a content coding which was not decoded.
fn texts(survey: &Survey) -> impl Iterator<Item = (&Arc<Exchange>, &Response)> {
    let pages = survey.basis.pages.iter();
    let exchanges =
        pages.flat_map(|page| [Some(&page.html), page.agent.as_ref(), page.twin.as_ref()]).flatten();
    let readable = exchanges.filter_map(|exchange| Some((exchange, exchange.success()?)));
    readable.filter(|(_, response)| matches!(&*response.encoding(), "" | "gzip"))
}

/// How much a response hurts that depends on the `User-Agent`: a cache that is not told may serve it to all
/// clients.
fn severity_by_cache(response: &Response) -> Severity {
    if response.varies_on("user-agent") || response.shared_lifetime() == Some(0) {
        Severity::Advice
    } else {
        Severity::Broken
    }
}
