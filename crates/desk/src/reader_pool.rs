//! Keeps a few connections to a PostgreSQL inbox open for reading. A SQLite file is opened for each request,
//! which is cheap: the file may be replaced while the server runs.

use std::sync::{Mutex, PoisonError};

use frontdesk_inbox::store::{DatabaseUrl, InboxReader, StoreError};

/// Maximum number of idle connections.
const MAX_IDLE: usize = 4;

pub(super) struct Readers {
    database: DatabaseUrl,
    idle: Mutex<Vec<InboxReader>>,
}

impl Readers {
    pub(super) fn new(database: DatabaseUrl) -> Self {
        Self { database, idle: Mutex::default() }
    }

    pub(super) fn database(&self) -> &DatabaseUrl {
        &self.database
    }

    /// Passes an idle connection to `read`, or opens one. Blocks. Keeps the connection only if the inbox is
    /// in PostgreSQL and fewer than [`MAX_IDLE`] are idle. Closes it after an error, because it may be lost,
    /// and does not retry: an idle connection that the server has closed is an error for the caller.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&InboxReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reader = match idle {
            Some(reader) => reader,
            None => InboxReader::open(&self.database)?,
        };
        let found = read(&reader)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if self.database.file().is_none() && idle.len() < MAX_IDLE {
            idle.push(reader);
        }
        Ok(found)
    }
}
