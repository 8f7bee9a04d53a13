//! How many columns of a terminal a text takes, and texts that are cut or filled up to a number of columns.

use unicode_width::UnicodeWidthChar as _;

/// Number of terminal columns that the text takes: the sum over its characters, as most terminals count. Two for East Asian
/// characters and emoji, none for combining marks.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Control characters count as one column; text is displayed without them.
fn char_columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Filled up with blanks.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Cut to `width` columns, with `…` at the end where something is missing.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_columns(c);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// How many columns a line of a wrapped text has at least.
const MIN_WRAPPED: usize = 12;

/// The pieces in as few lines as they fit into, with a blank between two of them. One that is wider than a line is divided.
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
        for c in piece.chars() {
            if columns(&line) + char_columns(c) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
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
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(columns("e\u{301}"), 1);
        assert_eq!(columns("กี👍\u{1}"), 4);
    }

    #[test]
    fn a_line_is_broken_between_pieces_and_within_one_only_where_it_fits_no_line() {
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
