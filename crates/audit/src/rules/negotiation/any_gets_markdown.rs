//! Clients without a preference get HTML.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "any-gets-markdown",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A page is HTML for clients that accept anything, or send no `Accept`.",
    matters: "Search engines and the previews of links send `*/*`, or no `Accept`, which means the same \
              (RFC 9110 §12.5.1). They need the title, the description and the links of the HTML.",
    hurts: "Search engines, previews in chats, and the people who find the page there.",
    fixes: &[
        PARSE_ACCEPT,
        Fix {
            platform: Platform::Apache,
            text: "Between equal types, MultiViews chooses the smaller file. Use a type map in its place and \
                   lower the quality of the Markdown: `Content-Type: text/markdown; qs=0.5`.",
        },
    ],
    check,
};

/// Reports one finding for clients that send `*/*` or no `Accept` and get Markdown that is not from a cache.
fn check(survey: &Survey, findings: &mut Findings) {
    let asked = [&survey.negotiation.any, &survey.negotiation.no_accept].into_iter();
    let wrong: Vec<_> = asked.filter_map(|e| that_gets(e.as_ref(), Representation::Markdown)).collect();
    if wrong.is_empty() {
        return;
    }
    let accepts: Vec<_> = wrong.iter().map(|exchange| accept_of(exchange)).collect();
    findings.report(
        &wrong,
        format!(
            "A client without a preference ({}) gets Markdown: HTML must be the default",
            accepts.join(", and ")
        ),
    );
}
