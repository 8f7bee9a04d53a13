//! Browsers get HTML.

use std::sync::Arc;

use http::{Method, header};

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL, accept_of, gets};
use crate::client_profiles::{CHROME, CODEX};
use crate::exchange::{Exchange, Representation};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "browser-gets-markdown",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A page is HTML for clients that prefer HTML.",
    matters: "Browsers give `text/html` the greatest weight and accept other types by `*/*` (RFC 9110 \
              §12.5.1). They show Markdown as plain text or download it.",
    hurts: "People, who see raw text or a download.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL],
    check,
};

/// Reports each client that prefers HTML and gets Markdown that is not from a cache. A finding about the
/// Codex CLI is advice. Chrome counts at any URL of the survey where it was the first client.
fn check(survey: &Survey, findings: &mut Findings) {
    let clients = survey.negotiation.browsers.iter().map(|(client, exchange)| (client.name, exchange));
    // Search all exchanges: `survey.first_requests` lacks the pages for which Chrome got Markdown.
    let chrome = survey.exchanges.iter().filter(|exchange| is_first_by_chrome(exchange, survey));
    let chrome = chrome.map(|exchange| (CHROME.name, exchange));
    for (name, exchange) in clients.chain(chrome) {
        if gets(exchange, Representation::Markdown) {
            // Report this only as advice: the Codex CLI gives `*/*` the same weight as HTML.
            let severity = if name == CODEX.name { Severity::Advice } else { Severity::Broken };
            findings.report_as(
                severity,
                &[exchange],
                format!("{name} prefers HTML ({}) but gets Markdown: send HTML", accept_of(exchange)),
            );
        }
    }
}

/// Whether this is a GET request of Chrome, and the audit's first request of the URL, so that no cache got
/// another client's response from the audit. False for a path that ends in `.md`.
fn is_first_by_chrome(exchange: &Exchange, survey: &Survey) -> bool {
    let is_earlier = |other: &Arc<Exchange>| other.number < exchange.number && other.url() == exchange.url();
    let request = &exchange.request;
    let accept = request.headers.iter().find(|(name, _)| name == header::ACCEPT);
    request.method == Method::GET
        && accept.is_some_and(|(_, value)| value == CHROME.accept)
        && !request.url.path().ends_with(".md")
        && !survey.exchanges.iter().any(is_earlier)
}
