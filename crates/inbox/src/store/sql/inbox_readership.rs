//! Whether operators read the inbox: what is unread, and when one of them last used it.

use jiff::Timestamp;

use super::inbox_reader::InboxReader;
use super::{submission_rows, values};
use crate::store::error::StoreError;

/// How many of the latest submissions are examined to find out whether operators read them in the inbox.
const SAMPLE: i64 = 20;

/// Statistics that show whether operators read submissions in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readership {
    /// The number of unread submissions that are not done, held or spam, and were received before the time
    /// passed to [`InboxReader::readership`].
    pub unread: usize,
    /// When an operator last read a new submission, used the web interface or changed something. `None` if
    /// that never happened.
    pub last_use: Option<Timestamp>,
    /// Whether operators have read at least half of the latest 20 submissions from before `last_use` that are
    /// neither held nor spam; false if there are none. If not, they read them elsewhere, such as in their
    /// mail.
    pub is_read_here: bool,
}

impl InboxReader {
    /// Reports when operators last used the inbox, and how many submissions from before `before` they have
    /// not read. Does not count those that are done, held or spam.
    pub fn readership(&self, before: Timestamp) -> Result<Readership, StoreError> {
        let count =
            "SELECT count(*) FROM submission WHERE seen_at IS NULL AND done_at IS NULL AND held_at IS NULL
             AND spam_at IS NULL AND received_at < ?1";
        let unread = self.sql.one_value(count, values![before])?;
        let latest = [
            "SELECT max(seen_at) FROM submission",
            "SELECT max(used_at) FROM session",
            "SELECT max(at) FROM operator_log",
        ];
        let mut last_use: Option<Timestamp> = None;
        for query in latest {
            last_use = last_use.max(self.sql.one_value::<Option<Timestamp>>(query, &[])?);
        }
        let Some(last) = last_use else { return Ok(Readership { unread, last_use, is_read_here: false }) };
        let sample = "SELECT count(*) AS arrived, count(seen_at) AS opened FROM (
                 SELECT seen_at FROM submission WHERE received_at <= ?1 AND held_at IS NULL AND spam_at IS NULL
                 ORDER BY id DESC LIMIT ?2) AS latest";
        let row = self.sql.row(sample, values![last, SAMPLE])?;
        let (arrived, opened): (usize, usize) = match row {
            Some(row) => (row.get("arrived")?, row.get("opened")?),
            None => (0, 0),
        };
        Ok(Readership { unread, last_use, is_read_here: opened > 0 && opened * 2 >= arrived })
    }

    /// The time that is stored under `name`, such as the time of the last digest; `None` if there is none.
    pub fn stored_time(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        submission_rows::stored_number(&*self.sql, name)?.map(submission_rows::to_timestamp).transpose()
    }
}
