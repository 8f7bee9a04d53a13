//! Stores the rates that floods are detected from, and releases the held submissions once a flood ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::delivery_results::to_millis;
use super::transaction::Transaction;
use super::{FromRow as _, Value, from_row, release_and_remove, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Hash;
use crate::submission::delivery::Route;

/// A form with a flood, and the number of submissions that the flood holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flood {
    pub form: String,
    pub held: usize,
}

/// How much of its quota a form has used up. Times are Unix time in microseconds unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormRate {
    /// When the per-minute quota is fully restored.
    pub minute: i64,
    /// When the hourly quota is fully restored.
    pub hour: i64,
    /// During a flood: when a submission last exceeded the quota, in milliseconds. `None` at other times.
    pub over_at: Option<i64>,
}

from_row! { FormRate { minute, hour, over_at } }

pub type FormRates = HashMap<String, FormRate>;
/// When each network's submissions to a form stop counting, as Unix time in microseconds.
pub type NetworkRates = HashMap<(String, Hash), i64>;

impl Transaction<'_> {
    /// Reads the stored rates of these forms, and those of these networks for any form. Leaves out those that
    /// are not stored.
    pub fn read_rates(
        &self,
        forms: &BTreeSet<&str>,
        networks: BTreeSet<Hash>,
    ) -> Result<(FormRates, NetworkRates), StoreError> {
        let (mut form_rates, mut network_rates) = (FormRates::new(), NetworkRates::new());
        for form in forms {
            let rate = "SELECT minute, hour, over_at FROM form_rate WHERE form = ?1";
            if let Some(row) = self.sql.row(rate, values![form])? {
                form_rates.insert((*form).to_owned(), FormRate::from_row(&row)?);
            }
        }
        let networks: Vec<Hash> = networks.into_iter().collect();
        let select = "SELECT network, rates FROM network_rate WHERE";
        for row in self.sql.query_in(select, "network", &networks, "")? {
            let network = row.get("network")?;
            let rates: BTreeMap<String, i64> = serde_json::from_str(row.text("rates")?)
                .map_err(|_| StoreError::Damaged("a network's rates are not valid JSON"))?;
            network_rates.extend(rates.into_iter().map(|(form, rested)| ((form, network), rested)));
        }
        Ok((form_rates, network_rates))
    }

    /// Writes the rates of all `forms`, and replaces all stored rates of the networks in `changed` with those
    /// in `networks`.
    pub fn write_rates(
        &self,
        forms: &FormRates,
        networks: &NetworkRates,
        changed: &BTreeSet<Hash>,
    ) -> Result<(), StoreError> {
        // One row for each network: rows for each form and limit would change tables and indexes a dozen
        // times for most submissions.
        let mut rates: BTreeMap<&Hash, BTreeMap<&str, i64>> = BTreeMap::new();
        for ((form, network), rested) in networks.iter().filter(|((_, network), _)| changed.contains(network))
        {
            rates.entry(network).or_default().insert(form, *rested);
        }
        let texts: Vec<String> = rates.values().map(|rates| json!(rates).to_string()).collect();
        let mut values = Vec::with_capacity(3 * texts.len());
        for ((network, rates), text) in rates.iter().zip(&texts) {
            let rested = rates.values().copied().max().unwrap_or_default();
            values.extend([Value::Blob(*network), Value::Integer(rested), Value::Text(text)]);
        }
        let changed: Vec<Hash> = changed.iter().copied().collect();
        self.sql.execute_in("DELETE FROM network_rate WHERE", "network", &[], &changed)?;
        self.sql.insert("network_rate (network, rested, rates)", 3, &values)?;
        for (form, rate) in forms {
            self.sql.execute(
                "INSERT INTO form_rate (form, minute, hour, over_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (form) DO UPDATE SET minute = ?2, hour = ?3, over_at = ?4",
                values![form, rate.minute, rate.hour, rate.over_at],
            )?;
        }
        Ok(())
    }

    /// For each form whose flood has ended, because its quota has not been exceeded for `quiet` or because
    /// the last excess is that far in the future, releases up to `most` submissions to `channels`, oldest
    /// first. Returns their number, which includes those that still need a confirmation. Once a form has no
    /// submissions left to release, records that its flood is over. Does nothing while another replica is
    /// processing submissions. `now` is by the database's clock.
    pub fn release_ended_floods(
        &self,
        now: Timestamp,
        quiet: Duration,
        most: usize,
        channels: &[Route],
    ) -> Result<usize, StoreError> {
        let tx = self.sql;
        let quiet = to_millis(quiet);
        if !self.try_intake_turn()? {
            return Ok(0);
        }
        let ended = tx.column::<String>(
            // A time in the future was written before a clock was set back. Treat that flood as ended, too.
            "SELECT form FROM form_rate WHERE over_at < ?1 OR over_at > ?2",
            values![now.as_millisecond().saturating_sub(quiet), now.as_millisecond().saturating_add(quiet)],
        )?;
        let held = format!(
            "SELECT id FROM submission WHERE flood = 1 AND form = ?1 ORDER BY id LIMIT ?2 {}",
            tx.dialect().skip_locked_clause()
        );
        let mut released = 0;
        for form in ended {
            for id in tx.column(&held, values![form, most])? {
                released += usize::from(release_and_remove::release(tx, id, now, channels)?);
            }
            if !tx.exists("SELECT 1 FROM submission WHERE flood = 1 AND form = ?1 LIMIT 1", values![form])? {
                tx.execute("UPDATE form_rate SET over_at = NULL WHERE form = ?1", values![form])?;
            }
        }
        Ok(released)
    }

    /// Whether any submission is held because of a flood.
    pub fn is_any_held_in_flood(&self) -> Result<bool, StoreError> {
        self.sql.exists("SELECT 1 FROM submission WHERE flood = 1 LIMIT 1", &[])
    }
}
