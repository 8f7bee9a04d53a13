//! How a text is worded: a linear model of its letter sequences, fitted to labeled texts of many languages
//! and trades (`examples/fit.rs`). It covers what phrases do not list: endings, punctuation, turns of phrase.

/// The binary logarithm of the number of weights.
const BITS: u32 = 15;
/// Maximum length of the sequences, in characters, within a word with a space on both sides. The minimum is
/// three.
const MAX_LENGTH: usize = 5;
/// A text with fewer distinct letter sequences than this is too short to be judged.
const MIN_SEQUENCES: u64 = 60;
/// Maximum total length of the texts that are read, in bytes. The beginning shows how they are worded, and
/// the limit bounds the work.
const MAX_TEXT: usize = 8_000;

/// The names of messengers, which the wording leaves out. Most of the labeled texts with such a name are
/// offers, so its sequences alone would outweigh those of a short enquiry.
pub(super) const MESSENGERS: [&str; 5] = ["whatsapp", "telegram", "viber", "wechat", "телеграм"];

/// The first letters of [`MESSENGERS`].
const FIRST_LETTERS: [u32; 4] = ['w' as u32, 't' as u32, 'v' as u32, 'т' as u32];

/// The weight of each letter sequence, as a signed byte at the index of the sequence's 15-bit hash.
static WEIGHTS: &[u8; 1 << BITS] = include_bytes!("../lexicon/wording.bin");
/// The weight that stands for one unit of log-odds.
pub const WEIGHT_UNIT: f64 = 16.0;

/// The 15-bit hashes of the distinct sequences of letters in a text, in the order in which they begin.
pub fn sequences(text: &str) -> Vec<u16> {
    let mut found = Vec::new();
    visit([text], |sequence| found.push(sequence));
    found
}

/// Calls `see` once with each 15-bit hash of the sequences of three to five characters in the texts. Only the
/// first and the last character of a sequence may be a space.
fn visit<'a>(texts: impl IntoIterator<Item = &'a str>, mut see: impl FnMut(u16)) {
    let letters = read_letters(texts);
    let mut seen = [0u64; (1 << BITS) / 64];
    let mut note = |hash: u32| {
        let sequence = hash >> (u32::BITS - BITS);
        let (place, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        if seen[place] & bit == 0 {
            seen[place] |= bit;
            see(sequence as u16);
        }
    };
    let extend = |hash: u32, c: u32| (hash.rotate_left(5) ^ c).wrapping_mul(0x9e37_79b1);
    for window in letters.windows(MAX_LENGTH) {
        let [first, second, third, fourth, fifth] = *window else { continue };
        if second == SPACE {
            continue;
        }
        let hash = extend(extend(extend(0, first), second), third);
        note(hash);
        if third == SPACE {
            continue;
        }
        let hash = extend(hash, fourth);
        note(hash);
        if fourth != SPACE {
            note(extend(hash, fifth));
        }
    }
}

/// The character that separates words, and precedes the first word.
const SPACE: u32 = b' ' as u32;

/// The folded characters of the texts' words, with a space between words and several at the end. Leaves out
/// links and the names of messengers, which are features of their own, and what exceeds [`MAX_TEXT`] in all.
fn read_letters<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
    let mut letters = vec![SPACE];
    let mut budget = MAX_TEXT;
    for text in texts {
        let text = &text[..text.floor_char_boundary(budget)];
        budget -= text.len();
        letters.reserve(text.len() + MAX_LENGTH);
        let mut rest = text;
        while let Some((before, after)) = split_at_link(rest) {
            read_words(before, &mut letters);
            rest = after;
        }
        read_words(rest, &mut letters);
    }
    drop_messengers(&mut letters);
    letters.extend([SPACE; MAX_LENGTH]);
    letters
}

/// Removes the names of messengers with their endings, also within words of scripts without spaces. `letters`
/// begins with a space.
fn drop_messengers(letters: &mut Vec<u32>) {
    let is_letter = |c: &u32| *c < 0x600 && char::from_u32(*c).is_some_and(char::is_alphabetic);
    let begins = |rest: &[u32], name: &str| {
        let mut rest = rest.iter();
        name.chars().all(|c| rest.next() == Some(&u32::from(c)))
    };
    let is_name = |letters: &[u32], at: usize| {
        FIRST_LETTERS.contains(&letters[at])
            && !is_letter(&letters[at - 1])
            && MESSENGERS.iter().any(|name| begins(&letters[at..], name))
    };
    let latin = u32::from('a')..=u32::from('z');
    let mut from = 1;
    // Skip positions after a Latin letter, where no messenger's name begins. This rules out most positions.
    while let Some(at) = letters[from - 1..]
        .windows(2)
        .zip(from..)
        .find(|(pair, at)| !latin.contains(&pair[0]) && is_name(letters, *at))
        .map(|(_, at)| at)
    {
        let name = letters[at..].iter().take_while(|c| is_letter(c)).count();
        // If the messenger's name is a whole word, also remove one of the two spaces around it.
        let is_word = letters[at - 1] == SPACE && letters.get(at + name) == Some(&SPACE);
        letters.drain(at..at + name + usize::from(is_word));
        from = at;
    }
}

/// The text before the first link with a scheme, and the text after it. The link extends to white space on
/// both sides. `None` if there is no such link.
fn split_at_link(text: &str) -> Option<(&str, &str)> {
    let (colon, _) = text.match_indices(':').find(|(at, _)| text[at + 1..].starts_with("//"))?;
    let (before, link) = text.split_at(colon);
    Some((before.trim_end_matches(is_in_word), link.trim_start_matches(is_in_word)))
}

fn is_in_word(c: char) -> bool {
    !c.is_whitespace()
}

/// Appends the words of a text in lower case, with `0` for each digit and a space after each word. Skips
/// words that begin with `www.`; the text must have no links with a scheme.
fn read_words(text: &str, letters: &mut Vec<u32>) {
    let bytes = text.as_bytes();
    let mut at = skip_address(text, 0);
    while at < bytes.len() {
        // Append a run of ASCII characters at once: `extend` then checks the capacity only once for the run.
        let is_in_run = |byte: &&u8| FOLDED[usize::from(**byte)] < WHITE;
        let run = &bytes[at..at + bytes[at..].iter().take_while(is_in_run).count()];
        letters.extend(run.iter().map(|byte| u32::from(FOLDED[usize::from(*byte)])));
        at += run.len();
        if bytes.get(at).is_some_and(u8::is_ascii) {
            end_word(letters);
            at = skip_address(text, at + 1);
            continue;
        }
        let Some(c) = text[at..].chars().next() else { break };
        at += c.len_utf8();
        if c.is_whitespace() {
            end_word(letters);
            at = skip_address(text, at);
        } else if c.is_numeric() {
            letters.push(u32::from(b'0'));
        } else {
            letters.extend(c.to_lowercase().map(u32::from));
        }
    }
    end_word(letters);
}

/// The end of the word at byte `at` if it begins with `www.`; otherwise `at`.
fn skip_address(text: &str, at: usize) -> usize {
    if !text.as_bytes()[at..].get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"www.")) {
        return at;
    }
    text.len() - text[at..].trim_start_matches(is_in_word).len()
}

/// Appends a space, unless `letters` already ends with a space.
fn end_word(letters: &mut Vec<u32>) {
    if letters.last() != Some(&SPACE) {
        letters.push(SPACE);
    }
}

/// The value in [`FOLDED`] for white space; [`NOT_ASCII`] is the value for bytes outside of ASCII.
const WHITE: u8 = 0xfe;
const NOT_ASCII: u8 = 0xff;

/// ASCII characters in lower case, with `0` for each digit.
const FOLDED: [u8; 256] = {
    let mut folded = [NOT_ASCII; 256];
    let mut byte = 0;
    while byte < 0x80 {
        folded[byte as usize] = match byte {
            b'\t'..=b'\r' | b' ' => WHITE,
            b'0'..=b'9' => b'0',
            byte => byte.to_ascii_lowercase(),
        };
        byte += 1;
    }
    folded
};

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
    // Divide by `WEIGHT_UNIT` (16) and by the square root of the count. `root` is in hundredths.
    i32::try_from(sum * 100 * 100 / 16 / root).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distinct hashes of these sequences.
    fn hashes(sequences: &[&str]) -> Vec<u16> {
        let mut found: Vec<u16> = Vec::new();
        for sequence in sequences {
            let hash = sequence
                .chars()
                .fold(0u32, |hash, c| (hash.rotate_left(5) ^ u32::from(c)).wrapping_mul(0x9e37_79b1));
            let hash = (hash >> 17) as u16;
            if !found.contains(&hash) {
                found.push(hash);
            }
        }
        found
    }

    #[test]
    fn sequences_have_three_to_five_characters_of_one_word() {
        let words = [" ab", " ab ", "ab ", " x "];
        for text in [
            "ab x",
            "  AB\n\tx ",
            "ab\u{a0}ab\u{2003}X",
            "ab http://x.y x",
            "www.x.y ab x www.",
            "\u{3000}www.ä ab x",
        ] {
            assert_eq!(sequences(text), hashes(&words), "{text}");
        }
        let long =
            [" gr", " grü", " grün", "grü", "grün", "grün0", "rün", "rün0", "rün0 ", "ün0", "ün0 ", "n0 "];
        for text in ["grün7", "GRÜN٣", "a://b grün1"] {
            assert_eq!(sequences(text), hashes(&long), "{text}");
        }
        for text in ["", " https://www.example.com/ www.example.com"] {
            assert!(sequences(text).is_empty(), "{text}");
        }
        // A scheme in the middle of a word makes it a link; `www.` counts only at the beginning.
        assert_eq!(sequences("(x://y) a:b"), hashes(&[" a:", " a:b", " a:b ", "a:b", "a:b ", ":b "]));
        assert_eq!(sequences("(www.").len(), 5 + 4 + 3);
        let is_listed = |name: &&str| FIRST_LETTERS.contains(&name.chars().next().unwrap().into());
        assert!(MESSENGERS.iter().all(is_listed));
        for text in ["ab WhatsApp x", "Viber ab whatsappu telegram x ТЕЛЕГРАМе"] {
            assert_eq!(sequences(text), hashes(&words), "{text}");
        }
        assert_eq!(sequences("(請whatsapp回)"), sequences("(請回)"));
    }

    #[test]
    fn only_the_beginning_of_long_texts_is_read() {
        let begin = "ö".repeat(MAX_TEXT / 2);
        assert_eq!(sequences(&format!("{begin}abc def")), sequences(&begin));
        assert_eq!(odds(["short text"]), None);
    }
}
