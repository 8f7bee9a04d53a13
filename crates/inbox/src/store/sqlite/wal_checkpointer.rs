//! Copies the write-ahead log into the database on a separate thread, while the writer appends to it.
//!
//! Otherwise SQLite would copy the log within a commit, and all submissions would wait for thousands of pages
//! to be written and synced. The log restarts only after all of it is copied, so the writer copies the few
//! pages that were appended in the meantime, between two commits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use rusqlite::OpenFlags;

use super::files::DatabaseFiles;
use super::{checkpoint_passively, connect, enable_full_sync};
use crate::store::error::StoreError;
use frontdesk_process::priority::lower_priority;

/// The number of changed rows after which the log is copied. Each row changes about one page of 4 KiB; with
/// long messages, SQLite may copy the log earlier (`CHECKPOINT_PAGES`). Copying after 1,024 rows lowered the
/// rate of a burst by a seventh, because its pages were written to the disk more often.
const COPY_AFTER_ROWS: u64 = 6144;
/// The copier stops after a pass that copied at most this many pages: the writer then has about as few left
/// to copy.
const MAX_REST_PAGES: i64 = 128;
/// Added to the thread's nice value: visitors wait for the writer, so it takes precedence over the copier.
const NICE: i32 = 10;
/// Maximum number of passes over the log. Under heavy load, the log may grow faster than it is copied.
const MAX_PASSES: usize = 8;

/// Decides when to copy the log. Dropping the copier ends its thread. Drop it before the database, so that
/// the copier's connection is not the last one to close: the last connection removes the log.
pub(crate) struct Copier {
    path: PathBuf,
    /// The number of changed rows after which the log is copied.
    copies_after: u64,
    /// The number of rows changed since the log was last copied.
    changes: u64,
    /// The thread that copies the log, if it is running. If it cannot be started, SQLite copies the log a
    /// little later.
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Copier {
    pub(crate) fn new(path: &Path) -> Copier {
        Copier::with_threshold(COPY_AFTER_ROWS, path)
    }

    /// Creates a copier that starts to copy the log once at least `copies_after` rows have changed.
    fn with_threshold(copies_after: u64, path: &Path) -> Copier {
        Copier { path: path.to_owned(), copies_after, changes: 0, thread: None, stop: Arc::default() }
    }

    /// True from the start of the copying thread until [`Self::after_commit`] returns true.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.is_some()
    }

    /// Call this after each commit, with the number of rows that it changed. Starts a checkpoint on another
    /// thread once enough rows have changed since the last one; rows that change while it runs do not count.
    /// Returns true once after the thread has ended, also with an error: the writer must then checkpoint the
    /// rest of the log. `files` returns the identity of the writer's open files.
    pub(crate) fn after_commit(
        &mut self,
        changes: u64,
        files: impl FnOnce() -> Option<DatabaseFiles>,
    ) -> bool {
        if let Some(thread) = &self.thread {
            if !thread.is_finished() {
                return false;
            }
            (self.thread, self.changes) = (None, 0);
            return true;
        }
        self.changes += changes;
        if self.changes >= self.copies_after {
            let (path, files, stop) = (self.path.clone(), files(), Arc::clone(&self.stop));
            // Ignore errors here: the writer encounters and reports the same ones.
            let copy = move || drop(copy_log(&path, files, &stop));
            self.thread = thread::Builder::new().name("inbox-copier".to_owned()).spawn(copy).ok();
        }
        false
    }
}

impl Drop for Copier {
    /// Stops the thread after its current pass, and waits until it has ended.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies the log in up to [`MAX_PASSES`] passes, until a pass copies few pages or `stop` is set. Fails if
/// the files were replaced. Lowers the priority of the calling thread.
fn copy_log(path: &Path, files: Option<DatabaseFiles>, stop: &AtomicBool) -> Result<(), StoreError> {
    lower_priority(NICE);
    // The last connection that closes removes the log. If the files were replaced, that could be the log of
    // the writer's new database.
    if let Some(mut files) = files {
        files.check_in_place()?;
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    enable_full_sync(&connection)?;
    let mut before = 0;
    for _ in 0..MAX_PASSES {
        if stop.load(Relaxed) {
            break;
        }
        let copied = checkpoint_passively(&connection)?;
        if copied - before <= MAX_REST_PAGES {
            break;
        }
        before = copied;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn the_log_begins_anew_although_the_writer_never_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (a)")
            .unwrap();
        let mut copier = Copier::with_threshold(20, &path);
        let (mut pages, mut ends) = (0, 0);
        let began = Instant::now();
        while ends < 3 {
            assert!(began.elapsed() < Duration::from_mins(2), "{ends} {pages}");
            let before = writer.total_changes();
            writer.execute("INSERT INTO t VALUES (zeroblob(4000))", []).unwrap();
            if copier.after_commit(writer.total_changes() - before, || None) {
                pages = checkpoint_passively(&writer).unwrap();
                ends += 1;
            }
        }
        assert!(pages > 0);
        writer.execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert!(checkpoint_passively(&writer).unwrap() < pages, "the log restarts with the last page");
    }

    #[test]
    fn a_database_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let mut copier = Copier::with_threshold(1, &path);
        assert!(!copier.after_commit(1, || None));
        while !copier.after_commit(0, || None) {
            thread::yield_now();
        }
        drop(copier);
        assert!(!path.exists());
    }
}
