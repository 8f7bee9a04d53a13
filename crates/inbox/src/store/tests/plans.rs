//! Checks the statements that visitors wait for: each uses an index, and none does more work if more
//! submissions are held.

use super::*;
use crate::store::sql::{Cell, bind_all, intake};
use crate::store::test_statement_recorder::{self as recorder, Recorded};
use crate::submission::delivery::Capacity;
use crate::submission::delivery_outcome::Cause;
use frontdesk_screening::verdict::Signal;

const LINKS: [(Signal, &str); 1] = [(Signal::Links, "4 links")];
const LEASE: Duration = Duration::from_mins(3);

/// Scans that are allowed, because the table has few rows or the scan is limited.
const SCANNED: [&str; 6] = [
    // One row for each channel.
    "SCAN channel",
    // One row for each form.
    "SCAN form_rate",
    // Reads one row of the index.
    "SCAN submission USING COVERING INDEX submission_flood",
    // Attempts that are under way.
    "SCAN delivery USING INDEX delivery_sending",
    // Stops at the first row.
    "SCAN intake",
    // The few rows of a subquery with a limit.
    "SCAN visited",
];

#[test]
fn every_statement_that_visitors_wait_for_uses_an_index() {
    let (fixture, recorded) = record(200);
    let checked = check_plans(&fixture, &recorded);
    assert!(checked > 70, "{checked}");
}

/// Checks that no statement scans a table, except [`SCANNED`], or sorts rows. Returns the number of checked
/// statements.
pub(super) fn check_plans(fixture: &Fixture, recorded: &Recorded) -> usize {
    let connection = fixture.connection();
    let (mut checked, mut faults) = (0, Vec::new());
    for sql in recorded.keys() {
        let first = sql.split_ascii_whitespace().next().unwrap();
        if !["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&first) {
            let others = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA"];
            assert!(others.contains(&first), "{sql}");
            continue;
        }
        for step in plan(&connection, sql) {
            let is_scan = step.starts_with("SCAN") && !SCANNED.iter().any(|may| step.contains(may));
            if is_scan || step.contains("TEMP B-TREE") || step.contains("AUTOMATIC") {
                faults.push(format!("{step}: {sql}"));
            }
        }
        checked += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    checked
}

#[test]
fn no_statement_that_visitors_wait_for_grows_with_what_is_held() {
    let [few, many] = [200, 4000].map(|held| record(held).1);
    let mut compared = 0;
    for (sql, few) in &few {
        // The number of values in a list depends on which submissions arrive together.
        let Some(many) = many.get(sql) else { continue };
        compared += 1;
        assert!(many.rows <= few.rows + 128, "{} rows become {}: {sql}", few.rows, many.rows);
        // Which submissions arrive together, at most a batch of 128, differs from run to run. Steps may
        // grow as the values or the rows of an execution do.
        let grows = |few: i32, many: i32| f64::from(many + 1) / f64::from(few + 1);
        let factor = grows(few.different, many.different).max(grows(few.rows, many.rows)).max(1.0);
        // Ids and hashes are random, so the order of rows, and with it the number of comparisons, varies a
        // little.
        let allowed = f64::from(few.steps) * factor * 1.1 + 50.0;
        let (steps, later) = (few.steps, many.steps);
        assert!(f64::from(later) <= allowed, "{steps} steps become {later}, {factor} times: {sql}");
    }
    assert!(compared > 60, "{compared} of {}", few.len());
}

#[test]
fn every_statement_of_the_writers_uses_an_index_of_a_server() {
    let fixture = Fixture::recorded(Fresh::place);
    let sql = fixture.fresh.sql();
    if sql.dialect() == Dialect::Sqlite {
        return;
    }
    fixture.accept_new(&keyed("first").held_for(&LINKS));
    fixture.accept_everything();
    fixture.deliver_everything();
    fixture.look_after_everything();
    // With this setting, a table is scanned only if there is no other way.
    sql.execute("BEGIN", &[]).unwrap();
    sql.execute("SET LOCAL enable_seqscan = off", &[]).unwrap();
    let (mut checked, mut faults) = (0, Vec::new());
    for (statement, executions) in recorder::stop(&fixture.options.url) {
        let first = statement.split_ascii_whitespace().next().unwrap();
        if !["SELECT", "INSERT", "UPDATE", "DELETE"].contains(&first) || statement.contains("pg_") {
            continue;
        }
        let plan = sql.query(&format!("EXPLAIN {statement}"), &bind_all(&executions.values)).unwrap();
        for step in plan {
            let step = step.text("QUERY PLAN").unwrap();
            if step.contains("Seq Scan")
                && !["channel", "form_rate"]
                    .iter()
                    .any(|table| step.contains(&format!("Seq Scan on {table}")))
            {
                faults.push(format!("{step}: {statement}"));
            }
        }
        checked += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(checked > 50, "{checked}");
}

pub(super) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

pub(super) fn keyed(message: &str) -> Arrival {
    Arrival { idempotency_key: Some("key".to_owned()), ..contact(message) }
}

/// Records all statements of the writer thread in an inbox with this many held submissions.
fn record(held: u32) -> (Fixture, Recorded) {
    let fixture = Fixture::recorded(Fresh::file);
    fixture.accept_new(&keyed("first").held_for(&LINKS));
    // All have the same content and idempotency key, which are used to look up earlier submissions.
    fixture.sql(&format!(
        "INSERT INTO submission (id, form, received_at, source, sender, content, idempotency_key, score, reasons, withheld,
                                 held_at, held_because, fields)
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT {held})
         SELECT unhex(printf('%032x', n)), form, received_at, source, sender, content, idempotency_key, \
                score, reasons, withheld, held_at, held_because, fields FROM number, submission"
    ));
    fixture.sql(
        "INSERT INTO delivery (submission, channel, state)
         SELECT s.id, d.channel, 'held' FROM submission s, delivery d WHERE d.submission <> s.id",
    );
    fixture.accept_everything();
    fixture.deliver_everything();
    fixture.look_after_everything();
    let recorded = recorder::stop(&fixture.options.url);
    (fixture, recorded)
}

impl Fixture {
    /// A store that records its writer's statements.
    pub(super) fn recorded(fresh: impl FnOnce() -> Fresh) -> Fixture {
        Fixture::recorded_with(fresh, channels(&["box", "crm", "gone"], &[]))
    }

    pub(super) fn recorded_with(fresh: impl FnOnce() -> Fresh, channels: Vec<Route>) -> Fixture {
        let fresh = || {
            let fresh = fresh();
            recorder::start(&fresh.url);
            fresh
        };
        Fixture::open(fresh, |options| {
            options.channels = channels;
            // No mail that asks for a confirmation is due.
            options.intake.clock = || Timestamp::UNIX_EPOCH;
        })
    }

    pub(super) fn accept_everything(&self) {
        let first = keyed("first").held_for(&LINKS);
        assert!(matches!(self.accept(&first).unwrap(), Accepted::Duplicate(_)));
        // The original is released by a repeat that screening does not hold.
        assert!(matches!(self.accept(&keyed("first")).unwrap(), Accepted::Duplicate(_)));
        self.accept_new(&keyed("second"));
        self.accept_new(&waitlist("ada@example.com"));
        // One at a time, and many at once.
        let arrivals: Vec<_> =
            (0..150).map(|n| later(&contact(&format!("number {n}")), MILLISECOND * n)).collect();
        assert!(self.accept_all(&arrivals).iter().all(Result::is_ok));
        assert!(self.accept_all(&arrivals).iter().all(|kept| matches!(kept, Ok(Accepted::Duplicate(_)))));
        self.check().unwrap();
        // The original of a repeat is forgotten after a day.
        self.accept_new(&later(&contact("a day later"), 2 * DAY));
        // A submission that cannot be processed.
        self.sql(match self.fresh.sql().dialect() {
            Dialect::Sqlite => {
                "CREATE TRIGGER refuse BEFORE INSERT ON submission WHEN new.fields LIKE '%poison%'
                 BEGIN SELECT RAISE(ABORT, 'no'); END"
            }
            Dialect::Postgres => {
                "ALTER TABLE submission ADD CONSTRAINT refuse CHECK (CAST(fields AS text) NOT LIKE '%poison%')"
            }
        });
        self.runtime.block_on(self.store.accept(contact("poison"))).unwrap();
        self.accept_new(&contact("after it"));
        // A commit that was reported as failed.
        let (sql, unresolved) = (self.fresh.sql(), vec![UnresolvedCommit { id: Uuid::max(), backend: None }]);
        let taken_back = std::thread::Builder::new().name(recorder::WRITER.to_owned()).spawn(move || {
            intake::remove_unresolved(&*sql, &unresolved).unwrap();
            intake::is_stored(&*sql, Uuid::max()).unwrap();
        });
        taken_back.unwrap().join().unwrap();
    }

    pub(super) fn deliver_everything(&self) {
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        let target = |name: &str| ChannelTarget { name: name.to_owned(), destination: "there".to_owned() };
        let claim = |name: &str, now| {
            let want = ClaimRequest {
                target: target(name),
                capacity: Capacity { any: 9, retries: 4 },
                earlier_attempts: 0,
            };
            let claims = self.store.claim_by_rank(vec![want], Vec::new(), at(now), LEASE);
            self.runtime.block_on(claims).unwrap().remove(0).claimed
        };
        let start = 3_000_000_000;
        for name in ["box", "crm"] {
            for (claimed, n) in claim(name, start).iter().zip(0..) {
                let failed = Outcome::failed(Cause::Channel, "451");
                let (outcome, verdict) = match n {
                    0 => (failed, NextStep::RetryAt(at(start + 5))),
                    1 => (failed, NextStep::Parked),
                    2 => continue,
                    _ => (Outcome::delivered("250"), NextStep::Delivered),
                };
                let recorded = self.store.record(claimed.lease.clone(), outcome, verdict, at(start + 1));
                self.runtime.block_on(recorded).unwrap();
                self.runtime.block_on(self.store.has_reached_team(claimed.lease.submission)).unwrap();
            }
        }
        // Attempts whose lease has expired, and retries of failed deliveries.
        claim("box", start + 1000);
        self.runtime
            .block_on(async {
                let store = &self.store;
                store.pause("crm".to_owned(), "451".to_owned(), at(start)).await?;
                store.requeue_orphans(Vec::new(), at(start)).await?;
                store.recover(at(start)).await?;
                let early = at(1);
                store.change(move |tx| tx.clamp_due_times(early)).await?;
                store.resume("crm".to_owned(), true, at(start)).await?;
                store.switch_off(target("gone"), "410".to_owned(), at(start)).await
            })
            .unwrap();
        claim("gone", start);
        let elsewhere = ChannelTarget { destination: "elsewhere".to_owned(), ..target("gone") };
        let want = ClaimRequest {
            target: elsewhere,
            capacity: Capacity { any: 1, retries: 1 },
            earlier_attempts: 0,
        };
        self.runtime.block_on(self.store.claim_by_rank(vec![want], Vec::new(), at(start), LEASE)).unwrap();
    }

    pub(super) fn look_after_everything(&self) {
        let day = |day: u8| -> Timestamp { format!("2026-12-{day:02}T00:00:00Z").parse().unwrap() };
        let refused = |n| RefusedRequests { source: Some(source(n)), form: "contact", count: 1 };
        self.sql(
            "UPDATE delivery SET state = 'delivered', due_at = NULL WHERE state <> 'held'
             AND submission NOT IN (SELECT submission FROM attempt)",
        );
        let settled = self.reader().to_be_sealed(&self.options.channels, Uuid::nil(), 9).unwrap().0;
        let reasons = "UPDATE submission SET score = 25, held_at = 1, threshold = 50, withheld = 1,
             reasons = '[{\"signal\":\"links\",\"points\":25,\"detail\":\"odd\"}]' WHERE id = ?1";
        let id = settled.last().unwrap().id;
        self.fresh.sql().execute(reasons, &bind_all(&[Cell::Blob(id.as_bytes().to_vec())])).unwrap();
        self.runtime
            .block_on(async {
                let store = &self.store;
                for submission in &settled {
                    assert!(store.seal(submission.id, b"sealed".to_vec()).await?);
                }
                store.record_refusals((0..9).map(refused).collect(), views::date(20_777)).await?;
                store
                    .record_refusals(
                        vec![RefusedRequests { source: None, ..refused(1) }],
                        views::date(20_778),
                    )
                    .await?;
                assert_eq!(store.change(move |tx| tx.forget_refusals(views::date(20_778), 200)).await?, 9);
                let (page, host) = ([("/", "html", "browser", 1)], [("a.example", 1)]);
                for _ in 0..2 {
                    let others = [("", "html", "browser", 1)];
                    store.record_views(&mut views::view_counts(&page, &host), views::date(20_777)).await?;
                    store.record_views(&mut views::view_counts(&others, &[]), views::date(20_777)).await?;
                }
                assert_eq!(store.change(|tx| tx.forget_page_views(views::date(20_778), 200)).await?, 3);
                store.change(move |tx| tx.store_time("digest", day(1))).await?;
                store.change(|tx| tx.stored_time("digest")).await?;
                assert!(store.change(move |tx| tx.expire_held(day(1), day(1))).await? > 0);
                let expired = store.change(move |tx| tx.expire(day(1), &FormScope::ALL, Uuid::nil())).await?;
                assert!(expired.removed > 0, "{expired:?}");
                store.truncate_wal().await
            })
            .unwrap();
    }
}
