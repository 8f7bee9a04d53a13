//! Changes to many submissions run in bounded transactions, and new submissions are accepted between them.

use super::*;
use crate::store::sql::form_definition::StoredDefinitions;
use crate::store::sql::inbox_editor::Selected;
use crate::store::sql::{intake, values};
use crate::submission::delivery::Capacity;
use crate::submission::delivery_outcome::Cause;
use frontdesk_screening::verdict::Signal;

const LINKS: [(Signal, &str); 1] = [(Signal::Links, "4 links")];
const LEASE: Duration = Duration::from_mins(3);

#[test]
fn many_are_erased_in_transactions_of_a_bounded_size() {
    let fixture = Fixture::new();
    fixture.accept_many(450);
    let other = fixture.accept_new(&waitlist("else@example.com"));
    // The newest submission cannot be removed: the transactions before it stay committed, and its own is
    // rolled back.
    let id = if fixture.options.url.file().is_some() { "blob" } else { "uuid" };
    fixture.sql(&format!("CREATE TABLE guard (submission {id} REFERENCES submission (id))"));
    fixture
        .sql("INSERT INTO guard SELECT id FROM submission WHERE form = 'contact' ORDER BY id DESC LIMIT 1");
    fixture.editor().erase("ada@example.com").unwrap_err();
    assert_eq!(fixture.count("submission"), 51);
    fixture.sql("DROP TABLE guard");
    // A second call completes the erasure.
    assert_eq!(fixture.editor().erase("ada@example.com").unwrap().submissions, 50);
    assert_eq!(fixture.list().iter().map(|submission| submission.id).collect::<Vec<_>>(), [other]);
}

#[test]
fn submissions_are_accepted_while_others_are_erased() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    fixture.accept_many(1500);
    let place = fixture.options.url.clone();
    let erase = std::thread::spawn(move || Editor::open(place).unwrap().erase("ada@example.com").unwrap());
    while fixture.count("submission") == 1500 && !erase.is_finished() {
        std::thread::sleep(MILLISECOND);
    }
    let (mut accepted, mut late) = (0, Vec::new());
    while !erase.is_finished() || accepted < 3 {
        fixture.accept_new(&waitlist(&format!("{accepted}@example.com")));
        // From the same address, but accepted after the operator's call, so they stay.
        late.push(fixture.accept_new(&contact(&format!("late {accepted}"))));
        accepted += 1;
    }
    let erased = erase.join().unwrap();
    assert_eq!((erased.submissions, erased.deliveries), (1500, 1500));
    let listed: Vec<Uuid> = fixture.list().iter().map(|submission| submission.id).collect();
    assert_eq!(listed.len(), 2 * accepted);
    assert!(late.iter().all(|id| listed.contains(id)));
    fixture.store.health().unwrap();
}

#[test]
fn an_erase_leaves_nothing_of_repeats() {
    let fixture = Fixture::new();
    let (erased, other) = (contact("one"), waitlist("else@example.com"));
    for arrival in [&erased, &other] {
        let id = fixture.accept_new(arrival);
        fixture.accept_repeat(arrival, id);
    }
    assert_eq!(fixture.editor().erase("ada@example.com").unwrap().submissions, 1);
    assert_eq!(fixture.count("repeat"), 1);
    // As if an erasure had been interrupted before it removed the repeats.
    fixture.sql("DELETE FROM submission");
    assert_eq!(fixture.editor().erase("ada@example.com").unwrap().submissions, 0);
    assert_eq!(fixture.count("repeat"), 0);
}

#[test]
fn a_submission_that_is_being_processed_is_erased_after_that() {
    let fixture = Fixture::new();
    if fixture.options.url.file().is_some() {
        return;
    }
    let locked = fixture.accept_new(&contact("locked"));
    fixture.accept_new(&later(&contact("other"), DAY));
    let other = fixture.fresh.sql();
    other.execute("BEGIN", &[]).unwrap();
    other.query("SELECT 1 FROM submission ORDER BY id LIMIT 1 FOR UPDATE", &[]).unwrap();
    let place = fixture.options.url.clone();
    let erase = std::thread::spawn(move || Editor::open(place).unwrap().erase("ada@example.com"));
    while fixture.list().iter().map(|submission| submission.id).collect::<Vec<_>>() != [locked] {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!erase.is_finished());
    other.execute("COMMIT", &[]).unwrap();
    assert_eq!(erase.join().unwrap().unwrap().submissions, 2);
}

#[test]
fn many_are_retried_in_transactions_of_a_bounded_size() {
    let fixture = Fixture::in_file_with_channels(&["crm"]);
    fixture.accept_many(450);
    fixture.sql("UPDATE delivery SET state = 'parked', due_at = NULL");
    fixture.sql(
        "CREATE TRIGGER guard BEFORE UPDATE ON delivery WHEN new.submission = (SELECT max(submission) FROM delivery)
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    let retry = Retry { parked_only: true, ..Retry::default() };
    fixture.editor().retry(&retry, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(fixture.reader().queue().unwrap().channels[0].parked, 50);
    fixture.sql("DROP TRIGGER guard");
    assert_eq!(fixture.editor().retry(&retry, Timestamp::UNIX_EPOCH).unwrap(), 50);
}

#[test]
fn submissions_are_accepted_while_deliveries_are_retried() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    fixture.accept_many(1000);
    fixture.sql("UPDATE delivery SET state = 'parked', due_at = NULL");
    fixture.sql("INSERT INTO channel (name, off_at, answer) VALUES ('crm', 1, '410')");
    let place = fixture.options.url.clone();
    let now = Timestamp::UNIX_EPOCH;
    let parked = Retry { parked_only: true, ..Retry::default() };
    let retry = std::thread::spawn(move || Editor::open(place).unwrap().retry(&parked, now).unwrap());
    let mut accepted = 0;
    while !retry.is_finished() || accepted < 3 {
        fixture.accept_new(&waitlist(&format!("{accepted}@example.com")));
        accepted += 1;
    }
    assert_eq!(retry.join().unwrap(), 2000);
    let channels = fixture.reader().queue().unwrap().channels;
    assert!(channels.iter().all(|channel| channel.parked == 0 && !channel.is_off), "{channels:?}");
    fixture.store.health().unwrap();
}

#[test]
fn deliveries_attempted_during_a_retry_are_not_retried_again() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let ids = ["delivered", "failed", "under way", "waiting", "held", "gone"]
        .map(|message| fixture.accept_new(&contact(message)));
    let sql = fixture.fresh.sql();
    let found = Selected::find(&*sql, &Retry::default()).unwrap();
    // The server continues in the meantime.
    let want = ClaimRequest {
        earlier_attempts: 0,
        target: ChannelTarget { name: "crm".to_owned(), destination: String::new() },
        capacity: Capacity { any: 3, retries: 0 },
    };
    let claims = fixture.store.claim_by_rank(vec![want], Vec::new(), now(0), LEASE);
    let claimed = fixture.runtime.block_on(claims).unwrap().remove(0).claimed;
    for (claimed, outcome, verdict) in [
        (&claimed[0], Outcome::delivered("250"), NextStep::Delivered),
        (&claimed[1], Outcome::failed(Cause::Channel, "451"), NextStep::RetryAt(now(300))),
    ] {
        fixture
            .runtime
            .block_on(fixture.store.record(claimed.lease.clone(), outcome, verdict, now(1)))
            .unwrap();
    }
    fixture.editor().hold(ids[4], "odd", now(1)).unwrap();
    fixture.sql("DELETE FROM submission WHERE CAST(fields AS text) LIKE '%gone%'");
    assert_eq!(fixture.editor().retry_selected(&found, now(2)).unwrap(), 1);
    let due_at = |id: Uuid| fixture.reader().deliveries(id).unwrap()[0].due_at;
    assert_eq!(due_at(ids[3]), Some(now(2)));
    assert_eq!(due_at(ids[1]), Some(now(300)), "its next attempt is not brought forward");
    let states = ids[..5].iter().map(|id| fixture.reader().deliveries(*id).unwrap()[0].state);
    let expected = [
        DeliveryState::Delivered,
        DeliveryState::Waiting,
        DeliveryState::Sending,
        DeliveryState::Waiting,
        DeliveryState::Held,
    ];
    assert!(states.eq(expected));
}

#[test]
fn waiting_deliveries_are_due_once_their_channel_recovers() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    fixture.accept_many(500);
    fixture.sql("UPDATE delivery SET due_at = 9000000, failures = 1, blame = 'channel'");
    // Half of the deliveries are due at the same time, and the other half one after the other.
    fixture.sql(
        "UPDATE delivery SET due_at = 9000000 + (SELECT received_at % 1000 FROM submission WHERE id = submission)
         WHERE submission IN (SELECT id FROM submission ORDER BY id LIMIT 250)",
    );
    fixture.sql(
        "UPDATE delivery SET blame = 'notice' WHERE submission IN (SELECT id FROM submission ORDER BY id LIMIT 10)",
    );
    let resume = || fixture.runtime.block_on(fixture.store.resume("crm".to_owned(), true, now(1))).unwrap();
    assert_eq!((resume(), resume()), (490, 0));
    assert_eq!(fixture.reader().overdue(now(2)).unwrap(), [("crm".to_owned(), 490)]);
}

#[test]
fn expired_submissions_are_removed_in_bounded_steps() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    fixture.accept_many(300);
    fixture.sql("UPDATE delivery SET state = 'delivered', due_at = NULL");
    let (mut steps, mut after) = (Vec::new(), Some(Uuid::nil()));
    while let Some(last) = after {
        let expired = fixture
            .runtime
            .block_on(fixture.store.change(move |tx| tx.expire(now(4_000_000_000), &FormScope::ALL, last)))
            .unwrap();
        steps.push(expired.removed);
        after = expired.after;
    }
    let expected =
        if fixture.options.url.file().is_some() { vec![64, 64, 64, 64, 44, 0] } else { vec![200, 100, 0] };
    assert_eq!(steps, expected);
    assert_eq!((fixture.count("submission"), fixture.count("delivery")), (0, 0));
}

#[test]
fn a_form_can_have_a_retention_of_its_own() {
    let fixture = Fixture::in_file();
    fixture.accept_many(3);
    fixture.sql("UPDATE submission SET form = 'demo' WHERE id = (SELECT min(id) FROM submission)");
    let expire = |forms: FormScope| {
        let change = fixture.store.change(move |tx| tx.expire(now(4_000_000_000), &forms, Uuid::nil()));
        fixture.runtime.block_on(change).unwrap().removed
    };
    let named = |name: &str| name.to_owned();
    assert_eq!(expire(FormScope::Except(vec![named("demo"), named("contact")])), 0);
    assert_eq!((expire(FormScope::Only(named("other"))), expire(FormScope::Only(named("demo")))), (0, 1));
    assert_eq!((expire(FormScope::Except(vec![named("demo")])), fixture.count("submission")), (2, 0));
}

#[test]
fn a_step_removes_fewer_submissions_where_they_are_large() {
    let fixture = Fixture::in_file();
    fixture.accept_many(9);
    let make_large = "UPDATE submission SET fields = json_object('message', hex(zeroblob(30000)))";
    fixture.sql(make_large);
    let expire = |after| {
        let expired = fixture
            .runtime
            .block_on(fixture.store.change(move |tx| tx.expire(now(4_000_000_000), &FormScope::ALL, after)))
            .unwrap();
        (expired.removed, expired.after.unwrap())
    };
    let (removed, after) = expire(Uuid::nil());
    assert_eq!((removed, fixture.count("submission")), (4, 5));
    assert_eq!(expire(after).0, 4, "the next step continues where this one ended");
    for n in 0..5 {
        fixture.accept_new(&contact(&format!("held {n}")).held_for(&LINKS));
    }
    fixture.sql(make_large);
    let expire_held = || {
        fixture
            .runtime
            .block_on(fixture.store.change(move |tx| tx.expire_held(now(4_000_000_000), now(0))))
            .unwrap()
    };
    assert_eq!((expire_held(), expire_held(), expire_held()), (4, 1, 0));
    assert_eq!(fixture.count("submission"), 1);
}

#[test]
fn a_batch_has_fewer_submissions_where_they_are_large() {
    let fresh = Fresh::file();
    let large = |n: u32| contact(&format!("{n} {}", "\u{1f600}".repeat(15_000)));
    let options = Options::new(fresh.url.clone());
    let fixture = Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh };
    fixture.accept_all(&(0..20).map(large).collect::<Vec<_>>());
    assert_eq!(
        (fixture.count("submission"), fixture.count("intake")),
        (20, 0),
        "processing continues until nothing is left"
    );
    let secret = keyed_hash::Secret([7; 32]);
    let jobs: Vec<Accepting> = (20..40).map(|n| row(large(n), &fixture.options)).collect();
    fixture.store.close();
    let ids: Vec<Uuid> = (0..20).map(|n| Uuid::from_u128(u128::MAX - 20 + n)).collect();
    let sql = fixture.fresh.sql();
    intake::append(&*sql, &secret, &mut StoredDefinitions::default(), &jobs, &ids).unwrap();
    let screener = crate::intake::batch_processing::Screener::new(Repeats::new(Instant::now()).into());
    let process = || {
        let processed = crate::testing::inbox::process(
            &*sql,
            &fixture.options,
            &screener,
            128,
            Uuid::nil()..=Uuid::max(),
        )
        .unwrap()
        .unwrap();
        (processed.rows, processed.has_more)
    };
    assert_eq!((process(), process(), process(), process()), ((8, true), (8, true), (4, false), (0, false)));
}

#[test]
fn a_batch_is_processed_by_a_configuration_at_least_as_new_as_its_rows() {
    let fixture = Fixture::new();
    let secret = keyed_hash::Secret([7; 32]);
    let sql = fixture.fresh.sql();
    fixture.store.close();
    let accept = |message: &str, id: u128| {
        intake::append(
            &*sql,
            &secret,
            &mut StoredDefinitions::default(),
            &[row(contact(message), &fixture.options)],
            &[Uuid::from_u128(id)],
        )
        .unwrap();
    };
    accept("before the reload", 1);
    let reload = || {
        accept("after the reload", 2);
        fixture.options.batch_config()
    };
    let screener = crate::intake::batch_processing::Screener::new(Repeats::new(Instant::now()).into());
    let transaction = crate::testing::inbox::transaction(&*sql);
    let all = Uuid::nil()..=Uuid::max();
    let processed = crate::intake::batch_processing::process(&transaction, reload, &screener, 128, &all)
        .unwrap()
        .unwrap();
    assert_eq!(processed.rows, 1);
}

#[test]
fn a_row_that_is_erased_while_it_is_screened_stays_erased() {
    let fixture = Fixture::in_file();
    let secret = keyed_hash::Secret([7; 32]);
    fixture.store.close();
    let sql = fixture.fresh.sql();
    let jobs: Vec<Accepting> =
        ["one", "two", "three"].map(|message| row(contact(message), &fixture.options)).into();
    let ids: Vec<Uuid> = (1..=3).map(Uuid::from_u128).collect();
    intake::append(&*sql, &secret, &mut StoredDefinitions::default(), &jobs, &ids).unwrap();
    let screener = crate::intake::batch_processing::Screener::new(Repeats::new(Instant::now()).into());
    let transaction = crate::testing::inbox::transaction(&*sql);
    let read = || {
        let pending = transaction.read_pending(128, &(Uuid::nil()..=Uuid::max())).unwrap();
        crate::intake::batch_processing::screen(pending, fixture.options.batch_config(), &screener).unwrap()
    };
    let batch = read();
    sql.execute("DELETE FROM intake WHERE id = ?1", values![ids[1]]).unwrap();
    let processed = crate::intake::batch_processing::store(&transaction, &batch).unwrap();
    assert_eq!((processed.rows, processed.repeats, processed.has_more), (3, 0, false));
    let stored = || -> Vec<Uuid> { sql.column("SELECT id FROM submission ORDER BY id", &[]).unwrap() };
    assert_eq!(stored(), [ids[0], ids[2]]);
    // Nothing is left of a batch that is stored already.
    crate::intake::batch_processing::store(&transaction, &batch).unwrap();
    assert_eq!(stored(), [ids[0], ids[2]]);
}

/// The time `seconds` after the Unix epoch.
fn now(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
}

impl Fixture {
    /// Stores this many submissions from ada@example.com.
    fn accept_many(&self, count: u64) {
        let arrivals: Vec<_> = (0..count)
            .map(|n| later(&contact(&n.to_string()), MILLISECOND * u32::try_from(n).unwrap()))
            .collect();
        assert!(self.accept_all(&arrivals).iter().all(Result::is_ok));
    }
}
