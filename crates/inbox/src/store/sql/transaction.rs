//! The write transaction, and the interface of the changes that the writer applies in it.

#![expect(
    clippy::disallowed_methods,
    reason = "the difference between our clock and the database server's is measured here"
)]

use jiff::{SignedDuration, Timestamp};

use super::{Dialect, Sql, submission_rows, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::Secret;

/// A change that the writer applies with its next batch. See [`Store::change`](crate::store::Store::change).
pub(crate) trait Change: Send {
    /// Applies the change in a transaction that is committed later. Called again, in another transaction, if
    /// that one is rolled back and retried.
    fn apply(&mut self, tx: &Transaction<'_>) -> Result<(), StoreError>;
    /// Reports the outcome of the commit to the waiting caller.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Calls `attempt`, which must apply all changes in one transaction and roll that back on error. If a change
/// fails because of stored data, or panics, calls it once more to apply each change in a savepoint: faulty
/// ones are then rolled back alone, logged and skipped. Savepoints are expensive: SQLite keeps a copy of each
/// changed page, and each statement of PostgreSQL costs a round trip.
pub(crate) fn with_faulty_changes_skipped<T>(
    changes: &mut [Box<dyn Change>],
    mut attempt: impl FnMut(&mut [Box<dyn Change>], Apply) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match attempt(changes, Apply::Together) {
        Err(error) if error.is_caused_by_row() && !changes.is_empty() => attempt(changes, Apply::Separately),
        outcome => outcome,
    }
}

/// How the changes of one transaction are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apply {
    /// Applies all changes or none of them.
    Together,
    /// Applies each change in a savepoint, and skips changes that fail because of stored data.
    Separately,
}

/// Applies all changes, in the way that `apply` names, and logs those that it skips. After an error, the
/// caller must roll back the transaction.
pub(crate) fn apply_changes(
    tx: &Transaction<'_>,
    changes: &mut [Box<dyn Change>],
    apply: Apply,
) -> Result<(), StoreError> {
    if apply == Apply::Together {
        return changes.iter_mut().try_for_each(|change| change.apply(tx));
    }
    for change in changes {
        tx.sql.execute("SAVEPOINT change", &[])?;
        match change.apply(tx) {
            Ok(()) => {}
            Err(error) if error.is_caused_by_row() => {
                tracing::error!(%error, "skipped one change to the inbox, because stored data is damaged or frontdesk has a defect; the request or task that asked for the change gets this error; the other changes are still applied");
                tx.sql.execute("ROLLBACK TO change", &[])?;
            }
            Err(error) => return Err(error),
        }
        tx.sql.execute("RELEASE change", &[])?;
    }
    Ok(())
}

/// Makes the commit notify other processes. Does nothing with SQLite, where the writer or editor notifies.
pub(super) fn announce(sql: &dyn Sql) -> Result<(), StoreError> {
    match sql.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => sql.execute("NOTIFY frontdesk", &[]).map(drop),
    }
}

/// Clock differences smaller than this are ignored, because leases last far longer.
const NEGLIGIBLE: SignedDuration = SignedDuration::from_secs(1);

/// The current time of the database server's clock; `None` if the database is a SQLite file.
fn server_time(sql: &dyn Sql) -> Result<Option<Timestamp>, StoreError> {
    if sql.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    sql.one_value("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[]).map(Some)
}

/// How far the database's clock is ahead of ours; negative if it is behind. Zero with SQLite, and if the
/// difference may be less than a second.
pub(crate) fn clock_ahead(sql: &dyn Sql) -> Result<SignedDuration, StoreError> {
    let before = Timestamp::now();
    let Some(theirs) = server_time(sql)? else { return Ok(SignedDuration::ZERO) };
    Ok(clock_difference(before, theirs, Timestamp::now()))
}

/// How far a clock that showed `theirs` at an unknown moment between `before` and `after` by our clock is
/// ahead of ours. A slow answer is not taken for a difference: if the two may differ by less than
/// [`NEGLIGIBLE`], the result is zero. Otherwise, it is exact to half of the time that the answer took.
fn clock_difference(before: Timestamp, theirs: Timestamp, after: Timestamp) -> SignedDuration {
    let (most, least) = (theirs.duration_since(before), theirs.duration_since(after));
    if least < NEGLIGIBLE && most > -NEGLIGIBLE { SignedDuration::ZERO } else { (most + least) / 2 }
}

/// A write transaction. It is committed after all changes of the batch have been applied.
pub struct Transaction<'a> {
    pub(crate) sql: &'a dyn Sql,
    pub(crate) secret: &'a Secret,
    /// How far the database's clock is ahead of ours. Several machines may share the database, so leases
    /// follow the database's clock. Callers pass and receive times by their own clock.
    pub(crate) ahead: SignedDuration,
}

impl Transaction<'_> {
    /// The current time of the database server's clock; `None` with SQLite.
    pub fn server_time(&self) -> Result<Option<Timestamp>, StoreError> {
        server_time(self.sql)
    }

    /// When this transaction is committed, notifies other replicas that deliveries were queued. Does nothing
    /// with SQLite.
    pub fn announce(&self) -> Result<(), StoreError> {
        announce(self.sql)
    }

    /// The time that [`Transaction::store_time`] stored under a name; `None` if there is none.
    pub fn stored_time(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        submission_rows::stored_number(self.sql, name)?.map(submission_rows::to_timestamp).transpose()
    }

    /// Stores a time under `name` with millisecond precision, and replaces an earlier time.
    pub fn store_time(&self, name: &str, at: Timestamp) -> Result<(), StoreError> {
        submission_rows::store_number(self.sql, name, at.as_millisecond())
    }

    /// Like [`Transaction::store_time`], but stores the time only if none is stored, or one before `at` or
    /// after `latest`. Returns whether it has stored it: of several replicas with the same time, only one
    /// succeeds.
    pub fn advance_time(&self, name: &str, at: Timestamp, latest: Timestamp) -> Result<bool, StoreError> {
        let advance = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name)
             DO UPDATE SET value = excluded.value WHERE meta.value < excluded.value OR meta.value > ?3";
        // Big-endian bytes sort in the same order as the times, except for times before 1970.
        let [at, latest] = [at, latest].map(|at| at.as_millisecond().to_be_bytes());
        Ok(self.sql.execute(advance, values![name, at, latest])? == 1)
    }

    /// Converts a time of this machine's clock to the corresponding time of the database's clock.
    pub fn to_database_time(&self, ours: Timestamp) -> Timestamp {
        ours.saturating_add(self.ahead).unwrap_or(ours)
    }

    /// Converts a time of the database's clock to the corresponding time of this machine's clock.
    pub(super) fn to_our_time(&self, theirs: Timestamp) -> Timestamp {
        theirs.saturating_sub(self.ahead).unwrap_or(theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_not_a_difference_of_clocks() {
        let at = |millisecond: i64| Timestamp::from_millisecond(1_800_000_000_000 + millisecond).unwrap();
        let ahead = |before, theirs, after| clock_difference(at(before), at(theirs), at(after)).as_millis();
        for theirs in [-999, 0, 3_000, 5_000, 5_999] {
            assert_eq!(ahead(0, theirs, 5_000), 0, "{theirs}");
        }
        assert_eq!(ahead(0, 60_100, 200), 60_000);
        assert_eq!(ahead(0, -59_900, 200), -60_000);
    }
}
