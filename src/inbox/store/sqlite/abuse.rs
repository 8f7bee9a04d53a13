//! Who presses the door and what screening held: written down in bounded room, and counted for the operator.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::fingerprint::Secret;
use super::read::{Reader, id_before, time};
use super::stats::DAY_IN_MILLISECONDS;
use crate::inbox::pressure::Refused;
use crate::inbox::store::StoreError;

/// How many pairs of source and form have a row of their own on one day.
const MOST_A_DAY: i64 = 10_000;
/// Among how many of the oldest waiting deliveries the one is looked for that has waited longest.
const OLDEST: i64 = 100;

/// What pressed the door over a time, and what was held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abuse {
    /// How many submissions there are.
    pub submissions: usize,
    /// How many of them screening held.
    pub held: usize,
    /// How many of those the operator released: screening was wrong about them.
    pub released: usize,
    /// How many requests were refused because their source had sent too many.
    pub refused: usize,
    /// Of the refused, those whose sources are not known one by one.
    pub refused_others: usize,
    /// How many sources there are.
    pub source_count: usize,
    /// Some of them, those with the most requests first.
    pub sources: Vec<Presser>,
    /// What submissions were held for, the most frequent signal first.
    pub signals: Vec<Held>,
    /// How many agents there are.
    pub agent_count: usize,
    /// Some of them, those with the most submissions first.
    pub agents: Vec<Agent>,
}

/// What came from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presser {
    /// As in [`Submission::source`](crate::inbox::Submission::source).
    pub source: String,
    /// Submissions that were kept.
    pub submissions: usize,
    /// Those of them that screening held.
    pub held: usize,
    /// Requests that were refused.
    pub refused: usize,
}

/// How often a signal was among the reasons for which screening held a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The signal's name.
    pub signal: String,
    /// How many submissions.
    pub held: usize,
    /// How many of them the operator released.
    pub released: usize,
}

/// What one agent sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The host that vouches for it.
    pub agent: String,
    /// Submissions that were kept.
    pub submissions: usize,
    /// Those of them that screening held.
    pub held: usize,
}

/// Adds to what is known of who was refused, on the day of `now` in UTC.
pub(super) fn press(
    tx: &Connection,
    secret: &Secret,
    refused: &[Refused],
    now: Timestamp,
) -> Result<(), StoreError> {
    let day = day(now);
    let mut rows: i64 = tx
        .prepare_cached("SELECT count(*) FROM pressure WHERE day = ?1")?
        .query_row([day], |row| row.get(0))?;
    let mut add = tx.prepare_cached(
        "UPDATE pressure SET refused = refused + ?4 WHERE day = ?1 AND source = ?2 AND form = ?3",
    )?;
    let mut insert = tx.prepare_cached(
        "INSERT INTO pressure (day, source, form, refused) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (day, source, form) DO UPDATE SET refused = refused + ?4",
    )?;
    for Refused { source, form, count } in refused {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let mut source = source.map(|source| secret.source(source).to_vec()).unwrap_or_default();
        if add.execute(params![day, source, form, count])? == 1 {
            continue;
        }
        if rows >= MOST_A_DAY {
            source.clear();
        }
        insert.execute(params![day, source, form, count])?;
        rows += 1;
    }
    Ok(())
}

/// Removes up to `most` rows of days before that of `before`.
pub(super) fn forget_pressure(tx: &Connection, before: Timestamp, most: usize) -> Result<usize, StoreError> {
    let mut forget = tx.prepare_cached(
        "DELETE FROM pressure WHERE (day, source, form) IN
         (SELECT day, source, form FROM pressure WHERE day < ?1 LIMIT ?2)",
    )?;
    Ok(forget.execute(params![day(before), i64::try_from(most).unwrap_or(i64::MAX)])?)
}

fn day(time: Timestamp) -> i64 {
    time.as_millisecond().div_euclid(DAY_IN_MILLISECONDS)
}

impl Reader {
    /// What pressed the door from that time on, and what was held: up to `most` sources and agents, and every signal. Refusals
    /// are known by the day in UTC, those of the day of `from` among them. In one pass over the submissions of that time.
    pub fn abuse(&self, from: Timestamp, most: usize) -> Result<Abuse, StoreError> {
        // One state for all of it.
        let transaction = self.connection.unchecked_transaction()?;
        let (first, since) = (id_before(from.as_millisecond()), from.as_millisecond());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let (submissions, held, released) = transaction.query_row(
            "SELECT count(*), coalesce(sum(withheld), 0), count(released_at) FILTER (WHERE withheld = 1)
             FROM submission WHERE id >= ?1 AND received_at >= ?2",
            params![first, since],
            |row| Ok((count(row, 0)?, count(row, 1)?, count(row, 2)?)),
        )?;
        let (refused, refused_others) = transaction.query_row(
            "SELECT coalesce(sum(refused), 0), coalesce(sum(refused) FILTER (WHERE source = x''), 0)
             FROM pressure WHERE day >= ?1",
            [day(from)],
            |row| Ok((count(row, 0)?, count(row, 1)?)),
        )?;
        let mut sources = transaction.prepare(
            "SELECT source, sum(submissions), sum(held), sum(refused), count(*) OVER () FROM (
                 SELECT source, count(*) AS submissions, sum(withheld) AS held, 0 AS refused
                 FROM submission WHERE id >= ?1 AND received_at >= ?2 GROUP BY source
                 UNION ALL
                 SELECT source, 0, 0, sum(refused) FROM pressure WHERE day >= ?3 AND source <> x'' GROUP BY source)
             GROUP BY source ORDER BY sum(submissions) + sum(refused) DESC, source LIMIT ?4",
        )?;
        let mut signals = transaction.prepare(
            "SELECT reason.value ->> 'signal', count(DISTINCT submission.id),
                    count(DISTINCT CASE WHEN released_at IS NOT NULL THEN submission.id END)
             FROM submission, json_each(submission.reasons) AS reason
             WHERE submission.id >= ?1 AND received_at >= ?2 AND withheld = 1
             GROUP BY 1 ORDER BY 2 DESC, 1",
        )?;
        let mut agents = transaction.prepare(
            "SELECT agent, count(*), sum(withheld), count(*) OVER () FROM submission
             WHERE id >= ?1 AND received_at >= ?2 AND agent IS NOT NULL
             GROUP BY agent ORDER BY 2 DESC, 1 LIMIT ?3",
        )?;
        let mut abuse = Abuse { submissions, held, released, refused, refused_others, ..Abuse::default() };
        let mut rows = sources.query(params![first, since, day(from), most])?;
        while let Some(row) = rows.next()? {
            abuse.source_count = count(row, 4)?;
            abuse.sources.push(Presser {
                source: Uuid::from_bytes(row.get(0)?).simple().to_string(),
                submissions: count(row, 1)?,
                held: count(row, 2)?,
                refused: count(row, 3)?,
            });
        }
        let mut rows = signals.query(params![first, since])?;
        while let Some(row) = rows.next()? {
            abuse.signals.push(Held { signal: row.get(0)?, held: count(row, 1)?, released: count(row, 2)? });
        }
        let mut rows = agents.query(params![first, since, most])?;
        while let Some(row) = rows.next()? {
            abuse.agent_count = count(row, 3)?;
            abuse.agents.push(Agent {
                agent: row.get(0)?,
                submissions: count(row, 1)?,
                held: count(row, 2)?,
            });
        }
        Ok(abuse)
    }

    /// For how long the submission has been waiting that has waited longest for a channel which does not have it yet: since it came,
    /// or was released. What is held or parked does not wait. It costs the same however much is delivered or waits.
    pub fn oldest_waiting(&self, now: Timestamp) -> Result<Option<Duration>, StoreError> {
        // One that was held for long comes before others in the index, and may have waited for less time than they.
        let mut statement = self.connection.prepare_cached(
            "SELECT max(s.received_at, coalesce(s.released_at, s.received_at)) AS since FROM (
                 SELECT submission FROM delivery INDEXED BY delivery_unfinished
                 WHERE due_at IS NOT NULL ORDER BY submission LIMIT ?1)
             CROSS JOIN submission s ON s.id = submission ORDER BY since LIMIT 1",
        )?;
        let since: Option<i64> = statement.query_row([OLDEST], |row| row.get(0)).optional()?;
        let age = |since| Ok(Duration::try_from(now.duration_since(time(since)?)).unwrap_or_default());
        since.map(age).transpose()
    }
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    Ok(usize::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}
