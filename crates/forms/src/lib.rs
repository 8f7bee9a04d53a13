//! Definitions of the forms.
//!
//! The server validates submissions against these definitions. `/openapi.json`, `/agents.md`, the developer
//! guide and the HTML forms are generated from them.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

/// Defines an enum with names for its values, which the database, listings and logs use.
#[macro_export]
macro_rules! named_enum {
    ($(#[$about:meta])* pub enum $enum:ident { $($(#[$each:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        pub enum $enum {
            $($(#[$each])* $value,)+
        }

        impl $enum {
            /// All values, in the order of their definition.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$value),+];

            pub const fn name(self) -> &'static str {
                match self { $($enum::$value => $name),+ }
            }

            pub fn from_name(name: &str) -> Option<$enum> {
                $enum::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

mod consent_refusal;
pub mod definition;
pub mod email;
mod entry;
pub mod form_post;
pub mod json_post;
pub mod lead_source;
pub mod mailbox_identity;
pub mod multipart;
pub mod schema;
pub mod search_query_words;
pub mod telephone;
pub mod text;
pub mod urlencoded;
pub mod value;

pub use definition::{
    CONTACT, DedupKey, DefinitionId, EXPORT_COLUMNS, Field, FieldKind, Form, FormFile, FormSet, MAX_FIELDS,
    MAX_FORMS, WAITLIST, is_form_name,
};
pub use entry::Entry;
pub use json_post::{Extras, InvalidField, ParsedForm, Rejection, parse, parse_with_extras};
pub use lead_source::LeadSource;
pub use value::{FieldValue, Problem};

/// Maximum size in bytes of a form's request body. Counted after `%XX` and `\uXXXX` are decoded,
/// so that texts in all scripts may be equally long.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Maximum size in bytes of a form's request body as it is sent. Escapes make text outside of ASCII up to
/// three times as long.
pub const MAX_ENCODED_BYTES: usize = 3 * MAX_BODY_BYTES;

/// The format of a request body, and how it escapes characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoding {
    /// Escapes a UTF-16 unit as `\u` and four hexadecimal digits.
    Json,
    /// Escapes a byte as `%XX`.
    Urlencoded,
    /// Escapes nothing.
    Multipart,
}

impl BodyEncoding {
    /// The length in bytes of a body whose escapes of the form `%XX` or `\uXXXX` are decoded. JSON's escapes
    /// of one character, such as `\n`, have their encoded length of two bytes. Accepts any bytes.
    pub fn decoded_length(self, body: &[u8]) -> usize {
        let mut length = body.len();
        match self {
            BodyEncoding::Multipart => {}
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
                        // A surrogate pair becomes 4 bytes of UTF-8, so each of its halves counts as 2 bytes.
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

#[cfg(test)]
mod tests {
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
}
