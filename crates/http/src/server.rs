//! The state that all workers of a server share.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::conn_limits::Connections;
use super::counters::Counters;
use super::options::Options;
use super::tls::Tls;

/// The state that all workers share. `S` is the handlers' snapshot, which a reload replaces; it contains the
/// server's [`Options`].
pub struct Server<S> {
    /// The current snapshot.
    pub snapshot: Arc<ArcSwap<S>>,
    /// The TLS state; `None` if the server does not listen on a TLS socket.
    pub tls: Option<Arc<Tls>>,
    pub counters: Counters,
    pub(super) connections: Arc<Connections>,
}

impl<S: AsRef<Options> + Send + Sync + 'static> Server<S> {
    pub fn new(snapshot: Arc<ArcSwap<S>>, tls: Option<Arc<Tls>>) -> Self {
        Self { snapshot, tls, counters: Counters::default(), connections: Arc::default() }
    }

    /// The memory that open connections hold, in bytes, except for those of trusted proxies.
    pub fn connections_memory(&self) -> usize {
        self.connections.total_memory()
    }
}
