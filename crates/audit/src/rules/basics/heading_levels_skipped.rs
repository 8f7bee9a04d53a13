//! Headings do not skip levels.

use super::shared::{excerpt, is_hidden};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "heading-levels-skipped",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Each heading is at most one level deeper than the heading before it.",
    matters: "The levels are the outline of the page. A gap looks like a missing section (WCAG 1.3.1).",
    hurts: "People who use screen readers, and agents that split a page by its outline, who get a wrong \
            outline.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Choose the level by the place in the outline, and the size by CSS.",
    }],
    check,
};

/// Reports the first gap in each readable page. Only headings in `<main>` count, if there are any. Hidden
/// headings never count.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        // Prefer the headings in `<main>`: navigation and footers have heading levels of their own.
        let mut headings = page.select("main h1, main h2, main h3, main h4, main h5, main h6");
        if headings.is_empty() {
            headings = page.select("h1, h2, h3, h4, h5, h6");
        }
        headings.retain(|heading| !is_hidden(*heading));
        let gap =
            headings.windows(2).find(|pair| pair[1].name().as_bytes()[1] > pair[0].name().as_bytes()[1] + 1);
        if let Some([before, after]) = gap {
            let text = excerpt(&after.text());
            let (before, after) = (before.name(), after.name());
            findings.report(
                &[&page.html],
                format!("`<{after}>` (“{text}”) follows `<{before}>`: do not skip levels"),
            );
        }
    }
}
