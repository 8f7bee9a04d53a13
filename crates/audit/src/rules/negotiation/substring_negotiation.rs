//! Only the type `text/markdown` selects Markdown, not a longer name.

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_IN_NGINX, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "substring-negotiation",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A media type whose name only contains `text/markdown` does not select Markdown.",
    matters: "Media types match if type and subtype are equal (RFC 9110 §12.5.1). A site that searches \
              `Accept` for a substring usually ignores the weights, too.",
    hurts: "Clients that accept types with similar names, which get Markdown.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_IN_NGINX],
    check,
};

/// Reports a request that accepts media types with names like `text/markdown`, and HTML with less weight, but
/// gets Markdown that is not from a cache.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(exchange) = that_gets(survey.negotiation.lookalike.as_ref(), Representation::Markdown) {
        findings.report(
            &[exchange],
            format!("{} does not name `text/markdown` but gets Markdown: send HTML", accept_of(exchange)),
        );
    }
}
