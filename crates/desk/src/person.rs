//! The page of a person: all submissions with the same e-mail address, and their notes.

use http::StatusCode;
use minijinja::{Value, context};
use uuid::Uuid;

use super::action::removal_code;
use super::html::{Reply, see_other};
use super::page::PageRequest;
use super::view;
use super::work::note_values;
use frontdesk_forms::FieldKind;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Editor, Hash, InboxReader, PersonSummary, StoreError};
use frontdesk_inbox::submission::Submission;

/// How many submissions a page shows.
const PAGE_SIZE: usize = 50;

/// The path of a person's page. It has the keyed hash of the address, so that no address is in the history of
/// browsers or in the logs of proxies.
pub(super) fn person_path(person: &Hash) -> String {
    format!("/people/{}", Uuid::from_bytes(*person).simple())
}

/// The person in the path `/people/HASH`.
pub(super) fn person_in(path: &str) -> Option<Hash> {
    let digits = path.strip_prefix("/people/")?;
    let is_hash = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Uuid::try_parse(digits).ok()).flatten().map(Uuid::into_bytes)
}

/// How often a person wrote, as part of a sentence: `once`, `twice`, `three times`, `12 times`.
fn times(count: usize) -> String {
    const WORDS: [&str; 8] = ["three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => match count.checked_sub(3).and_then(|at| WORDS.get(at)) {
            Some(word) => format!("{word} times"),
            None => format!("{count} times"),
        },
    }
}

/// The address among the fields of these submissions that has the hash. `None` if all of them are encrypted.
pub(super) fn address_of(
    reader: &InboxReader,
    person: &Hash,
    submissions: &[Submission],
) -> Result<Option<String>, StoreError> {
    for submission in submissions {
        for (name, value) in &submission.fields {
            let is_email = submission
                .definition
                .is_none_or(|form| form.field(name).is_some_and(|field| field.kind == FieldKind::Email));
            let Some(text) = value.as_str().filter(|text| is_email && text.contains('@')) else { continue };
            if reader.person_hash(text)? == *person {
                return Ok(Some(text.to_owned()));
            }
        }
    }
    Ok(None)
}

/// The first name that one of the submissions, newest first, shows. An encrypted one shows none.
fn name_of(submissions: &[Submission]) -> Option<String> {
    submissions.iter().find(|submission| submission.sealed.is_none()).map(view::sender)
}

/// The link from a submission's page, if the person sent several: `3 submissions from this address`.
pub(super) fn link_values(reader: &InboxReader, id: Uuid) -> Result<Value, StoreError> {
    let Some(person) = reader.person_of(id)? else { return Ok(Value::UNDEFINED) };
    let count = reader.person(&person)?.map_or(0, |summary| summary.submissions);
    Ok(context! { path => person_path(&person), count })
}

impl PageRequest<'_> {
    /// All submissions of a person, newest first. `None` if there are none.
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

    /// `Ada Lovelace wrote three times since March 2026`, or `… wrote once, in March 2026`.
    fn heading(&self, name: Option<&str>, summary: PersonSummary) -> String {
        let name = name.map_or_else(|| "The sender of encrypted submissions".to_owned(), visible);
        let month = summary.first_at.to_zoned(self.clock.zone.clone()).strftime("%B %Y").to_string();
        let since = if summary.submissions == 1 { ", in" } else { " since" };
        format!("{name} wrote {}{since} {month}", times(summary.submissions))
    }

    /// Rows as in the list, with the notes of each submission.
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
                ..view::row(submission, annotations.get(&submission.id), &self.clock)
            }
        };
        Ok(submissions.iter().map(row).collect())
    }

    /// Removes everything from a person's address, or first asks whether to. `None` if there is nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_hash_and_nothing_else() {
        let person = [0xab; 16];
        assert_eq!(person_in(&person_path(&person)), Some(person));
        for path in [
            "/people/",
            "/people/ab",
            "/people/abababab-abab-abab-abab-abababababab",
            "/people/ada@example.com",
        ] {
            assert_eq!(person_in(path), None, "{path}");
        }
    }

    #[test]
    fn small_numbers_are_words() {
        let words: Vec<String> = [1, 2, 3, 10, 11, 1200].into_iter().map(times).collect();
        assert_eq!(words, ["once", "twice", "three times", "ten times", "11 times", "1200 times"]);
    }
}
