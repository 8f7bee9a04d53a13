//! `/openapi.json`: describes the forms (OpenAPI 3.1.0).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::formatting::{format_duration, has_page};
use super::forms::{CONFIRMATION, example_body};
use super::options::ResourceOptions;
use super::wording;
use crate::{PageSummary, PagesOptions};
use frontdesk_forms::schema::object_schema;
use frontdesk_forms::{Form, FormSet, MAX_BODY_BYTES};

/// The schemas and headers that do not depend on the forms.
const COMPONENTS: &str = include_str!("components.json");

#[derive(Default, Deserialize, Serialize)]
struct Components {
    schemas: Map<String, Value>,
    headers: Map<String, Value>,
}

/// Builds `openapi.json`. It has the headers of rate limits only if there are quotas, and links to the pages
/// `/contact/` and `/developers/` only if these are listed.
pub(super) fn build(pages: &[PageSummary], options: &PagesOptions, resources: &ResourceOptions) -> String {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for form in options.form_set.iter() {
        paths.insert(form.path.to_owned(), json!({ "post": describe_operation(form, options, resources) }));
        schemas.insert(form.schema_name.to_owned(), object_schema(&form.fields));
    }
    let mut components: Components = serde_json::from_str(COMPONENTS).unwrap_or_default();
    schemas.append(&mut components.schemas);
    components.schemas = schemas;
    if resources.quotas.is_none() {
        components.headers.retain(|name, _| !name.starts_with("RateLimit"));
    }
    let operator = &options.operator;
    let mut contact = json!({ "name": operator.name, "url": format!("{}/", options.base_url) });
    if operator.name.is_empty() {
        contact = json!({ "url": contact["url"] });
    }
    if has_page(pages, "/contact/") {
        contact["url"] = format!("{}/contact/", options.base_url).into();
    }
    if !operator.email.is_empty() {
        contact["email"] = operator.email.clone().into();
    }
    let guide = if has_page(pages, "/developers/") { "/developers/" } else { "/agents.md" };
    let guide = json!({ "description": "Guide for developers and agents", "url": format!("{}{guide}", options.base_url) });
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": match wording::site_name(options) {
                "" => "Website forms".to_owned(),
                name => format!("{name} website forms"),
            },
            "version": "1.0.0",
            "summary": summary(&options.form_set),
            "description": describe_forms(options, resources),
            "contact": contact,
        },
        "servers": [{ "url": options.base_url }],
        "security": [],
        "tags": [{ "name": "forms", "description": "The forms of the website." }],
        "externalDocs": guide,
        "paths": paths,
        "components": components,
    });
    format!("{document:#}\n")
}

/// A summary of the API, which names the forms.
fn summary(forms: &FormSet) -> String {
    match forms.iter().len() {
        _ if wording::has_default_forms(forms) => "A waitlist request and a contact message.".to_owned(),
        0 => "There are no forms.".to_owned(),
        1 => format!("The form {}.", wording::titles(forms)),
        _ => format!("The forms {}.", wording::titles(forms)),
    }
}

/// Says whose forms these are, whether they need credentials, and what agents must do before they send one.
/// Without forms, says only that there are none.
fn describe_forms(options: &PagesOptions, resources: &ResourceOptions) -> String {
    let website = wording::website(options);
    let forms = match options.form_set.iter().len() {
        0 => return format!("There are no forms on {website}."),
        1 => "The form".to_owned(),
        2 => "The two forms".to_owned(),
        n => format!("The {n} forms"),
    };
    let access = wording::access(options.form_set.iter().len(), resources);
    format!("{forms} of {website}. {access}\n\n{CONFIRMATION}")
}

/// The text to append to an operation's description if the site accepts HTML forms.
const HTML_POSTS: &str = "\n\nBrowsers without JavaScript send the form of a page of this site as \
    `application/x-www-form-urlencoded`, with an `Accept` that prefers HTML. They get a redirect (303) to a \
    thank-you page, or the page with its errors as HTML. Other clients should send JSON.";

/// The responses by status: their descriptions, and their headers besides those about rate limits. The status
/// 403 is only for HTML forms.
#[rustfmt::skip]
const RESPONSES: [(&str, &str, &[&str]); 8] = [
    ("200", "Accepted: the submission is on stable storage.", &[]),
    ("400", "A required field is missing or malformed, or the body is not a JSON object. The sentence names everything at fault.", &[]),
    ("403", "An HTML form that is not on a page of this site.", &[]),
    ("405", "Only POST is accepted.", &["Allow"]),
    ("408", "The body did not arrive in time.", &[]),
    // The description is empty here: `describe_operation` writes it with the maximum size.
    ("413", "", &[]),
    ("429", "Too many requests, or too many bytes, from this source or its network.", &["Retry-After"]),
    ("500", "The request could not be delivered. Nothing of it was kept. `Retry-After` is present if the request is too large for the space that is left.", &["Retry-After"]),
];

/// Describes the endpoint of a form: its request bodies and its responses. Mentions HTML forms, and the
/// statuses 303 and 403, only if the site accepts HTML forms.
fn describe_operation(form: &Form, options: &PagesOptions, resources: &ResourceOptions) -> Value {
    let mut description = format!("{}\n\n{CONFIRMATION}", form.description).trim_start().to_owned();
    if let Some(alternative) = &form.alternative {
        let names: Vec<String> = alternative.iter().map(|field| format!("`{}`", field.name)).collect();
        description.push_str(&format!("\n\nAn object without `name` is read as an older shape with {}; the developer guide documents it.", names.join(", ")));
    }
    let mut responses = Map::new();
    let always: &[&str] = if resources.quotas.is_some() { &["RateLimit", "RateLimit-Policy"] } else { &[] };
    let large = format!("The body is longer than {} KiB, counted after decoding.", MAX_BODY_BYTES / 1024);
    for (status, description, more) in RESPONSES {
        if status == "403" && !options.html_posts {
            continue;
        }
        let schema = if status == "200" { "Ok" } else { "Error" };
        let description = if status == "413" { &large } else { description };
        let mut response = json!({
            "description": description,
            "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } },
        });
        let header =
            |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
        let headers: Map<String, Value> = always.iter().chain(more).map(header).collect();
        if !headers.is_empty() {
            response["headers"] = headers.into();
        }
        responses.insert(status.to_owned(), response);
    }
    let mut body = json!({
        "application/json": {
            "schema": { "$ref": format!("#/components/schemas/{}", form.schema_name) },
            "example": example_body(&form.fields),
        },
    });
    if options.html_posts {
        description.push_str(HTML_POSTS);
        let schema = json!({ "$ref": format!("#/components/schemas/{}", form.schema_name) });
        body["application/x-www-form-urlencoded"] = json!({ "schema": schema });
        for (status, response) in &mut responses {
            if status != "200" {
                response["content"]["text/html"] = json!({ "schema": { "type": "string" } });
            }
        }
        let location =
            json!({ "description": "The thank-you page.", "required": true, "schema": { "type": "string" } });
        let accepted =
            json!({ "description": "An HTML form was accepted.", "headers": { "Location": location } });
        responses.insert("303".to_owned(), accepted);
    }
    json!({
        "operationId": form.operation_id,
        "summary": form.summary,
        "description": description,
        "tags": ["forms"],
        "security": [],
        "parameters": [{
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": format!("A value chosen by the client, such as a UUID. A request with the same content counts as one submission for {}; the same key with different content creates a new one.", format_duration(resources.duplicate_window)),
            "schema": { "type": "string" },
            "example": "6f9c2f5e-6f0f-4c1b-9a53-1f0a3f1f7a11",
        }],
        "requestBody": {
            "required": true,
            "content": body,
        },
        "responses": responses,
    })
}
