//! The outcome of a delivery attempt, and the cause of a failure.

use frontdesk_forms::text::cut;
use std::time::Duration;

use frontdesk_forms::named_enum;
use serde::{Deserialize, Serialize};

/// The maximum duration of an attempt: more than the timeouts of all its steps together. One step is a mail
/// server's reply to a message, which may take ten minutes (RFC 5321 §4.5.3.2).
pub const LONGEST_ATTEMPT: Duration = Duration::from_mins(31);

/// The maximum length of a stored reply or error; the rest is dropped.
pub const MAX_ANSWER_CHARS: usize = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has accepted the notification: with an SMTP 2xx reply after the end of the message, an
    /// HTTP 2xx status, or a file in `new/`. Contains the reply.
    Delivered(String),
    /// The receiver has refused the notification, or is not certain to have accepted it for all recipients. A
    /// retry uses the same message id, so that a receiver can recognize a copy.
    Failed(AttemptFailure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    pub cause: Cause,
    /// The error or the receiver's reply, for the operator, such as `450 4.2.1 greylisted`. A receiver may
    /// quote what a visitor wrote, so this is stored in the inbox and never logged.
    pub answer: String,
    /// The delay that the receiver asked for.
    pub retry_after: Option<Duration>,
    /// Advice for the operator: options of the channel to change, if the error suggests any. Not stored.
    pub advice: Option<&'static str>,
    /// Set if some recipients have the notification and others do not.
    pub recipients: Option<Recipients>,
}

/// Which recipients of a notification have received it, and which have not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipients {
    /// The addresses that have received the notification. A retry omits them.
    pub reached: Vec<String>,
    /// The addresses for which the last attempt failed.
    pub missing: Vec<String>,
}

named_enum! {
    /// Classifies a failure: whether it concerns the channel or only this notification, and whether it is
    /// permanent. docs/pages/deliveries.md explains the names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cause {
        /// Concerns the channel: no connection, a refused login, an exhausted daily quota. Any other
        /// notification would have failed as well.
        Channel = "channel",
        /// The error, such as HTTP 403, may concern the whole channel or only this notification.
        Unclear = "unclear",
        /// The receiver may have accepted the notification: it was sent completely, and the reply cannot be
        /// read. A retry may make a copy, so there is only one, after an hour at the earliest.
        Uncertain = "uncertain",
        /// A temporary refusal (SMTP 450, HTTP 429). The next notification may be accepted within seconds.
        Deferred = "deferred",
        /// Concerns only this notification: the receiver works, but refused it this time.
        Notification = "notice",
        /// Concerns only this notification: the receiver will never accept it, so it becomes a dead letter at
        /// once.
        Refused = "refused",
        /// The receiver is gone for good (HTTP 410), so the channel is switched off.
        Gone = "gone",
    }
}

impl Outcome {
    /// A failure without further details. Shortens `answer` to one line of [`MAX_ANSWER_CHARS`].
    pub fn failed(cause: Cause, answer: impl Into<String>) -> Outcome {
        let answer = shorten(&answer.into());
        Outcome::Failed(AttemptFailure { cause, answer, retry_after: None, advice: None, recipients: None })
    }

    /// A success. Shortens `answer` to one line of [`MAX_ANSWER_CHARS`].
    pub fn delivered(answer: impl Into<String>) -> Outcome {
        Outcome::Delivered(shorten(&answer.into()))
    }

    /// Sets the advice of a failure. Leaves a success unchanged.
    #[must_use]
    pub fn with_advice(self, advice: Option<&'static str>) -> Outcome {
        match self {
            Outcome::Failed(failure) => Outcome::Failed(AttemptFailure { advice, ..failure }),
            Outcome::Delivered(_) => self,
        }
    }

    /// Records which recipients of a failed notification have received it. Leaves a success unchanged.
    #[must_use]
    pub fn with_recipients(self, recipients: Recipients) -> Outcome {
        match self {
            Outcome::Failed(failure) => {
                Outcome::Failed(AttemptFailure { recipients: Some(recipients), ..failure })
            }
            Outcome::Delivered(_) => self,
        }
    }

    /// Whether at least one recipient is known to have received the notification: always after a success, and
    /// after a failure whose recipients are recorded.
    pub fn has_reached_anyone(&self) -> bool {
        match self {
            Outcome::Delivered(_) => true,
            Outcome::Failed(failure) => failure.recipients.is_some(),
        }
    }

    /// Records that the receiver asked for this delay before a retry. Leaves a success unchanged.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Option<Duration>) -> Outcome {
        match self {
            Outcome::Failed(failure) => Outcome::Failed(AttemptFailure { retry_after, ..failure }),
            Outcome::Delivered(_) => self,
        }
    }
}

/// Joins the words of a reply with single spaces, and cuts the text to at most [`MAX_ANSWER_CHARS`]
/// characters.
fn shorten(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(&words.join(" "), MAX_ANSWER_CHARS).to_owned()
}
