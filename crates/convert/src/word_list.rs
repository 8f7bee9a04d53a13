//! Converts the lists of documents that Microsoft Word saved: paragraphs with a marker and a level.

use super::dom::{NodeId, Tag};
use super::markdown_block::{Block, Item, List};
use super::omission_rule::Rule;
use super::phrasing::Converter;
use std::iter::Peekable;

/// The deepest level of a list in Word.
const MAX_LEVEL: usize = 9;

/// A paragraph that Word shows as an item of a list.
pub(super) struct WordItem {
    /// The level of the item, from 1 to [`MAX_LEVEL`].
    level: usize,
    /// The number of the item; `None` if its marker is a bullet.
    number: Option<u32>,
    /// The element that shows the marker.
    marker: NodeId,
    paragraph: NodeId,
}

impl Converter<'_> {
    /// Reads a paragraph as an item of a Word list; `None` for other nodes.
    pub(super) fn word_item(&self, id: NodeId) -> Option<WordItem> {
        let dom = self.dom;
        let style = dom.attribute(id, "style").filter(|_| dom.tag(id) == Tag::P)?;
        let (_, list) = style.split_once("mso-list:")?;
        let digits = list.split(';').next()?.split_once("level")?.1;
        let level = digits.chars().next()?.to_digit(10)? as usize;
        let is_marker = |&d: &NodeId| {
            dom.attribute(d, "style").is_some_and(|s| s.replace(' ', "").contains("mso-list:Ignore"))
        };
        let marker = dom.descendants(id).take(10).find(is_marker)?;
        let text = dom.collapsed_text(marker);
        let number = text.trim_start_matches('(').strip_suffix(['.', ')']);
        let number = number.map(|number| number_of(number.rsplit('.').next().unwrap_or_default()));
        Some(WordItem { level: level.clamp(1, MAX_LEVEL), number, marker, paragraph: id })
    }

    /// Appends items that follow each other as nested lists, without their markers.
    pub(super) fn append_word_items(&self, items: Vec<WordItem>, out: &mut Vec<Block>) {
        self.append_word_level(&mut items.into_iter().peekable(), 1, out);
    }

    fn append_word_level(
        &self,
        items: &mut Peekable<impl Iterator<Item = WordItem>>,
        level: usize,
        out: &mut Vec<Block>,
    ) {
        let mut list: Option<List> = None;
        while let Some(next) = items.peek().filter(|next| next.level >= level) {
            if next.level > level {
                let parent = list.as_mut().and_then(|list| list.items.last_mut());
                self.append_word_level(items, level + 1, parent.map_or(&mut *out, |item| &mut item.blocks));
                continue;
            }
            let Some(item) = items.next() else { break };
            if list.as_ref().is_some_and(|list| list.start.is_some() != item.number.is_some()) {
                out.extend(list.take().map(Block::List));
            }
            self.dom.skip(item.marker, Rule::FootnoteMark);
            let outer = self.skipped.replace(Some(item.marker));
            let blocks = self.blocks_in(item.paragraph);
            self.skipped.set(outer);
            let list = list.get_or_insert(List { start: item.number, is_loose: false, items: Vec::new() });
            list.items.push(Item { checked: None, blocks });
        }
        out.extend(list.map(Block::List));
    }
}

/// The number that a marker shows: digits, or a letter, as in `b)`. A single `i` is probably the Roman one.
/// Anything else is 1.
fn number_of(marker: &str) -> u32 {
    match *marker.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() && !letter.eq_ignore_ascii_case(&b'i') => {
            u32::from(letter.to_ascii_lowercase() - b'a') + 1
        }
        _ => marker.parse().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn paragraphs_with_markers_of_word_are_lists() {
        let item = |level: u32, marker: &str, text: &str| {
            format!(
                "<p class=MsoListParagraph style='text-indent:-.25in;mso-list:l0 level{level} lfo1'><![if !supportLists]>\
                 <span style='font-family:Symbol'><span style='mso-list:Ignore'>{marker}<span>&nbsp;&nbsp; </span></span></span>\
                 <![endif]>{text}</p>\n"
            )
        };
        for (items, expected) in [
            (
                vec![(1, "·", "a <b>b</b>"), (2, "o", "c"), (3, "§", "d"), (1, "·", "e")],
                "- a **b**\n  - c\n    - d\n- e\n",
            ),
            (
                vec![(1, "3.", "a"), (2, "(i)", "b"), (2, "(ii)", "c"), (1, "4.", "d")],
                "3. a\n   1. b\n   2. c\n4. d\n",
            ),
            (vec![(1, "b)", "a"), (1, "c)", "b")], "2. a\n3. b\n"),
            (vec![(1, "1.2.", "a"), (1, "·", "b")], "2. a\n\n- b\n"),
            (vec![(3, "·", "a"), (1, "·", "b")], "- a\n\n* b\n"),
        ] {
            let html: String = items.iter().map(|(level, marker, text)| item(*level, marker, text)).collect();
            assert_eq!(markdown(&format!("<p>x</p>{html}<p>y")), format!("x\n\n{expected}\ny\n"), "{html}");
        }
        let plain = "<p style='mso-list:l0 level1 lfo1'>a<p style='mso-list:none'><span style='mso-list:Ignore'>1.</span> b";
        assert_eq!(markdown(plain), "a\n\n1\\. b\n");
    }
}
