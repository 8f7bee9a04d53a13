//! The annotation of a submission by operators: whether it was read, is done or is spam, who works on it,
//! when to come back to it, and who replied. `note.rs` has the notes.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::Date;
use uuid::Uuid;

use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::operator_log::OperatorAction;
use super::submission_rows::day_number;
use super::{Bind, FromRow as _, Row, Sql, lesson, values};
use crate::store::error::StoreError;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// When an operator first opened the submission after it arrived or was last marked as unread; `None` if
    /// it is unread.
    pub seen_at: Option<Timestamp>,
    /// When the submission was marked as done; `None` if it is open.
    pub done_at: Option<Timestamp>,
    /// When an operator marked the submission as spam.
    pub spam_at: Option<Timestamp>,
    /// The number of notes that operators have added to the submission.
    pub notes: usize,
    /// The name of the user who works on the submission. The user may no longer exist.
    pub assignee: Option<String>,
    /// The day to follow up on the submission. Ignored while the submission is done.
    pub follow_up: Option<Date>,
    /// When an operator last replied to the visitor.
    pub replied_at: Option<Timestamp>,
    /// The name of the user who last replied to the visitor.
    pub replied_by: Option<String>,
}

impl Annotation {
    /// Whether the submission is open and its follow-up day has come.
    pub fn is_due(&self, today: Date) -> bool {
        self.done_at.is_none() && self.follow_up.is_some_and(|day| day <= today)
    }
}

/// Maximum length of the name of an assignee, in characters.
pub const MAX_ASSIGNEE: usize = 254;

/// The result of a change to an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    Changed,
    Unchanged,
    /// The submission does not exist, or has not been processed yet.
    Missing,
}

impl Editor {
    /// Marks a submission as done, or as open again. Marking it as done again keeps the earlier time. A
    /// submission that becomes done teaches screening weakly that it is honest, unless it is marked as spam
    /// or another decision was taught; one that becomes open loses that lesson, unless it was replied to.
    pub fn set_done(&mut self, id: Uuid, is_done: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        let action = if is_done { OperatorAction::Done } else { OperatorAction::Reopen };
        let at = is_done.then(|| now.as_millisecond());
        let teacher = is_done.then(|| self.teacher(now));
        self.annotate(id, action, |tx| {
            let set = "UPDATE submission SET done_at = CAST(?2 AS bigint)
                 WHERE id = ?1 AND (done_at IS NULL) <> (CAST(?2 AS bigint) IS NULL)";
            let changed = tx.execute(set, values![id, at])?;
            if changed > 0 {
                lesson::teach_weakly(tx, teacher, id)?;
            }
            Ok(changed)
        })
    }

    /// Sets the user who works on a submission; `None` or a blank name removes it. Replaces control
    /// characters and cuts the name to [`MAX_ASSIGNEE`] characters.
    pub fn assign(&mut self, id: Uuid, user: Option<&str>) -> Result<Annotated, StoreError> {
        let clean = |name: &str| {
            let name = name.trim().chars().take(MAX_ASSIGNEE);
            name.map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>()
        };
        let user = user.map(clean).filter(|name| !name.is_empty());
        self.set_value(id, OperatorAction::Assign, "assignee", user.as_ref())
    }

    /// Sets the day to follow up on a submission; `None` removes it.
    pub fn set_follow_up(&mut self, id: Uuid, day: Option<Date>) -> Result<Annotated, StoreError> {
        self.set_value(id, OperatorAction::FollowUp, "follow_up", day.map(day_number).as_ref())
    }

    /// Sets a column of the table `annotation`; `None` removes the value.
    fn set_value(
        &mut self,
        id: Uuid,
        action: OperatorAction,
        column: &str,
        value: Option<&impl Bind>,
    ) -> Result<Annotated, StoreError> {
        self.annotate(id, action, |tx| {
            let Some(value) = value else {
                let remove = format!(
                    "UPDATE annotation SET {column} = NULL WHERE submission = ?1 AND {column} IS NOT NULL"
                );
                return tx.execute(&remove, values![id]);
            };
            let set = format!(
                "INSERT INTO annotation (submission, {column}) VALUES (?1, ?2)
                 ON CONFLICT (submission) DO UPDATE SET {column} = excluded.{column}
                 WHERE annotation.{column} IS NULL OR annotation.{column} <> excluded.{column}"
            );
            tx.execute(&set, values![id, value])
        })
    }

    /// Records that the user replied to the visitor, or that no user did. A later reply replaces an earlier
    /// one, unless it is the same user's within a minute, because a browser may report one click twice. A
    /// reply teaches screening like [`Editor::set_done`]; without one, the submission loses that lesson,
    /// unless it is done.
    pub fn set_replied(
        &mut self,
        id: Uuid,
        is_replied: bool,
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let user = self.user().to_owned();
        let action = if is_replied { OperatorAction::Reply } else { OperatorAction::UndoReply };
        let teacher = is_replied.then(|| self.teacher(now));
        self.annotate(id, action, |tx| {
            let remove = "UPDATE annotation SET replied_at = NULL, replied_by = NULL WHERE submission = ?1 AND replied_at IS NOT NULL";
            let set = "INSERT INTO annotation (submission, replied_at, replied_by) VALUES (?1, ?2, ?3)
                 ON CONFLICT (submission) DO UPDATE SET replied_at = excluded.replied_at, replied_by = excluded.replied_by
                 WHERE annotation.replied_at IS NULL OR annotation.replied_by <> excluded.replied_by
                     OR abs(annotation.replied_at - excluded.replied_at) >= 60000";
            let changed = match is_replied.then(|| now.as_millisecond()) {
                Some(at) => tx.execute(set, values![id, at, user])?,
                None => tx.execute(remove, values![id])?,
            };
            lesson::teach_weakly(tx, teacher, id)?;
            Ok(changed)
        })
    }

    /// Applies a change to the annotation of a processed submission. Returns `Missing` for any other
    /// submission. Logs the change, unless `change` returns zero, which means `Unchanged`.
    pub(super) fn annotate(
        &self,
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

impl super::FromRow for Annotation {
    fn from_row(row: &Row) -> Result<Annotation, StoreError> {
        let day: Option<i64> = row.get("follow_up")?;
        Ok(Annotation {
            seen_at: row.get("seen_at")?,
            done_at: row.get("done_at")?,
            spam_at: row.get("spam_at")?,
            notes: row.get("notes")?,
            assignee: row.get("assignee")?,
            follow_up: day.map(date_of).transpose()?,
            replied_at: row.get("replied_at")?,
            replied_by: row.get("replied_by")?,
        })
    }
}

/// Converts a number of days since 1970-01-01 to a calendar day.
fn date_of(day: i64) -> Result<Date, StoreError> {
    let distance = jiff::Span::new().try_days(day);
    let date = distance.and_then(|distance| Date::constant(1970, 1, 1).checked_add(distance));
    date.map_err(|_| StoreError::Damaged("the day of a follow-up is out of range"))
}

impl InboxReader {
    /// The annotations of these submissions. Submissions that are not processed yet, or that do not exist,
    /// have no entry.
    pub fn annotations(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Annotation>, StoreError> {
        let mut keys: Vec<[u8; 16]> = ids.iter().map(|id| id.into_bytes()).collect();
        keys.sort_unstable();
        let select = "SELECT s.id, s.seen_at, s.done_at, s.spam_at, a.assignee, a.follow_up, a.replied_at, a.replied_by,
                 (SELECT count(*) FROM note WHERE submission = s.id) AS notes
             FROM submission s LEFT JOIN annotation a ON a.submission = s.id WHERE";
        let read = |row: &Row| Ok((row.get("id")?, Annotation::from_row(row)?));
        self.sql.query_in(select, "s.id", &keys, "")?.iter().map(read).collect()
    }

    /// The names of all assignees, at most `most`, in the order of the database's collation.
    pub fn assignees(&self, most: usize) -> Result<Vec<String>, StoreError> {
        // Find each name in the index: `SELECT DISTINCT` would read each annotation.
        let next = "SELECT assignee FROM annotation WHERE assignee > ?1 ORDER BY assignee LIMIT 1";
        let mut names: Vec<String> = Vec::new();
        while names.len() < most {
            let last = names.last().map_or("", String::as_str);
            let Some(name) = self.sql.value(next, values![last])? else { break };
            names.push(name);
        }
        Ok(names)
    }

    /// The number of open submissions to come back to on `today` or before, by assignee: `None` for those
    /// that are assigned to no user. Leaves out held submissions and spam.
    pub fn due_follow_ups(&self, today: Date) -> Result<Vec<(Option<String>, usize)>, StoreError> {
        let count =
            "SELECT a.assignee, count(*) AS count FROM annotation a JOIN submission s ON s.id = a.submission
             WHERE a.follow_up <= ?1 AND s.done_at IS NULL AND s.held_at IS NULL AND s.spam_at IS NULL
             GROUP BY a.assignee ORDER BY a.assignee";
        let rows = self.sql.query(count, values![day_number(today)])?;
        rows.iter().map(|row| Ok((row.get("assignee")?, row.get("count")?))).collect()
    }
}
