//! Holds, releases, delivers, retries and annotates submissions, and reports the result of each change.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use crate::store::{Annotated, DatabaseUrl, Editor, InboxReader, Retry, StoreError};
use crate::submission::delivery::{DeliveryState, Route, choose};
use crate::submission::visitor_mail::is_visitor_channel;
use crate::submission::{Status, Submission};
use frontdesk_screening::Lexicon;

/// The reason that is recorded for a hold if the operator gives none.
const DEFAULT_REASON: &str = "held by the operator";

/// The result of holding a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Held {
        /// The number of deliveries to the team that had arrived or were under way, which the hold does not
        /// stop.
        gone: usize,
        /// The number of all deliveries to the team, including those that the hold does not stop.
        deliveries: usize,
    },
    AlreadyHeld,
    /// There is no delivery to hold: every channel has received the submission, or the server has not
    /// processed it yet.
    NothingToHold,
    Missing,
}

/// The result of releasing a held submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Contains the number of deliveries that are waiting or in progress, including emails to the visitor.
    Released(usize),
    /// The submission stays held until the visitor confirms the address. Another release delivers it without
    /// a confirmation.
    AsksVisitor,
    NotHeld,
    Missing,
}

/// The result of queueing a submission for channels that have not received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// Contains the number of new deliveries, at least one.
    Queued(usize),
    Held,
    /// The submission is encrypted, so no channel can read it.
    Sealed,
    /// No channel accepts the submission's form and values.
    NotAccepted,
    /// The submission was set aside because it could not be processed.
    SetAside,
    /// Every channel that gets it has a delivery of the submission, in any state. Also the result if
    /// the submission has not been processed yet.
    AlreadyDelivered,
    Missing,
}

/// Changes submissions on behalf of a user. The operator log records each change.
pub struct Changes<'a> {
    reader: &'a InboxReader,
    pub editor: Editor,
}

impl<'a> Changes<'a> {
    /// Opens the inbox at `place` for changes. `reader` must read the same inbox.
    pub fn open(place: &DatabaseUrl, reader: &'a InboxReader, user: &str) -> Result<Self, StoreError> {
        Ok(Changes { reader, editor: Editor::open(place)?.on_behalf_of(user) })
    }

    /// Sets the site's phrases, which are used to make lessons for screening; see [`Editor::teaching_with`].
    #[must_use]
    pub fn teaching_with(self, lexicon: &Arc<Lexicon>) -> Self {
        Changes { editor: self.editor.teaching_with(lexicon), ..self }
    }

    /// Holds a submission; see [`Editor::hold`]. Does not stop attempts that have begun. Without a reason,
    /// records `DEFAULT_REASON`. If nothing changes, `submission` decides which cause is reported, so it
    /// must have been read just before.
    pub fn hold(
        &mut self,
        submission: &Submission,
        because: Option<&str>,
        now: Timestamp,
    ) -> Result<Held, StoreError> {
        let id = submission.id;
        if !self.editor.hold(id, because.unwrap_or(DEFAULT_REASON), now)? {
            let unchanged = if submission.held.is_some() { Held::AlreadyHeld } else { Held::NothingToHold };
            return Ok(if self.exists(id)? { unchanged } else { Held::Missing });
        }
        let deliveries = self.reader.deliveries(id)?;
        let to_team = deliveries.iter().filter(|delivery| !is_visitor_channel(&delivery.channel));
        let states: Vec<DeliveryState> = to_team.map(|delivery| delivery.state).collect();
        let is_gone =
            |state: &&DeliveryState| matches!(state, DeliveryState::Delivered | DeliveryState::Sending);
        Ok(Held::Held { gone: states.iter().filter(is_gone).count(), deliveries: states.len() })
    }

    /// Releases a held submission to `channels`, or first asks its visitor for a confirmation; see
    /// [`Editor::release`].
    pub fn release(&mut self, id: Uuid, channels: &[Route], now: Timestamp) -> Result<Released, StoreError> {
        if !self.editor.release(id, channels, now)? {
            return Ok(if self.exists(id)? { Released::NotHeld } else { Released::Missing });
        }
        if self.reader.get(id)?.is_some_and(|submission| submission.status == Status::Unconfirmed) {
            return Ok(Released::AsksVisitor);
        }
        let due = self.reader.deliveries(id)?.iter().filter(|delivery| delivery.due_at.is_some()).count();
        Ok(Released::Released(due))
    }

    /// Queues a submission for those of the channels that get it ([`choose`]) and have no delivery of it. If
    /// nothing changes, `submission` decides which cause is reported, so it must have been read just before.
    pub fn deliver(
        &mut self,
        submission: &Submission,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Queued, StoreError> {
        let id = submission.id;
        Ok(match self.editor.deliver(id, channels, now)? {
            0 if !self.exists(id)? => Queued::Missing,
            0 if submission.held.is_some() => Queued::Held,
            0 if submission.sealed.is_some() => Queued::Sealed,
            0 if choose(channels, &submission.form, &submission.fields).is_empty() => Queued::NotAccepted,
            0 if submission.error.is_some() => Queued::SetAside,
            0 => Queued::AlreadyDelivered,
            count => Queued::Queued(count),
        })
    }

    /// Makes waiting and parked deliveries due now, has submissions that were set aside processed again, and
    /// switches their channels on; see [`Editor::retry`]. Returns the number of deliveries and submissions.
    pub fn retry(&mut self, retry: &Retry, now: Timestamp) -> Result<usize, StoreError> {
        self.editor.retry(retry, now)
    }

    /// Marks a submission as done, or as open again. Marking it as done again keeps the earlier time. Also
    /// changes what the submission teaches screening; see [`Editor::set_done`].
    pub fn set_done(&mut self, id: Uuid, is_done: bool, now: Timestamp) -> Result<Annotated, StoreError> {
        self.editor.set_done(id, is_done, now)
    }

    fn exists(&self, id: Uuid) -> Result<bool, StoreError> {
        Ok(self.reader.get(id)?.is_some())
    }
}
