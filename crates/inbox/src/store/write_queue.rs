//! The queue in front of a writer: submissions and other changes.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::error::StoreError;
use super::sql::intake::Accepting;
use super::sql::transaction::{Change, Transaction};
use frontdesk_process::panics::{self, Part};

/// The maximum number of waiting submissions, and therefore of submissions in one transaction.
const MAX_WAITING: usize = 4096;
/// The maximum size in bytes of the fields of all waiting submissions, encrypted or not. One submission
/// always fits.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// The delay before the writer tries again after a failure, unless a request arrives earlier.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often the writer checks an idle database, so that the store's health shows a server that is down or a
/// file that has disappeared before a visitor's submission fails.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// The delay after a successful write before the writer removes the rows of unresolved commits.
const UNRESOLVED_PROBE_DELAY: Duration = Duration::from_millis(50);
/// A batch with at least this many submissions counts as a burst, which lasts for `BURST_DURATION`.
const MIN_BURST_SUBMISSIONS: usize = 8;
const BURST_DURATION: Duration = Duration::from_millis(10);
/// [`WriteQueue::has_visitors`] stays true for this long after the last submission was accepted.
const VISIT_DURATION: Duration = Duration::from_millis(50);
/// A write that takes longer than this makes the store unhealthy.
const MAX_WRITE_TIME: Duration = Duration::from_secs(5);

pub(super) type ResultSender<T> = oneshot::Sender<Result<T, StoreError>>;
pub(super) type ResultReceiver<T> = oneshot::Receiver<Result<T, StoreError>>;

/// The requests that are waiting for the writer, and the outcome of its last write.
#[derive(Default)]
pub(super) struct WriteQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// The total size in bytes of the fields of all waiting submissions, encrypted or not.
    bytes: usize,
    /// When the writer took the current batch; `None` while it is idle.
    began: Option<Instant>,
    /// When the last burst began.
    burst_at: Option<Instant>,
    /// When the writer last took submissions or finished writing them.
    visited_at: Option<Instant>,
    /// Whether another thread is running a checkpoint, which copies SQLite's write-ahead log into the
    /// database.
    is_copying: bool,
    closed: bool,
    failure: Option<StoreError>,
}

impl Waiting {
    /// Whether the writer is committing a batch that contains submissions: then
    /// [`WriteQueue::take_batch`] has set both times to the same instant.
    fn is_writing_submissions(&self) -> bool {
        self.began.is_some() && self.began == self.visited_at
    }
}

/// A caller that is waiting for its submission to be stored.
pub(super) struct Caller {
    answer: ResultSender<Uuid>,
    /// The runtime of the caller's thread; `None` outside of a runtime.
    runtime: Option<Handle>,
}

/// Reports the outcomes of a batch's submissions. Wakes each runtime once, however many callers it has:
/// waking a runtime of another thread takes a system call. Ignores callers that have stopped waiting, such as
/// those of a runtime that has ended.
pub(super) fn answer_callers(callers: Vec<Caller>, outcomes: Vec<Result<Uuid, StoreError>>) {
    let mut by_runtime: Vec<(Handle, Vec<_>)> = Vec::new();
    for (Caller { answer, runtime }, outcome) in callers.into_iter().zip(outcomes) {
        let Some(runtime) = runtime else {
            let _ = answer.send(outcome);
            continue;
        };
        match by_runtime.iter_mut().find(|(known, _)| known.id() == runtime.id()) {
            Some((_, answers)) => answers.push((answer, outcome)),
            None => by_runtime.push((runtime, vec![(answer, outcome)])),
        }
    }
    for (runtime, answers) in by_runtime {
        runtime.spawn(async move {
            for (answer, outcome) in answers {
                let _ = answer.send(outcome);
            }
        });
    }
}

/// The requests of one batch. `callers` and `jobs` have the same order.
#[derive(Default)]
pub(super) struct Batch {
    pub jobs: Vec<Accepting>,
    pub callers: Vec<Caller>,
    pub changes: Vec<Box<dyn Change>>,
    pub wal_truncations: Vec<ResultSender<bool>>,
    /// Whether the batch is empty, and the writer only checks an idle, healthy database.
    pub is_idle_check: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.changes.is_empty() && self.wal_truncations.is_empty()
    }
}

/// A change, and the caller that is waiting for its result.
struct PendingChange<T, F> {
    apply: F,
    found: Result<T, StoreError>,
    answer: ResultSender<T>,
}

impl<T: Send, F: FnMut(&Transaction<'_>) -> Result<T, StoreError> + Send> Change for PendingChange<T, F> {
    /// Applies the change, and keeps its result for `answer`. A panic becomes [`StoreError::Panicked`].
    fn apply(&mut self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        // After an error, the writer rolls the change back.
        self.found = panics::catch(Part::Submission, || (self.apply)(tx))
            .unwrap_or_else(|panic| Err(StoreError::Panicked(panic.to_string())));
        self.found.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // Ignore a caller that has stopped waiting.
        let _ = self.answer.send(committed.and(self.found));
    }
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, and wakes the writer if `add` returns true. Fails if the queue is closed or `add`
    /// fails.
    fn push<T>(
        &self,
        add: impl FnOnce(&mut Waiting, ResultSender<T>) -> Result<bool, StoreError>,
    ) -> Result<ResultReceiver<T>, StoreError> {
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

    /// Commits a submission with the next batch, and returns its id. Fails at once with
    /// [`StoreError::Overloaded`] if the queue has too many submissions or bytes.
    pub async fn accept(&self, job: Accepting) -> Result<Uuid, StoreError> {
        let answered = self.push(|waiting, answer| {
            let size = job.fields.len() + job.sealed.as_ref().map_or(0, Vec::len);
            let (bytes, batch) = (waiting.bytes + size, &mut waiting.batch);
            if batch.jobs.len() >= MAX_WAITING || (bytes > MAX_WAITING_BYTES && !batch.jobs.is_empty()) {
                return Err(StoreError::Overloaded);
            }
            waiting.bytes = bytes;
            batch.jobs.push(job);
            batch.callers.push(Caller { answer, runtime: Handle::try_current().ok() });
            Ok(batch.jobs.len() == 1)
        })?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Adds a change to the next batch, and returns the receiver of its result, which is sent after the
    /// commit. `apply` may be called more than once. Changes need no limit of their own, because the number
    /// of delivery attempts at a time is limited.
    pub fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<ResultReceiver<T>, StoreError> {
        self.push(|waiting, answer| {
            let found = Err(StoreError::Closed);
            waiting.batch.changes.push(Box::new(PendingChange { apply, found, answer }));
            Ok(true)
        })
    }

    /// Copies SQLite's write-ahead log into the database and truncates it, after the next batch. Returns
    /// false if a reader prevents that, or if the database is not open. Does nothing with PostgreSQL, and
    /// returns true.
    pub async fn truncate_wal(&self) -> Result<bool, StoreError> {
        let answered = self.push(|waiting, answer| {
            waiting.batch.wal_truncations.push(answer);
            Ok(true)
        })?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Whether submissions are waiting, or a burst has begun recently.
    pub fn is_busy(&self) -> bool {
        let waiting = self.lock();
        !waiting.batch.jobs.is_empty() || waiting.burst_at.is_some_and(|at| at.elapsed() < BURST_DURATION)
    }

    /// Whether submissions are waiting or being written, or one was accepted recently.
    pub fn has_visitors(&self) -> bool {
        let waiting = self.lock();
        !waiting.batch.jobs.is_empty()
            || waiting.is_writing_submissions()
            || waiting.visited_at.is_some_and(|at| at.elapsed() < VISIT_DURATION)
    }

    /// Whether a checkpoint was running after the last batch.
    pub fn is_copying(&self) -> bool {
        self.lock().is_copying
    }

    /// Records whether another thread is running a checkpoint.
    pub fn set_copying(&self, is_copying: bool) {
        self.lock().is_copying = is_copying;
    }

    /// Fails if the queue is closed, the last write failed, or the current write takes too long.
    pub fn health(&self) -> Result<(), StoreError> {
        let waiting = self.lock();
        match &waiting.failure {
            _ if waiting.closed => Err(StoreError::Closed),
            Some(failure) => Err(failure.clone()),
            None if waiting.began.is_some_and(|began| began.elapsed() > MAX_WRITE_TIME) => {
                Err(StoreError::Slow)
            }
            None => Ok(()),
        }
    }

    /// Refuses further requests; the writer still commits those in the queue.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes the queue and drops all requests. Their callers get an error.
    pub fn abandon(&self) {
        *self.lock() = Waiting { closed: true, ..Waiting::default() };
    }

    /// Waits for requests and takes all of them. Returns an empty batch when a probe is due: after a failure,
    /// while a commit is unresolved, or while the database is idle. Returns `None` once the queue is closed
    /// and empty. Call [`WriteQueue::record_outcome`] after each batch, also after an empty one: until then,
    /// the batch counts as being written.
    pub fn take_batch(&self, has_unresolved: bool) -> Option<Batch> {
        let mut waiting = self.lock();
        while waiting.batch.is_empty() {
            if waiting.closed {
                return None;
            }
            let probe = match &waiting.failure {
                Some(_) => RETRY_INTERVAL,
                None if has_unresolved => UNRESOLVED_PROBE_DELAY,
                None => IDLE_CHECK_INTERVAL,
            };
            let (again, timeout) =
                self.changed.wait_timeout(waiting, probe).unwrap_or_else(PoisonError::into_inner);
            waiting = again;
            if timeout.timed_out() {
                break;
            }
        }
        let is_idle_check = waiting.batch.is_empty() && waiting.failure.is_none() && !has_unresolved;
        let now = Instant::now();
        waiting.bytes = 0;
        waiting.began = Some(now);
        if !waiting.batch.jobs.is_empty() {
            waiting.visited_at = Some(now);
        }
        if waiting.batch.jobs.len() >= MIN_BURST_SUBMISSIONS {
            waiting.burst_at = Some(now);
        }
        Some(Batch { is_idle_check, ..mem::take(&mut waiting.batch) })
    }

    /// Stores the outcome of a write for [`WriteQueue::health`]. Logs the first failure, and the first
    /// success after failures.
    pub fn record_outcome(&self, failure: Option<StoreError>) {
        let before = {
            let mut waiting = self.lock();
            if waiting.is_writing_submissions() {
                waiting.visited_at = Some(Instant::now());
            }
            waiting.began = None;
            mem::replace(&mut waiting.failure, failure.clone())
        };
        // Log after releasing the lock: another thread may hold standard error while it waits for this lock.
        match (before, failure) {
            (None, Some(error)) => {
                tracing::error!(%error, "cannot write to the inbox, so submissions or other changes are refused; will check every second whether writing works again");
            }
            (Some(_), None) => tracing::info!("the inbox can be written to again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::intake::Arrival;
    use crate::testing::fixture::{contact, runtime};

    #[test]
    fn the_limit_of_waiting_bytes_counts_encrypted_fields() {
        let check = |fields_of_size: fn(usize) -> (String, Option<Vec<u8>>)| {
            let queue = WriteQueue::default();
            runtime().block_on(async {
                for size in [MAX_WAITING_BYTES, 1] {
                    let Arrival { entry, source, received_at, .. } = contact("hello");
                    let (fields, sealed) = fields_of_size(size);
                    let (idempotency_key, agent, evidence) = (None, None, String::new());
                    let job = Accepting {
                        entry,
                        idempotency_key,
                        source,
                        received_at,
                        agent,
                        fields,
                        sealed,
                        evidence,
                        channels: 0,
                        lead: None,
                        canary: None,
                    };
                    // No writer takes the submission, so it waits unless the queue refuses it at once.
                    let accepted = tokio::time::timeout(Duration::ZERO, queue.accept(job)).await;
                    let is_refused = matches!(accepted, Ok(Err(StoreError::Overloaded)));
                    assert_eq!(is_refused, size == 1);
                }
            });
        };
        check(|size| ("x".repeat(size), None));
        check(|size| ("{}".to_owned(), Some(vec![0; size])));
    }

    #[test]
    fn callers_of_several_runtimes_and_of_none_get_their_own_outcomes() {
        let (one, other) = (runtime(), runtime());
        let mut callers = Vec::new();
        let mut answered = Vec::new();
        for runtime in [Some(&one), None, Some(&other), Some(&one)] {
            let (answer, answer_of) = oneshot::channel();
            callers.push(Caller { answer, runtime: runtime.map(|runtime| runtime.handle().clone()) });
            answered.push((runtime.unwrap_or(&one), answer_of));
        }
        let ids = [1, 2, 3, 4].map(Uuid::from_u128);
        answer_callers(callers, ids.map(Ok).into());
        for ((runtime, answer), id) in answered.into_iter().zip(ids) {
            assert!(matches!(runtime.block_on(answer), Ok(Ok(found)) if found == id));
        }
    }

    #[test]
    fn visitors_wait_as_long_as_their_submissions_are_being_written() {
        let queue = WriteQueue::default();
        let mut waiting = queue.lock();
        let began = Instant::now().checked_sub(VISIT_DURATION * 2);
        (waiting.began, waiting.visited_at) = (began, began);
        drop(waiting);
        assert!(queue.has_visitors(), "the write is slow");
        queue.lock().began = None;
        assert!(!queue.has_visitors(), "there was no submission for a while");
    }

    /// A log output that checks whether the queue is locked.
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
    fn failures_are_logged_without_the_lock() {
        let (queue, was_free) = (Arc::new(WriteQueue::default()), Arc::new(AtomicBool::new(false)));
        let log = {
            let (queue, was_free) = (queue.clone(), was_free.clone());
            move || Line(queue.clone(), was_free.clone())
        };
        let subscriber = tracing_subscriber::fmt().with_writer(log).finish();
        tracing::subscriber::with_default(subscriber, || {
            for failure in [Some(StoreError::Full), None] {
                was_free.store(false, Ordering::Relaxed);
                queue.record_outcome(failure);
                assert!(
                    was_free.load(Ordering::Relaxed),
                    "the thread that asks for the store's health holds standard error"
                );
            }
        });
    }
}
