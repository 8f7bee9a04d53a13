//! The requests of the group forms.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group forms found.
#[derive(Default)]
pub struct FormsSurvey {}

impl FormsSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> FormsSurvey {
        FormsSurvey {}
    }
}
