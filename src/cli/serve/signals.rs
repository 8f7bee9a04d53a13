//! Signals: SIGTERM and SIGINT stop the server, SIGHUP reloads the site.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::notify::ServiceManager;
use super::watch::ReloadReason;
use frontdesk_app::Snapshot;
use frontdesk_http::ShutdownPhase;

/// Handles signals in a separate thread. The first SIGTERM or SIGINT starts draining, the next one ends the
/// drain, and another one exits at once with code 1; without a drain (`server.drain`), the first one stops
/// the server, and the next one exits at once. SIGHUP reloads, or counts as SIGTERM if the server's terminal
/// was closed. Returns a receiver of the shutdown's phase.
pub(super) fn install_signal_handlers(
    reload: Sender<ReloadReason>,
    notify: Arc<ServiceManager>,
    snapshot: Arc<ArcSwap<Snapshot>>,
) -> anyhow::Result<watch::Receiver<ShutdownPhase>> {
    let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let has_terminal = std::io::stderr().is_terminal() && !hang_up_is_ignored();
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _guard = runtime.enter();
        // With a handler for SIGXFSZ, a write beyond the file size limit fails without killing the process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let mut end = async || loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = hang_up.recv() => {
                        if has_terminal && !std::io::stderr().is_terminal() {
                            return;
                        }
                        let _ = reload.send(ReloadReason::Signal);
                    }
                }
            };
            end().await;
            notify.notify_stopping();
            // Ignore errors of `sender` below: sending fails only if the server has already stopped.
            let drain = snapshot.load().options.http.drain;
            if !drain.is_zero() {
                let _ = sender.send(ShutdownPhase::Draining);
                tracing::info!(
                    seconds = drain.as_secs_f64(),
                    "draining: /readyz responds with 503, but requests are still being served"
                );
                let _ = tokio::time::timeout(drain, end()).await;
            }
            let _ = sender.send(ShutdownPhase::Stopping);
            tracing::info!("stopping: waiting for open requests to finish");
            end().await;
            std::process::exit(1);
        });
    })?;
    Ok(receiver)
}

/// Whether SIGHUP was ignored when the process started, as under `nohup`.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
