//! Agents that prefer Markdown get it, where the site has it.

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL, accept_of, gets};
use crate::cache_status::cache_evidence;
use crate::client_profiles::CLAUDE_CODE;
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "agent-gets-html",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A URL that serves Markdown to one agent serves it to every agent that prefers Markdown.",
    matters: "The weights in `Accept` say what a client prefers (RFC 9110 §12.5.1). Agents list different \
              other types, so a site that recognizes only the header of one agent sends HTML to the rest.",
    hurts: "Agents, which read many times more text and may cut it.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL],
    check,
};

/// Reports each agent that prefers Markdown but gets HTML, if the survey got Markdown at the URL; as advice,
/// Claude Code, which gives both the same weight. Notes as not judged that cache-busting URLs are refused, or
/// that an agent got HTML from a cache, which ends the check.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(reason) = survey.caches.cache_busting_refusal() {
        findings.not_judged(reason);
    }
    if !survey.negotiation.negotiates {
        return;
    }
    for (client, exchange) in &survey.negotiation.agents {
        let html = exchange.success().filter(|response| response.representation() == Representation::Html);
        if let Some(field) = html.and_then(cache_evidence) {
            findings.not_judged(format!("a cache answered for the site (`{field}`)"));
            return;
        }
        if gets(exchange, Representation::Html) {
            findings.report(
                &[exchange],
                format!(
                    "{} prefers Markdown ({}) but gets HTML: send the Markdown, which this URL has",
                    client.name,
                    accept_of(exchange)
                ),
            );
        }
    }
    // If `Accept` gives HTML and Markdown equal weights, the server may choose: report HTML only as advice.
    if let Some(exchange) = survey.first_requests.tie.as_ref().filter(|tie| gets(tie, Representation::Html)) {
        findings.report_as(
            Severity::Advice,
            &[exchange],
            format!(
                "{} lists Markdown first ({}) but gets HTML: prefer Markdown if the weights are equal",
                CLAUDE_CODE.name,
                accept_of(exchange)
            ),
        );
    }
}
