//! The life of a delivery in the store.

use super::*;
use crate::store::sql::values;
use crate::submission::delivery::{Capacity, Claimed, NextDue};
use crate::submission::delivery_outcome::{Cause, Recipients};
use frontdesk_age::Recipient;

const LEASE: Duration = Duration::from_mins(3);
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_submission_is_queued_for_each_channel_that_takes_its_form() {
    let fixture = Fixture::with_channels(&["box", "crm"], &["contact"]);
    let id = fixture.accept_new(&contact("Hello"));
    assert_eq!(fixture.states(id), [("box", DeliveryState::Waiting), ("crm", DeliveryState::Waiting)]);
    assert_eq!(fixture.status(id), Status::Waiting);
    let other = fixture.accept_new(&waitlist("ada@example.com"));
    assert_eq!(fixture.states(other), []);
    assert_eq!(fixture.status(other), Status::Kept);
    // A repeat queues nothing.
    fixture.accept_repeat(&contact("Hello"), id);
    assert_eq!(fixture.count("delivery"), 2);
}

#[test]
fn a_claimed_delivery_is_not_claimed_again_before_its_lease_ends() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    let claimed = fixture.claim("box", at(0));
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].lease.submission, claimed[0].lease.number, claimed[0].is_retry), (id, 1, false));
    assert_eq!(claimed[0].submission.get("message"), Some("Hello"));
    assert_eq!(fixture.states(id), [("box", DeliveryState::Sending)]);
    assert_eq!(fixture.claim("box", at(179)).len(), 0);
    // A worker that is still sending the delivery does not claim it again.
    assert_eq!(fixture.claim_beside("box", at(200), &[claimed[0].lease.clone()]).len(), 0);
    let again = fixture.claim("box", at(200));
    assert_eq!((again.len(), again[0].lease.number), (1, 2));
    // The first worker's report comes too late to change anything, unless the delivery has arrived after all.
    fixture.record(&claimed[0], &failed(), NextStep::Parked, at(201));
    assert_eq!(fixture.states(id), [("box", DeliveryState::Sending)]);
    assert!(fixture.record(&claimed[0], &Outcome::delivered("250"), NextStep::Delivered, at(202)));
    assert_eq!(fixture.status(id), Status::Delivered);
    fixture.record(&again[0], &failed(), NextStep::RetryAt(at(300)), at(203));
    assert_eq!(fixture.status(id), Status::Delivered);
    let ends: Vec<_> =
        fixture.deliveries(id)[0].attempts.iter().map(|a| a.end.as_ref().unwrap().delivered).collect();
    assert_eq!(ends, [Some(true), Some(false)]);
}

#[test]
fn a_message_has_the_date_of_its_first_attempt_of_the_last_days() {
    const DAY: i64 = 24 * 60 * 60;
    let fixture = Fixture::with_channels(&["box"], &[]);
    fixture.accept_new(&contact("Hello"));
    for (now, next, date) in [
        (10 * DAY, NextStep::RetryAt(at(11 * DAY)), 10 * DAY),
        (11 * DAY, NextStep::RetryAt(at(13 * DAY)), 10 * DAY),
        (13 * DAY, NextStep::RetryAt(at(30 * DAY)), 10 * DAY),
        (30 * DAY, NextStep::Parked, 30 * DAY),
    ] {
        let claimed = fixture.claim("box", at(now));
        assert_eq!(claimed[0].dated_at, at(date), "{now}");
        fixture.record(&claimed[0], &failed(), next, at(now));
    }
}

#[test]
fn an_extended_lease_is_not_claimed_and_belongs_to_the_latest_attempt() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    fixture.accept_new(&contact("Hello"));
    let claimed = fixture.claim("box", at(0));
    let extend = |lease: Lease, now| {
        let extended =
            fixture.store.change(move |tx| tx.extend_leases(std::slice::from_ref(&lease), now, LEASE));
        fixture.runtime.block_on(extended).unwrap();
    };
    extend(claimed[0].lease.clone(), at(170));
    assert_eq!(fixture.claim("box", at(200)).len(), 0);
    let again = fixture.claim("box", at(400));
    assert_eq!(again.len(), 1);
    extend(claimed[0].lease.clone(), at(500));
    // The lease of the second attempt has ended. After two interruptions, there is a pause of a second.
    assert_eq!(fixture.claim("box", at(600)).len(), 0);
    assert_eq!(fixture.claim("box", at(602)).len(), 1);
}

#[test]
fn an_uncertain_attempt_is_shown_and_not_brought_forward() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    let uncertain = Outcome::failed(Cause::Uncertain, "no reply after the message");
    let claimed = fixture.claim("box", at(0));
    assert_eq!(claimed[0].uncertain, 0);
    fixture.record(&claimed[0], &uncertain, NextStep::RetryAt(at(3600)), at(1));
    let attempts = &fixture.deliveries(id)[0].attempts;
    assert_eq!(attempts[0].end.as_ref().unwrap().outcome(), "uncertain");
    // Neither the end of an outage nor a restart brings the retry forward.
    fixture.runtime.block_on(fixture.store.resume("box".to_owned(), true, at(60))).unwrap();
    fixture.runtime.block_on(fixture.store.change(|tx| tx.recover(at(60)))).unwrap();
    assert_eq!(fixture.claim("box", at(3599)).len(), 0);
    let again = fixture.claim("box", at(3600));
    assert_eq!((again[0].uncertain, again[0].failures), (1, 1));
    fixture.record(&again[0], &uncertain, NextStep::Parked, at(3601));
    assert_eq!(fixture.status(id), Status::Parked);
}

#[test]
fn a_partial_delivery_remembers_the_recipients_it_reached() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    let partial = |cause, reached: &[&str], missing: &[&str]| {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let recipients = Recipients { reached: all(reached), missing: all(missing) };
        Outcome::failed(cause, "550 no").with_recipients(recipients)
    };
    let first = fixture.claim("box", at(0));
    assert!(first[0].reached.is_empty());
    let outcome = partial(Cause::Notification, &["b@example.com"], &["a@example.com", "c@example.com"]);
    fixture.record(&first[0], &outcome, NextStep::RetryAt(at(10)), at(1));
    assert!(fixture.has_reached_team(id), "a recipient has it");
    let second = fixture.claim("box", at(10));
    assert_eq!(second[0].reached, ["b@example.com"]);
    // A failure of the whole attempt changes nothing.
    fixture.record(&second[0], &failed(), NextStep::RetryAt(at(20)), at(11));
    let third = fixture.claim("box", at(20));
    let outcome = partial(Cause::Refused, &["c@example.com"], &["a@example.com"]);
    fixture.record(&third[0], &outcome, NextStep::Parked, at(21));
    assert_eq!(fixture.status(id), Status::Parked);
    let missing = &fixture.reader().channels().unwrap()[0].missing;
    assert_eq!(missing.iter().collect::<Vec<_>>(), [(&"a@example.com".to_owned(), &1)]);
    // The others have it, so a repeat adds no submission.
    fixture.accept_repeat(&contact("Hello"), id);
    let retry = Retry { parked_only: true, ..Retry::default() };
    assert_eq!(fixture.editor().retry(&retry, at(30)).unwrap(), 1);
    let last = fixture.claim("box", at(30));
    assert_eq!(last[0].reached, ["b@example.com", "c@example.com"]);
    fixture.record(&last[0], &Outcome::delivered("250"), NextStep::Delivered, at(31));
    assert_eq!(fixture.status(id), Status::Delivered);
    assert!(fixture.reader().channels().unwrap()[0].missing.is_empty());
}

#[test]
fn a_late_partial_failure_lists_no_recipient_as_reached_and_missing() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    fixture.accept_new(&contact("Hello"));
    let partial = |reached: &str, missing: &str| {
        let recipients = Recipients { reached: vec![reached.to_owned()], missing: vec![missing.to_owned()] };
        Outcome::failed(Cause::Notification, "450 later").with_recipients(recipients)
    };
    let late = fixture.claim("box", at(0));
    fixture.record(&late[0], &failed(), NextStep::RetryAt(at(10)), at(1));
    let second = fixture.claim("box", at(10));
    let outcome = partial("b@example.com", "a@example.com");
    fixture.record(&second[0], &outcome, NextStep::RetryAt(at(20)), at(11));
    let outcome = partial("a@example.com", "b@example.com");
    fixture.record(&late[0], &outcome, NextStep::RetryAt(at(20)), at(12));
    let third = fixture.claim("box", at(20));
    assert_eq!(third[0].reached, ["a@example.com", "b@example.com"]);
    assert!(fixture.reader().channels().unwrap()[0].missing.is_empty());
}

#[test]
fn an_attempt_that_is_not_under_way_is_queued_again() {
    let fixture = Fixture::in_file_with_channels(&["box", "crm"]);
    let id = fixture.accept_new(&contact("Hello"));
    let (mine, _nobodys) = (fixture.claim("box", at(0)), fixture.claim("crm", at(0)));
    let requeue_orphans = || {
        fixture.runtime.block_on(fixture.store.requeue_orphans(vec![mine[0].lease.clone()], at(1))).unwrap()
    };
    assert_eq!((requeue_orphans(), requeue_orphans()), (1, 0));
    assert_eq!(fixture.states(id), [("box", DeliveryState::Sending), ("crm", DeliveryState::Waiting)]);
}

#[test]
fn one_that_was_interrupted_again_and_again_is_parked_in_the_end() {
    let fixture = Fixture::in_file_with_channels(&["box"]);
    let id = fixture.accept_new(&contact("Hello"));
    let mut now = 0;
    for number in 1..=20 {
        assert_eq!(fixture.claim("box", at(now)).len(), 1, "{number}");
        now += 100_000;
        assert_eq!(fixture.runtime.block_on(fixture.store.recover(at(now))).unwrap(), 1);
        now += 1000;
    }
    assert_eq!(fixture.status(id), Status::Parked);
    assert_eq!(fixture.claim("box", at(now)).len(), 0);
    assert!(fixture.deliveries(id)[0].attempts.iter().all(|attempt| attempt.end.is_none()));
}

#[test]
fn the_queue_is_what_is_still_to_be_done() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    assert_eq!(fixture.reader().queue().unwrap(), Queue::default());
    let ids = ["One", "Two", "Three"].map(|message| fixture.accept_new(&contact(message)));
    // One was delivered by `box`, one is parked there, and one is being sent.
    let claimed = fixture.claim("box", at(0));
    fixture.record(&claimed[0], &Outcome::delivered("250"), NextStep::Delivered, at(1));
    fixture.record(&claimed[1], &failed(), NextStep::Parked, at(1));
    // One of those that are waiting for `crm` has failed before.
    let claimed = fixture.claim("crm", at(0));
    fixture.record(&claimed[0], &failed(), NextStep::RetryAt(at(300)), at(1));
    fixture.runtime.block_on(fixture.store.pause("crm".to_owned(), "503".to_owned(), at(2))).unwrap();
    let oldest = fixture.reader().get(ids[0]).unwrap().unwrap().received_at;
    let Queue { held, channels, .. } = fixture.reader().queue().unwrap();
    assert_eq!(held, 0);
    let [by_box, by_crm] = &channels[..] else { panic!("{channels:?}") };
    assert_eq!((&*by_box.name, by_box.waiting, by_box.parked), ("box", 1, 1));
    assert_eq!((&*by_crm.name, by_crm.waiting, by_crm.parked, by_crm.oldest), ("crm", 3, 0, Some(oldest)));
    assert_eq!((by_box.is_paused, by_crm.is_paused, by_crm.is_off), (false, true, false));
    fixture.runtime.block_on(fixture.store.switch_off(target("crm", "a"), "410".to_owned(), at(3))).unwrap();
    let [_, by_crm] = &fixture.reader().queue().unwrap().channels[..] else {
        panic!("expected two channels")
    };
    assert_eq!((by_crm.is_paused, by_crm.is_off), (false, true));
}

#[test]
fn the_queue_is_counted_by_indexes_that_hold_nothing_else() {
    let fixture = Fixture::in_file_with_channels(&["box"]);
    let connection = fixture.connection();
    let indexes =
        ["delivery_first", "delivery_again", "delivery_parked", "submission_held", "confirmation_open"];
    for (sql, index) in sql::stats::backlog_queries(Dialect::Sqlite).iter().zip(indexes) {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps: Vec<String> =
            statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(steps[0].contains(&format!("INDEX {index}")), "{sql}: {steps:?}");
        assert_eq!(steps.len(), 1, "no sorting: {steps:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_delays_nothing_for_ever() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    fixture.accept_new(&contact("Hello"));
    // The submission was received in 2026, but the clock now shows 1970.
    assert_eq!(fixture.claim("box", at(0)).len(), 1);
}

#[test]
fn places_are_kept_for_first_attempts() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    for n in 0..4 {
        fixture.accept_new(&contact(&format!("again {n}")));
    }
    for claimed in fixture.claim("box", at(0)) {
        fixture.record(&claimed, &failed(), NextStep::RetryAt(at(10)), at(1));
    }
    for n in 0..4 {
        // Each is from a different network, so that none is a high-volume network.
        let source = Source::V4([10, 0, n, 1]);
        fixture.accept_new(&Arrival { source, ..contact(&format!("first {n}")) });
    }
    let claims = fixture.claims("box", at(10), Capacity { any: 5, retries: 2 });
    let retries = claims.claimed.iter().filter(|claimed| claimed.is_retry).count();
    assert_eq!((claims.claimed.len(), retries), (5, 1));
    // An attempt that is under way is checked again when its lease expires.
    assert_eq!(claims.next, NextDue { first: Some(at(190)), retry: Some(at(10)) });
}

#[test]
fn a_row_that_cannot_be_read_is_parked_and_holds_up_no_other() {
    let fixture = Fixture::in_file_with_channels(&["box"]);
    let damaged = fixture.accept_new(&contact("one"));
    let whole = fixture.accept_new(&contact("two"));
    fixture.sql("UPDATE submission SET fields = 'x' WHERE json_extract(fields, '$.message') = 'one'");
    let claimed = fixture.claim("box", at(0));
    assert_eq!(claimed.iter().map(|claimed| claimed.lease.submission).collect::<Vec<_>>(), [whole]);
    assert_eq!(fixture.deliveries(damaged)[0].state, DeliveryState::Parked);
}

#[test]
fn a_damaged_delivery_is_parked_until_a_retry_and_holds_up_no_other() {
    let ids =
        |claimed: &[Claimed]| claimed.iter().map(|claimed| claimed.lease.submission).collect::<Vec<_>>();
    for damage in ["attempts = -1", "interrupted = -1", "due_at = -999999999999999999"] {
        for attempts in [0, 1] {
            let fixture = Fixture::with_channels(&["box", "crm"], &[]);
            let damaged = fixture.accept_new(&contact("one"));
            assert_eq!(
                fixture.claims("box", at(0), Capacity { any: attempts, retries: 0 }).claimed.len(),
                attempts
            );
            fixture.sql(&format!("UPDATE delivery SET {damage} WHERE channel = 'box'"));
            let whole = fixture.accept_new(&contact("two"));
            // A channel without capacity does not read its due deliveries.
            assert_eq!(fixture.claims("box", at(1), Capacity::default()).claimed, [], "{damage}");
            assert_eq!(ids(&fixture.claim("box", at(200))), [whole], "{damage}");
            let delivery = &fixture.deliveries(damaged)[0];
            assert_eq!(
                (delivery.state, delivery.attempts.len()),
                (DeliveryState::Parked, attempts),
                "{damage}"
            );
            for end in delivery.attempts.iter().map(|attempt| attempt.end.as_ref().unwrap()) {
                assert_eq!((end.outcome(), end.answer.contains("damaged")), ("uncertain", true), "{damage}");
            }
            assert_eq!(fixture.claim("box", at(201)), [], "{damage}");
            let retry = Retry { parked_only: true, ..Retry::default() };
            assert_eq!(fixture.editor().retry(&retry, at(201)).unwrap(), 1, "{damage}");
            let again = fixture.claim("box", at(201));
            let uncertain = usize::try_from(again[0].uncertain).unwrap();
            assert_eq!((ids(&again), uncertain), (vec![damaged], attempts), "{damage}");
        }
    }
}

#[test]
fn a_damaged_attempt_does_not_stop_the_recovery_of_others() {
    for damage in
        ["failures = -1", "attempts = -1", "interrupted = 4294967296", "due_at = 999999999999999999"]
    {
        let fixture = Fixture::in_file_with_channels(&["box", "crm"]);
        let ids = ["one", "two", "three"].map(|message| fixture.accept_new(&contact(message)));
        let (mine, _interrupted) = (fixture.claim("box", at(0)), fixture.claim("crm", at(0)));
        assert!(fixture.editor().hold(ids[1], "wait", at(1)).unwrap());
        let of = |channel: &str, id: Uuid| -> String {
            let state = "SELECT state FROM delivery WHERE submission = ?1 AND channel = ?2";
            fixture.fresh.sql().one_value(state, values![id, channel]).unwrap()
        };
        for id in &ids[..2] {
            fixture.sql(&format!("UPDATE delivery SET {damage} WHERE hex(submission) = '{:X}'", id.simple()));
        }
        let mine: Vec<Lease> = mine.iter().map(|claimed| claimed.lease.clone()).collect();
        let requeue =
            || fixture.runtime.block_on(fixture.store.requeue_orphans(mine.clone(), at(1))).unwrap();
        assert_eq!((requeue(), requeue()), (1, 0), "{damage}");
        assert_eq!(ids.map(|id| of("crm", id)), ["parked", "held", "waiting"], "{damage}");
        assert_eq!(ids.map(|id| of("box", id)), ["sending"; 3], "{damage}");
        assert_eq!(fixture.claim("crm", at(1)).len(), 1, "{damage}");
        // The damaged attempts that are under way report their outcomes.
        let sent =
            fixture.store.record(mine[0].clone(), Outcome::delivered("250"), NextStep::Delivered, at(2));
        fixture.runtime.block_on(sent).unwrap();
        assert_eq!(of("box", mine[0].submission), "delivered", "{damage}");
    }
}

#[test]
fn damaged_recipients_and_attempts_hold_up_no_other_delivery() {
    for (damage, is_sent) in
        [("delivery SET recipients = 'x'", false), ("attempt SET began_at = 999999999999999999", true)]
    {
        let fixture = Fixture::with_channels(&["box"], &[]);
        let damaged = fixture.accept_new(&contact("one"));
        for claimed in fixture.claim("box", at(0)) {
            fixture.record(&claimed, &failed(), NextStep::RetryAt(at(10)), at(1));
        }
        fixture.sql(&format!("UPDATE {damage}"));
        fixture.accept_new(&contact("two"));
        assert_eq!(fixture.claim("box", at(10)).len(), 1 + usize::from(is_sent), "{damage}");
        if !is_sent {
            assert_eq!(fixture.status(damaged), Status::Parked, "{damage}");
            let retry = Retry { parked_only: true, ..Retry::default() };
            assert_eq!(fixture.editor().retry(&retry, at(11)).unwrap(), 1, "{damage}");
            assert_eq!(fixture.claim("box", at(11)).len(), 1, "{damage}");
        }
    }
}

#[test]
fn damaged_due_times_do_not_stop_the_correction_of_others() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    fixture.accept_new(&contact("one"));
    fixture.sql("UPDATE delivery SET due_at = 999999999999999999");
    fixture.accept_new(&contact("two"));
    fixture.sql("UPDATE delivery SET due_at = 9999999999 WHERE due_at < 999999999999999999");
    fixture.runtime.block_on(fixture.store.change(|tx| tx.clamp_due_times(at(0)))).unwrap();
    fixture.sql("DELETE FROM delivery WHERE due_at = 9999999999");
    assert_eq!(fixture.claim("box", at(0)).len(), 2);
}

#[test]
fn a_held_submission_is_delivered_only_after_its_release() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&contact("Hello").held_for(&[(Signal::Links, "many links")]));
    assert_eq!((fixture.status(id), fixture.states(id)), (Status::Held, vec![("box", DeliveryState::Held)]));
    assert_eq!(
        fixture.reader().get(id).unwrap().unwrap().held.unwrap().because,
        "many links (60); 60 of 0 points"
    );
    assert_eq!(fixture.claim("box", at(0)).len(), 0);
    assert!(!fixture.has_reached_team(id));
    let mut editor = fixture.editor();
    assert!(editor.release(id, &[], at(0)).unwrap());
    assert!(!editor.release(id, &[], at(0)).unwrap());
    assert!(!fixture.has_reached_team(id));
    assert_eq!(fixture.claim("box", at(0)).len(), 1);
}

#[test]
fn a_submission_held_while_it_is_sent_is_not_retried() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    let sent = fixture.claim("box", at(0));
    assert!(fixture.editor().hold(id, "wait", at(1)).unwrap());
    assert!(!fixture.editor().hold(id, "wait", at(1)).unwrap());
    assert_eq!(fixture.states(id), [("box", DeliveryState::Sending), ("crm", DeliveryState::Held)]);
    fixture.record(&sent[0], &failed(), NextStep::RetryAt(at(9)), at(2));
    assert_eq!(fixture.states(id), [("box", DeliveryState::Held), ("crm", DeliveryState::Held)]);
    fixture.runtime.block_on(fixture.store.recover(at(3))).unwrap();
    assert_eq!(fixture.status(id), Status::Held);
    fixture.editor().release(id, &[], at(10)).unwrap();
    assert_eq!(fixture.states(id), [("box", DeliveryState::Waiting), ("crm", DeliveryState::Waiting)]);
}

#[test]
fn a_submission_held_while_sent_is_not_retried_after_its_lease() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    assert_eq!(fixture.claim("box", at(0)).len(), 1);
    assert!(fixture.editor().hold(id, "wait", at(1)).unwrap());
    assert_eq!(fixture.claim("box", at(200)).len(), 0);
    assert_eq!(fixture.states(id), [("box", DeliveryState::Held)]);
}

#[test]
fn due_deliveries_without_an_attempt_count_as_overdue() {
    let fixture = Fixture::with_channels(&["box", "renamed"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    let received = fixture.reader().get(id).unwrap().unwrap().received_at;
    let later = received + Duration::from_secs(1);
    assert_eq!(fixture.reader().overdue(received).unwrap(), []);
    assert_eq!(fixture.claim("box", later).len(), 1);
    assert_eq!(fixture.reader().overdue(later).unwrap(), [("renamed".to_owned(), 1)]);
}

#[test]
fn a_retry_queues_what_it_names_and_nothing_else() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let parked = fixture.accept_new(&contact("parked"));
    for channel in ["box", "crm"] {
        for claimed in fixture.claim(channel, at(0)) {
            fixture.record(&claimed, &failed(), NextStep::Parked, at(1));
        }
    }
    let waiting = fixture.accept_new(&contact("waiting"));
    for claimed in fixture.claim("crm", at(0)) {
        fixture.record(&claimed, &failed(), NextStep::RetryAt(at(300)), at(1));
    }
    assert_eq!(fixture.status(parked), Status::Parked);
    let retry = |retry: Retry| fixture.editor().retry(&retry, at(2)).unwrap();
    let of = |id| Filter { id: Some(id), ..Filter::default() };
    assert_eq!(retry(Retry { which: of(parked), channel: Some("box".to_owned()), parked_only: false }), 1);
    assert_eq!(fixture.states(parked), [("box", DeliveryState::Waiting), ("crm", DeliveryState::Parked)]);
    assert_eq!(retry(Retry { parked_only: true, ..Retry::default() }), 1);
    assert_eq!(fixture.status(parked), Status::Waiting);
    assert_eq!(retry(Retry { which: of(waiting), ..Retry::default() }), 2);
    assert_eq!(fixture.claim("crm", at(2)).len(), 2);
    assert_eq!(retry(Retry { which: of(Uuid::nil()), ..Retry::default() }), 0);
}

#[test]
fn a_gone_channel_parks_everything_until_its_target_changes_or_a_retry() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let first = fixture.accept_new(&contact("one"));
    let sent = fixture.claim("crm", at(0));
    fixture.record(&sent[0], &Outcome::failed(Cause::Gone, "410 Gone"), NextStep::Parked, at(1));
    fixture
        .runtime
        .block_on(fixture.store.switch_off(target("crm", "a"), "410 Gone".to_owned(), at(1)))
        .unwrap();
    let second = fixture.accept_new(&contact("two"));
    assert!(fixture.claims("crm", at(2), Capacity { any: 4, retries: 2 }).is_off);
    assert_eq!((fixture.status(first), fixture.status(second)), (Status::Parked, Status::Parked));
    let obstacle = fixture.deliveries(second)[0].obstacle.clone().unwrap();
    assert_eq!((obstacle.off, obstacle.since, obstacle.answer.as_str()), (true, at(1), "410 Gone"));
    // The channel must be named, so that a retry of everything else does not switch it on by accident.
    let retry = Retry { channel: Some("crm".to_owned()), ..Retry::default() };
    assert_eq!(fixture.editor().retry(&retry, at(3)).unwrap(), 2);
    assert_eq!(fixture.claim("crm", at(3)).len(), 2);
    fixture.runtime.block_on(fixture.store.switch_off(target("crm", "b"), "410".to_owned(), at(4))).unwrap();
    assert!(!fixture.claims("crm", at(5), Capacity::default()).is_off, "it has a new target");
}

#[test]
fn a_retry_ends_the_pause_of_its_channel() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.runtime.block_on(fixture.store.pause("crm".to_owned(), "429".to_owned(), at(0))).unwrap();
    assert!(fixture.claims("crm", at(1), Capacity::default()).is_paused);
    let which = Filter { id: Some(id), ..Filter::default() };
    assert_eq!(fixture.editor().retry(&Retry { which, ..Retry::default() }, at(2)).unwrap(), 1);
    assert!(!fixture.claims("crm", at(3), Capacity::default()).is_paused);
}

#[test]
fn a_channel_that_works_again_delivers_what_waits_because_of_it_at_once() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let ids: Vec<Uuid> = (0..3).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let asked = Outcome::failed(Cause::Channel, "429").with_retry_after(Some(Duration::from_hours(1)));
    let outcomes = [failed(), Outcome::failed(Cause::Notification, "400"), asked];
    for (claimed, outcome) in fixture.claim("crm", at(0)).iter().zip(&outcomes) {
        fixture.record(claimed, outcome, NextStep::RetryAt(at(3600)), at(1));
    }
    fixture.runtime.block_on(fixture.store.pause("crm".to_owned(), "refused".to_owned(), at(2))).unwrap();
    assert!(!fixture.deliveries(ids[0])[0].obstacle.clone().unwrap().off);
    let resume = |after_outage| {
        fixture.runtime.block_on(fixture.store.resume("crm".to_owned(), after_outage, at(3))).unwrap()
    };
    assert_eq!(resume(true), 1);
    let claimed = fixture.claim("crm", at(3));
    assert_eq!(claimed.iter().map(|c| (c.lease.submission, c.failures)).collect::<Vec<_>>(), [(ids[0], 1)]);
    assert_eq!(fixture.deliveries(ids[0])[0].obstacle, None);
}

#[test]
fn an_erased_submission_is_gone_from_every_file() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let keyed = Arrival { idempotency_key: Some("k".to_owned()), ..from_vera("sesame sesame") };
    fixture.accept_new(&keyed);
    let other = fixture.accept_new(&waitlist("else@example.com"));
    for claimed in fixture.claim("crm", at(0)) {
        fixture.record(&claimed, &Outcome::delivered("taken"), NextStep::Delivered, at(1));
    }
    let quotes = fixture.store.pause("crm".to_owned(), "500: no sesame here".to_owned(), at(1));
    fixture.runtime.block_on(quotes).unwrap();
    let erased = fixture.editor().erase("VERA@example.COM").unwrap();
    let expected = Erased {
        submissions: 1,
        deliveries: 1,
        delivered: 1,
        attempts: 1,
        is_wiped: fixture.options.url.file().is_some(),
    };
    assert_eq!(erased, expected);
    assert_eq!(fixture.list().iter().map(|s| s.id).collect::<Vec<_>>(), [other]);
    assert_eq!((fixture.count("delivery"), fixture.count("attempt")), (1, 1));
    assert!(!fixture.files_hold("sesame") && !fixture.files_hold("vera@"));
    assert!(fixture.files_hold("else@example.com"), "the search works");
    assert_eq!(fixture.editor().erase("vera@example.com").unwrap().submissions, 0);
    // After the erasure, the same submission is accepted as new.
    fixture.accept_new(&keyed);
}

#[test]
fn old_submissions_expire_unless_a_delivery_is_pending() {
    let fixture = Fixture::with_channels(&["crm"], &["contact"]);
    let old = |arrival: &Arrival| Arrival {
        received_at: "2020-01-01T00:00:00Z".parse().unwrap(),
        ..arrival.clone()
    };
    fixture.accept_new(&old(&waitlist("kept@example.com")));
    let held = fixture.accept_new(&old(&contact("held").held_for(&[(Signal::Links, "4 links")])));
    fixture.accept_new(&old(&waitlist("too@example.com")));
    let waiting = fixture.accept_new(&old(&contact("waiting")));
    let new = fixture.accept_new(&contact("new"));
    let expire =
        |after| {
            fixture
                .runtime
                .block_on(fixture.store.change(move |tx| {
                    tx.expire("2021-01-01T00:00:00Z".parse().unwrap(), &FormScope::ALL, after)
                }))
                .unwrap()
        };
    assert_eq!(expire(Uuid::nil()), Expired { removed: 2, after: Some(waiting) });
    assert_eq!(expire(waiting), Expired { removed: 0, after: None });
    assert_eq!(fixture.list().iter().map(|s| s.id).collect::<Vec<_>>(), [new, waiting, held]);
    // The original has expired, so this is not a repeat.
    fixture.accept_new(&waitlist("kept@example.com"));
}

#[test]
fn submissions_without_a_channel_are_sealed_before_writing() {
    let fixture = Fixture::with_options(|options| options.intake.recipient = Some(recipient()));
    let id = fixture.accept_new(&from_vera("sesame"));
    let submission = fixture.reader().get(id).unwrap().unwrap();
    assert!(submission.fields.is_empty() && submission.sealed.is_some());
    assert!(!fixture.files_hold("sesame") && !fixture.files_hold("vera@example.com"));
    // A repeat is still recognized, and the submission can be erased.
    fixture.accept_repeat(&from_vera("sesame"), id);
    assert_eq!(fixture.editor().erase("vera@example.com").unwrap().submissions, 1);
}

#[test]
fn unreadable_submissions_do_not_keep_later_ones_from_being_sealed() {
    let fixture = Fixture::with_channels(&[], &[]);
    let ids = ["first", "second", "third"].map(|text| fixture.accept_new(&contact(text)));
    let damage = "UPDATE submission SET fields = '3' WHERE id = ?1";
    fixture.fresh.sql().execute(damage, sql::values![ids[0].as_bytes()]).unwrap();
    let (mut found, mut after, mut calls) = (Vec::new(), Some(Uuid::nil()), 0);
    while let Some(last) = after {
        let (submissions, next) = fixture.reader().to_be_sealed(&[], last, 1).unwrap();
        found.extend(submissions.iter().map(|submission| submission.id));
        (after, calls) = (next, calls + 1);
    }
    assert_eq!((found, calls), (ids[1..].to_vec(), 4));
}

#[test]
fn only_what_is_settled_is_sealed() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let id = fixture.accept_new(&contact("sesame"));
    let seal = || fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap();
    assert!(!seal());
    assert_eq!(fixture.reader().to_be_sealed(&[], Uuid::nil(), 9).unwrap().0, []);
    // A refusal may quote the submission.
    let quotes = Outcome::failed(Cause::Channel, "500: no sesame here");
    let refused = fixture.claim("crm", at(0));
    fixture.record(&refused[0], &quotes, NextStep::RetryAt(at(5)), at(1));
    fixture
        .runtime
        .block_on(fixture.store.pause("crm".to_owned(), "500: no sesame here".to_owned(), at(1)))
        .unwrap();
    let sent = fixture.claim("crm", at(5));
    assert!(fixture.record(&sent[0], &Outcome::delivered("ok"), NextStep::Delivered, at(6)));
    fixture.runtime.block_on(fixture.store.resume("crm".to_owned(), true, at(6))).unwrap();
    assert_eq!(fixture.reader().to_be_sealed(&[], Uuid::nil(), 9).unwrap().0.len(), 1);
    assert!(seal() && !seal());
    assert!(fixture.runtime.block_on(fixture.store.truncate_wal()).unwrap());
    assert!(!fixture.files_hold("sesame"));
    assert_eq!(fixture.deliveries(id)[0].attempts.len(), 2);
}

#[test]
fn a_long_read_blocks_no_writer_while_the_log_is_to_be_truncated() {
    let fixture = Fixture::in_file_with_channels(&[]);
    let id = fixture.accept_new(&contact("sesame"));
    let reader = fixture.connection();
    reader.execute_batch("BEGIN; SELECT count(*) FROM submission").unwrap();
    fixture.accept_new(&waitlist("else@example.com"));
    let (path, (sender, erasing)) = (fixture.file(), std::sync::mpsc::channel());
    std::thread::spawn(move || sender.send(Editor::open(&path).unwrap().erase("ada@example.com").unwrap()));
    while fixture.reader().get(id).unwrap().is_some() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The server stops waiting for a lock well before the erasure stops waiting for the reader.
    assert!(!fixture.runtime.block_on(fixture.store.truncate_wal()).unwrap());
    for n in 0..20 {
        fixture.accept_new(&contact(&format!("message {n}")));
    }
    reader.execute_batch("COMMIT").unwrap();
    assert!(erasing.recv().unwrap().is_wiped);
    assert!(!fixture.files_hold("sesame"));
}

#[test]
fn pending_deliveries_are_found_by_an_index() {
    let fixture = Fixture::in_file_with_channels(&["crm"]);
    let connection = fixture.connection();
    for query in [
        "SELECT submission FROM delivery WHERE channel = ?1 AND due_at <= ?2 AND failures = 0 ORDER BY due_at LIMIT 4",
        "SELECT submission FROM delivery WHERE channel = ?1 AND due_at <= ?2 AND failures > 0 ORDER BY due_at LIMIT 4",
        "SELECT due_at FROM delivery WHERE channel = ?1 AND due_at IS NOT NULL AND failures > 0 ORDER BY due_at LIMIT 1",
        "UPDATE delivery SET due_at = ?3 WHERE channel = ?1 AND due_at > ?2 AND failures = 0",
        "UPDATE delivery SET state = 'parked', due_at = NULL
         WHERE channel = ?1 AND state = 'waiting' AND due_at IS NOT NULL AND failures = 0",
        "SELECT submission FROM delivery WHERE state = 'sending'",
        "SELECT submission FROM delivery WHERE due_at IS NOT NULL ORDER BY submission LIMIT 100",
        "SELECT count(*) FROM submission s WHERE s.held_at IS NOT NULL",
        "SELECT submission FROM delivery WHERE state = 'parked'",
    ] {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            assert!(
                step.contains("USING") && step.contains("INDEX") && !step.contains("TEMP"),
                "{query}: {step}"
            );
        }
    }
}

/// A submission whose address is not the example in the form's definition, which the inbox stores, too.
fn from_vera(message: &str) -> Arrival {
    let body = serde_json::json!({"message": message, "email": "vera@example.com", "name": "Vera"});
    arrival(entry(&CONTACT, &body.to_string()))
}

/// This many seconds after the Unix epoch.
fn at(seconds: i64) -> Timestamp {
    NOW + Duration::from_secs(seconds.unsigned_abs())
}

fn failed() -> Outcome {
    Outcome::failed(Cause::Channel, "refused")
}

fn target(name: &str, destination: &str) -> ChannelTarget {
    ChannelTarget { name: name.to_owned(), destination: destination.to_owned() }
}

fn recipient() -> Recipient {
    Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap()
}

impl Fixture {
    fn claims(&self, channel: &str, now: Timestamp, capacity: Capacity) -> Claims {
        let want = ClaimRequest { target: target(channel, "a"), capacity, earlier_attempts: 0 };
        self.runtime.block_on(self.store.claim_by_rank(vec![want], Vec::new(), now, LEASE)).unwrap().remove(0)
    }

    fn claim_beside(&self, channel: &str, now: Timestamp, under_way: &[Lease]) -> Vec<Claimed> {
        let want = ClaimRequest {
            target: target(channel, "a"),
            capacity: Capacity { any: 9, retries: 9 },
            earlier_attempts: 0,
        };
        let claims = self.store.claim_by_rank(vec![want], under_way.to_vec(), now, LEASE);
        self.runtime.block_on(claims).unwrap().remove(0).claimed
    }

    pub(super) fn claim(&self, channel: &str, now: Timestamp) -> Vec<Claimed> {
        self.claim_beside(channel, now, &[])
    }

    pub(super) fn record(
        &self,
        claimed: &Claimed,
        outcome: &Outcome,
        next: NextStep,
        now: Timestamp,
    ) -> bool {
        let recorded = self.store.record(claimed.lease.clone(), outcome.clone(), next, now);
        self.runtime.block_on(recorded).unwrap()
    }

    fn has_reached_team(&self, id: Uuid) -> bool {
        self.runtime.block_on(self.store.has_reached_team(id)).unwrap()
    }

    fn states(&self, id: Uuid) -> Vec<(&'static str, DeliveryState)> {
        let name = |name: &str| ["box", "crm"].into_iter().find(|known| *known == name).unwrap();
        self.deliveries(id).iter().map(|delivery| (name(&delivery.channel), delivery.state)).collect()
    }
}
