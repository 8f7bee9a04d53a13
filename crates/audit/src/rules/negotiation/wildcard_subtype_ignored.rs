//! `text/*` includes HTML.

use super::shared::{PARSE_ACCEPT, accept_of};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "wildcard-subtype-ignored",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A client that accepts `text/*` gets the page.",
    matters: "The media range `text/*` matches `text/html` (RFC 9110 §12.5.1).",
    hurts: "Clients that accept any text, which get an error.",
    fixes: &[PARSE_ACCEPT],
    check,
};

/// Reports a 400, 404, 406, 415 or 5xx response to a request that accepts `text/*` with less weight, excludes
/// Markdown, and prefers media types that do not exist.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.negotiation.unwanted else { return };
    let Some(response) = exchange.response() else { return };
    if matches!(response.status.as_u16(), 400 | 404 | 406 | 415 | 500..) {
        findings.report(
            &[exchange],
            format!("{} permits HTML but gets {}: send the HTML", accept_of(exchange), response.status),
        );
    }
}
