//! The table `intake`. Accepting a submission appends a row, and processing turns rows into submissions.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::delivered_originals::Reach;
use super::form_definition::{self, StoredDefinitions};
use super::rspamd_opinion::HAS_OPINION;
use super::submission_rows::Removable;
use super::transaction::Transaction;
use super::{
    Bind, Dialect, ROWS_AT_A_TIME, Row, Sql, Value, confirmation, pad_keys, release_and_remove,
    submission_rows, values,
};
use crate::store::error::StoreError;
use crate::store::keyed_hash::{Hash, Secret};
use crate::submission::delivery::{Route, choose};
use crate::submission::parse_fields;
use crate::submission::route::reads_fields;
use frontdesk_forms::{DefinitionId, Entry, FieldValue, Form};
use frontdesk_limits::source::Source;
use frontdesk_screening::verdict::ScreeningVerdict;

/// How long the rows of the table `repeat` are kept, in milliseconds.
const REPEATS_ARE_KEPT: i64 = submission_rows::DAY_IN_MILLISECONDS;

/// The table `intake` with the columns that are written when a submission is accepted.
pub(crate) const INTAKE: &str = "intake (id, form, received_at, fields, sealed, source, sender, evidence, agent, \
     channels, content, idempotency_key, network, other_senders, definition, lead, canary)";

/// A submission that is about to be appended to the intake.
pub struct Accepting {
    pub entry: Entry,
    pub idempotency_key: Option<String>,
    /// The sender's IP address or network. Stored as a keyed hash.
    pub source: Source,
    /// When the complete request had been read. Stored with millisecond precision.
    pub received_at: Timestamp,
    /// The host whose key signed the request; `None` for unsigned requests.
    pub agent: Option<String>,
    /// The entry's fields as a JSON object; `{}` if they are encrypted.
    pub fields: String,
    /// The fields as JSON, encrypted to the operator's key.
    pub sealed: Option<Vec<u8>>,
    /// The evidence for screening, as JSON.
    pub evidence: String,
    /// The number of channels that get the submission.
    pub channels: usize,
    /// The source of the lead, as JSON. `None` if it is unknown or encrypted with the fields.
    pub lead: Option<String>,
    /// Marks a test submission of the canary, with the nonce of its token.
    pub canary: Option<Hash>,
}

/// A submission whose commit was reported as failed but may have succeeded.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedCommit {
    pub id: Uuid,
    /// The PostgreSQL server process that executed the commit; `None` for SQLite. While that process is
    /// alive, the commit may still succeed.
    pub backend: Option<String>,
}

/// Appends submissions to the intake, under these ids, one for each, in the same order. First stores their
/// definitions, and adds them to `definitions`. Rows of the canary get neither a definition nor hashes of
/// addresses. With PostgreSQL, executes a single statement if all definitions are stored
/// ([`StoredDefinitions::has_all`]). In any other case, call this in a transaction.
pub(crate) fn append(
    tx: &dyn Sql,
    secret: &Secret,
    definitions: &mut StoredDefinitions,
    accepting: &[Accepting],
    ids: &[Uuid],
) -> Result<(), StoreError> {
    let hashes = |new: &Accepting| {
        let (entry, source) = (&new.entry, new.source);
        let key = new.idempotency_key.as_ref();
        [
            Some(secret.source(source)),
            // Store no hash of the canary's address, so that no search by address finds it.
            entry.emails().next().filter(|_| new.canary.is_none()).map(|email| secret.sender(email)),
            Some(secret.content(entry)),
            key.map(|key| secret.idempotency_key(entry.form().name, source, key)),
            Some(secret.network(source)),
        ]
    };
    let hashes: Vec<[Option<Hash>; 5]> = accepting.iter().map(hashes).collect();
    let other_senders: Vec<Option<Vec<u8>>> =
        accepting.iter().map(|new| hash_other_senders(secret, new)).collect();
    let used = accepting.iter().map(|new| match new.canary {
        // The table `definition` has only the definitions that visitors used, so store none for the canary.
        Some(_) => Ok(None),
        None => definitions.insert(tx, new.entry.form(), new.received_at).map(Some),
    });
    let used = used.collect::<Result<Vec<Option<DefinitionId>>, _>>()?;
    let mut all = Vec::with_capacity(accepting.len() * 17);
    let rows = accepting.iter().zip(&hashes).zip(ids).zip(other_senders.iter().zip(&used));
    for (((new, [source, sender, content, key, network]), id), (other_senders, definition)) in rows {
        all.extend([
            id.bind(),
            Value::Text(new.entry.form().name),
            Value::Integer(new.received_at.as_millisecond()),
            new.fields.bind(),
            new.sealed.bind(),
            source.bind(),
            sender.bind(),
            new.evidence.bind(),
            new.agent.bind(),
            new.channels.bind(),
            content.bind(),
            key.bind(),
            network.bind(),
            other_senders.bind(),
            definition.bind(),
            new.lead.bind(),
            new.canary.bind(),
        ]);
    }
    tx.insert(INTAKE, 17, &all)
}

/// The joined hashes of the e-mail addresses after the first one; `None` if there are none, and for the
/// canary.
fn hash_other_senders(secret: &Secret, new: &Accepting) -> Option<Vec<u8>> {
    let emails = new.entry.emails().filter(|_| new.canary.is_none());
    let hashes = emails.skip(1).map(|email| secret.sender(email));
    let joined: Vec<u8> = hashes.flatten().collect();
    (!joined.is_empty()).then_some(joined)
}

/// The columns that are copied unchanged from the intake to a submission.
const TAKEN_OVER: [&str; 12] = [
    "id",
    "form",
    "received_at",
    "fields",
    "sealed",
    "source",
    "sender",
    "agent",
    "idempotency_key",
    "other_senders",
    "definition",
    "lead",
];

/// A row of the intake: an accepted submission that is not processed yet.
pub struct PendingRow {
    row: Row,
    pub id: Uuid,
    /// The definition that the submission was sent with, or else the built-in definition of its form.
    pub definition: Option<&'static Form>,
    /// When the submission was received, as Unix time in milliseconds.
    pub received_at: i64,
    pub is_sealed: bool,
    pub source: Hash,
    pub network: Hash,
    /// Hash of the idempotency key.
    pub key: Option<Hash>,
    pub content: Hash,
    pub agent: Option<String>,
    /// The nonce of the token, if this is a test submission of the canary.
    pub canary: Option<Hash>,
}

impl PendingRow {
    /// Reads a row. Rows written by older versions have no network: their source is used instead.
    fn from_row(sql: &dyn Sql, row: Row) -> Result<PendingRow, StoreError> {
        let source: Hash = row.get("source")?;
        Ok(PendingRow {
            id: row.get("id")?,
            definition: form_definition::of_row(sql, &row)?,
            received_at: row.get("received_at")?,
            is_sealed: row.get::<Option<Vec<u8>>>("sealed")?.is_some(),
            source,
            network: row.get::<Option<Hash>>("network")?.unwrap_or(source),
            key: row.get("idempotency_key")?,
            content: row.get("content")?,
            agent: row.get("agent")?,
            canary: row.get("canary")?,
            row,
        })
    }

    pub fn form(&self) -> Result<&str, StoreError> {
        self.row.text("form")
    }

    /// The fields; empty if they are encrypted.
    pub fn fields(&self) -> Result<Vec<(String, FieldValue)>, StoreError> {
        parse_fields(self.row.text("fields")?.as_bytes()).map_err(StoreError::Damaged)
    }

    /// The evidence for screening, as JSON.
    pub fn evidence(&self) -> Result<&str, StoreError> {
        self.row.text("evidence")
    }
}

/// Why a submission is held back from delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldCause {
    None,
    /// The submission arrived during a flood, and is released when the flood ends.
    Flood,
    Screening,
    Operator,
    /// The visitor has not confirmed the address.
    Unconfirmed,
}

/// A processed row of the intake that becomes a submission.
pub struct NewSubmission<'a> {
    pub row: &'a PendingRow,
    /// The content hash, with a day prefix for some forms, by which [`Transaction::find_originals`] finds the
    /// submission.
    pub content: Hash,
    /// Why the submission is held, if it is; never [`HoldCause::Operator`].
    pub hold: HoldCause,
    pub rank: i64,
    pub verdict: ScreeningVerdict,
    /// Whether the submission is held only because suspicious visitors are not asked for a confirmation.
    pub is_unasked: bool,
    /// How much later than usual the submission's deliveries and emails are due, in milliseconds.
    pub delay: i64,
}

impl NewSubmission<'_> {
    /// When the submission's deliveries are due, as Unix time in milliseconds: `delay` after it was received.
    /// `latest` is the current time by the database's clock, at which later times are capped.
    pub(crate) fn due_at(&self, latest: i64) -> i64 {
        self.row.received_at.min(latest).saturating_add(self.delay)
    }
}

/// A stored submission that a new one may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    pub id: Uuid,
    /// When the submission was received, as Unix time in milliseconds.
    pub received_at: i64,
    pub hold: HoldCause,
    pub is_suspicious: bool,
    pub source: Hash,
    /// Whether the submission has been delivered, or will be delivered soon or after its release. Also true
    /// if no configured channel would get it.
    pub is_deliverable: bool,
}

/// Whether an accepted request is stored as a new submission or repeats an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    New(Uuid),
    /// A repeat. Contains the id of the earlier submission.
    Duplicate(Uuid),
}

impl Accepted {
    /// The id of the new submission, or of the earlier one that the request repeats.
    pub fn id(self) -> Uuid {
        match self {
            Accepted::New(id) | Accepted::Duplicate(id) => id,
        }
    }
}

/// Whether any of these channels accepts submissions to a form, perhaps only with certain values. Used for
/// encrypted submissions, whose values cannot be read.
pub fn has_channel_for(channels: &[Route], form: &str) -> bool {
    channels.iter().any(|channel| channel.accepts(form))
}

/// Whether one of these channels would get a submission, a row with the columns `form`, `fields` and
/// `is_sealed`. For an encrypted submission, whether one may get it: a repeat is then stored, not lost.
fn would_get(channels: &[Route], row: &Row) -> Result<bool, StoreError> {
    let form = row.text("form")?;
    if row.get::<bool>("is_sealed")? || !reads_fields(channels, form) {
        return Ok(has_channel_for(channels, form));
    }
    let fields = parse_fields(row.text("fields")?.as_bytes()).map_err(StoreError::Damaged)?;
    Ok(!choose(channels, form, &fields).is_empty())
}

impl Transaction<'_> {
    /// Tries to acquire the lock that lets this transaction process the intake, until its end. Returns false
    /// if another replica has it. If this replica hangs or is cut off, the server ends the transaction after
    /// five seconds. With SQLite, this always succeeds, because only one server processes the intake in a
    /// file.
    pub fn try_intake_turn(&self) -> Result<bool, StoreError> {
        let lock =
            "SELECT pg_try_advisory_xact_lock(hashtextextended('frontdesk intake ' || current_schema(), 0)) AS is_locked,
             set_config('idle_in_transaction_session_timeout', '5s', true)";
        if self.sql.dialect() == Dialect::Sqlite {
            Ok(true)
        } else {
            self.sql.one(lock, &[])?.get("is_locked")
        }
    }

    /// Reads up to `most` rows of the intake with ids in this range, oldest first, and returns whether there
    /// may be more. Reads fewer with SQLite if they are large (see `BATCH_BYTES`). Skips rows that are set
    /// aside or locked, but not those of the canary. Fails if any row is damaged.
    pub fn read_pending(
        &self,
        most: usize,
        ids: &RangeInclusive<Uuid>,
    ) -> Result<(Vec<PendingRow>, bool), StoreError> {
        let most = size_of_batch(self.sql, most, ids)?;
        let oldest = format!(
            "SELECT {}, content, evidence, network, canary FROM intake WHERE error IS NULL AND id >= ?2 AND id <= ?3
             ORDER BY id LIMIT ?1 {}",
            TAKEN_OVER.join(", "),
            self.sql.dialect().skip_locked_clause()
        );
        let rows = self.sql.query(&oldest, values![most, ids.start(), ids.end()])?;
        let has_more = rows.len() == most;
        Ok((
            rows.into_iter().map(|row| PendingRow::from_row(self.sql, row)).collect::<Result<_, _>>()?,
            has_more,
        ))
    }

    /// Inserts submissions and their deliveries for those of the `channels` that get them ([`choose`], for
    /// which an encrypted submission has no fields), and returns the number of deliveries, including held
    /// ones. Deliveries are due on arrival or after a delay, unless their submission is held. Begins the wait
    /// for the confirmation of an address if the submission is held for it; the mail that asks is queued
    /// later. `latest` is the current time by the database's clock, in milliseconds.
    pub fn insert_submissions(
        &self,
        new: &[NewSubmission<'_>],
        channels: &[Route],
        latest: i64,
    ) -> Result<usize, StoreError> {
        let tx = self.sql;
        let json = |new: &NewSubmission<'_>| {
            let reasons = &new.verdict.reasons;
            (!reasons.is_empty()).then(|| json!(reasons).to_string())
        };
        let reasons: Vec<Option<String>> = new.iter().map(json).collect();
        let mut values = Vec::with_capacity(new.len() * 22);
        let mut deliveries = Vec::new();
        for (new, reasons) in new.iter().zip(&reasons) {
            let is_held = new.hold != HoldCause::None;
            for column in TAKEN_OVER {
                values.push(new.row.row.value(column)?);
            }
            values.extend([
                new.content.bind(),
                if is_held { Value::Integer(new.row.received_at) } else { Value::Null },
                // The stored reason for the hold; null if there is none, or if other columns show it.
                match new.hold {
                    HoldCause::Unconfirmed => Value::Text(confirmation::UNCONFIRMED),
                    HoldCause::Screening if new.is_unasked => {
                        Value::Text(submission_rows::SUSPICIOUS_UNASKED)
                    }
                    _ => Value::Null,
                },
                new.verdict.score.bind(),
                new.verdict.threshold.bind(),
                reasons.bind(),
                Value::Integer(matches!(new.hold, HoldCause::Flood | HoldCause::Screening).into()),
                Value::Integer(new.verdict.suspicious.into()),
                Value::Integer((new.hold == HoldCause::Flood).into()),
                new.row.network.bind(),
            ]);
            let (state, due_at) =
                if is_held { ("held", Value::Null) } else { ("waiting", Value::Integer(new.due_at(latest))) };
            let form = new.row.form()?;
            let fields = if reads_fields(channels, form) { new.row.fields()? } else { Vec::new() };
            for channel in choose(channels, form, &fields) {
                deliveries.extend([
                    Value::Blob(new.row.id.as_bytes()),
                    channel.name.bind(),
                    Value::Text(state),
                    due_at,
                    Value::Integer(new.rank),
                ]);
            }
        }
        tx.insert(
            &format!(
                "submission ({}, content, held_at, held_because, score, threshold, reasons, withheld, suspicious, flood, \
                 network)",
                TAKEN_OVER.join(", ")
            ),
            22,
            &values,
        )?;
        tx.insert("delivery (submission, channel, state, due_at, rank)", 5, &deliveries)?;
        for new in new.iter().filter(|new| new.hold == HoldCause::Unconfirmed) {
            if let Some(rule) = confirmation::confirmation_rule(channels, new.row.form()?) {
                let at = submission_rows::to_timestamp(new.due_at(latest))?;
                confirmation::open(tx, new.row.id, at, new.rank, rule)?;
            }
        }
        Ok(deliveries.len() / 5)
    }

    /// Records repeats, as pairs of the request's id and the original's id.
    pub fn insert_repeats(&self, repeats: &[(Uuid, Uuid)]) -> Result<(), StoreError> {
        let values: Vec<Value<'_>> =
            repeats.iter().flat_map(|(id, original)| [id.bind(), original.bind()]).collect();
        self.sql.insert("repeat (id, submission)", 2, &values)
    }

    /// Those of the sorted `ids` that are still in the intake. With PostgreSQL, all: their rows were locked
    /// when they were read.
    pub fn still_pending(&self, ids: Vec<[u8; 16]>) -> Result<Vec<[u8; 16]>, StoreError> {
        if self.sql.dialect() == Dialect::Postgres {
            return Ok(ids);
        }
        let left = self.sql.query_in("SELECT id FROM intake WHERE", "id", &ids, "")?;
        left.iter().map(|row| row.get("id")).collect()
    }

    /// Removes processed rows from the intake, and at most about twice as many expired rows from each of the
    /// tables `repeat` and `network_rate`. `newest` is when the newest row was received, and `latest` is the
    /// current time by the database's clock, both in milliseconds.
    pub fn finish_pending(&self, ids: &[[u8; 16]], newest: i64, latest: i64) -> Result<(), StoreError> {
        let tx = self.sql;
        tx.execute_in("DELETE FROM intake WHERE", "id", &[], ids)?;
        let most = i64::try_from(2 * ids.len() + 16).unwrap_or(i64::MAX);
        // Skip expired rows that another replica is removing: waiting for its transaction would delay this
        // one.
        let lock = tx.dialect().skip_locked_clause();
        let old = format!("SELECT id FROM repeat WHERE id < ?1 ORDER BY id LIMIT ?2 {lock}");
        let old = tx.column(
            &old,
            values![submission_rows::first_id_at(newest.saturating_sub(REPEATS_ARE_KEPT)), most],
        )?;
        tx.execute_in("DELETE FROM repeat WHERE", "id", &[], &old)?;
        // Look through a few neighboring rows, beginning at a random place: the last bytes of an id are
        // random. That needs no index by time, which each submission would change.
        let mut place = ids.last().copied().unwrap_or_default();
        place.reverse();
        let rested = format!(
            "SELECT network FROM (
                 SELECT network, rested FROM network_rate WHERE network >= ?2 ORDER BY network LIMIT ?3 {lock}
             ) AS visited WHERE rested < ?1"
        );
        let rested = tx.column(&rested, values![newest.min(latest).saturating_mul(1000), place, most])?;
        tx.execute_in("DELETE FROM network_rate WHERE", "network", &[], &rested).map(drop)
    }

    /// Finds the newest submission for each content hash. `contents` maps stored hashes, which may have a day
    /// prefix, to content hashes; `now` is in milliseconds. A submission that an opinion of rspamd has marked
    /// does not count as suspicious. If an opinion has stopped it, or if it was held again after a release,
    /// it counts as held by the operator. With PostgreSQL, locks the rows in the order of their hashes, so
    /// that replicas cannot deadlock.
    pub fn find_originals(
        &self,
        contents: &BTreeMap<Hash, Hash>,
        channels: &[Route],
        now: i64,
    ) -> Result<HashMap<Hash, Original>, StoreError> {
        let stored: Vec<Hash> = contents.keys().copied().collect();
        let columns = format!(
            "id, received_at, held_at, withheld, released_at, suspicious, flood, source, form, fields, \
             sealed IS NOT NULL AS is_sealed, {HAS_OPINION} AS has_opinion, \
             EXISTS (SELECT 1 FROM confirmation WHERE submission = submission.id AND state = 'open') AS is_unconfirmed"
        );
        let rows =
            newest_with_hashes(self.sql, &columns, "content", &stored, self.sql.dialect().row_lock_clause())?;
        let reach = Reach::read(self.sql, &rows, channels, now)?;
        let mut originals = HashMap::new();
        for row in rows {
            let held_at: Option<i64> = row.get("held_at")?;
            let released_at: Option<i64> = row.get("released_at")?;
            // Screening had not marked a submission that has an opinion. The same text gets the same opinion,
            // so a repeat of it is no worse; but the repeat does not release what the opinion has stopped.
            let has_opinion: bool = row.get("has_opinion")?;
            let hold = match held_at {
                None => HoldCause::None,
                Some(_) if row.get("is_unconfirmed")? => HoldCause::Unconfirmed,
                Some(_) if row.get("flood")? => HoldCause::Flood,
                Some(_) if row.get("withheld")? && !has_opinion && released_at.is_none() => {
                    HoldCause::Screening
                }
                Some(_) => HoldCause::Operator,
            };
            let id: [u8; 16] = row.get("id")?;
            let original = Original {
                id: Uuid::from_bytes(id),
                received_at: row.get("received_at")?,
                hold,
                is_suspicious: row.get::<bool>("suspicious")? && !has_opinion,
                source: row.get("source")?,
                // True if no channel would get the submission; if it was delivered and no channel is stuck;
                // or, unless it is encrypted, if it is held, or about to be delivered and not stuck.
                is_deliverable: !would_get(channels, &row)?
                    || !reach.stuck.contains(&id) && reach.delivered.contains(&id)
                    // A held submission counts unless it is encrypted: its release inserts the missing
                    // deliveries.
                    || !row.get::<bool>("is_sealed")?
                        && (hold != HoldCause::None
                            || !reach.stuck.contains(&id) && reach.pending.contains(&id)),
            };
            let content = contents.get(&row.get::<Hash>("content")?).copied().unwrap_or_default();
            let newest = originals.entry(content).or_insert(original);
            if original.id > newest.id {
                *newest = original;
            }
        }
        Ok(originals)
    }

    /// When the newest submission with each idempotency key was received, in milliseconds. `keys` are hashes,
    /// and must be sorted.
    pub fn key_uses(&self, keys: &[Hash]) -> Result<HashMap<Hash, i64>, StoreError> {
        let rows = newest_with_hashes(self.sql, "received_at", "idempotency_key", keys, "")?;
        rows.iter().map(|row| Ok((row.get("idempotency_key")?, row.get("received_at")?))).collect()
    }

    /// Adds `times` to the number of a submission's repeats.
    pub fn add_repeats(&self, id: Uuid, times: i64) -> Result<(), StoreError> {
        self.execute_for(id, "UPDATE submission SET repeats = repeats + ?2 WHERE id = ?1", times)
    }

    /// Makes a flood the cause of the hold of a submission, which must be held. The hold then begins at `at`,
    /// in milliseconds. Inserts the submission's missing deliveries for `channels`, also held.
    pub fn hold_in_flood(&self, id: Uuid, at: i64, channels: &[Route]) -> Result<(), StoreError> {
        self.sql.execute(
            "UPDATE submission SET flood = 1, held_at = ?3, held_because = ?2, held_as_spam = 0
             WHERE id = ?1 AND held_at IS NOT NULL",
            values![id, "the form has had more than its quota", at],
        )?;
        release_and_remove::add_deliveries(self.sql, id, None, channels).map(drop)
    }

    /// Releases a held submission. Its deliveries become due at `at`, in milliseconds. If a confirmation must
    /// be asked for first, asks for it instead.
    pub fn release_at(&self, id: Uuid, at: i64, channels: &[Route]) -> Result<(), StoreError> {
        release_and_remove::release(self.sql, id, submission_rows::to_timestamp(at)?, channels).map(drop)
    }

    pub fn set_suspicious(&self, id: Uuid, is_suspicious: bool) -> Result<(), StoreError> {
        self.execute_for(id, "UPDATE submission SET suspicious = ?2 WHERE id = ?1", is_suspicious)
    }

    /// Moves the start of a submission's hold to `at`, in milliseconds, if that is later.
    pub fn prolong_hold(&self, id: Uuid, at: i64) -> Result<(), StoreError> {
        self.execute_for(id, "UPDATE submission SET held_at = ?2 WHERE id = ?1 AND held_at < ?2", at)
    }

    /// Lowers the ranks of a submission's deliveries to at most `rank`. Leaves delivered ones unchanged.
    pub fn lower_rank(&self, id: Uuid, rank: i64) -> Result<(), StoreError> {
        self.execute_for(
            id,
            "UPDATE delivery SET rank = ?2 WHERE submission = ?1 AND rank > ?2 AND state <> 'delivered'",
            rank,
        )
    }

    /// Sets the rank of a submission's deliveries. Leaves delivered ones unchanged.
    pub fn set_rank(&self, id: Uuid, rank: i64) -> Result<(), StoreError> {
        self.execute_for(
            id,
            "UPDATE delivery SET rank = ?2 WHERE submission = ?1 AND state <> 'delivered'",
            rank,
        )
    }

    /// Sets aside a row that cannot be processed, and stores why. Removes it instead if it is the canary's.
    /// Does nothing if the row has been removed.
    pub fn set_aside(&self, id: Uuid, error: &str) -> Result<(), StoreError> {
        self.sql.execute("DELETE FROM intake WHERE id = ?1 AND canary IS NOT NULL", values![id])?;
        self.execute_for(id, "UPDATE intake SET error = ?2 WHERE id = ?1", error)
    }

    /// Executes a statement with the parameters `id` and `value`.
    fn execute_for(&self, id: Uuid, statement: &str, value: impl Bind) -> Result<(), StoreError> {
        self.sql.execute(statement, values![id, value]).map(drop)
    }

    /// The id of the oldest row of the intake that is not set aside.
    pub fn oldest_pending(&self) -> Result<Option<Uuid>, StoreError> {
        self.sql.value("SELECT id FROM intake WHERE error IS NULL ORDER BY id LIMIT 1", &[])
    }

    /// The outcome of an accepted request; `None` until it is processed. Any id that is neither in the intake
    /// nor that of a repeat in the last day counts as new, even if its submission has been removed.
    pub(crate) fn find_outcome(&self, id: Uuid) -> Result<Option<Accepted>, StoreError> {
        // Query the intake first: otherwise, a row that another replica processes between the two queries
        // would be found in neither table, and a repeat would be mistaken for a new submission.
        if self.sql.exists("SELECT 1 FROM intake WHERE id = ?1", values![id])? {
            return Ok(None);
        }
        let original = self.sql.value("SELECT submission FROM repeat WHERE id = ?1", values![id])?;
        Ok(Some(original.map_or(Accepted::New(id), Accepted::Duplicate)))
    }
}

/// With SQLite, the maximum total size, in bytes, of the fields that one transaction processes, unless a
/// single row is larger. The limit is low, because visitors wait for the transaction.
const BATCH_BYTES: i64 = 512 * 1024;

/// How many of the oldest `most` rows to process: with SQLite, as many as fit into [`BATCH_BYTES`], but at
/// least one; with PostgreSQL, `most`, because visitors do not wait for that.
fn size_of_batch(tx: &dyn Sql, most: usize, ids: &RangeInclusive<Uuid>) -> Result<usize, StoreError> {
    if tx.dialect() == Dialect::Postgres {
        return Ok(most);
    }
    let sizes = format!(
        "SELECT i.id, {} AS bytes FROM intake i WHERE i.error IS NULL AND i.id >= ?2 AND i.id <= ?3 ORDER BY i.id LIMIT ?1",
        submission_rows::size_expression(tx.dialect(), "i")
    );
    let sizes: Vec<Removable> = tx.query_as(&sizes, values![most, ids.start(), ids.end()])?;
    let fitting = submission_rows::count_fitting(&sizes, BATCH_BYTES);
    Ok(if fitting == sizes.len() { most } else { fitting })
}

/// For each hash, reads `columns`, followed by the hash, from the newest submission that has it in `column`.
/// Does not read older submissions, because there may be many. The hashes must be sorted. With PostgreSQL,
/// the clause `lock` locks the rows in the order of their hashes.
fn newest_with_hashes(
    tx: &dyn Sql,
    columns: &str,
    column: &str,
    hashes: &[Hash],
    lock: &str,
) -> Result<Vec<Row>, StoreError> {
    let mut found = Vec::new();
    if tx.dialect() == Dialect::Sqlite {
        let newest = format!(
            "SELECT {columns}, {column} FROM submission WHERE {column} = ?1 ORDER BY id DESC LIMIT 1"
        );
        for hash in hashes {
            found.extend(tx.query(&newest, values![hash])?);
        }
        return Ok(found);
    }
    for hashes in hashes.chunks(ROWS_AT_A_TIME[0]) {
        let hashes = pad_keys(hashes);
        let wanted: Vec<String> =
            (1..=hashes.len()).map(|number| format!("(CAST(?{number} AS bytea))")).collect();
        let newest = format!(
            "SELECT {columns}, {column} FROM submission WHERE id IN (
                 SELECT (SELECT s.id FROM submission s WHERE s.{column} = wanted.column1 \
                 ORDER BY s.id DESC LIMIT 1)
                 FROM (VALUES {}) AS wanted) ORDER BY {column} {lock}",
            wanted.join(", ")
        );
        let hashes: Vec<Value<'_>> = hashes.into_iter().map(Bind::bind).collect();
        found.extend(tx.query(&newest, &hashes)?);
    }
    Ok(found)
}

/// Whether a request with this id was stored, processed or not.
pub(crate) fn is_stored(tx: &dyn Sql, id: Uuid) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM intake WHERE id = ?1 UNION ALL SELECT 1 FROM submission WHERE id = ?1
         UNION ALL SELECT 1 FROM repeat WHERE id = ?1",
        values![id],
    )
}

/// Removes submissions whose commit was reported as failed but succeeded, processed or not. Keeps those that
/// have been repeated since, because a visitor has received a 200 for the repeat.
pub(crate) fn remove_unresolved(tx: &dyn Sql, unresolved: &[UnresolvedCommit]) -> Result<(), StoreError> {
    let ids: Vec<[u8; 16]> = unresolved.iter().map(|commit| commit.id.into_bytes()).collect();
    tx.execute_in("DELETE FROM intake WHERE", "id", &[], &ids)?;
    tx.execute_in("DELETE FROM submission WHERE repeats = 0 AND", "id", &[], &ids).map(drop)
}
