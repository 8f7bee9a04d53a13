//! Counts page views by day, and reports them.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::Arc;

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::inbox_reader::InboxReader;
use super::submission_rows::{DAY_IN_MILLISECONDS, day_number, to_timestamp};
use super::transaction::Transaction;
use super::{Bind, FromRow as _, Row, Value, from_row, values};
use crate::store::error::StoreError;

/// The maximum number of rows per day, one per page, representation and client. Beyond that, new combinations
/// share one row per representation and client, whose path is empty.
pub const MAX_VIEW_ROWS: usize = 20_000;
/// The maximum number of referring hosts per day. Beyond that, all new hosts share one row.
pub const MAX_REFERRERS: usize = 1_000;
/// The maximum length of a path in bytes, because an index of PostgreSQL has no entries of more than 2,704.
/// Pages with longer paths share the row of pages beyond the maximum.
const MAX_PATH: usize = 1024;

/// The number of views of a page, in one representation and by one kind of client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewCount {
    /// The percent-encoded path of the page. Empty for the sum of all pages that are not counted separately.
    pub path: Arc<str>,
    pub representation: &'static str,
    pub agent: &'static str,
    pub count: u64,
}

/// The number of views that came from one referring host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReferrerCount {
    /// The name of the referring host. Empty for the sum of all hosts that are not counted separately.
    pub host: Box<str>,
    pub count: u64,
}

/// Counts of views that have not been stored yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewCounts {
    pub pages: Vec<ViewCount>,
    pub referrers: Vec<ReferrerCount>,
}

/// The values of a row's key columns except the day, and the number to add to the row's count.
type Addition<'a> = (Vec<&'a str>, u64);

/// The statements for a table of daily counts, and its maximum number of rows per day.
struct CountTable {
    count_rows: &'static str,
    add: &'static str,
    insert: &'static str,
    max_rows: usize,
}

const PAGE_VIEW: CountTable = CountTable {
    count_rows: "SELECT count(*) FROM page_view WHERE day = ?1",
    add: "UPDATE page_view SET views = views + ?2
          WHERE day = ?1 AND path = ?3 AND representation = ?4 AND agent = ?5",
    insert: "INSERT INTO page_view (day, views, path, representation, agent) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (day, path, representation, agent) DO UPDATE SET views = page_view.views + ?2",
    max_rows: MAX_VIEW_ROWS,
};

const REFERRER: CountTable = CountTable {
    count_rows: "SELECT count(*) FROM referrer WHERE day = ?1",
    add: "UPDATE referrer SET views = views + ?2 WHERE day = ?1 AND host = ?3",
    insert: "INSERT INTO referrer (day, views, host) VALUES (?1, ?2, ?3)
             ON CONFLICT (day, host) DO UPDATE SET views = referrer.views + ?2",
    max_rows: MAX_REFERRERS,
};

impl Transaction<'_> {
    /// Adds views to the counts of a day. Pages with a path longer than `MAX_PATH`, and new combinations
    /// beyond `MAX_VIEW_ROWS` rows, are counted under the empty path. `rows` is the number of the day's rows,
    /// or `None` to count them. Returns their number afterwards, for the next call.
    pub(crate) fn record_page_views(
        &self,
        views: &[ViewCount],
        day: Date,
        rows: Option<i64>,
    ) -> Result<i64, StoreError> {
        let additions = views.iter().map(|view| {
            let path = if view.path.len() > MAX_PATH { "" } else { &*view.path };
            (vec![path, view.representation, view.agent], view.count)
        });
        self.add_counts(&PAGE_VIEW, additions.collect(), day, rows)
    }

    /// Like [`Transaction::record_page_views`], for referring hosts.
    pub(crate) fn record_referrers(
        &self,
        referrers: &[ReferrerCount],
        day: Date,
        rows: Option<i64>,
    ) -> Result<i64, StoreError> {
        let additions = referrers.iter().map(|referrer| (vec![&*referrer.host], referrer.count));
        self.add_counts(&REFERRER, additions.collect(), day, rows)
    }

    /// Adds to the counts of a day in a table, and inserts missing rows. Once the table has its maximum
    /// number of rows for that day, new keys are counted in shared rows, whose first key column is empty.
    /// `rows` is the number of the day's rows, or `None` to count them. Returns their number afterwards,
    /// without shared rows that this call has inserted.
    fn add_counts(
        &self,
        table: &CountTable,
        mut additions: Vec<Addition<'_>>,
        day: Date,
        rows: Option<i64>,
    ) -> Result<i64, StoreError> {
        let day = day_number(day);
        let mut rows = match rows {
            Some(rows) => rows,
            None => self.sql.one_value(table.count_rows, values![day])?,
        };
        // Replicas lock rows in the same order, the shared rows last, so that they cannot deadlock.
        additions.sort_unstable();
        let mut others = BTreeMap::<Vec<&str>, u64>::new();
        for (key, count) in additions {
            let values = [&[day.bind(), Value::Integer(to_integer(count))], &bind_keys(&key)[..]].concat();
            let is_shared = key[0].is_empty();
            if !is_shared && self.sql.execute(table.add, &values)? == 1 {
                continue;
            }
            if is_shared || rows >= i64::try_from(table.max_rows).unwrap_or(i64::MAX) {
                *others.entry([&[""], &key[1..]].concat()).or_default() += count;
                continue;
            }
            self.sql.execute(table.insert, &values)?;
            rows += 1;
        }
        for (key, count) in others {
            let values = [&[day.bind(), Value::Integer(to_integer(count))], &bind_keys(&key)[..]].concat();
            self.sql.execute(table.insert, &values)?;
        }
        Ok(rows)
    }

    /// Removes up to `most` counts from before a day, those of pages before those of referring hosts, and
    /// returns their number.
    pub fn forget_page_views(&self, before: Date, most: usize) -> Result<usize, StoreError> {
        let before = day_number(before);
        let pages = self.sql.execute(
            "DELETE FROM page_view WHERE (day, path, representation, agent) IN
             (SELECT day, path, representation, agent FROM page_view WHERE day < ?1 LIMIT ?2)",
            values![before, most],
        )?;
        let referrers = self.sql.execute(
            "DELETE FROM referrer WHERE (day, host) IN (SELECT day, host FROM referrer WHERE day < ?1 LIMIT ?2)",
            values![before, most - pages],
        )?;
        Ok(pages + referrers)
    }
}

fn to_integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn bind_keys<'a>(key: &[&'a str]) -> Vec<Value<'a>> {
    key.iter().map(|part| Value::Text(part)).collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Views {
    pub all: usize,
    pub markdown: usize,
    /// Views by the clients of [`ViewFilter::ai_agents`].
    pub ai: usize,
    /// Views as HTML by the clients of [`ViewFilter::browsers`].
    pub people: usize,
    /// Views as Markdown, and all other views by the clients of [`ViewFilter::ai_agents`].
    pub agents: usize,
}

impl Add for Views {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            markdown: self.markdown + other.markdown,
            ai: self.ai + other.ai,
            people: self.people + other.people,
            agents: self.agents + other.agents,
        }
    }
}

/// The views that a report includes.
#[derive(Clone, Debug)]
pub struct ViewFilter<'a> {
    pub from: Date,
    /// The day after the last day that is included; `None` for no end.
    pub until: Option<Date>,
    /// The percent-encoded path of the only page to include. The report then has no referring hosts.
    pub page: Option<&'a str>,
    /// The names of clients that count as AI agents; at least one.
    pub ai_agents: &'a [&'static str],
    /// The names of clients that people use; at least one.
    pub browsers: &'a [&'static str],
    /// The maximum number of pages, and of referring hosts, in the report.
    pub most: usize,
}

/// Page views by day, page, client and referring host. Days are in order; pages, clients and hosts begin with
/// the one that has the most views. An empty path or host stands for all that are not counted separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewReport {
    pub total: Views,
    pub days: Vec<(Date, Views)>,
    pub page_count: usize,
    pub pages: Vec<(String, Views)>,
    pub agents: Vec<(String, Views)>,
    /// The views that came from other sites.
    pub referred: usize,
    pub referrer_count: usize,
    pub referrers: Vec<(String, usize)>,
}

impl InboxReader {
    /// Reports the page views that a filter selects, from one snapshot; the referring hosts only if it names
    /// no page.
    pub fn page_views(&self, filter: &ViewFilter<'_>) -> Result<ViewReport, StoreError> {
        self.sql.snapshot(|| {
            let days = self.view_days(filter)?;
            let (page_count, pages) = self.viewed_pages(filter)?;
            let agents = self.count_views("agent", "2 DESC, 1", usize::MAX, filter)?;
            let total = days.iter().fold(Views::default(), |sum, (_, views)| sum + *views);
            let agents = read_named(&agents)?;
            let mut report = ViewReport { total, days, page_count, pages, agents, ..ViewReport::default() };
            if filter.page.is_none() {
                self.add_referrers(filter, &mut report)?;
            }
            Ok(report)
        })
    }

    /// The views on each day, in order of date. Omits days without views.
    pub fn view_days(&self, filter: &ViewFilter<'_>) -> Result<Vec<(Date, Views)>, StoreError> {
        let rows = self.count_views("day", "1", usize::MAX, filter)?;
        rows.iter().map(|row| Ok((read_day(row)?, Views::from_row(row)?))).collect()
    }

    /// The number of viewed pages, and up to `filter.most` pages with the most views, in descending order.
    /// The sum of pages that are not counted separately counts as a page.
    pub fn viewed_pages(&self, filter: &ViewFilter<'_>) -> Result<(usize, Vec<(String, Views)>), StoreError> {
        let pages = self.count_views("path", "2 DESC, 1", filter.most, filter)?;
        Ok((pages.first().map_or(Ok(0), |row| row.get("keys"))?, read_named(&pages)?))
    }

    /// Adds the referring hosts to a report. Ignores the filter's page and clients.
    pub fn add_referrers(&self, filter: &ViewFilter<'_>, report: &mut ViewReport) -> Result<(), StoreError> {
        let hosts = self.sql.query(
            "SELECT host, CAST(sum(views) AS bigint) AS views, count(*) OVER () AS hosts,
                CAST(sum(sum(views)) OVER () AS bigint) AS referred
             FROM referrer WHERE day >= ?1 AND day < ?2 GROUP BY host ORDER BY 2 DESC, 1 LIMIT ?3",
            values![day_number(filter.from), day_after_last(filter), filter.most],
        )?;
        for row in hosts {
            (report.referrer_count, report.referred) = (row.get("hosts")?, row.get("referred")?);
            report.referrers.push((row.get("host")?, row.get("views")?));
        }
        Ok(())
    }

    /// The earliest day, not before `from`, such that the counts of that day and later ones have at most
    /// `most` rows: the day after the newest one if that alone has more.
    pub fn first_view_day(&self, from: Date, most: usize) -> Result<Date, StoreError> {
        let beyond = "SELECT day AS key FROM page_view WHERE day >= ?1 ORDER BY day DESC LIMIT 1 OFFSET ?2";
        let row = self.sql.query(beyond, values![day_number(from), most])?;
        row.first().map_or(Ok(from), |row| Ok(read_day(row)?.saturating_add(1.day())))
    }

    /// Sums the views for each value of the column `key`, as in [`Views`]. Each row also has the number of
    /// values. The filter must have AI agents and browsers: PostgreSQL refuses an empty list.
    fn count_views(
        &self,
        key: &str,
        order: &str,
        most: usize,
        filter: &ViewFilter<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let (from, until) = (day_number(filter.from), day_after_last(filter));
        let mut values = vec![from.bind(), until.bind(), most.bind()];
        let mut parameter = |value| {
            values.push(value);
            format!("?{}", values.len())
        };
        let [ai, browsers] = [filter.ai_agents, filter.browsers].map(|names| {
            let names: Vec<String> = names.iter().map(|name| parameter(Value::Text(name))).collect();
            names.join(", ")
        });
        let page = filter.page.map(|page| format!("AND path = {}", parameter(Value::Text(page))));
        let sql = format!(
            "SELECT {key} AS key, CAST(sum(views) AS bigint) AS \"all\",
                CAST(coalesce(sum(views) FILTER (WHERE representation = 'markdown'), 0) AS bigint) AS markdown,
                CAST(coalesce(sum(views) FILTER (WHERE agent IN ({ai})), 0) AS bigint) AS ai,
                CAST(coalesce(sum(views) FILTER (WHERE representation = 'html' AND agent IN ({browsers})), 0) AS bigint) AS people,
                CAST(coalesce(sum(views) FILTER (WHERE representation = 'markdown' OR agent IN ({ai})), 0) AS bigint) AS agents,
                count(*) OVER () AS keys
             FROM page_view WHERE day >= ?1 AND day < ?2 {page} GROUP BY 1 ORDER BY {order} LIMIT ?3",
            page = page.unwrap_or_default(),
        );
        self.sql.query(&sql, &values)
    }
}

/// The day number of the first day after the filter's range; `i64::MAX` if the range has no end.
fn day_after_last(filter: &ViewFilter<'_>) -> i64 {
    filter.until.map_or(i64::MAX, day_number)
}

/// The day in the column `key`, which counts days since 1970.
fn read_day(row: &Row) -> Result<Date, StoreError> {
    let day: i64 = row.get("key")?;
    Ok(to_timestamp(day.saturating_mul(DAY_IN_MILLISECONDS))?.to_zoned(TimeZone::UTC).date())
}

fn read_named(rows: &[Row]) -> Result<Vec<(String, Views)>, StoreError> {
    rows.iter().map(|row| Ok((row.get("key")?, Views::from_row(row)?))).collect()
}

from_row! { Views { all, markdown, ai, people, agents } }
