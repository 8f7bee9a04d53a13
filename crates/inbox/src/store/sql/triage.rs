//! Marks submissions as read and as spam.

use jiff::Timestamp;
use uuid::Uuid;

use super::annotation::Annotated;
use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::operator_log::OperatorAction;
use super::{lesson, values};
use crate::store::error::StoreError;
use frontdesk_screening::learned::LessonKind;

impl Editor {
    /// Marks a submission as read or as unread. The first time that it was read is kept. Not logged. Does
    /// nothing before the submission is processed, and then returns `Unchanged`, as for one that does not
    /// exist.
    pub fn set_seen(&mut self, id: Uuid, is_seen: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let at = is_seen.then_some(now);
        self.commit_and_notify(|tx| {
            let set = "UPDATE submission SET seen_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (seen_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            let is_changed = tx.execute(set, values![id, at])? > 0;
            Ok(if is_changed { Annotated::Changed } else { Annotated::Unchanged })
        })
    }

    /// Marks a submission as spam, or removes the mark, and stores the lesson of this decision (spam or
    /// honest) in place of an earlier one, even if the mark does not change; the result is then `Unchanged`.
    /// Neither holds nor releases it.
    pub fn set_spam(&mut self, id: Uuid, is_spam: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let action = if is_spam { OperatorAction::Spam } else { OperatorAction::NotSpam };
        let at = is_spam.then_some(now);
        let teacher = self.teacher(now);
        self.annotate(id, action, |tx| {
            let set = "UPDATE submission SET spam_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (spam_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            let changed = tx.execute(set, values![id, at])?;
            let taught = if is_spam { LessonKind::Spam } else { LessonKind::Honest };
            let is_taught = lesson::teach(tx, teacher, id, taught)?;
            if changed == 0 && is_taught {
                // Log the lesson here: the mark did not change, so `annotate` logs nothing.
                self.log_entry(action).about(id).add(tx, 1)?;
            }
            Ok(changed)
        })
    }

    /// Undoes [`Editor::set_spam`] of a submission that had no mark: removes the mark and its lesson. If the
    /// submission is done or answered, its weak lesson returns. Teaches nothing else, because undoing a
    /// mistake is no decision.
    pub fn undo_spam(&mut self, id: Uuid, now: Timestamp) -> Result<Annotated, StoreError> {
        let teacher = self.teacher(now);
        self.annotate(id, OperatorAction::NotSpam, |tx| {
            let set = "UPDATE submission SET spam_at = NULL WHERE id = ?1 AND spam_at IS NOT NULL";
            let changed = tx.execute(set, values![id])?;
            if changed > 0 {
                lesson::unteach(tx, teacher, id)?;
            }
            Ok(changed)
        })
    }
}

impl InboxReader {
    /// Whether a submission is held as spam: by screening or a flood, or because it was marked
    /// ([`Editor::hold_as_spam`]). A release ends the hold by screening, so a later hold is not one as spam
    /// unless the mark causes it.
    pub fn is_held_as_spam(&self, id: Uuid) -> Result<bool, StoreError> {
        let find = "SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NOT NULL
             AND (held_as_spam = 1 OR (withheld = 1 AND released_at IS NULL))";
        self.sql.exists(find, values![id])
    }

    /// Whether a submission is held because it was marked as spam ([`Editor::hold_as_spam`]).
    pub fn is_held_by_mark(&self, id: Uuid) -> Result<bool, StoreError> {
        self.sql.exists("SELECT 1 FROM submission WHERE id = ?1 AND held_as_spam = 1", values![id])
    }
}
