//! What a request's body looks like: frontdesk's own JSON, or what a template makes of the notice.
//!
//! Each `{{ … }}` of a template writes one whole JSON value, quotes included, whatever it holds and however it was marked. So nothing
//! that a visitor sends can become more than a value.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use minijinja::value::{Enumerator, Object, Value as Seen};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::chat;
use crate::deliver::notice::{About, Notice};
use crate::forms::text::{is_unsafe, visible, visible_lines};

/// The largest template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// The largest body, in bytes, before characters are escaped.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The most instructions that a template may run for one notice.
const MAX_INSTRUCTIONS: u64 = 100_000;

/// The version of frontdesk's own JSON. Members may be added to it; what is there keeps its meaning.
const VERSION: u32 = 1;

/// The name under which a template is known to its engine.
const NAME: &str = "body";

/// Slack: `verbatim` keeps it from making links and mentions of plain words. A section holds 3,000 characters.
const SLACK: &str = r#"{
  "text": {{ title | slack(200) }},
  "blocks": [{ "type": "section", "text": { "type": "mrkdwn", "text": {{ text | slack(3000) }}, "verbatim": true } }],
  "unfurl_links": false,
  "unfurl_media": false
}"#;

/// Mattermost: a post holds 16,383 characters.
const MATTERMOST: &str = r#"{ "text": {{ text | shorten(12000) | inert | fence }} }"#;

/// Discord: a message holds 2,000 characters. Nobody is mentioned, and no link is unfolded (flag 4).
const DISCORD: &str = r#"{
  "content": {{ text | markdown(2000) }},
  "allowed_mentions": { "parse": [] },
  "flags": 4
}"#;

/// What a request's body looks like.
#[derive(Clone)]
pub enum Body {
    /// Frontdesk's own JSON.
    Standard,
    /// What a template makes of the notice.
    Template(Template),
}

/// A template that made JSON of every sample.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

impl Body {
    /// `standard`, `slack`, `mattermost`, `discord` or a template's text. A template is tried on samples; the fault says in which line
    /// it failed and what would be right.
    pub fn parse(text: &str) -> Result<Body, String> {
        let source = match text.trim() {
            "standard" => return Ok(Body::Standard),
            "slack" => SLACK,
            "mattermost" => MATTERMOST,
            "discord" => DISCORD,
            word if !word.contains(['{', '[', '"']) => {
                return Err("expected `standard`, `slack`, `mattermost`, `discord` or a template that makes JSON, such \
                            as `{ \"text\": {{ text }} }`"
                    .to_owned());
            }
            _ => text,
        };
        Template::compile(source).map(Body::Template)
    }

    /// The body for a notice: compact JSON in which everything that a terminal or an editor might take for something else than text is
    /// escaped. A fault says what went wrong, and nothing of what the notice holds.
    pub fn render(&self, notice: &Notice) -> Result<String, String> {
        match self {
            Body::Standard => Ok(compact(&standard(notice))),
            Body::Template(template) => template.render(notice),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Body::Standard) { "Standard" } else { "Template" })
    }
}

impl Template {
    fn compile(source: &str) -> Result<Template, String> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(format!("a template has {MAX_TEMPLATE_BYTES} bytes at most"));
        }
        let mut environment = Environment::new();
        environment.set_debug(false);
        environment.set_fuel(Some(MAX_INSTRUCTIONS));
        // Whatever a template calls safe, and whatever it says of escaping: what is written is one JSON value.
        environment.set_formatter(|output, _, value| {
            let text = serde_json::to_string(value)
                .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            output.write_str(&text).map_err(Error::from)
        });
        environment.add_filter("shorten", |text: Seen, limit: usize| chat::shorten(&words(&text), limit));
        environment.add_filter("slack", |text: Seen, limit: Option<usize>| {
            chat::slack(&words(&text), limit.unwrap_or(usize::MAX))
        });
        environment.add_filter("markdown", |text: Seen, limit: Option<usize>| {
            chat::markdown(&words(&text), limit.unwrap_or(usize::MAX))
        });
        environment.add_filter("inert", |text: Seen| chat::inert(&words(&text)));
        environment.add_filter("fence", |text: Seen| chat::fence(&words(&text)));
        environment.add_template_owned(NAME, source.to_owned()).map_err(|error| fault(&error))?;
        let template = Template(Arc::new(environment));
        template.knows_its_names()?;
        for sample in samples() {
            template.render(&sample)?;
        }
        Ok(template)
    }

    /// A name that is not there would write `null` for ever.
    fn knows_its_names(&self) -> Result<(), String> {
        let template = self.0.get_template(NAME).map_err(|error| fault(&error))?;
        let known = context(&sample(About::Canary)).map(|(name, _)| name);
        let globals: Vec<&str> = self.0.globals().map(|(name, _)| name).collect();
        let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        unknown.retain(|name| !known.contains(&name.as_str()) && !globals.contains(&name.as_str()));
        unknown.sort();
        let Some(name) = unknown.first() else { return Ok(()) };
        Err(format!("there is no `{name}`: expected one of {}", known.join(", ")))
    }

    fn render(&self, notice: &Notice) -> Result<String, String> {
        let template = self.0.get_template(NAME).map_err(|error| fault(&error))?;
        let mut output = Bounded(Vec::new());
        template
            .render_captured_to(Seen::from(BTreeMap::from(context(notice))), &mut output)
            .map_err(|error| fault(&error))?;
        let value: Value = serde_json::from_slice(&output.0).map_err(|error| no_json(&error))?;
        Ok(compact(&value))
    }
}

/// What a template sees as text: nothing where there is nothing.
fn words(value: &Seen) -> String {
    if value.is_undefined() || value.is_none() { String::new() } else { value.to_string() }
}

/// What a template's engine says, without what it read from the notice.
fn fault(error: &Error) -> String {
    let place = error
        .line()
        .map_or_else(|| "in the template".to_owned(), |line| format!("line {line} of the template"));
    match error.kind() {
        ErrorKind::OutOfFuel => format!("{place}: it takes more than {MAX_INSTRUCTIONS} instructions"),
        ErrorKind::WriteFailure => format!("the template makes more than {MAX_BODY_BYTES} bytes"),
        // These quote the template only.
        ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownTest => {
            format!("{place}: {}", error.detail().unwrap_or("it cannot be read"))
        }
        kind => format!("{place}: {kind}"),
    }
}

fn no_json(error: &serde_json::Error) -> String {
    format!(
        "what the template makes is not JSON, in its line {}: each `{{{{ … }}}}` brings its own quotes, so write \
         `\"text\": {{{{ text }}}}`, and join with `~`: `{{{{ \"New: \" ~ title }}}}`",
        error.line()
    )
}

/// A buffer that refuses to grow beyond [`MAX_BODY_BYTES`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
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

/// Frontdesk's own JSON.
fn standard(notice: &Notice) -> Value {
    let mut data = Map::new();
    data.insert("id".to_owned(), notice.id.to_string().into());
    if notice.about == About::Submission {
        data.insert("form".to_owned(), notice.form.clone().into());
        data.insert("received_at".to_owned(), time(notice).into());
        data.insert("suspicious".to_owned(), notice.is_suspicious.into());
        // No field is called as the members before it are.
        for (name, value) in &notice.fields {
            data.entry(name.as_str()).or_insert_with(|| value.as_str().into());
        }
    } else {
        data.insert("title".to_owned(), notice.title.as_str().into());
        data.insert("lines".to_owned(), notice.words.as_slice().into());
    }
    json!({ "type": notice.about.event(), "version": VERSION, "timestamp": time(notice), "data": data })
}

/// What a template sees. The fields are exact; title, text and lines are for reading, with nothing hidden in them.
fn context(notice: &Notice) -> [(&'static str, Seen); 10] {
    let lines: Vec<String> = notice.words.iter().map(|line| visible_lines(line)).collect();
    [
        ("type", notice.about.event().into()),
        ("version", VERSION.into()),
        ("timestamp", time(notice).into()),
        ("id", notice.id.to_string().into()),
        ("form", notice.form.clone().into()),
        ("title", visible(&notice.title).into()),
        ("text", text(notice).into()),
        ("fields", Seen::from_object(Fields(notice.fields.clone()))),
        ("lines", lines.into()),
        ("suspicious", notice.is_suspicious.into()),
    ]
}

/// A submission's fields as a template's object, in the form's order.
struct Fields(Vec<(String, String)>);

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        let name = key.as_str()?;
        self.0.iter().find_map(|(field, value)| (field == name).then(|| value.as_str().into()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(field, _)| field.as_str().into()).collect())
    }
}

/// Without the values: they are the visitor's.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fields(…)")
    }
}

/// The notice as a person reads it.
fn text(notice: &Notice) -> String {
    let mut text = visible(&notice.title);
    if !notice.words.is_empty() {
        text.push('\n');
    }
    for line in &notice.words {
        text.push('\n');
        text.push_str(&visible_lines(line));
    }
    if !notice.fields.is_empty() {
        text.push('\n');
    }
    for (name, value) in &notice.fields {
        let value = visible_lines(value);
        let gap = if value.contains('\n') { '\n' } else { ' ' };
        // Writing to a string does not fail.
        let _ = write!(text, "\n{}:{gap}{value}", visible(name));
    }
    text
}

/// In RFC 3339, in UTC, with milliseconds, as the inbox shows it.
fn time(notice: &Notice) -> String {
    format!("{:.3}", notice.created_at)
}

/// Without a space that is not in a value, and safe to look at: JSON has an escape for everything.
fn compact(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// One notice of each kind, with what a template is most likely to stumble over.
fn samples() -> [Notice; 4] {
    [About::Submission, About::Digest, About::Flood, About::Canary].map(sample)
}

fn sample(about: About) -> Notice {
    let fields =
        [("name", "Ada \"Countess\" Lovelace"), ("email", "ada@example.com"), ("message", "One\n{two}\\")];
    let is_submission = about == About::Submission;
    Notice {
        may_be_there: true,
        id: Uuid::nil(),
        about,
        created_at: Timestamp::UNIX_EPOCH,
        form: is_submission.then(|| "contact".to_owned()),
        is_suspicious: false,
        title: "Contact: Ada \"Countess\" Lovelace".to_owned(),
        words: if is_submission { Vec::new() } else { vec!["A \"line\" of ours".to_owned()] },
        fields: fields
            .iter()
            .filter(|_| is_submission)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
