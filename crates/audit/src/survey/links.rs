//! The requests of the group links.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group links found.
#[derive(Default)]
pub struct LinksSurvey {}

impl LinksSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> LinksSurvey {
        LinksSurvey {}
    }
}
