//! Clients without a preference get HTML.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "any-gets-markdown",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A page is HTML for clients that accept anything or send no `Accept`.",
    matters: "Search engines and link previews send `*/*` or no `Accept`, which means the same (RFC 9110 \
              §12.5.1). They need the title, the description and the links of the HTML.",
    hurts: "Search engines and link previews, which miss the title and the description.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Make HTML the default: send Markdown only if `Accept` names it.",
        },
        PARSE_ACCEPT,
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let asked = [&survey.negotiation.any, &survey.negotiation.no_accept];
    for exchange in asked.into_iter().filter_map(|e| that_gets(e.as_ref(), Representation::Markdown)) {
        findings.report(
            &[exchange],
            format!(
                "A client without a preference ({}) gets Markdown: HTML must be the default",
                accept_of(exchange)
            ),
        );
    }
}
