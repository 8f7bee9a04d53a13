//! The phases of a shutdown.

/// The phases of a server's life, in order. A server never returns to an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownPhase {
    Serving,
    /// The server still accepts connections, but each HTTP/1 response closes its connection, and open HTTP/2
    /// connections receive GOAWAY: load balancers should stop sending requests before the sockets close.
    Draining,
    /// The server accepts no new connections and finishes the requests in progress.
    Stopping,
}
