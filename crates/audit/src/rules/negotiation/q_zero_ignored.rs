//! A type with the weight 0 is not sent.

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL, PARSE_ACCEPT_IN_NGINX, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "q-zero-ignored",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A client that excludes Markdown with `q=0` gets HTML.",
    matters: "`q=0` means: not acceptable (RFC 9110 §12.4.2). The agents and browsers in use do not send it for \
              these types.",
    hurts: "Clients that cannot read Markdown, and say so.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_IN_NGINX, PARSE_ACCEPT_AT_VERCEL],
    check,
};

/// Reports a request that gets Markdown although its `Accept` excludes it, unless a cache sent the Markdown.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(exchange) = that_gets(survey.negotiation.excluded.as_ref(), Representation::Markdown) {
        findings
            .report(&[exchange], format!("{} excludes Markdown but gets it: send HTML", accept_of(exchange)));
    }
}
