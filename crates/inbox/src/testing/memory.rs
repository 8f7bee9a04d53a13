//! An inbox in memory, whose transactions a test begins and ends itself.

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use std::time::Instant;
use uuid::Uuid;

use super::inbox::{self, Options};
use crate::intake::Arrival;
use crate::intake::batch_processing::Screener;
use crate::store::ids::Ids;
use crate::store::keyed_hash::Secret;
use crate::store::sql::form_definition::StoredDefinitions;
use crate::store::sql::intake;
use crate::store::sqlite::{STATEMENTS, TABLES, enable_stable_plans};
use crate::store::{Accepted, Transaction};
use crate::submission::delivery::{Candidates, ClaimRequest, DueDelivery};
use frontdesk_screening::verdict::ScreeningVerdict;
use frontdesk_screening::{Evidence, Repeats};

/// Empties most tables, referring ones first because of foreign keys. Keeps the definitions of forms.
const EMPTY_TABLES: &str = "
    DELETE FROM attempt; DELETE FROM delivery; DELETE FROM repeat; DELETE FROM submission; DELETE FROM intake;
    DELETE FROM channel; DELETE FROM pressure; DELETE FROM form_rate; DELETE FROM network_rate; DELETE FROM page_view; DELETE FROM referrer;
    DELETE FROM meta;";
/// The maximum number of rows of the intake that are processed at a time, as in the processor's thread.
const BATCH: usize = 128;

pub struct MemoryInbox {
    pub database: Connection,
    secret: Secret,
    screener: Screener,
    ids: Ids,
    definitions: StoredDefinitions,
}

impl Default for MemoryInbox {
    fn default() -> MemoryInbox {
        let database = Connection::open_in_memory().unwrap();
        database.pragma_update(None, "foreign_keys", "on").unwrap();
        database.set_prepared_statement_cache_capacity(STATEMENTS);
        enable_stable_plans(&database).unwrap();
        database.execute_batch(TABLES).unwrap();
        let screener = Screener::new(Repeats::new(Instant::now()).into());
        MemoryInbox {
            database,
            secret: Secret([7; 32]),
            screener,
            ids: Ids::default(),
            definitions: StoredDefinitions::default(),
        }
    }
}

impl MemoryInbox {
    /// Removes all submissions, deliveries, counts and rates, and forgets what screening has seen. The
    /// definitions of forms and the compiled statements stay.
    pub fn clear(&mut self) {
        self.database.execute_batch(EMPTY_TABLES).unwrap();
        self.screener = Screener::new(Repeats::new(Instant::now()).into());
    }

    /// Uses the test's transaction if it has begun one. Otherwise, each statement commits on its own.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction { sql: &self.database, secret: &self.secret, ahead: SignedDuration::ZERO }
    }

    /// Appends a message with this verdict to the intake, in the test's transaction if it has begun one.
    pub fn append(
        &self,
        id: Uuid,
        at: Timestamp,
        content: [u8; 16],
        verdict: ScreeningVerdict,
        channels: usize,
    ) {
        let evidence = serde_json::to_string(&Evidence::Verdict(verdict)).unwrap();
        let append = "INSERT INTO intake (id, form, received_at, fields, source, evidence, channels, content)
             VALUES (?1, 'contact', ?2, '{}', ?3, ?4, ?5, ?6)";
        let channels = i64::try_from(channels).unwrap();
        let values =
            rusqlite::params![id.as_bytes(), at.as_millisecond(), [0_u8; 16], evidence, channels, content];
        self.database.execute(append, values).unwrap();
    }

    /// Accepts submissions, and processes them. The results are in the same order.
    pub fn accept_all(&mut self, options: &Options, arrivals: &[Arrival]) -> Vec<Accepted> {
        let messages = Repeats::new(Instant::now());
        let prepare = |new: &Arrival| new.clone().prepare_row(&options.intake, &options.channels, &messages);
        let rows: Vec<_> = arrivals.iter().map(|new| prepare(new).unwrap()).collect();
        let ids: Vec<Uuid> = arrivals.iter().map(|new| self.ids.next(new.received_at)).collect();
        intake::append(&self.database, &self.secret, &mut self.definitions, &rows, &ids).unwrap();
        while self.process(options, BATCH, |_| true) > 0 {}
        let outcome = |id: &Uuid| self.transaction().find_outcome(*id).unwrap().expect("it is processed");
        ids.iter().map(outcome).collect()
    }

    /// Does the same as [`Store::resume`](crate::store::Store::resume), on this connection.
    pub fn resume(&self, channel: &str, after_outage: bool, now: Timestamp) {
        let tx = self.transaction();
        tx.resume(channel).unwrap();
        if !after_outage {
            tx.bring_deferred_forward(channel, now).unwrap();
            return;
        }
        let mut from = Some(Timestamp::MIN);
        while let Some(later) = from {
            (_, from) = tx.bring_forward(channel, later, now).unwrap();
        }
    }

    /// Stores a waiting delivery of an empty submission. Ignores `is_sending`, `attempts` and
    /// `interrupted`.
    pub fn queue(&self, found: &DueDelivery) {
        let DueDelivery { submission, channel, rank, due_at, failures, .. } = found;
        let insert = "INSERT INTO submission (id, form, received_at, source, fields) VALUES (?1, 'contact', 0, ?2, '{}')";
        self.database.execute(insert, rusqlite::params![submission.as_bytes(), [0_u8; 16]]).unwrap();
        let insert = "INSERT INTO delivery (submission, channel, state, due_at, rank, failures)
             VALUES (?1, ?2, 'waiting', ?3, ?4, ?5)";
        let values =
            rusqlite::params![submission.as_bytes(), channel, due_at.as_millisecond(), rank, failures];
        self.database.execute(insert, values).unwrap();
    }

    /// The deliveries that the store fetches for a request.
    pub fn candidates(&self, request: &ClaimRequest, high_volume: usize, now: Timestamp) -> Candidates {
        self.transaction().candidates(request, high_volume, &[], now).unwrap()
    }

    /// Processes up to `most` rows of the intake, and returns the number of rows. Rolls back unless `commits`
    /// returns true for that number.
    pub fn process(&self, options: &Options, most: usize, commits: impl FnOnce(usize) -> bool) -> usize {
        self.database.execute_batch("BEGIN").unwrap();
        let all = Uuid::nil()..=Uuid::max();
        let processed = inbox::process(&self.database, options, &self.screener, most, all).unwrap();
        let rows = processed.unwrap().rows;
        self.database.execute_batch(if commits(rows) { "COMMIT" } else { "ROLLBACK" }).unwrap();
        rows
    }
}
