//! The request body of a webhook: the standard JSON, or the output of a template.
//!
//! Each `{{ … }}` in a template writes one complete JSON value including its quotes, so that a visitor's text
//! cannot change the structure of the JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use minijinja::value::{Enumerator, Object, Serde, Value as TemplateValue};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::chat_filters;
use super::service::ChatService;
use super::text::notification_text;
use crate::notification::{Notification, Topic};
use frontdesk_forms::text::{escape_unsafe_in_json, visible, visible_lines};
use frontdesk_forms::{CONTACT, FieldValue};

const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// Maximum size of a template's output in bytes, before characters are escaped.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Maximum number of instructions that the template engine executes for one body.
const MAX_INSTRUCTIONS: u64 = 100_000;

/// The version of the standard JSON. Adding members does not change it.
const VERSION: u32 = 1;

/// The template's name in its [`Environment`].
const NAME: &str = "body";

/// The template for Slack. `verbatim` disables automatic links and mentions. A section has at most 3,000
/// characters.
const SLACK: &str = r#"{
  "text": {{ title | slack(200) }},
  "blocks": [{ "type": "section", "text": { "type": "mrkdwn", "text": {{ text | slack(3000) }}, "verbatim": true } }],
  "unfurl_links": false,
  "unfurl_media": false
}"#;

/// The template for Mattermost. A post has at most 16,383 characters.
const MATTERMOST: &str = r#"{ "text": {{ text | shorten(12000) | inert | fence }} }"#;

/// The template for Discord, with mentions and link previews (flag 4) disabled. A message has at most 2,000
/// characters.
const DISCORD: &str = r#"{
  "content": {{ text | markdown(2000) }},
  "allowed_mentions": { "parse": [] },
  "flags": 4
}"#;

#[derive(Clone)]
pub enum WebhookBody {
    /// The standard JSON, documented in docs/pages/webhooks.md.
    Standard,
    Template(Template),
    Service(ChatService),
}

/// A template that has produced valid JSON for every sample notification.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

impl WebhookBody {
    /// Parses `standard`, `slack`, `mattermost`, `discord`, `teams` or a template, which is tested with
    /// sample notifications. The configuration reads `telegram` and `ntfy` itself, because they need other
    /// keys. The error names the faulty line or the expected values.
    pub fn parse(text: &str) -> Result<WebhookBody, String> {
        let source = match text.trim() {
            "standard" => return Ok(WebhookBody::Standard),
            "slack" => SLACK,
            "mattermost" => MATTERMOST,
            "discord" => DISCORD,
            "teams" => return Ok(WebhookBody::Service(ChatService::Teams)),
            word if !word.contains(['{', '[', '"']) => {
                return Err("expected `standard`, `slack`, `mattermost`, `discord`, `teams`, `telegram`, `ntfy` or a \
                            template that produces JSON, such as `{ \"text\": {{ text }} }`"
                    .to_owned());
            }
            _ => text,
        };
        Template::compile(source).map(WebhookBody::Template)
    }

    /// Renders compact JSON in which control characters and invisible characters are escaped. The error does
    /// not quote the notification.
    pub fn render(&self, notice: &Notification) -> Result<String, String> {
        match self {
            WebhookBody::Standard => Ok(to_compact_json(&standard_json(notice))),
            WebhookBody::Template(template) => template.render(notice),
            WebhookBody::Service(service) => Ok(to_compact_json(&service.body(notice))),
        }
    }
}

impl fmt::Debug for WebhookBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WebhookBody::Standard => "Standard",
            WebhookBody::Template(_) => "Template",
            WebhookBody::Service(_) => "Service",
        })
    }
}

impl Template {
    /// Parses a template, and renders a sample of each topic, so that faults show at startup. Also refuses
    /// unknown variables and more than [`MAX_TEMPLATE_BYTES`].
    fn compile(source: &str) -> Result<Template, String> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(format!(
                "the template has {} bytes, and may have at most {MAX_TEMPLATE_BYTES}",
                source.len()
            ));
        }
        let mut environment = Environment::new();
        environment.set_debug(false);
        environment.set_fuel(Some(MAX_INSTRUCTIONS));
        // Write each value as JSON, even if the template marks it as safe or changes the escaping.
        environment.set_formatter(|output, _, value| {
            let text = serde_json::to_string(value)
                .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            output.write_str(&text).map_err(Error::from)
        });
        environment.add_filter("shorten", |text: TemplateValue, limit: usize| {
            chat_filters::shorten(&value_to_text(&text), limit)
        });
        environment.add_filter("slack", |text: TemplateValue, limit: Option<usize>| {
            chat_filters::slack(&value_to_text(&text), limit.unwrap_or(usize::MAX))
        });
        environment.add_filter("markdown", |text: TemplateValue, limit: Option<usize>| {
            chat_filters::markdown(&value_to_text(&text), limit.unwrap_or(usize::MAX))
        });
        environment.add_filter("inert", |text: TemplateValue| chat_filters::inert(&value_to_text(&text)));
        environment.add_filter("fence", |text: TemplateValue| chat_filters::fence(&value_to_text(&text)));
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| describe_template_error(&error))?;
        let template = Template(Arc::new(environment));
        template.check_variables()?;
        for topic in Topic::ALL {
            template.render(&sample_notification(topic))?;
        }
        Ok(template)
    }

    /// Rejects unknown variables, which would otherwise render as `null` without an error.
    fn check_variables(&self) -> Result<(), String> {
        let template = self.0.get_template(NAME).map_err(|error| describe_template_error(&error))?;
        let known = template_variables(&sample_notification(Topic::Test)).map(|(name, _)| name);
        let globals: Vec<&str> = self.0.globals().map(|(name, _)| name).collect();
        let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        unknown.retain(|name| !known.contains(&name.as_str()) && !globals.contains(&name.as_str()));
        unknown.sort_unstable();
        let Some(name) = unknown.first() else { return Ok(()) };
        Err(format!("there is no variable `{name}`: expected one of {}", known.join(", ")))
    }

    /// Renders compact JSON. Fails if the output is not JSON or exceeds a limit.
    fn render(&self, notice: &Notification) -> Result<String, String> {
        let template = self.0.get_template(NAME).map_err(|error| describe_template_error(&error))?;
        let mut output = Bounded(Vec::new());
        template
            .render_captured_to(TemplateValue::from(BTreeMap::from(template_variables(notice))), &mut output)
            .map_err(|error| describe_template_error(&error))?;
        let value: Value = serde_json::from_slice(&output.0).map_err(|error| describe_json_error(&error))?;
        Ok(to_compact_json(&value))
    }
}

fn value_to_text(value: &TemplateValue) -> String {
    if value.is_undefined() || value.is_none() { String::new() } else { value.to_string() }
}

/// Describes an error from the template engine without quoting the notification.
fn describe_template_error(error: &Error) -> String {
    let place = error
        .line()
        .map_or_else(|| "in the template".to_owned(), |line| format!("line {line} of the template"));
    match error.kind() {
        ErrorKind::OutOfFuel => format!("{place}: it executes more than {MAX_INSTRUCTIONS} instructions"),
        ErrorKind::WriteFailure => format!("the template produces more than {MAX_BODY_BYTES} bytes"),
        // The details of these errors quote only the template.
        ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownTest => {
            format!("{place}: {}", error.detail().unwrap_or("the syntax is not valid"))
        }
        kind => format!("{place}: {kind}"),
    }
}

/// Describes output that is not JSON by its line, without quoting it, and how to write values.
fn describe_json_error(error: &serde_json::Error) -> String {
    format!(
        "the template's output is not JSON (error in line {}): each `{{{{ … }}}}` adds its own quotes, so write \
         `\"text\": {{{{ text }}}}`, and join with `~`: `{{{{ \"New: \" ~ title }}}}`",
        error.line()
    )
}

/// An output buffer that holds at most [`MAX_BODY_BYTES`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    /// Fails, and writes nothing, if the buffer would exceed the limit.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BODY_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The standard body: the fields of a submission, or the title and lines of another notification. Omits a
/// field whose name is that of a member, such as `id`.
fn standard_json(notice: &Notification) -> Value {
    let mut data = Map::new();
    data.insert("id".to_owned(), notice.id.to_string().into());
    if notice.topic == Topic::Submission {
        data.insert("form".to_owned(), notice.form.clone().into());
        data.insert("received_at".to_owned(), notice.created_at_text().into());
        data.insert("suspicious".to_owned(), notice.is_suspicious.into());
        if !notice.lead.is_empty() {
            data.insert("lead".to_owned(), json!(notice.lead));
        }
        // A visitor's field must not replace `id`, `form` or another member that is already set.
        for (name, value) in &notice.fields {
            data.entry(name.as_str()).or_insert_with(|| json!(value));
        }
    } else {
        data.insert("title".to_owned(), notice.title.as_str().into());
        data.insert("lines".to_owned(), notice.lines.as_slice().into());
    }
    json!({ "type": notice.topic.event_type(), "version": VERSION, "timestamp": notice.created_at_text(), "data": data })
}

/// The variables that a template can use. `fields` has the exact values, `lead` the known members; in the
/// title, the text and the lines, control characters are made visible.
fn template_variables(notice: &Notification) -> [(&'static str, TemplateValue); 11] {
    let lines: Vec<String> = notice.lines.iter().map(|line| visible_lines(line)).collect();
    [
        ("type", notice.topic.event_type().into()),
        ("version", VERSION.into()),
        ("timestamp", notice.created_at_text().into()),
        ("id", notice.id.to_string().into()),
        ("form", notice.form.clone().into()),
        ("title", visible(&notice.title).into()),
        ("text", notification_text(notice).into()),
        ("fields", TemplateValue::from_object(FieldsObject(notice.fields.clone()))),
        ("lines", lines.into()),
        ("suspicious", notice.is_suspicious.into()),
        ("lead", TemplateValue::from(Serde(&notice.lead))),
    ]
}

/// A submission's fields, in the form's order.
struct FieldsObject(Vec<(String, FieldValue)>);

impl Object for FieldsObject {
    fn get_value(self: &Arc<Self>, key: &TemplateValue) -> Option<TemplateValue> {
        let name = key.as_str()?;
        self.0.iter().find_map(|(field, value)| (field == name).then(|| TemplateValue::from(Serde(value))))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(field, _)| field.as_str().into()).collect())
    }
}

/// Omits the values, which visitors wrote.
impl fmt::Debug for FieldsObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldsObject(…)")
    }
}

/// Formats JSON without insignificant whitespace, and escapes control characters and invisible characters.
fn to_compact_json(value: &Value) -> String {
    escape_unsafe_in_json(&value.to_string())
}

/// A sample notification with characters that break carelessly written templates.
pub(super) fn sample_notification(topic: Topic) -> Notification {
    let fields =
        [("name", "Ada \"Countess\" Lovelace"), ("email", "ada@example.com"), ("message", "One\n{two}\\")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
    let is_submission = topic == Topic::Submission;
    Notification {
        may_be_there: true,
        id: Uuid::nil(),
        topic,
        created_at: Timestamp::UNIX_EPOCH,
        dated_at: Timestamp::UNIX_EPOCH,
        form: is_submission.then(|| "contact".to_owned()),
        definition: is_submission.then_some(*CONTACT),
        is_suspicious: false,
        title: "Contact: Ada \"Countess\" Lovelace".to_owned(),
        lines: if is_submission { Vec::new() } else { vec!["A \"line\" of ours".to_owned()] },
        fields: if is_submission { fields.to_vec() } else { Vec::new() },
        lead: frontdesk_forms::LeadSource::default(),
    }
}

#[cfg(test)]
mod tests;
