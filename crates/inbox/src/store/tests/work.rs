//! Notes, assignees, follow-ups and replies, and the submissions of one person.

use super::*;
use crate::store::sql::values;
use jiff::civil::Date;

const NOTE: &str = "Call Ada back";

fn now() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

fn texts(fixture: &Fixture, id: Uuid) -> Vec<String> {
    let notes = fixture.reader().notes(&[id]).unwrap().remove(&id).unwrap_or_default();
    notes.iter().map(|note| format!("{} {}", note.user, note.text)).collect()
}

fn annotation(fixture: &Fixture, id: Uuid) -> Annotation {
    fixture.reader().annotations(&[id]).unwrap().remove(&id).unwrap()
}

#[test]
fn notes_are_a_thread_in_which_users_change_their_own() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&contact("one"));
    let mut ada = fixture.editor().on_behalf_of("ada");
    let mut grace = fixture.editor().on_behalf_of("grace");
    assert_eq!(ada.add_note(id, " \n", now()).unwrap(), Annotated::Unchanged);
    assert_eq!(ada.add_note(id, " One\0\n", now()).unwrap(), Annotated::Changed);
    assert_eq!(ada.add_note(id, "One\0", now()).unwrap(), Annotated::Unchanged, "a form was sent twice");
    assert_eq!(grace.add_note(id, "Two", now() + DAY).unwrap(), Annotated::Changed);
    assert_eq!(texts(&fixture, id), ["ada One\u{fffd}", "grace Two"]);
    assert_eq!(annotation(&fixture, id).notes, 2);
    let notes = fixture.reader().notes(&[id]).unwrap().remove(&id).unwrap();
    assert_eq!((notes[0].at, notes[1].at), (now(), now() + DAY));
    assert_eq!(grace.edit_note(id, notes[0].id, "Hers", now()).unwrap(), Annotated::Unchanged);
    assert_eq!(ada.edit_note(Uuid::max(), notes[0].id, "x", now()).unwrap(), Annotated::Missing);
    assert_eq!(ada.edit_note(id, notes[0].id, "Mine", now()).unwrap(), Annotated::Changed);
    assert_eq!(ada.edit_note(id, notes[0].id, "Mine", now()).unwrap(), Annotated::Unchanged);
    assert_eq!(grace.edit_note(id, notes[1].id, " ", now()).unwrap(), Annotated::Changed);
    assert_eq!(texts(&fixture, id), ["ada Mine"]);
    let log = fixture.reader().operator_log(None, 100).unwrap();
    let log: Vec<_> = log.iter().rev().map(|entry| format!("{} {}", entry.user, entry.action)).collect();
    assert_eq!(log, ["ada note", "grace note", "ada edit-note", "grace remove-note"]);
}

#[test]
fn notes_are_bounded_in_length_and_number() {
    let fixture = Fixture::new();
    let [id, other] = ["one", "two"].map(|message| fixture.accept_new(&contact(message)));
    let mut editor = fixture.editor().on_behalf_of("ada");
    assert_eq!(editor.add_note(id, &"ä".repeat(MAX_NOTE), now()).unwrap(), Annotated::Changed);
    let long = editor.add_note(id, &"ä".repeat(MAX_NOTE + 1), now()).unwrap_err();
    assert!(matches!(long, StoreError::NoteTooLong { length: 4001, max: MAX_NOTE }), "{long}");
    for n in 1..MAX_NOTES {
        assert_eq!(editor.add_note(id, &n.to_string(), now()).unwrap(), Annotated::Changed);
    }
    let many = editor.add_note(id, "one more", now()).unwrap_err();
    assert!(matches!(many, StoreError::TooManyNotes { max: MAX_NOTES }), "{many}");
    assert_eq!(editor.add_note(other, "one more", now()).unwrap(), Annotated::Changed);
    assert_eq!(editor.add_note(Uuid::max(), NOTE, now()).unwrap(), Annotated::Missing);
}

#[test]
fn a_removed_submission_takes_its_notes_and_annotation_with_it() {
    let fixture = Fixture::new();
    let [one, two] = ["one", "two"].map(|message| fixture.accept_new(&contact(message)));
    let mut editor = fixture.editor();
    for id in [one, two] {
        editor.add_note(id, NOTE, now()).unwrap();
        editor.assign(id, Some("ada")).unwrap();
    }
    assert!(editor.hold(one, "odd", now()).unwrap());
    assert_eq!(editor.discard(&[one], Timestamp::UNIX_EPOCH).unwrap().submissions, 1);
    assert_eq!([fixture.count("annotation"), fixture.count("note")], [1, 1]);
    assert_eq!(editor.erase("ada@example.com").unwrap().submissions, 1);
    assert_eq!([fixture.count("annotation"), fixture.count("note")], [0, 0]);
    assert!(!fixture.files_hold(NOTE));
    assert_eq!(fixture.count("operator_log"), 7);
}

#[test]
fn a_submission_has_an_assignee_a_follow_up_and_a_reply() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&contact("one"));
    let mut editor = fixture.editor().on_behalf_of("ada");
    let day = Date::constant(2026, 11, 27);
    assert_eq!(editor.assign(id, None).unwrap(), Annotated::Unchanged);
    assert_eq!(editor.assign(id, Some(" grace\n")).unwrap(), Annotated::Changed);
    assert_eq!(editor.assign(id, Some("grace")).unwrap(), Annotated::Unchanged);
    assert_eq!(editor.set_follow_up(id, Some(day)).unwrap(), Annotated::Changed);
    assert_eq!(editor.set_follow_up(id, Some(day)).unwrap(), Annotated::Unchanged);
    assert_eq!(editor.set_replied(id, true, now()).unwrap(), Annotated::Changed);
    let second = jiff::SignedDuration::from_secs(1);
    assert_eq!(editor.set_replied(id, true, now() + second).unwrap(), Annotated::Unchanged);
    let mut expected = Annotation {
        assignee: Some("grace".to_owned()),
        follow_up: Some(day),
        replied_at: Some(now()),
        replied_by: Some("ada".to_owned()),
        ..Annotation::default()
    };
    assert_eq!(annotation(&fixture, id), expected);
    assert!(expected.is_due(day) && !expected.is_due(day.yesterday().unwrap()));
    editor.set_done(id, true, now()).unwrap();
    expected.done_at = Some(now());
    assert_eq!(annotation(&fixture, id), expected);
    assert!(!expected.is_due(day), "what is done does not remind");
    assert_eq!(editor.set_replied(id, true, now() + DAY).unwrap(), Annotated::Changed);
    assert_eq!(annotation(&fixture, id).replied_at, Some(now() + DAY));
    for _ in 0..2 {
        editor.set_replied(id, false, now()).unwrap();
        editor.set_follow_up(id, None).unwrap();
        editor.assign(id, None).unwrap();
    }
    assert_eq!(annotation(&fixture, id), Annotation { done_at: Some(now()), ..Annotation::default() });
    let log = fixture.reader().operator_log(None, 100).unwrap();
    let log: Vec<_> = log.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(log, ["assign", "follow-up", "reply", "done", "reply", "undo-reply", "follow-up", "assign"]);
    assert_eq!(editor.assign(Uuid::max(), Some("ada")).unwrap(), Annotated::Missing);
}

#[test]
fn lists_filter_by_assignee_and_by_due_follow_up() {
    let fixture = Fixture::new();
    let ids: Vec<Uuid> = (0..4).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let mut editor = fixture.editor();
    let today = Date::constant(2026, 11, 20);
    for (id, name) in [(ids[0], "grace"), (ids[1], "ada"), (ids[2], "grace")] {
        editor.assign(id, Some(name)).unwrap();
    }
    for (id, day) in
        [(ids[0], today), (ids[1], today.tomorrow().unwrap()), (ids[3], today.yesterday().unwrap())]
    {
        editor.set_follow_up(id, Some(day)).unwrap();
    }
    let reader = fixture.reader();
    let check = |filter: Filter, expected: &[Uuid]| {
        let page = reader.page(&filter, None, 50, &|| false).unwrap();
        let found: Vec<Uuid> = page.submissions.iter().map(|submission| submission.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        let listed = reader.list(&filter).unwrap().map(|found| found.unwrap().id);
        assert_eq!(listed.collect::<Vec<_>>(), expected, "{filter:?}");
    };
    let assigned = |name: &str| Filter { assignee: Some(name.to_owned()), ..Filter::default() };
    let due = Filter { follow_up_until: Some(today), ..Filter::default() };
    check(assigned("grace"), &[ids[2], ids[0]]);
    check(assigned(""), &[ids[3]]);
    check(assigned("eve"), &[]);
    check(due.clone(), &[ids[3], ids[0]]);
    check(Filter { assignee: Some("grace".to_owned()), ..due.clone() }, &[ids[0]]);
    editor.set_done(ids[3], true, now()).unwrap();
    check(Filter { is_done: Some(false), ..due.clone() }, &[ids[0]]);
    assert_eq!(reader.due_follow_ups(today).unwrap(), [(Some("grace".to_owned()), 1)]);
    assert_eq!(reader.assignees(9).unwrap(), ["ada", "grace"]);
    assert_eq!(reader.assignees(1).unwrap(), ["ada"]);
}

#[test]
fn a_due_follow_up_is_found_behind_many_assignments() {
    let fixture = Fixture::new();
    let ids: Vec<Uuid> = (0..300).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let mut editor = fixture.editor();
    for id in &ids {
        editor.assign(*id, Some("grace")).unwrap();
    }
    let today = Date::constant(2026, 11, 20);
    editor.set_follow_up(ids[0], Some(today)).unwrap();
    let due =
        Filter { assignee: Some("grace".to_owned()), follow_up_until: Some(today), ..Filter::default() };
    // The time is up after the first read, as it may be for the daily mail, so that read must find it.
    let page = fixture.reader().page(&due, None, 9, &|| true).unwrap();
    assert_eq!(page.submissions.iter().map(|submission| submission.id).collect::<Vec<_>>(), &ids[..1]);
    assert!(!page.is_partial);
}

#[test]
fn a_person_has_all_submissions_with_the_address() {
    let fixture = Fixture::new();
    let ids: Vec<Uuid> = (0..3).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let reader = fixture.reader();
    let person = reader.person_hash("ADA@example.com").unwrap();
    assert_eq!(reader.person_of(ids[0]).unwrap(), Some(person));
    assert_eq!(reader.person_of(Uuid::max()).unwrap(), None);
    let found = |before, limit| -> Vec<Uuid> {
        let found = reader.person_submissions(&person, before, limit).unwrap();
        found.iter().map(|submission| submission.id).collect()
    };
    assert_eq!(found(None, 2), [ids[2], ids[1]]);
    assert_eq!(found(Some(ids[1]), 2), [ids[0]]);
    let first_at = reader.get(ids[0]).unwrap().unwrap().received_at;
    assert_eq!(reader.person(&person).unwrap(), Some(PersonSummary { submissions: 3, first_at }));
    // The hash of another address of a submission is among others.
    fixture
        .fresh
        .sql()
        .execute(
            "UPDATE submission SET sender = ?2, other_senders = ?3 WHERE id = ?1",
            values![ids[1], [7_u8; 16], [[8_u8; 16], person].concat()],
        )
        .unwrap();
    assert_eq!(found(None, 9), [ids[2], ids[1], ids[0]]);
    assert_eq!(reader.person(&[7; 16]).unwrap().unwrap().submissions, 1);
    assert_eq!(reader.person(&[9; 16]).unwrap(), None);
    assert_eq!(fixture.editor().erase_person(&person).unwrap().submissions, 3);
    assert_eq!(reader.person(&person).unwrap(), None);
}
