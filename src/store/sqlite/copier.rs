//! Copies the log into the database on a thread of its own, while the writer goes on appending to it.
//!
//! SQLite would have the writer copy it, within a commit: all whose submissions come meanwhile would wait for thousands of pages to be
//! written and synced. Here the writer only copies what has come while the rest was copied, which is little, and between two
//! commits: the log can begin anew only where nothing is left to copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OpenFlags};

use super::files::Files;
use super::{StoreError, connect, sync_all_of_it};

/// After so many changed rows the log is copied. Each has about a page in it, 4 KiB; where long messages have more, SQLite may be
/// earlier (`CHECKPOINT_PAGES`).
const MANY: u64 = 6144;
/// The writer is left so many pages to copy, if that can be reached.
const FEW: i64 = 512;
/// So often what has come meanwhile is copied as well. Where more comes than can be copied there is no end to it.
const PASSES: usize = 8;

/// Knows when the log is to be copied. Its thread ends with it, and before the database is closed: whoever closes it last
/// removes the log.
pub(in crate::store) struct Copier {
    many: u64,
    /// Rows that were changed since the log was last copied.
    changes: u64,
    is_copying: bool,
    begin: Option<SyncSender<Option<Files>>>,
    ended: Receiver<()>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    /// For the database at `path`, which need not be there yet. Without the thread SQLite copies the log itself, a little later.
    pub(in crate::store) fn start(path: &Path) -> Copier {
        Copier::after(MANY, path)
    }

    fn after(many: u64, path: &Path) -> Copier {
        let (begin, orders) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("inbox-copier".to_owned()).spawn({
            let (path, stop) = (PathBuf::from(path), stop.clone());
            move || {
                while let Ok(files) = orders.recv() {
                    // What fails here fails for the writer as well, who says so.
                    let _ = copy(&path, files, &stop);
                    if end.send(()).is_err() {
                        return;
                    }
                }
            }
        });
        Copier { many, changes: 0, is_copying: false, begin: Some(begin), ended, stop, thread: thread.ok() }
    }

    /// To be told of each commit, how many rows it changed, and in which files. Whether the writer is to copy now what is left.
    pub(in crate::store) fn is_due(&mut self, changes: u64, files: impl FnOnce() -> Option<Files>) -> bool {
        if self.is_copying {
            if self.ended.try_recv() == Err(TryRecvError::Empty) {
                return false;
            }
            (self.is_copying, self.changes) = (false, 0);
            return true;
        }
        self.changes += changes;
        if self.changes >= self.many {
            self.is_copying = self.begin.as_ref().is_some_and(|begin| begin.try_send(files()).is_ok());
        }
        false
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        drop(self.begin.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies what is in the log, and what has come meanwhile, until that is little.
fn copy(path: &Path, files: Option<Files>, stop: &AtomicBool) -> Result<(), StoreError> {
    // Whoever closes a database last removes its log. If others have been put in their place, that would be the one the writer has open.
    if let Some(mut files) = files {
        files.are_in_place()?;
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    sync_all_of_it(&connection)?;
    let mut before = 0;
    for _ in 0..PASSES {
        if stop.load(Relaxed) {
            break;
        }
        let copied = copy_once(&connection)?;
        if copied - before <= FEW {
            break;
        }
        before = copied;
    }
    Ok(())
}

/// Copies as much as can be copied without waiting for anybody, syncs it, and returns how many pages of the log are copied now.
pub(super) fn copy_once(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_log_begins_anew_although_the_writer_never_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (a)")
            .unwrap();
        let mut copier = Copier::after(20, &path);
        let (mut pages, mut ends) = (0, 0);
        let began = Instant::now();
        while ends < 3 {
            assert!(began.elapsed() < Duration::from_mins(2), "{ends} {pages}");
            let before = writer.total_changes();
            writer.execute("INSERT INTO t VALUES (zeroblob(4000))", []).unwrap();
            if copier.is_due(writer.total_changes() - before, || None) {
                pages = copy_once(&writer).unwrap();
                ends += 1;
            }
        }
        assert!(pages > 0);
        writer.execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert!(copy_once(&writer).unwrap() < pages, "the log begins with the last page");
    }

    #[test]
    fn a_database_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let mut copier = Copier::after(1, &path);
        assert!(!copier.is_due(1, || None));
        while !copier.is_due(0, || None) {
            thread::yield_now();
        }
        drop(copier);
        assert!(!path.exists());
    }
}
