//! Counts submissions and deliveries: the backlog, arrivals by day, form and status, and sources of leads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use uuid::Uuid;

use frontdesk_forms::LeadSource;

use super::inbox_reader::InboxReader;
use super::submission_rows::{DAY_IN_MILLISECONDS, STATUS, first_id_at, to_timestamp};
use super::{Dialect, Row, values};
use crate::store::error::StoreError;
use crate::submission::Status;

/// The queries that count the backlog: unfinished deliveries without and with failures, parked deliveries,
/// held submissions, those among them whose address is not confirmed, and those whose visitor has not been
/// asked to confirm it. Each uses an index that contains only unfinished rows. Deliveries are counted by
/// channel, mails to visitors included.
pub(crate) fn backlog_queries(dialect: Dialect) -> [String; 6] {
    let oldest = match dialect {
        Dialect::Sqlite => "min(submission)",
        // PostgreSQL has no `min` for UUIDs; their text form sorts in the same order.
        Dialect::Postgres => "min(CAST(submission AS text))",
    };
    let unfinished = |failures| {
        format!(
            "SELECT channel, count(*) AS count, {oldest} AS oldest FROM delivery
             WHERE due_at IS NOT NULL AND failures {failures} 0 GROUP BY channel"
        )
    };
    [
        unfinished("="),
        unfinished(">"),
        "SELECT channel, count(*) AS count FROM delivery WHERE state = 'parked' GROUP BY channel".to_owned(),
        "SELECT count(*) FROM submission WHERE held_at IS NOT NULL".to_owned(),
        "SELECT count(*) FROM confirmation WHERE state = 'open'".to_owned(),
        "SELECT count(*) AS count, min(coalesce(limited_since, mail_at)) AS since FROM confirmation WHERE mail_at IS NOT NULL AND reminds = 0"
            .to_owned(),
    ]
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Accepted submissions that have not been processed yet.
    pub pending: usize,
    /// When the oldest pending submission was received.
    pub pending_since: Option<Timestamp>,
    /// Submissions that could not be processed.
    pub set_aside: usize,
    /// Held submissions, except those whose address is not confirmed.
    pub held: usize,
    /// Entries with a confirmation mail, not a reminder, that is still to be queued. It may wait because of a
    /// limit of mails to visitors, or because the address has had a mail within a day.
    pub unasked: usize,
    /// The earliest due time of a first confirmation mail that is not queued yet.
    pub unasked_since: Option<Timestamp>,
    /// Channels that have a backlog or are paused or switched off, sorted by name.
    pub channels: Vec<ChannelQueue>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelQueue {
    pub name: String,
    /// Deliveries that are waiting for an attempt or being sent.
    pub waiting: usize,
    pub parked: usize,
    /// When the oldest submission with a waiting delivery was received.
    pub oldest: Option<Timestamp>,
    pub is_paused: bool,
    /// Whether the channel is switched off because its target is gone.
    pub is_off: bool,
}

impl InboxReader {
    /// Counts the backlog. The counts are read one after the other, so they may be from slightly different
    /// moments. Includes the channels of mails to visitors, and leaves out test submissions of the canary.
    pub fn queue(&self) -> Result<Queue, StoreError> {
        let [first, again, parked, held, unconfirmed, unasked] = backlog_queries(self.sql.dialect());
        let mut channels = BTreeMap::<String, ChannelQueue>::new();
        for sql in [first, again] {
            for row in self.sql.query(&sql, &[])? {
                let channel = channels.entry(row.get("channel")?).or_default();
                channel.waiting += row.get::<usize>("count")?;
                channel.oldest = channel.oldest.into_iter().chain([time_of_id(&row, "oldest")?]).min();
            }
        }
        for row in self.sql.query(&parked, &[])? {
            channels.entry(row.get("channel")?).or_default().parked = row.get("count")?;
        }
        let obstacles = "SELECT name, off_at IS NOT NULL AS is_off FROM channel WHERE off_at IS NOT NULL OR paused_at IS NOT NULL";
        for row in self.sql.query(obstacles, &[])? {
            let channel = channels.entry(row.get("name")?).or_default();
            channel.is_off = row.get("is_off")?;
            channel.is_paused = !channel.is_off;
        }
        let unconfirmed = self.sql.one_value(&unconfirmed, &[])?;
        let held = self.sql.one_value::<usize>(&held, &[])?.saturating_sub(unconfirmed);
        let unasked = self.sql.one(&unasked, &[])?;
        let intake = self.sql.one("SELECT count(*) FILTER (WHERE error IS NULL) AS pending,
                 min(received_at) FILTER (WHERE error IS NULL) AS since, count(error) AS set_aside FROM intake WHERE canary IS NULL", &[])?;
        Ok(Queue {
            pending: intake.get("pending")?,
            pending_since: intake.get("since")?,
            set_aside: intake.get("set_aside")?,
            held,
            unasked: unasked.get("count")?,
            unasked_since: unasked.get("since")?,
            channels: channels.into_iter().map(|(name, channel)| ChannelQueue { name, ..channel }).collect(),
        })
    }
}

/// Reads the time from an id, stored as bytes or text: its first 48 bits are milliseconds (RFC 9562 §5.7).
fn time_of_id(row: &Row, column: &str) -> Result<Timestamp, StoreError> {
    let id = row.get(column).or_else(|error| Uuid::parse_str(row.text(column)?).map_err(|_| error))?;
    to_timestamp((id.as_u64_pair().0 >> 16).cast_signed())
}

/// The years for which the offsets of a time zone are looked up. Earlier and later times get the first and
/// the last of these offsets.
const YEARS: std::ops::RangeInclusive<i16> = 2020..=2060;

/// An SQL expression for the offset of local time from UTC at `received_at`, in milliseconds. It is exact
/// within the [`YEARS`].
fn offset_in_milliseconds(zone: &TimeZone) -> String {
    let millis = |offset: jiff::tz::Offset| i64::from(offset.seconds()) * 1000;
    let start = Date::constant(*YEARS.start(), 1, 1).at(0, 0, 0, 0);
    let Ok(start) = TimeZone::UTC.to_timestamp(start) else { return "0".to_owned() };
    let mut offset = millis(zone.to_offset(start));
    let mut cases = String::new();
    let changes = zone.following(start);
    for change in
        changes.take_while(|change| change.timestamp().to_zoned(TimeZone::UTC).year() <= *YEARS.end())
    {
        cases += &format!(" WHEN received_at < {} THEN {offset}", change.timestamp().as_millisecond());
        offset = millis(change.offset());
    }
    if cases.is_empty() { offset.to_string() } else { format!("CASE{cases} ELSE {offset} END") }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyCount {
    /// The day of arrival in the time zone of the query.
    pub day: Date,
    pub form: String,
    pub status: Status,
    /// The number of submissions; at least one.
    pub count: usize,
}

impl InboxReader {
    /// Counts all submissions by day in this time zone, form and status, sorted in that order.
    pub fn daily_counts(&self, zone: &TimeZone) -> Result<Vec<DailyCount>, StoreError> {
        let counts = format!(
            "SELECT (received_at + {}) / {DAY_IN_MILLISECONDS} AS day, form, {STATUS} AS status, count(*) AS count
             FROM accepted s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            offset_in_milliseconds(zone)
        );
        let mut daily_counts = Vec::new();
        for row in self.sql.query(&counts, &[])? {
            let day: i64 = row.get("day")?;
            daily_counts.push(DailyCount {
                day: to_timestamp(day.saturating_mul(DAY_IN_MILLISECONDS))?.to_zoned(TimeZone::UTC).date(),
                form: row.get("form")?,
                status: Status::from_name(row.text("status")?)
                    .ok_or(StoreError::Damaged("unknown status"))?,
                count: row.get("count")?,
            });
        }
        Ok(daily_counts)
    }
}

/// The pages, referring hosts and campaigns that leads came from, each with its number of leads, most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeadCounts {
    pub pages: Vec<(String, usize)>,
    /// The hosts of the sites that visitors came from.
    pub referrers: Vec<(String, usize)>,
    /// The names of the campaigns that visitors came from; see [`LeadSource::campaign`].
    pub campaigns: Vec<(String, usize)>,
    /// Whether the limit [`MAX_LEADS`] was reached, so that older leads may be missing from the counts.
    pub is_cut: bool,
}

/// The maximum number of leads whose sources are counted, because each lead must be read and parsed.
pub const MAX_LEADS: usize = 10_000;

impl LeadCounts {
    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, counts)| counts.is_empty())
    }

    /// The lists with their names: `pages`, `referrers` and `campaigns`.
    pub fn lists(&self) -> [(&'static str, &[(String, usize)]); 3] {
        [("pages", &self.pages), ("referrers", &self.referrers), ("campaigns", &self.campaigns)]
    }
}

impl InboxReader {
    /// The number of leads of each form that has submissions, sorted by form, in consecutive periods. The
    /// first period is from the first of the `bounds` until the second one, exclusive, and so on; without a
    /// period, returns nothing. A lead is a submission that is processed, not held and not marked as spam.
    pub fn leads_by_form(&self, bounds: &[Timestamp]) -> Result<Vec<(String, Vec<usize>)>, StoreError> {
        let periods: Vec<String> = (1..)
            .zip(bounds.windows(2))
            .map(|(n, bounds)| {
                format!("({n}, {}, {})", bounds[0].as_millisecond(), bounds[1].as_millisecond())
            })
            .collect();
        if periods.is_empty() {
            return Ok(Vec::new());
        }
        let count = format!(
            "WITH period (n, since, until) AS (VALUES {})
             SELECT (SELECT count(*) FROM {} WHERE held_at IS NULL AND spam_at IS NULL AND form = ?1
                     AND received_at >= since AND received_at < until) FROM period ORDER BY n",
            periods.join(", "),
            self.sql.dialect().table_with_index("submission", "submission_lead"),
        );
        let forms = self.forms()?;
        forms.into_iter().map(|form| Ok((form.clone(), self.sql.column(&count, values![&*form])?))).collect()
    }

    /// Counts the leads (see [`InboxReader::leads_by_form`]) from a time until another one, exclusive, by
    /// their sources; each list has at most `most` values. Counts only the newest [`MAX_LEADS`] with a
    /// source. Leaves out encrypted submissions, whose sources are not readable. Ignores a source that cannot
    /// be parsed.
    pub fn lead_counts(
        &self,
        from: Timestamp,
        until: Timestamp,
        most: usize,
    ) -> Result<LeadCounts, StoreError> {
        let sources = "SELECT lead, count(*) AS count FROM (
                 SELECT lead FROM submission WHERE held_at IS NULL AND spam_at IS NULL AND lead IS NOT NULL AND id >= ?1 AND id < ?2
                 ORDER BY id DESC LIMIT ?3) AS newest GROUP BY lead";
        let [from, until] =
            [from, until].map(|time| Uuid::from_bytes(first_id_at(time.as_millisecond().max(0))));
        let (mut totals, mut counted): ([BTreeMap<String, usize>; 3], usize) = Default::default();
        for row in self.sql.query(sources, values![from, until, MAX_LEADS])? {
            let count: usize = row.get("count")?;
            counted += count;
            let lead = LeadSource::from_json(row.text("lead")?).unwrap_or_default();
            let names = [lead.get("page"), lead.get("referrer"), lead.campaign()];
            for (totals, name) in totals.iter_mut().zip(names) {
                if let Some(name) = name {
                    *totals.entry(name.to_owned()).or_default() += count;
                }
            }
        }
        let [pages, referrers, campaigns] = totals.map(|totals| {
            let mut counts = Vec::from_iter(totals);
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            counts.truncate(most);
            counts
        });
        Ok(LeadCounts { pages, referrers, campaigns, is_cut: counted == MAX_LEADS })
    }
}
