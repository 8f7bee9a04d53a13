//! Counts page views by page, representation, kind of client and referring host, without personal data.
//!
//! Each worker counts in memory of a fixed size. A thread adds up the counts about once a minute and stores
//! them; counts that could not be stored are kept for the next attempt, those of at most seven days.

#![expect(clippy::disallowed_methods, reason = "views are counted per day")]

mod referrer;
mod user_agent;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Zoned;
use jiff::civil::Date;

use self::referrer::{MAX_HOST, referring_host};
use self::user_agent::AgentIndex;
use super::metrics::Representation;
use super::parsed_header_values::ParseCache;
use frontdesk_inbox::store::{
    MAX_REFERRERS, MAX_VIEW_ROWS, ReferrerCount, Store, StoreError, ViewCount, ViewCounts,
};
use frontdesk_process::disk_space::DiskMonitor;

pub use user_agent::{AgentClass, CountedAgent, class_of, names_of};

/// Maximum number of combinations of page, representation and client that a worker counts before it passes
/// its counts on. Each takes about 50 bytes.
const MAX_OWN: usize = 448;
/// Maximum number of referring hosts that a worker counts separately before it passes its counts on or they
/// are collected.
const MAX_OWN_REFERRERS: usize = 256;
/// Time between two collections of the workers' counts. They are also collected at midnight, so that each
/// view counts for the day on which it happened.
const INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of days for which counts wait until they can be stored.
const MAX_WAITING_DAYS: usize = 7;
/// Maximum duration of the last attempt to store counts, when the server stops.
const LAST_ATTEMPT: Duration = Duration::from_secs(20);

/// A 200 or 304 response to a GET request for a page.
pub(super) struct PageView<'a> {
    /// The percent-encoded path of the page.
    pub(super) page: &'a Arc<str>,
    pub(super) representation: Representation,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    /// The host that the request names.
    pub(super) host: &'a [u8],
    /// The public address of the site.
    pub(super) base_url: &'a str,
}

/// The representation and the client of a view. Everything but Markdown counts as HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind(u16);

impl Kind {
    fn new(representation: Representation, agent: AgentIndex) -> Self {
        Self(u16::from(agent.0) << 1 | u16::from(representation == Representation::Markdown))
    }

    fn representation(self) -> Representation {
        if self.0 & 1 == 1 { Representation::Markdown } else { Representation::Html }
    }

    fn agent(self) -> &'static str {
        AgentIndex(u8::try_from(self.0 >> 1).unwrap_or_default()).agent().name
    }
}

/// The address of a page's path in memory, and the kind of view. The counts keep the path, so its address is
/// not reused while it is a key.
#[derive(PartialEq, Eq, Hash)]
struct OwnKey {
    address: usize,
    kind: Kind,
}

/// The page views that one worker has counted since its counts were last collected.
struct OwnCounts {
    clients: ParseCache<AgentIndex>,
    pages: HashMap<OwnKey, (Arc<str>, u64), foldhash::fast::RandomState>,
    referrers: HashMap<Box<str>, u64>,
    /// Views from hosts that are IP addresses, and from new hosts when `referrers` is full.
    other_referrers: u64,
}

impl Default for OwnCounts {
    fn default() -> Self {
        Self {
            clients: ParseCache::default(),
            // This map never grows, because it is emptied when it is full.
            pages: HashMap::with_capacity_and_hasher(MAX_OWN, foldhash::fast::RandomState::default()),
            referrers: HashMap::new(),
            other_referrers: 0,
        }
    }
}

impl OwnCounts {
    /// Adds the counts to `totals`, and resets them to zero.
    fn drain_into(&mut self, totals: &mut Totals) {
        for (key, (path, count)) in self.pages.drain() {
            totals.add_page(path, key.kind, count);
        }
        for (host, count) in self.referrers.drain() {
            totals.add_referrer(host, count);
        }
        match mem::take(&mut self.other_referrers) {
            0 => {}
            count => totals.add_referrer("".into(), count),
        }
    }

    /// Counts a view from `host`. Empty hosts, and new ones beyond [`MAX_OWN_REFERRERS`], share a count.
    fn count_referrer(&mut self, host: &str) {
        if let Some(count) = self.referrers.get_mut(host) {
            *count += 1;
        } else if host.is_empty() || self.referrers.len() >= MAX_OWN_REFERRERS {
            self.other_referrers += 1;
        } else {
            self.referrers.insert(host.into(), 1);
        }
    }
}

/// Counts of several workers, in bounded memory. An empty path or host counts all beyond the maximum; the
/// empty host also counts referring hosts that are IP addresses.
#[derive(Default)]
struct Totals {
    pages: HashMap<(Arc<str>, u16), u64>,
    referrers: HashMap<Box<str>, u64>,
}

impl Totals {
    /// Adds views of a page. If the table is full, counts a new page under the empty path.
    fn add_page(&mut self, path: Arc<str>, kind: Kind, count: u64) {
        let is_full = self.pages.len() >= MAX_VIEW_ROWS;
        let key = (path, kind.0);
        let key = if is_full && !self.pages.contains_key(&key) { ("".into(), kind.0) } else { key };
        *self.pages.entry(key).or_default() += count;
    }

    /// Adds views from a host. If the table is full, counts a new host under the empty host.
    fn add_referrer(&mut self, host: Box<str>, count: u64) {
        let is_full = self.referrers.len() >= MAX_REFERRERS;
        let host = if is_full && !self.referrers.contains_key(&host) { "".into() } else { host };
        *self.referrers.entry(host).or_default() += count;
    }

    /// Adds all counts of `other`. If a table is full, counts new entries under the empty path or host.
    fn add_all(&mut self, other: Self) {
        for ((path, kind), count) in other.pages {
            self.add_page(path, Kind(kind), count);
        }
        for (host, count) in other.referrers {
            self.add_referrer(host, count);
        }
    }

    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.referrers.is_empty()
    }

    /// Converts the counts to rows for the database.
    fn to_counts(&self) -> ViewCounts {
        let pages = self.pages.iter().map(|((path, kind), count)| ViewCount {
            path: path.clone(),
            representation: Kind(*kind).representation().name(),
            agent: Kind(*kind).agent(),
            count: *count,
        });
        let referrers =
            self.referrers.iter().map(|(host, count)| ReferrerCount { host: host.clone(), count: *count });
        ViewCounts { pages: pages.collect(), referrers: referrers.collect() }
    }

    /// Removes the counts that `unstored` does not contain.
    fn retain(&mut self, unstored: &ViewCounts) {
        let paths: HashSet<_> =
            unstored.pages.iter().map(|view| (&*view.path, view.representation, view.agent)).collect();
        self.pages.retain(|(path, kind), _| {
            let kind = Kind(*kind);
            paths.contains(&(&**path, kind.representation().name(), kind.agent()))
        });
        let hosts: HashSet<_> = unstored.referrers.iter().map(|referrer| &referrer.host).collect();
        self.referrers.retain(|host, _| hosts.contains(host));
    }
}

#[derive(Default)]
struct SharedCounts {
    workers: Mutex<Vec<Arc<Mutex<OwnCounts>>>>,
    /// Counts that workers moved here because their own tables were full.
    passed_on: Mutex<Totals>,
}

/// A handle to the counts of page views. A clone uses the same worker's counts.
#[derive(Clone)]
pub struct PageViews {
    shared: Arc<SharedCounts>,
    own: Arc<Mutex<OwnCounts>>,
}

impl Default for PageViews {
    fn default() -> Self {
        Self::with_new_counts(Arc::default())
    }
}

impl PageViews {
    /// A handle with its own counts, for another thread.
    #[must_use]
    pub(super) fn for_worker(&self) -> Self {
        Self::with_new_counts(self.shared.clone())
    }

    fn with_new_counts(shared: Arc<SharedCounts>) -> Self {
        let own = Arc::<Mutex<OwnCounts>>::default();
        lock(&shared.workers).push(own.clone());
        Self { shared, own }
    }

    /// Counts a view, and the site that referred to it, unless the client is the canary. Allocates memory
    /// only for values that the worker has not seen recently. Waits only while the counts are being collected
    /// or, if the worker's table is full, while another worker empties its own.
    pub(super) fn record(&self, view: &PageView<'_>) {
        let own = &mut *lock(&self.own);
        let agent =
            view.user_agent.map_or(AgentIndex::UNKNOWN, |name| own.clients.get(name, user_agent::classify));
        if agent == AgentIndex::UNCOUNTED {
            return;
        }
        let kind = Kind::new(view.representation, agent);
        let key = OwnKey { address: Arc::as_ptr(view.page).addr(), kind };
        match own.pages.get_mut(&key) {
            Some((_, count)) => *count += 1,
            None => self.begin_count(own, key, view.page.clone()),
        }
        if let Some(referer) = view.referer {
            let public = view.base_url.split_once("://").map_or("", |(_, host)| host);
            let own_hosts = [view.host, public.as_bytes()];
            if let Some(host) = referring_host(referer, own_hosts, &mut [0; MAX_HOST]) {
                own.count_referrer(host);
            }
        }
    }

    /// Starts a count at 1. If the worker's table is full, first moves its counts to the shared table.
    #[cold]
    fn begin_count(&self, own: &mut OwnCounts, key: OwnKey, path: Arc<str>) {
        if own.pages.len() >= MAX_OWN {
            own.drain_into(&mut lock(&self.shared.passed_on));
        }
        own.pages.insert(key, (path, 1));
    }

    /// Returns all counts, and resets them.
    fn take(&self) -> Totals {
        let mut totals = mem::take(&mut *lock(&self.shared.passed_on));
        for own in lock(&self.shared.workers).iter() {
            lock(own).drain_into(&mut totals);
        }
        totals
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the counts about once a minute unless disk space is low. When the other end of `stop` is dropped,
/// stores them a last time, even if space is low, and gives up after [`LAST_ATTEMPT`]. Blocks until then.
/// Logs an error and returns at once if it cannot create a runtime.
pub(super) fn store_regularly(views: &PageViews, store: &Store, disk: &DiskMonitor, stop: &Receiver<()>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start storing page views; will not retry until the server is restarted");
            return;
        }
    };
    let mut unstored = UnstoredCounts::default();
    // Views count for the day on which the interval began.
    let mut since = Zoned::now();
    loop {
        let is_stopping = stop.recv_timeout(time_to_collection(&since)) != Err(RecvTimeoutError::Timeout);
        let now = Zoned::now();
        unstored.add(since.date(), views.take());
        since = now;
        // While disk space is low, store no views until the server stops: submissions need the space.
        if is_stopping || !disk.is_low() {
            let storing = unstored.store(store);
            if is_stopping {
                runtime.block_on(async { drop(tokio::time::timeout(LAST_ATTEMPT, storing).await) });
                return;
            }
            runtime.block_on(storing);
        }
    }
}

/// The time until the next collection: [`INTERVAL`], or less shortly before midnight.
fn time_to_collection(now: &Zoned) -> Duration {
    let midnight = now.tomorrow().and_then(|tomorrow| tomorrow.start_of_day());
    let rest = midnight.map(|midnight| Duration::try_from(midnight.duration_since(now)).unwrap_or_default());
    rest.unwrap_or(INTERVAL).min(INTERVAL)
}

/// Counts that have not been stored, by day.
#[derive(Default)]
struct UnstoredCounts {
    days: BTreeMap<Date, Totals>,
    /// The last failure, which is logged once.
    failure: Option<String>,
}

impl UnstoredCounts {
    /// Adds the counts of a day. Beyond [`MAX_WAITING_DAYS`], drops the oldest day with a warning.
    fn add(&mut self, day: Date, counts: Totals) {
        if !counts.is_empty() {
            self.days.entry(day).or_default().add_all(counts);
        }
        while self.days.len() > MAX_WAITING_DAYS {
            if let Some((day, _)) = self.days.pop_first() {
                tracing::warn!(
                    %day,
                    "page views of a day are lost: they could not be stored for {MAX_WAITING_DAYS} days"
                );
            }
        }
    }

    /// Stores the counts, oldest day first. After a failure, stops and keeps the remaining counts. Logs the
    /// failure, unless it is the same as the last one, and the first success after it.
    async fn store(&mut self, store: &Store) {
        while let Some(mut entry) = self.days.first_entry() {
            let mut counts = entry.get().to_counts();
            let stored = store.record_views(&mut counts, *entry.key()).await;
            if let Err(error) = stored {
                // `record_views` has removed the stored views from `counts`.
                entry.get_mut().retain(&counts);
                self.log_failure(&error);
                return;
            }
            entry.remove();
        }
        if self.failure.take().is_some() {
            tracing::info!("page views are being stored again");
        }
    }

    /// Logs a failure, unless it is the same as the last one.
    fn log_failure(&mut self, error: &StoreError) {
        let failure = error.to_string();
        if self.failure.as_ref() != Some(&failure) {
            tracing::warn!(%error, "page views could not be stored; they stay in memory; will retry every minute");
            self.failure = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests;
