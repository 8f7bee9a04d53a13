//! The forms: the one definition that validates, and that every description of them is generated from.
//!
//! `/openapi.json`, `/agents.md`, the developer guide and the HTML forms all read these tables, so
//! that none of them can promise what [`parse`](crate::forms::parse::parse) refuses.

pub mod email;
pub mod parse;
pub mod text;

pub use parse::{Entry, Extras, Parsed, Rejection, parse, parse_with_extras};

/// The largest request body that a form takes, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The fewest and the most characters, and the kind of text, are all that a field can demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A Mailbox of RFC 5321, as JSON Schema's `format: email` means it; see [`crate::forms::email`].
    Email,
    /// A single line: no control characters ([`char::is_control`]).
    Line,
    /// Any number of lines: every character but NUL.
    Text,
}

/// The blank characters beyond U+00A0, as members of a character class.
macro_rules! blank_after_a0 {
    () => {
        concat!(
            r"\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f",
            r"\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8",
        )
    };
}

impl Kind {
    /// An ECMA-262 regular expression that matches exactly the texts that a required field of this
    /// kind accepts, length aside. [`Kind::Email`] has none: `format: email` says it.
    ///
    /// Both expressions read: blank characters, one character that is neither blank nor forbidden,
    /// then anything that is not forbidden. Blank ([`is_blank`](crate::forms::text::is_blank)) and control characters are listed code
    /// point by code point, because `\s` means something else in every language. They never backtrack.
    pub const fn pattern(self) -> Option<&'static str> {
        match self {
            Kind::Email => None,
            Kind::Line => Some(concat!(
                r"^[\u0020\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000-\u0020\u007f-\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000-\u001f\u007f-\u009f]*$",
            )),
            Kind::Text => Some(concat!(
                r"^[\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000]*$",
            )),
        }
    }

    /// The same for a field that may be left empty, where blank characters alone count as empty.
    const fn optional_pattern(self) -> Option<&'static str> {
        match self {
            Kind::Email => None,
            Kind::Line => Some(r"^[^\u0000-\u001f\u007f-\u009f]*$"),
            Kind::Text => Some(r"^[^\u0000]*$"),
        }
    }
}

/// One member of a form's JSON object. Every field is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The JSON member's name. None begins with `_`, and none is `id`, `form`, `received_at` or `status`:
    /// those are what the inbox says about a submission beside its fields.
    pub name: &'static str,
    /// What stands beside the input, for people.
    pub label: &'static str,
    /// What the text must be.
    pub kind: Kind,
    /// Whether it must be present and hold a character that can be seen.
    pub required: bool,
    /// The most characters (Unicode scalar values, not bytes) that it may have.
    pub max_chars: usize,
    /// The value of the HTML `autocomplete` attribute.
    pub autocomplete: &'static str,
    /// One sentence for whoever fills it in.
    pub description: &'static str,
    /// A value that is accepted.
    pub example: &'static str,
}

impl Field {
    /// The fewest characters that it may have when it is sent.
    pub const fn min_chars(&self) -> usize {
        if self.required { 1 } else { 0 }
    }

    /// [`Kind::pattern`], or its looser form for a field that may be left empty.
    pub const fn pattern(&self) -> Option<&'static str> {
        if self.required { self.kind.pattern() } else { self.kind.optional_pattern() }
    }
}

/// What makes two submissions of a form one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// The e-mail address, in whatever case, for ever: a list holds an address once.
    Address,
    /// Every field, to the letter, within the duplicate window: a form that was sent twice.
    Content,
}

/// One form: where it is sent and what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    /// `waitlist` or `contact`: its name in the inbox, in templates and in configuration.
    pub name: &'static str,
    /// The path that takes its POST.
    pub path: &'static str,
    /// The operation's id in `/openapi.json`.
    pub operation_id: &'static str,
    /// A few words that say what sending it does.
    pub summary: &'static str,
    /// What happens with it.
    pub description: &'static str,
    /// The name of its schema in `/openapi.json`.
    pub schema_name: &'static str,
    /// The authoritative shape.
    pub fields: &'static [Field],
    /// A second shape that is understood too, told apart by which members are there.
    pub alternative: Option<&'static [Field]>,
    /// Which submissions count as repeats.
    pub sameness: Sameness,
}

impl Form {
    /// The form of that name.
    pub fn named(name: &str) -> Option<&'static Form> {
        FORMS.into_iter().find(|form| form.name == name)
    }
}

const EMAIL: Field = Field {
    name: "email",
    label: "E-mail",
    kind: Kind::Email,
    required: true,
    max_chars: crate::forms::email::MAX_MAILBOX,
    autocomplete: "email",
    description: "The address that the answer goes to.",
    example: "ada@example.com",
};

const LINE: Field = Field {
    name: "",
    label: "",
    kind: Kind::Line,
    required: true,
    max_chars: 200,
    autocomplete: "off",
    description: "",
    example: "",
};

const MESSAGE: Field = Field {
    name: "message",
    label: "Message",
    kind: Kind::Text,
    required: true,
    max_chars: 20_000,
    autocomplete: "off",
    description: "What you would like to know or to tell.",
    example: "We run forty coding agents and would like to see what they do at night.",
};

/// The waitlist: one address that asks for access.
pub static WAITLIST: Form = Form {
    name: "waitlist",
    path: "/api/waitlist",
    operation_id: "joinWaitlist",
    summary: "Request platform access",
    description: "Puts a work e-mail address on the list of those who would like access. An address that is already \
                  on the list stays there once, and gets the same answer.",
    schema_name: "WaitlistRequest",
    fields: &[Field {
        label: "Work e-mail",
        description: "The work e-mail address that asks for access.",
        ..EMAIL
    }],
    alternative: None,
    sameness: Sameness::Address,
};

/// The contact form: a message to the operator's team, in either of its two published shapes.
pub static CONTACT: Form = Form {
    name: "contact",
    path: "/api/contact",
    operation_id: "sendContactMessage",
    summary: "Send a message to the operator's team",
    description: "Passes an enquiry to the operator's team, who answer by e-mail. A message that is sent twice counts as one, \
                  and gets the same answer.",
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
    sameness: Sameness::Content,
};

/// Every form there is.
pub static FORMS: [&Form; 2] = [&WAITLIST, &CONTACT];

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;
    use crate::forms::text::is_blank;

    #[test]
    fn the_line_pattern_lists_exactly_blank_and_control_characters() {
        check(
            Kind::Line,
            |c| is_blank(c) && !c.is_control(),
            |c| !is_blank(c) && !c.is_control(),
            |c| !c.is_control(),
        );
    }

    #[test]
    fn the_text_pattern_lists_exactly_blank_characters_and_nul() {
        check(Kind::Text, is_blank, |c| !is_blank(c) && c != '\0', |c| c != '\0');
    }

    #[test]
    fn no_field_is_named_like_what_the_inbox_says_itself() {
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
                let entry = crate::forms::parse(form, &body).unwrap();
                assert_eq!(entry.fields().count(), fields.len());
            }
        }
    }

    #[test]
    fn a_form_is_found_by_its_name() {
        assert_eq!(Form::named("contact"), Some(&CONTACT));
        assert_eq!(Form::named("Contact"), None);
    }

    /// Compares the three character classes of a pattern `^[…]*[^…][^…]*$` with what they stand for.
    fn check(kind: Kind, lead: fn(char) -> bool, first: fn(char) -> bool, rest: fn(char) -> bool) {
        let pattern = kind.pattern().unwrap();
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

    /// Whether a class is negated, and the code points that it lists.
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
