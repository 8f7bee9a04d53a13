//! `frontdesk inbox done`, `reopen`, `spam`, `ham`, `note`, `assign`, `follow-up` and `replied` annotate
//! submissions.

use std::borrow::Cow;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use jiff::civil::Date;

use super::command_context::Console;
use super::delivery_commands::{Outcome, change_each};
use super::selection::find_all;
use crate::cli::diagnostics::with_hint;
use frontdesk_desk::User;
use frontdesk_desk::time::parse_date;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Annotated, MAX_NOTE};
use frontdesk_site::fault::did_you_mean;

/// Marks submissions as done, or as open again. If screening learns, a submission that becomes done may be a
/// weak lesson about honest texts, and one that is reopened may lose that lesson. Reports and skips ids
/// without a submission.
pub(super) fn set_done(ids: &[String], is_done: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    change_each(find_all(ids, console)?, console, |changes, submission, console| {
        let annotated = changes.set_done(submission.id, is_done, console.now.timestamp())?;
        Ok(Outcome::described(describe_done(annotated, is_done)))
    })
}

/// Marks submissions as spam, and holds them unless they are delivered; or removes the mark, and releases
/// those that are held as spam: by the mark, by screening or by a flood. Teaches screening. Reports and skips
/// ids without a submission.
pub(super) fn set_spam(ids: &[String], is_spam: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let channels = console.channels.to_vec();
    change_each(find_all(ids, console)?, console, |changes, submission, console| {
        let (id, now) = (submission.id, console.now.timestamp());
        let annotated = if is_spam {
            changes.editor.mark_spam(id, now)?
        } else {
            changes.editor.mark_ham(id, &channels, now)?
        };
        Ok(Outcome::described(describe_spam(annotated, is_spam)))
    })
}

/// Adds a note to a submission, without line breaks at its end; `-` reads it from standard input. Fails if
/// the note is empty or too long, or if the submission has too many. A repetition of the submission's last
/// note by the same user changes nothing.
pub(super) fn add_note(id: &str, note: &str, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let note =
        if note == "-" { Cow::Owned(read_note(&mut console.input.reader)?) } else { Cow::Borrowed(note) };
    let note = note.trim_end_matches(['\r', '\n']);
    if note.trim().is_empty() {
        return Err(with_hint(
            anyhow!("the note is empty"),
            "give the text, or `-` to read it from standard input",
        ));
    }
    change_each(find_all(&[id.to_owned()], console)?, console, |changes, submission, console| {
        let annotated = changes.editor.add_note(submission.id, note, console.now.timestamp())?;
        Ok(Outcome::described(describe_note(annotated)))
    })
}

/// Reads a note from standard input. Fails if it is not UTF-8, or if it has more bytes than a note of
/// [`MAX_NOTE`] characters and a final line break can have.
pub(super) fn read_note(input: impl Read) -> anyhow::Result<String> {
    let (mut bytes, most) = (Vec::new(), 4 * MAX_NOTE + 2);
    let read = input.take(most as u64 + 1).read_to_end(&mut bytes);
    read.context("cannot read the note from standard input")?;
    if bytes.len() > most {
        bail!("the note is longer than the maximum of {MAX_NOTE} characters");
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("the note on standard input is not UTF-8"))
}

/// Assigns submissions to a user, or to none. Fails if the configuration has users, but not this one. Cuts a
/// name that is too long. Reports and skips ids without a submission.
pub(super) fn assign(
    ids: &[String],
    user: Option<&str>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let user = user.map(|name| configured_name(name, console.users)).transpose()?;
    change_each(find_all(ids, console)?, console, |changes, submission, _| {
        let annotated = changes.editor.assign(submission.id, user)?;
        let words = match user {
            Some(user) => {
                ["is assigned to", "is already assigned to"].map(|words| format!("{words} {}", visible(user)))
            }
            None => ["is no longer assigned to a user", "is assigned to no user"].map(str::to_owned),
        };
        Ok(Outcome::described(choose_words(annotated, words)))
    })
}

/// The name as it is configured, regardless of case. Any name is valid if there are no `users`; otherwise
/// fails if it is none of them. Fails for an empty name.
fn configured_name<'a>(name: &'a str, users: &'a [User]) -> anyhow::Result<&'a str> {
    if name.trim().is_empty() {
        return Err(with_hint(
            anyhow!("the name of the user is empty"),
            "name a user, or remove the assignment with `--none`",
        ));
    }
    let known = || users.iter().map(|user| user.address.as_str());
    if users.is_empty() {
        return Ok(name);
    }
    known().find(|address| address.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let hint = did_you_mean(&name.to_ascii_lowercase(), known(), || {
            "`inbox.users` in frontdesk.toml lists the users".to_owned()
        });
        with_hint(anyhow!("the inbox has no user `{}`", visible(name)), hint)
    })
}

/// Sets the day on which to come back to a submission; `None` removes it.
pub(super) fn follow_up(
    id: &str,
    day: Option<DayArgument>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let day = day.map(|day| day.resolve(console.now.date()));
    change_each(find_all(&[id.to_owned()], console)?, console, |changes, submission, _| {
        let annotated = changes.editor.set_follow_up(submission.id, day)?;
        let words = match day {
            Some(day) => {
                [format!("is to be followed up on {day}"), format!("is already to be followed up on {day}")]
            }
            None => ["no longer has a follow-up", "has no follow-up"].map(str::to_owned),
        };
        Ok(Outcome::described(choose_words(annotated, words)))
    })
}

/// Records that the user replied to submissions, or that no user did. If screening learns, a submission with
/// a reply may become a weak lesson about honest texts. Reports and skips ids without a submission.
pub(super) fn set_replied(
    ids: &[String],
    is_replied: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    change_each(find_all(ids, console)?, console, |changes, submission, console| {
        let annotated = changes.editor.set_replied(submission.id, is_replied, console.now.timestamp())?;
        let words = if is_replied {
            ["is marked as replied", "is already marked as replied"]
        } else {
            ["is no longer marked as replied", "is not marked as replied"]
        };
        Ok(Outcome::described(choose_words(annotated, words.map(str::to_owned))))
    })
}

/// A day as given on the command line: a date, or a day relative to today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayArgument {
    Today,
    Tomorrow,
    On(Date),
}

impl DayArgument {
    /// Parses `today`, `tomorrow` or a date from 2000 to 2099 such as `2026-11-30`.
    pub(super) fn parse(text: &str) -> Result<DayArgument, String> {
        match text {
            "today" => Ok(DayArgument::Today),
            "tomorrow" => Ok(DayArgument::Tomorrow),
            text => {
                let date = parse_date(text).filter(|date| (2000..2100).contains(&date.year()));
                date.map(DayArgument::On)
                    .ok_or_else(|| "give a date such as 2026-11-30, today or tomorrow".to_owned())
            }
        }
    }

    fn resolve(self, today: Date) -> Date {
        match self {
            DayArgument::Today => today,
            DayArgument::Tomorrow => today.tomorrow().unwrap_or(today),
            DayArgument::On(date) => date,
        }
    }
}

/// The result of marking a submission as done or open, as the rest of a sentence about it. `None` if it no
/// longer exists.
pub(in crate::cli) fn describe_done(annotated: Annotated, is_done: bool) -> Option<String> {
    let words = if is_done { ["is done", "is already done"] } else { ["is open again", "is already open"] };
    choose_words(annotated, words.map(str::to_owned))
}

/// The result of calling a submission spam or honest, as the rest of a sentence about it. `None` if it no
/// longer exists.
pub(in crate::cli) fn describe_spam(annotated: Annotated, is_spam: bool) -> Option<String> {
    let words = if is_spam {
        ["is marked as spam", "is already marked as spam"]
    } else {
        ["is no longer spam", "was not marked or held as spam; screening learns that it is not spam"]
    };
    choose_words(annotated, words.map(str::to_owned))
}

/// The result of adding a note to a submission, as the rest of a sentence about it. `None` if it no longer
/// exists.
pub(in crate::cli) fn describe_note(annotated: Annotated) -> Option<String> {
    choose_words(annotated, ["has this note", "already has this note"].map(str::to_owned))
}

/// Chooses the words for a changed or an unchanged submission. `None` if the submission no longer exists.
fn choose_words(annotated: Annotated, [changed, unchanged]: [String; 2]) -> Option<String> {
    match annotated {
        Annotated::Changed => Some(changed),
        Annotated::Unchanged => Some(unchanged),
        Annotated::Missing => None,
    }
}
