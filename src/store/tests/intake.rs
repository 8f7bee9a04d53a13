//! Submissions that are accepted and not processed yet, or cannot be processed.

use super::*;
use crate::store::sql::values;

/// Fills the intake as if a process had ended before processing these submissions.
fn pending(desk: &Desk, arrivals: &[Arrival]) -> Vec<Uuid> {
    let secret: [u8; 32] =
        desk.fresh.sql().one("SELECT value FROM meta WHERE name = 'secret'", &[]).unwrap().get(0).unwrap();
    let jobs: Vec<Accepting> = arrivals.iter().map(|arrival| row(arrival.clone(), &desk.options)).collect();
    let (secret, mut ids) = (fingerprint::Secret(secret), ids::Ids::default());
    let ids: Vec<Uuid> = jobs.iter().map(|job| ids.next(job.received_at)).collect();
    sql::intake::append(&*desk.fresh.sql(), &secret, &jobs, &ids).unwrap();
    ids
}

#[test]
fn submissions_of_an_earlier_process_are_processed_at_the_start() {
    let desk = Desk::with_channels(&["crm"], &[]);
    let first = desk.keep_new(&contact("Hello"));
    let ids =
        pending(&desk, &["Hello", "World", "World"].map(|message| later(&contact(message), MILLISECOND)));
    let desk = desk.reopen();
    let settle = |id| desk.runtime.block_on(desk.store.settle(id)).unwrap();
    assert_eq!(
        ids.iter().map(|id| settle(*id)).collect::<Vec<_>>(),
        [Accepted::Duplicate(first), Accepted::New(ids[1]), Accepted::Duplicate(ids[1])]
    );
    let listed: Vec<_> = desk.list().iter().map(|s| (s.id, s.status, s.repeats)).collect();
    assert_eq!(listed, [(ids[1], Status::Waiting, 1), (first, Status::Waiting, 1)]);
    assert_eq!((desk.count("intake"), desk.count("delivery")), (0, 2));
}

#[test]
fn unprocessed_submissions_are_part_of_the_inbox() {
    let desk = Desk::with_channels(&["crm"], &["contact"]);
    desk.keep_new(&contact("processed"));
    // The server has stopped.
    let Desk { store, options, runtime, fresh } = desk;
    store.close();
    let desk = Desk {
        store: TestInbox::open(&Options::new(TempDir::new().unwrap().path().join("x.db"))).unwrap(),
        options,
        runtime,
        fresh,
    };
    let held = contact("held").held_for(&[(Signal::Links, "4 links")]);
    let ids = pending(
        &desk,
        &[contact("pending"), waitlist("ada@example.com"), held].map(|arrival| later(&arrival, MILLISECOND)),
    );
    let statuses: Vec<_> = desk.list().iter().map(|s| (s.id, s.status)).collect();
    // Nothing is screened yet.
    assert_eq!(statuses[..3], [(ids[2], Status::Waiting), (ids[1], Status::Kept), (ids[0], Status::Waiting)]);
    let reader = desk.reader();
    let of = |status| Filter { status: Some(status), ..Filter::default() };
    for (status, count) in [(Status::Held, 0), (Status::Kept, 1), (Status::Waiting, 3), (Status::Parked, 0)] {
        assert_eq!(reader.count(&of(status)).unwrap(), count, "{status}");
    }
    assert_eq!(reader.get(ids[0]).unwrap().unwrap().get("message"), Some("pending"));
    assert_eq!(
        reader.find(&ids[1].to_string()).unwrap(),
        IdMatch::One(Box::new(reader.get(ids[1]).unwrap().unwrap()))
    );
    assert_eq!(reader.daily_counts().unwrap().iter().map(|tally| tally.count).sum::<usize>(), 4);
    let queue = reader.queue().unwrap();
    assert_eq!((queue.pending, queue.set_aside), (3, 0));
    assert!(queue.pending_since.is_some());
    assert!(!reader.catch_up(MILLISECOND).unwrap(), "nobody processes it");
    assert_eq!(desk.editor().count_from("Ada@example.com").unwrap(), 4);
    assert_eq!(desk.editor().erase("ada@example.com").unwrap().submissions, 4);
    assert_eq!((desk.list().len(), desk.count("intake")), (0, 0));
}

#[test]
fn a_faulty_row_is_set_aside_and_delays_no_other() {
    let desk = Desk::in_file();
    desk.keep_new(&contact("before"));
    desk.connection()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON submission WHEN new.fields LIKE '%poison%'
             BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    let poison = desk.runtime.block_on(desk.store.accept(contact("poison"))).unwrap();
    let after = desk.keep_new(&contact("after"));
    let listed: Vec<_> = desk.list().iter().map(|s| (s.id, s.status)).collect();
    assert_eq!(listed[..2], [(after, Status::Kept), (poison, Status::Parked)]);
    let queue = desk.reader().queue().unwrap();
    assert_eq!((queue.pending, queue.set_aside), (0, 1));
    let error = desk.reader().get(poison).unwrap().unwrap().error.expect("it says why");
    assert!(error.contains("SQLite 1811") && !error.contains("poison"), "{error}");
    desk.store.health().unwrap();
    // Once its cause is gone it is tried again.
    desk.connection().execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(desk.editor().retry(&Retry::default(), Timestamp::UNIX_EPOCH).unwrap(), 1);
    desk.keep_new(&contact("and on"));
    assert_eq!(desk.runtime.block_on(desk.store.settle(poison)).unwrap(), Accepted::New(poison));
}

#[test]
fn the_original_of_a_repeat_is_forgotten_after_a_day() {
    let desk = Desk::new();
    let id = desk.keep_new(&contact("one"));
    desk.keep_again(&contact("one"), id);
    assert_eq!(desk.count("repeat"), 1);
    desk.keep_new(&later(&contact("two"), DAY + MILLISECOND));
    assert_eq!(desk.count("repeat"), 0);
}

#[test]
fn a_clean_stop_leaves_nothing_in_the_intake() {
    let desk = Desk::new();
    for number in 0..300 {
        desk.runtime.block_on(desk.store.accept(contact(&number.to_string()))).unwrap();
    }
    let Desk { store, fresh, .. } = desk;
    store.close();
    let count = |table| {
        fresh.sql().one(&format!("SELECT count(*) FROM {table}"), values![]).unwrap().get::<i64>(0).unwrap()
    };
    assert_eq!((count("intake"), count("submission")), (0, 300));
}
