//! Reads and writes the rates by which floods are detected, and releases submissions when a flood has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::millis;
use super::{Sql, Value, edit, values};
use crate::limits::Quota;
use crate::store::StoreError;
use crate::store::duplicates::Candidate;
use crate::store::flood::{FormRate, Rates};
use crate::submission::delivery::Route;

/// Reads the rates of the candidates' forms and networks. `latest` is the time by the database's clock, in milliseconds.
pub(super) fn read(
    tx: &dyn Sql,
    quota: Option<Quota>,
    latest: i64,
    candidates: &[Candidate],
) -> Result<Rates, StoreError> {
    let mut rates = Rates::new(quota, latest);
    let forms: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.form.as_str()).collect();
    for form in forms {
        let row = tx.row("SELECT minute, hour, over_at FROM form_rate WHERE form = ?1", values![form])?;
        if let Some(row) = row {
            let rate = FormRate { minute: row.get(0)?, hour: row.get(1)?, over_at: row.get(2)? };
            rates.forms.insert(form.to_owned(), rate);
        }
    }
    let networks: BTreeSet<[u8; 16]> = candidates.iter().map(|candidate| candidate.network).collect();
    let networks: Vec<[u8; 16]> = networks.into_iter().collect();
    for row in tx.query_in("SELECT form, rested, network FROM network_rate WHERE network", &networks, "")? {
        rates.networks.insert((row.get(0)?, row.get(2)?), row.get(1)?);
    }
    Ok(rates)
}

/// Writes what a batch has changed.
pub(super) fn write(tx: &dyn Sql, rates: &Rates) -> Result<(), StoreError> {
    let mut values = Vec::new();
    for ((form, network), rested) in
        rates.networks.iter().filter(|((_, network), _)| rates.changed.contains(network))
    {
        values.extend([Value::Text(form), Value::Blob(network), Value::Integer(*rested)]);
    }
    let networks: Vec<[u8; 16]> = rates.changed.iter().copied().collect();
    tx.execute_in("DELETE FROM network_rate WHERE network", &networks)?;
    tx.insert("network_rate (form, network, rested)", 3, &values)?;
    for (form, rate) in &rates.forms {
        tx.execute(
            "INSERT INTO form_rate (form, minute, hour, over_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (form) DO UPDATE SET minute = ?2, hour = ?3, over_at = ?4",
            values![form, rate.minute, rate.hour, rate.over_at],
        )?;
    }
    Ok(())
}

/// Forgets up to `most` networks of which nothing counts any more at a time in milliseconds.
pub(super) fn forget(tx: &dyn Sql, now: i64, most: i64) -> Result<(), StoreError> {
    let lock = tx.dialect().lock_free_rows();
    let rested = format!(
        "DELETE FROM network_rate WHERE (network, form) IN
             (SELECT network, form FROM network_rate WHERE rested < ?1 ORDER BY rested LIMIT ?2 {lock})"
    );
    tx.execute(&rested, values![now.saturating_mul(1000), most]).map(drop)
}

/// Releases up to `most` submissions of each form whose flood has ended to `channels`, and returns how many there were. Does nothing while another
/// replica processes submissions.
pub(in crate::store) fn release_ended(
    tx: &dyn Sql,
    now: Timestamp,
    quiet: Duration,
    most: usize,
    channels: &[Route],
) -> Result<usize, StoreError> {
    let quiet = millis(quiet);
    if !tx.dialect().try_turn().map_or(Ok(true), |turn| tx.one(turn, &[])?.get(0))? {
        return Ok(0);
    }
    let ended = tx.query(
        // One of the future is from before a clock was set back.
        "SELECT form FROM form_rate WHERE over_at < ?1 OR over_at > ?2",
        values![now.as_millisecond().saturating_sub(quiet), now.as_millisecond().saturating_add(quiet)],
    )?;
    let held = format!(
        "SELECT id FROM submission WHERE flood = 1 AND form = ?1 ORDER BY id LIMIT ?2 {}",
        tx.dialect().lock_free_rows()
    );
    let mut released = 0;
    for form in ended {
        let form = form.text(0)?;
        for row in tx.query(&held, values![form, i64::try_from(most).unwrap_or(i64::MAX)])? {
            released += usize::from(edit::release(tx, Uuid::from_bytes(row.get(0)?), now, channels)?);
        }
        if !tx.exists("SELECT 1 FROM submission WHERE flood = 1 AND form = ?1 LIMIT 1", values![form])? {
            tx.execute("UPDATE form_rate SET over_at = NULL WHERE form = ?1", values![form])?;
        }
    }
    Ok(released)
}

/// Whether any submission is held because of a flood.
pub(in crate::store) fn is_any_held(tx: &dyn Sql) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM submission WHERE flood = 1 LIMIT 1", &[])
}

/// A flooded form and its held submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flood {
    /// The form's name.
    pub form: String,
    /// How many submissions are held because of it.
    pub held: usize,
}

/// The floods because of which submissions are held.
pub(in crate::store) fn floods(sql: &dyn Sql) -> Result<Vec<Flood>, StoreError> {
    let rows =
        sql.query("SELECT form, count(*) FROM submission WHERE flood = 1 GROUP BY form ORDER BY form", &[])?;
    let read = |row: &super::Row| Ok(Flood { form: row.get(0)?, held: row.count(1)? });
    rows.iter().map(read).collect()
}
