//! Parameters of a media type in `Accept` do not hide the type.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "accept-parameters",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A client that adds `charset` or `variant` to `text/markdown` gets Markdown.",
    matters: "Both are parameters of the type (RFC 7763 §2). A site that has one Markdown does not need to \
              distinguish them, and HTML is further from what the client asked for.",
    hurts: "Agents that send the parameters.",
    fixes: &[PARSE_ACCEPT],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let peculiar = &survey.negotiation.peculiar;
    for exchange in [&peculiar.charset, &peculiar.variant] {
        if let Some(exchange) = that_gets(exchange.as_ref(), Representation::Html) {
            findings.report(
                &[exchange],
                format!("{} gets HTML; without the parameter, it is Markdown", accept_of(exchange)),
            );
        }
    }
}
