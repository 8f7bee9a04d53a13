//! The Markdown has the headings of the HTML.

use std::collections::{HashMap, HashSet};

use frontdesk_convert::HtmlElement;

use super::comparison::{CONVERT, Comparison, has_own_text};
use crate::markdown::{BlockKind, MarkdownPage};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
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

/// Maximum number of headings to compare per page.
const MAX_HEADINGS: usize = 500;

/// Elements that may be cards, such as teasers. Not `<section>`, which is usually a part of the text.
const CARDS: [&str; 4] = ["li", "article", "a", "div"];

/// Maximum number of a heading's ancestors that are checked for a card ([`CARDS`]).
const MAX_DEPTH: usize = 3;

/// The rule does not search the text for headings with more words than this.
const MAX_WORDS: usize = 20;

/// Reports how many headings below level 1 are plain text in the Markdown of each compared page. Does not
/// count headings of several pages, headings whose text is missing, too, and titles of cards ([`cards`]) that
/// begin only marked blocks ([`starts`]). Broken if more than two are plain text, and the Markdown has at
/// most one heading. Skips Markdown that is another text ([`Comparison::is_other_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let own: Vec<_> =
            headings(comparison.markdown).iter().map(|(_, text)| words(text).join(" ")).collect();
        let expected: Vec<_> = headings(&comparison.page.reference)
            .into_iter()
            .filter(|(level, text)| *level > 1 && !comparison.is_recurring(text))
            .collect();
        // A heading may have more or fewer words in the Markdown.
        let is_missing = |text: &str| {
            let text = words(text).join(" ");
            !own.iter().any(|own| own.contains(&text) || text.contains(own))
        };
        // Report only headings that the Markdown has as text: others may belong to another part of the page.
        let (plain, marked) = starts(comparison.markdown);
        let cards = cards(comparison.page);
        let is_text = |text: &str| {
            let text = words(text);
            plain.contains(&text) || marked.contains(&text) && !cards.contains(&text)
        };
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

/// The first words of each block of prose or raw HTML: all starts of at most [`MAX_WORDS`] words. A label
/// before a colon and the first words of a list of links are left out, unless they are the whole block.
/// The first set is from plain blocks, the second from marked blocks, which are list items or begin with bold
/// text.
fn starts(markdown: &MarkdownPage) -> (HashSet<Vec<String>>, HashSet<Vec<String>>) {
    let (mut plain, mut marked) = (HashSet::new(), HashSet::new());
    for block in &markdown.blocks {
        if !matches!(block.kind, BlockKind::Prose | BlockKind::Html) {
            continue;
        }
        let all = words(&block.text);
        let label = block.text.split_once(':').map(|(label, _)| words(label).len());
        let starts = if block.is_marked { &mut marked } else { &mut plain };
        let is_start =
            |length: &usize| *length == all.len() || (Some(*length) != label && has_own_text(block));
        let lengths = (1..=all.len().min(MAX_WORDS)).filter(is_start);
        starts.extend(lengths.map(|length| all[..length].to_vec()));
    }
    (plain, marked)
}

/// The words of the headings in boxes that stand beside similar boxes with a heading: titles of cards, which
/// Markdown may show as a list. Similar boxes have the same parent, name and class, and headings of the same
/// level. Reads the first [`MAX_HEADINGS`] headings from `<h2>` to `<h6>`.
#[expect(clippy::mutable_key_type, reason = "elements are compared by their number, which never changes")]
fn cards(page: &Page) -> HashSet<Vec<String>> {
    let mut boxes: HashMap<_, Vec<(HtmlElement<'_>, HtmlElement<'_>)>> = HashMap::new();
    for heading in page.select("h2, h3, h4, h5, h6").into_iter().take(MAX_HEADINGS) {
        let mut around = heading.ancestors().take(MAX_DEPTH + 1).peekable();
        while let Some(element) = around.next() {
            if let Some(parent) = around.peek().filter(|_| CARDS.contains(&element.name())) {
                let key = (*parent, element.name(), element.attribute("class"), heading.name());
                boxes.entry(key).or_default().push((element, heading));
            }
        }
    }
    let is_list = |boxes: &Vec<(HtmlElement<'_>, HtmlElement<'_>)>| {
        boxes.iter().any(|(element, _)| *element != boxes[0].0)
    };
    let titles = boxes.into_values().filter(is_list).flatten();
    titles.map(|(_, heading)| words(&heading.text())).collect()
}

/// The first headings with letters or digits, and their levels. Skips links, which are other pages' titles.
fn headings(markdown: &MarkdownPage) -> Vec<(u8, &str)> {
    let found = markdown.blocks.iter().filter_map(|block| match block.kind {
        BlockKind::Heading(level) if has_own_text(block) && !words(&block.text).is_empty() => {
            Some((level, &*block.text))
        }
        _ => None,
    });
    found.take(MAX_HEADINGS).collect()
}
