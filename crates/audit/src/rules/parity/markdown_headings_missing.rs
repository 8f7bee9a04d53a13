//! The Markdown has the headings of the HTML.

use super::comparison::{Comparison, has_own_text};
use crate::finding::Severity;
use crate::markdown::{BlockKind, MarkdownPage};
use crate::rule::{Findings, Fix, Group, Platform, Rule};
use crate::survey::Survey;
use crate::words::words;

pub(super) static RULE: Rule = Rule {
    id: "markdown-headings-missing",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has the headings of the HTML as headings.",
    matters: "Agents find and cite a section by its heading, and divide long pages at headings.",
    hurts: "Agents, which cannot tell the sections apart.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write sections with `#` to `######`, also those that components make in the HTML.",
        },
        Fix {
            platform: Platform::Frontdesk,
            text: "Leave out your own Markdown of the page: `frontdesk serve` converts the HTML.",
        },
    ],
    check,
};

/// The most headings of a page that are compared.
const MAX_HEADINGS: usize = 500;

fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let own: Vec<_> =
            headings(comparison.markdown).iter().map(|(_, text)| words(text).join(" ")).collect();
        let expected: Vec<_> = headings(&comparison.page.reference)
            .into_iter()
            .filter(|(level, text)| *level > 1 && !comparison.is_surrounding(text))
            .collect();
        let is_missing = |text: &str| {
            let text = words(text).join(" ");
            !own.iter().any(|own| own.contains(&text) || text.contains(own))
        };
        let missing: Vec<_> = expected.iter().filter(|(_, text)| is_missing(text)).collect();
        // A heading whose text is missing as well may belong to another part of the page.
        let Some((_, first)) = missing.iter().find(|(_, text)| comparison.has(text)) else { continue };
        let is_flat = expected.len() > 2 && missing.len() == expected.len();
        let severity = if is_flat { Severity::Broken } else { Severity::Advice };
        let evidence = [comparison.exchange, &comparison.page.html];
        let message = format!(
            "The Markdown has {} of {} headings below the title; “{first}” is there, but no heading",
            expected.len() - missing.len(),
            expected.len()
        );
        findings.report_as(severity, &evidence, message);
    }
}

/// The first headings with letters or digits, and their levels. Linked headings are titles of other pages.
fn headings(markdown: &MarkdownPage) -> Vec<(u8, &str)> {
    let found = markdown.blocks.iter().filter_map(|block| match block.kind {
        BlockKind::Heading(level) if has_own_text(block) && !words(&block.text).is_empty() => {
            Some((level, &*block.text))
        }
        _ => None,
    });
    found.take(MAX_HEADINGS).collect()
}
