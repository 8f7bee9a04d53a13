//! The operator log: which user changed what, and when. Entries name submissions by their ids, and contain no
//! names, addresses or messages of visitors.

#![expect(clippy::disallowed_methods, reason = "an entry records when its change begins")]

use jiff::Timestamp;
use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::{Sql, from_row, values};
use crate::store::error::StoreError;
use crate::submission::named_enum;

named_enum! {
    /// A kind of change by an operator, as recorded in the operator log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OperatorAction {
        Hold = "hold",
        Release = "release",
        Retry = "retry",
        Deliver = "deliver",
        Discard = "discard",
        Erase = "erase",
        Done = "done",
        Reopen = "reopen",
        Spam = "spam",
        NotSpam = "not-spam",
        /// Added a note to a submission.
        Note = "note",
        EditNote = "edit-note",
        RemoveNote = "remove-note",
        /// Set or removed the user who works on a submission.
        Assign = "assign",
        /// Set or removed the day to follow up on a submission.
        FollowUp = "follow-up",
        /// Noted that the user replied to the visitor.
        Reply = "reply",
        UndoReply = "undo-reply",
        /// Saved a view, which is a list with a name.
        SaveView = "save-view",
        RemoveView = "remove-view",
        /// Sent a test message through a channel.
        Test = "test",
        /// Created a link that logs in to the web interface.
        Open = "open",
        LogIn = "log-in",
        /// Ended sessions of the web interface.
        Revoke = "revoke",
    }
}

/// One entry of the operator log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// A UUID version 7, so ids sort by time.
    pub id: Uuid,
    pub at: Timestamp,
    pub user: String,
    /// The name of an [`OperatorAction`], possibly one that only a later version knows.
    pub action: String,
    /// The submission, if the action concerns exactly one.
    pub submission: Option<Uuid>,
    pub channel: Option<String>,
    /// How many submissions, deliveries or sessions changed.
    pub count: usize,
}

/// An entry to be written with the first transaction of a change. Later transactions of the same change add
/// to its count, so an interrupted change is logged with what it did.
#[derive(Clone, Debug)]
pub(super) struct EntryWriter {
    id: Uuid,
    at: Timestamp,
    user: String,
    action: OperatorAction,
    submission: Option<Uuid>,
    channel: Option<String>,
}

impl EntryWriter {
    /// An entry with a new id and the current time. Nothing is written yet.
    pub fn new(user: &str, action: OperatorAction) -> EntryWriter {
        EntryWriter {
            id: Uuid::now_v7(),
            at: Timestamp::now(),
            user: user.to_owned(),
            action,
            submission: None,
            channel: None,
        }
    }

    /// Sets the only submission that the change concerns.
    pub fn about(self, submission: impl Into<Option<Uuid>>) -> EntryWriter {
        EntryWriter { submission: submission.into(), ..self }
    }

    /// Sets the only channel that the change concerns.
    pub fn through(self, channel: Option<&str>) -> EntryWriter {
        EntryWriter { channel: channel.map(str::to_owned), ..self }
    }

    pub fn by(self, user: &str) -> EntryWriter {
        EntryWriter { user: user.to_owned(), ..self }
    }

    /// Writes the entry, or adds to its count, in the transaction of the change.
    pub fn add(&self, tx: &dyn Sql, count: usize) -> Result<(), StoreError> {
        tx.execute(
            "INSERT INTO operator_log (id, at, actor, action, submission, channel, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (id) DO UPDATE SET count = operator_log.count + excluded.count",
            values![self.id, self.at, self.user, self.action.name(), self.submission, self.channel, count],
        )
        .map(drop)
    }
}

impl InboxReader {
    /// Up to `limit` entries of the operator log, newest first: those before the entry `before`, or the
    /// newest ones if that is `None`.
    pub fn operator_log(&self, before: Option<Uuid>, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.sql.query_as(
            "SELECT id, at, actor AS \"user\", action, submission, channel, count FROM operator_log
             WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            values![before.unwrap_or(Uuid::max()), limit],
        )
    }
}

from_row! { LogEntry { id, at, user, action, submission, channel, count } }
