//! The HTTP server: sockets, connections and their limits, TLS, HTTP/1, HTTP/2, and routes (`router.rs`).
//!
//! Only this module handles incoming HTTP requests; `fetch` makes outgoing ones. Each worker is a thread with
//! its own runtime, so a connection's state never crosses threads; all workers accept from the same sockets.

mod access_log;
pub mod agent;
mod ambiguity;
mod balance;
mod body;
pub mod client;
mod confirm;
mod conn_limits;
mod connection;
mod cors;
mod date;
pub mod describe;
mod fast_path;
mod get_page;
mod handshake;
mod head_cache;
mod html_answer;
mod http1;
mod http2;
mod inbox;
mod listener;
mod live_reload;
mod memory;
mod metrics;
mod ops;
mod options;
pub mod page_views;
mod parse_cache;
mod post_form;
mod preferences;
mod private_conns;
mod protocol;
mod proxy;
mod range;
mod request_id;
mod response;
mod router;
mod selection;
mod shutdown;
mod slot;
mod socket;
mod state;
pub mod tls;
pub mod trusted_proxies;
mod worker;
mod write_buffer;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::watch;

use self::balance::Balancer;
use self::conn_limits::Connections;
use frontdesk_process::panics;

pub use access_log::ACCESS_LOG_TARGET;
pub use client::ForwardedHeader;
pub use cors::PageOrigin;
pub use inbox::{HostName, InboxOptions};
pub use live_reload::LiveReload;
pub use memory::{NEEDED as NEEDED_MEMORY, default_limit as default_memory_limit};
pub use metrics::Metrics;
pub use options::{FormOptions, Timeouts, WebOptions};
pub use page_views::PageViews;
pub use response::content_security_policy;
pub use socket::{Address, BindError, Peer, Socket, Sockets};
pub use state::{AppState, ShutdownPhase, Snapshot};
pub use trusted_proxies::Network;
pub use worker::WorkerState;

/// The name prefix of worker threads.
pub const WORKER: &str = "worker-";

/// Runs the server on the listening `sockets` until [`ShutdownPhase::Stopping`], then gives requests in
/// progress up to [`WebOptions::shutdown_grace`] to finish. Blocks until all workers have ended.
pub fn serve(
    app: &Arc<AppState>,
    mut sockets: Sockets,
    phase: &watch::Receiver<ShutdownPhase>,
) -> io::Result<()> {
    let connections = Arc::new(Connections::default());
    let mut threads = Vec::new();
    let balancers = Balancer::for_workers(app.snapshot.load().options.workers.max(1));
    for (number, balancer) in balancers.into_iter().enumerate() {
        let (app, public, phase, connections) =
            (app.clone(), sockets.duplicate_public()?, phase.clone(), connections.clone());
        let run = move || listener::run(WorkerState::new(&app), public, connections, balancer, phase);
        threads.push(std::thread::Builder::new().name(format!("{WORKER}{number}")).spawn(run)?);
    }
    let private = sockets.ops.take();
    let inbox = sockets.inbox.take();
    // Close this thread's copies, or connections would still queue after the last worker has stopped.
    drop(sockets);
    let (workers_done, until) = watch::channel(false);
    let inbox_until = until.clone();
    let inbox = inbox.map(|socket| {
        let app = app.clone();
        let run = move || inbox::run(app, socket, inbox_until);
        std::thread::Builder::new().name("inbox".into()).spawn(run)
    });
    let inbox = inbox.transpose()?;
    let ops = private.map(|private| {
        let (app, phase, connections) = (app.clone(), phase.clone(), connections.clone());
        let run = move || ops::run(app, private, connections, phase, until);
        std::thread::Builder::new().name("ops".into()).spawn(run)
    });
    let ops = ops.transpose()?;
    let (_serving, stop) = mpsc::channel();
    let watched = app.clone();
    let watch_memory = move || {
        panics::restart_after_panic("memory", || memory::watch(&watched, &connections, &stop));
    };
    std::thread::Builder::new().name("memory".into()).spawn(watch_memory)?;
    let (counting, stop) = mpsc::channel();
    let counted = app.clone();
    let store_views = move || {
        panics::restart_after_panic("page views", || {
            page_views::store_regularly(&counted.page_views, &counted.store, &counted.disk, &stop);
        });
    };
    let views = std::thread::Builder::new().name("page-views".into()).spawn(store_views)?;
    for thread in threads {
        join_thread(thread)?;
    }
    // Store the last page views after the workers have ended.
    drop(counting);
    let _ = views.join();
    // Serve the private address until the workers have ended, so that it reports the shutdown.
    let _ = workers_done.send(true);
    inbox.map_or(Ok(()), join_thread)?;
    ops.map_or(Ok(()), join_thread)
}

fn join_thread(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
