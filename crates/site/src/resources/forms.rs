//! Describes the forms, for templates and as Markdown. Validation uses the same definitions.

use minijinja::context;
use minijinja::value::{Serde, Value};

use super::text::render;
use crate::PageForm;
use frontdesk_forms::{Field, Form, FormSet, MAX_BODY_BYTES};

/// An instruction for agents, included in every description of the forms.
pub(super) const CONFIRMATION: &str = "Obtain the user's explicit confirmation of the content before you submit: show them exactly what you are about to send.";

/// The forms as shown on pages.
pub fn page_forms(set: &FormSet, base_url: &str) -> Vec<PageForm> {
    set.iter()
        .map(|form| PageForm {
            name: form.name,
            action: form.path,
            tool: form.operation_id,
            description: form.description,
            fields: &form.fields,
            markdown: form_section(form, base_url),
        })
        .collect()
}

/// A Markdown section that explains a form: its address, its fields, an example and the responses.
pub(super) fn form_section(form: &'static Form, base_url: &str) -> String {
    let values = context! {
        summary => form.summary,
        description => form.description,
        confirmation => CONFIRMATION,
        url => format!("{base_url}{}", form.path),
        max_kib => MAX_BODY_BYTES / 1024,
        fields => Value::from(Serde(&form.fields)),
        alternative => Value::from(Serde(&form.alternative)),
        example => example_body(&form.fields).to_string().replace('\'', "’"),
    };
    render(include_str!("form.md"), values)
}

/// A request body with each field's example.
pub(super) fn example_body(fields: &[Field]) -> serde_json::Value {
    fields
        .iter()
        .map(|field| (field.name.to_owned(), field.example.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
