//! Reads one page of a filtered and searched list within a time limit, however many submissions there are.
//!
//! A condition that few submissions meet is looked up in an index. All others are checked for one window of
//! submissions after another, newest first, until the page is full or the time is up. The caller then
//! continues from the last submission that was checked.

use uuid::Uuid;

use super::inbox_reader::InboxReader;
use super::search_query::SearchText;
use super::submission_rows::{
    Filter, SUBMISSION, day_number, filter_condition, first_id_at, read_submission, to_team,
};
use super::{Cell, Dialect, Value, bind_all, values};
use crate::store::error::StoreError;
use crate::submission::{Status, Submission};

/// How many submissions one query reads or checks. Limited because a long query blocks the writer's
/// checkpoints.
pub(super) const WINDOW: usize = 256;
/// A search checks its time limit after each group of this many submissions.
const CLOCK_ROWS: usize = 8;
/// A search checks its time limit after each submission with more bytes of text than this.
const LONG_TEXT: usize = 4_000;
/// The number of ids in a query for few submissions. A shorter list is padded with its last id.
const FEW_IDS: usize = 64;
/// Selects the names of forms with processed submissions. Reads one index entry for each form.
const FORMS: &str = "WITH RECURSIVE found (form) AS (
         SELECT min(form) FROM submission
         UNION ALL
         SELECT (SELECT min(form) FROM submission WHERE form > found.form) FROM found WHERE found.form IS NOT NULL
     ) SELECT form FROM found WHERE form IS NOT NULL";
/// SQL conditions for the inbox's main lists. Each condition has its own index.
const OPEN: &str = "done_at IS NULL AND held_at IS NULL AND spam_at IS NULL";
const UNREAD: &str = "seen_at IS NULL AND done_at IS NULL AND held_at IS NULL AND spam_at IS NULL";
/// The maximum number of ids that are read from an index. If more submissions meet a condition, windows find
/// them quickly.
const MAX_CANDIDATES: usize = 1000;

/// One page of a list of submissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// The submissions on the page, newest first.
    pub submissions: Vec<Submission>,
    /// The list continues with submissions before this id; `None` at the end of the list.
    pub next: Option<Uuid>,
    /// Whether the time limit passed before the page was full.
    pub is_partial: bool,
    /// The number of sealed submissions that a search has checked. Only their notes could be searched.
    pub sealed: usize,
}

/// The query for the last id of the window that begins before `?1`. Returns no row if fewer submissions are
/// left.
fn window_end() -> String {
    format!("SELECT id FROM accepted WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET {}", WINDOW - 1)
}

/// The condition for submissions down to the id `last`, with an `ORDER BY` clause, and the parameters'
/// values.
fn window_condition(filter: &Filter, last: Uuid) -> (String, Vec<Cell>) {
    let (chosen, mut values) = filter_condition(filter);
    values.push(Cell::Blob(last.as_bytes().to_vec()));
    (format!("{chosen} AND s.id >= ?{} ORDER BY s.id DESC", values.len()), values)
}

/// The condition for those of `ids`, at most [`WINDOW`], that meet the filter, newest first, and the values
/// of the parameters.
pub(super) fn condition_among(filter: &Filter, ids: &[Uuid]) -> (String, Vec<Cell>) {
    let (chosen, mut values) = filter_condition(filter);
    // Pad the list to one of two lengths, so that only two statements are prepared.
    let count = if ids.len() <= FEW_IDS { FEW_IDS } else { WINDOW };
    let padding = std::iter::repeat(ids.last().copied().unwrap_or_default());
    let ids = ids.iter().copied().chain(padding).take(count);
    values.extend(ids.map(|id| Cell::Blob(id.into_bytes().to_vec())));
    let names: Vec<_> = (values.len() - count + 1..=values.len()).map(|n| format!("?{n}")).collect();
    (format!("{chosen} AND s.id IN ({}) ORDER BY s.id DESC", names.join(", ")), values)
}

fn select_ids(condition: &str) -> String {
    format!("SELECT s.id FROM accepted s WHERE {condition}")
}

/// The query for the submission texts that a search looks through.
fn select_texts(condition: &str) -> String {
    format!(
        "SELECT s.id, s.fields, s.sealed IS NOT NULL AS is_sealed,
             EXISTS (SELECT 1 FROM note WHERE submission = s.id) AS has_notes
         FROM accepted s WHERE {condition}"
    )
}

/// The words of a search, and a function that reports whether its time limit has passed.
struct Search<'a> {
    words: &'a SearchText,
    is_over: &'a dyn Fn() -> bool,
}

/// The result of checking a list of ids: the ids that meet a condition.
#[derive(Default)]
struct Checked {
    ids: Vec<Uuid>,
    /// The last id that was checked, if the time limit passed before all ids were checked.
    stopped_at: Option<Uuid>,
}

/// Where a page looks for submissions that meet its filter.
enum Source {
    /// All submissions that can meet the filter, newest first.
    Candidates(std::vec::IntoIter<Uuid>),
    /// The rows of these forms that meet a condition with an index by form and id.
    Forms(Vec<String>, IndexedCondition),
    /// All submissions, read in windows of [`WINDOW`] ids, one after another.
    Windows,
}

/// The last id of a full window, after which there may be more ids; `None` if the window is not full.
fn end_of(ids: &[Uuid]) -> Option<Uuid> {
    ids.last().copied().filter(|_| ids.len() == WINDOW)
}

/// Queries for the ids of all submissions that can meet a filter, and the parameters: by the assignee's name
/// and the follow-up day or, if it has neither, by status. No queries if no index serves them.
fn candidate_queries(filter: &Filter) -> (&'static [&'static str], Vec<Cell>) {
    let name = filter.assignee.clone().filter(|name| !name.is_empty()).map(Cell::Text);
    let day = filter.follow_up_until.map(|day| Cell::Integer(day_number(day)));
    match (name, day) {
        (Some(name), Some(day)) => {
            return (
                &["SELECT submission FROM annotation WHERE assignee = ?1 AND follow_up <= ?2"],
                vec![name, day],
            );
        }
        (Some(name), None) => {
            return (&["SELECT submission FROM annotation WHERE assignee = ?1"], vec![name]);
        }
        (None, Some(day)) if filter.assignee.is_some() => {
            return (
                &["SELECT submission FROM annotation WHERE follow_up <= ?1 AND assignee IS NULL"],
                vec![day],
            );
        }
        (None, Some(day)) => {
            return (&["SELECT submission FROM annotation WHERE follow_up <= ?1"], vec![day]);
        }
        (None, None) => {}
    }
    let queries: &[&str] = match filter.status {
        Some(Status::Held) => &["SELECT id FROM submission WHERE held_at IS NOT NULL"],
        Some(Status::Unconfirmed) => &["SELECT submission FROM confirmation WHERE state = 'open'"],
        Some(Status::Parked) => &[
            concat!("SELECT submission FROM delivery WHERE state = 'parked' AND ", to_team!()),
            "SELECT id FROM intake WHERE error IS NOT NULL",
        ],
        Some(Status::Waiting) => &[
            concat!("SELECT submission FROM delivery WHERE due_at IS NOT NULL AND ", to_team!()),
            // May include test submissions of the canary, which the view `accepted` then omits.
            "SELECT id FROM intake",
        ],
        _ => &[],
    };
    (queries, Vec::new())
}

/// A condition on `submission` that all processed submissions of a filter meet, and for which there is an
/// index by form and id. `None` unless the filter selects spam, done submissions, open ones (neither done,
/// held nor spam) or forms.
fn indexed_condition(filter: &Filter) -> Option<IndexedCondition> {
    let is_open = [filter.is_done, filter.is_held, filter.is_spam] == [Some(false); 3];
    match filter {
        Filter { is_spam: Some(true), .. } => Some(("submission_spam", "spam_at IS NOT NULL")),
        Filter { is_done: Some(true), .. } => Some(("submission_done", "done_at IS NOT NULL")),
        Filter { is_unread: true, .. } if is_open => Some(("submission_unread", UNREAD)),
        _ if is_open => Some(("submission_open", OPEN)),
        Filter { form: Some(_), .. } | Filter { forms: Some(_), .. } => Some(("submission_form", "TRUE")),
        _ => None,
    }
}

/// The name of an index by form and id, and its condition.
type IndexedCondition = (&'static str, &'static str);

/// Selects a form's newest ids below the parameter `?2` that meet a condition with an index.
fn select_ids_of_form(dialect: Dialect, (index, condition): IndexedCondition) -> String {
    let table = dialect.table_with_index("submission", index);
    format!(
        "SELECT id FROM {table} WHERE form = ?1 AND {condition} AND id < ?2 ORDER BY id DESC LIMIT {WINDOW}"
    )
}

/// The statements that read a page, for tests of their query plans.
#[cfg(test)]
pub(crate) fn statements(filter: &Filter) -> Vec<String> {
    let filter = Filter { before: Some(Uuid::max()), ..filter.clone() };
    let (window, _) = window_condition(&filter, Uuid::nil());
    let mut statements = vec![window_end(), select_ids(&window), select_texts(&window), FORMS.to_owned()];
    statements.extend(candidate_queries(&filter).0.iter().map(|query| format!("{query} LIMIT 1")));
    statements.extend(indexed_condition(&filter).map(|it| select_ids_of_form(Dialect::Sqlite, it)));
    statements.push(format!("SELECT {SUBMISSION} FROM accepted s WHERE s.id IN (?1, ?2) ORDER BY s.id"));
    statements
}

impl InboxReader {
    /// Reads up to `size` submissions that meet the filter and contain the words, newest first. Stops early
    /// once `is_over` returns true, but checks some submissions in any case. The filter's limit is ignored,
    /// and `size` must not be zero. The page may have a `next` although no further submission meets the
    /// filter.
    pub fn page(
        &self,
        filter: &Filter,
        words: Option<&SearchText>,
        size: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SearchPage, StoreError> {
        let mut page = SearchPage::default();
        let mut filter = filter.clone();
        let search = words.map(|words| Search { words, is_over });
        let mut source = self.source(&filter)?;
        loop {
            let (Checked { ids, stopped_at }, last) = match &mut source {
                Source::Windows => {
                    let last = self.window_end(filter.before)?;
                    (self.in_window(&filter, last, search.as_ref(), &mut page)?, last)
                }
                Source::Candidates(ids) => {
                    let ids: Vec<Uuid> = ids.by_ref().take(WINDOW).collect();
                    (self.among(&filter, &ids, search.as_ref(), &mut page)?, end_of(&ids))
                }
                Source::Forms(forms, condition) => {
                    let ids = self.newest_of_forms(forms, *condition, filter.before)?;
                    (self.among(&filter, &ids, search.as_ref(), &mut page)?, end_of(&ids))
                }
            };
            let left = size - page.submissions.len();
            page.submissions.extend(self.get_all(&ids[..ids.len().min(left)])?);
            // If there are more ids than fit, the list continues after the last one that fits.
            if let Some(last) = ids.get(left.saturating_sub(1)).filter(|_| ids.len() > left) {
                page.next = Some(*last);
                return Ok(page);
            }
            let Some(last) = stopped_at.or(last) else { return Ok(page) };
            // Ids ascend with the time of arrival, so all further submissions are too old.
            if filter.from.is_some_and(|from| last.into_bytes() < first_id_at(from.as_millisecond())) {
                return Ok(page);
            }
            filter.before = Some(last);
            if page.submissions.len() == size || stopped_at.is_some() || is_over() {
                let is_full = page.submissions.len() == size;
                // If `has_any` fails, let the list continue.
                page.next = Some(last).filter(|_| self.has_any(&filter).unwrap_or(true));
                page.is_partial = !is_full && page.next.is_some();
                return Ok(page);
            }
        }
    }

    /// Chooses where to look for submissions that meet a filter: among a short list of candidates, in an
    /// index by form, or otherwise in windows.
    fn source(&self, filter: &Filter) -> Result<Source, StoreError> {
        if let Some(ids) = self.candidates(filter)? {
            return Ok(Source::Candidates(ids.into_iter()));
        }
        // `candidates` found too many submissions with this status, assignee or follow-up to list them: read
        // window by window, which soon finds enough.
        let has_status_index = !candidate_queries(filter).0.is_empty();
        let Some(condition) = indexed_condition(filter).filter(|_| !has_status_index) else {
            return Ok(Source::Windows);
        };
        let forms = match (&filter.form, &filter.forms) {
            (Some(form), _) => vec![form.clone()],
            (None, Some(forms)) => forms.clone(),
            (None, None) => self.forms()?,
        };
        Ok(Source::Forms(forms, condition))
    }

    /// The newest ids of these forms that meet a condition, and those of unprocessed submissions of any form,
    /// newest first: at most [`WINDOW`], without a gap.
    fn newest_of_forms(
        &self,
        forms: &[String],
        condition: IndexedCondition,
        before: Option<Uuid>,
    ) -> Result<Vec<Uuid>, StoreError> {
        let before = before.unwrap_or(Uuid::max());
        let unprocessed =
            format!("SELECT id FROM intake WHERE id < ?1 AND canary IS NULL ORDER BY id DESC LIMIT {WINDOW}");
        let mut ids: Vec<Uuid> = self.sql.column(&unprocessed, values![before])?;
        let select = select_ids_of_form(self.sql.dialect(), condition);
        for form in forms {
            ids.extend(self.sql.column::<Uuid>(&select, values![form, before])?);
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        ids.truncate(WINDOW);
        Ok(ids)
    }

    /// The names of all forms that have submissions, sorted.
    pub fn forms(&self) -> Result<Vec<String>, StoreError> {
        let mut forms: Vec<String> = self.sql.column(FORMS, &[])?;
        forms
            .extend(self.sql.column::<String>("SELECT DISTINCT form FROM intake WHERE canary IS NULL", &[])?);
        forms.sort_unstable();
        forms.dedup();
        Ok(forms)
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

    /// The ids in the window ending with `last` whose submissions meet the filter and contain the words.
    fn in_window(
        &self,
        filter: &Filter,
        last: Option<Uuid>,
        search: Option<&Search<'_>>,
        page: &mut SearchPage,
    ) -> Result<Checked, StoreError> {
        let (window, values) = window_condition(filter, last.unwrap_or(Uuid::nil()));
        self.matching(&window, &bind_all(&values), search, page)
    }

    /// The ids in `ids` whose submissions meet the filter and contain the words, newest first. There are at
    /// most [`WINDOW`] ids.
    fn among(
        &self,
        filter: &Filter,
        ids: &[Uuid],
        search: Option<&Search<'_>>,
        page: &mut SearchPage,
    ) -> Result<Checked, StoreError> {
        if ids.is_empty() {
            return Ok(Checked::default());
        }
        let (condition, values) = condition_among(filter, ids);
        self.matching(&condition, &bind_all(&values), search, page)
    }

    /// The ids of submissions that meet an SQL condition and contain the words in a field or a note. If there
    /// are words, adds the number of sealed submissions that it has checked to `page.sealed`, and stops once
    /// the time is up: a visitor may have sent many texts that take long to compare.
    fn matching(
        &self,
        condition: &str,
        values: &[Value<'_>],
        search: Option<&Search<'_>>,
        page: &mut SearchPage,
    ) -> Result<Checked, StoreError> {
        let Some(search) = search else {
            return Ok(Checked { ids: self.sql.column(&select_ids(condition), values)?, stopped_at: None });
        };
        let mut checked = Checked::default();
        let mut buffer = String::new();
        for (at, row) in self.sql.query(&select_texts(condition), values)?.iter().enumerate() {
            let id: Uuid = row.get("id")?;
            page.sealed += usize::from(row.get::<bool>("is_sealed")?);
            let notes = if row.get("has_notes")? { self.note_text(id)? } else { String::new() };
            if search.words.are_in_json(row.text("fields")?, &notes, &mut buffer)? {
                checked.ids.push(id);
            }
            let is_long = row.text("fields")?.len() + notes.len() > LONG_TEXT;
            if (is_long || (at + 1) % CLOCK_ROWS == 0) && (search.is_over)() {
                checked.stopped_at = Some(id);
                break;
            }
        }
        Ok(checked)
    }

    /// The submissions with these ids, newest first. Omits submissions that have been removed meanwhile.
    fn get_all(&self, ids: &[Uuid]) -> Result<Vec<Submission>, StoreError> {
        let mut keys: Vec<[u8; 16]> = ids.iter().map(|id| id.into_bytes()).collect();
        keys.sort_unstable();
        let rows =
            self.sql.query_in(&format!("SELECT {SUBMISSION} FROM accepted s WHERE"), "s.id", &keys, "")?;
        rows.iter().rev().map(|row| read_submission(&*self.sql, row)).collect()
    }

    /// The ids of all submissions that can have the filter's assignee, follow-up or status, newest first,
    /// below the filter's `before`. `None` if the filter has none of these with an index, or if one of the
    /// `candidate_queries` finds more than [`MAX_CANDIDATES`] rows.
    pub(super) fn candidates(&self, filter: &Filter) -> Result<Option<Vec<Uuid>>, StoreError> {
        let (queries, values) = candidate_queries(filter);
        if queries.is_empty() {
            return Ok(None);
        }
        let mut ids: Vec<Uuid> = Vec::new();
        for query in queries {
            let found: Vec<Uuid> =
                self.sql.column(&format!("{query} LIMIT {}", MAX_CANDIDATES + 1), &bind_all(&values))?;
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

    /// The number of submissions with a status, up to `most`, from an index. `Held` leaves out submissions
    /// that are marked as spam. A submission with both parked and waiting deliveries counts for both
    /// statuses, even if it is held. For `Kept` and `Delivered`, which have no index, the number of all
    /// processed submissions.
    pub fn count_up_to(&self, status: Status, most: usize) -> Result<usize, StoreError> {
        let ids = match status {
            // Subtract the held submissions that operators have marked as spam, and of the others those that
            // wait for a confirmation, which are all held.
            Status::Held => {
                let count = "SELECT (SELECT count(*) FROM submission WHERE held_at IS NOT NULL)
                     - (SELECT count(*) FROM submission WHERE spam_at IS NOT NULL AND held_at IS NOT NULL)
                     - (SELECT count(*) FROM confirmation c JOIN submission s ON s.id = c.submission
                        WHERE c.state = 'open' AND s.spam_at IS NULL)";
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

    /// The numbers of processed submissions that are open, and of those that are unread as well, each up to
    /// `most`.
    pub fn count_open(&self, most: usize) -> Result<[usize; 2], StoreError> {
        let count = |index, condition| {
            let table = self.sql.dialect().table_with_index("submission", index);
            let some = format!("SELECT 1 FROM {table} WHERE {condition} LIMIT ?1");
            self.sql.one_value(&format!("SELECT count(*) FROM ({some}) AS counted"), values![most])
        };
        Ok([count("submission_open", OPEN)?, count("submission_unread", UNREAD)?])
    }

    /// A value that changes with most changes to the list: arrivals, holds, finished deliveries, the
    /// operators' changes, and the first time that a submission is opened. Counts up to `MAX_CANDIDATES`
    /// submissions of each status, so it misses changes beyond.
    pub fn list_stamp(&self) -> Result<String, StoreError> {
        let newest = |table| format!("SELECT id FROM {table} ORDER BY id DESC LIMIT 1");
        let mut stamp = String::new();
        for query in [newest("accepted"), newest("operator_log")] {
            stamp += &self.sql.value::<Uuid>(&query, &[])?.unwrap_or_default().simple().to_string();
        }
        for status in [Status::Held, Status::Unconfirmed, Status::Parked, Status::Waiting] {
            stamp += &format!("-{}", self.count_up_to(status, MAX_CANDIDATES)?);
        }
        stamp += &format!("-{}", self.count_open(MAX_CANDIDATES)?[1]);
        Ok(stamp)
    }
}
