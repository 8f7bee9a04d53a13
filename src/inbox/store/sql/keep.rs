//! Keeps a batch of submissions in either database: looks up what they may repeat, has [`duplicates`] decide, and writes what follows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::millis;
use super::{Bind, Dialect, Sql, Value, change, edit, rows, values};
use crate::inbox::form::Sameness;
use crate::inbox::store::duplicates::{self, Candidate, Fate, Fingerprint, Hold, Known};
use crate::inbox::store::fingerprint::{Hash, Secret};
use crate::inbox::store::ids::Ids;
use crate::inbox::store::{Accepted, Doubt, Job, StoreError};

/// What a batch came to.
pub(in crate::inbox::store) struct Kept {
    /// One for each submission of the batch, in their order.
    pub accepted: Vec<Accepted>,
    /// How often each submission was repeated by this batch, in the order of their ids.
    pub repeats: BTreeMap<Uuid, i64>,
    /// Whether something is to be delivered.
    pub has_deliveries: bool,
}

impl Kept {
    /// The submissions that are new.
    pub fn new_ids(&self) -> impl Iterator<Item = Uuid> {
        self.accepted.iter().filter_map(|accepted| match accepted {
            Accepted::New(id) => Some(*id),
            Accepted::Duplicate(_) => None,
        })
    }

    /// What is to be taken out again, should the transaction turn out to be committed after it was reported as failed.
    pub fn doubts(&self, transaction: Option<&str>) -> impl Iterator<Item = Doubt> {
        self.new_ids().map(move |id| Doubt {
            id,
            transaction: transaction.map(str::to_owned),
            repeats: self.repeats.get(&id).copied().unwrap_or_default(),
        })
    }
}

/// Keeps them in the caller's transaction, in order of arrival, with ids from `ids`.
///
/// On a server a fingerprint that another replica has added meanwhile fails the transaction by its unique key; then nothing is kept,
/// and the caller tries again.
pub(in crate::inbox::store) fn keep(
    tx: &dyn Sql,
    secret: &Secret,
    jobs: &[Job],
    ids: &mut Ids,
) -> Result<Kept, StoreError> {
    let candidates: Vec<Candidate> = jobs.iter().map(|job| candidate(job, secret, ids)).collect();
    let decision = duplicates::decide(&candidates, known(tx, &candidates)?);
    let new: Vec<(Uuid, &Job)> = decision
        .fates
        .iter()
        .zip(candidates.iter().zip(jobs))
        .filter(|(fate, _)| matches!(fate, Fate::New { .. }))
        .map(|(_, (candidate, job))| (candidate.id, job))
        .collect();
    for (fate, candidate) in decision.fates.iter().zip(&candidates) {
        if *fate == (Fate::New { reuses_key: true }) {
            tracing::info!(id = %candidate.id, "kept a submission whose Idempotency-Key had come with other content before");
        }
    }
    insert_submissions(tx, secret, &new)?;
    // What is due is due by the database's clock at the latest: otherwise a replica whose own is ahead would delay its visitors' mail.
    let latest = change::clock(tx)?.map_or(i64::MAX, Timestamp::as_millisecond);
    let due_at = |received_at: i64| received_at.min(latest);
    let has_deliveries = insert_deliveries(tx, &new, due_at)?;
    insert_fingerprints(tx, &decision.added)?;
    for (hash, Fingerprint { submission, expires_at }) in &decision.changed {
        tx.execute(
            "UPDATE fingerprint SET submission = ?2, expires_at = ?3 WHERE key = ?1",
            values![hash, submission.as_bytes(), expires_at],
        )?;
    }
    for (id, times) in &decision.repeats {
        tx.execute(
            "UPDATE submission SET repeats = repeats + ?2 WHERE id = ?1",
            values![id.as_bytes(), times],
        )?;
    }
    for (id, at) in &decision.released {
        edit::release(tx, *id, rows::time(due_at(*at))?)?;
    }
    prune(tx, &candidates)?;
    let accepted = decision.fates.iter().zip(&candidates).map(|(fate, candidate)| match fate {
        Fate::New { .. } => Accepted::New(candidate.id),
        Fate::Repeat(original) => Accepted::Duplicate(*original),
    });
    Ok(Kept {
        accepted: accepted.collect(),
        repeats: decision.repeats,
        has_deliveries: has_deliveries || !decision.released.is_empty(),
    })
}

fn candidate(job: &Job, secret: &Secret, ids: &mut Ids) -> Candidate {
    let arrival = &job.arrival;
    let received_at = arrival.received_at.as_millisecond();
    let window_ends = received_at.saturating_add(millis(job.options.duplicate_window));
    Candidate {
        id: ids.next(arrival.received_at),
        received_at,
        content: secret.content(&arrival.entry),
        content_expires_at: match arrival.entry.form().sameness {
            Sameness::Address => None,
            Sameness::Content => Some(window_ends),
        },
        key: secret.idempotency_key(arrival).map(|key| (key, window_ends)),
        is_held: arrival.verdict.hold,
    }
}

/// Looks up what the candidates may repeat. On a server the rows stay locked, in the order of their keys, so that they do not change
/// and no two replicas wait for each other.
fn known(tx: &dyn Sql, candidates: &[Candidate]) -> Result<Known, StoreError> {
    let lock = match tx.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE",
    };
    let mut hashes: Vec<Hash> = candidates
        .iter()
        .flat_map(|candidate| candidate.key.map(|(key, _)| key).into_iter().chain([candidate.content]))
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    let mut known = Known::default();
    for row in tx.query_in("SELECT key, submission, expires_at FROM fingerprint WHERE key", &hashes, lock)? {
        let fingerprint = Fingerprint { submission: Uuid::from_bytes(row.get(1)?), expires_at: row.get(2)? };
        known.fingerprints.insert(row.get(0)?, fingerprint);
    }
    let mut originals: Vec<[u8; 16]> =
        known.fingerprints.values().map(|fingerprint| fingerprint.submission.into_bytes()).collect();
    originals.sort_unstable();
    originals.dedup();
    let holds = "SELECT id, held_at, withheld, released_at FROM submission WHERE id";
    for row in tx.query_in(holds, &originals, lock)? {
        let (held_at, released_at): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(3)?);
        let hold = match held_at {
            None => Hold::None,
            Some(_) if row.get(2)? && released_at.is_none() => Hold::Screening,
            Some(_) => Hold::Operator,
        };
        known.submissions.insert(Uuid::from_bytes(row.get(0)?), hold);
    }
    Ok(known)
}

fn insert_submissions(tx: &dyn Sql, secret: &Secret, new: &[(Uuid, &Job)]) -> Result<(), StoreError> {
    /// What a row has that is not in its job.
    struct Made {
        source: Hash,
        sender: Option<Hash>,
        because: Option<String>,
    }
    let made = |(_, job): &(Uuid, &Job)| {
        let (entry, verdict) = (&job.arrival.entry, &job.arrival.verdict);
        Made {
            source: secret.source(job.arrival.source),
            sender: entry.get("email").map(|email| secret.sender(email)),
            because: verdict.hold.then(|| verdict.because()),
        }
    };
    let made: Vec<Made> = new.iter().map(made).collect();
    let mut all = Vec::with_capacity(new.len() * 13);
    for ((id, job), made) in new.iter().zip(&made) {
        let (arrival, verdict) = (&job.arrival, &job.arrival.verdict);
        let received_at = arrival.received_at.as_millisecond();
        all.extend([
            Value::Blob(id.as_bytes()),
            Value::Text(arrival.entry.form().name),
            Value::Integer(received_at),
            job.fields.bind(),
            job.sealed.bind(),
            made.source.bind(),
            made.sender.bind(),
            if verdict.hold { Value::Integer(received_at) } else { Value::Null },
            made.because.bind(),
            Value::Integer(verdict.score.into()),
            job.reasons.bind(),
            Value::Integer(verdict.hold.into()),
            arrival.agent.bind(),
        ]);
    }
    tx.insert(
        "submission (id, form, received_at, fields, sealed, source, sender, held_at, held_because, score, reasons, withheld, agent)",
        13,
        &all,
    )
}

/// Queues the new submissions for their channels, and returns whether there are any.
fn insert_deliveries(
    tx: &dyn Sql,
    new: &[(Uuid, &Job)],
    due_at: impl Fn(i64) -> i64,
) -> Result<bool, StoreError> {
    let mut all = Vec::new();
    for (id, job) in new {
        let due_at = (!job.arrival.verdict.hold).then(|| due_at(job.arrival.received_at.as_millisecond()));
        let state = if due_at.is_some() { "waiting" } else { "held" };
        for channel in job.channels() {
            let due_at = due_at.map_or(Value::Null, Value::Integer);
            all.extend([Value::Blob(id.as_bytes()), channel.name.bind(), Value::Text(state), due_at]);
        }
    }
    tx.insert("delivery (submission, channel, state, due_at)", 4, &all)?;
    Ok(!all.is_empty())
}

fn insert_fingerprints(tx: &dyn Sql, added: &BTreeMap<Hash, Fingerprint>) -> Result<(), StoreError> {
    let mut all: Vec<Value<'_>> = Vec::with_capacity(added.len() * 3);
    for (hash, fingerprint) in added {
        let expires_at = fingerprint.expires_at.map_or(Value::Null, Value::Integer);
        all.extend([hash.bind(), Value::Blob(fingerprint.submission.as_bytes()), expires_at]);
    }
    tx.insert("fingerprint (key, submission, expires_at)", 3, &all)
}

/// Removes expired fingerprints, a few more than a batch of this size can have added.
fn prune(tx: &dyn Sql, candidates: &[Candidate]) -> Result<(), StoreError> {
    let Some(now) = candidates.iter().map(|candidate| candidate.received_at).max() else { return Ok(()) };
    let most = i64::try_from(2 * candidates.len() + 16).unwrap_or(i64::MAX);
    // What another replica removes just now need not be waited for.
    let lock = match tx.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
    };
    let prune = format!(
        "DELETE FROM fingerprint WHERE key IN
         (SELECT key FROM fingerprint WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2 {lock})"
    );
    tx.execute(&prune, values![now, most]).map(drop)
}
