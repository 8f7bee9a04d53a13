//! The address of an inbox: a SQLite file or a PostgreSQL database. `frontdesk-config` parses `store.url`.

use std::fmt;
use std::path::{Path, PathBuf};

use frontdesk_postgres::Server;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A SQLite file. A missing file is created with access for this user only.
    Sqlite(PathBuf),
    /// A database on a PostgreSQL server, which several machines can share.
    Postgres(Server),
}

impl DatabaseUrl {
    pub fn file(&self) -> Option<&Path> {
        match self {
            DatabaseUrl::Sqlite(path) => Some(path),
            DatabaseUrl::Postgres(_) => None,
        }
    }

    /// The file with the certificates of the authorities that verify the server, if the URL names one and TLS
    /// is on.
    pub fn ca_file(&self) -> Option<&Path> {
        match self {
            DatabaseUrl::Sqlite(_) => None,
            DatabaseUrl::Postgres(server) => server.root_file(),
        }
    }
}

/// Takes a path to a SQLite file. Does not parse URLs.
impl<P: AsRef<Path>> From<P> for DatabaseUrl {
    fn from(path: P) -> DatabaseUrl {
        DatabaseUrl::Sqlite(path.as_ref().to_owned())
    }
}

impl From<&DatabaseUrl> for DatabaseUrl {
    fn from(place: &DatabaseUrl) -> DatabaseUrl {
        place.clone()
    }
}

/// Shows the file's path, or the server and the database without credentials.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseUrl::Sqlite(path) => path.display().fmt(f),
            DatabaseUrl::Postgres(server) => server.fmt(f),
        }
    }
}
