//! The tokens of a text that lessons store: keyed hashes of its features, of pairs of features, of words and
//! of pairs of words.

use std::collections::HashSet;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::learned::{MAX_TOKENS, Tokens, WORD};
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
    let mut seen: HashSet<u32> = found.iter().copied().collect();
    let mut add = |hash: u32| {
        if found.len() < MAX_TOKENS && seen.insert(hash) {
            found.push(hash);
        }
    };
    let mut before: Option<u64> = None;
    for token in &text.tokens {
        match token {
            Token::Word(word) => {
                let own = word.hash.to_le_bytes();
                add(hash(&[&own]) | WORD);
                if let Some(before) = before {
                    add(hash(&[&before.to_le_bytes(), &own]) | WORD);
                }
                before = Some(word.hash);
            }
            Token::Link(link) => {
                let domain = link.domain.to_ascii_lowercase();
                add(hash(&[b"link", domain.as_bytes()]) | WORD);
                before = None;
            }
            Token::Break => before = None,
        }
    }
    found.sort_unstable();
    Tokens { points: u8::try_from(points).unwrap_or(u8::MAX), hashes: found }
}
