//! Parameters of a media type in `Accept` do not change its match.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "accept-parameters",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A client that adds `charset` or `variant` to `text/markdown` gets Markdown.",
    matters: "Both are parameters of the media type (RFC 7763 §2). A site with one Markdown representation \
              need not distinguish them, and HTML is further from what the client requested.",
    hurts: "Agents that send these parameters, which get HTML.",
    fixes: &[PARSE_ACCEPT],
    check,
};

/// Reports each request that accepts `text/markdown` with a parameter but gets HTML that is not from a cache.
fn check(survey: &Survey, findings: &mut Findings) {
    let unusual_accepts = &survey.negotiation.unusual_accepts;
    for exchange in [&unusual_accepts.charset, &unusual_accepts.variant] {
        if let Some(exchange) = that_gets(exchange.as_ref(), Representation::Html) {
            findings.report(
                &[exchange],
                format!("{} gets HTML: send Markdown, as without the parameter", accept_of(exchange)),
            );
        }
    }
}
