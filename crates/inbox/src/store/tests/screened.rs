//! Stored verdicts of screening, and counts of refused requests.

use std::sync::atomic::Ordering::Relaxed;

use jiff::tz::TimeZone;

use super::*;
use crate::submission::Screening;
use frontdesk_age::Recipient;
use frontdesk_forms::Extras;
use frontdesk_screening::verdict::{ScreeningReason, ScreeningVerdict, Signal};
use frontdesk_screening::{Origin, RequestFacts};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn the_screening_verdict_is_stored_for_every_submission() {
    let fixture = Fixture::new();
    let mut passed = contact("passed");
    passed.evidence = Evidence::Verdict(ScreeningVerdict {
        score: 20,
        reasons: vec![reason(Signal::Offer, 20, "2 words of offers")],
        ..ScreeningVerdict::default()
    });
    passed.agent = Some("agent.example.com".to_owned());
    let passed = fixture.get(fixture.accept_new(&passed));
    assert_eq!(
        (passed.status, passed.held, passed.agent.as_deref()),
        (Status::Kept, None, Some("agent.example.com"))
    );
    assert_eq!(passed.screening, screening(20, &[(Signal::Offer, 20, "2 words of offers")], false));
    let clean = fixture.get(fixture.accept_new(&contact("clean")));
    assert_eq!((clean.screening, clean.agent), (screening(0, &[], false), None));
    let held = fixture.accept_new(
        &contact("held").held_for(&[(Signal::Honeypot, "filled in"), (Signal::Links, "4 links")]),
    );
    let reasons = [(Signal::Honeypot, 60, "filled in"), (Signal::Links, 60, "4 links")];
    assert_eq!(fixture.get(held).screening, screening(120, &reasons, true));
    assert_eq!(fixture.get(held).held.unwrap().because, "filled in (60), 4 links (60); 120 of 0 points");
    let released_at = "2026-11-21T00:00:00Z".parse().unwrap();
    assert!(fixture.editor().release(held, &[], released_at).unwrap());
    let released = fixture.get(held);
    assert_eq!(
        (released.status, released.held, released.released_at),
        (Status::Kept, None, Some(released_at))
    );
    assert_eq!(released.screening, screening(120, &reasons, true));
}

/// A submission from a program that has filled in the hidden field.
fn by_a_robot(arrival: Arrival) -> Arrival {
    let extras = Extras { honeypot: true, time_to_fill: Some(Duration::from_secs(5)) };
    let facts = RequestFacts { origin: Origin::Foreign, extras, ..RequestFacts::default() };
    Arrival { evidence: Evidence::Facts(facts), ..arrival }
}

#[test]
fn submissions_are_screened_when_they_are_processed() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let submission = fixture.get(fixture.accept_new(&by_a_robot(contact("Hello"))));
    assert_eq!(submission.status, Status::Held);
    let signals = submission.screening.as_ref().map(Screening::signals);
    assert_eq!(signals.as_deref(), Some("honeypot, origin"));
    let signed = Arrival { agent: Some("agent.example.com".to_owned()), ..by_a_robot(contact("Signed")) };
    let submission = fixture.get(fixture.accept_new(&signed));
    assert_eq!(submission.screening.unwrap().signals(), "honeypot");
    let plain = Arrival { evidence: Evidence::Facts(RequestFacts::default()), ..contact("Plain") };
    assert_eq!(fixture.get(fixture.accept_new(&plain)).status, Status::Waiting);
    assert_eq!(fixture.store.intake.counts().held.load(Relaxed), 2);
}

#[test]
fn held_submissions_without_a_channel_are_sealed_before_writing() {
    let fixture = sealing(&[]);
    let robot = by_a_robot(contact("Hello sesame"));
    let submission = fixture.get(fixture.accept_new(&robot));
    assert_eq!((submission.status, submission.fields.len()), (Status::Held, 0));
    assert_eq!(submission.held.unwrap().because, "honeypot (100), origin (35); 135 of 100 points");
    fixture.accept_repeat(
        &Arrival { evidence: Evidence::Facts(RequestFacts::default()), ..robot },
        submission.id,
    );
    let released = fixture.get(submission.id);
    assert_eq!((released.status, released.sealed.is_some()), (Status::Kept, true));
    assert!(!fixture.files_hold("sesame"));
}

#[test]
fn an_unheld_repeat_releases_a_submission_held_by_screening() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let held = contact("Hello").held_for(&[(Signal::Links, "4 links")]);
    let id = fixture.accept_new(&held);
    fixture.accept_repeat(&held, id);
    assert_eq!((fixture.get(id).status, fixture.get(id).repeats), (Status::Held, 1));
    fixture.accept_repeat(&contact("Hello"), id);
    let submission = fixture.get(id);
    assert_eq!((submission.status, submission.held, submission.repeats), (Status::Waiting, None, 2));
    assert_eq!(submission.released_at, Some(submission.received_at));
    assert_eq!(submission.screening, screening(60, &[(Signal::Links, 60, "4 links")], true));
    assert_eq!(fixture.reader().deliveries(id).unwrap()[0].state, DeliveryState::Waiting);
}

#[test]
fn an_operators_hold_stays_and_its_repeat_is_delivered() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    assert!(fixture.editor().hold(id, "by hand", Timestamp::UNIX_EPOCH).unwrap());
    let repeat = fixture.accept_new(&contact("Hello"));
    assert_eq!((fixture.get(id).status, fixture.get(repeat).status), (Status::Held, Status::Waiting));
    fixture.accept_repeat(&contact("Hello"), repeat);
}

#[test]
fn a_signal_that_is_not_known_any_more_is_left_out_and_nonsense_is_damage() {
    let fixture = Fixture::in_file();
    let id = fixture.accept_new(&contact("Hello").held_for(&[(Signal::Links, "4 links")]));
    fixture.sql(r#"UPDATE submission SET reasons = '[{"signal":"tone","points":9,"detail":"x"},{"signal":"rate","points":5,"detail":"y"}]'"#);
    assert_eq!(fixture.get(id).screening, screening(60, &[(Signal::Rate, 5, "y")], true));
    for nonsense in
        ["x", "{}", "[1]", r#"[{"signal":"rate","points":-1,"detail":""}]"#, r#"[{"signal":"rate"}]"#]
    {
        fixture.connection().execute("UPDATE submission SET reasons = ?1", [nonsense]).unwrap();
        assert!(matches!(fixture.reader().get(id), Err(StoreError::Damaged(_))), "{nonsense}");
    }
}

#[test]
fn once_sealed_the_details_are_gone_and_signals_and_points_stay() {
    let fixture = sealing(&[]);
    let mut arrival = contact("Hello");
    let reasons = vec![reason(Signal::Disposable, 25, "sesame.example")];
    arrival.evidence = Evidence::Verdict(ScreeningVerdict { reasons, ..ScreeningVerdict::default() });
    let id = fixture.accept_new(&arrival);
    let bare = screening(0, &[(Signal::Disposable, 25, "")], false);
    assert!(fixture.get(id).sealed.is_some());
    assert_eq!(fixture.get(id).screening, bare);
    assert!(!fixture.files_hold("sesame"), "the details of an undeliverable submission are never on disk");

    let fixture = sealing(&["crm"]);
    let id = fixture.accept_new(&arrival.held_for(&[(Signal::Disposable, "sesame.example")]));
    let seal = || fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap();
    assert!(!seal(), "it is held");
    assert!(fixture.files_hold("sesame.example"), "the search would find it");
    fixture.editor().release(id, &[], Timestamp::UNIX_EPOCH).unwrap();
    fixture.sql("UPDATE delivery SET state = 'delivered', due_at = NULL");
    assert!(seal());
    assert!(fixture.runtime.block_on(fixture.store.truncate_wal()).unwrap());
    assert_eq!(fixture.get(id).screening, screening(60, &[(Signal::Disposable, 60, "")], true));
    assert!(!fixture.files_hold("sesame"));
}

#[test]
fn erasing_a_submission_removes_its_reasons_and_source() {
    let fixture = Fixture::new();
    fixture.accept_new(&contact("Hello").held_for(&[(Signal::Disposable, "sesame.example")]));
    fixture.accept_new(&Arrival { source: source(2), ..waitlist("else@example.org") });
    fixture.record_refusals(&[(Some(1), "contact", 3), (Some(2), "contact", 4), (None, "contact", 5)], TODAY);
    assert!(fixture.files_hold("sesame"), "the search would find it");
    assert_eq!(fixture.editor().erase("ada@example.com").unwrap().submissions, 1);
    assert!(!fixture.files_hold("sesame"));
    let abuse = fixture.abuse("2026-11-20");
    assert_eq!((abuse.refused, abuse.source_count, abuse.sources[0].refused), (9, 1, 4));
}

#[test]
fn the_hardest_presser_comes_first_with_what_screening_was_wrong_about() {
    let fixture = Fixture::new();
    let day = |arrival: Arrival, n: u8, at: &str| Arrival {
        source: source(n),
        received_at: at.parse().unwrap(),
        ..arrival
    };
    let links = [(Signal::Links, "4 links")];
    let both = [(Signal::Honeypot, "filled in"), (Signal::Links, "5 links")];
    fixture.accept_new(&day(contact("before").held_for(&links), 3, "2026-11-18T23:59:59Z"));
    let wrong = fixture.accept_new(&day(contact("a").held_for(&links), 1, "2026-11-19T00:00:00Z"));
    fixture.accept_new(&day(contact("b").held_for(&both), 1, "2026-11-20T01:00:00Z"));
    fixture.accept_new(&day(contact("c").held_for(&both), 1, "2026-11-20T02:00:00Z"));
    let agent = Arrival { agent: Some("agent.example.com".to_owned()), ..contact("d") };
    let by_hand = fixture.accept_new(&day(agent, 2, "2026-11-20T03:00:00Z"));
    fixture.record_refusals(
        &[(Some(2), "contact", 1), (Some(2), "waitlist", 1), (Some(4), "contact", 2), (None, "contact", 7)],
        TODAY,
    );
    fixture.record_refusals(&[(Some(2), "contact", 40)], TODAY);
    fixture.record_refusals(&[(Some(2), "contact", 999)], "2026-11-18");
    let mut editor = fixture.editor();
    for id in [wrong, by_hand] {
        editor.hold(id, "odd", Timestamp::UNIX_EPOCH).unwrap();
        assert!(editor.release(id, &[], NOW.parse().unwrap()).unwrap());
    }
    // Repeats or the end of a flood released the others, which says nothing about screening.
    fixture.sql("UPDATE submission SET held_at = NULL, released_at = 1");
    let abuse = fixture.abuse("2026-11-19");
    assert_eq!((abuse.submissions, abuse.held, abuse.released), (4, 3, 1));
    assert_eq!((abuse.refused, abuse.refused_others, abuse.source_count), (51, 7, 3));
    let sources: Vec<_> = abuse.sources.iter().map(|of| (of.submissions, of.held, of.refused)).collect();
    assert_eq!(sources, [(1, 0, 42), (3, 3, 0), (0, 0, 2)]);
    assert_eq!(
        abuse.sources[1].source,
        fixture.get(wrong).source,
        "the hash is the same as that of its submissions"
    );
    let held = |signal: &str, held, released| SignalCount { signal: signal.to_owned(), held, released };
    assert_eq!(abuse.signals, [held("links", 3, 1), held("honeypot", 2, 0)]);
    let agent = AgentCount { agent: "agent.example.com".to_owned(), submissions: 1, held: 0 };
    assert_eq!((abuse.agents, abuse.agent_count), (vec![agent], 1));
    let few = fixture.reader().abuse("2026-11-19".parse().unwrap(), &TimeZone::UTC, 1).unwrap();
    assert_eq!((few.sources.len(), few.source_count, few.signals.len()), (1, 3, 2));
    let all = fixture.reader().abuse(jiff::civil::Date::MIN, &TimeZone::UTC, 1).unwrap();
    assert_eq!(all.submissions, 5, "a day that no clock shows");
}

#[test]
fn a_day_has_no_more_rows_of_refusals_than_it_may_and_loses_none_of_them() {
    let fixture = Fixture::new();
    for part in 0..11u32 {
        let refused = (0..1000).map(|n| RefusedRequests {
            source: Some(Source::V4((part * 1000 + n).to_be_bytes())),
            form: "contact",
            count: 1,
        });
        fixture
            .runtime
            .block_on(fixture.store.record_refusals(refused.collect(), TODAY.parse().unwrap()))
            .unwrap();
    }
    assert_eq!(fixture.count("pressure"), 10_001, "one of them is for other sources");
    let abuse = fixture.abuse("2026-11-20");
    assert_eq!((abuse.refused, abuse.refused_others), (11_000, 1000));
    let again = RefusedRequests { source: Some(Source::V4(7u32.to_be_bytes())), form: "contact", count: 5 };
    fixture.runtime.block_on(fixture.store.record_refusals(vec![again], TODAY.parse().unwrap())).unwrap();
    assert_eq!(fixture.abuse("2026-11-20").sources[0].refused, 6, "a source that has a row keeps it");
}

#[test]
fn the_oldest_waiting_submission_is_known_by_channel() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let oldest = || -> Vec<_> {
        let queue = fixture.reader().queue().unwrap();
        queue.channels.into_iter().filter_map(|channel| Some((channel.name, channel.oldest?))).collect()
    };
    let of = |names: &[&str], at: Timestamp| {
        names.iter().map(|name| (String::from(*name), at)).collect::<Vec<_>>()
    };
    let received: Timestamp = "2026-11-20T14:03:05.120Z".parse().unwrap();
    assert_eq!(oldest(), []);
    let held = fixture.accept_new(&contact("first").held_for(&[(Signal::Links, "4 links")]));
    assert_eq!(oldest(), [], "held submissions are not waiting");
    fixture.accept_new(&later(&contact("second"), HOUR));
    assert_eq!(oldest(), of(&["box", "crm"], received + HOUR));
    fixture.editor().release(held, &[], received + HOUR * 2).unwrap();
    assert_eq!(oldest(), of(&["box", "crm"], received), "the time of arrival counts");
    fixture.sql("UPDATE delivery SET state = 'delivered', due_at = NULL WHERE channel = 'box'");
    assert_eq!(oldest(), of(&["crm"], received));
    fixture.sql("UPDATE delivery SET state = 'parked', due_at = NULL WHERE channel = 'crm'");
    assert_eq!(oldest(), []);
}

#[test]
fn a_listing_can_be_of_one_channel() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let id = fixture.accept_new(&contact("one"));
    fixture.sql("DELETE FROM delivery WHERE channel = 'crm'");
    fixture.accept_new(&contact("two"));
    let of = |channel: &str| {
        let filter = Filter { channel: Some(channel.to_owned()), ..Filter::default() };
        fixture.reader().list(&filter).unwrap().map(|s| s.unwrap().id).collect::<Vec<_>>()
    };
    assert_eq!((of("box").len(), of("crm").len(), of("other").len()), (2, 1, 0));
    assert!(of("box").contains(&id) && !of("crm").contains(&id));
}

const NOW: &str = "2026-11-20T12:00:00Z";
const TODAY: &str = "2026-11-20";

fn reason(signal: Signal, points: u32, detail: &str) -> ScreeningReason {
    ScreeningReason { signal, points, detail: detail.to_owned() }
}

#[expect(clippy::unnecessary_wraps, reason = "a submission has an `Option`")]
fn screening(score: u32, reasons: &[(Signal, u32, &str)], withheld: bool) -> Option<Screening> {
    let reasons = reasons.iter().map(|(signal, points, detail)| reason(*signal, *points, detail)).collect();
    Some(Screening { score, reasons, withheld, suspicious: false })
}

/// A store with a recipient for encryption, whose submissions are sent to these channels.
pub(super) fn sealing(channels: &[&str]) -> Fixture {
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let Fixture { mut options, fresh, .. } = Fixture::with_channels(channels, &[]);
    options.intake.recipient = Some(Recipient::parse(recipient).unwrap());
    Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh }
}

impl Fixture {
    pub(super) fn abuse(&self, from: &str) -> Abuse {
        self.reader().abuse(from.parse().unwrap(), &TimeZone::UTC, 100).unwrap()
    }

    /// Records refused requests. Each entry has the number of a source (`None` for all other sources), a form
    /// and a count.
    fn record_refusals(&self, refused: &[(Option<u8>, &'static str, u64)], at: &str) {
        let refused = refused.iter().map(|(n, form, count)| RefusedRequests {
            source: n.map(source),
            form,
            count: *count,
        });
        self.runtime.block_on(self.store.record_refusals(refused.collect(), at.parse().unwrap())).unwrap();
    }

    pub(super) fn get(&self, id: Uuid) -> Submission {
        self.reader().get(id).unwrap().unwrap()
    }
}
