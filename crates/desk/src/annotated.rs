//! Adds annotations and notes to submissions that are read one after another, as exports and lists need them.

use std::io;

use uuid::Uuid;

use frontdesk_inbox::store::{Annotation, InboxReader, Note, StoreError};
use frontdesk_inbox::submission::Submission;

/// Number of submissions to read at a time, which limits the memory for their notes.
const GROUP: usize = 64;

/// A submission with its annotation and its notes.
pub(super) struct Annotated {
    pub(super) submission: Submission,
    /// `None` if the submission has not been processed yet, or if no annotations are read.
    pub(super) annotation: Option<Annotation>,
    /// The submission's notes, oldest first.
    pub(super) notes: Vec<Note>,
}

/// Passes each submission to `each`, with its annotation and notes if there is a `reader`. Returns the number
/// of submissions. Stops at the first error, after the submissions before it.
pub(super) fn for_each<E: From<io::Error>>(
    submissions: &mut dyn Iterator<Item = Result<Submission, E>>,
    reader: Option<&InboxReader>,
    each: &mut dyn FnMut(&Annotated) -> Result<(), E>,
) -> Result<usize, E> {
    let mut count = 0;
    loop {
        let (mut group, mut failure) = (Vec::with_capacity(GROUP), None);
        for submission in (&mut *submissions).take(GROUP) {
            match submission {
                Ok(submission) => group.push(submission),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let is_last = group.len() < GROUP;
        for annotated in annotate(group, reader).map_err(io::Error::other)? {
            each(&annotated)?;
            count += 1;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if is_last {
            return Ok(count);
        }
    }
}

/// Adds annotations and notes to a group of submissions. Without a `reader`, leaves both empty.
fn annotate(group: Vec<Submission>, reader: Option<&InboxReader>) -> Result<Vec<Annotated>, StoreError> {
    let ids: Vec<Uuid> = group.iter().map(|submission| submission.id).collect();
    let mut annotations = reader.map(|reader| reader.annotations(&ids)).transpose()?.unwrap_or_default();
    let mut notes = reader.map(|reader| reader.notes(&ids)).transpose()?.unwrap_or_default();
    let annotated = group.into_iter().map(|submission| Annotated {
        annotation: annotations.remove(&submission.id),
        notes: notes.remove(&submission.id).unwrap_or_default(),
        submission,
    });
    Ok(annotated.collect())
}
