//! Removes held submissions that the operator discards, and expired submissions.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use super::inbox_reader::{InboxReader, id_range};
use super::submission_rows::{self, Removable, TO_TEAM, first_id_at};
use super::transaction::Transaction;
use super::{
    Bind, Cell, Dialect, FromRow as _, ROWS_AT_A_TIME, Sql, Value, bind_all, release_and_remove, values,
};
use crate::store::error::StoreError;
use frontdesk_screening::verdict::Signal;

/// Selects held submissions, except those whose address is not confirmed. Excludes those that only a flood
/// holds, because they are released when the flood ends, unless `signal` is [`Signal::FormRate`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldFilter {
    pub signal: Option<Signal>,
    /// Selects only submissions received before this time.
    pub before: Option<Timestamp>,
    pub source: Option<SourcePrefix>,
}

/// A prefix of a source's hash, as shown in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    first: Uuid,
    last: Uuid,
}

impl SourcePrefix {
    /// Parses 1 to 32 hexadecimal digits; hyphens are ignored. `None` for any other text.
    pub fn parse(digits: &str) -> Option<SourcePrefix> {
        id_range(digits).map(|(first, last)| SourcePrefix { first, last })
    }
}

impl fmt::Display for SourcePrefix {
    /// Writes the digits that all hashes with this prefix share.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first.simple().to_string(), self.last.simple().to_string());
        let shared = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
        f.write_str(&first[..shared])
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldSummary {
    pub submissions: usize,
    pub sources: usize,
    /// When the first and the last of the submissions were received; `None` if there are none.
    pub received: Option<(Timestamp, Timestamp)>,
    /// How many matching submissions are excluded because only a flood holds them.
    pub left_in_floods: usize,
}

impl InboxReader {
    /// Summarizes the submissions that a filter selects, and counts those that it excludes only because a
    /// flood holds them.
    pub fn held(&self, filter: &HeldFilter) -> Result<HeldSummary, StoreError> {
        let (held, condition, values) = table_and_condition(self.sql.dialect(), filter);
        let is_selected = format!("FILTER (WHERE {})", is_selected_by_hold(filter));
        let sql = format!(
            "SELECT count(*) {is_selected} AS submissions, count(DISTINCT s.source) {is_selected} AS sources,
                 min(s.received_at) {is_selected} AS first, max(s.received_at) {is_selected} AS last, count(*) AS matching
             FROM {held} WHERE {condition}"
        );
        let row = self.sql.one(&sql, &bind_all(&values))?;
        let submissions = row.get("submissions")?;
        Ok(HeldSummary {
            submissions,
            sources: row.get("sources")?,
            received: row.get::<Option<Timestamp>>("first")?.zip(row.get("last")?),
            left_in_floods: row.get::<usize>("matching")? - submissions,
        })
    }
}

/// The table of submissions, with the partial index on held ones.
fn held_table(dialect: Dialect) -> String {
    dialect.table_with_index("submission AS s", "submission_held")
}

/// A condition that excludes submissions that only a flood holds, unless the filter asks for them.
fn is_selected_by_hold(filter: &HeldFilter) -> &'static str {
    if filter.signal == Some(Signal::FormRate) { "TRUE" } else { "s.flood = 0" }
}

/// The table, the filter's condition without [`is_selected_by_hold`], and the values of its parameters.
fn table_and_condition(dialect: Dialect, filter: &HeldFilter) -> (String, String, Vec<Cell>) {
    let mut values = Vec::new();
    let mut condition = "s.held_at IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM confirmation WHERE submission = s.id AND state = 'open')"
        .to_owned();
    if let Some(signal) = filter.signal {
        let reasons = dialect.reasons_table("s");
        // A submission in a flood may lack this signal, because screening already held it for other reasons.
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

/// A position in the index of held submissions: the start of the hold in milliseconds, and the id.
pub(crate) type Position = (i64, [u8; 16]);

pub(crate) const START: Position = (i64::MIN, [0; 16]);

/// The query that [`read_page`] executes, and the values of its parameters.
pub(crate) fn page_statement(dialect: Dialect, filter: &HeldFilter, after: Position) -> (String, Vec<Cell>) {
    let (held, condition, mut values) = table_and_condition(dialect, filter);
    values.extend([Cell::Integer(after.0), Cell::Blob(after.1.to_vec())]);
    let sql = format!(
        "SELECT s.held_at, s.id, {} AS bytes FROM {held} WHERE {condition} AND {} AND (s.held_at, s.id) > (?{}, ?{})
         ORDER BY s.held_at, s.id LIMIT {}",
        submission_rows::size_expression(dialect, "s"),
        is_selected_by_hold(filter),
        values.len() - 1,
        values.len(),
        submission_rows::MAX_ROWS,
    );
    (sql, values)
}

/// The next page of held submissions in index order, and the position of the last one; `None` at the end.
pub(super) fn read_page(
    sql: &dyn Sql,
    filter: &HeldFilter,
    after: Position,
) -> Result<Option<(Vec<Removable>, Position)>, StoreError> {
    let (statement, values) = page_statement(sql.dialect(), filter, after);
    let rows = sql.query(&statement, &bind_all(&values))?;
    let Some(last) = rows.last() else { return Ok(None) };
    let position = (last.get("held_at")?, last.get("id")?);
    let page = rows.iter().map(Removable::from_row).collect::<Result<_, _>>()?;
    Ok(Some((page, position)))
}

/// Returns those `ids` whose submissions are held, in ascending order. `ids` must be sorted. `lock` is the
/// locking clause for the queries.
pub(super) fn held_among(sql: &dyn Sql, ids: &[[u8; 16]], lock: &str) -> Result<Vec<[u8; 16]>, StoreError> {
    let held = sql.query_in("SELECT id FROM submission WHERE held_at IS NOT NULL AND", "id", ids, lock)?;
    held.iter().map(|row| row.get("id")).collect()
}

/// Limits on one expiry step.
struct ExpiryStep {
    /// The maximum number of submissions to examine.
    rows: usize,
    /// The maximum size in bytes of the removed fields. A single submission may exceed it.
    bytes: i64,
    /// The number of submissions whose sizes one statement reads. Reading a size may load a page from the
    /// disk.
    sizes: usize,
}

impl ExpiryStep {
    /// Small limits for SQLite, where visitors wait for each step, and large ones for PostgreSQL.
    fn for_dialect(dialect: Dialect) -> ExpiryStep {
        match dialect {
            Dialect::Sqlite => ExpiryStep { rows: ROWS_AT_A_TIME[0], bytes: 256 * 1024, sizes: 8 },
            Dialect::Postgres => ExpiryStep {
                rows: submission_rows::MAX_ROWS,
                bytes: i64::MAX,
                sizes: submission_rows::MAX_ROWS,
            },
        }
    }

    /// Whether the step may examine more submissions: neither its row limit nor its byte limit is reached.
    fn has_room(&self, found: &[Removable]) -> bool {
        found.len() < self.rows && submission_rows::count_fitting(found, self.bytes) == found.len()
    }
}

/// The forms that one retention period applies to: `forms.NAME.retention`, or `store.retention` for all
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormScope {
    Only(String),
    /// All forms except these, which are at most a few dozen.
    Except(Vec<String>),
}

impl FormScope {
    pub const ALL: FormScope = FormScope::Except(Vec::new());

    fn names(&self) -> &[String] {
        match self {
            FormScope::Only(name) => std::slice::from_ref(name),
            FormScope::Except(names) => names,
        }
    }

    /// A condition on a column, beginning with ` AND`, whose parameters are [`FormScope::names`] from number
    /// `first` on. Empty without names.
    fn condition(&self, column: &str, first: usize) -> String {
        if self.names().is_empty() {
            return String::new();
        }
        let parameters: Vec<String> = (first..).take(self.names().len()).map(|n| format!("?{n}")).collect();
        let not = if matches!(self, FormScope::Only(_)) { "" } else { "NOT " };
        format!(" AND {column} {not}IN ({})", parameters.join(", "))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    pub removed: usize,
    /// The id to pass to the next step of retention; `None` after the last step.
    pub after: Option<Uuid>,
}

impl Transaction<'_> {
    /// Removes a few of the submissions that have been held since before `before`, starting with those held
    /// the longest, and returns their number. Keeps those that a flood holds, and those whose confirmation is
    /// open with a valid link or before its first mail, and skips locked ones. Call this until it returns
    /// zero.
    pub fn expire_held(&self, before: Timestamp, now: Timestamp) -> Result<usize, StoreError> {
        let tx = self.sql;
        let (held, lock, step) = (
            held_table(tx.dialect()),
            tx.dialect().skip_locked_clause(),
            ExpiryStep::for_dialect(tx.dialect()),
        );
        // `mail_at` is when the next mail is due; with `reminds = 0`, that is the first one.
        let oldest = format!(
            "SELECT s.held_at, s.id, {} AS bytes FROM {held}
             WHERE s.held_at IS NOT NULL AND s.held_at < ?1 AND (s.held_at, s.id) > (?2, ?3) AND s.flood = 0
             AND NOT EXISTS (SELECT 1 FROM confirmation WHERE submission = s.id AND state = 'open'
                 AND (expires_at > ?4 OR (mail_at IS NOT NULL AND reminds = 0)))
             ORDER BY s.held_at, s.id LIMIT {} {lock}",
            submission_rows::size_expression(tx.dialect(), "s"),
            step.sizes,
        );
        let (mut found, mut after) = (Vec::new(), START);
        while step.has_room(&found) {
            let rows = tx.query(&oldest, values![before, after.0, after.1, now])?;
            for row in &rows {
                found.push(Removable::from_row(row)?);
                after = (row.get("held_at")?, row.get("id")?);
            }
            if rows.len() < step.sizes {
                break;
            }
        }
        let fitting = submission_rows::count_fitting(&found, step.bytes);
        let mut ids: Vec<_> = found[..fitting].iter().map(|removable| removable.id).collect();
        ids.sort_unstable();
        Ok(release_and_remove::remove_submissions(tx, &ids)?.submissions)
    }

    /// Removes a few of the entries whose confirmation is still open although their links expired before
    /// `before`, and returns their number. Keeps those whose first mail is yet to be sent. Call this until it
    /// returns zero.
    pub fn expire_unconfirmed(&self, before: Timestamp) -> Result<usize, StoreError> {
        let tx = self.sql;
        let lock = tx.dialect().skip_locked_clause();
        // Leave out entries with a confirmation mail to be queued: `mail_at` is set, and `reminds` is zero.
        let oldest = format!(
            "SELECT submission FROM confirmation WHERE state = 'open' AND expires_at < ?1
             AND (mail_at IS NULL OR reminds = 1) ORDER BY expires_at LIMIT {} {lock}",
            ExpiryStep::for_dialect(tx.dialect()).sizes,
        );
        let mut ids = tx.column::<[u8; 16]>(&oldest, values![before])?;
        ids.sort_unstable();
        Ok(release_and_remove::remove_submissions(tx, &ids)?.submissions)
    }

    /// Runs one step of retention: removes submissions received before `before`, except held ones and those
    /// with unfinished or parked deliveries to the team. Start with [`Uuid::nil`], then pass
    /// [`Expired::after`]. Removes only submissions to `forms`. Skips locked ones, which the next run
    /// removes. A step may remove none although later ones do.
    pub fn expire(&self, before: Timestamp, forms: &FormScope, after: Uuid) -> Result<Expired, StoreError> {
        let (tx, before) = (self.sql, before.as_millisecond());
        let step = ExpiryStep::for_dialect(tx.dialect());
        // Ids begin with the time of arrival, so the oldest come first.
        let oldest = format!(
            "SELECT s.id FROM {} WHERE s.held_at IS NULL AND s.id > ?1 AND s.id < ?2{} ORDER BY s.id LIMIT {}",
            tx.dialect().table_with_index("submission AS s", "submission_not_held"),
            forms.condition("s.form", 3),
            step.rows,
        );
        let until = first_id_at(before);
        let values: Vec<Value<'_>> =
            values![after, until].iter().copied().chain(forms.names().iter().map(Bind::bind)).collect();
        let looked_at = tx.column::<[u8; 16]>(&oldest, &values)?;
        let unfinished =
            format!("SELECT submission FROM delivery WHERE state <> 'delivered' AND {TO_TEAM} AND");
        let unfinished = tx.query_in(&unfinished, "submission", &looked_at, "")?;
        let unfinished =
            unfinished.iter().map(|row| row.get("submission")).collect::<Result<BTreeSet<[u8; 16]>, _>>()?;
        let settled: Vec<_> = looked_at.iter().filter(|id| !unfinished.contains(*id)).copied().collect();
        let sizes = format!(
            "SELECT s.received_at, s.id, {} AS bytes FROM submission s WHERE s.held_at IS NULL AND",
            submission_rows::size_expression(tx.dialect(), "s")
        );
        let mut found = Vec::with_capacity(settled.len());
        let mut last = looked_at.last();
        for ids in settled.chunks(step.sizes) {
            if !step.has_room(&found) {
                break;
            }
            // Leave locked rows for the next run.
            for row in tx.query_in(&sizes, "s.id", ids, tx.dialect().skip_locked_clause())? {
                if row.get::<i64>("received_at")? < before {
                    found.push(Removable::from_row(&row)?);
                }
            }
        }
        let fitting = submission_rows::count_fitting(&found, step.bytes);
        let ids: Vec<_> = found[..fitting].iter().map(|removable| removable.id).collect();
        let remove = format!(
            "DELETE FROM submission WHERE held_at IS NULL
             AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.submission = submission.id \
             AND d.state <> 'delivered' AND {TO_TEAM}) AND"
        );
        let removed = tx.execute_in(&remove, "id", &[], &ids)?;
        // After a full step, the next step continues after the last submission that this step selected for
        // removal.
        if !step.has_room(&found) {
            last = ids.last();
        }
        Ok(Expired { removed, after: last.copied().map(Uuid::from_bytes) })
    }
}
