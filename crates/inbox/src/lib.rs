//! Submissions, from their acceptance to the operator's last action: intake, screening, the store,
//! encryption, and the actions that the command line and the web interface share. Returns results, and prints
//! nothing.
//!
//! The thread that removes submissions after the retention period is in `crates/deliver/src/maintenance.rs`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod change;
pub mod discard_preview;
pub mod intake;
pub mod login_session;
pub mod store;
pub mod submission;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use crate::store::{DatabaseUrl, IdMatch, InboxReader, StoreError};

/// Opens the inbox for reading. `None` if there is no database yet, or an empty one.
pub fn open(place: &DatabaseUrl) -> Result<Option<InboxReader>, StoreError> {
    match InboxReader::open(place) {
        Ok(inbox) => Ok(Some(inbox)),
        Err(StoreError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds submissions by a prefix of their id, like [`InboxReader::find`]. Finds none if there is no inbox.
pub fn find(reader: Option<&InboxReader>, prefix: &str) -> Result<IdMatch, StoreError> {
    reader.map_or(Ok(IdMatch::None), |reader| reader.find(prefix))
}
