//! The errors that operations on the store return.

use std::io;
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
    #[error("{0} has an older layout; starting the server migrates it")]
    TooOld(DatabaseUrl),
    /// Commits may not be synced, for instance because the file system does not support shared memory.
    #[error("the database does not guarantee that commits are durable ({setting} is {found})")]
    NotDurable { setting: &'static str, found: String },
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
        !matches!(self, StoreError::NotAnInbox(_) | StoreError::TooNew { .. } | StoreError::NotDurable { .. })
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

    pub(crate) fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}
