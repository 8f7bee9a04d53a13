//! Held submissions are sealed if no channel could deliver them.

use super::*;
use crate::submission::delivery::DeliveryState;
use frontdesk_age::Recipient;
use frontdesk_screening::verdict::{ScreeningReason, ScreeningVerdict, Signal};

const LINKS: [(Signal, &str); 1] = [(Signal::Links, "4 links")];

#[test]
fn a_held_submission_is_sealed_once_no_channel_could_deliver_it() {
    let fixture = Fixture::with_channels(&["box", "crm"], &["contact"]);
    let deliverable = fixture.accept_new(&contact("deliverable").held_for(&LINKS));
    let undeliverable = fixture.accept_new(&waitlist("without@example.com").held_for(&LINKS));
    let delivered = fixture.accept_new(&contact("delivered").held_for(&LINKS));
    let set = |id: Uuid, set: &str, channel: &str| {
        let sql = format!("UPDATE delivery SET {set} WHERE submission = ?1 AND channel = ?2");
        fixture.fresh.sql().execute(&sql, sql::values![id.as_bytes(), channel]).unwrap();
    };
    for channel in ["box", "crm"] {
        set(delivered, "state = 'delivered'", channel);
    }
    let sealable = |channels: &[&str]| {
        let found = fixture
            .reader()
            .to_be_sealed(&super::channels(channels, &["contact"]), Uuid::nil(), 9)
            .unwrap()
            .0;
        found.iter().map(|submission| submission.id).collect::<Vec<_>>()
    };
    assert_eq!(sealable(&["box", "crm"]), [undeliverable, delivered]);
    // One channel that could deliver it is enough.
    assert_eq!(sealable(&["crm"]), [undeliverable, delivered]);
    // After its release, a submission would be delivered by a channel that was added or renamed meanwhile.
    assert_eq!(sealable(&["other"]), [undeliverable]);
    assert_eq!(sealable(&[]), [deliverable, undeliverable, delivered]);
    // A delivery for a channel that is no longer configured does not count.
    set(deliverable, "state = 'delivered'", "crm");
    assert_eq!(sealable(&["crm"]), [deliverable, undeliverable, delivered]);
    // Another replica may still have that channel.
    set(deliverable, "state = 'sending', due_at = 1", "box");
    assert_eq!(sealable(&["crm"]), [undeliverable, delivered]);
    set(deliverable, "state = 'held', due_at = NULL", "box");
    // The store uses its own configured channels.
    let seal = |id| fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap();
    assert_eq!([deliverable, undeliverable, delivered].map(seal), [false, true, true]);
    let options = Options { channels: channels(&["crm"], &["contact"]), ..fixture.options.clone() };
    fixture.store.reconfigure(&options);
    assert!(seal(deliverable) && !seal(deliverable));
    assert!(sealable(&[]).is_empty());
}

#[test]
fn deliveries_of_a_removed_channel_are_not_sealed() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let id = fixture.accept_new(&contact("waiting"));
    assert_eq!(fixture.reader().to_be_sealed(&[], Uuid::nil(), 9).unwrap().0, []);
    fixture.store.reconfigure(&Options { channels: Vec::new(), ..fixture.options.clone() });
    assert!(!fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
}

#[test]
fn why_a_sealed_submission_is_held_names_no_domain() {
    let fixture = Fixture::with_options(|options| options.channels = channels(&["crm"], &["contact"]));
    let mut arrival = waitlist("ada@sesame.example");
    let reason = |signal, points, detail: &str| ScreeningReason { signal, points, detail: detail.to_owned() };
    let reasons = vec![
        reason(Signal::Disposable, 25, "disposable address at sesame.example"),
        reason(Signal::Honeypot, 60, "hidden field filled in"),
    ];
    arrival.evidence = Evidence::Verdict(ScreeningVerdict {
        score: 85,
        reasons,
        hold: true,
        suspicious: false,
        threshold: 50,
    });
    let id = fixture.accept_new(&arrival);
    let by_hand = fixture.accept_new(&waitlist("bob@example.com"));
    assert!(fixture.editor().hold(by_hand, "odd; see ticket 7", Timestamp::UNIX_EPOCH).unwrap());
    let because = |id| fixture.reader().get(id).unwrap().unwrap().held.unwrap().because;
    assert!(because(id).starts_with("disposable address at sesame.example (25)"), "{}", because(id));
    for id in [id, by_hand] {
        assert!(fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
    }
    assert_eq!(because(id), "disposable (25), honeypot (60); 85 of 50 points");
    assert_eq!(because(by_hand), "odd; see ticket 7");
    assert!(fixture.runtime.block_on(fixture.store.truncate_wal()).unwrap());
    assert!(!fixture.files_hold("sesame"));
}

#[test]
fn a_held_submission_can_be_delivered_after_its_release() {
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let fixture = Fixture::with_options(|options| {
        options.channels = channels(&["crm"], &[]);
        options.intake.recipient = Some(Recipient::parse(recipient).unwrap());
    });
    let id = fixture.accept_new(&contact("Hello").held_for(&LINKS));
    assert!(!fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
    assert!(fixture.editor().release(id, &[], Timestamp::UNIX_EPOCH).unwrap());
    let submission = fixture.reader().get(id).unwrap().unwrap();
    assert_eq!((submission.sealed, submission.fields.len()), (None, 3));
    assert_eq!(fixture.reader().deliveries(id).unwrap()[0].state, DeliveryState::Waiting);
}
