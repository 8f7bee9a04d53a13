//! The Markdown has the headings of the HTML.

use std::collections::HashSet;

use super::comparison::{CONVERT, Comparison, has_own_text};
use crate::group::Group;
use crate::markdown::{BlockKind, MarkdownPage};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;
use crate::words::words;

pub(super) static RULE: Rule = Rule {
    id: "markdown-headings-missing",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has the headings of the HTML as headings.",
    matters: "Agents find and cite sections by their headings, and split long pages at headings.",
    hurts: "Agents, which cannot tell the sections apart.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write the headings of sections with `##` to `######`, including those that components add \
                   to the HTML.",
        },
        CONVERT,
    ],
    check,
};

/// The most headings of a page that are compared.
const MAX_HEADINGS: usize = 500;

/// The most words of a heading that is looked for in the text.
const MAX_WORDS: usize = 20;

fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let own: Vec<_> =
            headings(comparison.markdown).iter().map(|(_, text)| words(text).join(" ")).collect();
        let expected: Vec<_> = headings(&comparison.page.reference)
            .into_iter()
            .filter(|(level, text)| *level > 1 && !comparison.is_recurring(text))
            .collect();
        let is_missing = |text: &str| {
            let text = words(text).join(" ");
            !own.iter().any(|own| own.contains(&text) || text.contains(own))
        };
        // A heading whose text is missing as well may belong to another part of the page.
        let starts = starts(comparison.markdown);
        let is_text = |text: &str| starts.contains(&words(text)[..]);
        let missing: Vec<_> = expected.iter().filter(|(_, text)| is_missing(text) && is_text(text)).collect();
        let Some((_, first)) = missing.first() else { continue };
        let is_flat = missing.len() > 2 && own.len() < 2;
        let severity = if is_flat { Severity::Broken } else { Severity::Advice };
        let (count, total) = (missing.len(), expected.len());
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!(
                "{count} of {total} headings in the HTML are plain text in the Markdown, starting with \
                 “{first}”: mark them with `#`"
            ),
        );
    }
}

/// The first words of each block that is not a heading: all starts of at most [`MAX_WORDS`] words.
fn starts(markdown: &MarkdownPage) -> HashSet<Vec<String>> {
    let blocks =
        markdown.blocks.iter().filter(|block| matches!(block.kind, BlockKind::Prose | BlockKind::Html));
    let starts = blocks.flat_map(|block| {
        let words: Vec<_> = words(&block.text).into_iter().take(MAX_WORDS).collect();
        (1..=words.len()).map(|length| words[..length].to_vec()).collect::<Vec<_>>()
    });
    starts.collect()
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
