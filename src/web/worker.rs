//! The context in which a request is served: the state of its worker thread and of its connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;

use super::fast_path::FastPath;
use super::head_cache::HeadCache;
use super::options::Timeouts;
use super::preferences::PreferenceCache;
use super::slot::Slot;
use super::socket::{Peer, Scheme};
use super::state::{AppState, ShutdownPhase};
use super::write_buffer::SpareBuffer;

/// The state that all connections of one thread share. Clones share it as well.
#[derive(Clone)]
pub struct WorkerState {
    pub(super) app: Arc<AppState>,
    pub(super) fast_path: Rc<FastPath>,
    pub(super) preferences: Rc<PreferenceCache>,
    pub(super) heads: Rc<RefCell<HeadCache>>,
    /// For the frames of HTTP/2 connections.
    pub(super) spare_buffer: SpareBuffer,
}

impl WorkerState {
    pub fn new(app: &AppState) -> Self {
        Self {
            app: Arc::new(app.for_worker()),
            fast_path: Rc::new(FastPath::new()),
            preferences: Rc::default(),
            heads: Rc::new(RefCell::new(HeadCache::new())),
            spare_buffer: SpareBuffer::default(),
        }
    }
}

/// A connection whose peer is known.
pub(super) struct ConnContext<'a> {
    pub(super) worker: &'a WorkerState,
    /// The time limits that applied when the connection was accepted.
    pub(super) timeouts: Timeouts,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) phase: watch::Receiver<ShutdownPhase>,
    /// Counts the connection's memory, and signals when the connection must close to free resources.
    pub(super) slot: Arc<Slot>,
}
