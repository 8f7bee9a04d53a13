//! The page of a person: all submissions with the same e-mail address, their notes, and the button that
//! erases them.

use http::StatusCode;
use minijinja::{Value, context};
use uuid::Uuid;

use super::annotations::note_values;
use super::html::{Reply, see_other};
use super::notice::removal_code;
use super::pages::PageRequest;
use super::submission_view;
use super::submitter::{address_of, name_of, person_path, times};
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Editor, Hash, InboxReader, PersonSummary, StoreError};
use frontdesk_inbox::submission::Submission;

/// Maximum number of submissions on one page.
const PAGE_SIZE: usize = 50;

impl PageRequest<'_> {
    /// One page of a person's submissions, newest first. `None` if the person has none.
    pub(super) fn person(&self, person: &Hash) -> Result<Option<Reply>, StoreError> {
        let before = self.query.before;
        let found = self.inbox.readers.with(|reader| {
            let Some(summary) = reader.person(person)? else { return Ok(None) };
            let mut submissions = reader.person_submissions(person, before, PAGE_SIZE + 1)?;
            let has_more = submissions.len() > PAGE_SIZE;
            submissions.truncate(PAGE_SIZE);
            let path = person_path(person);
            let last = submissions.last().map(|submission| submission.id);
            let next = last.filter(|_| has_more).map(|id| format!("{path}?before={id}"));
            let rows = self.person_rows(reader, &submissions)?;
            let email = address_of(reader, person, &submissions)?;
            let name = name_of(&submissions).or_else(|| email.clone());
            let values = context! {
                rows, next, path,
                heading => self.heading(name.as_deref(), summary),
                email => email.as_deref().map(visible),
                is_first => before.is_none(),
            };
            Ok(Some(context! { ..values, ..self.shared(reader, "list")? }))
        })?;
        Ok(found.map(|values| self.inbox.templates.page(StatusCode::OK, "person.html", values)))
    }

    /// A heading such as `Ada Lovelace wrote three times since March 2026`. `name` is `None` if all
    /// submissions shown are encrypted.
    fn heading(&self, name: Option<&str>, summary: PersonSummary) -> String {
        let name = name.map_or_else(|| "The sender of encrypted submissions".to_owned(), visible);
        let month = summary.first_at.to_zoned(self.clock.zone.clone()).strftime("%B %Y").to_string();
        let since = if summary.submissions == 1 { ", in" } else { " since" };
        format!("{name} wrote {}{since} {month}", times(summary.submissions))
    }

    /// The template values of a person's submissions: the values of a list's row, and the notes.
    fn person_rows(
        &self,
        reader: &InboxReader,
        submissions: &[Submission],
    ) -> Result<Vec<Value>, StoreError> {
        let ids: Vec<Uuid> = submissions.iter().map(|submission| submission.id).collect();
        let annotations = reader.annotations(&ids)?;
        let notes = reader.notes(&ids)?;
        let row = |submission: &Submission| {
            let notes = notes.get(&submission.id).map_or(&[][..], Vec::as_slice);
            context! {
                notes => note_values(notes, &self.operator.user, &self.clock),
                ..submission_view::row(submission, annotations.get(&submission.id), &self.clock)
            }
        };
        Ok(submissions.iter().map(row).collect())
    }

    /// If `is_confirmed`, removes everything from a person's address and redirects to the list; otherwise
    /// shows a page that asks. If the address cannot be read in any of the newest [`PAGE_SIZE`] submissions,
    /// erases by its hash, which keeps the records of mails to it. `None` if the person has no submissions.
    pub(super) fn erase_person(
        &self,
        person: &Hash,
        is_confirmed: bool,
    ) -> Result<Option<Reply>, StoreError> {
        let found = self.inbox.readers.with(|reader| {
            let Some(summary) = reader.person(person)? else { return Ok(None) };
            let newest = reader.person_submissions(person, None, PAGE_SIZE)?;
            Ok(Some((summary, address_of(reader, person, &newest)?)))
        })?;
        let Some((summary, email)) = found else { return Ok(None) };
        if !is_confirmed {
            let path = person_path(person);
            return self
                .confirm(&context! {
                    kind => "erase",
                    count => summary.submissions,
                    email => email.as_deref().map_or_else(|| "an encrypted address".to_owned(), visible),
                    target => path.clone(),
                    back => path,
                })
                .map(Some);
        }
        let database = self.inbox.readers.database();
        let mut editor = Editor::open(database)?.on_behalf_of(&self.operator.user);
        let erased = match &email {
            Some(email) => editor.erase(email)?,
            None => editor.erase_person(person)?,
        };
        let code = removal_code(erased.submissions, 0, erased.is_wiped || database.file().is_none());
        Ok(Some(see_other(&format!("/?notice={code}"))))
    }
}
