//! Abbreviated ids, and what is said where one of them leads nowhere.

use std::io::Write;

use crate::forms::text::visible;
use crate::store::{Found, Reader, StoreError};
use crate::submission::Submission;

/// Where an id leads.
pub(super) enum Sought {
    /// To this submission.
    Here(Box<Submission>),
    /// To none, or to several: what is wrong, and what would help.
    Nowhere(String),
}

/// Looks for the submission. Where there is no inbox, there is none.
pub(super) fn look(reader: Option<&Reader>, id: &str) -> Result<Sought, StoreError> {
    Ok(match reader.map_or(Ok(Found::None), |reader| reader.find(id))? {
        Found::One(submission) => Sought::Here(submission),
        Found::None => Sought::Nowhere(format!(
            "no submission has an id that begins with `{}`\nhint: `frontdesk inbox list` shows the ids",
            visible(id)
        )),
        Found::Several(ids) => Sought::Nowhere(format!(
            "more than one submission has an id that begins with `{}`\n{}hint: give more digits of the id",
            visible(id),
            ids.iter().map(|id| format!("  {id}\n")).collect::<String>()
        )),
    })
}

/// Looks for all of them, and says which aren't there. Whoever asked goes on with the others; the second one is how many
/// could not be found.
pub(super) fn look_for_all(
    reader: Option<&Reader>,
    ids: &[String],
    err: &mut dyn Write,
) -> anyhow::Result<(Vec<Submission>, usize)> {
    let mut found: Vec<Submission> = Vec::new();
    let mut missing = 0;
    for id in ids {
        match look(reader, id)? {
            Sought::Here(submission) if found.iter().any(|other| other.id == submission.id) => {}
            Sought::Here(submission) => found.push(*submission),
            Sought::Nowhere(why) => {
                writeln!(err, "error: {why}")?;
                missing += 1;
            }
        }
    }
    Ok((found, missing))
}
