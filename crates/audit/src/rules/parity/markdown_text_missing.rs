//! The Markdown has the text of the HTML.

use super::comparison::{CONVERT, Comparison, PRESENT, is_prose, markdown_of, texts, unreadable};
use crate::markdown::BlockKind;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::{PhraseSet, excerpt, words};

pub(super) static RULE: Rule = Rule {
    id: "markdown-text-missing",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown has every paragraph of the HTML, except for menus, footers and comments.",
    matters: "Both are representations of one resource (RFC 9110 §3.2): a client that prefers one must \
              not miss what the other says.",
    hurts: "Agents, which answer without the missing text.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Generate the Markdown from the same source as the HTML, after includes, \
                   components and data are expanded.",
        },
        CONVERT,
    ],
    check,
};

/// A finding is broken if missing blocks with neighbors have at least this many words, or a tenth of the
/// prose. Other missing text may be a notice, a comment or a list of related pages.
const BROKEN_WORDS: usize = 25;

/// Reports how many words of each compared page are missing. Broken if many of them stand beside text that is
/// there, or if nearly all are missing and the Markdown is another text ([`is_other`]). Unreadable pages are
/// noted as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        if let Some(reason) = markdown_of(page).and_then(|(exchange, _)| unreadable(page, exchange)) {
            findings.not_judged(format!("{}: {reason}", page.url));
        }
    }
    for comparison in Comparison::all(survey) {
        let (missing, total) = comparison.missing();
        let Some(first) = missing.iter().find(|lost| lost.has_neighbors).or(missing.first()) else {
            continue;
        };
        let all: usize = missing.iter().map(|lost| lost.words).sum();
        let certain: usize = missing.iter().filter(|lost| lost.has_neighbors).map(|lost| lost.words).sum();
        let is_broken = certain >= BROKEN_WORDS
            || (certain > 0 && certain * 10 >= total)
            || (all * 10 > total * 9 && is_other(&comparison));
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let text = excerpt(&first.block.text, 14);
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!("The Markdown lacks {all} of {total} words in the HTML, starting with “{text}”"),
        );
    }
}

/// Whether the Markdown has only headings, the HTML lacks more than half of the blocks of prose in the
/// Markdown, or the Markdown has less than a tenth as many words as the HTML.
fn is_other(comparison: &Comparison<'_>) -> bool {
    if comparison.markdown.blocks.iter().all(|block| matches!(block.kind, BlockKind::Heading(_))) {
        return true;
    }
    let reference = PhraseSet::new(texts(&comparison.page.reference));
    let blocks = comparison.markdown.blocks.iter().map(|block| (block, words(&block.text).len()));
    let prose: Vec<_> = blocks.filter(|(block, count)| is_prose(block, *count)).collect();
    let own = prose.iter().filter(|(block, _)| reference.percentage(&block.text) < PRESENT).count();
    let length = |text: &str| words(text).len();
    own * 2 > prose.len() || length(&comparison.markdown.text) * 10 < length(&comparison.page.reference.text)
}
