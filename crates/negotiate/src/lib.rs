//! Chooses a page's representation from `Accept`, and a file's encoding from `Accept-Encoding`.
//!
//! Both choices follow RFC 9110 §12.5. They depend only on the header's bytes, not on the client that sent
//! them, and do not allocate. Malformed list members are skipped and do not affect their neighbors.

/// A representation of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Media {
    /// `text/html`
    Html,
    /// `text/markdown` (RFC 7763)
    Markdown,
}

/// The content coding of a prepared body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    Identity,
    /// `gzip` (RFC 9110 §8.4.1.3)
    Gzip,
    /// `br` (RFC 7932)
    Brotli,
    /// `zstd` (RFC 8878)
    Zstd,
}

impl Encoding {
    /// The codings in order of preference, for clients that give several of them the same quality.
    pub const PREFERENCE: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The token in `Content-Encoding`; `None` for identity.
    pub const fn token(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// A quality value in thousandths, 0 to 1000 (RFC 9110 §12.4.2).
pub type Quality = u16;

/// The quality of one representation according to the media ranges read so far.
#[derive(Clone, Copy, Default)]
struct RangeMatch {
    /// 0 if no range matches, 1 for `*/*`, 2 for `text/*`, 3 for the type itself.
    specificity: u8,
    quality: Quality,
}

impl RangeMatch {
    /// Applies a media range unless a more specific range has already been applied. Among equally specific
    /// ranges, the highest quality wins.
    fn add_range(&mut self, specificity: u8, quality: Quality) {
        if specificity > self.specificity {
            *self = Self { specificity, quality };
        } else if specificity == self.specificity {
            self.quality = self.quality.max(quality);
        }
    }
}

/// Chooses between HTML and Markdown based on the `Accept` header lines. `None` if neither is acceptable
/// (406).
///
/// The most specific matching range determines a representation's quality; parameters except `q` do not
/// matter. The highest quality wins, and a quality of 0 excludes a representation. If both have the same
/// quality, the result is Markdown if the header names `text/markdown`, and otherwise HTML. No browser names
/// `text/markdown`, but coding agents send it together with `text/html` and `*/*`, all with quality 1. A
/// missing header, and one without a valid member, counts as `*/*`.
///
/// Accepts a few qualities that the grammar forbids (`.2`, more than three digits), because clients send them
/// and should not get a 406.
pub fn choose<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> Option<Media> {
    let (mut html, mut markdown) = (RangeMatch::default(), RangeMatch::default());
    let mut has_valid = false;
    for line in accept {
        for member in split_members(line) {
            // Once a valid member has been found, skip types that cannot match, such as the image types that
            // browsers list.
            if has_valid && !matches!(member[0], b't' | b'T' | b'*') {
                continue;
            }
            let Some((range, quality)) = parse_media_range(member) else { continue };
            has_valid = true;
            match range {
                Range::Any => {
                    html.add_range(1, quality);
                    markdown.add_range(1, quality);
                }
                Range::AnyText => {
                    html.add_range(2, quality);
                    markdown.add_range(2, quality);
                }
                Range::Exactly(Media::Html) => html.add_range(3, quality),
                Range::Exactly(Media::Markdown) => markdown.add_range(3, quality),
                Range::Other => {}
            }
        }
    }
    if !has_valid {
        return Some(Media::Html);
    }
    match (html.quality, markdown.quality) {
        (0, 0) => None,
        (html, markdown_quality) if markdown_quality > html => Some(Media::Markdown),
        (html, markdown_quality) if markdown_quality == html && markdown.specificity == 3 => {
            Some(Media::Markdown)
        }
        _ => Some(Media::Html),
    }
}

enum Range {
    Any,
    AnyText,
    Exactly(Media),
    Other,
}

/// Parses `type/subtype *( OWS ";" OWS parameter )`. `None` if the member is malformed. Ignores all
/// parameters except `q`.
fn parse_media_range(member: &[u8]) -> Option<(Range, Quality)> {
    let (range, parameters) = split_parameters(member);
    let slash = range.iter().position(|byte| *byte == b'/')?;
    let (kind, subtype) = (&range[..slash], &range[slash + 1..]);
    if !is_token(kind) || !is_token(subtype) || (kind == b"*" && subtype != b"*") {
        return None;
    }
    let quality = parse_quality(parameters)?;
    let range = if kind == b"*" {
        Range::Any
    } else if !kind.eq_ignore_ascii_case(b"text") {
        Range::Other
    } else if subtype == b"*" {
        Range::AnyText
    } else if subtype.eq_ignore_ascii_case(b"html") {
        Range::Exactly(Media::Html)
    } else if subtype.eq_ignore_ascii_case(b"markdown") {
        Range::Exactly(Media::Markdown)
    } else {
        Range::Other
    };
    Some((range, quality))
}

/// The qualities in `Accept-Encoding` (RFC 9110 §12.5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Codings {
    /// The quality of each [`Encoding`]; `None` if the client does not name it.
    named: [Option<Quality>; 4],
    /// The quality of `*`, for codings that the client does not name.
    of_others: Option<Quality>,
}

impl Codings {
    const NAMES: [(&[u8], Encoding); 5] = [
        (b"identity", Encoding::Identity),
        (b"gzip", Encoding::Gzip),
        (b"x-gzip", Encoding::Gzip),
        (b"br", Encoding::Brotli),
        (b"zstd", Encoding::Zstd),
    ];

    /// Reads the lines of `Accept-Encoding`. Skips malformed members and unknown codings. If a coding
    /// repeats, its highest quality counts.
    pub fn parse<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut codings = Self::default();
        for line in accept_encoding {
            for (coding, quality) in members_with_quality(line) {
                let named = Self::NAMES.iter().find(|(name, _)| coding.eq_ignore_ascii_case(name));
                let slot = match named {
                    Some((_, encoding)) => &mut codings.named[*encoding as usize],
                    None if coding == b"*" => &mut codings.of_others,
                    None => continue,
                };
                *slot = Some(slot.map_or(quality, |earlier| earlier.max(quality)));
            }
        }
        codings
    }

    /// The encoding with the highest quality among those that are `available`. Of several with the same
    /// quality, chooses the first in `Encoding::PREFERENCE`. Chooses identity, which `*` does not cover here,
    /// only if its quality is higher than all others, or if no other coding is acceptable and available.
    ///
    /// Returns identity even if the client refuses both identity and all available encodings, because an
    /// unencoded response is more useful than a 406 (RFC 9110 §12.5.3 permits both).
    pub fn choose(self, available: impl Fn(Encoding) -> bool) -> Encoding {
        // Unless the client names identity, prefer any other acceptable coding.
        let mut best = (Encoding::Identity, self.named[Encoding::Identity as usize].unwrap_or(0));
        for encoding in Encoding::PREFERENCE {
            let quality = self.named[encoding as usize].or(self.of_others).unwrap_or(0);
            let better = quality > best.1 || (quality == best.1 && best.0 == Encoding::Identity);
            if quality > 0 && better && available(encoding) {
                best = (encoding, quality);
            }
        }
        best.0
    }
}

/// The names of a list's members without their parameters, each with its quality. Skips members with a
/// malformed quality.
pub fn members_with_quality(line: &[u8]) -> impl Iterator<Item = (&[u8], Quality)> {
    split_members(line).filter_map(|member| {
        let (name, parameters) = split_parameters(member);
        Some((name, parse_quality(parameters)?))
    })
}

/// The non-empty members of a comma-separated list, trimmed. Commas within quoted strings do not separate
/// members.
fn split_members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    split_outside_quotes(line, b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Splits a list member at its first `;`. The second part begins with the `;`; without one, it is empty.
fn split_parameters(member: &[u8]) -> (&[u8], &[u8]) {
    let end = member.iter().position(|byte| *byte == b';').unwrap_or(member.len());
    let (name, parameters) = member.split_at(end);
    (name.trim_ascii_end(), parameters)
}

/// The value of the first `q` parameter in thousandths, or 1000 if there is none. `None` if the value is
/// malformed.
fn parse_quality(parameters: &[u8]) -> Option<Quality> {
    if parameters.is_empty() {
        return Some(1000);
    }
    for parameter in split_outside_quotes(parameters, b';').map(<[u8]>::trim_ascii) {
        let Some(equals) = parameter.iter().position(|byte| *byte == b'=') else { continue };
        // Accept spaces around the equals sign: the grammar forbids them, but the meaning is clear.
        if parameter[..equals].trim_ascii_end().eq_ignore_ascii_case(b"q") {
            return parse_qvalue(parameter[equals + 1..].trim_ascii_start());
        }
    }
    Some(1000)
}

/// Parses a decimal between 0 and 1 into thousandths. Ignores digits after the third, but never turns a
/// quality above zero into 0, because 0 means a refusal.
fn parse_qvalue(value: &[u8]) -> Option<Quality> {
    let (whole, fraction) = match value.iter().position(|byte| *byte == b'.') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &value[..0]),
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut thousandths: Quality = 0;
    for place in 0..3 {
        thousandths = thousandths * 10 + fraction.get(place).map_or(0, |digit| Quality::from(digit - b'0'));
    }
    let beyond = fraction.iter().skip(3).any(|digit| *digit != b'0');
    let thousandths = thousandths.max(Quality::from(beyond));
    match whole {
        b"1" if thousandths == 0 => Some(1000),
        b"0" => Some(thousandths),
        b"" if !fraction.is_empty() => Some(thousandths),
        _ => None,
    }
}

/// Splits at `separator` outside quoted strings (RFC 9110 §5.6.4). An unclosed quote, and any quote after it,
/// counts as an ordinary character, which keeps the time linear.
fn split_outside_quotes(bytes: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    // Few headers contain quotes, so the search for quoted strings is skipped for most of them.
    let mut quotes = bytes.contains(&b'"');
    std::iter::from_fn(move || {
        let current = rest?;
        let mut at = 0;
        while quotes && at < current.len() && current[at] != separator {
            if current[at] == b'"' {
                match quoted_length(&current[at..]) {
                    Some(length) => at += length,
                    None => quotes = false,
                }
            } else {
                at += 1;
            }
        }
        let end = current[at..].iter().position(|byte| *byte == separator).map(|further| at + further);
        rest = end.map(|end| &current[end + 1..]);
        end.map_or(Some(current), |end| Some(&current[..end]))
    })
}

/// The length of the quoted string with which `bytes` begin, including its quotes. `None` if it is not
/// closed.
fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Whether `bytes` are a token (RFC 9110 §5.6.2).
fn is_token(bytes: &[u8]) -> bool {
    let is_part = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'#'..=b'\'' | b'^'..=b'`' | b'!' | b'*' | b'+' | b'-' | b'.' | b'|' | b'~')
    };
    !bytes.is_empty() && bytes.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Media::{Html, Markdown};

    const CHROME: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
    const OPENCODE: &str =
        "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1";
    const GEMINI: &str = "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, application/pdf;q=0.7, video/*;q=0.7, */*;q=0.5";

    #[test]
    fn real_clients_get_the_intended_representation() {
        check(&[
            ("text/markdown, text/html, */*", Some(Markdown)), // Claude Code
            ("text/markdown, text/plain;q=0.9, */*;q=0.8", Some(Markdown)), // Cursor
            (OPENCODE, Some(Markdown)),
            (GEMINI, Some(Markdown)),
            ("text/html, */*", Some(Html)), // Codex CLI
            ("*/*", Some(Html)),            // curl, wget, ChatGPT-User, PerplexityBot
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(Html)), // Firefox, Safari
            (CHROME, Some(Html)),
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Some(Html)), // old Java
            ("application/rss+xml", None),                                        // feed readers
            ("application/rss+xml, application/xml;q=0.9, */*;q=0.1", Some(Html)),
            ("text/markdown", Some(Markdown)),
            ("text/x-markdown, text/markdown;q=0.9, text/html;q=0.5", Some(Markdown)),
            ("image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", Some(Html)),
            ("application/json, text/plain, */*", Some(Html)),
            ("application/json", None),
        ]);
    }

    #[test]
    fn the_most_specific_range_gives_the_quality() {
        check(&[
            ("text/html;q=0.1, text/*;q=0.9", Some(Markdown)),
            ("text/*;q=0.9, text/html;q=0.1", Some(Markdown)),
            ("text/*;q=0.1, */*;q=0.9", Some(Html)),
            ("text/markdown;q=0.1, */*;q=0.9", Some(Html)),
            ("text/html;q=0.1, */*;q=0.9", Some(Markdown)),
            ("text/html;q=0, text/*;q=0.5", Some(Markdown)),
            ("text/markdown;q=0, */*", Some(Html)),
            ("text/html;q=0, */*", Some(Markdown)),
            ("text/*;q=0, text/html", Some(Html)),
            ("*/*;q=0, text/markdown;q=0.001", Some(Markdown)),
            ("*/*;q=0, text/*;q=0.2", Some(Html)),
            ("text/*;q=0, */*", None),
            ("text/html;q=0.2, text/html;q=0.9, text/markdown;q=0.5", Some(Html)),
        ]);
    }

    #[test]
    fn the_highest_quality_wins_and_zero_excludes() {
        check(&[
            ("text/html;q=0.5, text/markdown;q=0.6", Some(Markdown)),
            ("text/html;q=0.6, text/markdown;q=0.5", Some(Html)),
            ("text/html;q=0.001, text/markdown;q=0", Some(Html)),
            ("text/html;q=0, text/markdown;q=0", None),
            ("text/html;q=0.000", None),
            ("text/markdown;q=0", None),
            ("*/*;q=0", None),
            ("text/*;q=0", None),
            ("text/html;q=0, */*;q=0", None),
            ("text/html;q=0.999, text/markdown;q=1.000", Some(Markdown)),
        ]);
    }

    #[test]
    fn on_equal_quality_naming_markdown_decides() {
        check(&[
            ("text/html, text/markdown", Some(Markdown)),
            ("text/markdown, text/html", Some(Markdown)),
            ("text/html;q=0.5, text/markdown;q=0.5", Some(Markdown)),
            ("text/markdown;q=0.8, */*;q=0.8", Some(Markdown)),
            ("text/*", Some(Html)),
            ("text/*, */*", Some(Html)),
            ("text/html, text/*", Some(Html)),
        ]);
    }

    #[test]
    fn a_header_without_valid_members_accepts_anything() {
        check(&[
            ("", Some(Html)),
            ("   ", Some(Html)),
            (",", Some(Html)),
            (", ,\t,", Some(Html)),
            ("nonsense", Some(Html)),
            ("*", Some(Html)),
            ("/", Some(Html)),
            ("text/", Some(Html)),
            ("/html", Some(Html)),
            ("text/html/x", Some(Html)),
            ("te xt/markdown", Some(Html)),
            ("*/markdown", Some(Html)),
            ("text/markdown;q=2", Some(Html)),
            ("text/markdown;q=-1", Some(Html)),
            ("text/markdown;q=abc", Some(Html)),
            ("text/markdown;q=", Some(Html)),
            ("text/markdown;q=\"1\"", Some(Html)),
            ("text/markdown;q=1.001", Some(Html)),
            ("text/markdown;q=1.0001", Some(Html)),
            ("text/markdown;q=.", Some(Html)),
        ]);
        assert_eq!(choose([]), Some(Html), "no header at all");
        assert_eq!(choose([b"\xff\xfe/\x80".as_slice()]), Some(Html), "bytes that are not UTF-8");
    }

    #[test]
    fn a_malformed_member_does_not_affect_its_neighbors() {
        check(&[
            ("nonsense, text/markdown", Some(Markdown)),
            ("text/markdown, nonsense", Some(Markdown)),
            ("text/html;q=oops, text/markdown;q=0.1", Some(Markdown)),
            ("text/html;q=oops, application/json", None),
            (",,text/markdown,,", Some(Markdown)),
            ("\"unclosed, text/markdown", Some(Markdown)),
            ("a/b;\"\\\"\\\"\\\", text/markdown;q=0.1", Some(Markdown)),
            ("text/x;a=\"b, text/markdown", Some(Markdown)),
            ("a/b;c=\"d,e;f\", text/markdown", Some(Markdown)),
            ("a/b, text/markdown;c=\"d\"", Some(Markdown)),
            ("a/b;c=\", text/markdown, d\", text/html", Some(Html)),
            ("a/b;c=\"\\\", text/markdown, d\", text/html", Some(Html)),
            ("a/b;c=\"d\", text/markdown, a/b;c=\"d\"", Some(Markdown)),
            ("text/markdown;c=\";q=0;\"", Some(Markdown)),
            ("text/markdown;c=\"\"", Some(Markdown)),
            ("text/plain;x=\"\\\", text/html\", text/markdown", Some(Markdown)),
        ]);
    }

    #[test]
    fn case_space_and_parameters_do_not_matter() {
        check(&[
            ("TEXT/MARKDOWN", Some(Markdown)),
            ("Text/Html;Q=0.5, text/markdown;q=0.4", Some(Html)),
            ("text/markdown;variant=GFM", Some(Markdown)),
            ("text/markdown; charset=utf-8", Some(Markdown)),
            ("text/html;level=1;q=0.2, text/markdown;q=0.3", Some(Markdown)),
            ("text/markdown ; q=0.5 , text/html ; q=0.4", Some(Markdown)),
            ("\ttext/markdown\t", Some(Markdown)),
            ("text/markdown;;q=0.5;, text/html;q=0.4", Some(Markdown)),
            ("text/markdown;q=0.5;ext=1, text/html;q=0.4", Some(Markdown)),
            ("text/html;q=.4, text/markdown;q=.5", Some(Markdown)),
            ("text/html;q=0.4000, text/markdown;q=0.4001", Some(Markdown)),
            ("application/json, text/html;q=.9", Some(Html)),
            ("text/markdown;q=0.0001", Some(Markdown)),
            ("text/html;q=.0, text/markdown;q=.0001", Some(Markdown)),
            ("text/html;q=.0000, text/markdown;q=.0", None),
            ("text/html;q=.5001, text/markdown;q=.5", Some(Markdown)),
            ("text/html;q=1., text/markdown;q=0.9", Some(Html)),
            ("text/markdown; q = 0", None),
            ("text/html;q = 0.2, text/markdown;q=0.5", Some(Markdown)),
        ]);
    }

    #[test]
    fn repeated_lines_join() {
        let lines: [&[u8]; 2] = [b"text/html;q=0.5", b"text/markdown;q=0.6"];
        assert_eq!(choose(lines), Some(Markdown));
        let lines: [&[u8]; 3] = [b"", b"nonsense", b"application/json"];
        assert_eq!(choose(lines), None);
    }

    #[test]
    fn every_prepared_encoding_is_chosen_by_its_own_token() {
        assert_eq!(Encoding::PREFERENCE.map(Encoding::token), [Some("br"), Some("zstd"), Some("gzip")]);
        assert_eq!(Encoding::Identity.token(), None);
        for encoding in Encoding::PREFERENCE {
            let token = encoding.token().unwrap();
            assert_eq!(Codings::parse([token.as_bytes()]).choose(|_| true), encoding, "{token}");
        }
    }

    #[test]
    fn encodings_follow_their_qualities() {
        let all = |_| true;
        for (header, expected) in [
            ("", Encoding::Identity),
            ("gzip, deflate, br, zstd", Encoding::Brotli),
            ("gzip, deflate", Encoding::Gzip),
            ("gzip;q=1, br;q=0.5", Encoding::Gzip),
            ("zstd, gzip", Encoding::Zstd),
            ("br;q=0, gzip;q=0.1", Encoding::Gzip),
            ("br;q=0", Encoding::Identity),
            ("*", Encoding::Brotli),
            ("*;q=0.5, br;q=0", Encoding::Zstd),
            ("identity", Encoding::Identity),
            ("identity;q=1, gzip;q=0.5", Encoding::Identity),
            ("identity;q=0, *;q=0", Encoding::Identity),
            ("identity;q=0.5, gzip;q=0.5", Encoding::Gzip),
            ("GZIP", Encoding::Gzip),
            ("x-gzip", Encoding::Gzip),
            ("deflate", Encoding::Identity),
            ("gzip;q=oops, br;q=0.1", Encoding::Brotli),
        ] {
            assert_eq!(Codings::parse([header.as_bytes()]).choose(all), expected, "{header}");
        }
        let only_gzip = |encoding| encoding == Encoding::Gzip;
        assert_eq!(Codings::parse([b"br, gzip;q=0.1".as_slice()]).choose(only_gzip), Encoding::Gzip);
        assert_eq!(Codings::parse([b"br".as_slice()]).choose(|_| false), Encoding::Identity);
    }

    fn range() -> impl Strategy<Value = (&'static str, u16)> {
        let names = prop::sample::select(vec![
            "text/html",
            "text/markdown",
            "text/*",
            "*/*",
            "application/json",
            "image/*",
        ]);
        (names, 0..=1000_u16)
    }

    fn header(ranges: &[(&str, u16)]) -> String {
        let members: Vec<String> =
            ranges.iter().map(|(name, q)| format!("{name};q={}.{:03}", q / 1000, q % 1000)).collect();
        members.join(", ")
    }

    /// A second, simpler implementation: the highest quality among the most specific matching ranges.
    fn quality_of(name: &str, ranges: &[(&str, u16)]) -> u16 {
        [name, "text/*", "*/*"]
            .iter()
            .find_map(|wanted| ranges.iter().filter(|(range, _)| range == wanted).map(|(_, q)| *q).max())
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_best_quality_is_served_and_zero_never(ranges in prop::collection::vec(range(), 1..8)) {
            let html = quality_of("text/html", &ranges);
            let markdown = quality_of("text/markdown", &ranges);
            let named = ranges.iter().any(|(name, _)| *name == "text/markdown");
            let expected = match (html, markdown) {
                (0, 0) => None,
                (html, markdown) if markdown > html || (markdown == html && named) => Some(Markdown),
                _ => Some(Html),
            };
            prop_assert_eq!(choose([header(&ranges).as_bytes()]), expected);
        }

        #[test]
        fn order_and_line_breaks_do_not_matter(ranges in prop::collection::vec(range(), 1..8)) {
            let forwards = choose([header(&ranges).as_bytes()]);
            let mut reversed = ranges.clone();
            reversed.reverse();
            prop_assert_eq!(choose([header(&reversed).as_bytes()]), forwards);
            let lines: Vec<String> = ranges.iter().map(|range| header(&[*range])).collect();
            prop_assert_eq!(choose(lines.iter().map(String::as_bytes)), forwards);
        }

        #[test]
        fn junk_between_members_changes_nothing(ranges in prop::collection::vec(range(), 1..5), junk in "[a-z ;=*]{0,12}") {
            let clean = header(&ranges);
            let spoiled = format!("{junk}, {clean}, {junk}");
            prop_assert_eq!(choose([spoiled.as_bytes()]), choose([clean.as_bytes()]));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = choose([bytes.as_slice()]);
            let encoding = Codings::parse([bytes.as_slice()]).choose(|_| true);
            prop_assert!(encoding.token().is_none_or(|token| !token.is_empty()));
        }
    }

    fn check(cases: &[(&str, Option<Media>)]) {
        for (header, expected) in cases {
            assert_eq!(choose([header.as_bytes()]), *expected, "Accept: {header}");
        }
    }
}
