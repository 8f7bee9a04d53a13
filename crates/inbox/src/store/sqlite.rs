//! The inbox in a SQLite file.
//!
//! Uses write-ahead logging with `synchronous=FULL`: with a weaker setting, a power failure could lose
//! confirmed commits. Processing is synced as well, although it would be repeated: if the disk failed to take
//! an unsynced commit, a crash would also lose the confirmed commits after it in the log.

#![expect(clippy::disallowed_methods, reason = "the writer thread waits before it opens the database again")]

pub(super) mod backup;
pub(super) mod files;
pub(super) mod wal_checkpointer;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi, params_from_iter};
use uuid::Uuid;

use self::files::DatabaseFiles;
use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::ids::Ids;
use super::keyed_hash::Secret;
use super::sql::form_definition::StoredDefinitions;
use super::sql::intake;
use super::sql::intake::{Accepting, UnresolvedCommit};
use super::sql::transaction::{self, Apply, Change, Transaction};
use super::sql::{Cell, Dialect, Row, Sql, TOUCH, Value};
#[cfg(test)]
use super::test_statement_recorder as recorder;
use frontdesk_process::file_signal;

/// The SQL script that creates the tables of a new inbox.
pub(crate) const TABLES: &str = include_str!("../../../../migrations/sqlite/inbox.sql");
/// The version of the table layout, stored in `user_version`. Databases with another version are refused.
pub(super) const LAYOUT: i64 = 19;
/// The value of `application_id` in the files of frontdesk: "FDSK" in ASCII.
const APPLICATION_ID: i64 = 0x4644_534b;
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of prepared statements that a connection caches; the default of 16 is too few for the writer.
pub(crate) const STATEMENTS: usize = 64;
/// The size of the log, in pages of 4 KiB, at which SQLite copies the log into the database within a commit.
/// Usually, `wal_checkpointer.rs` copies it earlier.
const CHECKPOINT_PAGES: i64 = 16_384;
/// The size to which SQLite truncates the log file after a checkpoint, in bytes.
const MAX_LOG_BYTES: i64 = 64 * 1024 * 1024;

/// A database that is open for writing.
pub(super) struct SqliteWriter {
    connection: Connection,
    pub(super) files: DatabaseFiles,
    pub(super) secret: Secret,
    definitions: StoredDefinitions,
    path: PathBuf,
    /// The number of rows that the last commit changed.
    pub(super) changed: u64,
}

impl SqliteWriter {
    /// Opens the database. Creates it if it is missing, but not its folder. Fails if another program or
    /// another version created it, if it has another encoding than UTF-8 or an index with another collation
    /// than `BINARY`, or if its commits cannot be made durable.
    pub(super) fn open(path: &Path) -> Result<SqliteWriter, StoreError> {
        files::create_database(path)?;
        SqliteWriter::open_file(path, None)
    }

    /// Opens a database that this process has opened before; `known` is its secret. Creates nothing, and
    /// also fails if the database is missing or another inbox is in its place.
    pub(super) fn reopen(path: &Path, known: &Secret) -> Result<SqliteWriter, StoreError> {
        files::expect_database(path)?;
        SqliteWriter::open_file(path, Some(known))
    }

    /// Opens an existing file, and creates the tables if it is empty. With `known`, the secret of the inbox,
    /// fails instead if the file is empty or has another inbox.
    fn open_file(path: &Path, known: Option<&Secret>) -> Result<SqliteWriter, StoreError> {
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let has_tables = has_tables(&connection, path)?;
        if let Some(known) = known {
            if !has_tables {
                return Err(files::disappeared(path));
            }
            if Secret::read(&connection)?.0 != known.0 {
                return Err(files::supplanted(path));
            }
        }
        expect_encoding_and_collation(&connection, path)?;
        make_durable(&connection)?;
        // Keep savepoints in memory: otherwise each batch writes its changed pages to a temporary file.
        connection.pragma_update(None, "temp_store", "memory")?;
        if !has_tables {
            create_tables(&mut connection)?;
        }
        let secret = Secret::read(&connection)?;
        let files = DatabaseFiles::identify(path)?;
        Ok(SqliteWriter {
            connection,
            files,
            secret,
            definitions: StoredDefinitions::default(),
            path: path.to_owned(),
            changed: 0,
        })
    }

    /// See `DatabaseWriter::commit`. A failed commit may have reached the disk, and may take effect when the
    /// database is reopened. The next successful transaction removes its submissions. Notifies listeners if
    /// it has written any row.
    pub(super) fn commit(
        &mut self,
        jobs: &[Accepting],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        unresolved: &mut Vec<UnresolvedCommit>,
    ) -> Result<Vec<Uuid>, StoreError> {
        transaction::with_faulty_changes_skipped(changes, |changes, apply| {
            self.commit_once(jobs, changes, apply, ids, unresolved)
        })
    }

    /// Tries `commit` once, in one transaction, and returns the ids of the submissions. Signals other
    /// processes if a row has changed. Fails if the files were moved, even during the commit. After an error,
    /// `unresolved` has the submissions whose commit may have taken effect all the same.
    fn commit_once(
        &mut self,
        jobs: &[Accepting],
        changes: &mut [Box<dyn Change>],
        apply: Apply,
        ids: &mut Ids,
        unresolved: &mut Vec<UnresolvedCommit>,
    ) -> Result<Vec<Uuid>, StoreError> {
        self.files.check_in_place()?;
        let changes_before = self.connection.total_changes();
        // Put the list back only after the commit: after an error, it is unknown which definitions are
        // stored.
        let mut definitions = std::mem::take(&mut self.definitions);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        intake::remove_unresolved(&*transaction, unresolved)?;
        if jobs.is_empty() && changes.is_empty() {
            Sql::execute(&*transaction, TOUCH, &[])?;
        }
        let accepted = jobs.iter().map(|job| ids.next(job.received_at)).collect::<Vec<_>>();
        intake::append(&*transaction, &self.secret, &mut definitions, jobs, &accepted)?;
        let changing = Transaction { sql: &*transaction, secret: &self.secret, ahead: SignedDuration::ZERO };
        transaction::apply_changes(&changing, changes, apply)?;
        let earlier = unresolved.len();
        unresolved.extend(accepted.iter().map(|id| UnresolvedCommit { id: *id, backend: None }));
        if let Err(error) = transaction.commit().map_err(StoreError::from) {
            // If the disk was full or the database was locked, the commit has not taken effect.
            if matches!(error, StoreError::Full | StoreError::Locked) {
                unresolved.truncate(earlier);
            }
            return Err(error);
        }
        // Fail if the file has been removed or replaced: submissions in a removed file are lost.
        self.files.check_in_place()?;
        unresolved.clear();
        self.definitions = definitions;
        self.changed = self.connection.total_changes() - changes_before;
        // Do not notify if nothing changed: otherwise the worker would wake itself forever.
        if self.changed > 0 {
            file_signal::signal(&self.path);
        }
        Ok(accepted)
    }

    /// Copies as much of the log into the database as readers permit. Ignores errors, which later commits
    /// meet and report.
    pub(super) fn checkpoint_rest(&self) {
        let _ = checkpoint_passively(&self.connection);
    }

    /// Like the function [`truncate_wal`], but restores the lock timeout.
    pub(super) fn truncate_wal(&self) -> Result<bool, StoreError> {
        let emptied = truncate_wal(&self.connection);
        set_lock_timeout(&self.connection, BUSY_TIMEOUT)?;
        emptied
    }
}

/// Copies the log into the database and truncates it; returns false if a reader prevents that. Leaves the
/// lock timeout at zero, because SQLite would otherwise wait for readers while it blocks all other writers.
/// The caller restores it with [`set_lock_timeout`].
pub(super) fn truncate_wal(sql: &dyn Sql) -> Result<bool, StoreError> {
    set_lock_timeout(sql, Duration::ZERO)?;
    let row = sql.one("PRAGMA wal_checkpoint(TRUNCATE)", &[])?;
    Ok(!row.get::<bool>("busy")? && row.get::<i64>("log")? <= 0)
}

pub(super) fn set_lock_timeout(sql: &dyn Sql, timeout: Duration) -> Result<(), StoreError> {
    sql.query(&format!("PRAGMA busy_timeout = {}", timeout.as_millis()), &[]).map(drop)
}

/// Caches prepared statements. If `insert` fails, some of the rows may have been inserted: call it in a
/// transaction, and roll that back.
impl Sql for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        #[cfg(test)]
        let began = Instant::now();
        let count = statement.execute(params_from_iter(values))?;
        #[cfg(test)]
        recorder::record(self.path(), sql, values, began, count, || {
            statement.reset_status(rusqlite::StatementStatus::VmStep)
        });
        Ok(count)
    }

    /// Executes a statement for each row. For a statement with several rows, SQLite would copy all pages that
    /// it changes, to be able to undo it.
    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError> {
        let sql = format!("INSERT INTO {into} VALUES ({})", vec!["?"; columns].join(", "));
        values.chunks(columns).try_for_each(|row| Sql::execute(self, &sql, row).map(drop))
    }

    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        #[cfg(test)]
        let began = Instant::now();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found: Vec<Row> = Vec::new();
        while let Some(row) = rows.next()? {
            // Read the names of the columns only if there is a row: most lookups find no row.
            let columns = match found.first() {
                Some(first) => first.columns.clone(),
                None => row.as_ref().column_names().map(str::to_owned).collect(),
            };
            let cell = |column| Ok(Cell::from(row.get_ref(column)?));
            let cells = (0..columns.len()).map(cell).collect::<rusqlite::Result<_>>()?;
            found.push(Row { columns, cells });
        }
        drop(rows);
        #[cfg(test)]
        recorder::record(self.path(), sql, values, began, found.len(), || {
            statement.reset_status(rusqlite::StatementStatus::VmStep)
        });
        Ok(found)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<ValueRef<'_>> for Cell {
    /// Turns invalid UTF-8 and floating-point numbers, which frontdesk never writes, into blobs.
    fn from(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Blob(number.to_be_bytes().to_vec()),
            ValueRef::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => Cell::Text(text.to_owned()),
                Err(_) => Cell::Blob(bytes.to_vec()),
            },
            ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        }
    }
}

/// Opens the database read-only. Fails with [`StoreError::Missing`] if there is none or it is empty. Without
/// a running server, this works only if the database's log can be created beside it; otherwise, fails with
/// [`StoreError::Io`].
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    open_existing(path, OpenFlags::SQLITE_OPEN_READ_ONLY, BUSY_TIMEOUT).map_err(|error| match error {
        StoreError::Database { code, reason } if code & 0xff == ffi::SQLITE_CANTOPEN => {
            StoreError::io(path, std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason))
        }
        error => error,
    })
}

/// Opens an existing database for changes. Fails with [`StoreError::Missing`] if there is none or it is
/// empty.
pub(super) fn open_to_edit(path: &Path, lock_timeout: Duration) -> Result<(Connection, Secret), StoreError> {
    let connection = open_existing(path, OpenFlags::SQLITE_OPEN_READ_WRITE, lock_timeout)?;
    make_durable(&connection)?;
    let secret = Secret::read(&connection)?;
    Ok((connection, secret))
}

/// Opens an existing database. Fails with [`StoreError::Missing`] if the file is missing or empty.
fn open_existing(path: &Path, mode: OpenFlags, lock_timeout: Duration) -> Result<Connection, StoreError> {
    let missing = || StoreError::Missing(DatabaseUrl::from(path));
    // Distinguish a folder that this user may not access from a missing file.
    if !path.try_exists().map_err(|error| StoreError::io(path, error))? {
        return Err(missing());
    }
    let connection = connect(path, mode)?;
    connection.busy_timeout(lock_timeout)?;
    if has_tables(&connection, path)? { Ok(connection) } else { Err(missing()) }
}

/// Connects to an existing file, with the settings that every connection needs.
fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    // SQLite must not interpret the path as a `file:` URI or `:memory:`.
    let path = files::absolute(path)?;
    let connection = Connection::open_with_flags(&path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    enable_stable_plans(&connection)?;
    connection.pragma_update(None, "trusted_schema", "off")?;
    // Make SQLite overwrite removed data with zeros.
    connection.pragma_update(None, "secure_delete", "on")?;
    Ok(connection)
}

/// Makes query plans independent of bound values. Otherwise SQLite recompiles a statement at each execution
/// if a parameter is compared with a column of a partial index, and claims spend most of their time on that.
pub(crate) fn enable_stable_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Whether the database has the tables of an inbox; false if it is empty. Fails if another program or another
/// version created the database.
fn has_tables(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    // Use a single statement, because another process may be creating the tables.
    let state = connection.query_row(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id, pragma_user_version",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    );
    match state {
        Ok((0, 0, 0)) => Ok(false),
        Ok((APPLICATION_ID, LAYOUT, _)) => Ok(true),
        Ok((APPLICATION_ID, found, _)) => {
            let url = DatabaseUrl::from(path);
            Err(if found < LAYOUT {
                StoreError::TooOld { url, found, known: LAYOUT }
            } else {
                StoreError::TooNew { url, found, known: LAYOUT }
            })
        }
        Ok((_, _, _)) => Err(StoreError::NotAnInbox(DatabaseUrl::from(path))),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(StoreError::NotAnInbox(DatabaseUrl::from(path)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Fails if the existing file has another layout, encoding or collation; see [`super::check_environment`].
pub(super) fn check_environment(path: &Path) -> Result<(), StoreError> {
    if path.exists() { expect_encoding_and_collation(&open_to_read(path)?, path) } else { Ok(()) }
}

/// Fails if the file is not in UTF-8, or if an index compares texts by a collation other than SQLite's
/// default, `BINARY`. A new file always passes.
fn expect_encoding_and_collation(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let url = || DatabaseUrl::from(path);
    let found: String = connection.pragma_query_value(None, "encoding", |row| row.get(0))?;
    if found != "UTF-8" {
        return Err(StoreError::WrongEncoding { url: url(), setting: "encoding", found, needed: "UTF-8" });
    }
    let columns = "SELECT DISTINCT c.coll FROM sqlite_schema s, pragma_index_xinfo(s.name) c
                   WHERE s.type = 'index' AND c.coll <> 'BINARY'";
    match connection.query_row(columns, [], |row| row.get(0)) {
        Ok(collation) => Err(StoreError::WrongCollation { url: url(), collation }),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes commits and checkpoints on this connection sync to stable storage.
fn enable_full_sync(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    // On macOS, `fsync` does not flush the drive's cache.
    connection.pragma_update(None, "fullfsync", "on")?;
    connection.pragma_update(None, "checkpoint_fullfsync", "on")
}

/// Turns on write-ahead logging with a sync at each commit, and fails if that is not supported. Also enforces
/// foreign keys, and sets the sizes of the log and the page cache.
fn make_durable(connection: &Connection) -> Result<(), StoreError> {
    enable_full_sync(connection)?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    let journal = enable_wal(connection)?;
    if journal != "wal" {
        return Err(StoreError::NotDurable { setting: "journal_mode", found: journal, needed: "wal" });
    }
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != 2 {
        let found = synchronous.to_string();
        return Err(StoreError::NotDurable { setting: "synchronous", found, needed: "2 (FULL)" });
    }
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    Ok(connection.pragma_update(None, "cache_size", -16_384)?)
}

/// Switches to write-ahead logging and returns the resulting mode. Retries for up to `BUSY_TIMEOUT` while the
/// database is locked, because SQLite does not wait here, and two processes may create the same database at
/// once.
fn enable_wal(connection: &Connection) -> rusqlite::Result<String> {
    let started = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match &mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < BUSY_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            _ => return mode,
        }
    }
}

/// Copies as much of the log as possible without waiting, syncs the database, and returns how many pages of
/// the current log have been copied in total, by this call and earlier ones.
fn checkpoint_passively(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))?)
}

/// Creates the tables and the inbox's secret, unless another process has created them since the database was
/// opened.
fn create_tables(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let layout: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if layout == 0 {
        transaction.execute_batch(TABLES)?;
        let secret = Secret::generate()?;
        transaction.execute("INSERT INTO meta (name, value) VALUES ('secret', ?1)", [secret.0])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", LAYOUT)?;
    }
    Ok(transaction.commit()?)
}

impl From<rusqlite::Error> for StoreError {
    /// Keeps only the result code, because the message could quote data. An error without a code, such as a
    /// missing row, becomes [`StoreError::Damaged`].
    fn from(error: rusqlite::Error) -> StoreError {
        let Some(error) = error.sqlite_error() else {
            return StoreError::Damaged("a value has an unexpected type");
        };
        match error.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Locked,
            ErrorCode::DiskFull => StoreError::Full,
            ErrorCode::ReadOnly => StoreError::ReadOnly,
            _ => StoreError::Database {
                code: error.extended_code,
                reason: ffi::code_to_str(error.extended_code),
            },
        }
    }
}

#[cfg(test)]
mod tests;
