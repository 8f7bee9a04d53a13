//! Several lines of `Accept` are one list.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "accept-lines-ignored",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "Several `Accept` lines count as one list.",
    matters: "Lines of a list field are joined with commas (RFC 9110 §5.3). Libraries and proxies may send \
              them separately.",
    hurts: "Clients that send several `Accept` lines, which get the wrong representation.",
    fixes: &[
        PARSE_ACCEPT,
        Fix {
            platform: Platform::Any,
            text: "Join all lines of the field with commas before you parse the list.",
        },
    ],
    check,
};

/// Reports each list of types on two lines that gets the wrong representation, if the same list on one line
/// gets the right one. Responses of caches do not count.
fn check(survey: &Survey, findings: &mut Findings) {
    let negotiation = &survey.negotiation;
    let unusual_accepts = &negotiation.unusual_accepts;
    // The request with the same types in one line must get the right representation: otherwise the weights
    // are the reason.
    for (lines, one_line, got, name, right) in [
        (
            &negotiation.html_preferred,
            &negotiation.html_in_one_line,
            Representation::Markdown,
            "Markdown",
            Representation::Html,
        ),
        (
            &unusual_accepts.two_lines,
            &unusual_accepts.markdown_last,
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
                    "{} get {name}, but the same list on one line gets the right representation: join the \
                     lines",
                    accept_of(exchange)
                ),
            );
        }
    }
}
