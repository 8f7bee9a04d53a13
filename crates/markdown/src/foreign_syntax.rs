//! Recognizes the syntax of other Markdown programs, which pages show as text.

use comrak::nodes::Sourcepos;
use frontdesk_publish::directive;
use memchr::memchr3;

use crate::source_text::{SourceText, without_markers};

/// The hint for syntax that has no equivalent.
const REWRITE: &str = "write Markdown or HTML instead";

/// Describes syntax of another program in a text at `position`, with a hint; `None` if there is none. If
/// there are several, the first of these kinds counts: shortcodes, links in double brackets, highlighted
/// words, lists of attributes and, only at the beginning of a line, abbreviations, marks for tables of
/// contents, blocks, markers of alerts, and some of the lines that [`directive`] recognizes.
pub fn find(text: &str, source: &SourceText<'_>, position: Sourcepos) -> Option<(String, &'static str)> {
    let line = source.line_at(position.start.line);
    let before = line.and_then(|(_, line)| line.get(..position.start.column.saturating_sub(1)));
    let follows_link = before.is_some_and(|before| before.ends_with([')', ']']));
    let line = line.map(|(start, line)| (start, without_markers((start, line), true)));
    let line = line.filter(|(start, (at, _))| start + position.start.column == at + 1);
    find_in(text, line.map(|(_, (_, rest))| rest), follows_link)
}

/// Like [`find`]. `line` is the line that the text begins, without the markers of lists and quotes; `None`
/// for a text in the middle of a line. `follows_link` says that the text is directly behind a link or image.
fn find_in(text: &str, line: Option<&str>, follows_link: bool) -> Option<(String, &'static str)> {
    // `find_anywhere` finds only syntax that begins with one of these bytes. Most texts have none.
    if memchr3(b'{', b'[', b'=', text.as_bytes()).is_some()
        && let Some(found) = find_anywhere(text, line.is_some(), follows_link)
    {
        return Some(found);
    }
    let line = line?;
    if line.starts_with("*[") && line.contains("]:") {
        return Some(shown(line, "write `<abbr title=\"…\">` where the abbreviation occurs"));
    }
    if TABLE_OF_CONTENTS.iter().any(|marker| line.trim_end().eq_ignore_ascii_case(marker)) {
        return Some(shown(line, "write `toc: true` in the front matter for a table of contents"));
    }
    if let Some(name) = line.strip_prefix(":::").map(|rest| rest.trim_start_matches(':').trim_start())
        && name.starts_with(|c: char| c.is_alphabetic() || c == '{')
    {
        return Some(shown(":::", NOTE));
    }
    if let Some((kind, _)) = line.strip_prefix("[!").and_then(|rest| rest.split_once(']'))
        && !kind.is_empty()
        && kind.chars().all(|c| c.is_alphanumeric() || c == '-')
    {
        return Some(shown(&format!("[!{kind}]"), NOTE));
    }
    let kind = directive(line)?;
    match kind.trim_end() {
        "!!!" | "???" | "???+" => {
            let is_name = line[kind.len()..].starts_with(|c: char| c.is_ascii_lowercase());
            is_name.then(|| shown(&kind, NOTE))
        }
        "--8<--" | "=== \"" | "import" => Some(shown(&kind, REWRITE)),
        _ => None,
    }
}

/// A warning that the page shows `syntax` as text because it is not supported, with the hint.
fn shown(syntax: &str, hint: &'static str) -> (String, &'static str) {
    (format!("`{}` is not supported; the page shows it as text", syntax.trim_end()), hint)
}

/// Like [`find_in`], but only for syntax that may be anywhere in a line.
fn find_anywhere(text: &str, begins_line: bool, follows_link: bool) -> Option<(String, &'static str)> {
    if text.contains("{{") || text.contains("{%") {
        return Some(("shortcodes are not supported; the page shows them as text".to_owned(), REWRITE));
    }
    if let Some(link) = wikilink(text) {
        return Some(shown(link, "write a Markdown link, such as `[About](about.md)`"));
    }
    if let Some(marked) = highlighted(text) {
        return Some(shown(marked, "write `<mark>…</mark>`"));
    }
    let attributes = attribute_list(text, begins_line, follows_link)?;
    // Restore the straight quotes, which the parser has replaced with quotation marks.
    Some(shown(&attributes.replace(is_quote, "\""), "remove it, or write HTML with these attributes"))
}

const NOTE: &str = "write a note as a quotation that begins with the line `> [!NOTE]`, or with TIP, IMPORTANT, WARNING or CAUTION";

/// The first link or embedded file between double brackets, such as `[[About]]`. Skips what may be code:
/// brackets after a letter, digit or backslash (`a[[i]]`), and content that has no letter, that begins with
/// whitespace, or that contains another bracket or a line break.
fn wikilink(text: &str) -> Option<&str> {
    text.match_indices("[[").find_map(|(at, _)| {
        let inner = &text[at + 2..];
        let inner = &inner[..inner.find("]]")?];
        let is_name = inner.contains(char::is_alphabetic)
            && !inner.starts_with(char::is_whitespace)
            && !inner.contains(['[', ']', '\n'])
            && !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '\\');
        is_name.then(|| &text[at..at + inner.len() + 4])
    })
}

/// The first text between `==`, such as `==new==`. Skips what may be a comparison: next to a letter, a digit
/// or another `=`, or with whitespace inside the marks.
fn highlighted(text: &str) -> Option<&str> {
    text.match_indices("==").find_map(|(at, _)| {
        let inner = &text[at + 2..];
        let inner = &inner[..inner.find("==")?];
        let (before, after) = (&text[..at], &text[at + inner.len() + 4..]);
        let is_part = |c: char| c.is_alphanumeric() || c == '=';
        let is_marked = !inner.is_empty()
            && inner.trim() == inner
            && !before.ends_with(is_part)
            && !after.starts_with(is_part);
        is_marked.then(|| &text[at..at + inner.len() + 4])
    })
}

/// Paragraphs that other programs replace with a table of contents.
const TABLE_OF_CONTENTS: [&str; 2] = ["[TOC]", "{:toc}"];

/// The first list of attributes: classes (`.lead`), ids (`#top`) and pairs (`width=50%`, `title="A b"`). It
/// begins with `{:`, or with a class or an id. One that begins with a pair must be the whole text, which
/// begins the line (`begins_line`), or begin the text directly behind a link or image (`follows_link`),
/// because such text may also be an example or a formula.
fn attribute_list(text: &str, begins_line: bool, follows_link: bool) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let inner = &text[at + 1..];
        let inner = &inner[..inner.find('}')?];
        let list = &text[at..at + inner.len() + 2];
        let begins_with_name = inner.trim_start().starts_with(['.', '#']);
        let is_expected = inner.starts_with(':')
            || begins_with_name
            || at == 0 && (follows_link || begins_line && list == text.trim_end());
        // Split at the quotes, and skip every other part, which is quoted.
        let mut unquoted = inner.strip_prefix(':').unwrap_or(inner).split(is_quote).step_by(2);
        let is_list = is_expected
            && unquoted.clone().any(|part| !part.trim().is_empty())
            && unquoted.all(|part| part.split_whitespace().all(is_attribute));
        is_list.then_some(list)
    })
}

/// Whether a word is a class, an id, or a key with `=`. A quoted value may follow the word.
fn is_attribute(word: &str) -> bool {
    let is_name = |name: &str| name.starts_with(char::is_alphabetic);
    word.strip_prefix(['.', '#']).is_some_and(is_name)
        || word.split_once('=').is_some_and(|(key, _)| is_name(key))
}

/// Whether a character is a straight double quote, or a quotation mark that replaces it in some language.
fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»' | '「' | '」')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_of_other_programs_is_named() {
        for (line, expected) in [
            ("See [[About us|us]] and ![[pic.png]].", "`[[About us|us]]`"),
            ("![[pic.png]]", "`[[pic.png]]`"),
            ("a ==new== b", "`==new==`"),
            ("==two words==, b", "`==two words==`"),
            ("*[HTML]: Language", "`*[HTML]: Language`"),
            ("{{< note >}}", "shortcodes"),
            ("{% include a.html %}", "shortcodes"),
            ("::: tip Title", "`:::`"),
            (":::{note}", "`:::`"),
            ("[!faq]- Why?", "`[!faq]`"),
            ("!!! note \"Title\"", "`!!!`"),
            ("???+ info", "`???+`"),
            ("=== \"Linux\"", "`=== \"`"),
            ("--8<-- \"a.md\"", "`--8<--`"),
            ("import Tabs from '@theme/Tabs';", "`import`"),
            ("{: .lead}", "`{: .lead}`"),
            ("Title {#top .wide}", "`{#top .wide}`"),
            ("{: width=\"3\" }", "`{: width=\"3\" }`"),
            ("Text {:title=“A b” .c}", "`{:title=\"A b\" .c}`"),
            ("{ loading=lazy }", "`{ loading=lazy }`"),
            ("{.lead title=\"A b\"}", "`{.lead title=\"A b\"}`"),
            ("{:toc}", "`{:toc}`"),
            ("[TOC]", "`[TOC]`"),
        ] {
            let found = find_in(line, Some(line), false).unwrap_or_else(|| panic!("{line}"));
            assert!(found.0.starts_with(expected), "{line}: {found:?}");
        }
    }

    #[test]
    fn other_text_is_not_reported() {
        for line in [
            "a[[i]] and [[1, 2], [3, 4]] and [[1]] and [[ -f a ]]",
            ":::",
            "a==b==c, a == b == c, ====, ===== and (==",
            "*[a] b",
            "Wow!!! Great",
            "!!! Attention",
            "[!] and [x]",
            "{.5} {} {a: .b} {a} {:} {:a} {: a=1, b}",
            "The set {x=1} and up{job=“a”}",
            "[TOC] is a marker",
            "import duties from abroad",
            "export default values",
            "a { b",
            "<Tabs>",
        ] {
            assert_eq!(find_in(line, Some(line), false), None, "{line}");
        }
        for line in ["::: tip", "!!! note", "[!faq]", "import a from 'b'", "[TOC]", "{a=b}"] {
            assert_eq!(find_in(line, None, false), None, "{line}");
        }
    }

    #[test]
    fn pairs_of_attributes_directly_behind_a_link_are_named() {
        for (text, expected) in [
            ("{width=50%} b", Some("{width=50%}")),
            ("{ width=”300” loading=lazy }", Some("{ width=\"300\" loading=lazy }")),
            (" {width=50%}", None),
            ("{a}", None),
        ] {
            let found = find_in(text, None, true).map(|(message, _)| message);
            assert_eq!(found.as_deref().and_then(|message| message.split('`').nth(1)), expected, "{text}");
        }
    }
}
