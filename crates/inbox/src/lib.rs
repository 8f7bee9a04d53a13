//! Operators' actions on submissions, shared by the command line and the web interface: finding, changing,
//! removing and exporting submissions, and sessions of the web interface. Decides, and prints nothing.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod change;
pub mod csv;
pub mod intake;
pub mod json;
pub mod query;
pub mod removal;
pub mod screening;
pub mod session;
pub mod store;
pub mod submission;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod user;

use crate::store::{DatabaseUrl, IdMatch, InboxReader, StoreError};

/// Opens the inbox. `None` if nothing has been received yet.
pub fn open(place: &DatabaseUrl) -> Result<Option<InboxReader>, StoreError> {
    match InboxReader::open(place) {
        Ok(inbox) => Ok(Some(inbox)),
        Err(StoreError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds the submission whose id begins with `prefix`. Finds nothing if there is no inbox.
pub fn find(reader: Option<&InboxReader>, prefix: &str) -> Result<IdMatch, StoreError> {
    reader.map_or(Ok(IdMatch::None), |reader| reader.find(prefix))
}
