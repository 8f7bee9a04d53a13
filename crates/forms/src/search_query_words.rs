//! Divides the text of a search into words, each with the spellings in which a field may store it.

use crate::email::ascii_spelling;
use crate::telephone::telephone_number;
use crate::text::{fold, folded, single_spaced};

/// Maximum number of words; further ones are ignored.
const MAX_WORDS: usize = 16;

/// Punctuation to remove from both ends of each word outside quotes, after [`fold`] has normalized the word.
const PUNCTUATION: &str = ",;:!?.'\"*()[]{}<>|~-\
    \u{a1}\u{bf}\u{2022}\u{589}\u{60c}\u{61b}\u{61f}\u{6d4}\u{964}\u{965}\u{3001}\u{3002}\u{30fb}\
    \u{2039}\u{203a}\u{3008}\u{3009}\u{300a}\u{300b}\u{3010}\u{3011}\u{3014}\u{3015}\
    \u{5be}\u{5c3}\u{104a}\u{104b}\u{1362}\u{17d4}\u{17d5}";

/// Characters other than `"` that open or close a phrase: double quotation marks and corner brackets.
const QUOTES: &[char] = &[
    '\u{ab}', '\u{bb}', '\u{201c}', '\u{201d}', '\u{201e}', '\u{201f}', '\u{300c}', '\u{300d}', '\u{300e}',
    '\u{300f}', '\u{301d}', '\u{301e}', '\u{301f}', '\u{ff02}', '\u{ff62}', '\u{ff63}',
];

/// The words of a search in the form of [`fold`], at most 16, each with its spellings: an internationalized
/// domain also as Punycode, and a telephone number as its digits. Splits the text at white space; words
/// between double quotes stay together. Removes punctuation and `mailto:` around words outside quotes.
pub fn search_words(text: &str) -> Vec<Vec<String>> {
    let mut words = Vec::new();
    let parts = split_at_quotes(text);
    // An unclosed `"` extends to the end of the text. Other marks do not, because `24”` is a size in inches.
    let last = text.len() - parts.last().map_or(0, |part| part.len());
    let is_open = parts.len().is_multiple_of(2) && text[..last].ends_with('"');
    let closed = if is_open { parts.len() } else { parts.len() - 1 };
    for (at, part) in parts.into_iter().enumerate() {
        // Parts with an odd index are between quotes.
        if at % 2 == 1 && at < closed {
            words.push(vec![single_spaced(fold(part).trim().chars()).collect()]);
        } else {
            words.extend(words_with_spellings(part));
        }
    }
    words.retain(|word: &Vec<String>| !word[0].is_empty());
    words.truncate(MAX_WORDS);
    words
}

/// Splits a text at `"` and [`QUOTES`]. A mark between two Hebrew letters belongs to an acronym.
fn split_at_quotes(text: &str) -> Vec<&str> {
    let is_hebrew = |c: Option<char>| matches!(c, Some('\u{5d0}'..='\u{5ea}'));
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, mark) in text.match_indices(|c| c == '"' || QUOTES.contains(&c)) {
        let end = at + mark.len();
        if !(is_hebrew(text[..at].chars().next_back()) && is_hebrew(text[end..].chars().next())) {
            parts.push(&text[begin..at]);
            begin = end;
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// The words of a text without quotes, each with its spellings, the folded word first. Consecutive words of
/// digits and signs that together may be a telephone number also have its digits as a spelling. Leaves out
/// words that are only punctuation.
fn words_with_spellings(text: &str) -> Vec<Vec<String>> {
    let bare = |word: &str| word.trim_matches(is_punctuation).to_owned();
    let may_be_in_number =
        |word: &str| fold(&bare(word)).chars().all(|c| c.is_ascii_digit() || "+().-/[]".contains(c));
    let words: Vec<&str> = text.split_whitespace().collect();
    let runs = words.chunk_by(|first, second| may_be_in_number(first) && may_be_in_number(second));
    let spellings = runs.flat_map(|run| {
        let digits = significant_digits(&bare(&run.join(" ")));
        let words = run.iter().map(|word| without_mailto(&bare(word)).to_owned());
        words.filter(|word| !word.is_empty()).map(move |word| {
            let others = ascii_spelling(&word).map(|word| fold(&word)).into_iter().chain(digits.clone());
            std::iter::once(fold(&word)).chain(others).collect()
        })
    });
    spellings.collect()
}

/// Whether [`fold`] turns the character into [`PUNCTUATION`]. Also true for invisible characters, which it
/// removes.
fn is_punctuation(c: char) -> bool {
    folded(c.encode_utf8(&mut [0; 4])).all(|c| PUNCTUATION.contains(c))
}

/// An address without the scheme of a link to it, and without fields of the message, such as `?subject=Hi`
/// (RFC 6068).
fn without_mailto(word: &str) -> &str {
    match word.split_once(':') {
        Some((scheme, link)) if scheme.eq_ignore_ascii_case("mailto") => {
            link.split_once('?').map_or(link, |(address, _)| address)
        }
        _ => word,
    }
}

/// The digits of a telephone number, at least five, as in its normal form and without zeros at the beginning.
/// They occur in the national and in the international form of a national number. `None` with an extension,
/// because dimensions such as `12000x2500` look like one.
fn significant_digits(text: &str) -> Option<String> {
    let number = telephone_number(text).filter(|number| !number.contains(';'))?;
    let digits = number.trim_start_matches(['+', '0']);
    (digits.len() >= 5).then(|| digits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_an_address_stands_for_the_address() {
        for (text, expected) in [
            ("mailto:ada@visitor.example", "ada@visitor.example"),
            ("mailto:ada@visitor.example?subject=Hi&body=x", "ada@visitor.example"),
            ("<MAILTO:ada@visitor.example?subject=Hi>", "ada@visitor.example"),
            ("ada@visitor.example?", "ada@visitor.example"),
            ("note:why?", "note:why"),
            ("a?b", "a?b"),
        ] {
            assert_eq!(search_words(text), [[expected]], "{text}");
        }
        assert_eq!(search_words("mailto:?subject=Hi"), [[""; 0]; 0]);
    }
}
