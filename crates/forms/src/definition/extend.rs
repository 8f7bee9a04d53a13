//! Reads an operator's file for a built-in form: other words and further optional fields. The published
//! shapes are a contract with clients, so the file cannot change them.

use frontdesk_fault::Fault;
use toml::de::{DeTable, DeValue};

use super::read::{FORM_KEYS, FormFile, MAX_FIELDS, Reader, SETTINGS, Table, span};
use super::{Field, FieldKind, Form};

/// The key that decides which submissions are repeats. An operator's file for a built-in form cannot set it.
const FIXED_KEY: &str = "unique";
/// The keys of a built-in form's field that the operator's file may change.
const CHANGEABLE_KEYS: [&str; 6] =
    ["label", "description", "example", "placeholder", "autocomplete", "default"];

impl FormFile {
    /// Reads the operator's file for the built-in form `base`. Keys of the file replace its texts, and a
    /// `[[field]]` with the name of one of its fields replaces that field's texts. Other fields are added to
    /// both shapes and must be optional. Fails with all faults, for instance if the file would change a
    /// built-in field or which submissions are repeats. `place` is the file's name in faults.
    pub fn extend(base: &'static Form, text: &str, place: &str) -> Result<FormFile, Vec<Fault>> {
        Reader::new(text, place).extend(base)
    }
}

impl Reader<'_> {
    /// Applies the file to a copy of `base`. Returns all faults if there are any.
    fn extend(mut self, base: &'static Form) -> Result<FormFile, Vec<Fault>> {
        let table = self.parse();
        let table = table.get_ref();
        let settings = self.settings(table);
        let known: Vec<&str> = FORM_KEYS.iter().chain(&SETTINGS).copied().collect();
        self.check_keys(table, &known);
        if table.get(FIXED_KEY).is_some() {
            let message = format!("`{FIXED_KEY}` of the form `{}` cannot be changed", base.name);
            self.fault(span(table, FIXED_KEY), message, "remove the line");
        }
        let mut form = base.clone();
        for (key, text) in
            [("title", &mut form.title), ("summary", &mut form.summary), ("submit", &mut form.submit)]
        {
            *text = self.shown_text(table, key).unwrap_or(text);
        }
        for (key, text) in [("description", &mut form.description), ("thanks", &mut form.thanks)] {
            *text = self.text(table, key).unwrap_or(text);
        }
        self.extend_fields(table, &mut form);
        for (key, reference) in [("heading", &mut form.heading), ("preview", &mut form.preview)] {
            if table.get(key).is_some() {
                *reference = self.field_reference(table, key, &form.fields);
            }
        }
        self.finish(form, settings)
    }

    /// Replaces texts of the form's fields, and adds other fields to both shapes. Records a fault if an added
    /// field is required, or if a shape has more than [`MAX_FIELDS`], but adds them nevertheless.
    fn extend_fields(&mut self, table: &Table<'_>, form: &mut Form) {
        let Some(list) = table.get("field") else { return };
        let DeValue::Array(items) = list.get_ref() else {
            let hint = "write `[[field]]` above the keys of each field";
            self.fault(list.span(), "`field` must be a list of tables".to_owned(), hint);
            return;
        };
        let mut seen: Vec<&'static str> = Vec::new();
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                self.fault(item.span(), "each entry of `field` must be a table".to_owned(), "");
                continue;
            };
            let name = self.text(table, "name").unwrap_or_default();
            if !name.is_empty() && seen.contains(&name) {
                self.fault(span(table, "name"), format!("the field `{name}` exists twice"), "");
            }
            seen.push(name);
            if let Some(field) = form.field(name).cloned() {
                self.replace_words(table, &field, form);
            } else if let Some(field) = self.field(table, item.span()) {
                if field.required {
                    let message = format!("the field `{name}` of the form `{}` must be optional", form.name);
                    let hint =
                        "write `required = false`: clients that know only the built-in form would be refused";
                    self.fault(span(table, "name"), message, hint);
                }
                form.fields.push(field.clone());
                form.alternative.iter_mut().for_each(|fields| fields.push(field.clone()));
            }
        }
        if form.alternative.iter().chain([&form.fields]).any(|fields| fields.len() > MAX_FIELDS) {
            self.fault(list.span(), format!("the form has more than {MAX_FIELDS} fields"), "");
        }
    }

    /// Replaces the texts of the form's field `field` in both shapes. Records a fault for each key that is
    /// unknown or would change the field otherwise, and for an example or a default that the field does not
    /// accept. The file may repeat the `type` and `required` of the field.
    fn replace_words(&mut self, table: &DeTable<'_>, field: &Field, form: &mut Form) {
        let same_kind = FieldKind::ALL.iter().any(|(name, kind)| {
            *kind == field.kind && table.get("type").is_none_or(|it| it.get_ref().as_str() == Some(name))
        });
        let is_same = |key: &str| match key {
            "name" => true,
            "type" => same_kind,
            "required" => table.get(key).and_then(|it| it.get_ref().as_bool()) == Some(field.required),
            key => CHANGEABLE_KEYS.contains(&key),
        };
        for (key, value) in table {
            let key = key.get_ref();
            if !is_same(key) {
                let message = format!(
                    "`{key}` of the field `{}` of the form `{}` cannot be changed",
                    field.name, form.name
                );
                let hint = format!("only {} can be changed", CHANGEABLE_KEYS.join(", "));
                self.fault(value.span(), message, &hint);
            }
        }
        let words = CHANGEABLE_KEYS.map(|key| self.text(table, key));
        for (key, value) in
            CHANGEABLE_KEYS.iter().zip(words).filter(|(key, _)| ["example", "default"].contains(key))
        {
            self.check_stated(table, field, key, value.unwrap_or_default());
        }
        let shapes = form.fields.iter_mut().chain(form.alternative.iter_mut().flatten());
        for same in shapes.filter(|other| other.name == field.name) {
            let [label, description, example, placeholder, autocomplete, default] = words;
            same.label = label.unwrap_or(same.label);
            same.description = description.unwrap_or(same.description);
            same.example = example.unwrap_or(same.example);
            same.placeholder = placeholder.unwrap_or(same.placeholder);
            same.autocomplete = autocomplete.unwrap_or(same.autocomplete);
            same.default = default.unwrap_or(same.default);
        }
    }
}
