//! Escapes text for HTML, and makes invisible and control characters visible, because they could mislead a
//! terminal, a mail program or a reader.

/// The text on one line. Replaces line breaks with `⏎` and unsafe characters with `\u{…}`.
pub fn visible(text: &str) -> String {
    replace_unsafe(text, '⏎', false)
}

/// Like [`visible`], but keeps tabs, and replaces each line break with a line feed.
pub fn visible_lines(text: &str) -> String {
    replace_unsafe(text, '\n', true)
}

fn replace_unsafe(text: &str, line_feed: char, keep_tabs: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => shown.push(line_feed),
            '\t' if keep_tabs => shown.push(c),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Escapes text for HTML elements and quoted attribute values.
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let reference = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        escaped.push_str(&text[copied..at]);
        escaped.push_str(reference);
        copied = at + 1;
    }
    escaped.push_str(&text[copied..]);
    escaped
}

/// Whether a character is invisible, is a control character or line separator, or changes the text direction.
/// Joiners and variation selectors count as safe, because some writing systems and emoji need them.
pub fn is_unsafe(c: char) -> bool {
    let is_of_a_script = matches!(c,
        '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    let separates = matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}');
    c.is_control() || separates || (is_invisible(c) && !is_of_a_script)
}

/// Whether a character has the property `Default_Ignorable_Code_Point` (Unicode 17,
/// DerivedCoreProperties.txt). Includes the Hangul fillers U+115F, U+1160, U+3164 and U+FFA0, which Unicode
/// classifies as letters, and U+034F COMBINING GRAPHEME JOINER, but no white space.
pub const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a field that contains only this character counts as empty: white space, or an invisible character
/// up to U+FFFF. Regular expressions in different languages represent characters beyond U+FFFF differently,
/// so the patterns in `/openapi.json` ([`Field::pattern`](crate::forms::Field::pattern)) cannot include them.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || (is_invisible(c) && c <= '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("plain, Grüße, 你好"), "plain, Grüße, 你好");
        assert_eq!(visible("one\ntwo\r\nthree\rfour"), r"one⏎two⏎three\u{d}four");
        assert_eq!(visible("\u{1b}[31mred\u{9b}0m\t\u{7f}"), r"\u{1b}[31mred\u{9b}0m\u{9}\u{7f}");
        assert_eq!(visible("abc\u{202e}fdp.exe\u{2066}"), r"abc\u{202e}fdp.exe\u{2066}");
        assert_eq!(visible("\u{e0041}\u{200b}\u{feff}"), r"\u{e0041}\u{200b}\u{feff}");
    }

    #[test]
    fn visible_lines_keeps_lines_and_tabs() {
        assert_eq!(
            visible_lines("one\r\ntwo\n\rthree\u{2028}\u{1b}"),
            "one\ntwo\n\\u{d}three\\u{2028}\\u{1b}"
        );
    }

    #[test]
    fn hangul_fillers_and_the_grapheme_joiner_are_invisible_and_shown() {
        for c in ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{34f}'] {
            assert!(is_invisible(c) && is_unsafe(c) && is_blank(c), "{c:?}");
            assert_eq!(visible(&format!("a{c}b")), format!("a\\u{{{:x}}}b", u32::from(c)));
        }
        for c in ['a', '가', 'ᄀ', 'ᅡ', 'ﾡ', '\u{301}', '日'] {
            assert!(!is_invisible(c), "{c:?}");
        }
        assert!(!is_invisible(' ') && is_blank(' ') && is_blank('\u{3000}'));
    }

    #[test]
    fn joiners_and_variation_selectors_stay() {
        for text in ["می\u{200c}خواهم", "क्\u{200d}ष", "👩\u{200d}💻", "❤\u{fe0f}"] {
            assert_eq!(visible(text), text);
        }
    }
}
