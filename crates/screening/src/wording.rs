//! How a text is worded: a linear model of its letter sequences, fitted to labelled texts of many languages and
//! trades (`examples/fit.rs`). It knows what phrases do not list: endings, punctuation, ways of speaking.

/// The binary logarithm of the number of weights.
const BITS: u32 = 15;
/// The lengths of the sequences, in characters, within a word with a space on both sides.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=5;
/// Texts with fewer distinct sequences say too little.
const MIN_SEQUENCES: usize = 60;
/// Maximum length of a text that is read, in bytes: the beginning says how it is worded, and the work is bounded.
const MAX_TEXT: usize = 8_000;

/// The weights, a signed byte each, by the hash of a sequence.
static WEIGHTS: &[u8; 1 << BITS] = include_bytes!("../lexicon/wording.bin");
/// How many of these make a unit of the logarithm of the odds.
pub const WEIGHT_UNIT: f64 = 16.0;

/// The hashes of the distinct sequences of a text, sorted; each is below 2^15.
pub fn sequences(text: &str) -> Vec<u16> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    let mut found = Vec::with_capacity(text.len() * 3);
    let mut word: Vec<u32> = Vec::new();
    for part in text.split_whitespace() {
        word.clear();
        word.push(u32::from(' '));
        for c in part.chars().flat_map(char::to_lowercase) {
            word.push(u32::from(if c.is_numeric() { '0' } else { c }));
        }
        word.push(u32::from(' '));
        for start in 0..word.len() {
            let mut hash = 0u32;
            for (at, c) in word[start..].iter().take(*LENGTHS.end()).enumerate() {
                hash = (hash.rotate_left(5) ^ c).wrapping_mul(0x9e37_79b1);
                let is_whole = word.len() < *LENGTHS.start() && at + 1 == word.len();
                if LENGTHS.contains(&(at + 1)) || is_whole {
                    found.push(u16::try_from(hash >> (u32::BITS - BITS)).unwrap_or_default());
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The logarithm of the odds that a text with these sequences is an offer, in hundredths; `None` if the text is too
/// short to say. Integers give the same result on every machine.
pub(super) fn odds(sequences: &[u16]) -> Option<i32> {
    if sequences.len() < MIN_SEQUENCES {
        return None;
    }
    let sum: i64 = sequences.iter().map(|at| i64::from(WEIGHTS[usize::from(*at)].cast_signed())).sum();
    let root = i64::try_from((sequences.len() as u64 * 10_000).isqrt()).unwrap_or(i64::MAX);
    // A weight of 16 is a unit, and the root is in hundredths.
    i32::try_from(sum * 100 * 100 / 16 / root).ok()
}
