//! Who presses the door and what screening held, counted for the operator.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::pressure::day;
use super::read::Reader;
use super::rows::{id_before, time};
use super::{Dialect, values};
use crate::store::StoreError;

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
    /// As in [`Submission::source`](crate::submission::Submission::source).
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

impl Reader {
    /// What pressed the door from that time on, and what was held: up to `most` sources and agents, and every signal. Refusals
    /// are known by the day in UTC, those of the day of `from` among them. In one pass over the submissions of that time.
    pub fn abuse(&self, from: Timestamp, most: usize) -> Result<Abuse, StoreError> {
        self.sql.snapshot(|| self.abuse_at_once(from, most))
    }

    fn abuse_at_once(&self, from: Timestamp, most: usize) -> Result<Abuse, StoreError> {
        let (first, since) = (id_before(from.as_millisecond()), from.as_millisecond());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let kept = self.sql.one(
            "SELECT count(*), coalesce(sum(withheld), 0), count(released_at) FILTER (WHERE withheld = 1)
             FROM accepted WHERE id >= ?1 AND received_at >= ?2",
            values![first, since],
        )?;
        let refused = self.sql.one(
            "SELECT CAST(coalesce(sum(refused), 0) AS bigint),
                    CAST(coalesce(sum(refused) FILTER (WHERE length(source) = 0), 0) AS bigint)
             FROM pressure WHERE day >= ?1",
            values![day(from)],
        )?;
        let mut abuse = Abuse {
            submissions: kept.count(0)?,
            held: kept.count(1)?,
            released: kept.count(2)?,
            refused: refused.count(0)?,
            refused_others: refused.count(1)?,
            ..Abuse::default()
        };
        let sources = self.sql.query(
            "SELECT source, CAST(sum(submissions) AS bigint), CAST(sum(held) AS bigint),
                    CAST(sum(refused) AS bigint), count(*) OVER () FROM (
                 SELECT source, count(*) AS submissions, sum(withheld) AS held, 0 AS refused
                 FROM accepted WHERE id >= ?1 AND received_at >= ?2 GROUP BY source
                 UNION ALL
                 SELECT source, 0, 0, sum(refused) FROM pressure
                 WHERE day >= ?3 AND length(source) > 0 GROUP BY source) AS pressed
             GROUP BY source ORDER BY sum(submissions) + sum(refused) DESC, source LIMIT ?4",
            values![first, since, day(from), most],
        )?;
        for row in sources {
            abuse.source_count = row.count(4)?;
            abuse.sources.push(Presser {
                source: Uuid::from_bytes(row.get(0)?).simple().to_string(),
                submissions: row.count(1)?,
                held: row.count(2)?,
                refused: row.count(3)?,
            });
        }
        let reasons = match self.sql.dialect() {
            Dialect::Sqlite => "json_each(submission.reasons)",
            Dialect::Postgres => "json_array_elements(submission.reasons)",
        };
        let signals = format!(
            "SELECT reason.value ->> 'signal', count(DISTINCT submission.id),
                    count(DISTINCT CASE WHEN released_at IS NOT NULL THEN submission.id END)
             FROM accepted AS submission, {reasons} AS reason
             WHERE submission.id >= ?1 AND received_at >= ?2 AND withheld = 1
             GROUP BY 1 ORDER BY 2 DESC, 1"
        );
        for row in self.sql.query(&signals, values![first, since])? {
            abuse.signals.push(Held { signal: row.get(0)?, held: row.count(1)?, released: row.count(2)? });
        }
        let agents = self.sql.query(
            "SELECT agent, count(*), sum(withheld), count(*) OVER () FROM accepted
             WHERE id >= ?1 AND received_at >= ?2 AND agent IS NOT NULL
             GROUP BY agent ORDER BY 2 DESC, 1 LIMIT ?3",
            values![first, since, most],
        )?;
        for row in agents {
            abuse.agent_count = row.count(3)?;
            abuse.agents.push(Agent { agent: row.get(0)?, submissions: row.count(1)?, held: row.count(2)? });
        }
        Ok(abuse)
    }

    /// For how long the submission has been waiting that has waited longest for a channel which does not have it yet: since it came,
    /// or was released. What is held or parked does not wait. It costs the same however much is delivered or waits.
    pub fn oldest_waiting(&self, now: Timestamp) -> Result<Option<Duration>, StoreError> {
        // One that was held for long comes before others in the index, and may have waited for less time than they.
        let (greatest, index, join) = match self.sql.dialect() {
            Dialect::Sqlite => ("max", "INDEXED BY delivery_unfinished", "CROSS JOIN"),
            Dialect::Postgres => ("greatest", "", "JOIN"),
        };
        let oldest = format!(
            "SELECT {greatest}(s.received_at, coalesce(s.released_at, s.received_at)) AS since FROM (
                 SELECT submission FROM delivery {index}
                 WHERE due_at IS NOT NULL ORDER BY submission LIMIT ?1) AS unfinished
             {join} submission s ON s.id = submission ORDER BY since LIMIT 1"
        );
        let since = self.sql.row(&oldest, values![OLDEST])?;
        let age = |since| Ok(Duration::try_from(now.duration_since(time(since)?)).unwrap_or_default());
        since.map(|row| age(row.get(0)?)).transpose()
    }
}
