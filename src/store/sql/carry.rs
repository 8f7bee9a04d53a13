//! Carries a whole inbox from one database over into another, and proves that it is there.
//!
//! Both are locked meanwhile, so that nothing comes in that would not come along. What is read is one state of the source, what is
//! written is one transaction, and each row is read back and compared by a sum over the hashes of all rows before it is committed.

use std::borrow::Cow;
use std::time::Duration;

use super::{Bind, Cell, Row, Sql, Value, placeholders};
use crate::store::lock::Lock;
use crate::store::sqlite::files::create_folder;
use crate::store::{Place, StoreError, postgres, sqlite};

/// How many rows are read, and written, at a time.
const AT_A_TIME: usize = 200;
/// How long one statement on a file waits for others.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was carried over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Submissions.
    pub submissions: usize,
    /// Rows of all tables.
    pub rows: usize,
}

/// Why nothing was carried over.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// One of the databases fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server works with it, or the operator changes it just now.
    #[error("the inbox at {0} is in use")]
    InUse(Place),
    /// There are submissions already where it is to go.
    #[error("the inbox at {0} is not empty")]
    Occupied(Place),
    /// It is there already.
    #[error("both are the inbox at {0}")]
    Same(Place),
    /// What was read back is not what was written; nothing was committed.
    #[error("the table `{0}` came out different: nothing was changed")]
    Differs(&'static str),
}

/// A table, the columns that identify a row, and the others, in the order in which tables refer to each other.
pub(in crate::store) struct Table {
    pub name: &'static str,
    key: &'static str,
    rest: &'static str,
}

pub(in crate::store) const TABLES: [Table; 10] = [
    Table { name: "meta", key: "name", rest: "value" },
    Table {
        name: "submission",
        key: "id",
        rest: "form, received_at, fields, sealed, source, sender, agent, repeats, content, idempotency_key, score, reasons, withheld, \
               held_at, held_because, released_at, suspicious, flood",
    },
    Table {
        name: "intake",
        key: "id",
        rest: "form, received_at, fields, sealed, source, sender, evidence, agent, channels, content, idempotency_key, error, network",
    },
    Table { name: "repeat", key: "id", rest: "submission" },
    Table {
        name: "delivery",
        key: "submission, channel",
        rest: "state, due_at, attempts, failures, interrupted, blame, form, rank",
    },
    Table {
        name: "attempt",
        key: "submission, channel, number",
        rest: "began_at, ended_at, delivered, answer",
    },
    Table { name: "channel", key: "name", rest: "target, off_at, paused_at, answer" },
    Table { name: "pressure", key: "day, source, form", rest: "refused" },
    Table { name: "form_rate", key: "form", rest: "minute, hour, over_at" },
    Table { name: "network_rate", key: "network, form", rest: "rested" },
];

/// Carries the inbox at `from` over to `to`, where there is none yet or an empty one. The source stays as it is.
pub fn carry(from: &Place, to: &Place) -> Result<Carried, CarryError> {
    if from == to {
        return Err(CarryError::Same(from.clone()));
    }
    // Held until it is done.
    let (source, _source_lock) = open(from, false)?;
    let (target, _target_lock) = open(to, true)?;
    let (source, target) = (&*source, &*target);
    if target.exists("SELECT 1 FROM accepted LIMIT 1", &[])? {
        return Err(CarryError::Occupied(to.clone()));
    }
    let mut carried = Carried::default();
    let mut different = None;
    let outcome = source.snapshot(|| {
        target.transaction(|| {
            // Where there are no submissions the rest says nothing of any.
            for table in TABLES.iter().rev() {
                target.execute(&format!("DELETE FROM {}", table.name), &[])?;
            }
            for table in &TABLES {
                let mut written = Sum::default();
                table.each(source, |rows| {
                    written.add(rows);
                    table.insert(target, rows)
                })?;
                let mut found = Sum::default();
                table.each(target, |rows| {
                    found.add(rows);
                    Ok(())
                })?;
                if found != written {
                    different = Some(table.name);
                    return Err(StoreError::Damaged("it came out different"));
                }
                carried.rows += written.rows;
                if matches!(table.name, "submission" | "intake") {
                    carried.submissions += written.rows;
                }
            }
            Ok(())
        })
    });
    match (outcome, different) {
        (Ok(()), _) => Ok(carried),
        (Err(_), Some(table)) => Err(CarryError::Differs(table)),
        (Err(error), None) => Err(error.into()),
    }
}

/// Opens a database that nobody else works with, and keeps them from it.
pub(in crate::store) fn open(place: &Place, make: bool) -> Result<(Box<dyn Sql>, Option<Lock>), CarryError> {
    match place {
        Place::Sqlite(path) => {
            if !make && !path.exists() {
                return Err(StoreError::Missing(place.clone()).into());
            }
            if make {
                create_folder(path)?;
            }
            let lock = Lock::of(place)?.ok_or_else(|| CarryError::InUse(place.clone()))?;
            if make {
                sqlite::Database::open(path)?;
            }
            let (connection, _) = sqlite::open_to_edit(path, PATIENCE)?;
            Ok((Box::new(connection), Some(lock)))
        }
        Place::Postgres(server) => {
            let link = if make { postgres::open_to_make(server)? } else { postgres::open_to_edit(server)?.0 };
            if !postgres::is_ours_alone(&link)? {
                return Err(CarryError::InUse(place.clone()));
            }
            Ok((Box::new(link), None))
        }
    }
}

impl Table {
    fn columns(&self) -> String {
        format!("{}, {}", self.key, self.rest)
    }

    /// All rows in the order of their keys, some at a time.
    pub(in crate::store) fn each(
        &self,
        sql: &dyn Sql,
        mut take: impl FnMut(&[Row]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let key = self.key;
        let keys = key.split(", ").count();
        // A backup's digest says nothing of the inbox that is made of it.
        let which = if self.name == "meta" { "name <> 'backup-digest'" } else { "TRUE" };
        let select = |after: &str| {
            format!(
                "SELECT {} FROM {} WHERE {which} AND {after} ORDER BY {key} LIMIT {AT_A_TIME}",
                self.columns(),
                self.name
            )
        };
        let mut rows = sql.query(&select("TRUE"), &[])?;
        let next = select(&format!("({key}) > {}", placeholders(1, keys)));
        while let Some(last) = rows.last() {
            take(&rows)?;
            if rows.len() < AT_A_TIME {
                break;
            }
            let after: Vec<Value<'_>> = last.0[..keys].iter().map(Bind::bind).collect();
            rows = sql.query(&next, &after)?;
        }
        Ok(())
    }

    fn insert(&self, sql: &dyn Sql, rows: &[Row]) -> Result<(), StoreError> {
        let values: Vec<Value<'_>> = rows.iter().flat_map(|row| &row.0).map(Bind::bind).collect();
        let columns = self.columns();
        sql.insert(&format!("{} ({columns})", self.name), columns.split(", ").count(), &values)
    }
}

/// What is the same for the same rows in whatever order: databases do not agree on the order of texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Sum {
    pub rows: usize,
    parts: [u64; 4],
}

impl Sum {
    pub(in crate::store) fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let mut hasher = blake3::Hasher::new();
            for cell in &row.0 {
                let (kind, bytes): (u8, Cow<'_, [u8]>) = match cell {
                    Cell::Null => (0, Cow::default()),
                    Cell::Integer(number) => (1, number.to_le_bytes().to_vec().into()),
                    // PostgreSQL has no NUL in a text.
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

/// Brings the layout of an inbox up to date, and makes it where there is none.
pub fn migrate(place: &Place) -> Result<(), StoreError> {
    match place {
        Place::Sqlite(path) => {
            create_folder(path)?;
            sqlite::Database::open(path).map(drop)
        }
        Place::Postgres(server) => postgres::open_to_make(server).map(drop),
    }
}
