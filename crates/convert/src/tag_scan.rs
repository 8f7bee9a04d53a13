//! Finds the tags of a page as html5ever's tokenizer does, so that the parser can leave out their excess
//! attributes: the tokenizer compares each attribute of a tag with all those before it.
//!
//! Follows the tokenizer of the HTML standard (§13.2.5). Whether the content of `<script>`, `<title>` and the
//! like has tags depends on the tree, so callers must ask the tree builder.

use memchr::{memchr, memmem};

/// Elements whose content has no tags but their end tag, if the tree builder accepts the start tag.
/// `<noscript>` is missing because the parser runs no scripts.
const RAW: [&str; 9] =
    ["iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"];

/// A piece of markup that begins with `<`. Positions are in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Markup<'a> {
    Tag(Tag<'a>),
    /// The start of a CDATA section in SVG or MathML; in HTML, of a comment that ends at the next `>`.
    Cdata,
    /// Where a comment or a declaration ends.
    Other(usize),
}

/// A start tag or an end tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) name: &'a str,
    pub(super) is_end: bool,
    /// The position after `>`; the length of the page if there is no `>`.
    pub(super) end: usize,
    /// The beginning of the first attribute beyond the maximum, and the end of the last one.
    pub(super) excess: Option<(usize, usize)>,
}

impl Tag<'_> {
    /// Whether the content may have no tags ([`RAW`]).
    pub(super) fn may_begin_raw_text(&self) -> bool {
        !self.is_end && RAW.iter().any(|raw| raw.eq_ignore_ascii_case(self.name))
    }
}

/// Finds the next markup at or after `from`, and its position. `from` must be outside of tags, comments and
/// raw text. A `<` that begins none is text.
pub(super) fn next_markup(html: &str, from: usize, max_attributes: usize) -> Option<(usize, Markup<'_>)> {
    let bytes = html.as_bytes();
    let mut at = from;
    loop {
        at += memchr(b'<', bytes.get(at..)?)?;
        let rest = &bytes[at + 1..];
        let is_end = rest.starts_with(b"/");
        match rest.get(usize::from(is_end))? {
            first if first.is_ascii_alphabetic() => {
                return Some((at, Markup::Tag(scan_tag(html, at, is_end, max_attributes))));
            }
            _ if rest.starts_with(b"!--") => return Some((at, Markup::Other(comment_end(bytes, at)))),
            _ if rest.starts_with(b"![CDATA[") => return Some((at, Markup::Cdata)),
            b'!' | b'?' => return Some((at, Markup::Other(after(html, at, ">")))),
            _ if is_end => return Some((at, Markup::Other(after(html, at, ">")))),
            _ => at += 1,
        }
    }
}

/// Finds the next tag that may end the raw text of an element, at or after `from`.
pub(super) fn next_end_tag<'a>(
    html: &'a str,
    from: usize,
    name: &str,
    max_attributes: usize,
) -> Option<Tag<'a>> {
    let bytes = html.as_bytes();
    memmem::find_iter(&bytes[from..], b"</").find_map(|found| {
        let at = from + found;
        let end = at + 2 + name.len();
        let is_named = bytes.get(at + 2..end)?.eq_ignore_ascii_case(name.as_bytes());
        let is_whole = bytes.get(end).is_some_and(|next| is_space(*next) || matches!(next, b'/' | b'>'));
        (is_named && is_whole).then(|| scan_tag(html, at, true, max_attributes))
    })
}

/// The position after the first `pattern` at or after `from`; the length of the page if there is none.
pub(super) fn after(html: &str, from: usize, pattern: &str) -> usize {
    html[from..].find(pattern).map_or(html.len(), |found| from + found + pattern.len())
}

/// Where the comment that begins at `start` ends: after `-->` or `--!>`, or at the end of the page. Its first
/// dashes can be those of its end, as in `<!-->`.
fn comment_end(bytes: &[u8], start: usize) -> usize {
    let body = start + "<!--".len();
    let mut at = body;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'>', rest)) {
        let end = at + found;
        if bytes[start + 2..end].ends_with(b"--") || bytes[body..end].ends_with(b"--!") {
            return end + 1;
        }
        at = end + 1;
    }
    bytes.len()
}

/// Scans the tag that begins at `start`.
fn scan_tag(html: &str, start: usize, is_end: bool, max_attributes: usize) -> Tag<'_> {
    let bytes = html.as_bytes();
    let position = |from: usize, is_wanted: fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| is_wanted(*byte)).map_or(bytes.len(), |found| from + found)
    };
    let name_start = start + 1 + usize::from(is_end);
    let name_end = position(name_start, |byte| is_space(byte) || matches!(byte, b'/' | b'>'));
    let (mut at, mut attributes, mut excess) = (name_end, 0, None);
    loop {
        at = position(at, |byte| !is_space(byte) && byte != b'/');
        if bytes.get(at).is_none_or(|byte| *byte == b'>') {
            break;
        }
        attributes += 1;
        let attribute = at;
        // The first character belongs to the name even if it is `=`.
        let end = position(at + 1, |byte| is_space(byte) || matches!(byte, b'/' | b'>' | b'='));
        let next = position(end, |byte| !is_space(byte));
        at = if bytes.get(next) == Some(&b'=') {
            let value = position(next + 1, |byte| !is_space(byte));
            match bytes.get(value) {
                Some(quote @ (b'"' | b'\'')) => {
                    memchr(*quote, &bytes[value + 1..]).map_or(bytes.len(), |found| value + found + 2)
                }
                _ => position(value, |byte| is_space(byte) || byte == b'>'),
            }
        } else {
            end
        };
        if attributes > max_attributes {
            excess = Some((excess.map_or(attribute, |(first, _)| first), at));
        }
    }
    let end = bytes.len().min(at + 1);
    Tag { name: &html[name_start..name_end], is_end, end, excess }
}

/// Whether a byte is white space in a tag.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_end_where_the_standard_ends_them() {
        for (html, name, end, excess) in [
            ("<p>x", "p", 3, None),
            ("</P >x", "P", 5, None),
            ("<a b c d>x", "a", 9, Some((7, 8))),
            ("<a b='>' c = \">\" d=>x", "a", 20, Some((17, 19))),
            ("<a =b=\">\"c/d=e/f>x", "a", 17, Some((11, 16))),
            ("<a b c '>x", "a", 9, Some((7, 8))),
            ("<a b c d='x", "a", 11, Some((7, 11))),
            ("<a b=c>d", "a", 7, None),
            ("<a", "a", 2, None),
        ] {
            let Some((0, Markup::Tag(tag))) = next_markup(html, 0, 2) else { panic!("{html}") };
            assert_eq!((tag.name, tag.end, tag.excess), (name, end, excess), "{html}");
        }
    }

    #[test]
    fn comments_and_declarations_end_where_the_standard_ends_them() {
        for (html, end) in [
            ("<!-- <p> -->x", 12),
            ("<!-->x", 5),
            ("<!--->x", 6),
            ("<!----!>x", 8),
            ("<!--!>-->x", 9),
            ("<!-- -- > -->x", 13),
            ("<!-- a", 6),
            ("<!doctype \">\">x", 12),
            ("<?xml?>x", 7),
            ("</ p>x", 5),
            ("</>x", 3),
        ] {
            assert_eq!(next_markup(html, 0, 2), Some((0, Markup::Other(end))), "{html}");
        }
        assert_eq!(next_markup("a < b <", 0, 2), None);
        assert_eq!(next_markup("1 <![CDATA[x]]>", 0, 2), Some((2, Markup::Cdata)));
    }
}
