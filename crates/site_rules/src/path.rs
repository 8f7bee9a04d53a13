//! Decodes, encodes and joins paths, and derives the paths of pages.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The reason a request's path is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path must begin with a slash")]
    Relative,
    /// A percent sign without two hexadecimal digits (RFC 3986 §2.1).
    #[error("the path has a percent sign that is not followed by two hexadecimal digits")]
    Escape,
    #[error("the decoded path is not valid UTF-8")]
    Utf8,
    /// A dot segment, an empty segment, an encoded slash, a backslash or a control character. Servers,
    /// proxies and caches interpret these differently. One message for all of them, because an exported site
    /// has one response for all.
    #[error("the path has an empty or dot segment, an encoded slash, a backslash or a control character")]
    Ambiguous,
}

/// Decodes a request's path (without its query) once, and rejects ambiguous paths. Allocates only if the path
/// has percent escapes.
pub fn decode(path: &str) -> Result<Cow<'_, str>, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::Relative);
    }
    if is_plain(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let decoded = percent_decode(path)?;
    if decoded.chars().any(|c| c == '\\' || c.is_control()) {
        return Err(PathError::Ambiguous);
    }
    let mut segments = decoded[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if matches!(segment, "." | "..") || (segment.is_empty() && !last) {
            return Err(PathError::Ambiguous);
        }
    }
    Ok(decoded)
}

/// The path without its empty segments, percent-encoded, if these are the only reason why [`decode`] rejects
/// it; `None` for other paths. The result begins with exactly one slash.
pub fn merge_slashes(path: &str) -> Option<String> {
    if !path.starts_with('/') || !path.contains("//") {
        return None;
    }
    let segments = path.split_inclusive('/').filter(|segment| *segment != "/");
    let merged: String = ["/"].into_iter().chain(segments).collect();
    Some(encode(&decode(&merged).ok()?).into_owned())
}

/// A quick check that is true for most valid paths: whether a path consists of visible ASCII characters
/// without `%` and `\`, and has no empty segment and none that begins with a dot. Such a path needs no
/// decoding.
fn is_plain(path: &[u8]) -> bool {
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let is_plain = match byte {
            b'/' => !matches!(tail, [b'/' | b'.', ..]),
            b'%' | b'\\' => false,
            byte => byte.is_ascii_graphic(),
        };
        if !is_plain {
            return false;
        }
        rest = tail;
    }
    true
}

/// Percent-decodes once. Rejects percent signs without two digits, text that is not UTF-8, and encoded
/// slashes, because decoding would turn them into separators.
pub fn percent_decode(path: &str) -> Result<Cow<'_, str>, PathError> {
    for (at, _) in path.match_indices('%') {
        match path.as_bytes().get(at + 1..at + 3) {
            Some([b'2', b'f' | b'F']) => return Err(PathError::Ambiguous),
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {}
            _ => return Err(PathError::Escape),
        }
    }
    percent_encoding::percent_decode_str(path).decode_utf8().map_err(|_| PathError::Utf8)
}

/// The ASCII characters that RFC 3986 §3.3 forbids in a path.
pub const NOT_IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// Percent-encodes a decoded path for links and headers. Encodes every character that RFC 3986 §3.3 forbids
/// in a path.
pub fn encode(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, NOT_IN_PATH).into()
}

/// Percent-encodes the characters of a path or URL that are not ASCII, and control characters. Keeps all
/// others, as the query of a request may have been encoded in any way.
pub fn encode_non_ascii(url: &str) -> Cow<'_, str> {
    utf8_percent_encode(url, CONTROLS).into()
}

/// The public path (`/blog/a/x.png`) of a file or folder (`posts/a/x.png`) in the folders `pages`, `posts`
/// and `assets` of a site. Not for files in `static/`, which are served at the root.
pub fn public_path(file: &str) -> String {
    match file.split_once('/') {
        Some(("pages", rest)) => format!("/{rest}"),
        Some(("posts", rest)) => format!("/blog/{rest}"),
        _ => format!("/{file}"),
    }
}

/// The path of a page's Markdown twin: `/developers.md` for `/developers/`, `/index.md` for `/`.
pub fn twin_path(page: &str) -> String {
    match page.trim_end_matches('/') {
        "" => "/index.md".to_owned(),
        stem => [stem, ".md"].concat(),
    }
}

/// All paths of a page's Markdown: [`twin_path`], `index.md`, and `index.html.md` as proposed by llmstxt.org.
pub fn markdown_paths(page: &str) -> [String; 3] {
    let stem = page.trim_end_matches('/');
    [twin_path(page), [stem, "/index.md"].concat(), [stem, "/index.html.md"].concat()]
}

/// The path in the other normalization form of Unicode (UAX #15), because names of files that were made on
/// macOS have decomposed characters, unlike links. `None` if both forms are the same, as for ASCII and `ß`,
/// and for a path in neither form: a character such as the Kelvin sign must not be another spelling of an
/// ASCII letter.
pub fn other_form(path: &str) -> Option<String> {
    let (composed, decomposed): (String, String) =
        (!path.is_ascii()).then(|| (path.nfc().collect(), path.nfd().collect()))?;
    if composed == decomposed {
        return None;
    }
    match path {
        path if path == composed => Some(decomposed),
        path if path == decomposed => Some(composed),
        _ => None,
    }
}

/// Whether a path is in a folder or is the folder's own path. The folder has no trailing slash; the empty
/// folder contains all paths.
pub fn is_in_folder(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The paths that redirect to a page: the path without the trailing slash, and the path with `index.html`.
/// Only the latter for the home page.
pub fn redirect_paths(page: &str) -> Vec<String> {
    let stem = page.trim_end_matches('/');
    let file = [stem, "/index.html"].concat();
    if stem.is_empty() { vec![file] } else { vec![stem.to_owned(), file] }
}

/// Converts words to one path segment: lower-case letters and digits of any script with their combining
/// marks, such as the vowel signs of Hindi and Thai, and one hyphen in place of the characters between them.
/// `+`, a `.` at the beginning of a word and a `#` behind a letter or digit are the words `plus`, `dot` and
/// `sharp`, because `C++`, `.NET` and `C#` are not `C` and `NET`. Words of signs only, such as an emoji, keep
/// the signs, or become the code points of ASCII signs. Empty if there are only spaces.
pub fn slug(words: &str) -> String {
    let mut slug = String::with_capacity(words.len());
    let mut before = ' ';
    let mut rest = words.chars().flat_map(char::to_lowercase).peekable();
    while let Some(c) = rest.next() {
        let is_behind_word = before.is_alphanumeric();
        let is_before_word = rest.peek().is_some_and(|next| next.is_alphanumeric());
        let name = match c {
            '+' => "plus",
            '#' if is_behind_word => "sharp",
            '.' if is_before_word && before.is_whitespace() => "dot",
            _ => "",
        };
        let is_part = !slug.is_empty() && !slug.ends_with('-');
        if c.is_alphanumeric() || is_part && is_combining_mark(c) {
            slug.push(c);
        } else {
            slug.push_str(if is_part { "-" } else { "" });
            slug.push_str(name);
            slug.push_str(if name.is_empty() { "" } else { "-" });
        }
        before = c;
    }
    slug.truncate(slug.trim_end_matches('-').len());
    if slug.is_empty() {
        let signs = words.chars().filter(|c| !c.is_whitespace() && !c.is_control());
        let signs = signs.map(|c| if c.is_ascii() { format!("u{:x}", u32::from(c)) } else { c.to_string() });
        slug.extend(signs);
    }
    slug
}

/// Resolves `relative` against the page or file at `base` (RFC 3986 §5.2.3). Both are decoded paths. Drops
/// empty segments, and `..` segments that would lead above the root. An empty `relative` yields the folder of
/// `base`.
pub fn resolve_relative(base: &str, relative: &str) -> String {
    // Most absolute links are plain paths, which need no resolution.
    if relative.starts_with('/') && is_plain(relative.as_bytes()) {
        return relative.to_owned();
    }
    let folder = base.rfind('/').filter(|_| !relative.starts_with('/')).map_or("", |at| &base[..at]);
    let mut segments: Vec<&str> = folder.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut ends_in_folder = false;
    for segment in relative.split('/') {
        ends_in_folder = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let mut path = String::from("/");
    path.push_str(&segments.join("/"));
    if ends_in_folder && !path.ends_with('/') {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_decoded_once() {
        assert_eq!(decode("/developers/").as_deref(), Ok("/developers/"));
        assert_eq!(decode("/caf%C3%A9/").as_deref(), Ok("/café/"));
        assert_eq!(decode("/a%20b").as_deref(), Ok("/a b"));
        assert_eq!(decode("/%2541/").as_deref(), Ok("/%41/"), "never twice");
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        for (path, error) in [
            ("*", PathError::Relative),
            ("", PathError::Relative),
            ("/%", PathError::Escape),
            ("/%4", PathError::Escape),
            ("/%zz", PathError::Escape),
            ("/%+1", PathError::Escape),
            ("/%ff", PathError::Utf8),
            ("/a/../b", PathError::Ambiguous),
            ("/%2e%2e/b", PathError::Ambiguous),
            ("/./b", PathError::Ambiguous),
            ("//b", PathError::Ambiguous),
            ("/a//b", PathError::Ambiguous),
            ("/a%2fb", PathError::Ambiguous),
            ("/a%5Cb", PathError::Ambiguous),
            ("/a%00", PathError::Ambiguous),
            ("/a%0d%0aX: y", PathError::Ambiguous),
        ] {
            assert_eq!(decode(path), Err(error), "{path}");
        }
    }

    #[test]
    fn empty_segments_are_merged_if_nothing_else_is_wrong() {
        for (path, merged) in [
            ("//", Some("/")),
            ("//css/s.css", Some("/css/s.css")),
            ("/a///b//", Some("/a/b/")),
            ("//example.org/%2561é", Some("/example.org/%2561%C3%A9")),
            ("/a/b/", None),
            ("a//b", None),
            ("//../b", None),
            ("//a/%2e/b", None),
            ("//a%2fb", None),
            ("//a\\b", None),
            ("//%zz", None),
        ] {
            assert_eq!(merge_slashes(path).as_deref(), merged, "{path}");
        }
    }

    #[test]
    fn names_have_another_form_only_with_accents() {
        for (path, other) in [
            ("/caf\u{e9}/", Some("/cafe\u{301}/")),
            ("/cafe\u{301}/", Some("/caf\u{e9}/")),
            ("/\u{ac00}/", Some("/\u{1100}\u{1161}/")),
            ("/caf\u{e9}/e\u{301}", None),
            ("/\u{212a}ontakt/", None),
            ("/\u{df}/", None),
            ("/a/", None),
        ] {
            assert_eq!(other_form(path).as_deref(), other, "{path}");
        }
    }

    #[test]
    fn files_have_public_paths() {
        for (file, path) in [
            ("assets/a/x.png", "/assets/a/x.png"),
            ("posts/a/x.png", "/blog/a/x.png"),
            ("posts/x.png", "/blog/x.png"),
            ("pages/a/x.png", "/a/x.png"),
            ("pages/x.png", "/x.png"),
        ] {
            assert_eq!(public_path(file), path);
        }
    }

    #[test]
    fn twins_and_slugs_have_their_names() {
        assert_eq!(twin_path("/"), "/index.md");
        assert_eq!(twin_path("/developers/"), "/developers.md");
        assert_eq!(twin_path("/blog/a-post/"), "/blog/a-post.md");
    }

    #[test]
    fn slugs_are_readable_and_differ_for_different_names() {
        for (words, expected) in [
            ("Least privilege, measured!", "least-privilege-measured"),
            ("  C++ & Rust ", "c-plus-plus-rust"),
            ("C", "c"),
            ("C#", "c-sharp"),
            ("C♯", "c"),
            ("#rust", "rust"),
            ("issue #5", "issue-5"),
            ("A+B", "a-plus-b"),
            ("Disney+", "disney-plus"),
            (".NET", "dot-net"),
            ("ASP.NET", "asp-net"),
            ("the .NET 8.0", "the-dot-net-8-0"),
            ("Q&A", "q-a"),
            ("Größe", "größe"),
            ("हिन्दी भाषा", "हिन्दी-भाषा"),
            ("เว็บ", "เว็บ"),
            ("İzmir", "i\u{307}zmir"),
            ("❤\u{fe0f}", "❤\u{fe0f}"),
            ("Rocket 🚀", "rocket"),
            ("+++", "plus-plus-plus"),
            ("#", "u23"),
            ("..", "u2eu2e"),
            ("/", "u2f"),
            (" ", ""),
        ] {
            assert_eq!(slug(words), expected, "{words}");
        }
    }

    #[test]
    fn relative_paths_resolve() {
        assert_eq!(resolve_relative("/blog/x/", "y/"), "/blog/x/y/");
        assert_eq!(resolve_relative("/blog/x/", "../y/"), "/blog/y/");
        assert_eq!(resolve_relative("/posts/x.md", "y.md"), "/posts/y.md");
        assert_eq!(resolve_relative("/posts/x.md", "../pages/a.md"), "/pages/a.md");
        assert_eq!(resolve_relative("/posts/x.md", "./img/a.png"), "/posts/img/a.png");
        assert_eq!(resolve_relative("/a/", "/b/"), "/b/");
        assert_eq!(resolve_relative("/a/b/", ".."), "/a/");
        assert_eq!(resolve_relative("/", "../../../x"), "/x");
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_a_path_gives_the_path(segments in prop::collection::vec("[a-zé %?#\"<>ü-]{1,8}", 1..4)) {
            let path = format!("/{}/", segments.join("/"));
            let encoded = encode(&path);
            prop_assert!(encoded.is_ascii());
            prop_assert_eq!(decode(&encoded).map(Cow::into_owned), Ok(path));
        }

        #[test]
        fn plain_paths_need_no_decoding(path in "/[a-z./%0-9A-Z\\\\~! ]{0,24}") {
            if is_plain(path.as_bytes()) {
                let segments: Vec<&str> = path[1..].split('/').collect();
                let (last, others) = segments.split_last().expect("a segment");
                prop_assert!(others.iter().all(|segment| !segment.is_empty()));
                prop_assert!(![".", ".."].contains(last) && others.iter().all(|segment| ![".", ".."].contains(segment)));
                prop_assert_eq!(percent_decode(&path).map(Cow::into_owned), Ok(path.clone()));
            }
        }

        #[test]
        fn a_decoded_path_never_climbs(path in "/[a-z./%0-9A-F\\\\]{0,24}") {
            if let Ok(decoded) = decode(&path) {
                prop_assert!(decoded.split('/').all(|segment| segment != ".." && segment != "."));
                prop_assert!(!decoded.contains('\\') && !decoded.contains('\0'));
            }
        }
    }
}
