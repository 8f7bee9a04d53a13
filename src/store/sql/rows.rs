//! How rows are read, and which are chosen: what the statements about submissions have in common.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Cell, Row};
use crate::screening::{Reason, Signal};
use crate::store::{Filter, StoreError};
use crate::submission::{Hold, Screening, Status, Submission};

pub(super) const DAY_IN_MILLISECONDS: i64 = 86_400_000;

/// Where `accepted s` stands: it follows from what was decided about it and from its deliveries. One that needs the operator
/// shows, whatever became of the others.
macro_rules! status {
    () => {
        "CASE WHEN s.error IS NOT NULL THEN 'parked' WHEN s.held_at IS NOT NULL THEN 'held' WHEN s.channels > 0 THEN 'waiting' ELSE coalesce(
            (SELECT CASE max(CASE state WHEN 'parked' THEN 3 WHEN 'delivered' THEN 1 ELSE 2 END)
                WHEN 3 THEN 'parked' WHEN 2 THEN 'waiting' WHEN 1 THEN 'delivered' END
             FROM delivery WHERE submission = s.id), 'kept') END"
    };
}

/// See [`Status`]; an expression over `accepted s`.
pub(super) const STATUS: &str = status!();

/// What [`submission`] reads, of `accepted s`.
pub(super) const SUBMISSION: &str = concat!(
    "s.id, s.form, s.received_at, s.fields, s.source, s.repeats, s.sealed, s.held_at, s.held_because, ",
    status!(),
    ", s.score, s.reasons, s.withheld, s.released_at, s.agent, s.error, s.suspicious"
);

/// What a filter selects of `accepted s`, limit aside, and the values for its numbered parameters.
pub(super) fn condition(filter: &Filter) -> (String, Vec<Cell>) {
    let mut values: Vec<Cell> = Vec::new();
    let mut parts = vec!["TRUE".to_owned()];
    let mut with = |part: &dyn Fn(usize) -> String, value: Cell| {
        values.push(value);
        parts.push(part(values.len()));
    };
    if let Some(form) = &filter.form {
        with(&|n| format!("s.form = ?{n}"), Cell::Text(form.clone()));
    }
    if let Some(id) = filter.id {
        with(&|n| format!("s.id = ?{n}"), Cell::Blob(id.into_bytes().to_vec()));
    }
    if let Some(before) = filter.before {
        with(&|n| format!("s.id < ?{n}"), Cell::Blob(before.into_bytes().to_vec()));
    }
    if let Some(after) = filter.after {
        with(&|n| format!("s.id > ?{n}"), Cell::Blob(after.into_bytes().to_vec()));
    }
    if let Some(channel) = &filter.channel {
        with(
            &|n| format!("EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND channel = ?{n})"),
            Cell::Text(channel.clone()),
        );
    }
    // Ids begin with the time of arrival: those of other times need not be looked at.
    if let Some(from) = filter.from.map(Timestamp::as_millisecond) {
        with(&|n| format!("s.id >= ?{n}"), Cell::Blob(id_before(from).to_vec()));
        with(&|n| format!("s.received_at >= ?{n}"), Cell::Integer(from));
    }
    if let Some(until) = filter.until.map(Timestamp::as_millisecond) {
        with(&|n| format!("s.id < ?{n}"), Cell::Blob(id_before(until).to_vec()));
        with(&|n| format!("s.received_at < ?{n}"), Cell::Integer(until));
    }
    if let Some(status) = filter.status {
        parts.push(
            match status {
                Status::Held => "s.held_at IS NOT NULL AND s.error IS NULL",
                Status::Parked => {
                    "(s.error IS NOT NULL OR s.held_at IS NULL AND s.id IN (SELECT submission FROM delivery WHERE state = 'parked'))"
                }
                // Asked of each submission: a set of all that wait would be made anew for each page of a listing.
                Status::Waiting => {
                    "s.held_at IS NULL AND s.error IS NULL
                     AND (s.channels > 0 OR EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND due_at IS NOT NULL))
                     AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND state = 'parked')"
                }
                Status::Delivered => {
                    "s.held_at IS NULL AND EXISTS (SELECT 1 FROM delivery WHERE submission = s.id)
                     AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND state <> 'delivered')"
                }
                Status::Kept => {
                    "s.held_at IS NULL AND s.error IS NULL AND coalesce(s.channels, 0) = 0
                     AND NOT EXISTS (SELECT 1 FROM delivery WHERE submission = s.id)"
                }
            }
            .to_owned(),
        );
    }
    (parts.join(" AND "), values)
}

/// Reads the columns of [`SUBMISSION`].
pub(super) fn submission(row: &Row) -> Result<Submission, StoreError> {
    let text: String = row.get(3).map_err(|_| StoreError::Damaged("fields are not text"))?;
    let fields = fields(&text)?;
    let source: [u8; 16] = row.get(4)?;
    let status: String = row.get(9)?;
    let held_at: Option<i64> = row.get(7)?;
    let because: Option<String> = row.get(8)?;
    let held = held_at.map(time).transpose()?;
    Ok(Submission {
        id: Uuid::from_bytes(row.get(0)?),
        form: row.get(1)?,
        received_at: time(row.get(2)?)?,
        status: Status::named(&status).ok_or(StoreError::Damaged("a status is unknown"))?,
        screening: screening(row)?,
        released_at: row.get::<Option<i64>>(13)?.map(time).transpose()?,
        agent: row.get(14)?,
        error: row.get(15)?,
        held: held.map(|since| Hold { since, because: because.unwrap_or_default() }),
        fields,
        sealed: row.get(6)?,
        source: Uuid::from_bytes(source).simple().to_string(),
        repeats: u64::try_from(row.get::<i64>(5)?).unwrap_or_default(),
    })
}

fn screening(row: &Row) -> Result<Option<Screening>, StoreError> {
    let Some(score) = row.get::<Option<u32>>(10)? else { return Ok(None) };
    let text: Option<String> = row.get(11)?;
    let reasons = text.as_deref().map(reasons).transpose()?.unwrap_or_default();
    Ok(Some(Screening { score, reasons, withheld: row.get(12)?, suspicious: row.get(16)? }))
}

/// Reads screening's reasons. A signal that another version knew and this one does not is left out.
pub(super) fn reasons(text: &str) -> Result<Vec<Reason>, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("reasons are not what screening writes");
    let found: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| DAMAGED)?;
    let mut reasons = Vec::with_capacity(found.len());
    for reason in &found {
        let name = reason["signal"].as_str().ok_or(DAMAGED)?;
        let points = reason["points"].as_u64().and_then(|points| points.try_into().ok()).ok_or(DAMAGED)?;
        let detail = reason["detail"].as_str().ok_or(DAMAGED)?.to_owned();
        reasons.extend(Signal::named(name).map(|signal| Reason { signal, points, detail }));
    }
    Ok(reasons)
}

/// Reads a JSON object of texts.
pub(in crate::store) fn fields(text: &str) -> Result<Vec<(String, String)>, StoreError> {
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|_| StoreError::Damaged("fields are not a JSON object"))?;
    fields
        .into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => Ok((name, text)),
            _ => Err(StoreError::Damaged("a field is not text")),
        })
        .collect()
}

/// Unix time in milliseconds.
pub(in crate::store) fn time(milliseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(milliseconds).map_err(|_| StoreError::Damaged("a time is out of range"))
}

/// An id that no submission of an earlier millisecond exceeds.
pub(super) fn id_before(millisecond: i64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millisecond.max(0).to_be_bytes()[2..]);
    id
}
