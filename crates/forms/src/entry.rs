//! The entry of a form: the valid values that a visitor submitted.

use std::fmt;

use crate::{FieldKind, FieldValue, Form};

/// The valid fields of a submitted form.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub(super) form: &'static Form,
    pub(super) fields: Vec<(&'static str, FieldValue)>,
}

impl Entry {
    /// Restores an entry from stored names and values, in their order, without checking the values. Omits
    /// fields that the form does not have.
    pub fn restored(form: &'static Form, fields: Vec<(String, FieldValue)>) -> Entry {
        let fields = fields.into_iter().filter_map(|(name, value)| Some((form.field(&name)?.name, value)));
        Entry { form, fields: fields.collect() }
    }

    pub fn form(&self) -> &'static Form {
        self.form
    }

    /// Names and values in the form's order, without empty optional fields.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&'static str, &FieldValue)> {
        self.fields.iter().map(|(name, value)| (*name, value))
    }

    /// The e-mail addresses, in the form's order.
    pub fn emails(&self) -> impl Iterator<Item = &str> {
        self.texts().filter(|(name, _)| self.kind(name) == Some(FieldKind::Email)).map(|(_, text)| text)
    }

    /// The type of a field; `None` if the form does not have it.
    pub fn kind(&self, name: &str) -> Option<FieldKind> {
        self.form.field(name).map(|field| field.kind)
    }

    /// The values that are texts: all except numbers, consents and lists.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields().filter_map(|(name, value)| Some((name, value.as_str()?)))
    }

    /// The text of a field. `None` if the field was left empty, has another type, or is not in the form.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts().find_map(|(field, value)| (field == name).then_some(value))
    }
}

impl serde::Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

/// Shows only the names of fields: logs must not contain visitors' values.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.fields().map(|(name, _)| name).collect();
        f.debug_struct("Entry").field("form", &self.form.name).field("fields", &names).finish_non_exhaustive()
    }
}
