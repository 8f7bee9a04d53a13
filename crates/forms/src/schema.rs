//! JSON Schemas of fields (draft 2020-12), which agree with the server about JSON values.
//!
//! A value has the same verdict from a schema and from [`crate::parse()`], except that:
//!
//! - the schema of a web address accepts some texts that are no address, such as a port above 65535;
//! - the schema of a date does not check its first and last day, which the description states;
//! - the server compares options in NFC, and a schema by code points;
//! - a JSON text can have the same member twice, or half of a surrogate pair; a schema sees neither;
//! - `format` must be checked, and `email` be a `Mailbox` of RFC 5321 ([`crate::email`]);
//! - the schema of a form describes its first shape ([`Form::alternative`](crate::Form::alternative)).

use serde_json::{Map, Value, json};

use crate::value::number_from;
use crate::{Field, FieldKind, FieldValue};

/// The blank characters above U+00A0, for a character class in a regular expression.
macro_rules! blank_after_a0 {
    () => {
        concat!(
            r"\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f",
            r"\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8",
        )
    };
}

/// The decimal digits that a telephone number may have, for a character class in a regular expression.
macro_rules! digits {
    () => {
        concat!(
            r"0-9",
            r"\u0660-\u0669\u06f0-\u06f9\u07c0-\u07c9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f",
            r"\u0ae6-\u0aef\u0b66-\u0b6f\u0be6-\u0bef\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f",
            r"\u0de6-\u0def\u0e50-\u0e59\u0ed0-\u0ed9\u0f20-\u0f29\u1040-\u1049\u1090-\u1099",
            r"\u17e0-\u17e9\u1810-\u1819\u1946-\u194f\u19d0-\u19d9\u1a80-\u1a89\u1a90-\u1a99",
            r"\u1b50-\u1b59\u1bb0-\u1bb9\u1c40-\u1c49\u1c50-\u1c59\ua620-\ua629\ua8d0-\ua8d9",
            r"\ua900-\ua909\ua9d0-\ua9d9\ua9f0-\ua9f9\uaa50-\uaa59\uabf0-\uabf9\uff10-\uff19",
        )
    };
}

/// The characters that may separate the digits of a telephone number, for a character class in a regular
/// expression.
macro_rules! between_digits {
    () => {
        concat!(
            r" \(\)\.\/\-\[\]\u00a0\u00b7",
            blank_after_a0!(),
            r"\u2010-\u2015\u2022\u2212\u30fb\u30fc\ufe58\ufe63\uff08\uff09\uff0d-\uff0f\uff70",
        )
    };
}

/// The marks before the extension of a telephone number, such as `ext`, as alternatives in a regular
/// expression without flags.
macro_rules! extension_marks {
    () => {
        concat!(
            r"[Ee][Xx][Tt](?:[Ee][Nn][Ss][Ii][Oo][Nn]|[Nn])?|[Xx#\uff03]|[Ii][Nn][Tt]|[Aa][Nn][Ee][Xx][Oo]",
            r"|[Rr][Aa][Mm][Aa][Ll]|[Pp][Oo][Ss][Tt][Ee]|[Дд][Оо][Бб]|[Вв][Нн]|转|轉|内線|內線|내선",
        )
    };
}

/// Matches texts without visible characters, which count as absent in an optional field.
const BLANK_PATTERN: &str = concat!(r"^[\u0009-\u000d\u0020\u0085\u00a0", blank_after_a0!(), r"]*$");

impl Field {
    /// An ECMA-262 regular expression that matches exactly the accepted values of [`FieldKind::Text`],
    /// [`FieldKind::Multiline`] and [`FieldKind::Tel`], except that it does not limit their length. For
    /// [`FieldKind::Url`] and [`FieldKind::Date`] it matches all accepted values and few others. `None` for
    /// other kinds. An optional field also accepts blank characters alone, which the expressions of
    /// [`FieldKind::Tel`], [`FieldKind::Url`] and [`FieldKind::Date`] do not match.
    ///
    /// For a required text, the expression matches blank characters, one character that is neither blank nor
    /// forbidden, and any permitted characters. An optional field that contains only blank characters counts
    /// as empty. Blank ([`is_blank`](crate::text::is_blank)) and control characters are listed by code
    /// point, because the meaning of `\s` differs between languages. Characters in classes are escaped as
    /// ECMA-262's `v` flag demands, which browsers set. Each prefix of a text matches in one way, so the
    /// expressions never backtrack.
    pub const fn pattern(&self) -> Option<&'static str> {
        match (self.kind, self.required) {
            (FieldKind::Text, true) => Some(concat!(
                r"^[\u0020\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000-\u0020\u007f-\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000-\u001f\u007f-\u009f]*$",
            )),
            (FieldKind::Text, false) => Some(r"^[^\u0000-\u001f\u007f-\u009f]*$"),
            (FieldKind::Multiline, true) => Some(concat!(
                r"^[\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]*",
                r"[^\u0000\u0009-\u000d\u0020\u0085\u00a0",
                blank_after_a0!(),
                r"]",
                r"[^\u0000]*$",
            )),
            (FieldKind::Multiline, false) => Some(r"^[^\u0000]*$"),
            (FieldKind::Tel, _) => Some(concat!(
                r"^[",
                between_digits!(),
                r"]*(?:[Tt][Ee][Ll][:\uff1a",
                between_digits!(),
                r"]*)?(?:[\+\uff0b][",
                between_digits!(),
                r"]*)?[",
                digits!(),
                r"](?:[",
                between_digits!(),
                r"]*[",
                digits!(),
                r"]){4,14}[",
                between_digits!(),
                r"]*(?:(?:[\+\uff0b]|(?:[,;\uff0c][ \u00a0",
                blank_after_a0!(),
                r"]*)?(?:",
                extension_marks!(),
                r")[ \.:=\u00a0\u00b7\u2022\u30fb\uff0e\uff1a",
                blank_after_a0!(),
                r"]*[",
                digits!(),
                r"]{1,6})[",
                between_digits!(),
                r"]*)?$",
            )),
            (FieldKind::Url, _) => Some(concat!(
                r"^[ \u00a0",
                blank_after_a0!(),
                r"]*(?:[Hh][Tt][Tt][Pp][Ss]?:\/\/)?",
                // Do not write `(?:[^…]+\.)+`, which V8 11 does not match with the `v` flag.
                r"(?:[^\u0000-\u002c\u002e\u002f\u003a-\u0040\u005b-\u005e\u0060\u007b-\u00a0]+\.",
                r"[^\u0000-\u002c\u002f\u003a-\u0040\u005b-\u005e\u0060\u007b-\u00a0]*",
                r"|\[[0-9A-Fa-f:\.]+\])(?::[0-9]{1,5})?",
                r"(?:[\/?#][^\u0000-\u0020\u005c\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*)?",
                r"[ \u00a0",
                blank_after_a0!(),
                r"]*$",
            )),
            (FieldKind::Date, _) => Some(r"^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$"),
            _ => None,
        }
    }

    /// The schema of the field's values.
    pub fn json_schema(&self) -> Value {
        let mut schema = json!({ "type": self.json_type() });
        let description = self.schema_description();
        if !description.is_empty() {
            schema["description"] = description.into();
        }
        match self.kind {
            FieldKind::Text | FieldKind::Multiline => {
                schema["minLength"] = u8::from(self.required).into();
                schema["maxLength"] = self.max_chars.into();
                schema["pattern"] = self.pattern().into();
            }
            FieldKind::Email | FieldKind::Tel | FieldKind::Url | FieldKind::Date => {
                let mut constraints = Map::new();
                match self.kind {
                    FieldKind::Email => constraints.insert("format".to_owned(), "email".into()),
                    FieldKind::Date => constraints.insert("format".to_owned(), "date".into()),
                    _ => None,
                };
                if let Some(pattern) = self.pattern() {
                    constraints.insert("pattern".to_owned(), pattern.into());
                }
                self.constrain(&mut schema, constraints);
                if self.kind.is_written() {
                    schema["maxLength"] = self.max_chars.into();
                }
            }
            FieldKind::Choice | FieldKind::Hidden => {
                let options = Value::from(self.options.as_slice());
                self.constrain(&mut schema, Map::from_iter([("enum".to_owned(), options)]));
            }
            FieldKind::Number => {
                let [least, most] = self.bounds.map(number_from);
                schema["minimum"] = least.into();
                schema["maximum"] = most.into();
            }
            FieldKind::Choices => {
                let [least, most] = self.bounds.map(number_from);
                schema["items"] = json!({ "type": "string", "enum": self.options });
                schema["uniqueItems"] = true.into();
                schema["minItems"] = least.into();
                schema["maxItems"] = most.into();
            }
            FieldKind::Consent if self.required => schema["const"] = true.into(),
            FieldKind::Consent => {}
        }
        schema
    }

    /// The JSON type of the field's values: `string`, unless the kind is a number, a consent or choices.
    fn json_type(&self) -> &'static str {
        match self.kind {
            FieldKind::Number if self.is_decimal => "number",
            FieldKind::Number => "integer",
            FieldKind::Consent => "boolean",
            FieldKind::Choices => "array",
            _ => "string",
        }
    }

    /// The field's description, or its label if there is none, followed by the limits of a date.
    fn schema_description(&self) -> String {
        let text = if self.description.is_empty() { self.label } else { self.description };
        let days = match self.days {
            ["", ""] => return text.to_owned(),
            [first, ""] => format!("From {first}."),
            ["", last] => format!("Until {last}."),
            [first, last] => format!("From {first} to {last}."),
        };
        match text.trim_end_matches('.') {
            "" => days,
            text => format!("{text}. {days}"),
        }
    }

    /// Adds constraints on a string. An optional field also accepts texts without visible characters.
    fn constrain(&self, schema: &mut Value, constraints: Map<String, Value>) {
        if self.required {
            for (name, value) in constraints {
                schema[name] = value;
            }
        } else {
            schema["anyOf"] = json!([constraints, { "pattern": BLANK_PATTERN }]);
        }
    }

    /// A valid value with its JSON type: the example, and for [`FieldKind::Choices`] as many further options
    /// as the field requires.
    pub fn example_value(&self) -> FieldValue {
        match self.kind {
            FieldKind::Choices => {
                let others = self.options.iter().copied().filter(|option| *option != self.example);
                let texts = std::iter::once(self.example).chain(others).zip(1_u32..);
                let needed = texts.take_while(|(_, n)| *n == 1 || f64::from(*n) <= self.bounds[0]);
                FieldValue::List(needed.map(|(text, _)| text.to_owned()).collect())
            }
            FieldKind::Number | FieldKind::Consent => {
                self.value_of_text(self.example).unwrap_or_else(|| self.example.into())
            }
            _ => self.example.into(),
        }
    }
}

/// The schema of a JSON object with these fields. It permits other members, which the server ignores.
pub fn object_schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.json_schema())).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

#[cfg(test)]
mod tests;
