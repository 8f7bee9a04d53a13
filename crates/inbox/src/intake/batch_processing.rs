//! Processes a batch of rows from the table `intake`: screens each submission; then, in one transaction,
//! detects repeats and floods, writes submissions and deliveries, and queues acknowledgements to visitors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use uuid::Uuid;

use super::IntakeOptions;
use super::duplicates::{self, Candidate, Decision, Fate, Known, MaxAges};
use super::flood::Rates;
use super::rspamd_opinions::Opinions;
use crate::store::{
    self, Hash, HoldCause, MailFate, MailRequest, NewSubmission, PendingRow, StoreError, Transaction,
};
use crate::submission::delivery::{HIGH_VOLUME_RANK, Route};
use crate::submission::first_email;
use crate::submission::visitor_mail::{LimitCounts, VisitorMail};
use frontdesk_forms::{DedupKey, Entry};
use frontdesk_process::panics::{self, Part};
use frontdesk_rspamd::OpinionRequest;
use frontdesk_screening::verdict::ScreeningVerdict;
use frontdesk_screening::{Evidence, Learned, Repeats};

/// The outcome of processing a batch of rows from the intake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processed {
    /// Rows read from the intake, including test submissions of the canary.
    pub rows: usize,
    /// Rows that repeated an earlier submission.
    pub repeats: usize,
    /// New submissions that are held by screening or because of a flood. Those held until the visitor
    /// confirms the address do not count.
    pub held: usize,
    /// New or repeated submissions that are now held because of a flood.
    pub in_flood: usize,
    /// For each hourly limit, the number of acknowledgements to visitors that it prevented.
    pub skipped_mails: LimitCounts,
    /// Whether deliveries may have become due. May be true even if all new deliveries are held.
    pub has_deliveries: bool,
    /// Whether the intake may have more rows.
    pub has_more: bool,
    /// The new submissions to query rspamd about after they are committed.
    pub opinions: Vec<OpinionRequest>,
    /// The CPU time that the writer's thread has used for the batch, excluding the commit.
    pub spent: Duration,
}

/// The configuration for processing a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchConfig {
    pub options: Arc<IntakeOptions>,
    pub channels: Arc<Vec<Route>>,
    /// The maximum number of submissions that rspamd can be queried about now.
    pub room_for_opinions: usize,
}

/// Rows of the intake, in order of arrival, and whether there may be more.
pub(crate) type Pending = (Vec<PendingRow>, bool);

/// Rows of the intake with their verdicts.
pub(crate) struct ScreenedBatch {
    config: BatchConfig,
    canaries: Vec<PendingRow>,
    submissions: Vec<Screened>,
    has_more: bool,
}

/// Processes up to `most` rows with ids in the range `ids`, in order of arrival, without those that are set
/// aside or locked. Each becomes a submission with its deliveries, or is counted as a repeat; a row of the
/// canary only completes its test. Fails if a row is damaged; the caller must then roll back. Replicas take
/// turns to keep that order: returns `None` while another one is processing a batch.
///
/// `config` is called after the rows have been read: a submission that was accepted after a reload must not
/// be processed with the previous configuration, which may lack its channel.
pub(crate) fn process(
    tx: &Transaction<'_>,
    config: impl FnOnce() -> BatchConfig,
    screener: &Screener,
    most: usize,
    ids: &RangeInclusive<Uuid>,
) -> Result<Option<Processed>, StoreError> {
    if !tx.try_intake_turn()? {
        return Ok(None);
    }
    let pending = tx.read_pending(most, ids)?;
    store(tx, &screen(pending, config(), screener)?).map(Some)
}

/// Screens rows that were read from the intake. Does not screen rows of the canary. Fails if one of the rows
/// is damaged or screening panics.
pub(crate) fn screen(
    (rows, has_more): Pending,
    config: BatchConfig,
    screener: &Screener,
) -> Result<ScreenedBatch, StoreError> {
    for row in &rows {
        // Panics only if a test requests it; never in release builds.
        panics::inject("row", row.id);
    }
    let (canaries, rows): (Vec<PendingRow>, Vec<PendingRow>) =
        rows.into_iter().partition(|row| row.canary.is_some());
    let read = |row| Screened::parse_and_screen(row, &config.options, &config.channels, screener);
    let submissions = rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(ScreenedBatch { config, canaries, submissions, has_more })
}

/// Decides which rows of a batch are new, stores the outcome, queues acknowledgements, and removes the rows
/// from the intake. Also writes the rates of forms and networks, and the changes to originals that the batch
/// repeats. Rows of the canary become no submissions. Ignores rows that an operator has removed from the
/// intake since they were read. Does not ask rspamd, but returns the requests.
pub(crate) fn store(tx: &Transaction<'_>, batch: &ScreenedBatch) -> Result<Processed, StoreError> {
    let ScreenedBatch { config, canaries, submissions, has_more } = batch;
    let BatchConfig { options, channels, room_for_opinions } = config;
    let (rows, has_more) = (submissions.len() + canaries.len(), *has_more);
    if rows == 0 {
        return Ok(Processed::default());
    }
    tx.finish_canaries(canaries, (options.clock)())?;
    let ids = submissions.iter().map(|screened| screened.candidate.id.into_bytes()).collect();
    let ids = tx.still_pending(ids)?;
    if ids.is_empty() {
        return Ok(Processed { rows, has_more, ..Processed::default() });
    }
    // The rows were read in the order of their ids, so `ids` are sorted.
    let is_left = |screened: &&Screened| ids.binary_search(screened.candidate.id.as_bytes()).is_ok();
    let batch: Vec<&Screened> = submissions.iter().filter(is_left).collect();
    // Cap due times at the database's clock: a replica whose clock is ahead must not delay deliveries.
    let latest = tx.server_time()?.map_or(i64::MAX, Timestamp::as_millisecond);
    let candidates: Vec<Candidate> = batch.iter().map(|screened| screened.candidate.clone()).collect();
    let to_millis = |age: Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    // A repeat is recognized only while its original is younger than half of the retention period.
    let half = |retention: Option<Duration>| retention.map_or(i64::MAX, |age| to_millis(age / 2));
    let own = options.form_retention.iter().map(|(form, age)| (form.as_str(), half(*age))).collect();
    let ages = MaxAges { window: to_millis(options.duplicate_window), lasting: half(options.retention), own };
    let forms: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.form.as_str()).collect();
    let networks: BTreeSet<Hash> = candidates.iter().map(|candidate| candidate.network).collect();
    let (forms, networks) = tx.read_rates(&forms, networks)?;
    let mut rates = Rates { forms, networks, ..Rates::new(options.form_quota, &options.own_quotas, latest) };
    // `decide` cannot read the database, so look up the submissions that the batch may repeat.
    let known = find_known(tx, &candidates, ages.window, channels)?;
    let decision = duplicates::decide(&candidates, known, &ages, &mut rates);
    let (mut new, mut repeats) = (Vec::new(), Vec::new());
    let mut opinions = Opinions::new(options, *room_for_opinions, latest);
    for (screened, fate) in batch.iter().zip(&decision.fates) {
        let id = screened.candidate.id;
        match fate {
            Fate::New { reuses_key, hold, rank } => {
                if *reuses_key {
                    tracing::info!(%id, "stored a submission whose Idempotency-Key had already been used with different content");
                }
                let mut submission = screened.to_new_submission(*hold, *rank);
                // If rspamd will be queried, the deliveries usually wait for its answer.
                submission.delay = opinions.collect(&submission)?;
                new.push(submission);
            }
            Fate::Repeat(original) => repeats.push((id, *original)),
        }
    }
    let deliveries = tx.insert_submissions(&new, channels, latest)?;
    let mails = acknowledge(tx, &new, channels, latest)?;
    tx.insert_repeats(&repeats)?;
    apply_decision(tx, &decision, channels, latest)?;
    tx.write_rates(&rates.forms, &rates.networks, &rates.changed)?;
    let newest = candidates.iter().map(|candidate| candidate.received_at).max().unwrap_or_default();
    tx.finish_pending(&ids, newest, latest)?;
    let holds = |hold: HoldCause| new.iter().filter(|new| new.hold == hold).count();
    Ok(Processed {
        rows,
        repeats: candidates.len() - new.len(),
        held: holds(HoldCause::Flood) + holds(HoldCause::Screening),
        in_flood: holds(HoldCause::Flood) + decision.eased.values().filter(|eased| eased.is_flood).count(),
        skipped_mails: count_skipped(&mails),
        has_deliveries: deliveries > 0 || !decision.eased.is_empty() || mails.contains(&MailFate::Queued),
        has_more,
        opinions: opinions.requests,
        spent: Duration::ZERO,
    })
}

/// Counts the emails that were not queued because of each limit.
fn count_skipped(mails: &[MailFate]) -> LimitCounts {
    let mut skipped = LimitCounts::default();
    for fate in mails {
        if let MailFate::OverLimit { limit, .. } = fate {
            skipped[*limit as usize] += 1;
        }
    }
    skipped
}

/// State that screening keeps between submissions.
pub(crate) struct Screener {
    messages: Arc<Repeats>,
    /// The model that screening has learned from the operators' decisions; `None` before the lessons are read
    /// or while learning is switched off.
    pub learned: ArcSwapOption<Learned>,
    /// The verdicts on submissions whose transaction is not committed yet. If the transaction is retried, the
    /// messages must not be counted again.
    verdicts: Mutex<HashMap<Uuid, ScreeningVerdict>>,
}

impl Screener {
    pub fn new(messages: Arc<Repeats>) -> Screener {
        Screener { messages, learned: ArcSwapOption::empty(), verdicts: Mutex::default() }
    }

    /// Forgets all verdicts. Call this after each commit.
    pub fn forget_verdicts(&self) {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Calls `judge` and stores its verdict, or returns the verdict that was stored for this id since the
    /// last [`Screener::forget_verdicts`]. If `judge` panics, stores nothing and fails with
    /// [`StoreError::Unprocessable`].
    fn verdict_once(
        &self,
        id: Uuid,
        judge: impl FnOnce() -> ScreeningVerdict,
    ) -> Result<ScreeningVerdict, StoreError> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = verdicts.get(&id) {
            return Ok(verdict.clone());
        }
        // A panic in screening must not end the thread that processes all submissions.
        let verdict = panics::catch(Part::Submission, || {
            panics::inject("screening", id);
            judge()
        });
        let verdict =
            verdict.map_err(|panic| StoreError::Unprocessable(format!("screening failed: {panic}")))?;
        verdicts.insert(id, verdict.clone());
        Ok(verdict)
    }
}

/// A row of the intake with its verdict.
struct Screened {
    row: PendingRow,
    candidate: Candidate,
    verdict: ScreeningVerdict,
    /// Whether the submission is held only because it is suspicious and its form asks for confirmations:
    /// suspicious visitors are not asked.
    is_unasked: bool,
}

impl Screened {
    /// Screens a row, unless it was screened when it was accepted. A row of a form that this version does not
    /// know gets no points, and may be a repeat of an old submission. If the form asks for confirmations,
    /// suspicious submissions are held unless they are encrypted. Fails if the row is damaged or screening
    /// panics.
    fn parse_and_screen(
        row: PendingRow,
        options: &IntakeOptions,
        channels: &[Route],
        screener: &Screener,
    ) -> Result<Screened, StoreError> {
        let evidence: Evidence = serde_json::from_str(row.evidence()?)
            .map_err(|_| StoreError::Damaged("a submission's evidence is not valid JSON"))?;
        let form = row.definition;
        let verdict = match (evidence, form) {
            (Evidence::Verdict(verdict), _) => verdict,
            (evidence, Some(form)) => {
                let entry = Entry::restored(form, row.fields()?);
                screener.verdict_once(row.id, || {
                    evidence.judge(
                        &entry,
                        row.source,
                        row.agent.as_deref(),
                        &screener.messages,
                        screener.learned.load().as_deref(),
                        &options.screening,
                        Instant::now(),
                    )
                })?
            }
            // The form is unknown: a newer server that shares this database may have defined it.
            (Evidence::Facts(_), None) => ScreeningVerdict::default(),
        };
        // Suspicious visitors get no mail, so the submission could never be confirmed: hold it for the
        // operator.
        let needs_confirmation = !row.is_sealed && store::confirmation_rule(channels, row.form()?).is_some();
        let is_unasked = needs_confirmation && verdict.suspicious && !verdict.hold;
        let verdict = ScreeningVerdict { hold: verdict.hold || is_unasked, ..verdict };
        let candidate = Candidate {
            needs_confirmation,
            id: row.id,
            received_at: row.received_at,
            content: row.content,
            is_lasting: form.is_none_or(|form| form.dedup_key != DedupKey::Content),
            key: row.key,
            form: row.form()?.to_owned(),
            source: row.source,
            is_deliverable: !row.is_sealed || !store::has_channel_for(channels, row.form()?),
            network: row.network,
            is_held: verdict.hold,
            is_suspicious: verdict.suspicious,
        };
        Ok(Screened { row, candidate, verdict, is_unasked })
    }

    /// The submission to insert, with the hash under which repeats find it, and without a delay. If a flood
    /// is the cause of the hold, adds that to the verdict's reasons.
    fn to_new_submission(&self, hold: HoldCause, rank: i64) -> NewSubmission<'_> {
        let mut verdict = self.verdict.clone();
        if hold == HoldCause::Flood {
            verdict = verdict.in_flood();
        }
        NewSubmission {
            row: &self.row,
            content: stored_content_hash(&self.candidate, store::day(self.candidate.received_at)),
            hold,
            rank,
            verdict,
            is_unasked: self.is_unasked,
            delay: 0,
        }
    }
}

/// Submissions may be processed out of order: an original may have been received up to this many milliseconds
/// after its repeat.
const OUT_OF_ORDER: i64 = 60_000;

/// The content hash to store for a candidate that was received on `day`, in days since 1970-01-01: with a
/// prefix of the day, unless the content is lasting.
fn stored_content_hash(candidate: &Candidate, day: i64) -> Hash {
    if candidate.is_lasting { candidate.content } else { store::with_day_prefix(candidate.content, day) }
}

/// Looks up the submissions that the candidates may repeat, and the earlier uses of their idempotency keys.
/// `window` is [`MaxAges::window`].
fn find_known(
    tx: &Transaction<'_>,
    candidates: &[Candidate],
    window: i64,
    channels: &[Route],
) -> Result<Known, StoreError> {
    // The stored hash of an original begins with its day, so look for one hash per day of the window. For
    // lasting content, these are all the same hash.
    let mut contents: BTreeMap<Hash, Hash> = BTreeMap::new();
    for candidate in candidates {
        let at = candidate.received_at;
        let days = store::day(at.saturating_sub(window))..=store::day(at.saturating_add(OUT_OF_ORDER));
        contents.extend(days.map(|day| (stored_content_hash(candidate, day), candidate.content)));
    }
    let now = candidates.iter().map(|candidate| candidate.received_at).max().unwrap_or_default();
    let mut keys: Vec<Hash> = candidates.iter().filter_map(|candidate| candidate.key).collect();
    keys.sort_unstable();
    keys.dedup();
    Ok(Known { contents: tx.find_originals(&contents, channels, now)?, keys: tx.key_uses(&keys)? })
}

/// Queues the acknowledgements of new submissions, within the limits of mails to visitors; those beyond a
/// limit are never sent. Returns the fates of those that it tried to queue. Held, unconfirmed and suspicious
/// submissions get none, now or later, because their addresses may belong to third parties. Encrypted ones
/// get none, because their addresses cannot be read.
fn acknowledge(
    tx: &Transaction<'_>,
    new: &[NewSubmission<'_>],
    channels: &[Route],
    latest: i64,
) -> Result<Vec<MailFate>, StoreError> {
    let mail = VisitorMail::Acknowledgement;
    let mut fates = Vec::new();
    for new in new.iter().filter(|new| new.hold == HoldCause::None && !new.verdict.suspicious) {
        let (row, form) = (new.row, new.row.form()?);
        if row.is_sealed || !channels.iter().any(|route| route.rule_for(mail, form).is_some()) {
            continue;
        }
        let fields = row.fields()?;
        let Some(email) = first_email(row.definition, &fields) else { continue };
        let at = new.due_at(latest);
        let request = MailRequest {
            mail,
            submission: row.id,
            form,
            email,
            network: row.network,
            low_priority: new.rank >= HIGH_VOLUME_RANK,
            at,
        };
        fates.push(tx.queue_visitor_mail(&request, channels)?);
    }
    Ok(fates)
}

/// Writes the changes to submissions that were repeated, including new submissions of this batch. A release
/// may instead ask for a confirmation (see [`Transaction::release_at`]). Releases and mails for confirmations
/// become due no later than `latest`.
fn apply_decision(
    tx: &Transaction<'_>,
    decision: &Decision,
    channels: &[Route],
    latest: i64,
) -> Result<(), StoreError> {
    for (id, times) in &decision.repeats {
        tx.add_repeats(*id, *times)?;
    }
    for (id, eased) in &decision.eased {
        if eased.is_flood {
            tx.hold_in_flood(*id, eased.at, channels)?;
        } else {
            tx.release_at(*id, eased.at.min(latest), channels)?;
        }
        tx.set_suspicious(*id, eased.is_suspicious)?;
        // If screening held the original, its rank does not reflect its network's load, so replace it.
        if eased.was_uncounted {
            tx.set_rank(*id, eased.rank)?;
        } else {
            tx.lower_rank(*id, eased.rank)?;
        }
    }
    for (id, at) in &decision.held_again {
        tx.prolong_hold(*id, *at)?;
    }
    for (id, rank) in &decision.ranks {
        tx.lower_rank(*id, *rank)?;
    }
    for (id, at) in &decision.renewed {
        tx.renew_confirmation(*id, (*at).min(latest))?;
    }
    Ok(())
}
