//! Marks submissions as read and as spam.

use jiff::Timestamp;
use uuid::Uuid;

use super::annotation::Annotated;
use super::editor::Editor;
use super::operator_log::OperatorAction;
use super::read::InboxReader;
use super::{lesson, values};
use crate::store::error::StoreError;
use frontdesk_screening::learned::Teaching;

impl Editor {
    /// Marks a submission as read or as unread. The first time that it was read is kept. Not logged. Does
    /// nothing before the submission is processed.
    pub fn set_seen(&mut self, id: Uuid, is_seen: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let at = is_seen.then_some(now);
        self.commit_and_notify(|tx| {
            let set = "UPDATE submission SET seen_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (seen_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            let is_changed = tx.execute(set, values![id, at])? > 0;
            Ok(if is_changed { Annotated::Changed } else { Annotated::Unchanged })
        })
    }

    /// Marks a submission as spam, or removes the mark, and teaches that. Neither holds nor releases it.
    pub fn set_spam(&mut self, id: Uuid, is_spam: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let action = if is_spam { OperatorAction::Spam } else { OperatorAction::NotSpam };
        let at = is_spam.then_some(now);
        self.annotate(id, action, |tx| {
            let set = "UPDATE submission SET spam_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (spam_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            let changed = tx.execute(set, values![id, at])?;
            let taught = if is_spam { Teaching::Spam } else { Teaching::Honest };
            let is_taught = lesson::teach(tx, self.secret(), id, Some(taught), now)?;
            if changed == 0 && is_taught {
                // Nothing else changed, so the caller does not log it.
                self.log_entry(action).about(id).add(tx, 1)?;
            }
            Ok(changed)
        })
    }
}

/// How long the inbox has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The number of open submissions that arrived before a time and are still unread.
    pub count: usize,
    /// When a submission was last opened for the first time.
    pub last_read_at: Timestamp,
}

impl InboxReader {
    /// The unread submissions that were received before `before`. `None` if no submission was ever opened, because only mails
    /// or other programs are used.
    pub fn unread_since(&self, before: Timestamp) -> Result<Option<Unread>, StoreError> {
        let last = "SELECT max(seen_at) FROM submission";
        let Some(last_read_at) = self.sql.one_value::<Option<Timestamp>>(last, &[])? else { return Ok(None) };
        let count =
            "SELECT count(*) FROM submission WHERE seen_at IS NULL AND done_at IS NULL AND held_at IS NULL
             AND spam_at IS NULL AND received_at < ?1";
        Ok(Some(Unread { count: self.sql.one_value(count, values![before])?, last_read_at }))
    }

    /// Whether a submission is held as spam: by screening, or because it was marked ([`Editor::hold_as_spam`]).
    pub fn is_held_as_spam(&self, id: Uuid) -> Result<bool, StoreError> {
        let find = "SELECT 1 FROM submission WHERE id = ?1 AND held_at IS NOT NULL AND (held_as_spam = 1 OR withheld = 1)";
        self.sql.exists(find, values![id])
    }

    /// Whether a submission is held because it was marked as spam ([`Editor::hold_as_spam`]).
    pub fn is_held_by_mark(&self, id: Uuid) -> Result<bool, StoreError> {
        self.sql.exists("SELECT 1 FROM submission WHERE id = ?1 AND held_as_spam = 1", values![id])
    }
}
