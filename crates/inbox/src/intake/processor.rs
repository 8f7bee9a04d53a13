//! The thread that processes the intake.
//!
//! This thread screens each batch, and stores the outcome in one of the writer's transactions, possibly
//! together with other changes. A burst of submissions is accepted first. If it lasts, the thread uses only a
//! part of a core, so that visitors do not wait for it: see [`rest`].

#![expect(clippy::disallowed_methods, reason = "the processor is a thread that paces itself")]

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use uuid::Uuid;

use super::IntakeOptions;
use super::batch_processing::{self, BatchConfig, Processed, Screener};
use super::lesson_reader::LessonReader;
use super::rspamd_opinions;
use crate::store::{Store, StoreError};
use crate::submission::visitor_mail::{LimitCounts, MailLimit};
use frontdesk_process::panics::{self, Part};
use frontdesk_process::priority::lower_priority;
use frontdesk_rspamd::{OpinionCounts, OpinionQueue, OpinionRequest, RspamdOptions};
use frontdesk_screening::Repeats;

/// The maximum number of rows in one transaction.
const BATCH: usize = 128;
/// The maximum number of rows in one transaction while submissions are being accepted, because visitors wait
/// for that transaction. A smaller batch costs more for each row.
const BATCH_BESIDE_VISITORS: usize = 32;
/// The lowered priority of the thread: visitors who wait for a response come before the screening of
/// submissions that are stored already.
const NICE: i32 = 5;
/// The maximum time that processing waits for a burst of submissions to end.
const MAX_PAUSE: Duration = Duration::from_millis(2500);
/// How long a stopped processor continues to process the rows that are left in the intake.
const MAX_FINISH: Duration = Duration::from_secs(10);
const BUSY_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The delay before a retry after a database failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often to look for submissions that other replicas have accepted but not processed.
const REPLICA_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// How often to check a SQLite file for submissions that the operator has retried.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The delay before this process tries again if another replica is processing a batch.
const TURN_RETRY_DELAY: Duration = Duration::from_millis(20);
/// The maximum number of submissions that one transaction releases, and of mails asking for a confirmation
/// that it queues. Visitors may be waiting for it.
const MAX_RELEASED: usize = 16;
const FLOOD_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How often to look for confirmation emails that no longer have to wait for rspamd.
const MAIL_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The longest time for which a mail asking for a confirmation may wait for rspamd: the maximum of
/// `screening.rspamd_timeout`, and a second.
const LONGEST_MAIL_DELAY: Duration = Duration::from_secs(11);
/// The minimum time between notifications to other replicas: PostgreSQL serializes commits with a NOTIFY.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum time between two log entries about the limit of mails to visitors: an attacker can use it up
/// again and again.
const LIMIT_LOG_INTERVAL: Duration = Duration::from_hours(1);

/// Counts submissions, acknowledgements and rspamd's answers since the process started.
#[derive(Default)]
pub struct Counts {
    pub repeats: AtomicU64,
    /// New submissions that screening or a flood held.
    pub held: AtomicU64,
    /// New or repeated submissions that a flood held.
    pub in_flood: AtomicU64,
    /// For each [`MailLimit`], the number of acknowledgements to visitors that it prevented.
    pub skipped_mails: [AtomicU64; MailLimit::ALL.len()],
    /// Counts of rspamd's answers.
    pub opinions: Arc<OpinionCounts>,
}

pub(super) struct Processor {
    store: Store,
    pub counts: Arc<Counts>,
    is_stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Processor {
    /// Starts the processor thread, which begins with the rows that are already in the intake.
    pub fn start(
        options: Arc<ArcSwap<IntakeOptions>>,
        store: Store,
        messages: Arc<Repeats>,
    ) -> Result<Processor, StoreError> {
        let counts = Arc::new(Counts::default());
        store.events().accepted.notify_one();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let record = rspamd_opinions::recorder(store.clone(), options.clone());
        let work = ProcessorThread {
            is_stopping: is_stopping.clone(),
            options,
            store: store.clone(),
            is_flooded: true,
            released: 0,
            screener: Arc::new(Screener::new(messages)),
            counts: counts.clone(),
            announced_at: None,
            limits_logged_at: [None; MailLimit::ALL.len()],
            failing: Vec::new(),
            lessons: LessonReader::default(),
            opinions: OpinionQueue::new(record, counts.opinions.clone()),
            // Emails that an earlier process has delayed may still be waiting.
            mails_delayed_until: Some(Instant::now() + LONGEST_MAIL_DELAY),
        };
        let thread =
            thread::Builder::new().name("inbox-intake".to_owned()).spawn(move || work.run_until_stopped());
        let thread = thread.map_err(|error| StoreError::io("inbox-intake".as_ref(), error))?;
        Ok(Processor { store, counts, is_stopping, thread: Mutex::new(Some(thread)) })
    }

    /// Processes submissions for about [`MAX_FINISH`] at most, and waits until the thread has ended. Later
    /// submissions stay in the intake. Further calls do nothing.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.store.events().accepted.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the thread that processes submissions panicked; the next start of the server processes the remaining submissions"
            );
        }
    }
}

struct ProcessorThread {
    is_stopping: Arc<AtomicBool>,
    options: Arc<ArcSwap<IntakeOptions>>,
    store: Store,
    /// Whether submissions may still be held because of a flood.
    is_flooded: bool,
    /// The number of submissions that were released after floods and that no log entry has reported yet.
    released: usize,
    screener: Arc<Screener>,
    counts: Arc<Counts>,
    /// When other replicas were last notified of new deliveries.
    announced_at: Option<Instant>,
    /// When the exhaustion of each limit on emails to visitors was last logged.
    limits_logged_at: [Option<Instant>; MailLimit::ALL.len()],
    /// The steps that have failed since the last pass without an error, as named in the log.
    failing: Vec<&'static str>,
    lessons: LessonReader,
    opinions: OpinionQueue,
    /// The time until which confirmation emails may be waiting for rspamd.
    mails_delayed_until: Option<Instant>,
}

impl ProcessorThread {
    /// Each time a submission is accepted, and at intervals: waits for `batch_delay`, processes the intake,
    /// releases ended floods and queues mails that ask for confirmations. After an error or a panic, retries
    /// every second; logs each step that begins to fail, and the end of the outage. Returns once the
    /// processor is stopped, after a last pass whose errors are ignored, or once the store is closed.
    fn run_until_stopped(mut self) {
        lower_priority(NICE);
        self.options.load().screening.lexicon.prepare();
        loop {
            let pause = self.pause();
            self.store.wait_for_accepted(pause);
            if !self.is_stopping.load(Relaxed) {
                thread::sleep(self.options.load().batch_delay);
            }
            // Read the flag before the pass, which then processes everything that was accepted before the
            // stop.
            let is_last = self.is_stopping.load(Relaxed);
            let mut step = "process the intake, so accepted submissions are neither screened nor delivered";
            let done = panics::catch(Part::Submission, || {
                self.process_all()?;
                step = "release the submissions that ended floods held";
                self.release_ended_floods()?;
                step = "queue mails that ask visitors to confirm their addresses";
                self.queue_confirmations()
            });
            match done.unwrap_or_else(|panic| Err(StoreError::Panicked(panic.to_string()))) {
                _ if is_last => return,
                Ok(()) if !self.failing.is_empty() => {
                    self.failing.clear();
                    tracing::info!("submissions are processed without errors again");
                }
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => {
                    if !self.failing.contains(&step) {
                        self.failing.push(step);
                        tracing::warn!(%error, "could not {step}; will retry every second");
                    }
                    thread::sleep(RETRY_DELAY);
                    self.store.events().accepted.notify_one();
                }
            }
        }
    }

    /// How long to wait for the next submission before looking for other work. Also clears
    /// `mails_delayed_until` once no mail can be waiting for rspamd any more.
    fn pause(&mut self) -> Duration {
        let mut pause = if self.store.is_shared() { REPLICA_CHECK_INTERVAL } else { FILE_CHECK_INTERVAL };
        if self.is_flooded {
            pause = pause.min(FLOOD_CHECK_INTERVAL);
        }
        let has_rspamd = self.options.load().rspamd.is_some();
        if self.mails_delayed_until.is_some_and(|until| !has_rspamd || until < Instant::now()) {
            self.mails_delayed_until = None;
        }
        if self.mails_delayed_until.is_some() { pause.min(MAIL_CHECK_INTERVAL) } else { pause }
    }

    /// Processes batches until no more rows can be processed or, once stopped, until [`MAX_FINISH`] is over.
    /// Pauses while another replica is processing a batch, for up to [`MAX_PAUSE`] during a burst of
    /// submissions, and, while submissions are being accepted, during checkpoints of SQLite and as [`rest`]
    /// demands. Reads new lessons before each batch. Returns the first error.
    fn process_all(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let waits = || {
                (self.store.is_busy() && began.elapsed() < MAX_PAUSE)
                    || self.store.is_copying_beside_visitors()
            };
            while !self.is_stopping.load(Relaxed) && waits() {
                thread::sleep(BUSY_CHECK_INTERVAL);
            }
            self.refresh_lessons();
            let timer = BatchTimer::start();
            let processed = self.process_batch()?;
            let (is_done, is_stopping) = (
                processed.as_ref().is_some_and(|processed| !processed.has_more),
                self.is_stopping.load(Relaxed),
            );
            if is_done || (is_stopping && began.elapsed() > MAX_FINISH) {
                return Ok(());
            }
            match processed {
                None => thread::sleep(TURN_RETRY_DELAY),
                Some(processed) if !is_stopping && self.store.has_visitors() => {
                    thread::sleep(timer.rest(&processed));
                }
                Some(_) => {}
            }
        }
    }

    /// Reads new lessons, at most once a second. A failure is only logged: screening then uses the previous
    /// ones.
    fn refresh_lessons(&mut self) {
        let refreshed = self.lessons.refresh(&self.store, &self.options.load(), &self.screener);
        if let Err(error) = refreshed {
            tracing::warn!(%error, "could not update what screening learns from the operators' decisions; screening continues with the earlier decisions; will retry with the next submissions");
        }
    }

    /// Queues the mails that ask visitors to confirm their addresses, in several transactions. Does nothing
    /// if no channel sends such mails. Stops early if submissions are being accepted; the next call goes on.
    /// Also reports limits that delay mails.
    fn queue_confirmations(&mut self) -> Result<(), StoreError> {
        let channels = self.store.channels.load_full();
        if !channels
            .iter()
            .any(|route| route.visitor.as_ref().is_some_and(|rule| !rule.confirmations.is_empty()))
        {
            return Ok(());
        }
        let clock = self.options.load().clock;
        loop {
            let channels = channels.clone();
            let mails = self.store.change_blocking(move |tx| {
                let mails = tx.queue_confirmations(clock(), MAX_RELEASED, &channels)?;
                if mails.queued > 0 {
                    tx.announce()?;
                }
                Ok(mails)
            })?;
            if mails.queued > 0 {
                self.store.events().queued.notify_one();
            }
            self.report_limits(mails.limited, "mails that ask visitors to confirm their addresses wait");
            if !mails.has_more || self.store.is_busy() {
                return Ok(());
            }
        }
    }

    /// Logs which limits have stopped mails, for each limit at most once per [`LIMIT_LOG_INTERVAL`]. If the
    /// limit for all visitors is among them, signals that the team is to be notified.
    fn report_limits(&mut self, stopped: LimitCounts, effect: &'static str) {
        for limit in MailLimit::ALL.into_iter().filter(|limit| stopped[*limit as usize] > 0) {
            if limit == MailLimit::All {
                self.store.events().mails_limited.notify_one();
            }
            let logged_at = &mut self.limits_logged_at[limit as usize];
            if logged_at.is_none_or(|at| at.elapsed() >= LIMIT_LOG_INTERVAL) {
                *logged_at = Some(Instant::now());
                tracing::warn!(effect, "a limit on mails to visitors is reached: `{}`", limit.key());
            }
        }
    }

    /// Releases up to [`MAX_RELEASED`] submissions of each flood that has ended, and lets the next pass
    /// release the rest. Also signals that the team is to be notified of floods that go on, and of a limit of
    /// mails to visitors. Logs the total once a pass releases none. Does nothing once the processor is
    /// stopped, while submissions are being accepted, or if no submission can be held because of a flood.
    fn release_ended_floods(&mut self) -> Result<(), StoreError> {
        if self.is_flooded && !self.is_stopping.load(Relaxed) && !self.store.is_busy() {
            let options = self.options.load();
            let (quiet, clock, channels) =
                (options.flood_ends_after, options.clock, self.store.channels.load_full());
            let (released, is_flooded, is_limited) = self.store.change_blocking(move |tx| {
                let now = tx.to_database_time(clock());
                let released = tx.release_ended_floods(now, quiet, MAX_RELEASED, &channels)?;
                if released > 0 {
                    tx.announce()?;
                }
                let is_limited = tx.unannounced_mail_limit(clock())?.is_some();
                Ok((released, tx.is_any_held_in_flood()?, is_limited))
            })?;
            if is_limited {
                self.store.events().mails_limited.notify_one();
            }
            // Always check a shared database: another replica may stop after it has held submissions.
            self.is_flooded = is_flooded || released > 0 || self.store.is_shared();
            self.released += released;
            if is_flooded {
                // Every replica signals the flood, because the replica that notifies the team may not have
                // held any of the submissions itself.
                self.store.events().flooded.notify_one();
            }
            if released > 0 {
                self.store.events().queued.notify_one();
                // Release the remaining submissions after processing those that have arrived meanwhile.
                self.store.events().accepted.notify_one();
            } else if self.released > 0 {
                let released = std::mem::take(&mut self.released);
                tracing::info!(released, "floods have ended; released the submissions that they held");
            }
        }
        Ok(())
    }

    /// Processes a batch. If one of its rows is faulty, processes only the oldest row, or sets it aside if it
    /// is the faulty one. Returns `None` while another replica is processing a batch or has locked the oldest
    /// row.
    fn process_batch(&mut self) -> Result<Option<Processed>, StoreError> {
        let most = if self.store.has_visitors() { BATCH_BESIDE_VISITORS } else { BATCH };
        match self.process_up_to(most, Uuid::nil()..=Uuid::max()) {
            Err(error) if error.is_caused_by_row() => {}
            outcome => return outcome,
        }
        // One of the rows is faulty. Process only the oldest row, and set it aside if it is the faulty one.
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime only")]
        let Some(id) = self.store.change_blocking(|tx| tx.oldest_pending())? else {
            return Ok(Some(Processed::default()));
        };
        let processed = match self.process_up_to(1, id..=id) {
            Err(error) if error.is_caused_by_row() => {
                let text = error.to_string();
                self.store.change_blocking(move |tx| tx.set_aside(id, &text))?;
                tracing::error!(%id, %error, "could not process a submission: it is set aside and not delivered; `frontdesk inbox retry ID` processes it again");
                Some(Processed { rows: 1, ..Processed::default() })
            }
            outcome => outcome?,
        };
        // Continue with the remaining rows. If another process has locked this row, return `None`, so that
        // the caller waits first.
        Ok(processed
            .filter(|processed| processed.rows > 0)
            .map(|processed| Processed { has_more: true, ..processed }))
    }

    /// Like [`batch::process`], but screens outside of the transaction if no other replica can process the
    /// rows meanwhile: visitors then wait for the transaction only. After the commit, also updates the
    /// counts, logs limits that stopped mails, and notifies other threads and replicas.
    fn process_up_to(
        &mut self,
        most: usize,
        ids: RangeInclusive<Uuid>,
    ) -> Result<Option<Processed>, StoreError> {
        let (options, channels) = (self.options.clone(), self.store.channels.clone());
        let rspamd = self.options.load().rspamd.clone();
        let room_for_opinions =
            rspamd.as_ref().map_or(0, |rspamd| self.opinions.room(rspamd, Instant::now()));
        let config = move || BatchConfig {
            options: options.load_full(),
            channels: channels.load_full(),
            room_for_opinions,
        };
        let may_announce = self.announced_at.is_none_or(|at| at.elapsed() >= ANNOUNCE_INTERVAL);
        let processed = if self.store.is_shared() {
            let screener = self.screener.clone();
            self.store.change_blocking(move |tx| {
                let began = thread_time();
                let processed =
                    batch_processing::process(tx, &config, &screener, most, &ids).map_err(unprocessable)?;
                // Replicas that get no notification find the deliveries later, at their next regular check.
                if may_announce && processed.as_ref().is_some_and(|processed| processed.has_deliveries) {
                    tx.announce()?;
                }
                let spent = thread_time().saturating_sub(began);
                Ok(processed.map(|processed| Processed { spent, ..processed }))
            })?
        } else {
            let pending =
                self.store.change_blocking(move |tx| tx.read_pending(most, &ids).map_err(unprocessable))?;
            let screened = panics::catch(Part::Submission, || {
                batch_processing::screen(pending, config(), &self.screener)
            });
            let screened = screened.unwrap_or_else(|panic| Err(StoreError::Panicked(panic.to_string())));
            let batch = screened.map_err(unprocessable)?;
            let stored = self.store.change_blocking(move |tx| {
                let began = thread_time();
                let stored = batch_processing::store(tx, &batch).map_err(unprocessable)?;
                Ok(Processed { spent: thread_time().saturating_sub(began), ..stored })
            })?;
            Some(stored)
        };
        // Wake the callers that wait for the outcome: another replica may have processed their submission.
        self.store.events().processed.send_replace(());
        let Some(mut processed) = processed else { return Ok(None) };
        self.screener.forget_verdicts();
        if let Some(rspamd) = rspamd {
            self.ask_for_opinions(&rspamd, std::mem::take(&mut processed.opinions));
        }
        if processed.has_deliveries {
            if may_announce {
                self.announced_at = Some(Instant::now());
            }
            self.store.events().queued.notify_one();
        }
        self.counts.repeats.fetch_add(processed.repeats as u64, Relaxed);
        self.counts.held.fetch_add(processed.held as u64, Relaxed);
        self.counts.in_flood.fetch_add(processed.in_flood as u64, Relaxed);
        for (total, skipped) in self.counts.skipped_mails.iter().zip(processed.skipped_mails) {
            total.fetch_add(skipped as u64, Relaxed);
        }
        self.report_limits(processed.skipped_mails, "messages are delivered without an acknowledgement");
        if processed.in_flood > 0 {
            self.is_flooded = true;
            self.store.events().flooded.notify_one();
        }
        Ok(Some(processed))
    }

    /// Hands new submissions to the thread that asks rspamd. Until their mails are due, the processor looks
    /// for due mails every [`MAIL_CHECK_INTERVAL`].
    fn ask_for_opinions(&mut self, rspamd: &Arc<RspamdOptions>, requests: Vec<OpinionRequest>) {
        if !requests.is_empty() {
            self.mails_delayed_until = Some(Instant::now() + rspamd.timeout + MAIL_CHECK_INTERVAL);
            self.opinions.push(rspamd, requests);
        }
    }
}

/// Wraps an error that a row has caused in [`StoreError::Unprocessable`], because a faulty row must not
/// affect the submissions that are accepted in the same transaction.
fn unprocessable(error: StoreError) -> StoreError {
    let is_wrapped = matches!(error, StoreError::Unprocessable(_));
    let is_wrappable = error.is_caused_by_row() && !is_wrapped;
    if is_wrappable { StoreError::Unprocessable(error.to_string()) } else { error }
}

/// The CPU time of this thread, as the kernel's scheduler counts it. Zero if it cannot be read: processing
/// then does not rest.
fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// Measures a batch that is processed while submissions are being accepted. Processing and acceptance compete
/// for a small machine's cores, and for the writer.
struct BatchTimer {
    began: Instant,
    /// The CPU time of this thread at the start of the batch.
    spent: Duration,
}

impl BatchTimer {
    fn start() -> BatchTimer {
        BatchTimer { began: Instant::now(), spent: thread_time() }
    }

    /// How long the thread sleeps after a batch, to leave most of a core to visitors' requests.
    fn rest(&self, processed: &Processed) -> Duration {
        // To write what the statements have changed, the commit takes about as much CPU time again, and the
        // checkpoint of SQLite a quarter (measured in a profile of a minute with visitors).
        let spent = thread_time().saturating_sub(self.spent) + processed.spent * 9 / 4;
        rest(spent, self.began.elapsed())
    }
}

/// How long to rest after a batch that took `elapsed` and as much CPU time as `spent`, so that processing
/// takes at most a third of a core: visitors who wait now come before submissions that are stored already.
fn rest(spent: Duration, elapsed: Duration) -> Duration {
    (spent * 3).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processing_rests_so_that_visitors_get_most_of_a_core() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(2), ms(2)), ms(4));
        // Visitors have had their share while the batch waited for the writer or a core.
        assert_eq!(rest(ms(2), ms(5)), ms(1));
        assert_eq!(rest(ms(2), ms(9)), ms(0));
    }
}
