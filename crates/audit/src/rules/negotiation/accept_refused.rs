//! A valid `Accept` that permits HTML never gets an error.

use super::shared::{PARSE_ACCEPT, accept_of};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "accept-refused",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A page that Chrome can load returns no error to other clients whose `Accept` permits HTML.",
    matters: "Real clients send long lists, a lone `*`, weights such as `.2`, parameters, several lines, or \
              no `Accept`. All of them permit HTML, so none is a reason for an error (RFC 9110 §12.5.1).",
    hurts: "Agents, feed readers and programs, which get no page at all.",
    fixes: &[PARSE_ACCEPT],
    check,
};

/// Reports each request that permits HTML and gets a 4xx or 5xx status other than 429 and 503. Another rule
/// judges the request with `text/*`, and requests as crawlers are not judged here.
fn check(survey: &Survey, findings: &mut Findings) {
    let negotiation = &survey.negotiation;
    let clients = negotiation.agents.iter().chain(&negotiation.browsers);
    let clients = clients.map(|(client, exchange)| (client.name, exchange));
    let unusual_accepts = &negotiation.unusual_accepts;
    let others = [
        &negotiation.any,
        &negotiation.no_accept,
        &negotiation.html_preferred,
        &negotiation.html_in_one_line,
        &negotiation.excluded,
        &negotiation.lookalike,
        &unusual_accepts.markdown_last,
        &unusual_accepts.two_lines,
        &unusual_accepts.capitals,
        &unusual_accepts.charset,
        &unusual_accepts.variant,
    ];
    let others = others.into_iter().flatten().map(|exchange| ("A client", exchange));
    for (name, exchange) in clients.chain(others) {
        let Some(response) = exchange.response() else { continue };
        let status = response.status;
        let is_error = status.is_client_error() || status.is_server_error();
        // Skip 429 and 503, which mean that the site is busy.
        if !is_error || matches!(status.as_u16(), 429 | 503) {
            continue;
        }
        findings.report(
            &[exchange],
            format!("{name} gets {status} for {}, which permits HTML: send the HTML", accept_of(exchange)),
        );
    }
}
