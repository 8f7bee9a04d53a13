//! The canonical URL of a page leads to a page.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "canonical-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The canonical URL of a page leads to a page.",
    matters: "Search engines and agents replace the URL of the page with the canonical one (RFC 6596).",
    hurts: "Search engines and agents, which cite a URL that fails.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Derive the canonical URL and the URL of the page from the same value.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "As its canonical URL, the page", &survey.links.canonical);
}
