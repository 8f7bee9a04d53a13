//! The URLs of the sitemap lead to pages.

use super::shared::report_broken;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The URLs in the sitemap lead to pages.",
    matters: "A sitemap lists pages to index. Search engines trust it less with each URL that fails.",
    hurts: "Search engines and agents, which request missing pages.",
    fixes: &[Fix { platform: Platform::Any, text: "Generate the sitemap together with the pages." }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "The sitemap", &survey.links.sitemap);
}
