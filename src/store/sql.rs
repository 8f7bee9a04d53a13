//! What is asked of the database in the same words whichever it is, and what the words are sent through.
//!
//! SQLite and PostgreSQL understand the same statements nearly everywhere; parameters are numbered `?1`, `?2`. Where they differ,
//! [`Sql::dialect`] decides, beside the statement that it concerns.

pub(super) mod abuse;
pub(super) mod carry;
pub(super) mod change;
pub(super) mod deliver;
pub(super) mod discard;
pub(super) mod edit;
pub(super) mod editor;
pub(super) mod flood;
pub(super) mod intake;
pub(super) mod pressure;
pub(super) mod queue;
pub(super) mod read;
pub(super) mod rows;
pub(super) mod stats;
mod steps;

use std::fmt::Write as _;

use super::StoreError;

/// A connection to a database, or a transaction on one.
pub(super) trait Sql: Send {
    /// Whose words to use where they differ.
    fn dialect(&self) -> Dialect;
    /// Does it and returns how many rows it concerned.
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError>;
    /// The rows that it finds, all at once.
    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError>;
    /// Inserts rows. `into` names the table and its columns, `columns` is their number, and `values` holds row after row.
    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError>;
}

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Ends a query whose rows are to stay locked. A file has one writer and needs no row locks.
    pub(super) fn lock(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres => "FOR UPDATE",
        }
    }

    /// The same, without the rows that another replica has locked.
    pub(super) fn lock_free_rows(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }

    /// Asks whether it is this replica's turn to process the intake, for as long as the transaction lasts. One that stands still or is
    /// cut off loses its turn after five seconds. A file has one processor.
    pub(super) fn try_turn(self) -> Option<&'static str> {
        let lock =
            "SELECT pg_try_advisory_xact_lock(hashtextextended('frontdesk intake ' || current_schema(), 0)),
             set_config('idle_in_transaction_session_timeout', '5s', true)";
        (self == Dialect::Postgres).then_some(lock)
    }
}

impl dyn Sql + '_ {
    /// The only row that there can be, where there is one.
    pub(super) fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.pop())
    }

    /// The row that there always is.
    pub(super) fn one(&self, sql: &str, values: &[Value<'_>]) -> Result<Row, StoreError> {
        self.row(sql, values)?.ok_or(StoreError::Damaged("a row is missing"))
    }

    /// Whether there is any row.
    pub(super) fn exists(&self, sql: &str, values: &[Value<'_>]) -> Result<bool, StoreError> {
        Ok(!self.query(sql, values)?.is_empty())
    }

    /// The rows in which a column has one of these values. `select` ends with the column's name; rows come, and are locked if `lock`
    /// says so, in the order of the keys, which must be sorted.
    pub(super) fn query_in(
        &self,
        select: &str,
        keys: &[[u8; 16]],
        lock: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let column = select.rsplit(' ').next().unwrap_or_default();
        let mut found = Vec::new();
        for (list, values) in lists(keys, &[]) {
            found.extend(self.query(&format!("{select} IN {list} ORDER BY {column} {lock}"), &values)?);
        }
        Ok(found)
    }

    /// Does something to the rows in which a column has one of these values, and returns how many rows that concerned. `statement` ends
    /// with the column's name.
    pub(super) fn execute_in(&self, statement: &str, keys: &[[u8; 16]]) -> Result<usize, StoreError> {
        self.execute_with_in(statement, &[], keys)
    }

    /// The same, with the values of the statement's own parameters, which are numbered from 1.
    pub(super) fn execute_with_in(
        &self,
        statement: &str,
        values: &[Value<'_>],
        keys: &[[u8; 16]],
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        for (list, values) in lists(keys, values) {
            count += self.execute(&format!("{statement} IN {list}"), &values)?;
        }
        Ok(count)
    }

    /// What is done within is committed, or nothing of it.
    pub(super) fn transaction<T>(
        &self,
        change: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begin = match self.dialect() {
            // Whoever writes in the end says so first, instead of finding out that another has come before.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        };
        self.execute(begin, &[])?;
        let done = change().and_then(|found| self.execute("COMMIT", &[]).map(|_| found));
        // A server that did not answer in time would not answer that either, and whoever waits has waited long enough.
        if done.as_ref().is_err_and(|error| !matches!(error, StoreError::Unreachable { .. })) {
            // Where even that fails the connection is of no use any more, and the database does the same.
            let _ = self.execute("ROLLBACK", &[]);
        }
        done
    }

    /// What is asked within sees one state of the database.
    pub(super) fn snapshot<T>(&self, ask: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let begin = match self.dialect() {
            Dialect::Sqlite => "BEGIN",
            Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        self.execute(begin, &[])?;
        let found = ask();
        let end = self.execute("ROLLBACK", &[]);
        found.and_then(|found| end.map(|_| found))
    }
}

/// How many rows one statement takes: a few sizes, so that the statements stay prepared.
pub(super) const ROWS_AT_A_TIME: [usize; 4] = [64, 16, 4, 1];

/// Keys as lists of parameters, numbered after those of `values`, with all values. Lists are filled up with their last key, so that few
/// statements are prepared.
fn lists<'a>(
    keys: &'a [[u8; 16]],
    values: &'a [Value<'a>],
) -> impl Iterator<Item = (String, Vec<Value<'a>>)> {
    let most = ROWS_AT_A_TIME[0];
    keys.chunks(most).map(move |keys| {
        let keys = filled(keys);
        let numbers = values.len() + 1..=values.len() + keys.len();
        let list: Vec<String> = numbers.map(|number| format!("?{number}")).collect();
        (
            format!("({})", list.join(", ")),
            values.iter().copied().chain(keys.into_iter().map(Bind::bind)).collect(),
        )
    })
}

/// Up to 64 keys, filled up with the last one to one of a few sizes.
fn filled(keys: &[[u8; 16]]) -> Vec<&[u8; 16]> {
    let size = ROWS_AT_A_TIME.into_iter().rfind(|size| *size >= keys.len()).unwrap_or(keys.len());
    let missing = keys.last().into_iter().cycle().take(size - keys.len());
    keys.iter().chain(missing).collect()
}

/// `(?1, ?2), (?3, ?4)` for two rows of two columns.
pub(super) fn placeholders(rows: usize, columns: usize) -> String {
    let mut text = String::with_capacity(rows * columns * 6);
    for number in 1..=rows * columns {
        let before = match number {
            1 => "(",
            number if number % columns == 1 % columns => "), (",
            _ => ", ",
        };
        // Writing to a string does not fail.
        let _ = write!(text, "{before}?{number}");
    }
    text + ")"
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    /// An id is one too: 16 bytes.
    Blob(&'a [u8]),
}

/// What can be a parameter of a statement.
pub(super) trait Bind {
    fn bind(&self) -> Value<'_>;
}

/// The parameters of a statement, in the order of their numbers.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::sql::Bind::bind(&$value)),*]
    };
}
pub(super) use values;

/// The parameters of a statement that was put together.
pub(super) fn bound(values: &[Cell]) -> Vec<Value<'_>> {
    values.iter().map(Bind::bind).collect()
}

/// What was read can be written again, and what is kept until its statement is complete.
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
    bool: self => Value::Integer(i64::from(*self)),
    str: self => Value::Text(self),
    String: self => Value::Text(self),
    [u8]: self => Value::Blob(self),
    [u8; 8]: self => Value::Blob(self),
    [u8; 16]: self => Value::Blob(self),
    [u8; 32]: self => Value::Blob(self),
    Vec<u8>: self => Value::Blob(self),
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

/// One row of an answer.
#[derive(Clone, Debug)]
pub(super) struct Row(pub(super) Vec<Cell>);

/// One value of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Row {
    /// The value in a column, counted from 0. An error where it is something else than what is asked for.
    pub(super) fn get<T: Read>(&self, column: usize) -> Result<T, StoreError> {
        self.0.get(column).and_then(T::read).ok_or(StoreError::Damaged("a row has the wrong shape"))
    }

    /// The text in a column, counted from 0.
    pub(super) fn text(&self, column: usize) -> Result<&str, StoreError> {
        match self.0.get(column) {
            Some(Cell::Text(text)) => Ok(text),
            _ => Err(StoreError::Damaged("a row has the wrong shape")),
        }
    }

    /// A count, which is never negative.
    pub(super) fn count(&self, column: usize) -> Result<usize, StoreError> {
        Ok(usize::try_from(self.get::<i64>(column)?).unwrap_or_default())
    }
}

/// What a value of an answer can be read as.
pub(super) trait Read: Sized {
    fn read(cell: &Cell) -> Option<Self>;
}

impl Read for i64 {
    fn read(cell: &Cell) -> Option<i64> {
        if let Cell::Integer(number) = cell { Some(*number) } else { None }
    }
}

impl Read for u32 {
    fn read(cell: &Cell) -> Option<u32> {
        i64::read(cell).and_then(|number| number.try_into().ok())
    }
}

impl Read for bool {
    fn read(cell: &Cell) -> Option<bool> {
        i64::read(cell).map(|number| number != 0)
    }
}

impl Read for String {
    fn read(cell: &Cell) -> Option<String> {
        if let Cell::Text(text) = cell { Some(text.clone()) } else { None }
    }
}

impl Read for Vec<u8> {
    fn read(cell: &Cell) -> Option<Vec<u8>> {
        if let Cell::Blob(bytes) = cell { Some(bytes.clone()) } else { None }
    }
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
