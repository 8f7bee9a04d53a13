//! The notes of operators on a submission: a thread, each with its author and time.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::annotation::Annotated;
use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::operator_log::OperatorAction;
use super::{FromRow as _, from_row, values};
use crate::store::error::StoreError;
use frontdesk_forms::text::with_line_feeds;

/// Maximum length of a note, in characters.
pub const MAX_NOTE: usize = 4000;
/// Maximum number of notes on a submission.
pub const MAX_NOTES: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A UUID version 7, so ids sort by the time at which the notes were added.
    pub id: Uuid,
    /// When the note was added or last changed.
    pub at: Timestamp,
    /// The name of the user who wrote the note. Only this user can edit or remove it.
    pub user: String,
    pub text: String,
}

/// Trims a note, and replaces line breaks by line feeds and each NUL by U+FFFD. Fails if it is longer than
/// [`MAX_NOTE`].
fn clean(text: &str) -> Result<String, StoreError> {
    // Replace NUL, which PostgreSQL cannot store in text.
    let text = with_line_feeds(text.trim()).replace('\0', "\u{fffd}");
    let length = text.chars().count();
    if length > MAX_NOTE { Err(StoreError::NoteTooLong { length, max: MAX_NOTE }) } else { Ok(text) }
}

impl Editor {
    /// Adds a note to a submission, trimmed, with line feeds as line breaks and U+FFFD for NUL. An empty note
    /// changes nothing, and neither does a note that repeats the submission's last note if the same user
    /// wrote that, because a form may be sent twice. Fails with [`StoreError::NoteTooLong`] if the note is
    /// longer than [`MAX_NOTE`], and with [`StoreError::TooManyNotes`] if the submission has [`MAX_NOTES`].
    pub fn add_note(
        &mut self,
        submission: Uuid,
        text: &str,
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let (text, user, id) = (clean(text)?, self.user().to_owned(), Uuid::now_v7());
        self.annotate(submission, OperatorAction::Note, |tx| {
            if text.is_empty() {
                return Ok(0);
            }
            let count: usize =
                tx.one_value("SELECT count(*) FROM note WHERE submission = ?1", values![submission])?;
            let last = "SELECT id, at, actor AS \"user\", text FROM note WHERE submission = ?1 ORDER BY id DESC LIMIT 1";
            let last = tx.row(last, values![submission])?.as_ref().map(Note::from_row).transpose()?;
            if last.is_some_and(|last| last.user == user && last.text == text) {
                return Ok(0);
            }
            if count >= MAX_NOTES {
                return Err(StoreError::TooManyNotes { max: MAX_NOTES });
            }
            let add = "INSERT INTO note (id, submission, at, actor, text) VALUES (?1, ?2, ?3, ?4, ?5)";
            tx.execute(add, values![id, submission, now.as_millisecond(), user, text])
        })
    }

    /// Replaces the text of one of the user's own notes, and sets its time to `now`. An empty text removes
    /// the note. Changes nothing if the submission has no such note, if another user wrote it, or if it has
    /// this text already. Cleans the text and fails with [`StoreError::NoteTooLong`] like
    /// [`Editor::add_note`].
    pub fn edit_note(
        &mut self,
        submission: Uuid,
        note: Uuid,
        text: &str,
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let (text, user) = (clean(text)?, self.user().to_owned());
        let action = if text.is_empty() { OperatorAction::RemoveNote } else { OperatorAction::EditNote };
        self.annotate(submission, action, |tx| {
            if text.is_empty() {
                let remove = "DELETE FROM note WHERE id = ?1 AND submission = ?2 AND actor = ?3";
                return tx.execute(remove, values![note, submission, user]);
            }
            let set = "UPDATE note SET text = ?4, at = ?5
                 WHERE id = ?1 AND submission = ?2 AND actor = ?3 AND text <> ?4";
            tx.execute(set, values![note, submission, user, text, now.as_millisecond()])
        })
    }
}

from_row! { Note { id, at, user, text } }

impl InboxReader {
    /// The notes on these submissions, oldest first. The ids must be distinct. Submissions without notes have
    /// no entry.
    pub fn notes(&self, submissions: &[Uuid]) -> Result<HashMap<Uuid, Vec<Note>>, StoreError> {
        let mut keys: Vec<[u8; 16]> = submissions.iter().map(|id| id.into_bytes()).collect();
        keys.sort_unstable();
        let select = "SELECT submission, id, at, actor AS \"user\", text FROM note WHERE";
        let mut threads: HashMap<Uuid, Vec<Note>> = HashMap::new();
        for row in self.sql.query_in(select, "submission", &keys, "")? {
            threads.entry(row.get("submission")?).or_default().push(Note::from_row(&row)?);
        }
        for notes in threads.values_mut() {
            notes.sort_by_key(|note| note.id);
        }
        Ok(threads)
    }
}
