//! Submissions whose form's definition changes or is removed after they were accepted.

use super::*;
use crate::submission::delivery_outcome::Cause;
use frontdesk_forms::definition::FormFile;
use frontdesk_forms::{DedupKey, FieldKind, Form, FormSet};

/// A definition of the form `book` with this label for its first address. Without `has_note`, as if the
/// operator had removed two fields.
fn book(label: &str, has_note: bool) -> &'static Form {
    let note = "[[field]]\nname = \"cc\"\ntype = \"email\"\nlabel = \"Copy to\"\nrequired = false\n\
                [[field]]\nname = \"note\"\ntype = \"multiline\"\nlabel = \"Note\"\nrequired = false\n";
    let text = format!(
        "title = \"Book a demo\"\ndescription = \"Choose a day.\"\nsubmit = \"Book\"\nunique = \"work\"\n\
         [[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"{label}\"\nrequired = true\n{}",
        if has_note { note } else { "" }
    );
    FormFile::read("book", &text, "forms/book.toml").unwrap().form
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A submission with the first definition.
fn booking(work: &str, cc: &str) -> Arrival {
    let body = serde_json::json!({ "work": work, "cc": cc, "note": "\nFriday?" });
    arrival(entry(book("Work e-mail", true), &body.to_string()))
}

/// A submission with a definition that has another label and lacks fields.
fn changed(work: &str) -> Arrival {
    arrival(entry(book("Your address", false), &serde_json::json!({ "work": work }).to_string()))
}

fn assert_is_shown_as_sent(submission: &Submission) {
    let form = submission.definition.unwrap();
    assert_eq!(*form, *book("Work e-mail", true));
    let labels: Vec<&str> = submission.fields.iter().map(|(name, _)| submission.label(name)).collect();
    assert_eq!(labels, ["Work e-mail", "Copy to", "Note"]);
    assert_eq!((submission.email(), submission.title()), (Some("ada@example.com"), "Book a demo"));
    assert_eq!(submission.preview().as_deref(), Some("\nFriday?"));
}

#[test]
fn a_submission_is_shown_with_the_definition_that_it_was_sent_with() {
    let fixture = Fixture::new();
    let first = fixture.accept_new(&booking("ada@example.com", "bob@example.com"));
    let second = fixture.accept_new(&later(&changed("eve@example.com"), DAY));
    let get = |fixture: &Fixture, id| fixture.reader().get(id).unwrap().unwrap();
    assert_is_shown_as_sent(&get(&fixture, first));
    assert_eq!(get(&fixture, second).label("work"), "Your address");
    assert_eq!(get(&fixture, second).label("note"), "note");
    // The first definition is used again, by this writer and after a restart.
    fixture.accept_new(&booking("mia@example.com", "bob@example.com"));
    let fixture = fixture.reopen();
    fixture.accept_new(&booking("ted@example.com", "bob@example.com"));
    assert_eq!(fixture.count("definition"), 2);
    let stored = fixture.reader().definitions().unwrap();
    assert_eq!(stored, [book("Work e-mail", true), book("Your address", false)]);
    assert_eq!(fixture.reader().count_by_form().unwrap(), [("book".to_owned(), 4)].into());
    assert_is_shown_as_sent(&get(&fixture, first));
}

#[test]
fn without_a_stored_definition_the_built_in_one_is_used_or_the_names() {
    let fixture = Fixture::new();
    let booked = fixture.accept_new(&booking("ada@example.com", "bob@example.com"));
    let sent = fixture.accept_new(&contact("Hello"));
    fixture.sql("UPDATE submission SET definition = NULL");
    let get = |id| fixture.reader().get(id).unwrap().unwrap();
    assert_eq!((get(sent).definition, get(sent).label("email")), (Some(*CONTACT), "E-mail"));
    let booked = get(booked);
    assert_eq!((booked.definition, booked.label("work"), booked.title()), (None, "work", "book"));
    assert_eq!(booked.fields.len(), 3);
}

#[test]
fn a_definition_is_stored_by_the_transaction_that_stores_the_submission() {
    let fixture = Fixture::new();
    fixture.store.clone().close();
    let secret = keyed_hash::Secret([7; 32]);
    let jobs = [row(booking("ada@example.com", "bob@example.com"), &fixture.options)];
    let sql = fixture.fresh.sql();
    let append = || {
        let mut definitions = sql::form_definition::StoredDefinitions::default();
        sql::intake::append(&*sql, &secret, &mut definitions, &jobs, &[Uuid::from_u128(1)])
    };
    let rolled_back = sql.transaction(|| append().and(Err::<(), _>(StoreError::Full)));
    assert!(matches!(rolled_back, Err(StoreError::Full)));
    assert_eq!((fixture.count("definition"), fixture.count("intake")), (0, 0));
    sql.transaction(append).unwrap();
    assert_eq!((fixture.count("definition"), fixture.count("intake")), (1, 1));
}

#[test]
fn a_pending_submission_is_processed_with_its_own_definition() {
    // No configuration of this test has the form: it was removed after the submissions were accepted.
    let fixture = Fixture::with_channels(&["box"], &["book"]);
    assert_eq!(FormSet::built_in().named("book"), None);
    fixture.store.clone().close();
    let pending = intake::pending(
        &fixture,
        &[
            booking("ada@example.com", "bob@example.com"),
            later(&booking("ADA@example.com", "eve@example.com"), 30 * DAY),
        ],
    );
    assert_is_shown_as_sent(&fixture.reader().get(pending[0]).unwrap().unwrap());
    let fixture = fixture.reopen();
    assert!(fixture.reader().catch_up(Duration::from_secs(10)).unwrap());
    let [submission] = &fixture.list()[..] else { panic!("{:?}", fixture.list()) };
    assert_is_shown_as_sent(submission);
    // The definition says that each address counts once, for good.
    assert_eq!(submission.repeats, 1);
    assert_eq!(submission.definition.unwrap().dedup_key, DedupKey::Field("work"));
}

#[test]
fn deliveries_and_retries_use_the_definition_of_the_submission() {
    let fixture = Fixture::with_channels(&["box"], &["book"]);
    fixture.accept_new(&booking("ada@example.com", "bob@example.com"));
    let fixture = fixture.reopen();
    let [first] = &fixture.claim("box", at(0))[..] else { panic!() };
    assert_is_shown_as_sent(&first.submission);
    let failed = Outcome::failed(Cause::Channel, "busy");
    fixture.record(first, &failed, NextStep::RetryAt(at(10)), at(1));
    fixture.accept_new(&changed("eve@example.com"));
    let fixture = fixture.reopen();
    let claimed = fixture.claim("box", at(20));
    let retry = claimed.iter().find(|claimed| claimed.is_retry).unwrap();
    assert_is_shown_as_sent(&retry.submission);
    let other = claimed.iter().find(|claimed| !claimed.is_retry).unwrap();
    assert_eq!(other.submission.label("work"), "Your address");
}

#[test]
fn every_address_of_a_submission_erases_it() {
    let fixture = Fixture::new();
    fixture.accept_new(&booking("ada@example.com", "bob@example.com"));
    fixture.accept_new(&booking("eve@example.com", "Ada@Example.com"));
    let other = fixture.accept_new(&booking("mia@example.com", "bob@example.com"));
    let encrypted = fixture.accept_new(&booking("ted@example.com", "zoe@example.com"));
    assert!(fixture.runtime.block_on(fixture.store.seal(encrypted, b"sealed".to_vec())).unwrap());
    let mut editor = fixture.editor();
    assert_eq!(editor.count_from("ADA@example.com").unwrap(), 2);
    assert_eq!(editor.count_from("nobody@example.com").unwrap(), 0);
    assert_eq!(editor.erase("ada@example.com").unwrap().submissions, 2);
    assert_eq!(editor.erase("zoe@example.com").unwrap().submissions, 1);
    assert_eq!(fixture.list().iter().map(|s| s.id).collect::<Vec<_>>(), [other]);
    // Removed texts are not in the definition, which stays.
    assert!(!fixture.files_hold("eve@example.com"));
    assert_eq!(editor.erase("bob@example.com").unwrap().submissions, 1);
    assert_eq!((fixture.list().len(), fixture.count("definition")), (0, 1));
    let kinds = fixture.reader().definitions().unwrap()[0].all_fields().map(|field| field.kind);
    assert!(kinds.eq([FieldKind::Email, FieldKind::Email, FieldKind::Multiline]));
}
