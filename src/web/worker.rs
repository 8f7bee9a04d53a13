//! The context in which a request is served: the state of its worker thread and of its connection.

use std::sync::Arc;

use tokio::sync::watch;

use super::fast_path::FastPath;
use super::options::Timeouts;
use super::slot::Slot;
use super::socket::{Peer, Scheme};
use super::state::{AppState, ShutdownPhase};
use super::write_buffer::SpareBuffer;

/// The state that all connections of one thread share.
pub struct WorkerState {
    pub(super) app: Arc<AppState>,
    pub(super) fast_path: FastPath,
    /// For the frames of HTTP/2 connections.
    pub(super) spare_buffer: SpareBuffer,
}

impl WorkerState {
    pub fn new(app: &AppState) -> Self {
        let (fast_path, spare_buffer) = (FastPath::new(), SpareBuffer::default());
        Self { app: Arc::new(app.for_worker()), fast_path, spare_buffer }
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
