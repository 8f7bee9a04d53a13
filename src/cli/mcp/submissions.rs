//! The tools that list, search and read submissions.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use super::arguments::{ToolArguments, missing};
use super::session::{McpSession, ToolError};
use crate::cli::config_needs;
use crate::cli::inbox::open_inbox;
use crate::cli::inbox::selection::find;
use crate::cli::inbox::show::{Details, read_details};
use frontdesk_desk::submission_json as json_lines;
use frontdesk_forms::text::{cut, visible_lines};
use frontdesk_forms::{Field, Form, FormSet};
use frontdesk_inbox::store::{Annotation, Filter, Note, SearchPage, SearchText};
use frontdesk_inbox::submission::delivery::Delivery;
use frontdesk_inbox::submission::{Status, Submission};

/// The default number of submissions on a page.
pub(super) const PAGE_SIZE: u16 = 20;
/// The maximum number of submissions on a page.
pub(super) const MAX_PAGE_SIZE: u16 = 50;
/// Maximum length, in characters, of a search text, a channel's name, an ID and a confirmation code.
pub(super) const MAX_SHORT_TEXT: usize = 200;
/// Maximum length of a field in a list, and of the text around a match, in characters.
const MAX_FIELD: usize = 300;
/// The number of characters before a match that its excerpt contains.
const BEFORE_MATCH: usize = 80;
/// Maximum number of attempts that are returned for each delivery: the newest ones.
const MAX_ATTEMPTS: usize = 20;
/// Maximum time to search the inbox for one page. If it runs out, the page has the matches found so far.
const SEARCH_TIME: Duration = Duration::from_secs(2);

/// The values of the argument `state`: whether a submission is marked as done.
pub(super) const STATES: [&str; 2] = ["open", "done"];

/// Selects the submissions to list, and limits how many there are on a page.
struct ListArguments {
    filter: Filter,
    words: Option<SearchText>,
    size: usize,
}

impl ListArguments {
    /// Reads the filters, the words in `text` and the size of a page. Ages are counted back from `now`.
    fn read(arguments: &mut ToolArguments, now: &Zoned) -> Result<ListArguments, ToolError> {
        let status = arguments.choice("status", &Status::ALL.map(Status::name))?;
        let state = arguments.choice("state", &STATES)?;
        let [from, until] = ["since", "until"].map(|name| arguments.time(name));
        let filter = Filter {
            form: arguments.form_name("form")?,
            status: status.and_then(Status::from_name),
            channel: arguments.word("channel", MAX_SHORT_TEXT)?,
            from: from?.map(|time| time.at(now)),
            until: until?.map(|time| time.at(now)),
            before: arguments.id("cursor")?,
            is_done: state.map(|state| state == "done"),
            ..Filter::default()
        };
        let words = arguments.search_text("text", MAX_SHORT_TEXT)?;
        let size = arguments.number("limit", 1..=MAX_PAGE_SIZE)?.unwrap_or(PAGE_SIZE).into();
        Ok(ListArguments { filter, words, size })
    }
}

/// Lists a page of submissions, newest first.
pub(super) fn list(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let which = ListArguments::read(arguments, &now())?;
    list_page(session, &which, None)
}

/// Finds the submissions that contain every word of the query in their fields or notes. Returns a page of
/// them, newest first, with the text around the first match in each field. A query without a letter or digit,
/// such as `?`, is an error.
pub(super) fn search(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let words = arguments.search_text("query", MAX_SHORT_TEXT)?.ok_or_else(|| missing("query"))?;
    let which = ListArguments { words: Some(words.clone()), ..ListArguments::read(arguments, &now())? };
    list_page(session, &which, Some(&words))
}

/// The current time in this machine's time zone. Dates in arguments are in this zone, as on the CLI.
#[expect(clippy::disallowed_methods, reason = "a command reads the clock")]
fn now() -> Zoned {
    Timestamp::now().to_zoned(TimeZone::system())
}

/// Reads a page of submissions, with the text around each field's first match of `excerpts_of` if it is
/// given. A search stops after [`SEARCH_TIME`]. Without an inbox, returns an empty page with a note.
fn list_page(
    session: &McpSession,
    which: &ListArguments,
    excerpts_of: Option<&SearchText>,
) -> Result<Value, ToolError> {
    let config = session.load_configuration(config_needs::STORE)?;
    let Some(inbox) = open_inbox(&config.store.url)? else {
        return Ok(json!({ "submissions": [], "note": "Nothing has been received yet." }));
    };
    let began = Instant::now();
    let page =
        inbox.page(&which.filter, which.words.as_ref(), which.size, &|| began.elapsed() >= SEARCH_TIME)?;
    let ids: Vec<_> = page.submissions.iter().map(|submission| submission.id).collect();
    let annotations = inbox.annotations(&ids)?;
    let notes = inbox.notes(&ids)?;
    let items = page.submissions.iter().map(|submission| {
        let notes = notes.get(&submission.id).map_or(&[][..], Vec::as_slice);
        let mut item = list_item(submission, annotations.get(&submission.id), notes);
        if let Some(text) = excerpts_of {
            item["matches"] = excerpts(submission, text);
        }
        item
    });
    let mut result = json!({
        "submissions": items.collect::<Vec<_>>(),
        "next_cursor": page.next.map(|id| id.to_string()),
    });
    add_notes(&mut result, &page);
    Ok(result)
}

/// Adds a note if the search was cut short, and the number of encrypted submissions that it met, whose fields
/// cannot be searched.
fn add_notes(result: &mut Value, page: &SearchPage) {
    if page.is_partial {
        result["note"] =
            "The search took too long, and has not seen older submissions: continue with `next_cursor`."
                .into();
    }
    if page.sealed > 0 {
        result["encrypted_and_not_searched"] = page.sealed.into();
    }
}

/// A submission on a page. Shortens the fields and the joined notes, leaves out the single notes, the source
/// and members that are null, false or 0, and replaces the reasons of screening with the names of their
/// signals.
pub(super) fn list_item(submission: &Submission, annotation: Option<&Annotation>, notes: &[Note]) -> Value {
    let mut item = json_lines::submission_object(submission);
    if let Some(annotation) = annotation {
        json_lines::add_annotation(&mut item, annotation, notes);
    }
    let mut item = separate_fields(item, submission);
    let Some(members) = item.as_object_mut() else { return item };
    for name in ["_source", "_reasons", "_notes"] {
        members.remove(name);
    }
    if let Some(screening) = submission.screening.as_ref().filter(|screening| !screening.reasons.is_empty()) {
        members.insert("_signals".to_owned(), screening.signals().into());
    }
    let is_default = |value: &Value| value.is_null() || *value == json!(false) || *value == json!(0);
    members.retain(|_, value| !is_default(value));
    let mut is_shortened = false;
    for name in [FIELDS, "_note"] {
        if let Some(value) = members.get_mut(name) {
            is_shortened |= shorten(value);
        }
    }
    if is_shortened {
        members.insert("_shortened".to_owned(), true.into());
    }
    item
}

/// The name of the JSON member that contains a submission's fields.
const FIELDS: &str = "fields_written_by_visitor";

/// Moves the submission's fields to a member of their own, or notes that they are encrypted.
fn separate_fields(mut item: Value, submission: &Submission) -> Value {
    let Some(members) = item.as_object_mut() else { return item };
    let fields: Value = submission
        .fields
        .iter()
        .filter_map(|(name, _)| Some((name.clone(), members.shift_remove(name)?)))
        .collect();
    if members.shift_remove("_sealed").is_some() {
        members.insert(
            "encrypted".to_owned(),
            "The fields are encrypted to the operator's key, which this server does not have. `frontdesk inbox show ID --identity FILE` opens them.".into(),
        );
    } else {
        members.insert(FIELDS.to_owned(), fields);
    }
    item
}

/// Shortens a text or the texts of an object to [`MAX_FIELD`] characters, counted with the escapes of unsafe
/// ones, and appends `…` to each shortened text. Returns whether one was too long. Lists stay whole.
fn shorten(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            // The limit is for the text as it is shown, with escapes for unsafe characters.
            let shown = visible_lines(text);
            let start = cut(&shown, MAX_FIELD);
            let is_shortened = start.len() < shown.len();
            if is_shortened {
                *text = format!("{start}…");
            }
            is_shortened
        }
        Value::Object(members) => {
            let mut is_shortened = false;
            for value in members.values_mut() {
                is_shortened |= shorten(value);
            }
            is_shortened
        }
        _ => false,
    }
}

/// The text around the first match in each field. Leaves out fields without a match.
fn excerpts(submission: &Submission, words: &SearchText) -> Value {
    let fields = submission.fields.iter();
    fields.filter_map(|(name, value)| Some((name.clone(), excerpt(&value.display(), words)?))).collect()
}

/// The text around the first match of any of the words: at most [`MAX_FIELD`] characters, and `…` where the
/// value continues. `None` if there is no match.
fn excerpt(value: &str, words: &SearchText) -> Option<String> {
    let at = words.find(value)?;
    let skipped = value[..at].chars().count().saturating_sub(BEFORE_MATCH);
    let rest = &value[cut(value, skipped).len()..];
    let text = cut(rest, MAX_FIELD);
    let before = if rest.len() < value.len() { "…" } else { "" };
    let after = if text.len() < rest.len() { "…" } else { "" };
    Some(format!("{before}{text}{after}"))
}

/// Reads one submission in full, by its id or an unambiguous prefix of it: with its annotation, its
/// processing error, the definition of its form if that is known, and its deliveries with their newest
/// attempts.
pub(super) fn read(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let id = arguments.required_word("id", MAX_SHORT_TEXT)?;
    let config = session.load_configuration(config_needs::STORE)?;
    let inbox = McpSession::open_existing_inbox(&config)?;
    let submission = find(Some(&inbox), &id)??;
    let Details { mut deliveries, annotation, notes } = read_details(&inbox, submission.id)?;
    let omitted: usize = deliveries.iter_mut().map(keep_newest_attempts).sum();
    let mut object = json_lines::object_with_deliveries(&submission, &deliveries);
    json_lines::add_annotation(&mut object, &annotation, &notes);
    if let Some(error) = &submission.error {
        object["_error"] = error.as_str().into();
    }
    if let Some(form) = submission.definition {
        object["_definition"] = json!({ "title": form.title, "fields": describe_fields(form) });
    }
    if omitted > 0 {
        object["_attempts_omitted"] = omitted.into();
    }
    Ok(separate_fields(object, &submission))
}

/// The fields of a form's definition, each once: name, label, type, options, and whether it is required.
fn describe_fields(form: &Form) -> Vec<Value> {
    let describe = |field: &Field| {
        let mut value = json!({ "name": field.name, "label": field.label, "type": field.kind, "required": field.required });
        if field.kind.has_options() {
            value["options"] = json!(field.options);
        }
        value
    };
    let mut fields: Vec<Value> = Vec::new();
    for field in form.all_fields() {
        // List a field once even if both variants of the form contain it.
        if fields.iter().all(|known| known["name"] != field.name) {
            fields.push(describe(field));
        }
    }
    fields
}

/// Lists the forms of the site and those that submissions were sent to, with the latest definition and the
/// number of submissions of each. Fails if the configuration has any error.
pub(super) fn list_forms(session: &McpSession, _: &mut ToolArguments) -> Result<Value, ToolError> {
    let config = session.load_configuration(config_needs::EVERYTHING)?;
    let (definitions, counts) = match open_inbox(&config.store.url)? {
        Some(inbox) => (inbox.definitions()?, inbox.count_by_form()?),
        None => Default::default(),
    };
    let configured = &config.pages.form_set;
    let mut forms: Vec<&Form> = configured.iter().collect();
    // Start with the latest definition of each form, which is the last one in the inbox.
    for form in definitions.into_iter().rev().chain(FormSet::built_in().iter()) {
        let is_used = counts.contains_key(form.name);
        if is_used && forms.iter().all(|known| known.name != form.name) {
            forms.push(form);
        }
    }
    let mut list: Vec<Value> = forms
        .iter()
        .map(|form| {
            json!({
                "name": form.name,
                "title": form.title,
                "fields": describe_fields(form),
                "is_configured": configured.named(form.name).is_some(),
                "submissions": counts.get(form.name).copied().unwrap_or_default(),
            })
        })
        .collect();
    // Forms that have submissions, but no definition that this version can read.
    let unknown = counts.iter().filter(|(name, _)| forms.iter().all(|form| form.name != name.as_str()));
    list.extend(
        unknown.map(|(name, count)| json!({ "name": name, "is_configured": false, "submissions": count })),
    );
    Ok(json!({ "forms": list }))
}

/// Removes all attempts except the newest [`MAX_ATTEMPTS`], and returns the number of removed ones.
fn keep_newest_attempts(delivery: &mut Delivery) -> usize {
    let omitted = delivery.attempts.len().saturating_sub(MAX_ATTEMPTS);
    delivery.attempts.drain(..omitted);
    omitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_surrounds_the_first_match_regardless_of_case() {
        let excerpt = |value: &str, text: &str| excerpt(value, &SearchText::parse(text).unwrap());
        assert_eq!(excerpt("We need an INVOICE.", "invoice").as_deref(), Some("We need an INVOICE."));
        assert_eq!(excerpt("Größe ÄÖ", "äö").as_deref(), Some("Größe ÄÖ"));
        assert_eq!(excerpt("Josе\u{301} ΟΔΥΣΣΕΑΣ", "οδυσ").as_deref(), Some("Josе\u{301} ΟΔΥΣΣΕΑΣ"));
        assert_eq!(excerpt("none", "invoice"), None);
        let long = format!("{}Invoice{}", "a".repeat(1000), "b".repeat(1000));
        let found = excerpt(&long, "invoice").unwrap();
        assert_eq!(found.chars().count(), MAX_FIELD + 2);
        assert!(found.starts_with(&format!("…{}Invoice", "a".repeat(BEFORE_MATCH))), "{found}");
        assert!(found.ends_with("b…"), "{found}");
    }

    #[test]
    fn long_texts_are_shortened_by_what_is_shown() {
        let mut value = json!({ "a": "x".repeat(MAX_FIELD), "b": "\u{1b}".repeat(MAX_FIELD) });
        assert!(shorten(&mut value));
        assert_eq!(value["a"], "x".repeat(MAX_FIELD));
        assert_eq!(value["b"].as_str().unwrap().chars().count(), MAX_FIELD + 1);
        assert!(!shorten(&mut json!({ "a": "short" })));
    }
}
