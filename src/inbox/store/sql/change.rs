//! What is changed beside submissions that arrive: by the worker, by chores, for the operator's figures.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{Dialect, Sql, deliver, intake, pressure, rows};
use crate::inbox::deliver::{outcome::Outcome, schedule::Verdict};
use crate::inbox::delivery::{Claims, Lease, Next, Target, Want};
use crate::inbox::pressure::Refused;
use crate::inbox::store::fingerprint::Secret;
use crate::inbox::store::{Accepted, StoreError};

/// Something else than an arrival that is to be written. It may be applied more than once, where the database had to be opened
/// again, and then the last time counts.
pub(in crate::inbox::store) trait Change: Send {
    /// Does it, in a transaction that is committed later.
    fn apply(&mut self, tx: &Changing<'_>) -> Result<(), StoreError>;
    /// Tells whoever waits for it how the commit went.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Applies them all. One that is impossible by itself is answered for itself, and spoils nothing else.
pub(in crate::inbox::store) fn apply(
    changing: &Changing<'_>,
    changes: &mut [Box<dyn Change>],
) -> Result<(), StoreError> {
    for change in changes {
        changing.tx.execute("SAVEPOINT change", &[])?;
        match change.apply(changing) {
            Ok(()) => {}
            Err(error @ (StoreError::Damaged(_) | StoreError::Unprocessable(_))) => {
                tracing::error!(%error, "a change in the inbox is not possible");
                changing.tx.execute("ROLLBACK TO change", &[])?;
            }
            Err(error) => return Err(error),
        }
        changing.tx.execute("RELEASE change", &[])?;
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
pub(in crate::inbox::store) fn clock_ahead(sql: &dyn Sql) -> Result<SignedDuration, StoreError> {
    let ours = Timestamp::now();
    let ahead = clock(sql)?.unwrap_or(ours).duration_since(ours);
    Ok(if ahead.abs() < NOTICED { SignedDuration::ZERO } else { ahead })
}

/// A transaction in which changes are applied.
pub(in crate::inbox::store) struct Changing<'a> {
    pub tx: &'a dyn Sql,
    pub secret: &'a Secret,
    /// How far the database's clock is ahead of ours, where several machines share it: leases hold by its time. Whoever
    /// asks knows nothing of it.
    pub ahead: SignedDuration,
}

/// What the worker does with deliveries; see [`deliver`].
impl Changing<'_> {
    fn theirs(&self, ours: Timestamp) -> Timestamp {
        ours.saturating_add(self.ahead).unwrap_or(ours)
    }

    fn ours(&self, theirs: Timestamp) -> Timestamp {
        theirs.saturating_sub(self.ahead).unwrap_or(theirs)
    }

    pub fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        deliver::recover(self.tx, self.theirs(now))
    }

    pub fn retake(&self, under_way: &[Lease], now: Timestamp) -> Result<usize, StoreError> {
        deliver::retake(self.tx, under_way, self.theirs(now))
    }

    pub fn mend_waits(&self, now: Timestamp) -> Result<(), StoreError> {
        deliver::mend_waits(self.tx, self.theirs(now))
    }

    pub fn claim(
        &self,
        wants: &[Want],
        under_way: &[Lease],
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claims>, StoreError> {
        let mut claims = deliver::claim(self.tx, self.secret, wants, under_way, self.theirs(now), lease)?;
        for Claims { next: Next { first, again }, .. } in &mut claims {
            *first = first.map(|at| self.ours(at));
            *again = again.map(|at| self.ours(at));
        }
        Ok(claims)
    }

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
        deliver::record(self.tx, lease, outcome, verdict, self.theirs(now))
    }

    pub fn fate(&self, id: Uuid) -> Result<Option<Accepted>, StoreError> {
        intake::fate(self.tx, id)
    }

    pub fn is_confirmed(&self, id: Uuid) -> Result<bool, StoreError> {
        deliver::is_confirmed(self.tx, id)
    }

    pub fn pause(&self, channel: &str, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        deliver::pause(self.tx, channel, answer, self.theirs(now))
    }

    pub fn resume(&self, channel: &str, after_outage: bool, now: Timestamp) -> Result<usize, StoreError> {
        deliver::resume(self.tx, channel, after_outage, self.theirs(now))
    }

    pub fn switch_off(&self, target: &Target, answer: &str, now: Timestamp) -> Result<(), StoreError> {
        deliver::switch_off(self.tx, self.secret, target, answer, self.theirs(now))
    }

    pub fn seal(&self, id: Uuid, sealed: &[u8]) -> Result<bool, StoreError> {
        deliver::seal(self.tx, id, sealed)
    }

    pub fn expire(&self, before: Timestamp, most: usize) -> Result<usize, StoreError> {
        deliver::expire(self.tx, before, most)
    }

    pub fn press(&self, refused: &[Refused], now: Timestamp) -> Result<(), StoreError> {
        pressure::press(self.tx, self.secret, refused, now)
    }

    pub fn forget_pressure(&self, before: Timestamp, most: usize) -> Result<usize, StoreError> {
        pressure::forget_pressure(self.tx, before, most)
    }

    pub fn remembered(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        deliver::remembered(self.tx, name)
    }

    pub fn remember(&self, name: &str, at: Timestamp) -> Result<(), StoreError> {
        deliver::remember(self.tx, name, at)
    }
}
