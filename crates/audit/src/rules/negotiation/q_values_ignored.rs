//! The weights of `Accept` decide between HTML and Markdown.

use super::shared::{PARSE_ACCEPT, PARSE_ACCEPT_AT_VERCEL, PARSE_ACCEPT_IN_NGINX, accept_of, that_gets};
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "q-values-ignored",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A client gets the representation with the greater weight, in any order of the list.",
    matters: "`q` says what a client prefers (RFC 9110 §12.4.2). A client that lists Markdown as its second \
              choice must get HTML.",
    hurts: "Agents and programs, which get their second choice.",
    fixes: &[PARSE_ACCEPT, PARSE_ACCEPT_IN_NGINX, PARSE_ACCEPT_AT_VERCEL],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let negotiation = &survey.negotiation;
    for (exchange, got, name, right) in [
        (&negotiation.html_in_one_line, Representation::Markdown, "Markdown", "HTML"),
        (&negotiation.peculiar.markdown_last, Representation::Html, "HTML", "Markdown"),
    ] {
        if let Some(exchange) = that_gets(exchange.as_ref(), got) {
            findings.report(
                &[exchange],
                format!(
                    "{} gets {name}: {right} is right, because it has the greater weight",
                    accept_of(exchange)
                ),
            );
        }
    }
}
