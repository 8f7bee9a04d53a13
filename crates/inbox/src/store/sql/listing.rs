//! Lists submissions in pages, for commands and exports.

use std::collections::VecDeque;

use uuid::Uuid;

use super::bind_all;
use super::inbox_reader::InboxReader;
use super::search_page::{WINDOW, condition_among};
use super::submission_rows::{Filter, SUBMISSION, filter_condition, read_submission};
use crate::store::error::StoreError;
use crate::submission::Submission;

impl InboxReader {
    /// Lists submissions, newest first and up to the filter's limit, and reads the first page at once. May
    /// miss submissions that arrive while the list is being read.
    pub fn list(&self, filter: &Filter) -> Result<Listing<'_>, StoreError> {
        let mut listing = Listing {
            reader: self,
            candidates: self.candidates(filter)?.map(Vec::into_iter),
            filter: filter.clone(),
            left: filter.limit.unwrap_or(usize::MAX),
            page: VecDeque::new(),
        };
        listing.read_page()?;
        Ok(listing)
    }
}

/// Submissions, newest first, read in pages.
pub struct Listing<'a> {
    reader: &'a InboxReader,
    /// Selects the remaining submissions: after each page, `before` is the last id on that page.
    filter: Filter,
    /// The ids of submissions that may meet the filter and are not read yet. `None` if no index finds them,
    /// or if they are too many: then all submissions are searched.
    candidates: Option<std::vec::IntoIter<Uuid>>,
    left: usize,
    page: VecDeque<Result<Submission, StoreError>>,
}

impl Listing<'_> {
    /// Reads the next page from the database once the current one is used up. Sets `left` to zero if it was
    /// the last one.
    fn read_page(&mut self) -> Result<(), StoreError> {
        // Read groups of candidates until one of them contains a match.
        while self.page.is_empty() && self.left > 0 {
            let size = WINDOW.min(self.left);
            let ids: Option<Vec<Uuid>> =
                self.candidates.as_mut().map(|ids| ids.by_ref().take(WINDOW).collect());
            let (condition, values) = if let Some(ids) = &ids {
                condition_among(&self.filter, ids)
            } else {
                let (chosen, values) = filter_condition(&self.filter);
                (format!("{chosen} ORDER BY s.id DESC LIMIT {size}"), values)
            };
            let page = format!("SELECT {SUBMISSION} FROM accepted s WHERE {condition}");
            for row in self.reader.sql.query(&page, &bind_all(&values))?.iter().take(size) {
                self.filter.before = Some(row.get("id")?);
                self.page.push_back(read_submission(&*self.reader.sql, row));
            }
            let is_last = ids.map_or(self.page.len() < size, |ids| ids.len() < WINDOW);
            self.left = if is_last { 0 } else { self.left - self.page.len() };
        }
        Ok(())
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<Submission, StoreError>;

    /// The next submission; reads a page from the database if necessary. After an error in reading a page,
    /// the list ends. A submission that cannot be read is an error of its own, after which the list
    /// continues.
    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty()
            && let Err(error) = self.read_page()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.page.pop_front()
    }
}
