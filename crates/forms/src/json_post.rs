//! Parses the JSON body of a form's POST into a valid [`Entry`], or reports all invalid fields in one
//! sentence. Form posts (`form_post.rs`) go through the same checks.
//!
//! The parser deserializes the body directly into the form's fields, without building a tree of JSON values.
//! It skips unknown members, and uses the last of several members with the same name. It trims texts only
//! where their kind has a normal form, or where they come from the control of a page.
//!
//! Error messages never quote the visitor's input, so neither responses nor log lines contain it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use crate::lead_source::{LeadSource, lead_member};
use crate::text::is_blank;
use crate::value::{LARGEST, absent, check_list, check_number, check_posted, check_string, is_filled_in};
use crate::{Entry, Field, FieldKind, FieldValue, Form, Problem};

/// The hidden field in the theme's forms. Visitors do not see it, so only bots fill it in.
pub const HONEYPOT_MEMBER: &str = "desk_note";
/// The member with the time taken to fill in the form, in milliseconds. The theme's script adds it.
pub const TIME_TO_FILL_MEMBER: &str = "desk_ms";

/// Whether the values are those of controls on a page, as the forms' script sends them. They are then checked
/// like those of a form post, because a page may have other controls than the definition suggests.
const FROM_CONTROLS_MEMBER: &str = "desk_controls";

/// Undocumented, optional members of a request body, for screening. Values of the wrong type are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extras {
    /// Whether the honeypot has a visible character.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub honeypot: bool,
    /// How long the visitor took to fill in the form, according to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_fill: Option<Duration>,
}

/// A valid entry, the additional members for screening, and the source of the lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedForm {
    pub entry: Entry,
    pub extras: Extras,
    pub lead: LeadSource,
}

/// Why a body is invalid. `Display` writes one sentence for the visitor.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The body is empty or only white space.
    #[error("The body must be a JSON object{}, but is empty.", list_required_fields(.0))]
    Empty(&'static Form),
    /// The position of the first invalid byte, counted from 1.
    #[error("The body must be JSON in UTF-8, but byte {0} of the body is not valid UTF-8.")]
    NotUtf8(usize),
    /// The syntax error, with line and column.
    #[error("The body must be JSON, but is not: {0}.")]
    NotJson(String),
    /// The type of the JSON value.
    #[error("The body must be a JSON object{}, not {}.", list_required_fields(.0), .1)]
    NotAnObject(&'static Form, &'static str),
    /// A name or a value of an HTML form is invalid in UTF-8 and in the encoding that the form names.
    #[error("The text of a field is neither UTF-8 nor in the encoding that the form names.")]
    FormNotUtf8,
    /// An HTML form contains a file.
    #[error("A file cannot be sent with this form. Send the form without it.")]
    File,
    #[error("{}.", .0.iter().map(InvalidField::to_string).collect::<Vec<_>>().join("; "))]
    Fields(Vec<InvalidField>),
}

/// A field with at least one problem.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidField {
    pub field: &'static Field,
    pub problems: Vec<Problem>,
}

/// Parses the body of a POST to `form`. The caller enforces [`crate::MAX_BODY_BYTES`].
pub fn parse(form: &'static Form, body: &[u8]) -> Result<Entry, Rejection> {
    parse_with_extras(form, body).map(|parsed| parsed.entry)
}

/// Like [`parse`], but also returns the members for screening and the source of the lead. Skips a byte order
/// mark before the object (RFC 8259 §8.1).
pub fn parse_with_extras(form: &'static Form, body: &[u8]) -> Result<ParsedForm, Rejection> {
    let text = std::str::from_utf8(body).map_err(|error| Rejection::NotUtf8(error.valid_up_to() + 1))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (members, extras, lead) = read_members(form, text)?;
    let shape = form.choose_fields(|name| members.iter().any(|(member, _)| *member == name));
    let entry = check_fields(form, shape, members)?;
    Ok(ParsedForm { entry, extras, lead })
}

/// Checks the fields of an HTML form, whose values are all texts. Several values of a [`FieldKind::Choices`]
/// become its list; of several for another field, the last one counts.
pub(super) fn parse_texts(
    form: &'static Form,
    values: &[(&'static Field, String)],
) -> Result<Entry, Rejection> {
    let mut members = Members::new();
    for (field, value) in values {
        let value = value.clone();
        let known = members.iter_mut().find(|(name, _)| *name == field.name).map(|(_, given)| given);
        match (known, field.kind) {
            (Some(MemberValue::List(texts)), _) => texts.push(value),
            (Some(known), _) => *known = MemberValue::Posted(value),
            (None, FieldKind::Choices) => members.push((field.name, MemberValue::List(vec![value]))),
            (None, _) => members.push((field.name, MemberValue::Posted(value))),
        }
    }
    let shape = form.choose_fields(|name| members.iter().any(|(member, _)| *member == name));
    check_fields(form, shape, members)
}

/// Whether a text has a visible character.
pub(super) fn has_visible_text(text: &str) -> bool {
    !text.chars().all(is_blank)
}

/// Whether a value of a control adds to the `given` values of a list. A repeated value does not, because a
/// page may have a control twice, nor does a blank one, which a menu without a selection sends. A list with
/// more different values than options is invalid already, so no value adds to it.
pub(super) fn adds_to_list<'a>(field: &Field, given: impl Iterator<Item = &'a str>, value: &str) -> bool {
    has_visible_text(value) && given.enumerate().all(|(at, known)| at < field.options.len() && known != value)
}

/// Reads the members of a JSON object that [`MembersVisitor`] selects. Rejects any other text, and text after
/// the object.
fn read_members(form: &'static Form, text: &str) -> Result<(Members, Extras, LeadSource), Rejection> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let first = text.bytes().find(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
    let members = match first {
        None => return Err(Rejection::Empty(form)),
        Some(b'{') => reader.deserialize_map(MembersVisitor(form)).map(Ok),
        Some(b) => {
            IgnoredAny::deserialize(&mut reader).map(|_| Err(Rejection::NotAnObject(form, json_type(b))))
        }
    };
    members
        .and_then(|members| reader.end().map(|()| members))
        .unwrap_or_else(|error| Err(syntax_rejection(&error)))
}

/// Returns the type of a JSON value, given its first byte.
fn json_type(first: u8) -> &'static str {
    match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        b'{' => "an object",
        _ => "a number",
    }
}

/// Converts a JSON error into a rejection that does not quote the input. A syntax error consists of a fixed
/// phrase, the line and the column. A data error may quote the input, so its text is replaced. Data errors
/// are not expected, because the [`Visitor`]s accept every type.
fn syntax_rejection(error: &serde_json::Error) -> Rejection {
    Rejection::NotJson(if error.is_data() {
        format!("unexpected data at line {} column {}", error.line(), error.column())
    } else {
        error.to_string()
    })
}

/// Builds an entry from the fields of a shape, or collects the problems of all fields. Ignores members that
/// only the other shape defines.
fn check_fields(
    form: &'static Form,
    shape: &'static [Field],
    mut members: Members,
) -> Result<Entry, Rejection> {
    let mut fields = Vec::with_capacity(shape.len());
    let mut faults = Vec::new();
    for field in shape {
        let at = members.iter().position(|(name, _)| *name == field.name);
        match check_field(field, at.map(|at| members.swap_remove(at).1)) {
            Ok(Some(value)) => fields.push((field.name, value)),
            Ok(None) => {}
            Err(problems) => faults.push(InvalidField { field, problems }),
        }
    }
    if faults.is_empty() { Ok(Entry { form, fields }) } else { Err(Rejection::Fields(faults)) }
}

/// Checks the value of a field. Returns it in its normal form, `None` if it is absent or empty, or its
/// problems.
fn check_field(field: &Field, given: Option<MemberValue>) -> Result<Option<FieldValue>, Vec<Problem>> {
    let wrong_type = |found| Err(vec![Problem::WrongType(found)]);
    match (field.kind, given) {
        (_, None) | (FieldKind::Consent, Some(MemberValue::Flag(false))) => absent(field),
        (_, Some(MemberValue::Malformed)) => Err(vec![Problem::HalfCharacter]),
        (_, Some(MemberValue::Posted(text))) => check_posted(field, &text),
        (FieldKind::Number, Some(MemberValue::Number(Some(number)))) => check_number(field, &number),
        // The type is right, but the number is out of range, or an item of the array is not a string.
        (FieldKind::Number, Some(MemberValue::Number(None)))
        | (FieldKind::Choices, Some(MemberValue::Other("an array"))) => Err(vec![Problem::NotAccepted]),
        (FieldKind::Consent, Some(MemberValue::Flag(true))) => Ok(Some(FieldValue::Flag(true))),
        (FieldKind::Choices, Some(MemberValue::List(texts))) => check_list(field, &texts),
        (FieldKind::Number | FieldKind::Consent | FieldKind::Choices, Some(MemberValue::Text(_))) => {
            wrong_type("a string")
        }
        (_, Some(MemberValue::Text(text))) => check_string(field, text),
        (_, Some(MemberValue::Number(_))) => wrong_type("a number"),
        (_, Some(MemberValue::Flag(_))) => wrong_type("a boolean"),
        (_, Some(MemberValue::List(_))) => wrong_type("an array"),
        (_, Some(MemberValue::Other(found))) => wrong_type(found),
    }
}

/// The members that are fields of the form, without duplicates.
type Members = Vec<(&'static str, MemberValue)>;

/// A member's value, reduced to the types that a form can use.
enum MemberValue {
    Text(String),
    /// Text from an HTML form post, not yet converted to the type of the field.
    Posted(String),
    /// `None` if the number is out of range.
    Number(Option<Number>),
    Flag(bool),
    /// An array of strings.
    List(Vec<String>),
    /// A value that no field accepts: its JSON type, such as `an object`, or `an array` for an array with an
    /// item that is not a string.
    Other(&'static str),
    /// A string with an unpaired surrogate.
    Malformed,
}

/// Keeps the form's fields, the members for screening and the source of the lead; the last of several with
/// the same name counts, even if its value is invalid. If [`FROM_CONTROLS_MEMBER`] is `true`, converts the
/// values of the fields as [`MembersVisitor::posted`] does.
struct MembersVisitor(&'static Form);

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = (Members, Extras, LeadSource);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::new();
        let (mut extras, mut lead) = (Extras::default(), LeadSource::default());
        let mut are_from_controls = false;
        while let Some(MemberName(name)) = map.next_key()? {
            if let Some(Field { name, .. }) = self.0.field(&name) {
                let given = MemberValue::from_json(map.next_value()?);
                match members.iter_mut().find(|(known, _)| known == name) {
                    Some(member) => member.1 = given,
                    None => members.push((name, given)),
                }
            } else if name == HONEYPOT_MEMBER {
                let given = MemberValue::from_json(map.next_value()?);
                extras.honeypot = matches!(given, MemberValue::Text(text) if has_visible_text(&text));
            } else if name == TIME_TO_FILL_MEMBER {
                extras.time_to_fill = match MemberValue::from_json(map.next_value()?) {
                    MemberValue::Number(number) => {
                        number.and_then(|number| number.as_u64()).map(Duration::from_millis)
                    }
                    _ => None,
                };
            } else if name == FROM_CONTROLS_MEMBER {
                let given = MemberValue::from_json(map.next_value()?);
                are_from_controls = matches!(given, MemberValue::Flag(true));
            } else if let Some(member) = lead_member(&name) {
                match MemberValue::from_json(map.next_value()?) {
                    MemberValue::Text(text) => lead.set(member, &text),
                    _ => lead.set(member, ""),
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if are_from_controls {
            members = members.into_iter().map(|(name, given)| (name, self.posted(name, given))).collect();
        }
        Ok((members, extras, lead))
    }
}

impl MembersVisitor {
    /// The value that a form post would have for the control of a field. For choices, a text becomes a list,
    /// and a list loses blank and repeated texts. For other fields, a list becomes its last text that is
    /// filled in, or its last one. Except for consents, `true` becomes `on`, as browsers send for a box
    /// without a value, and a number becomes text unless the field is a number. Returns other values
    /// unchanged.
    fn posted(&self, name: &str, given: MemberValue) -> MemberValue {
        let Some(field) = self.0.field(name) else { return given };
        match (field.kind, given) {
            (FieldKind::Choices, MemberValue::Text(text)) => self.posted(name, MemberValue::List(vec![text])),
            (FieldKind::Choices, MemberValue::List(texts)) => {
                let mut list = Vec::<String>::new();
                for text in texts {
                    if adds_to_list(field, list.iter().map(String::as_str), &text) {
                        list.push(text);
                    }
                }
                MemberValue::List(list)
            }
            (FieldKind::Choices, given) => given,
            (_, MemberValue::List(texts)) => {
                let last = texts.iter().rfind(|text| is_filled_in(field, text)).or(texts.last()).cloned();
                last.map_or(MemberValue::List(texts), MemberValue::Posted)
            }
            (_, MemberValue::Text(text)) => MemberValue::Posted(text),
            (FieldKind::Consent, given) => given,
            (_, MemberValue::Flag(true)) => MemberValue::Posted("on".to_owned()),
            (FieldKind::Number, given) => given,
            (_, MemberValue::Number(Some(number))) => MemberValue::Posted(number.to_string()),
            (_, given) => given,
        }
    }
}

/// A member's name. Allocates only if the name contains escapes. Half of a surrogate pair becomes U+FFFD,
/// which no known name has.
struct MemberName<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for MemberName<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = MemberName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Self::Value, E> {
                // Try `from_utf8` first: `from_utf8_lossy` alone would make parsing a form 1 % slower.
                Ok(MemberName(
                    std::str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::from),
                ))
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
                Ok(MemberName(String::from_utf8_lossy(name).into_owned().into()))
            }
        }
        // Read bytes, because reading a string would fail if the name has an unpaired surrogate.
        deserializer.deserialize_bytes(NameVisitor)
    }
}

impl MemberValue {
    /// Reads the text of a JSON value. A number out of range and an unpaired surrogate are faults of the
    /// member, because JSON's grammar permits them (RFC 8259 §§6, 8.2).
    fn from_json(value: &RawValue) -> MemberValue {
        let json = value.get();
        match json.as_bytes().first().map_or("null", |first| json_type(*first)) {
            // Without escapes, the bytes between the quotation marks are the text.
            "a string" if !json.contains('\\') => MemberValue::Text(json[1..json.len() - 1].to_owned()),
            "a string" => serde_json::from_str(json).map_or(MemberValue::Malformed, MemberValue::Text),
            "a number" => MemberValue::Number(serde_json::from_str(json).ok()),
            "a boolean" => MemberValue::Flag(json == "true"),
            "an array" => {
                serde_json::from_str(json).map_or(MemberValue::Other("an array"), MemberValue::List)
            }
            other => MemberValue::Other(other),
        }
    }
}

/// Writes "`name` must …" or, for a missing or empty field, "`name` is required and must …". Joins several
/// problems with "and".
impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field;
        let expected = expected(field);
        let sentence = |problem: &Problem| match problem {
            Problem::Missing if field.kind == FieldKind::Email || !field.kind.is_written() => {
                format!("is required and must be {expected}")
            }
            Problem::Missing | Problem::Empty => "is required and must not be empty".to_owned(),
            Problem::WrongType(found) => match field.kind {
                FieldKind::Email => format!("must be a string that holds {expected}, not {found}"),
                FieldKind::Number | FieldKind::Consent | FieldKind::Choices => {
                    format!("must be {expected}, not {found}")
                }
                _ => format!("must be a string, not {found}"),
            },
            Problem::TooLong(chars) => {
                let (most, chars) = (group_thousands(field.max_chars), group_thousands(*chars));
                format!("must have at most {most} characters (it has {chars})")
            }
            Problem::NotAnAddress | Problem::NotAccepted => format!("must be {expected}"),
            Problem::NonAsciiDomain => {
                format!(
                    "must be {expected}, with the domain in ASCII (Punycode, such as xn--bcher-kva.example)"
                )
            }
            Problem::ControlCharacter => {
                "must be a single line without control characters such as tabs and line breaks".to_owned()
            }
            Problem::Nul => "must not contain the NUL character (U+0000)".to_owned(),
            Problem::HalfCharacter => {
                "must not contain half of a character, such as \\ud83d without \\ude00".to_owned()
            }
        };
        let problems: Vec<String> = self.problems.iter().map(sentence).collect();
        write!(f, "`{}` {}", field.name, problems.join(" and "))
    }
}

/// Describes the values that a field accepts, for example "a whole number from 1 to 10".
fn expected(field: &Field) -> String {
    let example = field.example;
    let [least, most] = field.bounds;
    match field.kind {
        FieldKind::Text | FieldKind::Multiline => "text".to_owned(),
        FieldKind::Email => format!("an e-mail address such as {example}"),
        FieldKind::Tel => format!("a telephone number such as {example}"),
        FieldKind::Url => format!("a web address such as {example}"),
        FieldKind::Number => {
            let number = if field.is_decimal { "a number" } else { "a whole number" };
            match (least > -LARGEST, most < LARGEST) {
                (true, true) => format!("{number} from {least} to {most}"),
                (true, false) => format!("{number} of at least {least}"),
                (false, true) => format!("{number} of at most {most}"),
                (false, false) if field.is_decimal => format!("{number} such as 2.5"),
                (false, false) => format!("{number} such as 3"),
            }
        }
        FieldKind::Date => {
            let [start, end] = field.days;
            let after = if start.is_empty() { String::new() } else { format!(", not before {start}") };
            let before = if end.is_empty() { String::new() } else { format!(", not after {end}") };
            format!("a day such as {example}{after}{before}")
        }
        FieldKind::Choice | FieldKind::Hidden => format!("one of {}", list_options(field)),
        FieldKind::Choices => {
            let least = if least > 1.0 { format!("at least {least} and ") } else { String::new() };
            format!("a list of {least}at most {most} of {}, each once", list_options(field))
        }
        FieldKind::Consent => "true".to_owned(),
    }
}

/// Lists the options in quotation marks: `"A", "B" and "C"`.
fn list_options(field: &Field) -> String {
    let options: Vec<String> = field.options.iter().map(|option| format!("\"{option}\"")).collect();
    join_with_and(&options)
}

/// Lists the required fields of the first shape: " with `name`, `email` and `message`"; empty if there are
/// none.
fn list_required_fields(form: &Form) -> String {
    let required = form.fields.iter().filter(|field| field.required);
    let names: Vec<String> = required.map(|field| format!("`{}`", field.name)).collect();
    if names.is_empty() { String::new() } else { format!(" with {}", join_with_and(&names)) }
}

/// Joins texts with commas, with "and" before the last one.
fn join_with_and(texts: &[String]) -> String {
    match texts.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        _ => texts.concat(),
    }
}

/// Formats a number with commas between groups of three digits, as in "20,000".
fn group_thousands(number: usize) -> String {
    match (number / 1000, number % 1000) {
        (0, rest) => rest.to_string(),
        (thousand, rest) => format!("{},{rest:03}", group_thousands(thousand)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{CONTACT, FormSet, WAITLIST};

    #[test]
    fn a_valid_body_becomes_an_entry_in_the_order_of_the_definition() {
        accepted(&WAITLIST, r#"{"email":"ada@example.com"}"#, &[("email", "ada@example.com")]);
        accepted(
            &CONTACT,
            r#" {"message":"Hello\nthere","email":"ada@example.com","name":"Ada"} "#,
            &[("name", "Ada"), ("email", "ada@example.com"), ("message", "Hello\nthere")],
        );
        accepted(&WAITLIST, "\u{feff} {\"email\":\"ada@example.com\"}", &[("email", "ada@example.com")]);
    }

    #[test]
    fn a_number_out_of_range_and_half_a_character_are_faults_of_the_field() {
        let number = "must be a string that holds an e-mail address such as ada@example.com, not a number";
        for huge in ["1e999", "-1e999", "1E+400", "9".repeat(500).as_str(), "0.1e-999"] {
            let sentence =
                parse(&WAITLIST, format!("{{\"email\":{huge}}}").as_bytes()).unwrap_err().to_string();
            assert_eq!(sentence, format!("`email` {number}."), "{huge}");
            accepted(
                &WAITLIST,
                &format!(r#"{{"email":"ada@example.com","desk_ms":{huge},"x":[{huge}]}}"#),
                &[("email", "ada@example.com")],
            );
        }
        let body = br#"{"name":"Ada \ud83d","email":1e999,"message":"\ude00"}"#;
        let sentence = parse(&CONTACT, body).unwrap_err().to_string();
        for part in ["`name` must not contain half of a character", "`message` must not", "`email` must be"] {
            assert!(sentence.contains(part), "{sentence}");
        }
        accepted(
            &WAITLIST,
            r#"{"email":"ada@example.com","desk_note":"\ud83d"}"#,
            &[("email", "ada@example.com")],
        );
        for name in [r"\ud83d", r"a\ude00b", r"\ud83d\ude00\ud83d"] {
            accepted(
                &WAITLIST,
                &format!(r#"{{"em\u0061il":"ada@example.com","{name}":1,"x":{{"{name}":"{name}"}}}}"#),
                &[("email", "ada@example.com")],
            );
        }
        // These are not JSON.
        for broken in [
            r#"{"email":01}"#,
            r#"{"\u12":1,"email":"a@b"}"#,
            r#"{email:"a@b"}"#,
            r#"{"email":1e}"#,
            r#"{"email":"\u12"}"#,
            r#"{"email":nul}"#,
            "{\"email\":\"a\tb@example.com\"}",
        ] {
            assert!(matches!(parse(&WAITLIST, broken.as_bytes()), Err(Rejection::NotJson(_))), "{broken}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_name_and_all_of_them_make_an_object() {
        let body = r#"{"name":"Ada","email":"a@b","message":"Hello"}"#;
        let entry = parse(&CONTACT, body.as_bytes()).unwrap();
        assert_eq!((entry.get("email"), entry.get("company")), (Some("a@b"), None));
        assert_eq!(serde_json::to_string(&entry).unwrap(), body);
    }

    #[test]
    fn texts_are_kept_as_they_were_sent() {
        accepted(
            &CONTACT,
            r#"{"name":"  Ada\u00a0","email":"a@b","message":"\n x \t\u0001"}"#,
            &[("name", "  Ada\u{a0}"), ("email", "a@b"), ("message", "\n x \t\u{1}")],
        );
        accepted(
            &CONTACT,
            r#"{ "name" : "" , "name" : " é " , "email":"a@b","message":"\"" }"#,
            &[("name", " é "), ("email", "a@b"), ("message", "\"")],
        );
    }

    #[test]
    fn unknown_members_of_any_type_are_skipped() {
        let deep = format!(r#"{{"x":{}{},"email":"a@b"}}"#, "[".repeat(10_000), "]".repeat(10_000));
        for body in [
            r#"{"email":"a@b","name":7,"utm":{"a":[1,null,"é"]},"":"x"}"#,
            r#"{"email":"a@b","x":1e999,"y":"\ud800"}"#,
            &deep,
        ] {
            accepted(&WAITLIST, body, &[("email", "a@b")]);
        }
    }

    #[test]
    fn the_last_of_several_members_with_the_same_name_counts() {
        accepted(&WAITLIST, r#"{"email":7,"email":"b@c"}"#, &[("email", "b@c")]);
        rejected(
            &WAITLIST,
            r#"{"email":"b@c","email":7}"#,
            "`email` must be a string that holds an e-mail address such as ada@example.com, not a number.",
        );
    }

    #[test]
    fn the_members_determine_the_shape() {
        accepted(
            &CONTACT,
            r#"{"firstname":"Ada","lastname":"Lovelace","email":"a@b","company":"Example"}"#,
            &[("firstname", "Ada"), ("lastname", "Lovelace"), ("email", "a@b"), ("company", "Example")],
        );
        accepted(
            &CONTACT,
            r#"{"firstname":"Ada","lastname":"Lovelace","email":"a@b","company":"Example","message":"Hi"}"#,
            &[
                ("firstname", "Ada"),
                ("lastname", "Lovelace"),
                ("email", "a@b"),
                ("company", "Example"),
                ("message", "Hi"),
            ],
        );
        // `name` selects the first shape, so members of the second count as unknown and are skipped.
        accepted(
            &CONTACT,
            r#"{"name":"Ada","firstname":7,"company":null,"email":"a@b","message":"Hi"}"#,
            &[("name", "Ada"), ("email", "a@b"), ("message", "Hi")],
        );
        rejected(
            &CONTACT,
            r#"{"company":"Example","email":"a@b"}"#,
            "`firstname` is required and must not be empty; `lastname` is required and must not be empty.",
        );
        rejected(
            &CONTACT,
            r#"{"name":null,"firstname":"Ada","email":"a@b","message":"Hi"}"#,
            "`name` must be a string, not null.",
        );
        rejected(&CONTACT, r#"{"email":"a@b","message":"Hi"}"#, "`name` is required and must not be empty.");
    }

    #[test]
    fn an_optional_field_may_be_absent_or_empty_but_not_of_another_type() {
        let with = |message: serde_json::Value| {
            json!({"firstname": "A", "lastname": "B", "email": "a@b", "company": "C", "message": message})
                .to_string()
        };
        for empty in ["", " ", "\n\t\u{3000}", "\u{3164}\u{200b}"] {
            let entry = parse(&CONTACT, with(empty.into()).as_bytes()).unwrap();
            assert_eq!(entry.get("message"), None);
        }
        rejected(&CONTACT, &with(json!(null)), "`message` must be a string, not null.");
        rejected(&CONTACT, &with(json!("\0")), "`message` must not contain the NUL character (U+0000).");
    }

    #[test]
    fn an_address_may_be_left_empty_where_it_is_not_required() {
        let wrong = || Err(vec![Problem::NotAnAddress]);
        for (required, text, expected) in [
            (false, "a@b", Ok(Some("a@b".into()))),
            (false, "", Ok(None)),
            (false, " ", Ok(None)),
            (false, "nobody", wrong()),
            (true, "a@b", Ok(Some("a@b".into()))),
            (true, " ", wrong()),
        ] {
            let field = Field { required, ..WAITLIST.fields[0].clone() };
            assert_eq!(
                check_field(&field, Some(MemberValue::Text(text.to_owned()))),
                expected,
                "{required} {text:?}"
            );
        }
    }

    #[test]
    fn every_field_at_fault_is_named_at_once() {
        rejected(
            &CONTACT,
            "{}",
            "`name` is required and must not be empty; `email` is required and must be an e-mail address such as \
             ada@example.com; `message` is required and must not be empty.",
        );
        rejected(
            &CONTACT,
            r#"{"name":"a\tb","email":"nobody","message":" \n"}"#,
            "`name` must be a single line without control characters such as tabs and line breaks; `email` must be an \
             e-mail address such as ada@example.com; `message` is required and must not be empty.",
        );
        rejected(
            &CONTACT,
            r#"{"name":[],"email":{},"message":true}"#,
            "`name` must be a string, not an array; `email` must be a string that holds an e-mail address such as \
             ada@example.com, not an object; `message` must be a string, not a boolean.",
        );
    }

    #[test]
    fn an_internationalized_domain_is_refused_with_a_hint() {
        let sentence = "`email` must be an e-mail address such as ada@example.com, with the domain in ASCII \
                        (Punycode, such as xn--bcher-kva.example).";
        rejected(&WAITLIST, r#"{"email":"ada@münchen.example"}"#, sentence);
        let sentence = "`email` must be an e-mail address such as ada@example.com.";
        rejected(&WAITLIST, r#"{"email":"jürgen@münchen.example"}"#, sentence);
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        let body =
            |name: &str, message: &str| json!({"name": name, "email": "a@b", "message": message}).to_string();
        let (name, message) = ("é".repeat(200), "😀".repeat(16_000));
        accepted(
            &CONTACT,
            &body(&name, &message),
            &[("name", &name), ("email", "a@b"), ("message", &message)],
        );
        rejected(
            &CONTACT,
            &body(&"é".repeat(201), &"x".repeat(20_001)),
            "`name` must have at most 200 characters (it has 201); `message` must have at most 20,000 characters (it \
             has 20,001).",
        );
        rejected(
            &CONTACT,
            &body(&"\n".repeat(1_000_201), "x\0"),
            "`name` must have at most 200 characters (it has 1,000,201) and is required and must not be empty; \
             `message` must not contain the NUL character (U+0000).",
        );
    }

    #[test]
    fn extras_are_read_beside_the_fields_and_never_invalid() {
        let check = |members: &str, honeypot: bool, milliseconds: Option<u64>| {
            let body = format!(r#"{{"email":"a@b"{members}}}"#);
            let parsed = parse_with_extras(&WAITLIST, body.as_bytes()).unwrap();
            let time_to_fill = milliseconds.map(Duration::from_millis);
            assert_eq!(parsed.extras, Extras { honeypot, time_to_fill }, "{body}");
            assert_eq!(parsed.entry.texts().collect::<Vec<_>>(), [("email", "a@b")], "{body}");
        };
        check("", false, None);
        check(r#","desk_note":"x","desk_ms":1500"#, true, Some(1500));
        check(r#","desk_note":"","desk_ms":0"#, false, Some(0));
        check(r#","desk_note":" \n","desk_ms":"1500""#, false, None);
        check(r#","desk_note":"\u3164""#, false, None);
        check(r#","desk_note":true,"desk_ms":-1"#, false, None);
        check(r#","desk_note":["x"],"desk_ms":1.5"#, false, None);
        check(r#","desk_note":null,"desk_ms":null"#, false, None);
        check(r#","desk_note":{"a":1},"desk_ms":18446744073709551616"#, false, None);
        check(r#","desk_note":"x","desk_note":"","desk_ms":1,"desk_ms":2"#, false, Some(2));
        check(r#","Desk_Note":"x","desk_MS":1"#, false, None);
    }

    #[test]
    fn values_of_controls_are_read_like_a_form_post() {
        let text = "title = \"T\"\n\
             [[field]]\nname = \"text\"\ntype = \"text\"\nlabel = \"T\"\n\
             [[field]]\nname = \"mail\"\ntype = \"email\"\nlabel = \"M\"\n\
             [[field]]\nname = \"seats\"\ntype = \"number\"\nmax = 2000\nlabel = \"S\"\n\
             [[field]]\nname = \"days\"\ntype = \"choices\"\noptions = [\"Mon\", \"Tue\"]\nlabel = \"D\"\n\
             [[field]]\nname = \"news\"\ntype = \"consent\"\nrequired = false\nlabel = \"N\"\n";
        let form = crate::FormFile::read("controls", text, "forms/controls.toml").unwrap().form;
        let check = |member: &str, expected: Option<serde_json::Value>| {
            let name = member.split('"').nth(1).unwrap();
            let body = format!("{{{member},\"desk_controls\":true}}");
            let entry = parse(form, body.as_bytes());
            let found = entry.as_ref().ok().map(|entry| json!(entry)[name].clone());
            assert_eq!(found, expected, "{body}");
            let strict = body.replace("true}", "1}");
            assert!(parse(form, strict.as_bytes()).is_err(), "{strict}");
        };
        check(r#""seats":"5""#, Some(5.into()));
        check(r#""seats":"１٢""#, Some(12.into()));
        check(r#""seats":["1","2"]"#, Some(2.into()));
        check(r#""seats":"1.000""#, None);
        check(r#""seats":"many""#, None);
        check(r#""text":["yes"]"#, Some("yes".into()));
        check(r#""text":7"#, Some("7".into()));
        check(r#""text":true"#, Some("on".into()));
        check(r#""text":null"#, None);
        check(r#""mail":"ａｄａ＠bücher.example""#, Some("ada@xn--bcher-kva.example".into()));
        check(r#""days":"Tue""#, Some(json!(["Tue"])));
        check(r#""days":" ""#, Some(serde_json::Value::Null));
        check(r#""days":"Sun""#, None);
        check(r#""days":["Tue","","Mon","Tue"," "]"#, Some(json!(["Mon", "Tue"])));
        check(r#""days":["Mon","Tue","Mon","Sun"]"#, None);
        check(r#""days":[""]"#, Some(serde_json::Value::Null));
        check(r#""text":["Ada"," "]"#, Some("Ada".into()));
        check(r#""news":["accepted"]"#, Some(true.into()));
        check(r#""news":"nein""#, Some(serde_json::Value::Null));
    }

    #[test]
    fn blank_characters_of_every_kind_count_as_empty() {
        for c in ('\0'..=char::MAX).filter(|c| is_blank(*c)) {
            let body = json!({"name": "A", "email": "a@b", "message": c.to_string().repeat(3)}).to_string();
            rejected(&CONTACT, &body, "`message` is required and must not be empty.");
        }
    }

    #[test]
    fn a_name_of_invisible_characters_is_empty() {
        let body = |name: &str| json!({"name": name, "email": "a@b", "message": "m"}).to_string();
        for name in ["\u{3164}", "\u{115f}\u{1160}", " \u{ffa0}\u{34f} ", "\u{200b}\u{feff}", "\u{fe0f}"] {
            rejected(&CONTACT, &body(name), "`name` is required and must not be empty.");
        }
        // Invisible characters next to a visible one are kept.
        for name in ["a\u{3164}", "\u{1100}\u{1160}", "❤\u{fe0f}"] {
            accepted(&CONTACT, &body(name), &[("name", name), ("email", "a@b"), ("message", "m")]);
        }
    }

    #[test]
    fn a_line_holds_no_control_character_and_a_text_all_but_nul() {
        for c in ('\0'..=char::MAX).filter(|c| c.is_control()) {
            let name = json!({"name": format!("a{c}b"), "email": "a@b", "message": "m"}).to_string();
            rejected(
                &CONTACT,
                &name,
                "`name` must be a single line without control characters such as tabs and line breaks.",
            );
            let message = json!({"name": "n", "email": "a@b", "message": format!("a{c}b")}).to_string();
            assert_eq!(parse(&CONTACT, message.as_bytes()).is_ok(), c != '\0', "{c:?}");
        }
    }

    #[test]
    fn invalid_json_is_refused_with_line_and_column() {
        let cases = [
            ("{", "The body must be JSON, but is not: EOF while parsing an object at line 1 column 1."),
            (
                "{\n \"email\" \"a@b\"}",
                "The body must be JSON, but is not: expected `:` at line 2 column 10.",
            ),
            ("email=a@b", "The body must be JSON, but is not: expected value at line 1 column 1."),
            (
                r#"{"email":"a@b"} x"#,
                "The body must be JSON, but is not: trailing characters at line 1 column 17.",
            ),
            (r#"{"email":"a@b",}"#, "The body must be JSON, but is not: trailing comma at line 1 column 16."),
            ("\u{feff}\u{feff}{}", "The body must be JSON, but is not: expected value at line 1 column 1."),
        ];
        for (body, sentence) in cases {
            rejected(&WAITLIST, body, sentence);
        }
    }

    #[test]
    fn a_body_that_is_no_object_is_refused_in_one_sentence() {
        let cases = [
            ("", "The body must be a JSON object with `email`, but is empty."),
            (" \r\n\t", "The body must be a JSON object with `email`, but is empty."),
            ("[]", "The body must be a JSON object with `email`, not an array."),
            ("\"a@b\"", "The body must be a JSON object with `email`, not a string."),
            ("null", "The body must be a JSON object with `email`, not null."),
            ("true", "The body must be a JSON object with `email`, not a boolean."),
            ("-1.5", "The body must be a JSON object with `email`, not a number."),
        ];
        for (body, sentence) in cases {
            rejected(&WAITLIST, body, sentence);
        }
        rejected(
            &CONTACT,
            "7",
            "The body must be a JSON object with `name`, `email` and `message`, not a number.",
        );
    }

    #[test]
    fn a_body_that_is_not_utf8_is_refused_in_one_sentence() {
        let error = parse(&WAITLIST, b"{\"email\":\"\xff\"}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "The body must be JSON in UTF-8, but byte 11 of the body is not valid UTF-8."
        );
    }

    #[test]
    fn neither_debug_output_nor_messages_quote_the_input() {
        let entry = parse(&CONTACT, br#"{"name":"Sesame","email":"sesame@b","message":"sesame"}"#).unwrap();
        assert_eq!(
            format!("{entry:?}"),
            r#"Entry { form: "contact", fields: ["name", "email", "message"], .. }"#
        );
        for body in [
            r#"{"sesame":1}"#,
            r#"{"name":"sesame\u0000","email":"sesame","message":{"sesame":"sesame"}}"#,
            r#"{"name":sesame}"#,
            r#"{"name":"\sesame"}"#,
            r#""sesame""#,
        ] {
            let error = parse(&CONTACT, body.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").to_lowercase().contains("sesame"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_parsed(body in prop::collection::vec(any::<u8>(), 0..200)) {
            for form in FormSet::built_in().iter() {
                let _ = parse(form, &body);
            }
        }

        #[test]
        fn every_rejection_is_one_sentence(name in ".{0,4}", email in ".{0,4}", message in "[\\x00 a]{0,3}", which in 0..3usize) {
            let bodies = [
                json!({"name": name, "email": email, "message": message}),
                json!({"firstname": name, "lastname": message, "email": email, "company": name}),
                json!({"name": [name], "email": email.len(), "message": message}),
            ];
            if let Err(rejection) = parse(&CONTACT, bodies[which].to_string().as_bytes()) {
                let sentence = rejection.to_string();
                prop_assert!(sentence.ends_with('.') && !sentence.contains(char::is_control), "{}", sentence);
                prop_assert!(sentence.starts_with('`') || sentence.starts_with("The body"), "{}", sentence);
            }
        }
    }

    fn accepted(form: &'static Form, body: &str, expected: &[(&str, &str)]) {
        let entry = parse(form, body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(entry.texts().collect::<Vec<_>>(), expected);
        assert_eq!(entry.form(), form);
    }

    fn rejected(form: &'static Form, body: &str, sentence: &str) {
        assert_eq!(parse(form, body.as_bytes()).unwrap_err().to_string(), sentence, "{body}");
    }
}
