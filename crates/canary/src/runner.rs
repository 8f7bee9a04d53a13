//! The canary's thread: runs at intervals, stores the results, and notifies the team of an outage.

#![expect(clippy::disallowed_methods, reason = "the loop reads the clock")]

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::options::{CanaryOptions, TimeLimits};
use crate::report::{Outcome, Report, Step, StepResult};
use crate::run::Run;
use crate::schedule::time_to_next_run;
use crate::status::{self, Change};
use frontdesk_deliver::canary::{CanaryLink, Receivers, fault_notification};
use frontdesk_inbox::store::{Store, StoreError};
use frontdesk_process::panics;

/// Maximum sleep before the clock is read again, because the clock may be adjusted meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// The delay before another attempt after a database error.
const STORE_RETRY: Duration = Duration::from_secs(10);
/// How long the channels have to accept the notification of an outage.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_mins(5);

/// A handle to the canary's thread. Dropping it stops the canary.
pub struct Canary {
    stop: watch::Sender<bool>,
    options: watch::Sender<CanaryOptions>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Canary {
    /// Starts the thread, which restarts after a panic. Runs begin only while `link` marks this process as
    /// the one that maintains the inbox. Fails if the runtime or the thread cannot be created.
    pub fn start(options: CanaryOptions, store: Store, link: Arc<CanaryLink>) -> io::Result<Canary> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let (options, latest) = watch::channel(options);
        let work = move || {
            let started_at = Timestamp::now();
            panics::restart_after_panic("canary", || {
                let (store, link) = (store.clone(), link.clone());
                let runner = Runner { store, link, latest: latest.clone(), started_at };
                let mut stopping = stopping.clone();
                runtime.block_on(async {
                    tokio::select! {
                        () = runner.run() => {}
                        _ = stopping.wait_for(|stop| *stop) => {}
                    }
                });
            });
            // A stalled DNS lookup must not prevent the process from exiting.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("canary".into()).spawn(work)?;
        Ok(Canary { stop, options, thread: Mutex::new(Some(thread)) })
    }

    /// Applies new options from the next run on. Returns without waiting.
    pub fn reconfigure(&self, options: CanaryOptions) {
        let _ = self.options.send(options);
    }

    /// Abandons a run in progress, and waits until the thread has ended.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the canary's thread panicked; the canary runs again after the next start of the server"
            );
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Runner {
    store: Store,
    link: Arc<CanaryLink>,
    latest: watch::Receiver<CanaryOptions>,
    started_at: Timestamp,
}

impl Runner {
    /// Runs until the caller drops the future or the [`Canary`] is dropped. New options apply from the next
    /// run on. Waits while this process is not the one that maintains the inbox. After an error of the
    /// database, which is only logged at debug level, tries again in [`STORE_RETRY`].
    async fn run(mut self) {
        let mut leads = self.link.leads();
        loop {
            let options = self.latest.borrow_and_update().clone();
            let wait = if *leads.borrow_and_update() {
                self.run_if_due(&options).await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "the canary cannot use the database; will retry in 10 s");
                    STORE_RETRY
                })
            } else {
                LONGEST_SLEEP
            };
            tokio::select! {
                () = tokio::time::sleep(wait.min(LONGEST_SLEEP)) => {}
                changed = self.latest.changed() => if changed.is_err() { return },
                _ = leads.changed() => {}
            }
        }
    }

    /// Runs the canary if a run is due, and stores the result. A run that exceeds its time limit is
    /// abandoned and stored as failed. Returns how long to wait before the next call: zero after a run. If
    /// the canary is off, removes the result of the last run, which would soon be misleading.
    async fn run_if_due(&self, options: &CanaryOptions) -> Result<Duration, StoreError> {
        let Some(every) = options.every else {
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method has one lifetime only"
            )]
            self.store.change(|tx| tx.remove_canary_status()).await?;
            return Ok(LONGEST_SLEEP);
        };
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime only")]
        let last = self.store.change(|tx| tx.last_canary_run()).await?;
        let wait = time_to_next_run(Timestamp::now(), self.started_at, last, every);
        if !wait.is_zero() {
            return Ok(wait);
        }
        let limits = TimeLimits::of_interval(every);
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime only")]
        let previous = self.store.change(|tx| tx.canary_status()).await?;
        let previous = previous.as_ref().and_then(status::stored_report);
        let (id, previous) = (Uuid::now_v7(), previous.as_ref());
        let run = Run { options, store: &self.store, link: &self.link, limits, id, previous };
        let started_at = Timestamp::now();
        let report = match tokio::time::timeout(limits.run(), run.report()).await {
            Ok(report) => report?,
            Err(_) => overlong(started_at, limits.run(), previous),
        };
        self.conclude(options, every, run.id, &report).await?;
        Ok(Duration::ZERO)
    }

    /// Stores the result of a run. Logs the beginning and the end of an outage. During an outage, notifies
    /// the team after each run until a channel has accepted the notification. Does not notify the team of the
    /// end.
    async fn conclude(
        &self,
        options: &CanaryOptions,
        every: Duration,
        run: Uuid,
        report: &Report,
    ) -> Result<(), StoreError> {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime only")]
        let previous = self.store.change(|tx| tx.canary_status()).await?;
        let (mut status, change) = status::next(previous.as_ref(), report, every);
        let stored = status.clone();
        self.store.change(move |tx| tx.store_canary_status(&stored)).await?;
        match change {
            Change::Failed => tracing::warn!(
                steps = status::failed_steps(report),
                "the canary failed: submissions may be lost; see `frontdesk doctor`"
            ),
            Change::Recovered => tracing::info!("the canary succeeds again"),
            Change::None => {}
        }
        if !status.is_ok && !status.is_notified && self.notify(options, run, report).await {
            status.is_notified = true;
            self.store.change(move |tx| tx.store_canary_status(&status)).await?;
        }
        Ok(())
    }

    /// Notifies the team of the failures through the first channel that works; those that failed in this
    /// run are tried last. Waits at most [`NOTIFICATION_TIMEOUT`]. Returns whether one accepted the
    /// notification.
    async fn notify(&self, options: &CanaryOptions, run: Uuid, report: &Report) -> bool {
        let faults = report.failures().map(ToString::to_string).collect();
        let notice = fault_notification(run, options.site(), faults, Timestamp::now());
        let last = status::failed_channels(report);
        let mut reports = self.link.send(notice, Receivers::FirstWorking { last });
        let accepted = async {
            while let Some(report) = reports.recv().await {
                if report.result.is_ok() {
                    return Some(report.name);
                }
            }
            None
        };
        let channel = tokio::time::timeout(NOTIFICATION_TIMEOUT, accepted).await.unwrap_or_default();
        if let Some(channel) = &channel {
            tracing::info!(channel, "notified the team that the canary failed");
        }
        channel.is_some()
    }
}

/// The report of a run that was ended by its time limit: one failed step, and the form pages of the
/// `previous` report.
fn overlong(started_at: Timestamp, limit: Duration, previous: Option<&Report>) -> Report {
    let text = format!("the run did not end within {} s: check the load of this machine", limit.as_secs());
    let step = StepResult {
        step: Step::Intake,
        subject: String::new(),
        outcome: Outcome::Failed,
        text,
        took: limit,
    };
    let form_pages = previous.map(|report| report.form_pages.clone()).unwrap_or_default();
    Report { started_at, ended_at: Timestamp::now(), steps: vec![step], form_pages }
}
