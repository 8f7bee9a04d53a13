//! The one thread that writes: takes everything that waits, commits it together, then answers each.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use arc_swap::ArcSwap;
use uuid::Uuid;

use super::ids::Ids;
use super::processor::Processor;
use super::sql::change::{Change, Changing};
use super::sqlite::copier::Copier;
use super::sqlite::files::create_folder;
use super::write_queue::WriteQueue;
use super::{Doubt, Job, Options, Place, StoreError, postgres, sqlite};
use crate::screening::Repeats;

pub(super) struct Writer {
    /// What holds for a submission when it arrives, and from then on also when it is processed.
    pub options: Arc<ArcSwap<Options>>,
    /// What is to be kept.
    pub submissions: Arc<WriteQueue>,
    /// What is to be changed beside that. The same queue where one transaction takes both; with a server, what takes several exchanges
    /// must hold up no visitor.
    pub changes: Arc<WriteQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub processor: Processor,
    /// Which messages came more than once lately.
    pub messages: Arc<Repeats>,
}

impl Writer {
    pub(super) fn start(options: Options) -> Result<Writer, StoreError> {
        let (submissions, changes) = match options.place {
            Place::Sqlite(_) => {
                let queue = Arc::new(WriteQueue::default());
                (queue.clone(), queue)
            }
            Place::Postgres(_) => (Arc::new(WriteQueue::probed()), Arc::new(WriteQueue::probed())),
        };
        let mut threads = vec![start(&options.place, &submissions)?];
        if !Arc::ptr_eq(&submissions, &changes) {
            threads.push(start(&options.place, &changes)?);
        }
        let options = Arc::new(ArcSwap::from_pointee(options));
        let messages = Arc::new(Repeats::new(Instant::now()));
        let processor =
            Processor::start(options.clone(), submissions.clone(), changes.clone(), messages.clone())?;
        Ok(Writer { options, submissions, changes, threads: Mutex::new(threads), processor, messages })
    }

    /// Has something written with the next batch, and returns what it found once that is committed.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.changes.change(apply)?.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn close(&self) {
        self.processor.stop();
        self.submissions.close();
        self.changes.close();
        // Whoever waits for something to be processed hears that the store is closed.
        self.processor.processed.send_replace(());
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the inbox's writer had failed before it was closed");
            }
        }
    }
}

/// Opens the database and has a thread of its own write to it what is in the queue. Creates the data folder: this is the only time.
fn start(place: &Place, queue: &Arc<WriteQueue>) -> Result<JoinHandle<()>, StoreError> {
    let created = place.file().map_or(Ok(()), create_folder);
    let database = match created.and_then(|()| Database::open(place)) {
        Ok(database) => Some(database),
        // Pages need no inbox, and who restarts on a full disk should not lose them as well.
        Err(error) if error.may_pass() => {
            queue.note(Some(error));
            None
        }
        Err(error) => return Err(error),
    };
    let thread = thread::Builder::new().name("inbox-writer".to_owned()).spawn({
        let (queue, place) = (Arc::clone(queue), place.clone());
        move || {
            let _end = End(&queue);
            let copier = place.file().map(Copier::start);
            Work { place, ids: Ids::default(), doubtful: Vec::new(), copier, database }.work(&queue);
        }
    });
    thread.map_err(|error| StoreError::io("inbox-writer".as_ref(), error))
}

/// The database, open for writing.
enum Database {
    Sqlite(sqlite::Database),
    Postgres(postgres::Database),
}

impl Database {
    fn open(place: &Place) -> Result<Database, StoreError> {
        match place {
            Place::Sqlite(path) => sqlite::Database::open(path).map(Database::Sqlite),
            Place::Postgres(server) => postgres::Database::open(server).map(Database::Postgres),
        }
    }

    /// Commits all of them in one transaction, or none. See the databases' own.
    fn commit(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Uuid>, StoreError> {
        match self {
            Database::Sqlite(database) => database.commit(jobs, changes, ids, doubtful),
            Database::Postgres(database) => database.commit(jobs, changes, ids, doubtful),
        }
    }

    /// Leaves nothing of what was removed in the log, where that is ours to decide; see [`super::Store::empty_log`].
    fn empty_log(&self) -> Result<bool, StoreError> {
        match self {
            Database::Sqlite(database) => database.empty_log(),
            Database::Postgres(_) => Ok(true),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// However the writer ends, nobody goes on waiting for it.
struct End<'a>(&'a WriteQueue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The writer's own: the database, unless it has failed and is to be opened again.
struct Work {
    place: Place,
    /// Outlives the database, so that ids ascend even from one to the next.
    ids: Ids,
    /// What a failed commit may have left behind.
    doubtful: Vec<Doubt>,
    /// Before the database, so that it has let go of it when that is closed. There is none for a server.
    copier: Option<Copier>,
    database: Option<Database>,
}

impl Work {
    fn work(mut self, queue: &WriteQueue) {
        while let Some(mut batch) = queue.take(!self.doubtful.is_empty()) {
            let mut outcome = if batch.only_looks {
                self.look().map(|()| Vec::new())
            } else {
                self.commit(&batch.jobs, &mut batch.changes)
            };
            if let Err(error) = &outcome
                && !matches!(error, StoreError::Locked)
                && !batch.jobs.is_empty()
                && !batch.changes.is_empty()
            {
                // The cause may be a change, such as one that finds no room on the disk. Visitors are not refused for that: their
                // submissions are tried again without the changes.
                for change in batch.changes.drain(..) {
                    change.answer(Err(error.clone()));
                }
                outcome = self.commit(&batch.jobs, &mut []);
            }
            queue.note(outcome.as_ref().err().cloned());
            for check in batch.checks {
                let _ = check.send(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
            }
            for emptying in batch.emptyings {
                let emptied = match &self.database {
                    Some(database) => database.empty_log(),
                    None => Ok(false),
                };
                let _ = emptying.send(emptied);
            }
            for change in batch.changes {
                change.answer(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
            }
            match outcome {
                Ok(accepted) => {
                    if !batch.jobs.is_empty() {
                        queue.arrived.ring();
                    }
                    // Whoever has stopped waiting has no use for the answer.
                    for (answer, id) in batch.answers.into_iter().zip(accepted) {
                        let _ = answer.send(Ok(id));
                    }
                    self.follow_up();
                }
                Err(error) => {
                    for answer in batch.answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Whether the database is there, without writing anything.
    fn look(&mut self) -> Result<(), StoreError> {
        match &mut self.database {
            Some(Database::Postgres(database)) => database.look(),
            _ => Ok(()),
        }
    }

    /// What nobody waits for.
    fn follow_up(&mut self) {
        match &mut self.database {
            Some(Database::Sqlite(database)) => {
                let (changed, files) = (database.changed(), || Some(database.files()));
                if self.copier.as_mut().is_some_and(|copier| copier.is_due(changed, files)) {
                    database.copy_log();
                }
            }
            Some(Database::Postgres(_)) | None => {}
        }
    }

    /// Where the file had been taken away, once more with a new one.
    fn commit(&mut self, jobs: &[Job], changes: &mut [Box<dyn Change>]) -> Result<Vec<Uuid>, StoreError> {
        match self.try_commit(jobs, changes) {
            Err(StoreError::Moved) => self.try_commit(jobs, changes),
            outcome => outcome,
        }
    }

    fn try_commit(&mut self, jobs: &[Job], changes: &mut [Box<dyn Change>]) -> Result<Vec<Uuid>, StoreError> {
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert(Database::open(&self.place)?),
        };
        let outcome = database.commit(jobs, changes, &mut self.ids, &mut self.doubtful);
        // A lock or a full disk says nothing against the connection.
        if outcome.as_ref().is_err_and(|error| !matches!(error, StoreError::Locked | StoreError::Full)) {
            self.database = None;
        }
        outcome
    }
}
