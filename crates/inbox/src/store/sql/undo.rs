//! Remembers what the last changes of submissions replaced, so that their users can undo them for a while.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::submission_rows::TO_TEAM;
use super::values;
use crate::store::error::StoreError;

/// How long a change can be undone.
pub const UNDO_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of changes that a user can undo. A further change replaces the oldest one.
const MAX_CHANGES: usize = 20;

impl Editor {
    /// Stores what undoes a change of the editor's user, as JSON, and returns its id. The JSON must contain
    /// nothing that a visitor wrote, because erasing a person does not remove it. Also removes expired
    /// changes, and the user's oldest beyond `MAX_CHANGES`.
    pub fn remember_undo(&mut self, change: &str, now: Timestamp) -> Result<Uuid, StoreError> {
        let (id, user) = (Uuid::now_v7(), self.user().to_owned());
        self.commit_and_notify(|tx| {
            tx.execute("DELETE FROM undo WHERE expires_at <= ?1", values![now])?;
            tx.execute(
                "DELETE FROM undo WHERE actor = ?1 AND id IN (SELECT id FROM undo WHERE actor = ?1 ORDER BY id DESC LIMIT 1000 OFFSET ?2)",
                values![user, MAX_CHANGES - 1],
            )?;
            let expires_at = now + UNDO_LIFETIME;
            let insert = "INSERT INTO undo (id, actor, change, expires_at) VALUES (?1, ?2, ?3, ?4)";
            tx.execute(insert, values![id, user, change, expires_at])?;
            Ok(id)
        })
    }

    /// Takes what undoes a change of the editor's user, which works once. `None` if it does not exist, has
    /// expired or belongs to another user.
    pub fn take_undo(&mut self, id: Uuid, now: Timestamp) -> Result<Option<String>, StoreError> {
        let user = self.user().to_owned();
        self.commit_and_notify(|tx| {
            let take = "DELETE FROM undo WHERE id = ?1 AND actor = ?2 AND expires_at > ?3 RETURNING change";
            tx.value(take, values![id, user, now])
        })
    }
}

impl InboxReader {
    /// The submissions among `ids` that an operator held, released, delivered or assigned, or that got or
    /// lost the mark of done or spam, after the change with the id `undo`, so that undoing that change would
    /// undo the later one. Compares ids of entries of the operator log with `undo`: all are UUIDs version 7,
    /// which begin with the time. After [`Editor::deliver_kept`], may also include submissions that it did
    /// not change. The result has no order, and may contain an id twice.
    pub fn changed_since(&self, undo: Uuid, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        let later = "SELECT DISTINCT submission FROM operator_log WHERE id > ?1 AND submission IS NOT NULL
             AND action IN ('hold', 'release', 'deliver', 'assign', 'done', 'reopen', 'spam', 'not-spam')";
        let mut changed: Vec<Uuid> = self.sql.column(later, values![undo])?;
        changed.retain(|id| ids.contains(id));
        // `Editor::deliver_kept` logs one entry for all submissions. It queues those that are not held and
        // have no delivery to the team, so none of their attempts began before it. This is also true of
        // deliveries that were queued before it and not attempted yet: it is harmless not to undo their
        // changes.
        let queued = format!(
            "SELECT 1 FROM operator_log l WHERE id > ?1 AND submission IS NULL AND action = 'deliver'
             AND EXISTS (SELECT 1 FROM submission WHERE id = ?2 AND held_at IS NULL)
             AND EXISTS (SELECT 1 FROM delivery WHERE submission = ?2 AND {TO_TEAM})
             AND NOT EXISTS (SELECT 1 FROM attempt WHERE submission = ?2 AND {TO_TEAM} AND began_at < l.at)"
        );
        for id in ids {
            if self.sql.exists(&queued, values![undo, *id])? {
                changed.push(*id);
            }
        }
        Ok(changed)
    }

    /// Whether a change of this user can be undone.
    pub fn can_undo(&self, id: Uuid, user: &str, now: Timestamp) -> Result<bool, StoreError> {
        let find = "SELECT 1 FROM undo WHERE id = ?1 AND actor = ?2 AND expires_at > ?3";
        self.sql.exists(find, values![id, user, now])
    }
}
