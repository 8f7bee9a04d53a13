//! The requests of the group basics.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group basics found.
#[derive(Default)]
pub struct BasicsSurvey {}

impl BasicsSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> BasicsSurvey {
        BasicsSurvey {}
    }
}
