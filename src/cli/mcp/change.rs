//! The tools that change submissions: the same functions as on the command line, for explicit ids. They
//! change the database; only the server sends anything.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock")]

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::ToolArguments;
use super::result_boundary::random_digits;
use super::session::{McpSession, RemovalPreview, ToolError};
use super::submissions::{MAX_SHORT_TEXT, list_item};
use crate::cli::config_needs::{self, ConfigNeeds};
use crate::cli::diagnostics::counted;
use crate::cli::inbox::annotate::{describe_done, describe_note, describe_spam};
use crate::cli::inbox::delivery_commands::{describe_due_retries, describe_hold, describe_release};
use crate::cli::inbox::removal::{RemovalReport, refusal};
use crate::cli::inbox::show::{Details, read_details};
use frontdesk_config::Config;
use frontdesk_forms::text::visible;
use frontdesk_inbox::change::Changes;
use frontdesk_inbox::discard_preview::DiscardPreview;
use frontdesk_inbox::store::{Editor, Filter, InboxReader, MAX_NOTE, Retry, StoreError};
use frontdesk_inbox::submission::Submission;

/// Maximum number of submissions that one call changes.
pub(super) const MAX_IDS: usize = 50;
/// Maximum length of the reason of a hold, in characters.
pub(super) const MAX_REASON: usize = 500;
/// Number of random bytes in the code that confirms a removal.
const CODE_BYTES: usize = 4;

/// The result for one submission, as a predicate such as "is not in the inbox"; `None` if no submission has
/// the id.
type ChangeResult = Result<Option<String>, StoreError>;

/// Applies a change to each of the submissions. Returns a sentence about each, or in its place an error if an
/// id has no submission. If a change after the first one fails, stops, and also returns its error and the ids
/// from the failed one on. Fails if the first change does, or if no id has a submission.
fn change_each(
    session: &McpSession,
    ids: &[Uuid],
    needs: ConfigNeeds,
    change: impl Fn(&mut Changes<'_>, &Submission, &Config) -> ChangeResult,
) -> Result<Value, ToolError> {
    let config = session.load_configuration(needs)?;
    let inbox = McpSession::open_existing_inbox(&config)?;
    let mut changes = Changes::open(&config.store.url, &inbox, &session.user)?
        .teaching_with(&config.intake.screening.lexicon);
    let mut results: Vec<Value> = Vec::new();
    let mut apply = |id: Uuid| -> ChangeResult {
        let Some(submission) = inbox.get(id)? else { return Ok(None) };
        change(&mut changes, &submission, &config)
    };
    for (at, id) in ids.iter().enumerate() {
        let (name, text) = match apply(*id) {
            Ok(Some(text)) => ("result", text),
            Ok(None) => ("error", "is not in the inbox, or has not been processed yet".to_owned()),
            Err(error) if at == 0 => return Err(error.into()),
            // Return the earlier results, so that clients repeat no change: a second release of a waitlist
            // entry skips the visitor's confirmation.
            Err(error) => {
                let left: Vec<String> = ids[at..].iter().map(Uuid::to_string).collect();
                let hint = "call again with only the ids in `not_handled`";
                let error = ToolError::from(error).to_string();
                return Ok(json!({ "results": results, "error": error, "not_handled": left, "hint": hint }));
            }
        };
        results.push(json!({ "id": id.to_string(), name: text }));
    }
    if results.iter().all(|result| result.get("error").is_some()) {
        return Err(ToolError::new(
            "no submission has one of these ids: `list_submissions` returns the ids of submissions",
        ));
    }
    Ok(json!({ "results": results }))
}

/// Holds submissions. Deliveries that have already started are not stopped. If screening learns, a submission
/// that becomes held loses its lesson.
pub(super) fn hold(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    let reason = arguments.word("reason", MAX_REASON)?;
    change_each(session, &ids, config_needs::STORE, |changes, submission, _| {
        Ok(describe_hold(changes.hold(submission, reason.as_deref(), Timestamp::now())?))
    })
}

/// Releases held submissions to the configured channels. Those that the visitor must confirm may stay held
/// until then. If screening learns, submissions that it had held may become lessons about honest texts.
pub(super) fn release(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    change_each(session, &ids, config_needs::ROUTING, |changes, submission, config| {
        let released = changes.release(submission.id, &config.store.channels, Timestamp::now())?;
        Ok(describe_release(released, submission.status, &config.store.url))
    })
}

/// Makes the waiting and parked deliveries of submissions due now, or only those to `channel`, and switches
/// their channels on; `channel` even if there are none. Without `channel`, also requeues submissions that
/// could not be processed. Fails if `channel` is not configured.
pub(super) fn retry(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    let channel = arguments.word("channel", MAX_SHORT_TEXT)?;
    if let Some(channel) = &channel {
        let config = session.load_configuration(config_needs::CHANNELS)?;
        let names: Vec<&str> = config.store.channels.iter().map(|route| route.name.as_str()).collect();
        if !names.contains(&channel.as_str()) {
            let (channel, names) = (visible(channel), names.join(", "));
            return Err(ToolError::new(format!(
                "no channel is called \"{channel}\"; configured channels: {}",
                if names.is_empty() { "none" } else { &names }
            )));
        }
    }
    change_each(session, &ids, config_needs::STORE, |changes, submission, config| {
        let which = Filter { id: Some(submission.id), ..Filter::default() };
        let retry = Retry { which, channel: channel.clone(), parked_only: false };
        Ok(Some(match changes.retry(&retry, Timestamp::now())? {
            0 if submission.held.is_some() && channel.is_some() => {
                "is held: `release` delivers it. The channel is switched on".to_owned()
            }
            0 if submission.held.is_some() => "is held: `release` delivers it".to_owned(),
            0 if channel.is_some() => {
                "has no waiting or parked delivery to this channel, which is switched on".to_owned()
            }
            0 => "has no waiting or parked delivery: there is nothing to retry".to_owned(),
            count => describe_due_retries(count, &config.store.url),
        }))
    })
}

/// Marks submissions as done, or as open again. If screening learns, a submission that becomes done may be a
/// weak lesson about honest texts, and one that is reopened may lose that lesson.
pub(super) fn set_done(
    session: &McpSession,
    arguments: &mut ToolArguments,
    is_done: bool,
) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    change_each(session, &ids, config_needs::STORE, |changes, submission, _| {
        let annotated = changes.set_done(submission.id, is_done, Timestamp::now())?;
        Ok(describe_done(annotated, is_done))
    })
}

/// Teaches that submissions are spam, and holds them unless they are delivered; or that they are not, and
/// releases those that are held as spam: by the mark, by screening or by a flood.
pub(super) fn set_spam(
    session: &McpSession,
    arguments: &mut ToolArguments,
    is_spam: bool,
) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    change_each(session, &ids, config_needs::STORE, |changes, submission, config| {
        let (channels, now) = (&config.store.channels, Timestamp::now());
        let annotated = if is_spam {
            changes.editor.mark_spam(submission.id, now)?
        } else {
            changes.editor.mark_ham(submission.id, channels, now)?
        };
        Ok(describe_spam(annotated, is_spam))
    })
}

/// Adds a note to one submission. Fails if the note is empty or too long, or if the submission has too many.
/// A repetition of the user's last note changes nothing.
pub(super) fn note(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let id = arguments.id("id")?.ok_or_else(|| ToolError::new("`id` is missing"))?;
    let text = arguments.text("text", MAX_NOTE)?.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ToolError::new("`text` is missing or empty: it is the note to add"))?;
    change_each(session, &[id], config_needs::STORE, |changes, submission, _| {
        Ok(describe_note(changes.editor.add_note(submission.id, &text, Timestamp::now())?))
    })
}

/// Removes held submissions in two calls: the first returns what would be removed and a code, and the
/// second confirms exactly that with the code. Checking a code uses up the preview, even if the code is
/// wrong; a call that fails earlier keeps it. Refuses submissions that are not held; fails if none is.
pub(super) fn discard(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let ids = arguments.ids("ids", MAX_IDS)?;
    let code = arguments.word("confirmation", MAX_SHORT_TEXT)?;
    let config = session.load_configuration(config_needs::STORE)?;
    let inbox = McpSession::open_existing_inbox(&config)?;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for id in ids {
        match inbox.get(id)? {
            Some(submission) => found.push(submission),
            None => refused.push(json!({ "id": id.to_string(), "reason": "is not in the inbox" })),
        }
    }
    let preview = DiscardPreview::new(found);
    refused.extend(preview.others.iter().map(|submission| {
        let reason = ToolError::from(refusal(submission)).to_string();
        json!({ "id": submission.id.to_string(), "reason": reason })
    }));
    if preview.held.is_empty() {
        let refused = json!(refused);
        return Err(ToolError::new(format!(
            "nothing can be discarded, because no submission is held: {refused}"
        )));
    }
    let mut ids = preview.ids();
    ids.sort_unstable();
    match code {
        None => preview_removal(session, &inbox, &preview, ids, &refused),
        Some(code) if session.take_preview().is_some_and(|shown| shown.code == code && shown.ids == ids) => {
            remove(session, &config, &preview, &refused)
        }
        Some(_) => Err(ToolError::new(
            "nothing was removed: the confirmation is not that of the last preview, or the preview showed other \
             submissions. Call `discard` with the same ids and without `confirmation` to see what would be removed",
        )),
    }
}

/// Describes what a confirmation would remove, and remembers the preview with a new random code. Changes
/// nothing in the inbox.
fn preview_removal(
    session: &McpSession,
    inbox: &InboxReader,
    preview: &DiscardPreview,
    ids: Vec<Uuid>,
    refused: &[Value],
) -> Result<Value, ToolError> {
    let mut items = Vec::new();
    for submission in &preview.held {
        let Details { deliveries, annotation, notes } = read_details(inbox, submission.id)?;
        let mut item = list_item(submission, Some(&annotation), &notes);
        item["deliveries"] = deliveries.len().into();
        item["attempts"] = deliveries.iter().map(|delivery| delivery.attempts.len()).sum::<usize>().into();
        items.push(item);
    }
    let code = random_digits(CODE_BYTES)?;
    session.set_preview(RemovalPreview { code: code.clone(), ids });
    Ok(json!({
        "removed": false,
        "would_remove": items,
        "would_not_remove": refused,
        "what": format!(
            "Nothing has been removed yet. Confirming removes {} permanently: the fields, the result of screening, \
             the deliveries with their attempts, and the notes of each. It cannot be undone. Copies that channels have \
             delivered, and backups, stay. Show this to the operator, and call `discard` again with the same ids and \
             the confirmation only if the operator agrees.",
            counted(preview.held.len(), "submission")
        ),
        "confirmation": code,
    }))
}

/// Removes the submissions of a confirmed preview that are still held, and reports what was removed. If
/// screening learns, submissions that it held or that are marked as spam may become lessons about spam.
fn remove(
    session: &McpSession,
    config: &Config,
    preview: &DiscardPreview,
    refused: &[Value],
) -> Result<Value, ToolError> {
    let mut editor = Editor::open(&config.store.url)?
        .on_behalf_of(&session.user)
        .teaching_with(&config.intake.screening.lexicon);
    let discarded = preview.discard(&mut editor, Timestamp::now()).map_err(|error| {
        let error = ToolError::from(error);
        ToolError::new(format!(
            "{error}\nSome submissions may not have been removed: call `discard` again with the same ids and without \
             `confirmation`"
        ))
    })?;
    let report = RemovalReport::new(&discarded.erased, &config.store.url);
    Ok(json!({
        "removed": !report.removed.is_empty(),
        "what": report.removed,
        "remarks": report.remarks,
        "is_wiped": discarded.erased.is_wiped,
        "released_or_removed_meanwhile": discarded.stayed,
        "not_removed": refused,
    }))
}
