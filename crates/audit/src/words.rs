//! Compares texts by their words and phrases, so that markup and punctuation do not count.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Maximum number of words of a phrase.
const MAX_PHRASE_WORDS: usize = 3;

/// The words of a text: runs of letters and digits, in lower case. In scripts without spaces, such as
/// Chinese, each character is a word. Soft hyphens and characters without width are ignored.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        if matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}') {
            continue;
        }
        let is_word = has_no_spaces(c);
        if (is_word || !c.is_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.extend(c.to_lowercase()));
            if is_word {
                words.push(String::new());
            }
        }
    }
    words.pop_if(|word| word.is_empty());
    words
}

/// Whether a character is Thai, Lao, Burmese, Khmer, Chinese, Japanese or Yi: their scripts are written
/// without spaces between words. Rarer ones, such as Javanese, count as written with spaces.
fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{312f}' | '\u{3190}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The phrases of one to three words that occur in texts.
pub(crate) struct PhraseSet(HashSet<u64>);

impl PhraseSet {
    /// Reads texts in order. A phrase may begin in one text and end in the next.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> PhraseSet {
        let words: Vec<String> = texts.into_iter().flat_map(words).collect();
        let phrases = (1..=MAX_PHRASE_WORDS).flat_map(|length| words.windows(length));
        PhraseSet(phrases.map(hash).collect())
    }

    /// The percentage of a text's phrases that occur here, from 0 to 100, rounded down; 100 for a text
    /// without words. The phrases have three words, or all words of a shorter text.
    pub fn percentage(&self, text: &str) -> usize {
        let words = words(text);
        if words.is_empty() {
            return 100;
        }
        let phrases = words.windows(MAX_PHRASE_WORDS.min(words.len()));
        let count = phrases.len();
        phrases.filter(|phrase| self.0.contains(&hash(phrase))).count() * 100 / count
    }
}

fn hash(phrase: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    phrase.hash(&mut hasher);
    hasher.finish()
}

/// The first `count` words of a text with single spaces, at most 160 characters, followed by `…` if there are
/// more words. A cut after 160 characters has no mark. Leaves out the mark of a notice, such as `[!NOTE]`.
pub(crate) fn excerpt(text: &str, count: usize) -> String {
    let text = text.strip_prefix("[!").and_then(|rest| rest.split_once(']')).map_or(text, |(_, text)| text);
    let mut parts = text.split_whitespace();
    let start: Vec<_> = parts.by_ref().take(count).collect();
    let start: String = start.join(" ").chars().take(160).collect();
    if parts.next().is_some() { format!("{start} …") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_ignore_case_punctuation_and_invisible_characters() {
        assert_eq!(words("“Don’t” stop, Co\u{ad}operate: x_1"), ["don", "t", "stop", "cooperate", "x", "1"]);
        assert_eq!(words("中文 ab한국"), ["中", "文", "ab한국"]);
        assert_eq!(words("かな ㅋㅋ ꜣꜣ"), ["か", "な", "ㅋㅋ", "ꜣꜣ"]);
        assert!(words(" … ").is_empty());
    }

    #[test]
    fn a_percentage_counts_phrases_in_order() {
        let phrases = PhraseSet::new(["One two three.", "four five"]);
        for (text, expected) in [
            ("two three four", 100),
            ("two, one", 0),
            ("five", 100),
            ("", 100),
            ("one two three four six", 66),
        ] {
            assert_eq!(phrases.percentage(text), expected, "{text}");
        }
    }

    #[test]
    fn an_excerpt_ends_after_some_words() {
        assert_eq!(excerpt("a  b\nc", 2), "a b …");
        assert_eq!(excerpt("a b", 2), "a b");
    }
}
