//! Matches paths with patterns, and fills the values of their placeholders into targets and headers.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

use crate::path::{self, NOT_IN_PATH};

/// The hosting service that a build's rules are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesDialect {
    Netlify,
    Cloudflare,
}

/// A path with placeholders: `:name` for a segment or a part of one, and at most one `*` for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The segments up to the `*`, the last one cut at the `*`. All segments if there is no `*`.
    start: Vec<Segment>,
    /// The segments after the `*`; the first one is the end of the segment with the `*`. `None` if the
    /// pattern has no `*`.
    end: Option<Vec<Segment>>,
    ignores_final_slash: bool,
}

/// A part of a pattern between two slashes: decoded text and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// The text before the first placeholder.
    text: String,
    /// The name of each placeholder, and the text after it.
    placeholders: Vec<(String, String)>,
}

/// The values of a pattern's placeholders, by name. The name of `*` is `splat`.
pub(super) type Captures<'a> = Vec<(&'a str, Cow<'a, str>)>;

impl Pattern {
    /// Parses a pattern. The error completes a sentence whose subject is the rule. In Netlify's dialect, the
    /// pattern ignores a final slash.
    pub(super) fn parse(text: &str, dialect: RulesDialect) -> Result<Self, &'static str> {
        let Some(path) = text.strip_prefix('/') else {
            return Err("applies to another host or is not a path; paths begin with `/`");
        };
        if path.contains(['?', '#']) {
            return Err(
                "has a query or a fragment in its path (Netlify's rules have query parameters after the path: \
                 `/path id=:id /to/:id`)",
            );
        }
        // The server refuses or redirects paths with empty, `.` or `..` segments before it looks for a rule.
        if text.contains("//") || path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("has an empty or dot segment, so no request matches it");
        }
        let mut parts = path.split('*').map(|part| {
            let segments = part.split('/').map(|segment| Segment::parse(segment, dialect));
            segments.collect::<Result<Vec<_>, _>>()
        });
        let start = parts.next().unwrap_or_else(|| Ok(Vec::new()))?;
        let end = parts.next().transpose()?;
        if parts.next().is_some() {
            return Err("has more than one `*`");
        }
        let is_mixed =
            |segment: Option<&Segment>| segment.is_some_and(|segment| !segment.placeholders.is_empty());
        if end.as_ref().is_some_and(|end| is_mixed(start.last()) || is_mixed(end.first())) {
            return Err("has a placeholder and `*` in one segment");
        }
        Ok(Self { start, end, ignores_final_slash: dialect == RulesDialect::Netlify })
    }

    /// Parses a pattern that ignores a trailing slash and has no text after the `*`.
    pub(super) fn parse_prefix(text: &str) -> Result<Self, &'static str> {
        let pattern = Self::parse(text, RulesDialect::Netlify)?;
        if pattern.end.is_some() && !pattern.ends_with_wildcard() {
            return Err("has a `*` that is not at its end");
        }
        Ok(pattern)
    }

    /// Whether the first segment of all paths that the pattern matches is `segment`.
    pub(super) fn begins_with(&self, segment: &str) -> bool {
        self.whole_segments().0.first() == Some(&Some(segment))
    }

    /// Whether the pattern has a `*` and nothing after it.
    fn ends_with_wildcard(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.len() == 1 && end[0].text.is_empty())
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.start.iter().chain(self.end.iter().flatten())
    }

    /// The segments before the one with the `*`, or all of them, without empty ones at the end. A segment
    /// with placeholders is `None`. Also returns whether the pattern has a `*`.
    pub(super) fn whole_segments(&self) -> (Vec<Option<&str>>, bool) {
        let has_wildcard = self.end.is_some();
        let whole = self.start.len() - usize::from(has_wildcard);
        let mut segments: Vec<Option<&str>> = self.start[..whole].iter().map(Segment::literal).collect();
        while segments.last() == Some(&Some("")) {
            segments.pop();
        }
        (segments, has_wildcard)
    }

    /// The names of all placeholders, including `splat` for the `*`.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.segments().flat_map(|segment| &segment.placeholders).map(|(name, _)| name.as_str());
        names.chain(self.end.iter().map(|_| "splat"))
    }

    /// Whether any placeholder stands for only a part of a segment.
    pub(super) fn has_partial_placeholder(&self) -> bool {
        self.segments().any(|Segment { text, placeholders }| match placeholders.as_slice() {
            [] => false,
            [(_, rest)] => !(text.is_empty() && rest.is_empty()),
            _ => true,
        })
    }

    /// The decoded paths that a pattern without placeholders and `*` matches: two if the pattern ignores a
    /// final slash. Empty for other patterns.
    pub(super) fn literal_paths(&self) -> Vec<String> {
        if self.names().next().is_some() {
            return Vec::new();
        }
        let path = self.example();
        let stem = path.strip_suffix('/').unwrap_or(&path);
        if self.ignores_final_slash && !stem.is_empty() {
            return vec![stem.to_owned(), format!("{stem}/")];
        }
        vec![path]
    }

    /// An example of a decoded path that the pattern matches, with `x` for each placeholder and for the `*`.
    pub(super) fn example(&self) -> String {
        let mut path = String::new();
        let mut add = |segments: &[Segment]| {
            for (index, Segment { text, placeholders }) in segments.iter().enumerate() {
                path.push_str(if index > 0 { "/" } else { "" });
                path.push_str(text);
                path.extend(placeholders.iter().flat_map(|(_, rest)| ["x", rest]));
            }
        };
        add(&self.start);
        if let Some(end) = &self.end {
            add(&[Segment { text: "x".to_owned(), placeholders: Vec::new() }]);
            add(end);
        }
        path.insert(0, '/');
        path
    }

    /// The values of the placeholders in a decoded path. `None` if the path does not match.
    ///
    /// As on Netlify and Cloudflare Pages, each placeholder takes as much text as it can, the first ones
    /// first. The time grows linearly with the length of the path. A pattern that ignores a final slash
    /// matches paths with and without one; `/blog/*` then also matches `/blog`.
    pub(super) fn captures<'a>(&'a self, path: &'a str) -> Option<Captures<'a>> {
        let mut captures = Captures::new();
        if self.matches(path, &mut captures) {
            return Some(captures);
        }
        if !self.ignores_final_slash {
            return None;
        }
        captures.clear();
        if let Some(path) = path.strip_suffix('/')
            && self.matches(path, &mut captures)
        {
            return Some(captures);
        }
        captures.clear();
        // The patterns `/blog/` and `/blog/*` also match `/blog`.
        let (last, folder) = self.start.split_last()?;
        let is_folder = last.literal() == Some("") && (self.end.is_none() || self.ends_with_wildcard());
        let rest = match_segments(folder, path, &mut captures).filter(|_| is_folder && !folder.is_empty())?;
        captures.push(("splat", Cow::Borrowed("")));
        rest.is_empty().then_some(captures)
    }

    /// Whether the pattern matches the path, including its final slash. Appends the values of the
    /// placeholders to `captures`; if the path does not match, perhaps some of them.
    fn matches<'a>(&'a self, path: &'a str, captures: &mut Captures<'a>) -> bool {
        let Some(end) = &self.end else { return match_segments(&self.start, path, captures) == Some("") };
        let Some((first, whole)) = self.start.split_last() else { return false };
        let rest = match_segments(whole, path, captures).and_then(|rest| rest.strip_prefix('/'));
        let Some(mut splat) = rest.and_then(|rest| rest.strip_prefix(&*first.text)) else { return false };
        let [last, whole @ ..] = end.as_slice() else { return false };
        for segment in whole.iter().rev() {
            let Some((before, text)) = splat.rsplit_once('/') else { return false };
            if !segment.matches(text, captures) {
                return false;
            }
            splat = before;
        }
        let Some(splat) = splat.strip_suffix(&*last.text) else { return false };
        captures.push(("splat", Cow::Borrowed(splat)));
        true
    }
}

/// Matches the first segments of a path, each with the slash before it. Returns the rest of the path; `None`
/// if a segment does not match. Appends the values of placeholders to `captures`; if a segment does not
/// match, perhaps some of them.
fn match_segments<'a>(
    segments: &'a [Segment],
    path: &'a str,
    captures: &mut Captures<'a>,
) -> Option<&'a str> {
    let mut rest = path;
    for segment in segments {
        let from = rest.strip_prefix('/')?;
        let (text, after) = from.split_at(from.find('/').unwrap_or(from.len()));
        if !segment.matches(text, captures) {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

const INVALID_PATH: &str =
    "is not a valid path: each `%` needs two hexadecimal digits, which stand for UTF-8 without slashes";

impl Segment {
    /// Parses an encoded segment. In Cloudflare's dialect, every `:name` is a placeholder; otherwise, one
    /// that follows a letter or a digit is text, as in `/wiki/Category:Birds`. A name begins with a letter or
    /// `_`.
    fn parse(segment: &str, dialect: RulesDialect) -> Result<Self, &'static str> {
        let decode = |text: &str| path::percent_decode(text).map(Cow::into_owned).map_err(|_| INVALID_PATH);
        let mut pieces = vec![("", String::new())];
        let mut rest = segment;
        let mut searched = 0;
        while let Some(colon) = rest[searched..].find(':').map(|at| searched + at) {
            let name = &rest[colon + 1..][..name_length(&rest[colon + 1..])];
            let follows_word = rest[..colon].ends_with(|c: char| c.is_ascii_alphanumeric());
            searched = colon + 1;
            if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && (dialect == RulesDialect::Cloudflare || !follows_word)
            {
                if let Some((_, text)) = pieces.last_mut() {
                    *text = decode(&rest[..colon])?;
                }
                pieces.push((name, String::new()));
                rest = &rest[colon + 1 + name.len()..];
                searched = 0;
            }
        }
        let last = decode(rest)?;
        let mut pieces = pieces.into_iter().map(|(name, text)| (name.to_owned(), text)).collect::<Vec<_>>();
        if let Some((_, text)) = pieces.last_mut() {
            *text = last;
        }
        let (_, text) = pieces.remove(0);
        Ok(Self { text, placeholders: pieces })
    }

    /// The text of a segment without placeholders.
    fn literal(&self) -> Option<&str> {
        self.placeholders.is_empty().then_some(&*self.text)
    }

    /// Whether the segment matches `text`, which has no slash. Adds the values of the placeholders. Each
    /// value has at least one character. If the segment does not match, perhaps adds some of the values.
    fn matches<'a>(&'a self, text: &'a str, captures: &mut Captures<'a>) -> bool {
        let Some((_, last)) = self.placeholders.last() else { return text == self.text };
        let values = text.strip_prefix(&*self.text).and_then(|values| values.strip_suffix(&**last));
        let Some(mut values) = values else { return false };
        // The texts between the placeholders are searched from the end, so that the first placeholder gets
        // the longest value. Each placeholder keeps at least one character.
        for (index, (name, _)) in self.placeholders.iter().enumerate().rev() {
            let Some((last, _)) = values.char_indices().next_back() else { return false };
            let before = index.checked_sub(1).map(|before| &*self.placeholders[before].1);
            let at = match before {
                None => 0,
                Some(before) => match values[..last].rfind(before) {
                    Some(at) => at + before.len(),
                    None => return false,
                },
            };
            captures.push((name.as_str(), Cow::Borrowed(&values[at..])));
            values = &values[..at - before.map_or(0, str::len)];
        }
        true
    }
}

/// The length in bytes of the name at the beginning of `text`: ASCII letters, digits and `_`. 0 if there is
/// none.
pub(super) fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Replaces `:name` anywhere in a target or a header's value with the captured value, percent-encoded for its
/// part of the URL: the query begins at the first `?`. Leaves other names unchanged.
pub(super) fn fill_in(text: &str, captures: &Captures<'_>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(':') {
        filled.push_str(before);
        let (name, tail) = after.split_at(name_length(after));
        // A `?` in `filled` comes from `text`, because captured values are percent-encoded.
        let is_in_query = filled.contains('?');
        match captures.iter().find(|(known, _)| *known == name) {
            Some((_, value)) if is_in_query => filled.extend(utf8_percent_encode(value, NOT_IN_QUERY_VALUE)),
            Some((_, value)) => filled.push_str(&path::encode(value)),
            None => filled.extend([":", name]),
        }
        rest = tail;
    }
    filled + rest
}

/// The ASCII characters to encode in the value of a query parameter: those that a path forbids, and those
/// that have a meaning of their own in a query.
const NOT_IN_QUERY_VALUE: &AsciiSet = &NOT_IN_PATH.add(b'&').add(b'=').add(b'+').add(b';');

/// The ASCII characters that RFC 3986 §2 does not permit in a URI.
const NOT_IN_URI: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Percent-encodes a path or URL with [`encode_url`], but writes an internationalized domain in Punycode:
/// many clients do not decode the host of a URL.
pub(super) fn encode_target(to: &str) -> String {
    let start = to.find("://").map_or(to.len(), |at| at + 3);
    let end = to[start..].find(['/', '?', '#']).map_or(to.len(), |at| start + at);
    match Url::parse(&to[..end]) {
        Ok(origin) if !to[..end].is_ascii() => {
            origin.as_str().trim_end_matches('/').to_owned() + &encode_url(&to[end..])
        }
        _ => encode_url(to),
    }
}

/// Percent-encodes the addresses (between `<` and `>`) in the value of `Link` with [`encode_target`].
pub(super) fn encode_links(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('<')
        && let Some((address, tail)) = after.split_once('>')
    {
        encoded.extend([before, "<", &encode_target(address), ">"]);
        rest = tail;
    }
    encoded + rest
}

/// Percent-encodes the characters of a URL that a URI does not permit, and percent signs without two
/// hexadecimal digits after them. Keeps existing escapes.
pub(super) fn encode_url(url: &str) -> String {
    let mut parts = url.split('%');
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_escape =
            part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        escaped.extend([if is_escape { "%" } else { "%25" }, part]);
    }
    utf8_percent_encode(&escaped, NOT_IN_URI).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RulesDialect::{Cloudflare, Netlify};
    use super::*;

    /// Checks the values of a pattern's placeholders as `name=value`, in the order of the names.
    fn check(pattern: &str, dialect: RulesDialect, path: &str, expected: Option<&str>) {
        let pattern = Pattern::parse(pattern, dialect).expect("a pattern");
        let found = pattern.captures(path).map(|mut captures| {
            captures.sort();
            captures.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref(), expected, "{pattern:?}: {path}");
    }

    #[test]
    fn placeholders_stand_for_parts_of_segments() {
        check("/posts/:slug.html", Cloudflare, "/posts/hello.html", Some("slug=hello"));
        check("/posts/:slug.html", Netlify, "/posts/a.html.html", Some("slug=a.html"));
        check("/posts/:slug.html", Cloudflare, "/posts/.html", None);
        check("/posts/:slug.html", Cloudflare, "/posts/a/b.html", None);
        check("/posts/:slug.html", Netlify, "/posts/hello.html/", Some("slug=hello"));
        check("/:y-:m-:title", Cloudflare, "/2024-05-cranes", Some("m=05 title=cranes y=2024"));
        check("/:y-:m-:title", Cloudflare, "/2024-05-my-cranes", Some("m=my title=cranes y=2024-05"));
        check("/:y-:m-:title", Cloudflare, "/2024--", None);
        check("/:y-:m-:title", Cloudflare, "/a---b", Some("m=- title=b y=a"));
        check("/v:major.:minor/", Cloudflare, "/v2.10/", Some("major=2 minor=10"));
        check("/v.:major", Netlify, "/v.2", Some("major=2"));
        check("/:a:b", Cloudflare, "/äöü", Some("a=äö b=ü"));
        check("/wiki/Category:Birds", Netlify, "/wiki/Category:Birds", Some(""));
        check("/wiki/Category:Birds", Netlify, "/wiki/CategoryX", None);
        check("/wiki/Category:Birds", Cloudflare, "/wiki/CategoryX", Some("Birds=X"));
        check("/at/10:30", Cloudflare, "/at/10:30", Some(""));
        check("/a%3Ab%2Ac", Cloudflare, "/a:b*c", Some(""));
        check("/a%2Ab", Netlify, "/axb", None);
        check("/:a%20b", Netlify, "/x b", Some("a=x"));
    }

    #[test]
    fn text_and_placeholders_may_follow_a_wildcard() {
        check("/a/*/:code", Cloudflare, "/a/b/c/d", Some("code=d splat=b/c"));
        check("/a/*/:code", Cloudflare, "/a/d", None);
        check("/a/*.php/:x-:y", Cloudflare, "/a/b/c.php/1-2", Some("splat=b/c x=1 y=2"));
        check("/a/*/b", Netlify, "/a/x/y/b/", Some("splat=x/y"));
        check("/:x/*", Netlify, "/a", Some("splat= x=a"));
        check("/*/", Cloudflare, "/a/b/", Some("splat=a/b"));
        for (pattern, expected) in [
            ("/:x*", "has a placeholder and `*` in one segment"),
            ("/*-:x", "has a placeholder and `*` in one segment"),
            ("/*/*", "has more than one `*`"),
            ("/a?b", "has a query or a fragment in its path"),
            ("/a#b", "has a query or a fragment in its path"),
            ("/%zz", "is not a valid path"),
            ("/a//b", "has an empty or dot segment"),
            ("/a/../:b", "has an empty or dot segment"),
            ("a", "applies to another host or is not a path"),
        ] {
            let error = Pattern::parse(pattern, Cloudflare).expect_err("not a pattern");
            assert!(error.starts_with(expected), "{pattern}: {error}");
        }
    }

    #[test]
    fn values_are_encoded_for_their_part_of_the_url() {
        let captures: Captures<'_> = vec![("a", "x y&z=1+2;é?#%/'".into()), ("splat", "b".into())];
        for (text, expected) in [
            ("/:a/:splat", "/x%20y&z=1+2;%C3%A9%3F%23%25/'/b"),
            ("/?q=:a&r=:splat", "/?q=x%20y%26z%3D1%2B2%3B%C3%A9%3F%23%25/'&r=b"),
            ("https://a:8443/:splat", "https://a:8443/b"),
            ("/:other", "/:other"),
        ] {
            assert_eq!(fill_in(text, &captures), expected, "{text}");
        }
    }

    #[test]
    fn urls_become_ascii() {
        for (url, expected) in [
            ("/café/?q=ü#ß", "/caf%C3%A9/?q=%C3%BC#%C3%9F"),
            ("/caf%C3%A9/100%", "/caf%C3%A9/100%25"),
            ("/a{b}|\"<>\\^`", "/a%7Bb%7D%7C%22%3C%3E%5C%5E%60"),
            ("https://[::1]:80/:x*", "https://[::1]:80/:x*"),
        ] {
            assert_eq!(encode_url(url), expected);
        }
    }

    /// Whether a segment's pieces match `text`, by trying all lengths; a second, simpler implementation. Each
    /// piece is a literal text, or `None` for a placeholder. The first placeholder tries its longest value
    /// first.
    fn try_all(pieces: &[Option<&str>], text: &str, values: &mut Vec<String>) -> bool {
        match pieces {
            [] => text.is_empty(),
            [Some(literal), rest @ ..] => {
                text.strip_prefix(literal).is_some_and(|text| try_all(rest, text, values))
            }
            [None, rest @ ..] => (1..=text.len()).rev().any(|length| {
                values.push(text[..length].to_owned());
                let is_match = try_all(rest, &text[length..], values);
                if !is_match {
                    values.pop();
                }
                is_match
            }),
        }
    }

    proptest! {
        #[test]
        fn placeholders_take_as_much_as_they_can(
            literals in prop::collection::vec("[-ab]{0,2}", 2..5),
            text in "[-ab]{0,10}",
        ) {
            let names: Vec<String> = (1..literals.len()).map(|number| format!("n{number}")).collect();
            let mut pattern = format!("/{}", literals[0]);
            let mut pieces = vec![Some(&*literals[0])];
            for (name, literal) in names.iter().zip(&literals[1..]) {
                // A letter would belong to the name.
                let literal = literal.trim_start_matches(char::is_alphanumeric);
                pattern += &format!(":{name}{literal}");
                pieces.extend([None, Some(literal)]);
            }
            let mut values = Vec::new();
            let expected = try_all(&pieces, &text, &mut values).then_some(values);
            let pattern = Pattern::parse(&pattern, Cloudflare).expect("a pattern");
            let path = format!("/{text}");
            let found = pattern.captures(&path).map(|mut captures| {
                captures.sort();
                captures.into_iter().map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
            });
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn an_example_matches_its_pattern(
            text in "(/(a|b|:x|:y|a:z|:x-:y|:x[.]b)){1,4}(/[*]a?)?(/:c)?/?", is_netlify in any::<bool>(),
        ) {
            let dialect = if is_netlify { Netlify } else { Cloudflare };
            let pattern = Pattern::parse(&text, dialect).expect("a pattern");
            prop_assert!(pattern.captures(&pattern.example()).is_some(), "{}", pattern.example());
            for path in pattern.literal_paths() {
                prop_assert!(pattern.captures(&path).is_some(), "{}", path);
            }
        }
    }
}
