//! Caches the queue counts of the inbox: a background thread queries the database at most once every ten
//! seconds, so scrapes neither wait long for it nor put load on it.

#![expect(clippy::disallowed_methods, reason = "a count records the time at which it began")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use frontdesk_inbox::store::{CanaryStatus, DatabaseUrl, InboxReader, Queue};
use frontdesk_process::panics::{self, Part};

/// A count is reused for at least this long. A slow count is reused for longer ([`IDLE_FACTOR`]).
const MIN_LIFETIME: Duration = Duration::from_secs(10);

/// A count is reused for this many times as long as it took, so that counting uses at most a twentieth of one
/// core.
const IDLE_FACTOR: u32 = 20;

/// How long a scrape waits for a new count. After that, it uses the previous count, if there is one.
const MAX_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub(super) struct QueueCount {
    /// The state of the queue; `None` if the inbox could not be read.
    pub(super) queue: Option<Arc<Queue>>,
    /// The result of the canary's last run; `None` before the first run.
    pub(super) canary: Option<Arc<CanaryStatus>>,
    /// The wall-clock time of the count.
    pub(super) at: Timestamp,
    began: Instant,
    took: Duration,
}

impl QueueCount {
    /// Counts the queue with blocking database queries. On an error, logs nothing and returns no counts.
    fn query(database: &DatabaseUrl) -> Self {
        let (at, began) = (Timestamp::now(), Instant::now());
        let found =
            InboxReader::open(database).and_then(|reader| Ok((reader.queue()?, reader.canary_status()?)));
        let (queue, canary) = found.map_or((None, None), |(queue, canary)| (Some(queue), canary));
        Self { queue: queue.map(Arc::new), canary: canary.map(Arc::new), at, began, took: began.elapsed() }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < MIN_LIFETIME.max(self.took * IDLE_FACTOR)
    }
}

pub(crate) struct QueueCache {
    last: watch::Sender<Option<QueueCount>>,
    is_counting: AtomicBool,
}

impl QueueCache {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { last: watch::Sender::new(None), is_counting: AtomicBool::new(false) })
    }

    /// A fresh count, or the previous one if counting panics or takes longer than [`MAX_WAIT`]. `None` if
    /// there is no count yet.
    pub(super) async fn get(self: &Arc<Self>, database: DatabaseUrl, now: Instant) -> Option<QueueCount> {
        let last = self.last.borrow().clone();
        if last.as_ref().is_some_and(|count| count.is_fresh(now)) {
            return last;
        }
        let mut next = self.last.subscribe();
        self.start_count(database);
        let _ = tokio::time::timeout(MAX_WAIT, next.changed()).await;
        self.last.borrow().clone()
    }

    /// Starts a count on another thread unless one is in progress, and publishes it to the waiting scrapes. A
    /// stopping server does not wait for it. A panic is logged; a failure to spawn the thread is ignored.
    fn start_count(self: &Arc<Self>, database: DatabaseUrl) {
        if self.is_counting.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let spawned = std::thread::Builder::new().name("figures".into()).spawn(move || {
            let count = panics::catch(Part::Background, || QueueCount::query(&database));
            this.is_counting.store(false, Ordering::Release);
            match count {
                Ok(count) => drop(this.last.send_replace(Some(count))),
                Err(panic) => tracing::error!("{panic}: the submissions and deliveries could not be counted; /metrics shows the previous count, if any; the next scrape counts again"),
            }
        });
        if spawned.is_err() {
            self.is_counting.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_inbox::testing::inbox::{Options, TestInbox};

    #[tokio::test]
    async fn a_count_is_used_until_it_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("inbox.sqlite");
        let cache = QueueCache::new();
        let now = Instant::now();
        // Try again: on a busy machine, a count may take longer than one scrape waits.
        let get = async |now: Instant, is_it: &dyn Fn(&QueueCount) -> bool| loop {
            let count = cache.get(DatabaseUrl::from(&database), now).await;
            if let Some(count) = count.filter(is_it) {
                break count;
            }
        };
        let missing = get(now, &|_| true).await;
        assert!(missing.queue.is_none(), "there is no inbox yet");
        let store = TestInbox::open(&Options::new(database.clone())).unwrap();
        let same = cache.get(DatabaseUrl::from(&database), now).await.unwrap();
        assert_eq!(same.began, missing.began);
        let later = now + MIN_LIFETIME + Duration::from_mins(1);
        let next = get(later, &|count| count.began > missing.began).await;
        assert_eq!(next.queue.map(|queue| queue.held), Some(0));
        store.close();
    }

    #[test]
    fn a_slow_count_is_used_for_longer() {
        let check = |took: u64, age: u64, expected: bool| {
            let began = Instant::now();
            let count = QueueCount {
                queue: None,
                canary: None,
                at: Timestamp::UNIX_EPOCH,
                began,
                took: Duration::from_secs(took),
            };
            assert_eq!(count.is_fresh(began + Duration::from_secs(age)), expected, "{took} {age}");
        };
        check(0, 9, true);
        check(0, 10, false);
        check(3, 59, true);
        check(3, 60, false);
    }
}
