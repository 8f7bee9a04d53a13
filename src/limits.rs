//! How often one may send: two layers of quotas over a minute and an hour, in bounded memory, pure but for its lock.
//!
//! The layers are the *source* (one sender) and its *network* (what a sender can easily have several addresses in). A refused request
//! costs nothing in either. A form as a whole refuses nobody; its quota decides what a flood is when submissions are processed
//! (`store/flood.rs`).
//!
//! Each quota is kept by the generic cell rate algorithm (`gcra.rs`): a rested source may send its whole quota at once, after that
//! one request each `window / quota`. Sources and networks are kept in sketches of fixed size (`sketch.rs`), whatever their number.

mod bytes;
pub mod gate;
mod gcra;
pub mod ledger;
pub mod pressure;
mod sketch;
mod source;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use bytes::{ByteLimiter, ByteOptions, ByteTally, MAX_BYTES, OverBudget};
pub use gcra::MAX_QUOTA;
use gcra::Pace;
use ledger::Rule;
pub use pressure::Pressure;
use sketch::Sketch;
pub use source::{Neighbourhood, Source};

/// The sizes of the sketches' rows, as powers of two: 32 MiB for the sources, 8 MiB for their networks. Memory that was never
/// written is not taken from the system.
const SOURCE_BITS: u32 = 20;
const NETWORK_BITS: u32 = 18;

/// How many requests fit into a minute and into an hour. From 1 to [`MAX_QUOTA`]; 0 counts as 1, and what is more as the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Over a minute.
    pub per_minute: u32,
    /// Over an hour.
    pub per_hour: u32,
}

impl Quota {
    /// No less than another in either window.
    fn at_least(self, other: Quota) -> Quota {
        Quota {
            per_minute: self.per_minute.max(other.per_minute),
            per_hour: self.per_hour.max(other.per_hour),
        }
    }

    fn paces(self, layer: Layer) -> [Pace; 2] {
        let [minute, hour] = layer.policies();
        [
            Pace::new(layer, minute, self.per_minute, Duration::from_mins(1)),
            Pace::new(layer, hour, self.per_hour, Duration::from_hours(1)),
        ]
    }
}

/// What the operator decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether anything is limited at all.
    pub enabled: bool,
    /// For one IPv4 address or IPv6 /64.
    pub source: Quota,
    /// For one IPv4 /24 or IPv6 /48; at least what one source may.
    pub network: Quota,
    /// New submissions to one form, by all; at least what one network may. See [`Options::form_quota`].
    pub form: Quota,
}

impl Options {
    /// The quota of a form: no less than that of a network or a source. None where nothing is limited.
    pub fn form_quota(&self) -> Option<Quota> {
        self.enabled.then(|| self.form.at_least(self.network).at_least(self.source))
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            enabled: true,
            source: Quota { per_minute: 30, per_hour: 300 },
            network: Quota { per_minute: 300, per_hour: 3_000 },
            form: Quota { per_minute: 600, per_hour: 6_000 },
        }
    }
}

/// Whose requests a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// One sender: an IPv4 address or an IPv6 /64.
    Source,
    /// An IPv4 /24 or an IPv6 /48.
    Network,
}

impl Layer {
    /// What its policies are called where they are told.
    fn policies(self) -> [&'static str; 2] {
        match self {
            Layer::Source => ["minute", "hour"],
            Layer::Network => ["network-minute", "network-hour"],
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It goes on, and was counted.
    Allowed,
    /// It does not, and has cost nothing.
    Refused {
        /// The layer that makes it wait the longest.
        by: Layer,
        /// After how long a request of this source would be allowed, if none comes between; never zero.
        retry_after: Duration,
    },
}

/// What becomes of a request, and where its sender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it goes on.
    pub admission: Admission,
    /// After this request; none where limits are switched off.
    pub standings: Option<Standings>,
}

/// Where a source stands with each policy that can refuse it: the source's own, then its network's, the shorter window first.
pub type Standings = [Standing; 4];

/// Where a source stands with one policy: what the `RateLimit` and `RateLimit-Policy` fields of
/// draft-ietf-httpapi-ratelimit-headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose requests are counted.
    pub layer: Layer,
    /// The policy's name: `minute`, `hour`, `network-minute` or `network-hour`.
    pub name: &'static str,
    /// `q`: how many requests the window has room for.
    pub quota: u32,
    /// `w`: the window in seconds.
    pub window_seconds: u64,
    /// `r`: how many more requests would be allowed right now.
    pub remaining: u32,
    /// `t`: after how many seconds, rounded up, the whole quota is there again.
    pub reset_seconds: u64,
}

/// What has been decided since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that went on.
    pub allowed: u64,
    /// Requests refused because of their source.
    pub refused_by_source: u64,
    /// Requests refused because of their network.
    pub refused_by_network: u64,
}

impl Tally {
    fn count(&mut self, admission: Admission) {
        match admission {
            Admission::Allowed => self.allowed += 1,
            Admission::Refused { by: Layer::Source, .. } => self.refused_by_source += 1,
            Admission::Refused { by: Layer::Network, .. } => self.refused_by_network += 1,
        }
    }
}

/// Counts requests. Shared by all who take requests.
pub struct Limiter {
    /// None where nothing is limited.
    state: Option<Mutex<State>>,
}

/// Without its contents, which say who was here.
impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("enabled", &self.state.is_some()).finish_non_exhaustive()
    }
}

impl Limiter {
    /// A limiter that has seen nobody yet.
    pub fn new(options: &Options) -> Limiter {
        Limiter::sized(options, SOURCE_BITS, NETWORK_BITS)
    }

    fn sized(options: &Options, source_bits: u32, network_bits: u32) -> Limiter {
        let rule = Rule::new(options);
        let state = || State {
            start: None,
            elapsed: Duration::ZERO,
            sources: Sketch::new(rule.source, source_bits),
            networks: Sketch::new(rule.network, network_bits),
            tally: Tally::default(),
        };
        Limiter { state: options.enabled.then(|| Mutex::new(state())) }
    }

    /// Counts a request of `source` at `now` and says whether it may go on.
    pub fn take(&self, source: Source, now: Instant) -> Decision {
        let Some(mut state) = self.lock() else {
            return Decision { admission: Admission::Allowed, standings: None };
        };
        state.take(source, now)
    }

    /// Records a decision that Redis made about a request of `source` at `now`, so that later decisions made here count
    /// it. An allowed request is charged to each local quota that has room for it.
    pub fn adopt(&self, source: Source, admission: Admission, now: Instant) {
        if let Some(mut state) = self.lock() {
            state.adopt(source, admission, now);
        }
    }

    /// Where `source` stands, without counting anything; none where limits are switched off.
    pub fn look(&self, source: Source, now: Instant) -> Option<Standings> {
        let mut state = self.lock()?;
        state.advance(now);
        let account = state.sources.account(source);
        let network = state.networks.account(source.neighbourhood());
        Some(state.standings(&account, &network))
    }

    /// What has been decided since the start.
    pub fn tally(&self) -> Tally {
        self.lock().map(|state| state.tally).unwrap_or_default()
    }

    /// About how many sources have not recovered completely, to a few in a thousand. Reads a quarter of the sketch, in small pieces
    /// so that nobody waits for long.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, of something between none and some millions"
    )]
    pub fn sources(&self) -> u64 {
        const PIECE: usize = 1 << 14;
        let Some(row) = self.lock().map(|state| state.sources.row()) else { return 0 };
        let owing: usize = (0..row)
            .step_by(PIECE)
            .filter_map(|from| Some(self.lock()?.sources.owing(from..row.min(from + PIECE))))
            .sum();
        // Of so many cells each source takes one at random; the more are taken, the more sources share one (linear counting).
        let free = (row - owing).max(1);
        (row as f64 * (row as f64 / free as f64).ln()).round() as u64
    }

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.as_ref().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct State {
    /// When the first request came.
    start: Option<Instant>,
    /// From then to the last one.
    elapsed: Duration,
    sources: Sketch,
    networks: Sketch,
    tally: Tally,
}

impl State {
    /// Whoever read the clock before somebody who came first is taken to have come at the same moment.
    fn advance(&mut self, now: Instant) {
        let start = *self.start.get_or_insert(now);
        self.elapsed = self.elapsed.max(now.saturating_duration_since(start));
        self.sources.advance(self.elapsed);
        self.networks.advance(self.elapsed);
    }

    fn take(&mut self, source: Source, now: Instant) -> Decision {
        self.advance(now);
        let mut account = self.sources.account(source);
        let mut network = self.networks.account(source.neighbourhood());
        let waits = [self.sources.wait(&account), self.networks.wait(&network)];
        let admission = ledger::refusal(waits).unwrap_or_else(|| {
            self.sources.charge(&mut account);
            self.networks.charge(&mut network);
            Admission::Allowed
        });
        self.tally.count(admission);
        Decision { admission, standings: Some(self.standings(&account, &network)) }
    }

    fn adopt(&mut self, source: Source, admission: Admission, now: Instant) {
        self.tally.count(admission);
        let Admission::Allowed = admission else { return };
        self.advance(now);
        let mut account = self.sources.account(source);
        if self.sources.wait(&account).is_zero() {
            self.sources.charge(&mut account);
        }
        let mut network = self.networks.account(source.neighbourhood());
        if self.networks.wait(&network).is_zero() {
            self.networks.charge(&mut network);
        }
    }

    fn standings(&self, account: &sketch::Account, network: &sketch::Account) -> Standings {
        let ([a, b], [c, d]) = (self.sources.standings(account), self.networks.standings(network));
        [a, b, c, d]
    }
}

#[cfg(test)]
mod tests;
