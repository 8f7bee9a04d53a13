//! Pages mark their main content.

use super::shared::report_lacking;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "main-landmark-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has a `<main>`.",
    matters: "Screen readers jump to it, and agents and reader modes extract it. Without it, they guess what \
              is navigation (WCAG 2.4.1).",
    hurts: "People who use screen readers, and agents, who get navigation instead of content.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Put the content between header and footer into one `<main>`.",
    }],
    check,
};

/// Reports each page without a `<main>`. An element with `role=main` counts as one.
fn check(survey: &Survey, findings: &mut Findings) {
    let message = "The page has no `<main>`, so agents must guess where its content is: add it";
    report_lacking(survey, findings, "main, [role=main]", |_| true, message);
}
