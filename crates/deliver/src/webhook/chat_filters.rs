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

/// The context of a character in a text, which decides whether the character must be escaped.
#[derive(Clone, Copy)]
struct Position {
    /// Only white space precedes the character on its line.
    is_first: bool,
    /// Only white space and then digits precede the character on its line.
    is_after_number: bool,
    /// The character is part of a URL that chat services turn into a link.
    is_in_url: bool,
}

/// Shortens text to at most `limit` UTF-16 code units, including the ellipsis that ends shortened text.
pub fn shorten(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, _| String::from(c).into())
}

/// For Slack: escapes the three characters that mentions and links use. Shortens the escaped text to `limit`
/// UTF-16 code units, including the ellipsis.
pub fn slack(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, _| match c {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        c => String::from(c).into(),
    })
}

/// For Discord and other services that use Markdown: escapes formatting characters. Shortens the escaped text
/// to `limit` UTF-16 code units, including the ellipsis. Web addresses stay as they are, because a backslash
/// would become part of the link.
pub fn markdown(text: &str, limit: usize) -> String {
    escape_characters(text, limit, |c, position| match c {
        c if position.is_in_url => String::from(c).into(),
        '\\' | '`' | '*' | '_' | '~' | '|' | '[' | ']' | '<' | '>' | '#' => format!("\\{c}").into(),
        '-' | '+' | '=' if position.is_first => format!("\\{c}").into(),
        // Chat services would read a line such as `3. Oak` as a list, and change its number.
        '.' | ')' if position.is_after_number => format!("\\{c}").into(),
        c => String::from(c).into(),
    })
}

/// For Mattermost, which parses mentions and Slack's `<…>` before Markdown: replaces the `@` of mentions and
/// every `<` with a character that looks similar (`＠all`, `＜!channel>`). The `@` in e-mail and web addresses
/// is kept.
pub fn inert(text: &str) -> String {
    without_mentions(text).replace('<', "＜")
}

/// Replaces the `@` of mentions with a similar character. Keeps an `@` after a letter or digit, where
/// services see no mention, and one in an e-mail address, or in a web address unless `(` precedes it.
pub fn without_mentions(text: &str) -> String {
    let mut before = ' ';
    // Whether the text before `c` can end in the local part of an e-mail address.
    let mut is_local_part = false;
    let replace = |(at, c, is_in_url): (usize, char, bool)| {
        let is_address = before.is_alphanumeric()
            || (is_in_url && before != '(')
            || (c == '@' && is_local_part && host_length(&text[at + 1..]) > 0);
        let shown = if c == '@' && !is_address { '＠' } else { c };
        // Chat services divide words at all signs except `_`, and would see a mention in `a-@all.example`.
        is_local_part = c.is_alphanumeric() || (is_local_part && c == '_');
        before = c;
        shown
    };
    url_marked(text).map(replace).collect()
}

/// The length of the host name at the beginning of the text; 0 unless it has two or more labels. Only ASCII,
/// and at most 253 characters, the longest name in the DNS.
fn host_length(text: &str) -> usize {
    let is_label_byte = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let end = text.bytes().take(254).take_while(|byte| is_label_byte(byte) || *byte == b'.').count();
    let host = text[..end].trim_end_matches(['.', '-']);
    // Chat services do not turn a host into a link if one of its labels begins or ends with a hyphen.
    let is_label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let has_labels = host.contains('.') && host.split('.').all(is_label);
    if has_labels && end < 254 { host.len() } else { 0 }
}

/// The length of the web address at the beginning of the text; 0 if there is none. The address has the scheme
/// `http` or `https` and a host with a dot. It ends before characters that format text, except for `_`, `~`,
/// `#`, `=` and `+`, which are frequent in paths.
fn url_length(text: &str) -> usize {
    let is_scheme =
        |scheme: &&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let Some(scheme) = ["https://", "http://"].iter().find(|scheme| is_scheme(scheme)) else { return 0 };
    let host = host_length(&text[scheme.len()..]);
    if host == 0 {
        return 0;
    }
    let mut end = scheme.len() + host;
    if let Some(port) = text[end..].strip_prefix(':') {
        let digits = port.bytes().take_while(u8::is_ascii_digit).count();
        end += if digits > 0 { 1 + digits } else { 0 };
    }
    let rest = &text[end..];
    if rest.starts_with(['/', '?', '#']) {
        let is_part = |c: char| c.is_alphanumeric() || "-._~/?#&=%+:@()".contains(c);
        end += rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    }
    end
}

/// Each character of the text with its position in bytes, and whether it is part of a web address. No address
/// begins directly after a letter or digit.
fn url_marked(text: &str) -> impl Iterator<Item = (usize, char, bool)> + '_ {
    let (mut url_end, mut before) = (0, ' ');
    text.char_indices().map(move |(at, c)| {
        if at >= url_end && matches!(c, 'h' | 'H') && !before.is_alphanumeric() {
            url_end = at + url_length(&text[at..]);
        }
        before = c;
        (at, c, at < url_end)
    })
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
/// grapheme cluster. A shortened result ends in an ellipsis, which counts; with limit 0, it is empty.
fn escape_characters(
    text: &str,
    limit: usize,
    escape: impl Fn(char, Position) -> Cow<'static, str>,
) -> String {
    let (mut escaped, mut units) = (String::new(), 0);
    let (mut is_first, mut is_after_number) = (true, false);
    let mut marked = url_marked(text);
    // Where to cut the text, in bytes, so that the ellipsis fits.
    let mut cut = 0;
    for cluster in text.graphemes(true) {
        for (_, c, is_in_url) in marked.by_ref().take(cluster.chars().count()) {
            let piece = escape(c, Position { is_first, is_after_number, is_in_url });
            escaped.push_str(&piece);
            units += piece.encode_utf16().count();
            is_after_number = (is_first || is_after_number) && c.is_ascii_digit();
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
        assert_eq!(markdown("5. Mai\n 12) x\n1.5 a 3. b\n. c", 100), "5\\. Mai\n 12\\) x\n1\\.5 a 3. b\n. c");
        assert_eq!(markdown("****", 5), r"\*\*…");
    }

    #[test]
    fn markdown_keeps_web_addresses() {
        for (text, expected) in [
            ("https://medium.com/@ada_b/our_pier-1 a_b", r"https://medium.com/@ada_b/our_pier-1 a\_b"),
            ("(HTTP://a.example:8080?a_b=~c#d_e)", "(HTTP://a.example:8080?a_b=~c#d_e)"),
            ("https://en.wikipedia.org/wiki/Größe_(a_b)", "https://en.wikipedia.org/wiki/Größe_(a_b)"),
            ("[https://a.example](https://b.example/c_d)", r"\[https://a.example\](https://b.example/c_d)"),
            ("<https://a.example/a_b|c_d>", r"\<https://a.example/a_b\|c\_d\>"),
            ("**https://a.example/a_b**", r"\*\*https://a.example/a_b\*\*"),
            ("https://a_b xhttps://a.example/a_b", r"https://a\_b xhttps://a.example/a\_b"),
            ("https://a.example_b ftp://a.example/a_b", r"https://a.example\_b ftp://a.example/a\_b"),
        ] {
            assert_eq!(markdown(text, 100), expected, "{text}");
        }
    }

    #[test]
    fn mentions_are_disabled_and_addresses_kept() {
        assert_eq!(
            inert("@all (@here) ada@example.com .@channel"),
            "＠all (＠here) ada@example.com .＠channel"
        );
        assert_eq!(inert("<!channel> <https://x|y>"), "＜!channel> ＜https://x|y>");
        for kept in [
            "ada_@visitor.example, 'a.b_@y.example'",
            "https://www.youtube.com/@harbour_tools",
            "(https://medium.com/@ada_b/our_pier-1) http://a.example:80/?@b",
        ] {
            assert_eq!(without_mentions(kept), kept);
        }
        for (text, expected) in [
            ("_@ada -@ada.example a-@ada a.@b.example", "_＠ada -＠ada.example a-＠ada a.＠b.example"),
            ("a*@b.example a_ @b.example", "a*＠b.example a_ ＠b.example"),
            ("https:///@ada https://x/@ada", "https:///＠ada https://x/＠ada"),
            ("https://a.example @ada", "https://a.example ＠ada"),
            ("a-@all.example https://-a.example/@all", "a-＠all.example https://-a.example/＠all"),
            ("o'@durov.example a+@b.example", "o'＠durov.example a+＠b.example"),
            (
                "https://a.example/ @ada https://a.example/(@ada)",
                "https://a.example/ ＠ada https://a.example/(＠ada)",
            ),
            (
                "https://a.example/\"@ada https://a.example.@ada",
                "https://a.example/\"＠ada https://a.example.＠ada",
            ),
        ] {
            assert_eq!(without_mentions(text), expected);
        }
    }

    #[test]
    fn text_cannot_close_its_fence() {
        assert_eq!(fence("a"), "```\na\n```");
        assert_eq!(fence("``` ````\nb"), "`````\n``` ````\nb\n`````");
        assert_eq!(fence(&"`".repeat(10)), format!("```\n{}\n```", "ˋ".repeat(10)));
    }
}
