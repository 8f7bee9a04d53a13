//! Recognizes the syntax of other Markdown programs, which pages show as text.

use frontdesk_publish::directive;

/// The hint for syntax that has no equivalent.
const REWRITE: &str = "write Markdown or HTML instead";

/// Describes syntax of another program in a text of the source, with a hint; `None` if there is none. If
/// there are several, the first of these kinds counts: shortcodes, links in double brackets, lists of
/// attributes, and blocks and directives at the beginning of the line. `line` is the line that the text
/// begins, without the markers of lists and quotes; `None` for a text in the middle of a line.
pub(super) fn find(text: &str, line: Option<&str>) -> Option<(String, &'static str)> {
    if text.contains("{{") || text.contains("{%") {
        return Some(("shortcodes are not supported; the page shows them as text".to_owned(), REWRITE));
    }
    let shown = |syntax: &str, hint| {
        Some((format!("`{}` is not supported; the page shows it as text", syntax.trim_end()), hint))
    };
    if let Some(link) = wikilink(text) {
        return shown(link, "write a Markdown link, such as `[About](about.md)`");
    }
    if let Some(attributes) = attribute_list(text) {
        return shown(attributes, "remove it, or write HTML with these attributes");
    }
    let line = line?;
    if let Some(name) = line.strip_prefix(":::").map(|rest| rest.trim_start_matches(':').trim_start())
        && name.starts_with(|c: char| c.is_alphabetic() || c == '{')
    {
        return shown(":::", NOTE);
    }
    if let Some((kind, _)) = line.strip_prefix("[!").and_then(|rest| rest.split_once(']'))
        && !kind.is_empty()
        && kind.chars().all(|c| c.is_alphanumeric() || c == '-')
    {
        return shown(&format!("[!{kind}]"), NOTE);
    }
    let kind = directive(line)?;
    match kind.trim_end() {
        "!!!" | "???" | "???+" => {
            let is_name = line[kind.len()..].starts_with(|c: char| c.is_ascii_lowercase());
            is_name.then(|| shown(&kind, NOTE)).flatten()
        }
        "--8<--" | "=== \"" | "import" => shown(&kind, REWRITE),
        _ => None,
    }
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

/// The first list of attributes that begins with a class or an id, such as `{: .lead}` or `{#top .wide}`.
/// Each further word begins with `.` or `#`, or contains `=`.
fn attribute_list(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let inner = &text[at + 1..];
        let inner = &inner[..inner.find('}')?];
        let first = inner.strip_prefix(':').unwrap_or(inner).trim_start();
        let is_list =
            first.strip_prefix(['.', '#']).is_some_and(|name| name.starts_with(char::is_alphabetic))
                && first.split_whitespace().all(|word| word.starts_with(['.', '#']) || word.contains('='));
        is_list.then(|| &text[at..at + inner.len() + 2])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_of_other_programs_is_named() {
        for (line, expected) in [
            ("See [[About us|us]] and ![[pic.png]].", "`[[About us|us]]`"),
            ("![[pic.png]]", "`[[pic.png]]`"),
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
        ] {
            let found = find(line, Some(line)).unwrap_or_else(|| panic!("{line}"));
            assert!(found.0.starts_with(expected), "{line}: {found:?}");
        }
    }

    #[test]
    fn other_text_is_not_reported() {
        for line in [
            "a[[i]] and [[1, 2], [3, 4]] and [[1]] and [[ -f a ]]",
            ":::",
            "Wow!!! Great",
            "!!! Attention",
            "[!] and [x]",
            "{.5} {} {a: .b} {a}",
            "import duties from abroad",
            "export default values",
            "a { b",
            "<Tabs>",
        ] {
            assert_eq!(find(line, Some(line)), None, "{line}");
        }
        for line in ["::: tip", "!!! note", "[!faq]", "import a from 'b'"] {
            assert_eq!(find(line, None), None, "{line}");
        }
    }
}
