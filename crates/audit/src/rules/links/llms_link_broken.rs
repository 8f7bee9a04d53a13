//! The links of `llms.txt` lead to pages.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "llms-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The links of `llms.txt` lead to pages.",
    matters: "Agents start from this list. A broken link ends their work, or makes them guess another URL.",
    hurts: "Agents, which do not reach the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Generate `llms.txt` together with the pages, and check its links when a page moves.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "llms.txt", &survey.links.llms);
}
