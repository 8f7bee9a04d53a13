//! What waits to be delivered, is held or is parked. What it costs grows with that alone, not with all that was ever received.

use jiff::Timestamp;
use uuid::Uuid;

use super::read::Reader;
use super::rows::time;
use super::{Dialect, Row};
use crate::store::StoreError;

/// What is counted, each by an index that holds nothing but what is still to be done: deliveries that have not failed yet, that
/// have, and that are parked; submissions that are held.
pub(in crate::store) fn counts(dialect: Dialect) -> [String; 4] {
    let oldest = match dialect {
        Dialect::Sqlite => "min(submission)",
        // It knows no least of ids. Their texts have the same order.
        Dialect::Postgres => "min(CAST(submission AS text))",
    };
    let unfinished = |failures| {
        format!(
            "SELECT channel, count(*), {oldest} FROM delivery
             WHERE due_at IS NOT NULL AND failures {failures} 0 GROUP BY channel"
        )
    };
    [
        unfinished("="),
        unfinished(">"),
        "SELECT channel, count(*) FROM delivery WHERE state = 'parked' GROUP BY channel".to_owned(),
        "SELECT count(*) FROM submission WHERE held_at IS NOT NULL".to_owned(),
    ]
}

/// What is still to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Submissions that are accepted and not processed yet.
    pub pending: usize,
    /// When the oldest of them was received.
    pub pending_since: Option<Timestamp>,
    /// Submissions that could not be processed.
    pub set_aside: usize,
    /// Submissions that wait for the operator's release.
    pub held: usize,
    /// Each channel with something to be done, or that is kept from doing it, by name.
    pub channels: Vec<ChannelQueue>,
}

/// What is still to be done in one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelQueue {
    /// Its name.
    pub name: String,
    /// Deliveries that wait for an attempt, or for the end of one.
    pub waiting: usize,
    /// Deliveries that are parked.
    pub parked: usize,
    /// When the oldest submission of those that wait was received.
    pub oldest: Option<Timestamp>,
    /// Whether it is paused, because it failed again and again.
    pub is_paused: bool,
    /// Whether it is switched off, because the other side said that it is gone.
    pub is_off: bool,
}

impl Queue {
    fn channel(&mut self, name: String) -> &mut ChannelQueue {
        let place =
            self.channels.binary_search_by(|channel| channel.name.cmp(&name)).unwrap_or_else(|place| {
                self.channels.insert(place, ChannelQueue { name, ..ChannelQueue::default() });
                place
            });
        &mut self.channels[place]
    }
}

impl Reader {
    /// Counts what is still to be done.
    pub fn queue(&self) -> Result<Queue, StoreError> {
        let [first, again, parked, held] = counts(self.sql.dialect());
        let mut queue = Queue::default();
        for sql in [first, again] {
            for row in self.sql.query(&sql, &[])? {
                let channel = queue.channel(row.get(0)?);
                channel.waiting += row.count(1)?;
                let received_at = received_at(id(&row, 2)?)?;
                channel.oldest = channel.oldest.into_iter().chain([received_at]).min();
            }
        }
        for row in self.sql.query(&parked, &[])? {
            queue.channel(row.get(0)?).parked = row.count(1)?;
        }
        // A row for each channel, of which there are few.
        let obstacles =
            "SELECT name, off_at IS NOT NULL FROM channel WHERE off_at IS NOT NULL OR paused_at IS NOT NULL";
        for row in self.sql.query(obstacles, &[])? {
            let channel = queue.channel(row.get(0)?);
            channel.is_off = row.get(1)?;
            channel.is_paused = !channel.is_off;
        }
        queue.held = self.sql.one(&held, &[])?.count(0)?;
        let intake = self.sql.one("SELECT count(*) FILTER (WHERE error IS NULL), min(received_at) FILTER (WHERE error IS NULL), count(error) FROM intake", &[])?;
        queue.set_aside = intake.count(2)?;
        queue.pending = intake.count(0)?;
        queue.pending_since = intake.get::<Option<i64>>(1)?.map(time).transpose()?;
        Ok(queue)
    }
}

/// An id, or the text of one.
fn id(row: &Row, column: usize) -> Result<Uuid, StoreError> {
    row.get(column)
        .map(Uuid::from_bytes)
        .or_else(|error| Uuid::parse_str(&row.get::<String>(column)?).map_err(|_| error))
}

/// Ids begin with the time of arrival, in milliseconds (RFC 9562 §5.7).
fn received_at(id: Uuid) -> Result<Timestamp, StoreError> {
    let mut millisecond = [0; 8];
    millisecond[2..].copy_from_slice(&id.as_bytes()[..6]);
    time(i64::from_be_bytes(millisecond))
}
