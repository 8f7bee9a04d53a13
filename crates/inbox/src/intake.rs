//! Accepts submissions and processes them.
//!
//! [`Intake::accept`] returns once the submission is committed and synced to stable storage. A thread then
//! screens the submission, and queues it for its channels. If it repeats an earlier one
//! ([`DedupKey`](frontdesk_forms::DedupKey)), the thread stores no second submission, but records the repeat
//! with the original, which it may release. Requests do not wait for this, so neither the response nor its
//! timing reveals whether a submission is a repeat.

pub(crate) mod batch_processing;
mod duplicates;
mod flood;
mod lesson_reader;
mod processor;
mod rspamd_opinions;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use uuid::Uuid;

use crate::store::{Accepting, Hash, Store, StoreError};
use crate::submission::delivery::Route;
use crate::submission::plain_text;
use crate::submission::route::choose_by;
use frontdesk_age::Recipient;
use frontdesk_forms::{Entry, LeadSource};
use frontdesk_limits::{Quota, Source};
use frontdesk_process::panics::{self, Part};
use frontdesk_rspamd::RspamdOptions;
use frontdesk_screening::verdict::ScreeningVerdict;
use frontdesk_screening::{Evidence, Repeats, ScreeningOptions};
use processor::{Counts, Processor};

#[derive(Clone, Debug)]
pub struct IntakeOptions {
    /// How long a submission with the same content counts as a repeat. Forms that are deduplicated by address
    /// ([`DedupKey::Field`](frontdesk_forms::DedupKey::Field)) ignore this.
    pub duplicate_window: Duration,
    /// How long submissions are kept; `None` keeps them forever. Nothing counts as a repeat of a submission
    /// older than half of this time, because retention would soon remove the only record of the repeat.
    pub retention: Option<Duration>,
    /// The retention of forms that have one of their own, in place of `retention`; `None` keeps their
    /// submissions forever.
    pub form_retention: BTreeMap<String, Option<Duration>>,
    /// The public key for encrypting submissions once no channel still has to deliver them.
    pub recipient: Option<Recipient>,
    pub screening: ScreeningOptions,
    /// The rspamd server that is queried about new submissions; `None` disables the queries.
    pub rspamd: Option<Arc<RspamdOptions>>,
    /// The forms whose visitors wait until a channel has confirmed the delivery. Their deliveries do not wait
    /// for rspamd.
    pub confirmed_forms: Vec<&'static str>,
    /// How many new submissions each form may receive. Beyond this quota, submissions from networks that have
    /// sent many are held until the flood ends. `None` disables flood detection.
    pub form_quota: Option<Quota>,
    /// The quotas of forms that have one of their own, in place of `form_quota`. Without `form_quota`, they
    /// do not apply.
    pub own_quotas: BTreeMap<String, Quota>,
    /// A flood ends when no submission has exceeded the quota for this long.
    pub flood_ends_after: Duration,
    /// The delay before a submission is processed, so that the visitor's next submission does not have to
    /// wait for the processing transaction.
    pub batch_delay: Duration,
    /// The clock that decides when floods end and when confirmation emails are queued.
    pub clock: fn() -> Timestamp,
}

impl Default for IntakeOptions {
    /// The defaults: a duplicate window of a day; no retention, encryption, rspamd or flood detection.
    #[expect(clippy::disallowed_methods, reason = "the system's clock, for callers that inject no other")]
    fn default() -> IntakeOptions {
        IntakeOptions {
            duplicate_window: Duration::from_hours(24),
            retention: None,
            form_retention: BTreeMap::new(),
            recipient: None,
            screening: ScreeningOptions::default(),
            rspamd: None,
            confirmed_forms: Vec::new(),
            form_quota: None,
            own_quotas: BTreeMap::new(),
            flood_ends_after: Duration::from_mins(1),
            batch_delay: Duration::from_millis(10),
            clock: Timestamp::now,
        }
    }
}

/// A submission as received, before its row for the intake is prepared; see [`Accepting`].
#[derive(Clone)]
pub struct Arrival {
    pub entry: Entry,
    /// If a source reuses an idempotency key for different content, both submissions are stored and the reuse
    /// is logged.
    pub idempotency_key: Option<String>,
    pub source: Source,
    pub received_at: Timestamp,
    pub evidence: Evidence,
    /// The host that vouches for the agent that signed the request. `None` without a verified signature.
    pub agent: Option<String>,
    /// Where the submission comes from. The comparison with earlier submissions ignores this.
    pub lead: LeadSource,
}

impl fmt::Debug for Arrival {
    /// Omits visitors' data: the idempotency key, the entry's values and the source of the lead.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("entry", &self.entry)
            .field("received_at", &self.received_at)
            .finish_non_exhaustive()
    }
}

impl Arrival {
    /// Prepares the submission's row for the table `intake`. If there is an encryption key and no channel
    /// gets the submission, encrypts the fields and the source of the lead. The submission is then also
    /// screened here, because the processor cannot read it; the details of the reasons are dropped. If
    /// screening panics, logs that, and the submission gets no points.
    pub(crate) fn prepare_row(
        self,
        options: &IntakeOptions,
        channels: &[Route],
        messages: &Repeats,
    ) -> Result<Accepting, StoreError> {
        let Arrival { entry, idempotency_key, source, received_at, mut evidence, agent, lead } = self;
        let fields = serde_json::to_string(&entry)
            .map_err(|_| StoreError::Unprocessable("its fields cannot be written as JSON".to_owned()))?;
        let value = |name: &str| entry.fields().find(|(field, _)| *field == name).map(|(_, value)| value);
        let channels = choose_by(channels, entry.form().name, value).len();
        let encrypt = |recipient: &Recipient| {
            let plain = plain_text(entry.fields(), &lead);
            recipient.encrypt(plain.as_bytes()).map_err(|_| StoreError::NotSealed)
        };
        let sealed = options.recipient.as_ref().filter(|_| channels == 0).map(encrypt).transpose()?;
        if sealed.is_some() {
            let judge = || {
                let (agent, now) = (agent.as_deref(), Instant::now());
                // Pass no learned model: operators cannot teach from texts that only the operator's key can
                // read.
                evidence.judge(&entry, source, agent, messages, None, &options.screening, now)
            };
            let verdict = panics::catch(Part::Submission, judge).unwrap_or_else(|panic| {
                let form = entry.form().name;
                tracing::error!(form, "{panic}: a submission is stored without screening");
                ScreeningVerdict::default()
            });
            evidence = Evidence::Verdict(verdict.without_details());
        }
        let evidence = serde_json::to_string(&evidence)
            .map_err(|_| StoreError::Unprocessable("its evidence cannot be written as JSON".to_owned()))?;
        let (fields, lead) =
            if sealed.is_some() { ("{}".to_owned(), None) } else { (fields, lead.to_json()) };
        Ok(Accepting {
            entry,
            idempotency_key,
            source,
            received_at,
            agent,
            fields,
            sealed,
            evidence,
            channels,
            lead,
            canary: None,
        })
    }
}

/// Accepts submissions. All clones share one processor thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Intake {
    store: Store,
    options: Arc<ArcSwap<IntakeOptions>>,
    messages: Arc<Repeats>,
    processor: Arc<Processor>,
}

impl Intake {
    /// Starts the processor thread, which begins with the rows that an earlier process left in the intake.
    pub fn start(store: Store, options: IntakeOptions) -> Result<Intake, StoreError> {
        let options = Arc::new(ArcSwap::from_pointee(options));
        let messages = Arc::new(Repeats::new(Instant::now()));
        let processor = Arc::new(Processor::start(options.clone(), store.clone(), messages.clone())?);
        Ok(Intake { store, options, messages, processor })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Stores a submission and returns its id, like [`Store::append`]. If the processor finds that it repeats
    /// an earlier one, the id identifies only the request; [`Store::settle`] finds the original.
    pub async fn accept(&self, arrival: Arrival) -> Result<Uuid, StoreError> {
        let accepting =
            arrival.prepare_row(&self.options.load(), &self.store.channels.load(), &self.messages)?;
        self.store.append(accepting).await
    }

    /// Stores a test submission of the canary, whose token has this nonce, and returns its id. Nothing is
    /// gathered for screening and nothing is encrypted; the processor removes the row.
    pub async fn accept_canary(
        &self,
        entry: Entry,
        nonce: Hash,
        received_at: Timestamp,
    ) -> Result<Uuid, StoreError> {
        let fields = serde_json::to_string(&entry)
            .map_err(|_| StoreError::Unprocessable("its fields cannot be written as JSON".to_owned()))?;
        let accepting = Accepting {
            entry,
            idempotency_key: None,
            source: Source::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            received_at,
            agent: None,
            fields,
            sealed: None,
            evidence: "{}".to_owned(),
            channels: 0,
            lead: None,
            canary: Some(nonce),
        };
        self.store.append(accepting).await
    }

    /// The numbers of repeats, of held submissions, of acknowledgements that were not sent and of rspamd's
    /// answers, since the process started.
    pub fn counts(&self) -> &Counts {
        &self.processor.counts
    }

    /// Replaces the options. They apply to submissions that arrive or are processed after this call.
    pub fn reconfigure(&self, options: IntakeOptions) {
        self.options.store(Arc::new(options));
    }

    /// Processes the remaining submissions, for about ten seconds at most, and closes the store, for all
    /// clones. Blocks until the threads have ended. The rest is processed after the next start.
    pub fn close(self) {
        self.processor.stop();
        self.store.close();
    }
}
