//! How a text is worded: a linear model of its letter sequences, fitted to labeled texts of many languages
//! and trades (`examples/fit.rs`). It knows what phrases do not list: endings, punctuation, ways of speaking.

/// The binary logarithm of the number of weights.
const BITS: u32 = 15;
/// The lengths of the sequences, in characters, within a word with a space on both sides.
const MIN_LENGTH: usize = 3;
const MAX_LENGTH: usize = 5;
/// Texts with fewer distinct sequences say too little.
const MIN_SEQUENCES: u64 = 60;
/// Maximum length of a text that is read, in bytes: the beginning says how it is worded, and the work is
/// bounded.
const MAX_TEXT: usize = 8_000;

/// The weights, a signed byte each, by the hash of a sequence.
static WEIGHTS: &[u8; 1 << BITS] = include_bytes!("../lexicon/wording.bin");
/// How many of these make a unit of the logarithm of the odds.
pub const WEIGHT_UNIT: f64 = 16.0;

/// The hashes of the distinct sequences of a text, each below 2^15, in the order of their first occurrence.
pub fn sequences(text: &str) -> Vec<u16> {
    let mut found = Vec::new();
    visit([text], |sequence| found.push(sequence));
    found
}

/// Calls `see` with the hash of each distinct sequence of the texts.
fn visit<'a>(texts: impl IntoIterator<Item = &'a str>, mut see: impl FnMut(u16)) {
    let mut seen = [0u64; (1 << BITS) / 64];
    let mut budget = MAX_TEXT;
    for text in texts {
        let text = &text[..text.floor_char_boundary(budget)];
        budget -= text.len();
        // Links are a feature of their own.
        for part in text.split_whitespace().filter(|part| !part.contains("://") && !part.starts_with("www."))
        {
            let mut word = Letters::default();
            word.add(' ', &mut seen, &mut see);
            for c in part.chars() {
                match c {
                    c if c.is_ascii_digit() => word.add('0', &mut seen, &mut see),
                    c if c.is_ascii() => word.add(c.to_ascii_lowercase(), &mut seen, &mut see),
                    c if c.is_numeric() => word.add('0', &mut seen, &mut see),
                    c => c.to_lowercase().for_each(|c| word.add(c, &mut seen, &mut see)),
                }
            }
            word.add(' ', &mut seen, &mut see);
        }
    }
}

/// The hashes of the sequences that end at the last character of a word, by their start.
#[derive(Default)]
struct Letters {
    /// The running hashes of the sequences that began 0 to 4 characters ago, the newest first.
    hashes: [u32; MAX_LENGTH],
    length: usize,
}

impl Letters {
    fn add(&mut self, c: char, seen: &mut [u64], see: &mut impl FnMut(u16)) {
        self.hashes.copy_within(..MAX_LENGTH - 1, 1);
        self.hashes[0] = 0;
        self.length += 1;
        for (at, hash) in self.hashes.iter_mut().enumerate().take(self.length) {
            *hash = (hash.rotate_left(5) ^ u32::from(c)).wrapping_mul(0x9e37_79b1);
            if at + 1 >= MIN_LENGTH {
                let sequence = *hash >> (u32::BITS - BITS);
                let (place, bit) = (sequence as usize / 64, 1 << (sequence % 64));
                if seen[place] & bit == 0 {
                    seen[place] |= bit;
                    see(sequence as u16);
                }
            }
        }
    }
}

/// The logarithm of the odds that these texts are an offer, in hundredths; `None` if they are too short to
/// say. Integers give the same result on every machine.
pub(super) fn odds<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<i32> {
    let (mut count, mut sum) = (0u64, 0i64);
    visit(texts, |sequence| {
        count += 1;
        sum += i64::from(WEIGHTS[usize::from(sequence)].cast_signed());
    });
    if count < MIN_SEQUENCES {
        return None;
    }
    let root = i64::try_from((count * 10_000).isqrt()).unwrap_or(i64::MAX);
    // A weight of 16 is a unit, and the root is in hundredths.
    i32::try_from(sum * 100 * 100 / 16 / root).ok()
}
