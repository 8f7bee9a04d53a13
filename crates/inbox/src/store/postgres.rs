//! The inbox in a PostgreSQL database, which any number of replicas can share.
//!
//! The tables are in the first schema of the search path, by default `public`.

#![expect(clippy::disallowed_methods, reason = "a command waits for the server")]

pub(super) mod commit;
pub(crate) mod connection;
mod connection_registration;
pub(super) mod maintenance_lease;

use std::time::{Duration, Instant};

use connection::{ConnectionOptions, PgConnection};
use connection_registration::{Registration, end_all};

use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::keyed_hash::Secret;
use super::sql::{Sql, collation_version, values};
use frontdesk_postgres::Server;

/// The SQL script that creates the tables of a new inbox.
const TABLES: &str = include_str!("../../../../migrations/postgres/inbox.sql");
/// The version of the table layout. Databases with another version are refused.
const LAYOUT: i64 = 18;

/// Options for the writer. Visitors wait for its statements.
const WRITING: ConnectionOptions = ConnectionOptions { writes: true, statement: Duration::from_secs(10) };
/// Options for the operator's changes, which may affect all rows.
const EDITING: ConnectionOptions = ConnectionOptions { writes: true, statement: Duration::from_mins(5) };
/// Options for connections that listen or hold a lock, whose statements take little time.
pub(super) const BRIEF: ConnectionOptions =
    ConnectionOptions { writes: true, statement: Duration::from_secs(5) };
const READING: ConnectionOptions = ConnectionOptions { writes: false, statement: Duration::from_mins(5) };

/// Opens the database read-only. Fails with [`StoreError::Missing`] if it has no inbox.
pub(super) fn open_to_read(server: &Server) -> Result<PgConnection, StoreError> {
    let connection = PgConnection::open(server, READING)?;
    expect_layout(&connection, server)?;
    Ok(connection)
}

/// Opens an existing inbox for changes. Fails with [`StoreError::Missing`] if there is none, with
/// [`StoreError::Locked`] while it is being copied to another database, and with [`StoreError::NotDurable`]
/// if commits may be lost ([`make_durable`]).
pub(super) fn open_to_edit(server: &Server) -> Result<(PgConnection, Secret), StoreError> {
    let connection = PgConnection::open(server, EDITING)?;
    expect_layout(&connection, server)?;
    make_durable(&connection)?;
    mark_in_use(&connection)?;
    let secret = Secret::read(&connection)?;
    Ok((connection, secret))
}

/// Opens the database for changes. Creates the inbox if it is missing.
pub(super) fn open_or_create(server: &Server) -> Result<PgConnection, StoreError> {
    open_to_write(server)?;
    open_to_edit(server).map(|(connection, _)| connection)
}

/// How long to retry taking a lock, because the server may notice only late that the lock's holder is gone.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);

/// The key of the lock that is shared by all processes that use the inbox.
const IN_USE: &str = "hashtextextended('frontdesk in use ' || current_schema(), 0)";

/// Marks the inbox as in use until the connection ends: with a lock of its session, or behind a pooler with a
/// [`Registration`]. Fails with [`StoreError::Locked`] if the inbox is still being copied to another database
/// after two seconds.
fn mark_in_use(connection: &PgConnection) -> Result<(), StoreError> {
    let sql: &dyn Sql = connection;
    let is_taken = if connection.is_pooled() {
        let lock = format!("SELECT pg_try_advisory_xact_lock_shared({IN_USE})");
        try_repeatedly(|| {
            sql.transaction(|| {
                let is_taken = sql.one_value(&lock, &[])?;
                if is_taken {
                    connection.set_registration(Registration::insert(sql)?);
                }
                Ok(is_taken)
            })
        })?
    } else {
        try_repeatedly(|| sql.one_value(&format!("SELECT pg_try_advisory_lock_shared({IN_USE})"), &[]))?
    };
    if is_taken { Ok(()) } else { Err(StoreError::Locked) }
}

/// The exclusive lock of an inbox. Ends when `holder` closes or, without a holder, when the connection that
/// was passed to [`lock_exclusively`] closes.
pub(super) struct ExclusiveLock {
    /// Behind a pooler, the connection whose open transaction holds the lock; `None` without a pooler.
    pub(super) holder: Option<PgConnection>,
}

/// Tries to lock the inbox exclusively, for up to [`MAX_LOCK_WAIT`], and turns off the timeout of
/// idle transactions on `connection`. Ends expired registrations. Returns `None` if another connection uses
/// the inbox.
pub(super) fn lock_exclusively(
    connection: &PgConnection,
    server: &Server,
) -> Result<Option<ExclusiveLock>, StoreError> {
    connection.fix_setting("idle_in_transaction_session_timeout", "0")?;
    if !connection.is_pooled() {
        let is_taken = try_repeatedly(|| {
            let lock = format!("SELECT pg_try_advisory_lock({IN_USE})");
            let sql: &dyn Sql = connection;
            Ok(sql.one_value(&lock, &[])? && end_all(sql, None, "SELECT pg_try_advisory_lock(?1)")?)
        })?;
        return Ok(is_taken.then_some(ExclusiveLock { holder: None }));
    }
    let holder = PgConnection::open(server, BRIEF)?;
    holder.fix_setting("idle_in_transaction_session_timeout", "0")?;
    let sql: &dyn Sql = &holder;
    let is_taken = try_repeatedly(|| {
        sql.execute("BEGIN", &[])?;
        let lock = format!("SELECT pg_try_advisory_xact_lock({IN_USE})");
        let is_taken = sql.one_value(&lock, &[])?
            && end_all(sql, connection.registered(), "SELECT pg_try_advisory_xact_lock(?1)")?;
        if !is_taken {
            sql.execute("ROLLBACK", &[])?;
        }
        Ok(is_taken)
    })?;
    Ok(is_taken.then_some(ExclusiveLock { holder: Some(holder) }))
}

/// Tries to take a lock for up to [`MAX_LOCK_WAIT`]. Returns whether `lock` took it.
fn try_repeatedly(lock: impl Fn() -> Result<bool, StoreError>) -> Result<bool, StoreError> {
    let began = Instant::now();
    loop {
        let is_taken = lock()?;
        if is_taken || began.elapsed() > MAX_LOCK_WAIT {
            return Ok(is_taken);
        }
        std::thread::sleep(MAX_LOCK_WAIT / 40);
    }
}

/// Fails if the pooler, encoding or schema makes the database unusable. Returns a collation warning, if any.
pub(super) fn check_environment(server: &Server) -> Result<Option<String>, StoreError> {
    let connection = open_and_look_for_pooler(server, BRIEF)?;
    expect_utf8(&connection, server)?;
    expect_schema(&connection, server)?;
    collation_version::warning(&connection)
}

/// Fails if there is no schema for the tables.
fn expect_schema(sql: &dyn Sql, server: &Server) -> Result<(), StoreError> {
    if sql.one_value("SELECT current_schema() IS NOT NULL", &[])? {
        return Ok(());
    }
    Err(StoreError::NoSchema(DatabaseUrl::Postgres(server.clone())))
}

/// Opens the database for the writer, and creates the inbox if it is missing. Returns the connection and the
/// inbox's secret. The connection holds a shared lock of the inbox until it closes; behind a pooler, it has a
/// registration in the database instead. Fails with [`StoreError::Locked`] if the inbox is still being copied
/// to another database after [`MAX_LOCK_WAIT`], and with other errors if a pooler, the encoding,
/// the schema, the durability of commits or the layout of the tables makes the database unusable.
fn open_to_write(server: &Server) -> Result<(PgConnection, Secret), StoreError> {
    // Look for a pooler before locking anything: behind a pooler, another session could keep the lock.
    let connection = open_and_look_for_pooler(server, WRITING)?;
    if connection.is_pooled() && server.pooler().report() {
        tracing::info!(
            "a connection pooler is in front of {server}: using no session settings, locks or prepared \
             statements, and looking for changes every second"
        );
    }
    expect_utf8(&connection, server)?;
    expect_schema(&connection, server)?;
    make_durable(&connection)?;
    // Without a pooler, lock the session before creating tables. Behind one, the registration needs the
    // tables.
    if !connection.is_pooled() {
        mark_in_use(&connection)?;
    }
    if !has_tables(&connection, server)? {
        create_tables(&connection, server)?;
    }
    if connection.is_pooled() {
        mark_in_use(&connection)?;
    }
    let secret = Secret::read(&connection)?;
    Ok((connection, secret))
}

/// Whether the database has the tables of an inbox. Fails if another version created them, or if their layout
/// number is missing.
fn has_tables(sql: &dyn Sql, server: &Server) -> Result<bool, StoreError> {
    // Query the catalog: a cached lookup of the name could miss a table that another replica created.
    let table =
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'frontdesk_layout'";
    if !sql.exists(table, &[])? {
        return Ok(false);
    }
    let Some(layout) = sql.value("SELECT layout FROM frontdesk_layout", &[])? else {
        return Err(StoreError::Damaged("its layout number is missing"));
    };
    let url = DatabaseUrl::Postgres(server.clone());
    match layout {
        LAYOUT => Ok(true),
        found if found < LAYOUT => Err(StoreError::TooOld { url, found, known: LAYOUT }),
        found => Err(StoreError::TooNew { url, found, known: LAYOUT }),
    }
}

/// Fails if there is no inbox, or if another version created it.
fn expect_layout(sql: &dyn Sql, server: &Server) -> Result<(), StoreError> {
    let missing = || StoreError::Missing(DatabaseUrl::Postgres(server.clone()));
    if has_tables(sql, server)? { Ok(()) } else { Err(missing()) }
}

/// Fails if `fsync` or `synchronous_commit` is off. Fixes the current `synchronous_commit` for this session,
/// so that later changes to the server's configuration have no effect on it.
fn make_durable(connection: &PgConnection) -> Result<(), StoreError> {
    let sql: &dyn Sql = connection;
    for setting in ["fsync", "synchronous_commit"] {
        let found: String = sql.one_value(&format!("SELECT current_setting('{setting}')"), &[])?;
        if found == "off" {
            return Err(StoreError::NotDurable { setting, found, needed: "on" });
        }
    }
    let found: String = sql.one_value("SELECT current_setting('synchronous_commit')", &[])?;
    connection.fix_setting("synchronous_commit", &found)
}

/// Fails unless both the database's encoding and this session's are UTF-8.
fn expect_utf8(sql: &dyn Sql, server: &Server) -> Result<(), StoreError> {
    for setting in ["server_encoding", "client_encoding"] {
        let found: String = sql.one_value(&format!("SELECT current_setting('{setting}')"), &[])?;
        if found != "UTF8" {
            let url = DatabaseUrl::Postgres(server.clone());
            return Err(StoreError::WrongEncoding { url, setting, found, needed: "UTF8" });
        }
    }
    Ok(())
}

/// How many times [`shares_sessions`] looks for a pooler: in each try, other clients of the pooler may take
/// the session whose reuse would reveal it.
const POOLER_PROBES: usize = 4;

/// Connects. If [`shares_sessions`] finds a pooler that connecting did not reveal, marks the server as pooled
/// and connects again.
fn open_and_look_for_pooler(server: &Server, session: ConnectionOptions) -> Result<PgConnection, StoreError> {
    let connection = PgConnection::open(server, session)?;
    if connection.is_pooled() || !shares_sessions(&connection, server)? {
        return Ok(connection);
    }
    server.pooler().set_pooled();
    PgConnection::open(server, session)
}

/// Whether a pooler passes the transactions of this connection to several sessions, or those of several
/// connections to one.
///
/// A second connection holds a transaction. If it has the first connection's session, or if the first
/// connection now has another session than before, there is a pooler. Without the second connection, a pooler
/// with few clients would always choose the same session. If the second connection cannot be opened, nothing
/// is checked.
fn shares_sessions(connection: &PgConnection, server: &Server) -> Result<bool, StoreError> {
    const SESSION: &str = "SELECT pg_backend_pid()";
    // The server may have no connection to spare, which is no reason to refuse submissions.
    let Ok(other) = PgConnection::open(server, BRIEF) else { return Ok(false) };
    for _ in 0..POOLER_PROBES {
        let before = connection.query_text(SESSION)?;
        other.run_statements("BEGIN")?;
        if other.query_text(SESSION)? == before || connection.query_text(SESSION)? != before {
            return Ok(true);
        }
        other.run_statements("COMMIT")?;
    }
    Ok(false)
}

/// Creates the tables and the inbox's secret, unless another replica has created them. Fails with
/// [`StoreError::NotAnInbox`] if there is another program's table with one of their names.
fn create_tables(connection: &PgConnection, server: &Server) -> Result<(), StoreError> {
    let sql: &dyn Sql = connection;
    let made = sql.transaction(|| {
        // Lock, so that only one of several replicas that start at once creates the tables.
        sql.query(
            "SELECT pg_advisory_xact_lock(hashtextextended('frontdesk layout ' || current_schema(), 0))",
            &[],
        )?;
        if !has_tables(sql, server)? {
            connection.run_statements(TABLES)?;
            let secret = Secret::generate()?;
            sql.execute("INSERT INTO meta (name, value) VALUES ('secret', ?1)", values![secret.0])?;
            connection.run_statements("CREATE TABLE frontdesk_layout (layout bigint NOT NULL)")?;
            sql.execute("INSERT INTO frontdesk_layout VALUES (?1)", values![LAYOUT])?;
        }
        Ok(())
    });
    match made {
        Err(StoreError::Postgres(code)) if code == "42P07" => {
            Err(StoreError::NotAnInbox(DatabaseUrl::Postgres(server.clone())))
        }
        made => made,
    }
}

#[cfg(test)]
mod tests;
