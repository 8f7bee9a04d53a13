//! A submission counts as a repeat of an earlier one only if the earlier one is stored and has been or will
//! be delivered.

use super::*;
use crate::submission::delivery_outcome::Cause;
use crate::submission::schedule::NextStep;
use frontdesk_limits::Quota;
use frontdesk_screening::verdict::Signal;

const HONEYPOT: [(Signal, &str); 1] = [(Signal::Honeypot, "filled in")];

/// An attacker's submission before the visitor's. It is held, and differs only in case.
fn hostile() -> Arrival {
    waitlist("CEO@bigcorp.example").held_for(&HONEYPOT)
}

/// The visitor's submission.
fn honest() -> Arrival {
    Arrival { source: source(9), ..waitlist("ceo@bigcorp.example") }
}

impl Fixture {
    /// Configures these channels for all forms.
    fn configure(&self, names: &[&str]) {
        self.store.reconfigure(&Options { channels: channels(names, &[]), ..self.options.clone() });
    }

    /// The submissions that a channel delivers.
    fn sent(&self, channel: &str) -> Vec<Uuid> {
        let mut sent: Vec<Uuid> =
            self.claim(channel, evening()).iter().map(|claimed| claimed.lease.submission).collect();
        sent.sort_unstable();
        sent
    }
}

/// A few hours after everything was received.
fn evening() -> Timestamp {
    "2026-11-20T20:00:00Z".parse().unwrap()
}

#[test]
fn a_repeat_of_what_was_held_before_there_was_a_channel_is_delivered() {
    let fixture = Fixture::new();
    let held = fixture.accept_new(&hostile());
    fixture.configure(&["box"]);
    fixture.accept_repeat(&honest(), held);
    assert_eq!(fixture.sent("box"), [held]);
}

#[test]
fn a_repeat_of_what_was_kept_before_there_was_a_channel_is_delivered() {
    let fixture = Fixture::new();
    let kept = fixture.accept_new(&waitlist("ceo@bigcorp.example"));
    fixture.accept_repeat(&honest(), kept);
    fixture.configure(&["box"]);
    let id = fixture.accept_new(&honest());
    fixture.accept_repeat(&honest(), id);
    assert_eq!((fixture.sent("box"), fixture.status(kept)), (vec![id], Status::Kept));
    // If no channel accepts the form, the newest submission is the original.
    fixture.configure(&[]);
    fixture.accept_repeat(&honest(), id);
}

#[test]
fn a_repeat_is_delivered_by_a_channel_that_was_renamed() {
    let fixture = Fixture::with_channels(&["mail"], &[]);
    let held = fixture.accept_new(&hostile());
    let waiting = fixture.accept_new(&contact("Hello"));
    fixture.configure(&["box"]);
    fixture.accept_repeat(&honest(), held);
    let again = fixture.accept_new(&contact("Hello"));
    assert_eq!(fixture.sent("box"), [held, again]);
    assert_eq!(fixture.status(waiting), Status::Waiting, "it can still be delivered by the old name");
}

#[test]
fn a_delivery_by_a_removed_channel_still_absorbs_repeats() {
    let fixture = Fixture::with_channels(&["mail"], &[]);
    let id = fixture.accept_new(&contact("Hello"));
    fixture.record(
        &fixture.claim("mail", evening())[0],
        &Outcome::delivered("250"),
        NextStep::Delivered,
        evening(),
    );
    fixture.configure(&["box"]);
    fixture.accept_repeat(&contact("Hello"), id);
    fixture.accept_repeat(&contact("Hello").held_for(&HONEYPOT), id);
    assert!(fixture.sent("box").is_empty());
}

#[test]
fn a_repeat_of_what_is_parked_is_tried_by_itself() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let parked = fixture.accept_new(&contact("Hello"));
    let refused = Outcome::failed(Cause::Refused, "550");
    fixture.record(&fixture.claim("box", evening())[0], &refused, NextStep::Parked, evening());
    let id = fixture.accept_new(&contact("Hello"));
    fixture.accept_repeat(&contact("Hello"), id);
    assert_eq!((fixture.sent("box"), fixture.status(parked)), (vec![id], Status::Parked));
}

#[test]
fn a_repeat_of_what_was_encrypted_while_held_is_delivered() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let held = fixture.accept_new(&hostile());
    fixture.configure(&[]);
    assert!(fixture.runtime.block_on(fixture.store.seal(held, b"sealed".to_vec())).unwrap());
    fixture.accept_repeat(&hostile(), held);
    fixture.configure(&["box"]);
    let id = fixture.accept_new(&honest());
    assert_eq!((fixture.sent("box"), fixture.status(held)), (vec![id], Status::Held));
    // No channel can read the encrypted submission after its release.
    assert!(fixture.editor().release(held, &channels(&["crm"], &[]), evening()).unwrap());
    assert_eq!(fixture.deliveries(held).iter().map(|it| it.channel.as_str()).collect::<Vec<_>>(), ["box"]);
}

#[test]
fn a_release_delivers_by_the_channels_that_are_configured_then() {
    let fixture = Fixture::with_channels(&["mail"], &[]);
    let held = fixture.accept_new(&contact("lead").held_for(&HONEYPOT));
    let mut today = channels(&["mail", "box"], &["contact"]);
    today.extend(channels(&["other"], &["waitlist"]));
    assert!(fixture.editor().release(held, &today, evening()).unwrap());
    let deliveries = fixture.deliveries(held);
    let found: Vec<_> = deliveries.iter().map(|it| (it.channel.as_str(), it.state)).collect();
    assert_eq!(found, [("box", DeliveryState::Waiting), ("mail", DeliveryState::Waiting)]);
    assert_eq!((fixture.sent("box"), fixture.sent("mail")), (vec![held], vec![held]));
    // A submission that is not held gets no further deliveries.
    assert!(!fixture.editor().release(held, &channels(&["crm"], &[]), evening()).unwrap());
    assert_eq!(fixture.count("delivery"), 2);
}

#[test]
fn the_end_of_a_flood_delivers_by_the_channels_that_are_configured_then() {
    let fixture = Fixture::with_options(|options| {
        options.intake.form_quota = Some(Quota { per_minute: 1, per_hour: 1 });
        // The flood ends only when the test ends it.
        options.intake.flood_ends_after = Duration::from_hours(1);
    });
    let now = Timestamp::now();
    let sent: Vec<Uuid> = (0..5)
        .map(|n| fixture.accept_new(&Arrival { received_at: now, ..contact(&format!("number {n}")) }))
        .collect();
    assert_eq!(fixture.status(sent[4]), Status::Held);
    let (sql, later) = (fixture.fresh.sql(), now + Duration::from_hours(2));
    let release = || {
        crate::testing::inbox::transaction(&*sql).release_ended_floods(
            later,
            DAY / 24,
            9,
            &channels(&["box"], &[]),
        )
    };
    // With PostgreSQL, a call does nothing while the store is processing the intake, so call repeatedly.
    while fixture.status(sent[4]) == Status::Held {
        sql.transaction(release).unwrap();
    }
    let deliveries = fixture.deliveries(sent[4]);
    assert_eq!(
        deliveries.iter().map(|it| (it.channel.as_str(), it.state)).collect::<Vec<_>>(),
        [("box", DeliveryState::Waiting)]
    );
}

#[test]
fn a_held_submission_of_another_source_is_kept_and_discarded_by_itself() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let attack = fixture.accept_new(&hostile());
    let id = fixture.accept_new(&honest().held_for(&HONEYPOT));
    fixture.accept_repeat(&honest().held_for(&HONEYPOT), id);
    let attacker = fixture.reader().get(attack).unwrap().unwrap().source;
    let filter = HeldFilter { source: SourcePrefix::parse(&attacker), ..HeldFilter::default() };
    assert_eq!(fixture.editor().discard_held(&filter, Timestamp::UNIX_EPOCH).unwrap().submissions, 1);
    assert_eq!(fixture.status(id), Status::Held);
}

#[test]
fn a_repeat_that_is_held_counts_as_held_since_then() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let first = fixture.accept_new(&hostile());
    fixture.accept_repeat(&later(&hostile(), DAY * 30), first);
    let expire = |after: Duration| {
        let before = hostile().received_at + after;
        fixture.runtime.block_on(fixture.store.change(move |tx| tx.expire_held(before, before))).unwrap()
    };
    // A repeat that was received earlier but processed later changes nothing.
    fixture.accept_repeat(&later(&hostile(), DAY), first);
    assert_eq!((expire(DAY * 30), expire(DAY * 30 + MILLISECOND)), (0, 1));
}

/// The archive has an attacker's copy of a request, but the mail server has refused or deferred the copy.
#[test]
fn a_copy_that_only_an_archive_has_does_not_absorb_a_visitors_request() {
    for is_parked in [true, false] {
        let fixture = Fixture::with_channels(&["archive", "mail"], &[]);
        let copy = fixture.accept_new(&waitlist("CEO@bigcorp.example"));
        let archived = &fixture.claim("archive", evening())[0];
        fixture.record(archived, &Outcome::delivered("kept"), NextStep::Delivered, evening());
        let mailed = &fixture.claim("mail", evening())[0];
        if is_parked {
            fixture.record(mailed, &Outcome::failed(Cause::Refused, "554"), NextStep::Parked, evening());
        } else {
            let later = NextStep::RetryAt(evening() + Duration::from_hours(5));
            fixture.record(mailed, &Outcome::failed(Cause::Deferred, "451"), later, evening());
        }
        let id = fixture.accept_new(&Arrival { received_at: evening(), ..honest() });
        assert_ne!(id, copy);
        assert_eq!(fixture.sent("mail"), [id]);
    }
}

#[test]
fn a_request_is_not_a_repeat_of_what_retention_soon_removes() {
    for held in [false, true] {
        let fixture = Fixture::with_options(|options| {
            options.intake.retention = Some(DAY * 30);
        });
        let copy = if held { hostile() } else { waitlist("ceo@bigcorp.example") };
        let copy = Arrival { source: source(1), ..copy };
        let old = fixture.accept_new(&copy);
        fixture.accept_repeat(&Arrival { source: source(1), ..later(&copy, DAY * 14) }, old);
        let visit = later(&honest(), DAY * 16);
        let id = fixture.accept_new(&visit);
        let before = copy.received_at + MILLISECOND;
        fixture
            .runtime
            .block_on(fixture.store.change(move |tx| tx.expire(before, &FormScope::ALL, Uuid::nil())))
            .unwrap();
        assert_eq!(fixture.status(id), Status::Kept, "held: {held}");
    }
}

#[test]
fn different_values_with_the_same_text_are_no_repeats() {
    let form = |kind: &str, unique: &str| {
        let text = format!(
            "title = \"T\"\nunique = \"{unique}\"\n[[field]]\nname = \"a\"\ntype = \"{kind}\"\nlabel = \"A\"\nrequired = true\n{}\n\
             [[field]]\nname = \"b\"\ntype = \"text\"\nlabel = \"B\"\nrequired = true\n",
            if kind == "choices" { "options = [\"x\", \"y\", \"x, y\", \"1\"]" } else { "" }
        );
        frontdesk_forms::FormFile::read("demo", &text, "forms/demo.toml").unwrap().form
    };
    let fixture = Fixture::new();
    let accept = |form, body: &str| {
        let entry = frontdesk_forms::parse(form, body.as_bytes()).unwrap();
        fixture.accept_new(&Arrival { entry, ..contact("any") });
    };
    let (list, number, text) =
        (form("choices", "content"), form("number", "content"), form("text", "content"));
    accept(list, r#"{"a":["x","y"],"b":"c"}"#);
    accept(list, r#"{"a":["x, y"],"b":"c"}"#);
    accept(list, r#"{"a":["1"],"b":"c"}"#);
    accept(number, r#"{"a":1,"b":"c"}"#);
    accept(text, r#"{"a":"1","b":"c"}"#);
    // After a change of the unique field, the values of the other one do not count.
    accept(form("text", "a"), r#"{"a":"ann","b":"bob"}"#);
    accept(form("text", "b"), r#"{"a":"carol","b":"ann"}"#);
    assert_eq!(fixture.count("submission"), 7);
}
