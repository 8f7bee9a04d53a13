//! What waits in the inbox, counted now and then by a thread of its own: no scrape waits for the database for long, and none makes
//! more work than one look in ten seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::store::{Place, Queue, Reader};

/// For so long one count is told, or for [`IDLE_FACTOR`] times as long as it took.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// A long count is repeated so seldom that it takes a twentieth of one core at most.
const IDLE_FACTOR: u32 = 20;

/// So long a scrape waits for a count that is under way; then the one before is told, or none.
const PATIENCE: Duration = Duration::from_millis(500);

/// One count.
#[derive(Debug, Clone)]
pub(super) struct Count {
    /// Nothing where the inbox cannot be read.
    pub(super) queue: Option<Arc<Queue>>,
    /// When it was done, by the clock on the wall.
    pub(super) at: Timestamp,
    began: Instant,
    took: Duration,
}

impl Count {
    fn of(place: &Place) -> Self {
        let (at, began) = (Timestamp::now(), Instant::now());
        let queue = Reader::open(place).and_then(|reader| reader.queue());
        Self { queue: queue.ok().map(Arc::new), at, began, took: began.elapsed() }
    }

    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < GOOD_FOR.max(self.took * IDLE_FACTOR)
    }
}

/// The last count, and whether the next is under way.
#[derive(Debug)]
pub(in crate::web) struct Figures {
    last: watch::Sender<Option<Count>>,
    is_counting: AtomicBool,
}

impl Figures {
    pub(in crate::web) fn new() -> Arc<Self> {
        Arc::new(Self { last: watch::Sender::new(None), is_counting: AtomicBool::new(false) })
    }

    /// A count that is fresh enough, or the last one if the next takes too long; none if there was none yet.
    pub(super) async fn get(self: &Arc<Self>, place: Place, now: Instant) -> Option<Count> {
        let last = self.last.borrow().clone();
        if last.as_ref().is_some_and(|count| count.is_good(now)) {
            return last;
        }
        let mut next = self.last.subscribe();
        self.begin(place);
        // Whether it came in time or not, the last one is what there is.
        let _ = tokio::time::timeout(PATIENCE, next.changed()).await;
        self.last.borrow().clone()
    }

    /// Counts on another thread, unless that is being done. Nobody waits for it when the server stops.
    fn begin(self: &Arc<Self>, place: Place) {
        if self.is_counting.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let spawned = std::thread::Builder::new().name("figures".into()).spawn(move || {
            let count = Count::of(&place);
            this.is_counting.store(false, Ordering::Release);
            this.last.send_replace(Some(count));
        });
        if spawned.is_err() {
            self.is_counting.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Options, Store};

    #[tokio::test]
    async fn a_count_is_told_until_it_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("inbox.sqlite");
        let figures = Figures::new();
        let now = Instant::now();
        // A busy machine may not be done within the patience of one scrape.
        let get = async |now: Instant, is_it: &dyn Fn(&Count) -> bool| loop {
            let count = figures.get(Place::from(&database), now).await;
            if let Some(count) = count.filter(is_it) {
                break count;
            }
        };
        let missing = get(now, &|_| true).await;
        assert!(missing.queue.is_none(), "there is no inbox yet");
        let store = Store::open(&Options::at(database.clone())).unwrap();
        let same = figures.get(Place::from(&database), now).await.unwrap();
        assert_eq!(same.began, missing.began);
        let later = now + GOOD_FOR + Duration::from_mins(1);
        let next = get(later, &|count| count.began > missing.began).await;
        assert_eq!(next.queue.map(|queue| queue.held), Some(0));
        store.close();
    }

    #[test]
    fn a_count_that_takes_long_is_told_for_longer() {
        let check = |took: u64, age: u64, expected: bool| {
            let began = Instant::now();
            let count =
                Count { queue: None, at: Timestamp::UNIX_EPOCH, began, took: Duration::from_secs(took) };
            assert_eq!(count.is_good(began + Duration::from_secs(age)), expected, "{took} {age}");
        };
        check(0, 9, true);
        check(0, 10, false);
        check(3, 59, true);
        check(3, 60, false);
    }
}
