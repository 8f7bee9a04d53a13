//! The lease of maintenance, a role that one process has at a time, in the table `lease`.
//!
//! The lease is a row and not a lock of a session, because behind a pooler no process has a session of its
//! own. The lease expires by the database's clock if its holder does not renew it. Without a pooler, the role
//! also ends with its holder's session, so that a process that was killed is replaced at once.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::BRIEF;
use super::connection::{BACKEND, PgConnection};
use super::connection_registration::{NOW, millis};
use crate::store::error::StoreError;
use crate::store::sql::{Sql, values};
use frontdesk_postgres::Server;
use frontdesk_process::panics;

/// Whether a lease has not expired, and the session of its holder, if it has one, has not ended. The start of
/// a session is null if it belongs to another role; only its process id is then compared.
const IS_HELD: &str = "lease.expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
     AND (lease.session IS NULL OR EXISTS (
         SELECT 1 FROM pg_stat_activity WHERE pid::text = split_part(lease.session, ' ', 1)
         AND (backend_start IS NULL OR concat_ws(' ', pid, extract(epoch FROM backend_start)) = lease.session)))";

/// How long a process keeps the maintenance role without renewing its lease.
const ROLE_DURATION: Duration = Duration::from_secs(30);
const ROLE_RENEWAL: Duration = Duration::from_secs(8);
/// How often the holder of the lease checks its connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the holder relies on the role after a renewal: less than [`ROLE_DURATION`], after which another
/// process may take the role.
const ROLE_VALIDITY: Duration = Duration::from_secs(25);
/// The name of the lease held by the process that runs maintenance.
const MAINTENANCE: &str = "maintenance";

/// The role of maintenance. Renews its lease on a thread. Dropping it ends the lease, and waits up to a
/// second for that.
pub struct MaintenanceLease {
    /// When the maintenance role of this process ends unless renewed; `None` if another process has the role.
    until: Arc<Mutex<Option<Instant>>>,
    /// Dropping the sender makes the thread end the lease.
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl MaintenanceLease {
    /// Takes the maintenance role, and starts the thread that renews it. `None` if a process has it, even
    /// this one.
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
        let until = Arc::new(Mutex::new(Some(began + ROLE_VALIDITY)));
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

    /// Whether this process still has the maintenance role: false from `ROLE_VALIDITY` after the last
    /// renewal, even if no other process has taken it.
    pub(in crate::store) fn is_held(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether any process has the maintenance role.
    pub(in crate::store) fn is_taken(server: &Server) -> Result<bool, StoreError> {
        let link = PgConnection::open(server, BRIEF)?;
        let held = format!("SELECT 1 FROM lease WHERE name = ?1 AND {IS_HELD}");
        (&link as &dyn Sql).exists(&held, values![MAINTENANCE])
    }
}

impl Drop for MaintenanceLease {
    /// Tells the thread to end the lease, and waits up to a second until it has ended.
    fn drop(&mut self) {
        self.stop = None;
        // Wait until the lease has ended, so that the process does not end earlier. After a timeout, it
        // expires.
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
    }
}

/// The thread that renews the lease, until the lease is dropped or another process has taken it.
struct Renewal {
    server: Server,
    holder: Uuid,
    until: Arc<Mutex<Option<Instant>>>,
    stopped: Receiver<()>,
}

impl Renewal {
    /// Renews the lease until it is stopped, and then deletes it, or until another process has taken it.
    /// After an error, connects and tries again every second. `link` is the connection whose session has the
    /// lease.
    fn run(&self, link: &mut Option<PgConnection>) {
        let mut renewed = Instant::now();
        while self.stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // Renew at once if the connection is lost: once its session has ended, another process may take
            // the role.
            let is_connected = link.as_ref().is_some_and(|link| !link.is_lost());
            if is_connected && renewed.elapsed() < ROLE_RENEWAL {
                continue;
            }
            let began = Instant::now();
            match self.renew(link) {
                Ok(true) => {
                    self.set(Some(began + ROLE_VALIDITY));
                    renewed = began;
                }
                Ok(false) => return self.set(None),
                // Keep trying: the database may be back before the lease expires.
                Err(_) => *link = None,
            }
        }
        if let Ok(link) = link.take().map_or_else(|| PgConnection::open(&self.server, BRIEF), Ok) {
            let end = "DELETE FROM lease WHERE name = ?1 AND holder = ?2";
            // Ignore an error: the lease then expires.
            let _ = link.execute(end, values![MAINTENANCE, self.holder]);
        }
    }

    fn set(&self, until: Option<Instant>) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Extends the lease, over a new connection if `link` is lost. Returns false if another process has the
    /// role.
    fn renew(&self, link: &mut Option<PgConnection>) -> Result<bool, StoreError> {
        let link = match link {
            Some(link) if !link.is_lost() => link,
            link => link.insert(PgConnection::open(&self.server, BRIEF)?),
        };
        let renew =
            format!("UPDATE lease SET expires_at = {NOW} + ?1, session = ?2 WHERE name = ?3 AND holder = ?4");
        let session = session(link)?;
        Ok(link.execute(&renew, values![millis(ROLE_DURATION), session, MAINTENANCE, self.holder])? > 0)
    }
}

/// Identifies the server process of a connection, as [`BACKEND`] does; `None` behind a pooler.
fn session(link: &PgConnection) -> Result<Option<String>, StoreError> {
    if link.is_pooled() { Ok(None) } else { (link as &dyn Sql).one_value(BACKEND, &[]).map(Some) }
}
