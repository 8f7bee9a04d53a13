//! Writes to PostgreSQL: submissions by one statement, which is a transaction by itself, and changes in a transaction of several.
//! If the connection is lost before the server has answered, it looks for the submissions' ids.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::link::Link;
use super::{Server, open_to_write};
use crate::store::fingerprint::Secret;
use crate::store::ids::Ids;
use crate::store::sql::change::{self, Change, Changing};
use crate::store::sql::{Sql, intake, values};
use crate::store::{Doubt, Job, StoreError};

/// How often a batch is tried again because the connection was lost or another replica was faster.
const AGAIN: usize = 8;
/// After so long nothing is tried again: visitors wait for it.
const LONG_ENOUGH: Duration = Duration::from_secs(12);
/// How long to look for rows whose commit the server has not confirmed.
const FIND_OUT: Duration = Duration::from_secs(8);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The database, open for writing.
pub(in crate::store) struct Database {
    link: Link,
    secret: Secret,
    server: Server,
    /// The server's process at the other end of `link`, as [`IS_ALIVE`] knows it.
    backend: String,
}

/// The name of the server process of this connection: its number and start time, which no later process shares.
pub(super) const BACKEND: &str = "SELECT concat_ws(' ', pid, extract(epoch FROM backend_start)) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
/// Finds the server process with that name. The server removes a process from the list after its last transaction has ended, so one that
/// is not found commits nothing more. Roles see their own processes.
pub(super) const IS_ALIVE: &str =
    "SELECT 1 FROM pg_stat_activity WHERE concat_ws(' ', pid, extract(epoch FROM backend_start)) = ?1";

/// Ends the server process with that name if it waits for its client: only our side has lost the connection, or a pooler keeps it.
const END_IF_IDLE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE concat_ws(' ', pid, extract(epoch FROM backend_start)) = ?1 AND state LIKE 'idle%' AND wait_event = 'ClientRead'";

/// Why a transaction did not go well.
enum Trouble {
    /// Nothing of it was kept.
    Failed(StoreError),
    /// Another replica was at the same rows; nothing was kept, and it may go well now.
    Again(StoreError),
    /// The server did not say whether it was committed.
    Unknown(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error {
            StoreError::Locked => Trouble::Again(error),
            error => Trouble::Failed(error),
        }
    }
}

impl Database {
    pub fn open(server: &Server) -> Result<Database, StoreError> {
        let (link, secret) = open_to_write(server)?;
        // Now, so that acceptance sends nothing but the rows.
        link.prepare_insert(intake::INTAKE)?;
        let backend = backend(&link)?;
        Ok(Database { link, secret, server: server.clone(), backend })
    }

    /// Commits all of them in one transaction, or none, with ids from `ids`. Writes something even if there are none, so that it
    /// shows whether that is possible.
    ///
    /// Where the server does not answer whether submissions were committed, it is asked for their ids. If it cannot be asked in
    /// time, they stay in `doubtful`, and are taken out by the first transaction that sees them: they were not confirmed.
    pub fn commit(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Uuid>, StoreError> {
        // The same in each try: should an earlier one be committed late, the next one finds its rows.
        let ids: Vec<Uuid> = jobs.iter().map(|job| ids.next(job.arrival.received_at)).collect();
        let mut last = StoreError::Locked;
        let mut is_new = false;
        let began = Instant::now();
        for at in 0..AGAIN {
            if at > 0 && began.elapsed() > LONG_ENOUGH {
                break;
            }
            let outcome = if jobs.is_empty() {
                self.change(changes, doubtful).map_err(Trouble::from)
            } else {
                self.accept(jobs, &ids, doubtful)
            };
            match outcome {
                Ok(left) => {
                    *doubtful = left;
                    return Ok(ids);
                }
                // A connection that was idle may have been lost long ago.
                Err(Trouble::Failed(StoreError::Unreachable { .. })) if !is_new => {
                    self.reconnect()?;
                    is_new = true;
                }
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Again(error)) => last = error,
                Err(Trouble::Unknown(error)) => match self.find_out(&ids) {
                    Ok(true) => return Ok(ids),
                    Ok(false) => last = error,
                    Err(InDoubt { backend }) => {
                        let doubt = |id| Doubt { id, backend: Some(backend.clone()) };
                        doubtful.extend(ids.into_iter().map(doubt));
                        return Err(error);
                    }
                },
            }
        }
        Err(last)
    }

    /// Whether the server is there and takes changes. Connects anew where the connection is lost.
    pub fn look(&mut self) -> Result<(), StoreError> {
        let ask = |link: &Link| -> Result<bool, StoreError> {
            let sql: &dyn Sql = link;
            sql.one("SELECT pg_is_in_recovery()", &[])?.get(0)
        };
        let is_standby = match ask(&self.link) {
            Err(StoreError::Unreachable { .. }) => {
                self.reconnect()?;
                ask(&self.link)?
            }
            asked => asked?,
        };
        if is_standby { Err(StoreError::ReadOnly) } else { Ok(()) }
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        *self = Database::open(&self.server)?;
        Ok(())
    }

    fn change(&self, changes: &mut [Box<dyn Change>], doubtful: &[Doubt]) -> Result<Vec<Doubt>, StoreError> {
        let sql: &dyn Sql = &self.link;
        let left = sql.transaction(|| {
            let left = self.remove(doubtful)?;
            if changes.is_empty() {
                sql.execute("UPDATE meta SET value = value WHERE name = 'secret'", &[])?;
                let _ = self.link.was_warned();
                return Ok(left);
            }
            let ahead = change::clock_ahead(sql)?;
            change::apply(&Changing { sql, secret: &self.secret, ahead }, changes)?;
            let _ = self.link.was_warned();
            Ok(left)
        })?;
        // Who has claimed something that only this server knows of must not send it: another would, after a failover.
        if self.link.was_warned() { Err(self.link.unreachable("the commit is in doubt")) } else { Ok(left) }
    }

    /// Takes out what commits that were reported as failed may have left behind. Returns what cannot be seen yet, because its
    /// transaction is still under way: it may be waiting for a standby, whoever has given it up.
    fn remove(&self, doubtful: &[Doubt]) -> Result<Vec<Doubt>, StoreError> {
        // Asked before anything is removed, so that what has ended by then is seen.
        let mut alive = BTreeSet::new();
        for backend in doubtful.iter().filter_map(|doubt| doubt.backend.as_ref()).collect::<BTreeSet<_>>() {
            if self.is_alive(backend)? {
                alive.insert(backend);
            }
        }
        intake::take_back(&self.link, doubtful)?;
        let is_left = |doubt: &&Doubt| doubt.backend.as_ref().is_some_and(|backend| alive.contains(backend));
        Ok(doubtful.iter().filter(is_left).cloned().collect())
    }

    /// Appends submissions, and returns what is still in doubt.
    fn accept(&self, jobs: &[Job], ids: &[Uuid], doubtful: &[Doubt]) -> Result<Vec<Doubt>, Trouble> {
        let sql: &dyn Sql = &self.link;
        if self.link.is_lost() {
            return Err(Trouble::Failed(self.link.unreachable("the connection is lost")));
        }
        // What was said of earlier statements says nothing of this.
        let _ = self.link.was_warned();
        let mut accepted = if doubtful.is_empty() {
            intake::append(sql, &self.secret, jobs, ids).map(|()| Vec::new())
        } else {
            sql.transaction(|| {
                let left = self.remove(doubtful)?;
                intake::append(sql, &self.secret, jobs, ids)?;
                Ok(left)
            })
        };
        if accepted.is_ok() && self.link.was_warned() {
            accepted = Err(self.link.unreachable("the commit is in doubt"));
        }
        accepted.map_err(|error| match error {
            // The server did not answer in time, and may still commit; or its answer is not reliable.
            error if self.link.is_lost() => Trouble::Unknown(error),
            error @ StoreError::Unreachable { .. } => Trouble::Unknown(error),
            // An earlier try was committed after all.
            StoreError::Postgres(code) if code == "23505" => Trouble::Unknown(StoreError::Locked),
            error => error.into(),
        })
    }

    /// Looks for submissions whose commit was not confirmed, and returns whether they are committed as durably as confirmed ones. Connects
    /// again if possible.
    fn find_out(&mut self, ids: &[Uuid]) -> Result<bool, InDoubt> {
        let before = self.backend.clone();
        let began = Instant::now();
        let mut is_new = false;
        while began.elapsed() < FIND_OUT {
            if !is_new || self.link.is_lost() {
                is_new = self.reconnect().is_ok();
                if !is_new {
                    std::thread::sleep(LOOK_AGAIN);
                    continue;
                }
            }
            match self.became(&before, ids) {
                Ok(Some(false)) => return Ok(false),
                Ok(Some(true)) => match self.make_last(FIND_OUT.saturating_sub(began.elapsed())) {
                    Some(true) => return Ok(true),
                    Some(false) => std::thread::sleep(LOOK_AGAIN),
                    // It waits, and so would whatever else is asked.
                    None => break,
                },
                Ok(None) | Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
        Err(InDoubt { backend: before })
    }

    /// Commits something after what a transaction has left, and so waits for the standby as that one should have: what is seen may be
    /// known to nobody else. A server shows it when it starts anew, or when the session that waited was ended. Whether it has waited; nothing if it takes too long.
    fn make_last(&self, patience: Duration) -> Option<bool> {
        let touch = "UPDATE meta SET value = value WHERE name = 'secret'";
        let _ = self.link.was_warned();
        let touched = super::link::wait(self.link.client().batch_execute(touch), patience)?;
        Some(touched.is_ok() && !self.link.was_warned())
    }

    /// Whether submissions were committed; `None` while the server process that got them is still there and they are not visible. After a
    /// failover the new primary does not know that process, so the rows alone decide.
    fn became(&self, backend: &str, ids: &[Uuid]) -> Result<Option<bool>, StoreError> {
        // A process that waits for its client has not committed, and must not commit later.
        (&self.link as &dyn Sql).query(END_IF_IDLE, values![backend])?;
        // Asked before the rows, so that what it has committed before its end is seen.
        let is_alive = self.is_alive(backend)?;
        let is_there = match ids.first() {
            Some(witness) => intake::is_stored(&self.link, *witness)?,
            None => true,
        };
        Ok(if is_there || !is_alive { Some(is_there) } else { None })
    }

    fn is_alive(&self, backend: &str) -> Result<bool, StoreError> {
        (&self.link as &dyn Sql).exists(IS_ALIVE, values![backend])
    }
}

/// It was not found out in time whether the submissions that this server process got were committed.
struct InDoubt {
    backend: String,
}

fn backend(sql: &dyn Sql) -> Result<String, StoreError> {
    sql.one(BACKEND, &[])?.get(0)
}
