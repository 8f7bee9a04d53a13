//! Copies an inbox to another database, and verifies the copy.
//!
//! Both databases are locked against servers until the copy ends. Rows are read from one snapshot and written
//! in one transaction. Before its commit, all rows are read back and their checksums are compared.

use std::borrow::Cow;

use super::{Bind, Cell, Row, Sql, Value, placeholders};
use crate::store::database_url::DatabaseUrl;
use crate::store::error::StoreError;
use crate::store::open::open_and_lock;
use frontdesk_process::progress;

/// The number of rows that are read and written at a time.
const AT_A_TIME: usize = 200;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The number of submissions, processed or not.
    pub submissions: usize,
    /// The total number of rows in all tables.
    pub rows: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the inbox at {0} is in use")]
    InUse(DatabaseUrl),
    #[error("the inbox at {0} is not empty")]
    Occupied(DatabaseUrl),
    #[error("source and target are the same inbox: {0}")]
    Same(DatabaseUrl),
    #[error(
        "the copy of the table `{0}` differs from the source, so nothing was copied; the source is unchanged"
    )]
    Differs(&'static str),
}

/// A table, its key columns and its other columns.
pub(crate) struct Table {
    pub name: &'static str,
    pub key: &'static str,
    pub rest: &'static str,
}

/// All tables that are copied. Each comes after the tables that its rows refer to.
pub(crate) const TABLES: [Table; 25] = [
    Table { name: "meta", key: "name", rest: "value" },
    Table { name: "definition", key: "id", rest: "form, stored_at, json" },
    Table {
        name: "submission",
        key: "id",
        rest: "form, received_at, fields, sealed, source, network, sender, agent, repeats, content, idempotency_key, score, reasons, withheld, \
               held_at, held_because, threshold, released_at, suspicious, flood, \
               other_senders, definition, lead, seen_at, done_at, spam_at, held_as_spam",
    },
    Table {
        name: "intake",
        key: "id",
        rest: "form, received_at, fields, sealed, source, sender, evidence, agent, channels, content, idempotency_key, error, network, \
               other_senders, definition, lead, canary",
    },
    Table { name: "lesson", key: "submission", rest: "taught_at, teaching, judged, senders, tokens" },
    Table { name: "canary", key: "nonce", rest: "form, sent_at, accepted_at, processed_at" },
    Table { name: "repeat", key: "id", rest: "submission" },
    Table {
        name: "delivery",
        key: "submission, channel",
        rest: "state, due_at, attempts, failures, interrupted, blame, rank, recipients",
    },
    Table {
        name: "attempt",
        key: "submission, channel, number",
        rest: "began_at, ended_at, delivered, answer",
    },
    Table { name: "channel", key: "name", rest: "target, off_at, paused_at, answer" },
    Table { name: "pressure", key: "day, source, form", rest: "refused" },
    Table { name: "form_rate", key: "form", rest: "minute, hour, over_at" },
    Table { name: "network_rate", key: "network", rest: "rested, rates" },
    Table { name: "page_view", key: "day, path, representation, agent", rest: "views" },
    Table { name: "referrer", key: "day, host", rest: "views" },
    Table { name: "annotation", key: "submission", rest: "assignee, follow_up, replied_at, replied_by" },
    Table { name: "note", key: "id", rest: "submission, at, actor, text" },
    Table { name: "saved_view", key: "name", rest: "query, actor" },
    Table { name: "undo", key: "id", rest: "actor, change, expires_at" },
    Table { name: "operator_log", key: "id", rest: "at, actor, action, submission, channel, count" },
    Table { name: "login_token", key: "hash", rest: "actor, browser, expires_at" },
    Table { name: "session", key: "hash", rest: "actor, created_at, used_at, is_mailed, is_trusted, client" },
    Table { name: "visitor_mail", key: "address, mail", rest: "until" },
    Table { name: "visitor_rate", key: "key", rest: "rested" },
    Table {
        name: "confirmation",
        key: "submission",
        rest: "state, expires_at, mail_at, reminds, mailed_at, confirmed_at, low_priority, limited_since",
    },
];

/// Copies the inbox at `from` to `to`, where there must be no inbox or one without submissions; all other
/// rows of `to` are replaced. Creates the inbox at `to` if it is missing. After an error, nothing has been
/// copied, but `to` may be a new, empty inbox. If the connection to `to` was lost, the copy may be complete.
/// Fails with [`CopyError::InUse`] if a server has either inbox open; with PostgreSQL, also if an editor has
/// one open.
pub fn copy_inbox(from: &DatabaseUrl, to: &DatabaseUrl) -> Result<Copied, CopyError> {
    if from == to {
        return Err(CopyError::Same(from.clone()));
    }
    let in_use = |url: &DatabaseUrl| CopyError::InUse(url.clone());
    let (source, source_lock) = open_and_lock(from, false)?.ok_or_else(|| in_use(from))?;
    let (target, target_lock) = open_and_lock(to, true)?.ok_or_else(|| in_use(to))?;
    let (source, target) = (&*source, &*target);
    if target.exists("SELECT 1 FROM accepted LIMIT 1", &[])? {
        return Err(CopyError::Occupied(to.clone()));
    }
    let mut copied = Copied::default();
    let mut different = None;
    let outcome = source.snapshot(|| {
        target.transaction(|| {
            // Empty the target: it has no submissions, so its other rows are not needed.
            for table in TABLES.iter().rev() {
                target.execute(&format!("DELETE FROM {}", table.name), &[])?;
            }
            let counts = TABLES
                .iter()
                .map(|table| source.one_value::<usize>(&format!("SELECT count(*) FROM {}", table.name), &[]));
            progress::begin("rows", 2 * counts.sum::<Result<usize, _>>()? as u64);
            for table in &TABLES {
                let mut written = Sum::default();
                table.for_each_page(source, |rows| {
                    written.add(rows);
                    progress::advance(rows.len());
                    table.insert_rows(target, rows)
                })?;
                let mut found = Sum::default();
                table.for_each_page(target, |rows| {
                    found.add(rows);
                    progress::advance(rows.len());
                    Ok(())
                })?;
                if found != written {
                    different = Some(table.name);
                    return Err(StoreError::Damaged("the copy differs from the source"));
                }
                copied.rows += written.rows;
                if matches!(table.name, "submission" | "intake") {
                    copied.submissions += written.rows;
                }
            }
            // Behind a pooler, the locks are on separate connections, so check that they were not lost.
            let is_lost = [&source_lock, &target_lock].into_iter().flatten().any(|lock| !lock.is_held());
            if is_lost { Err(StoreError::Locked) } else { Ok(()) }
        })
    });
    match (outcome, different) {
        (Ok(()), _) => Ok(copied),
        (Err(_), Some(table)) => Err(CopyError::Differs(table)),
        (Err(error), None) => Err(error.into()),
    }
}

impl Table {
    fn columns(&self) -> String {
        format!("{}, {}", self.key, self.rest)
    }

    /// Reads all rows in key order, except the digest of a backup, and calls `take` for each page.
    pub(crate) fn for_each_page(
        &self,
        sql: &dyn Sql,
        mut take: impl FnMut(&[Row]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let key = self.key;
        let keys = key.split(", ").count();
        // Skip the digest of a backup: it does not apply to a copy.
        let which = if self.name == "meta" { "name <> 'backup-digest'" } else { "TRUE" };
        let select = |after: &str| {
            format!(
                "SELECT {} FROM {} WHERE {which} AND {after} ORDER BY {key} LIMIT {AT_A_TIME}",
                self.columns(),
                self.name
            )
        };
        let mut rows = sql.query(&select("TRUE"), &[])?;
        let next = select(&format!("({key}) > {}", placeholders(keys)));
        while let Some(last) = rows.last() {
            take(&rows)?;
            if rows.len() < AT_A_TIME {
                break;
            }
            let after: Vec<Value<'_>> = last.cells[..keys].iter().map(Bind::bind).collect();
            rows = sql.query(&next, &after)?;
        }
        Ok(())
    }

    fn insert_rows(&self, sql: &dyn Sql, rows: &[Row]) -> Result<(), StoreError> {
        let values: Vec<Value<'_>> = rows.iter().flat_map(|row| &row.cells).map(Bind::bind).collect();
        let columns = self.columns();
        sql.insert(&format!("{} ({columns})", self.name), columns.split(", ").count(), &values)
    }
}

/// A checksum of rows that does not depend on their order, because the two databases sort text differently.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub rows: usize,
    parts: [u64; 4],
}

impl Sum {
    /// Adds the hash of each row to the sum. Rows that differ only in NUL and U+FFFD have the same hash.
    pub(crate) fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let mut hasher = blake3::Hasher::new();
            for cell in &row.cells {
                let (kind, bytes): (u8, Cow<'_, [u8]>) = match cell {
                    Cell::Null => (0, Cow::default()),
                    Cell::Integer(number) => (1, number.to_le_bytes().to_vec().into()),
                    // PostgreSQL cannot store NUL in text, so a copy there contains U+FFFD instead.
                    Cell::Text(text) if text.contains('\0') => {
                        (2, text.replace('\0', "\u{fffd}").into_bytes().into())
                    }
                    Cell::Text(text) => (2, text.as_bytes().into()),
                    Cell::Blob(bytes) => (3, bytes.into()),
                };
                hasher.update(&[kind]).update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
            }
            let hash = *hasher.finalize().as_bytes();
            for (part, bytes) in self.parts.iter_mut().zip(hash.as_chunks::<8>().0) {
                *part = part.wrapping_add(u64::from_le_bytes(*bytes));
            }
        }
        self.rows += rows.len();
    }
}
