//! Submissions that are accepted but not processed yet, or that cannot be processed.

use super::*;
use crate::store::sql::form_definition::StoredDefinitions;
use crate::store::sql::values;

/// Fills the intake as if a process had ended before processing these submissions.
pub(super) fn pending(fixture: &Fixture, arrivals: &[Arrival]) -> Vec<Uuid> {
    let secret: [u8; 32] =
        fixture.fresh.sql().one_value("SELECT value FROM meta WHERE name = 'secret'", &[]).unwrap();
    let jobs: Vec<Accepting> =
        arrivals.iter().map(|arrival| row(arrival.clone(), &fixture.options)).collect();
    let (secret, mut ids) = (keyed_hash::Secret(secret), ids::Ids::default());
    let ids: Vec<Uuid> = jobs.iter().map(|job| ids.next(job.received_at)).collect();
    sql::intake::append(&*fixture.fresh.sql(), &secret, &mut StoredDefinitions::default(), &jobs, &ids)
        .unwrap();
    ids
}

#[test]
fn submissions_of_an_earlier_process_are_processed_at_the_start() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let first = fixture.accept_new(&contact("Hello"));
    let ids =
        pending(&fixture, &["Hello", "World", "World"].map(|message| later(&contact(message), MILLISECOND)));
    let fixture = fixture.reopen();
    let settle = |id| fixture.runtime.block_on(fixture.store.settle(id)).unwrap();
    assert_eq!(
        ids.iter().map(|id| settle(*id)).collect::<Vec<_>>(),
        [Accepted::Duplicate(first), Accepted::New(ids[1]), Accepted::Duplicate(ids[1])]
    );
    let listed: Vec<_> = fixture.list().iter().map(|s| (s.id, s.status, s.repeats)).collect();
    assert_eq!(listed, [(ids[1], Status::Waiting, 1), (first, Status::Waiting, 1)]);
    assert_eq!((fixture.count("intake"), fixture.count("delivery")), (0, 2));
}

/// One that is processed between two queries is found in both tables.
#[test]
fn a_submission_that_is_found_in_both_tables_is_removed_once() {
    let fixture = Fixture::new();
    let processed = fixture.accept_new(&contact("processed"));
    fixture.store.clone().close();
    let both = pending(&fixture, &["one", "two"].map(contact));
    fixture.sql(
        "INSERT INTO submission (id, form, received_at, fields, source)
         SELECT id, form, received_at, fields, source FROM intake",
    );
    let mut ids: Vec<[u8; 16]> = both.iter().chain([&processed]).map(|id| *id.as_bytes()).collect();
    ids.sort_unstable();
    let sql = fixture.fresh.sql();
    assert_eq!(sql::release_and_remove::accepted_among(&*sql, &ids, "").unwrap(), ids);
}

#[test]
fn unprocessed_submissions_are_part_of_the_inbox() {
    let fixture = Fixture::with_channels(&["crm"], &["contact"]);
    fixture.accept_new(&contact("processed"));
    // The server has stopped.
    let Fixture { store, options, runtime, fresh } = fixture;
    store.close();
    let fixture = Fixture {
        store: TestInbox::open(&Options::new(TempDir::new().unwrap().path().join("x.db"))).unwrap(),
        options,
        runtime,
        fresh,
    };
    let held = contact("held").held_for(&[(Signal::Links, "4 links")]);
    let ids = pending(
        &fixture,
        &[contact("pending"), waitlist("ada@example.com"), held].map(|arrival| later(&arrival, MILLISECOND)),
    );
    let statuses: Vec<_> = fixture.list().iter().map(|s| (s.id, s.status)).collect();
    // Nothing has been screened yet.
    assert_eq!(statuses[..3], [(ids[2], Status::Waiting), (ids[1], Status::Kept), (ids[0], Status::Waiting)]);
    let reader = fixture.reader();
    let of = |status| Filter { status: Some(status), ..Filter::default() };
    for (status, count) in [(Status::Held, 0), (Status::Kept, 1), (Status::Waiting, 3), (Status::Parked, 0)] {
        assert_eq!(reader.count(&of(status)).unwrap(), count, "{status}");
    }
    assert_eq!(reader.get(ids[0]).unwrap().unwrap().get("message"), Some("pending"));
    assert_eq!(
        reader.find(&ids[1].to_string()).unwrap(),
        IdMatch::One(Box::new(reader.get(ids[1]).unwrap().unwrap()))
    );
    assert_eq!(
        reader.daily_counts(&jiff::tz::TimeZone::UTC).unwrap().iter().map(|tally| tally.count).sum::<usize>(),
        4
    );
    let queue = reader.queue().unwrap();
    assert_eq!((queue.pending, queue.set_aside), (3, 0));
    assert!(queue.pending_since.is_some());
    assert!(!reader.catch_up(MILLISECOND).unwrap(), "no server processes it");
    assert_eq!(fixture.editor().count_from("Ada@example.com").unwrap(), 4);
    assert_eq!(fixture.editor().erase("ada@example.com").unwrap().submissions, 4);
    assert_eq!((fixture.list().len(), fixture.count("intake")), (0, 0));
}

#[test]
fn a_faulty_row_is_set_aside_and_delays_no_other() {
    let fixture = Fixture::in_file();
    fixture.accept_new(&contact("before"));
    fixture
        .connection()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON submission WHEN new.fields LIKE '%poison%'
             BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    let poison = fixture.runtime.block_on(fixture.store.accept(contact("poison"))).unwrap();
    let after = fixture.accept_new(&contact("after"));
    let listed: Vec<_> = fixture.list().iter().map(|s| (s.id, s.status)).collect();
    assert_eq!(listed[..2], [(after, Status::Kept), (poison, Status::Parked)]);
    let queue = fixture.reader().queue().unwrap();
    assert_eq!((queue.pending, queue.set_aside), (0, 1));
    let error = fixture.reader().get(poison).unwrap().unwrap().error.expect("the error is stored");
    assert!(error.contains("code 1811") && !error.contains("poison"), "{error}");
    fixture.store.health().unwrap();
    // Once the cause is removed, a retry processes the submission.
    fixture.connection().execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(fixture.editor().retry(&Retry::default(), Timestamp::UNIX_EPOCH).unwrap(), 1);
    fixture.accept_new(&contact("and on"));
    assert_eq!(fixture.runtime.block_on(fixture.store.settle(poison)).unwrap(), Accepted::New(poison));
}

#[test]
fn the_original_of_a_repeat_is_forgotten_after_a_day() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&contact("one"));
    fixture.accept_repeat(&contact("one"), id);
    assert_eq!(fixture.count("repeat"), 1);
    fixture.accept_new(&later(&contact("two"), DAY + MILLISECOND));
    assert_eq!(fixture.count("repeat"), 0);
}

#[test]
fn a_clean_stop_leaves_nothing_in_the_intake() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fixture.runtime.block_on(fixture.store.accept(contact(&number.to_string()))).unwrap();
    }
    let Fixture { store, fresh, .. } = fixture;
    store.close();
    let count =
        |table| fresh.sql().one_value::<i64>(&format!("SELECT count(*) FROM {table}"), values![]).unwrap();
    assert_eq!((count("intake"), count("submission")), (0, 300));
}
