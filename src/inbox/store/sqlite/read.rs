//! Reads the inbox, while a server writes to it or after it has stopped.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use uuid::Uuid;

use super::{LAYOUT, connect, layout};
use crate::inbox::store::{Filter, StoreError};
use crate::inbox::submission::{Status, Submission};

/// How many submissions are read at a time, so that no reading holds up the writer's checkpoints.
const PAGE: usize = 256;
/// How many ids an ambiguous prefix brings to light.
const MAX_CANDIDATES: i64 = 5;

const COLUMNS: &str = "id, form, received_at, status, fields, source, repeats";

/// The inbox, open for reading.
pub struct Reader {
    connection: Connection,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// What an abbreviated id leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No submission's id begins like that.
    None,
    /// Just one does.
    One(Box<Submission>),
    /// More than one does; some of them, newest first.
    Several(Vec<Uuid>),
}

impl Reader {
    /// Opens the database at `path` and changes nothing in it.
    ///
    /// [`StoreError::Missing`] where there is none yet.
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        let (connection, layout) = open(path)?;
        if layout < LAYOUT { Err(StoreError::TooOld(path.to_owned())) } else { Ok(Reader { connection }) }
    }

    /// Submissions, newest first. What arrives while it is being read may be missing from it.
    pub fn list(&self, filter: &Filter) -> Result<Listing<'_>, StoreError> {
        let mut listing = Listing {
            reader: self,
            form: filter.form.clone(),
            left: filter.limit.unwrap_or(usize::MAX),
            page: VecDeque::new(),
            before: Uuid::max(),
        };
        listing.turn_page()?;
        Ok(listing)
    }

    /// The submission with that id.
    pub fn get(&self, id: Uuid) -> Result<Option<Submission>, StoreError> {
        let mut statement =
            self.connection.prepare_cached(&format!("SELECT {COLUMNS} FROM submission WHERE id = ?1"))?;
        statement.query_row([id.as_bytes()], |row| Ok(submission(row))).optional()?.transpose()
    }

    /// The submission whose id begins with `prefix`: hexadecimal digits, hyphens where one likes.
    pub fn find(&self, prefix: &str) -> Result<Found, StoreError> {
        let Some((first, last)) = range(prefix) else { return Ok(Found::None) };
        let mut statement = self.connection.prepare_cached(
            "SELECT id FROM submission WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3",
        )?;
        let ids = statement
            .query_map(params![first.as_bytes(), last.as_bytes(), MAX_CANDIDATES], |row| {
                row.get(0).map(Uuid::from_bytes)
            })?
            .collect::<Result<Vec<_>, _>>()?;
        match ids[..] {
            [] => Ok(Found::None),
            [id] => Ok(self.get(id)?.map_or(Found::None, |submission| Found::One(Box::new(submission)))),
            _ => Ok(Found::Several(ids)),
        }
    }
}

/// Opens a database of this layout, or of an earlier one, for reading only, and says which layout it has.
pub(super) fn open(path: &Path) -> Result<(Connection, i64), StoreError> {
    // A folder that may not be looked into is another matter than one in which there is nothing.
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(StoreError::Missing(path.to_owned())),
        Err(error) => return Err(StoreError::io(path, error)),
    }
    let connection =
        connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| cannot_open(path, error))?;
    let layout = layout(&connection, path).map_err(|error| cannot_open(path, error))?;
    Ok((connection, layout.ok_or_else(|| StoreError::Missing(path.to_owned()))?))
}

/// A database that nobody serves can only be read where its log can be opened beside it.
fn cannot_open(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Database { code, reason } if code & 0xff == rusqlite::ffi::SQLITE_CANTOPEN => {
            StoreError::io(path, std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason))
        }
        error => error,
    }
}

/// The first and the last id that begin like that.
fn range(prefix: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = prefix.chars().filter(|c| *c != '-').collect();
    if digits.is_empty() || digits.len() > 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bound = |fill: &str| Uuid::try_parse(&format!("{digits}{}", fill.repeat(32 - digits.len()))).ok();
    Some((bound("0")?, bound("f")?))
}

/// Submissions, newest first, read as they are asked for.
pub struct Listing<'a> {
    reader: &'a Reader,
    form: Option<String>,
    left: usize,
    page: VecDeque<Result<Submission, StoreError>>,
    /// The next page begins below this id.
    before: Uuid,
}

impl fmt::Debug for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("form", &self.form).field("left", &self.left).finish_non_exhaustive()
    }
}

impl Listing<'_> {
    fn turn_page(&mut self) -> Result<(), StoreError> {
        let size = PAGE.min(self.left);
        if size == 0 {
            return Ok(());
        }
        let mut statement = self.reader.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM submission WHERE id < ?1 AND (?2 IS NULL OR form = ?2) ORDER BY id DESC LIMIT ?3"
        ))?;
        let mut rows = statement.query(params![
            self.before.as_bytes(),
            self.form,
            i64::try_from(size).unwrap_or(i64::MAX)
        ])?;
        while let Some(row) = rows.next()? {
            self.before = Uuid::from_bytes(row.get(0)?);
            self.page.push_back(submission(row));
        }
        self.left = if self.page.len() < size { 0 } else { self.left - size };
        Ok(())
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<Submission, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty()
            && let Err(error) = self.turn_page()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.page.pop_front()
    }
}

fn submission(row: &Row<'_>) -> Result<Submission, StoreError> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(
        row.get_ref(4)?.as_str().map_err(|_| StoreError::Damaged("fields are not text"))?,
    )
    .map_err(|_| StoreError::Damaged("fields are not a JSON object"))?;
    let fields = fields
        .into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => Ok((name, text)),
            _ => Err(StoreError::Damaged("a field is not text")),
        })
        .collect::<Result<_, _>>()?;
    let status: String = row.get(3)?;
    let source: [u8; 16] = row.get(5)?;
    Ok(Submission {
        id: Uuid::from_bytes(row.get(0)?),
        form: row.get(1)?,
        received_at: Timestamp::from_millisecond(row.get(2)?)
            .map_err(|_| StoreError::Damaged("a time is out of range"))?,
        status: Status::named(&status).ok_or(StoreError::Damaged("a status is unknown"))?,
        fields,
        source: Uuid::from_bytes(source).simple().to_string(),
        repeats: u64::try_from(row.get::<_, i64>(6)?).unwrap_or_default(),
    })
}
