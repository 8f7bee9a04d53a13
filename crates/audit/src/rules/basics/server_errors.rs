//! Pages are served without errors.

use http::{Method, header};

use crate::client_profiles::{CHROME, CLAUDE_CODE, WebClient};
use crate::exchange::Exchange;
use crate::exchange::FRESH_QUERY;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "server-errors",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "No page returns a status of 500 to 599.",
    matters: "The status says that the server failed (RFC 9110 §15.6). Agents give up, and search engines \
              remove the page if the error persists.",
    hurts: "People and agents, who cannot read the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Look for the URL in the log of the server, or of the application behind it.",
    }],
    check,
};

/// Reports each 5xx response to a page request that a browser or an agent would send ([`is_for_page`]).
fn check(survey: &Survey, findings: &mut Findings) {
    for exchange in
        survey.exchanges.iter().filter(|exchange| is_for_page(exchange, survey.first_requests.agent))
    {
        let Some(response) = exchange.response().filter(|response| response.status.is_server_error()) else {
            continue;
        };
        findings.report(&[exchange], format!("The page returns {}", response.status));
    }
}

/// Whether a browser or an agent would send this GET request: it has the `Accept` of Chrome, Claude Code or
/// `agent`, and no cache-busting query of the audit.
fn is_for_page(exchange: &Exchange, agent: WebClient) -> bool {
    let request = &exchange.request;
    let accept = request.headers.iter().find(|(name, _)| name == header::ACCEPT);
    let is_real = accept
        .is_some_and(|(_, value)| [CHROME, CLAUDE_CODE, agent].iter().any(|client| value == client.accept));
    let is_fresh = request.url.query().is_some_and(|query| query.contains(FRESH_QUERY));
    request.method == Method::GET && is_real && !is_fresh
}
