//! The Markdown of a page with text has text.

use super::comparison::{CONVERT, is_empty, markdown_of, unreadable};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-empty",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown of a page with text has text.",
    matters: "An agent that prefers Markdown gets 200 without content, and has no reason to request the \
              HTML.",
    hurts: "Agents, which conclude that the page says nothing.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Serve HTML to all clients until the Markdown has the text of the page.",
        },
        CONVERT,
    ],
    check,
};

/// Reports each readable page with text whose Markdown has hardly any words.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let Some((exchange, markdown)) = markdown_of(page) else { continue };
        if unreadable(page, exchange).is_none() && is_empty(page, markdown) {
            let letters = markdown.text.chars().filter(|c| c.is_alphanumeric()).count();
            let count = page.reference.text.split_whitespace().count();
            findings.report(
                &[exchange, &page.html],
                format!(
                    "The Markdown has {letters} letters, but the HTML has {count} words: serve the same text"
                ),
            );
        }
    }
}
