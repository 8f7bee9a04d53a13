//! Backs up an inbox while it is in use, verifies backups, and restores them.
//!
//! One read transaction, which does not block the writer, hashes the rows and copies the pages with SQLite's
//! backup interface. `VACUUM INTO` then writes that snapshot to a single file without a log and without the
//! remains of removed rows. A backup contains a digest of all its rows, because SQLite's own check does not
//! detect a flipped bit in text.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::backup::StepResult;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::files::{self, absolute, file_id, with_suffix};
use super::{LAYOUT, connect, open_to_read};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Secret;
use crate::store::lock::{self, Lock};
use frontdesk_process::progress;

/// The name of the row in `meta` that holds a backup's digest. An inbox in use has no such row.
const DIGEST: &str = "backup-digest";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub submissions: u64,
    /// When the newest submission was received.
    pub newest: Option<Timestamp>,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Describes the restored inbox before its first use. The file grows slightly when a server opens it.
    pub backup: Backup,
    /// The new path of the inbox that was replaced, if there was one.
    pub kept: Option<PathBuf>,
}

/// Why a backup could not be made, verified or restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    #[error("{} is the inbox itself or one of its files", .0.display())]
    IsTheInbox(PathBuf),
    #[error("another backup to {} is under way", .0.display())]
    UnderWay(PathBuf),
    #[error("the inbox at {} is in use", .0.display())]
    InUse(PathBuf),
    #[error("there is already an inbox at {}, with {submissions} submissions", database.display())]
    Occupied { database: PathBuf, submissions: u64 },
    #[error("there is already a file at {}, but it cannot be read: {error}", database.display())]
    Unreadable { database: PathBuf, error: StoreError },
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> BackupError {
        BackupError::Store(error.into())
    }
}

type Result<T> = std::result::Result<T, BackupError>;

/// Backs up the inbox to the file `to`, which only this user can read. Includes everything that was accepted
/// before this call. The file's name ends with `.partial` until it is complete, verified and on stable
/// storage. An existing file is replaced only with `force`.
pub fn backup(database: &Path, to: &Path, force: bool) -> Result<Backup> {
    let (database, to) = (absolute(database)?, absolute(to)?);
    refuse_the_inbox(&database, &to)?;
    if !force && path_exists(&to)? {
        return Err(BackupError::Exists(to));
    }
    let partial = PartialFile::create_locked(&to, ".partial")?;
    let contents = copy_database(&database, &partial)?;
    record_digest(&partial.path, &contents)?;
    let backup = verify(&partial.path)?;
    partial.rename_to(&to, force)?;
    Ok(backup)
}

/// Verifies an entire backup, or an inbox, without changing it. Fails with [`BackupError::Damaged`] if its
/// structure, a reference or its digest is wrong. A file without a digest, such as an inbox in use, passes
/// without that check.
pub fn verify(file: &Path) -> Result<Backup> {
    let connection = open_inbox(file)?;
    let contents = check_integrity(&connection).map_err(|error| name_damaged_file(file, error))?;
    drop(connection);
    let bytes = fs::metadata(file).map_err(|error| StoreError::io(file, error))?.len();
    Ok(Backup { submissions: contents.submissions, newest: contents.newest, bytes })
}

/// A restore appends this suffix and the current time to the name of the inbox that it replaces.
const KEPT: &str = ".before-restore-";

/// Lists the inboxes beside `database` that restores have replaced, and their logs, sorted by name. Empty if
/// the folder cannot be read.
pub fn replaced_by_restores(database: &Path) -> Vec<PathBuf> {
    let Some((folder, name)) = database.parent().zip(database.file_name()) else { return Vec::new() };
    let begin = [name.as_encoded_bytes(), KEPT.as_bytes()].concat();
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_kept =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(&begin));
    let mut kept: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_kept).collect();
    kept.sort_unstable();
    kept
}

/// Restores the backup `from` as the inbox at `database`. Fails with [`BackupError::InUse`] if a process has
/// it open. An existing inbox is replaced only with `force`, and is kept beside the new one, with the suffix
/// `.before-restore-` and the time `now` in UTC. After an interruption, either the old or the new inbox is in
/// place and complete.
pub fn restore(from: &Path, database: &Path, force: bool, now: Timestamp) -> Result<Restored> {
    let (from, database) = (absolute(from)?, absolute(database)?);
    refuse_the_inbox(&database, &from)?;
    verify(&from)?;
    files::create_folder(&database)?;
    let lock = Lock::try_lock_file(&database).map_err(|error| StoreError::io(&database, error))?;
    let Some(_lock) = lock else { return Err(BackupError::InUse(database)) };
    if !force {
        refuse_occupied(&database)?;
    }
    let partial = PartialFile::create_locked(&database, ".restoring")?;
    copy_database(&from, &partial)?;
    let backup = verify(&partial.path)?;
    let kept = keep_replaced_inbox(&database, now)?;
    partial.rename_to(&database, true)?;
    Ok(Restored { backup, kept })
}

struct Contents {
    /// A hash of all rows of all tables, except the recorded digest.
    digest: [u8; 32],
    /// The digest that the backup contains.
    recorded: Option<Vec<u8>>,
    submissions: u64,
    newest: Option<Timestamp>,
}

/// Copies a snapshot of the inbox at `source` to `partial`, without a recorded digest, and verifies that
/// every other row was copied. Returns the contents of `source`.
fn copy_database(source: &Path, partial: &PartialFile) -> Result<Contents> {
    let snapshot = PartialFile::create_locked(&partial.path, "-snapshot")?;
    let source_connection = open_inbox(source)?;
    let mut connection = connect(&snapshot.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let contents = {
        let transaction = source_connection.unchecked_transaction()?;
        let contents = hash_contents(&transaction).map_err(|error| name_damaged_file(source, error))?;
        // The first read has fixed the transaction's snapshot, so the pages match the hashed rows.
        progress::begin("copying pages", 0);
        let copying = rusqlite::backup::Backup::new(&transaction, &mut connection)?;
        match copying.step(-1)? {
            StepResult::Done => {}
            _ => return Err(StoreError::Locked.into()),
        }
        contents
    };
    drop(source_connection);
    // Use no shared locks, write-ahead log or syncs: only this process uses the snapshot, and only briefly.
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
    connection.execute("DELETE FROM meta WHERE name = ?1", [DIGEST])?;
    let not_text = || io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8");
    let to = partial.path.to_str().ok_or_else(|| StoreError::io(&partial.path, not_text()))?;
    progress::begin("writing the copy", 0);
    connection.execute("VACUUM INTO ?1", [to])?;
    drop(connection);
    drop(snapshot);
    let connection = open_inbox(&partial.path)?;
    if hash_contents(&connection)?.digest != contents.digest {
        return Err(BackupError::Damaged { path: source.to_owned(), reason: "some rows were not copied" });
    }
    Ok(contents)
}

/// Adds the digest of `contents` to a backup that has none. Does not sync the file.
fn record_digest(file: &Path, contents: &Contents) -> Result<()> {
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Do not sync here: the file is synced later, before it is renamed to its target.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.execute("INSERT INTO meta (name, value) VALUES (?1, ?2)", params![DIGEST, contents.digest])?;
    Ok(())
}

/// Checks SQLite's structures, references between tables, and the digest if there is one.
fn check_integrity(connection: &Connection) -> Result<Contents> {
    let damaged = |reason| BackupError::Store(StoreError::Damaged(reason));
    connection.pragma_update(None, "cell_size_check", "on")?;
    progress::begin("checking the structure", 0);
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damaged("SQLite reports that its structures are corrupt"));
    }
    if connection.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Err(damaged("a row refers to a missing row"));
    }
    let contents = hash_contents(connection)?;
    if contents.recorded.as_ref().is_some_and(|recorded| *recorded != contents.digest) {
        return Err(damaged("its content does not match its digest"));
    }
    Ok(contents)
}

/// Hashes all rows except the recorded digest, and counts the submissions, processed or not. Fails if the
/// inbox's secret is missing.
fn hash_contents(connection: &Connection) -> Result<Contents> {
    Secret::read(connection)?;
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let count = |table: &String| {
        let sql = format!("SELECT count(*) FROM {} NOT INDEXED", quote(table));
        connection.query_row(&sql, [], |row| row.get(0))
    };
    let counts: Vec<u32> = tables.iter().map(count).collect::<rusqlite::Result<_>>()?;
    progress::begin("rows verified", counts.into_iter().map(u64::from).sum());
    let mut hasher = blake3::Hasher::new();
    hasher.update(&LAYOUT.to_le_bytes());
    for table in &tables {
        hash_value(&mut hasher, 0, table.as_bytes());
        hash_rows(connection, table, &mut hasher)?;
    }
    let recorded = connection
        .query_row("SELECT value FROM meta WHERE name = ?1", [DIGEST], |row| row.get(0))
        .optional()?;
    let (submissions, newest): (i64, Option<i64>) =
        connection.query_row("SELECT count(*), max(received_at) FROM accepted", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let newest = newest.map(Timestamp::from_millisecond).transpose();
    Ok(Contents {
        digest: *hasher.finalize().as_bytes(),
        recorded,
        submissions: u64::try_from(submissions).unwrap_or_default(),
        newest: newest.map_err(|_| StoreError::Damaged("a time is out of range"))?,
    })
}

/// Hashes a table's rows in the order in which they are stored, which a copy preserves. Leaves out the digest
/// that `meta` records.
fn hash_rows(connection: &Connection, table: &str, hasher: &mut blake3::Hasher) -> Result<()> {
    let except = if table == "meta" { format!("WHERE name <> '{DIGEST}'") } else { String::new() };
    let name = quote(table);
    let mut statement = connection.prepare(&format!("SELECT * FROM {name} NOT INDEXED {except}"))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        progress::advance(1);
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Null => hash_value(hasher, 1, b""),
                ValueRef::Integer(value) => hash_value(hasher, 2, &value.to_le_bytes()),
                ValueRef::Real(value) => hash_value(hasher, 3, &value.to_le_bytes()),
                ValueRef::Text(value) => hash_value(hasher, 4, value),
                ValueRef::Blob(value) => hash_value(hasher, 5, value),
            }
        }
    }
    Ok(())
}

/// Quotes a table's name as an SQL identifier.
fn quote(table: &str) -> String {
    format!("\"{}\"", table.replace('"', "\"\""))
}

/// Hashes a value after its kind and length, so that different values never have the same hash input.
fn hash_value(hasher: &mut blake3::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn open_inbox(file: &Path) -> Result<Connection> {
    open_to_read(file).map_err(|error| name_damaged_file(file, error.into()))
}

/// Turns errors that the content of the file causes into [`BackupError::Damaged`] with its path. Returns all
/// others unchanged.
fn name_damaged_file(file: &Path, error: BackupError) -> BackupError {
    let reason = match error {
        BackupError::Store(StoreError::Damaged(reason)) => reason,
        BackupError::Store(StoreError::Database { code, reason }) if is_unreadable(code) => reason,
        BackupError::Store(StoreError::Database { code: rusqlite::ffi::SQLITE_ERROR, .. }) => {
            "a table or a column is missing"
        }
        error => return error,
    };
    BackupError::Damaged { path: file.to_owned(), reason }
}

/// Whether the SQLite error `code` means that the file is damaged or is not a database.
fn is_unreadable(code: i32) -> bool {
    use rusqlite::ffi::{SQLITE_CORRUPT, SQLITE_IOERR_SHORT_READ, SQLITE_NOTADB};
    code == SQLITE_IOERR_SHORT_READ || matches!(code & 0xff, SQLITE_CORRUPT | SQLITE_NOTADB)
}

/// Fails if there is an inbox, even one without submissions, or a file that cannot be read as one. A missing
/// or empty file passes.
fn refuse_occupied(database: &Path) -> Result<()> {
    let unreadable = |error| BackupError::Unreadable { database: database.to_owned(), error };
    let count = "SELECT count(*) FROM accepted";
    let counted = open_inbox(database)
        .and_then(|connection| Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?));
    match counted {
        Ok(count) => {
            let submissions = u64::try_from(count).unwrap_or_default();
            Err(BackupError::Occupied { database: database.to_owned(), submissions })
        }
        Err(BackupError::Store(StoreError::Missing(_))) => Ok(()),
        Err(BackupError::Damaged { reason, .. }) => Err(unreadable(StoreError::Damaged(reason))),
        Err(BackupError::Store(error)) => Err(unreadable(error)),
        Err(error) => Err(error),
    }
}

/// Gives an existing inbox a second name, which is returned, and renames its log: SQLite would replay a log
/// that kept its name into the new database. `None` if there is neither an inbox nor a log.
fn keep_replaced_inbox(database: &Path, now: Timestamp) -> Result<Option<PathBuf>> {
    let kept = with_suffix(database, &format!("{KEPT}{}", now.strftime("%Y%m%dT%H%M%SZ")));
    let has_inbox = path_exists(database)?;
    if has_inbox {
        if path_exists(&kept)? {
            return Err(BackupError::Exists(kept));
        }
        match checkpoint_and_disable_log(database) {
            Ok(()) => {}
            Err(StoreError::Locked) => return Err(BackupError::InUse(database.to_owned())),
            // SQLite cannot read the file, so skip the checkpoint, and keep the log as well.
            Err(StoreError::Database { code, .. }) if is_unreadable(code) => {}
            Err(error) => return Err(error.into()),
        }
        link_or_copy(database, &kept)?;
    }
    let mut has_log = false;
    for suffix in ["-journal", "-wal", "-shm"] {
        let file = with_suffix(database, suffix);
        if path_exists(&file)? {
            has_log = true;
            fs::rename(&file, with_suffix(&kept, suffix)).map_err(|error| StoreError::io(&file, error))?;
        }
    }
    sync_parent_folder(database)?;
    Ok((has_inbox || has_log).then_some(kept))
}

/// Copies the log into the database, and removes the log. Fails with [`StoreError::Locked`] if another
/// process has the database open.
fn checkpoint_and_disable_log(database: &Path) -> std::result::Result<(), StoreError> {
    let connection = connect(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", "on")?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))?;
    if mode == "delete" { Ok(()) } else { Err(StoreError::Locked) }
}

/// Creates a hard link `name` to `file`, or a copy if that fails. Fails if `name` exists. `file` stays in
/// place until it is replaced.
fn link_or_copy(file: &Path, name: &Path) -> Result<()> {
    match fs::hard_link(file, name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(BackupError::Exists(name.to_owned()))
        }
        Err(_) => {
            let copy = PartialFile::create_locked(name, ".partial")?;
            fs::copy(file, &copy.path).map_err(|error| StoreError::io(name, error))?;
            copy.rename_to(name, false)
        }
    }
}

/// Fails if `file` is the database, even by another path, or has the name of its log, lock or shared memory.
fn refuse_the_inbox(database: &Path, file: &Path) -> Result<()> {
    let named =
        ["", "-wal", "-shm", "-journal", "-lock"].iter().any(|suffix| with_suffix(database, suffix) == file);
    let same = file_id(database).is_ok_and(|found| file_id(file).is_ok_and(|other| other == found));
    if named || same { Err(BackupError::IsTheInbox(file.to_owned())) } else { Ok(()) }
}

/// A temporary file beside its target. Dropping this removes the file unless it has been renamed.
struct PartialFile {
    path: PathBuf,
    /// Locked to exclude other backups and restores. SQLite uses another kind of lock, so it is not affected.
    file: File,
    /// Whether the file has been renamed to its target. A file at `path` then belongs to another process.
    finished: bool,
}

impl PartialFile {
    /// Creates and locks the file `target` plus `suffix`. Empties the file if it exists, and removes its
    /// logs. Fails with [`BackupError::UnderWay`] if another process has locked the file.
    fn create_locked(target: &Path, suffix: &str) -> Result<PartialFile> {
        let path = with_suffix(target, suffix);
        let io = |error| StoreError::io(&path, error);
        loop {
            let file = lock::open_locked(&path).map_err(io)?;
            let file = file.ok_or_else(|| BackupError::UnderWay(target.to_owned()))?;
            // Another process may have renamed or removed the file before we locked it.
            let ours = file.metadata().map_err(io)?;
            if !file_id(&path).is_ok_and(|found| found == (ours.dev(), ours.ino())) {
                continue;
            }
            file.set_len(0).map_err(io)?;
            remove_logs(&path);
            return Ok(PartialFile { path, file, finished: false });
        }
    }

    /// Syncs the file, gives it its final name, and syncs the folder. Without `replace`, fails with
    /// [`BackupError::Exists`] if there is a file with this name.
    fn rename_to(mut self, target: &Path, replace: bool) -> Result<()> {
        self.file.sync_all().map_err(|error| StoreError::io(&self.path, error))?;
        let renamed =
            if replace { fs::rename(&self.path, target) } else { rename_to_new(&self.path, target) };
        match renamed {
            Ok(()) => {
                self.finished = true;
                sync_parent_folder(target)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BackupError::Exists(target.to_owned()))
            }
            Err(error) => Err(StoreError::io(target, error).into()),
        }
    }
}

impl Drop for PartialFile {
    /// Removes the file and its logs, unless the file has been renamed to its target. Ignores errors.
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
            remove_logs(&self.path);
        }
    }
}

/// Removes the rollback journal, the write-ahead log and its index (`-shm`) of a SQLite file. Ignores errors.
fn remove_logs(path: &Path) {
    for suffix in ["-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}

/// Renames a file, and fails with `AlreadyExists` if there is a file at `to`. On file systems without
/// `RENAME_NOREPLACE`, a file that is created at the same moment is replaced.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Check and rename in two steps if the file system does not support `NOREPLACE`.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

fn sync_parent_folder(file: &Path) -> Result<()> {
    Ok(files::sync_folder(file.parent().unwrap_or(file))?)
}

/// Whether there is anything at the path, even a broken symbolic link.
fn path_exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io(path, error).into()),
    }
}

#[cfg(test)]
mod tests;
