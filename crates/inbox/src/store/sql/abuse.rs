//! Counts refused requests, and reports abuse: rate-limited sources, held submissions, and agents.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::submission_rows::{day_number, first_id_at};
use super::transaction::Transaction;
use super::{FromRow as _, from_row, values};
use crate::store::error::StoreError;
use frontdesk_limits::source::RefusedRequests;

/// Once the table `pressure` has this many rows for a day, one per source and form, all new sources share one
/// row per form.
const MOST_A_DAY: i64 = 10_000;
/// Selects the submissions that an operator released.
const RELEASED: &str = "submission.id IN (SELECT submission FROM operator_log WHERE action = 'release')";

impl Transaction<'_> {
    /// Adds to the counts of refused requests of a day. A source of `None` stands for all sources that are
    /// not counted individually. Once the day has [`MOST_A_DAY`] rows, a source without a row for the form
    /// counts as `None`.
    pub(crate) fn record_refusals(&self, refused: &[RefusedRequests], day: Date) -> Result<(), StoreError> {
        let (tx, day) = (self.sql, day_number(day));
        let mut rows: i64 = tx.one_value("SELECT count(*) FROM pressure WHERE day = ?1", values![day])?;
        for RefusedRequests { source, form, count } in refused {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let mut source = source.map(|source| self.secret.source(source).to_vec()).unwrap_or_default();
            let known = tx.execute(
                "UPDATE pressure SET refused = refused + ?4 WHERE day = ?1 AND source = ?2 AND form = ?3",
                values![day, source, form, count],
            )?;
            if known == 1 {
                continue;
            }
            if rows >= MOST_A_DAY {
                source.clear();
            }
            tx.execute(
                "INSERT INTO pressure (day, source, form, refused) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (day, source, form) DO UPDATE SET refused = pressure.refused + ?4",
                values![day, source, form, count],
            )?;
            rows += 1;
        }
        Ok(())
    }

    /// Removes up to `most` counts of refused requests that are from an earlier day than `before`, and
    /// returns their number.
    pub fn forget_refusals(&self, before: Date, most: usize) -> Result<usize, StoreError> {
        self.sql.execute(
            "DELETE FROM pressure WHERE (day, source, form) IN
             (SELECT day, source, form FROM pressure WHERE day < ?1 LIMIT ?2)",
            values![day_number(before), most],
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abuse {
    pub submissions: usize,
    /// The number of submissions that were held by screening or because of a flood, including those that
    /// were released since; see [`Screening::withheld`](crate::submission::Screening::withheld).
    pub held: usize,
    /// The number of submissions in `held` that operators released, also if the release undid a mark of spam
    /// or ended an operator's own hold. Those that a repeat or the end of a flood released do not count.
    pub released: usize,
    pub refused: usize,
    /// Refused requests from sources that are not counted individually.
    pub refused_others: usize,
    pub source_count: usize,
    /// The sources with the most submissions and refused requests in total, in descending order.
    pub sources: Vec<RefusedSource>,
    /// The signals of the submissions in `held`, most frequent first.
    pub signals: Vec<SignalCount>,
    pub agent_count: usize,
    /// The agents with the most submissions, in descending order.
    pub agents: Vec<AgentCount>,
    pub decisions: Decisions,
}

/// How often operators agreed with screening, by their lessons: submissions that screening marked or held and
/// that operators called spam or honest, and spam that screening delivered unmarked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    pub marked_spam: usize,
    pub marked_honest: usize,
    pub held_spam: usize,
    pub held_honest: usize,
    pub missed_spam: usize,
}

from_row! { Decisions { marked_spam, marked_honest, held_spam, held_honest, missed_spam } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedSource {
    /// The keyed hash of the source; see [`Submission::source`](crate::submission::Submission::source).
    pub source: String,
    pub submissions: usize,
    pub held: usize,
    pub refused: usize,
}

/// How many submissions with a signal were held, and how many of them were released by operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalCount {
    pub signal: String,
    pub held: usize,
    pub released: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentCount {
    /// The host whose key signs the agent's requests.
    pub agent: String,
    pub submissions: usize,
    pub held: usize,
}

from_row! { SignalCount { signal, held, released } }
from_row! { AgentCount { agent, submissions, held } }

impl InboxReader {
    /// Reports abuse since the day `from` in this time zone, from one snapshot: up to `most` sources and
    /// agents, and all signals. Refused requests are counted by the day in UTC. Reads only the submissions of
    /// that period. Counts the operators' decisions in that period, even about earlier submissions.
    pub fn abuse(&self, from: Date, zone: &TimeZone, most: usize) -> Result<Abuse, StoreError> {
        let day = day_number(from);
        // If the day begins before the earliest possible timestamp, count from that timestamp.
        let start = from.to_zoned(zone.clone()).map_or(Timestamp::MIN, |start| start.timestamp());
        let since = start.as_millisecond();
        self.sql.snapshot(|| {
            // Ids begin with the time of arrival, so a condition on the id narrows the search.
            let first = first_id_at(since);
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            // `withheld` stays 1 after a release.
            let kept = format!(
                "SELECT count(*) AS submissions, coalesce(sum(withheld), 0) AS held,
                    count(CASE WHEN withheld = 1 AND {RELEASED} THEN 1 END) AS released
             FROM accepted AS submission WHERE id >= ?1 AND received_at >= ?2"
            );
            let kept = self.sql.one(&kept, values![first, since])?;
            // An empty source stands for all sources that are not counted individually.
            let refused = self.sql.one(
                "SELECT CAST(coalesce(sum(refused), 0) AS bigint) AS refused,
                    CAST(coalesce(sum(refused) FILTER (WHERE length(source) = 0), 0) AS bigint) AS others
             FROM pressure WHERE day >= ?1",
                values![day],
            )?;
            let mut abuse = Abuse {
                submissions: kept.get("submissions")?,
                held: kept.get("held")?,
                released: kept.get("released")?,
                refused: refused.get("refused")?,
                refused_others: refused.get("others")?,
                ..Abuse::default()
            };
            let sources = self.sql.query(
                "SELECT source, CAST(sum(submissions) AS bigint) AS submissions, CAST(sum(held) AS bigint) AS held,
                    CAST(sum(refused) AS bigint) AS refused, count(*) OVER () AS sources FROM (
                 SELECT source, count(*) AS submissions, sum(withheld) AS held, 0 AS refused
                 FROM accepted WHERE id >= ?1 AND received_at >= ?2 GROUP BY source
                 UNION ALL
                 SELECT source, 0, 0, sum(refused) FROM pressure
                 WHERE day >= ?3 AND length(source) > 0 GROUP BY source) AS source_counts
             GROUP BY source ORDER BY sum(submissions) + sum(refused) DESC, source LIMIT ?4",
                values![first, since, day, most],
            )?;
            for row in sources {
                abuse.source_count = row.get("sources")?;
                abuse.sources.push(RefusedSource {
                    source: row.get::<Uuid>("source")?.simple().to_string(),
                    submissions: row.get("submissions")?,
                    held: row.get("held")?,
                    refused: row.get("refused")?,
                });
            }
            let reasons = self.sql.dialect().reasons_table("submission");
            let signals = format!(
                "SELECT reason.value ->> 'signal' AS signal, count(DISTINCT submission.id) AS held,
                    count(DISTINCT CASE WHEN {RELEASED} THEN submission.id END) AS released
             FROM accepted AS submission, {reasons} AS reason
             WHERE submission.id >= ?1 AND received_at >= ?2 AND withheld = 1
             GROUP BY 1 ORDER BY 2 DESC, 1"
            );
            abuse.signals = self.sql.query_as(&signals, values![first, since])?;
            let agents = self.sql.query(
                "SELECT agent, count(*) AS submissions, sum(withheld) AS held, count(*) OVER () AS agents FROM accepted
             WHERE id >= ?1 AND received_at >= ?2 AND agent IS NOT NULL
             GROUP BY agent ORDER BY 2 DESC, 1 LIMIT ?3",
                values![first, since, most],
            )?;
            for row in agents {
                abuse.agent_count = row.get("agents")?;
                abuse.agents.push(AgentCount::from_row(&row)?);
            }
            abuse.decisions = self.decisions(since)?;
            Ok(abuse)
        })
    }

    /// Counts the operators' decisions, as recorded in lessons, since `since` (Unix time in milliseconds).
    /// Weak lessons count, too: they call done and answered submissions honest.
    fn decisions(&self, since: i64) -> Result<Decisions, StoreError> {
        // `judged` is what screening did: 0 delivered, 1 marked, 2 held. A `teaching` of 1 is spam.
        let count = |condition: &str| format!("count(*) FILTER (WHERE {condition})");
        let decisions = format!(
            "SELECT {} AS marked_spam, {} AS marked_honest, {} AS held_spam, {} AS held_honest, {} AS missed_spam
             FROM lesson WHERE taught_at >= ?1",
            count("judged = 1 AND teaching = 1"),
            count("judged = 1 AND teaching <> 1"),
            count("judged = 2 AND teaching = 1"),
            count("judged = 2 AND teaching <> 1"),
            count("judged = 0 AND teaching = 1"),
        );
        Decisions::from_row(&self.sql.one(&decisions, values![since])?)
    }
}
