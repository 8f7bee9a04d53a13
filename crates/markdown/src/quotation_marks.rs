//! Replaces the parser's English quotation marks with those of the page's language.

use comrak::nodes::{Node, NodeValue};

use crate::cjk_emphasis::is_cjk;
use crate::source_text::SourceText;

/// The double quotation marks that the parser writes in place of straight ones.
const ENGLISH: (char, char) = ('“', '”');

/// Replaces double quotation marks. `marks` are the opening and the closing one, with a space between them;
/// without a space, the marks stay English. Keeps the marks of a text whose source already has typographic
/// ones, or cannot be found.
///
/// The parser takes each mark between two letters for a closing one. In texts without spaces, it is the
/// opening one if it follows a Chinese, Japanese or Korean character and no quotation is open in the block.
pub fn localize(root: Node<'_>, source: &SourceText<'_>, marks: &str) {
    let (open, close) = marks.split_once(' ').unwrap_or(("“", "”"));
    let mut is_open = false;
    for node in root.descendants() {
        let mut data = node.data_mut();
        is_open &= !data.value.block();
        let range = source.byte_range(data.sourcepos);
        let NodeValue::Text(text) = &mut data.value else { continue };
        let has_marks = |text: &str| !text.is_ascii() && text.contains([ENGLISH.0, ENGLISH.1]);
        if !has_marks(text) || range.is_none_or(|range| has_marks(&source.text[range])) {
            continue;
        }
        let mut localized = String::with_capacity(text.len());
        let mut last = None;
        for (at, c) in text.char_indices() {
            let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            if c == ENGLISH.0 || c == ENGLISH.1 {
                let next = text[at + c.len_utf8()..].chars().next();
                let is_between = is_letter(last) && is_letter(next) && last.is_some_and(is_cjk);
                is_open = c == ENGLISH.0 || !is_open && is_between;
                localized.push_str(if is_open { open } else { close });
            } else {
                localized.push(c);
            }
            last = Some(c);
        }
        *text = localized.into();
    }
}
