//! Pages with Markdown declare it.

use crate::declared_markdown::declared_twin;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "alternate-missing",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "Each page that has Markdown declares it with `<link rel=\"alternate\" \
             type=\"text/markdown\">` or `Link`.",
    matters: "Many agents request HTML and follow this link. Without it, they do not learn of the Markdown.",
    hurts: "Agents, which read the HTML.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add `<link rel=\"alternate\" type=\"text/markdown\" href=\"/page.md\">` to the head of each \
               page, or the header field `Link: </page.md>; rel=\"alternate\"; type=\"text/markdown\"`.",
    }],
    check,
};

/// Reports each readable page that has negotiated Markdown but declares no Markdown URL.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages().filter(|page| declared_twin(page).is_none()) {
        if let Some(agent) = page.agent.as_ref().filter(|_| page.markdown.is_some()) {
            findings.report(
                &[&page.html, agent],
                "The page has Markdown for clients that prefer it, but does not declare it: add `<link \
                 rel=\"alternate\" type=\"text/markdown\">`",
            );
        }
    }
}
