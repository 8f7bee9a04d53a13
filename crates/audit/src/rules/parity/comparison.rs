//! Compares the Markdown of a page with the Markdown that frontdesk makes from its HTML.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::exchange::Exchange;
use crate::markdown::{BlockKind, MarkdownPage, TextBlock};
use crate::page::Page;
use crate::rule::{Fix, Platform};
use crate::survey::Survey;
use crate::words::{PhraseSet, words};
use frontdesk_convert::HtmlElement;

/// Minimum percentage of a block's phrases that another text must have for the block to count as present.
pub(super) const PRESENT: usize = 50;

/// Minimum number of words in a sentence that counts as prose.
pub(super) const SENTENCE: usize = 8;

/// Selects elements that surround the content, and forms, which Markdown cannot represent.
const SURROUNDINGS: &str = "aside, footer, nav, form, dialog, template, noscript, figcaption, \
                            [role=complementary], [role=navigation], [role=dialog], [role=alert], \
                            [aria-hidden=true]";

/// Elements whose class or `id` says that they surround the content, for pages without the elements of
/// [`SURROUNDINGS`].
const NAMED_SURROUNDINGS: &str = "[class*=comment], [id*=comment], [class*=related], [class*=newsletter], \
                                  [class*=subscribe], [class*=cookie], [class*=consent], [class*=promo], \
                                  [class*=banner], [class*=author], [class*=share], [class*=feedback], \
                                  [class*=breadcrumb], [class*=sidebar], [class*=pagination], [class*=meta], \
                                  [class*=byline], [class*=toc]";

/// If [`NAMED_SURROUNDINGS`] have more than this percentage of the content, they are not surroundings after
/// all.
const MAX_NAMED: usize = 50;

/// Maximum number of bytes of text that are read from the elements that surround the content.
const MAX_SURROUNDING_BYTES: usize = 4 << 20;

/// The fix that all parity rules share.
pub(super) const CONVERT: Fix = Fix {
    platform: Platform::Frontdesk,
    text: "Leave out your own Markdown of the page: `frontdesk serve` converts the HTML.",
};

/// A page with Markdown that can be compared with its HTML ([`Comparison::all`]).
pub(super) struct Comparison<'a> {
    pub page: &'a Page,
    /// The response with the Markdown.
    pub exchange: &'a Arc<Exchange>,
    pub markdown: &'a MarkdownPage,
    /// The phrases of the Markdown, with its front matter and raw HTML.
    phrases: PhraseSet,
    /// Maps the words of a block to the number of surveyed pages that have this block in their HTML.
    recurring: Rc<HashMap<Vec<String>, usize>>,
    surroundings: PhraseSet,
}

/// A block of prose in the HTML that the Markdown does not have.
pub(super) struct MissingBlock<'a> {
    pub block: &'a TextBlock,
    pub words: usize,
    /// Whether the block stands beside one that the Markdown has: in the same element, not in a box of its
    /// own.
    pub has_neighbors: bool,
}

impl<'a> Comparison<'a> {
    /// The pages whose Markdown can be compared: negotiated, otherwise from the twin. Pages whose HTML or
    /// Markdown is incomplete or cannot be decoded, and pages whose Markdown is cut or has hardly any words
    /// ([`is_empty`]), are left out; other rules report those.
    pub fn all(survey: &'a Survey) -> Vec<Comparison<'a>> {
        let pages = &survey.first_requests.pages;
        let mut recurring: HashMap<Vec<String>, usize> = HashMap::new();
        for page in pages {
            let mut blocks: Vec<_> = page.reference.blocks.iter().map(|block| words(&block.text)).collect();
            blocks.sort();
            blocks.dedup();
            for block in blocks {
                *recurring.entry(block).or_default() += 1;
            }
        }
        let recurring = Rc::new(recurring);
        let compared = pages.iter().filter_map(|page| {
            let (exchange, markdown) = markdown_of(page)?;
            let is_whole = unreadable(page, exchange).is_none() && !page.converted.is_truncated;
            let is_comparable = is_whole && !is_empty(page, markdown) && cut_block(page, markdown).is_none();
            is_comparable.then(|| Comparison {
                page,
                exchange,
                markdown,
                phrases: PhraseSet::new(texts(markdown)),
                recurring: recurring.clone(),
                surroundings: surroundings(page),
            })
        });
        compared.collect()
    }

    /// Whether the Markdown has at least [`PRESENT`] percent of the phrases of a text, wherever they are. A
    /// text without words counts as present.
    pub fn has(&self, text: &str) -> bool {
        self.phrases.percentage(text) >= PRESENT
    }

    /// Whether a text of the HTML is a block of several surveyed pages, or surrounds the content: at least
    /// [`PRESENT`] percent of its phrases are in elements around the content. True for a text without words.
    pub fn is_surrounding(&self, text: &str) -> bool {
        self.is_recurring(text) || self.surroundings.percentage(text) >= PRESENT
    }

    /// Whether at least two surveyed pages have a block with the same words in their HTML.
    pub fn is_recurring(&self, text: &str) -> bool {
        self.recurring.get(&words(text)).is_some_and(|count| *count > 1)
    }

    /// The blocks of prose that readers of the HTML see and the Markdown lacks, in order, and the number of
    /// words in all blocks of prose. Titles of cards, dates, lists of links, teasers of other pages, and text
    /// that surrounds the content are not prose.
    pub fn missing(&self) -> (Vec<MissingBlock<'_>>, usize) {
        let neighbors = self.neighbors();
        let (mut missing, mut total) = (Vec::new(), 0);
        let mut is_below_link = false;
        for block in &self.page.reference.blocks {
            // Text below a linked title is the teaser of another page.
            let is_teaser = std::mem::replace(&mut is_below_link, !has_own_text(block));
            let own = words(&block.text);
            if !is_prose(block, own.len()) || is_teaser || self.is_surrounding(&block.text) {
                continue;
            }
            total += own.len();
            if !self.has(&block.text) {
                let has_neighbors = neighbors.contains(&own);
                missing.push(MissingBlock { block, words: own.len(), has_neighbors });
            }
        }
        (missing, total)
    }

    /// Paragraphs, list items and descriptions, as words, that are or have a sibling of at least [`SENTENCE`]
    /// words which the Markdown contains. These are text of the author; notices and lists of other pages have
    /// no such sibling. A paragraph directly in a list item counts as a sibling of the items.
    #[expect(clippy::mutable_key_type, reason = "elements are compared by their number, which never changes")]
    fn neighbors(&self) -> HashSet<Vec<String>> {
        let mut by_parent: HashMap<HtmlElement<'_>, Vec<(String, bool)>> = HashMap::new();
        for element in self.page.select("p, li, dd") {
            let Some(parent) = element.ancestors().find(|above| above.name() != "li") else { continue };
            let text = element.text();
            let is_found = words(&text).len() >= SENTENCE && self.has(&text);
            by_parent.entry(parent).or_default().push((text, is_found));
        }
        let shared = by_parent.into_values().filter(|texts| texts.iter().any(|(_, is_found)| *is_found));
        shared.flatten().map(|(text, _)| words(&text)).collect()
    }

    /// Whether the missing blocks have more than half of the words of all prose ([`Comparison::missing`]). If
    /// so, rules do not report single differences. False without prose.
    pub fn is_other_text(&self) -> bool {
        let (missing, total) = self.missing();
        missing.iter().map(|missing| missing.words).sum::<usize>() * 2 > total
    }
}

/// The response with a page's Markdown, and the parsed Markdown: negotiated, or else from the twin.
pub(super) fn markdown_of(page: &Page) -> Option<(&Arc<Exchange>, &MarkdownPage)> {
    let negotiated = page.agent.as_ref().zip(page.markdown.as_ref());
    negotiated.or_else(|| page.twin.as_ref().zip(page.twin_markdown.as_ref()))
}

/// Whether the Markdown has fewer than 5 words and no raw HTML, although the HTML has at least 20 words.
pub(super) fn is_empty(page: &Page, markdown: &MarkdownPage) -> bool {
    let (words_of_html, words_of_markdown) = (words(&page.reference.text).len(), words(&markdown.text).len());
    words_of_html >= 20 && words_of_markdown < 5 && markdown.html.is_empty()
}

/// A clause that says why the HTML of a page, or else the response with its Markdown, cannot be compared.
pub(super) fn unreadable(page: &Page, exchange: &Exchange) -> Option<String> {
    page.response().unreadable().or_else(|| exchange.response()?.unreadable())
}

/// The block of the HTML that the Markdown cuts in the middle. The last block of the Markdown is the start of
/// this block, has at least 8 words, and ends without punctuation other than `…`. Both blocks are prose.
pub(super) fn cut_block<'a>(page: &'a Page, markdown: &MarkdownPage) -> Option<&'a TextBlock> {
    let last = markdown.blocks.last().filter(|last| last.kind == BlockKind::Prose)?;
    let start = words(&last.text);
    let has_end = last.text.ends_with(|c: char| !c.is_alphanumeric() && c != '…');
    if start.len() < 8 || !has_own_text(last) || has_end {
        return None;
    }
    // The last word of the Markdown may be truncated, so the word in the HTML need only begin with it.
    let (cut, whole) = start.split_last()?;
    page.reference.blocks.iter().find(|block| {
        let all = words(&block.text);
        let is_longer = all.len() > start.len() && is_prose(block, all.len());
        is_longer && all.starts_with(whole) && all[whole.len()].starts_with(&**cut)
    })
}

/// Whether a block is a paragraph of sentences: at least [`SENTENCE`] words with punctuation at the end, or
/// 20 words, and less than half of it in links. `words` is the number of its words.
pub(super) fn is_prose(block: &TextBlock, words: usize) -> bool {
    let is_sentence = block.text.ends_with(['.', '!', '?', '。', '！', '？', ':', ')']);
    block.kind == BlockKind::Prose && words >= if is_sentence { SENTENCE } else { 20 } && has_own_text(block)
}

/// Whether less than half of a block's text is in links; otherwise it is a menu or a list of related pages.
pub(super) fn has_own_text(block: &TextBlock) -> bool {
    block.linked == 0 || block.linked * 2 < block.text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// The texts of a Markdown document: each block, all blocks together (phrases may span blocks), the front
/// matter, and each piece of raw HTML.
pub(super) fn texts(markdown: &MarkdownPage) -> impl Iterator<Item = &str> {
    let blocks = markdown.blocks.iter().map(|block| &*block.text);
    blocks.chain([&*markdown.text, &*markdown.front_matter]).chain(markdown.html.iter().map(String::as_str))
}

/// The phrases of the elements that surround the content, up to [`MAX_SURROUNDING_BYTES`] of text. Leaves out
/// `<html>`, `<body>`, `<main>`, `<article>` and `<h1>`, and all elements of [`NAMED_SURROUNDINGS`] if they
/// have more than [`MAX_NAMED`] percent of the content.
fn surroundings(page: &Page) -> PhraseSet {
    let mut left = MAX_SURROUNDING_BYTES;
    let mut texts = |css: &str| -> Vec<String> {
        let elements = page.select(css).into_iter();
        let elements =
            elements.filter(|element| !matches!(element.name(), "html" | "body" | "main" | "article" | "h1"));
        // Limit the total text, because the text of nested elements is read several times.
        let texts = elements.map(HtmlElement::text).take_while(|text| {
            left = left.saturating_sub(text.len());
            left > 0
        });
        texts.collect()
    };
    let (mut found, named) = (texts(SURROUNDINGS), texts(NAMED_SURROUNDINGS));
    if PhraseSet::new(named.iter().map(String::as_str)).percentage(&page.reference.text) <= MAX_NAMED {
        found.extend(named);
    }
    PhraseSet::new(found.iter().map(String::as_str))
}
