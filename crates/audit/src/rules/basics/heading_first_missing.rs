//! Pages have a main heading.

use super::shared::report_lacking;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "heading-first-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has an `<h1>`.",
    matters: "Screen readers list headings, and agents take the `<h1>` for the title (WCAG 2.4.6).",
    hurts: "People who use screen readers, search engines and agents, who miss the title.",
    fixes: &[Fix { platform: Platform::Any, text: "Make the visible title of the page an `<h1>`." }],
    check,
};

/// Reports each page without an `<h1>`. `role=heading` with `aria-level=1` counts as an `<h1>`.
fn check(survey: &Survey, findings: &mut Findings) {
    let css = "h1, [role=heading][aria-level=\"1\"]";
    let message = "The page has no `<h1>`: make its visible title the `<h1>`";
    report_lacking(survey, findings, css, |_| true, message);
}
