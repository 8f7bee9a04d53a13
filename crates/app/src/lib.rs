//! The product's request handlers: the site with its forms, the private address, and what they share.
//!
//! `router.rs` has every URL of the public address. `frontdesk_http` accepts connections and parses requests;
//! `frontdesk_desk` is the inbox's web interface.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod access_log;
pub mod agent_signature;
mod confirm;
mod cors;
mod fast_responder;
mod get_page;
mod header_cache;
mod header_lines;
mod live_reload;
mod metrics;
mod no_script_answer;
mod options;
pub mod page_views;
mod parsed_header_values;
mod post_form;
mod preferences;
mod probe_endpoints;
mod public_site;
mod range;
mod response;
pub mod responses_for_export;
mod router;
mod selected_representation;
mod state;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::watch;

use self::metrics::queue_cache::QueueCache;
use self::probe_endpoints::Probes;
use frontdesk_desk::Desk;
use frontdesk_http::{PrivateSource, Scheme, ShutdownPhase, Socket, serve_private};
use frontdesk_process::panics;

pub use access_log::ACCESS_LOG_TARGET;
pub use cors::PageOrigin;
pub use live_reload::LiveReload;
pub use metrics::Metrics;
pub use options::{FormOptions, WebOptions};
pub use page_views::PageViews;
pub use public_site::PublicSite;
pub use response::content_security_policy;
pub use state::{AppState, Snapshot};

/// The sockets on which the server listens.
#[derive(Debug, Default)]
pub struct Sockets {
    pub http: Vec<Socket>,
    pub https: Vec<Socket>,
    /// The socket of the private address for metrics and health checks.
    pub ops: Option<Socket>,
    /// The socket of the inbox's web interface.
    pub inbox: Option<Socket>,
}

impl Sockets {
    /// The service manager's sockets by name: `http`, `https`, `ops` or `inbox`; others are HTTP. The last of
    /// several `ops` or `inbox` sockets counts. Must be called once, before the process opens other file
    /// descriptors.
    pub fn inherited() -> io::Result<Self> {
        let mut sockets = Self::default();
        for (name, socket) in frontdesk_http::inherited_sockets()? {
            match &*name {
                "https" => sockets.https.push(socket),
                "ops" => sockets.ops = Some(socket),
                "inbox" => sockets.inbox = Some(socket),
                _ => sockets.http.push(socket),
            }
        }
        Ok(sockets)
    }
}

/// Serves the site until [`ShutdownPhase::Stopping`], then gives its requests in progress time to finish.
/// Serves the inbox's web interface and the private address until that is over, and then drops their open
/// connections. Blocks until the threads have ended, but returns an error at once if a thread cannot be
/// spawned or the public server fails. An error of another listener is returned only at the end. Continues a
/// panic of the other threads, except for the one that stores page views.
pub fn serve(
    app: &Arc<AppState>,
    sockets: Sockets,
    phase: &watch::Receiver<ShutdownPhase>,
) -> io::Result<()> {
    let Sockets { http, https, ops, inbox } = sockets;
    let (workers_done, until) = watch::channel(false);
    let name = app.server.private_name.clone();
    let source = match (inbox, name) {
        (Some(socket), Some(name)) => Some(PrivateSource::TlsSocket(socket, name)),
        (Some(socket), None) => Some(PrivateSource::Socket(socket)),
        (None, Some(name)) => Some(PrivateSource::PublicSockets(name)),
        (None, None) => None,
    };
    let inbox = source.map(|source| {
        let (app, until) = (app.clone(), until.clone());
        spawn("inbox", move || {
            let (address, database) = (source.address()?, app.snapshot.load().options.inbox.clone());
            let desk = || Desk::start(app.store.clone(), database, address);
            serve_private(source, &app.desk, frontdesk_desk::options, desk, until)
        })
    });
    let inbox = inbox.transpose()?;
    let ops = ops.map(|socket| {
        let (app, phase, until) = (app.clone(), phase.clone(), until);
        spawn("ops", move || {
            let snapshot = app.snapshot.clone();
            let probes = || Probes { app, queue: QueueCache::new(), phase };
            serve_private(PrivateSource::Socket(socket), &snapshot, probe_endpoints::options, probes, until)
        })
    });
    let ops = ops.transpose()?;
    let (counting, stop) = mpsc::channel();
    let counted = app.clone();
    let views = spawn("page-views", move || {
        panics::restart_after_panic("page views", || {
            page_views::store_regularly(&counted.page_views, &counted.store, &counted.disk, &stop);
        });
        Ok(())
    })?;
    let http = http.into_iter().map(|socket| (Scheme::Http, socket));
    let public = http.chain(https.into_iter().map(|socket| (Scheme::Https, socket))).collect();
    let handlers = app.clone();
    app.server.run(public, move || PublicSite::new(&handlers), phase)?;
    // The workers have ended: close the channel, so that the thread stores the last page views and ends.
    drop(counting);
    let _ = views.join();
    // Stop the private listeners last, so that health checks can observe the whole shutdown.
    let _ = workers_done.send(true);
    [inbox, ops]
        .into_iter()
        .flatten()
        .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn spawn(
    name: &str,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}
