//! Template values of submissions: texts for people. Everything is escaped when it is rendered.

use minijinja::{Value, context};

use super::annotations::annotation_values;
use super::delivery_explanations::{Receiver, describe_attempt, describe_failure, describe_signal};
use super::message_preview::preview;
use super::template_time::Clock;
use crate::time::format_duration;
use frontdesk_deliver::ChannelOptions;
use frontdesk_forms::text::{visible, visible_lines};
use frontdesk_inbox::store::Annotation;
use frontdesk_inbox::submission::delivery::{Attempt, Delivery, DeliveryState, Obstacle};
use frontdesk_inbox::submission::{Status, Submission};

/// The field that the form's definition names as a heading, or the sender's name, or the address if there is
/// no name, or a fixed text if there is neither. Control characters are made visible.
pub(super) fn sender(submission: &Submission) -> String {
    let field = |name: &str| submission.get(name).map(str::trim).filter(|text| !text.is_empty());
    let full = [field("firstname"), field("lastname")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let full = Some(full).filter(|name| !name.is_empty());
    let heading = submission.heading().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let name = heading.or_else(|| field("name").map(str::to_owned)).or(full);
    let name = name.or_else(|| submission.email().map(str::to_owned));
    let name =
        name.unwrap_or_else(|| if submission.sealed.is_some() { "Encrypted" } else { "No name" }.to_owned());
    visible(&name)
}

/// The beginning of the message without its greeting ([`preview`]), or the address unless [`sender`] shows
/// it; empty without either. A fixed text if the submission is encrypted.
fn first_line(submission: &Submission) -> String {
    if submission.sealed.is_some() {
        return "Encrypted to your key: `frontdesk inbox show --identity FILE ID` decrypts it".to_owned();
    }
    let line = submission.preview().map(|message| preview(&message)).unwrap_or_default();
    if !line.is_empty() {
        return visible(&line);
    }
    submission.email().filter(|email| *email != sender(submission)).map(visible).unwrap_or_default()
}

/// Returns the template values of one row of a list. Without an annotation, the row is unread and not spam.
pub(super) fn row(submission: &Submission, annotation: Option<&Annotation>, clock: &Clock) -> Value {
    let reasons = submission.screening.iter().flat_map(|screening| &screening.reasons);
    let reasons: Vec<Value> = reasons
        .map(|reason| context! { text => describe_signal(reason.signal), name => reason.signal.name(), points => reason.points, detail => visible(&reason.detail) })
        .collect();
    context! {
        id => submission.id.to_string(),
        form => visible(&submission.form),
        sender => sender(submission),
        company => submission.get("company").map(visible),
        line => first_line(submission),
        received => clock.time(submission.received_at),
        status => submission.status.name(),
        status_text => status_text(submission.status),
        is_unread => annotation.is_none_or(|it| it.seen_at.is_none()),
        is_spam => annotation.is_some_and(|it| it.spam_at.is_some()),
        is_suspicious => submission.screening.as_ref().is_some_and(|screening| screening.suspicious),
        is_sealed => submission.sealed.is_some(),
        count => submission.repeats + 1,
        agent => submission.agent.as_deref().map(visible),
        because => submission.held.as_ref().map(|held| visible(&held.because)),
        score => submission.screening.as_ref().map(|screening| screening.score),
        reasons,
        ..annotation_values(annotation, clock)
    }
}

/// The word for a status on pages. Parked submissions are shown as failed.
pub(super) fn status_text(status: Status) -> &'static str {
    match status {
        Status::Kept => "Kept",
        Status::Waiting => "Waiting",
        Status::Delivered => "Delivered",
        Status::Held => "Held",
        Status::Unconfirmed => "Unconfirmed",
        Status::Parked => "Failed",
    }
}

/// Returns the template values of a submission's page, including those of [`row`].
pub(super) fn details(
    submission: &Submission,
    annotation: &Annotation,
    deliveries: &[Delivery],
    channels: &[ChannelOptions],
    reply: Option<String>,
    clock: &Clock,
) -> Value {
    let fields: Vec<Value> = submission
        .fields
        .iter()
        .map(|(name, value)| context! { name => visible(name), label => visible(submission.label(name)), value => visible_lines(&value.display()) })
        .collect();
    let lead = submission.lead.members().map(|(name, value)| {
        let label = match name {
            "page" => "Page",
            "referrer" => "Came from",
            name => name,
        };
        context! { label, value => visible(value) }
    });
    let lead: Vec<Value> = lead.collect();
    let has_state =
        |states: &[DeliveryState]| deliveries.iter().any(|delivery| states.contains(&delivery.state));
    context! {
        fields,
        lead,
        reply,
        email => submission.email().map(visible),
        source => submission.source.clone(),
        error => submission.error.as_deref().map(visible),
        held => submission.held.as_ref().map(|held| context! { since => clock.time(held.since), because => held_because(submission, &held.because) }),
        is_unconfirmed => submission.status == Status::Unconfirmed,
        released => submission.released_at.map(|at| clock.time(at)),
        done => annotation.done_at.map(|at| clock.time(at)),
        deliveries => deliveries.iter().map(|delivery| delivery_value(delivery, channels, clock)).collect::<Vec<_>>(),
        can_hold => submission.held.is_none() && submission.error.is_none() && submission.status != Status::Delivered,
        // `error` is set only for a submission that was set aside, which has no deliveries.
        can_retry => submission.error.is_some()
            || submission.held.is_none() && has_state(&[DeliveryState::Parked, DeliveryState::Waiting]),
        ..row(submission, Some(annotation), clock)
    }
}

/// Why a submission is held: what screening found, in sentences, or else the recorded reason `because`, such
/// as that of a hold by an operator.
fn held_because(submission: &Submission, because: &str) -> String {
    let screening = submission.screening.as_ref();
    // A reason that screening recorded ends with points: `honeypot (100), origin (35); 135 of 100 points`.
    let reasons =
        screening.filter(|it| it.withheld && because.ends_with(" points")).map(|it| &it.reasons[..]);
    match reasons {
        Some(reasons @ [_, ..]) => {
            reasons.iter().map(|reason| describe_signal(reason.signal)).collect::<Vec<_>>().join(" ")
        }
        _ => visible(because),
    }
}

/// A delivery and its attempts. The due time is omitted while the channel is paused or off.
fn delivery_value(delivery: &Delivery, channels: &[ChannelOptions], clock: &Clock) -> Value {
    let receiver = Receiver::of(&delivery.channel, channels);
    let attempts = delivery.attempts.iter().enumerate().map(|(at, attempt)| {
        let is_last = at + 1 == delivery.attempts.len();
        attempt_value(attempt, is_last && delivery.state == DeliveryState::Sending, receiver, clock)
    });
    context! {
        channel => visible(&delivery.channel),
        state => delivery.state.name(),
        state_text => delivery_text(delivery.state),
        due => delivery.due_at.filter(|_| delivery.obstacle.is_none()).map(|due| clock.time(due)),
        obstacle => delivery.obstacle.as_ref().map(|obstacle| obstacle_value(obstacle, receiver, clock)),
        attempts => attempts.collect::<Vec<_>>(),
    }
}

/// The words for a delivery's state on pages. Parked deliveries are shown as failed.
fn delivery_text(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Waiting => "Waiting",
        DeliveryState::Sending => "Being sent",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::Held => "Held",
        DeliveryState::Parked => "Failed",
    }
}

/// The template values of an obstacle: whether the channel is off, since when, the reason as a sentence, and
/// the raw reply.
pub(super) fn obstacle_value(obstacle: &Obstacle, receiver: Receiver, clock: &Clock) -> Value {
    let text = (!obstacle.answer.is_empty()).then(|| describe_failure(receiver, &obstacle.answer));
    let answer = visible(&obstacle.answer);
    context! { off => obstacle.off, since => clock.time(obstacle.since), text, answer }
}

/// The template values of an attempt: a sentence about it, the raw reply, its number and its duration. One
/// without an end is under way if `is_under_way` is set; otherwise it was interrupted.
fn attempt_value(attempt: &Attempt, is_under_way: bool, receiver: Receiver, clock: &Clock) -> Value {
    let text = match &attempt.end {
        None if is_under_way => "It is being sent.".to_owned(),
        None => "It was interrupted, and is sent again.".to_owned(),
        Some(end) => describe_attempt(receiver, end.delivered, &end.answer),
    };
    let details = attempt.end.as_ref().map(|end| {
        let took = format_duration(attempt.began_at, end.at);
        format!("{} after {took}: {}", end.outcome(), visible(&end.answer))
    });
    context! {
        number => attempt.number,
        began => clock.time(attempt.began_at),
        text,
        details,
        has_failed => attempt.end.as_ref().is_some_and(|end| end.delivered != Some(true)),
    }
}
