//! Values of fields, the checks of each kind, and the normal form of web addresses.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use unicode_normalization::UnicodeNormalization as _;

use crate::consent_refusal::says_no;
use crate::email::{Mailbox, posted_address, with_ascii_domain};
use crate::telephone::{telephone_number, to_ascii_in_number};
use crate::text::is_blank;
use crate::{Field, FieldKind};

/// The schemes that a web address may have, including `://`.
const WEB_SCHEMES: [&str; 2] = ["http://", "https://"];

/// The largest integer that all JSON libraries represent exactly, 2^53 - 1.
pub(crate) const LARGEST: f64 = 9_007_199_254_740_991.0;

/// The value of a field, with its JSON type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    Text(String),
    Number(Number),
    Flag(bool),
    List(Vec<String>),
}

impl FieldValue {
    /// The text of a string value; `None` for numbers, flags and lists.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            FieldValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether `self` equals `expected`, or is a list that contains `expected`. `1` and `1.0` are equal.
    pub fn has(&self, expected: &FieldValue) -> bool {
        match (self, expected) {
            (FieldValue::List(options), FieldValue::Text(expected)) => options.contains(expected),
            (FieldValue::Number(given), FieldValue::Number(expected)) => given.as_f64() == expected.as_f64(),
            _ => self == expected,
        }
    }

    /// Formats the value for people: integers without decimals, `yes` for a consent, and options separated by
    /// commas; by semicolons if an option contains a comma, and by ` | ` if one also contains a semicolon.
    pub fn display(&self) -> Cow<'_, str> {
        match self {
            FieldValue::Text(text) => Cow::Borrowed(text),
            FieldValue::Number(number) => Cow::Owned(number.to_string()),
            FieldValue::Flag(flag) => Cow::Borrowed(if *flag { "yes" } else { "no" }),
            FieldValue::List(texts) => {
                let has = |mark| texts.iter().any(|text| text.contains(mark));
                let separator = match (has(','), has(';')) {
                    (false, _) => ", ",
                    (true, false) => "; ",
                    (true, true) => " | ",
                };
                Cow::Owned(texts.join(separator))
            }
        }
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> FieldValue {
        FieldValue::Text(text.to_owned())
    }
}

impl Field {
    /// The normal form of a value that submissions may have in this field; for [`FieldKind::Choices`], of one
    /// option, as text. `None` if no submission has the value.
    pub fn normal_value(&self, value: &FieldValue) -> Option<FieldValue> {
        let checked = match (self.kind, value) {
            (FieldKind::Number, FieldValue::Number(number)) => check_number(self, number),
            (FieldKind::Consent, FieldValue::Flag(true)) => return Some(FieldValue::Flag(true)),
            (FieldKind::Choices, FieldValue::Text(text)) => {
                return option_index(self, text).map(|index| FieldValue::from(self.options[index]));
            }
            (FieldKind::Number | FieldKind::Consent | FieldKind::Choices, _) => return None,
            (_, FieldValue::Text(text)) => check_string(self, text.clone()),
            _ => return None,
        };
        checked.ok().flatten()
    }

    /// Like [`Field::normal_value`], for a value that is written as text, such as `5` or `true`.
    pub fn value_of_text(&self, text: &str) -> Option<FieldValue> {
        match self.kind {
            FieldKind::Choices => self.normal_value(&FieldValue::from(text)),
            _ => check_text(self, text).ok().flatten(),
        }
    }

    /// Like [`Field::value_of_text`], but for the value of a control in an HTML form.
    pub fn value_of_control(&self, text: &str) -> Option<FieldValue> {
        match self.kind {
            FieldKind::Choices => self.value_of_text(text),
            _ => check_posted(self, text).ok().flatten(),
        }
    }
}

/// Why a field's value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Missing,
    /// The field is required and has no visible characters.
    Empty,
    /// The value has this JSON type, which is not the field's type.
    WrongType(&'static str),
    /// The text has this many characters, more than the field's maximum.
    TooLong(usize),
    NotAnAddress,
    /// The text would be an address if its internationalized domain were in Punycode.
    NonAsciiDomain,
    ControlCharacter,
    Nul,
    /// The string has an unpaired surrogate.
    HalfCharacter,
    /// The value has the right JSON type, but is not one of the values that the field accepts.
    NotAccepted,
}

/// Checks a text that a visitor has typed or a page has set, as a value of the field. Besides what
/// [`check_text`] accepts:
///
/// - numbers and days have digits of any script, and decimals may follow a comma;
/// - a tab in a single line is a space: cells that are copied from a table have tabs between them;
/// - e-mail addresses are converted by [`posted_address`];
/// - a scheme alone (`https://`), which pages put into empty controls, is an empty web address;
/// - a consent may have any value that does not say no ([`says_no`]), or is the field's name or label (`No
///   calls`): a browser sends the value of a ticked box only.
///
/// Refuses whole numbers with three digits after a point, and all numbers with three digits after a comma:
/// many visitors write thousands so.
pub(crate) fn check_posted(field: &Field, text: &str) -> Result<Option<FieldValue>, Vec<Problem>> {
    let checked = match field.kind {
        FieldKind::Email => check_string(field, posted_address(text)),
        FieldKind::Url if is_scheme(text) => check_string(field, String::new()),
        FieldKind::Number | FieldKind::Date => {
            let text: String = text.trim_matches(is_blank).chars().map(to_ascii_in_number).collect();
            let decimals = text.split_once('.').map_or(0, |(_, digits)| digits.len());
            if field.kind == FieldKind::Number && !field.is_decimal && decimals == 3 {
                return Err(vec![Problem::NotAccepted]);
            }
            let is_decimal_comma = field.is_decimal
                && text
                    .split_once(',')
                    .is_some_and(|(before, after)| !before.contains('.') && after.len() != 3);
            check_text(field, &if is_decimal_comma { text.replacen(',', ".", 1) } else { text })
        }
        FieldKind::Text => check_string(field, text.replace('\t', " ")),
        _ => check_text(field, text),
    };
    match checked {
        Err(problems) if field.kind == FieldKind::Consent && problems == [Problem::NotAccepted] => {
            let is_refused = says_no(text) && !is_named(field, text);
            if is_refused { absent(field) } else { Ok(Some(FieldValue::Flag(true))) }
        }
        checked => checked,
    }
}

/// Whether the text is the name or the label of the field, ignoring case, blanks and punctuation.
fn is_named(field: &Field, text: &str) -> bool {
    let letters = |text: &str| text.to_lowercase().nfc().filter(|c| c.is_alphanumeric()).collect::<String>();
    [field.name, field.label].map(letters).contains(&letters(text))
}

/// Whether the text is only `http://` or `https://`, in any case and with blanks around it.
fn is_scheme(text: &str) -> bool {
    let text = text.trim_matches(is_blank);
    WEB_SCHEMES.iter().any(|scheme| text.eq_ignore_ascii_case(scheme))
}

/// Whether the text of a control has a visible character and, for a web address, more than a scheme.
pub(crate) fn is_filled_in(field: &Field, text: &str) -> bool {
    !(text.chars().all(is_blank) || field.kind == FieldKind::Url && is_scheme(text))
}

/// Checks a value that is written as text, such as one in a definition, as a value of the field; for
/// [`FieldKind::Choices`], a list of one option. `None` if the field is optional and the text is blank, or
/// says no to a consent (`off`, `false`, `no` or `0`).
pub(crate) fn check_text(field: &Field, text: &str) -> Result<Option<FieldValue>, Vec<Problem>> {
    match field.kind {
        FieldKind::Number | FieldKind::Consent | FieldKind::Choices if text.chars().all(is_blank) => {
            absent(field)
        }
        FieldKind::Number => match text.trim_matches(is_blank).parse::<f64>().ok().and_then(number_from) {
            Some(number) => check_number(field, &number),
            None => Err(vec![Problem::NotAccepted]),
        },
        FieldKind::Consent => match text.trim_matches(is_blank) {
            "on" | "true" | "yes" | "1" => Ok(Some(FieldValue::Flag(true))),
            "off" | "false" | "no" | "0" => absent(field),
            _ => Err(vec![Problem::NotAccepted]),
        },
        FieldKind::Choices => check_list(field, &[text.to_owned()]),
        FieldKind::Date => check_string(field, text.trim_matches(is_blank).to_owned()),
        _ => check_string(field, text.to_owned()),
    }
}

/// The result for a field without a value: a problem if the field is required, otherwise `None`.
pub(crate) fn absent(field: &Field) -> Result<Option<FieldValue>, Vec<Problem>> {
    if field.required { Err(vec![Problem::Missing]) } else { Ok(None) }
}

/// `value` as a JSON number: an integer if it is whole and below 9e15 in absolute value. `None` for infinity
/// and NaN.
#[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53 is exact")]
pub(crate) fn number_from(value: f64) -> Option<Number> {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    }
}

impl Field {
    /// The value of the field's control when the page loads; may be empty, except for a hidden field.
    pub fn initial_value(&self) -> &'static str {
        match self.kind {
            FieldKind::Hidden if self.default.is_empty() => self.options.first().copied().unwrap_or_default(),
            _ => self.default,
        }
    }

    /// The smallest and the largest number or day as text; empty if there is no such limit, and for fields of
    /// other kinds.
    pub fn limits(&self) -> [String; 2] {
        let number = |bound: f64| if bound.abs() < LARGEST { bound.to_string() } else { String::new() };
        match self.kind {
            FieldKind::Date => self.days.map(str::to_owned),
            FieldKind::Number => self.bounds.map(number),
            _ => Default::default(),
        }
    }
}

/// Checks that a JSON number is within the field's bounds, and whole unless decimal places are permitted.
/// `1.0` becomes `1`.
pub(crate) fn check_number(field: &Field, number: &Number) -> Result<Option<FieldValue>, Vec<Problem>> {
    let [least, most] = field.bounds;
    let value = number
        .as_f64()
        .filter(|value| (least..=most).contains(value) && (field.is_decimal || value.fract() == 0.0));
    match value.and_then(number_from) {
        Some(number) => Ok(Some(FieldValue::Number(number))),
        None => Err(vec![Problem::NotAccepted]),
    }
}

/// Converts a number of options or characters to the type of [`Field::bounds`].
pub(crate) fn to_bound(length: usize) -> f64 {
    u32::try_from(length).map_or(f64::INFINITY, f64::from)
}

/// The index of an option. Compares canonically equivalent texts (NFC), because the page of a form may have
/// been written on a system that decomposes letters such as `é`.
fn option_index(field: &Field, text: &str) -> Option<usize> {
    let same = field.options.iter().position(|option| *option == text);
    let equivalent = || field.options.iter().position(|option| option.nfc().eq(text.nfc()));
    same.or_else(|| if text.is_ascii() { None } else { equivalent() })
}

/// Checks a list of options, and puts them into the order of the definition. An empty list counts as absent
/// if the field needs no option. Refuses repeated options, and too few or too many.
pub(crate) fn check_list(field: &Field, texts: &[String]) -> Result<Option<FieldValue>, Vec<Problem>> {
    if texts.is_empty() && field.bounds[0] == 0.0 {
        return Ok(None);
    }
    let places = texts.iter().map(|text| option_index(field, text)).collect::<Option<Vec<usize>>>();
    let Some(mut places) = places else {
        return Err(vec![Problem::NotAccepted]);
    };
    places.sort_unstable();
    let sent = places.len();
    places.dedup();
    let [least, most] = field.bounds;
    if places.len() != sent || !(least..=most).contains(&to_bound(sent)) {
        return Err(vec![Problem::NotAccepted]);
    }
    Ok(Some(FieldValue::List(places.into_iter().map(|place| field.options[place].to_owned()).collect())))
}

/// Checks the value of a field whose JSON type is a string. Telephone numbers and web addresses get their
/// normal form, and an option the spelling of the definition; other texts are not changed. `None` if the text
/// is blank and not required. A blank text that is too long or, in a field of [`FieldKind::Text`], has a
/// control character is still an error.
pub(crate) fn check_string(field: &Field, text: String) -> Result<Option<FieldValue>, Vec<Problem>> {
    let mut problems = Vec::new();
    // A string never has more characters than bytes, so most values need no counting.
    if field.kind.is_written() && text.len() > field.max_chars {
        let chars = text.chars().count();
        if chars > field.max_chars {
            problems.push(Problem::TooLong(chars));
        }
    }
    let is_empty = text.chars().all(is_blank);
    let mut normal = None;
    problems.extend(match field.kind {
        FieldKind::Email if is_empty && !field.required => None,
        FieldKind::Email if Mailbox::parse(&text).is_some() => None,
        FieldKind::Email if Mailbox::parse(&with_ascii_domain(&text)).is_some() => {
            Some(Problem::NonAsciiDomain)
        }
        FieldKind::Email => Some(Problem::NotAnAddress),
        _ if is_empty && field.required => Some(Problem::Empty),
        FieldKind::Text => text.contains(char::is_control).then_some(Problem::ControlCharacter),
        FieldKind::Multiline => text.contains('\0').then_some(Problem::Nul),
        _ if is_empty => None,
        kind => {
            normal = match kind {
                FieldKind::Tel => telephone_number(&text),
                FieldKind::Url => web_address(&text),
                FieldKind::Date => is_day(&text, field.days).then(|| text.clone()),
                _ => option_index(field, &text).map(|index| field.options[index].to_owned()),
            };
            normal.is_none().then_some(Problem::NotAccepted)
        }
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok((!is_empty).then(|| FieldValue::Text(normal.unwrap_or(text))))
}

/// Whether the text is a day `YYYY-MM-DD` of the years 1000 to 9999 that exists, from `first` to `last`. An
/// empty bound does not limit.
pub(crate) fn is_day(text: &str, [first, last]: [&str; 2]) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: &usize| bytes[*at].is_ascii_digit();
    let is_written_so = bytes.len() == 10
        && [0, 1, 2, 3, 5, 6, 8, 9].iter().all(digit)
        && (bytes[4], bytes[7]) == (b'-', b'-')
        && bytes[0] != b'0';
    is_written_so && text.parse::<Date>().is_ok() && text >= first && (last.is_empty() || text <= last)
}

/// The normal form of a web address (URL Standard): `https://` is added where the scheme is missing, names
/// are in lowercase and internationalized ones in Punycode. `None` if the text is no address of the web, such
/// as a name without a dot, or has a user's name or a password. Drops blank and invisible characters at both
/// ends, which people copy with addresses.
pub fn web_address(text: &str) -> Option<String> {
    let text = text.trim_matches(|c| is_blank(c) && !c.is_control());
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return None;
    }
    let has_scheme = WEB_SCHEMES
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let whole = if has_scheme { Cow::Borrowed(text) } else { Cow::Owned(format!("https://{text}")) };
    let (_, rest) = whole.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if !is_authority(authority) {
        return None;
    }
    let url = url::Url::parse(&whole).ok()?;
    // Check the host again: normalization can produce forbidden characters, such as a parenthesis.
    url.host_str().is_some_and(is_authority).then(|| url.to_string())
}

/// Whether the text is a name with a dot or an IPv6 address in brackets, and possibly a port. The URL
/// Standard accepts more: users' names, escapes, and names without a dot, which `mailto:x` also contains.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rfind(':') {
        Some(at) if !text.ends_with(']') => (&text[..at], Some(&text[at + 1..])),
        _ => (text, None),
    };
    let is_port =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_label =
        |label: &str| label.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c) || !c.is_ascii());
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.rsplit_once('.').is_some_and(|(labels, last)| {
            is_label(last) && labels.split('.').all(|label| !label.is_empty() && is_label(label))
        }),
    };
    is_host && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn web_addresses_have_one_form() {
        for (text, expected) in [
            ("example.com", Some("https://example.com/")),
            ("HTTP://Example.COM:80/a?b#c", Some("http://example.com/a?b#c")),
            ("bücher.example", Some("https://xn--bcher-kva.example/")),
            ("https://social.example/@ada", Some("https://social.example/@ada")),
            ("https://[2001:db8::1]:8080", Some("https://[2001:db8::1]:8080/")),
            ("https:///example.com", None),
            ("//example.com", None),
            ("https://@example.com", None),
            ("https://example.com:", None),
            ("https://%65xample.com", None),
            ("1", None),
            ("a..example", None),
            ("a\u{ff08}.example", None),
            ("bücher。example.", Some("https://xn--bcher-kva.example./")),
            ("javascript:alert(1)", None),
            ("mailto:ada@example.com", None),
            ("https://ada:secret@example.com/", None),
            ("ftp://example.com/", None),
            ("localhost", None),
            ("a b.example", None),
            ("\u{202a}https://example.com/a\u{202c}", Some("https://example.com/a")),
            ("\u{feff}\u{2068}example.com/d\u{2069}\u{a0}", Some("https://example.com/d")),
            ("https://example.com/?x=1\u{200b}\u{2060}\u{ad}", Some("https://example.com/?x=1")),
            (
                "https://example.com/می\u{200c}خواهم",
                Some("https://example.com/%D9%85%DB%8C%E2%80%8C%D8%AE%D9%88%D8%A7%D9%87%D9%85"),
            ),
            ("\texample.com", None),
            ("", None),
        ] {
            assert_eq!(web_address(text).as_deref(), expected, "{text}");
            if let Some(normal) = expected {
                assert_eq!(web_address(normal).as_deref(), expected, "the normal form is its own");
            }
        }
    }

    proptest! {
        #[test]
        fn normal_forms_are_their_own(
            address in r"(https?:/{1,3})?[a-c.:\[\]@%/\\0-9。（é_#?-]{1,14}",
        ) {
            let address = web_address(&address);
            prop_assert_eq!(address.as_deref().and_then(web_address), address);
        }
    }

    #[test]
    fn a_value_of_a_field_has_a_normal_form() {
        let text = "title = \"Book\"\n\
             [[field]]\nname = \"phone\"\ntype = \"tel\"\nlabel = \"Phone\"\n\
             [[field]]\nname = \"seats\"\ntype = \"number\"\nmin = 1\nmax = 9\nlabel = \"Seats\"\n\
             [[field]]\nname = \"days\"\ntype = \"choices\"\noptions = [\"Mon\", \"Tue\"]\nlabel = \"Days\"\n\
             [[field]]\nname = \"town\"\ntype = \"choice\"\noptions = [\"K\u{f6}ln\", \"Bonn\"]\nlabel = \"Town\"\n\
             [[field]]\nname = \"sides\"\ntype = \"choices\"\noptions = [\"C\u{f4}te\", \"Mo\u{302}n\"]\nlabel = \"Sides\"\n\
             [[field]]\nname = \"news\"\ntype = \"consent\"\nlabel = \"News\"\n";
        let form = crate::FormFile::read("book", text, "forms/book.toml").unwrap().form;
        let check = |name: &str, value: serde_json::Value, expected: Option<serde_json::Value>| {
            let value: FieldValue = serde_json::from_value(value).unwrap();
            let normal = form.field(name).unwrap().normal_value(&value);
            assert_eq!(normal.map(|value| serde_json::json!(value)), expected, "{name} {value:?}");
        };
        check("phone", "030 123456".into(), Some("030123456".into()));
        check("phone", "no".into(), None);
        check("phone", 30_123_456.into(), None);
        check("seats", 9.into(), Some(9.into()));
        check("seats", 9.0.into(), Some(9.into()));
        check("seats", 10.into(), None);
        check("seats", "9".into(), None);
        check("days", "Tue".into(), Some("Tue".into()));
        check("days", "Sun".into(), None);
        check("town", "Ko\u{308}ln".into(), Some("K\u{f6}ln".into()));
        check("town", "Koln".into(), None);
        let both = ["C\u{f4}te", "Mo\u{302}n"].map(str::to_owned);
        let decomposed = ["Co\u{302}te", "M\u{f4}n"].map(str::to_owned);
        let list = check_list(form.field("sides").unwrap(), &decomposed).unwrap();
        assert_eq!(list, Some(FieldValue::List(both.into())));
        check("sides", "Co\u{302}te".into(), Some("C\u{f4}te".into()));
        check("news", true.into(), Some(true.into()));
        check("news", false.into(), None);
        let from_text = |name: &str, text: &str| form.field(name).unwrap().value_of_text(text);
        assert_eq!(from_text("seats", "9"), Some(FieldValue::Number(9.into())));
        assert_eq!(from_text("days", "Tue"), Some(FieldValue::from("Tue")));
        assert_eq!(from_text("news", "true"), Some(FieldValue::Flag(true)));
        assert_eq!(["false", "maybe", ""].map(|text| from_text("news", text)), [const { None }; 3]);
    }

    #[test]
    fn options_with_commas_are_told_apart() {
        for (options, expected) in [
            (&["a", "b"][..], "a, b"),
            (&["a, b", "c"], "a, b; c"),
            (&["a, b", "c; d"], "a, b | c; d"),
            (&["a, b"], "a, b"),
            (&[], ""),
        ] {
            let list = FieldValue::List(options.iter().map(|&option| option.to_owned()).collect());
            assert_eq!(list.display(), expected);
        }
    }

    #[test]
    fn days_exist() {
        for (text, is_right) in [
            ("2026-11-27", true),
            ("2024-02-29", true),
            ("2026-02-29", false),
            ("2026-13-01", false),
            ("0999-01-01", false),
            ("2026-1-1", false),
            ("2026-11-27T00:00", false),
            ("27.11.2026", false),
        ] {
            assert_eq!(is_day(text, ["", ""]), is_right, "{text}");
        }
        assert!(is_day("2026-06-01", ["2026-06-01", "2026-06-01"]));
        assert!(!is_day("2026-05-31", ["2026-06-01", ""]) && !is_day("2026-06-02", ["", "2026-06-01"]));
    }
}
