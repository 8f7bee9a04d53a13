//! The requests of the group caches.

use super::basis::Basis;
use crate::client::Client;

/// What the requests of the group caches found.
#[derive(Default)]
pub struct CachesSurvey {}

impl CachesSurvey {
    /// Sends the requests of the group.
    #[expect(clippy::unused_async, reason = "sends no request yet")]
    pub(crate) async fn survey(_client: &Client, _basis: &Basis) -> CachesSurvey {
        CachesSurvey {}
    }
}
