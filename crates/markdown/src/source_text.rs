//! The source of a body: finds lines, nodes and link destinations in it, and applies edits.

use std::ops::Range;

use comrak::Arena;
use comrak::nodes::{Node, NodeValue, Sourcepos};
use comrak::options::Options;
use frontdesk_process::hash_maps::HashSet;

/// A text with the positions of its lines.
pub struct SourceText<'a> {
    pub text: &'a str,
    /// The byte offset of each line. As in CommonMark, a line ends with LF, CR or CR LF.
    pub lines: Vec<usize>,
}

impl<'a> SourceText<'a> {
    /// Finds the lines. A text that ends with a line end has an empty last line.
    pub fn new(text: &'a str) -> Self {
        let mut lines = vec![0];
        lines.extend(memchr::memchr2_iter(b'\n', b'\r', text.as_bytes()).filter_map(|at| {
            let is_first_of_two = text.as_bytes()[at] == b'\r' && text.as_bytes().get(at + 1) == Some(&b'\n');
            (!is_first_of_two).then_some(at + 1)
        }));
        Self { text, lines }
    }

    /// The byte offset and the text of a line, without its end. Line numbers start at 1. `None` if the text
    /// has fewer lines.
    pub fn line_at(&self, number: usize) -> Option<(usize, &'a str)> {
        let start = *self.lines.get(number.checked_sub(1)?)?;
        let end = self.lines.get(number).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end)?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some((start, line.strip_suffix('\r').unwrap_or(line)))
    }

    /// Converts a parser's position, in which lines and byte columns start at 1 and the end is inclusive.
    /// `None` if the position is outside of the text.
    pub fn byte_range(&self, position: Sourcepos) -> Option<Range<usize>> {
        let start =
            self.lines.get(position.start.line.checked_sub(1)?)? + position.start.column.checked_sub(1)?;
        let end = self.lines.get(position.end.line.checked_sub(1)?)? + position.end.column;
        (start <= end && self.text.get(start..end).is_some()).then_some(start..end)
    }

    /// The position of the destination of an inline link or image with this URL. `None` for links with
    /// references, and for autolinks.
    ///
    /// The parser's positions are wrong after `\|` in a cell of a table, and after a line break within the
    /// parentheses of a link. Then the first such destination of the paragraph or cell after `after` counts.
    pub fn link_destination(&self, node: Node<'_>, url: &str, after: usize) -> Option<Range<usize>> {
        let block = node.ancestors().find(|node| node.data().value.contains_inlines())?;
        let block = self.byte_range(block.data().sourcepos)?;
        let range = self.byte_range(node.data().sourcepos).unwrap_or(block.start..block.start);
        let text_end = node
            .last_child()
            .and_then(|child| self.byte_range(child.data().sourcepos))
            .map_or(range.start, |child| child.end.clamp(range.start, range.end));
        let find = |from: usize, end: usize| {
            let start = from + self.text.get(from..end)?.find("](")? + 2;
            let found = find_destination(&self.text[start..end])?;
            Some(start + found.start..start + found.end)
        };
        let is_here = |range: &Range<usize>| is_destination(&self.text[range.clone()], url);
        if let Some(found) = find(text_end, range.end).filter(is_here) {
            return Some(found);
        }
        let written = &self.text[range];
        if written.starts_with('<') || written.starts_with(['[', '!']) && written.ends_with(']') {
            return None;
        }
        let search = |mut from: usize| {
            while let Some(found) = find(from, block.end) {
                if is_here(&found) {
                    return Some(found);
                }
                from = found.end;
            }
            None
        };
        // If no such destination follows `after`, search the whole block: the destination of an image inside
        // a link precedes that of the link, which has already been found.
        search(after.max(block.start)).or_else(|| search(block.start))
    }

    /// The position of raw HTML. If the parser's position is wrong, as in [`Self::link_destination`], that of
    /// the first such text of the paragraph or cell after `after`. `None` if there is none.
    pub fn raw_html(&self, node: Node<'_>, literal: &str, after: usize) -> Option<Range<usize>> {
        let data = node.data();
        let range = self.byte_range(data.sourcepos);
        // Compare only the first line: in a blockquote, further lines of the source begin with markers.
        let first_line = literal.split('\n').next().unwrap_or_default();
        let is_here = |range: &Range<usize>| self.text[range.clone()].starts_with(first_line);
        if !matches!(data.value, NodeValue::HtmlInline(_)) || range.as_ref().is_some_and(is_here) {
            return range;
        }
        let block = node.ancestors().find(|node| node.data().value.contains_inlines())?;
        let block = self.byte_range(block.data().sourcepos)?;
        let from = after.clamp(block.start, block.end);
        let at = from + self.text.get(from..block.end)?.find(literal)?;
        Some(at..at + literal.len())
    }

    /// Applies `edits` in the order of their positions, except those that overlap an edit that was applied
    /// before. Of edits with the same start, only the longest one is applied; but several insertions (empty
    /// ranges) at one position do not overlap, and are applied in the given order.
    pub fn apply_edits(&self, mut edits: Vec<(Range<usize>, String)>) -> String {
        edits.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut text = String::with_capacity(self.text.len() + edits.len() * 32);
        let mut done = 0;
        for (range, replacement) in edits {
            if range.start >= done {
                text.push_str(&self.text[done..range.start]);
                text.push_str(&replacement);
                done = range.end;
            }
        }
        text.push_str(&self.text[done..]);
        text
    }
}

/// Formats a URL as a link destination: in angle brackets if it contains parentheses or spaces. The URL must
/// not contain `<`, `>` or line breaks, which are not escaped.
pub fn format_destination(url: &str) -> String {
    if url.contains(['(', ')', ' ']) { format!("<{url}>") } else { url.to_owned() }
}

/// The position of the link destination in `text`, including its angle brackets. `text` starts after the
/// opening parenthesis or the colon (CommonMark, "link destination"). In angle brackets, it ends at the first
/// `>`, even after a backslash; otherwise, before whitespace or an unmatched `)` without a backslash before
/// it, and it is empty if `)` comes first. `None` if `text` is blank, or if `<` has no `>`.
pub fn find_destination(text: &str) -> Option<Range<usize>> {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if rest.starts_with('<') {
        let mut escaped = false;
        let end = rest.find(|c| {
            let is_end = !escaped && c == '>';
            escaped = c == '\\' && !escaped;
            is_end
        })?;
        return Some(start..start + end + 1);
    }
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' if depth == 0 => return Some(start..start + at),
            ')' => depth -= 1,
            c if c.is_whitespace() => return (at > 0).then_some(start..start + at),
            _ => {}
        }
    }
    (!rest.is_empty()).then_some(start..text.len())
}

/// Whether a destination, as it is written, may stand for the URL. One with a backslash or `&` may stand for
/// any URL that is not empty.
fn is_destination(written: &str, url: &str) -> bool {
    let written = written.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(written);
    // Escapes and entities are rare: do not decode them, but assume that a destination with any is the URL.
    written == url || written.contains(['\\', '&']) && !url.is_empty()
}

/// Parses a body. The parser counts the lines in a paragraph or an underlined heading from its start,
/// although it has removed link definitions there, so this function corrects the numbers of these lines.
pub fn parse_document<'a>(arena: &'a Arena<'a>, body: &str, options: &Options<'_>) -> Node<'a> {
    let root = comrak::parse_document(arena, body, options);
    let source = SourceText::new(body);
    let begins_with_definition = |block: Node<'_>| {
        let Sourcepos { start, end } = block.data().sourcepos;
        find_definition((start.line..=end.line).map_while(|number| source.line_at(number))).is_some()
    };
    for block in root.descendants() {
        let end = match (block.data().sourcepos.end.line, &block.data().value) {
            (end, NodeValue::Paragraph) => end,
            (end, NodeValue::Heading(heading)) if heading.setext => end.saturating_sub(1),
            _ => continue,
        };
        let last = block.descendants().skip(1).map(|node| node.data().sourcepos.end.line).max();
        let removed = last.map_or(0, |last| end.saturating_sub(last));
        if removed > 0 && begins_with_definition(block) {
            for node in block.descendants().skip(1) {
                let position = &mut node.data_mut().sourcepos;
                position.start.line += removed;
                position.end.line += removed;
            }
        }
    }
    root
}

/// The numbers of the lines that show text, code or HTML. Call this before nodes are changed.
pub fn shown_lines(root: Node<'_>) -> HashSet<usize> {
    let has_lines = |node: &Node<'_>| {
        let value = &node.data().value;
        matches!(value, NodeValue::CodeBlock(_) | NodeValue::HtmlBlock(_))
            || !value.block() && node.first_child().is_none()
    };
    let positions = root.descendants().filter(has_lines).map(|node| node.data().sourcepos);
    positions.flat_map(|position| position.start.line..=position.end.line).collect()
}

/// Maximum length in bytes of the lines of a link label before its last line. CommonMark permits 999
/// characters in the whole label.
const MAX_LABEL_BYTES: usize = 4 * 999;

/// The position of the destination of the link definition that begins on the first of `lines`, including its
/// angle brackets. `lines` are consecutive, each with its byte offset. Label and destination may be on
/// different lines. `None` if no definition begins there, or that of a footnote. Does not check what follows
/// the destination.
pub fn find_definition<'a>(mut lines: impl Iterator<Item = (usize, &'a str)>) -> Option<Range<usize>> {
    let (mut start, mut rest) = without_markers(lines.next()?, true);
    rest = rest.strip_prefix('[').filter(|label| !label.starts_with('^'))?;
    start += 1;
    let mut length = 0;
    let mut escaped = false;
    let end = loop {
        let end = rest.find(|c| {
            let is_end = !escaped && (c == ']' || c == '[');
            escaped = c == '\\' && !escaped;
            is_end
        });
        if let Some(end) = end {
            break end;
        }
        length += rest.len();
        if length > MAX_LABEL_BYTES {
            return None;
        }
        (start, rest) = without_markers(lines.next()?, false);
        escaped = false;
    };
    let after = rest[end..].strip_prefix("]:")?;
    (start, rest) = (start + end + 2, after);
    if rest.trim().is_empty() {
        (start, rest) = without_markers(lines.next()?, false);
    }
    let found = find_destination(rest)?;
    Some(start + found.start..start + found.end)
}

/// Strips indentation, blockquote markers and, with `has_items`, list markers before white space. Adjusts the
/// line's offset.
pub fn without_markers((start, line): (usize, &str), has_items: bool) -> (usize, &str) {
    let mut rest = line.trim_start_matches([' ', '\t', '>']);
    loop {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let marker = if number.len() < rest.len() {
            number.strip_prefix(['.', ')'])
        } else {
            rest.strip_prefix(['-', '+', '*'])
        };
        let Some(after) = marker.filter(|after| has_items && after.starts_with([' ', '\t'])) else { break };
        rest = after.trim_start_matches([' ', '\t', '>']);
    }
    (start + line.len() - rest.len(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_in_angle_brackets_ends_at_the_first_unescaped_one() {
        for (text, expected) in [
            (r"<a\>b.md> 't')", Some(r"<a\>b.md>")),
            (r"<a\\>b>)", Some(r"<a\\>")),
            (r" <a b>)", Some("<a b>")),
            (r"<a\>b)", None),
        ] {
            assert_eq!(find_destination(text).map(|range| &text[range]), expected, "{text}");
        }
    }
}
