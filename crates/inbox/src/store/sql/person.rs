//! A person: the submissions that contain the same e-mail address.
//!
//! A person is identified by the keyed hash of the address, so that encrypted submissions are found too and
//! no address appears in a URL.

use jiff::Timestamp;
use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::submission_rows::SUBMISSION;
use super::{Dialect, values};
use crate::store::error::StoreError;
use crate::store::keyed_hash::{Hash, Secret};
use crate::store::sql::submission_rows::read_submission;
use crate::submission::Submission;

/// How many submissions a person wrote, and when the first one arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonSummary {
    pub submissions: usize,
    pub first_at: Timestamp,
}

/// A subquery for the distinct ids of the submissions, processed or not, in which any address has the hash
/// `?1`.
pub(super) fn ids(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "SELECT id FROM submission WHERE sender = ?1
             UNION SELECT id FROM submission WHERE other_senders IS NOT NULL AND instr(other_senders, ?1) > 0
             UNION SELECT id FROM intake WHERE sender = ?1 OR instr(other_senders, ?1) > 0"
        }
        Dialect::Postgres => {
            "SELECT id FROM submission WHERE sender = CAST(?1 AS bytea)
             UNION SELECT id FROM submission WHERE other_senders IS NOT NULL AND position(CAST(?1 AS bytea) IN other_senders) > 0
             UNION SELECT id FROM intake WHERE sender = CAST(?1 AS bytea) OR position(CAST(?1 AS bytea) IN other_senders) > 0"
        }
    }
}

impl InboxReader {
    /// The keyed hash of an address, ignoring case, as stored with submissions.
    pub fn person_hash(&self, email: &str) -> Result<Hash, StoreError> {
        Ok(Secret::read(&*self.sql)?.sender(email))
    }

    /// The keyed hash of a submission's first e-mail address; `None` if there is no address or no submission.
    pub fn person_of(&self, submission: Uuid) -> Result<Option<Hash>, StoreError> {
        let select = "SELECT sender FROM accepted WHERE id = ?1";
        Ok(self.sql.value::<Option<Hash>>(select, values![submission])?.flatten())
    }

    /// Counts a person's submissions, and returns when the first one arrived; `None` if there are none.
    pub fn person(&self, person: &Hash) -> Result<Option<PersonSummary>, StoreError> {
        let ids = ids(self.sql.dialect());
        let submissions: usize =
            self.sql.one_value(&format!("SELECT count(*) FROM ({ids}) AS person"), values![*person])?;
        let first = format!(
            "SELECT received_at FROM accepted WHERE id = (SELECT id FROM ({ids}) AS person ORDER BY id LIMIT 1)"
        );
        let first_at = self.sql.value(&first, values![*person])?;
        Ok(first_at.map(|first_at| PersonSummary { submissions, first_at }))
    }

    /// Up to `limit` submissions of a person, newest first: those with ids below `before`, or the newest ones
    /// if that is `None`.
    pub fn person_submissions(
        &self,
        person: &Hash,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Submission>, StoreError> {
        let page = format!(
            "SELECT {SUBMISSION} FROM accepted s WHERE s.id IN
                 (SELECT id FROM ({}) AS person WHERE id < ?2 ORDER BY id DESC LIMIT ?3) ORDER BY s.id DESC",
            ids(self.sql.dialect())
        );
        let rows = self.sql.query(&page, values![*person, before.unwrap_or(Uuid::max()), limit])?;
        rows.iter().map(|row| read_submission(&*self.sql, row)).collect()
    }
}
