//! The inbox in one SQLite file: opened so that a commit is a promise, written a batch at a time.
//!
//! Write-ahead logging with `synchronous=FULL`: with anything less a power cut takes commits that had been
//! confirmed. `migrations/sqlite` has the tables of a new inbox, and what brings an older one up to date.

pub(super) mod backup;
pub(super) mod copier;
pub(super) mod files;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, ffi, params_from_iter,
};
use uuid::Uuid;

use self::files::Files;
use super::fingerprint::Secret;
use super::ids::Ids;
#[cfg(test)]
use super::recorder;
use super::sql::change::{self, Change, Changing};
use super::sql::intake;
use super::sql::{Cell, Dialect, ROWS_AT_A_TIME, Row, Sql, Value, placeholders};
use super::{Doubt, Job, Place, StoreError, bell};

/// The tables of a new inbox.
pub(super) const TABLES: &str = include_str!("../../migrations/sqlite/inbox.sql");
/// Each brings an inbox from the layout before it to its own; the first begins with [`OLDEST_LAYOUT`].
const UPGRADES: [&str; 3] = [
    include_str!("../../migrations/sqlite/upgrade_to_4.sql"),
    include_str!("../../migrations/sqlite/upgrade_to_5.sql"),
    include_str!("../../migrations/sqlite/upgrade_to_6.sql"),
];
/// The layout that this program reads and writes, kept in `user_version`.
const LAYOUT: i64 = 6;
const OLDEST_LAYOUT: i64 = 3;
/// "FDSK", kept in `application_id`: which program the file belongs to.
const APPLICATION_ID: i64 = 0x4644_534b;
/// How long another program may hold the database's lock before we give up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// How many statements stay prepared: more than there are.
pub(super) const STATEMENTS: usize = 64;
/// How many bytes of texts and blobs one statement inserts at most, unless they are those of one row.
const STATEMENT_BYTES: usize = 256 * 1024;
/// How large the log grows before the writer copies it into the database himself, in pages of 4 KiB: `copier.rs` should be earlier.
const CHECKPOINT_PAGES: i64 = 16_384;
/// How much of the log's file is kept between checkpoints after it once had to grow.
const MAX_LOG_BYTES: i64 = 64 * 1024 * 1024;

/// The database, open for writing. There is one in a process.
pub(super) struct Database {
    connection: Connection,
    files: Files,
    secret: Secret,
    path: PathBuf,
    /// How many rows the last commit changed.
    changed: u64,
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Database, StoreError> {
        files::create(path)?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let layout = layout(&connection, path)?.unwrap_or(0);
        make_durable(&connection)?;
        // What a savepoint needs to go back: otherwise each processed batch writes the pages that it changes to a temporary file.
        connection.pragma_update(None, "temp_store", "memory")?;
        if layout < LAYOUT {
            migrate(&mut connection)?;
        }
        let secret = read_secret(&connection)?;
        let files = Files::of(path)?;
        Ok(Database { connection, files, secret, path: path.to_owned(), changed: 0 })
    }

    /// Commits all of them in one transaction, or none, with ids from `ids`. Writes something even if there are none, so that it
    /// shows whether that is possible. A change that is impossible by itself is answered for itself, and spoils nothing else.
    ///
    /// A commit that fails may have reached the disk all the same, and then it comes back when the database is opened again.
    /// What it held stays in `doubtful`, and is taken out by the next transaction that succeeds: it was not confirmed.
    pub(super) fn commit(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Uuid>, StoreError> {
        self.files.are_in_place()?;
        let changes_before = self.connection.total_changes();
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        intake::take_back(&*transaction, doubtful)?;
        if jobs.is_empty() && changes.is_empty() {
            Sql::execute(&*transaction, "UPDATE meta SET value = value WHERE name = 'secret'", &[])?;
        }
        let accepted = jobs.iter().map(|job| ids.next(job.arrival.received_at)).collect::<Vec<_>>();
        intake::append(&*transaction, &self.secret, jobs, &accepted)?;
        let changing = Changing { sql: &*transaction, secret: &self.secret, ahead: SignedDuration::ZERO };
        change::apply(&changing, changes)?;
        let sure = doubtful.len();
        doubtful.extend(accepted.iter().map(|id| Doubt { id: *id, backend: None }));
        if let Err(error) = transaction.commit().map_err(StoreError::from) {
            // A full disk or a lock is noticed before anything is final.
            if matches!(error, StoreError::Full | StoreError::Locked) {
                doubtful.truncate(sure);
            }
            return Err(error);
        }
        // A file that was taken away meanwhile has our rows, and nobody will ever read them.
        self.files.are_in_place()?;
        doubtful.clear();
        self.changed = self.connection.total_changes() - changes_before;
        // Who looks for something to do and finds nothing wakes nobody, and himself least of all.
        if self.changed > 0 {
            bell::ring(&self.path);
        }
        Ok(accepted)
    }

    /// Processes the intake.
    #[cfg(test)]
    fn process(&self) {
        let screener = intake::Screener::new(crate::screening::Repeats::new(Instant::now()).into());
        let all = Uuid::nil()..=Uuid::max();
        intake::process(&self.connection, &super::Options::at("unused".into()), &screener, 64, all).unwrap();
    }

    /// How many rows the last commit changed.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    /// The files that are open.
    pub(super) fn files(&self) -> Files {
        self.files.clone()
    }

    /// Copies what is left in the log into the database. Where that fails, the next commit says why.
    pub(super) fn copy_log(&self) {
        let _ = copier::copy_once(&self.connection);
    }
}

impl Database {
    /// Copies the log into the database and cuts it off, so that no earlier state can be read from it. False where somebody reads
    /// just now.
    pub(super) fn empty_log(&self) -> Result<bool, StoreError> {
        let emptied = empty_log(&self.connection);
        wait_for_locks(&self.connection, BUSY_TIMEOUT)?;
        emptied
    }
}

/// Waits for nobody, and leaves the connection without patience for locks: SQLite would wait for readers with the writer's lock in its hands, and so keep
/// everybody from writing meanwhile.
pub(super) fn empty_log(sql: &dyn Sql) -> Result<bool, StoreError> {
    wait_for_locks(sql, Duration::ZERO)?;
    let row = sql.one("PRAGMA wal_checkpoint(TRUNCATE)", &[])?;
    Ok(row.get::<i64>(0)? == 0 && row.get::<i64>(1)? <= 0)
}

/// How long it waits for a lock from now on.
pub(super) fn wait_for_locks(sql: &dyn Sql, timeout: Duration) -> Result<(), StoreError> {
    sql.query(&format!("PRAGMA busy_timeout = {}", timeout.as_millis()), &[]).map(drop)
}

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
        recorder::record(self.path(), sql, values, began, || {
            statement.reset_status(rusqlite::StatementStatus::VmStep)
        });
        Ok(count)
    }

    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError> {
        let mut rest = values;
        while !rest.is_empty() {
            let fits = |rows: &usize| {
                let chunk = rest.get(..rows * columns);
                chunk.is_some_and(|chunk| {
                    *rows == 1 || chunk.iter().map(size).sum::<usize>() <= STATEMENT_BYTES
                })
            };
            let rows = ROWS_AT_A_TIME.into_iter().find(fits).unwrap_or(1);
            let (chunk, after) = rest.split_at(rest.len().min(rows * columns));
            let sql = format!("INSERT INTO {into} VALUES {}", placeholders(rows, columns));
            Sql::execute(self, &sql, chunk)?;
            rest = after;
        }
        Ok(())
    }

    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        let columns = statement.column_count();
        #[cfg(test)]
        let began = Instant::now();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let cell = |column| Ok(Cell::from(row.get_ref(column)?));
            found.push(Row((0..columns).map(cell).collect::<rusqlite::Result<_>>()?));
        }
        drop(rows);
        #[cfg(test)]
        recorder::record(self.path(), sql, values, began, || {
            statement.reset_status(rusqlite::StatementStatus::VmStep)
        });
        Ok(found)
    }
}

/// How many bytes a text or blob has.
fn size(value: &Value<'_>) -> usize {
    match value {
        Value::Null | Value::Integer(_) => 0,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
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
    /// A text that is not UTF-8, and a number that is not whole, are nothing that we have written.
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

/// Opens the database for reading only, and changes nothing in it. [`StoreError::Missing`] where there is none yet.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let (connection, layout) = open_any(path)?;
    if layout < LAYOUT { Err(StoreError::TooOld(Place::of(path))) } else { Ok(connection) }
}

/// Opens a database that is there for changes, with patience for whoever else writes.
pub(super) fn open_to_edit(path: &Path, patience: Duration) -> Result<(Connection, Secret), StoreError> {
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(StoreError::Missing(Place::of(path))),
        Err(error) => return Err(StoreError::io(path, error)),
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(patience)?;
    match layout(&connection, path)? {
        None => return Err(StoreError::Missing(Place::of(path))),
        Some(LAYOUT) => {}
        Some(_) => return Err(StoreError::TooOld(Place::of(path))),
    }
    make_durable(&connection)?;
    let secret = read_secret(&connection)?;
    Ok((connection, secret))
}

/// Opens a database of this layout, or of an earlier one, for reading only, and says which layout it has.
pub(super) fn open_any(path: &Path) -> Result<(Connection, i64), StoreError> {
    // A folder that may not be looked into is another matter than one in which there is nothing.
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(StoreError::Missing(Place::of(path))),
        Err(error) => return Err(StoreError::io(path, error)),
    }
    let connection =
        connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| cannot_open(path, error))?;
    let layout = layout(&connection, path).map_err(|error| cannot_open(path, error))?;
    Ok((connection, layout.ok_or_else(|| StoreError::Missing(Place::of(path)))?))
}

/// A database that nobody serves can only be read where its log can be opened beside it.
fn cannot_open(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Database { code, reason } if code & 0xff == rusqlite::ffi::SQLITE_CANTOPEN => {
            StoreError::io(path, std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason))
        }
        error => error,
    }
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    // An absolute path can't be taken for a `file:` URI or for `:memory:`.
    let path = std::path::absolute(path).map_err(|error| StoreError::io(path, error))?;
    let connection = Connection::open_with_flags(&path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "trusted_schema", "off")?;
    // What is removed is overwritten, not just forgotten.
    connection.pragma_update(None, "secure_delete", "on")?;
    Ok(connection)
}

/// The layout of the database, or nothing if it is an empty one. Refuses what isn't ours before
/// anything is changed in it.
fn layout(connection: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    // One statement sees one state, even while another process sets the database up.
    let state = connection.query_row(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id, pragma_user_version",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    );
    match state {
        Ok((0, 0, 0)) => Ok(None),
        Ok((APPLICATION_ID, found @ OLDEST_LAYOUT..=LAYOUT, _)) => Ok(Some(found)),
        Ok((APPLICATION_ID, ..OLDEST_LAYOUT, _)) => Err(StoreError::Damaged("no version had its layout")),
        Ok((APPLICATION_ID, found, _)) => {
            Err(StoreError::TooNew { place: Place::of(path), found, known: LAYOUT })
        }
        Ok((_, _, _)) => Err(StoreError::NotAnInbox(Place::of(path))),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(StoreError::NotAnInbox(Place::of(path)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Has everything synced that is written, down to the medium.
fn sync_all_of_it(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    // Where fsync stops at the drive's own cache, as on macOS.
    connection.pragma_update(None, "fullfsync", "on")?;
    connection.pragma_update(None, "checkpoint_fullfsync", "on")
}

fn make_durable(connection: &Connection) -> Result<(), StoreError> {
    sync_all_of_it(connection)?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    let journal = log_ahead(connection)?;
    if journal != "wal" {
        return Err(StoreError::NotDurable { setting: "journal_mode", found: journal });
    }
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != 2 {
        return Err(StoreError::NotDurable { setting: "synchronous", found: synchronous.to_string() });
    }
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    Ok(())
}

/// Switches to write-ahead logging and returns the mode that the database is in then.
///
/// SQLite doesn't wait for a lock here, so that two processes that set up the same database at the same
/// moment need patience of our own.
fn log_ahead(connection: &Connection) -> rusqlite::Result<String> {
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

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    // Where an upgrade replaces a table, the rows that refer to it stay.
    connection.pragma_update(None, "foreign_keys", "off")?;
    let migrated = migrate_in_transaction(connection);
    connection.pragma_update(None, "foreign_keys", "on")?;
    migrated
}

fn migrate_in_transaction(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster, between our look and our lock.
    let layout: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if layout == 0 {
        transaction.execute_batch(TABLES)?;
        let secret = Secret::generate().map_err(|error| StoreError::io("/dev/urandom".as_ref(), error))?;
        transaction.execute("INSERT INTO meta (name, value) VALUES ('secret', ?1)", [secret.as_bytes()])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    } else {
        let done = usize::try_from(layout - OLDEST_LAYOUT).unwrap_or_default();
        for upgrade in UPGRADES.iter().skip(done) {
            transaction.execute_batch(upgrade)?;
        }
    }
    transaction.pragma_update(None, "user_version", LAYOUT)?;
    transaction.commit()?;
    Ok(())
}

fn read_secret(connection: &Connection) -> Result<Secret, StoreError> {
    let secret = connection
        .query_row("SELECT value FROM meta WHERE name = 'secret' AND length(value) = 32", [], |row| {
            row.get(0)
        })
        .optional()?;
    secret.map(Secret::from_bytes).ok_or(StoreError::Damaged("its secret is gone"))
}

impl From<rusqlite::Error> for StoreError {
    /// Keeps the result code and drops the message: that could quote what was being written.
    fn from(error: rusqlite::Error) -> StoreError {
        let Some(error) = error.sqlite_error() else {
            return StoreError::Damaged("a row has the wrong shape");
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
