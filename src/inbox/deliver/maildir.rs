//! PLACEHOLDER

use super::notice::Notice;
use super::outcome::{Cause, Outcome};

/// Options.
#[derive(Clone, Debug)]
pub struct Options {}

/// The channel.
#[derive(Debug)]
pub struct Maildir {}

impl Maildir {
    /// Makes it ready.
    pub fn new(_options: Options) -> Maildir {
        Maildir {}
    }

    /// Sends one notice.
    pub async fn send(&self, _notice: &Notice) -> Outcome {
        Outcome::failed(Cause::Channel, "not yet")
    }
}
