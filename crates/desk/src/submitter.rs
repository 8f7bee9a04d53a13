//! A person: the sender of submissions with the same e-mail address, identified by the keyed hash of it.

use minijinja::{Value, context};
use uuid::Uuid;

use super::submission_view;
use frontdesk_forms::FieldKind;
use frontdesk_inbox::store::{Hash, InboxReader, StoreError};
use frontdesk_inbox::submission::Submission;

/// The path of a person's page. It has the keyed hash of the address, so that no address is in the history of
/// browsers or in the logs of proxies.
pub(super) fn person_path(person: &Hash) -> String {
    format!("/people/{}", Uuid::from_bytes(*person).simple())
}

/// The person's hash in a path such as `/people/HASH`, as 32 hexadecimal digits; `None` for other paths.
pub(super) fn person_in(path: &str) -> Option<Hash> {
    let digits = path.strip_prefix("/people/")?;
    let is_hash = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Uuid::try_parse(digits).ok()).flatten().map(Uuid::into_bytes)
}

/// How often a person wrote, as part of a sentence: `once`, `twice`, `three times`, `12 times`.
pub(super) fn times(count: usize) -> String {
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

/// The address with this hash in the e-mail fields of these submissions (in all fields of those without a
/// definition). `None` if there is none, as when all of them are encrypted.
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

/// The sender of the first of these submissions that is not encrypted, as lists show it. `None` if all are
/// encrypted.
pub(super) fn name_of(submissions: &[Submission]) -> Option<String> {
    submissions.iter().find(|submission| submission.sealed.is_none()).map(submission_view::sender)
}

/// The path of the person's page and the number of their submissions, for the link on a submission's page.
/// Undefined if the submission has no address.
pub(super) fn link_values(reader: &InboxReader, id: Uuid) -> Result<Value, StoreError> {
    let Some(person) = reader.person_of(id)? else { return Ok(Value::UNDEFINED) };
    let count = reader.person(&person)?.map_or(0, |summary| summary.submissions);
    Ok(context! { path => person_path(&person), count })
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
