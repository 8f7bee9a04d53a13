//! The links in the content of pages lead to pages.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "page-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The links in the content of pages lead to pages.",
    matters: "Readers cannot reach what the page refers to.",
    hurts: "People and agents, who get an error.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Correct the link, or redirect the old URL to the new one.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "The page", &survey.links.pages);
}
