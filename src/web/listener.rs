//! Accepts connections on one worker's thread, as many as there is room for.

use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use super::metrics::Shed;
use super::share::{Accepted, Handed, Seat, Share};
use super::socket::{Listener, Scheme, Socket};
use super::source::Connections;
use super::{Stage, Worker, door};

/// So many connections get their turn before the kernel is asked which others are ready: to ask costs as much as a third of an
/// answer, and they are answered in microseconds.
const TURNS: u32 = 256;

/// So many who wait in the queue are let in at the end: as many as fit in, and not for ever where another process holds the socket too.
const MOST_WAITING: usize = 4096;

/// Without memory accepting fails at once, again and again; this long it is left alone.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// Runs one worker until [`Stage::Stopping`], and until its connections have ended or the grace is over.
pub(super) fn run(
    worker: Worker,
    sockets: Vec<(Scheme, Socket)>,
    connections: Arc<Connections>,
    (share, mut handed): (Share, UnboundedReceiver<Handed>),
    stage: watch::Receiver<Stage>,
) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(TURNS).build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let (alive, mut ended) = watch::channel(());
        let crew = Rc::new(Crew { worker, stage, _alive: alive });
        let mut accepting = Vec::new();
        for (scheme, socket) in sockets {
            let listener = socket.into_listener()?;
            let (crew, connections, share) = (crew.clone(), connections.clone(), share.clone());
            accepting.push(tokio::task::spawn_local(async move {
                // The socket closes with the loop, so that the balancer or the kernel sends nobody here any more.
                accept(&crew, scheme, &listener, &connections, &share).await;
            }));
        }
        drop(share);
        let taking = crew.clone();
        accepting.push(tokio::task::spawn_local(async move {
            // Ends when no worker accepts any more: whoever was handed over before is served.
            while let Some(handed) = handed.recv().await {
                if let Ok((accepted, seat)) = handed.take() {
                    taking.attend(accepted, seat);
                }
            }
        }));
        let desk = crew.worker.desk.clone();
        drop(crew);
        for accepting in accepting {
            // A connection that fails takes nothing else with it; a loop that does would leave a worker that serves nobody.
            if let Err(error) = accepting.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        let grace = desk.live.load().options.shutdown_grace;
        // It changes, to nothing, when the last connection has ended.
        let _ = tokio::time::timeout(grace, async { while ended.changed().await.is_ok() {} }).await;
        Ok(())
    })
}

/// What this thread's connections have in common.
struct Crew {
    worker: Worker,
    stage: watch::Receiver<Stage>,
    /// Each connection holds this as long as it lasts.
    _alive: watch::Sender<()>,
}

impl Crew {
    /// Serves a connection until it ends.
    fn attend(self: &Rc<Self>, accepted: Accepted, seat: Seat) {
        let crew = self.clone();
        tokio::task::spawn_local(async move {
            door::attend(&crew.worker, accepted, crew.stage.clone()).await;
            drop(seat);
        });
    }
}

/// Accepts until [`Stage::Stopping`].
async fn accept(
    crew: &Rc<Crew>,
    scheme: Scheme,
    listener: &Listener,
    connections: &Arc<Connections>,
    share: &Share,
) {
    let desk = &crew.worker.desk;
    let mut reserve = Reserve::new();
    let mut stage = crew.stage.clone();
    let mut failing = false;
    let let_in = |stream, peer| {
        // Too many: closing costs the least, and an answer would have to wait for a request first.
        match connections.admit(peer, &desk.live.load().options) {
            Ok(place) => {
                if let Some((accepted, seat)) = share.keep(Accepted { scheme, stream, peer, place }) {
                    crew.attend(accepted, seat);
                }
            }
            Err(reason) => desk.metrics.shed(reason),
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stage.wait_for(|stage| *stage == Stage::Stopping) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("connections are accepted again");
                }
                let_in(stream, peer);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "connections cannot be accepted for a moment");
                }
                if is_out_of_descriptors(&error) {
                    reserve.turn_away(listener);
                    desk.metrics.shed(Shed::Descriptors);
                }
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                reserve.renew();
            }
        }
    }
    // The kernel has let them in already, and would reset their connections with the socket, whatever they have sent.
    for (stream, peer) in std::iter::from_fn(|| listener.accept_waiting()).take(MOST_WAITING) {
        let_in(stream, peer);
    }
}

/// The peer was gone before its connection was accepted; the next one is not affected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A descriptor that is kept for the moment when there is none left. Whoever waits then is let in and shown out at once, instead
/// of hanging in the queue until he gives up.
struct Reserve(Option<File>);

impl Reserve {
    fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    fn turn_away(&mut self, listener: &Listener) {
        drop(self.0.take());
        listener.turn_away();
        self.renew();
    }

    /// Takes a descriptor, unless it has one: another thread may have used the last one for a moment.
    fn renew(&mut self) {
        if self.0.is_none() {
            *self = Self::new();
        }
    }
}
