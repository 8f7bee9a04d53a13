//! Removes held submissions: those that the operator discards, and those that were held for too long.

use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use super::read::{Reader, range};
use super::rows::time;
use super::{Cell, Dialect, Sql, bound, edit, values};
use crate::inbox::screen::Signal;
use crate::inbox::store::{Erased, StoreError};

/// How many submissions one transaction removes at most, so that other writers do not wait long for it.
pub(super) const AT_A_TIME: usize = 200;

/// Selects held submissions.
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
}

impl Reader {
    /// Counts the held submissions that a filter selects. Other submissions are not read.
    pub fn held(&self, filter: &HeldFilter) -> Result<HeldSummary, StoreError> {
        let (held, condition, values) = selection(self.sql.dialect(), filter);
        let sql = format!(
            "SELECT count(*), count(DISTINCT s.source), min(s.received_at), max(s.received_at) FROM {held} WHERE {condition}"
        );
        let row = self.sql.one(&sql, &bound(&values))?;
        let received = row.get::<Option<i64>>(2)?.zip(row.get(3)?);
        let times = |(first, last)| Ok::<_, StoreError>((time(first)?, time(last)?));
        Ok(HeldSummary {
            submissions: row.count(0)?,
            sources: row.count(1)?,
            received: received.map(times).transpose()?,
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

/// The table, the condition and the values for its numbered parameters.
fn selection(dialect: Dialect, filter: &HeldFilter) -> (&'static str, String, Vec<Cell>) {
    let mut values = Vec::new();
    let mut condition = "s.held_at IS NOT NULL".to_owned();
    if let Some(signal) = filter.signal {
        let reasons = match dialect {
            Dialect::Sqlite => "json_each(s.reasons)",
            Dialect::Postgres => "json_array_elements(s.reasons)",
        };
        values.push(Cell::Text(signal.name().to_owned()));
        condition.push_str(&format!(
            " AND EXISTS (SELECT 1 FROM {reasons} AS reason WHERE reason.value ->> 'signal' = ?{})",
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
pub(in crate::inbox::store) type Position = (i64, [u8; 16]);

/// Before every held submission.
pub(in crate::inbox::store) const START: Position = (i64::MIN, [0; 16]);

/// The statement of [`page`] and its values.
pub(in crate::inbox::store) fn page_statement(
    dialect: Dialect,
    filter: &HeldFilter,
    after: Position,
) -> (String, Vec<Cell>) {
    let (held, condition, mut values) = selection(dialect, filter);
    values.extend([Cell::Integer(after.0), Cell::Blob(after.1.to_vec())]);
    let sql = format!(
        "SELECT s.held_at, s.id FROM {held} WHERE {condition} AND (s.held_at, s.id) > (?{}, ?{})
         ORDER BY s.held_at, s.id LIMIT {AT_A_TIME}",
        values.len() - 1,
        values.len()
    );
    (sql, values)
}

/// The next held submissions that a filter selects after a position, in the order of the index.
pub(super) fn page(sql: &dyn Sql, filter: &HeldFilter, after: Position) -> Result<Vec<Position>, StoreError> {
    let (statement, values) = page_statement(sql.dialect(), filter, after);
    sql.query(&statement, &bound(&values))?.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Removes those of these submissions that are held. One that another transaction has locked stays: waiting for it could end
/// in a deadlock with the replica that processes the intake. The ids must be sorted.
pub(super) fn remove_held(tx: &dyn Sql, ids: &[[u8; 16]]) -> Result<Erased, StoreError> {
    let held = held_among(tx, ids, tx.dialect().lock_free_rows())?;
    edit::remove(tx, &held)
}

/// Those of these submissions that are held, sorted as they must be. `lock` ends the query.
pub(super) fn held_among(sql: &dyn Sql, ids: &[[u8; 16]], lock: &str) -> Result<Vec<[u8; 16]>, StoreError> {
    let held = sql.query_in("SELECT id FROM submission WHERE held_at IS NOT NULL AND id", ids, lock)?;
    held.iter().map(|row| row.get(0)).collect()
}

/// Removes up to `most` submissions that have been held since a time before `before`.
pub(in crate::inbox::store) fn expire_held(
    tx: &dyn Sql,
    before: Timestamp,
    most: usize,
) -> Result<usize, StoreError> {
    let (held, lock) = (held_table(tx.dialect()), tx.dialect().lock_free_rows());
    let oldest = format!(
        "SELECT s.id FROM {held} WHERE s.held_at IS NOT NULL AND s.held_at < ?1 ORDER BY s.held_at LIMIT ?2 {lock}"
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = tx.query(&oldest, values![before.as_millisecond(), most])?;
    let mut ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
    ids.sort_unstable();
    Ok(edit::remove(tx, &ids)?.submissions)
}
