//! Measures the width of text in terminal columns; pads, cuts and wraps text.

use frontdesk_forms::text::cut_by;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// The width of a string: the sum of the widths of its characters, as most terminals calculate it. East Asian
/// characters and emoji take two columns, combining marks none.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// The width of a character. Control characters count as one column; callers replace them before printing.
fn char_columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Adds spaces up to `width` columns. Returns wider text unchanged.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Cuts a text that is wider than `width` columns, and replaces its end with `…`, which takes one column even
/// if `width` is 0. Divides no user-perceived character, unless the first one is too wide.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    format!("{}…", cut_by(text, width.saturating_sub(1), char_columns))
}

/// Minimum width of a wrapped line, in columns.
const MIN_WRAPPED: usize = 12;

/// Wraps pieces into lines of at most `width` columns, or of [`MIN_WRAPPED`] if `width` is less, with a space
/// between pieces. Splits pieces that are wider than a line. Returns one empty line for no pieces.
pub(super) fn wrap(pieces: &[String], width: usize) -> Vec<String> {
    let width = width.max(MIN_WRAPPED);
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces {
        if !line.is_empty() && columns(&line) + 1 + columns(piece) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for cluster in piece.graphemes(true) {
            if columns(&line) + columns(cluster) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(cluster);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_keep_their_columns() {
        assert_eq!(columns("日本"), 4);
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(shorten("日か\u{3099}語", 5), "日か\u{3099}…");
        assert_eq!(shorten("a👨‍👩‍👧‍👦b", 6), "a…", "a family is not divided");
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(columns("e\u{301}"), 1);
        assert_eq!(columns("กี👍\u{1}"), 4);
    }

    #[test]
    fn lines_break_between_pieces_and_within_too_wide_ones() {
        let check = |pieces: &[&str], width, expected: &[&str]| {
            let pieces: Vec<_> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
            assert_eq!(wrap(&pieces, width), expected, "{pieces:?}");
        };
        check(&[], 20, &[""]);
        check(&["contact: 1 kept;", "waitlist: 2 kept"], 33, &["contact: 1 kept; waitlist: 2 kept"]);
        check(&["contact: 1 kept;", "waitlist: 2 kept"], 32, &["contact: 1 kept;", "waitlist: 2 kept"]);
        check(&["one", "0123456789abcdef", "two"], 12, &["one", "0123456789ab", "cdef two"]);
        check(&["日本日本日本日本"], 13, &["日本日本日本", "日本"]);
        check(&["a", "0123456789ab"], 0, &["a", "0123456789ab"]);
    }
}
