//! Counts what happens, for `/metrics` to tell. Each worker counts in memory of its own; sums are made when somebody asks.
//!
//! Counting is an addition at a place that is known beforehand: no lock, no allocation, no text, and no cache line that another
//! worker writes to. Every label has a fixed set of values, so that nothing that strangers send can make the list longer.

mod exposition;
mod figures;
mod process;
mod report;

use std::array;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use crate::forms::{FORMS, Form};
pub(super) use figures::Figures;
pub(super) use process::resident_memory;
pub(super) use report::report;

/// A label with a fixed set of values, each of which has its place in an array.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$each])* $value,)+
        }

        impl $name {
            /// All of them, in the order of their places.
            pub(super) const ALL: &'static [Self] = &[$(Self::$value),+];

            /// As `/metrics` and the log of requests have it.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$value => $text),+ }
            }
        }
    };
}

label! {
    /// What a request was for.
    Class {
        /// A page, whose representation is negotiated.
        Page = "page",
        /// A page's Markdown at an address of its own.
        Twin = "twin",
        /// A file for machines that is made from pages and forms.
        Resource = "resource",
        /// One of the operator's own files.
        Asset = "asset",
        /// A form's endpoint.
        Form = "form",
        /// Another name of a page.
        Redirect = "redirect",
        /// Nothing that is here, or no request that makes sense.
        None = "none",
    }
}

label! {
    /// What was handed out.
    Representation {
        /// For people.
        Html = "html",
        /// For agents.
        Markdown = "markdown",
        /// Anything else, errors in plain text among it.
        Other = "other",
    }
}

label! {
    /// What became of a form that somebody sent.
    Verdict {
        /// It is stored, as a submission or as a repeat of one.
        Accepted = "accepted",
        /// Something in it has to be mended: 400.
        Invalid = "invalid",
        /// Its source has sent too many: 429.
        Limited = "limited",
        /// Its body is too long: 413.
        TooLarge = "too_large",
        /// Its body did not come in time: 408.
        Slow = "slow",
        /// The connection broke while its body came.
        Broken = "broken",
        /// It could not be kept: 500.
        NotKept = "not_kept",
        /// It is large, and little space is free: 500.
        LowDisk = "low_disk",
        /// It is kept, and no channel has confirmed it in time: 500.
        NotConfirmed = "not_confirmed",
    }
}

label! {
    /// Why a connection was closed on which somebody may still have wanted something.
    Shed {
        /// There were as many as there may be.
        All = "all",
        /// Its source had as many as one may have.
        Source = "source",
        /// Its network had as many as one may have.
        Network = "network",
        /// It was idle, and the server nearly full.
        Evicted = "evicted",
        /// Memory was short, and its source held the most of it.
        Memory = "memory",
        /// There was no descriptor for it.
        Descriptors = "descriptors",
        /// Nothing came.
        FirstByte = "first_byte",
        /// A request's header did not come to its end in time.
        Header = "header",
        /// No other request came, or an answer was not read fast enough.
        Idle = "idle",
        /// An answer was not ready in time.
        Exchange = "exchange",
        /// TLS was not agreed on, or not in time.
        Handshake = "handshake",
        /// The protocol was broken again and again.
        Glitches = "glitches",
    }
}

/// What a request was for, and what it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) class: Class,
    pub(super) representation: Representation,
}

impl Seen {
    /// An answer that is neither HTML nor Markdown.
    pub(super) const fn other(class: Class) -> Self {
        Self { class, representation: Representation::Other }
    }
}

/// The statuses that are counted by themselves: all that are answered here. What may come later is counted together.
const STATUSES: [u16; 17] =
    [200, 204, 304, 308, 400, 404, 405, 406, 408, 412, 413, 421, 429, 431, 500, 501, 503];

/// The place of each status among them; far behind the last one for all others.
const PLACES: [u8; 600] = {
    let mut places = [u8::MAX; 600];
    let mut place = 0_u8;
    while (place as usize) < STATUSES.len() {
        places[STATUSES[place as usize] as usize] = place;
        place += 1;
    }
    places
};

/// The upper bounds of the histograms' buckets in nanoseconds, and as they are written, in seconds. A page takes less than the first.
const BOUNDS: [(u64, &str); 16] = [
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (5_000_000_000, "5"),
    (15_000_000_000, "15"),
];

const CLASSES: usize = Class::ALL.len();
const REPRESENTATIONS: usize = Representation::ALL.len();
const VERDICTS: usize = Verdict::ALL.len();
const REASONS: usize = Shed::ALL.len();

/// What one worker counts. Two cache lines are what processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    requests: [[[AtomicU64; STATUSES.len() + 1]; REPRESENTATIONS]; CLASSES],
    /// By the first bound that a duration does not exceed; the last is for what exceeds all.
    durations: [[AtomicU64; BOUNDS.len() + 1]; CLASSES],
    /// In nanoseconds.
    took: [AtomicU64; CLASSES],
    submissions: [[AtomicU64; VERDICTS]; FORMS.len()],
    shed: [AtomicU64; REASONS],
    opened: AtomicU64,
    closed: AtomicU64,
}

/// What is told by few and seldom.
#[derive(Debug, Default)]
struct Shared {
    shards: Mutex<Vec<Arc<Shard>>>,
    /// Since the start: those that have led to another state, and those that have failed.
    reloads: [AtomicU64; 2],
    /// When the last attempt was, in seconds of Unix time; 0 for never.
    reloaded_at: AtomicI64,
    lost_lines: Arc<AtomicU64>,
}

/// Counters. A clone counts in the same place; [`Metrics::of_worker`] is one that counts in another, and all are told together.
#[derive(Debug, Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
    own: Arc<Shard>,
}

impl Metrics {
    /// Counters at zero. How many lines of the log were lost is counted by whoever writes them.
    pub fn new(lost_lines: Arc<AtomicU64>) -> Self {
        Self::in_shard_of(Arc::new(Shared { lost_lines, ..Shared::default() }))
    }

    /// For another thread, whose counting is to be in nobody's way.
    #[must_use]
    pub fn of_worker(&self) -> Self {
        Self::in_shard_of(self.shared.clone())
    }

    fn in_shard_of(shared: Arc<Shared>) -> Self {
        let own = Arc::new(Shard::default());
        shared.shards.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        Self { shared, own }
    }

    /// Notes an attempt to replace the site and its configuration.
    pub fn reloaded(&self, is_done: bool, at: Timestamp) {
        self.shared.reloads[usize::from(!is_done)].fetch_add(1, Relaxed);
        self.shared.reloaded_at.store(at.as_second(), Relaxed);
    }

    /// Counts an answer that was ready after `took`.
    pub(super) fn request(&self, seen: Seen, status: StatusCode, took: Duration) {
        let (class, representation) = (seen.class as usize, seen.representation as usize);
        let place = PLACES.get(usize::from(status.as_u16())).copied().unwrap_or(u8::MAX);
        let place = usize::from(place).min(STATUSES.len());
        self.own.requests[class][representation][place].fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanoseconds <= *bound).unwrap_or(BOUNDS.len());
        self.own.durations[class][bucket].fetch_add(1, Relaxed);
        self.own.took[class].fetch_add(nanoseconds, Relaxed);
    }

    /// Counts what became of a form.
    pub(super) fn submission(&self, form: &Form, verdict: Verdict) {
        if let Some(place) = FORMS.iter().position(|other| other.name == form.name) {
            self.own.submissions[place][verdict as usize].fetch_add(1, Relaxed);
        }
    }

    /// Counts a connection that was closed by us.
    pub(super) fn shed(&self, reason: Shed) {
        self.own.shed[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts a connection as open until this is dropped.
    pub(super) fn connection(&self) -> Open {
        self.own.opened.fetch_add(1, Relaxed);
        Open(self.own.clone())
    }

    /// The sum over all workers of what `of` finds in one.
    fn sum(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let shards = self.shared.shards.lock().unwrap_or_else(PoisonError::into_inner);
        shards.iter().map(|shard| of(shard).load(Relaxed)).sum()
    }

    /// The sums of a whole array of them.
    fn sums<const N: usize>(&self, of: impl Fn(&Shard) -> &[AtomicU64; N]) -> [u64; N] {
        array::from_fn(|place| self.sum(|shard| &of(shard)[place]))
    }
}

/// A connection that is counted as open.
#[derive(Debug)]
pub(super) struct Open(Arc<Shard>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::WAITLIST;

    #[test]
    fn what_each_worker_counts_is_told_together() {
        let metrics = Metrics::new(Arc::default());
        let page = Seen { class: Class::Page, representation: Representation::Markdown };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let worker = metrics.of_worker();
                scope.spawn(move || {
                    let _open = worker.connection();
                    for _ in 0..1000 {
                        worker.request(page, StatusCode::OK, Duration::from_micros(20));
                    }
                    worker.submission(&WAITLIST, Verdict::Accepted);
                });
            }
        });
        metrics.shed(Shed::Header);
        let requests =
            metrics.sums(|shard| &shard.requests[Class::Page as usize][Representation::Markdown as usize]);
        assert_eq!((requests[0], requests.iter().sum::<u64>()), (4000, 4000));
        assert_eq!(metrics.sums(|shard| &shard.durations[Class::Page as usize])[0], 4000);
        assert_eq!(metrics.sum(|shard| &shard.took[Class::Page as usize]), 4000 * 20_000);
        let waitlist = FORMS.iter().position(|form| form.name == "waitlist").unwrap();
        assert_eq!(metrics.sum(|shard| &shard.submissions[waitlist][Verdict::Accepted as usize]), 4);
        assert_eq!(metrics.sum(|shard| &shard.shed[Shed::Header as usize]), 1);
        assert_eq!((metrics.sum(|shard| &shard.opened), metrics.sum(|shard| &shard.closed)), (4, 4));
    }

    #[test]
    fn each_status_and_each_duration_has_its_place() {
        let metrics = Metrics::new(Arc::default());
        let check = |status: u16, took: Duration, place: usize, bucket: usize| {
            let fresh = metrics.of_worker();
            let status = StatusCode::from_u16(status).unwrap();
            fresh.request(Seen::other(Class::None), status, took);
            let none = Class::None as usize;
            let at =
                |place: usize| fresh.own.requests[none][Representation::Other as usize][place].load(Relaxed);
            assert_eq!(at(place), 1, "{status}");
            assert_eq!(fresh.own.durations[none][bucket].load(Relaxed), 1, "{took:?}");
        };
        check(200, Duration::ZERO, 0, 0);
        check(404, Duration::from_micros(50), 5, 0);
        check(503, Duration::from_nanos(50_001), 16, 1);
        check(599, Duration::from_millis(1), STATUSES.len(), 4);
        check(600, Duration::from_secs(15), STATUSES.len(), 15);
        check(999, Duration::MAX, STATUSES.len(), BOUNDS.len());
    }
}
