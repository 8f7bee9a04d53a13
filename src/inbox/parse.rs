//! Reads a form's request body: an [`Entry`] with everything checked, or every fault in one sentence.
//!
//! The body is read once, straight into the form's fields: no tree of values is built, members that the
//! form doesn't know are skipped, and of a member that is there twice the last one counts. Texts are
//! kept as they were sent, to the last space.
//!
//! No sentence repeats what the visitor sent, so that an answer or a log line never carries it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::email::Mailbox;
use super::form::{Field, Form, Kind};

/// What a visitor sent in a form, all of it acceptable.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    form: &'static Form,
    fields: Vec<(&'static str, String)>,
}

impl Entry {
    /// The form that it was sent with.
    pub fn form(&self) -> &'static Form {
        self.form
    }

    /// Names and values in the order of the form's definition. An optional field that was left empty is
    /// not among them.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value of a field, if it was filled in.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields().find_map(|(field, value)| (field == name).then_some(value))
    }
}

/// Names only: values are the visitor's, and no log may hold them.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.fields().map(|(name, _)| name).collect();
        f.debug_struct("Entry").field("form", &self.form.name).field("fields", &names).finish_non_exhaustive()
    }
}

/// Why a body is not acceptable. `Display` is one whole sentence for the visitor.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection {
    /// There is nothing in it, or nothing but white space.
    Empty(&'static Form),
    /// It is not UTF-8; the number of the first byte at fault, from 1.
    NotUtf8(usize),
    /// It is not JSON; what is wrong, with line and column.
    NotJson(String),
    /// It is JSON, but not an object; what it is.
    NotAnObject(&'static Form, &'static str),
    /// It is an object, and these fields are not what they must be.
    Fields(Vec<Fault>),
}

/// A field and everything that is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: &'static Field,
    /// At least one.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is required and not there.
    Missing,
    /// It is required and holds nothing, or nothing but white space.
    Empty,
    /// It is this instead of a string.
    NotAString(&'static str),
    /// It has this many characters.
    TooLong(usize),
    /// It is not an e-mail address.
    NotAnAddress,
    /// It is a single line and holds a control character.
    ControlCharacter,
    /// It holds U+0000.
    Nul,
}

/// Reads the body of a POST to `form`. The caller has seen to [`super::MAX_BODY_BYTES`].
pub fn parse(form: &'static Form, body: &[u8]) -> Result<Entry, Rejection> {
    let text = std::str::from_utf8(body).map_err(|error| Rejection::NotUtf8(error.valid_up_to() + 1))?;
    let members = read_object(form, text)?;
    let shape = choose_shape(form, &members);
    check_fields(form, shape, members)
}

fn read_object(form: &'static Form, text: &str) -> Result<Members, Rejection> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let first = text.bytes().find(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
    let members = match first {
        None => return Err(Rejection::Empty(form)),
        Some(b'{') => reader.deserialize_map(MembersVisitor(form)).map(Ok),
        Some(b) => {
            IgnoredAny::deserialize(&mut reader).map(|_| Err(Rejection::NotAnObject(form, json_type(b))))
        }
    };
    members.and_then(|members| reader.end().map(|()| members)).unwrap_or_else(|error| Err(not_json(&error)))
}

fn json_type(first: u8) -> &'static str {
    match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    }
}

/// What serde_json says of syntax is made of fixed phrases, a line and a column. What it says of data may
/// quote the input, and our visitors take data of every type, so that is never passed on.
fn not_json(error: &serde_json::Error) -> Rejection {
    Rejection::NotJson(if error.is_data() {
        format!("unexpected data at line {} column {}", error.line(), error.column())
    } else {
        error.to_string()
    })
}

/// The second shape is meant where a member is there that only it has, and none that only the first has.
fn choose_shape(form: &'static Form, members: &Members) -> &'static [Field] {
    let Some(alternative) = form.alternative else { return form.fields };
    let is_sent = |shape: &[Field], other: &[Field]| {
        shape
            .iter()
            .filter(|field| other.iter().all(|o| o.name != field.name))
            .any(|field| members.iter().any(|(name, _)| *name == field.name))
    };
    if is_sent(alternative, form.fields) && !is_sent(form.fields, alternative) {
        alternative
    } else {
        form.fields
    }
}

fn check_fields(form: &'static Form, shape: &'static [Field], members: Members) -> Result<Entry, Rejection> {
    let mut values: Vec<_> = members;
    let mut fields = Vec::with_capacity(shape.len());
    let mut faults = Vec::new();
    for field in shape {
        let given =
            values.iter().position(|(name, _)| *name == field.name).map(|at| values.swap_remove(at).1);
        match check_field(field, given) {
            Ok(Some(text)) => fields.push((field.name, text)),
            Ok(None) => {}
            Err(problems) => faults.push(Fault { field, problems }),
        }
    }
    if faults.is_empty() { Ok(Entry { form, fields }) } else { Err(Rejection::Fields(faults)) }
}

fn check_field(field: &'static Field, given: Option<Given>) -> Result<Option<String>, Vec<Problem>> {
    let text = match given {
        Some(Given::Text(text)) => text,
        Some(Given::Other(found)) => return Err(vec![Problem::NotAString(found)]),
        None if field.required => return Err(vec![Problem::Missing]),
        None => return Ok(None),
    };
    let mut problems = Vec::new();
    // Bytes are never fewer than characters, so that most texts need not be counted.
    if text.len() > field.max_chars {
        let chars = text.chars().count();
        if chars > field.max_chars {
            problems.push(Problem::TooLong(chars));
        }
    }
    let is_empty = text.chars().all(char::is_whitespace);
    match field.kind {
        Kind::Email if is_empty && !field.required => {}
        Kind::Email => {
            if Mailbox::parse(&text).is_none() {
                problems.push(Problem::NotAnAddress);
            }
        }
        _ if is_empty && field.required => problems.push(Problem::Empty),
        Kind::Line => {
            if text.contains(char::is_control) {
                problems.push(Problem::ControlCharacter);
            }
        }
        Kind::Text => {
            if text.contains('\0') {
                problems.push(Problem::Nul);
            }
        }
    }
    if problems.is_empty() { Ok((!is_empty).then_some(text)) } else { Err(problems) }
}

/// The members that the form knows, each once.
type Members = Vec<(&'static str, Given)>;

/// A member's value, as far as a form can use it.
enum Given {
    Text(String),
    Other(&'static str),
}

struct MembersVisitor(&'static Form);

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::new();
        while let Some(Key(name)) = map.next_key_seed(KnownKey(self.0))? {
            let Some(name) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let given = map.next_value()?;
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some(member) => member.1 = given,
                None => members.push((name, given)),
            }
        }
        Ok(members)
    }
}

/// A member's name as the form spells it, or nothing where the form has no such field.
struct Key(Option<&'static str>);

struct KnownKey(&'static Form);

impl<'de> serde::de::DeserializeSeed<'de> for KnownKey {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KnownKey {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        let known = self.0.fields.iter().chain(self.0.alternative.into_iter().flatten());
        Ok(Key(known.map(|field| field.name).find(|known| *known == name)))
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_any(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Given, E> {
        Ok(Given::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Given, E> {
        Ok(Given::Other("a boolean"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Given, E> {
        Ok(Given::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Given, E> {
        Ok(Given::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Given, E> {
        Ok(Given::Other("a number"))
    }

    fn visit_unit<E>(self) -> Result<Given, E> {
        Ok(Given::Other("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Given, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Given::Other("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Given::Other("an object"))
    }
}

impl std::error::Error for Rejection {}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Empty(form) => {
                write!(f, "The body must be a JSON object with {}, and it is empty.", Required(form))
            }
            Rejection::NotUtf8(at) => {
                write!(f, "The body must be JSON in UTF-8, and its byte {at} is not UTF-8.")
            }
            Rejection::NotJson(reason) => write!(f, "The body must be JSON, and it is not: {reason}."),
            Rejection::NotAnObject(form, found) => {
                write!(f, "The body must be a JSON object with {}, not {found}.", Required(form))
            }
            Rejection::Fields(faults) => {
                for (i, fault) in faults.iter().enumerate() {
                    write!(f, "{}`{}` {fault}", if i == 0 { "" } else { "; " }, fault.field.name)?;
                }
                f.write_str(".")
            }
        }
    }
}

/// What must be done about the field: "must …", "must … and must …".
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Field { kind, max_chars, example, .. } = self.field;
        for (i, problem) in self.problems.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { " and " })?;
            match problem {
                Problem::Missing => match kind {
                    Kind::Email => write!(f, "is required and must be an e-mail address such as {example}"),
                    Kind::Line | Kind::Text => f.write_str("is required and must not be empty"),
                },
                Problem::Empty => f.write_str("is required and must not be empty"),
                Problem::NotAString(found) => match kind {
                    Kind::Email => {
                        write!(
                            f,
                            "must be a string that holds an e-mail address such as {example}, not {found}"
                        )
                    }
                    Kind::Line | Kind::Text => write!(f, "must be a string, not {found}"),
                },
                Problem::TooLong(chars) => write!(
                    f,
                    "must have at most {} characters (it has {})",
                    Thousands(*max_chars),
                    Thousands(*chars)
                ),
                Problem::NotAnAddress => write!(f, "must be an e-mail address such as {example}"),
                Problem::ControlCharacter => f.write_str(
                    "must be a single line without control characters such as tabs and line breaks",
                ),
                Problem::Nul => f.write_str("must not contain the NUL character (U+0000)"),
            }?;
        }
        Ok(())
    }
}

/// "`name`, `email` and `message`"
struct Required(&'static Form);

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            self.0.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        for (i, name) in names.iter().enumerate() {
            let joint = match i {
                0 => "",
                _ if i + 1 == names.len() => " and ",
                _ => ", ",
            };
            write!(f, "{joint}`{name}`")?;
        }
        Ok(())
    }
}

/// `20000` as "20,000".
struct Thousands(usize);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (0, rest) => write!(f, "{rest}"),
            (thousands, rest) => write!(f, "{},{rest:03}", Thousands(thousands)),
        }
    }
}
