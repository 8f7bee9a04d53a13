//! The one thread that writes: takes everything that waits, commits it together, then answers each.

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::answers::{Answered, Answers};
use super::ids::Ids;
use super::sqlite::{Change, Changing, Database, copier::Copier};
use super::{Accepted, Arrival, Job, Options, StoreError};

/// How many submissions may wait, and so the most that one transaction holds.
const MAX_WAITING: usize = 4096;
/// How many bytes of fields may wait. One submission always fits.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// After a failure, how long until the writer tries by itself.
const PROBE_EVERY: Duration = Duration::from_secs(1);

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct Writer {
    /// What holds for a submission when it arrives. It goes along with it, so that nothing changes under its feet.
    options: ArcSwap<Options>,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let queue = Arc::new(Queue::default());
        let database = match Database::open(&options.path) {
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
            let (queue, path) = (Arc::clone(&queue), options.path.clone());
            move || {
                let _end = End(&queue);
                let copier = Copier::start(&path);
                Work { path, ids, doubtful: Vec::new(), copier, database }.work(&queue);
            }
        });
        let thread = thread.map_err(|error| StoreError::io("inbox-writer".as_ref(), error))?;
        Ok(Writer { options: ArcSwap::from_pointee(options), queue, thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn accept(&self, arrival: Arrival) -> Result<Accepted, StoreError> {
        let job = Job::new(arrival, self.options.load_full())?;
        self.queue.push(job)?.await
    }

    pub(super) fn reconfigure(&self, options: Options) {
        self.options.store(Arc::new(options));
    }

    /// Has something written with the next batch, and returns what it found once that is committed.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.push_change(Box::new(Awaited { apply, found: Err(StoreError::Closed), answer }))?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Told after each commit that has queued deliveries.
    pub(super) fn queued(&self) -> &Notify {
        &self.queue.queued
    }

    pub(super) async fn check(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.push_check(answer)?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Has the log copied into the database and cut off, and says whether that was possible.
    pub(super) async fn empty_log(&self) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.push_emptying(answer)?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) fn health(&self) -> Result<(), StoreError> {
        let waiting = self.queue.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        waiting.failure.clone().map_or(Ok(()), Err)
    }

    pub(super) fn close(&self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the inbox's writer had failed before it was closed");
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
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    queued: Notify,
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    answers: Answers<Accepted>,
    changes: Vec<Box<dyn Change>>,
    checks: Vec<Answer<()>>,
    emptyings: Vec<Answer<bool>>,
    bytes: usize,
    closed: bool,
    failure: Option<StoreError>,
}

/// What the writer does in one go. `answers` belong to `jobs`, one by one.
struct Batch {
    jobs: Vec<Job>,
    answers: Answers<Accepted>,
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
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) -> Result<Answered<Accepted>, StoreError> {
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
        let answered = waiting.answers.ask();
        let is_first = waiting.jobs.len() == 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
        Ok(answered)
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

    /// Everything that waits, once there is something, or nothing where it is time for a probe. `None` once
    /// the queue is closed and empty.
    fn take(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        while waiting.is_empty() {
            if waiting.closed {
                return None;
            }
            if waiting.failure.is_none() {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (again, timeout) =
                self.changed.wait_timeout(waiting, PROBE_EVERY).unwrap_or_else(PoisonError::into_inner);
            waiting = again;
            if timeout.timed_out() {
                break;
            }
        }
        waiting.bytes = 0;
        Some(Batch {
            jobs: mem::take(&mut waiting.jobs),
            answers: mem::take(&mut waiting.answers),
            changes: mem::take(&mut waiting.changes),
            checks: mem::take(&mut waiting.checks),
            emptyings: mem::take(&mut waiting.emptyings),
        })
    }

    /// Notes how the last write went, and says so where that has changed.
    fn note(&self, failure: Option<StoreError>) {
        let before = mem::replace(&mut self.lock().failure, failure.clone());
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
    path: PathBuf,
    /// Outlives the database, so that ids ascend even from one to the next.
    ids: Ids,
    /// What a failed commit may have left behind.
    doubtful: Vec<Uuid>,
    /// Before the database, so that it has let go of it when that is closed.
    copier: Copier,
    database: Option<Database>,
}

impl Work {
    fn work(mut self, queue: &Queue) {
        while let Some(mut batch) = queue.take() {
            let outcome = self.keep(&batch.jobs, &mut batch.changes);
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
                    if batch.jobs.iter().any(|job| job.channels().next().is_some()) {
                        queue.queued.notify_one();
                    }
                    batch.answers.give(accepted.into_iter().map(Ok));
                    if let Some(database) = &self.database
                        && self.copier.is_due(database.changed(), || Some(database.files()))
                    {
                        database.copy_log();
                    }
                }
                Err(error) => batch.answers.give(batch.jobs.iter().map(|_| Err(error.clone()))),
            }
        }
    }

    /// Where the file had been taken away, once more with a new one.
    fn keep(&mut self, jobs: &[Job], changes: &mut [Box<dyn Change>]) -> Result<Vec<Accepted>, StoreError> {
        match self.try_keep(jobs, changes) {
            Err(StoreError::Moved) => self.try_keep(jobs, changes),
            outcome => outcome,
        }
    }

    fn try_keep(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
    ) -> Result<Vec<Accepted>, StoreError> {
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert(Database::open(&self.path)?),
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
