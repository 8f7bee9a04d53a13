//! However acceptance, processing, crashes and configuration changes interleave, the inbox ends up as if each
//! submission had been processed immediately, and hostile submissions do not prevent the delivery of honest
//! ones. `FRONTDESK_TEST_HISTORIES` sets the number of histories.

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::store::sql::form_definition::StoredDefinitions;
use crate::store::sql::{Cell, Dialect, Sql, intake, values};
use frontdesk_forms::Extras;
use frontdesk_screening::{Origin, RequestFacts};

const WINDOW: Duration = Duration::from_secs(10);
/// The number of replicas that process the intake. With SQLite, only one of them has a transaction at a time.
const REPLICAS: usize = 3;

/// An event in a history.
#[derive(Clone, Debug)]
enum Event {
    /// These submissions are accepted, in one transaction.
    Accept(Vec<Arrival>),
    /// A replica processes up to `most` rows, but does not commit yet.
    Process { replica: Index, most: usize },
    /// A replica commits the rows that it has processed.
    Commit(Index),
    /// A replica crashes before it commits.
    Crash(Index),
    /// Everything is processed. From then on, this channel accepts messages, or no channel does if `None`.
    Configure(Option<&'static str>),
}

fn some_arrival() -> impl Strategy<Value = Arrival> {
    let gap = 0..WINDOW.as_secs() / 3;
    // A few networks that send many submissions, and up to a thousand others.
    let network = prop_oneof![3 => 0..3u16, 1 => 0..1000u16];
    let who = (network, prop::bool::weighted(0.3), prop::bool::weighted(0.3));
    (0..8u8, any::<bool>(), prop::option::of(0..2u8), who, gap).prop_map(
        |(content, is_contact, key, (network, is_robot, is_suspicious), gap)| {
            let arrival = if is_contact {
                contact(&format!("message {content}"))
            } else {
                // Addresses are compared ignoring case.
                waitlist(&format!("{}{}@example.com", if network % 2 == 0 { "a" } else { "A" }, content))
            };
            let [high, low] = network.to_be_bytes();
            let time_to_fill = is_suspicious.then_some(Duration::ZERO);
            let extras = Extras { honeypot: is_robot, time_to_fill };
            let origin = if is_suspicious { Origin::Foreign } else { Origin::NotABrowser };
            Arrival {
                source: Source::V4([10, high, low, 1]),
                idempotency_key: key.map(|key| format!("key {key}")),
                evidence: Evidence::Facts(RequestFacts { origin, extras, ..RequestFacts::default() }),
                // The time since the previous arrival; it becomes absolute once all are in order.
                received_at: Timestamp::UNIX_EPOCH + Duration::from_secs(gap),
                ..arrival
            }
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop::collection::vec(some_arrival(), 1..5).prop_map(Event::Accept),
        4 => (any::<Index>(), 1..6usize).prop_map(|(replica, most)| Event::Process { replica, most }),
        3 => any::<Index>().prop_map(Event::Commit),
        1 => any::<Index>().prop_map(Event::Crash),
        1 => prop::sample::select(vec![None, Some("crm"), Some("box")]).prop_map(Event::Configure),
    ]
}

/// An inbox without a server.
struct Inbox {
    options: Options,
    fresh: Fresh,
    secret: keyed_hash::Secret,
}

impl Inbox {
    fn new() -> Inbox {
        let fixture = Fixture::with_channels(&["crm"], &["contact"]);
        fixture.store.close();
        let Fixture { options, fresh, .. } = fixture;
        let form_quota = Some(Quota { per_minute: 5, per_hour: 20 });
        let mut options = options;
        options.intake.duplicate_window = WINDOW;
        options.intake.form_quota = form_quota;
        Inbox { options, fresh, secret: keyed_hash::Secret([7; 32]) }
    }

    fn accept(&self, sql: &dyn Sql, arrivals: &[(Uuid, Arrival)]) {
        let jobs: Vec<Accepting> =
            arrivals.iter().map(|(_, arrival)| row(arrival.clone(), &self.options)).collect();
        let ids: Vec<Uuid> = arrivals.iter().map(|(id, _)| *id).collect();
        sql.transaction(|| intake::append(sql, &self.secret, &mut StoredDefinitions::default(), &jobs, &ids))
            .unwrap();
    }

    fn configure(&mut self, channel: Option<&str>) {
        self.options.channels = channel.map(|name| channels(&[name], &["contact"])).unwrap_or_default();
    }

    /// Processes the intake in the caller's transaction. Returns whether it was this replica's turn.
    fn process(&self, sql: &dyn Sql, most: usize) -> bool {
        let screener = crate::intake::batch_processing::Screener::new(Repeats::new(Instant::now()).into());
        let processed =
            crate::testing::inbox::process(sql, &self.options, &screener, most, Uuid::nil()..=Uuid::max());
        if sql.dialect() == Dialect::Postgres {
            // Other replicas' steps may take long on a busy machine.
            sql.one("SELECT set_config('idle_in_transaction_session_timeout', '0', true)", &[]).unwrap();
        }
        processed.unwrap().is_some()
    }

    /// The complete observable state of the inbox.
    fn state(&self) -> Vec<Vec<Cell>> {
        let sql = self.fresh.sql();
        let mut all = Vec::new();
        for query in [
            "SELECT id, form, received_at, fields, source, sender, repeats, held_at, held_because, score, threshold, reasons, withheld, released_at,
                 content, idempotency_key, suspicious, flood
             FROM submission ORDER BY id",
            "SELECT submission, channel, state, due_at, rank FROM delivery ORDER BY submission, channel",
            "SELECT form, minute, hour, over_at FROM form_rate ORDER BY form",
            "SELECT network, rested, rates FROM network_rate ORDER BY network",
            "SELECT id, submission FROM repeat ORDER BY id",
            "SELECT id FROM intake",
        ] {
            all.extend(sql.query(query, &[]).unwrap().into_iter().map(|row| row.cells));
        }
        all
    }
}

/// Checks that a submission survives: that it or its original is in the inbox. Any submission may be honest,
/// even one that screening holds because the visitor's browser has filled in the hidden field.
///
/// - A submission that screening does not hold is delivered by the `channel` that accepted messages when it
///   was processed, once every flood has ended. Other, suspicious submissions do not cause it to be marked.
/// - If the stored submission is still held, it has the same source, and its hold began no earlier than this
///   submission was received.
fn survives(inbox: &Inbox, id: Uuid, arrival: &Arrival, channel: Option<&str>) {
    let Evidence::Facts(facts) = &arrival.evidence else { panic!("{arrival:?}") };
    let sql = inbox.fresh.sql();
    let original = sql.value("SELECT submission FROM repeat WHERE id = ?1", values![id]).unwrap();
    let id: Uuid = original.unwrap_or(id);
    let row = sql
        .one("SELECT held_at, suspicious, source FROM submission WHERE id = ?1", values![id.as_bytes()])
        .unwrap();
    if let Some(held_at) = row.get::<Option<i64>>("held_at").unwrap() {
        assert!(facts.extras.honeypot, "a submission without the honeypot is held");
        assert_eq!(row.get::<keyed_hash::Hash>("source").unwrap(), inbox.secret.source(arrival.source));
        assert!(held_at >= arrival.received_at.as_millisecond(), "it counts as held since its arrival");
    }
    if facts.extras.honeypot {
        return;
    }
    assert!(facts.origin == Origin::Foreign || !row.get::<bool>("suspicious").unwrap(), "it is not marked");
    let waits = "SELECT 1 FROM delivery WHERE submission = ?1 AND channel = ?2 AND state = 'waiting' AND due_at IS NOT NULL";
    if let Some(channel) = channel.filter(|_| arrival.entry.form().name == "contact") {
        assert!(sql.exists(waits, values![id.as_bytes(), channel]).unwrap(), "it is delivered");
    }
}

/// Runs a history, and compares the inbox with one in which each submission is processed before the next one
/// arrives.
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
fn check(history: Vec<Event>) {
    let (mut inbox, mut reference) = (Inbox::new(), Inbox::new());
    let mut channel = Some("crm");
    let replicas: Vec<Box<dyn Sql>> = (0..REPLICAS).map(|_| inbox.fresh.sql()).collect();
    let (acceptance, plain) = (inbox.fresh.sql(), reference.fresh.sql());
    let is_file = inbox.fresh.url.file().is_some();
    let mut is_open = [false; REPLICAS];
    let mut ids = ids::Ids::default();
    let mut now = Timestamp::UNIX_EPOCH;
    let mut all = Vec::new();
    let end = |replica: usize, how: &str, is_open: &mut [bool; REPLICAS]| {
        if std::mem::take(&mut is_open[replica]) {
            replicas[replica].execute(how, &[]).unwrap();
        }
    };
    for event in history {
        match event {
            Event::Accept(arrivals) => {
                // A file has one writer, which waits until the processing is committed.
                for replica in (0..REPLICAS).filter(|_| is_file) {
                    end(replica, "COMMIT", &mut is_open);
                }
                let dated = |arrival: Arrival| {
                    now += arrival.received_at.duration_since(Timestamp::UNIX_EPOCH);
                    (ids.next(now), Arrival { received_at: now, ..arrival })
                };
                let arrivals: Vec<_> = arrivals.into_iter().map(dated).collect();
                inbox.accept(&*acceptance, &arrivals);
                all.extend(arrivals.iter().map(|(id, arrival)| (*id, arrival.clone(), channel)));
                for arrival in arrivals {
                    reference.accept(&*plain, &[arrival]);
                    assert!(reference.process(&*plain, 1));
                }
            }
            Event::Process { replica, most } => {
                let replica = replica.index(REPLICAS);
                let another = (0..REPLICAS).any(|other| other != replica && is_open[other]);
                if !(is_file && another) {
                    if !std::mem::replace(&mut is_open[replica], true) {
                        replicas[replica].execute("BEGIN", &[]).unwrap();
                    }
                    inbox.process(&*replicas[replica], most);
                }
            }
            Event::Commit(replica) => end(replica.index(REPLICAS), "COMMIT", &mut is_open),
            Event::Crash(replica) => end(replica.index(REPLICAS), "ROLLBACK", &mut is_open),
            Event::Configure(next) => {
                for replica in 0..REPLICAS {
                    end(replica, "COMMIT", &mut is_open);
                }
                assert!(inbox.process(&*acceptance, usize::MAX));
                channel = next;
                inbox.configure(channel);
                reference.configure(channel);
            }
        }
    }
    for replica in 0..REPLICAS {
        end(replica, "COMMIT", &mut is_open);
    }
    assert!(inbox.process(&*acceptance, usize::MAX));
    assert_eq!(inbox.state(), reference.state());
    let later = now + Duration::from_hours(1);
    let quiet = inbox.options.intake.flood_ends_after;
    acceptance
        .transaction(|| {
            crate::testing::inbox::transaction(&*acceptance).release_ended_floods(
                later,
                quiet,
                usize::MAX,
                &inbox.options.channels,
            )
        })
        .unwrap();
    for (id, arrival, channel) in &all {
        survives(&inbox, *id, arrival, *channel);
    }
}

const EVENTS: Range<usize> = 1..40;

/// The number of histories; each creates two inboxes.
fn histories() -> u32 {
    std::env::var("FRONTDESK_TEST_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: histories(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_interleaving_of_replicas_leads_to_the_same_inbox(
        history in prop::collection::vec(event(), EVENTS),
    ) {
        check(history);
    }
}
