//! SQL statements that both databases share, and the interface through which they are executed.
//!
//! Parameters are numbered `?1`, `?2`. Where SQLite and PostgreSQL differ, the code next to the statement
//! checks [`Sql::dialect`]. The view `accepted` has all submissions, processed (`submission`) or not
//! (`intake`), except test submissions of the canary.

pub(super) mod abuse;
pub(super) mod annotation;
pub(super) mod canary;
pub(super) mod channel;
pub(super) mod claim;
pub(super) mod collation_version;
pub(super) mod confirmation;
pub(super) mod confirmation_mail;
pub(super) mod copy;
mod delivered_originals;
pub(super) mod delivery_results;
pub(super) mod discard;
pub(super) mod encrypt;
pub(super) mod flood;
pub(crate) mod form_definition;
pub(super) mod inbox_editor;
pub(super) mod inbox_reader;
pub(super) mod inbox_readership;
pub(crate) mod intake;
pub(super) mod lesson;
pub(super) mod listing;
pub(super) mod note;
pub(super) mod operator_log;
pub(super) mod page_views;
pub(super) mod person;
pub(super) mod read_and_spam_marks;
pub(super) mod release_and_remove;
pub(super) mod rspamd_opinion;
pub(super) mod saved_view;
pub(super) mod search_page;
pub(super) mod search_query;
pub(super) mod session;
pub(super) mod stats;
pub(super) mod submission_rows;
pub(crate) mod transaction;
pub(super) mod undo;
pub(super) mod visitor_mail;

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::error::StoreError;
use crate::submission::delivery::DeliveryState;

/// An update that changes nothing, used to test whether the database accepts writes.
pub(super) const TOUCH: &str = "UPDATE meta SET value = value WHERE name = 'secret'";

/// A connection to a database, or a transaction on it.
pub(crate) trait Sql: Send {
    fn dialect(&self) -> Dialect;
    /// Whether a connection pooler may run each transaction in a different session of the database.
    fn is_pooled(&self) -> bool {
        false
    }
    /// Executes a statement, and returns the number of affected rows.
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError>;
    /// Executes a query, and returns all of its rows.
    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError>;
    /// Inserts rows. `into` names the table and its columns, `columns` is the number of columns, and `values`
    /// holds the values of all rows, row by row.
    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The clause that locks the rows that a query returns. Empty for SQLite, which allows only one writer.
    pub(super) fn row_lock_clause(self) -> &'static str {
        if self == Dialect::Postgres { "FOR UPDATE" } else { "" }
    }

    /// Like [`Dialect::row_lock_clause`], but skips rows that another replica has locked.
    pub(super) fn skip_locked_clause(self) -> &'static str {
        if self == Dialect::Postgres { "FOR UPDATE SKIP LOCKED" } else { "" }
    }

    /// A table for a `FROM` clause, with the index that SQLite must use. PostgreSQL chooses its own.
    pub(super) fn table_with_index(self, table: &str, index: &str) -> String {
        match self {
            Dialect::Sqlite => format!("{table} INDEXED BY {index}"),
            Dialect::Postgres => table.to_owned(),
        }
    }

    /// A table expression that yields one row for each screening reason in the column `reasons` of `table`.
    pub(super) fn reasons_table(self, table: &str) -> String {
        match self {
            Dialect::Sqlite => format!("json_each({table}.reasons)"),
            Dialect::Postgres => format!("json_array_elements({table}.reasons)"),
        }
    }
}

impl dyn Sql + '_ {
    /// Executes a query that returns at most one row. If it returns several, all but the last are ignored.
    pub(super) fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.pop())
    }

    /// Executes a query that always returns one row. Fails with [`StoreError::Damaged`] if it does not.
    pub(super) fn one(&self, sql: &str, values: &[Value<'_>]) -> Result<Row, StoreError> {
        self.row(sql, values)?.ok_or(StoreError::Damaged("a row is missing"))
    }

    /// Whether a query returns any rows.
    pub(super) fn exists(&self, sql: &str, values: &[Value<'_>]) -> Result<bool, StoreError> {
        Ok(!self.query(sql, values)?.is_empty())
    }

    /// Like [`Sql::query`], but converts each row to a `T`. Fails if one cannot be converted.
    pub(super) fn query_as<T: FromRow>(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<T>, StoreError> {
        self.query(sql, values)?.iter().map(T::from_row).collect()
    }

    /// The values of a query's only column. Fails if the query has several columns, or if a value cannot be
    /// read as a `T`. A null can be read only as an `Option`.
    pub(super) fn column<T: Read>(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<T>, StoreError> {
        self.query(sql, values)?.iter().map(Row::only).collect()
    }

    /// The value of a query that returns at most one row with one column; `None` if there is no row. A null
    /// can be read only as an `Option`.
    pub(super) fn value<T: Read>(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<T>, StoreError> {
        self.row(sql, values)?.as_ref().map(Row::only).transpose()
    }

    /// The only value of a query that always returns one row.
    pub(super) fn one_value<T: Read>(&self, sql: &str, values: &[Value<'_>]) -> Result<T, StoreError> {
        self.one(sql, values)?.only()
    }

    /// Reads the rows whose `key` is one of `keys`, which must be sorted and distinct. `select` ends with
    /// `WHERE`, or with a condition and `AND`. Rows are returned in the order of the keys, those with the
    /// same key in any order. With PostgreSQL, the clause `lock` locks them in that order. Executes a
    /// statement for each key with SQLite, which would make a temporary table of a list, and one for up to 64
    /// keys with PostgreSQL.
    pub(super) fn query_in(
        &self,
        select: &str,
        key: &str,
        keys: &[[u8; 16]],
        lock: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        if self.dialect() == Dialect::Sqlite {
            let select = format!("{select} {key} = ?1");
            for key in keys {
                found.extend(self.query(&select, &[key.bind()])?);
            }
            return Ok(found);
        }
        for (list, values) in parameter_lists(keys, &[]) {
            found.extend(self.query(&format!("{select} {key} IN {list} ORDER BY {key} {lock}"), &values)?);
        }
        Ok(found)
    }

    /// Executes a statement on the rows whose `key` is one of `keys`, and returns the number of affected
    /// rows. `statement` ends with `WHERE`, or with a condition and `AND`. `values` are its other parameters,
    /// numbered from 1. Executes one statement or several, like [`Self::query_in`]; with SQLite, once for
    /// each key, so the keys should be distinct.
    pub(super) fn execute_in(
        &self,
        statement: &str,
        key: &str,
        values: &[Value<'_>],
        keys: &[[u8; 16]],
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        if self.dialect() == Dialect::Sqlite {
            let statement = format!("{statement} {key} = ?{}", values.len() + 1);
            let mut values = values.to_vec();
            for key in keys {
                values.push(key.bind());
                count += self.execute(&statement, &values)?;
                values.pop();
            }
            return Ok(count);
        }
        for (list, values) in parameter_lists(keys, values) {
            count += self.execute(&format!("{statement} {key} IN {list}"), &values)?;
        }
        Ok(count)
    }

    /// Runs `change` in a transaction. Commits it on success. Rolls it back on any error except
    /// [`StoreError::Unreachable`], but not if `change` panics. With SQLite, takes the write lock first.
    pub(super) fn transaction<T>(
        &self,
        change: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begin = match self.dialect() {
            // Take the write lock at once: a later upgrade from a read lock may fail.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        };
        self.execute(begin, &[])?;
        let done = change().and_then(|found| self.execute("COMMIT", &[]).map(|_| found));
        // A server that did not reply in time would not reply to a rollback either.
        if done.as_ref().is_err_and(|error| !matches!(error, StoreError::Unreachable { .. })) {
            // If the rollback fails, the connection is unusable, so the database rolls back on its own.
            let _ = self.execute("ROLLBACK", &[]);
        }
        done
    }

    /// Runs queries that all see the same snapshot of the database. `ask` must not write: PostgreSQL refuses
    /// that, and with SQLite, the rollback at the end undoes it.
    pub(super) fn snapshot<T>(&self, ask: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let begin = match self.dialect() {
            Dialect::Sqlite => "BEGIN",
            Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        self.execute(begin, &[])?;
        let found = ask();
        // If the rollback fails, the connection is lost, but all rows were read.
        let _ = self.execute("ROLLBACK", &[]);
        found
    }
}

/// The batch sizes, in rows or keys, of prepared statements: only a few, so that statements are reused.
pub(super) const ROWS_AT_A_TIME: [usize; 4] = [64, 16, 4, 1];

/// Splits keys into `IN` lists of up to 64, each with all parameters of its statement: `values`, then the
/// padded keys.
fn parameter_lists<'a>(
    keys: &'a [[u8; 16]],
    values: &'a [Value<'a>],
) -> impl Iterator<Item = (String, Vec<Value<'a>>)> {
    keys.chunks(ROWS_AT_A_TIME[0]).map(move |keys| {
        let keys = pad_keys(keys);
        let numbers = values.len() + 1..=values.len() + keys.len();
        let list: Vec<String> = numbers.map(|number| format!("?{number}")).collect();
        (
            format!("({})", list.join(", ")),
            values.iter().copied().chain(keys.into_iter().map(Bind::bind)).collect(),
        )
    })
}

/// Pads up to 64 keys to one of the sizes in [`ROWS_AT_A_TIME`] by repeating the last key.
fn pad_keys(keys: &[[u8; 16]]) -> Vec<&[u8; 16]> {
    let size = ROWS_AT_A_TIME.into_iter().rfind(|size| *size >= keys.len()).unwrap_or(keys.len());
    let missing = keys.last().into_iter().cycle().take(size - keys.len());
    keys.iter().chain(missing).collect()
}

/// The placeholders for a row of values. For two columns: `(?1, ?2)`.
pub(super) fn placeholders(columns: usize) -> String {
    let numbers: Vec<String> = (1..=columns).map(|number| format!("?{number}")).collect();
    format!("({})", numbers.join(", "))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// A type that can be a parameter of a statement. A [`Timestamp`] is stored as Unix time in milliseconds, and
/// a `usize` beyond `i64::MAX` as that number.
pub(super) trait Bind {
    fn bind(&self) -> Value<'_>;
}

/// The parameters of a statement: `?1`, `?2` and so on.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::sql::Bind::bind(&$value)),*]
    };
}
pub(super) use values;

pub(super) fn bind_all(values: &[Cell]) -> Vec<Value<'_>> {
    values.iter().map(Bind::bind).collect()
}

impl Bind for Cell {
    fn bind(&self) -> Value<'_> {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Integer(*number),
            Cell::Text(text) => Value::Text(text),
            Cell::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

macro_rules! bind {
    ($($kind:ty: $self:ident => $value:expr),* $(,)?) => { $(impl Bind for $kind {
        fn bind(&$self) -> Value<'_> {
            $value
        }
    })* };
}
bind! {
    i64: self => Value::Integer(*self),
    u32: self => Value::Integer(i64::from(*self)),
    usize: self => Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX)),
    bool: self => Value::Integer(i64::from(*self)),
    Timestamp: self => Value::Integer(self.as_millisecond()),
    str: self => Value::Text(self),
    String: self => Value::Text(self),
    [u8]: self => Value::Blob(self),
    Vec<u8>: self => Value::Blob(self),
    Uuid: self => Value::Blob(self.as_bytes()),
}

impl<const N: usize> Bind for [u8; N] {
    fn bind(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<T: Bind> Bind for Option<T> {
    fn bind(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Bind::bind)
    }
}

impl<T: Bind + ?Sized> Bind for &T {
    fn bind(&self) -> Value<'_> {
        (**self).bind()
    }
}

/// A row of a query result. Values are read by column name.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(super) columns: Arc<[String]>,
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Row {
    /// The value in a column. Fails if there is no such column; in debug builds, panics.
    fn cell(&self, column: &str) -> Result<&Cell, StoreError> {
        let at = self.columns.iter().position(|name| name == column);
        let cell = at.and_then(|at| self.cells.get(at));
        debug_assert!(cell.is_some(), "no column `{column}` among {:?}", self.columns);
        cell.ok_or(StoreError::Damaged("a row lacks a column"))
    }

    /// The value in a column. Fails if it cannot be read as this type: only an `Option` can be read from a
    /// null.
    pub(super) fn get<T: Read>(&self, column: &str) -> Result<T, StoreError> {
        T::read(self.cell(column)?).ok_or(StoreError::Damaged("a value has an unexpected type"))
    }

    /// The value in a column, for use as a parameter of another statement.
    pub(super) fn value(&self, column: &str) -> Result<Value<'_>, StoreError> {
        self.cell(column).map(Bind::bind)
    }

    /// The value in the only column. Fails if the row has several columns.
    fn only<T: Read>(&self) -> Result<T, StoreError> {
        let [cell] = &self.cells[..] else { return Err(StoreError::Damaged("a row has several columns")) };
        T::read(cell).ok_or(StoreError::Damaged("a value has an unexpected type"))
    }

    /// The text in a column. Fails if the value is null or not text.
    pub(super) fn text(&self, column: &str) -> Result<&str, StoreError> {
        match self.cell(column)? {
            Cell::Text(text) => Ok(text),
            _ => Err(StoreError::Damaged("a value has an unexpected type")),
        }
    }
}

/// A type that a row of a query can be read as.
pub(super) trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self, StoreError>;
}

/// Implements [`FromRow`] for a struct whose fields have the same names as the columns.
macro_rules! from_row {
    ($kind:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::store::sql::FromRow for $kind {
            fn from_row(row: &$crate::store::sql::Row) -> Result<$kind, StoreError> {
                Ok($kind { $($field: row.get(stringify!($field))?),+ })
            }
        }
    };
}
pub(super) use from_row;

/// A type that a value of a row can be read as. `u64` and `usize` are read as zero if the value is negative;
/// a [`Timestamp`] is stored as Unix time in milliseconds. `None` if the value has another type or is out of
/// range.
pub(super) trait Read: Sized {
    fn read(cell: &Cell) -> Option<Self>;
}

macro_rules! read {
    ($($kind:ty: $cell:pat => $value:expr),* $(,)?) => { $(impl Read for $kind {
        fn read(cell: &Cell) -> Option<$kind> {
            if let $cell = cell { $value } else { None }
        }
    })* };
}
read! {
    i64: Cell::Integer(number) => Some(*number),
    u32: Cell::Integer(number) => (*number).try_into().ok(),
    u64: Cell::Integer(number) => Some((*number).try_into().unwrap_or_default()),
    usize: Cell::Integer(number) => Some((*number).try_into().unwrap_or_default()),
    Timestamp: Cell::Integer(number) => Timestamp::from_millisecond(*number).ok(),
    bool: Cell::Integer(number) => Some(*number != 0),
    String: Cell::Text(text) => Some(text.clone()),
    DeliveryState: Cell::Text(name) => DeliveryState::from_name(name),
    Vec<u8>: Cell::Blob(bytes) => Some(bytes.clone()),
    Uuid: Cell::Blob(bytes) => Uuid::from_slice(bytes).ok(),
}

impl<const N: usize> Read for [u8; N] {
    fn read(cell: &Cell) -> Option<[u8; N]> {
        if let Cell::Blob(bytes) = cell { bytes.as_slice().try_into().ok() } else { None }
    }
}

impl<T: Read> Read for Option<T> {
    fn read(cell: &Cell) -> Option<Option<T>> {
        if *cell == Cell::Null { Some(None) } else { T::read(cell).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that is lost before the end of a snapshot.
    struct LostConnection;

    impl Sql for LostConnection {
        fn dialect(&self) -> Dialect {
            Dialect::Postgres
        }

        fn execute(&self, sql: &str, _: &[Value<'_>]) -> Result<usize, StoreError> {
            if sql == "ROLLBACK" { Err(StoreError::Locked) } else { Ok(0) }
        }

        fn query(&self, _: &str, _: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            Ok(Vec::new())
        }

        fn insert(&self, _: &str, _: usize, _: &[Value<'_>]) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn what_a_snapshot_has_read_outlives_its_connection() {
        let sql: &dyn Sql = &LostConnection;
        assert!(matches!(sql.snapshot(|| Ok("all rows")), Ok("all rows")));
        assert!(matches!(
            sql.snapshot(|| Err::<(), _>(StoreError::Damaged("x"))),
            Err(StoreError::Damaged(_))
        ));
    }
}
