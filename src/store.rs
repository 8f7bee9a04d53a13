//! Keeps submissions: one writer that commits whatever waits together, and readers that may be elsewhere.
//!
//! [`Store::accept`] returns once the submission is committed and synced to stable storage, or with an
//! error, and then nothing of it was kept. However many callers wait, one thread writes for all of them in
//! one transaction with one sync, so that throughput grows with load.
//!
//! A thread of its own processes what was accepted: it screens each submission, counts a repeat of an earlier one (see
//! [`Sameness`](crate::forms::Sameness)) on the row of the first, and queues the others for their channels. Nothing of that is waited
//! for, so that neither the answer nor its timing tells a repeat from a new submission.
//!
//! Errors leave the store in place. It opens its file again by itself, and makes a new one where the old one
//! was taken away, so that it works again as soon as the cause is gone.

pub mod bell;
pub mod disk;
mod duplicates;
mod fingerprint;
mod flood;
mod ids;
pub mod lock;
mod postgres;
mod processor;
#[cfg(test)]
mod recorder;
mod sql;
mod sqlite;
mod write_queue;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use crate::forms::parse::Entry;
use crate::limits::pressure::Refused;
use crate::limits::{Quota, Source};
use crate::screening::{self, Evidence, Repeats};
use crate::submission::Status;
use crate::submission::delivery::{Claims, Lease, Obstacle, Route, State, Target, Want};
use crate::submission::outcome::Outcome;
use crate::submission::schedule::Verdict;
use crate::submission::seal::Recipient;
pub use postgres::Server;
pub use sql::abuse::{Abuse, Agent, Held, Presser};
pub use sql::carry::{Carried, CarryError, carry, migrate};
pub use sql::discard::{Expired, HeldFilter, HeldSummary, SourcePrefix};
pub use sql::editor::Editor;
pub use sql::flood::Flood;
pub use sql::queue::{ChannelQueue, Queue};
pub use sql::read::{Found, Listing, Reader};
pub use sql::stats::Tally;
use sql::{deliver as queries, discard, intake, pressure};
pub use sqlite::backup::{Backup, BackupError, Restored, backup, kept_by_restores, restore, verify};
use writer::Writer;

/// Where submissions are kept, and what the operator decides about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database.
    pub place: Place,
    /// For how long a form that is sent twice counts as one.
    pub duplicate_window: Duration,
    /// Where submissions go from here. Each is queued for the channels that take its form when it arrives.
    pub channels: Vec<Route>,
    /// Who alone is to be able to read submissions with which nothing is to be done any more.
    pub recipient: Option<Recipient>,
    /// Which submissions are held or marked as suspicious.
    pub screening: screening::Options,
    /// How many new submissions each form may get. Beyond that, submissions of networks that have sent many are held until the flood
    /// ends. None where nothing is limited.
    pub form_quota: Option<Quota>,
    /// How long after the last submission beyond the quota a flood ends.
    pub flood_ends_after: Duration,
}

/// See [`Options::flood_ends_after`].
pub const FLOOD_ENDS_AFTER: Duration = Duration::from_mins(1);

impl Options {
    /// An inbox in this file that recognises repetitions for a day and delivers nothing.
    pub fn at(path: PathBuf) -> Options {
        Options::in_place(Place::Sqlite(path))
    }

    /// An inbox there that recognises repetitions for a day and delivers nothing.
    pub fn in_place(place: Place) -> Options {
        Options {
            place,
            duplicate_window: Duration::from_hours(24),
            channels: Vec::new(),
            recipient: None,
            screening: screening::Options::default(),
            form_quota: None,
            flood_ends_after: FLOOD_ENDS_AFTER,
        }
    }
}

/// The database in which an inbox is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A SQLite file. Its folder is made if it is missing, for this user only, and so is the file.
    Sqlite(PathBuf),
    /// A database on a PostgreSQL server, which several machines can share.
    Postgres(Server),
}

impl Place {
    fn of(path: &Path) -> Place {
        Place::Sqlite(path.to_owned())
    }

    /// The file, where it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Place::Sqlite(path) => Some(path),
            Place::Postgres(_) => None,
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        Place::of(path)
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Place {
        Place::of(path)
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

/// The file's path, or the server and the database without whatever is secret.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Sqlite(path) => path.display().fmt(f),
            Place::Postgres(server) => server.fmt(f),
        }
    }
}

/// What came in, ready to be kept.
#[derive(Clone)]
pub struct Arrival {
    /// What was sent.
    pub entry: Entry,
    /// The sender's own name for it. A key that came from the same source before, with other content, is noted in the log, and both
    /// submissions are kept.
    pub idempotency_key: Option<String>,
    /// Who sent it. Kept as a keyed hash only.
    pub source: Source,
    /// When it had been read. Kept to the millisecond.
    pub received_at: Timestamp,
    /// What it is screened by when it is processed.
    pub evidence: Evidence,
    /// The host that vouches for the agent which signed the request, if one did and the signature was verified.
    pub agent: Option<String>,
}

/// Without the key: it is the visitor's, like the entry's values.
impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("entry", &self.entry)
            .field("received_at", &self.received_at)
            .finish_non_exhaustive()
    }
}

/// What an accepted request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// As a submission of its own, with this id.
    New(Uuid),
    /// As a repeat of this one.
    Duplicate(Uuid),
}

impl Accepted {
    /// The submission that is in the inbox now.
    pub fn id(self) -> Uuid {
        match self {
            Accepted::New(id) | Accepted::Duplicate(id) => id,
        }
    }
}

/// Which submissions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// This one.
    pub id: Option<Uuid>,
    /// Those of this form.
    pub form: Option<String>,
    /// Those that stand there.
    pub status: Option<Status>,
    /// Those that go or went down this channel.
    pub channel: Option<String>,
    /// Those that were received then or later.
    pub from: Option<Timestamp>,
    /// Those that were received earlier.
    pub until: Option<Timestamp>,
    /// Those that arrived before this one.
    pub before: Option<Uuid>,
    /// Those that arrived after this one.
    pub after: Option<Uuid>,
    /// No more than this many.
    pub limit: Option<usize>,
}

/// Which deliveries to try again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// Of which submissions. The filter's limit counts for nothing here.
    pub which: Filter,
    /// Down which channel, if not all.
    pub channel: Option<String>,
    /// Not those that wait for their next attempt anyway.
    pub parked_only: bool,
}

/// What was removed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Submissions.
    pub submissions: usize,
    /// Their deliveries in whatever state.
    pub deliveries: usize,
    /// Those among them that had arrived somewhere, where nobody here can remove them.
    pub delivered: usize,
    /// Attempts, with what the other sides said.
    pub attempts: usize,
    /// Whether the log was emptied too, so that nothing of it is left in any file of the database.
    pub is_wiped: bool,
}

impl Erased {
    /// Counts what another transaction has removed.
    fn add(&mut self, other: &Erased) {
        self.submissions += other.submissions;
        self.deliveries += other.deliveries;
        self.delivered += other.delivered;
        self.attempts += other.attempts;
    }
}

/// A channel as the inbox knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// What keeps it from delivering.
    pub obstacle: Option<Obstacle>,
    /// How many deliveries are in which state.
    pub deliveries: Vec<(State, usize)>,
}

impl ChannelState {
    /// How many deliveries are in that state.
    pub fn count(&self, state: State) -> usize {
        self.deliveries.iter().filter(|(other, _)| *other == state).map(|(_, count)| count).sum()
    }
}

/// Why the store could not do it. No variant carries anything that a visitor sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The queue is full; nothing was kept.
    #[error("too many submissions wait to be written")]
    Overloaded,
    /// [`Store::close`] was called.
    #[error("the inbox is closed")]
    Closed,
    /// There is no database, or one in which nothing was ever set up.
    #[error("there is no inbox at {0}")]
    Missing(Place),
    /// The file is a database of another program, or none at all.
    #[error("{0} is not an inbox of frontdesk")]
    NotAnInbox(Place),
    /// The database was written by a later version of this program.
    #[error("{place} was made by a newer frontdesk (layout {found}, this one knows {known})")]
    TooNew {
        /// The database.
        place: Place,
        /// Its layout.
        found: i64,
        /// The latest layout that this program knows.
        known: i64,
    },
    /// The database was written by an earlier version and is read only here.
    #[error("{0} has an older layout, and is brought up to date when the server starts")]
    TooOld(Place),
    /// The database would not promise to sync what it commits, for instance on a file system without shared memory.
    #[error("the database cannot keep what it confirms ({setting} is {found})")]
    NotDurable {
        /// Which of SQLite's settings.
        setting: &'static str,
        /// Its value.
        found: String,
    },
    /// The database file was removed or replaced while it was open.
    #[error("the database file was removed or replaced")]
    Moved,
    /// Another program kept the database locked for too long.
    #[error("the database is locked by another program")]
    Locked,
    /// A write has been under way for so long that nobody can say whether it will succeed.
    #[error("the database does not answer in time")]
    Slow,
    /// There is no room left where the database is.
    #[error("the disk is full")]
    Full,
    /// The database may not be written to.
    #[error("the database is read-only")]
    ReadOnly,
    /// The operator's public key does not seal.
    #[error("a submission could not be encrypted")]
    NotSealed,
    /// A row of the intake is at fault, and trying again does not help; the cause.
    #[error("it cannot be processed: {0}")]
    Unprocessable(String),
    /// A row cannot be read as a submission.
    #[error("the inbox is damaged: {0}")]
    Damaged(&'static str),
    /// The file or its folder could not be made or looked at.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: Arc<io::Error>,
    },
    /// The PostgreSQL server cannot be reached, does not let us in, or has ended the connection.
    #[error("no connection to {server}: {reason}")]
    Unreachable {
        /// Which one.
        server: Server,
        /// Why.
        reason: String,
    },
    /// Whatever else PostgreSQL says, by its code.
    #[error("the database fails (PostgreSQL {0})")]
    Postgres(String),
    /// Whatever else SQLite says, in its own fixed words.
    #[error("the database fails: {reason} (SQLite {code})")]
    Database {
        /// SQLite's extended result code.
        code: i32,
        /// What it stands for.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether trying again may go well without anybody changing the program or its options.
    fn may_pass(&self) -> bool {
        !matches!(self, StoreError::NotAnInbox(_) | StoreError::TooNew { .. } | StoreError::NotDurable { .. })
    }

    /// Whether what is stored is to blame, rather than the database or the machine: trying again does not help.
    fn is_of_a_row(&self) -> bool {
        match self {
            StoreError::Damaged(_) | StoreError::Unprocessable(_) => true,
            // Data exceptions and constraints.
            StoreError::Postgres(code) => code.starts_with("22") || code.starts_with("23"),
            StoreError::Database { code, .. } => matches!(
                code & 0xff,
                rusqlite::ffi::SQLITE_CONSTRAINT
                    | rusqlite::ffi::SQLITE_MISMATCH
                    | rusqlite::ffi::SQLITE_TOOBIG
            ),
            _ => false,
        }
    }

    fn io(path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), error: Arc::new(error) }
    }
}

/// The inbox, open for writing. Clones share one writer, which ends with the last of them.
#[derive(Clone)]
pub struct Store {
    writer: Arc<Writer>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database, makes it if it is missing, brings its layout up to date and starts the writer.
    ///
    /// What may pass by itself (a full disk, a lock, a folder that cannot be written) is no error here: the writer goes on
    /// trying, [`Store::accept`] fails meanwhile, and [`Store::health`] says why.
    pub fn open(options: &Options) -> Result<Store, StoreError> {
        Ok(Store { writer: Arc::new(Writer::start(options.clone())?) })
    }

    /// Stores a submission in the intake and returns the id of the request. Whether it repeats an earlier submission is found out
    /// later; see [`Store::settle`].
    ///
    /// After `Ok` it survives a power cut; after `Err` nothing of it was kept. Whoever stops waiting
    /// before either cannot know: it may be kept.
    pub async fn accept(&self, arrival: Arrival) -> Result<Uuid, StoreError> {
        let job = Job::new(arrival, self.writer.options.load_full(), &self.writer.messages)?;
        self.writer.submissions.accept(job).await
    }

    /// Waits until an accepted submission is processed, for as long as that takes, and returns what it is. One that is set aside
    /// because it cannot be processed is waited for until the operator has mended that.
    pub async fn settle(&self, id: Uuid) -> Result<Accepted, StoreError> {
        let mut processed = self.writer.processor.processed.subscribe();
        loop {
            if let Some(accepted) = self.writer.change(move |tx| intake::fate(tx.sql, id)).await? {
                return Ok(accepted);
            }
            // Where another replica processes it, the next look of our own processor is what wakes us.
            processed.changed().await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// How many accepted submissions this process has found to repeat earlier ones.
    pub fn repeats(&self) -> u64 {
        self.writer.processor.counts.repeats.load(Relaxed)
    }

    /// How many accepted submissions this process has held.
    pub fn held(&self) -> u64 {
        self.writer.processor.counts.held.load(Relaxed)
    }

    /// How many of them it has held because of a flood.
    pub fn held_in_floods(&self) -> u64 {
        self.writer.processor.counts.in_flood.load(Relaxed)
    }

    /// Returns once this process has held submissions because of a flood since it last returned.
    pub async fn flooded(&self) {
        self.writer.processor.flooded.notified().await;
    }

    /// From now on, what arrives is sealed, and what is processed is screened and queued, by these options. The path cannot change.
    pub fn reconfigure(&self, options: &Options) {
        self.writer.options.store(Arc::new(options.clone()));
    }

    /// The configured channels.
    pub fn channels(&self) -> Vec<Route> {
        self.writer.options.load().channels.clone()
    }

    /// Whether the last write went well, without trying, and none has been under way for more than five seconds. After a failure the
    /// writer tries again each second, so that this tells the truth even while nobody sends anything.
    pub fn health(&self) -> Result<(), StoreError> {
        self.writer.submissions.health().and_then(|()| self.writer.changes.health())
    }

    /// Writes and syncs a little something and says whether that went well.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.writer.submissions.check().await
    }

    /// Returns once deliveries may have been queued by this process since it last returned.
    pub async fn queued(&self) {
        self.writer.submissions.queued.notified().await;
    }

    /// Takes over the attempts that an earlier process had begun and not ended, and returns how many there were. To be called
    /// once no other process sends.
    pub async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.writer.change(move |tx| queries::recover(tx.sql, tx.theirs(now))).await
    }

    /// Queues again what is noted as begun and is not under way in truth: a commit that was reported as failed may have noted it.
    /// To be called by whoever alone sends. Returns how many there were.
    pub async fn retake(&self, under_way: Vec<Lease>, now: Timestamp) -> Result<usize, StoreError> {
        self.writer.change(move |tx| queries::retake(tx.sql, &under_way, tx.theirs(now))).await
    }

    /// Holds what waits to the schedule, after the clock was set back to `now`.
    pub async fn mend_waits(&self, now: Timestamp) -> Result<(), StoreError> {
        self.writer.change(move |tx| queries::mend_waits(tx.sql, tx.theirs(now))).await
    }

    /// Begins attempts, as many as there is room for. What is under way here already is left alone, whatever the clock says.
    /// If nobody reports the end of one before its lease is over, it is begun again.
    pub async fn claim(
        &self,
        wants: Vec<Want>,
        under_way: Vec<Lease>,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claims>, StoreError> {
        // A lease is as long as it says, however long the claim had to wait for its turn.
        let asked = Instant::now();
        let waited = move || Duration::from_secs(asked.elapsed().as_secs());
        // Only mail providers have a quota of a day, and where nothing is limited, this is not either.
        let options = self.writer.options.load();
        let is_limited = options.form_quota.is_some();
        let has_quota = |channel: &&Route| is_limited && channel.has_daily_quota;
        let paced: Vec<String> =
            options.channels.iter().filter(has_quota).map(|channel| channel.name.clone()).collect();
        self.writer.change(move |tx| tx.claim(&wants, &paced, &under_way, now + waited(), lease)).await
    }

    /// Records how an attempt ended, and returns whether all of the submission's deliveries have arrived with that.
    pub async fn record(
        &self,
        lease: Lease,
        outcome: Outcome,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.writer.change(move |tx| tx.record(&lease, &outcome, verdict, now)).await
    }

    /// Whether at least one channel has confirmed a submission.
    pub async fn is_confirmed(&self, id: Uuid) -> Result<bool, StoreError> {
        self.writer.change(move |tx| queries::is_confirmed(tx.sql, id)).await
    }

    /// Notes for everybody to see that a channel is only probed, and what the other side said.
    pub async fn pause(&self, channel: String, answer: String, now: Timestamp) -> Result<(), StoreError> {
        self.writer.change(move |tx| queries::pause(tx.sql, &channel, &answer, tx.theirs(now))).await
    }

    /// Records that a channel works again. After an outage, deliveries that it delayed become due, in steps between which submissions are
    /// accepted; returns how many deliveries those are.
    pub async fn resume(
        &self,
        channel: String,
        after_outage: bool,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let name = channel.clone();
        self.writer.change(move |tx| queries::resume(tx.sql, &name)).await?;
        let (mut count, mut from) = (0, after_outage.then_some(Timestamp::MIN));
        while let Some(later) = from {
            let name = channel.clone();
            let step =
                self.writer.change(move |tx| queries::bring_forward(tx.sql, &name, later, tx.theirs(now)));
            let step = step.await?;
            count += step.count;
            from = step.from;
        }
        Ok(count)
    }

    /// Switches a channel off, until it leads elsewhere or the operator retries something of it.
    pub async fn switch_off(&self, target: Target, answer: String, now: Timestamp) -> Result<(), StoreError> {
        self.writer
            .change(move |tx| queries::switch_off(tx.sql, tx.secret, &target, &answer, tx.theirs(now)))
            .await
    }

    /// Puts what only its recipient can read in the place of a submission's fields. Nothing happens, and false is returned, where
    /// it is sealed already, or a channel still has to deliver it: one that is configured, or any if it is not held.
    pub async fn seal(&self, id: Uuid, sealed: Vec<u8>) -> Result<bool, StoreError> {
        let options = self.writer.options.load_full();
        self.writer.change(move |tx| queries::seal(tx.sql, id, &sealed, &options.channels)).await
    }

    /// Sees to it that what was sealed or removed is in no file of the database any more. False where somebody reads just now: then
    /// it is to be tried again.
    pub async fn empty_log(&self) -> Result<bool, StoreError> {
        self.writer.changes.empty_log().await
    }

    /// Runs one step of retention: removes submissions received before `before`, except held ones and those with unfinished deliveries.
    /// Looks at a few submissions after `after`, so that visitors do not wait long. Start with [`Uuid::nil`], then pass [`Expired::after`].
    pub async fn expire(&self, before: Timestamp, after: Uuid) -> Result<Expired, StoreError> {
        self.writer.change(move |tx| discard::expire(tx.sql, before, after)).await
    }

    /// Removes a few of the submissions that have been held since before `before`, so that visitors do not wait long. Returns the number
    /// removed; call again until it is zero.
    pub async fn expire_held(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.writer.change(move |tx| discard::expire_held(tx.sql, before)).await
    }

    /// Writes down who was refused, under the day of `now` in UTC. Of 10,000 pairs of source and form a day each has a row; who
    /// comes after them is counted among the others of the form. It is written in small parts, so that no submission waits for it,
    /// and what fails is not tried again: these are figures for the operator, and nothing else depends on them.
    pub async fn pressed(&self, refused: Vec<Refused>, now: Timestamp) -> Result<(), StoreError> {
        for part in refused.chunks(REFUSED_AT_A_TIME) {
            let part = part.to_vec();
            self.writer.change(move |tx| pressure::press(tx.sql, tx.secret, &part, now)).await?;
        }
        Ok(())
    }

    /// Forgets who was refused before the day of that time in UTC, up to `most` rows of it, and returns how many those are.
    pub async fn forget_pressure(&self, before: Timestamp, most: usize) -> Result<usize, StoreError> {
        self.writer.change(move |tx| pressure::forget_pressure(tx.sql, before, most)).await
    }

    /// When something of that name was last done; see [`Store::remember`].
    pub async fn remembered(&self, name: &'static str) -> Result<Option<Timestamp>, StoreError> {
        self.writer.change(move |tx| queries::remembered(tx.sql, name)).await
    }

    /// Notes when something was done, beyond a restart.
    pub async fn remember(&self, name: &'static str, at: Timestamp) -> Result<(), StoreError> {
        self.writer.change(move |tx| queries::remember(tx.sql, name, at)).await
    }

    /// Writes what is waiting, refuses what comes after, and closes the database.
    pub fn close(self) {
        self.writer.close();
    }
}

/// How many refusals one transaction takes, so that the submissions in it do not notice.
const REFUSED_AT_A_TIME: usize = 200;

#[cfg(test)]
impl Store {
    /// Accepts a submission and waits until it is processed.
    pub(crate) async fn keep(&self, arrival: Arrival) -> Result<Accepted, StoreError> {
        let id = self.accept(arrival).await?;
        self.settle(id).await
    }
}

#[cfg(test)]
impl Job {
    /// One that is treated by these options.
    fn of(arrival: Arrival, options: &Options) -> Job {
        Job::new(arrival, Arc::new(options.clone()), &Repeats::new(Instant::now())).unwrap()
    }
}

#[cfg(test)]
impl Arrival {
    /// As if screening had held it for these reasons, each 60 points.
    pub(crate) fn held_for(mut self, reasons: &[(screening::Signal, &str)]) -> Arrival {
        let reason = |(signal, detail): &(screening::Signal, &str)| screening::Reason {
            signal: *signal,
            points: 60,
            detail: (*detail).to_owned(),
        };
        let reasons: Vec<_> = reasons.iter().map(reason).collect();
        let score = reasons.iter().map(|reason| reason.points).sum();
        self.evidence = Evidence::Verdict(screening::Verdict {
            score,
            reasons,
            hold: true,
            ..screening::Verdict::default()
        });
        self
    }
}

/// A submission that a commit may have left behind which was reported as failed.
#[derive(Clone, Debug)]
struct Doubt {
    id: Uuid,
    /// The server's process that was at it, where there is a server: what is under way there cannot be seen yet.
    backend: Option<String>,
}

/// One submission on its way to the writer.
struct Job {
    arrival: Arrival,
    /// The entry's fields as a JSON object, made before the writer gets to it.
    fields: String,
    /// The same, readable for its recipient alone; `fields` is empty then.
    sealed: Option<Vec<u8>>,
    /// What it is screened by, as JSON. A verdict without details where it is sealed.
    evidence: String,
    /// As they were when it arrived.
    options: Arc<Options>,
}

impl Job {
    fn new(arrival: Arrival, options: Arc<Options>, repeats: &Repeats) -> Result<Job, StoreError> {
        // An object of strings always has a JSON text.
        let fields =
            serde_json::to_string(&arrival.entry).map_err(|_| StoreError::Damaged("an entry has no JSON"))?;
        let form = arrival.entry.form().name;
        let goes_nowhere = !options.channels.iter().any(|channel| channel.takes(form));
        let seal =
            |recipient: &Recipient| recipient.seal(fields.as_bytes()).map_err(|_| StoreError::NotSealed);
        let sealed = options.recipient.as_ref().filter(|_| goes_nowhere).map(seal).transpose()?;
        // What is sealed cannot be read any more when it is processed: it is screened now.
        let mut evidence = arrival.evidence.clone();
        if sealed.is_some() {
            let verdict = evidence.judge(
                &arrival.entry,
                arrival.source,
                arrival.agent.as_deref(),
                repeats,
                &options.screening,
            );
            evidence = Evidence::Verdict(verdict.without_details());
        }
        let evidence =
            serde_json::to_string(&evidence).map_err(|_| StoreError::Damaged("evidence has no JSON"))?;
        let fields = if sealed.is_some() { "{}".to_owned() } else { fields };
        Ok(Job { arrival, fields, sealed, evidence, options })
    }

    /// Down which channels it goes.
    fn channels(&self) -> impl Iterator<Item = &Route> {
        self.options.channels.iter().filter(|channel| channel.takes(self.arrival.entry.form().name))
    }
}

#[cfg(test)]
pub(crate) mod tests;
