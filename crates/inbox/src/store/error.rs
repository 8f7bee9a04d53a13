//! The errors that operations on the store return.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::postgres::server::Server;
use super::url::DatabaseUrl;

/// Why an operation on the store failed. No variant contains visitors' data.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("too many submissions are waiting to be written")]
    Overloaded,
    #[error("the inbox is closed")]
    Closed,
    /// There is no database, or it is empty.
    #[error("there is no inbox at {0}")]
    Missing(DatabaseUrl),
    #[error("{0} is not a frontdesk inbox")]
    NotAnInbox(DatabaseUrl),
    #[error(
        "{url} was created by a newer version of frontdesk (layout {found}; this version supports up to {known})"
    )]
    TooNew { url: DatabaseUrl, found: i64, known: i64 },
    #[error(
        "{url} was created by an older version of frontdesk (layout {found}; this version needs {known})"
    )]
    TooOld { url: DatabaseUrl, found: i64, known: i64 },
    /// Commits may not be synced, for instance because the file system does not support shared memory.
    #[error("the database does not guarantee that commits are durable ({setting} is {found})")]
    NotDurable { setting: &'static str, found: String },
    /// The database cannot store every character.
    #[error("{url} has the encoding {found}, which cannot store every character; it must be {needed}")]
    WrongEncoding { url: DatabaseUrl, found: String, needed: &'static str },
    /// Another program has changed a column, so that different texts are equal.
    #[error("{url} compares texts by the collation {collation}, which another program has set")]
    WrongCollation { url: DatabaseUrl, collation: String },
    /// A pooler between this program and PostgreSQL passes each transaction to another session.
    #[error("a connection pooler in transaction mode is in front of {0}, but frontdesk needs sessions")]
    SharedSessions(DatabaseUrl),
    /// PostgreSQL's search path is empty, or names only schemas that do not exist.
    #[error("the search path of {0} names no schema that exists")]
    NoSchema(DatabaseUrl),
    #[error("the database file was removed or replaced")]
    Moved,
    #[error("the database is locked by another program")]
    Locked,
    /// A write is taking so long that its outcome is unknown.
    #[error("the database did not respond in time")]
    Slow,
    #[error("the disk is full")]
    Full,
    #[error("the database is read-only")]
    ReadOnly,
    #[error("a submission could not be encrypted")]
    NotSealed,
    /// A row in the intake is faulty. Contains the cause.
    #[error("a submission cannot be processed: {0}")]
    Unprocessable(String),
    #[error("the inbox is damaged: {0}")]
    Damaged(&'static str),
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: Arc<io::Error> },
    /// The PostgreSQL server is unreachable, refuses the connection, or has closed it.
    #[error("no connection to {server}: {reason}")]
    Unreachable { server: Server, reason: String },
    #[error("database error (PostgreSQL {0})")]
    Postgres(String),
    #[error("database error: {reason} (SQLite {code})")]
    Database {
        /// SQLite's extended result code.
        code: i32,
        /// SQLite's description of the code.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether a retry with the same program and options may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        !matches!(
            self,
            StoreError::NotAnInbox(_)
                | StoreError::TooNew { .. }
                | StoreError::TooOld { .. }
                | StoreError::NotDurable { .. }
                | StoreError::WrongEncoding { .. }
                | StoreError::WrongCollation { .. }
                | StoreError::SharedSessions(_)
                | StoreError::NoSchema(_)
        )
    }

    /// Whether the error was caused by stored data rather than by the database or the machine. A retry cannot
    /// fix such an error.
    pub fn is_caused_by_row(&self) -> bool {
        match self {
            StoreError::Damaged(_) | StoreError::Unprocessable(_) => true,
            // Classes of SQLSTATE codes: data exceptions and constraint violations.
            StoreError::Postgres(code) => code.starts_with("22") || code.starts_with("23"),
            StoreError::Database { code, .. } => matches!(
                code & 0xff,
                rusqlite::ffi::SQLITE_CONSTRAINT
                    | rusqlite::ffi::SQLITE_MISMATCH
                    | rusqlite::ffi::SQLITE_TOOBIG
            ),
            _ => false,
        }
    }

    /// Advice for the operator; `None` if the message says everything.
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Io { path, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(permission_hint(path))
            }
            StoreError::Io { path, error }
                if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) =>
            {
                Some(format!("a part of {} is a file where a folder is needed", path.display()))
            }
            StoreError::ReadOnly => Some("the file or its file system is read-only for this user".to_owned()),
            StoreError::Full => {
                Some("free space on the disk, or choose another with `--data-dir`".to_owned())
            }
            StoreError::Locked => {
                Some("end the program that has the database open, then try again".to_owned())
            }
            StoreError::TooOld { .. } => Some(
                "export the submissions with that version (`frontdesk inbox export`), and begin with an empty inbox"
                    .to_owned(),
            ),
            StoreError::WrongEncoding { url: DatabaseUrl::Postgres(_), .. } => Some(
                "create a database with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C.UTF-8'` and name \
                 it in `store.url`; `frontdesk store move --to URL` copies submissions that are in this one"
                    .to_owned(),
            ),
            StoreError::WrongEncoding { url: DatabaseUrl::Sqlite(_), .. } => Some(
                "`frontdesk store move --to sqlite:NEW_FILE` copies the submissions to a UTF-8 file; then name that file \
                 in `store.url`"
                    .to_owned(),
            ),
            StoreError::WrongCollation { .. } => Some(
                "`frontdesk store move --to URL` copies the submissions to a new database with the right tables".to_owned(),
            ),
            StoreError::SharedSessions(_) => Some(
                "name the PostgreSQL server itself in `store.url`, or set the pooler to pool by session \
                 (PgBouncer: `pool_mode = session`)"
                    .to_owned(),
            ),
            StoreError::NoSchema(_) => Some(
                "create the schema, or name another one: `ALTER ROLE user RESET search_path`, `ALTER DATABASE name RESET \
                 search_path`, or the parameter `options` of `store.url`"
                    .to_owned(),
            ),
            StoreError::Unreachable { .. } => {
                Some("check `store.url`, and whether the server is running and accepts this user".to_owned())
            }
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}

/// Names the user that owns the nearest existing part of `path`, and this process's user.
fn permission_hint(path: &Path) -> String {
    let existing = path.ancestors().find_map(|part| Some((part, std::fs::metadata(part).ok()?.uid())));
    let us = rustix::process::geteuid().as_raw();
    let (name, folder) = (user_name(us), inbox_folder(path));
    match existing {
        // A server should not run as root, so the files get another owner.
        Some((_, 0)) if us != 0 && folder.is_dir() => format!(
            "this process runs as {name}, and the files belong to root: `sudo chown -R {name} {}` changes that",
            folder.display()
        ),
        Some((_, 0)) if us != 0 => {
            format!("`sudo install -d -m 700 -o {name} {}` creates the folder for {name}", folder.display())
        }
        Some((_, owner)) if owner != us => format!(
            "this process runs as {name}, and the files belong to {owner}: run it as {owner}, for example with `sudo -u {owner}`",
            owner = user_name(owner)
        ),
        Some((part, _)) => format!("`chmod u+rwX {}` makes it writable for {name}", part.display()),
        None => format!("the folder has to be writable for {name}"),
    }
}

/// The folder of the inbox, from the path of the folder or of a file in it.
fn inbox_folder(path: &Path) -> &Path {
    let is_file = path.is_file() || (!path.exists() && path.extension().is_some());
    path.parent().filter(|_| is_file).unwrap_or(path)
}

/// The name of a user in `/etc/passwd`, otherwise `#UID`, which `sudo -u` accepts as well.
fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("#{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_folder_of_the_inbox() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inbox.sqlite");
        assert_eq!(inbox_folder(folder.path()), folder.path());
        assert_eq!(inbox_folder(&file), folder.path(), "a missing file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(inbox_folder(&file), folder.path());
        let missing = folder.path().join("data");
        assert_eq!(inbox_folder(&missing), missing, "a missing folder");
    }
}
