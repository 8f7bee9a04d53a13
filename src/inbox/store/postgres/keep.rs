//! Writes a batch to PostgreSQL in one transaction. If the connection is lost during the commit, it finds out whether the transaction
//! was committed.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::link::Link;
use super::{Server, open_to_write};
use crate::inbox::store::fingerprint::Secret;
use crate::inbox::store::ids::Ids;
use crate::inbox::store::sql::change::{self, Change, Changing};
use crate::inbox::store::sql::intake;
use crate::inbox::store::sql::{Sql, values};
use crate::inbox::store::{Doubt, Job, StoreError};

/// How often a batch is worked out again because another replica was faster.
const AGAIN: usize = 8;
/// After so long nothing is tried again: visitors wait for it.
const LONG_ENOUGH: Duration = Duration::from_secs(12);
/// How long we try to find out what became of a commit that nobody answered.
const FIND_OUT: Duration = Duration::from_secs(8);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The database, open for writing.
pub(in crate::inbox::store) struct Database {
    link: Link,
    secret: Secret,
    server: Server,
}

/// Why a transaction did not go well.
enum Trouble {
    /// Nothing of it was kept.
    Failed(StoreError),
    /// Another replica was at the same rows; nothing was kept, and it may go well now.
    Again(StoreError),
    /// The connection was lost while it was committed.
    Unknown { error: StoreError, transaction: String, ids: Vec<Uuid>, left: Vec<Doubt> },
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error {
            StoreError::Locked => Trouble::Again(error),
            // Another replica has added the same fingerprint.
            StoreError::Postgres(code) if code == "23505" => Trouble::Again(StoreError::Locked),
            error => Trouble::Failed(error),
        }
    }
}

impl Database {
    pub fn open(server: &Server) -> Result<Database, StoreError> {
        let (link, secret) = open_to_write(server)?;
        Ok(Database { link, secret, server: server.clone() })
    }

    /// Commits all of them in one transaction, or none, with ids from `ids`. Writes something even if there are none, so that it
    /// shows whether that is possible.
    ///
    /// Where the connection is lost while a transaction is committed, the server is asked what became of it. If it cannot be asked in
    /// time, what it held stays in `doubtful`, and is taken out by the first transaction that sees it: it was not confirmed.
    pub fn keep(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Uuid>, StoreError> {
        let mut last = StoreError::Locked;
        let mut is_new = false;
        let began = Instant::now();
        for at in 0..AGAIN {
            if at > 0 && began.elapsed() > LONG_ENOUGH {
                break;
            }
            let outcome = if jobs.is_empty() {
                self.change(changes, doubtful).map(|left| (Vec::new(), left)).map_err(Trouble::from)
            } else {
                self.accept(jobs, ids, doubtful)
            };
            match outcome {
                Ok((accepted, left)) => {
                    *doubtful = left;
                    return Ok(accepted);
                }
                // Nothing was to be committed yet. A connection that was idle may have been lost long ago.
                Err(Trouble::Failed(StoreError::Unreachable { .. })) if !is_new => {
                    self.reconnect()?;
                    is_new = true;
                }
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Again(error)) => last = error,
                Err(Trouble::Unknown { error, transaction, ids, left }) => {
                    match self.find_out(&transaction, &ids) {
                        Some(true) => {
                            *doubtful = left;
                            return Ok(ids);
                        }
                        Some(false) => last = error,
                        None => {
                            let doubt = |id| Doubt { id, transaction: Some(transaction.clone()) };
                            doubtful.extend(ids.into_iter().map(doubt));
                            return Err(error);
                        }
                    }
                }
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
        (self.link, self.secret) = open_to_write(&self.server)?;
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
            change::apply(&Changing { tx: sql, secret: &self.secret, ahead }, changes)?;
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
        let over = "SELECT pg_visible_in_snapshot(CAST(CAST(?1 AS text) AS xid8), pg_current_snapshot())";
        let mut left = Vec::new();
        for doubt in doubtful {
            let is_over = match &doubt.transaction {
                Some(transaction) => (&self.link as &dyn Sql).one(over, values![transaction])?.get(0)?,
                None => true,
            };
            if !is_over {
                left.push(doubt.clone());
            }
            intake::take_back(&self.link, doubt.id)?;
        }
        Ok(left)
    }

    /// What became of each, and what is still in doubt.
    fn accept(
        &mut self,
        jobs: &[Job],
        ids: &mut Ids,
        doubtful: &[Doubt],
    ) -> Result<(Vec<Uuid>, Vec<Doubt>), Trouble> {
        let accepted = self.try_accept(jobs, ids, doubtful);
        match &accepted {
            // Whoever did not answer in time would not answer this either. There is a new connection after it.
            Ok(_) | Err(Trouble::Failed(StoreError::Unreachable { .. }) | Trouble::Unknown { .. }) => {}
            Err(Trouble::Failed(_) | Trouble::Again(_)) => {
                let _ = self.link.run("ROLLBACK");
            }
        }
        accepted
    }

    fn try_accept(
        &mut self,
        jobs: &[Job],
        ids: &mut Ids,
        doubtful: &[Doubt],
    ) -> Result<(Vec<Uuid>, Vec<Doubt>), Trouble> {
        let sql: &dyn Sql = &self.link;
        let link = &self.link;
        // One exchange: nothing is waited for before all of it is sent.
        let transaction: String = link.wait(async {
            let number = link.client().query_typed("SELECT pg_current_xact_id()::text", &[]);
            let (began, number) = tokio::join!(biased; link.client().batch_execute("BEGIN"), number);
            began?;
            Ok(number?.first().map(|row| row.get(0)).unwrap_or_default())
        })?;
        let left = self.remove(doubtful)?;
        let ids = intake::append(sql, &self.secret, jobs, ids)?;
        // What was said of earlier statements says nothing of this.
        let _ = self.link.was_warned();
        let mut committed = self.link.run("COMMIT");
        if committed.is_ok() && self.link.was_warned() {
            committed = Err(self.link.unreachable("the commit is in doubt"));
        }
        match committed {
            Ok(()) => Ok((ids, left)),
            // No answer in time: it may still be at it, and this connection is of no use any more. Or an answer that is none.
            Err(error) if self.link.is_lost() || matches!(error, StoreError::Unreachable { .. }) => {
                Err(Trouble::Unknown { error, transaction, ids, left })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a transaction was committed whose end nobody told us, as lastingly as one whose end we were told; nothing if that cannot be
    /// found out in time. There is a new connection afterwards where one could be had.
    fn find_out(&mut self, transaction: &str, ids: &[Uuid]) -> Option<bool> {
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
            match self.became(transaction, ids) {
                Ok(Some(false)) => return Some(false),
                Ok(Some(true)) => {
                    let left = FIND_OUT.saturating_sub(began.elapsed());
                    match self.make_last(left) {
                        Some(true) => return Some(true),
                        Some(false) => std::thread::sleep(LOOK_AGAIN),
                        // It waits, and so would whatever else is asked.
                        None => return None,
                    }
                }
                Ok(None) | Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
        None
    }

    /// Commits something after what a transaction has left, and so waits for the standby as that one should have: what is seen may be
    /// known to nobody else. A server shows it when it starts anew, or when the session that waited was ended. Whether it has waited; nothing if it takes too long.
    fn make_last(&self, patience: Duration) -> Option<bool> {
        let touch = "UPDATE meta SET value = value WHERE name = 'secret'";
        let _ = self.link.was_warned();
        let touched = super::link::wait(self.link.client().batch_execute(touch), patience)?;
        Some(touched.is_ok() && !self.link.was_warned())
    }

    /// What became of a transaction; nothing while it is under way.
    fn became(&self, transaction: &str, ids: &[Uuid]) -> Result<Option<bool>, StoreError> {
        let sql: &dyn Sql = &self.link;
        // The rows say it, whoever leads by now: a server that has taken over may know nothing of the number.
        let Some(witness) = ids.first() else { return Ok(Some(true)) };
        if intake::is_stored(sql, *witness)? {
            return Ok(Some(true));
        }
        let status = sql.query("SELECT pg_xact_status(CAST(CAST(?1 AS text) AS xid8))", values![transaction]);
        let status: Option<String> = match status {
            Ok(rows) => rows.first().map(|row| row.get(0)).transpose()?.flatten(),
            // A number that it has not given out yet: it took over before it heard of this one.
            Err(StoreError::Postgres(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(match status.as_deref() {
            Some("in progress") => None,
            Some("committed") => Some(intake::is_stored(sql, *witness)?),
            _ => Some(false),
        })
    }
}
