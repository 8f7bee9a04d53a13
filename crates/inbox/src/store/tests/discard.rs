//! Held submissions are removed, by the operator or once they have been held for too long.

use super::*;
use crate::store::sql::discard::{START, page_statement};
use frontdesk_screening::verdict::Signal;

const LINKS: [(Signal, &str); 1] = [(Signal::Links, "4 links")];

#[test]
fn a_discarded_submission_goes_with_all_that_belongs_to_it() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let held = Arrival { source: source(1), ..contact("sesame sesame") }
        .held_for(&[(Signal::Disposable, "sesame.example")]);
    let id = fixture.accept_new(&held);
    let other = fixture.accept_new(&waitlist("else@example.com"));
    // An attempt failed before the submission was held again. Answers from `crm` quote the submission.
    fixture.sql(
        "INSERT INTO attempt (submission, channel, number, began_at, ended_at, delivered, answer)
         SELECT id, 'crm', 1, 1, 2, 0, 'no sesame here' FROM submission WHERE held_at IS NOT NULL",
    );
    fixture.sql("INSERT INTO channel (name, paused_at, answer) VALUES ('crm', 1, 'no sesame here'), ('box', 1, 'another')");
    assert!(fixture.files_hold("sesame"), "the search would find it");
    let erased = fixture.editor().discard(&[id], Timestamp::UNIX_EPOCH).unwrap();
    let is_wiped = fixture.options.url.file().is_some();
    assert_eq!(erased, Erased { submissions: 1, deliveries: 2, delivered: 0, attempts: 1, is_wiped });
    assert_eq!(fixture.ids(), [other]);
    assert_eq!((fixture.count("delivery"), fixture.count("attempt")), (2, 0));
    assert!(!fixture.files_hold("sesame"));
    assert!(fixture.files_hold("another"), "another channel's answer is about another submission");
    // A repeat of the discarded submission is a new submission.
    fixture.accept_new(&held);
}

#[test]
fn only_held_submissions_are_discarded() {
    let fixture = Fixture::with_channels(&["crm"], &["contact"]);
    let waiting = fixture.accept_new(&contact("waiting"));
    let by_hand = fixture.accept_new(&contact("by hand"));
    let kept = fixture.accept_new(&waitlist("kept@example.com"));
    let screened = fixture.accept_new(&contact("screened").held_for(&LINKS));
    assert!(fixture.editor().hold(by_hand, "odd", Timestamp::UNIX_EPOCH).unwrap());
    assert_eq!(
        fixture
            .editor()
            .discard(&[waiting, kept, Uuid::max(), by_hand], Timestamp::UNIX_EPOCH)
            .unwrap()
            .submissions,
        1
    );
    assert_eq!(fixture.ids(), [screened, kept, waiting]);
    assert_eq!(
        fixture.editor().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions,
        1
    );
    assert_eq!(fixture.ids(), [kept, waiting]);
    assert_eq!(
        fixture.editor().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions,
        0
    );
}

#[test]
fn held_submissions_are_selected_by_signal_time_and_source() {
    let fixture = Fixture::new();
    let sent = |message: &str, n: u8, day: u8, signals: &[(Signal, &str)]| {
        let received_at = format!("2026-11-{day:02}T00:00:00Z").parse().unwrap();
        let arrival = Arrival { source: source(n), received_at, ..contact(message) };
        fixture.accept_new(&if signals.is_empty() { arrival } else { arrival.held_for(signals) })
    };
    let links = sent("links", 1, 10, &LINKS);
    let both = sent("both", 2, 11, &[(Signal::Honeypot, "filled in"), (Signal::Links, "5 links")]);
    let rate = sent("rate", 1, 12, &[(Signal::Rate, "30 of the 30 requests")]);
    let form_rate = sent("form rate", 3, 12, &[(Signal::FormRate, "over its limit")]);
    sent("not held", 1, 9, &[]);
    let day = |day: u8| Some(format!("2026-11-{day:02}T00:00:00Z").parse::<Timestamp>().unwrap());
    let of = |id: Uuid| fixture.reader().get(id).unwrap().unwrap().source;
    let source = |digits: &str| Some(SourcePrefix::parse(digits).unwrap());
    let all = HeldFilter::default();
    for (filter, expected) in [
        (all.clone(), vec![links, both, rate, form_rate]),
        (HeldFilter { signal: Some(Signal::Links), ..all.clone() }, vec![links, both]),
        (HeldFilter { signal: Some(Signal::Rate), ..all.clone() }, vec![rate]),
        (HeldFilter { signal: Some(Signal::Name), ..all.clone() }, vec![]),
        (HeldFilter { before: day(11), ..all.clone() }, vec![links]),
        (HeldFilter { source: source(&of(links)), ..all.clone() }, vec![links, rate]),
        (HeldFilter { source: source(&of(both)[..12]), ..all.clone() }, vec![both]),
        (HeldFilter { source: source(&"0".repeat(32)), ..all.clone() }, vec![]),
        (HeldFilter { signal: Some(Signal::Links), before: day(11), source: source(&of(rate)) }, vec![links]),
    ] {
        let held = fixture.reader().held(&filter).unwrap();
        let received = |id: &Uuid| fixture.reader().get(*id).unwrap().unwrap().received_at;
        let times = expected.iter().map(received).min().zip(expected.iter().map(received).max());
        assert_eq!((held.submissions, held.received), (expected.len(), times), "{filter:?}");
        let (statement, values) = page_statement(fixture.fresh.sql().dialect(), &filter, START);
        let found = fixture.fresh.sql().query(&statement, &sql::bind_all(&values)).unwrap();
        let mut found: Vec<Uuid> = found.iter().map(|row| row.get("id").unwrap()).collect();
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(fixture.reader().held(&all).unwrap().sources, 3);
    let filter = HeldFilter { signal: Some(Signal::Links), ..all };
    assert_eq!(fixture.editor().discard_held(&filter, Timestamp::UNIX_EPOCH).unwrap().submissions, 2);
    assert_eq!(fixture.list().len(), 3);
}

#[test]
fn submissions_held_by_a_flood_are_discarded_only_on_request() {
    let fixture = Fixture::new();
    let flooded = fixture.accept_new(&contact("flooded"));
    let both = fixture.accept_new(&contact("both").held_for(&LINKS));
    let screened = fixture.accept_new(&contact("screened").held_for(&LINKS));
    fixture.sql("UPDATE submission SET flood = 1, held_at = 1 WHERE held_at IS NULL");
    // As if a copy of `both` that screening does not hold had arrived during a flood.
    let sql = "UPDATE submission SET flood = 1 WHERE id = ?1";
    fixture.fresh.sql().execute(sql, sql::values![both.as_bytes()]).unwrap();
    let found = |signal| {
        let held = fixture.reader().held(&HeldFilter { signal, ..HeldFilter::default() }).unwrap();
        (held.submissions, held.left_in_floods, held.received.is_some())
    };
    assert_eq!(found(None), (1, 2, true));
    assert_eq!(found(Some(Signal::Links)), (1, 1, true));
    assert_eq!(found(Some(Signal::Honeypot)), (0, 0, false));
    assert_eq!(found(Some(Signal::FormRate)), (2, 0, true));
    assert_eq!(
        fixture.editor().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions,
        1
    );
    assert_eq!(fixture.ids(), [both, flooded]);
    let filter = HeldFilter { signal: Some(Signal::FormRate), ..HeldFilter::default() };
    assert_eq!(fixture.editor().discard_held(&filter, Timestamp::UNIX_EPOCH).unwrap().submissions, 2);
    assert_eq!(fixture.reader().get(screened).unwrap(), None);
}

#[test]
fn a_source_is_named_by_the_beginning_of_its_hash() {
    let shown = |digits: &str| SourcePrefix::parse(digits).map(|source| source.to_string());
    assert_eq!(shown("0123456789ab").as_deref(), Some("0123456789ab"));
    assert_eq!(shown("ABC").as_deref(), Some("abc"));
    assert_eq!(shown(&"f".repeat(32)), Some("f".repeat(32)));
    for nothing in ["", "192.0.2.1", "x", &"0".repeat(33)] {
        assert_eq!(shown(nothing), None, "{nothing}");
    }
}

#[test]
fn many_are_discarded_in_transactions_of_a_bounded_size() {
    let fixture = Fixture::new();
    let arrivals: Vec<_> = (0..450).map(|n| later(&contact(&n.to_string()), MILLISECOND * n)).collect();
    fixture.accept_all(&arrivals.into_iter().map(|arrival| arrival.held_for(&LINKS)).collect::<Vec<_>>());
    // The newest submission cannot be removed: the transactions before it stay committed, and its own is
    // rolled back.
    let id = if fixture.options.url.file().is_some() { "blob" } else { "uuid" };
    fixture.sql(&format!("CREATE TABLE guard (submission {id} REFERENCES submission (id))"));
    fixture.sql("INSERT INTO guard SELECT id FROM submission ORDER BY held_at DESC LIMIT 1");
    fixture.editor().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(fixture.count("submission"), 50);
    fixture.sql("DROP TABLE guard");
    assert_eq!(
        fixture.editor().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions,
        50
    );
}

#[test]
fn submissions_are_accepted_while_held_ones_are_discarded() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let held: Vec<_> = (0..1500).map(|n| contact(&format!("spam {n}")).held_for(&LINKS)).collect();
    fixture.accept_all(&held);
    let place = fixture.options.url.clone();
    let discard = std::thread::spawn(move || {
        Editor::open(place)
            .unwrap()
            .discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH)
            .unwrap()
            .submissions
    });
    let mut accepted = 0;
    while !discard.is_finished() || accepted < 3 {
        fixture.accept_new(&contact(&format!("enquiry {accepted}")));
        accepted += 1;
    }
    assert_eq!(discard.join().unwrap(), 1500);
    assert_eq!(fixture.list().len(), accepted);
    fixture.store.health().unwrap();
}

#[test]
fn a_submission_that_another_transaction_has_locked_is_waited_for() {
    let fixture = Fixture::new();
    if fixture.options.url.file().is_some() {
        return;
    }
    let locked = fixture.accept_new(&contact("locked").held_for(&LINKS));
    fixture.accept_new(&later(&contact("other"), DAY).held_for(&LINKS));
    let other = fixture.fresh.sql();
    other.execute("BEGIN", &[]).unwrap();
    other.query("SELECT 1 FROM submission ORDER BY id LIMIT 1 FOR UPDATE", &[]).unwrap();
    let place = fixture.options.url.clone();
    let discard = std::thread::spawn(move || {
        Editor::open(place).unwrap().discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH)
    });
    while fixture.ids() != [locked] {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!discard.is_finished());
    other.execute("COMMIT", &[]).unwrap();
    assert_eq!(discard.join().unwrap().unwrap().submissions, 2);
}

#[test]
fn held_submissions_are_found_by_their_own_index() {
    let fixture = Fixture::in_file();
    let filter = HeldFilter {
        signal: Some(Signal::Rate),
        before: Some(Timestamp::UNIX_EPOCH),
        source: SourcePrefix::parse("00"),
    };
    let connection = fixture.connection();
    for filter in [HeldFilter::default(), filter] {
        let (statement, _) = page_statement(Dialect::Sqlite, &filter, START);
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let mut steps = plan.raw_query();
        let mut found = Vec::new();
        while let Some(row) = steps.next().unwrap() {
            found.push(row.get::<_, String>(3).unwrap());
        }
        let is_search = found[0].starts_with("SEARCH s") && found[0].contains("INDEX submission_held (");
        assert!(is_search, "{found:?}");
        assert!(!found.iter().any(|step| step.contains("TEMP")), "nothing is sorted: {found:?}");
    }
}

#[test]
fn held_submissions_expire() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let at = |arrival: Arrival, day: u8| Arrival {
        received_at: format!("2026-11-{day:02}T00:00:00Z").parse().unwrap(),
        ..arrival
    };
    let by_hand = fixture.accept_new(&at(contact("by hand"), 1));
    let waiting = fixture.accept_new(&at(contact("waiting"), 1));
    fixture.accept_new(&at(contact("first"), 2).held_for(&LINKS));
    fixture.accept_new(&at(contact("second"), 3).held_for(&LINKS));
    let late = fixture.accept_new(&at(contact("late"), 10).held_for(&LINKS));
    // The start of the hold counts, not the arrival.
    assert!(fixture.editor().hold(by_hand, "odd", "2026-11-10T00:00:00Z".parse().unwrap()).unwrap());
    let expire = || {
        let before = "2026-11-10T00:00:00Z".parse().unwrap();
        fixture.runtime.block_on(fixture.store.change(move |tx| tx.expire_held(before, before))).unwrap()
    };
    assert_eq!((expire(), expire()), (2, 0));
    assert_eq!(fixture.ids(), [late, waiting, by_hand]);
    assert_eq!(fixture.count("delivery"), 3);
}

impl Fixture {
    /// The ids, newest first.
    fn ids(&self) -> Vec<Uuid> {
        self.list().iter().map(|submission| submission.id).collect()
    }
}
