//! The state of a limiter: the debts of all sources and of all networks, and the counts of its decisions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::quota::DecisionCounts;

/// The debts of all sources, or of all networks: how much of its quota or budget each of them has used.
pub(super) trait Debts {
    /// Sets the time since the first request, which must never decrease. Call this before any other method.
    fn advance_to(&mut self, elapsed: Duration);
}

/// The state of a limiter, shared by all workers. Empty if the limiter is disabled.
pub(super) struct Layers<T>(Option<Mutex<LayerState<T>>>);

/// The state behind the lock of [`Layers`].
pub(super) struct LayerState<T> {
    first_request: Option<Instant>,
    /// The time from the first request to the latest one.
    elapsed: Duration,
    pub(super) sources: T,
    pub(super) networks: T,
    pub(super) counts: DecisionCounts,
}

impl<T: Debts> Layers<T> {
    /// Layers with the initial debts that `create` returns: of sources, then of networks. If the limiter is
    /// disabled, does not call `create` and keeps no state.
    pub(super) fn new(is_enabled: bool, create: impl FnOnce() -> [T; 2]) -> Self {
        Self(is_enabled.then(|| {
            let ([sources, networks], counts) = (create(), DecisionCounts::default());
            let elapsed = Duration::ZERO;
            Mutex::new(LayerState { first_request: None, elapsed, sources, networks, counts })
        }))
    }

    /// Locks the state without advancing its time. `None` if the limiter is disabled.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, LayerState<T>>> {
        self.0.as_ref().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the state and advances it to `now` if that is later. `None` if the limiter is disabled.
    pub(super) fn lock_at(&self, now: Instant) -> Option<MutexGuard<'_, LayerState<T>>> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        let first = *state.first_request.get_or_insert(now);
        state.elapsed = state.elapsed.max(now.saturating_duration_since(first));
        state.sources.advance_to(state.elapsed);
        state.networks.advance_to(state.elapsed);
        Some(guard)
    }

    pub(super) fn counts(&self) -> DecisionCounts {
        self.lock().map(|state| state.counts).unwrap_or_default()
    }
}
