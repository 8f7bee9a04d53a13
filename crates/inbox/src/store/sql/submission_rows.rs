//! Selects and reads submissions, and divides changes to many submissions into transactions of bounded size.

use jiff::Timestamp;
use jiff::civil::Date;
use uuid::Uuid;

use super::{Cell, Dialect, Row, Sql, form_definition, from_row, values};
use crate::store::error::StoreError;
use crate::submission::delivery_outcome::Recipients;
use crate::submission::{Confirmation, Hold, Screening, Status, Submission, parse_fields};
use frontdesk_forms::LeadSource;
use frontdesk_screening::verdict::{ScreeningReason, ScreeningVerdict, Signal};

pub(super) const DAY_IN_MILLISECONDS: i64 = 86_400_000;

/// An SQL expression for the status of `accepted s`, derived from the submission's hold and deliveries. A
/// parked delivery takes precedence over all others. Mails to visitors do not count.
macro_rules! status {
    () => {
        "CASE WHEN s.error IS NOT NULL THEN 'parked' WHEN s.held_at IS NOT NULL THEN CASE WHEN EXISTS \
         (SELECT 1 FROM confirmation WHERE submission = s.id AND state = 'open') THEN 'unconfirmed' ELSE 'held' END WHEN s.channels > 0 THEN 'waiting' ELSE coalesce(
            (SELECT CASE max(CASE state WHEN 'parked' THEN 3 WHEN 'delivered' THEN 1 ELSE 2 END)
                WHEN 3 THEN 'parked' WHEN 2 THEN 'waiting' WHEN 1 THEN 'delivered' END
             FROM delivery WHERE submission = s.id AND substr(channel, 1, 8) <> 'visitor:'), 'kept') END"
    };
}

pub(super) const STATUS: &str = status!();

/// An SQL condition on deliveries: true for a delivery to the team, false for a mail to a visitor.
macro_rules! to_team {
    () => {
        "substr(channel, 1, 8) <> 'visitor:'"
    };
}
pub(super) use to_team;

pub(super) const TO_TEAM: &str = to_team!();
/// A condition on deliveries: true for the mails that ask a visitor to confirm the address. They are sent
/// although the submission is held.
pub(super) const ASKS: &str = "channel IN ('visitor:confirmation', 'visitor:reminder')";
/// A condition on deliveries: true while the submission's text is needed. A mail to a visitor that has failed
/// for good needs it no longer.
pub(super) const NEEDS_TEXT: &str =
    "state <> 'delivered' AND NOT (state = 'parked' AND substr(channel, 1, 8) = 'visitor:')";

/// The columns of `accepted s` that [`read_submission`] reads. The view `accepted` unites `submission` and
/// `intake`, without test submissions of the canary; only rows of `intake` have `channels` and `error`.
pub(super) const SUBMISSION: &str = concat!(
    "s.id, s.form, s.received_at, s.fields, s.source, s.repeats, s.sealed, s.held_at, s.held_because, ",
    "s.definition, ",
    status!(),
    " AS status, s.score, s.threshold, s.reasons, s.withheld, s.released_at, s.agent, s.error, s.suspicious, s.lead, ",
    "(SELECT expires_at FROM confirmation WHERE submission = s.id) AS link_expires_at, ",
    "(SELECT confirmed_at FROM confirmation WHERE submission = s.id) AS confirmed_at, ",
    "(SELECT mailed_at FROM confirmation WHERE submission = s.id) AS asked_at"
);

/// A filter that selects submissions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub id: Option<Uuid>,
    pub form: Option<String>,
    pub status: Option<Status>,
    /// Selects only submissions with a delivery through this channel.
    pub channel: Option<String>,
    /// The earliest time of arrival, inclusive.
    pub from: Option<Timestamp>,
    /// The latest time of arrival, exclusive.
    pub until: Option<Timestamp>,
    /// Selects only ids below this one.
    pub before: Option<Uuid>,
    /// Selects only ids above this one.
    pub after: Option<Uuid>,
    /// `true` selects only submissions that are marked as done, and `false` only the others.
    pub is_done: Option<bool>,
    /// `true` selects only held submissions, unconfirmed ones included, and `false` only the others.
    pub is_held: Option<bool>,
    /// Selects only submissions to these forms; none if the list is empty.
    pub forms: Option<Vec<String>>,
    /// Selects only submissions not opened since they arrived or were last marked as unread. If false,
    /// selects read ones too.
    pub is_unread: bool,
    /// `true` selects only submissions that are marked as spam, and `false` only the others.
    pub is_spam: Option<bool>,
    /// Selects only submissions that are assigned to this user. An empty name selects unassigned submissions.
    pub assignee: Option<String>,
    /// Selects only submissions with a follow-up date on or before this day, whether or not they are done.
    pub follow_up_until: Option<Date>,
    pub limit: Option<usize>,
}

/// A filter's SQL condition on `accepted s`, and the values of its parameters, which are numbered from `?1`.
/// Ignores the filter's limit. A submission that is not processed yet counts as unread, and as neither held,
/// done nor spam.
pub(super) fn filter_condition(filter: &Filter) -> (String, Vec<Cell>) {
    let mut values: Vec<Cell> = Vec::new();
    let mut parts = vec!["TRUE".to_owned()];
    // Appends a condition that compares a column with a parameter.
    let mut with = |before: &str, value: Cell, after: &str| {
        values.push(value);
        parts.push(format!("{before} ?{}{after}", values.len()));
    };
    let of_channel = "EXISTS (SELECT 1 FROM delivery WHERE submission = s.id AND channel =";
    for (before, text, after) in [("s.form =", &filter.form, ""), (of_channel, &filter.channel, ")")] {
        if let Some(text) = text {
            with(before, Cell::Text(text.clone()), after);
        }
    }
    for (before, id) in [("s.id =", filter.id), ("s.id <", filter.before), ("s.id >", filter.after)] {
        if let Some(id) = id {
            with(before, Cell::Blob(id.as_bytes().to_vec()), "");
        }
    }
    let annotated = "EXISTS (SELECT 1 FROM annotation WHERE submission = s.id AND";
    if let Some(name) = filter.assignee.as_ref().filter(|name| !name.is_empty()) {
        with(&format!("{annotated} assignee ="), Cell::Text(name.clone()), ")");
    }
    if let Some(day) = filter.follow_up_until {
        with(&format!("{annotated} follow_up <="), Cell::Integer(day_number(day)), ")");
    }
    // Ids begin with the time of arrival, so a condition on the id narrows the search.
    for (comparison, time) in [(">=", filter.from), ("<", filter.until)] {
        if let Some(time) = time.map(Timestamp::as_millisecond) {
            with(&format!("s.id {comparison}"), Cell::Blob(first_id_at(time).to_vec()), "");
            with(&format!("s.received_at {comparison}"), Cell::Integer(time), "");
        }
    }
    if let Some(forms) = &filter.forms {
        let start = values.len();
        values.extend(forms.iter().map(|form| Cell::Text(form.clone())));
        let list: Vec<String> = (start + 1..=values.len()).map(|number| format!("?{number}")).collect();
        parts.push(if list.is_empty() {
            "FALSE".to_owned()
        } else {
            format!("s.form IN ({})", list.join(", "))
        });
    }
    if filter.assignee.as_ref().is_some_and(String::is_empty) {
        parts.push(format!("NOT {annotated} assignee IS NOT NULL)"));
    }
    let has_time = [
        ("s.held_at", filter.is_held),
        ("s.done_at", filter.is_done),
        ("s.spam_at", filter.is_spam),
        ("s.seen_at", filter.is_unread.then_some(false)),
    ];
    for (column, is_set) in has_time {
        parts.extend(is_set.map(|is_set| format!("{column} IS {}NULL", if is_set { "NOT " } else { "" })));
    }
    parts.extend(filter.status.map(|status| status_condition(status).to_owned()));
    (parts.join(" AND "), values)
}

/// The SQL condition that selects the submissions with a status from `accepted s`; see [`STATUS`].
fn status_condition(status: Status) -> &'static str {
    macro_rules! deliveries {
        ($condition:literal) => {
            concat!("(SELECT 1 FROM delivery WHERE submission = s.id AND ", to_team!(), $condition, ")")
        };
    }
    match status {
        Status::Held => {
            "s.held_at IS NOT NULL AND s.error IS NULL
             AND NOT EXISTS (SELECT 1 FROM confirmation WHERE submission = s.id AND state = 'open')"
        }
        Status::Unconfirmed => {
            "s.held_at IS NOT NULL
             AND EXISTS (SELECT 1 FROM confirmation WHERE submission = s.id AND state = 'open')"
        }
        Status::Parked => concat!(
            "(s.error IS NOT NULL OR (s.held_at IS NULL AND s.id IN (SELECT submission FROM delivery WHERE ",
            to_team!(),
            " AND state = 'parked')))"
        ),
        // A correlated subquery: with `IN`, each page would rebuild the set of all waiting submissions.
        Status::Waiting => concat!(
            "s.held_at IS NULL AND s.error IS NULL AND (s.channels > 0 OR EXISTS ",
            deliveries!(" AND due_at IS NOT NULL"),
            ") AND NOT EXISTS ",
            deliveries!(" AND state = 'parked'")
        ),
        Status::Delivered => concat!(
            "s.held_at IS NULL AND EXISTS ",
            deliveries!(""),
            " AND NOT EXISTS ",
            deliveries!(" AND state <> 'delivered'")
        ),
        Status::Kept => concat!(
            "s.held_at IS NULL AND s.error IS NULL AND coalesce(s.channels, 0) = 0 AND NOT EXISTS ",
            deliveries!("")
        ),
    }
}

/// Reads a submission from the columns in [`SUBMISSION`], and its definition. Fails with
/// [`StoreError::Damaged`] if a value cannot be parsed.
pub(super) fn read_submission(sql: &dyn Sql, row: &Row) -> Result<Submission, StoreError> {
    let fields = row.text("fields").map_err(|_| StoreError::Damaged("fields are not text"))?;
    let screening = read_screening(row)?;
    let held_at: Option<Timestamp> = row.get("held_at")?;
    let held = held_at
        .map(|since| Ok::<_, StoreError>(Hold { since, because: held_because(row, screening.as_ref())? }));
    let source: Uuid = row.get("source")?;
    Ok(Submission {
        id: row.get("id")?,
        form: row.get("form")?,
        definition: form_definition::of_row(sql, row)?,
        received_at: row.get("received_at")?,
        status: Status::from_name(row.text("status")?).ok_or(StoreError::Damaged("unknown status"))?,
        released_at: row.get("released_at")?,
        agent: row.get("agent")?,
        error: row.get("error")?,
        held: held.transpose()?,
        screening,
        fields: parse_fields(fields.as_bytes()).map_err(StoreError::Damaged)?,
        sealed: row.get("sealed")?,
        source: source.simple().to_string(),
        repeats: row.get("repeats")?,
        confirmation: read_confirmation(row)?,
        lead: read_lead(row)?,
    })
}

/// Reads the source of a lead; empty if the source is unknown or encrypted.
fn read_lead(row: &Row) -> Result<LeadSource, StoreError> {
    let lead: Option<String> = row.get("lead")?;
    let damaged = || StoreError::Damaged("the source of the lead is not a JSON object");
    lead.map_or_else(|| Ok(LeadSource::default()), |json| LeadSource::from_json(&json).ok_or_else(damaged))
}

/// The state of a submission's confirmation; `None` if none is stored, as before it begins and after it was
/// withdrawn.
fn read_confirmation(row: &Row) -> Result<Option<Confirmation>, StoreError> {
    let Some(expires_at) = row.get("link_expires_at")? else { return Ok(None) };
    Ok(Some(Confirmation {
        expires_at,
        asked_at: row.get("asked_at")?,
        confirmed_at: row.get("confirmed_at")?,
    }))
}

/// The stored verdict of screening; `None` if the submission has no score, because it was not screened.
fn read_screening(row: &Row) -> Result<Option<Screening>, StoreError> {
    let Some(score) = row.get("score")? else { return Ok(None) };
    let text: Option<String> = row.get("reasons")?;
    let reasons = text.as_deref().map(parse_reasons).transpose()?.unwrap_or_default();
    Ok(Some(Screening { score, reasons, withheld: row.get("withheld")?, suspicious: row.get("suspicious")? }))
}

/// The reason that is stored with an entry that is held although screening only marked it: its form needs a
/// confirmation.
pub(super) const SUSPICIOUS_UNASKED: &str = "a suspicious entry is not asked to confirm its address";

/// Why a submission is held. The column `held_because` is empty if screening holds it: the reasons are in
/// columns of their own, which encryption strips of details. If the column has [`SUSPICIOUS_UNASKED`], the
/// reasons precede that.
fn held_because(row: &Row, screening: Option<&Screening>) -> Result<String, StoreError> {
    let because: Option<String> = row.get("held_because")?;
    if because.as_deref().is_some_and(|because| because != SUSPICIOUS_UNASKED) {
        return Ok(because.unwrap_or_default());
    }
    let screening = screening.cloned().map(|Screening { score, reasons, .. }| {
        Ok::<_, StoreError>(ScreeningVerdict {
            score,
            reasons,
            threshold: row.get("threshold")?,
            ..Default::default()
        })
    });
    let reasons = screening.transpose()?.unwrap_or_default().because();
    Ok([reasons, because.unwrap_or_default()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("; "))
}

/// The number that [`store_number`] stored under a name; `None` if there is none.
pub(super) fn stored_number(sql: &dyn Sql, name: &str) -> Result<Option<i64>, StoreError> {
    let value = sql.value("SELECT value FROM meta WHERE name = ?1", values![name])?;
    Ok(value.map(i64::from_be_bytes))
}

pub(super) fn store_number(sql: &dyn Sql, name: &str, number: i64) -> Result<(), StoreError> {
    store_meta(sql, name, &number.to_be_bytes())
}

/// Stores a value under `name`, and replaces an earlier value.
pub(super) fn store_meta(sql: &dyn Sql, name: &str, value: &[u8]) -> Result<(), StoreError> {
    let store = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
    sql.execute(store, values![name, value.to_vec()]).map(drop)
}

/// Parses the column `recipients` of a delivery.
pub(super) fn parse_recipients(text: &str) -> Result<Recipients, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Damaged("the recipients of a delivery are malformed"))
}

/// Parses screening reasons. Omits reasons with a signal that this version does not know.
pub(super) fn parse_reasons(text: &str) -> Result<Vec<ScreeningReason>, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("the screening reasons are malformed");
    let found: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| DAMAGED)?;
    let mut reasons = Vec::with_capacity(found.len());
    for reason in &found {
        let name = reason["signal"].as_str().ok_or(DAMAGED)?;
        let points = reason["points"].as_u64().and_then(|points| points.try_into().ok()).ok_or(DAMAGED)?;
        let detail = reason["detail"].as_str().ok_or(DAMAGED)?.to_owned();
        reasons.extend(Signal::from_name(name).map(|signal| ScreeningReason { signal, points, detail }));
    }
    Ok(reasons)
}

/// The number of a calendar day, in days since 1970-01-01.
pub fn day_number(day: Date) -> i64 {
    day.duration_since(Date::constant(1970, 1, 1)).as_hours() / 24
}

/// The UTC day of a time in milliseconds, in days since 1970-01-01.
pub fn day(millisecond: i64) -> i64 {
    millisecond.div_euclid(DAY_IN_MILLISECONDS)
}

pub(crate) fn to_timestamp(milliseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(milliseconds).map_err(|_| StoreError::Damaged("a time is out of range"))
}

/// The smallest possible id for this Unix time in milliseconds. A time before 1970 counts as zero.
pub(super) fn first_id_at(millisecond: i64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millisecond.max(0).to_be_bytes()[2..]);
    id
}

/// The maximum number of rows that one statement selects or changes, so that transactions stay short.
pub(super) const MAX_ROWS: usize = 200;
/// The maximum total size, in bytes, of the fields that a command removes in one transaction. Limited because
/// each 4 KiB page of a removed row is read, overwritten and logged.
pub(super) const MAX_BYTES: i64 = 1024 * 1024;

/// A submission that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removable {
    pub id: [u8; 16],
    /// The approximate size of the submission's fields in bytes.
    pub bytes: i64,
}

from_row! { Removable { id, bytes } }

/// An expression for the size of a submission's fields in bytes; with PostgreSQL, as they are stored, so
/// compressed ones have fewer. Neither database reads the fields to compute it.
pub(super) fn size_expression(dialect: Dialect, table: &str) -> String {
    let size = match dialect {
        Dialect::Sqlite => "octet_length",
        Dialect::Postgres => "pg_column_size",
    };
    format!("{size}({table}.fields) + coalesce({size}({table}.sealed), 0)")
}

/// How many of the first submissions fit into `most` bytes in total. At least one, even if it is larger,
/// unless there are none.
pub(super) fn count_fitting(removables: &[Removable], most: i64) -> usize {
    let mut bytes = 0_i64;
    let fits = |removable: &&Removable| {
        bytes = bytes.saturating_add(removable.bytes);
        bytes <= most
    };
    removables.iter().take_while(fits).count().max(1).min(removables.len())
}

/// Splits submissions, in their order, into groups of up to `MAX_ROWS` and `MAX_BYTES`, one for each
/// transaction. A submission larger than `MAX_BYTES` is a group of its own. Sorts the ids of each group.
pub(super) fn split_into_groups(mut rest: &[Removable]) -> Vec<Vec<[u8; 16]>> {
    let mut groups = Vec::new();
    while !rest.is_empty() {
        let (group, after) = rest.split_at(count_fitting(&rest[..rest.len().min(MAX_ROWS)], MAX_BYTES));
        let mut ids: Vec<[u8; 16]> = group.iter().map(|removable| removable.id).collect();
        ids.sort_unstable();
        groups.push(ids);
        rest = after;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_bounded_by_rows_and_by_bytes() {
        let sizes = |bytes: &[i64]| -> Vec<usize> {
            let removable = |(n, bytes): (usize, &i64)| {
                let id = (n as u128).to_be_bytes();
                Removable { id, bytes: *bytes }
            };
            let all: Vec<_> = bytes.iter().enumerate().map(removable).collect();
            let groups = split_into_groups(&all);
            assert!(groups.concat().into_iter().eq(all.iter().map(|removable| removable.id)));
            groups.iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[0; 450]), [200, 200, 50]);
        assert_eq!(sizes(&[MAX_BYTES / 4; 9]), [4, 4, 1]);
        assert_eq!(sizes(&[1, MAX_BYTES * 2, 1, 1]), [1, 1, 2], "one that is too large gets its own group");
    }
}
