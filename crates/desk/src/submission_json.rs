//! Formats submissions as JSON, one object per line. The lines are safe to print on a terminal.
//!
//! Members whose names begin with `_` describe the submission, as do `id`, `form`, `received_at`,
//! `status` and `lead`. The name of a form field never begins with `_`.

use std::io::Write;

use serde_json::{Value, json};

use super::annotated::{self, Annotated};
use crate::time::format_utc;
use frontdesk_forms::text::escape_unsafe_in_json;
use frontdesk_inbox::store::{Annotation, InboxReader, Note};
use frontdesk_inbox::submission::Submission;
use frontdesk_inbox::submission::delivery::{Attempt, Delivery, Obstacle};

/// Writes each submission as a JSON object on one line, with the annotations and notes that `reader` finds.
/// Returns the number of submissions. Stops at the first error.
pub fn write<E: From<std::io::Error>>(
    submissions: &mut dyn Iterator<Item = Result<Submission, E>>,
    reader: Option<&InboxReader>,
    out: &mut dyn Write,
) -> Result<usize, E> {
    annotated::for_each(submissions, reader, &mut |found| {
        writeln!(out, "{}", to_line(&annotated_object(found)))?;
        Ok(())
    })
}

/// The submission as JSON, with its annotation and notes if it has an annotation.
pub(super) fn annotated_object(found: &Annotated) -> Value {
    let mut object = submission_object(&found.submission);
    if let Some(annotation) = &found.annotation {
        add_annotation(&mut object, annotation, &found.notes);
    }
    object
}

/// Formats a value on one line, with escapes for characters that could control a terminal.
pub fn to_line(value: &Value) -> String {
    escape_unsafe_in_json(&value.to_string())
}

/// A submission as it appears in a listing. `lead` exists only if it is known. `_held`, `_released_at` and
/// `_sealed` exist only if they apply. `_asked_at`, `_confirmed_at` and `_confirm_by` exist only if the
/// visitor had to confirm the address; the first two are null until that has happened. If the submission was
/// not screened, `_score` is null, `_reasons` is empty and `_suspicious` is false. The fields of an encrypted
/// submission are missing.
pub fn submission_object(submission: &Submission) -> Value {
    let mut object = json!({
        "id": submission.id.to_string(),
        "form": submission.form,
        "received_at": submission.received_at_text(),
        "status": submission.status.name(),
    });
    for (name, value) in &submission.fields {
        object[name] = json!(value);
    }
    let screening = submission.screening.as_ref();
    object["_repeats"] = submission.repeats.into();
    object["_source"] = submission.source.as_str().into();
    object["_score"] = screening.map(|screening| screening.score).into();
    object["_reasons"] = screening.map_or_else(|| json!([]), |screening| json!(screening.reasons));
    object["_suspicious"] = screening.is_some_and(|screening| screening.suspicious).into();
    object["_agent"] = submission.agent.as_deref().into();
    if let Some(released_at) = submission.released_at {
        object["_released_at"] = format_utc(released_at).into();
    }
    if let Some(held) = &submission.held {
        object["_held"] = json!({ "since": format_utc(held.since), "because": held.because });
    }
    if let Some(confirmation) = &submission.confirmation {
        object["_asked_at"] = confirmation.asked_at.map(format_utc).into();
        object["_confirmed_at"] = confirmation.confirmed_at.map(format_utc).into();
        object["_confirm_by"] = format_utc(confirmation.expires_at).into();
    }
    if !submission.lead.is_empty() {
        object["lead"] = json!(submission.lead);
    }
    if submission.sealed.is_some() {
        object["_sealed"] = true.into();
    }
    object
}

/// A submission with `_deliveries`, each with its attempts.
pub fn object_with_deliveries(submission: &Submission, deliveries: &[Delivery]) -> Value {
    let mut object = submission_object(submission);
    object["_deliveries"] = deliveries.iter().map(delivery_object).collect();
    object
}

/// Adds `_done_at`, `_assignee`, `_follow_up`, `_replied_at`, `_replied_by` and `_notes`, if they apply.
/// `_note` has the texts of all notes, oldest first, with an empty line between them.
pub fn add_annotation(object: &mut Value, annotation: &Annotation, notes: &[Note]) {
    if let Some(done_at) = annotation.done_at {
        object["_done_at"] = format_utc(done_at).into();
    }
    if let Some(assignee) = &annotation.assignee {
        object["_assignee"] = assignee.as_str().into();
    }
    if let Some(day) = annotation.follow_up {
        object["_follow_up"] = day.to_string().into();
    }
    if let (Some(at), Some(user)) = (annotation.replied_at, &annotation.replied_by) {
        object["_replied_at"] = format_utc(at).into();
        object["_replied_by"] = user.as_str().into();
    }
    if !notes.is_empty() {
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        object["_note"] = texts.join("\n\n").into();
        object["_notes"] = notes.iter().map(note_object).collect();
    }
}

fn note_object(note: &Note) -> Value {
    json!({ "at": format_utc(note.at), "user": note.user, "text": note.text })
}

/// A delivery with all its attempts, as JSON. `due_at` is null if no attempt is to follow, and `obstacle` if
/// the channel delivers.
fn delivery_object(delivery: &Delivery) -> Value {
    json!({
        "channel": delivery.channel,
        "state": delivery.state.name(),
        "due_at": delivery.due_at.map(format_utc),
        "obstacle": delivery.obstacle.as_ref().map(obstacle_object),
        "attempts": delivery.attempts.iter().map(attempt_object).collect::<Vec<_>>(),
    })
}

pub fn obstacle_object(obstacle: &Obstacle) -> Value {
    json!({ "off": obstacle.off, "since": format_utc(obstacle.since), "answer": obstacle.answer })
}

/// An attempt. `ended_at`, `delivered` and `answer` are null until it ends, or if it was interrupted.
/// `delivered` is also null if the receiver may have accepted the message.
fn attempt_object(attempt: &Attempt) -> Value {
    json!({
        "number": attempt.number,
        "began_at": format_utc(attempt.began_at),
        "ended_at": attempt.end.as_ref().map(|end| format_utc(end.at)),
        "delivered": attempt.end.as_ref().and_then(|end| end.delivered),
        "answer": attempt.end.as_ref().map(|end| end.answer.as_str()),
    })
}
