//! The team's work on a submission: notes, the assignee, the day to come back to it, and whether it was
//! replied to.

use jiff::civil::Date;
use jiff::{ToSpan as _, Zoned};
use minijinja::{Value, context};
use uuid::Uuid;

use super::options::DeskOptions;
use super::request::Pairs;
use super::template_time::Clock;
use frontdesk_forms::text::{visible, visible_lines};
use frontdesk_inbox::change::Changes;
use frontdesk_inbox::store::{Annotated, Annotation, InboxReader, MAX_NOTE, Note, StoreError};

/// Maximum number of current assignees that a page offers, in addition to the configured users.
const MAX_PEOPLE: usize = 50;

pub(super) enum WorkChange {
    AddNote(String),
    /// Replaces the text of one of the user's own notes. An empty text removes the note.
    EditNote(Uuid, String),
    /// Assigns the submission to a user that the page offered; `None` removes the assignee.
    Assign(Option<String>),
    AssignToMe,
    /// Restores the previous assignee, even if the page does not offer that user.
    Reassign(Option<String>),
    FollowUp(FollowUp),
    SetReplied(bool),
}

/// The follow-up day that a form sets for a submission.
pub(super) enum FollowUp {
    /// A number of days from today.
    Days(i32),
    NextMonth,
    On(Date),
    Never,
    /// The day in the form is not a valid date.
    Invalid,
}

impl WorkChange {
    /// Returns the change named `action`. `None` if that is unknown, if its `note_id` is missing or invalid,
    /// or if its `day` is missing. A missing `note` is empty. A missing or empty `assignee` removes the
    /// assignee, and an empty `day` removes the follow-up; [`Self::make`] refuses an invalid one.
    pub(super) fn parse(action: &str, fields: &Pairs) -> Option<Self> {
        let text = || fields.get("note").unwrap_or_default().to_owned();
        let note = || Uuid::try_parse(fields.get("note_id")?).ok();
        Some(match action {
            "note" => Self::AddNote(text()),
            "edit-note" => Self::EditNote(note()?, text()),
            "remove-note" => Self::EditNote(note()?, String::new()),
            "assign" => {
                Self::Assign(fields.get("assignee").filter(|name| !name.is_empty()).map(str::to_owned))
            }
            "assign-me" => Self::AssignToMe,
            "follow-up" => Self::FollowUp(match fields.get("day")?.trim() {
                "" => FollowUp::Never,
                day => day.parse().map_or(FollowUp::Invalid, FollowUp::On),
            }),
            "tomorrow" => Self::FollowUp(FollowUp::Days(1)),
            "next-week" => Self::FollowUp(FollowUp::Days(7)),
            "next-month" => Self::FollowUp(FollowUp::NextMonth),
            "no-follow-up" => Self::FollowUp(FollowUp::Never),
            "replied" => Self::SetReplied(true),
            "not-replied" => Self::SetReplied(false),
            _ => return None,
        })
    }

    /// Makes the change on behalf of `user`, and returns the code of the notice. [`Self::Assign`] assigns
    /// nothing to a name that is not in `people`. Does not store a note that is too long, one note too many,
    /// or an invalid day.
    pub(super) fn make(
        &self,
        changes: &mut Changes<'_>,
        id: Uuid,
        user: &str,
        people: &[String],
        clock: &Clock,
    ) -> Result<&'static str, StoreError> {
        let now = clock.now;
        let (annotated, code) = match self {
            Self::AddNote(text) => (changes.editor.add_note(id, text, now), "note"),
            Self::EditNote(note, text) => {
                let code = if text.trim().is_empty() { "note-removed" } else { "note" };
                (changes.editor.edit_note(id, *note, text, now), code)
            }
            Self::Assign(Some(name)) if !people.contains(name) => return Ok("no-such-user"),
            Self::Assign(name) | Self::Reassign(name) => (
                changes.editor.assign(id, name.as_deref()),
                if name.is_some() { "assigned" } else { "unassigned" },
            ),
            Self::AssignToMe => (changes.editor.assign(id, Some(user)), "assigned"),
            Self::FollowUp(when) => match day_of(when, &now.to_zoned(clock.zone.clone())) {
                Ok(day) => {
                    let code = if day.is_some() { "follow-up" } else { "no-follow-up" };
                    (changes.editor.set_follow_up(id, day), code)
                }
                Err(code) => return Ok(code),
            },
            Self::SetReplied(is_replied) => {
                let code = if *is_replied { "replied" } else { "not-replied" };
                (changes.editor.set_replied(id, *is_replied, now), code)
            }
        };
        Ok(match annotated {
            Ok(Annotated::Changed) => code,
            Ok(Annotated::Unchanged) => "unchanged",
            Ok(Annotated::Missing) => "pending",
            Err(StoreError::NoteTooLong { .. }) => "note-long",
            Err(StoreError::TooManyNotes { .. }) => "notes-full",
            Err(error) => return Err(error),
        })
    }
}

/// Returns the day of a follow-up, `None` for [`FollowUp::Never`], or the code of an error. A day outside of
/// 2000 to 2099 is an error.
fn day_of(when: &FollowUp, now: &Zoned) -> Result<Option<Date>, &'static str> {
    let today = now.date();
    let day = match when {
        FollowUp::Days(days) => today.saturating_add(days.days()),
        FollowUp::NextMonth => today.saturating_add(1.month()),
        FollowUp::On(day) => *day,
        FollowUp::Never => return Ok(None),
        FollowUp::Invalid => return Err("bad-day"),
    };
    if (2000..2100).contains(&day.year()) { Ok(Some(day)) } else { Err("bad-day") }
}

/// Lists the possible assignees of a submission: the configured users, the first
/// [`MAX_PEOPLE`] assignees of submissions, and the operator. Sorted, without duplicates.
pub(super) fn people(
    options: &DeskOptions,
    reader: &InboxReader,
    operator: &str,
) -> Result<Vec<String>, StoreError> {
    let mut people = reader.assignees(MAX_PEOPLE)?;
    people.extend(options.users.iter().map(|user| user.address.clone()));
    people.push(operator.to_owned());
    people.sort_unstable();
    people.dedup();
    Ok(people)
}

/// The values of [`Annotation`] for rows and pages: `assignee`, `replied`, `has_note`, `is_done`, and the day
/// to follow up. Unless the submission is done, also a mark if that day has come, or else a text with the
/// day. Without an annotation, only `has_note`, which is false.
pub(super) fn annotation_values(annotation: Option<&Annotation>, clock: &Clock) -> Value {
    let Some(annotation) = annotation else { return context! { has_note => false } };
    let today = clock.now.to_zoned(clock.zone.clone()).date();
    let mark = annotation
        .follow_up
        .filter(|_| annotation.is_due(today))
        .map(|day| if day == today { "follow up today" } else { "follow-up overdue" });
    let planned = annotation.follow_up.filter(|_| mark.is_none() && annotation.done_at.is_none());
    let replied = annotation.replied_at.zip(annotation.replied_by.as_deref()).map(|(at, user)| {
        let day = at.to_zoned(clock.zone.clone()).strftime("%-d %B %Y").to_string();
        context! { user => visible(user), day, at => clock.time(at) }
    });
    context! {
        has_note => annotation.notes > 0,
        assignee => annotation.assignee.as_deref().map(visible),
        follow_up => annotation.follow_up.map(|day| day.to_string()),
        follow_up_day => annotation.follow_up.map(|day| day.strftime("%-d %B %Y").to_string()),
        follow_up_mark => mark,
        follow_up_planned => planned.map(|day| day.strftime("follow up %-d %b").to_string()),
        is_done => annotation.done_at.is_some(),
        replied,
    }
}

/// The template values of notes, oldest first. `text` is unchanged, so that the note can be edited.
pub(super) fn note_values(notes: &[Note], operator: &str, clock: &Clock) -> Vec<Value> {
    let value = |note: &Note| {
        context! {
            id => note.id.to_string(),
            user => visible(&note.user),
            at => clock.time(note.at),
            shown => visible_lines(&note.text),
            text => note.text.clone(),
            is_own => note.user == operator,
        }
    };
    notes.iter().map(value).collect()
}

/// The template values of a submission's notes and possible assignees.
pub(super) fn work_values(
    annotation: &Annotation,
    notes: &[Note],
    people: &[String],
    operator: &str,
    clock: &Clock,
) -> Value {
    let option = |name: &String| {
        context! { name, label => visible(name), is_current => annotation.assignee.as_ref() == Some(name) }
    };
    context! {
        notes => note_values(notes, operator, clock),
        people => people.iter().map(option).collect::<Vec<_>>(),
        is_mine => annotation.assignee.as_deref() == Some(operator),
        max_note => MAX_NOTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn clock(now: &str) -> Clock {
        Clock { now: now.parse().unwrap(), zone: TimeZone::fixed(jiff::tz::offset(1)) }
    }

    #[test]
    fn a_follow_up_is_a_day_of_the_local_calendar() {
        let check = |when: &FollowUp, now: &str, expected: Result<Option<&str>, &str>| {
            let clock = clock(now);
            let day = day_of(when, &clock.now.to_zoned(clock.zone));
            assert_eq!(day, expected.map(|day| day.map(|day| day.parse().unwrap())));
        };
        // Already the next day in the zone.
        check(&FollowUp::Days(1), "2026-11-27T23:30:00Z", Ok(Some("2026-11-29")));
        check(&FollowUp::Days(7), "2026-12-28T12:00:00Z", Ok(Some("2027-01-04")));
        check(&FollowUp::NextMonth, "2027-01-31T12:00:00Z", Ok(Some("2027-02-28")));
        check(&FollowUp::On("2026-11-01".parse().unwrap()), "2026-11-27T12:00:00Z", Ok(Some("2026-11-01")));
        check(&FollowUp::On("0206-11-01".parse().unwrap()), "2026-11-27T12:00:00Z", Err("bad-day"));
        check(&FollowUp::Never, "2026-11-27T12:00:00Z", Ok(None));
        check(&FollowUp::Invalid, "2026-11-27T12:00:00Z", Err("bad-day"));
    }

    #[test]
    fn only_an_open_submission_with_a_due_day_has_a_mark() {
        let clock = clock("2026-11-27T12:00:00Z");
        let check = |day: &str, is_done: bool, expected: Option<&str>| {
            let annotation = Annotation {
                follow_up: Some(day.parse().unwrap()),
                done_at: is_done.then_some(clock.now),
                ..Annotation::default()
            };
            let values = annotation_values(Some(&annotation), &clock);
            assert_eq!(values.get_attr("follow_up_mark").unwrap().as_str(), expected);
        };
        check("2026-11-27", false, Some("follow up today"));
        check("2026-11-26", false, Some("follow-up overdue"));
        check("2026-11-28", false, None);
        check("2026-11-26", true, None);
    }

    #[test]
    fn a_form_without_what_its_action_needs_changes_nothing() {
        let parse = |text: &str| {
            let fields = Pairs::parse(text.as_bytes());
            WorkChange::parse(fields.get("action").unwrap_or_default(), &fields)
        };
        assert!(parse("action=edit-note&note=x").is_none());
        assert!(parse("action=edit-note&note=x&note_id=1").is_none());
        assert!(parse("action=follow-up").is_none());
        assert!(matches!(parse("action=follow-up&day="), Some(WorkChange::FollowUp(FollowUp::Never))));
        assert!(matches!(
            parse("action=follow-up&day=2026-02-30"),
            Some(WorkChange::FollowUp(FollowUp::Invalid))
        ));
        assert!(matches!(parse("action=assign&assignee="), Some(WorkChange::Assign(None))));
        assert!(
            matches!(parse("action=note&note=a%0D%0Ab"), Some(WorkChange::AddNote(text)) if text == "a\r\nb")
        );
    }
}
