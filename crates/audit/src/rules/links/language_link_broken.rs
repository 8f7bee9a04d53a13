//! The declared versions in other languages exist.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The declared versions in other languages exist.",
    matters: "Search engines and browsers offer these versions to people with other languages.",
    hurts: "People who read other languages, who get an error.",
    fixes: &[Fix { platform: Platform::Any, text: "Declare only languages in which the page exists." }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "As a version in another language, the page", &survey.links.language);
}
