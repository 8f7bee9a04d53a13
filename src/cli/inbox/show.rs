//! `frontdesk inbox show`: one submission in full, with its deliveries and attempts.

use std::io::Write;
use std::process::ExitCode;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use uuid::Uuid;

use super::command_context::Console;
use super::selection::{IdentityOption, decrypt_with, find};
use super::table::{GAP, SEALED};
use crate::cli::diagnostics::exit_code;
use crate::cli::text_width::{columns, pad};
use frontdesk_desk::submission_json;
use frontdesk_desk::time::{format_distance, format_duration, format_time};
use frontdesk_forms::text::{visible, with_line_feeds};
use frontdesk_inbox::store::{Annotation, InboxReader, Note, StoreError};
use frontdesk_inbox::submission::delivery::{Attempt, Delivery, DeliveryState, Obstacle};
use frontdesk_inbox::submission::{Status, Submission};
use frontdesk_screening::verdict::ScreeningReason;

/// Prints the submission whose id begins with `id`, as text or as a JSON object. Returns failure if it is not
/// exactly one, or if the identity cannot decrypt it.
pub(super) fn run(
    id: &str,
    as_json: bool,
    key: &IdentityOption,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let mut submission = match find(console.inbox.as_deref(), id)? {
        Ok(submission) => submission,
        Err(error) => {
            console.report(&error)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let is_open = decrypt_with(identity.as_ref(), &mut submission, console.err)?;
    let inbox = console.inbox.as_deref();
    let details = inbox.map(|inbox| read_details(inbox, submission.id)).transpose()?.unwrap_or_default();
    if as_json {
        let mut object = submission_json::object_with_deliveries(&submission, &details.deliveries);
        submission_json::add_annotation(&mut object, &details.annotation, &details.notes);
        writeln!(console.out, "{}", submission_json::to_line(&object))?;
    } else {
        write_details(&submission, &details, &console.now, console.out)?;
    }
    Ok(exit_code(is_open))
}

/// The deliveries, the annotation and the notes of a submission.
#[derive(Default)]
pub(in crate::cli) struct Details {
    pub(in crate::cli) deliveries: Vec<Delivery>,
    /// The submission's annotation; empty if it has none.
    pub(in crate::cli) annotation: Annotation,
    pub(in crate::cli) notes: Vec<Note>,
}

/// Reads a submission's deliveries, annotation and notes.
pub(in crate::cli) fn read_details(inbox: &InboxReader, id: Uuid) -> Result<Details, StoreError> {
    Ok(Details {
        annotation: inbox.annotations(&[id])?.remove(&id).unwrap_or_default(),
        notes: inbox.notes(&[id])?.remove(&id).unwrap_or_default(),
        deliveries: inbox.deliveries(id)?,
    })
}

/// The state of the team's work on a submission, as labels and texts. Leaves out properties that are not set.
fn describe_work(annotation: &Annotation, now: &Zoned) -> Vec<(&'static str, String)> {
    let mut work = Vec::new();
    work.extend(annotation.done_at.map(|done_at| ("done since", time_and_distance(done_at, now))));
    work.extend(annotation.assignee.iter().map(|name| ("assigned to", name.clone())));
    work.extend(annotation.follow_up.map(|day| {
        let due = if annotation.is_due(now.date()) { " (due)" } else { "" };
        ("follow up", format!("{day}{due}"))
    }));
    if let (Some(at), Some(user)) = (annotation.replied_at, &annotation.replied_by) {
        work.push(("replied", format!("{}, by {user}", time_and_distance(at, now))));
    }
    work
}

/// Writes the notes, oldest first, each below its author and time.
fn write_notes(notes: &[Note], zone: &TimeZone, out: &mut dyn Write) -> std::io::Result<()> {
    for note in notes {
        writeln!(out, "\nnote by {}, {}", visible(&note.user), format_time(note.at, zone))?;
        for line in with_line_feeds(&note.text).split('\n') {
            writeln!(out, "{}", format!("{GAP}{}", visible(line)).trim_end())?;
        }
    }
    Ok(())
}

/// Writes a submission's metadata, screening result, fields, notes and deliveries as text.
fn write_details(
    submission: &Submission,
    details: &Details,
    now: &Zoned,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let repeats = match submission.repeats {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let mut about = vec![
        ("id", submission.id.to_string()),
        ("form", submission.form.clone()),
        ("received at", format_time(submission.received_at, now.time_zone())),
        ("status", submission.status.name().to_owned()),
    ];
    about.extend(submission.error.iter().map(|error| ("error", error.clone())));
    if let Some(held) = &submission.held {
        about.push(("held since", time_and_distance(held.since, now)));
        about.push(("because", held.because.clone()));
    }
    if let Some(confirmation) = &submission.confirmation {
        about.push(match (confirmation.confirmed_at, confirmation.asked_at) {
            (Some(at), _) => ("confirmed at", time_and_distance(at, now)),
            (None, None) if submission.status == Status::Unconfirmed => {
                ("asked at", "not yet: the mail that asks for the confirmation is waiting".to_owned())
            }
            (None, _) => ("link expires", time_and_distance(confirmation.expires_at, now)),
        });
    }
    if let Some(released_at) = submission.released_at {
        about.push(("released at", time_and_distance(released_at, now)));
    }
    if let Some(screening) = &submission.screening {
        let mark = if screening.suspicious { " (suspicious)" } else { "" };
        about.push(("score", format!("{}{mark}", screening.score)));
        // Print the label `reasons` only before the first reason.
        let lines = screening.reasons.iter().map(describe_reason);
        about.extend(lines.enumerate().map(|(i, line)| (if i == 0 { "reasons" } else { "" }, line)));
    }
    about.extend(submission.agent.iter().map(|agent| ("agent", agent.clone())));
    about.extend(submission.lead.members().map(|(name, value)| (name, value.to_owned())));
    about.extend([("sent again", repeats), ("source", submission.source.clone())]);
    about.extend(describe_work(&details.annotation, now));
    let labels: Vec<String> =
        submission.fields.iter().map(|(name, _)| visible(submission.label(name))).collect();
    let names = about.iter().map(|(name, _)| *name).chain(labels.iter().map(String::as_str));
    let label = names.map(columns).max().unwrap_or_default();
    for (name, value) in &about {
        writeln!(out, "{}{GAP}{}", pad(name, label), visible(value))?;
    }
    writeln!(out)?;
    if submission.sealed.is_some() {
        writeln!(out, "{SEALED}")?;
    }
    for (name, (_, value)) in labels.iter().zip(&submission.fields) {
        for (i, text) in with_line_feeds(&value.display()).split('\n').enumerate() {
            let name = if i == 0 { name } else { "" };
            writeln!(out, "{}", format!("{}{GAP}{}", pad(name, label), visible(text)).trim_end())?;
        }
    }
    write_notes(&details.notes, now.time_zone(), out)?;
    for delivery in &details.deliveries {
        writeln!(out)?;
        write_delivery(delivery, now, out)?;
    }
    Ok(())
}

/// Formats a reason's points, signal and detail: `60 honeypot: the hidden field is filled in`.
fn describe_reason(reason: &ScreeningReason) -> String {
    let detail = if reason.detail.is_empty() { String::new() } else { format!(": {}", reason.detail) };
    format!("{} {}{detail}", reason.points, reason.signal.name())
}

/// `separator` followed by the text with unsafe characters made visible, or an empty string if the text is
/// empty.
fn after(separator: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{separator}{}", visible(text)) }
}

/// Writes a delivery's channel, state and due time, what blocks its channel, if anything, and its attempts.
fn write_delivery(delivery: &Delivery, now: &Zoned, out: &mut dyn Write) -> std::io::Result<()> {
    let due = delivery.due_at.map(|due| time_and_distance(due, now));
    let due = match (delivery.state, due) {
        // The next attempt depends on the next probe of the channel, so the due time is not shown.
        (DeliveryState::Waiting, Some(_)) if delivery.obstacle.is_some() => " for the channel".to_owned(),
        (DeliveryState::Waiting, Some(due)) => format!(", next try {due}"),
        (DeliveryState::Sending, Some(due)) => format!(", until {due} at most"),
        _ => String::new(),
    };
    writeln!(out, "{}: {}{due}", visible(&delivery.channel), delivery.state)?;
    if let Some(obstacle) = &delivery.obstacle {
        writeln!(out, "{GAP}{}", describe_obstacle(obstacle, now))?;
    }
    for (i, attempt) in delivery.attempts.iter().enumerate() {
        let is_last = i + 1 == delivery.attempts.len();
        let is_under_way = is_last && delivery.state == DeliveryState::Sending;
        writeln!(out, "{GAP}{}", describe_attempt(attempt, is_under_way, now.time_zone()))?;
    }
    Ok(())
}

/// Describes a delivery attempt: its number, start time, outcome and duration, and the receiver's reply.
fn describe_attempt(attempt: &Attempt, is_under_way: bool, zone: &TimeZone) -> String {
    let begin = format!("{}. {}", attempt.number, format_time(attempt.began_at, zone));
    match &attempt.end {
        None if is_under_way => format!("{begin}  under way"),
        None => format!("{begin}  interrupted"),
        Some(end) => {
            let outcome = end.outcome();
            let took = format_duration(attempt.began_at, end.at);
            format!("{begin}  {outcome} after {took}{}", after(": ", &end.answer))
        }
    }
}

/// Describes why a channel does not deliver, as a clause.
pub(super) fn describe_obstacle(obstacle: &Obstacle, now: &Zoned) -> String {
    let what = if obstacle.off { "switched off" } else { "paused and only probed" };
    let (since, reply) = (time_and_distance(obstacle.since, now), after("; reply: ", &obstacle.answer));
    format!("the channel has been {what} since {since}{reply}")
}

/// Formats a time and its distance from now: `2026-11-20T14:03:05.120Z (in 4 min)`.
fn time_and_distance(time: Timestamp, now: &Zoned) -> String {
    format!("{} ({})", format_time(time, now.time_zone()), format_distance(time, now.timestamp()))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use frontdesk_inbox::submission::delivery::AttemptEnd;
    use frontdesk_inbox::submission::{Confirmation, Hold, Screening};
    use frontdesk_screening::verdict::Signal;

    #[test]
    fn a_submission_is_shown_in_full_with_indented_lines() {
        check(
            &submission(&[("name", "Ada"), ("message", "Hello,\r\n\u{b}id  0\u{1b}[2J")]),
            &[],
            "id           00000000-0001-0000-0000-000000000000\n\
             form         contact\n\
             received at  2026-11-20T14:03:05.120Z\n\
             status       kept\n\
             sent again   once\n\
             source       00\n\
             \n\
             name         Ada\n\
             message      Hello,\n\
             \n             id  0\\u{1b}[2J\n",
        );
    }

    #[test]
    fn a_held_and_sealed_submission_is_described_as_such() {
        let mut submission = submission(&[]);
        submission.status = Status::Held;
        submission.held = Some(Hold { since: at("14:00:00"), because: "odd\u{9b}".to_owned() });
        submission.sealed = Some(vec![0]);
        check(
            &submission,
            &[],
            "id           00000000-0001-0000-0000-000000000000\n\
             form         contact\n\
             received at  2026-11-20T14:03:05.120Z\n\
             status       held\n\
             held since   2026-11-20T14:00:00.000Z (10 min ago)\n\
             because      odd\\u{9b}\n\
             sent again   once\n\
             source       00\n\
             \n\
             (encrypted: use --identity FILE)\n",
        );
    }

    #[test]
    fn an_unconfirmed_entry_shows_whether_its_visitor_was_asked() {
        let mut submission = submission(&[]);
        submission.status = Status::Unconfirmed;
        for (asked_at, expected) in [
            (None, "asked at     not yet: the mail that asks for the confirmation is waiting\n"),
            (Some(at("14:04:00")), "link expires  2026-11-20T14:20:00.000Z (in 10 min)\n"),
        ] {
            let expires_at = at("14:20:00");
            submission.confirmation = Some(Confirmation { expires_at, asked_at, confirmed_at: None });
            let mut out = Vec::new();
            let now = at("14:10:00").to_zoned(TimeZone::UTC);
            write_details(&submission, &Details::default(), &now, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("asked") || line.starts_with("link"));
            assert_eq!(lines.map(|line| format!("{line}\n")).collect::<String>(), expected);
        }
    }

    #[test]
    fn screening_reasons_stay_after_a_release() {
        let reason =
            |signal, points, detail: &str| ScreeningReason { signal, points, detail: detail.to_owned() };
        let mut submission = submission(&[]);
        submission.released_at = Some(at("14:09:00"));
        submission.agent = Some("agent.example.com".to_owned());
        submission.screening = Some(Screening {
            score: 90,
            reasons: vec![reason(Signal::Honeypot, 60, "filled in\u{1b}"), reason(Signal::Links, 30, "")],
            withheld: true,
            suspicious: false,
        });
        check(
            &submission,
            &[],
            "id           00000000-0001-0000-0000-000000000000\n\
             form         contact\n\
             received at  2026-11-20T14:03:05.120Z\n\
             status       kept\n\
             released at  2026-11-20T14:09:00.000Z (1 min ago)\n\
             score        90\n\
             reasons      60 honeypot: filled in\\u{1b}\n             \
                          30 links\n\
             agent        agent.example.com\n\
             sent again   once\n\
             source       00\n\
             \n",
        );
    }

    #[test]
    fn the_last_attempt_without_an_end_is_under_way_while_sending() {
        let attempts =
            vec![attempt(1, None), attempt(2, Some((false, "450\nlater\u{1b}"))), attempt(3, None)];
        let sending = Delivery { attempts, ..delivery(DeliveryState::Sending, Some(at("14:12:00"))) };
        check_delivery(
            &sending,
            "box: sending, until 2026-11-20T14:12:00.000Z (in 2 min) at most\n  \
               1. 2026-11-20T14:09:00.000Z  interrupted\n  \
               2. 2026-11-20T14:09:00.000Z  failed after 1.5 s: 450⏎later\\u{1b}\n  \
               3. 2026-11-20T14:09:00.000Z  under way\n",
        );
        let waiting = Delivery { state: DeliveryState::Waiting, ..sending };
        check_delivery(
            &Delivery { attempts: waiting.attempts[2..].to_vec(), ..waiting },
            "box: waiting, next try 2026-11-20T14:12:00.000Z (in 2 min)\n  \
               3. 2026-11-20T14:09:00.000Z  interrupted\n",
        );
    }

    #[test]
    fn an_obstacle_of_the_channel_is_shown() {
        let obstacle =
            |off| Some(Obstacle { off, since: at("13:10:00"), answer: "410 Gone\u{7}".to_owned() });
        check_delivery(
            &Delivery { obstacle: obstacle(true), ..delivery(DeliveryState::Parked, None) },
            "box: parked\n  the channel has been switched off since 2026-11-20T13:10:00.000Z (1 h ago); \
               reply: 410 Gone\\u{7}\n",
        );
        check_delivery(
            &Delivery {
                obstacle: obstacle(false),
                attempts: vec![attempt(1, Some((true, "")))],
                ..delivery(DeliveryState::Delivered, None)
            },
            "box: delivered\n  the channel has been paused and only probed since 2026-11-20T13:10:00.000Z (1 \
               h ago); reply: 410 Gone\\u{7}\n  1. 2026-11-20T14:09:00.000Z  delivered after 1.5 s\n",
        );
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-11-20T{time}Z").parse().unwrap()
    }

    fn attempt(number: u32, end: Option<(bool, &str)>) -> Attempt {
        let end = end.map(|(delivered, answer)| AttemptEnd {
            at: at("14:09:01.5"),
            delivered: Some(delivered),
            answer: answer.to_owned(),
        });
        Attempt { number, began_at: at("14:09:00"), end }
    }

    fn delivery(state: DeliveryState, due_at: Option<Timestamp>) -> Delivery {
        Delivery { channel: "box".to_owned(), state, due_at, obstacle: None, attempts: Vec::new() }
    }

    fn submission(fields: &[(&str, &str)]) -> Submission {
        Submission {
            id: Uuid::from_fields(0, 1, 0, &[0; 8]),
            form: "contact".to_owned(),
            definition: None,
            received_at: at("14:03:05.12"),
            status: Status::Kept,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            sealed: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
            source: "00".to_owned(),
            repeats: 1,
            confirmation: None,
            lead: frontdesk_forms::LeadSource::default(),
        }
    }

    fn check(submission: &Submission, deliveries: &[Delivery], expected: &str) {
        let mut out = Vec::new();
        let details = Details { deliveries: deliveries.to_vec(), ..Details::default() };
        let now = at("14:10:00").to_zoned(TimeZone::UTC);
        write_details(submission, &details, &now, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    fn check_delivery(delivery: &Delivery, expected: &str) {
        let mut out = Vec::new();
        write_delivery(delivery, &at("14:10:00").to_zoned(TimeZone::UTC), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
