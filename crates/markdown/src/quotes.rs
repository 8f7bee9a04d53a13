//! Replaces the parser's English quotation marks with those of the page's language.

use std::borrow::Cow;

use comrak::nodes::{Node, NodeValue};

use crate::source::SourceText;

/// The double quotation marks that the parser writes in place of straight ones.
const ENGLISH: (char, char) = ('“', '”');

/// Replaces double quotation marks. `marks` are the opening and the closing one, with a space between them;
/// without a space, nothing is replaced. Keeps the marks of a text whose source already has typographic ones,
/// or cannot be found.
pub fn localize(root: Node<'_>, source: &SourceText<'_>, marks: &str) {
    let Some((open, close)) = marks.split_once(' ') else { return };
    if marks.chars().eq([ENGLISH.0, ' ', ENGLISH.1]) {
        return;
    }
    for node in root.descendants() {
        let mut data = node.data_mut();
        let range = source.byte_range(data.sourcepos);
        let NodeValue::Text(text) = &mut data.value else { continue };
        let has_marks = |text: &str| text.contains([ENGLISH.0, ENGLISH.1]);
        if has_marks(text) && range.is_some_and(|range| !has_marks(&source.text[range])) {
            *text = Cow::Owned(text.replace(ENGLISH.0, open).replace(ENGLISH.1, close));
        }
    }
}
