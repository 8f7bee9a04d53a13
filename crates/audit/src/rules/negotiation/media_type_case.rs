//! The names of media types are compared without regard to case.

use super::shared::{PARSE_ACCEPT, accept_of, that_gets};
use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "media-type-case",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "`TEXT/MARKDOWN` in `Accept` means the same as `text/markdown`.",
    matters: "Media types are case-insensitive (RFC 9110 §8.3.1).",
    hurts: "Clients that write the media type in upper case, which get HTML.",
    fixes: &[
        PARSE_ACCEPT,
        Fix {
            platform: Platform::Nginx,
            text: "In a `map` of `$http_accept`, begin the regular expression with `~*` instead of `~`.",
        },
    ],
    check,
};

/// Reports a request that accepts `TEXT/MARKDOWN` in capitals but gets HTML that is not from a cache.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(exchange) =
        that_gets(survey.negotiation.unusual_accepts.capitals.as_ref(), Representation::Html)
    {
        findings.report(
            &[exchange],
            format!(
                "{} gets HTML, but the same in lower case gets Markdown: compare media types without regard to case",
                accept_of(exchange)
            ),
        );
    }
}
