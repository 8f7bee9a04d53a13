//! Template filters for chat services. They shorten text, and disable mentions, disguised links and
//! formatting in text that a visitor wrote.
//!
//! Lengths are in UTF-16 code units. No chat service counts more units for the same text, so shortened text
//! stays within the service's limit.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

/// The longest run of backticks that [`fence`] encloses in a longer fence. If a run is longer, all backticks
/// in the text are replaced.
const MAX_BACKTICKS: usize = 9;

/// Shortens text to `limit` code units. Shortened text ends in an ellipsis.
pub fn shorten(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, _| String::from(c).into())
}

/// For Slack: escapes the three characters that mentions and links use. `limit` applies to the escaped text.
pub fn slack(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, _| match c {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        c => String::from(c).into(),
    })
}

/// For Discord and other services that use Markdown: escapes formatting characters. `limit` applies to the
/// escaped text.
pub fn markdown(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, is_first| match c {
        '\\' | '`' | '*' | '_' | '~' | '|' | '[' | ']' | '<' | '>' | '#' => format!("\\{c}").into(),
        '-' | '+' | '=' if is_first => format!("\\{c}").into(),
        c => String::from(c).into(),
    })
}

/// For Mattermost, which parses mentions and Slack's `<…>` before Markdown: replaces their first character
/// with one that looks similar (`＠all`, `＜!channel>`). The `@` in an e-mail address is kept.
pub fn inert(text: &str) -> String {
    without_mentions(text).replace('<', "＜")
}

/// Replaces the `@` of mentions with a similar character, but not the one in an e-mail address.
pub fn without_mentions(text: &str) -> String {
    let mut before = ' ';
    let replace = |c| {
        let is_mention = c == '@' && !before.is_alphanumeric();
        before = c;
        if is_mention { '＠' } else { c }
    };
    text.chars().map(replace).collect()
}

/// Puts the text into a code block whose fence is longer than any run of backticks in the text. If a run is
/// very long, replaces all backticks with a similar character, so that the fence stays short.
pub fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest > MAX_BACKTICKS {
        return fence(&text.replace('`', "ˋ"));
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Applies `escape` to each character, and shortens the result to `limit` code units, without splitting a
/// grapheme cluster. A shortened result ends in an ellipsis, which counts. The second argument of `escape` is
/// true if only white space precedes the character on its line.
fn escape_characters(text: &str, limit: usize, escape: impl Fn(char, bool) -> Cow<'static, str>) -> String {
    let (mut escaped, mut units, mut is_first) = (String::new(), 0, true);
    // Where to cut the text, in bytes, so that the ellipsis fits.
    let mut cut = 0;
    for cluster in text.graphemes(true) {
        for c in cluster.chars() {
            let piece = escape(c, is_first);
            escaped.push_str(&piece);
            units += piece.encode_utf16().count();
            is_first = c == '\n' || (is_first && c.is_whitespace());
        }
        if units > limit {
            escaped.truncate(cut);
            escaped.extend((limit > 0).then_some('…'));
            break;
        }
        if units < limit {
            cut = escaped.len();
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_over_the_limit_is_shortened() {
        for (text, limit, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("äöüß", 3, "äö…"),
            ("🦀🦀", 4, "🦀🦀"),
            ("🦀🦀", 3, "🦀…"),
            ("e\u{301}e\u{301}", 3, "e\u{301}…"),
            ("👨‍👩‍👧‍👦", 8, "…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
            ("", 0, ""),
        ] {
            assert_eq!(shorten(text, limit), expected, "{text} {limit}");
        }
    }

    #[test]
    fn slack_gets_neither_mentions_nor_links() {
        assert_eq!(slack("<!channel> & <https://x|y>", 100), "&lt;!channel&gt; &amp; &lt;https://x|y&gt;");
        assert_eq!(slack("a<b", 4), "a…", "an escape sequence is never split");
        assert_eq!(slack("&&&&", 11), "&amp;&amp;…");
    }

    #[test]
    fn markdown_is_shown_as_it_was_written() {
        assert_eq!(markdown("*a* _b_ `c` [d](e) \\", 100), r"\*a\* \_b\_ \`c\` \[d\](e) \\");
        assert_eq!(markdown("- a-b\n  + c\n# d\n==\n> e", 100), "\\- a-b\n  \\+ c\n\\# d\n\\==\n\\> e");
        assert_eq!(markdown("****", 5), r"\*\*…");
    }

    #[test]
    fn mentions_are_disabled_and_addresses_kept() {
        assert_eq!(
            inert("@all (@here) ada@example.com .@channel"),
            "＠all (＠here) ada@example.com .＠channel"
        );
        assert_eq!(inert("<!channel> <https://x|y>"), "＜!channel> ＜https://x|y>");
    }

    #[test]
    fn text_cannot_close_its_fence() {
        assert_eq!(fence("a"), "```\na\n```");
        assert_eq!(fence("``` ````\nb"), "`````\n``` ````\nb\n`````");
        assert_eq!(fence(&"`".repeat(10)), format!("```\n{}\n```", "ˋ".repeat(10)));
    }
}
