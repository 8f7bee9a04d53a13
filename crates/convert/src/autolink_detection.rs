//! Recognizes the addresses in text that GitHub Flavored Markdown makes links by itself.

use super::dom::clip;

/// Whether GitHub Flavored Markdown autolinks `address` after the character `previous`. The address begins
/// with `www.` or a scheme, or it is an e-mail address; these three may follow different characters.
pub(super) fn may_precede_address(previous: char, address: &str) -> bool {
    match previous {
        c if address.starts_with("www.") => c.is_whitespace() || matches!(c, '*' | '_' | '~' | '('),
        c if address.split('@').next().is_some_and(|start| start.contains(':')) => !c.is_ascii_alphabetic(),
        // Otherwise, `address` is an e-mail address.
        c => !c.is_alphanumeric() && !matches!(c, '.' | '+' | '-' | '_'),
    }
}

/// The end in `text` of the autolink that starts at `at` with `https://`, `http://`, `ftp://` or `www.`;
/// `None` if none starts there. In an autolink of GitHub Flavored Markdown (§6.9), backslashes are literal.
pub(super) fn end_of_address(text: &str, at: usize) -> Option<usize> {
    let start = text.get(at..)?;
    // The case of a scheme does not matter.
    let is_scheme = |s: &&str| start.get(..s.len()).is_some_and(|start| start.eq_ignore_ascii_case(s));
    let scheme = ["https://", "http://", "ftp://"].into_iter().find(is_scheme);
    let scheme = scheme.or_else(|| start.starts_with("www.").then_some("www."))?;
    let previous = text[..at].chars().next_back();
    if previous.is_some_and(|c| !may_precede_address(c, start))
        || !start[scheme.len()..].starts_with(|c: char| c.is_alphanumeric())
    {
        return None;
    }
    let end = start.find(|c: char| c == '<' || c.is_whitespace()).unwrap_or(start.len());
    let mut address = &start[..end];
    // Punctuation at the end belongs to the sentence and not to the address.
    loop {
        let before = address.len();
        address = address.trim_end_matches(['?', '!', '.', ',', ':', '*', '_', '~', '\'', '"', '`', '\\']);
        // A character reference at the end, such as `&amp;`, is not part of the address.
        if let Some(stem) = address.strip_suffix(';') {
            let name = stem.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let is_reference = name.len() < stem.len() && name.ends_with('&');
            address = if is_reference { &name[..name.len() - 1] } else { stem };
        }
        if address.ends_with(')') && address.matches(')').count() > address.matches('(').count() {
            address = &address[..address.len() - 1];
        }
        if address.len() == before {
            return Some(at + before);
        }
    }
}

/// Maximum number of bytes at the end of a text that are searched for an autolink.
const MAX_WORD_BYTES: usize = 500;

/// Whether the text ends with a word that GitHub Flavored Markdown may autolink: it contains `://` or `www.`,
/// and no link. False after white space, and for e-mail addresses. Reads the last [`MAX_WORD_BYTES`] bytes.
pub(super) fn ends_with_address(text: &str) -> bool {
    let end = &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_WORD_BYTES))..];
    let word = end.rsplit(char::is_whitespace).next().unwrap_or_default();
    !word.contains("](") && (word.contains("://") || word.contains("www."))
}

/// Whether an address with characters of emphasis is in `text`, which starts with `[`, before the first `]`.
/// After the `[`, GitHub Flavored Markdown would not autolink the address, but read emphasis in it. Looks at
/// the first 300 bytes only.
pub(super) fn may_hide_address(text: &str) -> bool {
    let bracket = clip(text, 300).split(']').next().unwrap_or_default();
    let address = ["://", "www."].into_iter().find_map(|start| bracket.find(start));
    address.is_some_and(|at| bracket[at..].contains(['_', '*', '~']))
}
