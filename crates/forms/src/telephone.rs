//! The normal form of telephone numbers.

use crate::text::{ascii_digit, is_blank};

/// The characters that may separate the digits of a number.
const SEPARATORS: &str = " ().-/[]";

/// The words and signs before an extension such as `ext. 12`, in lower case. A word comes before all words
/// that it begins with: `extn` before `ext`.
const EXTENSION_MARKS: [&str; 25] = [
    "extension",
    "extensión",
    "extn",
    "ext",
    "x",
    "#",
    "interno",
    "int",
    "anexo",
    "ramal",
    "poste",
    "toestel",
    "durchwahl",
    "dw",
    "wewn",
    "wew",
    "linka",
    "dahili",
    "доб",
    "вн",
    "转",
    "轉",
    "内線",
    "內線",
    "내선",
];

/// The country codes after which the zero in `(0)` is dialed from abroad as well: Italy, San Marino, the
/// Vatican, Côte d'Ivoire, Gabon and Congo.
const CODES_WITH_ZERO: [&str; 6] = ["39", "378", "379", "225", "241", "242"];

/// Country codes after which no number begins with a zero, and where people write national numbers with a
/// zero: the trunk prefix, which is not dialed from abroad.
const CODES_WITH_TRUNK_ZERO: [&str; 98] = [
    "20", "27", "31", "32", "33", "40", "41", "43", "44", "46", "49", "51", "54", "55", "57", "58", "60",
    "61", "62", "63", "64", "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98", "211",
    "212", "213", "218", "231", "232", "233", "234", "243", "249", "250", "251", "252", "254", "255", "256",
    "260", "261", "262", "263", "264", "265", "291", "353", "355", "358", "359", "370", "373", "374", "377",
    "380", "381", "382", "383", "385", "386", "387", "389", "421", "590", "591", "593", "594", "595", "596",
    "598", "855", "856", "880", "886", "961", "962", "963", "964", "966", "967", "970", "971", "972", "976",
    "977", "994", "995", "996",
];

/// The trunk prefixes other than a zero: the country code, the prefix, and the fewest and the most digits of
/// the national numbers after it. The number of digits tells the prefix from the beginning of a number:
/// `+7 800 5553535` is whole.
const TRUNK_PREFIXES: [(&str, &str, usize, usize); 6] = [
    ("36", "06", 8, 9),
    ("7", "8", 10, 10),
    ("375", "80", 9, 9),
    ("375", "8", 9, 9),
    ("370", "8", 8, 8),
    ("52", "01", 10, 10),
];

/// The ASCII character that means the same in a number, or else the character. Blank characters
/// ([`is_blank`]) become spaces, including invisible ones: address books add them to numbers that people
/// copy. Control characters, such as tabs and line feeds, stay.
pub(crate) fn to_ascii_in_number(c: char) -> char {
    match c {
        c if c.is_ascii() || c.is_control() => c,
        c if is_blank(c) => ' ',
        // Dashes, and the prolonged sound mark that Japanese keyboards type instead of a dash.
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{30fc}' | '\u{fe58}' | '\u{fe63}' | '－' | '\u{ff70}' => {
            '-'
        }
        '＋' => '+',
        '（' => '(',
        '）' => ')',
        // The full-width full stop, and raised dots such as the bullet.
        '．' | '·' | '•' | '・' => '.',
        '／' => '/',
        '＃' => '#',
        '：' => ':',
        '，' => ',',
        c => ascii_digit(c).unwrap_or(c),
    }
}

/// The normal form of a telephone number: an optional `+`, 5 to 15 digits, and `;ext=` with an extension (RFC
/// 3966). Blanks, dashes, dots, `/`, parentheses and brackets may separate digits. `tel` may precede the
/// number. A `+` may follow it, as in texts from right to left. Digits become ASCII. After the code of a
/// country whose national numbers begin with a zero that is not dialed from abroad, drops a single zero, and
/// after some codes another trunk prefix, such as the 8 of Russia; after other codes, drops `(0)`, unless the
/// country dials it. `None` if the text is no telephone number, or has a control character such as a tab. Two
/// numbers with a slash between them become one, because local numbers are written like this, too.
pub fn telephone_number(text: &str) -> Option<String> {
    let text: String = text.chars().map(to_ascii_in_number).collect();
    let is_separator = |c: char| SEPARATORS.contains(c);
    let text = text.trim_start_matches(is_separator);
    let text = match text.get(..3) {
        Some(word) if word.eq_ignore_ascii_case("tel") => {
            text[3..].trim_start_matches(|c| is_separator(c) || c == ':')
        }
        _ => text,
    };
    let (has_plus, rest) = match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && !is_separator(c)).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    let written = number.bytes().filter(u8::is_ascii_digit).count();
    let is_international = has_plus || after.trim_end_matches(is_separator) == "+";
    if !(5..=15).contains(&written) {
        return None;
    }
    let after = after.trim_end_matches(is_separator);
    let extension = if matches!(after, "" | "+") { None } else { Some(read_extension(after)?) };
    let mut normal = if is_international { "+".to_owned() } else { String::new() };
    normal.push_str(&without_trunk_prefix(dialed_digits(number, is_international), is_international));
    if let Some(extension) = extension {
        normal.extend([";ext=", extension]);
    }
    Some(normal)
}

/// The digits of a number. Drops the zero in `(0)` or `[0]` after a country code, unless callers from abroad
/// dial this zero, or fewer than five digits would remain. A country code has one to three digits, does not
/// begin with a zero, and stands at the start of the number or after `00`.
fn dialed_digits(number: &str, is_international: bool) -> String {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let all = digits(number);
    let compact = number.replace(' ', "").replace("[0]", "(0)");
    let Some((before, after)) = compact.split_once("(0)") else { return all };
    let before = digits(before);
    let code = if is_international { Some(&*before) } else { before.strip_prefix("00") };
    let is_code = |code: &str| (1..=3).contains(&code.len()) && !code.starts_with('0');
    match code {
        // In `+38 (0)44`, the zero belongs to the code +380.
        Some(code) if CODES_WITH_TRUNK_ZERO.contains(&&*format!("{code}0")) => all,
        Some(code) if is_code(code) && !CODES_WITH_ZERO.contains(&code) && all.len() > 5 => {
            before + &digits(after)
        }
        _ => all,
    }
}

/// The digits without one of [`TRUNK_PREFIXES`], or a single zero after one of [`CODES_WITH_TRUNK_ZERO`].
/// The country code is at the start of the number or after `00`. Keeps the zero if fewer than five digits
/// would remain.
fn without_trunk_prefix(digits: String, is_international: bool) -> String {
    let rest = if is_international { Some(&*digits) } else { digits.strip_prefix("00") };
    let Some(rest) = rest else { return digits };
    let after_prefix = |(code, prefix, least, most): &(&str, &str, usize, usize)| {
        let national = rest.strip_prefix(code)?.strip_prefix(prefix)?;
        (*least..=*most).contains(&national.len()).then_some((national, prefix.len()))
    };
    let after_zero = || {
        let national = CODES_WITH_TRUNK_ZERO.iter().find_map(|code| rest.strip_prefix(code))?;
        let national = national.strip_prefix('0').filter(|rest| !rest.starts_with('0'))?;
        (digits.len() > 5).then_some((national, 1))
    };
    match TRUNK_PREFIXES.iter().find_map(after_prefix).or_else(after_zero) {
        Some((national, dropped)) => digits[..digits.len() - national.len() - dropped].to_owned() + national,
        None => digits,
    }
}

/// The digits of an extension, at most six, after one of [`EXTENSION_MARKS`] in upper or lower case. A comma
/// or a semicolon may precede the mark, and a dot, a colon, `=` and blanks follow it. Instead of a mark,
/// commas or semicolons alone, which address books dial as pauses, may precede at most five digits and a `#`:
/// six may be another number.
fn read_extension(text: &str) -> Option<&str> {
    let are_digits = |digits: &str, most: usize| {
        (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let after_pause = text.trim_start_matches([',', ';']);
    let dialed = after_pause.strip_suffix('#').unwrap_or(after_pause);
    if after_pause.len() < text.len() && are_digits(dialed, 5) {
        return Some(dialed);
    }
    let text = text.strip_prefix([',', ';']).map_or(text, |rest| rest.trim_start_matches(' '));
    let after = EXTENSION_MARKS.iter().find_map(|mark| strip_mark(text, mark))?;
    let digits = after.trim_start_matches([' ', '.', ':', '=']);
    are_digits(digits, 6).then_some(digits)
}

/// Removes `mark`, which is in lower case, from the start of `text`, ignoring case. `None` if `text` does not
/// begin with it.
fn strip_mark<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let end = text.char_indices().nth(mark.chars().count()).map_or(text.len(), |(at, _)| at);
    let (start, rest) = text.split_at(end);
    (start.to_lowercase() == mark).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn telephone_numbers_have_one_form() {
        check(&[
            ("+49 30 123456", Some("+4930123456")),
            ("+49 (0)30 / 12 34-56", Some("+4930123456")),
            ("030 123456", Some("030123456")),
            ("(555) 010-9999", Some("5550109999")),
            ("+1 555.010.9999 x12", Some("+15550109999;ext=12")),
            (" +44 20 7946 0000 ext. 7 ", Some("+442079460000;ext=7")),
            ("1234", None),
            ("+49 30 1234567890123456", None),
            ("+1 (0) 234", Some("+10234")),
            ("call me", None),
            ("030 123456 x", None),
            ("030 123456 7 y", None),
            ("030\t123456", None),
            ("+49\u{a0}30\u{202f}123456", Some("+4930123456")),
            ("\u{202a}+49 30 123456\u{202c}", Some("+4930123456")),
            ("\u{feff}030–12\u{2011}34\u{2212}56\u{200b}", Some("030123456")),
            ("＋４９（０）３０／１２．３４ー５６", Some("+4930123456")),
            ("٠٣٠١٢٣٤٥٦", Some("030123456")),
            ("०३० १२३४५६ x७", Some("030123456;ext=7")),
            ("(+44) 20 7946 0958", Some("+442079460958")),
            ("(+49)30/123456", Some("+4930123456")),
            ("[+49] 30·123456", Some("+4930123456")),
            ("tel:+493012345", Some("+493012345")),
            ("Tel.: 030 123456", Some("030123456")),
            ("966501234567+", Some("+966501234567")),
            ("+966501234567+", Some("+966501234567")),
            ("030 123456 Ext. 12", Some("030123456;ext=12")),
            ("030 123456, EXT:5", Some("030123456;ext=5")),
            ("030 123456 (ext. 5)", Some("030123456;ext=5")),
            ("030 123456X12", Some("030123456;ext=12")),
            ("030 123456 #12", Some("030123456;ext=12")),
            ("030 123456 доб. 123", Some("030123456;ext=123")),
            ("030 123456 ДОБ 123", Some("030123456;ext=123")),
            ("01 23 45 67 89 poste 12", Some("0123456789;ext=12")),
            ("+86 10 1234 5678 转 123", Some("+861012345678;ext=123")),
            ("030 123456 or 654321", None),
            ("030 123456, 654321", None),
            ("030 123456 ext 1234567", None),
            ("030 123456+7", None),
            ("telex 030 123456", None),
            ("tel tel 030 123456", None),
        ]);
    }

    #[test]
    fn trunk_prefixes_and_extensions_are_recognized() {
        check(&[
            ("+39 (0)6 12345678", Some("+390612345678")),
            ("(+39) (0)6 12345678", Some("+390612345678")),
            ("+378 (0)549 903549", Some("+3780549903549")),
            ("+225 (0)7 12 34 56 78", Some("+2250712345678")),
            ("0039 (0)6 12345678", Some("00390612345678")),
            ("(0044) (0)20 7946 0958", Some("00442079460958")),
            ("(0)30 123456", Some("030123456")),
            ("+(0)30 123456", Some("+030123456")),
            ("(0)30 12345+", Some("+03012345")),
            ("00(0)30 123456", Some("00030123456")),
            ("+0(0)30 123456", Some("+0030123456")),
            ("+4930 (0)123456", Some("+49300123456")),
            ("+995 (0)32 123456", Some("+99532123456")),
            ("030 12345²", None),
            ("030 12345①", None),
            ("+47 [0] 22123456", Some("+4722123456")),
            ("+47 ( 0 )22123456", Some("+4722123456")),
            ("555 1234 / 555 4321", Some("55512345554321")),
            ("033056 / 123456", Some("033056123456")),
            ("49244 / 123456", Some("49244123456")),
            ("+49 4101 / 123456", Some("+494101123456")),
            ("0049 33056 / 123456", Some("004933056123456")),
            ("+1 555 010 9999,,123#", Some("+15550109999;ext=123")),
            ("+1 555 010 9999;123", Some("+15550109999;ext=123")),
            ("555-010-9999,12", Some("5550109999;ext=12")),
            ("030 123456,654321", None),
            ("030 123456, 12", None),
            ("030 123456#", None),
            ("030 123456 DW 12", Some("030123456;ext=12")),
            ("22 123 45 67 wew. 12", Some("221234567;ext=12")),
            ("600 123 456 Extensión 12", Some("600123456;ext=12")),
            ("0212 123 45 67 dahili 12", Some("02121234567;ext=12")),
            ("02 123456 interno 5", Some("02123456;ext=5")),
        ]);
    }

    /// Checks the normal form of each text, and that it is its own normal form. `None`: no telephone number.
    fn check(cases: &[(&str, Option<&str>)]) {
        for &(text, expected) in cases {
            assert_eq!(telephone_number(text).as_deref(), expected, "{text}");
            if let Some(normal) = expected {
                assert_eq!(telephone_number(normal).as_deref(), expected, "the normal form is its own");
            }
        }
    }

    #[test]
    fn the_national_zero_is_dropped_after_a_country_code() {
        for (text, expected) in [
            ("+49 (030) 123456", Some("+4930123456")),
            ("+44 (020) 7946 0958", Some("+442079460958")),
            ("+41 (044) 364 35 33", Some("+41443643533")),
            ("+33 06 12 34 56 78", Some("+33612345678")),
            ("+44 07911 123456", Some("+447911123456")),
            ("+49-0-30-123456", Some("+4930123456")),
            ("+49 030123456", Some("+4930123456")),
            ("0049 030 123456", Some("004930123456")),
            ("+353 01 234 5678", Some("+35312345678")),
            ("+380 044 123 45 67", Some("+380441234567")),
            ("044 030 123456", Some("044030123456")),
            ("+49 00 30 123456", Some("+490030123456")),
            ("+49 (0)030 123456", Some("+4930123456")),
            ("+49 01", None),
            ("+49 012", Some("+49012")),
            ("+39 06 12345678", Some("+390612345678")),
            ("+225 07 12 34 56 78", Some("+2250712345678")),
            ("+229 01 97 12 34 56", Some("+2290197123456")),
            ("+241 (06) 12 34 56", Some("+24106123456")),
            ("+7 0951 123456", Some("+70951123456")),
            ("+1 020 7946 0958", Some("+102079460958")),
            ("+243 081 234 5678", Some("+243812345678")),
            ("+591 0 71234567", Some("+59171234567")),
            ("+36 06 30 123 4567", Some("+36301234567")),
            ("+36 (06) 1 234 5678", Some("+3612345678")),
            ("+36 06 12345", Some("+360612345")),
            ("+7 (8) 495 123-45-67", Some("+74951234567")),
            ("007 8 495 123-45-67", Some("0074951234567")),
            ("+7 800 555-35-35", Some("+78005553535")),
            ("+375 8 029 123-45-67", Some("+375291234567")),
            ("+375 (8029) 123-45-67", Some("+375291234567")),
            ("+375 800 111 111", Some("+375800111111")),
            ("+370 8 612 34567", Some("+37061234567")),
            ("+370 8 5 123456", Some("+37085123456")),
            ("+52 01 55 1234 5678", Some("+525512345678")),
        ] {
            assert_eq!(telephone_number(text).as_deref(), expected, "{text}");
            if let Some(normal) = expected {
                assert_eq!(telephone_number(normal).as_deref(), expected, "the normal form is its own");
            }
        }
    }

    proptest! {
        #[test]
        fn normal_forms_are_their_own(number in r" ?\+?[ 0-9().x/-]{4,24}(\(0\))?[0-9]{0,4}(,? ?Ext[.:]? ?[0-9]{1,7}|\+)?") {
            let number = telephone_number(&number);
            prop_assert_eq!(number.as_deref().and_then(telephone_number), number);
        }
    }
}
