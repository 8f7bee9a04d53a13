//! Splits texts into words, and hashes them.

use std::ops::RangeInclusive;

/// Lengths in characters of words that are worth keeping when a text is cut.
const LENGTHS: RangeInclusive<usize> = 3..=24;

/// The FNV-1a hash of a word in lower case. Two words with the same hash, which are rare, count as one word.
pub(super) type WordHash = u32;

const EMPTY: WordHash = 0x811c_9dc5;

fn add_to_hash(hash: WordHash, byte: u8) -> WordHash {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

/// Calls `found` with the hash of each word whose length is in [`LENGTHS`], and with the word, whose ASCII
/// letters may be in upper case. May report one occurrence of a word more than once. Leaves out text in
/// languages without spaces, which has no word boundaries to split at.
pub(super) fn for_each_word(text: &str, mut found: impl FnMut(WordHash, &str)) {
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut after_space = 0;
    loop {
        let (length, hash) = read_ascii_word(&bytes[start..]);
        let end = start + length;
        let next = bytes.get(end).copied();
        if next.is_none_or(|byte| byte.is_ascii()) {
            if LENGTHS.contains(&length) {
                found(hash, &text[start..end]);
            }
            let Some(next) = next else { return };
            start = end + 1;
            if next == b' ' {
                after_space = start;
            }
        } else {
            // Convert all text up to the next space at once: the lowercase form of a letter may depend on its
            // neighbors.
            let is_end = |pair: &[u8]| pair[0] == b' ' && pair[1].is_ascii();
            start = bytes[end..].windows(2).position(is_end).map_or(bytes.len(), |length| end + length);
            for word in words_of(&text[after_space..start].to_lowercase()) {
                found(word.bytes().fold(EMPTY, add_to_hash), word);
            }
        }
    }
}

/// ASCII letters, in lower case, and digits by their bytes; 0 for all other bytes.
const WORD_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            table[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// The length and the hash of the ASCII letters and digits at the beginning of a text. Case does not change
/// the hash.
fn read_ascii_word(text: &[u8]) -> (usize, WordHash) {
    let mut hash = EMPTY;
    for (length, byte) in text.iter().enumerate() {
        let lower = WORD_BYTES[usize::from(*byte)];
        if lower == 0 {
            return (length, hash);
        }
        hash = add_to_hash(hash, lower);
    }
    (text.len(), hash)
}

/// The words of a text with a length in [`LENGTHS`]. Skips words in scripts without spaces.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| LENGTHS.contains(&word.chars().count()) && !word.chars().any(is_unspaced))
}

/// Whether a character belongs to a script without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese.
fn is_unspaced(c: char) -> bool {
    let thai_and_lao = '\u{e00}'..='\u{eff}';
    let kana = '\u{3040}'..='\u{30ff}';
    let han = ['\u{3400}'..='\u{9fff}', '\u{20000}'..='\u{3ffff}'];
    let burmese_and_khmer = ['\u{1000}'..='\u{109f}', '\u{1780}'..='\u{17ff}'];
    [thai_and_lao, kana].iter().chain(&han).chain(&burmese_and_khmer).any(|script| script.contains(&c))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The distinct words that [`for_each_word`] reports, in lower case. Checks their hashes.
    fn distinct_words(text: &str) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut words = Vec::new();
        for_each_word(text, |hash, word| {
            let word = word.to_ascii_lowercase();
            assert_eq!(hash, word.bytes().fold(EMPTY, add_to_hash));
            if seen.insert(hash) {
                words.push(word);
            }
        });
        words
    }

    #[test]
    fn words_are_split_and_written_in_lower_case() {
        let text = "An Über-word, THE_End: foo'ΟΔΟΣ and'bar ΣΑΣ'Α 検索 ends";
        let expected = ["über", "word", "the", "end", "foo", "οδος", "and", "bar", "σασ", "ends"];
        assert_eq!(distinct_words(text), expected);
        assert_eq!(distinct_words(""), [""; 0]);
    }

    proptest! {
        #[test]
        fn words_equal_those_of_the_text_in_lower_case(text in "[a-zA-C0-9 '.äÄΣσİК検\u{301}-]{0,60}") {
            let lower = text.to_lowercase();
            let mut seen = HashSet::new();
            let expected: Vec<&str> = words_of(&lower).filter(|word| seen.insert(*word)).collect();
            prop_assert_eq!(distinct_words(&text), expected);
        }
    }
}
