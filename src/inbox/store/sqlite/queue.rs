//! What waits to be delivered, is held or is parked. What it costs grows with that alone, not with all that was ever received.

use jiff::Timestamp;
use uuid::Uuid;

use super::read::{Reader, time};
use crate::inbox::store::StoreError;

/// What is counted, each by an index that holds nothing but what is still to be done: deliveries that have not failed yet, that
/// have, and that are parked; submissions that are held.
pub(in crate::inbox::store) const COUNTS: [&str; 4] = [
    "SELECT channel, count(*), min(submission) FROM delivery WHERE due_at IS NOT NULL AND failures = 0 GROUP BY channel",
    "SELECT channel, count(*), min(submission) FROM delivery WHERE due_at IS NOT NULL AND failures > 0 GROUP BY channel",
    "SELECT channel, count(*) FROM delivery WHERE state = 'parked' GROUP BY channel",
    "SELECT count(*) FROM submission WHERE held_at IS NOT NULL",
];

/// What is still to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
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
        let [first, again, parked, held] = COUNTS;
        let mut queue = Queue::default();
        let count = |count: i64| usize::try_from(count).unwrap_or_default();
        for sql in [first, again] {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let channel = queue.channel(row.get(0)?);
                channel.waiting += count(row.get(1)?);
                let received_at = received_at(Uuid::from_bytes(row.get(2)?))?;
                channel.oldest = channel.oldest.into_iter().chain([received_at]).min();
            }
        }
        let mut statement = self.connection.prepare(parked)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            queue.channel(row.get(0)?).parked = count(row.get(1)?);
        }
        // A row for each channel, of which there are few.
        let mut statement = self.connection.prepare(
            "SELECT name, off_at IS NOT NULL FROM channel WHERE off_at IS NOT NULL OR paused_at IS NOT NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let channel = queue.channel(row.get(0)?);
            channel.is_off = row.get(1)?;
            channel.is_paused = !channel.is_off;
        }
        queue.held = count(self.connection.query_row(held, [], |row| row.get(0))?);
        Ok(queue)
    }
}

/// Ids begin with the time of arrival, in milliseconds (RFC 9562 §5.7).
fn received_at(id: Uuid) -> Result<Timestamp, StoreError> {
    let mut millisecond = [0; 8];
    millisecond[2..].copy_from_slice(&id.as_bytes()[..6]);
    time(i64::from_be_bytes(millisecond))
}
