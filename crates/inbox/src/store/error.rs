//! The errors that operations on the store return.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::database_url::DatabaseUrl;
use frontdesk_postgres::Server;

/// Why an operation on the store failed. No variant contains visitors' data.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("too many submissions are waiting to be written")]
    Overloaded,
    #[error("the inbox is closed, usually because the server is stopping")]
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
    /// A power failure could lose commits, for instance because the file system does not support the shared
    /// memory that SQLite's write-ahead log needs.
    #[error("commits to the database are not durable: {setting} is {found}, and must be {needed}")]
    NotDurable { setting: &'static str, found: String, needed: &'static str },
    /// The database or, with PostgreSQL, the session has an encoding other than UTF-8.
    #[error("{url} has the {setting} {found}, but the {setting} must be {needed}")]
    WrongEncoding { url: DatabaseUrl, setting: &'static str, found: String, needed: &'static str },
    /// Another program has set a collation that may treat different texts as equal. SQLite only.
    #[error("an index of {url} compares texts by the collation {collation}; the collation must be BINARY")]
    WrongCollation { url: DatabaseUrl, collation: String },
    /// A pooler between this program and PostgreSQL allows no transactions of several statements.
    #[error("a connection pooler in front of {0} pools by statement; it must pool by transaction or session")]
    SharedSessions(DatabaseUrl),
    /// PostgreSQL's search path names no schema that exists and that the role may use.
    #[error("the search path of {0} names no schema that this role can use")]
    NoSchema(DatabaseUrl),
    /// A file of a SQLite database is no longer the one that was opened.
    #[error("the database {} or its `-wal` or `-shm` file was removed, replaced or truncated while it was open", .0.display())]
    Moved(PathBuf),
    /// Another process holds a lock or has changed the same rows. A retry may succeed.
    #[error("the database is locked by another process")]
    Locked,
    /// A write is taking so long that its outcome is unknown.
    #[error("the database did not respond in time")]
    Slow,
    #[error("the disk is full")]
    Full,
    #[error("the database is read-only")]
    ReadOnly,
    #[error("a submission could not be encrypted to `store.recipient`")]
    NotSealed,
    /// A row in the intake is faulty, screening panicked, or a value cannot be written as JSON. Contains the
    /// cause.
    #[error("a submission cannot be processed: {0}")]
    Unprocessable(String),
    /// Code that works on the inbox has panicked. Contains the description of the panic.
    #[error("{0}")]
    Panicked(String),
    #[error("the note has {length} characters; the maximum is {max}")]
    NoteTooLong { length: usize, max: usize },
    #[error("the submission has {max} notes, which is the maximum; remove one first")]
    TooManyNotes { max: usize },
    #[error("the inbox is damaged: {0}")]
    Damaged(&'static str),
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: Arc<io::Error> },
    /// The PostgreSQL server is unreachable, refuses or has closed the connection, did not reply in time, or
    /// has not confirmed that a commit is durable.
    #[error("{server} is not available: {reason}")]
    Unreachable { server: Server, reason: String },
    /// Any other PostgreSQL error. Contains the SQLSTATE code.
    #[error("PostgreSQL reported {}", describe_sqlstate(.0))]
    Postgres(String),
    /// Any other SQLite error.
    #[error("SQLite reported an error: {reason} (code {code})")]
    Database {
        /// SQLite's extended result code.
        code: i32,
        /// SQLite's description of the code.
        reason: &'static str,
    },
}

impl StoreError {
    /// Of an error from opening the database: whether opening it later, with the same program and options,
    /// may succeed. True for every error that is not known to be permanent, even for a damaged database.
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

    /// Whether the error was caused by one row, stored or to be written, or by a defect of the code that
    /// works on it, rather than by the database or the machine. A retry cannot fix such an error.
    pub fn is_caused_by_row(&self) -> bool {
        match self {
            StoreError::Damaged(_) | StoreError::Unprocessable(_) | StoreError::Panicked(_) => true,
            // SQLSTATE classes 22 (data exceptions) and 23 (constraint violations).
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
                Some(format!(
                    "a part of {} is a file, but must be a folder: move that file away",
                    path.display()
                ))
            }
            StoreError::NotDurable { setting: setting @ ("fsync" | "synchronous_commit"), .. } => {
                Some(format!(
                    "set `{setting} = on` in the server's `postgresql.conf` and reload the server; if it was changed for the database or the role: `ALTER DATABASE … RESET {setting}`, `ALTER ROLE … RESET {setting}`"
                ))
            }
            _ => self.advice().map(str::to_owned),
        }
    }

    /// Advice with a fixed text, which contains no details of the error.
    fn advice(&self) -> Option<&'static str> {
        Some(match self {
            StoreError::NotAnInbox(DatabaseUrl::Sqlite(_)) => {
                "nothing was changed: name an inbox, or a new or empty file, in `store.url`, `--data-dir` or `--to`"
            }
            StoreError::NotAnInbox(DatabaseUrl::Postgres(_)) => {
                "nothing was changed: another program has tables with the same names, so name another database in `store.url` or `--to`"
            }
            // SQLite's result codes have more detail in their higher bits.
            StoreError::Database { code, .. } if code & 0xff == rusqlite::ffi::SQLITE_IOERR => {
                "check the disk and its file system for errors: the kernel's log (`dmesg`) has the details"
            }
            StoreError::Database { code, .. } if code & 0xff == rusqlite::ffi::SQLITE_CORRUPT => {
                "restore a backup (docs/pages/backups.md); please report this if only frontdesk has written to the database"
            }
            // Usually only one row is damaged, and an older backup lacks all later submissions.
            StoreError::Damaged(_) => {
                "save the inbox with `frontdesk backup FILE` (PostgreSQL: `pg_dump`), which also checks the database, and report this; restore an older backup only if that fails"
            }
            StoreError::ReadOnly => {
                "SQLite: make the file and its file system writable for this user; PostgreSQL: name a primary in `store.url`"
            }
            StoreError::Full => {
                "free space on the disk of the database; for a SQLite file, `--data-dir` can choose another disk"
            }
            StoreError::Moved(_) => {
                "stop the server before the database is replaced; restore a backup (docs/pages/backups.md) if it was lost"
            }
            StoreError::Locked => "try again once the other process is done, or end that process first",
            StoreError::NotDurable { setting: "journal_mode", .. } => {
                "put the inbox on a local file system, for example with `--data-dir`"
            }
            // insufficient_privilege
            StoreError::Postgres(code) if code == "42501" => {
                "make the role of `store.url` the owner of the database, or let it create tables: `GRANT CREATE ON SCHEMA public TO role`, which PostgreSQL 15 and later need"
            }
            StoreError::TooOld { .. } => {
                "export the submissions with that version (`frontdesk inbox export`), and begin with an empty inbox"
            }
            StoreError::WrongEncoding { setting: "client_encoding", .. } => {
                "name the PostgreSQL server itself in `store.url`, or remove the pooler's setting of `client_encoding`"
            }
            StoreError::WrongEncoding { url: DatabaseUrl::Postgres(_), .. } => {
                "create a database with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C.UTF-8'` and name it in `store.url`; `frontdesk store move --to URL` copies submissions that are in this one"
            }
            StoreError::WrongEncoding { url: DatabaseUrl::Sqlite(_), .. } => {
                "`frontdesk store move --to sqlite:NEW_FILE` copies the submissions to a UTF-8 file; then name that file in `store.url`"
            }
            StoreError::WrongCollation { .. } => {
                "`frontdesk store move --to URL` copies the submissions to a new database with the right tables"
            }
            StoreError::SharedSessions(_) => {
                "name the PostgreSQL server itself in `store.url`, or set the pooler to pool by transaction (PgBouncer: `pool_mode = transaction`)"
            }
            StoreError::NoSchema(_) => {
                "create the schema, grant this role USAGE on it, or name another one: `ALTER ROLE user RESET search_path`, `ALTER DATABASE name RESET search_path`, or the parameter `options` of `store.url`"
            }
            StoreError::Unreachable { .. } => {
                "check `store.url`, whether the server is running and accepts this user, and its log"
            }
            StoreError::Slow => "look for a slow disk, or for load and locks on the database server",
            _ => return None,
        })
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}

/// Completes the sentence “PostgreSQL reported …”.
fn describe_sqlstate(code: &str) -> String {
    match code {
        "42501" => format!("that the role lacks a privilege (SQLSTATE {code})"),
        code => format!("an error (SQLSTATE {code}): see the log of the database server"),
    }
}

/// Advice on how to give this process access to `path`, in most cases a command. Depends on this process's
/// user, and on the user that owns the nearest existing part of `path`.
fn permission_hint(path: &Path) -> String {
    let existing = path.ancestors().find_map(|part| Some((part, std::fs::metadata(part).ok()?.uid())));
    let us = rustix::process::geteuid().as_raw();
    let (name, folder) = (user_name(us), inbox_folder(path));
    // For a user without a name, `name` is `#UID`, but `chown` and `install` take only the number.
    let account = name.trim_start_matches('#');
    match existing {
        // A server should not run as root, so give the files to this user instead.
        Some((_, 0)) if us != 0 && folder.is_dir() => format!(
            "this process runs as {name}, and the files belong to root: if only frontdesk uses this folder, run `sudo chown -R {account} {}`",
            folder.display()
        ),
        Some((_, 0)) if us != 0 => {
            format!(
                "`sudo install -d -m 700 -o {account} {}` creates the folder for {name}",
                folder.display()
            )
        }
        Some((_, owner)) if owner != us => format!(
            "this process runs as {name}, and the files belong to {owner}: run it as {owner}, for example with `sudo -u '{owner}'`",
            owner = user_name(owner)
        ),
        Some((part, _)) => format!("`chmod u+rwX {}` makes it writable for {name}", part.display()),
        None => format!("make the folder {} writable for {name}", folder.display()),
    }
}

/// The folder of the inbox: `path` itself, or its parent if `path` is a file. A missing path with an
/// extension counts as a file.
fn inbox_folder(path: &Path) -> &Path {
    let is_file = path.is_file() || (!path.exists() && path.extension().is_some());
    path.parent().filter(|_| is_file).unwrap_or(path)
}

/// The name of a user in `/etc/passwd`, or else `#UID`, which `sudo -u` accepts, too.
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
    fn only_a_corrupt_file_needs_a_backup_at_once() {
        let hint = |error: StoreError| error.hint().unwrap_or_default();
        // The code for a damaged file, and the more detailed one for a damaged index.
        for code in [11, 779] {
            assert!(
                hint(StoreError::Database { code, reason: "" }).starts_with("restore a backup"),
                "{code}"
            );
        }
        assert!(hint(StoreError::Damaged("unknown status")).starts_with("save the inbox"));
        assert_eq!(hint(StoreError::Database { code: 1, reason: "" }), "");
    }

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
