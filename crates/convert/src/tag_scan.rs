//! Finds the tags of a page and their attributes before it is parsed, as the tokenizer of the HTML standard
//! does (§13.2.5). Only the tree builder knows whether the content of `<script>`, `<title>` and the like has
//! tags, and whether a CDATA section is one, so callers decide that.

use std::ops::Range;

use memchr::{memchr, memchr2, memmem};

/// Elements whose content is text without tags, unless they are in SVG or MathML or the tree builder ignores
/// them. `<noscript>` is missing because the parser runs no scripts.
const RAW_TEXT: [&[u8]; 9] =
    [b"iframe", b"noembed", b"noframes", b"plaintext", b"script", b"style", b"textarea", b"title", b"xmp"];

/// A piece of markup that begins with `<`. Positions are in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Markup<'a> {
    Tag(Tag<'a>),
    /// `<![CDATA[`: a CDATA section in SVG or MathML, but in HTML a comment that ends at the next `>`.
    Cdata,
    /// Where a comment or a declaration ends.
    Other(usize),
}

/// A start tag or an end tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) name: &'a [u8],
    pub(super) is_end: bool,
    /// The position after the name.
    pub(super) name_end: usize,
    /// The position after `>`. If `>` is missing, only white space and slashes may follow this position.
    pub(super) end: usize,
    /// Whether the tag has its `>`.
    pub(super) is_closed: bool,
    /// Whether the tag ends with a `/>` that is not part of a value.
    pub(super) is_self_closing: bool,
    /// The attributes beyond the maximum: the position after the last one that is kept and a space, and the
    /// position after the last one.
    pub(super) excess: Option<(usize, usize)>,
}

impl Tag<'_> {
    /// Whether this is the start tag of an element in [`RAW_TEXT`]. If the tree builder agrees, the content
    /// is raw text, up to the tag that [`find_end_tag`] finds.
    pub(super) fn may_begin_raw_text(&self) -> bool {
        !self.is_end && RAW_TEXT.iter().any(|raw| raw.eq_ignore_ascii_case(self.name))
    }
}

/// Finds the next markup at or after `from`, and its position. `from` must be outside of tags, comments and
/// raw text. A `<` that begins none of them is text.
pub(super) fn next_markup(page: &[u8], from: usize, max_attributes: usize) -> Option<(usize, Markup<'_>)> {
    let mut at = from;
    loop {
        at += memchr(b'<', page.get(at..)?)?;
        let rest = &page[at + 1..];
        let is_end = rest.starts_with(b"/");
        let markup = match rest.get(usize::from(is_end))? {
            first if first.is_ascii_alphabetic() => Markup::Tag(scan_tag(page, at, is_end, max_attributes)),
            _ if rest.starts_with(b"!--") => Markup::Other(comment_end(page, at)),
            _ if rest.starts_with(b"![CDATA[") => Markup::Cdata,
            b'!' | b'?' => Markup::Other(position_after(page, at, b">")),
            _ if is_end => Markup::Other(position_after(page, at, b">")),
            _ => {
                at += 1;
                continue;
            }
        };
        return Some((at, markup));
    }
}

/// Finds the end tag of an element whose raw text begins at `from`. In a script, `<!-- <script>` hides the
/// next end tag, unless `-->` comes first (§13.2.5.15 to §13.2.5.31).
pub(super) fn find_end_tag<'a>(
    page: &'a [u8],
    from: usize,
    name: &[u8],
    max_attributes: usize,
) -> Option<Tag<'a>> {
    let is_script = name.eq_ignore_ascii_case(b"script");
    let is_named = |at: usize| {
        let (found, after) = split_name(page.get(at..).unwrap_or_default());
        found.eq_ignore_ascii_case(name) && !after.is_empty()
    };
    // Whether the text is in a comment, and whether the comment has a start tag without an end tag so far.
    let (mut is_escaped, mut is_hidden) = (false, false);
    let mut at = from;
    loop {
        at += memchr2(b'<', b'-', page.get(at..)?)?;
        let rest = &page[at..];
        if rest.starts_with(b"</") && is_named(at + 2) {
            if !is_hidden {
                return Some(scan_tag(page, at, true, max_attributes));
            }
            is_hidden = false;
        } else if is_escaped && rest.starts_with(b"<") && is_named(at + 1) {
            is_hidden = true;
        } else if is_escaped && rest.starts_with(b"-->") {
            (is_escaped, is_hidden) = (false, false);
        } else if is_script && rest.starts_with(b"<!--") {
            is_escaped = true;
            // Do not skip the dashes: they may also end the comment, as in `<!-->`.
            at += 1;
        }
        at += 1;
    }
}

/// The position of a part of a page, in bytes.
pub(super) fn position(part: &[u8], page: &[u8]) -> usize {
    part.as_ptr().addr() - page.as_ptr().addr()
}

/// The position after the first `pattern` at or after `from`; the length of the page if there is none.
pub(super) fn position_after(page: &[u8], from: usize, pattern: &[u8]) -> usize {
    memmem::find(&page[from..], pattern).map_or(page.len(), |found| from + found + pattern.len())
}

/// Where the comment that begins at `start` ends: after `-->` or `--!>`, or at the end of the page. Its first
/// dashes can be those of its end, as in `<!-->`.
fn comment_end(page: &[u8], start: usize) -> usize {
    let text = start + "<!--".len();
    let mut at = text;
    while let Some(found) = page.get(at..).and_then(|rest| memchr(b'>', rest)) {
        let end = at + found;
        if page[start + 2..end].ends_with(b"--") || page[text..end].ends_with(b"--!") {
            return end + 1;
        }
        at = end + 1;
    }
    page.len()
}

/// Reads the tag that begins at `start`.
fn scan_tag(page: &[u8], start: usize, is_end: bool, max_attributes: usize) -> Tag<'_> {
    let (name, mut rest) = split_name(&page[start + 1 + usize::from(is_end)..]);
    let name_end = page.len() - rest.len();
    let (mut attributes, mut kept, mut last) = (0, name_end, name_end);
    while next_attribute(&mut rest).is_some() {
        attributes += 1;
        last = page.len() - rest.len();
        if attributes <= max_attributes {
            kept = last;
        }
    }
    let end = page.len() - rest.len();
    Tag {
        name,
        is_end,
        name_end,
        end,
        is_closed: end > last,
        is_self_closing: page[last..end].ends_with(b"/>"),
        // Keep the space, because a slash behind it would become part of an unquoted value.
        excess: (kept < last).then(|| (kept + usize::from(page[kept].is_ascii_whitespace()), last)),
    }
}

/// Splits off the name at the start of a tag.
fn split_name(bytes: &[u8]) -> (&[u8], &[u8]) {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
    bytes.split_at(bytes.iter().position(is_end).unwrap_or(bytes.len()))
}

/// Removes the next attribute of a tag from the start of `rest`, and returns its name and value, which may be
/// missing. At the end of the tag, removes its `>` and returns `None`; at the end of the bytes, only returns
/// `None`.
pub(super) fn next_attribute<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let start = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'/')?;
    *rest = &rest[start..];
    if let Some(after) = rest.strip_prefix(b">") {
        *rest = after;
        return None;
    }
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'=');
    let end = rest[1..].iter().position(is_end).map_or(rest.len(), |at| at + 1);
    let (name, after) = rest.split_at(end);
    let Some(value) = after.trim_ascii_start().strip_prefix(b"=") else {
        *rest = after;
        return Some((name, None));
    };
    let value = value.trim_ascii_start();
    let (value, after) = if let [quote @ (b'"' | b'\''), value @ ..] = value {
        let end = memchr(*quote, value).unwrap_or(value.len());
        (&value[..end], value.get(end + 1..).unwrap_or_default())
    } else {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
        value.split_at(value.iter().position(is_end).unwrap_or(value.len()))
    };
    *rest = after;
    Some((name, Some(value)))
}

/// Finds the attributes of a page or a part of one that have a value. Skips the names of end tags, comments
/// that begin with `<!--`, and the text of scripts and style sheets. Stops at an unclosed one of these, or at
/// an unclosed quote.
pub fn attributes(html: &str) -> Attributes<'_> {
    Attributes { html, at: 0, tag: None }
}

/// An iterator over attributes: the name as written, and the position of the value in bytes, without quotes.
/// See [`attributes`].
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    html: &'a str,
    at: usize,
    /// The name of the start tag at the position; `None` outside of start tags.
    tag: Option<&'a [u8]>,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let page = self.html.as_bytes();
        loop {
            let mut rest = &page[self.at..];
            let Some(tag) = self.tag else {
                self.at += memchr(b'<', rest)? + 1;
                rest = &page[self.at..];
                if rest.first().is_some_and(u8::is_ascii_alphabetic) {
                    let (name, _) = split_name(rest);
                    self.at += name.len();
                    self.tag = Some(name);
                } else if rest.starts_with(b"!--") {
                    self.at = comment_end(page, self.at - 1);
                }
                continue;
            };
            let found = next_attribute(&mut rest);
            self.at = page.len() - rest.len();
            if found.is_none() {
                self.tag = None;
                if [&b"script"[..], b"style"].iter().any(|raw| raw.eq_ignore_ascii_case(tag)) {
                    self.at = find_end_tag(page, self.at, tag, usize::MAX)?.end;
                }
            }
            if let Some((name, Some(value))) = found {
                let start = position(value, page);
                let value = start..start + value.len();
                if value.end == page.len() && matches!(page[start - 1], b'"' | b'\'') {
                    return None;
                }
                let start = position(name, page);
                return Some((&self.html[start..start + name.len()], value));
            }
        }
    }
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
            ("<a =b=\">\"c/d=e/f>x", "a", 17, Some((10, 16))),
            ("<a b c '>x", "a", 9, Some((7, 8))),
            ("<a b c d='x", "a", 11, Some((7, 11))),
            ("<a b=c>d", "a", 7, None),
            ("<a", "a", 2, None),
        ] {
            let Some((0, Markup::Tag(tag))) = next_markup(html.as_bytes(), 0, 2) else { panic!("{html}") };
            assert_eq!((tag.name, tag.end, tag.excess), (name.as_bytes(), end, excess), "{html}");
        }
    }

    #[test]
    fn attributes_are_found_in_tags_alone() {
        for (html, expected) in [
            ("<a href=b c d='e f'/>g=h<I J = \"k\">", "href=b d=e f J=k"),
            ("<!-- <a b=c> --></p a=b><p d=e", "d=e"),
            ("<script src=a>if (1<<n) { b = '</p c=d>' }</script><a e=f>", "src=a e=f"),
            ("<STYLE>a<b c='d</style x=y><i e=f>", "e=f"),
            ("<script>a<b c=d>", ""),
            ("<a b=c d='e", "b=c"),
            ("<a b='c' d=é>", "b=c d=é"),
        ] {
            let found = attributes(html).map(|(name, value)| format!("{name}={}", &html[value]));
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{html}");
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
            assert_eq!(next_markup(html.as_bytes(), 0, 2), Some((0, Markup::Other(end))), "{html}");
        }
        assert_eq!(next_markup(b"a < b <", 0, 2), None);
        assert_eq!(next_markup(b"1 <![CDATA[x]]>", 0, 2), Some((2, Markup::Cdata)));
    }
}
