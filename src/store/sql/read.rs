//! Reads the inbox, while a server writes to it or after it has stopped.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use super::deliver::has_nothing_to_deliver;
use super::flood::{self, Flood};
use super::rows::{SUBMISSION, condition, submission, time};
use super::{Cell, Row, Sql, bound, values};
use crate::store::{ChannelState, Filter, Place, StoreError, postgres, sqlite};
use crate::submission::Submission;
use crate::submission::delivery::{Attempt, Delivery, End, Obstacle, Route, State};

/// How many submissions are read at a time, so that no reading holds up the writer's checkpoints.
const PAGE: usize = 256;
/// How many ids an ambiguous prefix brings to light.
const MAX_CANDIDATES: i64 = 5;

/// The inbox, open for reading.
pub struct Reader {
    pub(super) sql: Box<dyn Sql>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// What an abbreviated id leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No submission's id begins like that.
    None,
    /// Just one does.
    One(Box<Submission>),
    /// More than one does; some of them, newest first.
    Several(Vec<Uuid>),
}

impl Reader {
    /// Opens the database and changes nothing in it.
    ///
    /// [`StoreError::Missing`] where there is none yet.
    pub fn open(place: impl Into<Place>) -> Result<Reader, StoreError> {
        let sql: Box<dyn Sql> = match place.into() {
            Place::Sqlite(path) => Box::new(sqlite::open_to_read(&path)?),
            Place::Postgres(server) => Box::new(postgres::open_to_read(&server)?),
        };
        Ok(Reader { sql })
    }

    /// Waits until everything that was accepted before this call is processed, so that repeats are counted and no longer listed; for
    /// `patience` at most. Returns whether it is. Where no server runs, nothing is processed.
    pub fn catch_up(&self, patience: Duration) -> Result<bool, StoreError> {
        let began = Instant::now();
        let newest =
            self.sql.row("SELECT id FROM intake WHERE error IS NULL ORDER BY id DESC LIMIT 1", &[])?;
        let Some(newest) = newest.map(|row| row.get::<[u8; 16]>(0)).transpose()? else { return Ok(true) };
        let pending = "SELECT 1 FROM intake WHERE error IS NULL AND id <= ?1 LIMIT 1";
        while self.sql.exists(pending, values![newest])? {
            if began.elapsed() > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(true)
    }

    /// Submissions, newest first. What arrives while it is being read may be missing from it.
    pub fn list(&self, filter: &Filter) -> Result<Listing<'_>, StoreError> {
        let mut listing = Listing {
            reader: self,
            filter: filter.clone(),
            left: filter.limit.unwrap_or(usize::MAX),
            page: VecDeque::new(),
        };
        listing.turn_page()?;
        Ok(listing)
    }

    /// The submission with that id.
    pub fn get(&self, id: Uuid) -> Result<Option<Submission>, StoreError> {
        let row = self
            .sql
            .row(&format!("SELECT {SUBMISSION} FROM accepted s WHERE id = ?1"), values![id.as_bytes()])?;
        row.as_ref().map(submission).transpose()
    }

    /// How many submissions a filter selects, whatever its limit.
    pub fn count(&self, filter: &Filter) -> Result<usize, StoreError> {
        let (chosen, values) = condition(filter);
        let sql = format!("SELECT count(*) FROM accepted s WHERE {chosen}");
        self.sql.one(&sql, &bound(&values))?.count(0)
    }

    /// The deliveries of a submission with each of their attempts, by the channels' names.
    pub fn deliveries(&self, id: Uuid) -> Result<Vec<Delivery>, StoreError> {
        self.sql.snapshot(|| self.deliveries_at_once(id))
    }

    fn deliveries_at_once(&self, id: Uuid) -> Result<Vec<Delivery>, StoreError> {
        let rows = self.sql.query(
            "SELECT d.channel, d.state, d.due_at, c.off_at, c.paused_at, c.answer
             FROM delivery d LEFT JOIN channel c ON c.name = d.channel WHERE d.submission = ?1 ORDER BY d.channel",
            values![id.as_bytes()],
        )?;
        let mut deliveries = rows.iter().map(delivery).collect::<Result<Vec<_>, StoreError>>()?;
        for delivery in &mut deliveries {
            let rows = self.sql.query(
                "SELECT number, began_at, ended_at, delivered, answer FROM attempt
                 WHERE submission = ?1 AND channel = ?2 ORDER BY number",
                values![id.as_bytes(), delivery.channel],
            )?;
            delivery.attempts = rows.iter().map(attempt).collect::<Result<_, StoreError>>()?;
        }
        Ok(deliveries)
    }

    /// Each channel that has deliveries or an obstacle, with how many are in which state, by name.
    pub fn channels(&self) -> Result<Vec<ChannelState>, StoreError> {
        let mut states: Vec<ChannelState> = Vec::new();
        let counts =
            "SELECT channel, state, count(*) FROM delivery GROUP BY channel, state ORDER BY channel, state";
        for row in self.sql.query(counts, &[])? {
            let (channel, state): (String, String) = (row.get(0)?, row.get(1)?);
            let state = State::named(&state).ok_or(StoreError::Damaged("a state is unknown"))?;
            let count = row.count(2)?;
            match states.last_mut() {
                Some(last) if last.name == channel => last.deliveries.push((state, count)),
                _ => states.push(ChannelState {
                    name: channel,
                    obstacle: None,
                    deliveries: vec![(state, count)],
                }),
            }
        }
        for row in self.sql.query("SELECT name, off_at, paused_at, answer FROM channel ORDER BY name", &[])? {
            let name: String = row.get(0)?;
            let obstacle = obstacle(row.get(1)?, row.get(2)?, row.get(3)?)?;
            match states.iter_mut().find(|state| state.name == name) {
                Some(state) => state.obstacle = obstacle,
                None if obstacle.is_some() => {
                    states.push(ChannelState { name, obstacle, deliveries: Vec::new() });
                }
                None => {}
            }
        }
        states.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(states)
    }

    /// How many deliveries were due before that time and are still waiting, by channel.
    pub fn overdue(&self, before: Timestamp) -> Result<Vec<(String, usize)>, StoreError> {
        let rows = self.sql.query(
            "SELECT channel, count(*) FROM delivery WHERE state = 'waiting' AND due_at < ?1 GROUP BY channel ORDER BY channel",
            values![before.as_millisecond()],
        )?;
        rows.iter().map(|row| Ok((row.get(0)?, row.count(1)?))).collect()
    }

    /// The floods because of which submissions are held, by form.
    pub fn floods(&self) -> Result<Vec<Flood>, StoreError> {
        flood::floods(&*self.sql)
    }

    /// How many deliveries have failed so often or more since they were queued, and are still tried, by channel.
    pub fn failing(&self, failures: u32) -> Result<Vec<(String, usize)>, StoreError> {
        let rows = self.sql.query(
            "SELECT channel, count(*) FROM delivery WHERE due_at IS NOT NULL AND failures > 0 AND failures >= ?1
             GROUP BY channel ORDER BY channel",
            values![failures],
        )?;
        rows.iter().map(|row| Ok((row.get(0)?, row.count(1)?))).collect()
    }

    /// Submissions that none of the configured `channels` has to deliver any more and that are not sealed yet, the oldest first. A held
    /// one may still have deliveries for channels that are configured no more.
    pub fn to_be_sealed(&self, channels: &[Route], most: usize) -> Result<Vec<Submission>, StoreError> {
        let mut values = vec![Cell::Integer(i64::try_from(most).unwrap_or(i64::MAX))];
        let nothing_to_deliver = has_nothing_to_deliver(channels, &mut values);
        let settled = format!(
            "SELECT {SUBMISSION} FROM accepted s WHERE s.channels IS NULL AND s.sealed IS NULL
             AND {nothing_to_deliver} ORDER BY s.id LIMIT ?1"
        );
        let rows = self.sql.query(&settled, &bound(&values))?;
        // One that cannot be read cannot be sealed either, and must not keep the others from it.
        Ok(rows.iter().flat_map(submission).collect())
    }

    /// The submission whose id begins with `prefix`: hexadecimal digits, hyphens where one likes.
    pub fn find(&self, prefix: &str) -> Result<Found, StoreError> {
        let Some((first, last)) = range(prefix) else { return Ok(Found::None) };
        let rows = self.sql.query(
            "SELECT id FROM accepted WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3",
            values![first.as_bytes(), last.as_bytes(), MAX_CANDIDATES],
        )?;
        let ids: Vec<Uuid> =
            rows.iter().map(|row| row.get(0).map(Uuid::from_bytes)).collect::<Result<_, _>>()?;
        match ids[..] {
            [] => Ok(Found::None),
            [id] => Ok(self.get(id)?.map_or(Found::None, |submission| Found::One(Box::new(submission)))),
            _ => Ok(Found::Several(ids)),
        }
    }
}

/// The first and the last id that begin like that.
pub(super) fn range(prefix: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = prefix.chars().filter(|c| *c != '-').collect();
    if digits.is_empty() || digits.len() > 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bound = |fill: &str| Uuid::try_parse(&format!("{digits}{}", fill.repeat(32 - digits.len()))).ok();
    Some((bound("0")?, bound("f")?))
}

/// Submissions, newest first, read as they are asked for.
pub struct Listing<'a> {
    reader: &'a Reader,
    /// What is still to be read: `before` moves on with each page.
    filter: Filter,
    left: usize,
    page: VecDeque<Result<Submission, StoreError>>,
}

impl fmt::Debug for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing")
            .field("filter", &self.filter)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Listing<'_> {
    fn turn_page(&mut self) -> Result<(), StoreError> {
        let size = PAGE.min(self.left);
        if size == 0 {
            return Ok(());
        }
        let (chosen, values) = condition(&self.filter);
        let page =
            format!("SELECT {SUBMISSION} FROM accepted s WHERE {chosen} ORDER BY s.id DESC LIMIT {size}");
        for row in self.reader.sql.query(&page, &bound(&values))? {
            self.filter.before = Some(Uuid::from_bytes(row.get(0)?));
            self.page.push_back(submission(&row));
        }
        self.left = if self.page.len() < size { 0 } else { self.left - size };
        Ok(())
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<Submission, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty()
            && let Err(error) = self.turn_page()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.page.pop_front()
    }
}

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    let state: String = row.get(1)?;
    let due_at: Option<i64> = row.get(2)?;
    Ok(Delivery {
        channel: row.get(0)?,
        state: State::named(&state).ok_or(StoreError::Damaged("a state is unknown"))?,
        due_at: due_at.map(time).transpose()?,
        obstacle: obstacle(row.get(3)?, row.get(4)?, row.get(5)?)?,
        attempts: Vec::new(),
    })
}

fn obstacle(
    off_at: Option<i64>,
    paused_at: Option<i64>,
    answer: Option<String>,
) -> Result<Option<Obstacle>, StoreError> {
    let Some(since) = off_at.or(paused_at) else { return Ok(None) };
    Ok(Some(Obstacle { off: off_at.is_some(), since: time(since)?, answer: answer.unwrap_or_default() }))
}

fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    let ended_at: Option<i64> = row.get(2)?;
    let delivered: Option<bool> = row.get(3)?;
    let answer: Option<String> = row.get(4)?;
    let end = match (ended_at, delivered) {
        (Some(at), Some(delivered)) => {
            Some(End { at: time(at)?, delivered, answer: answer.unwrap_or_default() })
        }
        _ => None,
    };
    Ok(Attempt { number: row.get(0)?, began_at: time(row.get(1)?)?, end })
}
