//! The definition of a form: what a visitor is asked, and which values are accepted.
//!
//! Definitions come from TOML files ([`FormFile`]): two are embedded, the operator adds others. Equal
//! definitions are one value that lives as long as the process, so requests and stored submissions refer to
//! it without counting references. The memory that this costs is bounded by the number of different
//! definitions that the operator has ever used.

mod extend;
mod read;

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize};

pub use read::{FormFile, MAX_FIELDS, RESERVED_FIELDS, is_form_name};

/// A string of a form definition. It is interned, so it lives as long as the process.
pub type Interned = &'static str;

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// A single line without control characters ([`char::is_control`]).
    Text,
    /// Any number of lines, which may contain any character except NUL.
    Multiline,
    /// A `Mailbox` (RFC 5321), as for `format: email` in JSON Schema; see [`crate::email`].
    Email,
    /// A telephone number; see [`crate::telephone::telephone_number`].
    Tel,
    /// A web address; see [`crate::value::web_address`].
    Url,
    /// A number within the field's bounds, an integer unless [`Field::is_decimal`].
    Number,
    /// A day of the years 1000 to 9999, such as `2026-11-27`.
    Date,
    /// One of [`Field::options`].
    Choice,
    /// Several of [`Field::options`], each at most once.
    Choices,
    /// The boolean `true`. `false` counts as absent.
    Consent,
    /// One of [`Field::options`], which the page sets and the visitor does not see.
    Hidden,
}

impl FieldKind {
    pub const ALL: [(&'static str, FieldKind); 11] = [
        ("text", FieldKind::Text),
        ("multiline", FieldKind::Multiline),
        ("email", FieldKind::Email),
        ("tel", FieldKind::Tel),
        ("url", FieldKind::Url),
        ("number", FieldKind::Number),
        ("date", FieldKind::Date),
        ("choice", FieldKind::Choice),
        ("choices", FieldKind::Choices),
        ("consent", FieldKind::Consent),
        ("hidden", FieldKind::Hidden),
    ];

    /// Whether visitors type the value as text, which has a maximum length.
    pub const fn is_written(self) -> bool {
        use FieldKind::{Email, Multiline, Tel, Text, Url};
        matches!(self, Text | Multiline | Email | Tel | Url)
    }

    /// Whether the field has [`Field::options`].
    pub const fn has_options(self) -> bool {
        matches!(self, FieldKind::Choice | FieldKind::Choices | FieldKind::Hidden)
    }
}

/// A field of a form, which clients send as one member of a JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// The JSON member's name: 1 to 40 lowercase letters, digits and `_`, beginning with a letter. Not one of
    /// [`RESERVED_FIELDS`] and [`LEAD_COLUMNS`](crate::lead_source::LEAD_COLUMNS), and without `desk_` at its
    /// start.
    #[serde(deserialize_with = "interned")]
    pub name: Interned,
    #[serde(deserialize_with = "interned")]
    pub label: Interned,
    pub kind: FieldKind,
    /// Whether the field must be present. A required text must have a visible character.
    pub required: bool,
    /// Maximum length in characters (Unicode scalar values) of a text; 0 for other kinds.
    #[serde(rename = "max", default)]
    pub max_chars: usize,
    /// The smallest and the largest number, or for [`FieldKind::Choices`] the smallest and the largest number
    /// of options. `[0, 0]` for other kinds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounds: [f64; 2],
    /// Whether a number may have decimal places.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_decimal: bool,
    /// The first and the last day that a [`FieldKind::Date`] accepts. An empty text means no limit.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "interned_pair")]
    pub days: [&'static str; 2],
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "interned_list")]
    pub options: Vec<&'static str>,
    /// A hint for browsers (HTML's `autocomplete`), `off` if there is none.
    #[serde(deserialize_with = "interned")]
    pub autocomplete: Interned,
    /// One sentence for visitors who fill in the field. May be empty.
    #[serde(deserialize_with = "interned")]
    pub description: Interned,
    /// A valid value as text, for documentation and error messages.
    #[serde(deserialize_with = "interned")]
    pub example: Interned,
    /// The text that an empty control shows. May be empty.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "interned")]
    pub placeholder: Interned,
    /// The value of the field's control when the page loads. May be empty.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "interned")]
    pub default: Interned,
}

// The bounds come from TOML numbers within a range, so they are never NaN.
impl Eq for Field {}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The part of a submission that is compared to detect repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DedupKey {
    /// The value of one field, ignoring ASCII case and without a time limit: a waitlist contains each address
    /// only once.
    Field(#[serde(deserialize_with = "interned")] Interned),
    /// The exact values of all fields, compared only with submissions within the duplicate window.
    Content,
}

/// The definition of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// The form's name: lowercase letters, digits and `-`, such as `contact`.
    #[serde(deserialize_with = "interned")]
    pub name: Interned,
    /// The path of the form's endpoint: `/api/` and the form's name.
    #[serde(deserialize_with = "interned")]
    pub path: Interned,
    /// The operation's id in `/openapi.json`, which also names the tool for agents in the browser.
    #[serde(deserialize_with = "interned")]
    pub operation_id: Interned,
    #[serde(deserialize_with = "interned")]
    pub schema_name: Interned,
    #[serde(deserialize_with = "interned")]
    pub title: Interned,
    /// The purpose of sending the form, in a few words, such as `Send a message`. The form's title if
    /// its file has no `summary`.
    #[serde(deserialize_with = "interned")]
    pub summary: Interned,
    /// Explains how the operator uses a submission.
    #[serde(deserialize_with = "interned")]
    pub description: Interned,
    /// The label of the button that submits the form.
    #[serde(deserialize_with = "interned")]
    pub submit: Interned,
    /// The sentence that thanks the visitor. If empty, the site's own sentence is used.
    #[serde(deserialize_with = "interned")]
    pub thanks: Interned,
    pub fields: Vec<Field>,
    /// A second set of fields that the form accepts instead of `fields`. The members of a request body
    /// determine which of the two applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Vec<Field>>,
    pub dedup_key: DedupKey,
    /// The name of the field whose value is the heading of a submission in lists. If empty, the heading is
    /// the sender's name or e-mail address.
    #[serde(deserialize_with = "interned")]
    pub heading: Interned,
    /// The name of the field whose value is the preview of a submission in lists, shown only in part. If
    /// empty, the preview is that of the first multiline field.
    #[serde(deserialize_with = "interned")]
    pub preview: Interned,
}

/// The key of a stored definition: the first 16 bytes of the BLAKE3 hash of its JSON.
pub type DefinitionId = [u8; 16];

/// All definitions that this process has used.
static DEFINITIONS: LazyLock<Mutex<HashMap<DefinitionId, &'static Form>>> = LazyLock::new(Mutex::default);
/// All interned texts of definitions.
static TEXTS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

impl Form {
    /// The fields of the form, followed by those of its alternative.
    pub fn all_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().chain(self.alternative.iter().flatten())
    }

    /// The field with this name. The form's own fields take precedence over [`Self::alternative`].
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.all_fields().find(|field| field.name == name)
    }

    /// The field of a control with this name. Many templates write `NAME[]` where a name may occur several
    /// times, as PHP and Rails demand: this is `NAME`.
    pub fn posted_field(&self, name: &str) -> Option<&Field> {
        self.field(name.strip_suffix("[]").unwrap_or(name))
    }

    /// Which of the two sets of fields applies to a form that has the members for which `is_sent` returns
    /// true: the alternative if one of them is a field of it alone, and none is a field of the first set
    /// alone.
    pub fn choose_fields(&self, is_sent: impl Fn(&str) -> bool) -> &[Field] {
        let Some(alternative) = &self.alternative else { return &self.fields };
        let has_own = |fields: &[Field], other: &[Field]| {
            let is_own = |field: &&Field| other.iter().all(|other| other.name != field.name);
            fields.iter().filter(is_own).any(|field| is_sent(field.name))
        };
        let is_alternative = has_own(alternative, &self.fields) && !has_own(&self.fields, alternative);
        if is_alternative { alternative } else { &self.fields }
    }

    /// Whether the form, and its alternative if there is one, has a field for an e-mail address.
    pub fn has_address(&self) -> bool {
        let has = |fields: &Vec<Field>| fields.iter().any(|field| field.kind == FieldKind::Email);
        has(&self.fields) && self.alternative.as_ref().is_none_or(has)
    }

    /// The form's name in subject lines: its capitalized `name` if it is built in, otherwise its `title`.
    pub fn subject(&self) -> String {
        let mut letters = self.name.chars();
        match letters.next().filter(|_| FormSet::built_in().named(self.name).is_some()) {
            Some(first) => first.to_uppercase().chain(letters).collect(),
            None => self.title.to_owned(),
        }
    }

    /// The definition as JSON, which [`Form::from_stored`] reads.
    pub fn stored(&self) -> String {
        // Serialization cannot fail, because a form has no maps. `from_stored` rejects an empty text.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn id(&self) -> DefinitionId {
        let mut id = DefinitionId::default();
        blake3::Hasher::new().update(self.stored().as_bytes()).finalize_xof().fill(&mut id);
        id
    }

    /// Reads a stored definition. `None` if the text is none, or if another version of the program has
    /// written it in a format that this one does not know.
    pub fn from_stored(json: &str) -> Option<&'static Form> {
        serde_json::from_str(json).ok().map(Form::interned)
    }

    /// Returns a definition that equals `form` and lives as long as the process.
    fn interned(form: Form) -> &'static Form {
        let mut known = DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(form.id()).or_insert_with(|| Box::leak(Box::new(form)))
    }
}

/// Returns an equal text that lives as long as the process.
fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(text);
    text
}

fn interned<'de, D: Deserializer<'de>>(input: D) -> Result<&'static str, D::Error> {
    String::deserialize(input).map(|text| intern(&text))
}

fn interned_list<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<&'static str>, D::Error> {
    Ok(Vec::<String>::deserialize(input)?.iter().map(|text| intern(text)).collect())
}

fn interned_pair<'de, D: Deserializer<'de>>(input: D) -> Result<[&'static str; 2], D::Error> {
    Ok(<[String; 2]>::deserialize(input)?.map(|text| intern(&text)))
}

/// The waitlist form: visitors leave an e-mail address to wait for a place.
pub static WAITLIST: LazyLock<&'static Form> =
    LazyLock::new(|| built_in("waitlist", include_str!("built_in/waitlist.toml")));

/// The contact form: a message to the team. Accepts either of two sets of fields.
pub static CONTACT: LazyLock<&'static Form> =
    LazyLock::new(|| built_in("contact", include_str!("built_in/contact.toml")));

/// Reads an embedded definition. Panics if it has faults; a test checks that no embedded definition has any.
fn built_in(name: &str, text: &str) -> &'static Form {
    match FormFile::read_embedded(name, text) {
        Ok(file) => file.form,
        Err(faults) => unreachable!("the embedded form {name} has faults: {faults:?}"),
    }
}

/// The forms of a site: the built-in ones, then the operator's by name, if the caller of [`FormSet::new`]
/// gives them in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormSet {
    forms: Vec<&'static Form>,
    /// The names of forms whose files have faults. Such a form is missing from the set, or in the set without
    /// the changes of its file if it is a built-in form.
    faulty: Vec<String>,
}

impl Default for FormSet {
    /// The two built-in forms.
    fn default() -> FormSet {
        FormSet::built_in().clone()
    }
}

/// Maximum number of forms of a site.
pub const MAX_FORMS: usize = 32;

impl FormSet {
    /// The two built-in forms, for a site without form files of its own.
    pub fn built_in() -> &'static FormSet {
        static BUILT_IN: LazyLock<FormSet> = LazyLock::new(|| FormSet::new([*WAITLIST, *CONTACT]));
        &BUILT_IN
    }

    /// Creates a set of `forms` in the given order. Drops all forms after the first [`MAX_FORMS`].
    pub fn new(forms: impl IntoIterator<Item = &'static Form>) -> FormSet {
        FormSet { forms: forms.into_iter().take(MAX_FORMS).collect(), faulty: Vec::new() }
    }

    /// Sets the names of forms whose files have faults, so that configuration keys that name such a form are
    /// not reported as well.
    #[must_use]
    pub fn with_faulty(self, names: Vec<String>) -> FormSet {
        FormSet { faulty: names, ..self }
    }

    /// The names of forms whose files have faults. The set contains such a form only if it is built in.
    pub fn faulty(&self) -> &[String] {
        &self.faulty
    }

    pub fn is_faulty(&self, name: &str) -> bool {
        self.faulty.iter().any(|faulty| faulty == name)
    }

    /// Keeps the forms for which `is_kept` returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&'static Form) -> bool) {
        self.forms.retain(|form| is_kept(form));
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static Form> + '_ {
        self.forms.iter().copied()
    }

    pub fn named(&self, name: &str) -> Option<&'static Form> {
        self.iter().find(|form| form.name == name)
    }

    /// The form whose endpoint is at `path`.
    pub fn at(&self, path: &str) -> Option<&'static Form> {
        self.iter().find(|form| form.path == path)
    }
}

/// The first columns of an export of submissions, and the first members of each as JSON, in this order.
/// Exports in a served folder are recognized by them, so they must not change.
pub const EXPORT_COLUMNS: [&str; 4] = ["id", "form", "received_at", "status"];

#[cfg(test)]
mod tests;
