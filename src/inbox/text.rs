//! Makes visible what a terminal, a mail program or a reader might take for something else than text.

use std::fmt::Write as _;

/// The text on one line: line breaks become `⏎`, everything else that is not plainly text stands there by its code point.
pub fn visible(text: &str) -> String {
    show(text, '⏎', false)
}

/// The same, but lines and tabs stay what they are; every line break is a single line feed.
pub fn visible_lines(text: &str) -> String {
    show(text, '\n', true)
}

fn show(text: &str, line_feed: char, keep_tabs: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => shown.push(line_feed),
            '\t' if keep_tabs => shown.push(c),
            c if is_unsafe(c) => {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Control characters, line separators, whatever turns the writing direction, and what can't be seen at all.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(visible("plain, Grüße, 你好"), "plain, Grüße, 你好");
        assert_eq!(visible("one\ntwo\r\nthree\rfour"), r"one⏎two⏎three\u{d}four");
        assert_eq!(visible("\u{1b}[31mred\u{9b}0m\t\u{7f}"), r"\u{1b}[31mred\u{9b}0m\u{9}\u{7f}");
        assert_eq!(visible("abc\u{202e}fdp.exe\u{2066}"), r"abc\u{202e}fdp.exe\u{2066}");
        assert_eq!(visible("\u{e0041}\u{200b}\u{feff}"), r"\u{e0041}\u{200b}\u{feff}");
    }

    #[test]
    fn lines_may_stay_lines() {
        assert_eq!(
            visible_lines("one\r\ntwo\n\rthree\u{2028}\u{1b}"),
            "one\ntwo\n\\u{d}three\\u{2028}\\u{1b}"
        );
    }
}
