//! The links in the Markdown of pages lead to pages.

use super::broken::report_broken;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The links in the Markdown of pages lead to pages.",
    matters: "Agents follow the links of what they read; relative links are relative to the address of \
              the Markdown (RFC 3986 §5.1.3).",
    hurts: "Agents, which get an error.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Make links absolute when the Markdown is written, because its address may differ \
                   from that of the page.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "The Markdown", &survey.links.markdown);
}
