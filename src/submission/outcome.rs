//! What became of one attempt, as far as it matters for what is to be done next.

use std::time::Duration;

/// No attempt takes longer than this, in whatever channel.
pub const LONGEST_ATTEMPT: Duration = Duration::from_mins(2);

/// The most characters of a peer's answer that are kept.
pub const MAX_ANSWER_CHARS: usize = 300;

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has taken it over: a 250 after the message's end, a 2xx, a file in `new/`. What it said.
    Delivered(String),
    /// It has not, or we cannot know: then it is sent again, under the same id.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault it is, and so what is done next.
    pub cause: Cause,
    /// One sentence for the operator, with what the other side said: `450 4.2.1 greylisted`. Of what a visitor sent it holds
    /// nothing, unless the other side quoted it: so it is kept in the inbox and never logged.
    pub answer: String,
    /// The other side asked not to be tried again for this long.
    pub retry_after: Option<Duration>,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The channel's: no connection, a refused login, a used-up daily quota. Any other notice would have failed as well.
    Channel,
    /// The channel's or this notice's: the other side answers with an error that may be about either, as HTTP 403 or 500.
    Unclear,
    /// Neither's: the other side refuses for now (SMTP 450, HTTP 429). The next notice may pass in a few seconds.
    Deferred,
    /// Perhaps this notice's: the other side works and did not want it this time.
    Notice,
    /// This notice's, for good: the other side says that it will never take it. It is parked at once.
    Refused,
    /// The other side says that it is gone for good (HTTP 410): the channel is switched off.
    Gone,
}

impl Cause {
    /// Its name in the log and in the tables of ARCHITECTURE.md.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Channel => "channel",
            Cause::Unclear => "unclear",
            Cause::Deferred => "deferred",
            Cause::Notice => "notice",
            Cause::Refused => "refused",
            Cause::Gone => "gone",
        }
    }
}

impl Outcome {
    /// A failure without a word about when to come back.
    pub fn failed(cause: Cause, answer: impl Into<String>) -> Outcome {
        Outcome::Failed(Failure { cause, answer: brief(&answer.into()), retry_after: None })
    }

    /// Success, with what the other side said.
    pub fn delivered(answer: impl Into<String>) -> Outcome {
        Outcome::Delivered(brief(&answer.into()))
    }

    /// The same failure, with what the other side said of when to come back.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Option<Duration>) -> Outcome {
        match self {
            Outcome::Failed(failure) => Outcome::Failed(Failure { retry_after, ..failure }),
            Outcome::Delivered(_) => self,
        }
    }
}

/// On one line, and no longer than [`MAX_ANSWER_CHARS`].
fn brief(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_ANSWER_CHARS).collect()
}
