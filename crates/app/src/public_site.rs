//! The handler of the public address: its state and the caches of its thread. `router` and `fast_responder`
//! handle the requests.

use std::cell::RefCell;
use std::sync::Arc;

use super::header_cache::HeadCache;
use super::header_lines::HeaderLines;
use super::preferences::PreferenceCache;
use super::state::AppState;

/// Serves the site and its forms on one thread.
pub struct PublicSite {
    pub(super) app: Arc<AppState>,
    pub(super) preferences: PreferenceCache,
    pub(super) heads: RefCell<HeadCache>,
    pub(super) lines: RefCell<HeaderLines>,
}

impl PublicSite {
    /// A handler with counters of its own, for one thread.
    pub fn new(app: &AppState) -> Self {
        Self {
            app: Arc::new(app.for_worker()),
            preferences: PreferenceCache::default(),
            heads: RefCell::new(HeadCache::new()),
            lines: RefCell::default(),
        }
    }
}
