//! Template values of submissions: texts for people. Everything is escaped when it is rendered.

use minijinja::{Value, context};

use super::clock::Clock;
use super::work::annotation_values;
use frontdesk_forms::text::{cut, visible, visible_lines};
use frontdesk_inbox::store::Annotation;
use frontdesk_inbox::submission::delivery::{Attempt, Delivery, DeliveryState, Obstacle};
use frontdesk_inbox::submission::{Status, Submission};
use frontdesk_inbox::time::format_duration;

/// Maximum length of a line in a list, in characters.
const MAX_LINE: usize = 160;

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

/// The first line of the preview that is not empty, or the address unless [`sender`] shows it; at most
/// [`MAX_LINE`] characters. A fixed text if the submission is encrypted.
fn first_line(submission: &Submission) -> String {
    if submission.sealed.is_some() {
        return "Encrypted to your key: `frontdesk inbox show --identity FILE ID` decrypts it".to_owned();
    }
    let message = submission.preview().unwrap_or_default();
    let line = message.lines().map(str::trim).find(|line| !line.is_empty());
    let email = submission.email().filter(|email| *email != sender(submission));
    let line = line.or(email).unwrap_or_default();
    let shown = cut(line, MAX_LINE);
    visible(shown) + if shown.len() < line.len() { "…" } else { "" }
}

/// One row of a list.
pub(super) fn row(submission: &Submission, annotation: Option<&Annotation>, clock: &Clock) -> Value {
    let reasons = submission.screening.iter().flat_map(|screening| &screening.reasons);
    let reasons: Vec<Value> = reasons
        .map(|reason| context! { name => reason.signal.name(), points => reason.points, detail => visible(&reason.detail) })
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

/// The values of a submission's page, including those of [`row`].
pub(super) fn details(
    submission: &Submission,
    annotation: &Annotation,
    deliveries: &[Delivery],
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
        held => submission.held.as_ref().map(|held| context! { since => clock.time(held.since), because => visible(&held.because) }),
        is_unconfirmed => submission.status == Status::Unconfirmed,
        released => submission.released_at.map(|at| clock.time(at)),
        done => annotation.done_at.map(|at| clock.time(at)),
        deliveries => deliveries.iter().map(|delivery| delivery_value(delivery, clock)).collect::<Vec<_>>(),
        can_hold => submission.held.is_none() && submission.error.is_none() && submission.status != Status::Delivered,
        can_retry => submission.error.is_some()
            || submission.held.is_none() && has_state(&[DeliveryState::Parked, DeliveryState::Waiting]),
        ..row(submission, Some(annotation), clock)
    }
}

/// A delivery and its attempts. The due time is omitted while the channel is paused or off.
fn delivery_value(delivery: &Delivery, clock: &Clock) -> Value {
    let attempts = delivery.attempts.iter().enumerate().map(|(at, attempt)| {
        let is_last = at + 1 == delivery.attempts.len();
        attempt_value(attempt, is_last && delivery.state == DeliveryState::Sending, clock)
    });
    context! {
        channel => visible(&delivery.channel),
        state => delivery.state.name(),
        state_text => delivery_text(delivery.state),
        due => delivery.due_at.filter(|_| delivery.obstacle.is_none()).map(|due| clock.time(due)),
        obstacle => delivery.obstacle.as_ref().map(|obstacle| obstacle_value(obstacle, clock)),
        attempts => attempts.collect::<Vec<_>>(),
    }
}

fn delivery_text(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Waiting => "Waiting",
        DeliveryState::Sending => "Being sent",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::Held => "Held",
        DeliveryState::Parked => "Failed",
    }
}

pub(super) fn obstacle_value(obstacle: &Obstacle, clock: &Clock) -> Value {
    context! { off => obstacle.off, since => clock.time(obstacle.since), answer => visible(&obstacle.answer) }
}

/// An attempt. One without an end is under way if `is_under_way` is set; otherwise it was interrupted.
fn attempt_value(attempt: &Attempt, is_under_way: bool, clock: &Clock) -> Value {
    let outcome = match &attempt.end {
        None if is_under_way => "under way".to_owned(),
        None => "interrupted".to_owned(),
        Some(end) => {
            format!("{} after {}", end.outcome(), format_duration(attempt.began_at, end.at))
        }
    };
    context! {
        number => attempt.number,
        began => clock.time(attempt.began_at),
        outcome,
        has_failed => attempt.end.as_ref().is_some_and(|end| end.delivered != Some(true)),
        answer => attempt.end.as_ref().map(|end| visible(&end.answer)),
    }
}
