//! The context in which a request is served: the state of its worker thread and of its connection.

use std::sync::Arc;

use tokio::sync::watch;

use super::fast_path::FastPath;
use super::options::Timeouts;
use super::slot::Slot;
use super::socket::{Peer, Scheme};
use super::state::{AppState, ShutdownPhase};

/// The state that all connections of one thread share.
pub struct WorkerState {
    pub(super) app: Arc<AppState>,
    pub(super) fast_path: FastPath,
}

impl WorkerState {
    pub fn new(app: &AppState) -> Self {
        Self { app: Arc::new(app.for_worker()), fast_path: FastPath::new() }
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
