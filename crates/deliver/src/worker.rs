//! The delivery worker: claims due deliveries, sends them, records the outcomes, and sleeps until the next
//! delivery is due.
//!
//! The worker has its own thread and runtime, so that a slow receiver never delays a visitor. Of the
//! processes that share an SQLite inbox, only the one that holds the inbox's lock delivers. It can therefore
//! requeue all attempts that are recorded as in progress when it starts, without waiting for their leases to
//! expire. With PostgreSQL, every replica delivers.
//!
//! [`crate::circuit_breaker`] limits the attempts in progress, [`frontdesk_inbox::submission::schedule`]
//! times the retries, and the store selects due deliveries.

#![expect(clippy::disallowed_methods, reason = "the delivery loop reads the clock")]

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, LocalSet};

use super::canary::{CanaryLink, OpenChannel};
use super::channel::{Channel, ChannelOptions, TransportOptions};
use super::circuit_breaker::{Dispatcher, HealthChange};
use super::maildir;
use super::maintenance::{self, Maintenance, MaintenanceOptions};
use super::notification::Notification;
use super::order;
use super::uncertain_delivery::PossibleReceipt;
pub use super::wait_for_delivery::Confirmations;
use frontdesk_age::Recipient;
use frontdesk_inbox::store::lock::Lock;
use frontdesk_inbox::store::notifier;
use frontdesk_inbox::store::{DatabaseUrl, Store, StoreError, Transaction};
use frontdesk_inbox::submission::delivery::{ChannelTarget, Claimed, Claims, Lease};
use frontdesk_inbox::submission::delivery_outcome::{Cause, LONGEST_ATTEMPT, Outcome};
use frontdesk_inbox::submission::schedule;
use frontdesk_inbox::submission::visitor_mail::is_visitor_channel;
use frontdesk_process::failure_log::FailureLog;
use frontdesk_process::panics::{self, Part};

/// How long the lease of an attempt lasts, and so how long another replica waits for a process that has ended
/// or lost the database. Leases are extended after a third of this time, so that two attempts of one delivery
/// never overlap.
const LEASE: Duration = Duration::from_mins(3);
/// Maximum sleep without a notification. Needed when the system clock changes and on file systems without
/// change notifications.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// The delay before a failed operation of the store is retried.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// If the system clock and the monotonic clock diverge by more than this, the system clock was set.
const MOST_DRIFT: Duration = Duration::from_secs(2);
/// How often to try to take the inbox's lock, and to check that the lock for maintenance is still held.
const STANDBY: Duration = Duration::from_secs(1);
/// How often a replica tries to take the lock for maintenance, which is not urgent.
const SERVER_STANDBY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub place: DatabaseUrl,
    pub channels: Vec<ChannelOptions>,
    pub maintenance: MaintenanceOptions,
    /// How long attempts in progress may continue after the worker is stopped or reconfigured. Then they are
    /// aborted, and repeated later.
    pub grace: Duration,
}

/// A handle to the worker's thread. Dropping it stops the worker.
pub struct DeliveryWorker {
    stop: watch::Sender<bool>,
    options: watch::Sender<WorkerOptions>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub confirmations: Confirmations,
    pub canary: Arc<CanaryLink>,
}

impl DeliveryWorker {
    /// Starts the worker's thread, whose loop restarts after a panic. Creates the parent folders of Maildirs.
    pub fn start(options: WorkerOptions, store: Store) -> io::Result<DeliveryWorker> {
        create_maildir_parents(&options.channels, &[]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let changed = Arc::new(Notify::new());
        if let Err(error) = notifier::notify_on_change(&options.place, &changed) {
            // Continue without the watcher thread: this error must not stop the server.
            tracing::warn!(%error, "cannot watch the inbox for changes; deliveries queued by other processes start within a minute");
        }
        let (stop, stopping) = watch::channel(false);
        let (options, latest) = watch::channel(options);
        let (confirmations, canary) = (Confirmations::default(), Arc::<CanaryLink>::default());
        let run = {
            let (confirmations, canary) = (confirmations.clone(), canary.clone());
            move || {
                let reported_panics: Rc<Cell<u64>> = Rc::default();
                // After a panic, the new loop repeats the attempts that were in progress.
                panics::restart_after_panic("deliveries", || {
                    let (latest, stopping) = (latest.clone(), stopping.clone());
                    let shared = (store.clone(), confirmations.clone(), canary.clone());
                    let work = WorkerLoop::new(latest, stopping, shared, Rc::clone(&reported_panics));
                    LocalSet::new().block_on(&runtime, work.run_until_stopped(&changed));
                });
                // A stalled DNS lookup or disk must not prevent the process from exiting.
                runtime.shutdown_background();
            }
        };
        let thread = std::thread::Builder::new().name("deliveries".into()).spawn(run)?;
        Ok(DeliveryWorker { stop, options, thread: Mutex::new(Some(thread)), confirmations, canary })
    }

    /// Applies new options for the same database, without waiting. Attempts in progress may finish within the
    /// earlier `grace`, as in [`DeliveryWorker::stop`]. Creates the parent folders of new Maildirs; failures
    /// are only logged.
    pub fn reconfigure(&self, options: WorkerOptions) {
        create_maildir_parents(&options.channels, &self.options.borrow().channels);
        let _ = self.options.send(options);
    }

    /// Starts no more attempts, and blocks until those in progress end, or are aborted after `grace`. A
    /// second call returns at once.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the delivery thread panicked; the next start of the server repeats unfinished attempts"
            );
        }
    }
}

impl Drop for DeliveryWorker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Creates the parent folders of Maildirs in `channels` that are not in `earlier`. Errors are only logged.
fn create_maildir_parents(channels: &[ChannelOptions], earlier: &[ChannelOptions]) {
    let path = |channel: &ChannelOptions| match &channel.kind {
        TransportOptions::Maildir(maildir) => Some(maildir.path.clone()),
        _ => None,
    };
    let known: Vec<PathBuf> = earlier.iter().filter_map(path).collect();
    for channel in channels {
        if let Some(path) = path(channel).filter(|path| !known.contains(path))
            && let Err(error) = maildir::create_parents(&path)
        {
            let path = path.display();
            tracing::warn!(%error, channel = channel.name, "cannot create the parent folders of the Maildir {path}; deliveries through the channel fail until the folders exist");
        }
    }
}

/// An attempt in progress, with what is needed to record its outcome if it is aborted.
struct StartedAttempt {
    lease: Lease,
    failures: u32,
    uncertain: u32,
    receipt: PossibleReceipt,
}

struct FinishedAttempt {
    index: usize,
    lease: Lease,
    is_retry: bool,
    outcome: Outcome,
    /// Whether the inbox has stored the outcome. If it has not, the attempt is repeated.
    is_recorded: bool,
}

fn new_dispatcher(options: &WorkerOptions) -> Dispatcher {
    Dispatcher::new(options.channels.iter().map(|channel| {
        let target = ChannelTarget { name: channel.name.clone(), destination: channel.destination() };
        (target, channel.concurrency)
    }))
}

fn open_channels(options: &WorkerOptions) -> Vec<Rc<Channel>> {
    options.channels.iter().map(|channel| Rc::new(Channel::open(&channel.kind))).collect()
}

struct WorkerLoop {
    options: WorkerOptions,
    latest: watch::Receiver<WorkerOptions>,
    store: Store,
    confirmations: Confirmations,
    canary: Arc<CanaryLink>,
    stopping: watch::Receiver<bool>,
    dispatcher: Dispatcher,
    channels: Vec<Rc<Channel>>,
    attempts: JoinSet<FinishedAttempt>,
    /// The tasks that send the canary's messages. They are aborted when the worker stops.
    canaries: JoinSet<()>,
    started_attempts: Vec<StartedAttempt>,
    sealed: Rc<Notify>,
    reported_panics: Rc<Cell<u64>>,
    started: Instant,
    /// The last reading of the system clock, and the monotonic time of that reading.
    clock: (Timestamp, Instant),
    /// When to clamp due times, which is necessary at the start and after the system clock was set back;
    /// `None` if that is done.
    clamp_at: Option<Instant>,
    /// Whether the next claim must first requeue attempts that are recorded but not in progress.
    needs_requeue: bool,
    claim_failures: FailureLog,
    clamp_failures: FailureLog,
    /// Indices of the channels that are currently delaying submissions from high-volume networks.
    paced: HashSet<usize>,
    claimed_at: Option<Instant>,
}

enum StopReason {
    Stopped,
    Reconfigured,
}

impl WorkerLoop {
    /// Creates a loop with the latest options. `reported_panics` is the number of panics in past digests.
    fn new(
        mut latest: watch::Receiver<WorkerOptions>,
        stopping: watch::Receiver<bool>,
        (store, confirmations, canary): (Store, Confirmations, Arc<CanaryLink>),
        reported_panics: Rc<Cell<u64>>,
    ) -> WorkerLoop {
        let options = latest.borrow_and_update().clone();
        WorkerLoop {
            dispatcher: new_dispatcher(&options),
            channels: open_channels(&options),
            options,
            latest,
            store,
            confirmations,
            canary,
            stopping,
            attempts: JoinSet::new(),
            canaries: JoinSet::new(),
            started_attempts: Vec::new(),
            sealed: Rc::new(Notify::new()),
            reported_panics,
            started: Instant::now(),
            clock: (Timestamp::now(), Instant::now()),
            clamp_at: Some(Instant::now()),
            needs_requeue: false,
            claim_failures: FailureLog::default(),
            clamp_failures: FailureLog::default(),
            paced: HashSet::new(),
            claimed_at: None,
        }
    }

    /// Waits for the lock of an SQLite inbox, and then delivers until the worker is stopped; starts over with
    /// each new configuration. `changed` is notified when another process changes the inbox.
    async fn run_until_stopped(mut self, changed: &Notify) {
        let mut stopping = self.stopping.clone();
        let _lock = tokio::select! {
            lock = self.take_over() => lock,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        loop {
            let end = self.deliver(changed).await;
            self.finish_attempts().await;
            if let StopReason::Stopped = end {
                return;
            }
            self.options = self.latest.borrow_and_update().clone();
            self.dispatcher = new_dispatcher(&self.options);
            self.channels = open_channels(&self.options);
            // Make the next claim requeue aborted attempts, which are still recorded as started.
            self.needs_requeue = true;
            tracing::info!(channels = self.channels.len(), "deliveries now use the new configuration");
        }
    }

    /// Delivers and runs maintenance until the worker is stopped or reconfigured. Attempts may be in progress
    /// then.
    async fn deliver(&mut self, changed: &Notify) -> StopReason {
        let (mut stopping, mut latest) = (self.stopping.clone(), self.latest.clone());
        let mut maintenance = pin!(run_maintenance(self.maintenance(), self.canary.clone()));
        let canary = self.canary.clone();
        let mut extension = tokio::time::interval(LEASE / 3);
        loop {
            let idle = self.idle_time();
            let sleep = if let Some(idle) = idle { idle } else { self.dispatch().await };
            tokio::select! {
                () = &mut maintenance => {}
                // Ignore notifications while no channel has capacity: `Notify` keeps one until the next wait.
                () = self.store.events().queued.notified(), if idle.is_none() => {}
                () = changed.notified(), if idle.is_none() => {}
                Some(ended) = self.attempts.join_next() => self.end_attempt(ended.ok()).await,
                () = canary.added.notified() => canary.start(&self.team_channels(), &mut self.canaries),
                Some(_) = self.canaries.join_next() => {}
                () = tokio::time::sleep(sleep) => {}
                _ = extension.tick() => self.extend_leases().await,
                _ = stopping.wait_for(|stop| *stop) => break StopReason::Stopped,
                Ok(()) = latest.changed() => break StopReason::Reconfigured,
            }
            while let Some(ended) = self.attempts.try_join_next() {
                self.end_attempt(ended.ok()).await;
            }
        }
    }

    /// The open channels that deliver to the team, not to visitors.
    fn team_channels(&self) -> Vec<OpenChannel> {
        let channels = self.options.channels.iter().cloned().zip(self.channels.iter().cloned());
        channels.filter(|(options, _)| !is_visitor_channel(&options.name)).collect()
    }

    /// Creates a [`Maintenance`] with the current options and the channels to the team.
    fn maintenance(&self) -> Maintenance {
        // Maintenance sends the digest, which goes only to the team.
        let channels = self.team_channels().into_iter().map(|(options, channel)| (options.name, channel));
        Maintenance {
            options: self.options.maintenance.clone(),
            place: self.options.place.clone(),
            store: self.store.clone(),
            channels: channels.collect(),
            sealed: self.sealed.clone(),
            reported_panics: self.reported_panics.clone(),
        }
    }

    /// Extends the leases of the attempts in progress. An error is only logged.
    async fn extend_leases(&mut self) {
        let under_way = self.dispatcher.under_way.clone();
        if under_way.is_empty() {
            return;
        }
        let extend = move |tx: &Transaction<'_>| tx.extend_leases(&under_way, Timestamp::now(), LEASE);
        if let Err(error) = self.store.change(extend).await {
            tracing::error!(%error, "could not extend the leases of delivery attempts; if extending them fails for 3 minutes, another replica repeats the attempts, so receivers may get submissions twice");
        }
    }

    /// Waits up to `grace` for the attempts in progress to finish, and then aborts the rest. Records an
    /// aborted attempt as uncertain if the receiver may have its notification; the others are repeated.
    async fn finish_attempts(&mut self) {
        let grace = self.options.grace;
        let finish = async {
            while let Some(ended) = self.attempts.join_next().await {
                self.end_attempt(ended.ok()).await;
            }
        };
        if tokio::time::timeout(grace, finish).await.is_err() {
            tracing::warn!(
                "aborting the delivery attempts that did not finish in time before a shutdown or a change of the configuration; they will be repeated, or parked if an earlier attempt was uncertain too"
            );
            self.attempts.shutdown().await;
            for started in std::mem::take(&mut self.started_attempts) {
                if started.receipt.is_pending() {
                    self.record_aborted(started).await;
                }
            }
        }
    }

    /// Records that the receiver may have the notification of an aborted attempt. If that fails, the attempt
    /// is repeated like one that was interrupted earlier.
    async fn record_aborted(&self, started: StartedAttempt) {
        let StartedAttempt { lease, failures, uncertain, .. } = started;
        let (id, channel, now) = (lease.submission, lease.channel.clone(), Timestamp::now());
        let sentence = "the server stopped or changed its configuration before the reply to the message arrived; it may have been accepted";
        let outcome = Outcome::failed(Cause::Uncertain, sentence);
        let next = schedule::next_step(&outcome, lease.submission, failures, uncertain, now);
        if let Err(error) = self.store.change(move |tx| tx.record(&lease, &outcome, next, now)).await {
            tracing::error!(%id, channel, %error, "could not record an aborted delivery attempt; it will be repeated, although the receiver may already have the message");
        }
    }

    /// Waits for the lock on an SQLite inbox. Then requeues interrupted attempts, resumes all paused
    /// channels, and makes the deliveries due that wait for them. Retries without limit. `None` for
    /// PostgreSQL, where nothing is requeued or resumed: claims lock rows, and other replicas' attempts are
    /// requeued as their leases end.
    async fn take_over(&mut self) -> Option<Lock> {
        let place = &self.options.place;
        let lock = match place {
            DatabaseUrl::Sqlite(_) => {
                Some(wait_for_lock(place, STANDBY, "delivers this inbox's submissions").await)
            }
            DatabaseUrl::Postgres(_) => None,
        };
        loop {
            match self.store.change(|tx| tx.recover(Timestamp::now())).await {
                Ok(count) => {
                    if count > 0 {
                        tracing::info!(count, "interrupted delivery attempts will be repeated");
                    }
                    return lock;
                }
                Err(error) if self.claim_failures.record_failure() => {
                    tracing::error!(%error, "could not read or requeue interrupted delivery attempts; no delivery starts until that succeeds; will retry every second");
                }
                Err(_) => {}
            }
            tokio::time::sleep(STORE_RETRY).await;
        }
    }

    /// The time until the next claim while no channel has capacity; `None` if the worker must claim now.
    fn idle_time(&self) -> Option<Duration> {
        let claimed_at = self.claimed_at.filter(|_| !self.needs_requeue)?;
        self.dispatcher.idle_time(self.started.elapsed(), claimed_at.elapsed())
    }

    /// Claims and starts due deliveries. Returns the time until the next claim, at most [`LONGEST_SLEEP`].
    /// Logs the first of consecutive failures.
    async fn dispatch(&mut self) -> Duration {
        if self.channels.is_empty() {
            return LONGEST_SLEEP;
        }
        self.claimed_at = Some(Instant::now());
        match self.claim(Timestamp::now()).await {
            Ok(claims) => {
                self.needs_requeue = false;
                if self.claim_failures.record_success() {
                    tracing::info!("deliveries start again: the inbox is available");
                }
                let sleeps =
                    claims.into_iter().enumerate().map(|(index, claims)| self.begin_attempts(index, claims));
                sleeps.flatten().min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
            }
            Err(error) => {
                if self.claim_failures.record_failure() {
                    tracing::error!(%error, "could not read the due deliveries from the inbox and reserve them; no delivery starts until that succeeds; will retry every second");
                }
                self.needs_requeue = true;
                STORE_RETRY
            }
        }
    }

    /// Claims due deliveries, and returns the claims of each channel. First clamps due times at the start and
    /// after the system clock was set back. With SQLite, also requeues attempts that are recorded but not in
    /// progress: after an error of the store, after an attempt without a recorded outcome, and after a
    /// reconfiguration.
    async fn claim(&mut self, now: Timestamp) -> Result<Vec<Claims>, StoreError> {
        let wants = self.dispatcher.claim_requests(self.started.elapsed());
        if self.was_clock_set_back(now) {
            self.clamp_at = Some(Instant::now());
        }
        if self.clamp_at.is_some_and(|at| Instant::now() >= at) {
            self.clamp_due_times(now).await;
        }
        let under_way = self.dispatcher.under_way.clone();
        if self.needs_requeue {
            // A failed claim may have been committed anyway: requeue attempts that are not in progress.
            let under_way = under_way.clone();
            self.store.change(move |tx| tx.requeue_orphans(&under_way, now)).await?;
        }
        self.store.claim(wants, under_way, now, LEASE, order::choose).await
    }

    /// Makes deliveries due that are scheduled further ahead than the retry schedule allows, except for
    /// retries that the receiver asked to delay or whose last outcome is uncertain. An error does not prevent
    /// the claim, because it may last, for instance if one row is damaged. Retries only after
    /// [`LONGEST_SLEEP`], because the error may be a timeout, for which all deliveries wait.
    async fn clamp_due_times(&mut self, now: Timestamp) {
        match self.store.change(move |tx| tx.clamp_due_times(now)).await {
            Ok(()) => {
                self.clamp_at = None;
                self.clamp_failures.record_success();
            }
            Err(error) => {
                self.clamp_at = Some(Instant::now() + LONGEST_SLEEP);
                if self.clamp_failures.record_failure() {
                    tracing::error!(%error, "could not correct the due times of deliveries; if the system clock was set back, some deliveries are late by up to the same amount of time; will retry every minute");
                }
            }
        }
    }

    /// Whether the system clock was set back by more than [`MOST_DRIFT`] since the last call. Records both
    /// clocks for the next call.
    fn was_clock_set_back(&mut self, now: Timestamp) -> bool {
        let should_show = self.clock.0 + self.clock.1.elapsed();
        self.clock = (now, Instant::now());
        now + MOST_DRIFT < should_show
    }

    /// Starts the claimed attempts of one channel, or none if the operator has just switched the channel on
    /// or off, or cleared its pause. Returns the time until its next attempt, if known.
    fn begin_attempts(&mut self, index: usize, claims: Claims) -> Option<Duration> {
        if !claims.is_paced {
            self.paced.remove(&index);
        } else if self.paced.insert(index) {
            tracing::info!(
                channel = self.dispatcher.target(index).name,
                "deliveries of submissions from high-volume networks are now limited to 6 recipients an hour, to protect `daily_quota`; others are not delayed"
            );
        }
        let started = self.dispatcher.begin(index, claims, Timestamp::now(), self.started.elapsed());
        if let Some(on) = started.switched_on {
            let now = if on { "switched on again" } else { "switched off; see `frontdesk inbox digest`" };
            tracing::warn!(channel = self.dispatcher.target(index).name, "the channel is {now}");
        }
        for claimed in started.claimed {
            let (store, channel) = (self.store.clone(), self.channels[index].clone());
            let confirmations = self.confirmations.clone();
            let seal = self.options.maintenance.recipient.clone().map(|to| (to, self.sealed.clone()));
            let (lease, is_retry) = (claimed.lease.clone(), claimed.is_retry);
            let Claimed { failures, uncertain, .. } = claimed;
            let receipt = PossibleReceipt::default();
            let started = StartedAttempt { lease: lease.clone(), failures, uncertain, receipt };
            let receipt = started.receipt.clone();
            self.started_attempts.push(started);
            let attempt = deliver_submission(index, claimed, channel, store, confirmations, seal, receipt);
            self.attempts.spawn_local(async move {
                panics::catch_async(Part::Delivery, attempt).await.unwrap_or_else(|panic| {
                    tracing::error!(id = %lease.submission, channel = lease.channel, "{panic} ended a delivery attempt before its outcome was recorded; it will be repeated, so the receiver may get the submission twice");
                    let outcome = Outcome::failed(Cause::Unclear, panic.to_string());
                    FinishedAttempt { index, lease, is_retry, outcome, is_recorded: false }
                })
            });
        }
        started.sleep
    }

    /// Ends an attempt: records its outcome in the channel's health. If that changes, stores and logs that
    /// the channel was paused, resumed or switched off, or brings deferred deliveries forward; an error of
    /// the store is only logged. Does nothing if the task was aborted (`None`).
    async fn end_attempt(&mut self, ended: Option<FinishedAttempt>) {
        let Some(FinishedAttempt { index, lease, is_retry, outcome, is_recorded }) = ended else { return };
        self.started_attempts.retain(|started| started.lease != lease);
        // If the outcome is not recorded, the next claim must requeue the attempt.
        self.needs_requeue |= !is_recorded;
        let change = self.dispatcher.end(index, &lease, is_retry, &outcome, self.started.elapsed());
        let answer = match outcome {
            Outcome::Delivered(answer) => answer,
            Outcome::Failed(failure) => failure.answer,
        };
        let (target, now) = (self.dispatcher.target(index).clone(), Timestamp::now());
        let name = target.name.clone();
        let mut effect = "commands may show its earlier state until the next change";
        let noted = match change {
            HealthChange::None => return,
            HealthChange::Paused => {
                tracing::warn!(
                    channel = name,
                    "paused the failing channel; it will be probed until an attempt succeeds"
                );
                self.store.change(move |tx| tx.pause(&name, &answer, now)).await
            }
            HealthChange::Resumed { after_outage } => {
                tracing::info!(channel = name, "the channel works again");
                self.store.resume(name, after_outage, now).await.map(drop)
            }
            HealthChange::Accepting => {
                let forward = self.store.change(move |tx| tx.bring_deferred_forward(&name, now)).await;
                if let Err(error) = forward {
                    tracing::error!(%error, channel = lease.channel, "could not bring the channel's deferred deliveries forward; they are retried at their scheduled times");
                }
                return;
            }
            HealthChange::Off => {
                tracing::error!(
                    channel = name,
                    "the receiver replied that it is gone for good (410): the channel is switched off, and its deliveries are parked until `frontdesk inbox retry --channel NAME`"
                );
                effect = "its deliveries are not parked, but attempted again";
                self.store.change(move |tx| tx.switch_off(&target, &answer, now)).await
            }
        };
        if let Err(error) = noted {
            tracing::error!(%error, channel = lease.channel, "could not record in the inbox that the channel was paused, resumed or switched off; {effect}");
        }
    }
}

/// Waits until this process holds the lock, trying every `retry_interval` without limit. Logs only the first
/// failed attempt; `what` completes the message "another process …".
async fn wait_for_lock(place: &DatabaseUrl, retry_interval: Duration, what: &str) -> Lock {
    let mut is_reported = false;
    loop {
        let locked = place.clone();
        match tokio::task::spawn_blocking(move || Lock::try_acquire(&locked)).await {
            Ok(Ok(Some(lock))) => return lock,
            Ok(Ok(None)) if !is_reported => {
                tracing::info!(inbox = %place, "another process {what}; this process will take over when that one stops");
            }
            Ok(Err(error)) if !is_reported => {
                tracing::error!(%error, "cannot take the inbox's lock, so this process runs no maintenance and, with SQLite, delivers nothing; will retry every {} s", retry_interval.as_secs());
            }
            _ => {}
        }
        is_reported = true;
        tokio::time::sleep(retry_interval).await;
    }
}

/// Runs maintenance, and marks this process as the one that runs the canary. With PostgreSQL, waits for the
/// maintenance lock first, and stops maintenance whenever the lock is lost, until it is held again.
async fn run_maintenance(maintenance: Maintenance, canary: Arc<CanaryLink>) {
    if maintenance.place.file().is_some() {
        let _lead = canary.lead();
        return maintenance.run().await;
    }
    loop {
        let lock = wait_for_lock(&maintenance.place, SERVER_STANDBY, "runs this inbox's maintenance").await;
        let lost = async {
            while lock.is_held() {
                tokio::time::sleep(STANDBY).await;
            }
        };
        let _lead = canary.lead();
        tokio::select! {
            () = maintenance.run() => {}
            () = lost => tracing::warn!("lost the lock for maintenance, so another process may run it now; will try every 10 s to take the lock again"),
        }
    }
}

/// Makes one attempt and records its outcome, retrying until the store accepts it or is closed. A panic while
/// sending counts as a failure. Then wakes the requests that wait for a confirmation if a channel to the team
/// has reached a recipient, and seals the submission if this was its last delivery. `seal` has the public
/// key and notifies maintenance; without it, submissions are not sealed. `index` is the index of the channel.
async fn deliver_submission(
    index: usize,
    claimed: Claimed,
    channel: Rc<Channel>,
    store: Store,
    confirmations: Confirmations,
    seal: Option<(Recipient, Rc<Notify>)>,
    receipt: PossibleReceipt,
) -> FinishedAttempt {
    let notice = Notification::from_claimed(&claimed);
    let Claimed { lease, submission, failures, uncertain, reached, is_retry, link, dated_at } = claimed;
    let id = lease.submission;
    let send = panics::catch_async(Part::Delivery, async {
        panics::inject("delivery", &lease.channel);
        match &*channel {
            Channel::Visitor(mailer) => mailer.send(&submission, dated_at, link.as_deref()).await,
            Channel::Smtp(smtp) => smtp.send_except(&notice, &reached).await,
            channel => channel.send(&notice).await,
        }
    });
    let mut was_pending = false;
    let send = async {
        let result = send.await;
        was_pending = receipt.is_pending();
        result
    };
    let outcome = match receipt.track(tokio::time::timeout(LONGEST_ATTEMPT, send)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => {
            tracing::error!(%id, channel = lease.channel, "{panic} ended a delivery attempt; see `frontdesk inbox show ID`");
            let cause = if was_pending { Cause::Uncertain } else { Cause::Unclear };
            Outcome::failed(cause, panic.to_string())
        }
        Err(_) => Outcome::failed(
            Cause::Unclear,
            format!("the attempt took longer than {} s", LONGEST_ATTEMPT.as_secs()),
        ),
    };
    if let Outcome::Failed(failure) = &outcome {
        // Do not log the reply: it may quote what a visitor wrote.
        tracing::warn!(%id, channel = lease.channel, attempt = lease.number, blame = failure.cause.name(), "delivery attempt failed; see `frontdesk inbox show ID`");
    }
    let mut failure_log = FailureLog::default();
    loop {
        let now = Timestamp::now();
        let verdict = schedule::next_step(&outcome, id, failures, uncertain, now);
        let ended = (lease.clone(), outcome.clone());
        match store.change(move |tx| tx.record(&ended.0, &ended.1, verdict, now)).await {
            Ok(settled) => {
                if outcome.has_reached_anyone() && !is_visitor_channel(&lease.channel) {
                    confirmations.notify_waiting(id);
                }
                if let Some((recipient, sealed)) = seal.filter(|_| settled) {
                    match maintenance::seal_submission(&store, &recipient, &submission).await {
                        Ok(_) => sealed.notify_one(),
                        Err(error) => {
                            tracing::warn!(%id, %error, "could not encrypt a submission after its last delivery; maintenance will retry within 15 minutes");
                        }
                    }
                }
                return FinishedAttempt { index, lease, is_retry, outcome, is_recorded: true };
            }
            Err(StoreError::Closed) => {
                return FinishedAttempt { index, lease, is_retry, outcome, is_recorded: false };
            }
            // Retry: the attempt keeps its lease and its capacity until the outcome is recorded.
            Err(error) => {
                if failure_log.record_failure() {
                    tracing::error!(%id, channel = lease.channel, %error, "could not record the outcome of a delivery attempt; will retry every second; if this process ends first, the attempt is repeated");
                }
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
