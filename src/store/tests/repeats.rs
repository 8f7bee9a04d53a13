//! A visitor's repeat counts on an earlier submission only if that one is or will be delivered, and stays.

use super::*;
use crate::limits::Quota;
use crate::submission::outcome::Cause;
use crate::submission::schedule::NextStep;
use crate::submission::verdict::Signal;

const HONEYPOT: [(Signal, &str); 1] = [(Signal::Honeypot, "filled in")];

/// An attacker's submission before the visitor's, in other case and held.
fn hostile() -> Arrival {
    waitlist("CEO@bigcorp.example").held_for(&HONEYPOT)
}

/// The visitor's submission.
fn honest() -> Arrival {
    Arrival { source: source(9), ..waitlist("ceo@bigcorp.example") }
}

impl Desk {
    /// From now on these channels are configured, for all forms.
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

/// Some hours after everything was received.
fn evening() -> Timestamp {
    "2026-11-20T20:00:00Z".parse().unwrap()
}

#[test]
fn a_repeat_of_what_was_held_before_there_was_a_channel_is_delivered() {
    let desk = Desk::new();
    let held = desk.keep_new(&hostile());
    desk.configure(&["box"]);
    desk.keep_again(&honest(), held);
    assert_eq!(desk.sent("box"), [held]);
}

#[test]
fn a_repeat_of_what_was_kept_before_there_was_a_channel_is_delivered() {
    let desk = Desk::new();
    let kept = desk.keep_new(&waitlist("ceo@bigcorp.example"));
    desk.keep_again(&honest(), kept);
    desk.configure(&["box"]);
    let id = desk.keep_new(&honest());
    desk.keep_again(&honest(), id);
    assert_eq!((desk.sent("box"), desk.status(kept)), (vec![id], Status::Kept));
    // Where no channel takes the form, the newest counts.
    desk.configure(&[]);
    desk.keep_again(&honest(), id);
}

#[test]
fn a_repeat_is_delivered_by_a_channel_that_was_renamed() {
    let desk = Desk::with_channels(&["mail"], &[]);
    let held = desk.keep_new(&hostile());
    let waiting = desk.keep_new(&contact("Hello"));
    desk.configure(&["box"]);
    desk.keep_again(&honest(), held);
    let again = desk.keep_new(&contact("Hello"));
    assert_eq!(desk.sent("box"), [held, again]);
    assert_eq!(desk.status(waiting), Status::Waiting, "it can still be delivered by the old name");
}

#[test]
fn a_delivery_by_a_removed_channel_still_absorbs_repeats() {
    let desk = Desk::with_channels(&["mail"], &[]);
    let id = desk.keep_new(&contact("Hello"));
    desk.record(
        &desk.claim("mail", evening())[0],
        &Outcome::delivered("250"),
        NextStep::Delivered,
        evening(),
    );
    desk.configure(&["box"]);
    desk.keep_again(&contact("Hello"), id);
    desk.keep_again(&contact("Hello").held_for(&HONEYPOT), id);
    assert!(desk.sent("box").is_empty());
}

#[test]
fn a_repeat_of_what_is_parked_is_tried_by_itself() {
    let desk = Desk::with_channels(&["box"], &[]);
    let parked = desk.keep_new(&contact("Hello"));
    let refused = Outcome::failed(Cause::Refused, "550");
    desk.record(&desk.claim("box", evening())[0], &refused, NextStep::Parked, evening());
    let id = desk.keep_new(&contact("Hello"));
    desk.keep_again(&contact("Hello"), id);
    assert_eq!((desk.sent("box"), desk.status(parked)), (vec![id], Status::Parked));
}

#[test]
fn a_repeat_of_what_was_encrypted_while_held_is_delivered() {
    let desk = Desk::with_channels(&["box"], &[]);
    let held = desk.keep_new(&hostile());
    desk.configure(&[]);
    assert!(desk.runtime.block_on(desk.store.seal(held, b"sealed".to_vec())).unwrap());
    desk.keep_again(&hostile(), held);
    desk.configure(&["box"]);
    let id = desk.keep_new(&honest());
    assert_eq!((desk.sent("box"), desk.status(held)), (vec![id], Status::Held));
    // No channel can read the other one after its release.
    assert!(desk.editor().release(held, &channels(&["crm"], &[]), evening()).unwrap());
    assert_eq!(desk.deliveries(held).iter().map(|it| it.channel.as_str()).collect::<Vec<_>>(), ["box"]);
}

#[test]
fn a_release_delivers_by_the_channels_that_are_configured_then() {
    let desk = Desk::with_channels(&["mail"], &[]);
    let held = desk.keep_new(&contact("lead").held_for(&HONEYPOT));
    let mut today = channels(&["mail", "box"], &["contact"]);
    today.extend(channels(&["other"], &["waitlist"]));
    assert!(desk.editor().release(held, &today, evening()).unwrap());
    let deliveries = desk.deliveries(held);
    let found: Vec<_> = deliveries.iter().map(|it| (it.channel.as_str(), it.state)).collect();
    assert_eq!(found, [("box", DeliveryState::Waiting), ("mail", DeliveryState::Waiting)]);
    assert_eq!((desk.sent("box"), desk.sent("mail")), (vec![held], vec![held]));
    // A submission that is not held gets no further deliveries.
    assert!(!desk.editor().release(held, &channels(&["crm"], &[]), evening()).unwrap());
    assert_eq!(desk.count("delivery"), 2);
}

#[test]
fn the_end_of_a_flood_delivers_by_the_channels_that_are_configured_then() {
    let desk = Desk::with_options(|options| {
        options.intake.form_quota = Some(Quota { per_minute: 1, per_hour: 1 });
        // The flood ends only when the test says so.
        options.intake.flood_ends_after = Duration::from_hours(1);
    });
    let now = Timestamp::now();
    let sent: Vec<Uuid> = (0..5)
        .map(|n| desk.keep_new(&Arrival { received_at: now, ..contact(&format!("number {n}")) }))
        .collect();
    assert_eq!(desk.status(sent[4]), Status::Held);
    let (sql, later) = (desk.fresh.sql(), now + Duration::from_hours(2));
    let release =
        || inbox::transaction(&*sql).release_ended_floods(later, DAY / 24, 9, &channels(&["box"], &[]));
    // On a server the processor may have its turn just then.
    while desk.status(sent[4]) == Status::Held {
        sql.transaction(release).unwrap();
    }
    let deliveries = desk.deliveries(sent[4]);
    assert_eq!(
        deliveries.iter().map(|it| (it.channel.as_str(), it.state)).collect::<Vec<_>>(),
        [("box", DeliveryState::Waiting)]
    );
}

#[test]
fn a_held_submission_of_another_source_is_kept_and_discarded_by_itself() {
    let desk = Desk::with_channels(&["box"], &[]);
    let attack = desk.keep_new(&hostile());
    let id = desk.keep_new(&honest().held_for(&HONEYPOT));
    desk.keep_again(&honest().held_for(&HONEYPOT), id);
    let attacker = desk.reader().get(attack).unwrap().unwrap().source;
    let filter = HeldFilter { source: SourcePrefix::parse(&attacker), ..HeldFilter::default() };
    assert_eq!(desk.editor().discard_held(&filter).unwrap().submissions, 1);
    assert_eq!(desk.status(id), Status::Held);
}

#[test]
fn a_repeat_that_is_held_counts_as_held_since_then() {
    let desk = Desk::with_channels(&["box"], &[]);
    let first = desk.keep_new(&hostile());
    desk.keep_again(&later(&hostile(), DAY * 30), first);
    let expire = |after: Duration| {
        let before = hostile().received_at + after;
        desk.runtime.block_on(desk.store.change(move |tx| tx.expire_held(before))).unwrap()
    };
    // One that was received earlier and processed later changes nothing.
    desk.keep_again(&later(&hostile(), DAY), first);
    assert_eq!((expire(DAY * 30), expire(DAY * 30 + MILLISECOND)), (0, 1));
}
