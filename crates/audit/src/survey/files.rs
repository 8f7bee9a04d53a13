//! The requests of the group files.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group files found.
#[derive(Default)]
pub struct FilesSurvey {}

impl FilesSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> FilesSurvey {
        FilesSurvey {}
    }
}
