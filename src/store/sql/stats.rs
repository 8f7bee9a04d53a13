//! How many submissions arrived on which day, of which form, and where they stand.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::read::Reader;
use super::rows::{DAY_IN_MILLISECONDS, STATUS, time};
use crate::store::StoreError;
use crate::submission::Status;

/// How many submissions have all of this in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The day on which they were received, in UTC.
    pub day: Date,
    /// Their form's name.
    pub form: String,
    /// Where they stand.
    pub status: Status,
    /// How many they are; at least one.
    pub count: usize,
}

impl Reader {
    /// Counts all submissions by day, form and status, the earliest day first, in one pass.
    pub fn tallies(&self) -> Result<Vec<Tally>, StoreError> {
        let counts = format!(
            "SELECT received_at / {DAY_IN_MILLISECONDS} AS day, form, {STATUS} AS status, count(*)
             FROM accepted s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        );
        let mut tallies = Vec::new();
        for row in self.sql.query(&counts, &[])? {
            let (day, status): (i64, String) = (row.get(0)?, row.get(2)?);
            tallies.push(Tally {
                day: date(time(day.saturating_mul(DAY_IN_MILLISECONDS))?),
                form: row.get(1)?,
                status: Status::named(&status).ok_or(StoreError::Damaged("a status is unknown"))?,
                count: row.count(3)?,
            });
        }
        Ok(tallies)
    }
}

fn date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}
