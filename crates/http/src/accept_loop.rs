//! Runs a worker: accepts connections, shares them with other workers, and ends them at shutdown.

use std::fs::File;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::runtime::LocalOptions;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::balance::{AcceptedConn, Balancer, ConnGuard, TransferredConns};
use super::counters::CloseReason;
use super::handler::PublicHandler;
use super::serve_connection;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Listener, Scheme, Socket};
use super::worker_context::Worker;
use frontdesk_process::panics::{self, Part};

/// The number of tasks that run between polls for events: high, because a poll costs a third as much as a
/// response.
const EVENT_INTERVAL: u32 = 256;

/// Maximum number of queued connections that are accepted at shutdown: the length of the queue. The maximum
/// is needed because the queue may never become empty while another process shares the socket.
const MAX_QUEUED: usize = 4096;

/// Pause after an error: while memory or descriptors are exhausted, accepting would fail again at once.
pub(super) const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// Runs one worker until [`ShutdownPhase::Stopping`], then until its connections or the grace period end.
/// Fails if the runtime or a listener cannot be created. Panics if a task that accepts connections has
/// panicked.
pub(super) fn run<H: PublicHandler>(
    worker: Worker<H>,
    sockets: Vec<(Scheme, Socket)>,
    (balancer, mut transferred): (Balancer, TransferredConns),
    phase: watch::Receiver<ShutdownPhase>,
) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(EVENT_INTERVAL).build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let (alive, mut ended) = watch::channel(());
        let tasks = Rc::new(ConnTasks { worker, phase, _alive: alive });
        let mut accepting = JoinSet::new();
        for (scheme, socket) in sockets {
            let listener = socket.into_listener()?;
            let (tasks, balancer) = (tasks.clone(), balancer.clone());
            accepting.spawn_local(async move {
                // The task owns the listener, so that this worker's socket closes when the task ends.
                accept(&tasks, scheme, &listener, &balancer).await;
            });
        }
        drop(balancer);
        let receiving = tasks.clone();
        accepting.spawn_local(async move {
            // This loop ends after the last transfer, when all workers have stopped accepting connections.
            while let Some((accepted, guard)) = transferred.recv().await {
                receiving.spawn_connection(accepted, guard);
            }
        });
        let server = tasks.worker.server.clone();
        drop(tasks);
        while let Some(ended) = accepting.join_next().await {
            // Unlike a panic in a connection's task, a panic here would leave a worker that serves nothing.
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        let grace = (**server.snapshot.load()).as_ref().shutdown_grace;
        // The channel closes when the last connection has ended.
        let _ = tokio::time::timeout(grace, async { while ended.changed().await.is_ok() {} }).await;
        Ok(())
    })
}

/// The state that the tasks of a worker's connections share.
struct ConnTasks<H: PublicHandler> {
    worker: Worker<H>,
    phase: watch::Receiver<ShutdownPhase>,
    /// The channel closes when the last connection drops its reference to this struct.
    _alive: watch::Sender<()>,
}

impl<H: PublicHandler> ConnTasks<H> {
    /// Starts a task on this thread that serves the connection, and drops `guard` at its end.
    fn spawn_connection(self: &Rc<Self>, accepted: AcceptedConn, guard: ConnGuard) {
        let tasks = self.clone();
        tokio::task::spawn_local(async move {
            serve_connection::serve(&tasks.worker, accepted, tasks.phase.clone()).await;
            drop(guard);
        });
    }
}

/// Accepts connections until [`ShutdownPhase::Stopping`], then up to [`MAX_QUEUED`] that are still in the
/// queue. Starts to serve each one, or transfers it to a worker with fewer. Closes a connection at once if a
/// limit has been reached or no file descriptor is free. Pauses after an error that does not concern only one
/// connection.
async fn accept<H: PublicHandler>(
    tasks: &Rc<ConnTasks<H>>,
    scheme: Scheme,
    listener: &Listener,
    balancer: &Balancer,
) {
    let server = &tasks.worker.server;
    let mut reserve = Reserve::new();
    let mut phase = tasks.phase.clone();
    let mut outage = AcceptOutage::default();
    let admit = |stream, peer| {
        // Above a limit, close the connection without a response: waiting for its request would cost more.
        let admit = || match server.connections.admit(peer, (**server.snapshot.load()).as_ref()) {
            Ok(permit) => {
                let accepted = AcceptedConn { scheme, stream, peer, permit };
                if let Some((accepted, guard)) = balancer.keep_or_transfer(accepted) {
                    tasks.spawn_connection(accepted, guard);
                }
            }
            Err(reason) => server.counters.record_close(reason),
        };
        if let Err(panic) = panics::catch(Part::Request, admit) {
            tracing::error!("{panic} closed a new connection; other connections are not affected");
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase == ShutdownPhase::Stopping) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                outage.end(listener);
                admit(stream, peer);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                outage.begin(listener, &error);
                if is_out_of_descriptors(&error) {
                    reserve.turn_away(listener);
                    server.counters.record_close(CloseReason::Descriptors);
                }
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                reserve.reopen();
            }
        }
    }
    // Accept the queued connections before the socket closes, which would reset them.
    for (stream, peer) in std::iter::from_fn(|| listener.accept_waiting()).take(MAX_QUEUED) {
        admit(stream, peer);
    }
}

/// The address of a listener, for logs. Empty if it cannot be read from the socket.
fn shown_address(listener: &Listener) -> String {
    listener.address().map(|address| address.to_string()).unwrap_or_default()
}

/// Logs when accepting connections on a listener begins to fail, and when it works again.
#[derive(Default)]
pub(super) struct AcceptOutage {
    is_failing: bool,
}

impl AcceptOutage {
    /// Records an error. Logs it with the address if it is the first of an outage.
    pub(super) fn begin(&mut self, listener: &Listener, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let address = shown_address(listener);
            tracing::warn!(address, %error, "cannot accept connections; retrying every 50 ms");
        }
    }

    /// Records an accepted connection. If it ends an outage, logs the recovery with the listener's address.
    pub(super) fn end(&mut self, listener: &Listener) {
        if std::mem::take(&mut self.is_failing) {
            let address = shown_address(listener);
            tracing::info!(address, "accepting connections again");
        }
    }
}

/// Whether the error concerns only a connection that ended before it was accepted, or an interrupted system
/// call. The next connection can then be accepted at once.
pub(super) fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A spare file descriptor. When no other is free, releasing it lets the server accept and close a
/// connection, which would otherwise wait in the queue until the client times out.
struct Reserve(Option<File>);

impl Reserve {
    fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Releases the spare descriptor to accept one connection, closes that connection, and reopens the spare.
    fn turn_away(&mut self, listener: &Listener) {
        drop(self.0.take());
        drop(listener.accept_waiting());
        self.reopen();
    }

    /// Reopens the spare descriptor if an earlier attempt failed because no descriptor was free.
    fn reopen(&mut self) {
        if self.0.is_none() {
            *self = Self::new();
        }
    }
}
