//! A bounded queue of submissions, and the thread that asks rspamd about them.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use frontdesk_fetch::FetchClient;
use frontdesk_process::panics::{self, Part};
use tokio::sync::{Notify, Semaphore, mpsc};
use uuid::Uuid;

use crate::breaker::{Breaker, Change};
use crate::client;
use crate::message::Content;
use crate::options::RspamdOptions;
use crate::reply::Opinion;

/// The maximum number of submissions queued for rspamd. Further submissions get no opinion.
const CAPACITY: usize = 256;
/// The maximum number of concurrent requests to rspamd.
const CONCURRENCY: usize = 8;

/// A request for rspamd's opinion on a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpinionRequest {
    pub id: Uuid,
    pub content: Content,
    /// When the submission's deliveries would be due if rspamd were off, as Unix time in milliseconds.
    pub usual_due_at: i64,
    /// When the submission's deliveries are due if no opinion arrives, as Unix time in milliseconds.
    pub due_at: i64,
}

/// Records the result for a submission: `None` if rspamd was not asked or gave no usable answer. Not called
/// for a submission whose request panics.
pub type Record = Box<dyn Fn(OpinionRequest, Option<Opinion>) -> Recording + Send + Sync>;
type Recording = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The number of requests with each result since the process started.
#[derive(Debug, Default)]
pub struct OpinionCounts {
    pub clean: AtomicU64,
    pub spam: AtomicU64,
    /// Requests that got no usable answer in time.
    pub failed: AtomicU64,
}

/// Asks rspamd about submissions, on a thread that starts with the first one. Dropping the queue forgets
/// those that wait, cancels requests in progress, and waits for the thread to end.
pub struct OpinionQueue {
    shared: Arc<Shared>,
    worker: Mutex<Option<Worker>>,
}

struct Shared {
    record: Record,
    counts: Arc<OpinionCounts>,
    server: Mutex<Server>,
    stop: Notify,
}

/// The options of the rspamd server, and the circuit breaker for requests to it.
#[derive(Default)]
struct Server {
    options: Option<Arc<RspamdOptions>>,
    breaker: Breaker,
}

struct Worker {
    sender: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

struct Job {
    options: Arc<RspamdOptions>,
    request: OpinionRequest,
}

impl OpinionQueue {
    pub fn new(record: Record, counts: Arc<OpinionCounts>) -> OpinionQueue {
        let (server, stop) = (Mutex::default(), Notify::new());
        OpinionQueue { shared: Arc::new(Shared { record, counts, server, stop }), worker: Mutex::new(None) }
    }

    /// The number of submissions that can be pushed now. Zero while the circuit breaker is open; one for the
    /// trial after each pause. Resets the breaker if the options have changed.
    pub fn room(&self, options: &Arc<RspamdOptions>, now: Instant) -> usize {
        let mut server = self.shared.server();
        if server.options.as_ref() != Some(options) {
            *server = Server { options: Some(options.clone()), breaker: Breaker::default() };
        }
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let free = worker.as_ref().map_or(CAPACITY, |worker| worker.sender.capacity());
        server.breaker.allowance(now).min(free)
    }

    /// Queues submissions without blocking, and starts the thread if it is not running. The caller passes at
    /// most [`OpinionQueue::room`] of them. Drops those for which the queue has no space, or all, after
    /// logging an error, if the thread cannot start. [`Record`] is not called for dropped ones.
    pub fn push(&self, options: &Arc<RspamdOptions>, requests: Vec<OpinionRequest>) {
        if requests.is_empty() {
            return;
        }
        // Hold the lock until the trial is marked, so that the thread cannot handle the request earlier.
        let mut server = self.shared.server();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            match start(self.shared.clone()) {
                Ok(started) => *worker = Some(started),
                Err(error) => {
                    return tracing::error!(%error, "cannot start the thread that asks rspamd; submissions are delivered without its opinion");
                }
            }
        }
        let Some(worker) = &*worker else { return };
        for request in requests {
            // If the queue is full, drop the request: the submission is then delivered without an opinion.
            if worker.sender.try_send(Job { options: options.clone(), request }).is_ok() {
                // Only a queued request can end a trial of the circuit breaker.
                server.breaker.begin();
            }
        }
    }
}

impl Drop for OpinionQueue {
    /// Discards waiting submissions, cancels requests in progress, and waits for the thread to end.
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { sender, thread }) = worker {
            self.shared.stop.notify_one();
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Starts the thread that sends requests to rspamd.
fn start(shared: Arc<Shared>) -> std::io::Result<Worker> {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = move || {
        runtime.block_on(async {
            tokio::select! {
                () = shared.stop.notified() => {}
                () = serve(&shared, receiver) => {}
            }
        });
        // Do not wait for DNS lookups in progress.
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name("opinion".to_owned()).spawn(work)?;
    Ok(Worker { sender, thread })
}

/// Asks about each submission, up to [`CONCURRENCY`] at a time, until the queue is closed. A panic is logged
/// and counts as a failure; no result is recorded for its submission.
async fn serve(shared: &Arc<Shared>, mut receiver: mpsc::Receiver<Job>) {
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let mut current: Option<(Arc<RspamdOptions>, Arc<FetchClient>)> = None;
    while let Some(job) = receiver.recv().await {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let client = match &current {
            Some((options, client)) if *options == job.options => client.clone(),
            _ => {
                let client = Arc::new(client::client(&job.options));
                current.insert((job.options.clone(), client)).1.clone()
            }
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let id = job.request.id;
            let done = panics::catch_async(Part::Submission, handle(&shared, job, &client)).await;
            if let Err(panic) = done {
                tracing::error!(%id, "{panic}: a submission gets no opinion from rspamd, and is delivered without it");
                shared.note_failure("a defect in frontdesk");
            }
            drop(slot);
        });
    }
}

/// Asks about one submission, and records the opinion; none if there is no usable answer. Does not ask during
/// a pause, which may have begun after the submission was queued.
async fn handle(shared: &Shared, job: Job, client: &FetchClient) {
    let Job { options, request } = job;
    if shared.server().breaker.is_paused() {
        return (shared.record)(request, None).await;
    }
    panics::inject("opinion", request.id);
    let answer = client::ask(client, &options, request.id, &request.content).await;
    match &answer {
        Ok(opinion) => shared.note_answer(opinion),
        Err(why) => shared.note_failure(why),
    }
    (shared.record)(request, answer.ok()).await;
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an opinion, and ends a pause of the circuit breaker. Logs the end of a pause.
    fn note_answer(&self, opinion: &Opinion) {
        let count = if *opinion == Opinion::Clean { &self.counts.clean } else { &self.counts.spam };
        count.fetch_add(1, Relaxed);
        if self.server().breaker.succeed() == Some(Change::Resumed) {
            tracing::info!("rspamd answers again");
        }
    }

    /// Counts a request without a usable answer. Logs `why` only if a pause begins.
    fn note_failure(&self, why: &str) {
        self.counts.failed.fetch_add(1, Relaxed);
        if let Some(Change::Paused(pause)) = self.server().breaker.fail(Instant::now()) {
            let seconds = pause.as_secs();
            tracing::warn!(
                why,
                "rspamd gives no usable answer; submissions are delivered without its opinion, and it is asked again in {seconds} seconds"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_trial_that_a_full_queue_drops_is_not_begun() {
        let record: Record = Box::new(|_, _| Box::pin(async {}));
        let queue = OpinionQueue::new(record, Arc::default());
        let (sender, mut receiver) = mpsc::channel(1);
        *queue.worker.lock().unwrap() = Some(Worker { sender, thread: thread::spawn(|| {}) });
        let url = RspamdOptions::parse_url("http://127.0.0.1:11333").unwrap();
        let options = Arc::new(RspamdOptions { url, password: None, timeout: Duration::from_secs(1) });
        let content = Content {
            form: "contact".to_owned(),
            from: None,
            texts: Vec::new(),
            received_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let request = OpinionRequest { id: Uuid::nil(), content, usual_due_at: 0, due_at: 0 };
        let now = Instant::now();
        assert_eq!(queue.room(&options, now), 1);
        queue.push(&options, vec![request.clone()]);
        (0..5).for_each(|_| queue.shared.note_failure("a failure"));
        let after_pause = now + Duration::from_mins(1);
        assert_eq!(queue.room(&options, after_pause), 0, "the queue is full");
        queue.push(&options, vec![request.clone()]);
        assert!(receiver.try_recv().is_ok() && receiver.try_recv().is_err());
        assert_eq!(queue.room(&options, after_pause), 1, "the trial is still permitted");
        queue.push(&options, vec![request]);
        assert!(receiver.try_recv().is_ok());
        assert_eq!(queue.room(&options, after_pause), 0, "the trial is in progress");
    }
}
