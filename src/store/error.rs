//! The errors of the store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::postgres::server::Server;
use super::url::DatabaseUrl;

/// Why an operation of the store failed. No variant contains data of visitors.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("too many submissions wait to be written")]
    Overloaded,
    #[error("the inbox is closed")]
    Closed,
    /// There is no database, or an empty one.
    #[error("there is no inbox at {0}")]
    Missing(DatabaseUrl),
    #[error("{0} is not an inbox of frontdesk")]
    NotAnInbox(DatabaseUrl),
    #[error("{url} was made by a newer frontdesk (layout {found}, this one knows {known})")]
    TooNew { url: DatabaseUrl, found: i64, known: i64 },
    #[error("{0} has an older layout, and is brought up to date when the server starts")]
    TooOld(DatabaseUrl),
    /// The database does not guarantee to sync its commits, for instance because its file system has no
    /// shared memory.
    #[error("the database cannot keep what it confirms ({setting} is {found})")]
    NotDurable { setting: &'static str, found: String },
    #[error("the database file was removed or replaced")]
    Moved,
    #[error("the database is locked by another program")]
    Locked,
    /// A write takes so long that its outcome is unknown.
    #[error("the database does not answer in time")]
    Slow,
    #[error("the disk is full")]
    Full,
    #[error("the database is read-only")]
    ReadOnly,
    #[error("a submission could not be encrypted")]
    NotSealed,
    /// A row of the intake is faulty, and a retry does not help; the cause.
    #[error("it cannot be processed: {0}")]
    Unprocessable(String),
    #[error("the inbox is damaged: {0}")]
    Damaged(&'static str),
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: Arc<io::Error> },
    /// The PostgreSQL server is unreachable, refuses us, or has ended the connection.
    #[error("no connection to {server}: {reason}")]
    Unreachable { server: Server, reason: String },
    #[error("the database fails (PostgreSQL {0})")]
    Postgres(String),
    #[error("the database fails: {reason} (SQLite {code})")]
    Database {
        /// SQLite's extended result code.
        code: i32,
        /// SQLite's description of the code.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether a retry may succeed without a change of the program or its options.
    pub(super) fn is_temporary(&self) -> bool {
        !matches!(self, StoreError::NotAnInbox(_) | StoreError::TooNew { .. } | StoreError::NotDurable { .. })
    }

    /// Whether stored data cause the error, and not the database or the machine: then a retry does not help.
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

    pub(crate) fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}
