//! Reads the file of a form, `forms/NAME.toml`, and reports all of its faults with their lines.

use std::ops::Range;

use frontdesk_fault::{Fault, did_you_mean};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DedupKey, Field, FieldKind, Form, intern};
use crate::lead_source::LEAD_COLUMNS;
use crate::value::{LARGEST, check_text, is_day, to_bound};

/// Maximum number of fields of a form.
pub const MAX_FIELDS: usize = 40;
/// Maximum number of options of a field.
const MAX_OPTIONS: usize = 100;
/// Maximum length in characters of any text in a definition, such as a label or a title, except options.
const MAX_TEXT: usize = 1000;
/// The default `max` of a field with one line of text, in characters.
const LINE_CHARS: usize = 200;
/// The default `max` of a multiline field, and the largest `max` of any text except e-mail addresses.
const TEXT_CHARS: usize = 20_000;

/// Names that fields may not have: members that the inbox adds to a submission, and properties of a form in a
/// browser, which a control of the same name would replace.
pub const RESERVED_FIELDS: [&str; 22] = [
    "id",
    "form",
    "received_at",
    "status",
    "suspicious",
    "lead",
    "action",
    "attributes",
    "children",
    "closest",
    "dataset",
    "elements",
    "length",
    "method",
    "parentnode",
    "reset",
    "submit",
    "tagname",
    "target",
    "constructor",
    "prototype",
    "__proto__",
];

/// Keys of a form's file that set what the server does with submissions. `frontdesk-config` reads them.
pub const SETTINGS: [&str; 9] = [
    "enabled",
    "acknowledge",
    "confirm",
    "confirm_within",
    "remind_after",
    "accept",
    "retention",
    "reply",
    "limits",
];

pub(super) const FORM_KEYS: [&str; 9] =
    ["title", "summary", "description", "submit", "thanks", "unique", "heading", "preview", "field"];
/// Keys that only the embedded files of the built-in forms may have.
const EMBEDDED_KEYS: [&str; 3] = ["operation_id", "schema", "alternative"];
const FIELD_KEYS: [&str; 13] = [
    "name",
    "type",
    "label",
    "required",
    "max",
    "min",
    "step",
    "options",
    "placeholder",
    "description",
    "example",
    "autocomplete",
    "default",
];

/// The contents of a form's file.
#[derive(Debug)]
pub struct FormFile {
    pub form: &'static Form,
    /// The keys of the file that configure what the server does with submissions.
    pub settings: Settings,
}

/// Each key of a file that is in [`SETTINGS`], with its value as TOML and its line.
pub type Settings = Vec<(String, String, usize)>;

impl FormFile {
    /// Reads the form `name` from an operator's file, or fails with all faults. `place` is the file's name in
    /// faults.
    pub fn read(name: &str, text: &str, place: &str) -> Result<FormFile, Vec<Fault>> {
        Reader::new(text, place).read(name)
    }

    pub(super) fn read_embedded(name: &str, text: &str) -> Result<FormFile, Vec<Fault>> {
        Reader { is_embedded: true, ..Reader::new(text, "built in") }.read(name)
    }
}

/// Whether a form may have this name: 1 to 32 lowercase letters, digits and `-`, the first one a letter.
pub fn is_form_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether a field may have this name: 1 to 40 lowercase letters, digits and `_`, the first one a letter.
fn is_field_name(name: &str) -> bool {
    name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Converts a name such as `book-a-demo` to `BookADemo`.
fn camel_case(name: &str) -> String {
    let capitalized = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(capitalized).collect()
}

/// Reads one file and collects its faults.
pub(super) struct Reader<'a> {
    place: &'a str,
    text: &'a str,
    is_embedded: bool,
    pub(super) faults: Vec<Fault>,
}

pub(super) type Table<'a> = DeTable<'a>;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, place: &'a str) -> Self {
        Reader { place, text, is_embedded: false, faults: Vec::new() }
    }

    /// Parses the file as a table. Records each syntax error as a fault; the table then has the keys that
    /// could be read.
    pub(super) fn parse(&mut self) -> Spanned<Table<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let message = error.message().trim().replace('\n', ", ");
            self.fault(error.span().unwrap_or_default(), message, "");
        }
        table
    }

    /// Interns and returns the form if there are no faults; otherwise returns all faults.
    pub(super) fn finish(self, form: Form, settings: Settings) -> Result<FormFile, Vec<Fault>> {
        if self.faults.is_empty() {
            Ok(FormFile { form: Form::interned(form), settings })
        } else {
            Err(self.faults)
        }
    }

    /// Reads the whole file as the definition of the form `name`. Returns all faults if there are any.
    fn read(mut self, name: &str) -> Result<FormFile, Vec<Fault>> {
        let table = self.parse();
        if !is_form_name(name) {
            let message = format!("`{name}` cannot be the name of a form");
            self.fault(0..0, message, "use 1 to 32 of a-z, 0-9 and `-`, beginning with a letter");
        }
        let table = table.get_ref();
        let settings = self.settings(table);
        let form = self.form(name, table);
        self.finish(form, settings)
    }

    /// Builds the form from the keys of the file, with defaults for missing texts. Records faults and returns
    /// the form nevertheless, without the fields that cannot be read.
    fn form(&mut self, name: &str, table: &Table<'_>) -> Form {
        let mut known = [&FORM_KEYS[..], &SETTINGS].concat();
        if self.is_embedded {
            known.extend(EMBEDDED_KEYS);
        }
        self.check_keys(table, &known);
        let before = self.faults.len();
        let fields = self.fields(table, "field");
        // A field that cannot be read is not in `fields`, but has been reported as a fault.
        if fields.is_empty() && self.faults.len() == before {
            self.fault(0..0, "the form has no fields".to_owned(), "add a table `[[field]]`");
        }
        let alternative = table.get("alternative").map(|_| self.fields(table, "alternative"));
        if table.get("title").is_none() {
            self.fault(0..0, "`title` is missing".to_owned(), "add `title = \"…\"`");
        }
        let title = self.shown_text(table, "title").unwrap_or_default();
        let or = |text: Option<&'static str>, otherwise: String| text.unwrap_or_else(|| intern(&otherwise));
        let summary = self.shown_text(table, "summary");
        let operation_id = self.text(table, "operation_id");
        let schema_name = self.text(table, "schema");
        Form {
            name: intern(name),
            path: intern(&format!("/api/{name}")),
            operation_id: or(operation_id, format!("send{}", camel_case(name))),
            schema_name: or(schema_name, format!("{}Request", camel_case(name))),
            title,
            summary: summary.unwrap_or(title),
            description: self.text(table, "description").unwrap_or_default(),
            submit: self.shown_text(table, "submit").unwrap_or("Send"),
            thanks: self.text(table, "thanks").unwrap_or_default(),
            dedup_key: self.dedup_key(table, &fields),
            heading: self.field_reference(table, "heading", &fields),
            preview: self.field_reference(table, "preview", &fields),
            fields,
            alternative,
        }
    }

    /// Reads `unique`: `content`, which is the default, or the name of a required field that visitors write.
    /// Records a fault for another name, and returns it nevertheless.
    fn dedup_key(&mut self, table: &Table<'_>, fields: &[Field]) -> DedupKey {
        let Some(name) = self.text(table, "unique").filter(|name| *name != "content") else {
            return DedupKey::Content;
        };
        if !fields.iter().any(|field| field.name == name && field.required && field.kind.is_written()) {
            let hint = "use \"content\", or the name of a required field that is text";
            self.fault(span(table, "unique"), format!("`unique` cannot be \"{name}\""), hint);
        }
        DedupKey::Field(name)
    }

    /// The text of `key`, which must name one of `fields`: otherwise records a fault, and returns the text
    /// nevertheless. Empty if the key is missing or has no text.
    pub(super) fn field_reference(&mut self, table: &Table<'_>, key: &str, fields: &[Field]) -> &'static str {
        let name = self.text(table, key).unwrap_or_default();
        if !name.is_empty() && !fields.iter().any(|field| field.name == name) {
            let hint = did_you_mean(name, fields.iter().map(|field| field.name), || {
                "use the name of one of the fields".to_owned()
            });
            self.fault(span(table, key), format!("`{key}`: there is no field `{name}`"), &hint);
        }
        name
    }

    /// The settings of the file. Those of a table such as `limits` have dotted names; an empty table adds
    /// none.
    pub(super) fn settings(&mut self, table: &Table<'_>) -> Settings {
        let mut found = Vec::new();
        for name in SETTINGS {
            let Some(value) = table.get(name) else { continue };
            let mut add = |name: String, span: Range<usize>| {
                found.push((name, self.text[span.clone()].to_owned(), self.line(span)));
            };
            match value.get_ref() {
                DeValue::Table(members) => {
                    members
                        .iter()
                        .for_each(|(key, value)| add(format!("{name}.{}", key.get_ref()), value.span()));
                }
                _ => add(name.to_owned(), value.span()),
            }
        }
        found
    }

    /// Reads the first [`MAX_FIELDS`] tables of the list `key`. Records faults, and leaves out tables without
    /// a name or a valid type. Empty if the key is missing or has another value.
    fn fields(&mut self, table: &Table<'_>, key: &str) -> Vec<Field> {
        let Some(list) = table.get(key) else { return Vec::new() };
        let DeValue::Array(items) = list.get_ref() else {
            let message = format!("`{key}` must be a list of tables");
            self.fault(list.span(), message, "write `[[field]]` above the keys of each field");
            return Vec::new();
        };
        if items.len() > MAX_FIELDS {
            self.fault(list.span(), format!("the form has more than {MAX_FIELDS} fields"), "");
        }
        let mut fields: Vec<Field> = Vec::new();
        for item in items.iter().take(MAX_FIELDS) {
            let DeValue::Table(table) = item.get_ref() else {
                self.fault(item.span(), format!("each entry of `{key}` must be a table"), "");
                continue;
            };
            let Some(field) = self.field(table, item.span()) else { continue };
            if fields.iter().any(|other| other.name == field.name) {
                self.fault(span(table, "name"), format!("the field `{}` exists twice", field.name), "");
            }
            fields.push(field);
        }
        fields
    }

    /// Reads one field. `None`, after recording a fault, if the name is missing or the type is missing or
    /// unknown. Records other faults, and returns the field nevertheless. Generates a missing `example`. Does
    /// not check `example` and `default` after an earlier fault anywhere in the file.
    pub(super) fn field(&mut self, table: &Table<'_>, place: Range<usize>) -> Option<Field> {
        self.check_keys(table, &FIELD_KEYS);
        let Some(name) = self.text(table, "name") else {
            self.fault(place, "the field has no `name`".to_owned(), "add `name = \"…\"`");
            return None;
        };
        self.check_name(name, span(table, "name"));
        let kind = self.kind(table, &place)?;
        let mut field = Field {
            name,
            // In lists and emails, a hidden field without a label appears under its name.
            label: self.text(table, "label").unwrap_or(if kind == FieldKind::Hidden { name } else { "" }),
            kind,
            // A consent is required unless the file says `required = false`.
            required: self.flag(table, "required").unwrap_or(kind == FieldKind::Consent),
            max_chars: 0,
            bounds: [0.0; 2],
            is_decimal: false,
            days: [""; 2],
            options: self.options(table, kind, &place),
            autocomplete: self.text(table, "autocomplete").unwrap_or("off"),
            description: self.text(table, "description").unwrap_or_default(),
            example: "",
            placeholder: self.text(table, "placeholder").unwrap_or_default(),
            default: self.text(table, "default").unwrap_or_default(),
        };
        if field.label.is_empty() && kind != FieldKind::Hidden {
            self.fault(place, format!("the field `{name}` has no `label`"), "add `label = \"…\"`");
        }
        if kind == FieldKind::Consent && table.get("default").is_some() {
            let message = "a consent has no `default`: visitors tick it themselves".to_owned();
            self.fault(span(table, "default"), message, "remove the line");
        }
        self.limits(table, &mut field);
        let written = self.text(table, "example");
        for (key, value) in [("example", written.unwrap_or_default()), ("default", field.default)] {
            // Do not check the value after an earlier fault, such as one of the limits, which would cause
            // another one.
            if self.faults.is_empty() {
                self.check_stated(table, &field, key, value);
            }
        }
        if let Some(example) = written.map(str::to_owned).or_else(|| example(&field)) {
            field.example = intern(&example);
        } else if self.faults.is_empty() {
            let message = format!(
                "no example could be generated for the field `{name}`: it accepts none of {}",
                examples(&field).join(", ")
            );
            self.fault(span(table, "max"), message, "increase `max`, or add `example = \"…\"`");
        }
        Some(field)
    }

    /// Records a fault if the field does not accept `value`, which the key `key` states for it. An empty
    /// value counts as missing.
    pub(super) fn check_stated(&mut self, table: &Table<'_>, field: &Field, key: &str, value: &str) {
        if !value.is_empty() && !is_accepted(field, value) {
            let message =
                format!("`{key}` of the field `{}` is not a value that the field accepts", field.name);
            self.fault(span(table, key), message, "");
        }
    }

    /// Records a fault if the name is malformed or reserved.
    fn check_name(&mut self, name: &str, place: Range<usize>) {
        if !is_field_name(name) {
            let hint = "use 1 to 40 of a-z, 0-9 and `_`, beginning with a letter";
            self.fault(place, format!("`{name}` cannot be the name of a field"), hint);
        } else if RESERVED_FIELDS.contains(&name) || LEAD_COLUMNS.contains(&name) || name.starts_with("desk_")
        {
            let hint =
                "choose another name: stored submissions, exports or HTML forms use this one for other data";
            self.fault(place, format!("the name `{name}` is reserved"), hint);
        }
    }

    /// Reads `type`. If it is missing or unknown, records a fault and returns `None`.
    fn kind(&mut self, table: &Table<'_>, place: &Range<usize>) -> Option<FieldKind> {
        let names = FieldKind::ALL.map(|(name, _)| name);
        let Some(written) = self.text(table, "type") else {
            self.fault(
                place.clone(),
                "the field has no `type`".to_owned(),
                &format!("use one of {}", names.join(", ")),
            );
            return None;
        };
        let kind = FieldKind::ALL.iter().find(|(name, _)| *name == written).map(|(_, kind)| *kind);
        if kind.is_none() {
            let (message, hint) = if written == "file" {
                ("uploads are not supported".to_owned(), "ask for a link with `type = \"url\"`".to_owned())
            } else {
                let hint = did_you_mean(written, names, || format!("use one of {}", names.join(", ")));
                (format!("there is no type `{written}`"), hint)
            };
            self.fault(span(table, "type"), message, &hint);
        }
        kind
    }

    /// Reads `options`. Records faults, and leaves out invalid and repeated options. Empty if the kind has
    /// none.
    fn options(&mut self, table: &Table<'_>, kind: FieldKind, place: &Range<usize>) -> Vec<&'static str> {
        let Some(list) = table.get("options") else {
            if kind.has_options() {
                self.fault(
                    place.clone(),
                    "`options` is missing".to_owned(),
                    "add `options = [\"…\", \"…\"]`",
                );
            }
            return Vec::new();
        };
        if !kind.has_options() {
            self.fault(
                list.span(),
                "only fields of the type choice, choices or hidden have `options`".to_owned(),
                "",
            );
            return Vec::new();
        }
        let DeValue::Array(items) = list.get_ref() else {
            self.fault(list.span(), "`options` must be a list of texts".to_owned(), "");
            return Vec::new();
        };
        let mut options: Vec<&'static str> = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) if is_option(text) && !options.contains(&&**text) => {
                    options.push(intern(text));
                }
                _ => {
                    let message = "an option must be one line of text, and different from the others";
                    self.fault(item.span(), message.to_owned(), "");
                }
            }
        }
        if options.is_empty() || options.len() > MAX_OPTIONS {
            self.fault(list.span(), format!("`options` must have 1 to {MAX_OPTIONS} texts"), "");
        }
        options
    }

    /// Sets the limits of the field from `max`, `min` and `step`, whose meaning depends on its kind. Records
    /// faults; the default replaces a number that is out of range. A number field permits decimal places if
    /// it has a `step` or if one of its limits has decimal places. The limits of choices and lengths are
    /// rounded to whole numbers within the written limits.
    fn limits(&mut self, table: &Table<'_>, field: &mut Field) {
        use FieldKind::{Choices, Date, Email, Multiline, Number};
        match field.kind {
            Number => {
                field.bounds = [
                    self.number(table, "min", -LARGEST..=LARGEST).unwrap_or(-LARGEST),
                    self.number(table, "max", -LARGEST..=LARGEST).unwrap_or(LARGEST),
                ];
                field.is_decimal = field.bounds.iter().any(|bound| bound.fract() != 0.0);
                if let Some(step) = self.text(table, "step") {
                    field.is_decimal = true;
                    if step != "any" {
                        self.fault(span(table, "step"), "`step` can only be \"any\"".to_owned(), "");
                    }
                }
            }
            Choices => {
                let most = to_bound(field.options.len());
                let least = if field.required { 1.0 } else { 0.0 };
                field.bounds = [
                    self.number(table, "min", least..=most).unwrap_or(least).ceil(),
                    self.number(table, "max", 1.0..=most).unwrap_or(most).floor(),
                ];
            }
            Date => field.days = [self.day(table, "min"), self.day(table, "max")],
            kind => {
                if table.get("min").is_some() {
                    let message = "only fields of the type number, date or choices have `min`".to_owned();
                    self.fault(span(table, "min"), message, "");
                }
                if kind.is_written() {
                    let most = match kind {
                        Email => crate::email::MAX_MAILBOX,
                        Multiline => TEXT_CHARS,
                        _ => LINE_CHARS,
                    };
                    let limit = if kind == Email { most } else { TEXT_CHARS };
                    let written = self.number(table, "max", 1.0..=to_bound(limit));
                    // Drop decimal places: the length is an integer.
                    let written = written.and_then(|number| number.trunc().to_string().parse().ok());
                    field.max_chars = written.unwrap_or(most);
                } else if table.get("max").is_some() {
                    self.fault(span(table, "max"), "this type has no `max`".to_owned(), "");
                }
            }
        }
        let is_reversed =
            field.bounds[0] > field.bounds[1] || (!field.days[1].is_empty() && field.days[0] > field.days[1]);
        if is_reversed {
            self.fault(span(table, "min"), "`min` is greater than `max`".to_owned(), "");
        }
    }

    /// The number of a key. `None` if the key is missing or, after recording a fault, if its value is not a
    /// decimal number within `permitted`. TOML's hexadecimal, octal and binary integers are faults, too.
    fn number(
        &mut self,
        table: &Table<'_>,
        key: &str,
        permitted: std::ops::RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => self.text[value.span()].replace('_', "").parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| permitted.contains(number));
        if number.is_none() {
            let message =
                format!("`{key}` must be a number from {} to {}", permitted.start(), permitted.end());
            self.fault(value.span(), message, "");
        }
        number
    }

    /// A day in quotes, or as a date of TOML; empty if the key is missing. Records a fault for another value,
    /// and returns its text nevertheless.
    fn day(&mut self, table: &Table<'_>, key: &str) -> &'static str {
        let Some(value) = table.get(key) else { return "" };
        let written = self.text[value.span()].trim_matches(['"', '\'']);
        if !is_day(written, ["", ""]) {
            self.fault(value.span(), format!("`{key}` must be a day such as \"2026-11-27\""), "");
        }
        intern(written)
    }

    /// The text of a key, without the white space at its ends. `None` if the key is missing or, after
    /// recording a fault, if its value is not text, is too long, or has control characters other than the
    /// line feeds of a description.
    pub(super) fn text(&mut self, table: &Table<'_>, key: &str) -> Option<&'static str> {
        let value = table.get(key)?;
        let message = match value.get_ref() {
            DeValue::String(text) if text.chars().count() > MAX_TEXT => {
                format!("`{key}` has more than {MAX_TEXT} characters")
            }
            // Only a description may contain line breaks: other texts appear in lists, subjects and labels.
            DeValue::String(text)
                if text.contains(|c: char| c.is_control() && (key != "description" || c != '\n')) =>
            {
                format!(
                    "`{key}` must be {} without control characters",
                    if key == "description" { "text" } else { "one line" }
                )
            }
            DeValue::String(text) => return Some(intern(text.trim())),
            _ => format!("`{key}` must be text in quotes"),
        };
        self.fault(value.span(), message, "");
        None
    }

    /// Like [`Self::text`], but records a fault for an empty text, too, and then returns `None`.
    pub(super) fn shown_text(&mut self, table: &Table<'_>, key: &str) -> Option<&'static str> {
        let text = self.text(table, key)?;
        if text.is_empty() {
            self.fault(span(table, key), format!("`{key}` is empty"), "write a text, or remove the line");
            return None;
        }
        Some(text)
    }

    /// The boolean of a key. `None` if the key is missing or, after recording a fault, if its value is no
    /// boolean.
    fn flag(&mut self, table: &Table<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        if let DeValue::Boolean(flag) = value.get_ref() {
            return Some(*flag);
        }
        self.fault(value.span(), format!("`{key}` must be true or false"), "");
        None
    }

    /// Records a fault for each key that is not in `known`, with a suggestion. In the table of a field, a key
    /// of the form gets the hint to move it above the first field.
    pub(super) fn check_keys(&mut self, table: &Table<'_>, known: &[&str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let is_of_form = FORM_KEYS.contains(&name) || SETTINGS.contains(&name);
                // `FORM_KEYS[0]` is `title`, which is known only in the table of a form.
                let hint = if is_of_form && !known.contains(&FORM_KEYS[0]) {
                    format!("`{name}` belongs above the first `[[field]]`")
                } else {
                    did_you_mean(name, known.iter().copied(), || format!("known keys: {}", known.join(", ")))
                };
                self.fault(key.span(), format!("unknown key `{name}`"), &hint);
            }
        }
    }

    pub(super) fn fault(&mut self, span: Range<usize>, message: String, hint: &str) {
        let fault = Fault::error(self.place, Some(self.line(span)), message);
        self.faults.push(if hint.is_empty() { fault } else { fault.hint(hint) });
    }

    fn line(&self, span: Range<usize>) -> usize {
        1 + self.text[..span.start.min(self.text.len())].matches('\n').count()
    }
}

/// The position of a key's value in the file, or an empty range at the start if the key is missing.
pub(super) fn span(table: &Table<'_>, key: &str) -> Range<usize> {
    table.get(key).map_or(0..0, Spanned::span)
}

/// Whether a text can be an option: one line of at most 200 characters with a visible one, and without white
/// space at either end, so that lists, mails and HTML show it unchanged.
fn is_option(text: &str) -> bool {
    text.chars().count() <= 200
        && !text.contains(char::is_control)
        && text.trim() == text
        && !text.chars().all(crate::text::is_blank)
}

/// Whether the field accepts `value`, such as its `example`; for [`FieldKind::Choices`], one option.
fn is_accepted(field: &Field, value: &str) -> bool {
    if field.kind == FieldKind::Choices {
        field.options.contains(&value)
    } else {
        matches!(check_text(field, value), Ok(Some(_)))
    }
}

/// The first of [`examples`] that the field accepts, for a definition without `example`.
fn example(field: &Field) -> Option<String> {
    examples(field).into_iter().find(|value| is_accepted(field, value))
}

/// Values that fields of this kind accept, the most helpful first and short ones last. The limits of this
/// field may exclude some.
fn examples(field: &Field) -> Vec<String> {
    let [least, most] = field.bounds;
    let texts: &[&str] = match field.kind {
        FieldKind::Text | FieldKind::Multiline => &["Example", "E"],
        FieldKind::Email => &["ada@example.com", "a@b.example", "a@b"],
        FieldKind::Tel => &["+49 30 123456", "030 12345", "12345"],
        FieldKind::Url => &["https://www.example.com/", "example.com", "a.example", "a.b"],
        FieldKind::Number => return vec![1.0_f64.max(least).min(most).to_string()],
        FieldKind::Date => match &field.days {
            ["", ""] => &["2026-11-27"],
            ["", day] | [day, _] => &[day],
        },
        FieldKind::Choice | FieldKind::Choices | FieldKind::Hidden => &field.options,
        FieldKind::Consent => &["true"],
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}
