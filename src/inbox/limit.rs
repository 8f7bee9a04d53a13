//! How often one source may send: GCRA over two windows, in memory, pure but for its lock.
//!
//! The generic cell rate algorithm keeps one instant a source and window, the *theoretical arrival
//! time*: when that source would have recovered completely. Each request moves it on by
//! `window / quota`; a request that would move it further than one window ahead of now is refused and
//! moves nothing. So a rested source may send its whole quota at once, after that one request each
//! `window / quota`, and in any stretch of time `t` never more than `quota + t · quota / window`.
//!
//! Memory is bounded. Sources that have recovered in both windows are dropped as others come, since
//! they would start afresh anyway. Where the table is full of sources that have not, it forgets none of
//! them, or an attacker with many addresses could buy a fresh quota by pushing himself out: newcomers
//! then share [`OVERFLOW_BUCKETS`] quotas, each by a secret hash of its address, until there is room,
//! and take what that quota has lost along with them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many quotas those share who find the table full.
pub const OVERFLOW_BUCKETS: usize = 1024;

/// Recovered sources are looked for among this many when a new one comes: two would keep up with
/// arrivals, more clear a full table sooner.
const SWEEP: usize = 8;

/// Who counts as one sender: an IPv4 address, or the /64 network that an IPv6 subscriber has to himself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An IPv4 address, also where it came as `::ffff:a.b.c.d`.
    V4([u8; 4]),
    /// The first 64 bits of an IPv6 address.
    V6([u8; 8]),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(v4) => Source::V4(v4.octets()),
            IpAddr::V6(v6) => Source::V6(network(v6)),
        }
    }
}

fn network(address: Ipv6Addr) -> [u8; 8] {
    let octets = address.octets();
    std::array::from_fn(|i| octets[i])
}

impl Source {
    /// The address as bytes: four or eight.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Source::V4(octets) => octets,
            Source::V6(network) => network,
        }
    }
}

/// The family only: addresses belong in no log.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::V4(_) => "V4(…)",
            Source::V6(_) => "V6(…)",
        })
    }
}

/// What the operator decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether anything is limited at all.
    pub enabled: bool,
    /// The quota of a minute; 0 counts as 1.
    pub per_minute: u32,
    /// The quota of an hour; 0 counts as 1.
    pub per_hour: u32,
    /// How many sources are remembered one by one, at about 100 bytes each; 0 counts as 1.
    pub max_sources: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { enabled: true, per_minute: 30, per_hour: 300, max_sources: 100_000 }
    }
}

/// Whether a request may go on, and where its source stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is within every policy. If not, it has cost nothing.
    pub allowed: bool,
    /// Zero if allowed, otherwise after how long a request of this source would be, if none comes between.
    pub retry_after: Duration,
    /// One for each policy, shortest window first; none where limits are switched off.
    pub limits: Vec<Standing>,
}

/// Where a source stands with one policy: what the `RateLimit` and `RateLimit-Policy` fields of
/// draft-ietf-httpapi-ratelimit-headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The policy's name: `minute` or `hour`.
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

/// One quota over one window.
#[derive(Clone, Copy, Debug)]
struct Policy {
    name: &'static str,
    quota: u32,
    window: Duration,
    /// The window over the quota: what one request costs.
    interval: Duration,
}

impl Policy {
    fn new(name: &'static str, quota: u32, window: Duration) -> Policy {
        let quota = quota.max(1);
        // Rounded up, or a window would hold one request too many.
        let nanos = window.as_nanos().div_ceil(u128::from(quota));
        let interval = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Policy { name, quota, window, interval }
    }

    /// How far ahead of `now` the arrival time may lie and one more request still fits.
    fn tolerance(&self) -> Duration {
        self.interval * (self.quota - 1)
    }

    fn standing(&self, arrival: Instant, now: Instant) -> Standing {
        let debt = arrival.saturating_duration_since(now);
        let used = debt.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        let remaining = u128::from(self.quota).saturating_sub(used);
        Standing {
            name: self.name,
            quota: self.quota,
            window_seconds: self.window.as_secs(),
            remaining: u32::try_from(remaining).unwrap_or(self.quota),
            reset_seconds: seconds_rounded_up(debt),
        }
    }
}

fn seconds_rounded_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// The theoretical arrival times of a source, one for each policy.
type Arrivals = [Instant; 2];

/// Counts requests by source. Shared by all who take requests.
pub struct Limiter {
    enabled: bool,
    policies: [Policy; 2],
    table: Mutex<Table>,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("enabled", &self.enabled)
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl Limiter {
    /// A limiter that has seen nobody yet.
    pub fn new(options: &Options) -> Limiter {
        Limiter {
            enabled: options.enabled,
            policies: [
                Policy::new("minute", options.per_minute, Duration::from_mins(1)),
                Policy::new("hour", options.per_hour, Duration::from_hours(1)),
            ],
            table: Mutex::new(Table::new(options.max_sources.max(1))),
        }
    }

    /// Counts a request of `source` at `now` and says whether it may go on.
    pub fn take(&self, source: Source, now: Instant) -> Decision {
        if !self.enabled {
            return Decision { allowed: true, retry_after: Duration::ZERO, limits: Vec::new() };
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let arrivals = table.arrivals(source, now);
        let retry_after = wait(&self.policies, arrivals, now);
        if retry_after.is_zero() {
            for (policy, arrival) in self.policies.iter().zip(arrivals.iter_mut()) {
                *arrival = (*arrival).max(now) + policy.interval;
            }
        }
        let arrivals = *arrivals;
        drop(table);
        Decision {
            allowed: retry_after.is_zero(),
            retry_after,
            limits: self
                .policies
                .iter()
                .zip(arrivals)
                .map(|(policy, arrival)| policy.standing(arrival, now))
                .collect(),
        }
    }

    /// How many sources are remembered one by one.
    pub fn sources(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}

/// How long until one more request fits into every policy.
fn wait(policies: &[Policy; 2], arrivals: &Arrivals, now: Instant) -> Duration {
    let waits = policies
        .iter()
        .zip(arrivals)
        .map(|(policy, arrival)| arrival.saturating_duration_since(now).saturating_sub(policy.tolerance()));
    waits.max().unwrap_or_default()
}

/// Sources and what they have used, no more than `capacity` of them.
struct Table {
    capacity: usize,
    places: HashMap<Source, usize>,
    entries: Vec<(Source, Arrivals)>,
    /// Where the next sweep looks.
    hand: usize,
    /// Empty until the table is full for the first time.
    overflow: Vec<Arrivals>,
    hasher: RandomState,
}

impl Table {
    fn new(capacity: usize) -> Table {
        Table {
            capacity,
            places: HashMap::new(),
            entries: Vec::new(),
            hand: 0,
            overflow: Vec::new(),
            hasher: RandomState::new(),
        }
    }

    fn arrivals(&mut self, source: Source, now: Instant) -> &mut Arrivals {
        if let Some(&place) = self.places.get(&source) {
            return &mut self.entries[place].1;
        }
        self.sweep(now);
        let is_full = self.entries.len() >= self.capacity;
        if is_full && self.overflow.is_empty() {
            self.overflow = vec![[now; 2]; OVERFLOW_BUCKETS];
        }
        let bucket = match self.overflow.len() {
            0 => None,
            buckets => {
                Some(usize::try_from(self.hasher.hash_one(source) % buckets as u64).unwrap_or_default())
            }
        };
        match bucket {
            Some(bucket) if is_full => &mut self.overflow[bucket],
            _ => {
                let arrivals = bucket.map_or([now; 2], |bucket| self.overflow[bucket]);
                let place = self.entries.len();
                self.places.insert(source, place);
                self.entries.push((source, arrivals));
                &mut self.entries[place].1
            }
        }
    }

    /// Looks at a few entries and drops those that have recovered.
    fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEEP.min(self.entries.len()) {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let (source, arrivals) = self.entries[self.hand];
            if arrivals.iter().any(|arrival| *arrival > now) {
                self.hand += 1;
                continue;
            }
            self.places.remove(&source);
            self.entries.swap_remove(self.hand);
            if let Some((moved, _)) = self.entries.get(self.hand) {
                self.places.insert(*moved, self.hand);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn a_rested_source_may_send_its_quota_at_once_and_then_one_each_interval() {
        let (limiter, start) = (Limiter::new(&Options::default()), Instant::now());
        for _ in 0..30 {
            assert!(limiter.take(source(1), start).allowed);
        }
        let refused = limiter.take(source(1), start);
        assert!(!refused.allowed);
        assert_eq!(refused.retry_after, Duration::from_secs(2));
        assert!(!limiter.take(source(1), start + Duration::from_millis(1999)).allowed);
        assert!(limiter.take(source(1), start + Duration::from_secs(2)).allowed);
        assert!(!limiter.take(source(1), start + Duration::from_secs(2)).allowed);
    }

    #[test]
    fn the_hour_holds_where_the_minute_would_let_pass() {
        let (limiter, start) = (Limiter::new(&Options::default()), Instant::now());
        // One each two seconds is what the minute allows for ever.
        let allowed = (0..1800).filter(|i| limiter.take(source(1), start + 2 * *i * SECOND).allowed).count();
        assert!((590..=600).contains(&allowed), "{allowed}");
        let refused = limiter.take(source(1), start + 3600 * SECOND);
        assert_eq!((refused.limits[0].remaining > 0, refused.limits[1].remaining), (true, 0));
    }

    #[test]
    fn a_decision_says_what_the_header_fields_need() {
        let (limiter, start) = (Limiter::new(&Options::default()), Instant::now());
        let standing = |decision: &Decision| {
            decision
                .limits
                .iter()
                .map(|l| (l.name, l.quota, l.window_seconds, l.remaining, l.reset_seconds))
                .collect::<Vec<_>>()
        };
        let first = limiter.take(source(1), start);
        assert_eq!(standing(&first), [("minute", 30, 60, 29, 2), ("hour", 300, 3600, 299, 12)]);
        let second = limiter.take(source(1), start + Duration::from_millis(500));
        assert_eq!(standing(&second), [("minute", 30, 60, 28, 4), ("hour", 300, 3600, 298, 24)]);
        for _ in 0..28 {
            limiter.take(source(1), start + SECOND);
        }
        let refused = limiter.take(source(1), start + SECOND);
        assert_eq!(standing(&refused), [("minute", 30, 60, 0, 59), ("hour", 300, 3600, 270, 359)]);
    }

    #[test]
    fn sources_do_not_share_a_quota() {
        let (limiter, start) = (Limiter::new(&tiny(1, 100)), Instant::now());
        assert!(limiter.take(source(1), start).allowed);
        assert!(!limiter.take(source(1), start).allowed);
        assert!(limiter.take(source(2), start).allowed);
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
        let same = |a: &str, b: &str| {
            Source::from(a.parse::<IpAddr>().unwrap()) == Source::from(b.parse::<IpAddr>().unwrap())
        };
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        let shown = format!("{:?}", Source::from("192.0.2.1".parse::<IpAddr>().unwrap()));
        assert!(!shown.contains("192"), "{shown}");
    }

    #[test]
    fn switched_off_it_counts_nothing() {
        let limiter = Limiter::new(&Options { enabled: false, per_minute: 1, ..Options::default() });
        for _ in 0..100 {
            let decision = limiter.take(source(1), Instant::now());
            assert_eq!(decision, Decision { allowed: true, retry_after: Duration::ZERO, limits: Vec::new() });
        }
        assert_eq!(limiter.sources(), 0);
    }

    #[test]
    fn a_full_table_forgets_nobody_and_gives_nobody_a_fresh_quota() {
        let (limiter, start) = (Limiter::new(&tiny(2, 50)), Instant::now());
        for n in 0..50 {
            limiter.take(source(n), start);
            limiter.take(source(n), start);
        }
        let newcomers = (50..100_000).filter(|n| limiter.take(source(*n), start).allowed).count();
        assert!(newcomers <= 2 * OVERFLOW_BUCKETS, "{newcomers}");
        assert_eq!(limiter.sources(), 50);
        for n in 0..50 {
            assert!(!limiter.take(source(n), start).allowed);
        }
        // Those who come in while the others recover take their shared debt along. (Half the minute later one
        // request would fit again, and two for those who start afresh.)
        let later = start + Duration::from_secs(30);
        let limiter_is_honest = (50..200).all(|n| {
            limiter.take(source(n), later);
            !limiter.take(source(n), later).allowed
        });
        assert!(limiter_is_honest);
    }

    #[test]
    fn recovered_sources_make_room() {
        let (limiter, start) = (Limiter::new(&tiny(1, 1000)), Instant::now());
        for n in 0..1000 {
            limiter.take(source(n), start);
        }
        let later = start + 2 * 60 * MINUTE;
        for n in 1000..1200 {
            assert!(limiter.take(source(n), later).allowed);
        }
        assert!(limiter.sources() < 300, "{}", limiter.sources());
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn source(n: u32) -> Source {
        Source::V4(n.to_be_bytes())
    }

    fn tiny(per_minute: u32, max_sources: usize) -> Options {
        Options { enabled: true, per_minute, per_hour: 1000, max_sources }
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_holds_more_than_the_quota_and_what_recovers_in_it(
            per_minute in 1..40u32,
            per_hour in 1..200u32,
            gaps in prop::collection::vec(prop_oneof![Just(0u64), 0..3_000u64, 0..600_000u64], 1..300),
        ) {
            let options = Options { enabled: true, per_minute, per_hour, max_sources: 10 };
            let (limiter, start) = (Limiter::new(&options), Instant::now());
            let mut now = start;
            let mut allowed = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                if limiter.take(source(1), now).allowed {
                    allowed.push(now);
                }
            }
            for (quota, window) in [(per_minute, MINUTE), (per_hour, 60 * MINUTE)] {
                for (i, from) in allowed.iter().enumerate() {
                    for (to, count) in allowed[i..].iter().zip(1u128..) {
                        let stretch = to.duration_since(*from).as_nanos();
                        let most = u128::from(quota) * (window.as_nanos() + stretch) / window.as_nanos();
                        prop_assert!(count <= most, "{} in {:?}", count, *to - *from);
                    }
                }
            }
        }

        #[test]
        fn who_waits_as_told_may_go_on_and_not_a_moment_before(
            per_minute in 1..40u32,
            per_hour in 1..60u32,
            gaps in prop::collection::vec(0..5_000u64, 1..200),
        ) {
            let options = Options { enabled: true, per_minute, per_hour, max_sources: 10 };
            let (limiter, mut now) = (Limiter::new(&options), Instant::now());
            for gap in gaps {
                now += Duration::from_millis(gap);
                let decision = limiter.take(source(1), now);
                if decision.allowed {
                    prop_assert_eq!(decision.retry_after, Duration::ZERO);
                } else {
                    let at = now + decision.retry_after;
                    let too_early = now + decision.retry_after.saturating_sub(Duration::from_nanos(1));
                    prop_assert!(!limiter.take(source(1), too_early).allowed);
                    prop_assert!(limiter.take(source(1), at).allowed);
                    now = at;
                }
            }
        }

        #[test]
        fn what_remains_can_be_sent_at_once(
            per_minute in 1..40u32,
            gaps in prop::collection::vec(0..5_000u64, 1..50),
        ) {
            let options = Options { enabled: true, per_minute, per_hour: 10_000, max_sources: 10 };
            let (limiter, mut now) = (Limiter::new(&options), Instant::now());
            let mut remaining = per_minute;
            for gap in gaps {
                now += Duration::from_millis(gap);
                remaining = limiter.take(source(1), now).limits[0].remaining;
            }
            for _ in 0..remaining {
                prop_assert!(limiter.take(source(1), now).allowed);
            }
            prop_assert!(!limiter.take(source(1), now).allowed);
        }
    }
}
