//! Floods of a form, marks of suspicious submissions, and the order in which submissions are delivered.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::submission::delivery::{Capacity, ChannelTarget, ClaimRequest};
use frontdesk_limits::Quota;
use frontdesk_screening::verdict::ScreeningVerdict;

/// A store with a quota of ten submissions a minute.
fn flooded() -> Fixture {
    let Fixture { mut options, fresh, .. } = Fixture::with_channels(&["box"], &[]);
    options.intake.form_quota = Some(Quota { per_minute: 10, per_hour: 100 });
    // No flood ends while a test runs.
    options.intake.flood_ends_after = Duration::from_hours(1);
    Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh }
}

/// The time at which all messages are received.
fn start() -> Timestamp {
    static START: std::sync::OnceLock<Timestamp> = std::sync::OnceLock::new();
    *START.get_or_init(Timestamp::now)
}

/// The n-th message from a network.
fn message(network: u8, n: usize) -> Arrival {
    Arrival {
        source: Source::V4([10, 0, network, u8::try_from(n % 250).unwrap()]),
        received_at: start(),
        ..contact(&format!("number {n} of {network}"))
    }
}

fn suspicious(arrival: Arrival) -> Arrival {
    let verdict =
        ScreeningVerdict { score: 60, suspicious: true, threshold: 100, ..ScreeningVerdict::default() };
    Arrival { evidence: Evidence::Verdict(verdict), ..arrival }
}

fn status(fixture: &Fixture, id: Uuid) -> Status {
    fixture.reader().get(id).unwrap().unwrap().status
}

/// Releases the submissions of floods that have ended by `now`.
fn end_floods(fixture: &Fixture, now: Timestamp) -> usize {
    let sql = fixture.fresh.sql();
    sql.transaction(|| {
        crate::testing::inbox::transaction(&*sql).release_ended_floods(
            now,
            fixture.options.intake.flood_ends_after,
            3,
            &fixture.options.channels,
        )
    })
    .unwrap()
}

#[test]
fn in_a_flood_other_networks_are_delivered_and_the_rest_is_held() {
    let fixture = flooded();
    let flood: Vec<Uuid> = (0..16).map(|n| fixture.accept_new(&message(1, n))).collect();
    let held: Vec<Uuid> = flood.iter().copied().filter(|id| status(&fixture, *id) == Status::Held).collect();
    assert_eq!(held, flood[10..]);
    let because = fixture.reader().get(held[0]).unwrap().unwrap().held.unwrap().because;
    assert_eq!(because, "the form has had more than its quota (0); 0 of 0 points");
    let honest = fixture.accept_new(&message(2, 0));
    assert_eq!(status(&fixture, honest), Status::Waiting);
    assert_eq!(
        (
            fixture.store.intake.counts().held.load(Relaxed),
            fixture.store.intake.counts().in_flood.load(Relaxed)
        ),
        (6, 6)
    );
    let [flood] = &fixture.reader().floods().unwrap()[..] else { panic!() };
    assert_eq!((flood.form.as_str(), flood.held), ("contact", 6));

    // Retention does not remove submissions that a flood holds.
    let expired = fixture
        .runtime
        .block_on(fixture.store.change(move |tx| tx.expire_held(start() + Duration::from_hours(1), start())));
    assert_eq!(expired.unwrap(), 0);

    // The end of the flood does not change the operator's decisions.
    let now = start();
    assert!(fixture.editor().release(held[0], &[], now).unwrap());
    assert!(fixture.editor().hold(held[1], "by hand", now).unwrap());
    assert_eq!(end_floods(&fixture, now), 0, "the flood lasts for another hour");
    let later = now + Duration::from_hours(2);
    // With PostgreSQL, a call does nothing while the store is processing the intake, so call repeatedly.
    let mut steps: Vec<usize> = (0..100).map(|_| end_floods(&fixture, later)).collect();
    steps.retain(|released| *released > 0);
    assert_eq!(steps, [3, 1]);
    assert_eq!(held.iter().filter(|id| status(&fixture, **id) == Status::Waiting).count(), 5);
    assert_eq!(fixture.reader().get(held[1]).unwrap().unwrap().held.unwrap().because, "by hand");
    assert_eq!(fixture.reader().floods().unwrap(), []);
}

#[test]
fn a_server_that_starts_after_a_flood_releases_what_it_held() {
    let fixture = flooded();
    let long_ago = Timestamp::now() - Duration::from_hours(3);
    let ids: Vec<Uuid> =
        (0..12).map(|n| fixture.accept_new(&Arrival { received_at: long_ago, ..message(1, n) })).collect();
    let Fixture { store, options, fresh, .. } = fixture;
    store.close();
    let fixture = Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh };
    let began = Instant::now();
    while ids.iter().any(|id| status(&fixture, *id) == Status::Held) {
        assert!(began.elapsed() < Duration::from_mins(10), "they were not released");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn repeats_and_held_submissions_do_not_use_up_the_quota() {
    let fixture = flooded();
    let id = fixture.accept_new(&message(1, 0));
    for _ in 0..50 {
        fixture.accept_repeat(&message(1, 0), id);
    }
    for n in 0..50 {
        fixture.accept_new(&message(1, 100 + n).held_for(&[(Signal::Honeypot, "filled in")]));
    }
    for n in 1..10 {
        let id = fixture.accept_new(&message(1, n));
        assert_eq!(status(&fixture, id), Status::Waiting, "{n}");
    }
    let over = fixture.accept_new(&message(1, 10));
    assert_eq!(status(&fixture, over), Status::Held);
}

#[test]
fn a_copy_from_another_network_releases_a_flooded_submission() {
    let fixture = flooded();
    let ids: Vec<Uuid> = (0..12).map(|n| fixture.accept_new(&message(1, n))).collect();
    let copy = Arrival { source: Source::V4([10, 0, 2, 1]), ..message(1, 11) };
    fixture.accept_repeat(&copy, ids[11]);
    assert_eq!((status(&fixture, ids[10]), status(&fixture, ids[11])), (Status::Held, Status::Waiting));
}

/// One replica notifies the team, but another one may have held the submissions.
#[test]
fn a_replica_that_opens_a_flooded_inbox_is_notified() {
    let Fixture { store, options, fresh: _fresh, .. } = flooded();
    let runtime = runtime();
    for n in 0..12 {
        runtime.block_on(store.accept_and_process(message(1, n))).unwrap();
    }
    store.close();
    let next = TestInbox::open(&options).unwrap();
    let heard =
        async { tokio::time::timeout(Duration::from_mins(1), next.events().flooded.notified()).await };
    runtime.block_on(heard).expect("it is notified of the flood");
}

#[test]
fn repeats_from_a_second_network_bring_few_deliveries_forward() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let sent =
        |network| (0..60).map(move |n| Arrival { source: message(network, n).source, ..message(1, n) });
    for arrival in sent(1).chain(sent(2)) {
        fixture.accept(&arrival).unwrap();
    }
    let honest = fixture.accept_new(&message(3, 0));
    let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
    let mut earlier = 0;
    loop {
        let want = ClaimRequest {
            target: target.clone(),
            capacity: Capacity { any: 1, retries: 0 },
            earlier_attempts: earlier,
        };
        let later = start() + Duration::from_secs(1);
        let claims = fixture.store.claim_by_rank(vec![want], Vec::new(), later, Duration::from_mins(3));
        let claimed = fixture.runtime.block_on(claims).unwrap().remove(0).claimed;
        if claimed[0].lease.submission == honest {
            break;
        }
        earlier += 1;
    }
    assert!(earlier <= 2, "{earlier} of 60 precede it");
}

#[test]
fn a_marked_submission_is_delivered_with_its_mark() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let id = fixture.accept_new(&suspicious(contact("Hello")));
    let is_marked = |id| fixture.reader().get(id).unwrap().unwrap().screening.is_some_and(|it| it.suspicious);
    assert!(is_marked(id) && status(&fixture, id) == Status::Waiting);
    let clean = fixture.accept_new(&contact("Hello"));
    assert!(!is_marked(clean));
}

#[test]
fn a_networks_first_submission_precedes_others_and_marked_ones_come_later() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let early = Arrival { received_at: start() - Duration::from_secs(1), ..message(9, 0) };
    let early = fixture.accept_new(&suspicious(early));
    let late = Arrival { received_at: start() + Duration::from_millis(500), ..message(9, 1) };
    let late = fixture.accept_new(&suspicious(late));
    let many: Vec<Uuid> = (0..40).map(|n| fixture.accept_new(&message(1, n))).collect();
    let one = fixture.accept_new(&message(2, 0));
    let address =
        Arrival { source: Source::V4([10, 0, 3, 1]), received_at: start(), ..waitlist("ada@example.com") };
    let address = fixture.accept_new(&address);
    let mut order = Vec::new();
    for earlier_attempts in 0.. {
        let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
        let want = ClaimRequest { target, capacity: Capacity { any: 1, retries: 1 }, earlier_attempts };
        let now = start() + Duration::from_secs(1);
        let claims = fixture.store.claim_by_rank(vec![want], Vec::new(), now, Duration::from_mins(3));
        let claims = fixture.runtime.block_on(claims).unwrap().remove(0);
        let Some(claimed) = claims.claimed.first() else { break };
        order.push(claimed.lease.submission);
    }
    assert_eq!(order.len(), 44);
    let place = |id: Uuid| order.iter().position(|other| *other == id).unwrap();
    assert!(
        place(address) < 6,
        "a network's only entry precedes another's many messages: {}",
        place(address)
    );
    assert!(place(one) < 6, "a network's only submission precedes another's many: {}", place(one));
    assert!(place(many[0]) < 6, "{}", place(many[0]));
    assert!(place(late) < 8, "a marked submission precedes the many: {}", place(late));
    assert!(place(early) < 8, "{}", place(early));
}

#[test]
fn rates_of_networks_that_have_rested_are_removed() {
    let fixture = Fixture::new();
    let long_ago = start() - Duration::from_hours(10 * 24);
    for network in 0..100 {
        fixture.accept_new(&Arrival { received_at: long_ago, ..message(network, 0) });
    }
    let count = || fixture.fresh.sql().value::<i64>("SELECT count(*) FROM network_rate", &[]).unwrap();
    assert_eq!(count(), Some(100));
    for n in 0..100 {
        fixture.accept_new(&message(200, n));
    }
    // Each batch looks at a random place. The probability that more than ten are left is below 10⁻⁹.
    assert!(count() <= Some(10), "{:?} are left", count());
}

#[test]
fn a_form_can_have_a_quota_of_its_own() {
    let Fixture { mut options, fresh, .. } = flooded();
    options.intake.own_quotas = [("contact".to_owned(), Quota { per_minute: 5, per_hour: 100 })].into();
    let fixture = Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh };
    let kept: Vec<Uuid> = (0..7).map(|n| fixture.accept_new(&message(1, n))).collect();
    let held = kept.iter().filter(|id| status(&fixture, **id) == Status::Held).count();
    assert_eq!(held, 2, "the sixth and the seventh");
}
