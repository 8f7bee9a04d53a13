//! Marks submissions as read and as spam.

use std::cell::Cell;

use jiff::Timestamp;
use uuid::Uuid;

use super::annotation::Annotated;
use super::inbox_editor::Editor;
use super::lesson::Teacher;
use super::operator_log::OperatorAction;
use super::{Sql, lesson, values};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use frontdesk_screening::learned::LessonKind;

/// Selects submissions that are held because they were marked as spam ([`Editor::mark_spam`]).
const HELD_BY_MARK: &str = "held_as_spam = 1";

impl Editor {
    /// Marks a submission as read or as unread. A submission that is read keeps its time. Not logged. Does
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

    /// Marks a submission as spam, teaches screening that, and holds it unless every channel has it. Stores
    /// the lesson in place of an earlier one even if it had the mark; the result is then `Unchanged`, even if
    /// this call held it.
    pub fn mark_spam(&mut self, id: Uuid, now: Timestamp) -> Result<Annotated, StoreError> {
        let teacher = self.teacher(now);
        self.annotate(id, OperatorAction::Spam, |tx| {
            self.hold_in(tx, id, "marked as spam", true, now)?;
            self.set_mark(tx, teacher, id, Some(LessonKind::Spam))
        })
    }

    /// Undoes [`Editor::mark_spam`] of a submission that had no mark: removes the mark and its lesson, and
    /// releases the submission ([`Editor::release`]) if the mark had held it. If the submission is done or
    /// answered, its weak lesson returns. Teaches nothing else, because undoing a mistake is no decision.
    pub fn undo_spam(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        self.unmark(id, HELD_BY_MARK, channels, None, now)
    }

    /// Removes the mark of spam, teaches that the submission is honest, and releases it if the mark had held
    /// it. If there is nothing to remove or release, only teaches, and returns `Unchanged`.
    pub fn unmark_spam(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        self.unmark(id, HELD_BY_MARK, channels, Some(LessonKind::Honest), now)
    }

    /// Like [`Editor::unmark_spam`], but also releases a submission that screening or a flood holds as spam.
    /// A release ends the hold by screening, so a later hold is not one as spam unless the mark causes it.
    pub fn mark_ham(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let held = "held_at IS NOT NULL AND (held_as_spam = 1 OR (withheld = 1 AND released_at IS NULL))";
        self.unmark(id, held, channels, Some(LessonKind::Honest), now)
    }

    /// Removes the mark of spam (see `set_mark`), and releases the submission if the condition `held` is
    /// true. Both are one transaction: another user's mark between the two would not stop the delivery.
    fn unmark(
        &self,
        id: Uuid,
        held: &str,
        channels: &[Route],
        taught: Option<LessonKind>,
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let (teacher, is_released) = (self.teacher(now), Cell::new(false));
        let find = format!("SELECT 1 FROM submission WHERE id = ?1 AND {held}");
        let unmarked = self.annotate(id, OperatorAction::NotSpam, |tx| {
            let changed = self.set_mark(tx, teacher, id, taught)?;
            let is_held = tx.exists(&find, values![id])?;
            is_released.set(is_held && self.release_in(tx, teacher, id, channels)?);
            Ok(changed)
        })?;
        let is_only_released = unmarked == Annotated::Unchanged && is_released.get();
        Ok(if is_only_released { Annotated::Changed } else { unmarked })
    }

    /// Sets the mark of spam if `taught` is that lesson, or else removes it. Stores the lesson in place of an
    /// earlier one, even if the mark does not change; without one, removes the lesson of a removed mark.
    /// Returns the number of changed marks.
    fn set_mark(
        &self,
        tx: &dyn Sql,
        teacher: Teacher<'_>,
        id: Uuid,
        taught: Option<LessonKind>,
    ) -> Result<usize, StoreError> {
        let is_spam = taught == Some(LessonKind::Spam);
        let set = "UPDATE submission SET spam_at = CAST(?2 AS bigint)
             WHERE id = ?1 AND (spam_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
        let changed = tx.execute(set, values![id, is_spam.then_some(teacher.now)])?;
        if let Some(taught) = taught {
            if lesson::teach(tx, teacher, id, taught)? && changed == 0 {
                // The mark did not change, so `annotate` logs nothing. Log the stored lesson here.
                let action = if is_spam { OperatorAction::Spam } else { OperatorAction::NotSpam };
                self.log_entry(action).about(id).add(tx, 1)?;
            }
        } else if changed > 0 {
            lesson::unteach(tx, teacher, id)?;
        }
        Ok(changed)
    }

    /// Marks a submission as spam, or removes the mark, and stores a lesson about it. Does not hold or
    /// release the submission.
    #[cfg(test)]
    pub(in crate::store) fn set_spam(
        &mut self,
        id: Uuid,
        is_spam: bool,
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let action = if is_spam { OperatorAction::Spam } else { OperatorAction::NotSpam };
        let taught = if is_spam { LessonKind::Spam } else { LessonKind::Honest };
        let teacher = self.teacher(now);
        self.annotate(id, action, |tx| self.set_mark(tx, teacher, id, Some(taught)))
    }
}
