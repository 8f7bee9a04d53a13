//! Several lines of `Accept` are one list.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "accept-lines-ignored",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A second line of `Accept` counts as if it continued the first.",
    matters: "Lines of a list field are joined by commas (RFC 9110 §5.3). Libraries and proxies may send \
              them apart.",
    hurts: "Clients that send each type in a line of its own.",
    fixes: &[
        PARSE_ACCEPT,
        Fix {
            platform: Platform::Any,
            text: "Read all lines of the field and join them with commas, before you parse the list.",
        },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let negotiation = &survey.negotiation;
    let peculiar = &negotiation.peculiar;
    // The same in one line must be right: otherwise the weights are the reason.
    for (lines, one_line, got, name, right) in [
        (
            &negotiation.html_preferred,
            &negotiation.html_in_one_line,
            Representation::Markdown,
            "Markdown",
            Representation::Html,
        ),
        (
            &peculiar.two_lines,
            &peculiar.markdown_last,
            Representation::Html,
            "HTML",
            Representation::Markdown,
        ),
    ] {
        if let Some(exchange) = that_gets(lines.as_ref(), got)
            && let Some(control) = that_gets(one_line.as_ref(), right)
        {
            findings.report(
                &[exchange, control],
                format!(
                    "{} in two lines gets {name}; the same list in one line is read",
                    accept_of(exchange)
                ),
            );
        }
    }
}
