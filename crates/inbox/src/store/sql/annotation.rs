//! Annotations that operators add to a submission: whether it was read, is done or is spam, its assignee, and
//! a private note.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::editor::Editor;
use super::operator_log::OperatorAction;
use super::read::InboxReader;
use super::{FromRow as _, Row, Sql, from_row, values};
use crate::store::error::StoreError;

/// Maximum length of a note, in characters.
pub const MAX_NOTE: usize = 4000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// When an operator first opened the submission; `None` if it is unread.
    pub seen_at: Option<Timestamp>,
    /// Since when the submission has been done; `None` if it is open.
    pub done_at: Option<Timestamp>,
    /// When an operator marked the submission as spam.
    pub spam_at: Option<Timestamp>,
    pub note: Option<String>,
    /// The name of the user who works on it, who may no longer exist.
    pub assignee: Option<String>,
    /// The day on which to come back to it, in days since 1970-01-01.
    pub follow_up: Option<i64>,
    /// When an operator last replied, and who.
    pub replied_at: Option<Timestamp>,
    pub replied_by: Option<String>,
}

/// The result of a change to an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    Changed,
    Unchanged,
    /// The submission does not exist, or has not been processed yet.
    Missing,
}

impl Editor {
    /// Marks a submission as done, or as open again. Marking it as done again keeps the earlier time.
    pub fn set_done(&mut self, id: Uuid, is_done: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let action = if is_done { OperatorAction::Done } else { OperatorAction::Reopen };
        let at = is_done.then(|| now.as_millisecond());
        self.annotate(id, action, |tx| {
            let set = "UPDATE submission SET done_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (done_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            tx.execute(set, values![id, at])
        })
    }

    /// Replaces a submission's note, trimmed and with each NUL replaced by U+FFFD. An empty note removes it.
    /// Fails with [`StoreError::NoteTooLong`] if the note is longer than [`MAX_NOTE`].
    pub fn set_note(&mut self, id: Uuid, note: &str) -> Result<Annotated, StoreError> {
        // PostgreSQL stores no NUL.
        let note = note.trim().replace('\0', "\u{fffd}");
        let length = note.chars().count();
        if length > MAX_NOTE {
            return Err(StoreError::NoteTooLong { length, max: MAX_NOTE });
        }
        self.annotate(id, OperatorAction::Note, |tx| {
            if note.is_empty() {
                let remove = "UPDATE annotation SET note = NULL WHERE submission = ?1 AND note IS NOT NULL";
                return tx.execute(remove, values![id]);
            }
            tx.execute(
                "INSERT INTO annotation (submission, note) VALUES (?1, ?2)
                 ON CONFLICT (submission) DO UPDATE SET note = excluded.note
                 WHERE annotation.note IS NULL OR annotation.note <> excluded.note",
                values![id, note],
            )
        })
    }

    /// Applies a change to the annotation of a processed submission. Logs it unless `change` returns zero.
    pub(super) fn annotate(
        &mut self,
        id: Uuid,
        action: OperatorAction,
        change: impl Fn(&dyn Sql) -> Result<usize, StoreError>,
    ) -> Result<Annotated, StoreError> {
        let entry = self.log_entry(action).about(id);
        self.commit_and_notify(|tx| {
            let exists = format!("SELECT 1 FROM submission WHERE id = ?1 {}", tx.dialect().row_lock_clause());
            if !tx.exists(&exists, values![id])? {
                return Ok(Annotated::Missing);
            }
            if change(tx)? == 0 {
                return Ok(Annotated::Unchanged);
            }
            entry.add(tx, 1)?;
            Ok(Annotated::Changed)
        })
    }
}

from_row! { Annotation { seen_at, done_at, spam_at, note, assignee, follow_up, replied_at, replied_by } }

impl InboxReader {
    /// The annotations of these submissions. Those that are not processed yet have none.
    pub fn annotations(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Annotation>, StoreError> {
        let mut keys: Vec<[u8; 16]> = ids.iter().map(|id| id.into_bytes()).collect();
        keys.sort_unstable();
        let select = "SELECT s.id, s.seen_at, s.done_at, s.spam_at, a.note, a.assignee, a.follow_up, a.replied_at, a.replied_by
             FROM submission s LEFT JOIN annotation a ON a.submission = s.id WHERE";
        let read = |row: &Row| Ok((row.get("id")?, Annotation::from_row(row)?));
        self.sql.query_in(select, "s.id", &keys, "")?.iter().map(read).collect()
    }
}
