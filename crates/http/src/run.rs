//! Starts the threads of a server on public addresses, and waits for them.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::balance::Balancer;
use super::handler::PublicHandler;
use super::options::Options;
use super::server_state::Server;
use super::shutdown_phase::ShutdownPhase;
use super::socket::{Scheme, Socket};
use super::worker_context::Worker;
use super::{accept_loop, memory};
use frontdesk_process::panics;

/// The name prefix of worker threads.
pub const WORKER: &str = "worker-";

impl<S: AsRef<Options> + Send + Sync + 'static> Server<S> {
    /// Serves on the listening `sockets` until [`ShutdownPhase::Stopping`], then gives requests in progress
    /// up to [`Options::shutdown_grace`] to finish. Each worker creates its handler with `make_handler`, in
    /// its own thread. Also starts a thread that limits memory. Fails at once if a thread cannot be created
    /// or a socket cannot be duplicated. The error or panic of the first worker that ends with one becomes
    /// the caller's at once, while the other workers go on.
    pub fn run<H: PublicHandler<Snapshot = S>>(
        self: &Arc<Self>,
        sockets: Vec<(Scheme, Socket)>,
        make_handler: impl Fn() -> H + Clone + Send + 'static,
        phase: &watch::Receiver<ShutdownPhase>,
    ) -> io::Result<()> {
        let workers = (**self.snapshot.load()).as_ref().workers.max(1);
        let mut threads = Vec::new();
        let (ended, ends) = mpsc::channel();
        for (number, balancer) in Balancer::for_workers(workers).into_iter().enumerate() {
            let (server, make_handler, phase) = (self.clone(), make_handler.clone(), phase.clone());
            let duplicates = sockets.iter().map(|(scheme, socket)| Ok((*scheme, socket.duplicate()?)));
            let duplicates: Vec<_> = duplicates.collect::<io::Result<_>>()?;
            let report = EndReport { number, ended: ended.clone() };
            let run = move || {
                let _report = report;
                accept_loop::run(Worker::new(server, make_handler()), duplicates, balancer, phase)
            };
            threads.push(Some(std::thread::Builder::new().name(format!("{WORKER}{number}")).spawn(run)?));
        }
        drop(ended);
        // Close this thread's copies, or connections would still queue after the last worker has stopped.
        drop(sockets);
        let (_serving, stop) = mpsc::channel();
        let server = self.clone();
        let watch_memory = move || panics::restart_after_panic("memory", || memory::watch(&server, &stop));
        std::thread::Builder::new().name("memory".into()).spawn(watch_memory)?;
        ends.into_iter().filter_map(|number: usize| threads[number].take()).try_for_each(join)
    }
}

/// Sends the worker's number when its thread ends, even if the thread panics.
struct EndReport {
    number: usize,
    ended: mpsc::Sender<usize>,
}

impl Drop for EndReport {
    fn drop(&mut self) {
        let _ = self.ended.send(self.number);
    }
}

/// Waits for a thread to end. If the thread panicked, panics with the same payload.
fn join(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
