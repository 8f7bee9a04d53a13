//! The inbox in a PostgreSQL database, which any number of replicas share.
//!
//! The tables are in the first schema of the search path, as a rule `public`. `migrations/postgres` has those of a new inbox, and what brings
//! an older one up to date. Replicas of two versions work side by side as long as the older one is not refused by
//! `frontdesk_layout.readable_from`.

mod commit;
pub(super) mod link;
mod server;
mod types;

use std::time::{Duration, Instant};

pub(super) use commit::Database;
#[cfg(test)]
use commit::{BACKEND, IS_ALIVE};
use link::{Link, Session};
pub use server::Server;

use super::fingerprint::Secret;
use super::sql::{Sql, values};
use super::{Place, StoreError};

/// The tables of a new inbox.
const TABLES: &str = include_str!("../../migrations/postgres/inbox.sql");
/// Each brings an inbox from the layout before it to its own; the first begins with layout 1.
const UPGRADES: [&str; 3] = [
    include_str!("../../migrations/postgres/upgrade_to_2.sql"),
    include_str!("../../migrations/postgres/upgrade_to_3.sql"),
    include_str!("../../migrations/postgres/upgrade_to_4.sql"),
];
/// The layout that this program reads and writes.
const LAYOUT: i64 = 4;
/// The oldest layout whose program can work with this one: while a new version replaces an old one, both are at work.
const READABLE_FROM: i64 = 3;

/// Each statement of the server's own ends within this time: those who wait for it are visitors.
const WRITING: Session = Session { writes: true, statement: Duration::from_secs(10) };
/// The operator's changes may concern all that there is.
const EDITING: Session = Session { writes: true, statement: Duration::from_mins(5) };
const READING: Session = Session { writes: false, statement: Duration::from_mins(5) };

/// Opens the database for reading. [`StoreError::Missing`] where no inbox was ever set up in it.
pub(super) fn open_to_read(server: &Server) -> Result<Link, StoreError> {
    let link = Link::open(server, READING)?;
    expect_layout(&link, server)?;
    Ok(link)
}

/// Opens a database in which there is an inbox, for changes.
pub(super) fn open_to_edit(server: &Server) -> Result<(Link, Secret), StoreError> {
    let link = Link::open(server, EDITING)?;
    expect_layout(&link, server)?;
    make_durable(&link)?;
    take_part(&link)?;
    let secret = read_secret(&link)?;
    Ok((link, secret))
}

/// Opens a database for changes, and makes the inbox in it or brings it up to date where that is to be done.
pub(super) fn open_to_make(server: &Server) -> Result<Link, StoreError> {
    open_to_write(server)?;
    open_to_edit(server).map(|(link, _)| link)
}

/// How long a session may take to end that nobody has any more.
const LETS_GO: Duration = Duration::from_secs(2);

/// What says that somebody works with the inbox: everybody who does has a share of this lock.
const IN_USE: &str = "hashtextextended('frontdesk in use ' || current_schema(), 0)";

/// Notes that we work with the inbox. [`StoreError::Locked`] while it is carried elsewhere.
fn take_part(sql: &dyn Sql) -> Result<(), StoreError> {
    let is_taken = patiently(sql, &format!("SELECT pg_try_advisory_lock_shared({IN_USE})"))?;
    if is_taken { Ok(()) } else { Err(StoreError::Locked) }
}

/// Keeps everybody else from working with the inbox as long as the connection lasts, however long it has nothing to do; whether nobody
/// does.
pub(super) fn is_ours_alone(link: &Link) -> Result<bool, StoreError> {
    link.run("SET idle_in_transaction_session_timeout = 0")?;
    patiently(link, &format!("SELECT pg_try_advisory_lock({IN_USE})"))
}

/// Tries for a lock. Who had it may just have let go of his connection, and the server takes a moment to notice.
fn patiently(sql: &dyn Sql, lock: &str) -> Result<bool, StoreError> {
    let began = Instant::now();
    loop {
        let is_taken = sql.one(lock, &[])?.get(0)?;
        if is_taken || began.elapsed() > LETS_GO {
            return Ok(is_taken);
        }
        std::thread::sleep(LETS_GO / 40);
    }
}

/// Opens the database for the writer, and makes the inbox or brings it up to date where that is to be done.
fn open_to_write(server: &Server) -> Result<(Link, Secret), StoreError> {
    let link = Link::open(server, WRITING)?;
    make_durable(&link)?;
    take_part(&link)?;
    if layout(&link, server)?.is_none_or(|layout| layout < LAYOUT) {
        migrate(&link, server)?;
    }
    let secret = read_secret(&link)?;
    Ok((link, secret))
}

/// The layout of the inbox, or nothing where there is none. Refuses one whose layout this program may not write to.
fn layout(sql: &dyn Sql, server: &Server) -> Result<Option<i64>, StoreError> {
    // Read from a table: a name that is looked up may be remembered as missing, after another replica has made it.
    let table =
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'frontdesk_layout'";
    if !sql.exists(table, &[])? {
        return Ok(None);
    }
    let Some(row) = sql.row("SELECT layout, readable_from FROM frontdesk_layout", &[])? else {
        return Err(StoreError::Damaged("its layout has no number"));
    };
    let (found, readable_from): (i64, i64) = (row.get(0)?, row.get(1)?);
    if readable_from > LAYOUT {
        return Err(StoreError::TooNew { place: Place::Postgres(server.clone()), found, known: LAYOUT });
    }
    Ok(Some(found))
}

fn expect_layout(sql: &dyn Sql, server: &Server) -> Result<(), StoreError> {
    match layout(sql, server)? {
        None => Err(StoreError::Missing(Place::Postgres(server.clone()))),
        Some(found) if found < LAYOUT => Err(StoreError::TooOld(Place::Postgres(server.clone()))),
        Some(_) => Ok(()),
    }
}

/// Sees to it that a commit of this session is a promise, whatever the settings become meanwhile.
fn make_durable(sql: &dyn Sql) -> Result<(), StoreError> {
    for setting in ["fsync", "synchronous_commit"] {
        let found: String = sql.one(&format!("SELECT current_setting('{setting}')"), &[])?.get(0)?;
        if found == "off" {
            return Err(StoreError::NotDurable { setting, found });
        }
    }
    sql.query("SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)", &[])?;
    Ok(())
}

fn migrate(link: &Link, server: &Server) -> Result<(), StoreError> {
    let sql: &dyn Sql = link;
    let made = sql.transaction(|| {
        // Of several replicas that start at once one does it, and the others see that it is done.
        sql.query(
            "SELECT pg_advisory_xact_lock(hashtextextended('frontdesk layout ' || current_schema(), 0))",
            &[],
        )?;
        if let Some(found) = layout(sql, server)? {
            let done = usize::try_from(found - 1).unwrap_or_default();
            for upgrade in UPGRADES.iter().skip(done) {
                link.run(upgrade)?;
            }
            // Another replica may have been faster, and newer.
            sql.execute(
                "UPDATE frontdesk_layout SET layout = ?1, readable_from = ?2 WHERE layout < ?1",
                values![LAYOUT, READABLE_FROM],
            )?;
        } else {
            link.run(TABLES)?;
            let secret =
                Secret::generate().map_err(|error| StoreError::io("/dev/urandom".as_ref(), error))?;
            sql.execute("INSERT INTO meta (name, value) VALUES ('secret', ?1)", values![secret.as_bytes()])?;
            link.run(
                "CREATE TABLE frontdesk_layout (layout bigint NOT NULL, readable_from bigint NOT NULL)",
            )?;
            sql.execute("INSERT INTO frontdesk_layout VALUES (?1, ?2)", values![LAYOUT, READABLE_FROM])?;
        }
        Ok(())
    });
    match made {
        // One of our names is another program's.
        Err(StoreError::Postgres(code)) if code == "42P07" => {
            Err(StoreError::NotAnInbox(Place::Postgres(server.clone())))
        }
        made => made,
    }
}

fn read_secret(sql: &dyn Sql) -> Result<Secret, StoreError> {
    let row = sql.row("SELECT value FROM meta WHERE name = 'secret'", &[])?;
    let secret = row.and_then(|row| row.get(0).ok());
    secret.map(Secret::from_bytes).ok_or(StoreError::Damaged("its secret is gone"))
}

#[cfg(test)]
mod tests;
