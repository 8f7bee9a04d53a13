//! Inboxes for tests, also of other crates (the feature `testing`).

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a failure here fails a test")]
#![expect(clippy::new_without_default, reason = "`new` says that each fixture has an inbox of its own")]

pub mod fixture;
pub mod fresh;
pub mod inbox;
pub mod memory;

use crate::intake::Arrival;
pub use frontdesk_age::generate_key_texts;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::{ScreeningReason, ScreeningVerdict, Signal};

impl Arrival {
    /// The same arrival, as if screening had held it for these reasons with 60 points each. Replaces its
    /// evidence.
    #[must_use]
    pub fn held_for(mut self, reasons: &[(Signal, &str)]) -> Arrival {
        let reason = |(signal, detail): &(_, &str)| ScreeningReason {
            signal: *signal,
            points: 60,
            detail: (*detail).to_owned(),
        };
        let reasons: Vec<ScreeningReason> = reasons.iter().map(reason).collect();
        let score = reasons.iter().map(|reason| reason.points).sum();
        self.evidence =
            Evidence::Verdict(ScreeningVerdict { score, reasons, hold: true, ..ScreeningVerdict::default() });
        self
    }
}
