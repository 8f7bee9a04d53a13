//! Opens an inbox in either database: to read, to edit, to copy, or to create it.

use std::time::Duration;

use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::keyed_hash::Secret;
use super::lock::Lock;
use super::sql::Sql;
use super::sqlite::files::create_folder;
use super::{postgres, sqlite};

/// How long a statement waits for a lock on a SQLite file while an inbox is being copied.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Opens the database read-only. Fails with [`StoreError::Missing`] if there is none or it is empty.
pub(super) fn open_to_read(url: &DatabaseUrl) -> Result<Box<dyn Sql>, StoreError> {
    Ok(match url {
        DatabaseUrl::Sqlite(path) => Box::new(sqlite::open_to_read(path)?),
        DatabaseUrl::Postgres(server) => Box::new(postgres::open_to_read(server)?),
    })
}

/// Opens the database for changes. Fails with [`StoreError::Missing`] if there is none or it is empty, and
/// with [`StoreError::Locked`] while a PostgreSQL inbox is being copied. `lock_timeout` is how long a
/// statement waits for locks on a SQLite file.
pub(super) fn open_to_edit(
    url: &DatabaseUrl,
    lock_timeout: Duration,
) -> Result<(Box<dyn Sql>, Secret), StoreError> {
    Ok(match url {
        DatabaseUrl::Sqlite(path) => {
            let (connection, secret) = sqlite::open_to_edit(path, lock_timeout)?;
            (Box::new(connection), secret)
        }
        DatabaseUrl::Postgres(server) => {
            let (connection, secret) = postgres::open_to_edit(server)?;
            (Box::new(connection), secret)
        }
    })
}

/// A database that no server uses. With SQLite, the lock excludes only servers and restores; with PostgreSQL,
/// the connection itself holds a lock (behind a pooler, the [`Lock`]), which also excludes editors. Readers
/// are never excluded.
pub(super) type Locked = (Box<dyn Sql>, Option<Lock>);

/// Opens and locks an inbox, and creates it first if `make` is set and it is missing; otherwise fails with
/// [`StoreError::Missing`]. `None` if a process that the lock excludes is using the inbox.
pub(super) fn open_and_lock(url: &DatabaseUrl, make: bool) -> Result<Option<Locked>, StoreError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            if make {
                create_folder(path)?;
            } else if !path.exists() {
                return Err(StoreError::Missing(url.clone()));
            }
            let Some(lock) = Lock::try_acquire(url)? else { return Ok(None) };
            if make {
                sqlite::SqliteWriter::open(path)?;
            }
            Ok(Some((open_to_edit(url, LOCK_TIMEOUT)?.0, Some(lock))))
        }
        DatabaseUrl::Postgres(server) => {
            let connection =
                if make { postgres::open_or_create(server)? } else { postgres::open_to_edit(server)?.0 };
            let locked = postgres::lock_exclusively(&connection, server)?;
            Ok(locked.map(|locked| {
                let lock = locked.holder.map(|holder| Lock::Transaction(Box::new(holder)));
                (Box::new(connection) as Box<dyn Sql>, lock)
            }))
        }
    }
}

/// Creates an empty inbox if there is none, and missing folders for a SQLite file. Fails if another program
/// or a version with another layout created the existing one.
pub fn create_if_missing(url: &DatabaseUrl) -> Result<(), StoreError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            create_folder(path)?;
            sqlite::SqliteWriter::open(path).map(drop)
        }
        DatabaseUrl::Postgres(server) => postgres::open_or_create(server).map(drop),
    }
}

/// Fails if this program can never use the existing database: because of its encoding, with SQLite because of
/// its layout, a collation or another program that created it, or with PostgreSQL because of a pooler that
/// pools by statement or a missing schema. A database that is missing or cannot be reached passes. Changes
/// nothing. Returns the warning of [`InboxReader::collation_warning`](super::InboxReader::collation_warning).
pub fn check_environment(url: &DatabaseUrl) -> Result<Option<String>, StoreError> {
    let checked = match url {
        DatabaseUrl::Sqlite(path) => sqlite::check_environment(path).map(|()| None),
        DatabaseUrl::Postgres(server) => postgres::check_environment(server),
    };
    checked.or_else(|error| if error.is_temporary() { Ok(None) } else { Err(error) })
}
