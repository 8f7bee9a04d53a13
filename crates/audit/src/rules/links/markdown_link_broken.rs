//! The links in the Markdown of pages lead to pages.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The links in the Markdown of pages lead to pages.",
    matters: "Agents follow the links that they read. Relative links resolve against the URL of the Markdown \
              (RFC 3986 §5.1.3).",
    hurts: "Agents, which get an error.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write absolute links in the Markdown, because its URL may differ from that of the page.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "The Markdown", &survey.links.markdown);
}
