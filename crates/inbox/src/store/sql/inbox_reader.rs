//! Reads the inbox, whether or not a server is running.

#![expect(clippy::disallowed_methods, reason = "a command may sleep while it waits for the intake")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::encrypt::has_nothing_to_deliver;
use super::flood::Flood;
use super::submission_rows::{self, Filter, SUBMISSION, filter_condition, read_submission};
use super::{Bind, Cell, FromRow, Row, Sql, bind_all, collation_version, form_definition, from_row, values};
use crate::store::database_url::DatabaseUrl;
use crate::store::error::StoreError;
use crate::store::open;
use crate::submission::Submission;
use crate::submission::delivery::{Attempt, AttemptEnd, Delivery, DeliveryState, Obstacle, Route};
use frontdesk_forms::Form;

/// The maximum number of ids that are returned for an ambiguous prefix.
const MAX_CANDIDATES: i64 = 5;

/// An inbox that is open for reading.
pub struct InboxReader {
    pub(super) sql: Box<dyn Sql>,
}

/// The result of a search by id prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdMatch {
    None,
    One(Box<Submission>),
    /// Contains the ids of the newest matches, newest first.
    Several(Vec<Uuid>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    pub name: String,
    /// Why the channel does not deliver, if it is paused or switched off.
    pub obstacle: Option<Obstacle>,
    pub deliveries: Vec<(DeliveryState, usize)>,
    /// The recipients that did not get some deliveries that reached others, with the number of these
    /// deliveries.
    pub missing: BTreeMap<String, usize>,
}

impl ChannelState {
    pub fn count(&self, state: DeliveryState) -> usize {
        self.deliveries.iter().filter(|(other, _)| *other == state).map(|(_, count)| count).sum()
    }
}

impl InboxReader {
    /// Whether a connection pooler is, or may be, in front of a PostgreSQL database.
    pub fn is_pooled(&self) -> bool {
        self.sql.is_pooled()
    }

    /// A warning if a PostgreSQL database may sort texts differently than when it was created.
    pub fn collation_warning(&self) -> Result<Option<String>, StoreError> {
        collation_version::warning(&*self.sql)
    }
}

impl InboxReader {
    /// Opens the database read-only. Fails with [`StoreError::Missing`] if there is none or it is empty.
    pub fn open(place: impl Into<DatabaseUrl>) -> Result<InboxReader, StoreError> {
        Ok(InboxReader { sql: open::open_to_read(&place.into())? })
    }

    /// Waits, for at most `patience`, until a running server has processed all submissions that were accepted
    /// before this call, except those that are set aside, so that repeats are no longer listed. Returns
    /// whether that succeeded.
    pub fn catch_up(&self, patience: Duration) -> Result<bool, StoreError> {
        let began = Instant::now();
        let newest = "SELECT id FROM intake WHERE error IS NULL ORDER BY id DESC LIMIT 1";
        let Some(newest) = self.sql.value::<Uuid>(newest, &[])? else { return Ok(true) };
        let pending = "SELECT 1 FROM intake WHERE error IS NULL AND id <= ?1 LIMIT 1";
        while self.sql.exists(pending, values![newest])? {
            if began.elapsed() > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(true)
    }

    /// The submission with this id, processed or not.
    pub fn get(&self, id: Uuid) -> Result<Option<Submission>, StoreError> {
        let row = self.sql.row(&format!("SELECT {SUBMISSION} FROM accepted s WHERE id = ?1"), values![id])?;
        row.as_ref().map(|row| read_submission(&*self.sql, row)).transpose()
    }

    /// The number of submissions that a filter selects, ignoring its limit.
    pub fn count(&self, filter: &Filter) -> Result<usize, StoreError> {
        let (chosen, values) = filter_condition(filter);
        let sql = format!("SELECT count(*) FROM accepted s WHERE {chosen}");
        self.sql.one_value(&sql, &bind_all(&values))
    }

    /// A submission's deliveries with their attempts, sorted by channel name. Includes emails to the visitor.
    pub fn deliveries(&self, id: Uuid) -> Result<Vec<Delivery>, StoreError> {
        let deliveries =
            "SELECT d.channel, d.state, d.due_at, c.off_at, c.paused_at, c.answer
             FROM delivery d LEFT JOIN channel c ON c.name = d.channel WHERE d.submission = ?1 ORDER BY d.channel";
        let attempts = "SELECT number, began_at, ended_at, delivered, answer FROM attempt
             WHERE submission = ?1 AND channel = ?2 ORDER BY number";
        self.sql.snapshot(|| {
            let mut deliveries: Vec<Delivery> = self.sql.query_as(deliveries, values![id])?;
            for delivery in &mut deliveries {
                delivery.attempts = self.sql.query_as(attempts, values![id, delivery.channel])?;
            }
            Ok(deliveries)
        })
    }

    /// The channels that have deliveries or are paused or switched off, those of mails to visitors included,
    /// sorted by name.
    pub fn channels(&self) -> Result<Vec<ChannelState>, StoreError> {
        let mut states = BTreeMap::<String, ChannelState>::new();
        let counts = "SELECT channel, state, count(*) AS count FROM delivery GROUP BY channel, state ORDER BY channel, state";
        for row in self.sql.query(counts, &[])? {
            let deliveries = (row.get("state")?, row.get("count")?);
            states.entry(row.get("channel")?).or_default().deliveries.push(deliveries);
        }
        let partial = "SELECT channel, recipients, count(*) AS count FROM delivery WHERE recipients IS NOT NULL GROUP BY channel, recipients";
        for row in self.sql.query(partial, &[])? {
            let missing = &mut states.entry(row.get("channel")?).or_default().missing;
            for address in submission_rows::parse_recipients(row.text("recipients")?)?.missing {
                *missing.entry(address).or_default() += row.get::<usize>("count")?;
            }
        }
        for (name, obstacle) in self.obstacles()? {
            states.entry(name).or_default().obstacle = Some(obstacle);
        }
        Ok(states.into_iter().map(|(name, state)| ChannelState { name, ..state }).collect())
    }

    /// The names of the channels that are paused or switched off, sorted, and the reason for each.
    pub fn obstacles(&self) -> Result<Vec<(String, Obstacle)>, StoreError> {
        let rows =
            self.sql.query("SELECT name, off_at, paused_at, answer FROM channel ORDER BY name", &[])?;
        let mut found = Vec::new();
        for row in &rows {
            if let Some(obstacle) = read_obstacle(row)? {
                found.push((row.get("name")?, obstacle));
            }
        }
        Ok(found)
    }

    /// The number of deliveries, mails to visitors included, that wait and were due before `before`, by
    /// channel.
    pub fn overdue(&self, before: Timestamp) -> Result<Vec<(String, usize)>, StoreError> {
        self.count_by_channel("state = 'waiting' AND due_at < ?1", before)
    }

    /// The number of deliveries, mails to visitors included, that are waiting or being sent and have failed
    /// at least `failures` times, by channel. Zero `failures` count as one.
    pub fn failing(&self, failures: u32) -> Result<Vec<(String, usize)>, StoreError> {
        self.count_by_channel("due_at IS NOT NULL AND failures > 0 AND failures >= ?1", failures)
    }

    /// Counts the submissions that are held because of a flood, by form.
    pub fn floods(&self) -> Result<Vec<Flood>, StoreError> {
        let floods =
            "SELECT form, count(*) AS held FROM submission WHERE flood = 1 GROUP BY form ORDER BY form";
        self.sql.query_as(floods, &[])
    }

    /// Counts the deliveries, mails to visitors included, that meet a condition with one parameter, by
    /// channel, in order of names. Omits channels without any.
    fn count_by_channel(
        &self,
        condition: &str,
        value: impl Bind,
    ) -> Result<Vec<(String, usize)>, StoreError> {
        let counts = format!(
            "SELECT channel, count(*) AS count FROM delivery WHERE {condition} GROUP BY channel ORDER BY channel"
        );
        let rows = self.sql.query(&counts, values![value])?;
        rows.iter().map(|row| Ok((row.get("channel")?, row.get("count")?))).collect()
    }

    /// The definitions with which submissions were accepted: sorted by the form's name, then by age, oldest
    /// first. Includes those whose submissions have all been removed. Omits those that this version cannot
    /// read.
    pub fn definitions(&self) -> Result<Vec<&'static Form>, StoreError> {
        form_definition::all(&*self.sql)
    }

    /// The number of submissions to each form, processed or not, by form name. Reads all rows.
    pub fn count_by_form(&self) -> Result<BTreeMap<String, usize>, StoreError> {
        let rows = self.sql.query("SELECT form, count(*) AS count FROM accepted GROUP BY form", &[])?;
        rows.iter().map(|row| Ok((row.get("form")?, row.get("count")?))).collect()
    }

    /// Submissions that are not encrypted yet and that none of the configured `channels` still has to
    /// deliver: up to `most` rows with an id after `after`, oldest first. Held deliveries for channels that
    /// are no longer configured are ignored. Leaves out submissions that are not processed yet, and rows that
    /// cannot be read. Also returns the id after which the next call continues; `None` after the last row.
    pub fn to_be_sealed(
        &self,
        channels: &[Route],
        after: Uuid,
        most: usize,
    ) -> Result<(Vec<Submission>, Option<Uuid>), StoreError> {
        let mut values = vec![
            Cell::Integer(i64::try_from(most).unwrap_or(i64::MAX)),
            Cell::Blob(after.as_bytes().to_vec()),
        ];
        let nothing_to_deliver = has_nothing_to_deliver(channels, &mut values);
        // `channels` is null only for processed submissions.
        let settled = format!(
            "SELECT {SUBMISSION} FROM accepted s WHERE s.id > ?2 AND s.channels IS NULL AND s.sealed IS NULL
             AND {nothing_to_deliver} ORDER BY s.id LIMIT ?1"
        );
        let rows = self.sql.query(&settled, &bind_all(&values))?;
        let last = rows.last().filter(|_| rows.len() == most).map(|row| row.get("id")).transpose()?;
        // Skip unreadable rows, so that they do not prevent the encryption of other rows.
        Ok((rows.iter().flat_map(|row| read_submission(&*self.sql, row)).collect(), last))
    }

    /// Finds submissions by a prefix of their id: hexadecimal digits, with hyphens at any position. An empty
    /// or invalid prefix matches none. Returns at most five ids of several matches.
    pub fn find(&self, prefix: &str) -> Result<IdMatch, StoreError> {
        let Some((first, last)) = id_range(prefix) else { return Ok(IdMatch::None) };
        let ids: Vec<Uuid> = self.sql.column(
            "SELECT id FROM accepted WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3",
            values![first, last, MAX_CANDIDATES],
        )?;
        match ids[..] {
            [] => Ok(IdMatch::None),
            [id] => Ok(self.get(id)?.map_or(IdMatch::None, |submission| IdMatch::One(Box::new(submission)))),
            _ => Ok(IdMatch::Several(ids)),
        }
    }
}

/// The first and the last id with a prefix of 1 to 32 hexadecimal digits; hyphens are ignored. `None` if the
/// prefix is invalid.
pub(super) fn id_range(prefix: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = prefix.chars().filter(|c| *c != '-').collect();
    if digits.is_empty() || digits.len() > 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bound = |fill: &str| Uuid::try_parse(&format!("{digits}{}", fill.repeat(32 - digits.len()))).ok();
    Some((bound("0")?, bound("f")?))
}

impl FromRow for Delivery {
    /// Reads a delivery, except for its attempts, which are left empty.
    fn from_row(row: &Row) -> Result<Delivery, StoreError> {
        Ok(Delivery {
            channel: row.get("channel")?,
            state: row.get("state")?,
            due_at: row.get("due_at")?,
            obstacle: read_obstacle(row)?,
            attempts: Vec::new(),
        })
    }
}

/// The reason why a channel does not deliver, if it is switched off or paused.
fn read_obstacle(row: &Row) -> Result<Option<Obstacle>, StoreError> {
    let off_at: Option<Timestamp> = row.get("off_at")?;
    let Some(since) = off_at.or(row.get("paused_at")?) else { return Ok(None) };
    let answer = row.get::<Option<String>>("answer")?.unwrap_or_default();
    Ok(Some(Obstacle { off: off_at.is_some(), since, answer }))
}

impl FromRow for Attempt {
    fn from_row(row: &Row) -> Result<Attempt, StoreError> {
        let end = match row.get("ended_at")? {
            Some(at) => Some(AttemptEnd {
                at,
                delivered: row.get("delivered")?,
                answer: row.get::<Option<String>>("answer")?.unwrap_or_default(),
            }),
            None => None,
        };
        Ok(Attempt { number: row.get("number")?, began_at: row.get("began_at")?, end })
    }
}

from_row! { Flood { form, held } }
