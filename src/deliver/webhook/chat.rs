//! Filters for templates: they shorten text and take away what it would do in a chat. What a visitor sent is to be read, not to ring
//! everybody, to open a link under another name or to look like a message of ours.
//!
//! Lengths are UTF-16 code units, as chat services count, or count no less than.

use std::borrow::Cow;

/// The most backticks in a row that a fence outdoes.
const MAX_BACKTICKS: usize = 9;

/// No more than `limit`; what was cut off is an ellipsis.
pub fn shorten(text: &str, limit: usize) -> String {
    let mut buffer = [0; 4];
    let mut short = Short::new(limit);
    for c in text.chars() {
        short.push(c.encode_utf8(&mut buffer));
    }
    short.done()
}

/// For Slack: the three characters that begin mentions and links are escaped. No more than `limit` thereafter.
pub fn slack(text: &str, limit: usize) -> String {
    escaped(text, limit, |c, _| match c {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        c => String::from(c).into(),
    })
}

/// For Discord, and others that read Markdown: what would format stands behind a backslash. No more than `limit` thereafter.
pub fn markdown(text: &str, limit: usize) -> String {
    escaped(text, limit, |c, is_first| match c {
        '\\' | '`' | '*' | '_' | '~' | '|' | '[' | ']' | '<' | '>' | '#' => format!("\\{c}").into(),
        '-' | '+' | '=' if is_first => format!("\\{c}").into(),
        c => String::from(c).into(),
    })
}

/// For Mattermost, which reads mentions and Slack's `<…>` before it reads Markdown: both lose their first character to one that looks
/// alike and does nothing (`＠all`, `＜!channel>`). The `@` of an e-mail address stays.
pub fn inert(text: &str) -> String {
    let mut before = ' ';
    let replace = |c| {
        let inert = match c {
            '@' if !before.is_alphanumeric() => '＠',
            '<' => '＜',
            c => c,
        };
        before = c;
        inert
    };
    text.chars().map(replace).collect()
}

/// As a block of code, with fences that nothing in it can close. Where it holds backticks without end, they become characters that look
/// alike, so that the fences stay short.
pub fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest > MAX_BACKTICKS {
        return fence(&text.replace('`', "ˋ"));
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Applies `escape` to each character, told whether only spaces precede it in its line.
fn escaped(text: &str, limit: usize, escape: impl Fn(char, bool) -> Cow<'static, str>) -> String {
    let mut short = Short::new(limit);
    let mut is_first = true;
    for c in text.chars() {
        short.push(&escape(c, is_first));
        is_first = c == '\n' || (is_first && c.is_whitespace());
    }
    short.done()
}

/// A text that grows piece by piece and is cut between two of them.
struct Short {
    text: String,
    units: usize,
    limit: usize,
    /// As many bytes of it as leave room for the ellipsis.
    cut: usize,
}

impl Short {
    fn new(limit: usize) -> Short {
        Short { text: String::new(), units: 0, limit, cut: 0 }
    }

    fn push(&mut self, piece: &str) {
        if self.units > self.limit {
            return;
        }
        self.text.push_str(piece);
        self.units += piece.encode_utf16().count();
        if self.units < self.limit {
            self.cut = self.text.len();
        }
    }

    fn done(mut self) -> String {
        if self.units > self.limit {
            self.text.truncate(self.cut);
            if self.limit > 0 {
                self.text.push('…');
            }
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_only_where_it_is_too_long() {
        for (text, limit, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("äöüß", 3, "äö…"),
            ("🦀🦀", 4, "🦀🦀"),
            ("🦀🦀", 3, "🦀…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
            ("", 0, ""),
        ] {
            assert_eq!(shorten(text, limit), expected, "{text} {limit}");
        }
    }

    #[test]
    fn slack_sees_neither_mentions_nor_links() {
        assert_eq!(slack("<!channel> & <https://x|y>", 100), "&lt;!channel&gt; &amp; &lt;https://x|y&gt;");
        assert_eq!(slack("a<b", 4), "a…", "an escape is never cut in two");
        assert_eq!(slack("&&&&", 11), "&amp;&amp;…");
    }

    #[test]
    fn markdown_is_shown_as_it_was_written() {
        assert_eq!(markdown("*a* _b_ `c` [d](e) \\", 100), r"\*a\* \_b\_ \`c\` \[d\](e) \\");
        assert_eq!(markdown("- a-b\n  + c\n# d\n==\n> e", 100), "\\- a-b\n  \\+ c\n\\# d\n\\==\n\\> e");
        assert_eq!(markdown("****", 5), r"\*\*…");
    }

    #[test]
    fn mentions_lose_their_power_and_addresses_stay() {
        assert_eq!(
            inert("@all (@here) ada@example.com .@channel"),
            "＠all (＠here) ada@example.com .＠channel"
        );
        assert_eq!(inert("<!channel> <https://x|y>"), "＜!channel> ＜https://x|y>");
    }

    #[test]
    fn nothing_closes_a_fence_from_within() {
        assert_eq!(fence("a"), "```\na\n```");
        assert_eq!(fence("``` ````\nb"), "`````\n``` ````\nb\n`````");
        assert_eq!(fence(&"`".repeat(10)), format!("```\n{}\n```", "ˋ".repeat(10)));
    }
}
