//! Signals: SIGTERM and SIGINT stop the server, SIGHUP reloads the site.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use arc_swap::ArcSwap;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::service_manager::ServiceManager;
use super::watch::ReloadReason;
use frontdesk_app::Snapshot;
use frontdesk_http::ShutdownPhase;

/// SIGHUP, caught from the beginning of the process: while the server starts, the signal does not end it, but
/// waits until [`install_signal_handlers`] handles it.
pub(super) struct HangUps {
    runtime: Runtime,
    signal: Signal,
    /// Whether standard error was a terminal at the start, without `nohup`. Then SIGHUP counts as SIGTERM
    /// once the terminal is closed.
    has_terminal: bool,
}

impl HangUps {
    /// Catches SIGHUP from now on, and records whether standard error is a terminal; false if SIGHUP
    /// was ignored (`nohup`).
    pub(super) fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let has_terminal = io::stderr().is_terminal() && !hang_up_is_ignored();
        let signal = {
            let _guard = runtime.enter();
            signal(SignalKind::hangup())?
        };
        Ok(Self { runtime, signal, has_terminal })
    }
}

/// Handles signals in a separate thread. The first SIGTERM or SIGINT starts draining, the next one ends the
/// drain, and another one exits at once with code 1; without a drain (`server.drain`), the first one stops
/// the server, and the next one exits at once. SIGHUP reloads, or counts as SIGTERM if the server's terminal
/// was closed. SIGXFSZ is ignored. Returns a receiver of the shutdown's phase.
pub(super) fn install_signal_handlers(
    hang_ups: HangUps,
    reload: Sender<ReloadReason>,
    notify: Arc<ServiceManager>,
    snapshot: Arc<ArcSwap<Snapshot>>,
) -> anyhow::Result<watch::Receiver<ShutdownPhase>> {
    let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
    let HangUps { runtime, signal: mut hang_up, has_terminal } = hang_ups;
    let (mut terminate, mut interrupt) = {
        let _guard = runtime.enter();
        // With a handler for SIGXFSZ, a write beyond the file size limit fails without killing the process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let mut end = async || loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = hang_up.recv() => {
                        if has_terminal && !io::stderr().is_terminal() {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_hang_up_during_the_start_waits_for_its_handler() {
        let HangUps { runtime, mut signal, .. } = HangUps::catch().expect("it can be caught");
        kill_process(getpid(), Signal::HUP).expect("this process may be signaled");
        let received = async { tokio::time::timeout(Duration::from_mins(1), signal.recv()).await };
        runtime.block_on(received).expect("the signal is remembered");
    }
}
