//! The intake: acceptance appends to it, and processing moves its rows on, in either database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::millis;
use super::steps::{self, Removable};
use super::{Bind, Dialect, ROWS_AT_A_TIME, Row, Sql, Value, change, edit, filled, flood, rows, values};
use crate::forms::parse::Entry;
use crate::forms::{Form, Sameness};
use crate::screening::{Evidence, Repeats, Verdict};
use crate::store::duplicates::{self, Candidate, Decision, Fate, Hold, Known, Original};
use crate::store::fingerprint::{self, Hash, Secret};
use crate::store::{Accepted, Doubt, Job, Options, StoreError};
use crate::submission::delivery::Route;
use crate::submission::reasons_json;

/// For how long it is remembered which submission a request repeated, in milliseconds.
const REPEATS_ARE_KEPT: i64 = rows::DAY_IN_MILLISECONDS;

/// What acceptance writes.
pub(in crate::store) const INTAKE: &str = "intake (id, form, received_at, fields, sealed, source, sender, evidence, agent, \
     channels, content, idempotency_key, network)";

/// Appends submissions with these ids, in one statement where the database is a server.
pub(in crate::store) fn append(
    tx: &dyn Sql,
    secret: &Secret,
    jobs: &[Job],
    ids: &[Uuid],
) -> Result<(), StoreError> {
    /// What a row has that is not in its job.
    struct Made {
        source: Hash,
        sender: Option<Hash>,
        channels: i64,
        content: Hash,
        key: Option<Hash>,
        network: Hash,
    }
    let made = |job: &Job| {
        let arrival = &job.arrival;
        Made {
            source: secret.source(arrival.source),
            sender: arrival.entry.get("email").map(|email| secret.sender(email)),
            channels: i64::try_from(job.channels().count()).unwrap_or(i64::MAX),
            content: secret.content(&arrival.entry),
            key: secret.idempotency_key(arrival),
            network: secret.network(arrival.source),
        }
    };
    let made: Vec<Made> = jobs.iter().map(made).collect();
    let mut all = Vec::with_capacity(jobs.len() * 13);
    for ((job, made), id) in jobs.iter().zip(&made).zip(ids) {
        let arrival = &job.arrival;
        all.extend([
            Value::Blob(id.as_bytes()),
            Value::Text(arrival.entry.form().name),
            Value::Integer(arrival.received_at.as_millisecond()),
            job.fields.bind(),
            job.sealed.bind(),
            made.source.bind(),
            made.sender.bind(),
            job.evidence.bind(),
            arrival.agent.bind(),
            Value::Integer(made.channels),
            made.content.bind(),
            made.key.bind(),
            made.network.bind(),
        ]);
    }
    tx.insert(INTAKE, 13, &all)
}

/// What processing did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Processed {
    /// How many rows of the intake.
    pub rows: usize,
    /// How many of them were repeats.
    pub repeats: usize,
    /// How many of them are held.
    pub held: usize,
    /// How many of those are held because of a flood.
    pub in_flood: usize,
    /// Whether something is to be delivered.
    pub has_deliveries: bool,
    /// Whether there may be more rows to be processed.
    pub has_more: bool,
}

/// Moves up to `most` rows on, in order of arrival: each is screened and becomes a submission with its deliveries, or is counted as a
/// repeat. Only those with these ids are looked at. Part of the caller's transaction.
///
/// Nothing happens, and `None` is returned, while another replica has an open transaction that does the same: they take turns, so that
/// rows are decided in order of arrival whoever processes them.
pub(in crate::store) fn process(
    tx: &dyn Sql,
    options: &Options,
    screener: &Screener,
    most: usize,
    ids: RangeInclusive<Uuid>,
) -> Result<Option<Processed>, StoreError> {
    if !tx.dialect().try_turn().map_or(Ok(true), |turn| tx.one(turn, &[])?.get(0))? {
        return Ok(None);
    }
    let most = size_of_batch(tx, most, &ids)?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let rows =
        tx.query(&oldest_rows(tx.dialect()), values![limit, ids.start().as_bytes(), ids.end().as_bytes()])?;
    if rows.is_empty() {
        return Ok(Some(Processed::default()));
    }
    let read = |row| Screened::read(row, options, screener);
    let batch = rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let candidates: Vec<Candidate> = batch.iter().map(|screened| screened.candidate.clone()).collect();
    let window = millis(options.duplicate_window);
    // What is due is due by the database's clock at the latest: otherwise a replica whose own is ahead would delay its visitors' mail.
    let latest = change::clock(tx)?.map_or(i64::MAX, Timestamp::as_millisecond);
    let due_at = |received_at: i64| received_at.min(latest);
    let mut rates = flood::read(tx, options.form_quota, latest, &candidates)?;
    let known = known(tx, &candidates, window, &options.channels)?;
    let decision = duplicates::decide(&candidates, known, window, &mut rates);
    let mut new: Vec<New<'_>> = Vec::new();
    let mut repeats = Vec::new();
    for (screened, fate) in batch.iter().zip(&decision.fates) {
        let id = &screened.candidate.id;
        match fate {
            Fate::New { reuses_key, hold, rank } => {
                if *reuses_key {
                    tracing::info!(%id, "kept a submission whose Idempotency-Key had come with other content before");
                }
                new.push(New::of(screened, *hold, *rank));
            }
            Fate::Repeat(original) => {
                repeats.extend([Value::Blob(id.as_bytes()), Value::Blob(original.as_bytes())]);
            }
        }
    }
    let values: Vec<Value<'_>> = new.iter().flat_map(New::columns).collect();
    tx.insert(&format!("submission ({TAKEN_OVER}, {NEW})"), 17, &values)?;
    let mut deliveries = Vec::new();
    for new in &new {
        let candidate = &new.screened.candidate;
        let (state, due_at) = if new.hold == Hold::None {
            ("waiting", Value::Integer(due_at(candidate.received_at)))
        } else {
            ("held", Value::Null)
        };
        for channel in options.channels.iter().filter(|channel| channel.takes(&candidate.form)) {
            deliveries.extend([
                Value::Blob(candidate.id.as_bytes()),
                channel.name.bind(),
                Value::Text(state),
                due_at,
                Value::Text(&candidate.form),
                Value::Integer(new.rank),
            ]);
        }
    }
    tx.insert("delivery (submission, channel, state, due_at, form, rank)", 6, &deliveries)?;
    tx.insert("repeat (id, submission)", 2, &repeats)?;
    apply(tx, &decision, &options.channels, due_at)?;
    flood::write(tx, &rates)?;
    let all: Vec<[u8; 16]> = candidates.iter().map(|candidate| candidate.id.into_bytes()).collect();
    tx.execute_in("DELETE FROM intake WHERE id", &all)?;
    prune(tx, &candidates, latest)?;
    let holds = |hold: Hold| new.iter().filter(|new| new.hold == hold).count();
    Ok(Some(Processed {
        rows: candidates.len(),
        repeats: candidates.len() - new.len(),
        held: new.len() - holds(Hold::None),
        in_flood: holds(Hold::Flood) + decision.eased.values().filter(|eased| eased.is_flood).count(),
        has_deliveries: !deliveries.is_empty() || !decision.eased.is_empty(),
        has_more: candidates.len() == most,
    }))
}

/// The columns that a submission takes over from the intake as they are.
const TAKEN_OVER: &str = "id, form, received_at, fields, sealed, source, sender, agent, idempotency_key";
/// Where some of them are.
const FORM: usize = 1;
const RECEIVED_AT: usize = 2;
const FIELDS: usize = 3;
const SEALED: usize = 4;
const SOURCE: usize = 5;
const AGENT: usize = 7;
const KEY: usize = 8;
/// How many they are.
const TAKEN: usize = 9;

/// The columns that processing decides, as [`New::columns`] writes them.
const NEW: &str = "content, held_at, held_because, score, reasons, withheld, suspicious, flood";

/// How many bytes of fields one transaction processes at most, unless they are those of one row: visitors wait for it.
const BATCH_BYTES: i64 = 512 * 1024;

/// How many of the oldest rows one transaction processes, `most` at most. On a server visitors do not wait for it.
fn size_of_batch(tx: &dyn Sql, most: usize, ids: &RangeInclusive<Uuid>) -> Result<usize, StoreError> {
    if tx.dialect() == Dialect::Postgres {
        return Ok(most);
    }
    let sizes = format!(
        "SELECT i.id, {} FROM intake i WHERE i.error IS NULL AND i.id >= ?2 AND i.id <= ?3 ORDER BY i.id LIMIT ?1",
        steps::size_of(tx.dialect(), "i")
    );
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = tx.query(&sizes, values![limit, ids.start().as_bytes(), ids.end().as_bytes()])?;
    let sizes = rows.iter().map(|row| Removable::read(row, 0, 1)).collect::<Result<Vec<_>, _>>()?;
    let fitting = steps::fitting(&sizes, BATCH_BYTES);
    Ok(if fitting == sizes.len() { most } else { fitting })
}

/// The oldest rows that are not set aside and that nobody is just removing, as [`Screened::read`] reads them.
fn oldest_rows(dialect: Dialect) -> String {
    let lock = dialect.lock_free_rows();
    format!(
        "SELECT {TAKEN_OVER}, content, evidence, network FROM intake WHERE error IS NULL AND id >= ?2 AND id <= ?3
         ORDER BY id LIMIT ?1 {lock}"
    )
}

/// What screening knows from one submission to the next.
pub(in crate::store) struct Screener {
    /// Which messages came more than once lately.
    messages: Arc<Repeats>,
    /// Of submissions whose transaction has not been committed yet: it may be tried again, and their messages are counted once.
    verdicts: Mutex<HashMap<Uuid, Verdict>>,
}

impl Screener {
    pub fn new(messages: Arc<Repeats>) -> Screener {
        Screener { messages, verdicts: Mutex::default() }
    }

    /// To be called once what was processed is committed.
    pub fn forget_verdicts(&self) {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn verdict(&self, id: Uuid, judge: impl FnOnce() -> Verdict) -> Result<Verdict, StoreError> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = verdicts.get(&id) {
            return Ok(verdict.clone());
        }
        // A text with which screening cannot deal must not end the thread that all submissions need.
        let verdict = panic::catch_unwind(AssertUnwindSafe(judge))
            .map_err(|_| StoreError::Damaged("screening has failed"))?;
        verdicts.insert(id, verdict.clone());
        Ok(verdict)
    }
}

/// A row of the intake with what screening says of it.
struct Screened {
    row: Row,
    candidate: Candidate,
    /// The content's hash, as it is stored.
    content: Hash,
    verdict: Verdict,
}

impl Screened {
    fn read(row: Row, options: &Options, screener: &Screener) -> Result<Screened, StoreError> {
        let id = Uuid::from_bytes(row.get(0)?);
        let evidence: Evidence = serde_json::from_str(row.text(TAKEN + 1)?)
            .map_err(|_| StoreError::Damaged("what a submission is screened by is not JSON"))?;
        let form = Form::named(row.text(FORM)?);
        let source: Hash = row.get(SOURCE)?;
        let verdict = match (evidence, form) {
            (Evidence::Verdict(verdict), _) => verdict,
            (evidence, Some(form)) => {
                let entry = Entry::restored(form, rows::fields(row.text(FIELDS)?)?);
                let agent: Option<String> = row.get(AGENT)?;
                screener.verdict(id, || {
                    evidence.judge(&entry, source, agent.as_deref(), &screener.messages, &options.screening)
                })?
            }
            // A later version, which shares the database, has this form.
            (Evidence::Facts(_), None) => Verdict::default(),
        };
        let candidate = Candidate {
            id,
            received_at: row.get(RECEIVED_AT)?,
            content: row.get(TAKEN)?,
            is_lasting: form.is_none_or(|form| form.sameness == Sameness::Address),
            key: row.get(KEY)?,
            form: row.get(FORM)?,
            source,
            is_deliverable: row.get::<Option<Vec<u8>>>(SEALED)?.is_none()
                || !is_taken(&options.channels, row.text(FORM)?),
            // An earlier version, which shares the database, does not write the network.
            network: row.get::<Option<Hash>>(TAKEN + 2)?.unwrap_or(source),
            is_held: verdict.hold,
            is_suspicious: verdict.suspicious,
        };
        let content = stored_content(&candidate, day_of(candidate.received_at));
        Ok(Screened { row, candidate, content, verdict })
    }
}

/// A submission that repeats no other.
struct New<'a> {
    screened: &'a Screened,
    hold: Hold,
    rank: i64,
    score: u32,
    reasons: Option<String>,
    held_because: Option<String>,
}

impl New<'_> {
    fn of(screened: &Screened, hold: Hold, rank: i64) -> New<'_> {
        let mut verdict = screened.verdict.clone();
        if hold == Hold::Flood {
            verdict = verdict.in_flood();
        }
        New {
            screened,
            hold,
            rank,
            score: verdict.score,
            reasons: (!verdict.reasons.is_empty()).then(|| reasons_json(&verdict.reasons).to_string()),
            held_because: (hold != Hold::None).then(|| verdict.because()),
        }
    }

    /// Its row in `submission`.
    fn columns(&self) -> impl Iterator<Item = Value<'_>> {
        let Screened { row, candidate, content, verdict } = self.screened;
        let is_held = self.hold != Hold::None;
        let is_flood = self.hold == Hold::Flood;
        let made = [
            content.bind(),
            if is_held { Value::Integer(candidate.received_at) } else { Value::Null },
            self.held_because.bind(),
            self.score.bind(),
            self.reasons.bind(),
            Value::Integer(is_held.into()),
            Value::Integer(verdict.suspicious.into()),
            Value::Integer(is_flood.into()),
        ];
        row.0[..TAKEN].iter().map(Bind::bind).chain(made)
    }
}

/// By how much a submission may have been received after one that is processed later, in milliseconds.
const OUT_OF_ORDER: i64 = 60_000;

/// How content is stored that was received on this day, counted from 1970-01-01: among the hashes of the day, unless it lasts.
fn stored_content(candidate: &Candidate, day: i64) -> Hash {
    if candidate.is_lasting { candidate.content } else { fingerprint::of_day(candidate.content, day) }
}

fn day_of(millisecond: i64) -> i64 {
    millisecond.div_euclid(rows::DAY_IN_MILLISECONDS)
}

/// Whether any of these channels takes submissions of a form.
fn is_taken(channels: &[Route], form: &str) -> bool {
    channels.iter().any(|channel| channel.takes(form))
}

/// Looks up what the candidates may repeat. On a server the rows stay locked, in the order of their contents, so that they do not change
/// and no two replicas wait for each other.
fn known(
    tx: &dyn Sql,
    candidates: &[Candidate],
    window: i64,
    channels: &[Route],
) -> Result<Known, StoreError> {
    let mut contents: BTreeMap<Hash, Hash> = BTreeMap::new();
    for candidate in candidates {
        let at = candidate.received_at;
        let days = day_of(at.saturating_sub(window))..=day_of(at.saturating_add(OUT_OF_ORDER));
        contents.extend(days.map(|day| (stored_content(candidate, day), candidate.content)));
    }
    let stored: Vec<Hash> = contents.keys().copied().collect();
    let mut known = Known::default();
    let columns = "id, received_at, held_at, withheld, released_at, suspicious, flood, source, form, sealed IS NOT NULL";
    let rows = newest_in(tx, columns, "content", &stored, tx.dialect().lock())?;
    let now = candidates.iter().map(|candidate| candidate.received_at).max().unwrap_or_default();
    let reach = Reach::read(tx, &rows, channels, now)?;
    for row in rows {
        let (held_at, released_at): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(4)?);
        let hold = match held_at {
            None => Hold::None,
            Some(_) if row.get(6)? => Hold::Flood,
            Some(_) if row.get(3)? && released_at.is_none() => Hold::Screening,
            Some(_) => Hold::Operator,
        };
        let id: [u8; 16] = row.get(0)?;
        let original = Original {
            id: Uuid::from_bytes(id),
            received_at: row.get(1)?,
            hold,
            is_suspicious: row.get(5)?,
            source: row.get(7)?,
            is_deliverable: !is_taken(channels, row.text(8)?)
                || reach.delivered.contains(&id)
                // A release inserts the deliveries that a held submission does not have.
                || !row.get::<bool>(9)? && (hold != Hold::None || reach.pending.contains(&id)),
        };
        let content = contents.get(&row.get::<Hash>(10)?).copied().unwrap_or_default();
        let newest = known.contents.entry(content).or_insert(original);
        if original.id > newest.id {
            *newest = original;
        }
    }
    let mut keys: Vec<Hash> = candidates.iter().filter_map(|candidate| candidate.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for row in newest_in(tx, "received_at", "idempotency_key", &keys, "")? {
        known.keys.insert(row.get(1)?, row.get(0)?);
    }
    Ok(known)
}

/// Which submissions have been delivered, and which have a delivery that a configured channel will soon make.
#[derive(Default)]
struct Reach {
    delivered: BTreeSet<[u8; 16]>,
    pending: BTreeSet<[u8; 16]>,
}

/// A delivery whose next attempt is further ahead is not one that a repeat can rely on: a new submission would be tried at once.
const SOON: Duration = Duration::from_mins(5);

impl Reach {
    /// Reads the deliveries of submissions whose ids are in the first column of `submissions`.
    fn read(tx: &dyn Sql, submissions: &[Row], channels: &[Route], now: i64) -> Result<Reach, StoreError> {
        let mut reach = Reach::default();
        // Where there is no channel, no submission needs one.
        if channels.is_empty() {
            return Ok(reach);
        }
        let mut ids = submissions.iter().map(|row| row.get(0)).collect::<Result<Vec<[u8; 16]>, _>>()?;
        ids.sort_unstable();
        for row in
            tx.query_in("SELECT state, channel, due_at, submission FROM delivery WHERE submission", &ids, "")?
        {
            let (state, name) = (row.text(0)?, row.text(1)?);
            let is_far = state == "waiting"
                && row.get::<Option<i64>>(2)?.is_some_and(|due_at| due_at.saturating_sub(millis(SOON)) > now);
            if state == "delivered" {
                reach.delivered.insert(row.get(3)?);
            } else if state != "parked" && !is_far && channels.iter().any(|channel| channel.name == name) {
                reach.pending.insert(row.get(3)?);
            }
        }
        Ok(reach)
    }
}

/// The newest submission of each that has one of these hashes in a column: `columns` and the hash. There may be any number with the same
/// hash, and only the newest is read. The hashes must be sorted; on a server rows are locked in their order, if `lock` says so.
fn newest_in(
    tx: &dyn Sql,
    columns: &str,
    column: &str,
    hashes: &[Hash],
    lock: &str,
) -> Result<Vec<Row>, StoreError> {
    let (bytes, order) = match tx.dialect() {
        Dialect::Sqlite => ("blob", String::new()),
        Dialect::Postgres => ("bytea", format!("ORDER BY {column} {lock}")),
    };
    let mut found = Vec::new();
    for hashes in hashes.chunks(ROWS_AT_A_TIME[0]) {
        let hashes = filled(hashes);
        let wanted: Vec<String> =
            (1..=hashes.len()).map(|number| format!("(CAST(?{number} AS {bytes}))")).collect();
        let newest = format!(
            "SELECT {columns}, {column} FROM submission WHERE id IN (
                 SELECT (SELECT s.id FROM submission s WHERE s.{column} = wanted.column1 ORDER BY s.id DESC LIMIT 1)
                 FROM (VALUES {}) AS wanted) {order}",
            wanted.join(", ")
        );
        let hashes: Vec<Value<'_>> = hashes.into_iter().map(Bind::bind).collect();
        found.extend(tx.query(&newest, &hashes)?);
    }
    Ok(found)
}

/// Writes what was decided about earlier submissions.
fn apply(
    tx: &dyn Sql,
    decision: &Decision,
    channels: &[Route],
    due_at: impl Fn(i64) -> i64,
) -> Result<(), StoreError> {
    for (id, times) in &decision.repeats {
        tx.execute(
            "UPDATE submission SET repeats = repeats + ?2 WHERE id = ?1",
            values![id.as_bytes(), times],
        )?;
    }
    for (id, eased) in &decision.eased {
        if eased.is_flood {
            tx.execute(
                "UPDATE submission SET flood = 1, held_at = ?3, held_because = ?2 WHERE id = ?1 AND held_at IS NOT NULL",
                values![id.as_bytes(), "the form has had more than its quota", eased.at],
            )?;
            edit::add_deliveries(tx, *id, None, channels)?;
        } else {
            edit::release(tx, *id, rows::time(due_at(eased.at))?, channels)?;
        }
        tx.execute(
            "UPDATE submission SET suspicious = ?2 WHERE id = ?1",
            values![id.as_bytes(), eased.is_suspicious],
        )?;
    }
    for (id, at) in &decision.held_again {
        tx.execute(
            "UPDATE submission SET held_at = ?2 WHERE id = ?1 AND held_at < ?2",
            values![id.as_bytes(), at],
        )?;
    }
    let eased = decision.eased.iter().map(|(id, eased)| (id, eased.rank));
    let ranks = decision.ranks.iter().map(|(id, rank)| (id, *rank));
    for (id, rank) in eased.chain(ranks) {
        tx.execute(
            "UPDATE delivery SET rank = ?2 WHERE submission = ?1 AND rank > ?2 AND state <> 'delivered'",
            values![id.as_bytes(), rank],
        )?;
    }
    Ok(())
}

/// Removes what has expired, a few rows more than a batch of this size can have added.
fn prune(tx: &dyn Sql, candidates: &[Candidate], latest: i64) -> Result<(), StoreError> {
    let Some(now) = candidates.iter().map(|candidate| candidate.received_at).max() else { return Ok(()) };
    let most = i64::try_from(2 * candidates.len() + 16).unwrap_or(i64::MAX);
    // What another replica removes just now need not be waited for.
    let lock = tx.dialect().lock_free_rows();
    let old = format!(
        "DELETE FROM repeat WHERE id IN (SELECT id FROM repeat WHERE id < ?1 ORDER BY id LIMIT ?2 {lock})"
    );
    tx.execute(&old, values![rows::id_before(now.saturating_sub(REPEATS_ARE_KEPT)), most])?;
    flood::forget(tx, now.min(latest), most)
}

/// Sets a row aside that cannot be processed, unless it is gone.
pub(in crate::store) fn set_aside(tx: &dyn Sql, id: Uuid, error: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE intake SET error = ?2 WHERE id = ?1", values![id.as_bytes(), error]).map(drop)
}

/// The id of the oldest row that is not set aside.
pub(in crate::store) fn oldest(tx: &dyn Sql) -> Result<Option<Uuid>, StoreError> {
    let row = tx.row("SELECT id FROM intake WHERE error IS NULL ORDER BY id LIMIT 1", &[])?;
    row.map(|row| row.get(0).map(Uuid::from_bytes)).transpose()
}

/// What became of a submission; nothing while it is in the intake.
pub(in crate::store) fn fate(tx: &dyn Sql, id: Uuid) -> Result<Option<Accepted>, StoreError> {
    // The intake comes first: a row that another replica processes between the two queries would be found in neither table, and a
    // repeat would be taken for a new submission.
    if tx.exists("SELECT 1 FROM intake WHERE id = ?1", values![id.as_bytes()])? {
        return Ok(None);
    }
    let original = tx.row("SELECT submission FROM repeat WHERE id = ?1", values![id.as_bytes()])?;
    Ok(Some(match original {
        Some(row) => Accepted::Duplicate(Uuid::from_bytes(row.get(0)?)),
        None => Accepted::New(id),
    }))
}

/// Whether a submission was stored under that id, processed or not.
pub(in crate::store) fn is_stored(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM accepted WHERE id = ?1 UNION ALL SELECT 1 FROM repeat WHERE id = ?1",
        values![id.as_bytes()],
    )
}

/// Removes submissions whose commit was reported as failed and has happened all the same. If one was sent again since, a visitor has
/// got a 200 for it, and it stays.
pub(in crate::store) fn take_back(tx: &dyn Sql, doubtful: &[Doubt]) -> Result<(), StoreError> {
    let ids: Vec<[u8; 16]> = doubtful.iter().map(|doubt| doubt.id.into_bytes()).collect();
    tx.execute_in("DELETE FROM intake WHERE id", &ids)?;
    tx.execute_in("DELETE FROM submission WHERE repeats = 0 AND id", &ids).map(drop)
}
