//! Describes the forms, for templates and as Markdown. Validation uses the same definitions.

use std::fmt::Write as _;

use crate as pages;
use frontdesk_forms::{FORMS, Field, FieldKind, Form, MAX_BODY_BYTES};

/// An instruction for agents, included in every description of the forms.
pub(super) const CONFIRMATION: &str = "Obtain the user's explicit confirmation of the content before you submit: show them exactly what you are about to send.";

/// The forms as shown on pages.
pub fn page_forms(base_url: &str) -> Vec<pages::PageForm> {
    FORMS
        .iter()
        .map(|form| pages::PageForm {
            name: form.name,
            action: form.path,
            tool: form.operation_id,
            description: form.description,
            fields: form.fields,
            markdown: form_section(form, base_url),
        })
        .collect()
}

/// A Markdown section that explains a form: its address, its fields, an example and the responses.
pub(super) fn form_section(form: &Form, base_url: &str) -> String {
    let mut text = format!("## {}\n\n", form.summary);
    let _ = write!(text, "{} {CONFIRMATION}\n\n", form.description);
    let _ = write!(
        text,
        "`POST {base_url}{}` with `Content-Type: application/json` and a body of at most {} KiB (escapes count as the characters that they stand for). No credentials are needed.\n\n{}",
        form.path,
        MAX_BODY_BYTES / 1024,
        field_table(form.fields)
    );
    if let Some(alternative) = form.alternative {
        let _ = write!(
            text,
            "\nAn object without `name` is read as this second shape:\n\n{}",
            field_table(alternative)
        );
    }
    let _ = write!(
        text,
        "\n```bash\ncurl --json '{}' {base_url}{}\n```\n\n\
         The answer is `200` with `{{\"ok\": true}}` once the submission is safely stored, else `{{\"error\": \"…\"}}` with a sentence that names every field at fault.\n",
        example_body(form.fields).to_string().replace('\'', "’"),
        form.path
    );
    text
}

fn field_table(fields: &[Field]) -> String {
    let mut text = String::from("| Field | Required | Constraint | Meaning |\n| --- | --- | --- | --- |\n");
    for field in fields {
        let constraint = match field.kind {
            FieldKind::Email => "an e-mail address",
            FieldKind::Line => "one line",
            FieldKind::Text => "text",
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {constraint}, at most {} characters | {} |",
            field.name,
            if field.required { "yes" } else { "no" },
            field.max_chars,
            field.description
        );
    }
    text
}

/// A request body with each field's example.
pub(super) fn example_body(fields: &[Field]) -> serde_json::Value {
    fields
        .iter()
        .map(|field| (field.name.to_owned(), field.example.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
