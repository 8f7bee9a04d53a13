//! The tokens of a text that lessons store: keyed hashes of its features, of pairs of features, of words and
//! of pairs of words.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use siphasher::sip::SipHasher13;

use super::learned::{MAX_TOKENS, TokenHasher, Tokens, WORD};
use super::tokenizer::{Token, TokenizedText};

/// The secret key for hashing a database's tokens: without it, hashing a dictionary reveals no words.
pub type TokenKey = [u8; 16];

/// Maximum number of tokens that are features or pairs of features.
const MAX_FEATURES: usize = 120;

/// The tokens of a text, at most [`MAX_TOKENS`]. `features` are the names of its features, and `points` those
/// of its signals, stored as at most 255. Takes the features and their pairs first, at most [`MAX_FEATURES`].
/// If the words may not all fit, takes them from both ends of the text and drops its middle. The hashes are
/// sorted and without repetitions. The same text gives the same tokens with the same key.
pub(super) fn collect(text: &TokenizedText<'_>, features: &[&str], points: u32, key: &TokenKey) -> Tokens {
    let hasher = SipHasher13::new_with_key(key);
    let hash = |bytes: &[u8]| u32::try_from(hasher.hash(bytes) >> 32).unwrap_or_default();
    let tokens = &text.tokens;
    let mut found: Vec<u32> = Vec::with_capacity(MAX_TOKENS);
    collect_features(features, &hash, &mut found);
    // A word adds two tokens at most: itself, and the pair with the word before it.
    if found.len() + 2 * tokens.len() <= MAX_TOKENS {
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &tokens[at]);
            add_token(token, before, &hash, |hash| found.push(hash));
        }
    } else {
        collect_ends(tokens, &hash, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    Tokens { points: u8::try_from(points).unwrap_or(u8::MAX), hashes: found }
}

/// Adds the features and their pairs, in the order of the features, at most [`MAX_FEATURES`] in all.
fn collect_features(features: &[&str], hash: &impl Fn(&[u8]) -> u32, found: &mut Vec<u32>) {
    let mut bytes: Vec<u8> = Vec::new();
    for (at, name) in features.iter().enumerate() {
        bytes.clear();
        bytes.extend(name.as_bytes());
        bytes.push(END);
        found.push(hash(&bytes) & !WORD);
        let length = bytes.len();
        for other in &features[at + 1..] {
            bytes.truncate(length);
            bytes.extend(other.as_bytes());
            bytes.push(END);
            found.push(hash(&bytes) & !WORD);
        }
        if found.len() >= MAX_FEATURES {
            break;
        }
    }
    found.truncate(MAX_FEATURES);
}

/// Adds the words and links of a long text until there are [`MAX_TOKENS`]. Spam may begin like an honest
/// message, and end like one: half of the room is for either end.
fn collect_ends(tokens: &[Token<'_>], hash: &impl Fn(&[u8]) -> u32, found: &mut Vec<u32>) {
    let mut seen: HashSet<u32, BuildHasherDefault<TokenHasher>> = found.iter().copied().collect();
    let half = found.len() + (MAX_TOKENS - found.len()) / 2;
    let mut add = |at: usize, most: usize| {
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        add_token(&tokens[at], before, hash, |hash| {
            if found.len() < most && seen.insert(hash) {
                found.push(hash);
            }
        });
        found.len() < most
    };
    let mut read = 0;
    while read < tokens.len() && add(read, half) {
        read += 1;
    }
    // Add tokens from the end of the text backwards until the limit is reached. Include the token at `read`:
    // if the first half had room for only one of its two hashes, the other is still missing.
    let _ = (read..tokens.len()).rev().find(|at| !add(*at, MAX_TOKENS));
}

/// Terminates each hashed part, so that different sequences of parts never have the same hash input.
const END: u8 = 0xff;

/// Calls `add` with the hash of a word or of a link's domain, and with the hash of the pair of a word and the
/// word directly before it. Does nothing for a break.
fn add_token(
    token: &Token<'_>,
    before: Option<&Token<'_>>,
    hash: &impl Fn(&[u8]) -> u32,
    mut add: impl FnMut(u32),
) {
    match token {
        Token::Word(word) => {
            let mut pair = [END; 18];
            pair[9..17].copy_from_slice(&word.hash.to_le_bytes());
            add(hash(&pair[9..]) | WORD);
            if let Some(Token::Word(before)) = before {
                pair[..8].copy_from_slice(&before.hash.to_le_bytes());
                add(hash(&pair) | WORD);
            }
        }
        Token::Link(link) => {
            let domain = link.domain.to_ascii_lowercase();
            add(hash(&[b"link", &[END][..], domain.as_bytes(), &[END]].concat()) | WORD);
        }
        Token::Break => {}
    }
}
