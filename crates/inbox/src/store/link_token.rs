//! The tokens in links that confirm an address.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::keyed_hash::{Hash, Secret};

const BYTES: usize = 16 + 4 + 16;
/// The length of a token as text, without [`END`].
const CHARS: usize = BYTES * 4 / 3;
/// If a token ends with one of these, [`END`] is appended: mail programs that find links in plain text
/// exclude punctuation at the end.
const PUNCTUATION: [char; 2] = ['-', '_'];
const END: char = 'x';

/// A token that permits its holder to confirm one submission. It expires and contains no personal data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkToken {
    pub(super) submission: Uuid,
    /// When the token expires, as Unix time in seconds.
    pub(super) expires_at: u32,
    /// Proves that the server issued the token.
    signature: Hash,
}

impl LinkToken {
    /// Creates and signs a token. `expires_at` is Unix time in milliseconds, and is rounded down to seconds.
    pub(super) fn issue(secret: &Secret, submission: Uuid, expires_at: i64) -> LinkToken {
        let expires_at = u32::try_from(expires_at / 1000).unwrap_or_default();
        LinkToken { submission, expires_at, signature: secret.link(submission, expires_at) }
    }

    /// Parses the text of a token, from which the appended letter may be missing. Ignores punctuation and
    /// white space after it, which people and programs copy with the link, such as `.`, `)` or `>`, but not
    /// `/`, `-` or `_`. Does not check the signature. `None` if the text has another length or format.
    pub fn parse(text: &str) -> Option<LinkToken> {
        let is_ignored = |c: char| !c.is_alphanumeric() && c != '/' && !PUNCTUATION.contains(&c);
        let text = text.trim_end_matches(is_ignored);
        let text = text.strip_suffix(END).filter(|text| text.ends_with(PUNCTUATION)).unwrap_or(text);
        let bytes = (text.len() == CHARS).then(|| URL_SAFE_NO_PAD.decode(text).ok())??;
        let (submission, rest) = bytes.split_at_checked(16)?;
        let (expires_at, signature) = rest.split_at_checked(4)?;
        Some(LinkToken {
            submission: Uuid::from_slice(submission).ok()?,
            expires_at: u32::from_be_bytes(expires_at.try_into().ok()?),
            signature: signature.try_into().ok()?,
        })
    }

    /// Whether the server with this secret issued the token, which may have expired. The time that this takes
    /// does not depend on how much of the signature is right.
    pub(super) fn is_genuine(&self, secret: &Secret) -> bool {
        let expected = secret.link(self.submission, self.expires_at);
        let difference = expected.iter().zip(&self.signature).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Display for LinkToken {
    /// Writes the token for a link, in base64url. Appends `END` if the text would end with punctuation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(self.submission.as_bytes());
        bytes.extend_from_slice(&self.expires_at.to_be_bytes());
        bytes.extend_from_slice(&self.signature);
        let text = URL_SAFE_NO_PAD.encode(bytes);
        f.write_str(&text)?;
        if text.ends_with(PUNCTUATION) { f.write_char(END) } else { Ok(()) }
    }
}

/// Omits the signature, because a log must not contain a usable token.
impl fmt::Debug for LinkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkToken").field("submission", &self.submission).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_issued_token_is_genuine() {
        let secret = Secret([7; 32]);
        let token = LinkToken::issue(&secret, Uuid::from_u128(5), 1_800_000_000_999);
        let text = token.to_string();
        assert_eq!((text.len(), token.expires_at), (CHARS, 1_800_000_000));
        let parsed = LinkToken::parse(&text).expect("a token");
        assert!(parsed == token && parsed.is_genuine(&secret) && !parsed.is_genuine(&Secret([8; 32])));
        // Any other character at any position is refused, or makes a token that is not genuine.
        for at in 0..text.len() {
            for other in ['A', 'B', '_', '-', '9', '=', '.', 'é'] {
                let mut forged: Vec<char> = text.chars().collect();
                forged[at] = other;
                let forged: String = forged.into_iter().collect();
                let is_genuine = LinkToken::parse(&forged).is_some_and(|token| token.is_genuine(&secret));
                assert_eq!(is_genuine, forged == text, "{forged}");
            }
        }
    }

    #[test]
    fn no_token_ends_in_punctuation() {
        let (mut with_end, secret) = (0, Secret([7; 32]));
        for n in 0..500 {
            let text = LinkToken::issue(&secret, Uuid::from_u128(n), 1_800_000_000_000).to_string();
            assert!(text.ends_with(|c: char| c.is_ascii_alphanumeric()), "{text}");
            assert!(LinkToken::parse(&text).is_some_and(|token| token.is_genuine(&secret)), "{text}");
            for after in [".", ")", "]", ",", "!", ";", ">", "\"", "…", "=", " ", ").\u{200b}"] {
                assert_eq!(LinkToken::parse(&format!("{text}{after}")), LinkToken::parse(&text), "{after}");
            }
            if let (CHARS, Some(earlier)) = (text.len() - 1, text.strip_suffix(END)) {
                with_end += 1;
                assert!(LinkToken::parse(earlier).is_some_and(|token| token.is_genuine(&secret)), "{text}");
            } else {
                assert_eq!(LinkToken::parse(&format!("{text}x")), None);
            }
        }
        assert!(with_end > 0);
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let text = LinkToken::issue(&Secret([7; 32]), Uuid::nil(), 0).to_string();
        for other in [
            "",
            "x",
            &text[1..],
            &format!("{text}A"),
            &format!("{text}ä"),
            &format!("{text}/"),
            &text.replace('A', "+"),
        ] {
            assert_eq!(LinkToken::parse(other), None, "{other}");
        }
    }

    #[test]
    fn no_debug_output_has_a_usable_token() {
        let token = LinkToken::issue(&Secret([7; 32]), Uuid::nil(), 0);
        assert_eq!(
            format!("{token:?}"),
            "LinkToken { submission: 00000000-0000-0000-0000-000000000000, .. }"
        );
    }
}
