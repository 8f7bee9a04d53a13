//! The table `lesson`: what operators' decisions teach screening.
//!
//! A lesson has keyed hashes of a submission's words and features, and no readable word. It stays when its
//! submission is discarded or removed by retention, and goes with the person's other data when an operator
//! erases that person.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::submission_rows::store_meta;
use super::transaction::Transaction;
use super::{Row, Sql, form_definition, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::{Hash, Secret};
use crate::submission::parse_fields;
use frontdesk_forms::Entry;
use frontdesk_screening::learned::{Lesson, LessonKind, MAX_AGE, MAX_LESSONS, Tokens};
use frontdesk_screening::verdict::{ScreeningReason, Signal};
use frontdesk_screening::{Lexicon, TokenKey, TokenizedText, lesson_tokens};

/// Maximum number of lessons that one transaction of a discard stores; it may remove 200 submissions. An
/// operator hardly looks at each submission of a bulk discard, so a bulk discard must not replace most of the
/// lessons of single decisions.
const MAX_DISCARDED: usize = 20;
/// The name in `meta` of the setting `screening.learn`.
const LEARNS: &str = "screening.learn";
/// The name in `meta` of the version of the lessons.
const VERSION: &str = "lessons";

/// The query for submissions that [`insert`] can make lessons from.
const READABLE: &str = "SELECT id, form, definition, fields, reasons, sender, other_senders,
         suspicious, withheld FROM submission WHERE sealed IS NULL";

/// Converts the kind of a lesson to the number in the column `teaching`.
fn encode_kind(kind: LessonKind) -> i64 {
    match kind {
        LessonKind::Honest => 0,
        LessonKind::Spam => 1,
        LessonKind::WeakHonest => 2,
    }
}

/// Converts a number in the column `teaching` to the kind of a lesson. Fails if this version does not know
/// the number.
fn decode_kind(number: i64) -> Result<LessonKind, StoreError> {
    [LessonKind::Honest, LessonKind::Spam, LessonKind::WeakHonest]
        .into_iter()
        .find(|kind| encode_kind(*kind) == number)
        .ok_or(StoreError::Damaged("the kind of a lesson is unknown"))
}

/// Whether screening learns from operators' decisions. True if this setting has never been stored.
pub(super) fn learns(sql: &dyn Sql) -> Result<bool, StoreError> {
    let stored: Option<Vec<u8>> = sql.value("SELECT value FROM meta WHERE name = ?1", values![LEARNS])?;
    Ok(stored.is_none_or(|value| value != b"0"))
}

/// Sets whether screening learns from operators' decisions, for all processes. Earlier lessons stay.
fn set_learns(tx: &dyn Sql, learns: bool) -> Result<(), StoreError> {
    if self::learns(tx)? == learns {
        return Ok(());
    }
    store_meta(tx, LEARNS, if learns { b"1" } else { b"0" })
}

/// The version of the lessons: a UUID that each change replaces. Zero before the first change.
fn version(sql: &dyn Sql) -> Result<u128, StoreError> {
    let stored: Option<Vec<u8>> = sql.value("SELECT value FROM meta WHERE name = ?1", values![VERSION])?;
    let bytes = stored.and_then(|value| value.try_into().ok()).unwrap_or_default();
    Ok(u128::from_be_bytes(bytes))
}

/// Replaces the version of the lessons, so that servers read them again.
fn note_change(tx: &dyn Sql) -> Result<(), StoreError> {
    store_meta(tx, VERSION, Uuid::now_v7().as_bytes())
}

/// The inputs for making lessons. Screening uses the same secret and phrases, so that it finds the same
/// tokens in a text.
#[derive(Clone, Copy)]
pub(super) struct Teacher<'a> {
    pub secret: &'a Secret,
    /// The phrases that screening recognizes in texts.
    pub lexicon: &'a Arc<Lexicon>,
    pub now: Timestamp,
}

/// Stores the lesson of a decision about a processed submission, in place of an earlier one, and removes
/// lessons beyond `MAX_LESSONS` (see `limit`). Stores nothing if the submission is encrypted, has hardly any
/// text or cannot be read (see `insert`), or if learning is switched off. Returns whether it stored a lesson.
pub(super) fn teach(
    tx: &dyn Sql,
    teacher: Teacher<'_>,
    id: Uuid,
    taught: LessonKind,
) -> Result<bool, StoreError> {
    if !learns(tx)? {
        return Ok(false);
    }
    let Some(row) = tx.row(&format!("{READABLE} AND id = ?1"), values![id])? else { return Ok(false) };
    let is_taught = insert(tx, teacher, &row, taught)?;
    if is_taught {
        limit(tx)?;
        note_change(tx)?;
    }
    Ok(is_taught)
}

/// Removes the lesson of a submission, unless learning is switched off. Returns whether there was one.
pub(super) fn remove(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    let is_removed = learns(tx)? && tx.execute("DELETE FROM lesson WHERE submission = ?1", values![id])? > 0;
    if is_removed {
        note_change(tx)?;
    }
    Ok(is_removed)
}

/// Teaches weakly that a submission is honest, unless it is marked as spam or another decision about it was
/// taught. Without a teacher, removes such a lesson, unless the submission is done or was replied to.
pub(super) fn teach_weakly(tx: &dyn Sql, teacher: Option<Teacher<'_>>, id: Uuid) -> Result<(), StoreError> {
    let is_spam = "SELECT 1 FROM submission WHERE id = ?1 AND spam_at IS NOT NULL";
    if is_taught(tx, id)? || tx.exists(is_spam, values![id])? {
        return Ok(());
    }
    match teacher {
        Some(teacher) => teach(tx, teacher, id, LessonKind::WeakHonest).map(drop),
        None if tx.exists(IS_FINISHED, values![id])? => Ok(()),
        None => remove(tx, id).map(drop),
    }
}

/// Finds a submission that is done or was replied to. Either state yields a weak lesson.
const IS_FINISHED: &str = "SELECT 1 FROM submission WHERE id = ?1 AND (done_at IS NOT NULL
     OR EXISTS (SELECT 1 FROM annotation WHERE submission = ?1 AND replied_at IS NOT NULL))";

/// Removes the lesson of a decision, unless learning is switched off. If the submission is done or was
/// replied to, stores a weak lesson instead. Returns whether there was a lesson.
pub(super) fn unteach(tx: &dyn Sql, teacher: Teacher<'_>, id: Uuid) -> Result<bool, StoreError> {
    let is_removed = remove(tx, id)?;
    if is_removed && tx.exists(IS_FINISHED, values![id])? {
        teach_weakly(tx, Some(teacher), id)?;
    }
    Ok(is_removed)
}

/// Selects the submissions that screening held, except those that a flood or a mark of spam holds now. A
/// submission that a flood held because of its rate, not its text, stays excluded after the flood.
const HELD_BY_SCREENING: &str = "withheld = 1 AND flood = 0 AND held_as_spam = 0
         AND CAST(reasons AS text) NOT LIKE '%\"form-rate\"%'";

/// Whether [`HELD_BY_SCREENING`] selects a submission. Call it before a release, which ends the holds of
/// floods and marks.
pub(super) fn is_held_by_screening(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    let find = format!("SELECT 1 FROM submission WHERE id = ?1 AND {HELD_BY_SCREENING}");
    tx.exists(&find, values![id])
}

/// Whether a lesson of full weight exists, which weak evidence does not replace.
fn is_taught(sql: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    let weak = encode_kind(LessonKind::WeakHonest);
    sql.exists("SELECT 1 FROM lesson WHERE submission = ?1 AND teaching <> ?2", values![id, weak])
}

/// Teaches that submissions which are about to be discarded are spam: those that screening held or that are
/// marked as spam, at most [`MAX_DISCARDED`], in the order of `ids`, which must be sorted. Those in a flood
/// teach only if they are marked. Does nothing if learning is switched off.
pub(super) fn teach_discarded(
    tx: &dyn Sql,
    teacher: Teacher<'_>,
    ids: &[[u8; 16]],
) -> Result<(), StoreError> {
    if ids.is_empty() || !learns(tx)? {
        return Ok(());
    }
    let find = format!("{READABLE} AND ({HELD_BY_SCREENING} OR spam_at IS NOT NULL) AND");
    let mut taught = 0;
    for row in tx.query_in(&find, "id", ids, "")? {
        if taught == MAX_DISCARDED {
            break;
        }
        taught += usize::from(insert(tx, teacher, &row, LessonKind::Spam)?);
    }
    if taught > 0 {
        limit(tx)?;
        note_change(tx)?;
    }
    Ok(())
}

/// Stores the lesson of a row of `submission`. A lesson that replaces an earlier one keeps its column
/// `judged`, screening's verdict at that time. Returns false, and stores nothing, if the submission has too
/// little text, its form is unknown or its fields cannot be read; unreadable reasons count as none.
fn insert(tx: &dyn Sql, teacher: Teacher<'_>, row: &Row, taught: LessonKind) -> Result<bool, StoreError> {
    let Some(form) = form_definition::of_row(tx, row)? else { return Ok(false) };
    let Ok(fields) = parse_fields(row.text("fields")?.as_bytes()) else { return Ok(false) };
    let reasons: Option<String> = row.get("reasons")?;
    let reasons: Vec<ScreeningReason> =
        reasons.and_then(|reasons| serde_json::from_str(&reasons).ok()).unwrap_or_default();
    let in_text = reasons.iter().filter(|reason| reason.signal.is_in_text());
    let points = in_text.fold(0, |sum: u32, reason| sum.saturating_add(reason.points));
    let entry = Entry::restored(form, fields);
    let text = TokenizedText::new(&entry);
    let Some(tokens) = lesson_tokens(&text, points, teacher.lexicon, &teacher.secret.token_key()) else {
        return Ok(false);
    };
    let mut senders: Vec<u8> = row.get::<Option<Vec<u8>>>("sender")?.unwrap_or_default();
    senders.extend(row.get::<Option<Vec<u8>>>("other_senders")?.unwrap_or_default());
    let insert = "INSERT INTO lesson (submission, taught_at, teaching, judged, senders, tokens)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (submission) DO UPDATE SET taught_at = excluded.taught_at, teaching = excluded.teaching,
             senders = excluded.senders, tokens = excluded.tokens";
    let id: [u8; 16] = row.get("id")?;
    let is_flood = reasons.iter().any(|reason| reason.signal == Signal::FormRate);
    let is_held = row.get::<bool>("withheld")? && !is_flood;
    // The verdict of screening: 2 if it held the submission, 1 if it only marked it, 0 if neither.
    let judged = if is_held { 2 } else { row.get::<i64>("suspicious")? };
    tx.execute(insert, values![id, teacher.now, encode_kind(taught), judged, senders, tokens.to_bytes()])?;
    Ok(true)
}

/// If there are more than [`MAX_LESSONS`], removes as many as exceed it: the oldest of the larger kind, spam
/// or all others, so that a flood of one kind does not replace the other.
fn limit(tx: &dyn Sql) -> Result<(), StoreError> {
    let spam = encode_kind(LessonKind::Spam);
    let counts = tx.one(
        "SELECT count(*) AS count, coalesce(sum(CASE WHEN teaching = ?1 THEN 1 ELSE 0 END), 0) AS spam FROM lesson",
        values![spam],
    )?;
    let (all, of_spam): (usize, usize) = (counts.get("count")?, counts.get("spam")?);
    let Some(excess) = all.checked_sub(MAX_LESSONS).filter(|excess| *excess > 0) else { return Ok(()) };
    let larger = if of_spam * 2 >= all { "=" } else { "<>" };
    let remove = format!(
        "DELETE FROM lesson WHERE submission IN
             (SELECT submission FROM lesson WHERE teaching {larger} ?1 ORDER BY taught_at, submission LIMIT ?2)"
    );
    tx.execute(&remove, values![spam, i64::try_from(excess).unwrap_or(i64::MAX)]).map(drop)
}

/// Removes the lessons from a person's submissions, by the keyed hash of an address.
pub(super) fn forget_person(tx: &dyn Sql, person: &Hash) -> Result<(), StoreError> {
    let rows = tx.query("SELECT submission, senders FROM lesson", &[])?;
    let mut removed = 0;
    for row in rows {
        let senders: Vec<u8> = row.get("senders")?;
        if senders.chunks(person.len()).any(|sender| sender == person) {
            let id: [u8; 16] = row.get("submission")?;
            removed += tx.execute("DELETE FROM lesson WHERE submission = ?1", values![id])?;
        }
    }
    if removed > 0 { note_change(tx) } else { Ok(()) }
}

/// Removes lessons older than [`MAX_AGE`].
fn expire(tx: &dyn Sql, now: Timestamp) -> Result<(), StoreError> {
    let oldest = now.saturating_sub(MAX_AGE).unwrap_or(Timestamp::MIN);
    let removed = tx.execute("DELETE FROM lesson WHERE taught_at < ?1", values![oldest])?;
    if removed > 0 { note_change(tx) } else { Ok(()) }
}

impl Transaction<'_> {
    /// Sets whether screening learns from operators' decisions, for all processes that change the inbox.
    pub fn set_learns(&self, learns: bool) -> Result<(), StoreError> {
        set_learns(self.sql, learns)
    }

    /// Removes lessons older than two years.
    pub fn expire_lessons(&self, now: Timestamp) -> Result<(), StoreError> {
        expire(self.sql, now)
    }
}

/// The lessons of an inbox.
#[derive(Clone, Debug)]
pub struct Lessons {
    /// The version of the lessons, which every change to them replaces.
    pub version: u128,
    pub lessons: Vec<Lesson>,
    pub key: TokenKey,
}

impl InboxReader {
    /// All lessons, the newest first; `None` if their version is still `known`. The age of a lesson from the
    /// future is zero.
    pub fn lessons(&self, known: Option<u128>, now: Timestamp) -> Result<Option<Lessons>, StoreError> {
        let version = version(&*self.sql)?;
        if known == Some(version) {
            return Ok(None);
        }
        let key = Secret::read(&*self.sql)?.token_key();
        let select = "SELECT teaching, taught_at, tokens FROM lesson ORDER BY taught_at DESC, submission";
        let read = |row: &Row| {
            let tokens: Vec<u8> = row.get("tokens")?;
            let tokens =
                Tokens::from_bytes(&tokens).ok_or(StoreError::Damaged("a lesson's tokens are not valid"))?;
            let taught_at: Timestamp = row.get("taught_at")?;
            let age = now.duration_since(taught_at).try_into().unwrap_or_default();
            Ok(Lesson { kind: decode_kind(row.get("teaching")?)?, age, tokens })
        };
        let lessons = self.sql.query(select, &[])?.iter().map(read).collect::<Result<_, StoreError>>()?;
        Ok(Some(Lessons { version, lessons, key }))
    }
}
