//! The text of a search, which is compared with the fields and notes of submissions.

use std::collections::HashMap;

use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::values;
use crate::store::error::StoreError;
use crate::submission::parse_fields;
use frontdesk_forms::FieldValue;
use frontdesk_forms::search_query_words::search_words;
use frontdesk_forms::text::{fold, folded, single_spaced};

/// Words to find in the fields and notes of submissions, in the form of [`fold`]: regardless of case and
/// diacritics. All of them must occur, in any order, also as parts of longer words. White space in phrases
/// matches any white space, such as a line break. An internationalized domain also occurs as Punycode, and a
/// telephone number as its digits, because fields store them so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchText {
    /// The spellings of each word. A text matches if it contains every word in at least one spelling.
    words: Vec<Vec<String>>,
}

impl SearchText {
    /// Splits a text at white space; words between double quotes stay together. Removes punctuation and
    /// `mailto:` around words outside quotes, and ignores words beyond the first 16. Fails if there is no
    /// word.
    pub fn parse(text: &str) -> Result<SearchText, &'static str> {
        let words = search_words(text);
        (!words.is_empty()).then_some(SearchText { words }).ok_or("it has no letter or digit to search for")
    }

    /// The byte offset in `value` of the first match of any of the words. Matches parts of longer words, too.
    pub fn find(&self, value: &str) -> Option<usize> {
        let begins = |word: &str, at: usize| {
            let mut rest = single_spaced(folded(&value[at..]));
            word.chars().all(|c| rest.next() == Some(c))
        };
        let any_begins = |at: usize| self.words.iter().flatten().any(|word| begins(word, at));
        // A match begins with a character that is compared. So a long run of marks is skipped once, not from
        // each mark in it.
        let is_compared = |c: char| folded(c.encode_utf8(&mut [0; 4])).next().is_some();
        value.char_indices().find(|(at, c)| is_compared(*c) && any_begins(*at)).map(|(at, _)| at)
    }

    /// Whether each word is in a field or in `notes`, which may be several notes joined by spaces.
    pub fn are_in(&self, fields: &[(String, FieldValue)], notes: &str) -> bool {
        self.are_in_folded(fields, &comparable(notes))
    }

    /// Like [`SearchText::are_in`], for notes that `comparable` has converted already.
    fn are_in_folded(&self, fields: &[(String, FieldValue)], notes: &str) -> bool {
        let texts: Vec<String> = fields.iter().map(|(_, value)| comparable(&value.display())).collect();
        let is_found = |word: &str| notes.contains(word) || texts.iter().any(|text| text.contains(word));
        self.words.iter().all(|spellings| spellings.iter().any(|word| is_found(word)))
    }

    /// Whether each word is in a field of a JSON object or in the notes. Overwrites `buffer`, which is reused
    /// to save allocations. Fails if the JSON has to be parsed and is damaged.
    pub(super) fn are_in_json(
        &self,
        json: &str,
        notes: &str,
        buffer: &mut String,
    ) -> Result<bool, StoreError> {
        // Exclude most submissions without parsing them. JSON escapes backslashes, quotation marks and line
        // breaks, so skip words with a backslash or a quotation mark, and look for the words of a phrase one
        // by one.
        buffer.clear();
        // The only ASCII characters that `fold` replaces are capital letters and the grave accent.
        if json.is_ascii() && !json.contains('`') {
            buffer.push_str(json);
            buffer.make_ascii_lowercase();
        } else {
            buffer.push_str(&fold(json));
        }
        let notes = comparable(notes);
        let is_missing =
            |word: &str| !word.contains(['\\', '"']) && !buffer.contains(word) && !notes.contains(word);
        let may_occur = |phrase: &str| !phrase.split(' ').any(is_missing);
        if !self.words.iter().all(|spellings| spellings.iter().any(|phrase| may_occur(phrase))) {
            return Ok(false);
        }
        Ok(self.are_in_folded(&parse_fields(json.as_bytes()).map_err(StoreError::Damaged)?, &notes))
    }
}

/// Applies [`fold`] to a text, and replaces each run of white space with a space.
fn comparable(text: &str) -> String {
    single_spaced(fold(text).chars()).collect()
}

impl InboxReader {
    /// The notes of a submission, joined by spaces.
    pub(super) fn note_text(&self, id: Uuid) -> Result<String, StoreError> {
        let texts: Vec<String> =
            self.sql.column("SELECT text FROM note WHERE submission = ?1", values![id])?;
        Ok(texts.join(" "))
    }

    /// The notes of all submissions that have some, joined by spaces.
    pub fn note_texts(&self) -> Result<HashMap<Uuid, String>, StoreError> {
        let notes = "SELECT submission, string_agg(text, ' ') AS notes FROM note GROUP BY submission";
        self.sql
            .query(notes, &[])?
            .iter()
            .map(|row| Ok((row.get("submission")?, row.get("notes")?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_must_occur_in_a_field_or_a_note() {
        let message = "Price \\ of a \"water\npump\"? السَّلامُ  عليكم\r\n\u{a0}for\tus";
        let fields = [
            ("name".to_owned(), FieldValue::from("Zo\u{eb} M\u{fc}ller")),
            ("message".to_owned(), FieldValue::from(message)),
        ];
        let check = |text: &str, expected: bool| {
            let words = SearchText::parse(text).unwrap();
            assert_eq!(words.are_in(&fields, "Called  back"), expected, "{text}");
            let json = serde_json::json!({"name": "Zo\u{eb} M\u{fc}ller", "message": message});
            let found = words.are_in_json(&json.to_string(), "Called  back", &mut String::new()).unwrap();
            assert_eq!(found, expected, "{text}");
        };
        for text in [
            "muller price",
            "PUMP zoe called",
            "\"of a\"",
            "pri ump",
            "\\ price",
            "\"of a",
            "price \"\"",
            "\"called back\"",
            "\"water pump\"",
            "\"  Water \n pump",
            "\"السلام عليكم for us\"",
            "\"\\ of a\"",
        ] {
            check(text, true);
        }
        for text in
            ["muller prize", "\"a of\"", "message", "called zoo", "\"price of\"", "pump\\", "\"pump water\""]
        {
            check(text, false);
        }
        check("muller, (price)?", true);
        for text in ["", ",", " \n", "\"\"", "\" \" ", "?", "!!! (?)"] {
            assert!(SearchText::parse(text).is_err(), "{text}");
        }
        assert_eq!(SearchText::parse("M\u{fc}ll pump").unwrap().find("a Pump for Muller"), Some(2));
        assert_eq!(SearchText::parse("\"a pump").unwrap().find("not \u{ad}\u{301}a \r\n\tpump"), Some(8));
        let address = [("email".to_owned(), FieldValue::from("ada@xn--bcher-kva.example"))];
        for (text, expected) in [
            ("b\u{fc}cher.example", true),
            ("ada@B\u{dc}CHER.example,", true),
            ("xn--bcher-kva", true),
            ("bucher.example", false),
            ("\"b\u{fc}cher.example\"", false),
        ] {
            let words = SearchText::parse(text).unwrap();
            assert_eq!(words.are_in(&address, ""), expected, "{text}");
            let json = "{\"email\":\"ada@xn--bcher-kva.example\"}";
            assert_eq!(words.are_in_json(json, "", &mut String::new()).unwrap(), expected, "{text}");
            assert!(
                text.starts_with('x')
                    || words.are_in(&[], "von b\u{fc}cher.example f\u{fc}r ada@b\u{fc}cher.example")
            );
        }
        assert_eq!(SearchText::parse(&"a ".repeat(99)).unwrap().words.len(), 16);
    }

    /// Checks which searches find a value, also in JSON.
    fn check_searches(value: &str, searches: &[(&str, bool)]) {
        let fields = [("message".to_owned(), FieldValue::from(value))];
        let json = serde_json::json!({"message": value}).to_string();
        for (text, expected) in searches {
            let words = SearchText::parse(text).unwrap();
            assert_eq!(words.are_in(&fields, ""), *expected, "{text}");
            assert_eq!(words.are_in_json(&json, "", &mut String::new()).unwrap(), *expected, "{text}");
        }
    }

    #[test]
    fn marks_around_words_do_not_count_and_all_quotes_make_phrases() {
        for text in [
            "«blue pump»",
            "« blue pump »",
            "»blue pump«",
            "„blue pump“",
            "“blue pump” now",
            "「blue pump」",
            "｢blue pump｣",
            "＂blue pump＂",
            "'blue pump'",
            "‘blue pump’",
            "‹blue pump›",
            "blue pump…",
            "blue – pump",
            "*blue* pump-",
            "{blue} <pump> | ~now",
            "pump！",
            "¿pump?",
            "pump。",
            "pump、 blue",
            "blue، pump؟",
            "pump।",
        ] {
            check_searches("We need the blue pump now", &[(text, true)]);
        }
        let phrases = ["“pump blue”", "«pump blue»", "『pump blue』"];
        check_searches("We need the blue pump now", &phrases.map(|text| (text, false)));
        let searches = [
            ("c++", true),
            ("c+++", false),
            ("c#", true),
            ("r&d", true),
            ("👍", true),
            ("🎉 5", false),
            ("100%", true),
            ("1000%", false),
            ("@ada", true),
            ("€", true),
            ("§7", true),
            ("a_b_", false),
        ];
        check_searches("C++ C# R&D 👍 100% @ada 5 € §7 a_b", &searches);
        for text in ["…", "-", "«»", "'*'", "。"] {
            assert!(SearchText::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_found_as_mail_programs_copy_them() {
        let searches = [
            ("Ada Byron <ada@visitor.example>", true),
            ("\"Ada Byron\" <ada@visitor.example>", true),
            ("<ada@visitor.example>,", true),
            ("mailto:ada@visitor.example", true),
            ("<MAILTO:ada@visitor.example>", true),
            ("Byron, Ada", true),
            ("mailto:eva@visitor.example", false),
            ("\"Eva Byron\" <ada@visitor.example>", false),
        ];
        check_searches("Ada Byron ada@visitor.example", &searches);
        check_searches("ada@xn--bcher-kva.example", &[("<mailto:ada@bücher.example>", true)]);
    }

    #[test]
    fn hebrew_acronyms_have_any_quotation_mark() {
        let searches = [
            ("בע\"מ", true),
            ("בע\u{5f4}מ", true),
            ("בע\"מ נמל", true),
            ("\u{5f4}נמל\u{5f4}", true),
            ("\"נמל בע\"מ\"", true),
            ("בע\u{5f4}ל", false),
        ];
        for mark in ["\"", "\u{5f4}"] {
            check_searches(&format!("נמל בע{mark}מ"), &searches);
        }
        check_searches("צ\u{5f3}יפס", &[("צ'יפס", true)]);
    }

    #[test]
    fn telephone_numbers_are_found_as_they_are_written() {
        let written = [
            ("0171/5550123", true),
            ("0171 555 01 23", true),
            ("0171-555-0123", true),
            ("(0171) 5550123", true),
            ("0171 / 555 01 – 23,", true),
            ("1715550123", true),
            ("5550123", true),
            ("555-01-23", true),
            ("0171 555-01-23 pump", false),
            ("0171/5550124", false),
            ("0172 5550123", false),
        ];
        for stored in ["01715550123", "+491715550123", "+491715550123;ext=7"] {
            check_searches(stored, &written);
        }
        let searches = [
            ("+49 171 555-0123", true),
            ("+49 (0)171 5550123", true),
            ("+49 0171 5550123", true),
            ("0049 171 5550123", true),
            ("tel:+49-171-5550123", true),
            ("+44 171 5550123", false),
        ];
        check_searches("+491715550123", &searches);
        // Words of digits are also compared as they are.
        let searches = [("2026-05-12", true), ("12 4711", true), ("10.000", true), ("12.05.2026", false)];
        check_searches("from 2026-05-12 to 4711, 10.000 and 12", &searches);
    }
}
