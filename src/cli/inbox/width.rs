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
}
