//! The Markdown begins with its content.

use super::comparison::{CONVERT, Comparison, has_own_text};
use crate::markdown::{BlockKind, TextBlock};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::words;

pub(super) static RULE: Rule = Rule {
    id: "markdown-menus",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown begins with the content, not with a menu or a notice that all pages share.",
    matters: "Agents read from the start and often stop early. A text that all pages share costs them on \
              each page.",
    hurts: "Agents, which pay for repeated text.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Convert only the main content, such as the element `<main>`, to Markdown.",
        },
        CONVERT,
    ],
    check,
};

/// Minimum number of words that the starts of two pages must share for a finding: fewer may be a notice, such
/// as a pointer to `llms.txt`.
const MANY_WORDS: usize = 40;

/// Minimum number of link-only blocks before the first heading that count as a menu.
const MANY_LINKS: usize = 8;

/// Reports each compared page whose Markdown begins with the same blocks as another page's Markdown, with at
/// least [`MANY_WORDS`] words, or has at least [`MANY_LINKS`] blocks of links. Only blocks before the first
/// heading count.
fn check(survey: &Survey, findings: &mut Findings) {
    let comparisons = Comparison::all(survey);
    let starts: Vec<_> = comparisons.iter().map(|comparison| start(comparison)).collect();
    for (index, comparison) in comparisons.iter().enumerate() {
        let others = starts.iter().enumerate().filter(|(other, _)| *other != index);
        let is_same = |(a, b): &(&&TextBlock, &&TextBlock)| a.text == b.text;
        let common =
            |(_, other): (usize, &Vec<_>)| starts[index].iter().zip(other).take_while(is_same).count();
        let common = others.map(common).max().unwrap_or(0);
        let count: usize = starts[index][..common].iter().map(|block| words(&block.text).len()).sum();
        let links = starts[index].iter().filter(|block| !has_own_text(block)).count();
        let message = if count >= MANY_WORDS {
            format!(
                "The Markdown begins with {count} words that another page also begins with: leave out what \
                 is not content"
            )
        } else if links >= MANY_LINKS {
            format!(
                "The Markdown begins with a list of {links} links before its first heading: leave out the menu"
            )
        } else {
            continue;
        };
        findings.report(&[comparison.exchange], message);
    }
}

/// The Markdown's blocks before its first heading.
fn start<'a>(comparison: &Comparison<'a>) -> Vec<&'a TextBlock> {
    let blocks = comparison.markdown.blocks.iter();
    blocks.take_while(|block| !matches!(block.kind, BlockKind::Heading(_))).collect()
}
