//! Reads one page of a filtered and searched list within a time limit, however many submissions there are.
//!
//! A condition that few submissions meet is looked up in an index. All others are checked for one window of
//! submissions after another, newest first, until the page is full or the time is up. The caller then
//! continues from the last submission that was checked.

use uuid::Uuid;

use super::read::InboxReader;
use super::rows::{Filter, SUBMISSION, filter_condition, first_id_at, read_submission, to_team};
use super::{Bind, Cell, Value, bind_all, values};
use crate::store::error::StoreError;
use crate::submission::{Status, Submission, parse_fields};
use frontdesk_forms::FieldValue;
use frontdesk_forms::text::{fold, folded};

/// How many submissions one query checks. Limited because a long query blocks the writer's checkpoints.
const WINDOW: usize = 256;
/// How many ids are read from an index. If more submissions meet a condition, windows find them quickly.
const MAX_CANDIDATES: usize = 1000;

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// Newest first.
    pub submissions: Vec<Submission>,
    /// The list continues with submissions before this id; `None` at the end of the list.
    pub next: Option<Uuid>,
    /// Whether the time was up before the page was full.
    pub is_partial: bool,
    /// How many sealed submissions could not be searched.
    pub sealed: usize,
}

/// Text to find in the fields of submissions, regardless of case and of the composition of accents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchText {
    /// In the form of [`fold`].
    folded: String,
    /// Whether the text looks the same in the JSON of the fields.
    is_plain: bool,
}

impl SearchText {
    /// `None` if the text is blank.
    pub fn parse(text: &str) -> Option<SearchText> {
        let folded = fold(text.trim());
        let is_plain =
            folded.bytes().all(|byte| matches!(byte, b' '..=b'~' if byte != b'"' && byte != b'\\'));
        (!folded.is_empty()).then_some(SearchText { folded, is_plain })
    }

    /// The byte offset at which the text first begins in `value`.
    pub fn find(&self, value: &str) -> Option<usize> {
        let begins_at = |at: usize| {
            let mut rest = folded(&value[at..]);
            self.folded.chars().all(|c| rest.next() == Some(c))
        };
        value.char_indices().map(|(at, _)| at).find(|at| begins_at(*at))
    }

    /// Whether a field contains the text.
    pub fn are_in(&self, fields: &[(String, FieldValue)]) -> bool {
        fields.iter().any(|(_, value)| fold(&value.display()).contains(&self.folded))
    }

    /// Whether a field in a JSON object contains the text.
    fn are_in_json(&self, json: &str, buffer: &mut String) -> Result<bool, StoreError> {
        // Most submissions are excluded without parsing them.
        if self.is_plain && json.is_ascii() {
            buffer.clear();
            buffer.push_str(json);
            buffer.make_ascii_lowercase();
            if !buffer.contains(&self.folded) {
                return Ok(false);
            }
        }
        Ok(self.are_in(&parse_fields(json.as_bytes()).map_err(StoreError::Damaged)?))
    }
}

/// The query for the last id of the window that begins before `?1`. Returns no row if fewer submissions are
/// left.
fn window_end() -> String {
    format!("SELECT id FROM accepted WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET {}", WINDOW - 1)
}

/// The condition for a window that ends with `last`, the order, and the values of the parameters.
fn window_condition(filter: &Filter, last: Uuid) -> (String, Vec<Cell>) {
    let (chosen, mut values) = filter_condition(filter);
    values.push(Cell::Blob(last.as_bytes().to_vec()));
    (format!("{chosen} AND s.id >= ?{} ORDER BY s.id DESC", values.len()), values)
}

fn select_ids(condition: &str) -> String {
    format!("SELECT s.id FROM accepted s WHERE {condition}")
}

fn select_fields(condition: &str) -> String {
    format!("SELECT s.id, s.fields, s.sealed IS NOT NULL AS is_sealed FROM accepted s WHERE {condition}")
}

/// Queries for the ids of all submissions that can meet a condition that has an index; none if the filter has
/// no such condition.
fn candidate_queries(filter: &Filter) -> &'static [&'static str] {
    match (filter.status, filter.is_done) {
        (Some(Status::Held), _) => &["SELECT id FROM submission WHERE held_at IS NOT NULL"],
        (Some(Status::Unconfirmed), _) => &["SELECT submission FROM confirmation WHERE state = 'open'"],
        (Some(Status::Parked), _) => &[
            concat!("SELECT submission FROM delivery WHERE state = 'parked' AND ", to_team!()),
            "SELECT id FROM intake WHERE error IS NOT NULL",
        ],
        (Some(Status::Waiting), _) => &[
            concat!("SELECT submission FROM delivery WHERE due_at IS NOT NULL AND ", to_team!()),
            "SELECT id FROM intake",
        ],
        (_, Some(true)) => &["SELECT submission FROM annotation WHERE done_at IS NOT NULL"],
        _ => &[],
    }
}

/// The statements that read a page, for tests of their plans.
#[cfg(test)]
pub(crate) fn statements(filter: &Filter) -> Vec<String> {
    let filter = Filter { before: Some(Uuid::max()), ..filter.clone() };
    let (window, _) = window_condition(&filter, Uuid::nil());
    let mut statements = vec![window_end(), select_ids(&window), select_fields(&window)];
    statements.extend(candidate_queries(&filter).iter().map(|query| format!("{query} LIMIT 1")));
    statements.push(format!("SELECT {SUBMISSION} FROM accepted s WHERE s.id IN (?1, ?2) ORDER BY s.id"));
    statements
}

impl InboxReader {
    /// Reads up to `size` submissions that meet the filter and contain the words, newest first. Stops early
    /// once `is_over` returns true, but checks some submissions in any case. The filter's limit is ignored.
    pub fn page(
        &self,
        filter: &Filter,
        words: Option<&SearchText>,
        size: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SearchPage, StoreError> {
        let mut page = SearchPage::default();
        let mut filter = filter.clone();
        let candidates = self.candidates(&filter)?;
        let mut candidates = candidates.as_deref().map(|ids| ids.chunks(64));
        loop {
            let (ids, last) = if let Some(chunks) = &mut candidates {
                let Some(ids) = chunks.next() else { return Ok(page) };
                (self.among(&filter, ids, words, &mut page)?, ids.last().copied())
            } else {
                let last = self.window_end(filter.before)?;
                (self.in_window(&filter, last, words, &mut page)?, last)
            };
            let left = size - page.submissions.len();
            page.submissions.extend(self.get_all(&ids[..ids.len().min(left)])?);
            if let Some(last) = ids.get(left.saturating_sub(1)).filter(|_| ids.len() > left) {
                page.next = Some(*last);
                return Ok(page);
            }
            let Some(last) = last else { return Ok(page) };
            // Ids ascend with the time of arrival, so all further submissions are too old.
            if filter.from.is_some_and(|from| last.into_bytes() < first_id_at(from.as_millisecond())) {
                return Ok(page);
            }
            filter.before = Some(last);
            if page.submissions.len() == size || is_over() {
                let is_full = page.submissions.len() == size;
                page.next = Some(last).filter(|_| self.has_any(&filter).unwrap_or(true));
                page.is_partial = !is_full && page.next.is_some();
                return Ok(page);
            }
        }
    }

    /// Whether there are submissions before the filter's position, ignoring its other conditions.
    fn has_any(&self, filter: &Filter) -> Result<bool, StoreError> {
        let before = filter.before.unwrap_or(Uuid::max());
        self.sql.exists("SELECT 1 FROM accepted WHERE id < ?1 LIMIT 1", values![before])
    }

    /// The id of the last submission in the window that begins before `before`; `None` if the window contains
    /// all of the rest.
    fn window_end(&self, before: Option<Uuid>) -> Result<Option<Uuid>, StoreError> {
        self.sql.value(&window_end(), values![before.unwrap_or(Uuid::max())])
    }

    /// The ids in the window that ends with `last` and that meet the filter and contain the words.
    fn in_window(
        &self,
        filter: &Filter,
        last: Option<Uuid>,
        words: Option<&SearchText>,
        page: &mut SearchPage,
    ) -> Result<Vec<Uuid>, StoreError> {
        let (window, values) = window_condition(filter, last.unwrap_or(Uuid::nil()));
        self.matching(&window, &bind_all(&values), words, page)
    }

    /// The ids among `ids` that meet the filter and contain the words, newest first.
    fn among(
        &self,
        filter: &Filter,
        ids: &[Uuid],
        words: Option<&SearchText>,
        page: &mut SearchPage,
    ) -> Result<Vec<Uuid>, StoreError> {
        let (chosen, values) = filter_condition(filter);
        let mut all: Vec<Value<'_>> = bind_all(&values);
        // Always 64 parameters, so that there is one statement.
        all.extend(ids.iter().chain(ids.last().into_iter().cycle()).take(64).map(Bind::bind));
        let list: Vec<String> = (values.len() + 1..=all.len()).map(|number| format!("?{number}")).collect();
        let list = format!("{chosen} AND s.id IN ({}) ORDER BY s.id DESC", list.join(", "));
        self.matching(&list, &all, words, page)
    }

    /// The ids of submissions that meet an SQL condition and contain the words. If there are words, adds the
    /// number of sealed submissions that meet the condition to `page.sealed`.
    fn matching(
        &self,
        condition: &str,
        values: &[Value<'_>],
        words: Option<&SearchText>,
        page: &mut SearchPage,
    ) -> Result<Vec<Uuid>, StoreError> {
        let Some(words) = words else {
            return self.sql.column(&select_ids(condition), values);
        };
        let (mut found, mut buffer) = (Vec::new(), String::new());
        for row in self.sql.query(&select_fields(condition), values)? {
            page.sealed += usize::from(row.get::<bool>("is_sealed")?);
            if words.are_in_json(row.text("fields")?, &mut buffer)? {
                found.push(row.get("id")?);
            }
        }
        Ok(found)
    }

    /// The submissions with these ids, newest first. Leaves out those that were removed meanwhile.
    fn get_all(&self, ids: &[Uuid]) -> Result<Vec<Submission>, StoreError> {
        let mut keys: Vec<[u8; 16]> = ids.iter().map(|id| id.into_bytes()).collect();
        keys.sort_unstable();
        let rows =
            self.sql.query_in(&format!("SELECT {SUBMISSION} FROM accepted s WHERE"), "s.id", &keys, "")?;
        rows.iter().rev().map(|row| read_submission(&*self.sql, row)).collect()
    }

    /// The ids of all submissions that can meet a condition that has an index, newest first. `None` if the
    /// filter has no such condition, or if too many submissions meet it.
    fn candidates(&self, filter: &Filter) -> Result<Option<Vec<Uuid>>, StoreError> {
        let queries = candidate_queries(filter);
        if queries.is_empty() {
            return Ok(None);
        }
        let mut ids: Vec<Uuid> = Vec::new();
        for query in queries {
            let found: Vec<Uuid> = self.sql.column(&format!("{query} LIMIT {}", MAX_CANDIDATES + 1), &[])?;
            if found.len() > MAX_CANDIDATES {
                return Ok(None);
            }
            ids.extend(found);
        }
        ids.retain(|id| filter.before.is_none_or(|before| *id < before));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        Ok(Some(ids))
    }

    /// The number of submissions with a status, up to `most`, from an index. A submission with both parked
    /// and waiting deliveries counts for both statuses, even if it is held. For `Kept` and `Delivered`, which
    /// have no index, the number of all processed submissions.
    pub fn count_up_to(&self, status: Status, most: usize) -> Result<usize, StoreError> {
        let ids = match status {
            // Every open entry is held, so count both by their indexes.
            Status::Held => {
                let count = "SELECT (SELECT count(*) FROM submission WHERE held_at IS NOT NULL)
                     - (SELECT count(*) FROM confirmation WHERE state = 'open')";
                return Ok(self.sql.one_value::<usize>(count, &[])?.min(most));
            }
            Status::Unconfirmed => "SELECT submission FROM confirmation WHERE state = 'open'",
            Status::Parked => concat!(
                "SELECT submission FROM delivery WHERE state = 'parked' AND ",
                to_team!(),
                " UNION ALL SELECT id FROM intake WHERE error IS NOT NULL"
            ),
            Status::Waiting => concat!(
                "SELECT submission FROM delivery WHERE due_at IS NOT NULL AND ",
                to_team!(),
                " UNION ALL SELECT id FROM intake WHERE error IS NULL AND channels > 0"
            ),
            Status::Kept | Status::Delivered => "SELECT id FROM submission",
        };
        let count =
            format!("SELECT count(*) FROM (SELECT DISTINCT * FROM ({ids}) AS found LIMIT ?1) AS counted");
        self.sql.one_value(&count, values![most])
    }

    /// A value that changes with most changes to the list: arrivals, holds, finished deliveries and the
    /// operators' changes.
    pub fn list_stamp(&self) -> Result<String, StoreError> {
        let newest = |table| format!("SELECT id FROM {table} ORDER BY id DESC LIMIT 1");
        let mut stamp = String::new();
        for query in [newest("accepted"), newest("operator_log")] {
            stamp += &self.sql.value::<Uuid>(&query, &[])?.unwrap_or_default().simple().to_string();
        }
        for status in [Status::Held, Status::Unconfirmed, Status::Parked, Status::Waiting] {
            stamp += &format!("-{}", self.count_up_to(status, MAX_CANDIDATES)?);
        }
        Ok(stamp)
    }
}
