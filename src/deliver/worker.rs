//! Delivers what is queued: claims what is due, sends it, records what became of it, and sleeps until there is more.
//!
//! It runs on a thread of its own with a runtime of its own, so that nothing that a peer does can hold up a visitor. Of the processes
//! that share an inbox in a file one delivers, the one that holds its lock; the others stand by and take over when it ends. So an
//! attempt that is found begun at the start has nobody left to end it, and is taken over without waiting for its lease. Of those that
//! share one on a server all deliver.
//!
//! What is decided is decided elsewhere: how many may be under way in [`super::dispatch`], when to try again in
//! [`crate::submission::schedule`], what is due in the store.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};
use uuid::Uuid;

use super::channel::{self, Channel, Kind};
use super::chores::{self, Housekeeping};
use super::dispatch::{Roster, Turn};
use super::maildir;
use super::notice::Notice;
use crate::store::bell;
use crate::store::lock::Lock;
use crate::store::{Place, Store, StoreError};
use crate::submission::delivery::{Claimed, Claims, Lease, Target};
use crate::submission::outcome::{Cause, LONGEST_ATTEMPT, Outcome};
use crate::submission::schedule;
use crate::submission::seal::Recipient;

/// How long an attempt is ours: longer than any may take, so that it is never begun a second time while it is under way.
const LEASE: Duration = LONGEST_ATTEMPT.saturating_add(Duration::from_mins(1));
/// How long the worker sleeps at most. It is told of everything that it waits for; this is for clocks that are set, and for
/// file systems that tell nobody of anything.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// After a failure of the store, how long until it is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// By how much clocks may differ before one of them was set: they are corrected all the time.
const MOST_DRIFT: Duration = Duration::from_secs(2);
/// How often a process that stands by looks whether it is its turn.
const STANDBY: Duration = Duration::from_secs(1);

/// How often a replica looks whether it is its turn with the chores: nobody waits for them.
const SERVER_STANDBY: Duration = Duration::from_secs(10);

/// What the worker is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database, for its lock and its bell.
    pub place: Place,
    /// Where deliveries go.
    pub channels: Vec<channel::Options>,
    /// What is to be done beside deliveries.
    pub housekeeping: Housekeeping,
    /// How long attempts may finish once the worker is told to stop. Those that don't are taken over by the next process.
    pub grace: Duration,
}

/// The thread that delivers. It stops when this is dropped.
pub struct Worker {
    stop: watch::Sender<bool>,
    options: watch::Sender<Options>,
    thread: Mutex<Option<JoinHandle<()>>>,
    confirmations: Confirmations,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts it.
    pub fn start(options: Options, store: Store) -> io::Result<Worker> {
        for channel in &options.channels {
            if let Kind::Maildir(maildir) = &channel.kind
                && let Err(error) = maildir::create_parents(&maildir.path)
            {
                let path = maildir.path.display();
                tracing::warn!(%error, channel = channel.name, "cannot create the folders above {path}");
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bell = Arc::new(Notify::new());
        if let Err(error) = bell::tell(&options.place, &bell) {
            // The kernel has only so many watches for each user; a site must not be down because others have taken them all.
            tracing::warn!(%error, "what other processes queue is noticed within a minute only");
        }
        let (stop, stopping) = watch::channel(false);
        let (options, latest) = watch::channel(options);
        let confirmations = Confirmations::default();
        let run = {
            let confirmations = confirmations.clone();
            move || {
                let work = Work::new(latest, store, confirmations, stopping);
                LocalSet::new().block_on(&runtime, work.run(&bell));
                // A look-up or a disk that does not answer must not keep the process from ending.
                runtime.shutdown_background();
            }
        };
        let thread = std::thread::Builder::new().name("deliveries".into()).spawn(run)?;
        Ok(Worker { stop, options, thread: Mutex::new(Some(thread)), confirmations })
    }

    /// By which a submission's arrival can be waited for.
    pub fn confirmations(&self) -> Confirmations {
        self.confirmations.clone()
    }

    /// Goes on with other channels and chores; the database cannot change. What is under way may end as it began, within the grace,
    /// and what does not is repeated, as after a restart.
    pub fn reconfigure(&self, options: Options) {
        // Whoever would not hear it has ended.
        let _ = self.options.send(options);
    }

    /// Begins nothing any more, and returns once what is under way has ended or the grace is over.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the deliveries' thread had failed before it was stopped");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Who waits until a submission has arrived somewhere.
#[derive(Clone, Debug, Default)]
pub struct Confirmations {
    waiting: Arc<Mutex<HashMap<Uuid, Vec<oneshot::Sender<()>>>>>,
}

impl Confirmations {
    /// Waits until at least one channel has confirmed an accepted submission, or the one that it repeats. Returns false if `timeout` ends
    /// first, as it does for a submission that is held.
    pub async fn wait(&self, store: &Store, id: Uuid, timeout: Duration) -> Result<bool, StoreError> {
        let began = Instant::now();
        let Ok(accepted) = tokio::time::timeout(timeout, store.settle(id)).await else { return Ok(false) };
        let (id, timeout) = (accepted?.id(), timeout.saturating_sub(began.elapsed()));
        let (told, confirmed) = oneshot::channel();
        self.lock().entry(id).or_default().push(told);
        let _seat = Seat { confirmations: self, id };
        self.wait_told(store, id, timeout, confirmed).await
    }

    async fn wait_told(
        &self,
        store: &Store,
        id: Uuid,
        timeout: Duration,
        confirmed: oneshot::Receiver<()>,
    ) -> Result<bool, StoreError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let mut confirmed = pin!(confirmed);
        loop {
            // It may have been confirmed before we asked to be told, or by another process, who tells nobody here.
            if store.is_confirmed(id).await? {
                return Ok(true);
            }
            let look_again = deadline.min(tokio::time::Instant::now() + Duration::from_secs(1));
            tokio::select! {
                told = &mut confirmed => return Ok(told.is_ok()),
                () = tokio::time::sleep_until(look_again) => {}
            }
            if tokio::time::Instant::now() >= deadline {
                return store.is_confirmed(id).await;
            }
        }
    }

    fn confirm(&self, id: Uuid) {
        for waiting in self.lock().remove(&id).unwrap_or_default() {
            let _ = waiting.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Vec<oneshot::Sender<()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seat among those who wait for a submission. It is given back however the waiting ends: whoever hangs up just drops it.
struct Seat<'a> {
    confirmations: &'a Confirmations,
    id: Uuid,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut waiting = self.confirmations.lock();
        if let Some(others) = waiting.get_mut(&self.id) {
            others.retain(|other| !other.is_closed());
            if others.is_empty() {
                waiting.remove(&self.id);
            }
        }
    }
}

/// An attempt that has ended and is recorded.
struct Ended {
    post: usize,
    lease: Lease,
    again: bool,
    outcome: Outcome,
}

fn roster(options: &Options) -> Roster {
    let target =
        |channel: &channel::Options| Target { name: channel.name.clone(), leads_to: channel.leads_to() };
    Roster::new(options.channels.iter().map(|channel| (target(channel), channel.concurrency)))
}

fn open(options: &Options) -> Vec<Rc<Channel>> {
    options.channels.iter().map(|channel| Rc::new(Channel::open(&channel.kind))).collect()
}

struct Work {
    options: Options,
    latest: watch::Receiver<Options>,
    store: Store,
    confirmations: Confirmations,
    stopping: watch::Receiver<bool>,
    roster: Roster,
    channels: Vec<Rc<Channel>>,
    attempts: JoinSet<Ended>,
    /// Told when something was sealed.
    sealed: Rc<Notify>,
    started: Instant,
    /// What the clock showed when it was last looked at, and when that was.
    clock: (Timestamp, Instant),
    store_fails: bool,
    /// The channels in which submissions of busy networks wait.
    paced: HashSet<usize>,
    /// When the store was last asked for what is due.
    asked: Option<Instant>,
}

/// Why the worker ends what it does.
enum End {
    Stopped,
    Reconfigured,
}

impl Work {
    fn new(
        mut latest: watch::Receiver<Options>,
        store: Store,
        confirmations: Confirmations,
        stopping: watch::Receiver<bool>,
    ) -> Work {
        let options = latest.borrow_and_update().clone();
        Work {
            roster: roster(&options),
            channels: open(&options),
            options,
            latest,
            store,
            confirmations,
            stopping,
            attempts: JoinSet::new(),
            sealed: Rc::new(Notify::new()),
            started: Instant::now(),
            clock: (Timestamp::now(), Instant::now()),
            store_fails: false,
            paced: HashSet::new(),
            asked: None,
        }
    }

    async fn run(mut self, bell: &Notify) {
        let mut stopping = self.stopping.clone();
        let ready = tokio::select! {
            lock = self.take_over() => lock,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        let _lock = ready;
        loop {
            let end = self.deliver(bell).await;
            self.finish().await;
            match end {
                End::Stopped => return,
                End::Reconfigured => {
                    self.options = self.latest.borrow_and_update().clone();
                    self.roster = roster(&self.options);
                    self.channels = open(&self.options);
                    // What did not end in time is noted as begun, and nobody makes those attempts any more.
                    self.store_fails = true;
                    tracing::info!(
                        channels = self.channels.len(),
                        "deliveries go on as they are configured now"
                    );
                }
            }
        }
    }

    /// Delivers and does chores until there is a reason not to.
    async fn deliver(&mut self, bell: &Notify) -> End {
        let (mut stopping, mut latest) = (self.stopping.clone(), self.latest.clone());
        let names = self.options.channels.iter().map(|channel| channel.name.clone());
        let channels = names.zip(self.channels.iter().cloned()).collect();
        let mut chores = pin!(look_after(
            self.options.housekeeping.clone(),
            self.options.place.clone(),
            self.store.clone(),
            channels,
            self.sealed.clone(),
        ));
        loop {
            let rest = self.rest();
            let sleep = match rest {
                Some(rest) => rest,
                None => self.dispatch().await,
            };
            tokio::select! {
                () = &mut chores => {}
                // Whoever rests is not woken by each commit; both remember that there was one.
                () = self.store.queued(), if rest.is_none() => {}
                () = bell.notified(), if rest.is_none() => {}
                Some(ended) = self.attempts.join_next() => self.end(ended.ok()).await,
                () = tokio::time::sleep(sleep) => {}
                _ = stopping.wait_for(|stop| *stop) => break End::Stopped,
                Ok(()) = latest.changed() => break End::Reconfigured,
            }
            while let Some(ended) = self.attempts.try_join_next() {
                self.end(ended.ok()).await;
            }
        }
    }

    /// Sees what is under way to its end, within the grace.
    async fn finish(&mut self) {
        let grace = self.options.grace;
        let finish = async {
            while let Some(ended) = self.attempts.join_next().await {
                self.end(ended.ok()).await;
            }
        };
        if tokio::time::timeout(grace, finish).await.is_err() {
            tracing::warn!("attempts that are under way are given up, and repeated");
            self.attempts.shutdown().await;
        }
    }

    /// Becomes the one that delivers, and takes over what the last one had begun. Replicas over a server all deliver: there a row
    /// is locked while it is claimed, and what another one had begun is taken over when its lease is over.
    async fn take_over(&mut self) -> Option<Lock> {
        let lock = match &self.options.place {
            Place::Sqlite(_) => Some(stand_by(&self.options.place, STANDBY, "delivers what is sent").await),
            Place::Postgres(_) => None,
        };
        loop {
            match self.store.recover(Timestamp::now()).await {
                Ok(0) => return lock,
                Ok(count) => {
                    tracing::info!(count, "attempts that were interrupted are repeated");
                    return lock;
                }
                Err(_) => tokio::time::sleep(STORE_RETRY).await,
            }
        }
    }

    /// For how long the store need not be asked for what is due.
    fn rest(&self) -> Option<Duration> {
        let asked = self.asked.filter(|_| !self.store_fails)?;
        self.roster.rest(self.started.elapsed(), asked.elapsed())
    }

    /// Begins what is due and returns for how long there is nothing more to begin.
    async fn dispatch(&mut self) -> Duration {
        if self.channels.is_empty() {
            return LONGEST_SLEEP;
        }
        self.asked = Some(Instant::now());
        let wants = self.roster.wants(self.started.elapsed());
        let now = Timestamp::now();
        if self.was_set_back(now) && self.store.mend_waits(now).await.is_err() {
            return STORE_RETRY;
        }
        let under_way = self.roster.under_way().to_vec();
        // A claim that failed may be on the disk all the same, with nobody to make those attempts.
        if self.store_fails && self.store.retake(under_way.clone(), now).await.is_err() {
            return STORE_RETRY;
        }
        match self.store.claim(wants, under_way, now, LEASE).await {
            Ok(claims) => {
                self.store_fails = false;
                let sleeps = claims.into_iter().enumerate().map(|(post, claims)| self.begin(post, claims));
                sleeps.flatten().min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
            }
            Err(error) => {
                if !self.store_fails {
                    tracing::error!(%error, "nothing can be delivered at present");
                }
                self.store_fails = true;
                STORE_RETRY
            }
        }
    }

    /// Whether the clock shows less than it should by now, since it was last looked at.
    fn was_set_back(&mut self, now: Timestamp) -> bool {
        let should_show = self.clock.0 + self.clock.1.elapsed();
        self.clock = (now, Instant::now());
        now + MOST_DRIFT < should_show
    }

    /// Begins what was claimed for a channel and returns for how long there is nothing more to begin in it.
    fn begin(&mut self, post: usize, claims: Claims) -> Option<Duration> {
        if !claims.is_paced {
            self.paced.remove(&post);
        } else if self.paced.insert(post) {
            tracing::info!(
                channel = self.roster.target(post).name,
                "some networks have sent many submissions: 8 an hour of those that wait are sent, and others without delay"
            );
        }
        let begun = self.roster.begin(post, claims, Timestamp::now(), self.started.elapsed());
        if let Some(on) = begun.switched {
            let now = if on { "switched on again" } else { "switched off" };
            tracing::warn!(channel = self.roster.target(post).name, "the channel is {now}");
        }
        for claimed in begun.claimed {
            let (store, channel) = (self.store.clone(), self.channels[post].clone());
            let confirmations = self.confirmations.clone();
            let seal = self.options.housekeeping.recipient.clone().map(|to| (to, self.sealed.clone()));
            self.attempts.spawn_local(attempt(post, claimed, channel, store, confirmations, seal));
        }
        begun.sleep
    }

    /// Frees the place of an attempt that has ended, and does what follows from it for its channel.
    async fn end(&mut self, ended: Option<Ended>) {
        let Some(Ended { post, lease, again, outcome }) = ended else { return };
        let turn = self.roster.end(post, &lease, again, &outcome, self.started.elapsed());
        let answer = match outcome {
            Outcome::Delivered(answer) => answer,
            Outcome::Failed(failure) => failure.answer,
        };
        let (target, now) = (self.roster.target(post).clone(), Timestamp::now());
        let name = target.name.clone();
        let noted = match turn {
            Turn::None => return,
            Turn::Paused => {
                tracing::warn!(channel = name, "the channel fails again and again: it is paused and probed");
                self.store.pause(name, answer, now).await
            }
            Turn::Resumed { after_outage } => {
                tracing::info!(channel = name, "the channel works again");
                self.store.resume(name, after_outage, now).await.map(drop)
            }
            Turn::Off => {
                tracing::error!(
                    channel = name,
                    "the other side says that it is gone for good (410): the channel is switched off, and what was to go there is parked"
                );
                self.store.switch_off(target, answer, now).await
            }
        };
        if let Err(error) = noted {
            tracing::error!(%error, "what became of a channel could not be noted");
        }
    }
}

/// Waits until nobody else has the inbox's lock.
async fn stand_by(place: &Place, look_every: Duration, what: &str) -> Lock {
    let mut said = false;
    loop {
        let taken = {
            let place = place.clone();
            tokio::task::spawn_blocking(move || Lock::of(&place)).await
        };
        match taken {
            Ok(Ok(Some(lock))) => return lock,
            Ok(Ok(None)) if !said => tracing::info!("another process {what}; this one stands by"),
            Ok(Err(error)) if !said => tracing::error!(%error, "cannot take the inbox's lock"),
            _ => {}
        }
        said = true;
        tokio::time::sleep(look_every).await;
    }
}

/// Does the chores. Of replicas that share a server one does them.
async fn look_after(
    housekeeping: Housekeeping,
    place: Place,
    store: Store,
    channels: Vec<(String, Rc<Channel>)>,
    sealed: Rc<Notify>,
) {
    if place.file().is_some() {
        return chores::run(housekeeping, place, store, channels, sealed).await;
    }
    loop {
        let lock = stand_by(&place, SERVER_STANDBY, "looks after the inbox").await;
        let lost = async {
            while lock.is_held() {
                tokio::time::sleep(STANDBY).await;
            }
        };
        let (housekeeping, place, store) = (housekeeping.clone(), place.clone(), store.clone());
        tokio::select! {
            () = chores::run(housekeeping, place, store, channels.clone(), sealed.clone()) => {}
            () = lost => tracing::warn!("the inbox's lock is lost with its connection"),
        }
    }
}

/// One attempt, from the first byte that is sent to the row that says what became of it.
async fn attempt(
    post: usize,
    claimed: Claimed,
    channel: Rc<Channel>,
    store: Store,
    confirmations: Confirmations,
    seal: Option<(Recipient, Rc<Notify>)>,
) -> Ended {
    let Claimed { lease, submission, failures, again } = claimed;
    let notice = Notice { may_be_there: lease.number > 1, ..Notice::of(&submission) };
    let outcome = tokio::time::timeout(LONGEST_ATTEMPT, channel.send(&notice)).await.unwrap_or_else(|_| {
        Outcome::failed(Cause::Unclear, format!("it took longer than {} s", LONGEST_ATTEMPT.as_secs()))
    });
    let id = lease.submission;
    if let Outcome::Failed(failure) = &outcome {
        // What the other side said may quote the visitor; it is in the inbox.
        tracing::warn!(%id, channel = lease.channel, attempt = lease.number, blame = failure.cause.name(), "an attempt has failed; `frontdesk inbox show` tells why");
    }
    loop {
        let now = Timestamp::now();
        let verdict = schedule::judge(&outcome, id, failures, now);
        match store.record(lease.clone(), outcome.clone(), verdict, now).await {
            Ok(settled) => {
                if verdict == schedule::Verdict::Delivered {
                    confirmations.confirm(id);
                }
                if let Some((recipient, sealed)) = seal.filter(|_| settled) {
                    match chores::seal(&store, &recipient, &submission).await {
                        Ok(_) => sealed.notify_one(),
                        Err(error) => {
                            tracing::warn!(%id, %error, "a submission could not be sealed; it is tried again");
                        }
                    }
                }
                return Ended { post, lease, again, outcome };
            }
            // Until it is recorded it is not over: the place stays taken, and the lease is ours.
            Err(StoreError::Closed) => return Ended { post, lease, again, outcome },
            Err(_) => tokio::time::sleep(STORE_RETRY).await,
        }
    }
}

#[cfg(test)]
mod tests;
