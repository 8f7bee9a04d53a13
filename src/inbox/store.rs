//! Keeps submissions: one writer that commits whatever waits together, and readers that may be elsewhere.
//!
//! [`Store::accept`] returns once the submission is committed and synced to stable storage, or with an
//! error, and then nothing of it was kept. However many callers wait, one thread writes for all of them in
//! one transaction with one sync, so that throughput grows with load.
//!
//! A repeat of an earlier submission (see [`Sameness`](super::form::Sameness), or one with the same
//! idempotency key from the same source) is counted on the row of the first, which costs the same write and
//! the same sync as a new one: neither the answer nor its timing tells them apart.
//!
//! Errors leave the store in place. It opens its file again by itself, and makes a new one where the old one
//! was taken away, so that it works again as soon as the cause is gone.

mod fingerprint;
pub mod lock;
mod sqlite;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::limit::Source;
use super::parse::Entry;
pub use sqlite::backup::{Backup, BackupError, Restored, backup, restore, verify};
pub use sqlite::read::{Found, Listing, Reader};
use writer::Writer;

/// Where submissions are kept, and what the operator decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The SQLite file. Its folder is made if it is missing, for this user only, and so is the file.
    pub path: PathBuf,
    /// For how long a form that is sent twice counts as one.
    pub duplicate_window: Duration,
}

/// What came in, ready to be kept.
#[derive(Clone)]
pub struct Arrival {
    /// What was sent.
    pub entry: Entry,
    /// The sender's own name for it: the same key from the same source, within the window, means the same
    /// submission whatever it says.
    pub idempotency_key: Option<String>,
    /// Who sent it. Kept as a keyed hash only.
    pub source: Source,
    /// When it had been read. Kept to the millisecond.
    pub received_at: Timestamp,
}

/// Without the key: it is the visitor's, like the entry's values.
impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("entry", &self.entry)
            .field("received_at", &self.received_at)
            .finish_non_exhaustive()
    }
}

/// How a submission was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// As a submission of its own, with this id.
    New(Uuid),
    /// As a repeat of this one.
    Duplicate(Uuid),
}

impl Accepted {
    /// The submission that is in the inbox now.
    pub fn id(self) -> Uuid {
        match self {
            Accepted::New(id) | Accepted::Duplicate(id) => id,
        }
    }
}

/// Which submissions to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of this form only.
    pub form: Option<String>,
    /// No more than this many.
    pub limit: Option<usize>,
}

/// Why the store could not do it. No variant carries anything that a visitor sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The queue is full; nothing was kept.
    #[error("too many submissions wait to be written")]
    Overloaded,
    /// [`Store::close`] was called.
    #[error("the inbox is closed")]
    Closed,
    /// There is no database, or one in which nothing was ever set up.
    #[error("there is no inbox at {}", .0.display())]
    Missing(PathBuf),
    /// The file is a database of another program, or none at all.
    #[error("{} is not an inbox of frontdesk", .0.display())]
    NotAnInbox(PathBuf),
    /// The database was written by a later version of this program.
    #[error("{} was made by a newer frontdesk (layout {found}, this one knows {known})", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its layout.
        found: i64,
        /// The latest layout that this program knows.
        known: i64,
    },
    /// The database was written by an earlier version and is read only here.
    #[error("{} has an older layout, and is brought up to date when the server starts", .0.display())]
    TooOld(PathBuf),
    /// SQLite would not promise to sync what it commits, for instance on a file system without shared memory.
    #[error("the database cannot keep what it confirms ({setting} is {found})")]
    NotDurable {
        /// Which of SQLite's settings.
        setting: &'static str,
        /// Its value.
        found: String,
    },
    /// The database file was removed or replaced while it was open.
    #[error("the database file was removed or replaced")]
    Moved,
    /// Another program kept the database locked for too long.
    #[error("the database is locked by another program")]
    Locked,
    /// There is no room left where the database is.
    #[error("the disk is full")]
    Full,
    /// The database may not be written to.
    #[error("the database is read-only")]
    ReadOnly,
    /// A row cannot be read as a submission.
    #[error("the inbox is damaged: {0}")]
    Damaged(&'static str),
    /// The file or its folder could not be made or looked at.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: Arc<io::Error>,
    },
    /// Whatever else SQLite says, in its own fixed words.
    #[error("the database fails: {reason} (SQLite {code})")]
    Database {
        /// SQLite's extended result code.
        code: i32,
        /// What it stands for.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether trying again may go well without anybody changing the program or its options.
    fn may_pass(&self) -> bool {
        !matches!(self, StoreError::NotAnInbox(_) | StoreError::TooNew { .. } | StoreError::NotDurable { .. })
    }

    fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}

/// The inbox, open for writing. Clones share one writer, which ends with the last of them.
#[derive(Clone)]
pub struct Store {
    writer: Arc<Writer>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database, makes it if it is missing, brings its layout up to date and starts the writer.
    ///
    /// What may pass by itself (a full disk, a lock, a folder that cannot be written) is no error here: the writer goes on
    /// trying, [`Store::accept`] fails meanwhile, and [`Store::health`] says why.
    pub fn open(options: &Options) -> Result<Store, StoreError> {
        Ok(Store { writer: Arc::new(Writer::start(options.clone())?) })
    }

    /// Keeps a submission, or recognises it as a repeat.
    ///
    /// After `Ok` it survives a power cut; after `Err` nothing of it was kept. Whoever stops waiting
    /// before either cannot know: it may be kept.
    pub async fn accept(&self, arrival: Arrival) -> Result<Accepted, StoreError> {
        self.writer.accept(arrival).await
    }

    /// Whether the last write went well, without trying. After a failure the writer tries again each second,
    /// so that this tells the truth even while nobody sends anything.
    pub fn health(&self) -> Result<(), StoreError> {
        self.writer.health()
    }

    /// Writes and syncs a little something and says whether that went well.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.writer.check().await
    }

    /// Writes what is waiting, refuses what comes after, and closes the database.
    pub fn close(self) {
        self.writer.close();
    }
}

/// One submission on its way to the writer.
struct Job {
    arrival: Arrival,
    /// The entry's fields as a JSON object, made before the writer gets to it.
    fields: String,
}

impl Job {
    fn new(arrival: Arrival) -> Result<Job, StoreError> {
        // An object of strings always has a JSON text.
        let fields =
            serde_json::to_string(&arrival.entry).map_err(|_| StoreError::Damaged("an entry has no JSON"))?;
        Ok(Job { arrival, fields })
    }
}

#[cfg(test)]
mod tests;
