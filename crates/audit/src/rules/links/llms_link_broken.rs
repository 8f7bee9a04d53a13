//! The links of `llms.txt` lead to pages.

use super::broken::report_broken;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "llms-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The links of `llms.txt` lead to pages.",
    matters: "Agents start from this list; a link that fails ends their work or makes them guess \
              another address.",
    hurts: "Agents.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Generate `llms.txt` together with the pages, and check its links when a page moves.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "llms.txt", &survey.links.llms);
}
