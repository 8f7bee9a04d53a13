//! Everything HTTP: the accept loop with its deadlines, every URL on one screen, and the only mapping from errors to answers.
//!
//! Nothing outside this module knows an HTTP type. A worker is a thread with a runtime of its own, so that a connection's state
//! never crosses threads; all workers accept from the same socket.

mod access_log;
pub mod agent;
mod ambiguity;
mod answer;
mod body;
pub mod client;
mod connection;
pub mod describe;
mod door;
mod get_page;
mod http1;
mod http2;
mod listener;
mod memory;
mod metrics;
mod ops;
mod post_form;
mod protocol;
mod proxy;
pub mod proxy_headers;
mod request_id;
mod router;
mod share;
mod socket;
mod source;
pub mod tls;
mod visit;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use self::agent::{Agents, Origin};
use self::visit::Visit;
use crate::deliver::worker::Confirmations;
use crate::limits::gate::Gate;
use crate::limits::pressure::Pressure;
use crate::limits::{self, ByteLimiter, ByteOptions};
use crate::pages::Site;
use crate::store::disk::DiskMonitor;
use crate::store::{Place, Store};

pub use access_log::TARGET as REQUESTS;
pub use client::ForwardedHeader;
pub use memory::{NEEDED as NEEDED_MEMORY, default_limit as default_memory_limit};
pub use metrics::Metrics;
pub use socket::{Address, BindError, Socket, Sockets};
pub use source::Network;

/// What the names of the threads begin with that answer requests.
pub const WORKER: &str = "worker-";

/// How the public and the private address are served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that answer requests.
    pub workers: usize,
    /// Connections in all; further ones are closed at once.
    pub max_connections: usize,
    /// Connections from one IPv4 address or one IPv6 /64, trusted proxies excepted.
    pub max_connections_per_source: usize,
    /// Connections from one IPv4 /24 or one IPv6 /48, trusted proxies excepted; at least as many as one source may have.
    pub max_connections_per_network: usize,
    /// Above this much resident memory, in bytes, the connections that hold the most are closed; none if there is no limit.
    pub max_memory: Option<u64>,
    /// Peers that are believed to say whom they speak for.
    pub trusted_proxies: Vec<Network>,
    /// Whether their connections begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// In which header they say it.
    pub forwarded_header: ForwardedHeader,
    /// From accepting a connection to its first byte.
    pub first_byte_timeout: Duration,
    /// From a request's first byte to the end of its header.
    pub header_timeout: Duration,
    /// For a form's body.
    pub body_timeout: Duration,
    /// Between two requests on a connection, and between two pieces of an answer that the client reads; it must read 16 KiB a
    /// second on the whole. A trusted proxy's connection may wait for a request for longer.
    pub idle_timeout: Duration,
    /// From a request's header to the beginning of its answer.
    pub exchange_timeout: Duration,
    /// For how long connections are still accepted once the server is told to end, while `/readyz` says already that it does.
    pub drain: Duration,
    /// How long connections may finish their exchanges after that.
    pub shutdown_grace: Duration,
    /// The forms whose 200 waits until a channel has confirmed the submission.
    pub confirmed_forms: Vec<&'static str>,
    /// For how long it waits; then the answer is 500, and delivery goes on.
    pub confirm_timeout: Duration,
    /// Whether plain requests over HTTP/1.1 are answered by a loop of our own, and not by hyper. The answers are the same.
    pub fast_lane: bool,
    /// Whether each request is noted in the log.
    pub log_requests: bool,
    /// The database, for `/metrics` to count in.
    pub inbox: Place,
    /// The channels' names, likewise.
    pub channels: Vec<String>,
    /// How TLS is spoken.
    pub tls: tls::Options,
}

/// As it is where nobody configures anything.
impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            max_connections: 10_000,
            max_connections_per_source: 256,
            max_connections_per_network: 2048,
            max_memory: None,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            forwarded_header: ForwardedHeader::XForwardedFor,
            first_byte_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            exchange_timeout: Duration::from_secs(30),
            drain: Duration::ZERO,
            shutdown_grace: Duration::from_secs(10),
            confirmed_forms: Vec::new(),
            confirm_timeout: Duration::from_secs(15),
            fast_lane: true,
            log_requests: false,
            inbox: Place::Sqlite(PathBuf::new()),
            channels: Vec::new(),
            tls: tls::Options::default(),
        }
    }
}

/// How far a server has come. It goes on to the next stage, and never back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Everybody is let in.
    Serving,
    /// Everybody is still let in, but `/readyz` is 503, each answer over HTTP/1 says that its connection ends, and connections over
    /// HTTP/2 that were there before are told so: balancers are to send nobody here any more before the sockets are closed. Lasts
    /// for [`Options::drain`].
    Draining,
    /// Nobody is let in any more, and what is under way may finish.
    Stopping,
}

/// What requests are answered from.
#[derive(Debug)]
pub struct Desk {
    /// Where submissions are kept.
    pub store: Store,
    /// Whose requests were refused lately.
    pub pressure: Arc<Pressure>,
    /// How much space is free where submissions are kept.
    pub disk: Arc<DiskMonitor>,
    /// What a reload replaces, all of it at once. A request sees one state of it from beginning to end.
    pub live: Arc<ArcSwap<Live>>,
    /// What is needed for connections over TLS; none where nobody listens for them.
    pub tls: Option<Arc<tls::Tls>>,
    /// What is counted.
    pub metrics: Metrics,
    /// Returns freed memory to the system, so that resident memory reflects what is in use.
    pub release_memory: fn(),
}

impl Desk {
    /// A desk that answers from `site` and keeps what is sent in `store`; everything but `options` is as it is where nobody
    /// configures anything, and nobody is limited.
    pub fn new(site: Site, store: Store, options: Options) -> Self {
        let agents = agent::Options {
            directories: Vec::new(),
            allow_private: false,
            extra_roots: None,
            origin: Origin::of(site.base_url()),
            deadlines: agent::DEADLINES,
            patience: agent::PATIENCE,
        };
        let live = Live {
            site: Arc::new(site),
            confirmations: Confirmations::default(),
            limiter: Arc::new(Gate::new(
                &limits::Options { enabled: false, ..limits::Options::default() },
                None,
            )),
            byte_limiter: Arc::new(ByteLimiter::new(&ByteOptions {
                enabled: false,
                ..ByteOptions::default()
            })),
            agents: Arc::new(Agents::new(&agents)),
            options: Arc::new(options),
            generation: 1,
        };
        Self {
            store,
            pressure: Arc::default(),
            disk: Arc::new(DiskMonitor::idle()),
            live: Arc::new(ArcSwap::from_pointee(live)),
            tls: None,
            metrics: Metrics::new(Arc::default()),
            release_memory: || {},
        }
    }

    /// The same desk for another worker, which counts in memory of its own.
    fn of_worker(&self) -> Self {
        Self {
            store: self.store.clone(),
            pressure: self.pressure.clone(),
            disk: self.disk.clone(),
            live: self.live.clone(),
            tls: self.tls.clone(),
            metrics: self.metrics.of_worker(),
            release_memory: self.release_memory,
        }
    }
}

/// What the connections share that one thread serves.
#[derive(Debug)]
pub struct Worker {
    desk: Arc<Desk>,
    lane: http1::Lane,
}

impl Worker {
    /// Another worker of `desk`.
    pub fn new(desk: &Desk) -> Self {
        Self { desk: Arc::new(desk.of_worker()), lane: http1::Lane::new() }
    }

    /// Answers the requests that come by `stream` in the clear, as if it were a connection from one of our sockets, until it ends, a
    /// deadline has passed or the server stops. Runs on a tokio runtime of one thread that has a clock.
    pub async fn attend(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: IpAddr,
        stage: watch::Receiver<Stage>,
    ) {
        let peer = socket::Peer::at(peer);
        let options = self.desk.live.load().options.clone();
        let visit =
            Visit { worker: self, options, scheme: socket::Scheme::Http, peer, stage, slot: Arc::default() };
        visit.serve_cleartext(stream).await;
    }
}

/// One state of the site and its configuration.
#[derive(Debug)]
pub struct Live {
    /// All that is read.
    pub site: Arc<Site>,
    /// By which deliveries can be waited for.
    pub confirmations: Confirmations,
    /// How often one source may submit. Stays the same over a reload that leaves its options alone.
    pub limiter: Arc<Gate>,
    /// How many bytes one source may submit. Stays the same likewise.
    pub byte_limiter: Arc<ByteLimiter>,
    /// Which agents are recognised. Stays the same likewise, with the keys that it has fetched.
    pub agents: Arc<Agents>,
    /// How this server is run.
    pub options: Arc<Options>,
    /// Counts from 1 with each state that is put in the place of another.
    pub generation: u64,
}

/// Serves until [`Stage::Stopping`], then lets exchanges finish within [`Options::shutdown_grace`].
///
/// The sockets are listening already, so that their addresses can be told before.
pub fn serve(desk: &Arc<Desk>, mut sockets: Sockets, stage: &watch::Receiver<Stage>) -> io::Result<()> {
    let connections = Arc::new(source::Connections::default());
    let mut threads = Vec::new();
    let shares = share::among(desk.live.load().options.workers.max(1));
    for (number, share) in shares.into_iter().enumerate() {
        let (desk, public, stage, connections) =
            (desk.clone(), sockets.public()?, stage.clone(), connections.clone());
        let run = move || listener::run(Worker::new(&desk), public, connections, share, stage);
        threads.push(std::thread::Builder::new().name(format!("{WORKER}{number}")).spawn(run)?);
    }
    let private = sockets.ops.take();
    // Only the workers hold them now: when the last of them stops accepting, nobody is left waiting in a queue.
    drop(sockets);
    let (ended, until) = watch::channel(false);
    let ops = private.map(|private| {
        let (desk, stage, connections) = (desk.clone(), stage.clone(), connections.clone());
        let run = move || ops::run(desk, private, connections, stage, until);
        std::thread::Builder::new().name("ops".into()).spawn(run)
    });
    let ops = ops.transpose()?;
    let (_serving, stop) = mpsc::channel();
    let desk_to_watch = desk.clone();
    let watch_memory = move || memory::watch(&desk_to_watch, &connections, &stop);
    std::thread::Builder::new().name("memory".into()).spawn(watch_memory)?;
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
