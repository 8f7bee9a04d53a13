//! The state that all workers of a server share.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::conn_limits::Connections;
use super::counters::Counters;
use super::options::Options;
use super::private_server_host::PrivateName;
use super::sendfile_body_copies::BodyCopies;
use super::tls::Tls;

/// The state that all workers share. `S` is the handlers' snapshot, which a reload replaces; it contains the
/// server's [`Options`].
pub struct Server<S> {
    /// The handlers' current snapshot, which a reload replaces as a whole.
    pub snapshot: Arc<ArcSwap<S>>,
    /// The TLS state; `None` if the server does not listen on a TLS socket.
    pub tls: Option<Arc<Tls>>,
    /// The private host name. A private handler, instead of the site's, serves connections for this name.
    pub private_name: Option<Arc<PrivateName>>,
    pub counters: Counters,
    pub(super) connections: Arc<Connections>,
    pub(super) body_copies: BodyCopies,
}

impl<S: AsRef<Options> + Send + Sync + 'static> Server<S> {
    pub fn new(snapshot: Arc<ArcSwap<S>>, tls: Option<Arc<Tls>>) -> Self {
        let (counters, connections) = (Counters::default(), Arc::default());
        Self { snapshot, tls, private_name: None, counters, connections, body_copies: BodyCopies::default() }
    }

    /// Puts the copies of long bodies that are requested again into files without names in `folder`. If that
    /// fails, or without this method, they are in memory. There are at most 64 MiB of them, and fewer under a
    /// low [`Options::max_memory`].
    #[must_use]
    pub fn with_copies_in(self, folder: impl Into<std::path::PathBuf>) -> Self {
        Self { body_copies: BodyCopies::in_folder(folder.into()), ..self }
    }

    /// Reserves a name for a private handler: no request for it reaches this server's handlers.
    #[must_use]
    pub fn with_private_name(self, private_name: Option<Arc<PrivateName>>) -> Self {
        Self { private_name, ..self }
    }

    /// The memory of the copies from which the kernel sends long bodies, in bytes. Resident memory does not
    /// include it.
    pub fn copies_memory(&self) -> u64 {
        self.body_copies.bytes()
    }

    /// The memory that open connections are estimated to hold, in bytes, except for those of trusted proxies.
    pub fn connections_memory(&self) -> usize {
        self.connections.total_memory()
    }
}
