//! Describes the forms, for templates and as Markdown. Validation uses the same definitions.

use minijinja::context;
use minijinja::value::Value;

use super::formatting::render;
use super::wording::list;
use crate::{PageForm, PagesOptions, escape_text};
use frontdesk_convert::{escape_heading, escape_paragraph};
use frontdesk_forms::{Field, FieldKind, Form, MAX_BODY_BYTES};

/// An instruction for agents, included in every description of the forms.
pub(super) const CONFIRMATION: &str = "Obtain the user's explicit confirmation of the content before you submit: show them exactly what you are about to send.";

/// Lists the forms, with the data that pages need to show them.
pub fn page_forms(options: &PagesOptions) -> Vec<PageForm> {
    let page_form = |definition: &'static Form| PageForm {
        definition,
        confirms: options.confirming.contains(&definition.name),
        markdown: form_section(definition, &options.base_url),
    };
    options.form_set.iter().map(page_form).collect()
}

/// A Markdown section that explains a form: its address, its fields, an example and the responses.
pub(super) fn form_section(form: &'static Form, base_url: &str) -> String {
    let values = context! {
        summary => escape_heading(form.summary),
        description => escape_paragraph(form.description),
        confirmation => CONFIRMATION,
        url => format!("{base_url}{}", form.path),
        max_kib => MAX_BODY_BYTES / 1024,
        fields => rows(&form.fields),
        alternative => form.alternative.as_deref().map(rows),
        example => example_body(&form.fields).to_string().replace('\'', r"\u0027"),
    };
    render(include_str!("form.md"), values)
}

/// Describes the fields as rows of a Markdown table. If a field has no description, shows its label.
fn rows(fields: &[Field]) -> Vec<Value> {
    let row = |field: &Field| {
        let meaning = if field.description.is_empty() { field.label } else { field.description };
        context! {
            name => field.name,
            required => field.required,
            constraint => constraint(field),
            meaning => cell(meaning),
        }
    };
    fields.iter().map(row).collect()
}

/// Escapes text for a cell of a table in Markdown.
fn cell(text: &str) -> String {
    escape_text(text).replace('|', "\\|")
}

/// Describes the JSON values that a field accepts, for the table of fields.
fn constraint(field: &Field) -> String {
    let written = |kind: &str| format!("{kind}, at most {} characters", field.max_chars);
    let [least, most] = field.bounds;
    let options = || {
        let options: Vec<String> = field.options.iter().map(|option| format!("“{}”", cell(option))).collect();
        list(&options, " or ")
    };
    match field.kind {
        FieldKind::Text => written("one line"),
        FieldKind::Multiline => written("text"),
        FieldKind::Email => written("an e-mail address"),
        FieldKind::Tel => written("a telephone number"),
        FieldKind::Url => written("a web address"),
        FieldKind::Number => {
            let [least, most] = field.limits();
            let whole = if field.is_decimal { "" } else { "whole " };
            let range = match (&*least, &*most) {
                ("", "") => String::new(),
                (least, "") => format!(", at least {least}"),
                ("", most) => format!(", at most {most}"),
                (least, most) => format!(" from {least} to {most}"),
            };
            format!("a {whole}number{range}")
        }
        FieldKind::Date => {
            let range = match field.days {
                ["", ""] => String::new(),
                [earliest, ""] => format!(", not before {earliest}"),
                ["", latest] => format!(", not after {latest}"),
                [earliest, latest] => format!(", from {earliest} to {latest}"),
            };
            format!("a day such as {}{range}", field.example)
        }
        FieldKind::Choice | FieldKind::Hidden if field.options.len() == 1 => options(),
        FieldKind::Choice | FieldKind::Hidden => format!("one of {}", options()),
        FieldKind::Choices => format!("a list of {least} to {most} of {}", options()),
        FieldKind::Consent if field.required => "`true`".to_owned(),
        FieldKind::Consent => "`true` or `false`".to_owned(),
    }
}

/// A request body with each field's example.
pub(super) fn example_body(fields: &[Field]) -> serde_json::Value {
    fields
        .iter()
        .map(|field| (field.name.to_owned(), serde_json::json!(field.example_value())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
