//! Writes to PostgreSQL: submissions in a single statement, and changes in a transaction of several
//! statements. If the connection is lost before the server has replied, the writer looks for the submissions'
//! ids, or for the mark of the changes, to find out whether they were committed.

#![expect(clippy::disallowed_methods, reason = "the writer thread waits before it connects again")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::connection::{BACKEND, PgConnection};
use super::connection_registration::{end_registration, remove_expired};
use super::open_to_write;
use crate::store::error::StoreError;
use crate::store::ids::Ids;
use crate::store::keyed_hash::Secret;
use crate::store::sql::form_definition::StoredDefinitions;
use crate::store::sql::intake::{Accepting, UnresolvedCommit};
use crate::store::sql::transaction::{self, Change, Transaction};
use crate::store::sql::{Sql, TOUCH, intake, values};
use frontdesk_postgres::Server;

/// How many times a batch is tried if the connection is lost or another replica has locked the same rows.
const MAX_TRIES: usize = 8;
/// No retry begins more than this long after the first try, because visitors are waiting.
const MAX_RETRY_TIME: Duration = Duration::from_secs(12);
/// How long to look for rows whose commit the server has not confirmed.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(8);
const RESOLVE_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct PostgresWriter {
    connection: PgConnection,
    secret: Secret,
    definitions: StoredDefinitions,
    server: Server,
    /// The server process of `connection`, as identified by [`BACKEND`]; behind a pooler, [`REGISTERED`] and
    /// the registration of `connection`.
    backend: String,
}

/// Finds the server process that [`BACKEND`] has identified. A process is listed until its last transaction
/// has ended, so one that is not listed cannot commit anything. A role can always see its own processes.
pub(super) const IS_ALIVE: &str =
    "SELECT 1 FROM pg_stat_activity WHERE concat_ws(' ', pid, extract(epoch FROM backend_start)) = ?1";

/// The prefix of `PostgresWriter::backend` behind a pooler. The id of the registration follows.
const REGISTERED: &str = "registered ";

/// Ends the server process that [`BACKEND`] has identified if it is waiting for its client. The process may
/// not have noticed that we have lost the connection, or a pooler may be keeping its side open.
const END_IF_IDLE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE concat_ws(' ', pid, extract(epoch FROM backend_start)) = ?1 AND state LIKE 'idle%' AND wait_event = 'ClientRead'";

/// Marks a transaction that makes changes with an id, in the row of its connection. If it has changed
/// nothing, this costs a round trip and does nothing. The row has expired from the beginning, so
/// [`remove_expired`] removes it after a day.
const MARK: &str = "INSERT INTO lease (name, holder, expires_at)
     SELECT CAST(?1 AS text), CAST(?2 AS uuid), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
     WHERE pg_current_xact_id_if_assigned() IS NOT NULL
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at";

/// Why a transaction failed, and whether its outcome is certain.
enum CommitError {
    /// Nothing was stored.
    Failed(StoreError),
    /// The server did not report the outcome of the commit.
    Unknown(StoreError),
}

impl PostgresWriter {
    /// Connects for writing. Creates the inbox if it is missing. Fails if a version with another layout
    /// created it. Removes what lost connections and killed processes have left in `lease`.
    pub fn open(server: &Server) -> Result<PostgresWriter, StoreError> {
        let (connection, secret) = open_to_write(server)?;
        // Prepare the statement now, so that accepting a submission sends only rows.
        connection.warm_up_insert(intake::INTAKE)?;
        // Ignore an error: the server may be a standby.
        let _ = remove_expired(&connection);
        let backend = match connection.registered() {
            Some(registered) => format!("{REGISTERED}{registered}"),
            None => (&connection as &dyn Sql).one_value(BACKEND, &[])?,
        };
        let definitions = StoredDefinitions::default();
        Ok(PostgresWriter { connection, secret, definitions, server: server.clone(), backend })
    }

    /// See `DatabaseWriter::commit`. `jobs` or `changes` must be empty, because each kind has its own queue:
    /// changes beside jobs would not be applied. If the connection is lost or another replica has locked the
    /// same rows, tries up to `MAX_TRIES` times, and begins no retry after `MAX_RETRY_TIME`. If the server
    /// does not report the outcome of a commit, the writer looks for a submission's id or for the mark of the
    /// changes. If the outcome cannot be established in time, the call fails, and changes may have taken
    /// effect. The ids of submissions are then added to `unresolved`, and the first transaction that sees
    /// these submissions removes them.
    pub fn commit(
        &mut self,
        jobs: &[Accepting],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        unresolved: &mut Vec<UnresolvedCommit>,
    ) -> Result<Vec<Uuid>, StoreError> {
        // All tries use the same ids: if an earlier try is committed late, the next try finds its rows.
        let ids: Vec<Uuid> = jobs.iter().map(|job| ids.next(job.received_at)).collect();
        // If a row with this id is found later, the commit took effect: the id of a submission, or the mark
        // of the changes.
        let marker = ids.first().copied().unwrap_or_else(Uuid::now_v7);
        let mut last = StoreError::Locked;
        let mut is_new = false;
        let began = Instant::now();
        for at in 0..MAX_TRIES {
            if at > 0 && began.elapsed() > MAX_RETRY_TIME {
                break;
            }
            let outcome = if jobs.is_empty() {
                self.commit_changes(changes, marker, unresolved)
            } else {
                self.append_submissions(jobs, &ids, unresolved)
            };
            match outcome {
                Ok(left) => {
                    *unresolved = left;
                    return Ok(ids);
                }
                // Reconnect once: the connection may have been lost while it was idle.
                Err(CommitError::Failed(StoreError::Unreachable { .. })) if !is_new => {
                    self.reconnect()?;
                    is_new = true;
                }
                // Try again: another replica had locked or inserted the same rows.
                Err(CommitError::Failed(error @ StoreError::Locked)) => last = error,
                Err(CommitError::Failed(error)) => return Err(error),
                Err(CommitError::Unknown(error)) => match self.resolve_commit(marker) {
                    Ok(true) => return Ok(ids),
                    Ok(false) => last = error,
                    Err(backend) => {
                        let doubt = |id| UnresolvedCommit { id, backend: Some(backend.clone()) };
                        unresolved.extend(ids.into_iter().map(doubt));
                        return Err(error);
                    }
                },
            }
        }
        Err(last)
    }

    /// Fails with [`StoreError::ReadOnly`] if the server is a standby. Reconnects once if the connection is
    /// lost.
    pub fn check_writable(&mut self) -> Result<(), StoreError> {
        let ask = |sql: &dyn Sql| sql.one_value("SELECT pg_is_in_recovery()", &[]);
        let is_standby = match ask(&self.connection) {
            Err(StoreError::Unreachable { .. }) => {
                self.reconnect()?;
                ask(&self.connection)?
            }
            asked => asked?,
        };
        if is_standby { Err(StoreError::ReadOnly) } else { Ok(()) }
    }

    /// Connects like [`PostgresWriter::open`], and drops the old connection. After an error, the old one
    /// stays.
    fn reconnect(&mut self) -> Result<(), StoreError> {
        *self = PostgresWriter::open(&self.server)?;
        Ok(())
    }

    /// Commits changes with their mark, or a trivial change if there are none. Skips and logs changes that
    /// fail because of stored data or panic. The same transaction removes the submissions of unresolved
    /// commits. Returns the commits that are still unresolved. The outcome is unknown if the reply to the
    /// commit is lost, or if the commit may not be durable.
    fn commit_changes(
        &self,
        changes: &mut [Box<dyn Change>],
        mark: Uuid,
        unresolved: &[UnresolvedCommit],
    ) -> Result<Vec<UnresolvedCommit>, CommitError> {
        let sql: &dyn Sql = &self.connection;
        // Whether the transaction wrote its mark. If not, the commit was not sent, or had no changes that a
        // retry would apply twice.
        let is_marked = Cell::new(false);
        let left = transaction::with_faulty_changes_skipped(changes, |changes, apply| {
            is_marked.set(false);
            sql.transaction(|| {
                let left = self.remove_unresolved(unresolved)?;
                if changes.is_empty() {
                    sql.execute(TOUCH, &[])?;
                } else {
                    let tx = Transaction { sql, secret: &self.secret, ahead: transaction::clock_ahead(sql)? };
                    transaction::apply_changes(&tx, changes, apply)?;
                    let row = format!("commit {}", self.backend);
                    is_marked.set(sql.execute(MARK, values![row, mark])? == 1);
                }
                let _ = self.connection.was_warned();
                Ok(left)
            })
        });
        // A delivery must not be sent if its claim is recorded only on this server: after a failover, another
        // replica would send it again.
        left.and_then(|left| self.fail_if_warned(left)).map_err(|error| {
            let is_unknown = is_marked.get() && self.is_outcome_unknown(&error);
            if is_unknown { CommitError::Unknown(error) } else { CommitError::Failed(error) }
        })
    }

    /// Whether a transaction whose commit failed with this error may have been committed: the server may
    /// still commit it, or its reply is not reliable.
    fn is_outcome_unknown(&self, error: &StoreError) -> bool {
        self.connection.is_lost() || matches!(error, StoreError::Unreachable { .. })
    }

    /// Returns `committed`, or an error if the server has warned that the commit may not be durable.
    fn fail_if_warned<T>(&self, committed: T) -> Result<T, StoreError> {
        if self.connection.was_warned() {
            Err(self.connection.unreachable("the commit may not be durable"))
        } else {
            Ok(committed)
        }
    }

    /// Removes the submissions of unresolved commits. Returns the commits that are still under way, for
    /// example because they are waiting for a standby. Behind a pooler, ends the registrations of the others.
    fn remove_unresolved(
        &self,
        unresolved: &[UnresolvedCommit],
    ) -> Result<Vec<UnresolvedCommit>, StoreError> {
        // Check which processes are alive before removing rows: all rows of an ended process are then
        // visible.
        let mut alive = BTreeSet::new();
        for backend in unresolved.iter().filter_map(|doubt| doubt.backend.as_ref()).collect::<BTreeSet<_>>() {
            if self.may_still_commit(backend)? {
                alive.insert(backend);
            }
        }
        intake::remove_unresolved(&self.connection, unresolved)?;
        let is_left =
            |doubt: &&UnresolvedCommit| doubt.backend.as_ref().is_some_and(|backend| alive.contains(backend));
        Ok(unresolved.iter().filter(is_left).cloned().collect())
    }

    /// Inserts the submissions, and removes those of unresolved commits. Returns the commits that are still
    /// unresolved. If an id exists, the outcome is unknown, because an earlier try may have stored it.
    fn append_submissions(
        &mut self,
        jobs: &[Accepting],
        ids: &[Uuid],
        unresolved: &[UnresolvedCommit],
    ) -> Result<Vec<UnresolvedCommit>, CommitError> {
        let sql: &dyn Sql = &self.connection;
        if self.connection.is_lost() {
            return Err(CommitError::Failed(self.connection.unreachable("the connection is lost")));
        }
        // Clear warnings about earlier statements.
        let _ = self.connection.was_warned();
        // Put the list back only after the commit: after an error, it is unknown which definitions are
        // stored.
        let mut definitions = std::mem::take(&mut self.definitions);
        let accepted =
            if unresolved.is_empty() && definitions.has_all(jobs.iter().map(|job| job.entry.form())) {
                intake::append(sql, &self.secret, &mut definitions, jobs, ids).map(|()| Vec::new())
            } else {
                sql.transaction(|| {
                    let left = self.remove_unresolved(unresolved)?;
                    intake::append(sql, &self.secret, &mut definitions, jobs, ids)?;
                    Ok(left)
                })
            };
        let committed = accepted.and_then(|left| self.fail_if_warned(left));
        if committed.is_ok() {
            self.definitions = definitions;
        }
        committed.map_err(|error| match error {
            error if self.is_outcome_unknown(&error) => CommitError::Unknown(error),
            // An id already exists. An earlier try may have stored it, so the outcome is unknown.
            StoreError::Postgres(code) if code == "23505" => CommitError::Unknown(StoreError::Locked),
            error => CommitError::Failed(error),
        })
    }

    /// Finds out on a new connection whether an unconfirmed commit has taken effect. Ends the server process
    /// of the old connection if that waits for its client, so that it cannot commit later. Returns true only
    /// after a trivial commit of its own is as durable as a confirmed one. If the outcome is unknown after
    /// `RESOLVE_TIMEOUT`, or the trivial commit times out, the error identifies the server process that
    /// executed the commit.
    fn resolve_commit(&mut self, marker: Uuid) -> Result<bool, String> {
        let before = self.backend.clone();
        let began = Instant::now();
        let mut is_new = false;
        while began.elapsed() < RESOLVE_TIMEOUT {
            if !is_new || self.connection.is_lost() {
                is_new = self.reconnect().is_ok();
            }
            match if is_new { self.look_for_commit(&before, marker) } else { Ok(None) } {
                Ok(Some(false)) => return Ok(false),
                Ok(Some(true)) => {
                    match self.commit_once_more(RESOLVE_TIMEOUT.saturating_sub(began.elapsed())) {
                        Some(true) => return Ok(true),
                        Some(false) => {}
                        // Stop after a timeout: further commits would have to wait for the same standby.
                        None => break,
                    }
                }
                Ok(None) | Err(_) => {}
            }
            std::thread::sleep(RESOLVE_INTERVAL);
        }
        Err(before)
    }

    /// Commits a trivial change, which waits for the standby as the unconfirmed commit should have done: a
    /// server that has restarted, or has ended a waiting session, shows rows that no standby has. Returns
    /// whether it has been committed without a warning, also on a server without a standby; `None` on a
    /// timeout.
    fn commit_once_more(&self, patience: Duration) -> Option<bool> {
        let _ = self.connection.was_warned();
        let is_touched = self.connection.run_alone(TOUCH, patience)?;
        Some(is_touched && !self.connection.was_warned())
    }

    /// Whether a transaction was committed; `None` if its marker is not visible but the server process that
    /// received it is still alive. A new primary does not list the old one's processes.
    fn look_for_commit(&self, backend: &str, marker: Uuid) -> Result<Option<bool>, StoreError> {
        let sql: &dyn Sql = &self.connection;
        if backend.starts_with(REGISTERED) {
            // `look_for_marker` may end the registration, which takes effect when the transaction commits.
            return sql.transaction(|| self.look_for_marker(backend, marker));
        }
        // End the server process if it is waiting for its client, so that it cannot commit later.
        sql.query(END_IF_IDLE, values![backend])?;
        self.look_for_marker(backend, marker)
    }

    /// Like `look_for_commit`, without ending the old server process; behind a pooler, may end the old
    /// registration ([`PostgresWriter::may_still_commit`]).
    fn look_for_marker(&self, backend: &str, marker: Uuid) -> Result<Option<bool>, StoreError> {
        // Check the process before reading rows: if the process has ended, all its commits are visible.
        let is_alive = self.may_still_commit(backend)?;
        let sql: &dyn Sql = &self.connection;
        let is_there = intake::is_stored(sql, marker)?
            || sql.exists("SELECT 1 FROM lease WHERE holder = ?1", values![marker])?;
        Ok(if is_there || !is_alive { Some(is_there) } else { None })
    }

    /// Whether a server process may still commit. Behind a pooler, first ends the registration of its client,
    /// which takes effect with the current transaction's commit.
    fn may_still_commit(&self, backend: &str) -> Result<bool, StoreError> {
        let sql: &dyn Sql = &self.connection;
        let registered = backend.strip_prefix(REGISTERED).and_then(|id| Uuid::parse_str(id).ok());
        match registered {
            Some(registered) => Ok(!end_registration(sql, registered)?),
            None => sql.exists(IS_ALIVE, values![backend]),
        }
    }
}
