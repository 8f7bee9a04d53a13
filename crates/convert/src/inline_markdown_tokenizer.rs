//! Divides the inline Markdown that the converter wrote into parts: text, code, images, tags and links.

/// The kind of a part of inline Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A backslash and the character that it escapes.
    Escape,
    /// A code span, with its backticks.
    Code,
    /// An image: its description, source and title.
    Image,
    /// An HTML tag, such as `<del>`.
    Tag,
    /// A bracket that may begin the text of a link.
    Open,
    /// A closing bracket that does not end the text of a link.
    Close,
    /// The end of a link: `](`, its destination and its title, and `)`.
    Destination,
}

/// Divides inline Markdown into parts. Joined together, the parts are the whole text.
pub(super) struct Parts<'a> {
    rest: &'a str,
    /// The number of brackets that are open.
    open: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, open: 0 }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (Kind, &'a str);

    /// Reads the next part. `!` is text if the description of an image does not end or no destination
    /// follows, and so is `<` without `>`. A code span or a destination without its end takes the rest.
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        let is_syntax = |b: &u8| matches!(b, b'`' | b'[' | b']' | b'!' | b'<' | b'\\');
        let (kind, length) = match rest.as_bytes() {
            [] => return None,
            [b'`', ..] => (Kind::Code, length_of_code(rest)),
            [b'\\', c, ..] if c.is_ascii_punctuation() => (Kind::Escape, 2),
            [b'[', ..] => (Kind::Open, 1),
            [b']', b'(', ..] if self.open > 0 => (Kind::Destination, length_of_destination(rest)),
            [b']', ..] => (Kind::Close, 1),
            [b'!', b'[', ..] => match length_of_image(rest) {
                Some(length) => (Kind::Image, length),
                None => (Kind::Text, 1),
            },
            [b'<', c, ..] if c.is_ascii_alphabetic() || *c == b'/' => match rest.find('>') {
                Some(end) => (Kind::Tag, end + 1),
                None => (Kind::Text, 1),
            },
            [first, bytes @ ..] => {
                let is_text = !is_syntax(first);
                let more = bytes.iter().position(is_syntax).unwrap_or(bytes.len());
                (Kind::Text, 1 + if is_text { more } else { 0 })
            }
        };
        match kind {
            Kind::Open => self.open += 1,
            Kind::Close | Kind::Destination => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        let (part, rest) = rest.split_at(length);
        self.rest = rest;
        Some((kind, part))
    }
}

/// The description of an image that [`Parts`] returned, with its escapes.
pub(super) fn description(image: &str) -> &str {
    &image[2..end_of_description(image).unwrap_or(image.len())]
}

/// The length of the code span at the start of the text, or of the whole text if no fence closes it.
fn length_of_code(text: &str) -> usize {
    let fence = &text[..text.len() - text.trim_start_matches('`').len()];
    text[fence.len()..].find(fence).map_or(text.len(), |end| end + 2 * fence.len())
}

/// The length of the image at the start of the text, which ends with the text if its `)` is missing. `None`
/// if its description is not closed, or no `(` follows.
fn length_of_image(text: &str) -> Option<usize> {
    let end = end_of_description(text)?;
    text[end..].starts_with("](").then(|| end + length_of_destination(&text[end..]))
}

/// Where the description of the image at the start of the text ends. `None` if the bracket is not closed.
fn end_of_description(text: &str) -> Option<usize> {
    find_unescaped(text.get(2..)?, |c| c == b']').map(|at| at + 2)
}

/// The length of `](`, a destination, a title and `)`, or of the whole text if the end is missing.
fn length_of_destination(text: &str) -> usize {
    let mut is_quoted = false;
    let end = find_unescaped(&text[2..], |c| {
        is_quoted ^= c == b'"';
        c == b')' && !is_quoted
    });
    end.map_or(text.len(), |at| at + 3)
}

/// The position of the first byte that matches and is not escaped. `is_match` must accept only ASCII.
pub(super) fn find_unescaped(text: &str, mut is_match: impl FnMut(u8) -> bool) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|c| {
        let is_found = !is_escaped && is_match(c);
        is_escaped = c == b'\\' && !is_escaped;
        is_found
    })
}

#[cfg(test)]
mod tests {
    use super::Kind::{Close, Code, Destination, Escape, Image, Open, Tag, Text};
    use super::*;

    #[test]
    fn parts_are_the_whole_text() {
        for (text, expected) in [
            (
                "a [b](c) d",
                &[(Text, "a "), (Open, "["), (Text, "b"), (Destination, "](c)"), (Text, " d")][..],
            ),
            ("a](b)", &[(Text, "a"), (Close, "]"), (Text, "(b)")]),
            (
                "[a](b\\)c \"d)e\")f",
                &[(Open, "["), (Text, "a"), (Destination, "](b\\)c \"d)e\")"), (Text, "f")],
            ),
            ("``a`b``c", &[(Code, "``a`b``"), (Text, "c")]),
            ("\\[a\\é", &[(Escape, "\\["), (Text, "a"), (Text, "\\"), (Text, "é")]),
            ("![a\\]b](c)", &[(Image, "![a\\]b](c)")]),
            (
                "![a] [b](c)",
                &[
                    (Text, "!"),
                    (Open, "["),
                    (Text, "a"),
                    (Close, "]"),
                    (Text, " "),
                    (Open, "["),
                    (Text, "b"),
                    (Destination, "](c)"),
                ],
            ),
            (
                "<b>a</b> < c",
                &[(Tag, "<b>"), (Text, "a"), (Tag, "</b>"), (Text, " "), (Text, "<"), (Text, " c")],
            ),
            ("[a](b", &[(Open, "["), (Text, "a"), (Destination, "](b")]),
        ] {
            assert_eq!(Parts::new(text).collect::<Vec<_>>(), expected, "{text}");
        }
        assert_eq!(description("![a\\]b](c)"), "a\\]b");
    }
}
