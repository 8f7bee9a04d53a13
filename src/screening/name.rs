//! Whether a name is none: a web address, letters at random, or the same word in each field.

use crate::forms::parse::Entry;

use super::text::{Reader, Token};
use super::{Finding, Signal};

/// How many letters a word must have before its look says anything.
const LONG: usize = 9;

/// The strongest that any of the name's fields says.
pub(super) fn look(entry: &Entry) -> Option<Finding> {
    let names = ["name", "firstname", "lastname"].map(|field| entry.get(field));
    let addresses = names.iter().flatten().any(|name| is_address(name));
    if addresses {
        return Finding::new(Signal::Name, 100, || "web address for a name".to_owned());
    }
    let same = |a: Option<&str>, b: Option<&str>| a.is_some() && a.map(str::trim) == b.map(str::trim);
    let company = entry.get("company");
    if same(names[1], names[2]) && same(names[1], company) {
        return Finding::new(Signal::Name, 100, || {
            "one word for first name, last name and company".to_owned()
        });
    }
    if names.iter().flatten().any(|name| name.split_whitespace().any(is_gibberish)) {
        return Finding::new(Signal::Name, 100, || "letters at random for a name".to_owned());
    }
    let halves = if same(names[1], names[2]) { 50 } else { 0 };
    Finding::new(Signal::Name, halves, || "one word for first name and last name".to_owned())
}

fn is_address(name: &str) -> bool {
    Reader::new(name).any(|token| matches!(token, Token::Link(_)))
}

/// Whether a text has nothing but letters at random, with links or without.
pub(super) fn is_random(text: &str) -> bool {
    let mut words = text.split_whitespace().filter(|word| !is_address(word)).peekable();
    words.peek().is_some() && words.all(is_gibberish)
}

/// Seen from its letters alone, which must be ASCII: hardly a vowel, or capitals all over a word. Names of
/// Slavic and Germanic languages have long runs of consonants, but not without a vowel for seven letters.
fn is_gibberish(word: &str) -> bool {
    if word.len() < LONG || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let vowels = word.bytes().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    let rises =
        word.as_bytes().windows(2).filter(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase()).count();
    vowels * 7 < word.len() || rises >= 3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::forms::CONTACT;
    use crate::forms::parse::parse;

    #[test]
    fn a_text_is_random_if_all_of_its_words_are() {
        for (text, expected) in [
            ("", false),
            ("https://example.com/", false),
            ("QwXrTbNmLkPzVd", true),
            ("QwXrTbNmLkPzVd\nzxcvbnmqw https://example.com/", true),
            ("QwXrTbNmLkPzVd is my key", false),
            ("Hello", false),
            ("Rechtsschutzversicherung", false),
        ] {
            assert_eq!(is_random(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_names_in_many_languages() {
        for name in [
            "Ada",
            "Krzysztof Brzęczyszczykiewicz",
            "Hirschsprung",
            "Schwartzkopf",
            "Nguyễn Thị Minh",
            "Ng",
            "山田太郎",
            "Wojciechowski",
            "MacGregor-McDonald",
            "JEAN-PIERRE",
            "van der Bruggen",
            "O'Shaughnessy",
            "Bhattacharyya",
            "Vlk Strch",
            "Dr. med. Ph.D.",
            "مريم",
            "Platform Team",
            "MacDonaldFitzgerald",
            "Szczepański",
        ] {
            check(&json!({"name": name}), 0);
        }
    }

    #[test]
    fn web_addresses_and_random_letters_are_no_names() {
        for name in [
            "https://offers.example.com/x",
            "www.example.org",
            "Win at casino.example.com",
            "qwrtzplkjh",
            "aKdPeXoLqR",
            "xzbcdfghjklmno",
        ] {
            check(&json!({"name": name}), 100);
        }
        check(&json!({"name": "qwrtzplk"}), 0);
        check(&json!({"name": "bcdfghajkl"}), 100);
        check(&json!({"name": "bcdfgae"}), 0);
        check(&json!({"name": "qwrtzplkj"}), 100);
        // A vowel for seven letters is enough, and one for eight is not.
        check(&json!({"name": "bcdfghajklmnop"}), 0);
        check(&json!({"name": "bcdfghajklmnopq"}), 100);
        check(&json!({"name": "abCdeFghIjk"}), 100);
    }

    #[test]
    fn one_word_in_every_field_is_no_name() {
        check(&json!({"firstname": "Lenovix", "lastname": "Lenovix", "company": "Lenovix"}), 100);
        check(&json!({"firstname": "Thomas", "lastname": "Thomas", "company": "Example"}), 50);
        check(&json!({"firstname": "Ada", "lastname": "Example", "company": "Example"}), 0);
    }

    fn check(names: &serde_json::Value, percent: u32) {
        let mut body = names.clone();
        body["email"] = json!("a@example.com");
        if body.get("name").is_some() {
            body["message"] = json!("Hello");
        }
        let entry = parse(&CONTACT, body.to_string().as_bytes()).unwrap();
        assert_eq!(look(&entry).map_or(0, |finding| finding.percent), percent, "{names}");
    }
}
