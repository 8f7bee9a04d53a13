//! How many columns of a terminal a text takes, and texts that are cut or filled up to a number of columns.

/// How many columns of a terminal the text takes, near enough to line up what people write: East Asian
/// letters and pictographs take two, combining marks none.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f
        | 0x0483..=0x0489
        | 0x0591..=0x05bd
        | 0x064b..=0x065f
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x200c..=0x200d
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1_f300..=0x1_f64f
        | 0x1_f680..=0x1_f6ff
        | 0x1_f900..=0x1_f9ff
        | 0x1_fa70..=0x1_faff
        | 0x2_0000..=0x3_fffd => 2,
        _ => 1,
    }
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
