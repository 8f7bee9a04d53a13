//! The tokens of a text that lessons store: keyed hashes of its features, of pairs of features, of words and
//! of pairs of words.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher as _};

use siphasher::sip::SipHasher13;

use super::learned::{MAX_TOKENS, TokenHasher, Tokens, WORD};
use super::text::{Token, TokenizedText};

/// The key of a database's hashes: without it, the hashes cannot be compared with those of a dictionary.
pub type TokenKey = [u8; 16];

/// Maximum number of tokens that are features or pairs of features.
const MAX_FEATURES: usize = 120;

/// The tokens of a text whose features have these names, and which has so many points. The same text gives
/// the same tokens with the same key.
pub(super) fn collect(text: &TokenizedText<'_>, features: &[&str], points: u32, key: &TokenKey) -> Tokens {
    let hasher = SipHasher13::new_with_key(key);
    let hash = |parts: &[&[u8]]| {
        let mut hasher = hasher;
        for part in parts {
            hasher.write(part);
            hasher.write_u8(0xff);
        }
        u32::try_from(hasher.finish() >> 32).unwrap_or_default()
    };
    let mut found: Vec<u32> = Vec::new();
    for (at, name) in features.iter().enumerate() {
        found.push(hash(&[name.as_bytes()]) & !WORD);
        found.extend(
            features[at + 1..].iter().map(|other| hash(&[name.as_bytes(), other.as_bytes()]) & !WORD),
        );
    }
    found.truncate(MAX_FEATURES);
    let mut seen: HashSet<u32, BuildHasherDefault<TokenHasher>> = HashSet::default();
    seen.reserve(MAX_TOKENS);
    seen.extend(&found);
    // Spam may begin like an honest message, and end like one: half of the room is for either end.
    let half = found.len() + (MAX_TOKENS - found.len()) / 2;
    let tokens = &text.tokens;
    let mut read = 0;
    while read < tokens.len() && found.len() < half {
        let before = read.checked_sub(1).map(|at| &tokens[at]);
        add_token(&tokens[read], before, &hash, |hash| {
            if found.len() < half && seen.insert(hash) {
                found.push(hash);
            }
        });
        read += 1;
    }
    // The last token may have been read in part.
    for at in (read.saturating_sub(1)..tokens.len()).rev() {
        if found.len() == MAX_TOKENS {
            break;
        }
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        add_token(&tokens[at], before, &hash, |hash| {
            if found.len() < MAX_TOKENS && seen.insert(hash) {
                found.push(hash);
            }
        });
    }
    found.sort_unstable();
    Tokens { points: u8::try_from(points).unwrap_or(u8::MAX), hashes: found }
}

/// Calls `add` with the hashes of a word or a link, and of a word with the word before it.
fn add_token(
    token: &Token<'_>,
    before: Option<&Token<'_>>,
    hash: impl Fn(&[&[u8]]) -> u32,
    mut add: impl FnMut(u32),
) {
    match token {
        Token::Word(word) => {
            let own = word.hash.to_le_bytes();
            add(hash(&[&own]) | WORD);
            if let Some(Token::Word(before)) = before {
                add(hash(&[&before.hash.to_le_bytes(), &own]) | WORD);
            }
        }
        Token::Link(link) => {
            let domain = link.domain.to_ascii_lowercase();
            add(hash(&[b"link", domain.as_bytes()]) | WORD);
        }
        Token::Break => {}
    }
}
