//! Downloads of all submissions of a list, as CSV or JSON Lines.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Write as _};
use std::sync::Arc;

use http::header::{CONTENT_DISPOSITION, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use jiff::tz::TimeZone;

use super::html::{Reply, stream_reply};
use super::list_query::ListQuery;
use super::response_body::{ChunkWriter, stream};
use super::state::DeskState;
use super::{csv, submission_json};
use frontdesk_inbox::store::{Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::Submission;
use frontdesk_process::panics::{self, Part};

/// Streams all submissions of a list as a file, newest first, whichever page and order of the list is open.
/// 503 if too many exports are in progress. After an error, the download is cut off; the error is logged
/// unless the client caused it.
pub(super) fn export(inbox: &Arc<DeskState>, query: &ListQuery, filter: Filter, is_csv: bool) -> Reply {
    let Ok(permit) = inbox.exports.clone().try_acquire_owned() else {
        let sentence = "Other exports are still being downloaded. Try again in a minute.";
        let mut reply =
            inbox.templates.message(StatusCode::SERVICE_UNAVAILABLE, "Too many exports", sentence);
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
        return reply;
    };
    let (query, filter) = (query.first_page(), Filter { before: None, ..filter });
    let (sender, body) = stream();
    let inbox = inbox.clone();
    tokio::runtime::Handle::current().spawn_blocking(move || {
        let written = panics::catch(Part::Inbox, || {
            inbox.readers.with(|reader| {
                panics::inject("export", "");
                let mut out = ChunkWriter::new(sender);
                Ok(write_export(reader, &query, &filter, is_csv, &mut out).and_then(|()| out.finish()))
            })
        });
        let failure = match written {
            Ok(Ok(Ok(()))) => None,
            // The client has disconnected or reads too slowly, so do not log an error.
            Ok(Ok(Err(error))) if error.kind() == ErrorKind::BrokenPipe => None,
            Ok(Ok(Err(error))) => Some(error.to_string()),
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic.to_string()),
        };
        if let Some(error) = failure {
            tracing::warn!(%error, "an export of the inbox failed: the downloaded file is incomplete; download it again");
        }
        drop(permit);
    });
    let (media_type, name) = if is_csv {
        ("text/csv; charset=utf-8", "attachment; filename=\"submissions.csv\"")
    } else {
        ("application/jsonl", "attachment; filename=\"submissions.jsonl\"")
    };
    let mut response = stream_reply(media_type, body);
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}

/// Writes the submissions that match the list's filters and search words, newest first. An empty search text
/// matches all submissions; a text without words, such as `?`, matches none. Ignores the filter's limit.
/// Words are searched in fields and notes, so fields of encrypted submissions never match.
fn write_export(
    reader: &InboxReader,
    query: &ListQuery,
    filter: &Filter,
    is_csv: bool,
    out: &mut ChunkWriter,
) -> io::Result<()> {
    let (words, limit) = match query.words() {
        Ok(words) => (words, None),
        Err(_) => (None, Some(0)),
    };
    let filter = Filter { limit, ..filter.clone() };
    let listing = reader.list(&filter).map_err(io::Error::other)?;
    let notes = if words.is_some() { reader.note_texts().map_err(io::Error::other)? } else { HashMap::new() };
    let is_wanted = |found: &Result<Submission, StoreError>| match (&words, found) {
        (Some(words), Ok(submission)) => {
            words.are_in(&submission.fields, notes.get(&submission.id).map_or("", String::as_str))
        }
        _ => true,
    };
    let mut found = listing.filter(is_wanted).map(|found| found.map_err(io::Error::other));
    if is_csv {
        let definitions = reader.definitions().map_err(io::Error::other)?;
        csv::write(&mut found, Some(reader), &definitions, true, &TimeZone::system(), false, out)?;
    } else {
        submission_json::write(&mut found, Some(reader), out)?;
    }
    out.flush()
}
