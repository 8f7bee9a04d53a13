//! Versions in other languages link back.

use crate::language::languages;
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-link-not-mutual",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "A version in another language that a page declares with `hreflang` declares the page in return.",
    matters: "Search engines ignore `hreflang` that is not mutual.",
    hurts: "People who read other languages, who do not find their version.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write the same list of `<link rel=\"alternate\" hreflang=\"…\">` in all versions, including a \
               link to the version itself.",
    }],
    check,
};

/// Reports the declared language version that was requested, at most one, if it is readable HTML and does not
/// declare the exact URL of the page in return.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(followed) = &survey.links.language else { return };
    let Some(other) = Page::read(followed.last()).filter(|other| other.response().unreadable().is_none())
    else {
        return;
    };
    let declared = languages(&other);
    if !declared.iter().any(|(url, _)| url == followed.source.url()) {
        findings.report(
            &[&followed.source, followed.last()],
            format!(
                "The page declares {} as a version in another language, but that version does not declare \
                 the page: add the link",
                other.url
            ),
        );
    }
}
