//! Channels get submissions by the values of their fields.

use super::*;
use crate::change::{Changes, Queued};
use crate::submission::delivery::Condition;
use frontdesk_age::Recipient;
use frontdesk_forms::FieldValue;

fn named(name: &str) -> Condition {
    Condition::Fields(vec![("name".to_owned(), vec![FieldValue::from(name)])])
}

fn route(name: &str, when: Condition) -> Route {
    Route { when, ..Route::new(name) }
}

/// The channels that a submission is queued for, by name.
fn queued(fixture: &Fixture, id: Uuid) -> Vec<String> {
    let mut names: Vec<String> =
        fixture.deliveries(id).into_iter().map(|delivery| delivery.channel).collect();
    names.sort_unstable();
    names
}

#[test]
fn deliveries_are_queued_for_the_chosen_channels() {
    let fixture = Fixture::with_options(|options| {
        options.channels = vec![
            route("ada", named("Ada")),
            route("crm", Condition::Always),
            route("grace", named("Grace")),
            route("team", Condition::Otherwise),
        ];
    });
    // Only the contact form has a name.
    let ada = fixture.accept_new(&contact("for Ada"));
    let other = fixture.accept_new(&waitlist("other@example.com"));
    assert_eq!(queued(&fixture, ada), ["ada", "crm"]);
    assert_eq!(queued(&fixture, other), ["crm", "team"]);
    fixture.accept_repeat(&contact("for Ada"), ada);
}

#[test]
fn a_submission_without_a_match_is_kept_and_can_be_delivered_later() {
    let fixture = Fixture::with_options(|options| options.channels = vec![route("grace", named("Grace"))]);
    let id = fixture.accept_new(&contact("for Ada"));
    assert_eq!((queued(&fixture, id), fixture.status(id)), (Vec::new(), Status::Kept));
    // It is not delivered, and neither would be a repeat.
    fixture.accept_repeat(&contact("for Ada"), id);
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    let submission = reader.get(id).unwrap().unwrap();
    let now = Timestamp::now();
    let same = changes.deliver(&submission, &fixture.options.channels, now).unwrap();
    assert_eq!(same, Queued::NotAccepted);
    let channels = [route("grace", named("Grace")), route("ada", named("Ada")), Route::new("team")];
    assert_eq!(changes.deliver(&submission, &channels, now).unwrap(), Queued::Queued(1));
    assert_eq!(queued(&fixture, id), ["ada"]);
}

#[test]
fn a_repeat_is_new_once_a_channel_would_get_it() {
    let fixture = Fixture::with_options(|options| options.channels = vec![route("grace", named("Grace"))]);
    let kept = fixture.accept_new(&contact("for Ada"));
    let channels = vec![route("ada", named("Ada"))];
    fixture.store.reconfigure(&Options { channels, ..fixture.options.clone() });
    let id = fixture.accept_new(&contact("for Ada"));
    assert_ne!(id, kept);
    assert_eq!(queued(&fixture, id), ["ada"]);
}

#[test]
fn a_release_delivers_to_the_chosen_channels() {
    let links = [(Signal::Links, "4 links")];
    let fixture = Fixture::with_channels(&["team"], &[]);
    let id = fixture.accept_new(&contact("for Ada").held_for(&links));
    assert_eq!(queued(&fixture, id), ["team"]);
    let channels = [route("ada", named("Ada")), route("grace", named("Grace")), Route::new("team")];
    assert!(fixture.editor().release(id, &channels, Timestamp::now()).unwrap());
    // The delivery that was queued at first remains.
    assert_eq!(queued(&fixture, id), ["ada", "team"]);
}

#[test]
fn submissions_that_no_channel_gets_are_sealed_before_writing() {
    let recipient =
        Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap();
    let open = |when: Condition| {
        Fixture::with_options(|options| {
            options.intake.recipient = Some(recipient.clone());
            options.channels = vec![route("box", when)];
        })
    };
    let is_sealed = |fixture: &Fixture, id: Uuid| fixture.reader().get(id).unwrap().unwrap().sealed.is_some();
    let fixture = open(named("Grace"));
    let id = fixture.accept_new(&contact("for Ada"));
    assert!(is_sealed(&fixture, id) && queued(&fixture, id).is_empty());
    let fixture = open(named("Ada"));
    let id = fixture.accept_new(&contact("for Ada"));
    assert!(!is_sealed(&fixture, id));
    assert_eq!(queued(&fixture, id), ["box"]);
    // A held submission stays readable for each channel that accepts its form.
    let held = fixture.accept_new(&contact("held").held_for(&[(Signal::Links, "4 links")]));
    let to_be_sealed = |when: Condition| {
        let found = fixture.reader().to_be_sealed(&[route("other", when)], Uuid::nil(), 9).unwrap().0;
        found.iter().any(|submission| submission.id == held)
    };
    assert!(!to_be_sealed(named("Grace")));
}
