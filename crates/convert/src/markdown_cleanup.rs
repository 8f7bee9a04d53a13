//! Shapes the blocks of a page as one document: a single first-level heading, no rules at the ends, and no
//! blocks of links that repeat across the pages of a site.

use super::inline::Inline;
use super::inline_markdown_tokenizer::{Kind, Parts, description};
use super::markdown_block::Block;
use super::writer::write_markdown;
use std::collections::HashSet;

/// Adds the title as a first-level heading if there is none, and returns whether there was none. Does nothing
/// if there is exactly one. A heading or, else, a paragraph with the same words becomes this heading instead,
/// if it is among the first six blocks and not after another first-level heading. The heading may have a
/// number, such as `6.1`, unless another heading has its level or a higher one, so that it is a section.
/// Headings inside other blocks, such as lists, do not count.
pub(super) fn add_title(blocks: &mut Vec<Block>, title: &str) -> bool {
    let is_title = |block: &Block| matches!(block, Block::Heading { level: 1, .. });
    if blocks.iter().filter(|block| is_title(block)).count() == 1 {
        return false;
    }
    let words = plain_words(title);
    let says_title = |text: &str| !words.is_empty() && plain_words(text) == words;
    let first = blocks.iter().position(is_title);
    let start = &blocks[..first.map_or(blocks.len(), |at| at + 1).min(6)];
    let is_heading = |block: &Block| matches!(block, Block::Heading { text, .. } if says_title(text));
    let is_paragraph =
        |block: &Block| matches!(block, Block::Paragraph(text) if !text.contains("![") && says_title(text));
    let is_numbered = |block: &Block| {
        let Block::Heading { level, text } = block else { return false };
        let is_section =
            |other: &&Block| matches!(other, Block::Heading { level: other, .. } if other <= level);
        let mut own = plain_words(text);
        own.drain(..own.iter().take_while(|word| word.bytes().all(|byte| byte.is_ascii_digit())).count());
        !own.is_empty() && own == words && blocks.iter().filter(is_section).count() == 1
    };
    let find = |is_said: &dyn Fn(&Block) -> bool| start.iter().position(is_said);
    let said = find(&is_heading).or_else(|| find(&is_paragraph)).or_else(|| find(&is_numbered));
    if let Some(Block::Heading { text, .. } | Block::Paragraph(text)) = said.map(|at| &mut blocks[at]) {
        let text = std::mem::take(text);
        blocks[said.unwrap_or(0)] = Block::Heading { level: 1, text };
    } else if first.is_none() {
        let text = Inline::of_text(title).finish_line();
        blocks.insert(0, Block::Heading { level: 1, text });
    }
    first.is_none()
}

/// Adds a paragraph with a link to an address that is escaped for Markdown. Its text is the address without
/// backslashes.
pub(super) fn add_link(blocks: &mut Vec<Block>, address: &str) {
    let mut inline = Inline::default();
    inline.add_link(address, &address.replace('\\', ""));
    blocks.push(Block::Paragraph(inline.finish_line()));
}

/// Removes the blocks of links that have a hash in `repeated`. Returns the hashes of all blocks of links,
/// with those that were removed, see [`super::Converted::link_blocks`]. `limit` bounds the Markdown that is
/// hashed.
pub(super) fn remove_boilerplate(
    blocks: &mut Vec<Block>,
    repeated: &HashSet<u64>,
    limit: usize,
) -> Vec<[u64; 2]> {
    let (mut hashes, mut before, mut after) = (Vec::new(), 0, blocks.len());
    blocks.retain(|block| {
        (before, after) = (before + 1, after - 1);
        if !block.is_only_links() {
            return true;
        }
        let text = write_markdown(std::slice::from_ref(block), limit);
        let both = [format!("+{before} {text}"), format!("-{after} {text}")].map(|text| {
            let hash = blake3::hash(text.as_bytes());
            hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        });
        hashes.push(both);
        !both.iter().any(|hash| repeated.contains(hash))
    });
    hashes
}

/// Whether the HTML is a fragment, which is converted as a whole: its first 4096 bytes contain no start of a
/// tag that indicates a page, such as `<html` or `<main`, not even in a comment or in code.
pub fn is_fragment(html: &str) -> bool {
    let start = &html.as_bytes()[..html.len().min(4096)];
    let has = |tag: &[u8]| start.windows(tag.len()).any(|w| w.eq_ignore_ascii_case(tag));
    ![&b"<!doctype"[..], b"<html", b"<head>", b"<body", b"<title", b"<meta", b"<main"].into_iter().any(has)
}

/// Makes the first first-level heading the only one: if others follow, all headings after the first one move
/// down by one level, at most to level 6.
pub(super) fn keep_one_title(blocks: &mut [Block]) {
    let (mut titles, mut is_after) = (0, false);
    for_each_heading(blocks, &mut |level| titles += usize::from(*level == 1));
    if titles > 1 {
        for_each_heading(blocks, &mut |level| {
            if is_after {
                *level = (*level + 1).min(6);
            }
            is_after |= *level == 1;
        });
    }
}

/// Calls `change` with the level of each heading in document order, including headings inside other blocks.
fn for_each_heading(blocks: &mut [Block], change: &mut impl FnMut(&mut u8)) {
    for block in blocks {
        match block {
            Block::Heading { level, .. } => change(level),
            Block::Quote(blocks) | Block::Alert { blocks, .. } | Block::Footnote { blocks, .. } => {
                for_each_heading(blocks, change);
            }
            Block::List(list) => {
                list.items.iter_mut().for_each(|item| for_each_heading(&mut item.blocks, change));
            }
            _ => {}
        }
    }
}

/// Removes rules (`---`) at the start, at the end before the footnotes, and after another rule.
pub(super) fn tidy_blocks(blocks: &mut Vec<Block>) {
    // Renderers show the footnotes last, below a rule of their own, so a rule before them is redundant.
    while let Some(last) = blocks.iter().rposition(|b| !matches!(b, Block::Footnote { .. }))
        && matches!(blocks[last], Block::Rule)
    {
        blocks.remove(last);
    }
    let start = blocks.iter().take_while(|b| matches!(b, Block::Rule)).count();
    blocks.drain(..start);
    blocks.dedup_by(|b, a| matches!((a, b), (Block::Rule, Block::Rule)));
}

/// The words of inline Markdown in lower case, with the descriptions of images and without the destinations
/// of links.
fn plain_words(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for (kind, part) in Parts::new(text) {
        plain.push_str(match kind {
            Kind::Image => description(part),
            Kind::Destination | Kind::Tag => " ",
            _ => part,
        });
    }
    plain.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}
