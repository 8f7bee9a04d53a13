//! Definitions of the forms.
//!
//! The server validates submissions against these definitions. `/openapi.json`, `/agents.md`, the developer
//! guide and the HTML forms are generated from them.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod email;
pub mod parse;
pub mod text;
pub mod urlencoded;

pub use parse::{Entry, Extras, InvalidField, ParsedForm, Problem, Rejection, parse, parse_with_extras};
use serde::Serialize;

/// Maximum size in bytes of a form's request body. Counted after `%XX` and `\uXXXX` are decoded,
/// so that texts in all scripts may be equally long.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Maximum size in bytes of a form's request body as it is sent. Escapes make text outside of ASCII up to
/// three times as long.
pub const MAX_ENCODED_BYTES: usize = 3 * MAX_BODY_BYTES;

/// The format of a request body, and how it escapes characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoding {
    /// `\uXXXX`.
    Json,
    /// `%XX`.
    Urlencoded,
}

impl BodyEncoding {
    /// The length in bytes of a body whose escapes of the form `%XX` or `\uXXXX` are decoded. JSON's escapes
    /// of one character, such as `\n`, have their encoded length of two bytes. Accepts any bytes.
    pub fn decoded_length(self, body: &[u8]) -> usize {
        let mut length = body.len();
        match self {
            BodyEncoding::Urlencoded => {
                let is_escape =
                    |window: &&[u8]| window[0] == b'%' && window[1..].iter().all(u8::is_ascii_hexdigit);
                length -= 2 * body.windows(3).filter(is_escape).count();
            }
            BodyEncoding::Json => {
                let mut rest = body;
                while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
                    let digits = rest.get(at + 2..at + 6).filter(|_| rest[at + 1] == b'u');
                    let unit =
                        digits.and_then(|digits| u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
                    let decoded = match unit {
                        Some(..0x80) => Some(1),
                        // Each half of a surrogate pair counts as two of four bytes.
                        Some(0x80..0x800 | 0xd800..0xe000) => Some(2),
                        Some(_) => Some(3),
                        None => None,
                    };
                    length -= decoded.map_or(0, |bytes| 6 - bytes);
                    rest = rest.get(at + decoded.map_or(2, |_| 6)..).unwrap_or_default();
                }
            }
        }
        length
    }
}

/// The kind of text that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// A `Mailbox` (RFC 5321), as for `format: email` in JSON Schema; see [`crate::email`].
    Email,
    /// A single line without control characters ([`char::is_control`]).
    Line,
    /// Any number of lines, which may contain any character except NUL.
    Text,
}

/// The blank characters above U+00A0, for a character class in a regular expression.
macro_rules! blank_after_a0 {
    () => {
        concat!(
            r"\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f",
            r"\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8",
        )
    };
}

/// One member of a form's JSON object. The value of every field is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The JSON member's name. It does not begin with `_`, and is not `id`, `form`, `received_at` or
    /// `status`, because the inbox uses these names for properties of submissions.
    pub name: &'static str,
    pub label: &'static str,
    pub kind: FieldKind,
    /// Whether the field must be present with at least one visible character.
    pub required: bool,
    /// Maximum length in characters (Unicode scalar values).
    #[serde(rename = "max")]
    pub max_chars: usize,
    pub autocomplete: &'static str,
    /// One sentence for visitors who fill in the field.
    pub description: &'static str,
    #[serde(skip)]
    pub example: &'static str,
}

impl Field {
    /// An ECMA-262 regular expression that matches exactly the accepted values, except that it does not limit
    /// their length. `None` for [`FieldKind::Email`], for which `format: email` is used instead.
    ///
    /// For a required field, the expression matches blank characters, one character that is neither blank nor
    /// forbidden, and any permitted characters. An optional field that contains only blank characters counts
    /// as empty. Blank ([`is_blank`](crate::text::is_blank)) and control characters are listed by code
    /// point, because the meaning of `\s` differs between languages. The expressions never backtrack.
    pub const fn pattern(&self) -> Option<&'static str> {
        match (self.kind, self.required) {
            (FieldKind::Email, _) => None,
            (FieldKind::Line, true) => Some(concat!(
                r"^[\u0020\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000-\u0020\u007f-\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000-\u001f\u007f-\u009f]*$",
            )),
            (FieldKind::Line, false) => Some(r"^[^\u0000-\u001f\u007f-\u009f]*$"),
            (FieldKind::Text, true) => Some(concat!(
                r"^[\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000]*$",
            )),
            (FieldKind::Text, false) => Some(r"^[^\u0000]*$"),
        }
    }
}

/// The part of a submission that is compared to detect repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupKey {
    /// The e-mail address, ignoring case and without a time limit, because the waitlist contains each
    /// address only once.
    Address,
    /// The exact values of all fields, within the duplicate window.
    Content,
}

/// The definition of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    /// `waitlist` or `contact`.
    pub name: &'static str,
    pub path: &'static str,
    /// The operation's id in `/openapi.json`.
    pub operation_id: &'static str,
    pub summary: &'static str,
    /// Explains how the operator uses a submission.
    pub description: &'static str,
    pub schema_name: &'static str,
    pub fields: &'static [Field],
    /// The fields of a second accepted shape. The members of a body determine which shape applies.
    pub alternative: Option<&'static [Field]>,
    pub dedup_key: DedupKey,
}

impl Form {
    pub fn from_name(name: &str) -> Option<&'static Form> {
        FORMS.into_iter().find(|form| form.name == name)
    }

    /// The form whose endpoint is at `path`.
    pub fn at(path: &str) -> Option<&'static Form> {
        FORMS.into_iter().find(|form| form.path == path)
    }

    /// The fields of both shapes.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().chain(self.alternative.into_iter().flatten())
    }
}

const EMAIL: Field = Field {
    name: "email",
    label: "E-mail",
    kind: FieldKind::Email,
    required: true,
    max_chars: crate::email::MAX_MAILBOX,
    autocomplete: "email",
    description: "The address to reply to.",
    example: "ada@example.com",
};

const LINE: Field = Field {
    name: "",
    label: "",
    kind: FieldKind::Line,
    required: true,
    max_chars: 200,
    autocomplete: "off",
    description: "",
    example: "",
};

const MESSAGE: Field = Field {
    name: "message",
    label: "Message",
    kind: FieldKind::Text,
    required: true,
    max_chars: 20_000,
    autocomplete: "off",
    description: "Your question or message.",
    example: "We run forty coding agents and would like to see what they do at night.",
};

/// The waitlist form: an e-mail address whose owner requests access.
pub static WAITLIST: Form = Form {
    name: "waitlist",
    path: "/api/waitlist",
    operation_id: "joinWaitlist",
    summary: "Request platform access",
    description: "Adds a work e-mail address to the waitlist for access. An address that is already on the list is \
                  not added again, and gets the same response.",
    schema_name: "WaitlistRequest",
    fields: &[Field {
        label: "Work e-mail",
        description: "The work e-mail address to request access for.",
        ..EMAIL
    }],
    alternative: None,
    dedup_key: DedupKey::Address,
};

/// The contact form: a message to the operator's team. Accepts either of two sets of fields.
pub static CONTACT: Form = Form {
    name: "contact",
    path: "/api/contact",
    operation_id: "sendContactMessage",
    summary: "Send a message to the operator's team",
    description: "Sends an enquiry to the operator's team, who reply by e-mail. A message that is sent twice counts once, \
                  and gets the same response.",
    schema_name: "ContactRequest",
    fields: &[
        Field {
            name: "name",
            label: "Name",
            autocomplete: "name",
            description: "How you would like to be addressed.",
            example: "Ada Lovelace",
            ..LINE
        },
        EMAIL,
        MESSAGE,
    ],
    alternative: Some(&[
        Field {
            name: "firstname",
            label: "First name",
            autocomplete: "given-name",
            description: "Your given name.",
            example: "Ada",
            ..LINE
        },
        Field {
            name: "lastname",
            label: "Last name",
            autocomplete: "family-name",
            description: "Your family name.",
            example: "Lovelace",
            ..LINE
        },
        EMAIL,
        Field {
            name: "company",
            label: "Company",
            autocomplete: "organization",
            description: "The company that you write for.",
            example: "Example Ltd",
            ..LINE
        },
        Field { required: false, ..MESSAGE },
    ]),
    dedup_key: DedupKey::Content,
};

/// The first columns of an export of submissions, and the first members of each as JSON, in this order.
/// Exports in a served folder are recognized by them, so they must not change.
pub const EXPORT_COLUMNS: [&str; 4] = ["id", "form", "received_at", "status"];

/// All forms.
pub static FORMS: [&Form; 2] = [&WAITLIST, &CONTACT];

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    #[test]
    fn a_body_is_measured_after_decoding() {
        use BodyEncoding::{Json, Urlencoded};
        let encoded = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
        for text in ["abc", "Насос", "请报价", "👨‍👩‍👧‍👦", ""] {
            assert_eq!(Urlencoded.decoded_length(encoded(text).as_bytes()), text.len());
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            assert_eq!(Json.decoded_length(units.as_bytes()), text.len());
            for encoding in [Json, Urlencoded] {
                assert_eq!(encoding.decoded_length(text.as_bytes()), text.len());
            }
        }
        for (encoding, body, length) in [
            (Urlencoded, "%", 1),
            (Urlencoded, "%zz%4", 5),
            (Urlencoded, "%25%41", 2),
            (Json, r"\\u0041", 7),
            (Json, r"\u004", 5),
            (Json, r"\", 1),
            (Json, r"\n\u0041\", 4),
        ] {
            assert_eq!(encoding.decoded_length(body.as_bytes()), length, "{body}");
        }
    }

    use crate::text::is_blank;

    #[test]
    fn the_line_pattern_lists_exactly_blank_and_control_characters() {
        check(
            FieldKind::Line,
            |c| is_blank(c) && !c.is_control(),
            |c| !is_blank(c) && !c.is_control(),
            |c| !c.is_control(),
        );
    }

    #[test]
    fn the_text_pattern_lists_exactly_blank_characters_and_nul() {
        check(FieldKind::Text, is_blank, |c| !is_blank(c) && c != '\0', |c| c != '\0');
    }

    #[test]
    fn no_field_has_a_name_that_the_inbox_reserves() {
        for form in FORMS {
            for field in form.fields.iter().chain(form.alternative.into_iter().flatten()) {
                assert!(!field.name.starts_with('_'), "{}", field.name);
                assert!(!["id", "form", "received_at", "status"].contains(&field.name), "{}", field.name);
                assert!(field.name.bytes().all(|b| b.is_ascii_lowercase()), "{}", field.name);
            }
        }
    }

    #[test]
    fn every_example_is_accepted() {
        for form in FORMS {
            for fields in std::iter::once(form.fields).chain(form.alternative) {
                let body: serde_json::Map<_, _> =
                    fields.iter().map(|f| (f.name.to_owned(), f.example.into())).collect();
                let body = serde_json::to_vec(&body).unwrap();
                let entry = crate::parse(form, &body).unwrap();
                assert_eq!(entry.fields().count(), fields.len());
            }
        }
    }

    #[test]
    fn a_form_is_found_by_its_name() {
        assert_eq!(Form::from_name("contact"), Some(&CONTACT));
        assert_eq!(Form::from_name("Contact"), None);
    }

    /// Compares each of the three character classes in a pattern `^[…]*[^…][^…]*$` with a predicate.
    fn check(kind: FieldKind, lead: fn(char) -> bool, first: fn(char) -> bool, rest: fn(char) -> bool) {
        let pattern = Field { kind, ..LINE }.pattern().unwrap();
        let inner = pattern.strip_prefix('^').unwrap().strip_suffix("*$").unwrap();
        let classes: Vec<&str> =
            inner.split(']').map(|c| c.trim_start_matches('*')).filter(|c| !c.is_empty()).collect();
        let [a, b, c] = classes[..] else { panic!("{classes:?}") };
        for (class, expected) in [(a, lead), (b, first), (c, rest)] {
            let (negated, listed) = members(class);
            for c in '\0'..=char::MAX {
                let matched = listed.iter().any(|range| range.contains(&u32::from(c))) != negated;
                assert_eq!(matched, expected(c), "U+{:04X} in {class}", u32::from(c));
            }
        }
    }

    /// Returns whether a class is negated, and its code points.
    fn members(class: &str) -> (bool, Vec<RangeInclusive<u32>>) {
        let (negated, members) = match class.strip_prefix("[^") {
            Some(members) => (true, members),
            None => (false, class.strip_prefix('[').unwrap()),
        };
        let mut members = members.split(r"\u").skip(1);
        let mut listed = Vec::new();
        while let Some(member) = members.next() {
            let from = u32::from_str_radix(member.trim_end_matches('-'), 16).unwrap();
            let to = match member.strip_suffix('-') {
                Some(_) => u32::from_str_radix(members.next().unwrap(), 16).unwrap(),
                None => from,
            };
            listed.push(from..=to);
        }
        (negated, listed)
    }
}
