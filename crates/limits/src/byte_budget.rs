//! Byte budgets: daily limits on the bytes of accepted forms per source and network, in bounded memory.
//!
//! Without byte budgets, one network could fill the disk within its rate limits. Budgets refill steadily: in
//! any period `t`, a source can send at most `budget + t · budget / day`, which is two budgets in its first
//! 24 hours.
//!
//! Debts are kept in count-min sketches with the guarantees of `sketch.rs`. A cell holds a byte count: once
//! that many bytes have been refilled since the limiter's first request, the cell's keys have no debt. The
//! count has 64 bits and never wraps around, so expired cells need not be cleared.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::gcra::Gcra;
use super::limiter_state::{Debts, LayerState, Layers};
use super::quota::{Admission, DecisionCounts};
use super::rule;
use super::sketch::{CellTable, ROWS};
use crate::source::Source;

/// How long a whole budget takes to refill.
const DAY: Duration = Duration::from_hours(24);

/// Base-2 logarithm of the number of columns in the sketch of sources, which takes 8 MiB.
const SOURCE_BITS: u32 = 18;
/// Base-2 logarithm of the number of columns in the sketch of networks, which takes 2 MiB.
const NETWORK_BITS: u32 = 16;

/// The largest budget, in bytes per day.
pub const MAX_BYTES: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteOptions {
    pub enabled: bool,
    /// Bytes per day for one IPv4 address or IPv6 /64. Clamped to 1 through [`MAX_BYTES`].
    pub source: u64,
    /// Bytes per day for one IPv4 /24 or IPv6 /48. Raised to `source` if smaller; at most [`MAX_BYTES`].
    pub network: u64,
}

impl Default for ByteOptions {
    /// The bytes that the default rate limits (300 and 3,000 requests an hour) allow in a day, at 1,165 bytes
    /// per request. A typical message is shorter, so a busy network reaches the rate limits first.
    fn default() -> ByteOptions {
        ByteOptions { enabled: true, source: 8 << 20, network: 80 << 20 }
    }
}

/// Limits the bytes of accepted forms. All workers of a server share one limiter; each server has its own.
pub struct ByteLimiter {
    layers: Layers<ByteDebts>,
}

impl ByteLimiter {
    pub fn new(options: &ByteOptions) -> ByteLimiter {
        ByteLimiter::with_table_bits(options, SOURCE_BITS, NETWORK_BITS)
    }

    fn with_table_bits(options: &ByteOptions, source_bits: u32, network_bits: u32) -> ByteLimiter {
        let network = options.network.max(options.source);
        let create = || [ByteDebts::new(options.source, source_bits), ByteDebts::new(network, network_bits)];
        ByteLimiter { layers: Layers::new(options.enabled, create) }
    }

    /// Charges a form of `bytes` bytes to the budgets of `source` and its network at `now`, or refuses the
    /// form and charges neither. A form that is larger than a whole budget counts as a whole budget. A
    /// disabled limiter allows everything.
    pub fn charge(&self, source: Source, bytes: usize, now: Instant) -> Admission {
        let Some(mut state) = self.layers.lock_at(now) else { return Admission::Allowed };
        let LayerState { sources, networks, counts, .. } = &mut *state;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let account = sources.look_up(source);
        let network = networks.look_up(source.network());
        let waits = [sources.wait(&account, bytes), networks.wait(&network, bytes)];
        let admission = rule::refusal(waits).unwrap_or_else(|| {
            sources.charge(&account, bytes);
            networks.charge(&network, bytes);
            Admission::Allowed
        });
        counts.count(admission);
        admission
    }

    pub fn counts(&self) -> DecisionCounts {
        self.layers.counts()
    }
}

/// The debts of all sources, or of all networks: how much of its budget each of them has used.
struct ByteDebts {
    /// Bytes per day.
    budget: u64,
    table: CellTable,
    /// The number of bytes that have been refilled since the limiter's first request.
    recovered: u64,
}

impl Debts for ByteDebts {
    /// Sets the time, refills the budgets accordingly, and clears all debts after a day without use.
    fn advance_to(&mut self, elapsed: Duration) {
        self.table.advance_to(elapsed);
        let bytes = elapsed.as_nanos() * u128::from(self.budget) / DAY.as_nanos();
        self.recovered = u64::try_from(bytes).unwrap_or(u64::MAX);
    }
}

/// The cells of one source or network in the sketch, and the debt at the time of the lookup.
struct DebtEntry {
    places: [usize; ROWS],
    debt: u64,
}

impl ByteDebts {
    fn new(budget: u64, bits: u32) -> ByteDebts {
        ByteDebts { budget: budget.clamp(1, MAX_BYTES), table: CellTable::new(bits, DAY), recovered: 0 }
    }

    /// Finds the cells of a key, and its debt: the lowest debt in these cells.
    fn look_up(&self, key: impl Hash) -> DebtEntry {
        let places = self.table.places(key);
        let least = places.iter().map(|place| self.table.cells[*place]).min().unwrap_or_default();
        DebtEntry { places, debt: least.saturating_sub(self.recovered) }
    }

    /// The time until a form of this many bytes fits into the budget; zero if it fits now. A form larger than
    /// the whole budget counts as one whole budget.
    fn wait(&self, account: &DebtEntry, bytes: u64) -> Duration {
        let excess = Gcra { step: bytes.min(self.budget), burst: self.budget }.wait(account.debt);
        let nanos = (u128::from(excess) * DAY.as_nanos()).div_ceil(u128::from(self.budget));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Adds `bytes`, at most a whole budget, to the key's debt, by raising each of its cells to at least the
    /// new debt. The caller must have checked with [`ByteDebts::wait`] that the bytes fit into the budget.
    fn charge(&mut self, account: &DebtEntry, bytes: u64) {
        let recovered_at = self.recovered + account.debt + bytes.min(self.budget);
        for place in account.places {
            let cell = &mut self.table.cells[place];
            *cell = recovered_at.max(*cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Layer;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_source_may_use_its_budget_at_once_and_gets_it_back_in_a_day() {
        let (limiter, start) = (small(24_000, 240_000), Instant::now());
        assert_eq!(limiter.charge(source(1), 20_000, start), Admission::Allowed);
        assert_eq!(limiter.charge(source(1), 4_000, start), Admission::Allowed);
        let refused = |retry_after| Admission::Refused { by: Layer::Source, retry_after };
        assert_eq!(limiter.charge(source(1), 1_000, start), refused(HOUR));
        assert_eq!(
            limiter.charge(source(1), 1_000, start + HOUR.saturating_sub(Duration::from_secs(2))),
            refused(Duration::from_millis(3_600))
        );
        assert_eq!(
            limiter.charge(source(1), 1_000, start + HOUR),
            Admission::Allowed,
            "a refusal costs nothing"
        );
        assert!(wait(limiter.charge(source(1), 1, start + HOUR)).is_some());
        assert_eq!(limiter.charge(source(1), 24_000, start + 25 * HOUR), Admission::Allowed);
        assert_eq!(refusals(&limiter), (3, 0));
    }

    #[test]
    fn the_sources_of_one_network_share_its_budget_and_others_go_on() {
        let (limiter, start) = (small(1_000, 3_000), Instant::now());
        for n in 1..=3 {
            assert_eq!(limiter.charge(source(n), 1_000, start), Admission::Allowed);
        }
        let retry_after = DAY / 3;
        assert_eq!(
            limiter.charge(source(4), 1_000, start),
            Admission::Refused { by: Layer::Network, retry_after }
        );
        assert_eq!(refusals(&limiter), (0, 1));
        for stranger in [Source::V4([198, 51, 100, 1]), Source::V6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1])] {
            assert_eq!(limiter.charge(stranger, 1_000, start), Admission::Allowed);
        }
        // A form that exceeds the network's budget does not count against its source's budget.
        assert_eq!(limiter.charge(source(4), 1_000, start + retry_after), Admission::Allowed);
    }

    #[test]
    fn a_network_has_at_least_the_budget_of_one_source() {
        let (limiter, start) = (small(2_000, 10), Instant::now());
        assert_eq!(limiter.charge(source(1), 2_000, start), Admission::Allowed);
    }

    #[test]
    fn a_form_that_is_larger_than_a_budget_takes_all_of_it() {
        let (limiter, start) = (small(1_000, 1_000), Instant::now());
        assert_eq!(limiter.charge(source(1), 5_000, start), Admission::Allowed);
        assert_eq!(wait(limiter.charge(source(1), 5_000, start)), Some(DAY));
        assert_eq!(limiter.charge(source(1), 5_000, start + DAY), Admission::Allowed);
    }

    #[test]
    fn a_disabled_limiter_refuses_nothing() {
        let limiter = ByteLimiter::new(&ByteOptions { enabled: false, source: 1, network: 1 });
        for _ in 0..10 {
            assert_eq!(limiter.charge(source(1), 1 << 20, Instant::now()), Admission::Allowed);
        }
        assert_eq!(limiter.counts(), DecisionCounts::default());
    }

    #[test]
    fn a_clock_that_was_read_early_refills_nothing() {
        let (limiter, start) = (small(1_000, 1_000), Instant::now());
        assert_eq!(limiter.charge(source(1), 1_000, start + HOUR), Admission::Allowed);
        let refused = |now| wait(limiter.charge(source(1), 1_000, now));
        assert_eq!(refused(start + HOUR), Some(DAY));
        assert_eq!(refused(start), Some(DAY));
    }

    #[test]
    fn the_largest_budget_is_counted_without_overflow_for_a_century() {
        let (limiter, start) = (small(u64::MAX, u64::MAX), Instant::now());
        let later = start + 100 * 365 * DAY;
        assert_eq!(limiter.charge(source(1), 1, start), Admission::Allowed);
        assert_eq!(limiter.charge(source(1), usize::MAX, later), Admission::Allowed);
        assert_eq!(wait(limiter.charge(source(1), usize::MAX, later)), Some(DAY));
    }

    #[test]
    fn all_memory_is_released_after_an_idle_day() {
        let mut debts = ByteDebts::new(1_000, 4);
        let account = debts.look_up(7);
        debts.charge(&account, 1_000);
        debts.advance_to(DAY.saturating_sub(Duration::from_secs(1)));
        assert_eq!(debts.table.cells.iter().filter(|cell| **cell != 0).count(), ROWS);
        debts.advance_to(2 * DAY);
        assert_eq!(debts.table.cells, vec![0; ROWS << 4]);
    }

    #[test]
    fn exhausted_sources_rarely_block_other_sources() {
        let options = ByteOptions { enabled: true, source: 1_000, network: MAX_BYTES };
        let (limiter, start) = (ByteLimiter::with_table_bits(&options, 12, 12), Instant::now());
        // The ratio of sources to cells is the same as for 32,000 sources in a full-size sketch.
        for n in 0..500 {
            // The last sources may already be refused, because they share cells with earlier ones.
            let _ = limiter.charge(source(n), 1_000, start);
        }
        // Four of 20,000 are expected to be refused. The probability of 40 or more is below 10^-25.
        let refused =
            (1_000..21_000).filter(|n| wait(limiter.charge(source(*n), 0, start)).is_some()).count();
        assert_eq!(refused, 0, "a form of zero bytes is always allowed");
        let wrongly = (1_000..21_000).filter(|n| waits(&limiter, source(*n), 1_000)).count();
        assert!(wrongly < 40, "{wrongly}");
    }

    proptest! {
        #[test]
        fn no_source_gets_more_than_a_table_of_exact_debts_allows(
            steps in prop::collection::vec((0_u32..6, 0_usize..700, 0_u64..40_000), 1..200)
        ) {
            const BUDGET: u64 = 1_000;
            // The table is so large that shared cells cause a refusal in only one of 10^13 runs of this test.
            let options = ByteOptions { enabled: true, source: BUDGET, network: MAX_BYTES };
            let (limiter, start) = (ByteLimiter::with_table_bits(&options, 16, 4), Instant::now());
            // Send a first request to start the limiter's clock, so that the limiter and the table count from
            // the same time.
            assert_eq!(limiter.charge(source(0), 0, start), Admission::Allowed);
            let mut table: HashMap<u32, u64> = HashMap::new();
            let mut elapsed = Duration::ZERO;
            for (key, bytes, seconds) in steps {
                elapsed += Duration::from_secs(seconds);
                let recovered = elapsed.as_nanos() * u128::from(BUDGET) / DAY.as_nanos();
                let recovered = u64::try_from(recovered).unwrap();
                let cell = table.entry(key).or_default();
                let debt = cell.saturating_sub(recovered) + bytes as u64;
                let fits = debt <= BUDGET;
                if fits {
                    *cell = recovered + debt;
                }
                prop_assert_eq!(wait(limiter.charge(source(key), bytes, start + elapsed)).is_none(), fits);
            }
        }
    }

    /// The time that a refused form has to wait; `None` if the form was allowed.
    fn wait(admission: Admission) -> Option<Duration> {
        match admission {
            Admission::Allowed => None,
            Admission::Refused { retry_after, .. } => Some(retry_after),
        }
    }

    /// The number of forms refused because of their source, and because of their network.
    fn refusals(limiter: &ByteLimiter) -> (u64, u64) {
        let counts = limiter.counts();
        (counts.refused_by_source, counts.refused_by_network)
    }

    /// Whether a form of this size would be refused now. Does not count a form.
    fn waits(limiter: &ByteLimiter, source: Source, bytes: u64) -> bool {
        let state = limiter.layers.lock().unwrap();
        !state.sources.wait(&state.sources.look_up(source), bytes).is_zero()
    }

    fn small(source: u64, network: u64) -> ByteLimiter {
        ByteLimiter::with_table_bits(&ByteOptions { enabled: true, source, network }, 10, 10)
    }

    /// Sources 0 to 255 are in the same network.
    fn source(n: u32) -> Source {
        let bytes = n.to_be_bytes();
        Source::V4([192, bytes[0] ^ bytes[1], bytes[2], bytes[3]])
    }
}
