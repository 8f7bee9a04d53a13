//! A store with an intake, for tests.

use std::ops::{Deref, RangeInclusive};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::intake::batch_processing::{self, BatchConfig, Processed, Screener};
use crate::intake::{Arrival, Intake, IntakeOptions};
use crate::store::keyed_hash::Secret;
use crate::store::sql::Sql;
use crate::store::sql::transaction::Transaction;
use crate::store::{Accepted, DatabaseUrl, Store, StoreError, StoreOptions};
use crate::submission::delivery::{
    Candidates, ChannelTarget, ClaimRequest, Claims, DueDelivery, Lease, Route, SUSPICIOUS_RANK,
};
use crate::submission::delivery_outcome::Outcome;
use crate::submission::schedule::NextStep;

/// The options of a store and its intake.
#[derive(Clone)]
pub struct Options {
    pub url: DatabaseUrl,
    pub channels: Vec<Route>,
    pub intake: IntakeOptions,
}

impl Options {
    /// Options without channels.
    pub fn new(url: impl Into<DatabaseUrl>) -> Options {
        // Process each submission at once, because tests wait until it is processed.
        let intake = IntakeOptions { batch_delay: Duration::from_millis(1), ..IntakeOptions::default() };
        Options { url: url.into(), channels: Vec::new(), intake }
    }

    /// Converts the options to the configuration of a batch that requests no opinions from rspamd.
    pub(crate) fn batch_config(&self) -> BatchConfig {
        BatchConfig {
            options: self.intake.clone().into(),
            channels: self.channels.clone().into(),
            room_for_opinions: 0,
        }
    }
}

/// A store with an intake processor.
#[derive(Clone)]
pub struct TestInbox {
    pub intake: Intake,
}

impl TestInbox {
    pub fn open(options: &Options) -> Result<TestInbox, StoreError> {
        let (url, channels) = (options.url.clone(), options.channels.clone());
        let store = Store::open(&StoreOptions { url, channels })?;
        Ok(TestInbox { intake: Intake::start(store, options.intake.clone())? })
    }

    pub async fn accept(&self, arrival: Arrival) -> Result<Uuid, StoreError> {
        self.intake.accept(arrival).await
    }

    /// Accepts a submission and waits until it is processed.
    pub async fn accept_and_process(&self, arrival: Arrival) -> Result<Accepted, StoreError> {
        let id = self.accept(arrival).await?;
        self.settle(id).await
    }

    /// Replaces the channels and the options of the intake. Ignores the URL.
    pub fn reconfigure(&self, options: &Options) {
        self.channels.store(options.channels.clone().into());
        self.intake.reconfigure(options.intake.clone());
    }

    pub fn close(self) {
        self.intake.close();
    }
}

impl Deref for TestInbox {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.intake.store()
    }
}

/// Chooses deliveries by rank and due time, within the capacity and [`Candidates::high_volume`]. Among ranks
/// that differ only in how much the networks have sent, first attempts come before retries.
pub fn by_rank(request: &ClaimRequest, candidates: Candidates) -> Vec<DueDelivery> {
    let Candidates { mut due, mut high_volume } = candidates;
    let mut retries = request.capacity.retries;
    due.sort_by_key(|found| (found.rank / SUSPICIOUS_RANK, found.is_retry(), found.rank, found.due_at));
    due.retain(|found| {
        let may_begin = (!found.is_retry() || retries > 0) && (!found.is_paced() || high_volume > 0);
        retries -= usize::from(may_begin && found.is_retry());
        high_volume -= usize::from(may_begin && found.is_paced());
        may_begin
    });
    due.truncate(request.capacity.any);
    due
}

/// The steps of the delivery worker, each as a separate call of [`Store::change`].
impl Store {
    /// Claims deliveries in the order of [`by_rank`].
    pub async fn claim_by_rank(
        &self,
        wants: Vec<ClaimRequest>,
        under_way: Vec<Lease>,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claims>, StoreError> {
        self.claim(wants, under_way, now, lease, by_rank).await
    }

    pub async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.change(move |tx| tx.recover(now)).await
    }

    pub async fn requeue_orphans(&self, under_way: Vec<Lease>, now: Timestamp) -> Result<usize, StoreError> {
        self.change(move |tx| tx.requeue_orphans(&under_way, now)).await
    }

    pub async fn record(
        &self,
        lease: Lease,
        outcome: Outcome,
        next: NextStep,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change(move |tx| tx.record(&lease, &outcome, next, now)).await
    }

    pub async fn has_reached_team(&self, id: Uuid) -> Result<bool, StoreError> {
        self.change(move |tx| tx.has_reached_team(id)).await
    }

    pub async fn pause(&self, channel: String, answer: String, now: Timestamp) -> Result<(), StoreError> {
        self.change(move |tx| tx.pause(&channel, &answer, now)).await
    }

    pub async fn switch_off(
        &self,
        target: ChannelTarget,
        answer: String,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.change(move |tx| tx.switch_off(&target, &answer, now)).await
    }

    pub async fn seal(&self, id: Uuid, sealed: Vec<u8>) -> Result<bool, StoreError> {
        let channels = self.channels.load_full();
        self.change(move |tx| tx.seal(id, &sealed, &channels)).await
    }
}

/// The interface of a transaction on this connection, with a fixed secret. Neither begins nor ends one.
/// Assumes that the database's clock shows the same time as ours.
pub(crate) fn transaction(sql: &dyn Sql) -> Transaction<'_> {
    static SECRET: Secret = Secret([7; 32]);
    Transaction { sql, secret: &SECRET, ahead: jiff::SignedDuration::ZERO }
}

/// Processes a batch in the caller's transaction.
pub(crate) fn process(
    sql: &dyn Sql,
    options: &Options,
    screener: &Screener,
    most: usize,
    ids: RangeInclusive<Uuid>,
) -> Result<Option<Processed>, StoreError> {
    batch_processing::process(&transaction(sql), || options.batch_config(), screener, most, &ids)
}
