//! Leases in the table `lease`, by the database's clock: a role that one process has at a time, and the
//! registrations of connections that change the inbox through a pooler.
//!
//! A session cannot hold these, because with a pooler no process has one. A lease expires if its holder does
//! not renew it. Without a pooler, the role also ends with its holder's session, so that a process that was
//! killed is replaced at once.

#![expect(clippy::disallowed_methods, reason = "leases are renewed and expire by the clock")]

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::BRIEF;
use super::commit::BACKEND;
use super::connection::PgConnection;
use super::server::Server;
use crate::store::error::StoreError;
use crate::store::sql::{Sql, values};
use frontdesk_process::panics;

/// The database's time in milliseconds, also within a transaction.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Whether a lease has not expired, and the session of its holder, if it has one, has not ended. The start of
/// another role's session is not visible.
const IS_HELD: &str = "lease.expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
     AND (lease.session IS NULL OR EXISTS (
         SELECT 1 FROM pg_stat_activity WHERE pid::text = split_part(lease.session, ' ', 1)
         AND (backend_start IS NULL OR concat_ws(' ', pid, extract(epoch FROM backend_start)) = lease.session)))";

/// How long a process has the role of maintenance without renewing it.
const ROLE_DURATION: Duration = Duration::from_secs(30);
const ROLE_RENEWAL: Duration = Duration::from_secs(8);
/// How often the holder checks its connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How much earlier the holder gives up its role than another process may take it.
const ROLE_MARGIN: Duration = Duration::from_secs(5);
/// The lease of the process that runs maintenance.
const MAINTENANCE: &str = "maintenance";

/// The role of maintenance. Renews its lease on a thread. Dropping it ends the lease.
pub struct MaintenanceLease {
    /// Until when this process has the role; `None` if another process has taken it.
    until: Arc<Mutex<Option<Instant>>>,
    /// Closing it makes the thread end the lease.
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl MaintenanceLease {
    /// Takes the role; `None` if another process has it.
    pub(in crate::store) fn try_acquire(server: &Server) -> Result<Option<MaintenanceLease>, StoreError> {
        let link = PgConnection::open(server, BRIEF)?;
        let holder = Uuid::now_v7();
        let began = Instant::now();
        let take = format!(
            "INSERT INTO lease (name, holder, expires_at, session) VALUES (?1, ?2, {NOW} + ?3, ?4)
             ON CONFLICT (name) DO UPDATE
             SET holder = excluded.holder, expires_at = excluded.expires_at, session = excluded.session
             WHERE NOT ({IS_HELD})"
        );
        let session = session(&link)?;
        if link.execute(&take, values![MAINTENANCE, holder, millis(ROLE_DURATION), session])? == 0 {
            return Ok(None);
        }
        let until = Arc::new(Mutex::new(Some(began + ROLE_DURATION - ROLE_MARGIN)));
        let (stop, stopped) = channel();
        let (end, ended) = channel();
        let keep = Renewal { server: server.clone(), holder, until: Arc::clone(&until), stopped };
        let mut link = Some(link);
        let run = move || {
            let _end = end;
            panics::restart_after_panic("the lease of maintenance", || keep.run(&mut link));
        };
        let started = thread::Builder::new().name("inbox-lease".to_owned()).spawn(run);
        started.map_err(|error| StoreError::io("the thread inbox-lease".as_ref(), error))?;
        Ok(Some(MaintenanceLease { until, stop: Some(stop), ended }))
    }

    /// Whether this process still has the role.
    pub(in crate::store) fn is_held(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether any process has the role.
    pub(in crate::store) fn is_taken(server: &Server) -> Result<bool, StoreError> {
        let link = PgConnection::open(server, BRIEF)?;
        let held = format!("SELECT 1 FROM lease WHERE name = ?1 AND {IS_HELD}");
        (&link as &dyn Sql).exists(&held, values![MAINTENANCE])
    }
}

impl Drop for MaintenanceLease {
    fn drop(&mut self) {
        self.stop = None;
        // Wait, so that the process does not end earlier. After a timeout, the lease expires.
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
    }
}

/// Renews the lease until it is stopped or lost.
struct Renewal {
    server: Server,
    holder: Uuid,
    until: Arc<Mutex<Option<Instant>>>,
    stopped: Receiver<()>,
}

impl Renewal {
    /// `link` is the connection whose session has the lease.
    fn run(&self, link: &mut Option<PgConnection>) {
        let mut renewed = Instant::now();
        while self.stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // Renew at once after a lost connection, whose end lets another process take the role.
            let is_connected = link.as_ref().is_some_and(|link| !link.is_lost());
            if is_connected && renewed.elapsed() < ROLE_RENEWAL {
                continue;
            }
            let began = Instant::now();
            match self.renew(link) {
                Ok(true) => {
                    self.set(Some(began + ROLE_DURATION - ROLE_MARGIN));
                    renewed = began;
                }
                Ok(false) => return self.set(None),
                // Keep trying: the database may be back before the lease expires.
                Err(_) => *link = None,
            }
        }
        if let Ok(link) = link.take().map_or_else(|| PgConnection::open(&self.server, BRIEF), Ok) {
            let end = "DELETE FROM lease WHERE name = ?1 AND holder = ?2";
            // After an error, the lease expires.
            let _ = link.execute(end, values![MAINTENANCE, self.holder]);
        }
    }

    fn set(&self, until: Option<Instant>) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Returns false if another process has the role.
    fn renew(&self, link: &mut Option<PgConnection>) -> Result<bool, StoreError> {
        let link = match link {
            Some(link) if !link.is_lost() => link,
            link => link.insert(PgConnection::open(&self.server, BRIEF)?),
        };
        let renew = format!(
            "UPDATE lease SET expires_at = {NOW} + ?1, session = ?2 WHERE name = ?3 AND holder = ?4"
        );
        let session = session(link)?;
        Ok(link.execute(&renew, values![millis(ROLE_DURATION), session, MAINTENANCE, self.holder])? > 0)
    }
}

/// The server process of a connection; `None` behind a pooler.
fn session(link: &PgConnection) -> Result<Option<String>, StoreError> {
    if link.is_pooled() { Ok(None) } else { (link as &dyn Sql).one_value(BACKEND, &[]).map(Some) }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long a registration is valid without being renewed.
const REGISTRATION_DURATION: Duration = Duration::from_mins(1);
const REGISTRATION_RENEWAL: Duration = Duration::from_secs(20);
/// The names of registrations begin with this.
const REGISTERED: &str = "writer ";

/// The registration of a connection that changes the inbox through a pooler.
///
/// Each of its transactions fails unless the registration exists, so ending the registration of a lost
/// connection prevents a late commit. An unexpired registration also shows that the inbox is in use.
pub(super) struct Registration {
    holder: Uuid,
    renewed: Cell<Instant>,
}

impl Registration {
    /// Registers in the current transaction.
    pub fn insert(sql: &dyn Sql) -> Result<Registration, StoreError> {
        let registration = Registration { holder: Uuid::now_v7(), renewed: Cell::new(Instant::now()) };
        // Processes that were killed have left these.
        let remove = format!("DELETE FROM lease WHERE expires_at < {NOW} - 86400000");
        sql.execute(&remove, &[])?;
        let insert = format!("INSERT INTO lease (name, holder, expires_at) VALUES (?1, ?2, {NOW} + ?3)");
        let name = name(registration.holder);
        sql.execute(&insert, values![name, registration.holder, millis(REGISTRATION_DURATION)])?;
        Ok(registration)
    }

    pub fn holder(&self) -> Uuid {
        self.holder
    }

    /// Statements at the beginning of each transaction. They fail if the registration has ended, or if the
    /// server that the pooler has chosen does not sync its commits. They renew the registration in time.
    pub fn check(&self) -> String {
        let name = name(self.holder);
        // The lock comes first: the second statement then sees what the last holder of the lock has done.
        // It divides by zero if the registration is missing.
        let mut check = format!(
            "; SELECT pg_advisory_xact_lock_shared({})
             ; SELECT 1 / count(*) FROM lease WHERE name = '{name}' AND current_setting('fsync') <> 'off'",
            key(self.holder),
        );
        if self.renewed.get().elapsed() > REGISTRATION_RENEWAL {
            self.renewed.set(Instant::now());
            let duration = millis(REGISTRATION_DURATION);
            check += &format!("; UPDATE lease SET expires_at = {NOW} + {duration} WHERE name = '{name}'");
        }
        check
    }

    /// The statement that ends the registration.
    pub fn delete(&self) -> String {
        format!("DELETE FROM lease WHERE name = '{}'", name(self.holder))
    }
}

fn name(holder: Uuid) -> String {
    format!("{REGISTERED}{holder}")
}

/// The key of the advisory lock that each transaction of a registration shares: random bits of the id.
fn key(holder: Uuid) -> i64 {
    let (_, low) = holder.as_u64_pair();
    low.cast_signed()
}

/// Ends the registration of a lost connection, in the current transaction. Returns false if one of its
/// transactions is still under way, which may be waiting for a standby. After true, and as soon as the
/// current transaction is committed, none can be committed any more.
pub(super) fn end_registration(sql: &dyn Sql, holder: Uuid) -> Result<bool, StoreError> {
    let is_over = sql.one_value(&format!("SELECT pg_try_advisory_xact_lock({})", key(holder)), &[])?;
    if is_over {
        sql.execute("DELETE FROM lease WHERE name = ?1", values![name(holder)])?;
    }
    Ok(is_over)
}

/// Ends the expired registrations, except `own`. Returns false if there is another one that has not expired,
/// or whose transaction is under way. Uses the query `lock`, whose parameter is the key, to prevent their
/// transactions until it is released.
pub(super) fn end_all(sql: &dyn Sql, own: Option<Uuid>, lock: &str) -> Result<bool, StoreError> {
    let all = format!(
        "SELECT holder, CASE WHEN expires_at > {NOW} THEN 1 ELSE 0 END AS is_alive FROM lease WHERE name LIKE '{REGISTERED}%'"
    );
    for row in sql.query(&all, &[])? {
        let holder: Uuid = row.get("holder")?;
        if Some(holder) == own {
            continue;
        }
        if row.get("is_alive")? || !sql.one_value::<bool>(lock, values![key(holder)])? {
            return Ok(false);
        }
        sql.execute("DELETE FROM lease WHERE name = ?1", values![name(holder)])?;
    }
    Ok(true)
}
