//! Double opt-in: an entry is delivered once its visitor has confirmed the address, and only then.

use super::*;
use crate::store::test_statement_recorder as recorder;
use crate::submission::delivery::Delivery;
use crate::submission::delivery_outcome::Cause;
use crate::submission::visitor_mail::{ConfirmationRule, HourlyLimits, VisitorMail, VisitorRule};

const ASKS: &str = VisitorMail::Confirmation.name();
const REMINDS: &str = VisitorMail::Reminder.name();
const WEEK: Duration = Duration::from_hours(7 * 24);
const HONEYPOT: [(Signal, &str); 1] = [(Signal::Honeypot, "filled in")];

#[test]
fn an_entry_waits_for_its_confirmation_and_is_then_delivered_once() {
    let fixture = confirming(100, None);
    let id = fixture.accept_new(&waitlist("ada@example.com"));
    assert_eq!(
        (fixture.status(id), fixture.state("box", id)),
        (Status::Unconfirmed, Some(DeliveryState::Held))
    );
    assert_eq!((fixture.ask(noon()), fixture.ask(noon())), (1, 0));
    let token = fixture.send(ASKS, id, noon());
    assert_eq!(fixture.state("box", id), Some(DeliveryState::Held));
    for _ in 0..3 {
        assert_eq!(fixture.look(&token, noon()), LinkState::Open, "a scanner changes nothing");
    }
    assert_eq!(fixture.status(id), Status::Unconfirmed);
    assert_eq!(fixture.confirm(&token, noon()), (LinkState::Confirmed, true));
    assert_eq!(fixture.confirm(&token, noon() + 9 * WEEK), (LinkState::Confirmed, false));
    assert_eq!(fixture.look(&token, noon()), LinkState::Confirmed);
    assert_eq!((fixture.status(id), fixture.claim("box", noon()).len()), (Status::Waiting, 1));
    let confirmed = fixture.reader().get(id).unwrap().unwrap().confirmation.unwrap();
    assert_eq!(confirmed.confirmed_at, Some(noon()));
    // A repeat changes nothing, and no mail is sent.
    fixture.accept_repeat(&later(&waitlist("ADA@example.com"), 2 * DAY), id);
    assert_eq!(fixture.ask(noon() + 3 * DAY), 0);
}

#[test]
fn forged_expired_and_unknown_links_do_nothing() {
    let fixture = confirming(100, None);
    let id = fixture.accept_new(&waitlist("ada@example.com"));
    fixture.ask(noon());
    let token = fixture.send(ASKS, id, noon());
    let mut forged = token.clone();
    // The last character of a signature may have a letter behind it.
    forged.replace_range(46..47, if &token[46..47] == "A" { "B" } else { "A" });
    assert_eq!(fixture.confirm(&forged, noon()), (LinkState::Unknown, false));
    let end = noon() + WEEK;
    assert_eq!(fixture.look(&token, end - Duration::from_secs(1)), LinkState::Open);
    assert_eq!(
        (fixture.look(&token, end), fixture.confirm(&token, end)),
        (LinkState::Expired, (LinkState::Expired, false))
    );
    assert_eq!(fixture.status(id), Status::Unconfirmed, "nothing is discarded");
    // Another inbox has another secret.
    let other = confirming(100, None);
    assert_eq!(other.confirm(&token, noon()), (LinkState::Unknown, false));
    fixture.editor().discard(&[id], Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(fixture.confirm(&token, noon()), (LinkState::Unknown, false));
    assert_eq!((fixture.count("confirmation"), fixture.count("delivery")), (0, 0));
}

#[test]
fn a_visitor_who_sends_the_form_again_gets_a_new_link_once_a_day() {
    let fixture = confirming(100, None);
    let entry = waitlist("ada@example.com");
    let id = fixture.accept_new(&entry);
    assert_eq!(fixture.ask(noon()), 1);
    let first = fixture.send(ASKS, id, noon());
    for _ in 0..50 {
        fixture.accept_repeat(&later(&entry, Duration::from_hours(2)), id);
    }
    assert_eq!(fixture.ask(noon() + Duration::from_hours(3)), 0);
    // After the link has expired.
    fixture.accept_repeat(&later(&entry, 2 * WEEK), id);
    let now = noon() + 2 * WEEK;
    assert_eq!(fixture.ask(now), 1);
    let second = fixture.send(ASKS, id, now);
    assert_ne!(first, second);
    assert_eq!(fixture.confirm(&first, now), (LinkState::Expired, false));
    assert_eq!(fixture.confirm(&second, now), (LinkState::Confirmed, true));
}

#[test]
fn a_visitor_is_reminded_once() {
    let fixture = confirming(100, Some(2 * DAY));
    let [id, quick] =
        ["ada@example.com", "eve@example.com"].map(|email| fixture.accept_new(&waitlist(email)));
    assert_eq!(fixture.ask(noon()), 2);
    let token = fixture.send(ASKS, id, noon());
    let confirmed = fixture.send(ASKS, quick, noon());
    assert_eq!(fixture.confirm(&confirmed, noon()), (LinkState::Confirmed, true));
    assert_eq!(fixture.ask(noon() + DAY), 0);
    assert_eq!(fixture.ask(noon() + 2 * DAY), 1);
    assert_eq!(fixture.send(REMINDS, id, noon() + 2 * DAY), token, "the same link");
    assert_eq!(fixture.state(REMINDS, quick), None);
    assert_eq!(fixture.ask(noon() + 9 * DAY), 0);
}

#[test]
fn a_mail_that_is_no_longer_needed_is_not_sent() {
    let fixture = confirming(100, Some(2 * DAY));
    let id = fixture.accept_new(&waitlist("ada@example.com"));
    fixture.ask(noon());
    let token = fixture.send(ASKS, id, noon());
    fixture.ask(noon() + 2 * DAY);
    assert_eq!(fixture.state(REMINDS, id), Some(DeliveryState::Waiting));
    fixture.confirm(&token, noon() + 2 * DAY);
    assert_eq!(fixture.state(REMINDS, id), None);
}

#[test]
fn held_and_suspicious_entries_get_no_mail_until_they_are_released() {
    let fixture = confirming(100, None);
    let verdict = ScreeningVerdict { suspicious: true, score: 60, ..ScreeningVerdict::default() };
    let suspicious = Arrival { evidence: Evidence::Verdict(verdict), ..waitlist("eve@example.com") };
    let held = [waitlist("ada@example.com").held_for(&HONEYPOT), suspicious];
    for arrival in &held {
        let id = fixture.accept_new(arrival);
        assert_eq!((fixture.status(id), fixture.ask(noon())), (Status::Held, 0));
        fixture.accept_repeat(&later(arrival, 2 * DAY), id);
        assert_eq!((fixture.status(id), fixture.ask(noon() + 3 * DAY)), (Status::Held, 0));
        let mut editor = fixture.editor();
        assert!(editor.release(id, &fixture.options.channels, noon()).unwrap());
        assert_eq!((fixture.status(id), fixture.ask(noon())), (Status::Unconfirmed, 1));
        let token = fixture.send(ASKS, id, noon());
        assert_eq!(fixture.confirm(&token, noon()), (LinkState::Confirmed, true));
        assert_eq!(fixture.status(id), Status::Waiting);
    }
    // A clean repeat releases a held entry, which is then asked to confirm.
    let id = fixture.accept_new(&waitlist("bob@example.com").held_for(&HONEYPOT));
    fixture.accept_repeat(&Arrival { source: source(9), ..waitlist("bob@example.com") }, id);
    assert_eq!((fixture.status(id), fixture.ask(noon())), (Status::Unconfirmed, 1));
}

#[test]
fn a_hold_revokes_the_lesson_of_a_release_that_asked_for_the_confirmation() {
    let limits = HourlyLimits { all: 100, network: None, domain: None };
    let fixture = Fixture::with_options(|options| {
        options.channels = confirmation_routes("contact", limits, None);
        options.intake.clock = before_any_mail_is_due;
    });
    let id = fixture.accept_new(&contact("Does the museum open on Mondays in winter?").held_for(&HONEYPOT));
    let lessons = || fixture.reader().lessons(None, noon()).unwrap().map_or(0, |found| found.lessons.len());
    let mut editor = fixture.editor();
    for _ in 0..2 {
        assert!(editor.release(id, &fixture.options.channels, noon()).unwrap());
        assert_eq!((fixture.status(id), lessons()), (Status::Unconfirmed, 1));
        assert!(editor.hold(id, "odd", noon()).unwrap());
        assert_eq!((fixture.status(id), lessons()), (Status::Held, 0));
    }
}

#[test]
fn the_operator_can_release_or_hold_an_unconfirmed_entry() {
    let fixture = confirming(100, Some(2 * DAY));
    let [released, held] =
        ["ada@example.com", "eve@example.com"].map(|email| fixture.accept_new(&waitlist(email)));
    fixture.ask(noon());
    let tokens = [released, held].map(|id| fixture.send(ASKS, id, noon()));
    let mut editor = fixture.editor();
    assert!(editor.release(released, &fixture.options.channels, noon()).unwrap());
    assert_eq!(fixture.status(released), Status::Waiting);
    assert!(editor.hold(held, "odd", noon()).unwrap());
    assert_eq!(fixture.status(held), Status::Held);
    assert_eq!(fixture.ask(noon() + 3 * DAY), 0, "neither gets a reminder");
    let logged = fixture.reader().operator_log(None, 9).unwrap();
    let logged: Vec<_> = logged.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(logged, ["hold", "release"], "newest first");
    let since = fixture.reader().get(held).unwrap().unwrap().held.unwrap().since;
    assert!(since >= noon(), "{since}: held by the operator, not since it arrived");
    // The visitor's click is recorded, but delivers nothing again, and does not undo the hold.
    assert_eq!(fixture.confirm(&tokens[0], noon()), (LinkState::Confirmed, true));
    assert_eq!(fixture.claim("box", noon()).len(), 1);
    assert_eq!(fixture.confirm(&tokens[1], noon()), (LinkState::Unknown, false));
    assert_eq!(fixture.status(held), Status::Held);
}

#[test]
fn unconfirmed_entries_are_listed_but_not_counted_as_held() {
    let fixture = confirming(100, None);
    let unconfirmed = fixture.accept_new(&waitlist("ada@example.com"));
    let held = fixture.accept_new(&contact("odd").held_for(&HONEYPOT));
    let count =
        |status| fixture.reader().count(&Filter { status: Some(status), ..Filter::default() }).unwrap();
    assert_eq!(
        [Status::Unconfirmed, Status::Held, Status::Waiting, Status::Delivered].map(count),
        [1, 1, 0, 0]
    );
    assert_eq!(fixture.reader().queue().unwrap().held, 1);
    let counts = fixture.reader().daily_counts(&jiff::tz::TimeZone::UTC).unwrap();
    assert!(counts.iter().any(|tally| tally.status == Status::Unconfirmed && tally.count == 1));
    let filter = HeldFilter::default();
    assert_eq!(fixture.reader().held(&filter).unwrap().submissions, 1);
    // An unconfirmed entry that is marked as spam is subtracted from the held ones only once.
    let to_review = || fixture.reader().count_up_to(Status::Held, 9).unwrap();
    assert_eq!(to_review(), 1);
    fixture.editor().set_spam(unconfirmed, true, noon()).unwrap();
    assert_eq!(to_review(), 1);
    fixture.editor().discard_held(&filter, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(fixture.reader().get(held).unwrap(), None);
    assert_eq!((count(Status::Unconfirmed), count(Status::Held)), (1, 0));
}

#[test]
fn mails_beyond_the_limit_wait_and_failed_ones_are_tried_again() {
    let fixture = confirming(2, None);
    let ids: Vec<Uuid> =
        (0..3).map(|n| fixture.accept_new(&waitlist(&format!("v{n}@example.com")))).collect();
    fixture.ask(noon());
    let asked = || ids.iter().filter(|id| fixture.state(ASKS, **id).is_some()).count();
    assert_eq!(asked(), 2);
    fixture.ask(noon() + Duration::from_mins(61));
    assert_eq!(asked(), 3);
    // The entry is held, but the mail about it is not.
    let claimed = fixture.claim(ASKS, noon()).remove(0);
    let failed = Outcome::failed(Cause::Deferred, "451");
    fixture.record(&claimed, &failed, NextStep::RetryAt(noon() + DAY), noon());
    assert_eq!(fixture.state(ASKS, claimed.lease.submission), Some(DeliveryState::Waiting));
    let retry = Retry { channel: Some(ASKS.to_owned()), ..Retry::default() };
    assert!(fixture.editor().retry(&retry, noon()).unwrap() >= 1);
    assert!(
        fixture.claim(ASKS, noon()).iter().any(|again| again.lease.submission == claimed.lease.submission)
    );
}

#[test]
fn retention_removes_an_entry_only_after_its_link_has_expired() {
    for is_general in [true, false] {
        let fixture = confirming(100, None);
        let id = fixture.accept_new(&waitlist("ada@example.com"));
        let expire = |now: Timestamp| {
            let removed = fixture.store.change(move |tx| {
                if is_general { tx.expire_held(now, now) } else { tx.expire_unconfirmed(now) }
            });
            fixture.runtime.block_on(removed).unwrap()
        };
        assert_eq!(expire(noon() + 2 * WEEK), 0, "its mail has not been sent");
        fixture.ask(noon());
        fixture.send(ASKS, id, noon());
        assert_eq!((expire(noon() + WEEK - MILLISECOND), expire(noon() + WEEK + MILLISECOND)), (0, 1));
        assert_eq!((fixture.reader().get(id).unwrap(), fixture.count("confirmation")), (None, 0));
    }
}

#[test]
fn a_link_is_valid_for_the_whole_time_from_the_attempt_that_sends_it() {
    let fixture = confirming(100, Some(5 * DAY));
    let id = fixture.accept_new(&waitlist("ada@example.com"));
    fixture.ask(noon());
    let failed = fixture.claim(ASKS, noon()).remove(0);
    let outcome = Outcome::failed(Cause::Deferred, "451");
    fixture.record(&failed, &outcome, NextStep::RetryAt(noon() + 3 * DAY), noon());
    let token = fixture.send(ASKS, id, noon() + 3 * DAY);
    assert_eq!(fixture.look(&token, noon() + 9 * DAY), LinkState::Open);
    // A reminder would contain an expired link.
    fixture.ask(noon() + 6 * DAY);
    assert!(fixture.claim(REMINDS, noon() + 11 * DAY).iter().all(|claimed| claimed.link.is_none()));
}

#[test]
fn without_opt_in_a_repeat_delivers_an_unconfirmed_entry() {
    let fixture = confirming(100, None);
    let [repeated, other] =
        ["ada@example.com", "eve@example.com"].map(|email| fixture.accept_new(&waitlist(email)));
    fixture.ask(noon());
    let token = fixture.send(ASKS, repeated, noon());
    fixture.store.channels.store(vec![Route::new("box")].into());
    fixture.accept_repeat(&later(&waitlist("ada@example.com"), DAY), repeated);
    assert_eq!([repeated, other].map(|id| fixture.status(id)), [Status::Waiting, Status::Unconfirmed]);
    assert_eq!(fixture.confirm(&token, noon()), (LinkState::Confirmed, true));
    assert_eq!(fixture.claim("box", noon() + DAY).len(), 1, "delivered once");
}

#[test]
fn mails_for_networks_that_send_many_entries_come_last() {
    let fixture = confirming(2, None);
    let ids: Vec<Uuid> =
        (0..3).map(|n| fixture.accept_new(&waitlist(&format!("v{n}@example.com")))).collect();
    fixture.sql("UPDATE confirmation SET low_priority = 1");
    fixture.sql(
        "UPDATE confirmation SET low_priority = 0 WHERE submission = (SELECT id FROM submission ORDER BY id DESC LIMIT 1)",
    );
    assert_eq!(fixture.ask(noon()), 1);
    let asked: Vec<bool> = ids.iter().map(|id| fixture.state(ASKS, *id).is_some()).collect();
    assert_eq!(asked, [false, false, true]);
    let queue = fixture.reader().queue().unwrap();
    assert_eq!((queue.unasked, queue.unasked_since.is_some_and(|since| since <= noon())), (2, true));
}

#[test]
fn mails_beyond_the_limit_of_a_domain_wait_and_delay_no_others() {
    let limits = HourlyLimits { all: 100, network: None, domain: Some(2) };
    let fixture = confirming_within(limits, None);
    let many: Vec<Uuid> =
        (0..6).map(|n| fixture.accept_new(&waitlist(&format!("v{n}@a{n}.example.com")))).collect();
    let other = fixture.accept_new(&waitlist("ada@example.org"));
    assert_eq!((fixture.ask(noon()), fixture.state(ASKS, other).is_some()), (3, true));
    let because = |id: Uuid| fixture.reader().get(id).unwrap().unwrap().held.unwrap().because;
    let waiting =
        || many.iter().filter(|id| fixture.state(ASKS, **id).is_none()).copied().collect::<Vec<_>>();
    assert_eq!(waiting().len(), 4);
    for id in waiting() {
        assert_eq!(fixture.status(id), Status::Unconfirmed);
        assert!(because(id).ends_with("the limit `forms.visitor_mails_per_domain_per_hour` delays the mail"));
    }
    let queue = fixture.reader().queue().unwrap();
    assert_eq!((queue.unasked, queue.unasked_since), (4, Some(noon())));
    let asked_at = |id: Uuid| fixture.reader().get(id).unwrap().unwrap().confirmation.unwrap().asked_at;
    assert_eq!(many.iter().filter(|id| asked_at(**id) == Some(noon())).count(), 2);
    // All are asked in the end, two an hour.
    assert_eq!(fixture.ask(noon() + Duration::from_mins(1)), 0);
    let asked: Vec<usize> = (1..=16).map(|n| fixture.ask(noon() + Duration::from_mins(31 * n))).collect();
    assert_eq!(asked.iter().sum::<usize>(), 4, "{asked:?}");
    assert!(asked.iter().all(|asked| *asked <= 1), "{asked:?}");
    assert!(many.iter().all(|id| because(*id) == "its address has not been confirmed"));
    assert_eq!(fixture.reader().queue().unwrap().unasked, 0);
    let token = fixture.send(ASKS, many[5], noon() + DAY);
    assert_eq!(fixture.confirm(&token, noon() + DAY), (LinkState::Confirmed, true));
}

#[test]
fn mails_beyond_the_limit_of_a_network_wait() {
    let limits = HourlyLimits { all: 100, network: Some(2), domain: None };
    let fixture = confirming_within(limits, None);
    let from = |network: u8, n: u32| {
        let source = Source::V4([192, 0, network, u8::try_from(n).unwrap()]);
        fixture.accept_new(&Arrival { source, ..waitlist(&format!("v{n}@{network}.example")) })
    };
    let ids: Vec<Uuid> = (0..4).map(|n| from(1, n)).chain((0..2).map(|n| from(2, n))).collect();
    assert_eq!(fixture.ask(noon()), 4);
    let asked: Vec<bool> = ids.iter().map(|id| fixture.state(ASKS, *id).is_some()).collect();
    assert_eq!(asked.iter().filter(|asked| **asked).count(), 4);
    assert_eq!(asked[4..], [true; 2]);
    // A held entry still counts for its network when it is released.
    let held = Arrival { source: Source::V4([192, 0, 2, 9]), ..waitlist("held@h.example") };
    let held = fixture.accept_new(&held.held_for(&HONEYPOT));
    assert!(fixture.editor().release(held, &fixture.options.channels, noon()).unwrap());
    assert_eq!((fixture.ask(noon()), fixture.status(held)), (0, Status::Unconfirmed));
}

#[test]
fn an_entry_that_cannot_be_asked_for_a_week_is_held_for_the_operator() {
    let limits = HourlyLimits { all: 100, network: None, domain: Some(1) };
    let fixture = confirming_within(limits, Some(2 * DAY));
    let ids = ["ada", "eve"].map(|name| fixture.accept_new(&waitlist(&format!("{name}@example.com"))));
    assert_eq!(fixture.ask(noon()), 1);
    let [waiting] =
        ids.iter().copied().filter(|id| fixture.state(ASKS, *id).is_none()).collect::<Vec<_>>()[..]
    else {
        panic!("one waits")
    };
    let block = |until: Timestamp| {
        fixture.sql(&format!("UPDATE visitor_rate SET rested = {}", until.as_microsecond()));
    };
    for hours in 1..7 * 24 {
        let now = noon() + Duration::from_hours(hours);
        block(now + Duration::from_mins(30));
        assert_eq!(fixture.ask(now), 0);
        fixture.sql(&format!(
            "UPDATE confirmation SET mail_at = {} WHERE mail_at IS NOT NULL AND reminds = 0",
            (now + Duration::from_hours(1)).as_millisecond()
        ));
        assert_eq!(fixture.status(waiting), Status::Unconfirmed);
    }
    block(noon() + WEEK + Duration::from_mins(30));
    assert_eq!((fixture.ask(noon() + WEEK), fixture.status(waiting)), (0, Status::Held));
    let because = fixture.reader().get(waiting).unwrap().unwrap().held.unwrap().because;
    assert!(
        because.starts_with("the mail that asks for the confirmation could not be sent for 7 days; "),
        "{because}"
    );
    assert!(fixture.editor().release(waiting, &fixture.options.channels, noon()).unwrap());
    assert_eq!(fixture.status(waiting), Status::Waiting);
}

#[test]
fn a_wait_of_one_day_is_named_in_the_singular() {
    let limits = HourlyLimits { all: 100, network: None, domain: Some(1) };
    let mut fixture = confirming_within(limits, None);
    for route in &mut fixture.options.channels {
        for (_, rule) in route.visitor.iter_mut().flat_map(|visitor| &mut visitor.confirmations) {
            rule.within = DAY;
        }
    }
    let ids = ["ada", "eve"].map(|name| fixture.accept_new(&waitlist(&format!("{name}@example.com"))));
    assert_eq!(fixture.ask(noon()), 1);
    let later = noon() + DAY;
    fixture.sql(&format!(
        "UPDATE visitor_rate SET rested = {}",
        (later + Duration::from_mins(30)).as_microsecond()
    ));
    // At 0, the mail would be due for the fixture's processor, whose clock stands there, too.
    fixture.sql("UPDATE confirmation SET mail_at = 1 WHERE mailed_at IS NULL");
    assert_eq!(fixture.ask(later), 0);
    let reasons = ids.map(|id| fixture.reader().get(id).unwrap().unwrap().held.unwrap().because);
    assert!(
        reasons.iter().any(|because| because.contains("sent for 1 day; the limit now is")),
        "{reasons:?}"
    );
}

#[test]
fn variants_of_an_address_get_two_mails_at_most() {
    let fixture = confirming(100, None);
    for local in ["ada", "a.da", "ad.a", "a.d.a", "ADA+1"] {
        fixture.accept_new(&waitlist(&format!("{local}@gmail.com")));
        fixture.accept_new(&waitlist(&format!("{local}@googlemail.com")));
    }
    let asked: Vec<usize> =
        (0..40).map(|hours| fixture.ask(noon() + Duration::from_hours(4 * hours))).collect();
    assert_eq!(asked.iter().sum::<usize>(), 2, "{asked:?}");
}

#[test]
fn an_address_that_gets_no_mail_is_held_for_the_operator() {
    let fixture = confirming(100, None);
    let id = fixture.accept_new(&waitlist("no-reply@example.com"));
    assert_eq!((fixture.ask(noon()), fixture.status(id)), (0, Status::Held));
    let held = fixture.reader().get(id).unwrap().unwrap().held.unwrap();
    assert!(held.because.starts_with("no mail is sent to this address"), "{}", held.because);
    assert!(fixture.editor().release(id, &fixture.options.channels, noon()).unwrap());
    assert_eq!(fixture.status(id), Status::Waiting);
}

#[test]
fn two_clicks_at_once_deliver_once() {
    let fixture = confirming(100, None);
    let id = fixture.accept_new(&waitlist("ada@example.com"));
    fixture.ask(noon());
    let token = LinkToken::parse(&fixture.send(ASKS, id, noon())).unwrap();
    let channels = fixture.store.channels.load_full();
    let clicks = fixture.runtime.block_on(async {
        let click = || {
            let channels = channels.clone();
            fixture.store.change(move |tx| tx.confirm(&token, noon(), &channels))
        };
        tokio::join!(click(), click(), click())
    });
    let new = [clicks.0, clicks.1, clicks.2].into_iter().filter(|click| click.as_ref().unwrap().1).count();
    assert_eq!((new, fixture.claim("box", noon()).len()), (1, 1));
}

#[test]
fn every_statement_about_mails_to_visitors_uses_an_index() {
    let limits = HourlyLimits { all: 100, network: Some(9), domain: Some(2) };
    let fixture = Fixture::recorded_with(Fresh::file, confirmation_routes("waitlist", limits, Some(2 * DAY)));
    let entries = ["ada", "eve", "no-reply", "bob"].map(|local| waitlist(&format!("{local}@example.com")));
    let ids = entries.each_ref().map(|entry| fixture.accept_new(entry));
    fixture.ask(noon());
    let token = fixture.send(ASKS, ids[0], noon());
    fixture.confirm(&token, noon());
    fixture.accept_repeat(&later(&entries[1], 2 * DAY), ids[1]);
    fixture.ask(noon() + 3 * DAY);
    fixture
        .runtime
        .block_on(fixture.store.change(|tx| {
            tx.tidy_visitor_mails(noon() + 3 * DAY, &[])?;
            tx.expire_held(noon(), noon())?;
            tx.unannounced_mail_limit(noon())?;
            tx.expire_unconfirmed(noon() + 3 * WEEK)
        }))
        .unwrap();
    let recorded = recorder::stop(&fixture.options.url);
    for part in
        ["DELETE FROM visitor_mail", "DELETE FROM visitor_rate", "INTO visitor_rate", "limited_since = ?3"]
    {
        assert!(recorded.keys().any(|sql| sql.contains(part)), "{part}");
    }
    let checked = plans::check_plans(&fixture, &recorded);
    assert!(checked > 30, "{checked}");
}

fn confirming(per_hour: u32, remind_after: Option<Duration>) -> Fixture {
    confirming_within(HourlyLimits { all: per_hour, network: None, domain: None }, remind_after)
}

fn confirming_within(limits: HourlyLimits, remind_after: Option<Duration>) -> Fixture {
    Fixture::with_options(|options| {
        options.channels = confirmation_routes("waitlist", limits, remind_after);
        options.intake.clock = before_any_mail_is_due;
    })
}

fn confirmation_routes(form: &str, limits: HourlyLimits, remind_after: Option<Duration>) -> Vec<Route> {
    let rule = |mail, confirmation: Option<ConfirmationRule>| {
        let confirmations = confirmation.map(|rule| (form.to_owned(), rule)).into_iter().collect();
        let rule = VisitorRule { mail, own_addresses: Vec::new().into(), limits, confirmations };
        Route { forms: vec![form.to_owned()], visitor: Some(rule), ..Route::new(mail.name()) }
    };
    let confirm = ConfirmationRule { within: WEEK, remind_after };
    let reminder = remind_after.map(|_| rule(VisitorMail::Reminder, None));
    let routes = [Route::new("box"), rule(VisitorMail::Confirmation, Some(confirm))];
    routes.into_iter().chain(reminder).collect()
}

/// The clock of the processor, so that only [`Fixture::ask`] queues mails.
fn before_any_mail_is_due() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn noon() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

impl Fixture {
    fn state(&self, channel: &str, id: Uuid) -> Option<DeliveryState> {
        let deliveries: Vec<Delivery> = self.reader().deliveries(id).unwrap();
        deliveries.into_iter().find(|delivery| delivery.channel == channel).map(|delivery| delivery.state)
    }

    /// Queues the mails that are due, and returns their number.
    fn ask(&self, now: Timestamp) -> usize {
        let channels = self.options.channels.clone();
        let queued = self.store.change(move |tx| tx.queue_confirmations(now, 9, &channels));
        self.runtime.block_on(queued).unwrap().queued
    }

    /// Sends a queued mail, and returns its token.
    fn send(&self, channel: &str, id: Uuid, now: Timestamp) -> String {
        let mut link = None;
        for claimed in self.claim(channel, now) {
            if claimed.lease.submission == id {
                self.record(&claimed, &Outcome::delivered("250"), NextStep::Delivered, now);
                link = claimed.link;
            } else {
                self.record(&claimed, &Outcome::failed(Cause::Deferred, "451"), NextStep::RetryAt(now), now);
            }
        }
        link.expect("it is due, and has a link")
    }

    fn look(&self, token: &str, now: Timestamp) -> LinkState {
        let token = LinkToken::parse(token).unwrap();
        self.runtime.block_on(self.store.change(move |tx| tx.link_state(&token, now))).unwrap()
    }

    fn confirm(&self, token: &str, now: Timestamp) -> (LinkState, bool) {
        let (token, channels) = (LinkToken::parse(token).unwrap(), self.options.channels.clone());
        self.runtime.block_on(self.store.change(move |tx| tx.confirm(&token, now, &channels))).unwrap()
    }
}
