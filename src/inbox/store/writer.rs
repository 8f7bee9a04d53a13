//! The one thread that writes: takes everything that waits, commits it together, then answers each.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, oneshot, watch};
use uuid::Uuid;

use super::ids::Ids;
use super::processor::{Counts, Processor, WakeUp};
use super::sql::change::{Change, Changing};
use super::sqlite::copier::Copier;
use super::sqlite::files::create_folder;
use super::{Arrival, Doubt, Job, Options, Place, StoreError, postgres, sqlite};
use crate::inbox::screen::Repeats;

/// How many submissions may wait, and so the most that one transaction holds.
const MAX_WAITING: usize = 4096;
/// How many bytes of fields may wait. One submission always fits.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// After a failure, how long until the writer tries by itself.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// While all is well, how often it looks whether a server is still there.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// After a success that has left something in doubt, how long until the writer looks for it.
const LOOK_FOR_DOUBTFUL: Duration = Duration::from_millis(50);
/// How long a write may take before submissions count as not being kept.
const SLOW: Duration = Duration::from_secs(5);

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct Writer {
    /// What holds for a submission when it arrives, and from then on also when it is processed.
    options: Arc<ArcSwap<Options>>,
    /// What is to be kept.
    submissions: Arc<Queue>,
    /// What is to be changed beside that. The same queue where one transaction takes both; with a server, what takes several exchanges
    /// must hold up no visitor.
    changes: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    processor: Processor,
    /// Which messages came more than once lately.
    messages: Arc<Repeats>,
}

/// A change, and whoever waits for what it finds.
struct Awaited<T, F> {
    apply: F,
    found: Result<T, StoreError>,
    answer: Answer<T>,
}

impl<T: Send, F: FnMut(&Changing<'_>) -> Result<T, StoreError> + Send> Change for Awaited<T, F> {
    fn apply(&mut self, tx: &Changing<'_>) -> Result<(), StoreError> {
        self.found = (self.apply)(tx);
        self.found.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // Whoever has stopped waiting has no use for the answer.
        let _ = self.answer.send(committed.and(self.found));
    }
}

impl Writer {
    pub(super) fn start(options: Options) -> Result<Writer, StoreError> {
        let (submissions, changes) = match options.place {
            Place::Sqlite(_) => {
                let queue = Arc::new(Queue::default());
                (queue.clone(), queue)
            }
            Place::Postgres(_) => (Arc::new(Queue::probed()), Arc::new(Queue::probed())),
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

    pub(super) async fn accept(&self, arrival: Arrival) -> Result<Uuid, StoreError> {
        let job = Job::new(arrival, self.options.load_full(), &self.messages)?;
        self.submissions.push(job)?.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn reconfigure(&self, options: Options) {
        self.options.store(Arc::new(options));
    }

    /// Has something written with the next batch, and returns what it found once that is committed.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.changes.change(apply)?.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn counts(&self) -> &Counts {
        self.processor.counts()
    }

    /// Told after each batch that was processed.
    pub(super) fn processed(&self) -> watch::Receiver<()> {
        self.processor.processed()
    }

    /// Told after deliveries were queued.
    pub(super) fn queued(&self) -> &Notify {
        &self.submissions.queued
    }

    pub(super) async fn check(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.submissions.push_check(answer)?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Has the log copied into the database and cut off, and says whether that was possible.
    pub(super) async fn empty_log(&self) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.changes.push_emptying(answer)?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn health(&self) -> Result<(), StoreError> {
        for queue in [&self.submissions, &self.changes] {
            let waiting = queue.lock();
            if waiting.closed {
                return Err(StoreError::Closed);
            }
            if let Some(failure) = &waiting.failure {
                return Err(failure.clone());
            }
            if waiting.began.is_some_and(|began| began.elapsed() > SLOW) {
                return Err(StoreError::Slow);
            }
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.processor.stop();
        for queue in [&self.submissions, &self.changes] {
            queue.lock().closed = true;
            queue.changed.notify_all();
        }
        // Whoever waits for something to be processed hears that the store is closed.
        self.processor.wake_waiting();
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the inbox's writer had failed before it was closed");
            }
        }
    }
}

/// Opens the database and has a thread of its own write to it what is in the queue. Creates the data folder: this is the only time.
fn start(place: &Place, queue: &Arc<Queue>) -> Result<JoinHandle<()>, StoreError> {
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
    let ids = Ids::new().map_err(|error| StoreError::io("/dev/urandom".as_ref(), error))?;
    let thread = thread::Builder::new().name("inbox-writer".to_owned()).spawn({
        let (queue, place) = (Arc::clone(queue), place.clone());
        move || {
            let _end = End(&queue);
            let copier = place.file().map(Copier::start);
            Work { place, ids, doubtful: Vec::new(), copier, database }.work(&queue);
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
    fn keep(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Uuid>, StoreError> {
        match self {
            Database::Sqlite(database) => database.keep(jobs, changes, ids, doubtful),
            Database::Postgres(database) => database.keep(jobs, changes, ids, doubtful),
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

/// What waits for the writer, and what it last found.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pub queued: Notify,
    /// Wakes the processor after each batch that was accepted.
    pub arrived: WakeUp,
    /// How often the writer looks whether the database is there while nothing is to be done. A file needs no looking after; a server may
    /// be gone, and whoever asks for the store's health is to hear of it before a visitor does.
    look_every: Option<Duration>,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    answers: Vec<Answer<Uuid>>,
    changes: Vec<Box<dyn Change>>,
    checks: Vec<Answer<()>>,
    emptyings: Vec<Answer<bool>>,
    bytes: usize,
    /// When the batch began that is being written.
    began: Option<Instant>,
    closed: bool,
    failure: Option<StoreError>,
}

/// What the writer does in one go. `answers` belong to `jobs`, one by one.
struct Batch {
    /// Nothing is to be done, and all was well.
    only_looks: bool,
    jobs: Vec<Job>,
    answers: Vec<Answer<Uuid>>,
    changes: Vec<Box<dyn Change>>,
    checks: Vec<Answer<()>>,
    emptyings: Vec<Answer<bool>>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.changes.is_empty() && self.checks.is_empty() && self.emptyings.is_empty()
    }
}

impl Queue {
    fn probed() -> Queue {
        Queue { look_every: Some(LOOK_EVERY), ..Queue::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) -> Result<oneshot::Receiver<Result<Uuid, StoreError>>, StoreError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        let bytes = waiting.bytes + job.fields.len();
        if waiting.jobs.len() >= MAX_WAITING || (bytes > MAX_WAITING_BYTES && !waiting.jobs.is_empty()) {
            return Err(StoreError::Overloaded);
        }
        waiting.bytes = bytes;
        waiting.jobs.push(job);
        let (answer, answered) = oneshot::channel();
        waiting.answers.push(answer);
        let is_first = waiting.jobs.len() == 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
        Ok(answered)
    }

    /// Has something written with the next batch. What it found comes once that is committed.
    pub fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.push_change(Box::new(Awaited { apply, found: Err(StoreError::Closed), answer }))?;
        Ok(answered)
    }

    /// Whether submissions wait to be accepted at this moment.
    pub fn is_busy(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// There are as many of these as there are attempts under way, and a few more: no limit is needed.
    fn push_change(&self, change: Box<dyn Change>) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        waiting.changes.push(change);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    fn push_emptying(&self, answer: Answer<bool>) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        waiting.emptyings.push(answer);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    fn push_check(&self, answer: Answer<()>) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        if waiting.checks.len() >= MAX_WAITING {
            return Err(StoreError::Overloaded);
        }
        waiting.checks.push(answer);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Everything that waits, once there is something, or nothing where it is time for a probe: after a failure, or while something
    /// is in doubt. `None` once the queue is closed and empty.
    fn take(&self, is_in_doubt: bool) -> Option<Batch> {
        let mut waiting = self.lock();
        while waiting.is_empty() {
            if waiting.closed {
                return None;
            }
            let probe = match &waiting.failure {
                Some(_) => Some(PROBE_EVERY),
                None if is_in_doubt => Some(LOOK_FOR_DOUBTFUL),
                None => self.look_every,
            };
            let Some(probe) = probe else {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (again, timeout) =
                self.changed.wait_timeout(waiting, probe).unwrap_or_else(PoisonError::into_inner);
            waiting = again;
            if timeout.timed_out() {
                break;
            }
        }
        waiting.bytes = 0;
        waiting.began = Some(Instant::now());
        Some(Batch {
            only_looks: waiting.is_empty() && waiting.failure.is_none() && !is_in_doubt,
            jobs: mem::take(&mut waiting.jobs),
            answers: mem::take(&mut waiting.answers),
            changes: mem::take(&mut waiting.changes),
            checks: mem::take(&mut waiting.checks),
            emptyings: mem::take(&mut waiting.emptyings),
        })
    }

    /// Notes how the last write went, and says so where that has changed.
    fn note(&self, failure: Option<StoreError>) {
        let before = {
            let mut waiting = self.lock();
            waiting.began = None;
            mem::replace(&mut waiting.failure, failure.clone())
        };
        // Said without the lock: whoever has standard error may be waiting for it.
        match (before, failure) {
            (None, Some(error)) => tracing::error!(%error, "submissions cannot be kept"),
            (Some(_), None) => tracing::info!("submissions are kept again"),
            _ => {}
        }
    }
}

/// However the writer ends, nobody goes on waiting for it.
struct End<'a>(&'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        *waiting = Waiting { closed: true, ..Waiting::default() };
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
    fn work(mut self, queue: &Queue) {
        while let Some(mut batch) = queue.take(!self.doubtful.is_empty()) {
            let mut outcome = if batch.only_looks {
                self.look().map(|()| Vec::new())
            } else {
                self.keep(&batch.jobs, &mut batch.changes)
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
                outcome = self.keep(&batch.jobs, &mut []);
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
    fn keep(&mut self, jobs: &[Job], changes: &mut [Box<dyn Change>]) -> Result<Vec<Uuid>, StoreError> {
        match self.try_keep(jobs, changes) {
            Err(StoreError::Moved) => self.try_keep(jobs, changes),
            outcome => outcome,
        }
    }

    fn try_keep(&mut self, jobs: &[Job], changes: &mut [Box<dyn Change>]) -> Result<Vec<Uuid>, StoreError> {
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert(Database::open(&self.place)?),
        };
        let outcome = database.keep(jobs, changes, &mut self.ids, &mut self.doubtful);
        // A lock or a full disk says nothing against the connection.
        if outcome.as_ref().is_err_and(|error| !matches!(error, StoreError::Locked | StoreError::Full)) {
            self.database = None;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Where log lines go: it looks whether the queue can be had meanwhile.
    struct Line(Arc<Queue>, Arc<AtomicBool>);

    impl std::io::Write for Line {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.store(self.0.waiting.try_lock().is_ok(), Ordering::Relaxed);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_said_of_a_failure_is_said_without_the_lock() {
        let (queue, was_free) = (Arc::new(Queue::default()), Arc::new(AtomicBool::new(false)));
        let log = {
            let (queue, was_free) = (queue.clone(), was_free.clone());
            move || Line(queue.clone(), was_free.clone())
        };
        let subscriber = tracing_subscriber::fmt().with_writer(log).finish();
        tracing::subscriber::with_default(subscriber, || {
            for failure in [Some(StoreError::Full), None] {
                was_free.store(false, Ordering::Relaxed);
                queue.note(failure);
                assert!(
                    was_free.load(Ordering::Relaxed),
                    "whoever asks for the store's health holds standard error"
                );
            }
        });
    }
}
