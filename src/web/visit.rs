//! What everybody who serves a connection has to know of it.

use std::sync::Arc;

use tokio::sync::watch;

use super::socket::{Peer, Scheme};
use super::source::Slot;
use super::{Options, Stage, Worker};

/// A connection of which it is known whose it is.
pub(super) struct Visit<'a> {
    pub(super) worker: &'a Worker,
    /// As they are when it begins.
    pub(super) options: Arc<Options>,
    pub(super) scheme: Scheme,
    pub(super) peer: Peer,
    pub(super) stage: watch::Receiver<Stage>,
    /// Says when the connection is to be closed to make room.
    pub(super) slot: Arc<Slot>,
}
