//! Everything HTTP: the accept loop with its deadlines, every URL on one screen, and the only mapping from errors to answers.
//!
//! Nothing outside this module knows an HTTP type. A worker is a thread with a runtime of its own, so that a connection's state
//! never crosses threads; all workers accept from the same socket.

pub mod agent;
mod answer;
mod body;
mod connection;
mod get_page;
mod listener;
mod ops;
mod post_form;
mod router;
mod source;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use crate::inbox::deliver::worker::Confirmations;
use crate::inbox::limit::Limiter;
use crate::inbox::store::Store;
use crate::pages::Site;

pub use source::Network;

/// How the public and the private address are served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that answer requests.
    pub workers: usize,
    /// Connections in all; further ones are closed at once.
    pub max_connections: usize,
    /// Connections from one IPv4 address or one IPv6 /64, trusted proxies excepted.
    pub max_connections_per_source: usize,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
    /// From accepting a connection to its first byte.
    pub first_byte_timeout: Duration,
    /// From a request's first byte to the end of its header.
    pub header_timeout: Duration,
    /// For a form's body.
    pub body_timeout: Duration,
    /// Between two requests on a connection, and between two pieces of an answer that the client reads; it must read 16 KiB a
    /// second on the whole.
    pub idle_timeout: Duration,
    /// From a request's header to the beginning of its answer.
    pub exchange_timeout: Duration,
    /// How long connections may finish their exchanges once the server is told to stop.
    pub shutdown_grace: Duration,
    /// The forms whose 200 waits until a channel has confirmed the submission.
    pub confirmed_forms: Vec<&'static str>,
    /// For how long it waits; then the answer is 500, and delivery goes on.
    pub confirm_timeout: Duration,
}

/// What requests are answered from.
#[derive(Debug)]
pub struct Desk {
    /// All that is read.
    pub site: Arc<Site>,
    /// Where submissions are kept.
    pub store: Store,
    /// By which deliveries can be waited for.
    pub confirmations: Confirmations,
    /// How often one source may submit.
    pub limiter: Limiter,
    /// How this server is run.
    pub options: Options,
}

/// Serves until `stop` becomes true, then lets exchanges finish within [`Options::shutdown_grace`].
///
/// `public` and `private` are bound and listening already, so that their addresses can be told before.
pub fn serve(
    desk: &Arc<Desk>,
    public: TcpListener,
    private: Option<TcpListener>,
    stop: &watch::Receiver<bool>,
) -> io::Result<()> {
    public.set_nonblocking(true)?;
    let connections = Arc::new(source::Connections::new(&desk.options));
    let mut threads = Vec::new();
    for number in 0..desk.options.workers.max(1) {
        let (desk, public, stop, connections) =
            (desk.clone(), public.try_clone()?, stop.clone(), connections.clone());
        let run = move || listener::run(desk, public, connections, stop);
        threads.push(std::thread::Builder::new().name(format!("worker-{number}")).spawn(run)?);
    }
    // Only the workers hold it now: when the last of them stops accepting, nobody is left waiting in its queue.
    drop(public);
    let (ended, until) = watch::channel(false);
    let ops = private.map(|private| {
        let (desk, stop) = (desk.clone(), stop.clone());
        std::thread::Builder::new().name("ops".into()).spawn(move || ops::run(desk, private, stop, until))
    });
    let ops = ops.transpose()?;
    for thread in threads {
        join(thread)?;
    }
    // The private address says that the server is stopping for as long as it is.
    let _ = ended.send(true);
    ops.map_or(Ok(()), join)
}

fn join(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Connections that wait to be accepted; the kernel may allow fewer.
const BACKLOG: i32 = 4096;

/// Binds a listening socket; the error names the address.
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        // The standard library's 128 are full within milliseconds of a rush, and who finds no place tries again after a second.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    };
    bind().map_err(|cause| BindError { address, cause })
}

impl BindError {
    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    address: SocketAddr,
    #[source]
    cause: io::Error,
}
