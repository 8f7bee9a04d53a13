//! Counters for `/metrics`. Each worker counts in its own shard; a scrape adds up the shards.
//!
//! Counting takes only atomic additions: no lock, no allocation, and no cache line that another worker
//! writes to. Every label has a fixed set of values, so clients cannot create new time series.

mod exposition;
mod process;
pub(super) mod queue_cache;
pub(super) mod report;

use std::array;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use frontdesk_forms::definition::Interned;
use frontdesk_forms::{Form, MAX_FORMS};

/// Defines a label with a fixed set of values; each value indexes an array of counters.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$each])* $value,)+
        }

        impl $name {
            /// All values, in the order of their indexes.
            pub(super) const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The text of this value, as in `/metrics`.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$value => $text),+ }
            }
        }
    };
}

label! {
    Class {
        /// A page with content negotiation.
        Page = "page",
        /// The Markdown representation of a page, at its own URL.
        Twin = "twin",
        /// A generated resource, for example `llms.txt`.
        Resource = "resource",
        Asset = "asset",
        Form = "form",
        /// A redirect from an alias or a rule, or to HTTPS.
        Redirect = "redirect",
        /// An unknown or removed URL, a confirmation link, a live reload poll, or an invalid request.
        None = "none",
    }
}

label! {
    Representation {
        Html = "html",
        Markdown = "markdown",
        /// Any other media type, including plain-text errors.
        Other = "other",
    }
}

label! {
    SubmissionResult {
        /// The submission is stored, whether it is new or a repeat.
        Accepted = "accepted",
        /// The content type or a field is invalid (400), or an HTML form is not from this site (403).
        Invalid = "invalid",
        /// The source or its network exceeded a rate limit or its byte budget: 429.
        Limited = "limited",
        /// The body is too long: 413.
        TooLarge = "too_large",
        /// The body did not arrive in time: 408.
        Slow = "slow",
        /// The connection broke before the body was complete.
        Broken = "broken",
        /// The submission could not be stored: 500.
        NotStored = "not_kept",
        /// The submission is large, and disk space is low: 500.
        LowDisk = "low_disk",
        /// The submission is stored, but no channel confirmed it in time: 500.
        NotConfirmed = "not_confirmed",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestLabels {
    pub(super) class: Class,
    pub(super) representation: Representation,
}

impl RequestLabels {
    /// Labels of a response that is neither HTML nor Markdown.
    pub(super) const fn other(class: Class) -> Self {
        Self { class, representation: Representation::Other }
    }
}

/// Statuses with their own counters. Others, for example from configured redirects, share one counter.
const STATUSES: [u16; 19] =
    [200, 204, 206, 304, 308, 400, 404, 405, 406, 408, 412, 413, 416, 421, 429, 431, 500, 501, 503];

/// The index of each status in [`STATUSES`]; 255 for others.
const STATUS_INDEXES: [u8; 600] = {
    let mut indexes = [u8::MAX; 600];
    let mut index = 0_u8;
    while (index as usize) < STATUSES.len() {
        indexes[STATUSES[index as usize] as usize] = index;
        index += 1;
    }
    indexes
};

/// The upper bounds of the histogram buckets in microseconds. Serving a page takes less than the first bound.
const BOUNDS: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000, 15_000_000,
];

/// The counters of one worker. Aligned to 128 bytes, because processors prefetch pairs of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    requests: [[[AtomicU64; STATUSES.len() + 1]; Representation::ALL.len()]; Class::ALL.len()],
    /// The number of durations in each bucket. The last bucket counts durations above all bounds.
    durations: [[AtomicU64; BOUNDS.len() + 1]; Class::ALL.len()],
    /// The sum of all durations in nanoseconds.
    took: [AtomicU64; Class::ALL.len()],
    /// The counts of submissions, by the form's index in [`FormNames`]. The last one counts all forms that
    /// have none.
    submissions: SubmissionCounts,
}

/// The number of submissions by form and result. Forms without counters of their own share the last entry.
#[derive(Debug)]
struct SubmissionCounts([[AtomicU64; SubmissionResult::ALL.len()]; MAX_NAMES + 1]);

impl Default for SubmissionCounts {
    fn default() -> Self {
        Self(array::from_fn(|_| Default::default()))
    }
}

/// Maximum number of forms with their own counters. A reload can add forms, and counters are never removed.
const MAX_NAMES: usize = 2 * MAX_FORMS;

/// The forms that have counters: the site's current forms, and its former ones.
#[derive(Debug)]
struct FormNames([OnceLock<Interned>; MAX_NAMES]);

impl Default for FormNames {
    fn default() -> Self {
        Self([const { OnceLock::new() }; MAX_NAMES])
    }
}

impl FormNames {
    /// The index of a form's counters. A new form gets the next free index; [`MAX_NAMES`] if none is left.
    fn index_for(&self, name: Interned) -> usize {
        self.0.iter().position(|slot| *slot.get_or_init(|| name) == name).unwrap_or(MAX_NAMES)
    }

    /// The form names with the indexes of their counters, in the order of first use.
    fn iter(&self) -> impl Iterator<Item = (usize, Interned)> + '_ {
        self.0.iter().map_while(|slot| slot.get().copied()).enumerate()
    }
}

/// The shards of all workers, and counters that rarely change.
#[derive(Debug, Default)]
struct SharedCounters {
    shards: Mutex<Vec<Arc<Shard>>>,
    form_names: FormNames,
    /// The number of successful reloads since the start, and the number of failed ones.
    reloads: [AtomicU64; 2],
    /// The time of the last reload, in Unix seconds; 0 if there was none.
    reloaded_at: AtomicI64,
    lost_lines: Arc<AtomicU64>,
}

/// A handle to the counters. A clone uses the same shard; [`Metrics::for_worker`] adds a new one.
#[derive(Debug, Clone)]
pub struct Metrics {
    shared: Arc<SharedCounters>,
    own: Arc<Shard>,
}

impl Metrics {
    /// Creates counters at zero. The log writer increments `lost_lines`.
    pub fn new(lost_lines: Arc<AtomicU64>) -> Self {
        Self::with_new_shard(Arc::new(SharedCounters { lost_lines, ..SharedCounters::default() }))
    }

    /// A handle with its own shard, for another thread.
    #[must_use]
    pub fn for_worker(&self) -> Self {
        Self::with_new_shard(self.shared.clone())
    }

    fn with_new_shard(shared: Arc<SharedCounters>) -> Self {
        let own = Arc::new(Shard::default());
        shared.shards.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        Self { shared, own }
    }

    /// Counts a reload, successful or not, and stores its time.
    pub fn record_reload(&self, has_succeeded: bool, at: Timestamp) {
        self.shared.reloads[usize::from(!has_succeeded)].fetch_add(1, Relaxed);
        self.shared.reloaded_at.store(at.as_second(), Relaxed);
    }

    /// Counts a response and the time until it was ready. Statuses without a counter of their own share one.
    pub(super) fn record_request(&self, labels: RequestLabels, status: StatusCode, took: Duration) {
        let (class, representation) = (labels.class as usize, labels.representation as usize);
        let index = STATUS_INDEXES.get(usize::from(status.as_u16())).copied().unwrap_or(u8::MAX);
        let index = usize::from(index).min(STATUSES.len());
        self.own.requests[class][representation][index].fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| nanoseconds <= bound * 1000).unwrap_or(BOUNDS.len());
        self.own.durations[class][bucket].fetch_add(1, Relaxed);
        self.own.took[class].fetch_add(nanoseconds, Relaxed);
    }

    /// Counts a submission by form and result. Forms after the first [`MAX_NAMES`] are counted together.
    pub(super) fn record_submission(&self, form: &Form, result: SubmissionResult) {
        let index = self.shared.form_names.index_for(form.name);
        self.own.submissions.0[index][result as usize].fetch_add(1, Relaxed);
    }

    fn total(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let shards = self.shared.shards.lock().unwrap_or_else(PoisonError::into_inner);
        shards.iter().map(|shard| of(shard).load(Relaxed)).sum()
    }

    fn totals<const N: usize>(&self, of: impl Fn(&Shard) -> &[AtomicU64; N]) -> [u64; N] {
        array::from_fn(|index| self.total(|shard| &of(shard)[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_forms::WAITLIST;

    #[test]
    fn the_counters_of_all_workers_are_added_up() {
        let metrics = Metrics::new(Arc::default());
        let page = RequestLabels { class: Class::Page, representation: Representation::Markdown };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let worker = metrics.for_worker();
                scope.spawn(move || {
                    for _ in 0..1000 {
                        worker.record_request(page, StatusCode::OK, Duration::from_micros(20));
                    }
                    worker.record_submission(&WAITLIST, SubmissionResult::Accepted);
                });
            }
        });
        let requests =
            metrics.totals(|shard| &shard.requests[Class::Page as usize][Representation::Markdown as usize]);
        assert_eq!((requests[0], requests.iter().sum::<u64>()), (4000, 4000));
        assert_eq!(metrics.totals(|shard| &shard.durations[Class::Page as usize])[0], 4000);
        assert_eq!(metrics.total(|shard| &shard.took[Class::Page as usize]), 4000 * 20_000);
        let waitlist = metrics.shared.form_names.index_for(WAITLIST.name);
        assert_eq!(
            metrics.total(|shard| &shard.submissions.0[waitlist][SubmissionResult::Accepted as usize]),
            4
        );
    }

    #[test]
    fn each_status_and_duration_has_its_counter() {
        let metrics = Metrics::new(Arc::default());
        let check = |status: u16, took: Duration, index: usize, bucket: usize| {
            let fresh = metrics.for_worker();
            let status = StatusCode::from_u16(status).unwrap();
            fresh.record_request(RequestLabels::other(Class::None), status, took);
            let none = Class::None as usize;
            let at =
                |index: usize| fresh.own.requests[none][Representation::Other as usize][index].load(Relaxed);
            assert_eq!(at(index), 1, "{status}");
            assert_eq!(fresh.own.durations[none][bucket].load(Relaxed), 1, "{took:?}");
        };
        check(200, Duration::ZERO, 0, 0);
        check(404, Duration::from_micros(50), 6, 0);
        check(503, Duration::from_nanos(50_001), 18, 1);
        check(599, Duration::from_millis(1), STATUSES.len(), 4);
        check(600, Duration::from_secs(15), STATUSES.len(), 15);
        check(999, Duration::MAX, STATUSES.len(), BOUNDS.len());
    }
}
