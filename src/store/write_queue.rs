//! What waits for the writer: submissions, changes, and questions whether all is well.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::processor::WakeUp;
use super::sql::change::{Change, Changing};
use super::{Job, StoreError};

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
/// This many submissions in one batch are a crowd, and it is over when none has come for so long.
const CROWD: usize = 8;
const CROWD_LASTS: Duration = Duration::from_millis(10);
/// How long a write may take before submissions count as not being kept.
const SLOW: Duration = Duration::from_secs(5);

/// Where the outcome goes that somebody waits for.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;
/// Where it comes from.
pub(super) type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;

/// What waits for the writer, and what it last found.
#[derive(Default)]
pub(super) struct WriteQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Told after deliveries were queued.
    pub queued: Notify,
    /// Wakes the processor after each batch that was accepted.
    pub arrived: WakeUp,
    /// How often the writer looks whether the database is there while nothing is to be done. A file needs no looking after; a server may
    /// be gone, and whoever asks for the store's health is to hear of it before a visitor does.
    look_every: Option<Duration>,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// Of the fields of all submissions.
    bytes: usize,
    /// When the batch began that is being written.
    began: Option<Instant>,
    /// When the last batch began with a crowd of submissions.
    crowded_at: Option<Instant>,
    closed: bool,
    failure: Option<StoreError>,
}

/// What the writer does in one go. `answers` belong to `jobs`, one by one.
#[derive(Default)]
pub(super) struct Batch {
    pub jobs: Vec<Job>,
    pub answers: Vec<Answer<Uuid>>,
    pub changes: Vec<Box<dyn Change>>,
    pub checks: Vec<Answer<()>>,
    pub emptyings: Vec<Answer<bool>>,
    /// Nothing is to be done, and all was well.
    pub only_looks: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.changes.is_empty() && self.checks.is_empty() && self.emptyings.is_empty()
    }
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

impl WriteQueue {
    /// For a server: the writer looks at times whether it is there.
    pub fn probed() -> WriteQueue {
        WriteQueue { look_every: Some(LOOK_EVERY), ..WriteQueue::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues something, unless the queue is closed, and wakes the writer where `add` says so.
    fn push<T>(
        &self,
        add: impl FnOnce(&mut Waiting, Answer<T>) -> Result<bool, StoreError>,
    ) -> Result<Answered<T>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        let is_to_wake = add(&mut waiting, answer)?;
        drop(waiting);
        if is_to_wake {
            self.changed.notify_one();
        }
        Ok(answered)
    }

    /// Has a submission committed with the next batch.
    pub async fn accept(&self, job: Job) -> Result<Uuid, StoreError> {
        let answered = self.push(|waiting, answer| {
            let (bytes, batch) = (waiting.bytes + job.fields.len(), &mut waiting.batch);
            if batch.jobs.len() >= MAX_WAITING || (bytes > MAX_WAITING_BYTES && !batch.jobs.is_empty()) {
                return Err(StoreError::Overloaded);
            }
            waiting.bytes = bytes;
            batch.jobs.push(job);
            batch.answers.push(answer);
            Ok(batch.jobs.len() == 1)
        })?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Has something written with the next batch. What it found comes once that is committed. There are as many of these as there are
    /// attempts under way, and a few more: no limit is needed.
    pub fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Answered<T>, StoreError> {
        self.push(|waiting, answer| {
            let found = Err(StoreError::Closed);
            waiting.batch.changes.push(Box::new(Awaited { apply, found, answer }));
            Ok(true)
        })
    }

    /// Asks whether the database takes writes.
    pub async fn check(&self) -> Result<(), StoreError> {
        let answered = self.push(|waiting, answer| {
            if waiting.batch.checks.len() >= MAX_WAITING {
                return Err(StoreError::Overloaded);
            }
            waiting.batch.checks.push(answer);
            Ok(true)
        })?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// See [`Store::empty_log`](super::Store::empty_log).
    pub async fn empty_log(&self) -> Result<bool, StoreError> {
        let answered = self.push(|waiting, answer| {
            waiting.batch.emptyings.push(answer);
            Ok(true)
        })?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Whether submissions wait to be accepted at this moment, or come in crowds.
    pub fn is_busy(&self) -> bool {
        let waiting = self.lock();
        !waiting.batch.jobs.is_empty() || waiting.crowded_at.is_some_and(|at| at.elapsed() < CROWD_LASTS)
    }

    /// How the last write went; see [`Store::health`](super::Store::health).
    pub fn health(&self) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.began.is_some_and(|began| began.elapsed() > SLOW) {
            return Err(StoreError::Slow);
        }
        Ok(())
    }

    /// From now on nothing is queued; what waits is still written.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes the queue and lets go of whoever waits.
    pub fn abandon(&self) {
        *self.lock() = Waiting { closed: true, ..Waiting::default() };
    }

    /// Everything that waits, once there is something, or nothing where it is time for a probe: after a failure, or while something
    /// is in doubt. `None` once the queue is closed and empty.
    pub fn take(&self, is_in_doubt: bool) -> Option<Batch> {
        let mut waiting = self.lock();
        while waiting.batch.is_empty() {
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
        let only_looks = waiting.batch.is_empty() && waiting.failure.is_none() && !is_in_doubt;
        let now = Instant::now();
        waiting.bytes = 0;
        waiting.began = Some(now);
        if waiting.batch.jobs.len() >= CROWD {
            waiting.crowded_at = Some(now);
        }
        Some(Batch { only_looks, ..mem::take(&mut waiting.batch) })
    }

    /// Notes how the last write went, and says so where that has changed.
    pub fn note(&self, failure: Option<StoreError>) {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Where log lines go: it looks whether the queue can be had meanwhile.
    struct Line(Arc<WriteQueue>, Arc<AtomicBool>);

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
        let (queue, was_free) = (Arc::new(WriteQueue::default()), Arc::new(AtomicBool::new(false)));
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
