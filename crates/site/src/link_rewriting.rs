//! Replaces links in the attributes of HTML, finds fragments and the ends of tags, and writes JSON for HTML.

use std::ops::Range;

use frontdesk_convert::attributes;
use memchr::{memchr, memchr3};
use serde::Serialize;

const LINKS: [&str; 4] = ["href", "src", "poster", "srcset"];

/// Replaces the links in `href`, `src` and `poster`, and each URL in `srcset`. `replace` receives the link as
/// written and the byte offset of the attribute's value. The result is inserted without escaping.
pub(super) fn rewrite_links(html: &str, mut replace: impl FnMut(&str, usize) -> String) -> String {
    let mut rewritten = String::with_capacity(html.len());
    let mut done = 0;
    for (name, value) in attributes(html) {
        if !LINKS.iter().any(|link| link.eq_ignore_ascii_case(name)) {
            continue;
        }
        rewritten.push_str(&html[done..value.start]);
        let link = &html[value.clone()];
        if name.eq_ignore_ascii_case("srcset") {
            let mut copied = 0;
            for candidate in srcset_urls(link) {
                rewritten.push_str(&link[copied..candidate.start]);
                rewritten.push_str(&replace(&link[candidate.clone()], value.start));
                copied = candidate.end;
            }
            rewritten.push_str(&link[copied..]);
        } else {
            rewritten.push_str(&replace(link, value.start));
        }
        done = value.end;
    }
    rewritten.push_str(&html[done..]);
    rewritten
}

/// The positions of the URLs in a `srcset` (HTML, "parse a srcset attribute"). A URL ends at whitespace, or
/// at a comma before whitespace, and a descriptor such as `2x` may follow it.
fn srcset_urls(srcset: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += srcset[at..].len()
            - srcset[at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
        if at == srcset.len() {
            return found;
        }
        let end = srcset[at..].find(char::is_whitespace).map_or(srcset.len(), |length| at + length);
        let address = srcset[at..end].trim_end_matches(',');
        found.push(at..at + address.len());
        let described = address.len() == end - at;
        at =
            if described { srcset[end..].find(',').map_or(srcset.len(), |length| end + length) } else { end };
    }
}

/// A value as JSON for a script element: `</` and `<!--`, which could end the script or hide its end, are
/// escaped.
pub(super) fn json_for_script(value: &impl Serialize) -> String {
    // Texts, numbers and dates can always be serialized.
    let json = serde_json::to_string(value).unwrap_or_default();
    if json.contains('<') { json.replace("</", "<\\/").replace("<!--", "<\\u0021--") } else { json }
}

/// The names that a fragment can lead to: the `id` of elements, and the `name` of `a` elements (HTML, "find a
/// potential indicated element").
pub(super) fn fragment_names(html: &str) -> impl Iterator<Item = &str> {
    let is_of_link = |value: &Range<usize>| {
        let tag = html[..value.start].rsplit('<').next().unwrap_or_default();
        tag.strip_prefix(['a', 'A']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_whitespace()))
    };
    let is_target = move |name: &str, value: &Range<usize>| {
        name.eq_ignore_ascii_case("id") || name.eq_ignore_ascii_case("name") && is_of_link(value)
    };
    attributes(html).filter(move |(name, value)| is_target(name, value)).map(|(_, value)| &html[value])
}

/// The length of a tag, including its closing `>`. A `>` in a quoted value, after `=`, does not end the tag.
/// If a `>` or a quotation mark is missing, the length of the whole text.
pub(super) fn tag_length(tag: &str) -> usize {
    let bytes = tag.as_bytes();
    let mut at = 0;
    while let Some(length) = memchr3(b'>', b'"', b'\'', &bytes[at..]) {
        at += length + 1;
        let quote = bytes[at - 1];
        if quote == b'>' {
            return at;
        }
        if bytes[..at - 1].trim_ascii_end().ends_with(b"=") {
            let Some(length) = memchr(quote, &bytes[at..]) else { break };
            at += length + 1;
        }
    }
    tag.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn links_are_found_in_tags_alone() {
        for (html, expected) in [
            ("<a href=\"/x/\">a</a>", "<a href=\"[/x/]\">a</a>"),
            ("<A HREF='/x/' id=y>href=\"/no/\"</A>", "<A HREF='[/x/]' id=y>href=\"/no/\"</A>"),
            ("<a class=b href=/x/>a</a>", "<a class=b href=[/x/]>a</a>"),
            (
                "<img\nsrc = \"/i.png\" srcset=\"/i.png 1x, /j.png 2x\">",
                "<img\nsrc = \"[/i.png]\" srcset=\"[/i.png] 1x, [/j.png] 2x\">",
            ),
            (
                "<img srcset=\"/w=80,q=75/a.png 1x,\n/b.png\n2x, data:x;base64,AAAA 3x, /c.png\">",
                "<img srcset=\"[/w=80,q=75/a.png] 1x,\n[/b.png]\n2x, [data:x;base64,AAAA] 3x, [/c.png]\">",
            ),
            ("<video poster=\"/p.png\" controls></video>", "<video poster=\"[/p.png]\" controls></video>"),
            (
                "<!-- <a href=\"/x/\"> --><p data-href=\"/x/\">",
                "<!-- <a href=\"/x/\"> --><p data-href=\"/x/\">",
            ),
            (
                "<script>a = 1<<n; src = \"/x/\"</script><a href=/y/>",
                "<script>a = 1<<n; src = \"/x/\"</script><a href=[/y/]>",
            ),
            ("<!--><a href=\"/x/\"><!-- -->", "<!--><a href=\"[/x/]\"><!-- -->"),
            ("a < b href=\"/x/\"", "a < b href=\"/x/\""),
            ("<a href=\"/x/", "<a href=\"/x/"),
        ] {
            assert_eq!(rewrite_links(html, |link, _| format!("[{link}]")), expected);
        }
    }

    #[test]
    fn targets_of_fragments_are_found() {
        assert_eq!(
            fragment_names("<p id=\"a\"><b ID='b'></b><i id=c>id=\"d\"</i>").collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        let html = "<a name=\"a\"></a><A class=x NAME=b><input name=c><abbr name=d><a>name=e</a>";
        assert_eq!(fragment_names(html).collect::<Vec<_>>(), ["a", "b"]);
    }

    proptest! {
        #[test]
        fn text_outside_links_does_not_change(html in "[<>a-z=\"' /!-]{0,60}") {
            prop_assert_eq!(rewrite_links(&html, |link, _| link.to_owned()).replace(' ', ""), html.replace(' ', ""));
        }
    }
}
