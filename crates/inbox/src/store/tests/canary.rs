//! Test submissions of the canary: processed like others, and part of no list, count or statistic.

use super::*;
use crate::store::sql::values;
use crate::store::{CanaryKey, CanaryProgress, CanaryStatus};

const NONCE: Hash = [7; 16];

#[test]
fn a_token_can_be_used_once_and_only_during_its_run() {
    let fixture = Fixture::new();
    let accept = |nonce: Hash, form: &'static str| {
        fixture.runtime.block_on(fixture.store.change(move |tx| tx.use_canary(&nonce, form, at(1)))).unwrap()
    };
    assert!(!accept(NONCE, "contact"), "no run has begun");
    begin(&fixture);
    assert!(!accept(NONCE, "waitlist"), "another form");
    assert!(!accept([8; 16], "contact"), "another nonce");
    assert!(accept(NONCE, "contact"));
    assert!(!accept(NONCE, "contact"), "used before");
    begin_with(&fixture, [9; 16]);
    fixture.runtime.block_on(fixture.store.change(|tx| tx.end_canary_run(&[[9; 16]]))).unwrap();
    assert!(!accept([9; 16], "contact"), "the run has ended");
}

#[test]
fn a_processed_canary_becomes_no_submission() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    begin(&fixture);
    let visitor = fixture.accept_new(&contact("Hello"));
    let arrival = contact("Hello");
    let id = fixture.runtime.block_on(fixture.store.intake.accept_canary(arrival.entry, NONCE, at(1)));
    let id = id.unwrap();
    fixture.runtime.block_on(fixture.store.settle(id)).unwrap();
    assert_eq!(progress(&fixture), CanaryProgress { is_accepted: false, is_processed: true });
    let listed: Vec<_> = fixture.list().iter().map(|found| (found.id, found.repeats)).collect();
    assert_eq!(listed, [(visitor, 0)]);
    let tables = ["intake", "submission", "delivery", "repeat"];
    assert_eq!(tables.map(|table| fixture.count(table)), [0, 1, 1, 0]);
}

#[test]
fn a_waiting_canary_is_part_of_nothing() {
    let Fixture { store, options, runtime, fresh } = Fixture::with_channels(&["crm"], &[]);
    // The server has stopped, so that nothing processes the row.
    store.close();
    let other = Options::new(TempDir::new().unwrap().path().join("x.db"));
    let fixture = Fixture { store: TestInbox::open(&other).unwrap(), options, runtime, fresh };
    insert_waiting(&fixture, None);
    let reader = fixture.reader();
    assert_eq!(fixture.count("intake"), 1);
    assert_eq!((reader.queue().unwrap().pending, fixture.list().len()), (0, 0));
    assert_eq!(reader.count(&Filter::default()).unwrap(), 0);
    assert_eq!(reader.forms().unwrap(), Vec::<String>::new());
    assert_eq!(fixture.count("definition"), 0);
    let waiting = Filter { status: Some(Status::Waiting), ..Filter::default() };
    assert!(reader.page(&waiting, None, 10, &|| false).unwrap().submissions.is_empty());
    let of_form = Filter { form: Some("contact".to_owned()), ..Filter::default() };
    assert!(reader.page(&of_form, None, 10, &|| false).unwrap().submissions.is_empty());
    let mut editor = fixture.editor();
    assert_eq!(editor.erase("ada@example.com").unwrap().submissions, 0);
    assert_eq!(fixture.count("intake"), 1);
}

#[test]
fn a_faulty_canary_is_removed_and_never_set_aside() {
    let fixture = Fixture::new();
    let id = insert_waiting(&fixture, Some("so that it is not processed"));
    fixture.runtime.block_on(fixture.store.change(move |tx| tx.set_aside(id, "damaged"))).unwrap();
    assert_eq!(fixture.count("intake"), 0);
}

#[test]
fn maintenance_removes_canaries_whose_run_never_ended() {
    let fixture = Fixture::new();
    begin(&fixture);
    insert_waiting(&fixture, Some("so that it is not processed"));
    let remove = |before| {
        fixture.runtime.block_on(fixture.store.change(move |tx| tx.remove_canaries(before))).unwrap();
        [fixture.count("canary"), fixture.count("intake")]
    };
    assert_eq!(remove(at(0)), [1, 1]);
    assert_eq!(remove(at(2)), [0, 0]);
}

#[test]
fn the_status_of_the_last_run_is_stored() {
    let fixture = Fixture::new();
    assert_eq!(fixture.reader().canary_status().unwrap(), None);
    let status = CanaryStatus {
        started_at: at(1),
        ended_at: at(2),
        is_ok: false,
        every: 60,
        last_success_at: None,
        failing_since: Some(at(2)),
        is_notified: true,
        summary: "form contact: …".to_owned(),
        report: serde_json::json!({ "steps": [] }),
    };
    let stored = status.clone();
    fixture.runtime.block_on(fixture.store.change(move |tx| tx.store_canary_status(&stored))).unwrap();
    assert_eq!(fixture.reader().canary_status().unwrap(), Some(status.clone()));
    assert!(!status.is_overdue(at(2 + 120)) && status.is_overdue(at(2 + 121)));
}

#[test]
fn all_handles_of_a_store_have_the_same_key() {
    let fixture = Fixture::new();
    let key = || fixture.runtime.block_on(fixture.store.canary_key()).unwrap();
    let token = key().issue("contact", &CanaryKey::nonce(), at(0));
    assert!(key().verify(&token, "contact", at(0)).is_some());
    let other = Fixture::new();
    let other = other.runtime.block_on(other.store.canary_key()).unwrap();
    assert!(other.verify(&token, "contact", at(0)).is_none());
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn begin(fixture: &Fixture) {
    begin_with(fixture, NONCE);
}

fn begin_with(fixture: &Fixture, nonce: Hash) {
    let begin = fixture.store.change(move |tx| tx.begin_canary_run(&[(nonce, "contact")], at(1)));
    fixture.runtime.block_on(begin).unwrap();
}

fn progress(fixture: &Fixture) -> CanaryProgress {
    fixture.runtime.block_on(fixture.store.change(|tx| tx.canary_progress(&NONCE))).unwrap()
}

/// Inserts a test submission into the intake.
fn insert_waiting(fixture: &Fixture, error: Option<&str>) -> Uuid {
    let id = Uuid::from_u128(1);
    let insert = "INSERT INTO intake (id, form, received_at, fields, source, evidence, channels, content, error, canary)
        VALUES (?1, 'contact', ?2, '{\"email\":\"ada@example.com\"}', ?3, '{}', 0, ?3, ?4, ?3)";
    fixture.fresh.sql().execute(insert, values![id, at(1), NONCE, error]).unwrap();
    id
}
