//! Removes held submissions that the operator discards, and submissions that are older or were held for longer than the operator wants.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use super::read::{Reader, range};
use super::rows::{id_before, time};
use super::steps::{self, Removable};
use super::{Cell, Dialect, ROWS_AT_A_TIME, Sql, bound, edit, values};
use crate::screening::Signal;
use crate::store::StoreError;

/// Selects held submissions. Those that only a flood holds are left out unless `signal` is [`Signal::FormRate`]: they are released when
/// the flood ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldFilter {
    /// Those for which screening gave this signal, with whatever points.
    pub signal: Option<Signal>,
    /// Those that were received earlier.
    pub before: Option<Timestamp>,
    /// Those of the sources whose hashes begin like that.
    pub source: Option<SourcePrefix>,
}

/// The beginning of a source's hash, as listings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    first: Uuid,
    last: Uuid,
}

impl SourcePrefix {
    /// Reads up to 32 hexadecimal digits. Nothing if the text is something else.
    pub fn parse(digits: &str) -> Option<SourcePrefix> {
        range(digits).map(|(first, last)| SourcePrefix { first, last })
    }
}

/// The digits that all hashes with this beginning share.
impl fmt::Display for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first.simple().to_string(), self.last.simple().to_string());
        let shared = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
        f.write_str(&first[..shared])
    }
}

/// What a [`HeldFilter`] selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldSummary {
    /// How many submissions.
    pub submissions: usize,
    /// How many sources sent them.
    pub sources: usize,
    /// When the first and the last of them were received.
    pub received: Option<(Timestamp, Timestamp)>,
    /// How many more the filter leaves out because only a flood holds them.
    pub left_in_floods: usize,
}

impl Reader {
    /// Counts the held submissions that a filter selects. Other submissions are not read.
    pub fn held(&self, filter: &HeldFilter) -> Result<HeldSummary, StoreError> {
        let (held, condition, values) = selection(self.sql.dialect(), filter);
        let is_selected = format!("FILTER (WHERE {})", is_selected_by_hold(filter));
        let sql = format!(
            "SELECT count(*) {is_selected}, count(DISTINCT s.source) {is_selected}, min(s.received_at) {is_selected},
                 max(s.received_at) {is_selected}, count(*)
             FROM {held} WHERE {condition}"
        );
        let row = self.sql.one(&sql, &bound(&values))?;
        let received = row.get::<Option<i64>>(2)?.zip(row.get(3)?);
        let times = |(first, last)| Ok::<_, StoreError>((time(first)?, time(last)?));
        let submissions = row.count(0)?;
        Ok(HeldSummary {
            submissions,
            sources: row.count(1)?,
            received: received.map(times).transpose()?,
            left_in_floods: row.count(4)? - submissions,
        })
    }
}

/// The table with the index that holds nothing but held submissions. PostgreSQL chooses it by itself.
fn held_table(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "submission AS s INDEXED BY submission_held",
        Dialect::Postgres => "submission AS s",
    }
}

/// Whether a filter selects a submission by what holds it, as a condition on `submission s`.
fn is_selected_by_hold(filter: &HeldFilter) -> &'static str {
    if filter.signal == Some(Signal::FormRate) { "TRUE" } else { "s.flood = 0" }
}

/// The table, the condition and the values for its numbered parameters, whatever holds the submissions: see [`is_selected_by_hold`].
fn selection(dialect: Dialect, filter: &HeldFilter) -> (&'static str, String, Vec<Cell>) {
    let mut values = Vec::new();
    let mut condition = "s.held_at IS NOT NULL".to_owned();
    if let Some(signal) = filter.signal {
        let reasons = match dialect {
            Dialect::Sqlite => "json_each(s.reasons)",
            Dialect::Postgres => "json_array_elements(s.reasons)",
        };
        // A flood may hold a submission that screening held before, for other reasons.
        let in_flood = if signal == Signal::FormRate { "s.flood = 1 OR " } else { "" };
        values.push(Cell::Text(signal.name().to_owned()));
        condition.push_str(&format!(
            " AND ({in_flood}EXISTS (SELECT 1 FROM {reasons} AS reason WHERE reason.value ->> 'signal' = ?{}))",
            values.len()
        ));
    }
    if let Some(before) = filter.before {
        values.push(Cell::Integer(before.as_millisecond()));
        condition.push_str(&format!(" AND s.received_at < ?{}", values.len()));
    }
    if let Some(SourcePrefix { first, last }) = filter.source {
        values.extend([first, last].map(|hash| Cell::Blob(hash.into_bytes().to_vec())));
        condition.push_str(&format!(" AND s.source BETWEEN ?{} AND ?{}", values.len() - 1, values.len()));
    }
    (held_table(dialect), condition, values)
}

/// A place in the index of held submissions: since when one is held, and its id.
pub(in crate::store) type Position = (i64, [u8; 16]);

/// Before every held submission.
pub(in crate::store) const START: Position = (i64::MIN, [0; 16]);

/// The statement of [`page`] and its values.
pub(in crate::store) fn page_statement(
    dialect: Dialect,
    filter: &HeldFilter,
    after: Position,
) -> (String, Vec<Cell>) {
    let (held, condition, mut values) = selection(dialect, filter);
    values.extend([Cell::Integer(after.0), Cell::Blob(after.1.to_vec())]);
    let sql = format!(
        "SELECT s.held_at, s.id, {} FROM {held} WHERE {condition} AND {} AND (s.held_at, s.id) > (?{}, ?{})
         ORDER BY s.held_at, s.id LIMIT {}",
        steps::size_of(dialect, "s"),
        is_selected_by_hold(filter),
        values.len() - 1,
        values.len(),
        steps::ROWS,
    );
    (sql, values)
}

/// The next held submissions that a filter selects after a position, in the order of the index, and the position after them. Nothing
/// if there are none.
pub(super) fn page(
    sql: &dyn Sql,
    filter: &HeldFilter,
    after: Position,
) -> Result<Option<(Vec<Removable>, Position)>, StoreError> {
    let (statement, values) = page_statement(sql.dialect(), filter, after);
    let rows = sql.query(&statement, &bound(&values))?;
    let Some(last) = rows.last() else { return Ok(None) };
    let position = (last.get(0)?, last.get(1)?);
    let page = rows.iter().map(|row| Removable::read(row, 1, 2)).collect::<Result<_, _>>()?;
    Ok(Some((page, position)))
}

/// Those of these submissions that are held, sorted as they must be. `lock` ends the query.
pub(super) fn held_among(sql: &dyn Sql, ids: &[[u8; 16]], lock: &str) -> Result<Vec<[u8; 16]>, StoreError> {
    let held = sql.query_in("SELECT id FROM submission WHERE held_at IS NOT NULL AND id", ids, lock)?;
    held.iter().map(|row| row.get(0)).collect()
}

/// How much one step of an expiry does.
struct ExpiryStep {
    /// How many submissions it looks at, at most.
    rows: usize,
    /// How many bytes of fields it removes, at most, unless they are those of one submission.
    bytes: i64,
    /// How many submissions' sizes one statement reads. Each may be a page that is not in memory.
    sizes: usize,
}

impl ExpiryStep {
    /// The writer of a file takes a step between two batches of submissions, and visitors wait for it; on a server they do not.
    fn of(dialect: Dialect) -> ExpiryStep {
        match dialect {
            Dialect::Sqlite => ExpiryStep { rows: ROWS_AT_A_TIME[0], bytes: 256 * 1024, sizes: 8 },
            Dialect::Postgres => ExpiryStep { rows: steps::ROWS, bytes: i64::MAX, sizes: steps::ROWS },
        }
    }

    /// Whether more submissions are to be looked at.
    fn has_room(&self, found: &[Removable]) -> bool {
        found.len() < self.rows && steps::fitting(found, self.bytes) == found.len()
    }
}

/// Removes a few of the submissions that have been held since before `before`, the longest held first, so that visitors
/// do not wait long. Returns the number removed; call again until it is zero.
pub(in crate::store) fn expire_held(tx: &dyn Sql, before: Timestamp) -> Result<usize, StoreError> {
    let (held, lock, step) =
        (held_table(tx.dialect()), tx.dialect().lock_free_rows(), ExpiryStep::of(tx.dialect()));
    let oldest = format!(
        "SELECT s.held_at, s.id, {} FROM {held}
         WHERE s.held_at IS NOT NULL AND s.held_at < ?1 AND (s.held_at, s.id) > (?2, ?3) AND s.flood = 0
         ORDER BY s.held_at, s.id LIMIT {} {lock}",
        steps::size_of(tx.dialect(), "s"),
        step.sizes,
    );
    let (mut found, mut after) = (Vec::new(), START);
    while step.has_room(&found) {
        let rows = tx.query(&oldest, values![before.as_millisecond(), after.0, after.1])?;
        for row in &rows {
            found.push(Removable::read(row, 1, 2)?);
            after = (row.get(0)?, row.get(1)?);
        }
        if rows.len() < step.sizes {
            break;
        }
    }
    let fitting = steps::fitting(&found, step.bytes);
    let mut ids: Vec<_> = found[..fitting].iter().map(|removable| removable.id).collect();
    ids.sort_unstable();
    Ok(edit::remove(tx, &ids)?.submissions)
}

/// What one step of an expiry has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many submissions were removed.
    pub removed: usize,
    /// After which submission the next step begins. Nothing if this was the last one.
    pub after: Option<Uuid>,
}

/// Removes submissions that were received before `before`, except held ones and those with a delivery that is waiting, being sent or
/// parked. Looks at a few submissions after the id `after`; the index `submission_not_held` leaves out held ones.
pub(in crate::store) fn expire(tx: &dyn Sql, before: Timestamp, after: Uuid) -> Result<Expired, StoreError> {
    let before = before.as_millisecond();
    let step = ExpiryStep::of(tx.dialect());
    // Ids begin with the time of arrival, so that the oldest come first.
    let oldest = format!(
        "SELECT s.id FROM {} WHERE s.held_at IS NULL AND s.id > ?1 AND s.id < ?2 ORDER BY s.id LIMIT {}",
        match tx.dialect() {
            Dialect::Sqlite => "submission AS s INDEXED BY submission_not_held",
            Dialect::Postgres => "submission AS s",
        },
        step.rows,
    );
    let rows = tx.query(&oldest, values![after.as_bytes(), id_before(before)])?;
    let looked_at = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
    let unfinished = "SELECT submission FROM delivery WHERE state <> 'delivered' AND submission";
    let unfinished = tx.query_in(unfinished, &looked_at, "")?;
    let unfinished = unfinished.iter().map(|row| row.get(0)).collect::<Result<BTreeSet<[u8; 16]>, _>>()?;
    let settled: Vec<_> = looked_at.iter().filter(|id| !unfinished.contains(*id)).copied().collect();
    let sizes = format!(
        "SELECT s.received_at, {}, s.id FROM submission s WHERE s.held_at IS NULL AND s.id",
        steps::size_of(tx.dialect(), "s")
    );
    let mut found = Vec::with_capacity(settled.len());
    let mut last = looked_at.last();
    for ids in settled.chunks(step.sizes) {
        if !step.has_room(&found) {
            break;
        }
        // Rows that another replica has locked are left to the next run.
        for row in tx.query_in(&sizes, ids, tx.dialect().lock_free_rows())? {
            if row.get::<i64>(0)? < before {
                found.push(Removable::read(&row, 2, 1)?);
            }
        }
    }
    let fitting = steps::fitting(&found, step.bytes);
    let ids: Vec<_> = found[..fitting].iter().map(|removable| removable.id).collect();
    let removed = tx.execute_in(
        "DELETE FROM submission WHERE held_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.submission = submission.id AND d.state <> 'delivered')
         AND id",
        &ids,
    )?;
    // Where there was no room for all, the next step goes on after the last one that is removed.
    if !step.has_room(&found) {
        last = ids.last();
    }
    Ok(Expired { removed, after: last.copied().map(Uuid::from_bytes) })
}
