//! The writer threads: each commits everything that waits in its queue (submissions, other changes, or both)
//! together, then reports the outcome to each caller.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::ids::Ids;
use super::keyed_hash::Secret;
use super::sql::intake::{Accepting, UnresolvedCommit};
use super::sql::transaction::Change;
use super::sqlite::files::create_folder;
use super::sqlite::wal_checkpointer::Copier;
use super::write_queue::{WriteQueue, answer_callers};
use super::{postgres, sqlite};
use frontdesk_process::panics;

/// Wakes threads and tasks of this process after commits.
#[derive(Default)]
pub struct Events {
    /// Signals that the intake may have new rows, or that the processor may have other work.
    pub accepted: Notify,
    /// Signals that this process has checked the intake, and has processed a batch if there was one.
    pub processed: watch::Sender<()>,
    /// Signals that deliveries may have been queued.
    pub queued: Notify,
    /// Signals that submissions are held because of a flood.
    pub flooded: Notify,
    /// Signals that mails to visitors have reached the hourly limit for all visitors together.
    pub mails_limited: Notify,
}

/// The writer threads and their queues.
pub(super) struct Writer {
    pub submissions: Arc<WriteQueue>,
    /// Other changes. With SQLite, this is the same queue, because one transaction commits both. With
    /// PostgreSQL, it is a separate queue, so that a change with several statements does not delay
    /// submissions.
    pub changes: Arc<WriteQueue>,
    pub events: Arc<Events>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Writer {
    /// Starts a thread for each queue: one for submissions and changes with SQLite, one for each with
    /// PostgreSQL. See [`start_thread`].
    pub(super) fn start(url: &DatabaseUrl) -> Result<Writer, StoreError> {
        let events = Arc::new(Events::default());
        let (submissions, changes) = match url {
            DatabaseUrl::Sqlite(_) => {
                let queue = Arc::new(WriteQueue::default());
                (queue.clone(), queue)
            }
            DatabaseUrl::Postgres(_) => (Arc::default(), Arc::default()),
        };
        let mut threads = vec![start_thread(url, &submissions, &events)?];
        if !Arc::ptr_eq(&submissions, &changes) {
            threads.push(start_thread(url, &changes, &events)?);
        }
        Ok(Writer { submissions, changes, events, threads: Mutex::new(threads) })
    }

    /// Commits everything in the queues, waits until the threads have ended, and closes the database. Does
    /// nothing if called again.
    pub(super) fn close(&self) {
        self.submissions.close();
        self.changes.close();
        // Wake the callers of `Store::settle`, which then find the store closed.
        self.events.processed.send_replace(());
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!(
                    "a thread that writes to the inbox panicked; all accepted submissions are stored, so none is lost"
                );
            }
        }
    }
}

/// Creates the data folder if it is missing, opens the database, and starts a writer thread. If the database
/// cannot be opened for now, records that as the queue's outcome; the thread tries again. Fails if the
/// database can never be opened. A panic of the thread, unless a change causes it, ends the process.
pub(super) fn start_thread(
    place: &DatabaseUrl,
    queue: &Arc<WriteQueue>,
    events: &Arc<Events>,
) -> Result<JoinHandle<()>, StoreError> {
    let created = place.file().map_or(Ok(()), create_folder);
    let database = match created.and_then(|()| DatabaseWriter::open(place, None)) {
        Ok(database) => Some(database),
        // Start despite a temporary error such as a full disk, because serving pages requires no inbox.
        Err(error) if error.is_temporary() => {
            queue.record_outcome(Some(error));
            None
        }
        Err(error) => return Err(error),
    };
    let thread = thread::Builder::new().name("inbox-writer".to_owned()).spawn({
        let (queue, events, url) = (Arc::clone(queue), Arc::clone(events), place.clone());
        move || {
            let _end = AbandonOnDrop(&queue);
            // A panic of a change is caught. After any other, the state of the last transaction is unknown,
            // so end the process.
            panics::end_process_on_panic();
            let copier = url.file().map(Copier::new);
            let (ids, unresolved) = (Ids::default(), Vec::new());
            let secret = database.as_ref().and_then(DatabaseWriter::secret);
            WriterThread { url, events, ids, unresolved, copier, secret, database }.run(&queue);
        }
    });
    thread.map_err(|error| StoreError::io("the thread inbox-writer".as_ref(), error))
}

/// An open database, SQLite or PostgreSQL. One writer thread commits to it.
enum DatabaseWriter {
    Sqlite(sqlite::SqliteWriter),
    Postgres(postgres::commit::PostgresWriter),
}

impl DatabaseWriter {
    /// Opens the database, and creates the inbox if it is missing. Does not create a SQLite database that
    /// this process has opened before: `known` is then its secret, and the open fails if it is missing.
    fn open(place: &DatabaseUrl, known: Option<&Secret>) -> Result<DatabaseWriter, StoreError> {
        match place {
            DatabaseUrl::Sqlite(path) => match known {
                Some(known) => sqlite::SqliteWriter::reopen(path, known),
                None => sqlite::SqliteWriter::open(path),
            }
            .map(DatabaseWriter::Sqlite),
            DatabaseUrl::Postgres(server) => {
                postgres::commit::PostgresWriter::open(server).map(DatabaseWriter::Postgres)
            }
        }
    }

    /// The secret of a SQLite database.
    fn secret(&self) -> Option<Secret> {
        match self {
            DatabaseWriter::Sqlite(database) => Some(database.secret.clone()),
            DatabaseWriter::Postgres(_) => None,
        }
    }

    /// Commits all requests or none, in one transaction, with ids from `ids`; only changes that fail because
    /// of stored data are left out (see
    /// [`transaction::apply_changes`](super::sql::transaction::apply_changes)). Without any requests, commits
    /// a trivial change to test whether writes succeed. Returns the ids of the submissions.
    ///
    /// `unresolved` holds submissions whose commit was reported as failed but may have succeeded. They were
    /// not confirmed, so a later transaction removes them.
    fn commit(
        &mut self,
        jobs: &[Accepting],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        unresolved: &mut Vec<UnresolvedCommit>,
    ) -> Result<Vec<Uuid>, StoreError> {
        match self {
            DatabaseWriter::Sqlite(database) => database.commit(jobs, changes, ids, unresolved),
            DatabaseWriter::Postgres(database) => database.commit(jobs, changes, ids, unresolved),
        }
    }

    /// Copies the write-ahead log into the database and truncates it. Returns false if a reader prevents
    /// that. Does nothing with PostgreSQL, which manages its own log.
    fn truncate_wal(&self) -> Result<bool, StoreError> {
        match self {
            DatabaseWriter::Sqlite(database) => database.truncate_wal(),
            DatabaseWriter::Postgres(_) => Ok(true),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Fails the requests of all waiting callers when the writer ends, even if it panics.
struct AbandonOnDrop<'a>(&'a WriteQueue);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

struct WriterThread {
    url: DatabaseUrl,
    events: Arc<Events>,
    /// Generates ids. Outlives the open database, so that ids keep ascending when the database is reopened.
    ids: Ids,
    unresolved: Vec<UnresolvedCommit>,
    /// Copies SQLite's log; `None` for PostgreSQL. Declared before the database, because it must be dropped
    /// first.
    copier: Option<Copier>,
    /// The secret of the SQLite database, once it has been opened.
    secret: Option<Secret>,
    database: Option<DatabaseWriter>,
}

impl WriterThread {
    /// Commits batches and reports their outcomes until the queue is closed. Wakes the processor, truncates
    /// the log on request, and starts checkpoints.
    fn run(mut self, queue: &WriteQueue) {
        while let Some(mut batch) = queue.take_batch(!self.unresolved.is_empty()) {
            // Panics only if a test requests it; never in release builds.
            panics::inject("writer", "");
            let (outcome, accepted) = if batch.is_idle_check {
                (self.probe(), Vec::new())
            } else {
                self.commit_batch(&batch.jobs, &mut batch.changes)
            };
            queue.record_outcome(outcome.as_ref().err().cloned());
            for truncation in batch.wal_truncations {
                let emptied = self.database.as_ref().map_or(Ok(false), DatabaseWriter::truncate_wal);
                let _ = truncation.send(emptied);
            }
            for change in batch.changes {
                change.answer(outcome.clone());
            }
            if accepted.iter().any(Result::is_ok) {
                self.events.accepted.notify_one();
            }
            answer_callers(batch.callers, accepted);
            if outcome.is_ok() && !batch.is_idle_check {
                queue.set_copying(self.checkpoint_if_due());
            }
        }
    }

    /// Commits a batch in one transaction. If that fails, and not because of a lock, submissions and changes
    /// are separated, so that a submission never fails because of a change, or because of another submission.
    /// The changes are committed on their own if a submission caused the error; otherwise they fail with the
    /// error. Answers and removes such changes. Returns the outcome for the remaining changes and for the
    /// store's health, and that of each submission.
    fn commit_batch(
        &mut self,
        jobs: &[Accepting],
        changes: &mut Vec<Box<dyn Change>>,
    ) -> (Result<(), StoreError>, Vec<Result<Uuid, StoreError>>) {
        let error = match self.commit(jobs, changes) {
            Ok(ids) => return (Ok(()), ids.into_iter().map(Ok).collect()),
            Err(error) => error,
        };
        let is_caused_by_row = error.is_caused_by_row();
        let is_separable = !jobs.is_empty() && !changes.is_empty() && !matches!(error, StoreError::Locked);
        if is_separable {
            // A change that fails because of its own data is skipped, so a submission has caused such an
            // error. A change may cause any other, for instance because it needs more space than there is.
            let done =
                if is_caused_by_row { self.commit(&[], changes).map(drop) } else { Err(error.clone()) };
            for change in changes.drain(..) {
                change.answer(done.clone());
            }
        }
        let mut accepted = Vec::with_capacity(jobs.len());
        if is_separable || (is_caused_by_row && !jobs.is_empty()) {
            self.commit_in_parts(jobs, &mut accepted);
            let mut errors = accepted.iter().filter_map(|job| job.as_ref().err());
            let failure = errors.find(|error| !error.is_caused_by_row()).cloned();
            (failure.map_or(Ok(()), Err), accepted)
        } else {
            accepted.extend(jobs.iter().map(|_| Err(error.clone())));
            (Err(error), accepted)
        }
    }

    /// Commits submissions, and bisects those that fail because of a row until only the faulty ones fail.
    /// Appends the outcome of each. After an error that no submission has caused, the remaining submissions
    /// fail with the same error, untried.
    fn commit_in_parts(&mut self, jobs: &[Accepting], accepted: &mut Vec<Result<Uuid, StoreError>>) {
        let outcome = match accepted.last() {
            Some(Err(error)) if !error.is_caused_by_row() => Err(error.clone()),
            _ => self.commit(jobs, &mut []),
        };
        match outcome {
            Ok(ids) => accepted.extend(ids.into_iter().map(Ok)),
            Err(error) if error.is_caused_by_row() && jobs.len() > 1 => {
                let (first, second) = jobs.split_at(jobs.len() / 2);
                self.commit_in_parts(first, accepted);
                self.commit_in_parts(second, accepted);
            }
            Err(error) => accepted.extend(jobs.iter().map(|_| Err(error.clone()))),
        }
    }

    /// Checks an idle PostgreSQL server without writing to it, or that SQLite's files are still in place. If
    /// they are not, makes a commit, which opens the database that is there now, unless it is another inbox.
    /// Does nothing if no database is open.
    fn probe(&mut self) -> Result<(), StoreError> {
        let is_in_place = match &mut self.database {
            Some(DatabaseWriter::Postgres(database)) => return database.check_writable(),
            Some(DatabaseWriter::Sqlite(database)) => database.files.check_in_place().is_ok(),
            None => true,
        };
        if is_in_place { Ok(()) } else { self.commit(&[], &mut []).map(drop) }
    }

    /// Starts copying a long write-ahead log into the database on another thread, and copies the rest once
    /// that thread has ended. Returns whether the thread is copying. Call this after a commit, while no
    /// caller is waiting.
    fn checkpoint_if_due(&mut self) -> bool {
        let (Some(copier), Some(DatabaseWriter::Sqlite(database))) = (&mut self.copier, &self.database)
        else {
            return false;
        };
        if copier.after_commit(database.changed, || Some(database.files.clone())) {
            database.checkpoint_rest();
        }
        copier.is_running()
    }

    /// Opens the database if it is not open, and commits a batch. Retries once if the file was moved or
    /// removed, with the file that is then at its path, unless that is another inbox. Closes the database
    /// after errors that may have made the connection unusable.
    fn commit(
        &mut self,
        jobs: &[Accepting],
        changes: &mut [Box<dyn Change>],
    ) -> Result<Vec<Uuid>, StoreError> {
        let mut is_retry = false;
        loop {
            let database = match &mut self.database {
                Some(database) => database,
                none => {
                    let database = DatabaseWriter::open(&self.url, self.secret.as_ref())?;
                    self.secret = database.secret();
                    none.insert(database)
                }
            };
            let outcome = database.commit(jobs, changes, &mut self.ids, &mut self.unresolved);
            // Reopen the database, except after an error that leaves the connection usable: a locked
            // database, a full disk or a faulty row.
            if outcome.as_ref().is_err_and(|error| {
                !matches!(error, StoreError::Locked | StoreError::Full) && !error.is_caused_by_row()
            }) {
                self.database = None;
            }
            if is_retry || !matches!(outcome, Err(StoreError::Moved(_))) {
                return outcome;
            }
            is_retry = true;
        }
    }
}
