//! The source of a body: finds lines, nodes and link destinations in it, and applies edits.

use std::ops::Range;

use comrak::nodes::Sourcepos;

/// A text with the positions of its lines.
pub(super) struct SourceText<'a> {
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

    /// Applies `edits` in the order of their positions, except those that overlap one before. Of edits with
    /// the same start, the longest one is applied.
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

/// Formats a URL as a link destination: in angle brackets if it contains parentheses or spaces.
pub(super) fn format_destination(url: &str) -> String {
    if url.contains(['(', ')', ' ']) { format!("<{url}>") } else { url.to_owned() }
}

/// The position of the link destination in `text`, including its angle brackets. `text` starts after the
/// opening parenthesis or the colon (CommonMark, "link destination"). `None` if there is no destination.
pub(super) fn find_destination(text: &str) -> Option<Range<usize>> {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if rest.starts_with('<') {
        let end = rest.find('>')?;
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
