//! Stores submissions and the state of their deliveries in a SQLite file or a PostgreSQL database.
//!
//! [`Store::append`] returns once the submission is committed and synced to stable storage. One thread
//! commits the submissions of all waiting callers in one transaction with one sync, so throughput grows with
//! load. Other processes read an inbox with [`InboxReader`] and change it with [`Editor`].
//!
//! The store recovers from errors: it reconnects, or reopens its file. It never creates a file again that it
//! has opened: until a file of the same inbox is back, it is unhealthy.

mod canary_token;
mod database_url;
mod error;
pub(crate) mod ids;
pub(crate) mod keyed_hash;
mod link_token;
pub mod lock;
pub mod notifier;
mod open;
pub(crate) mod postgres;
pub(crate) mod sql;
pub(crate) mod sqlite;
#[cfg(test)]
mod test_statement_recorder;
mod write_queue;
mod writer;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use jiff::civil::Date;
use uuid::Uuid;

use crate::submission::delivery::{Choose, ClaimRequest, Claims, Lease, Route};
pub use canary_token::CanaryKey;
pub use database_url::DatabaseUrl;
pub use error::StoreError;
use frontdesk_limits::source::RefusedRequests;
pub use frontdesk_postgres::Server;
pub use keyed_hash::{Hash, with_day_prefix};
pub use link_token::LinkToken;
pub use open::{check_environment, create_if_missing};
pub use sql::abuse::{Abuse, AgentCount, Decisions, RefusedSource, SignalCount};
pub use sql::annotation::{Annotated, Annotation, MAX_ASSIGNEE};
pub use sql::canary::{CanaryProgress, CanaryStatus};
pub use sql::confirmation::confirmation_rule;
pub use sql::confirmation_mail::{ConfirmationMails, LinkState};
pub use sql::copy::{Copied, CopyError, copy_inbox};
pub use sql::discard::{Expired, FormScope, HeldFilter, HeldSummary, SourcePrefix};
pub use sql::flood::{Flood, FormRate, FormRates, NetworkRates};
pub use sql::inbox_editor::{Editor, Retry};
pub use sql::inbox_reader::{ChannelState, IdMatch, InboxReader};
pub use sql::inbox_readership::Readership;
pub use sql::intake::{Accepted, Accepting, HoldCause, NewSubmission, Original, PendingRow, has_channel_for};
pub use sql::lesson::Lessons;
pub use sql::listing::Listing;
pub use sql::note::{MAX_NOTE, MAX_NOTES, Note};
pub use sql::operator_log::{LogEntry, OperatorAction};
pub use sql::page_views::{
    MAX_REFERRERS, MAX_VIEW_ROWS, ReferrerCount, ViewCount, ViewCounts, ViewFilter, ViewReport, Views,
};
pub use sql::person::PersonSummary;
pub use sql::release_and_remove::Erased;
pub use sql::rspamd_opinion::OpinionEffect;
pub use sql::saved_view::{MAX_VIEW_NAME, MAX_VIEWS, Saved, SavedView};
pub use sql::search_page::SearchPage;
pub use sql::search_query::SearchText;
pub use sql::session::{
    LOGIN_LIFETIME, LoginState, MAX_MAILED_LOGINS, NewSession, SESSION_LIFETIME, SESSION_TOUCH_INTERVAL,
    Session, TRUSTED_LIFETIME, TokenHash,
};
pub use sql::stats::{ChannelQueue, DailyCount, LeadCounts, MAX_LEADS, Queue};
pub use sql::submission_rows::{Filter, day, day_number};
pub use sql::transaction::Transaction;
pub use sql::visitor_mail::{MailFate, MailRequest};
pub use sqlite::backup::{Backup, BackupError, Restored, backup, replaced_by_restores, restore, verify};
pub use writer::Events;
use writer::Writer;

/// The database to use, and the channels to queue submissions for.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub url: DatabaseUrl,
    pub channels: Vec<Route>,
}

impl StoreOptions {
    /// Options for an inbox without channels.
    pub fn new(url: impl Into<DatabaseUrl>) -> StoreOptions {
        StoreOptions { url: url.into(), channels: Vec::new() }
    }
}

/// An inbox that is open for writing. All clones share one writer, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    writer: Arc<Writer>,
    url: Arc<DatabaseUrl>,
    /// The configured channels. Submissions are queued for them. A closure passed to [`Store::change`] may
    /// capture a clone of this handle, but not the store itself, which would keep the writer alive.
    pub channels: Arc<ArcSwap<Vec<Route>>>,
    canary_key: Arc<OnceLock<CanaryKey>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database and starts the writer. Creates the inbox if it is missing (with SQLite, including
    /// its folder). Fails if another program or a version with another layout created the database, or if the
    /// database cannot guarantee what the store needs, such as durable commits.
    ///
    /// A temporary problem (a full disk, a lock, an unreachable server) is not an error: the writer retries.
    /// Until it succeeds, [`Store::append`] fails and [`Store::health`] returns the cause.
    pub fn open(options: &StoreOptions) -> Result<Store, StoreError> {
        let channels = Arc::new(ArcSwap::from_pointee(options.channels.clone()));
        let (writer, url) = (Arc::new(Writer::start(&options.url)?), Arc::new(options.url.clone()));
        Ok(Store { writer, url, channels, canary_key: Arc::default() })
    }

    /// Appends a submission to the intake and returns its id. [`Store::settle`] waits for its processing.
    ///
    /// After `Ok`, the submission survives a power failure. After `Err`, it is not stored: if its commit may
    /// have taken effect all the same, a later transaction removes it, unless it has been repeated by then.
    /// If the future is dropped before it completes, the submission may have been stored.
    pub async fn append(&self, accepting: Accepting) -> Result<Uuid, StoreError> {
        self.writer.submissions.accept(accepting).await
    }

    /// Applies a change in the writer's next transaction, and returns its result after the commit. A change
    /// that panics, or fails because of stored data, is rolled back alone; any other error rolls back all
    /// changes of the transaction. `apply` may be called more than once. Only the last call is committed,
    /// except that with [`StoreError::Unreachable`], its commit may have taken effect without a confirmation.
    pub async fn change<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.changes.change(apply)?.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Like [`Store::change`], for threads without an async runtime.
    pub fn change_blocking<T: Send + 'static>(
        &self,
        apply: impl FnMut(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.changes.change(apply)?.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// The key of the canary's tokens. Read from the database once, then cached.
    pub async fn canary_key(&self) -> Result<CanaryKey, StoreError> {
        if let Some(key) = self.canary_key.get() {
            return Ok(key.clone());
        }
        let key = self.change(|tx| Ok(CanaryKey::derive(tx.secret))).await?;
        Ok(self.canary_key.get_or_init(|| key).clone())
    }

    pub fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Notifications about commits by this process.
    pub fn events(&self) -> &Events {
        &self.writer.events
    }

    /// Blocks until a submission is accepted or the processor has other work ([`Events::accepted`]), or until
    /// the timeout. Returns at once if that happened since the last call. Wakes only one of several threads.
    pub fn wait_for_accepted(&self, timeout: Duration) {
        let _ = frontdesk_postgres::block_on_with_timeout(self.events().accepted.notified(), timeout);
    }

    /// Whether submissions are waiting to be written, or a burst of them has just arrived.
    pub fn is_busy(&self) -> bool {
        self.writer.submissions.is_busy()
    }

    /// Whether submissions are waiting or being written, or one was accepted a moment ago.
    pub fn has_visitors(&self) -> bool {
        self.writer.submissions.has_visitors()
    }

    /// Whether submissions are being accepted during a checkpoint of SQLite. Processing then waits, because
    /// it writes more to the write-ahead log than acceptance does, and the writer must copy what is written
    /// during the checkpoint.
    pub fn is_copying_beside_visitors(&self) -> bool {
        self.writer.submissions.is_copying() && self.has_visitors()
    }

    /// Whether other replicas may use the same database. True for PostgreSQL, false for SQLite.
    pub fn is_shared(&self) -> bool {
        !Arc::ptr_eq(&self.writer.submissions, &self.writer.changes)
    }

    /// Waits until an accepted submission has been processed, and returns the outcome. An unknown id counts
    /// as a new submission (see `Transaction::find_outcome`). There is no timeout: if processing fails, the
    /// caller waits until the operator retries or removes the submission.
    pub async fn settle(&self, id: Uuid) -> Result<Accepted, StoreError> {
        let mut processed = self.events().processed.subscribe();
        loop {
            if let Some(accepted) = self.change(move |tx| tx.find_outcome(id)).await? {
                return Ok(accepted);
            }
            // The processor wakes this loop each time it has checked the intake, because another replica may
            // have processed the submission.
            processed.changed().await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// Returns the error of the last write or probe, or [`StoreError::Slow`] if the current one is taking
    /// longer than five seconds, or [`StoreError::Closed`]. After a failure, the writer retries every second,
    /// so the result is current even without submissions.
    pub fn health(&self) -> Result<(), StoreError> {
        self.writer.submissions.health().and_then(|()| self.writer.changes.health())
    }

    /// Checks that the database accepts writes, by committing a change that alters nothing.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        self.change_blocking(|tx| tx.sql.execute(sql::TOUCH, &[]).map(drop))
    }

    /// Claims the due deliveries that `choose` selects, up to the capacity in `wants`, but skips those in
    /// `under_way`. If the outcome of an attempt is not recorded before its lease expires, the delivery is
    /// attempted again. [`Transaction::claim`] lists the other effects.
    pub async fn claim(
        &self,
        wants: Vec<ClaimRequest>,
        under_way: Vec<Lease>,
        now: Timestamp,
        lease: Duration,
        choose: Choose,
    ) -> Result<Vec<Claims>, StoreError> {
        // The lease starts when the claim is executed, so add the time that the request has waited.
        let asked = Instant::now();
        let waited = move || Duration::from_secs(asked.elapsed().as_secs());
        let channels = self.channels.load_full();
        self.change(move |tx| tx.claim(&wants, &channels, &under_way, now + waited(), lease, choose)).await
    }

    /// Records that a channel works again. After an outage, makes all deliveries due that wait because of it
    /// (see [`Transaction::bring_forward`]), and returns their number; this takes several transactions, so
    /// that submissions can be accepted in between. Otherwise makes only the next deferred deliveries due,
    /// and returns zero.
    pub async fn resume(
        &self,
        channel: String,
        after_outage: bool,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let name = channel.clone();
        self.change(move |tx| tx.resume(&name)).await?;
        if !after_outage {
            self.change(move |tx| tx.bring_deferred_forward(&channel, now)).await?;
            return Ok(0);
        }
        let (mut count, mut from) = (0, Some(Timestamp::MIN));
        while let Some(later) = from {
            let name = channel.clone();
            let (more, next) = self.change(move |tx| tx.bring_forward(&name, later, now)).await?;
            (count, from) = (count + more, next);
        }
        Ok(count)
    }

    /// Truncates SQLite's write-ahead log, so that no file still contains removed data. Returns false if a
    /// reader prevents that or the database is not open; try again later. Does nothing with PostgreSQL, and
    /// returns true.
    pub async fn truncate_wal(&self) -> Result<bool, StoreError> {
        self.writer.changes.truncate_wal().await
    }

    /// Adds to the counts of refused requests of a day, in several transactions; after an error, earlier ones
    /// stay committed. Failures need no retry, because the counts only inform the operator.
    pub async fn record_refusals(&self, refused: Vec<RefusedRequests>, day: Date) -> Result<(), StoreError> {
        for part in refused.chunks(COUNTS_PER_TRANSACTION) {
            let part = part.to_vec();
            self.change(move |tx| tx.record_refusals(&part, day)).await?;
        }
        Ok(())
    }

    /// Adds page views and referrers to the counts of a day, in several transactions with pauses in between.
    /// Removes from `counts` what has been stored, so after an error, it holds the rest. Needs a runtime with
    /// timers.
    pub async fn record_views(&self, counts: &mut ViewCounts, day: Date) -> Result<(), StoreError> {
        // The number of rows for `day`. The first transaction counts them; later ones reuse the count.
        let mut rows = None;
        while let Some(part) = last_part(&counts.pages) {
            let (began, length) = (Instant::now(), part.len());
            rows = Some(self.change(move |tx| tx.record_page_views(&part, day, rows)).await?);
            counts.pages.truncate(counts.pages.len() - length);
            tokio::time::sleep(began.elapsed() * 2).await;
        }
        let mut rows = None;
        while let Some(part) = last_part(&counts.referrers) {
            let (began, length) = (Instant::now(), part.len());
            rows = Some(self.change(move |tx| tx.record_referrers(&part, day, rows)).await?);
            counts.referrers.truncate(counts.referrers.len() - length);
            tokio::time::sleep(began.elapsed() * 2).await;
        }
        Ok(())
    }

    /// Refuses further calls to all clones, commits everything in the queues, and closes the database. Blocks
    /// until the writer threads have ended.
    pub fn close(self) {
        self.writer.close();
    }
}

/// The maximum number of counts (of refused requests or page views) that one transaction updates: a longer
/// transaction could delay submissions.
const COUNTS_PER_TRANSACTION: usize = 200;

/// Returns up to one transaction's worth of elements from the end of `counts`; `None` if there are none.
fn last_part<T: Clone>(counts: &[T]) -> Option<Vec<T>> {
    let part = &counts[counts.len().saturating_sub(COUNTS_PER_TRANSACTION)..];
    (!part.is_empty()).then(|| part.to_vec())
}

#[cfg(test)]
pub(crate) mod tests;
