//! What is changed beside submissions that arrive: by the worker, by chores, for the operator's figures.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Dialect, Sql, deliver, rows};
use crate::store::StoreError;
use crate::store::fingerprint::Secret;
use crate::submission::delivery::{Claims, Lease, Next, Want};
use crate::submission::outcome::Outcome;
use crate::submission::schedule::Verdict;

/// Something else than an arrival that is to be written. It may be applied more than once, where the database had to be opened
/// again, and then the last time counts.
pub(in crate::store) trait Change: Send {
    /// Does it, in a transaction that is committed later.
    fn apply(&mut self, tx: &Changing<'_>) -> Result<(), StoreError>;
    /// Tells whoever waits for it how the commit went.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Applies them all. One that is impossible by itself is answered for itself, and spoils nothing else.
pub(in crate::store) fn apply(
    changing: &Changing<'_>,
    changes: &mut [Box<dyn Change>],
) -> Result<(), StoreError> {
    for change in changes {
        changing.sql.execute("SAVEPOINT change", &[])?;
        match change.apply(changing) {
            Ok(()) => {}
            Err(error @ (StoreError::Damaged(_) | StoreError::Unprocessable(_))) => {
                tracing::error!(%error, "a change in the inbox is not possible");
                changing.sql.execute("ROLLBACK TO change", &[])?;
            }
            Err(error) => return Err(error),
        }
        changing.sql.execute("RELEASE change", &[])?;
    }
    Ok(())
}

/// By how much clocks may differ without anything being made of it: leases are longer by far.
const NOTICED: SignedDuration = SignedDuration::from_secs(1);

/// What the database's clock shows. A file has none.
pub(super) fn clock(sql: &dyn Sql) -> Result<Option<Timestamp>, StoreError> {
    if sql.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    let now = sql.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[])?.get(0)?;
    rows::time(now).map(Some)
}

/// How far the database's clock is ahead of ours.
pub(in crate::store) fn clock_ahead(sql: &dyn Sql) -> Result<SignedDuration, StoreError> {
    let ours = Timestamp::now();
    let ahead = clock(sql)?.unwrap_or(ours).duration_since(ours);
    Ok(if ahead.abs() < NOTICED { SignedDuration::ZERO } else { ahead })
}

/// A transaction in which changes are applied.
pub(in crate::store) struct Changing<'a> {
    pub sql: &'a dyn Sql,
    pub secret: &'a Secret,
    /// How far the database's clock is ahead of ours, where several machines share it: leases hold by its time. Whoever
    /// asks knows nothing of it.
    pub ahead: SignedDuration,
}

impl Changing<'_> {
    /// The time by the database's clock.
    pub fn theirs(&self, ours: Timestamp) -> Timestamp {
        ours.saturating_add(self.ahead).unwrap_or(ours)
    }

    fn ours(&self, theirs: Timestamp) -> Timestamp {
        theirs.saturating_sub(self.ahead).unwrap_or(theirs)
    }

    /// Begins attempts; see [`deliver::claim`].
    pub fn claim(
        &self,
        wants: &[Want],
        paced: &[String],
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claims>, StoreError> {
        let mut claims =
            deliver::claim(self.sql, self.secret, wants, paced, under_way, self.theirs(now), lease)?;
        for Claims { next: Next { first, again }, .. } in &mut claims {
            *first = first.map(|at| self.ours(at));
            *again = again.map(|at| self.ours(at));
        }
        Ok(claims)
    }

    /// Records how an attempt ended; see [`deliver::record`].
    pub fn record(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let verdict = match verdict {
            Verdict::Again(at) => Verdict::Again(self.theirs(at)),
            verdict => verdict,
        };
        deliver::record(self.sql, lease, outcome, verdict, self.theirs(now))
    }
}
