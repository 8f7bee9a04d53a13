//! The requests of the group negotiation.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group negotiation found.
#[derive(Default)]
pub struct NegotiationSurvey {}

impl NegotiationSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> NegotiationSurvey {
        NegotiationSurvey {}
    }
}
