//! Local rate limits: counts requests in this process, with one sketch for sources and one for networks.

use std::time::Instant;

use super::limiter_state::{LayerState, Layers};
use super::quota::{Admission, DecisionCounts, LimitDecision, LimitOptions, QuotaStatuses};
use super::rule::{self, LimitRule};
use super::sketch::{Sketch, SketchEntry};
use crate::source::Source;

/// Base-2 logarithm of the number of columns in the sketch of sources, which takes 32 MiB.
const SOURCE_BITS: u32 = 20;
/// Base-2 logarithm of the number of columns in the sketch of networks, which takes 8 MiB.
const NETWORK_BITS: u32 = 18;
/// Base-2 logarithms of the numbers of columns for [`LocalLimiter::small`]. The sketches take 512 KiB and 128
/// KiB.
const SMALL_SOURCE_BITS: u32 = 14;
const SMALL_NETWORK_BITS: u32 = 12;

/// Limits requests, based on counts kept in this process. All workers share one limiter.
pub struct LocalLimiter {
    layers: Layers<Sketch>,
}

impl LocalLimiter {
    pub fn new(options: &LimitOptions) -> LocalLimiter {
        LocalLimiter::with_table_bits(options, SOURCE_BITS, NETWORK_BITS)
    }

    /// A limiter for few sources, which takes 640 KiB at most.
    pub fn small(options: &LimitOptions) -> LocalLimiter {
        LocalLimiter::with_table_bits(options, SMALL_SOURCE_BITS, SMALL_NETWORK_BITS)
    }

    fn with_table_bits(options: &LimitOptions, source_bits: u32, network_bits: u32) -> LocalLimiter {
        let rule = LimitRule::new(options);
        let create = || [Sketch::new(rule.source, source_bits), Sketch::new(rule.network, network_bits)];
        LocalLimiter { layers: Layers::new(options.enabled, create) }
    }

    /// Checks a request from `source` at `now`. If all quotas allow the request, counts it against them. A
    /// disabled limiter allows everything and reports no status.
    pub fn check(&self, source: Source, now: Instant) -> LimitDecision {
        let Some(mut state) = self.layers.lock_at(now) else {
            return LimitDecision { admission: Admission::Allowed, statuses: None };
        };
        let mut entry = state.sources.look_up(source);
        let mut network = state.networks.look_up(source.network());
        let waits = [state.sources.wait(&entry), state.networks.wait(&network)];
        let admission = rule::refusal(waits).unwrap_or_else(|| {
            state.sources.charge(&mut entry);
            state.networks.charge(&mut network);
            Admission::Allowed
        });
        state.counts.count(admission);
        LimitDecision { admission, statuses: Some(quota_statuses(&state, &entry, &network)) }
    }

    /// Counts a decision that Redis made. If the request was allowed, also counts it against the local quotas
    /// of its source and its network, so that later local decisions take it into account. Skips a source or
    /// network that has exhausted a local quota.
    pub fn record_redis_decision(&self, source: Source, admission: Admission, now: Instant) {
        let Some(mut state) = self.layers.lock_at(now) else { return };
        state.counts.count(admission);
        let Admission::Allowed = admission else { return };
        state.sources.charge_if_free(source);
        state.networks.charge_if_free(source.network());
    }

    /// The quota status of `source`. Does not count a request. `None` if limits are disabled.
    pub fn status(&self, source: Source, now: Instant) -> Option<QuotaStatuses> {
        let state = self.layers.lock_at(now)?;
        let entry = state.sources.look_up(source);
        let network = state.networks.look_up(source.network());
        Some(quota_statuses(&state, &entry, &network))
    }

    pub fn counts(&self) -> DecisionCounts {
        self.layers.counts()
    }

    /// Estimates how many sources had a debt at the latest request, usually to within a few tenths of a
    /// percent; less precisely above five million, or for [`LocalLimiter::small`]. Zero if limits are
    /// disabled.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate between zero and a few million"
    )]
    pub fn estimate_sources(&self) -> u64 {
        /// The number of cells that are read before the lock is released, so that requests wait only briefly.
        const PIECE: usize = 1 << 14;
        let Some(row) = self.layers.lock().map(|state| state.sources.row_length()) else { return 0 };
        let owing: usize = (0..row)
            .step_by(PIECE)
            .filter_map(|from| {
                Some(self.layers.lock()?.sources.count_cells_with_debt(from..row.min(from + PIECE)))
            })
            .sum();
        // Linear counting: several sources may share a cell, so estimate from the fraction of free cells.
        let free = (row - owing).max(1);
        (row as f64 * (row as f64 / free as f64).ln()).round() as u64
    }
}

fn quota_statuses(state: &LayerState<Sketch>, entry: &SketchEntry, network: &SketchEntry) -> QuotaStatuses {
    let ([a, b], [c, d]) = (state.sources.statuses(entry), state.networks.statuses(network));
    [a, b, c, d]
}

#[cfg(test)]
mod tests;
