//! The weights of `Accept` decide between HTML and Markdown.

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL, PARSE_ACCEPT_IN_NGINX, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "q-values-ignored",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A client gets the representation with the greater weight, in any order of the list.",
    matters: "A client says by `q` what it prefers (RFC 9110 §12.4.2). One that names Markdown only as its \
              second choice must not get it instead of HTML. Whether the agents and browsers in use get the \
              right format is judged by `agent-gets-html` and `browser-gets-markdown`.",
    hurts: "Future agents and programs, which get the format that they read worse.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_IN_NGINX, PARSE_ACCEPT_AT_VERCEL],
    check,
};

/// Reports the request that prefers HTML and lists it last if it gets Markdown, and the one that prefers
/// Markdown and lists it last if it gets HTML. The survey sends both only if a simpler request got the wrong
/// representation. Responses from caches do not count.
fn check(survey: &Survey, findings: &mut Findings) {
    let negotiation = &survey.negotiation;
    for (exchange, got, name, right) in [
        (&negotiation.html_in_one_line, Representation::Markdown, "Markdown", "HTML"),
        (&negotiation.unusual_accepts.markdown_last, Representation::Html, "HTML", "Markdown"),
    ] {
        if let Some(exchange) = that_gets(exchange.as_ref(), got) {
            findings.report(
                &[exchange],
                format!("{} gets {name}: send {right}, which has the greater weight", accept_of(exchange)),
            );
        }
    }
}
