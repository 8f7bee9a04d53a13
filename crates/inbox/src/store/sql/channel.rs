//! Stores the state of channels: whether they are paused or switched off, in the caller's transaction.

use jiff::Timestamp;

use super::transaction::Transaction;
use super::values;
use crate::store::error::StoreError;
use crate::submission::delivery::ChannelTarget;

impl Transaction<'_> {
    /// Records that a channel is paused and being probed, and replaces the stored reply of the receiver. A
    /// channel that is already paused keeps the time of the pause.
    pub fn pause(&self, channel: &str, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        let pause = "INSERT INTO channel (name, paused_at, answer) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(channel.paused_at, ?2), answer = ?3";
        let now = self.to_database_time(now).as_millisecond();
        self.sql.execute(pause, values![channel, now, answer]).map(drop)
    }

    /// Records that a channel is no longer paused, and removes its stored answer. Does not switch on a
    /// channel that is off, which keeps its answer.
    pub fn resume(&self, channel: &str) -> Result<(), StoreError> {
        // Unless the channel is off, clear the stored answer: it is outdated and may quote a visitor.
        self.sql.execute("UPDATE channel SET paused_at = NULL, answer = CASE WHEN off_at IS NOT NULL THEN answer END WHERE name = ?1", values![channel]).map(drop)
    }

    pub(super) fn is_paused(&self, channel: &str) -> Result<bool, StoreError> {
        self.sql.exists("SELECT 1 FROM channel WHERE name = ?1 AND paused_at IS NOT NULL", values![channel])
    }

    /// Switches a channel off until its target changes or the operator retries one of its deliveries. The
    /// next claim parks its waiting deliveries.
    pub fn switch_off(&self, target: &ChannelTarget, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        let switch_off = "INSERT INTO channel (name, target, off_at, answer) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET target = ?2, off_at = ?3, answer = ?4";
        let destination = self.secret.target(&target.destination);
        let now = self.to_database_time(now).as_millisecond();
        self.sql.execute(switch_off, values![target.name, destination, now, answer]).map(drop)
    }

    /// Switches a channel on again if its target has changed. Returns whether it is still switched off.
    pub(super) fn refresh_switched_off(&self, target: &ChannelTarget) -> Result<bool, StoreError> {
        let off = "SELECT target FROM channel WHERE name = ?1 AND off_at IS NOT NULL";
        match self.sql.value::<Option<[u8; 16]>>(off, values![target.name])? {
            None => Ok(false),
            Some(hash) if hash == Some(self.secret.target(&target.destination)) => Ok(true),
            Some(_) => {
                let switch_on = "UPDATE channel SET off_at = NULL, answer = NULL WHERE name = ?1";
                self.sql.execute(switch_on, values![target.name])?;
                Ok(false)
            }
        }
    }
}
