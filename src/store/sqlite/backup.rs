//! Copies a whole inbox while it is written to, proves that the copy is whole, and puts one in the place of another.
//!
//! A copy is made in two steps. SQLite's backup interface copies the pages as one read transaction sees them: it waits for no writer
//! and no writer waits for it, and the rows can be counted and hashed in the very same transaction. `VACUUM INTO` then writes that
//! snapshot anew, as a single file without a log, and leaves out what was deleted but still stands in free pages.
//!
//! A backup carries a digest of all its rows, because SQLite's own check says nothing of a flipped bit in a text.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::backup::StepResult;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{connect, files, open_any, read_secret};
use crate::store::StoreError;
use crate::store::lock::{self, Lock};

/// The row of `meta` that holds a backup's digest. An inbox that is in use has none.
const DIGEST: &str = "backup-digest";

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// How many submissions.
    pub submissions: u64,
    /// When the newest of them had been received.
    pub newest: Option<Timestamp>,
    /// The size of the file.
    pub bytes: u64,
}

/// What became of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What is in the inbox now. A server makes the file a little larger when it opens it.
    pub backup: Backup,
    /// Where the inbox is kept that was there before.
    pub kept: Option<PathBuf>,
}

/// Why a backup could not be made, verified or restored. What was there before is unchanged then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    /// There is something of that name.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The inbox, or a file that belongs to it, was named as the backup.
    #[error("{} is the inbox itself", .0.display())]
    IsTheInbox(PathBuf),
    /// Another process writes a backup to the same place.
    #[error("another backup to {} is under way", .0.display())]
    UnderWay(PathBuf),
    /// A server or another process works with the inbox.
    #[error("the inbox at {} is in use", .0.display())]
    InUse(PathBuf),
    /// Nobody said that the inbox which is there may be replaced.
    #[error("there is an inbox at {} already, with {submissions} submissions", database.display())]
    Occupied {
        /// The inbox.
        database: PathBuf,
        /// How many submissions it has.
        submissions: u64,
    },
    /// Nobody said that the file which is there may be replaced, and it cannot be read as an inbox.
    #[error("there is a file at {} already, and it cannot be read: {error}", database.display())]
    Unreadable {
        /// The file.
        database: PathBuf,
        /// Why.
        error: StoreError,
    },
    /// The file is not what was once written.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: &'static str,
    },
    /// Anything else that can be wrong with a database or a file.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> BackupError {
        BackupError::Store(error.into())
    }
}

type Result<T> = std::result::Result<T, BackupError>;

/// Writes everything that was accepted before this call, and maybe some of what came later, to the file `to`, for this user only.
///
/// The file is complete, verified and on stable storage when it gets its name; until then it is `to` with `.partial` behind it. What
/// is there already is replaced if `force` says so.
pub fn backup(database: &Path, to: &Path, force: bool) -> Result<Backup> {
    let (database, to) = (absolute(database)?, absolute(to)?);
    refuse_the_inbox(&database, &to)?;
    if !force && is_there(&to)? {
        return Err(BackupError::Exists(to));
    }
    let partial = Partial::begin(&to, ".partial")?;
    let contents = copy(&database, &partial)?;
    record(&partial.path, &contents)?;
    let backup = verify(&partial.path)?;
    partial.finish(&to, force)?;
    Ok(backup)
}

/// Reads all of a backup and says what it holds, or what is wrong with it. The file is not changed.
pub fn verify(file: &Path) -> Result<Backup> {
    let (connection, layout) = open(file)?;
    let contents = check(&connection, layout).map_err(|error| damaged(file, error))?;
    drop(connection);
    let bytes = fs::metadata(file).map_err(|error| StoreError::io(file, error))?.len();
    Ok(Backup { submissions: contents.submissions, newest: contents.newest, bytes })
}

/// What stands behind an inbox's name that a restore has kept; the time follows.
const KEPT: &str = ".before-restore-";

/// The inboxes that restores have kept beside this one, by name.
pub fn kept_by_restores(database: &Path) -> Vec<PathBuf> {
    let Some((folder, name)) = database.parent().zip(database.file_name()) else { return Vec::new() };
    let begin = [name.as_encoded_bytes(), KEPT.as_bytes()].concat();
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_kept =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(&begin));
    let mut kept: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_kept).collect();
    kept.sort();
    kept
}

/// Puts a copy of the backup `from` where the inbox at `database` is or would be.
///
/// An inbox that is there is replaced only if `force` says so, and is kept beside the new one, under its name with
/// `.before-restore-` and the time `now` in UTC behind it. Whenever this is interrupted, the old inbox is there or the new one,
/// whole. No process may have the inbox open.
pub fn restore(from: &Path, database: &Path, force: bool, now: Timestamp) -> Result<Restored> {
    let (from, database) = (absolute(from)?, absolute(database)?);
    refuse_the_inbox(&database, &from)?;
    verify(&from)?;
    files::create_folder(&database)?;
    let lock = Lock::try_take(&database).map_err(|error| StoreError::io(&database, error))?;
    let Some(_lock) = lock else { return Err(BackupError::InUse(database)) };
    if !force {
        refuse_occupied(&database)?;
    }
    let partial = Partial::begin(&database, ".restoring")?;
    copy(&from, &partial)?;
    let backup = verify(&partial.path)?;
    let kept = set_aside(&database, now)?;
    partial.finish(&database, true)?;
    Ok(Restored { backup, kept })
}

/// What one state of a database holds.
struct Contents {
    /// Of every row of every table, but for the digest's own.
    digest: [u8; 32],
    /// The digest that was written into it when it was made.
    recorded: Option<Vec<u8>>,
    submissions: u64,
    newest: Option<Timestamp>,
}

/// Copies one state of the inbox at `source` into `partial`, and makes sure that every row of it arrived.
fn copy(source: &Path, partial: &Partial) -> Result<Contents> {
    let snapshot = Partial::begin(&partial.path, "-snapshot")?;
    let (source_connection, layout) = open(source)?;
    let mut connection = connect(&snapshot.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let contents = {
        let transaction = source_connection.unchecked_transaction()?;
        let contents = contents(&transaction, layout).map_err(|error| damaged(source, error))?;
        // The first read has fixed the state that the transaction sees, and the pages of that state are what is copied.
        let copying = rusqlite::backup::Backup::new(&transaction, &mut connection)?;
        match copying.step(-1)? {
            StepResult::Done => {}
            _ => return Err(StoreError::Locked.into()),
        }
        contents
    };
    drop(source_connection);
    // The snapshot says of itself that it has a log, as the inbox does. It is nobody else's, and gone in a moment.
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
    connection.execute("DELETE FROM meta WHERE name = ?1", [DIGEST])?;
    let to = partial.path.to_str().ok_or_else(|| not_text(&partial.path))?;
    connection.execute("VACUUM INTO ?1", [to])?;
    drop(connection);
    drop(snapshot);
    let (connection, layout) = open(&partial.path)?;
    if self::contents(&connection, layout)?.digest != contents.digest {
        return Err(BackupError::Damaged { path: source.to_owned(), reason: "not every row can be copied" });
    }
    Ok(contents)
}

/// Writes the digest of what was copied into the copy, from where [`verify`] reads it.
fn record(file: &Path, contents: &Contents) -> Result<()> {
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // All of it is synced later; until then the file has no name that counts.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.execute("INSERT INTO meta (name, value) VALUES (?1, ?2)", params![DIGEST, contents.digest])?;
    Ok(())
}

/// Everything that can be checked: SQLite's structures, references between tables, and the digest where there is one.
fn check(connection: &Connection, layout: i64) -> Result<Contents> {
    let damaged = |reason| BackupError::Store(StoreError::Damaged(reason));
    connection.pragma_update(None, "cell_size_check", "on")?;
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damaged("SQLite finds its structures broken"));
    }
    if connection.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Err(damaged("a row refers to one that is not there"));
    }
    let contents = contents(connection, layout)?;
    if contents.recorded.as_ref().is_some_and(|recorded| *recorded != contents.digest) {
        return Err(damaged("it does not hold what was once written to it"));
    }
    Ok(contents)
}

fn contents(connection: &Connection, layout: i64) -> Result<Contents> {
    read_secret(connection)?;
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&layout.to_le_bytes());
    for table in &tables {
        part(&mut hasher, 0, table.as_bytes());
        hash_rows(connection, table, &mut hasher)?;
    }
    let recorded = connection
        .query_row("SELECT value FROM meta WHERE name = ?1", [DIGEST], |row| row.get(0))
        .optional()?;
    let (submissions, newest): (i64, Option<i64>) = connection.query_row(
        &format!("SELECT count(*), max(received_at) FROM {}", accepted(layout)),
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let newest = newest.map(Timestamp::from_millisecond).transpose();
    Ok(Contents {
        digest: *hasher.finalize().as_bytes(),
        recorded,
        submissions: u64::try_from(submissions).unwrap_or_default(),
        newest: newest.map_err(|_| StoreError::Damaged("a time is out of range"))?,
    })
}

/// What has everything that was accepted.
fn accepted(layout: i64) -> &'static str {
    if layout < 4 { "submission" } else { "accepted" }
}

/// Rows in the order of the table itself, which a copy keeps.
fn hash_rows(connection: &Connection, table: &str, hasher: &mut blake3::Hasher) -> Result<()> {
    let except = if table == "meta" { format!("WHERE name <> '{DIGEST}'") } else { String::new() };
    let name = table.replace('"', "\"\"");
    let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\" NOT INDEXED {except}"))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Null => part(hasher, 1, b""),
                ValueRef::Integer(value) => part(hasher, 2, &value.to_le_bytes()),
                ValueRef::Real(value) => part(hasher, 3, &value.to_le_bytes()),
                ValueRef::Text(value) => part(hasher, 4, value),
                ValueRef::Blob(value) => part(hasher, 5, value),
            }
        }
    }
    Ok(())
}

/// With its kind and length before it: no two lists of parts look alike.
fn part(hasher: &mut blake3::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Opens an inbox, of this layout or an earlier one, and changes nothing in it.
fn open(file: &Path) -> Result<(Connection, i64)> {
    open_any(file).map_err(|error| damaged(file, error.into()))
}

/// Names the file where SQLite only says that something is wrong with one.
fn damaged(file: &Path, error: BackupError) -> BackupError {
    let reason = match error {
        BackupError::Store(StoreError::Damaged(reason)) => reason,
        BackupError::Store(StoreError::Database { code, reason }) if is_unreadable(code) => reason,
        BackupError::Store(StoreError::Database { code: rusqlite::ffi::SQLITE_ERROR, .. }) => {
            "it lacks a table or a column of an inbox"
        }
        error => return error,
    };
    BackupError::Damaged { path: file.to_owned(), reason }
}

/// Whether the content of the file is to blame, rather than the machine.
fn is_unreadable(code: i32) -> bool {
    use rusqlite::ffi::{SQLITE_CORRUPT, SQLITE_IOERR_SHORT_READ, SQLITE_NOTADB};
    code == SQLITE_IOERR_SHORT_READ || matches!(code & 0xff, SQLITE_CORRUPT | SQLITE_NOTADB)
}

/// [`BackupError::Occupied`] if there is an inbox, or something that might be one.
fn refuse_occupied(database: &Path) -> Result<()> {
    let submissions = match open(database) {
        Ok((connection, layout)) => {
            connection.query_row(&format!("SELECT count(*) FROM {}", accepted(layout)), [], |row| {
                row.get::<_, i64>(0)
            })
        }
        Err(BackupError::Store(StoreError::Missing(_))) => return Ok(()),
        Err(BackupError::Damaged { reason, .. }) => {
            let error = StoreError::Damaged(reason);
            return Err(BackupError::Unreadable { database: database.to_owned(), error });
        }
        Err(BackupError::Store(error)) => {
            return Err(BackupError::Unreadable { database: database.to_owned(), error });
        }
        Err(error) => return Err(error),
    };
    let database = database.to_owned();
    match submissions {
        Ok(count) => {
            Err(BackupError::Occupied { database, submissions: u64::try_from(count).unwrap_or_default() })
        }
        Err(error) => Err(BackupError::Unreadable { database, error: error.into() }),
    }
}

/// Gives the inbox a second name, if there is one, and sees to it that nothing of it is left beside the first: SQLite would replay
/// a log that it finds there into whatever stands there then.
fn set_aside(database: &Path, now: Timestamp) -> Result<Option<PathBuf>> {
    let kept = with_suffix(database, &format!("{KEPT}{}", now.strftime("%Y%m%dT%H%M%SZ")));
    let there = is_there(database)?;
    if there {
        if is_there(&kept)? {
            return Err(BackupError::Exists(kept));
        }
        match fold_log(database) {
            Ok(()) => {}
            Err(StoreError::Locked) => return Err(BackupError::InUse(database.to_owned())),
            // What SQLite cannot read it cannot tidy up either. The files are kept as they are, side by side.
            Err(StoreError::Database { code, .. }) if is_unreadable(code) => {}
            Err(error) => return Err(error.into()),
        }
        second_name(database, &kept)?;
    }
    let mut has_log = false;
    for suffix in ["-journal", "-wal", "-shm"] {
        let file = with_suffix(database, suffix);
        if is_there(&file)? {
            has_log = true;
            fs::rename(&file, with_suffix(&kept, suffix)).map_err(|error| StoreError::io(&file, error))?;
        }
    }
    sync_folder_of(database)?;
    Ok((there || has_log).then_some(kept))
}

/// Writes what is in the log into the database and does without a log from then on. [`StoreError::Locked`] if any other process has
/// the database open.
fn fold_log(database: &Path) -> std::result::Result<(), StoreError> {
    let connection = connect(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", "on")?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))?;
    if mode == "delete" { Ok(()) } else { Err(StoreError::Locked) }
}

/// A hard link, or where the file system has none a copy, so that the file keeps its first name until another takes it.
fn second_name(file: &Path, name: &Path) -> Result<()> {
    match fs::hard_link(file, name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(BackupError::Exists(name.to_owned()))
        }
        Err(_) => {
            let copy = Partial::begin(name, ".partial")?;
            fs::copy(file, &copy.path).map_err(|error| StoreError::io(name, error))?;
            copy.finish(name, false)
        }
    }
}

/// [`BackupError::IsTheInbox`] if `file` is the database, by whatever name, or has the name of a file that belongs to it.
fn refuse_the_inbox(database: &Path, file: &Path) -> Result<()> {
    let named =
        ["", "-wal", "-shm", "-journal", "-lock"].iter().any(|suffix| with_suffix(database, suffix) == file);
    let identity = |path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let same = identity(database).is_some_and(|found| identity(file) == Some(found));
    if named || same { Err(BackupError::IsTheInbox(file.to_owned())) } else { Ok(()) }
}

/// A file that is being written, beside where it will have its name. It is removed unless it gets there, and what an earlier process
/// left behind is written over.
struct Partial {
    path: PathBuf,
    /// Locked, so that no other process writes to the same file. SQLite's own locks are of another kind.
    file: File,
    /// Whether it has its name: what has the old one since then is another process's.
    finished: bool,
}

impl Partial {
    fn begin(target: &Path, suffix: &str) -> Result<Partial> {
        let path = with_suffix(target, suffix);
        let io = |error| StoreError::io(&path, error);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(io)?;
            if !lock::hold(&file).map_err(io)? {
                return Err(BackupError::UnderWay(target.to_owned()));
            }
            // Whoever had it before may have given it its name, or removed it, between our opening and our locking it.
            let ours = file.metadata().map_err(io)?;
            if !fs::metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino()))
            {
                continue;
            }
            file.set_len(0).map_err(io)?;
            remove_logs(&path);
            return Ok(Partial { path, file, finished: false });
        }
    }

    /// Syncs it and gives it its name for good.
    fn finish(mut self, target: &Path, replace: bool) -> Result<()> {
        self.file.sync_all().map_err(|error| StoreError::io(&self.path, error))?;
        let renamed =
            if replace { fs::rename(&self.path, target) } else { rename_to_new(&self.path, target) };
        match renamed {
            Ok(()) => {
                self.finished = true;
                sync_folder_of(target)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BackupError::Exists(target.to_owned()))
            }
            Err(error) => Err(StoreError::io(target, error).into()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
            remove_logs(&self.path);
        }
    }
}

fn remove_logs(path: &Path) {
    for suffix in ["-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}

/// Fails with `AlreadyExists` rather than replace anything.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that does not know this kind of renaming.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

fn sync_folder_of(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    Ok(files::sync_folder(folder).map_err(|error| StoreError::io(folder, error))?)
}

/// Whether anything has that name.
fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io(path, error).into()),
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(path).map_err(|error| StoreError::io(path, error))?)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn not_text(path: &Path) -> StoreError {
    let error = io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8");
    StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
}

#[cfg(test)]
mod tests;
