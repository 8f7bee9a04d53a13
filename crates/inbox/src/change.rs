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

    /// Marks a submission as spam, teaches screening that, and holds it unless every channel has it
    /// ([`Editor::hold_as_spam`]). `Unchanged` if it had the mark, even if this call held it. After an error,
    /// the submission may be held without the mark.
    pub fn mark_spam(&mut self, id: Uuid, now: Timestamp) -> Result<Annotated, StoreError> {
        if self.exists(id)? {
            self.editor.hold_as_spam(id, now)?;
        }
        self.editor.set_spam(id, true, now)
    }

    /// Undoes [`Changes::mark_spam`] of a submission that had no mark: removes the mark and its lesson, and
    /// releases the submission ([`Editor::release`]) if the mark had held it. After an error, the mark may be
    /// gone while the submission is still held; another call then releases it. With neither a mark nor
    /// such a hold, does nothing.
    pub fn undo_spam(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let undone = self.editor.undo_spam(id, now)?;
        if undone != Annotated::Missing
            && self.reader.is_held_by_mark(id)?
            && self.editor.release(id, channels, now)?
        {
            return Ok(Annotated::Changed);
        }
        Ok(undone)
    }

    /// Removes the mark of spam, teaches that the submission is honest, and releases it if the mark had held
    /// it, even if an earlier call removed the mark and then failed. If there is nothing to remove or
    /// release, only teaches, and returns `Unchanged`.
    pub fn unmark_spam(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let unmarked = self.editor.set_spam(id, false, now)?;
        if unmarked != Annotated::Missing
            && self.reader.is_held_by_mark(id)?
            && self.editor.release(id, channels, now)?
        {
            return Ok(Annotated::Changed);
        }
        Ok(unmarked)
    }

    /// Removes the mark of spam, if there is one, teaches that the submission is honest, and releases it if
    /// it is held as spam ([`InboxReader::is_held_as_spam`]), also by a flood. If it is neither marked nor
    /// held so, only teaches, and returns `Unchanged`.
    pub fn mark_ham(
        &mut self,
        id: Uuid,
        channels: &[Route],
        now: Timestamp,
    ) -> Result<Annotated, StoreError> {
        let unmarked = self.editor.set_spam(id, false, now)?;
        if unmarked != Annotated::Missing && self.reader.is_held_as_spam(id)? {
            self.editor.release(id, channels, now)?;
            return Ok(Annotated::Changed);
        }
        Ok(unmarked)
    }

    fn exists(&self, id: Uuid) -> Result<bool, StoreError> {
        Ok(self.reader.get(id)?.is_some())
    }
}
