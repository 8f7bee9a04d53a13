//! A submission as the inbox keeps it, for those who read it.

pub mod delivery;
pub mod outcome;
pub mod schedule;
pub mod seal;

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::screening::Reason;
use crate::submission::seal::{Identity, SealError};

/// One accepted form, with what the inbox knows about it.
#[derive(Clone, PartialEq, Eq)]
pub struct Submission {
    /// Given by the server. UUID version 7: ids sort by the time of arrival.
    pub id: Uuid,
    /// The form's name. A form that has gone since is still named here.
    pub form: String,
    /// When the server had read it, to the millisecond.
    pub received_at: Timestamp,
    /// Where it stands.
    pub status: Status,
    /// Since when and why it is held, if it is.
    pub held: Option<Hold>,
    /// What screening said of it when it was processed. None where nobody has asked: it is not processed yet, or an earlier version kept it.
    pub screening: Option<Screening>,
    /// When the operator last released it, if he did.
    pub released_at: Option<Timestamp>,
    /// The host that vouches for the agent which sent it, such as `agent.example.com`, where the request was signed.
    pub agent: Option<String>,
    /// Why it could not be processed, if it could not: it is set aside then.
    pub error: Option<String>,
    /// Names and values as they were sent, in the order of the form's definition. None where it is sealed.
    pub fields: Vec<(String, String)>,
    /// The fields as a JSON object that only the operator's identity can open, once it is sealed.
    pub sealed: Option<Vec<u8>>,
    /// Where it came from: a keyed hash of its network address, 32 hexadecimal digits. The same source has the
    /// same hash in one inbox, and the address cannot be read from it without that inbox's secret.
    pub source: String,
    /// How many times it was sent again and recognised.
    pub repeats: u64,
}

impl Submission {
    /// The value of a field, if it was filled in.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(field, value)| (field == name).then_some(value.as_str()))
    }

    /// The fields as a JSON object, members in the form's order.
    pub fn fields_json(&self) -> String {
        let members = self.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        Value::Object(members.collect()).to_string()
    }

    /// Puts the fields where they would be had it never been sealed. One that isn't sealed stays as it is, and so does one that
    /// cannot be opened.
    pub fn open(&mut self, identity: &Identity) -> Result<(), SealError> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let plain = identity.open(sealed)?;
        let object: Map<String, Value> = serde_json::from_slice(&plain).map_err(|_| SealError::Damaged)?;
        let fields = object.into_iter().map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => Err(SealError::Damaged),
        });
        self.fields = fields.collect::<Result<_, _>>()?;
        self.sealed = None;
        Ok(())
    }

    /// `received_at` in RFC 3339, in UTC, with milliseconds: `2026-11-20T14:03:05.120Z`.
    pub fn received_at_text(&self) -> String {
        format!("{:.3}", self.received_at)
    }
}

/// Without the values: they are the visitor's, and no log may hold them.
impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.fields.iter().map(|(name, _)| name).collect();
        f.debug_struct("Submission")
            .field("id", &self.id)
            .field("form", &self.form)
            .field("received_at", &self.received_at)
            .field("status", &self.status)
            .field("fields", &names)
            .field("repeats", &self.repeats)
            .finish_non_exhaustive()
    }
}

/// A submission that is kept back until the operator releases it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: Timestamp,
    /// In words for the operator.
    pub because: String,
}

/// What is kept of screening's verdict. It stays when the submission is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screening {
    /// The points of all reasons together.
    pub score: u32,
    /// What they were given for, most points first. Details are gone once the submission is sealed.
    pub reasons: Vec<Reason>,
    /// Whether it was held for that. What the operator holds by hand is not.
    pub withheld: bool,
    /// Whether it is marked as suspicious.
    pub suspicious: bool,
}

impl Screening {
    /// The signals on one line, the weightiest first: `honeypot, links`.
    pub fn signals(&self) -> String {
        self.reasons.iter().map(|reason| reason.signal.name()).collect::<Vec<_>>().join(", ")
    }
}

/// Reasons as a JSON array of objects with `signal`, `points` and `detail`.
pub fn reasons_json(reasons: &[Reason]) -> Value {
    let object = |reason: &Reason| json!({ "signal": reason.signal.name(), "points": reason.points, "detail": reason.detail });
    reasons.iter().map(object).collect()
}

/// Where a submission stands on its way to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// In the inbox, and nothing else is to be done with it: no channel is configured for its form.
    Kept,
    /// At least one channel does not have it yet.
    Waiting,
    /// Every channel has it.
    Delivered,
    /// It waits for the operator's release.
    Held,
    /// At least one channel could not take it for so long, or refused it so clearly, that the operator must decide.
    Parked,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 5] =
        [Status::Kept, Status::Waiting, Status::Delivered, Status::Held, Status::Parked];

    /// Its name in the inbox and in every listing.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Kept => "kept",
            Status::Waiting => "waiting",
            Status::Delivered => "delivered",
            Status::Held => "held",
            Status::Parked => "parked",
        }
    }

    /// The status of that name.
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
