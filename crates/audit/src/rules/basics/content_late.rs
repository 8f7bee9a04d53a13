//! The content comes early in the HTML.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "content-late",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "At most 50,000 characters of HTML precede the main content.",
    matters: "Agents that read HTML cut it after tens of thousands of characters: they see only styles, \
              scripts and navigation.",
    hurts: "Agents and the people who ask them, who miss the content.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Move inline styles, scripts, data and images into files or below the content. Offer the page \
               as Markdown.",
    }],
    check,
};

/// Maximum number of characters of HTML before the main content.
const MAX_BEFORE: usize = 50_000;

/// Reports each page with more than [`MAX_BEFORE`] characters before its `<main>`, `role=main`, `<article>`
/// or `<h1>`, whichever is first. Searches the text, so that a comment or a script may have the mark.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let text = page.response().text().to_ascii_lowercase();
        // Skip pages without any of these marks, because their main content cannot be located.
        let marks = ["<main", "role=\"main\"", "role=main", "<article", "<h1"];
        let Some(start) = marks.iter().filter_map(|mark| text.find(mark)).min() else { continue };
        let before = text[..start].chars().count();
        if before > MAX_BEFORE {
            findings.report(
                &[&page.html],
                format!(
                    "{before} characters of HTML precede the main content: reduce them to at most {MAX_BEFORE}"
                ),
            );
        }
    }
}
