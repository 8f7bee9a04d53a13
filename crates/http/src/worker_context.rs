//! A worker thread's handler and buffers, and the context of its connections.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;

use super::connection_memory::Slot;
use super::fast_path::plain_response::SharedBuffers;
use super::handler::PublicHandler;
use super::options::Timeouts;
use super::server_state::Server;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Peer, Scheme};
use super::write_buffer::SpareBuffer;

/// The handler and the buffers that all connections of one thread share. Clones share them as well.
pub struct Worker<H: PublicHandler> {
    pub(super) server: Arc<Server<H::Snapshot>>,
    pub(super) handler: Rc<H>,
    pub(super) fast_path: Rc<SharedBuffers>,
    /// A spare buffer for HTTP/2 frames, which one connection at a time takes and then returns.
    pub(super) spare_buffer: SpareBuffer,
}

impl<H: PublicHandler> Worker<H> {
    pub fn new(server: Arc<Server<H::Snapshot>>, handler: H) -> Self {
        Self {
            server,
            handler: Rc::new(handler),
            fast_path: Rc::new(SharedBuffers::new()),
            spare_buffer: SpareBuffer::default(),
        }
    }
}

impl<H: PublicHandler> Clone for Worker<H> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            handler: self.handler.clone(),
            fast_path: self.fast_path.clone(),
            spare_buffer: self.spare_buffer.clone(),
        }
    }
}

/// A connection whose peer is known, with its worker, its time limits and its slot.
pub(super) struct ConnContext<'a, H: PublicHandler> {
    pub(super) worker: &'a Worker<H>,
    /// The time limits that applied when the connection was accepted.
    pub(super) timeouts: Timeouts,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) phase: watch::Receiver<ShutdownPhase>,
    /// Counts the connection's memory, and signals when the connection must close to free resources.
    pub(super) slot: Arc<Slot>,
}
