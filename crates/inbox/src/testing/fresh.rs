//! A new inbox for a test, in the database that the tests run with.
//!
//! Tests run with SQLite, or with the PostgreSQL server whose URL is in `FRONTDESK_TEST_POSTGRES`.
//! `scripts/test` starts a server and runs the tests of the inbox with both databases.

#[cfg(test)]
use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use crate::store::postgres::connection::{ConnectionOptions, PgConnection};
use crate::store::sql::Sql;
use crate::store::{DatabaseUrl, Server};

/// A place for a new inbox, removed on drop: a SQLite file that does not exist yet, or an empty schema.
pub struct Fresh {
    pub url: DatabaseUrl,
    pub folder: TempDir,
    /// The server and the name of the schema that holds the inbox; `None` for a SQLite file.
    schema: Option<(Server, String)>,
}

const SESSION: ConnectionOptions =
    ConnectionOptions { writes: true, statement: std::time::Duration::from_secs(20) };

impl Fresh {
    /// The path of a SQLite file; neither the file nor its folder exists yet.
    pub fn file() -> Fresh {
        let folder = TempDir::new().unwrap();
        Fresh { url: DatabaseUrl::Sqlite(folder.path().join("data/inbox.db")), folder, schema: None }
    }

    /// A new inbox's place in the kind of database that the tests run with: a SQLite file, or with PostgreSQL
    /// a new, empty schema.
    pub fn place() -> Fresh {
        let Ok(url) = std::env::var("FRONTDESK_TEST_POSTGRES") else { return Fresh::file() };
        let server = Server::parse(&url).unwrap();
        let schema = format!("test_{}", Uuid::now_v7().simple());
        let link = PgConnection::open(&server, SESSION).unwrap();
        link.execute(&format!("CREATE SCHEMA {schema}"), &[]).unwrap();
        let joint = if url.contains('?') { '&' } else { '?' };
        let place =
            Server::parse(&format!("{url}{joint}options=-csearch_path%3D{schema}&application_name={schema}"))
                .unwrap();
        Fresh {
            url: DatabaseUrl::Postgres(place),
            folder: TempDir::new().unwrap(),
            schema: Some((server, schema)),
        }
    }

    /// Opens another connection to the database, as another program would.
    #[cfg(test)]
    pub(crate) fn sql(&self) -> Box<dyn Sql> {
        match &self.url {
            DatabaseUrl::Sqlite(path) => Box::new(Connection::open(path).unwrap()),
            DatabaseUrl::Postgres(server) => Box::new(PgConnection::open(server, SESSION).unwrap()),
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some((server, schema)) = &self.schema
            && let Ok(link) = PgConnection::open(server, SESSION)
        {
            let _ = link.execute(&format!("DROP SCHEMA {schema} CASCADE"), &[]);
        }
    }
}
