//! Submissions, as stored in the inbox.

pub use frontdesk_forms::named_enum;

pub mod delivery;
pub mod delivery_outcome;
pub(crate) mod route;
pub mod schedule;
pub mod visitor_mail;

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use frontdesk_age::{AgeIdentity, EncryptionError};
use frontdesk_forms::{FieldKind, FieldValue, Form, LeadSource};
use frontdesk_screening::verdict::ScreeningReason;

/// One accepted form entry and its state in the inbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Submission {
    /// A UUID version 7 that the server generates, so ids sort by time of arrival.
    pub id: Uuid,
    /// The form's name; the form may have been removed since.
    pub form: String,
    /// The definition that the submission was sent with, which the form may no longer have. If none is stored
    /// or this version cannot read it, the built-in form of this name; `None` if there is none.
    pub definition: Option<&'static Form>,
    /// When the server finished reading the request, to the millisecond.
    pub received_at: Timestamp,
    pub status: Status,
    pub held: Option<Hold>,
    /// The result of screening; `None` before processing, or if an old version stored the submission.
    pub screening: Option<Screening>,
    pub released_at: Option<Timestamp>,
    /// The host whose key signed the request, such as `agent.example.com`. `None` for unsigned requests.
    pub agent: Option<String>,
    /// Why the submission cannot be processed, if it is set aside.
    pub error: Option<String>,
    /// Names and checked values, in the order of the form's definition. The checks change some values; for
    /// example, `1.0` becomes `1`. Empty if the submission is sealed.
    pub fields: Vec<(String, FieldValue)>,
    /// The fields and the source of the lead as a JSON object, encrypted to the operator's key, if the
    /// submission is sealed.
    pub sealed: Option<Vec<u8>>,
    /// A keyed hash of the source, as 32 hexadecimal digits. Equal sources have equal hashes in one inbox.
    pub source: String,
    /// The number of later copies of this submission, which are counted instead of stored.
    pub repeats: u64,
    /// Set if the visitor must confirm the address or has confirmed it.
    pub confirmation: Option<Confirmation>,
    /// The source of the lead. Empty if the source is unknown or if the submission is sealed.
    pub lead: LeadSource,
}

impl Submission {
    /// The text of a field. `None` if the field is empty or not text, or if the submission is sealed.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name)?.1.as_str()
    }

    /// The fields and the source of the lead as JSON, to be encrypted. `{}` if the submission is sealed.
    pub fn plain_text(&self) -> String {
        plain_text(self.fields.iter().map(|(name, value)| (name.as_str(), value)), &self.lead)
    }

    /// The label that the field had when the submission was sent; the field's name if that is unknown.
    pub fn label<'a>(&self, name: &'a str) -> &'a str {
        self.definition.and_then(|form| form.field(name)).map_or(name, |field| field.label)
    }

    /// The title that the form had when the submission was sent; the form's name if that is unknown.
    pub fn title(&self) -> &str {
        self.definition.map_or(&self.form, |form| form.title)
    }

    /// The first e-mail address. `None` if none was filled in, or if the submission is sealed.
    pub fn email(&self) -> Option<&str> {
        first_email(self.definition, &self.fields)
    }

    /// The text that lists show as a heading: the field that the definition names, if it was filled in.
    /// `None` without a definition.
    pub fn heading(&self) -> Option<Cow<'_, str>> {
        self.displayed(self.definition?.heading)
    }

    /// The text whose beginning lists show: that of the field that the definition names for this, otherwise
    /// that of the first multiline field; without a definition, that of the field `message`. `None` if the
    /// field was not filled in.
    pub fn preview(&self) -> Option<Cow<'_, str>> {
        let Some(form) = self.definition else { return self.displayed("message") };
        let of_form = Some(form.preview).filter(|name| !name.is_empty());
        let first = || form.all_fields().find(|field| field.kind == FieldKind::Multiline);
        self.displayed(of_form.or_else(|| first().map(|field| field.name))?)
    }

    fn displayed(&self, name: &str) -> Option<Cow<'_, str>> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.display())
    }

    /// Decrypts `sealed` into `fields` and `lead`, and clears `sealed`. Does nothing if the submission is not
    /// sealed. On error, changes nothing.
    pub fn decrypt(&mut self, identity: &AgeIdentity) -> Result<(), EncryptionError> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let plain = identity.decrypt(sealed)?;
        let mut members: Map<String, Value> =
            serde_json::from_slice(&plain).map_err(|_| EncryptionError::Damaged)?;
        let lead = members.remove(SEALED_LEAD).map(serde_json::from_value).transpose();
        let lead = lead.map_err(|_| EncryptionError::Damaged)?.unwrap_or_default();
        self.fields = to_fields(members).map_err(|_| EncryptionError::Damaged)?;
        self.lead = lead;
        self.sealed = None;
        Ok(())
    }

    /// `received_at` in RFC 3339 format, in UTC, with milliseconds: `2026-11-20T14:03:05.120Z`.
    pub fn received_at_text(&self) -> String {
        format!("{:.3}", self.received_at)
    }
}

/// The key in a sealed submission's JSON object that contains the source of the lead. No form has a field
/// with this name.
const SEALED_LEAD: &str = "desk_lead";

/// The text of a submission that is encrypted: the fields as a JSON object, in this order, with the source of
/// the lead as the last member if it is known.
pub(crate) fn plain_text<'n, 'v>(
    fields: impl Iterator<Item = (&'n str, &'v FieldValue)>,
    lead: &LeadSource,
) -> String {
    let members = fields.map(|(name, value)| (name.to_owned(), json!(value)));
    let lead = (!lead.is_empty()).then(|| (SEALED_LEAD.to_owned(), json!(lead)));
    Value::Object(members.chain(lead).collect()).to_string()
}

/// The first e-mail address among fields of a form with this definition; without a definition, the text of
/// the field `email`. `None` if no such field was filled in.
pub fn first_email<'a>(
    definition: Option<&'static Form>,
    fields: &'a [(String, FieldValue)],
) -> Option<&'a str> {
    let is_email = |name: &str| match definition {
        Some(form) => form.field(name).is_some_and(|field| field.kind == FieldKind::Email),
        None => name == "email",
    };
    fields.iter().find(|(name, _)| is_email(name))?.1.as_str()
}

/// Parses a JSON object of field values, and keeps their order. The error says what is wrong.
pub(crate) fn parse_fields(json: &[u8]) -> Result<Vec<(String, FieldValue)>, &'static str> {
    to_fields(serde_json::from_slice(json).map_err(|_| "the fields are not a JSON object")?)
}

/// Converts the members of a JSON object to fields, in order. Fails if a value has a type that no field has,
/// such as null.
fn to_fields(members: Map<String, Value>) -> Result<Vec<(String, FieldValue)>, &'static str> {
    let value = |(name, value)| match serde_json::from_value(value) {
        Ok(value) => Ok((name, value)),
        Err(_) => Err("a field is neither text, nor a number, nor true or false, nor a list of texts"),
    };
    members.into_iter().map(value).collect()
}

impl fmt::Debug for Submission {
    /// Shows the names of the fields but not their values: logs must not contain what visitors write.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When the hold began or was last renewed, for example by a repeat of the submission.
    pub since: Timestamp,
    /// Why the submission is held, in words: the operator's reason, or the server's, such as a flood.
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// When the link in the last mail expires; before the first mail, when it would if the mail were sent at
    /// once.
    pub expires_at: Timestamp,
    /// When the last attempt to send the confirmation mail began; before the first one, when the mail was
    /// queued. `None` if it has not been queued, for example because of a limit of mails to visitors.
    pub asked_at: Option<Timestamp>,
    /// When the visitor confirmed the address; `None` if this has not happened yet.
    pub confirmed_at: Option<Timestamp>,
}

/// The stored part of the screening verdict. A release by the operator does not change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screening {
    pub score: u32,
    /// The reasons, most points first. Sealing the submission removes their details.
    pub reasons: Vec<ScreeningReason>,
    /// Whether screening or a flood held the submission when it was processed, or rspamd's opinion stopped it
    /// before its visitor was asked for a confirmation. The operator's hold of a submission in a flood makes
    /// this false.
    pub withheld: bool,
    pub suspicious: bool,
}

impl Screening {
    /// The names of the signals, most points first, such as `honeypot, links`.
    pub fn signals(&self) -> String {
        self.reasons.iter().map(|reason| reason.signal.name()).collect::<Vec<_>>().join(", ")
    }
}

named_enum! {
    /// The state of a submission, derived from its hold, its processing and its deliveries to the team.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Status {
        /// Only stored in the inbox: no channel to the team gets the submission.
        Kept = "kept",
        /// At least one delivery is pending and none is parked, or a channel gets the submission, which has
        /// not been processed yet.
        Waiting = "waiting",
        /// Every channel for which the submission was queued has received it.
        Delivered = "delivered",
        /// The visitor has not confirmed the address yet.
        Unconfirmed = "unconfirmed",
        /// The submission is waiting to be released or discarded.
        Held = "held",
        /// At least one delivery is a dead letter (all attempts failed, or the receiver refused it for good),
        /// or the submission was set aside.
        Parked = "parked",
    }
}
