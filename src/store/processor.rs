//! The thread that processes the intake: it detects repeats and makes submissions with their deliveries of the rest.
//!
//! Each batch is a change that the writer commits, with others where there are some. While submissions are being accepted the thread
//! pauses, for [`PATIENCE`] at most.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::sql::flood;
use super::sql::intake::{self, Processed, Screener};
use super::write_queue::WriteQueue;
use super::{Options, Place, StoreError, bell};
use crate::screening::Repeats;

/// How many rows one transaction processes at most: visitors may have to wait for it.
const BATCH: usize = 128;
/// The longest pause while submissions are being accepted.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it pauses before it looks whether submissions are still being accepted.
const PAUSE: Duration = Duration::from_millis(5);
/// How long it waits for more submissions before it processes the first one, so that a visitor's next one does not have to wait for it.
/// Unit tests, which wait for it after each submission, wait less.
const GATHER: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 10 });
/// After a failure of the database, how long until it tries again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often it looks for what other replicas have accepted and not processed.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How often it looks in a file for what the operator has told it to try again.
const LOOK_IN_FILE_EVERY: Duration = Duration::from_secs(30);
/// While another replica processes a batch, how long until it tries again.
const TURN: Duration = Duration::from_millis(20);
/// How many submissions of an ended flood one transaction releases: visitors may have to wait for it.
const RELEASED_AT_ONCE: usize = 16;
/// How often it looks whether a flood has ended.
const FLOODS_EVERY: Duration = Duration::from_secs(5);
/// The shortest time between two notifications of other replicas: PostgreSQL commits transactions with a NOTIFY one at a time.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Wakes the thread, also if it does not wait yet.
#[derive(Default)]
pub(super) struct WakeUp {
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl WakeUp {
    pub fn ring(&self) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it has rung since this was last called, or the time is over.
    fn wait(&self, timeout: Duration) {
        let has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(has_rung, timeout, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *has_rung = false;
    }
}

/// What this process has found since it started.
#[derive(Default)]
pub(super) struct Counts {
    /// Submissions that repeated an earlier one.
    pub repeats: AtomicU64,
    /// Submissions that are held.
    pub held: AtomicU64,
    /// Those of them that are held because of a flood.
    pub in_flood: AtomicU64,
}

pub(super) struct Processor {
    submissions: Arc<WriteQueue>,
    /// Told after each batch.
    pub processed: watch::Sender<()>,
    /// Told after each batch in which submissions are held because of a flood.
    pub flooded: Arc<Notify>,
    pub counts: Arc<Counts>,
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Processor {
    /// Begins with what an earlier process has left in the intake.
    pub fn start(
        options: Arc<ArcSwap<Options>>,
        submissions: Arc<WriteQueue>,
        changes: Arc<WriteQueue>,
        messages: Arc<Repeats>,
    ) -> Result<Processor, StoreError> {
        let (processed, counts) = (watch::Sender::new(()), Arc::new(Counts::default()));
        submissions.arrived.ring();
        let stopping = Arc::new(AtomicBool::new(false));
        let flooded = Arc::new(Notify::new());
        let work = Work {
            stopping: stopping.clone(),
            options,
            submissions: submissions.clone(),
            changes,
            processed: processed.clone(),
            flooded: flooded.clone(),
            is_flooded: true,
            released: 0,
            screener: Arc::new(Screener::new(messages)),
            counts: counts.clone(),
            told: None,
        };
        let thread = thread::Builder::new().name("inbox-intake".to_owned()).spawn(move || work.run());
        let thread = thread.map_err(|error| StoreError::io("inbox-intake".as_ref(), error))?;
        Ok(Processor { submissions, processed, flooded, counts, stopping, thread: Mutex::new(Some(thread)) })
    }

    /// Processes what was accepted, for [`PATIENCE`] at most, and ends. What is left stays in the intake for the next start.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.submissions.arrived.ring();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that processes the intake had failed before it was stopped");
        }
    }
}

struct Work {
    stopping: Arc<AtomicBool>,
    options: Arc<ArcSwap<Options>>,
    submissions: Arc<WriteQueue>,
    changes: Arc<WriteQueue>,
    processed: watch::Sender<()>,
    flooded: Arc<Notify>,
    /// Whether submissions may be held because of a flood.
    is_flooded: bool,
    /// How many submissions were released because a flood has ended, and not logged yet.
    released: usize,
    screener: Arc<Screener>,
    counts: Arc<Counts>,
    /// When other replicas were last told that something is queued.
    told: Option<Instant>,
}

impl Work {
    fn run(mut self) {
        let look_every = match self.options.load().place {
            Place::Sqlite(_) => LOOK_IN_FILE_EVERY,
            Place::Postgres(_) => LOOK_EVERY,
        };
        loop {
            let pause = if self.is_flooded { look_every.min(FLOODS_EVERY) } else { look_every };
            self.submissions.arrived.wait(pause);
            if !self.stopping.load(Relaxed) {
                thread::sleep(GATHER);
            }
            // Read before: what was accepted before the stop is processed by this pass.
            let is_last = self.stopping.load(Relaxed);
            match self.drain().and_then(|()| self.end_floods()) {
                _ if is_last => return,
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "the intake could not be processed; it is tried again");
                    thread::sleep(AFTER_FAILURE);
                    self.submissions.arrived.ring();
                }
            }
        }
    }

    /// Processes until nothing is left.
    fn drain(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            while self.submissions.is_busy() && began.elapsed() < PATIENCE && !self.stopping.load(Relaxed) {
                thread::sleep(PAUSE);
            }
            let processed = self.process()?;
            if processed.is_none() {
                thread::sleep(TURN);
            }
            let is_done = processed.is_some_and(|processed| !processed.has_more);
            if is_done || (self.stopping.load(Relaxed) && began.elapsed() > PATIENCE) {
                return Ok(());
            }
        }
    }

    /// Releases submissions that were held because of a flood that has ended.
    fn end_floods(&mut self) -> Result<(), StoreError> {
        if self.is_flooded && !self.stopping.load(Relaxed) && !self.submissions.is_busy() {
            let options = self.options.load_full();
            let (released, is_flooded) = self.wait(move |tx| {
                let now = tx.theirs(Timestamp::now());
                let quiet = options.flood_ends_after;
                let released = flood::release_ended(tx.sql, now, quiet, RELEASED_AT_ONCE, &options.channels)?;
                if released > 0 {
                    bell::announce(tx.sql)?;
                }
                Ok((released, flood::is_any_held(tx.sql)?))
            })?;
            // Another replica may hold some, and end before its flood does.
            self.is_flooded = is_flooded || released > 0 || self.options.load().place.file().is_none();
            self.released += released;
            if is_flooded {
                // The replica that tells the team may not be the one that held them.
                self.flooded.notify_one();
            }
            if released > 0 {
                self.submissions.queued.notify_one();
                // The rest is released after what has arrived meanwhile is processed.
                self.submissions.arrived.ring();
            } else if self.released > 0 {
                let released = std::mem::take(&mut self.released);
                tracing::info!(released, "released the submissions that a flood held: it has ended");
            }
        }
        Ok(())
    }

    /// Processes a batch. `None` if that has to wait for somebody else.
    fn process(&mut self) -> Result<Option<Processed>, StoreError> {
        match self.process_up_to(BATCH, Uuid::nil()..=Uuid::max()) {
            Err(error) if error.is_of_a_row() => {}
            outcome => return outcome,
        }
        // One of the rows cannot be processed. They are processed one by one until it is the oldest.
        let Some(id) = self.wait(|tx| intake::oldest(tx.sql))? else { return Ok(Some(Processed::default())) };
        let processed = match self.process_up_to(1, id..=id) {
            Err(error) if error.is_of_a_row() => {
                let text = error.to_string();
                self.wait(move |tx| intake::set_aside(tx.sql, id, &text))?;
                tracing::error!(%id, %error, "a submission could not be processed: it is set aside");
                Some(Processed { rows: 1, ..Processed::default() })
            }
            outcome => outcome?,
        };
        // There may be more; but while somebody else has this row locked, nothing goes on.
        Ok(processed
            .filter(|processed| processed.rows > 0)
            .map(|processed| Processed { has_more: true, ..processed }))
    }

    fn process_up_to(
        &mut self,
        most: usize,
        ids: RangeInclusive<Uuid>,
    ) -> Result<Option<Processed>, StoreError> {
        let (options, screener) = (self.options.load_full(), self.screener.clone());
        let may_tell = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        let processed = self.wait(move |tx| {
            // What is wrong with a row must not fail those whose submissions are accepted by the same transaction.
            let unprocessable = |error: StoreError| {
                if error.is_of_a_row() { StoreError::Unprocessable(error.to_string()) } else { error }
            };
            let processed =
                intake::process(tx.sql, &options, &screener, most, ids.clone()).map_err(unprocessable)?;
            // A replica that is not told looks by itself a little later.
            if may_tell && processed.is_some_and(|processed| processed.has_deliveries) {
                bell::announce(tx.sql)?;
            }
            Ok(processed)
        })?;
        // Whoever waits for a submission looks again: another replica may have processed it.
        self.processed.send_replace(());
        let Some(processed) = processed else { return Ok(None) };
        self.screener.forget_verdicts();
        if processed.has_deliveries {
            self.told = if may_tell { Some(Instant::now()) } else { self.told };
            self.submissions.queued.notify_one();
        }
        self.counts.repeats.fetch_add(processed.repeats as u64, Relaxed);
        self.counts.held.fetch_add(processed.held as u64, Relaxed);
        self.counts.in_flood.fetch_add(processed.in_flood as u64, Relaxed);
        if processed.in_flood > 0 {
            self.is_flooded = true;
            self.flooded.notify_one();
        }
        Ok(Some(processed))
    }

    fn wait<T: Send + 'static>(
        &self,
        change: impl FnMut(&super::sql::change::Changing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.changes.change(change)?.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}
