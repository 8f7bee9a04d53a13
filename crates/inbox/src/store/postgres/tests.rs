//! Tests that apply only to PostgreSQL: several replicas, lost connections, layouts.
//! `FRONTDESK_TEST_POSTGRES` contains the server's URL.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::commit::{IS_ALIVE, PostgresWriter};
use super::connection::{BACKEND, PgConnection};
use super::*;
use crate::intake::Arrival;
use crate::intake::batch_processing::Screener;
use crate::store::sql::intake::UnresolvedCommit;
use crate::store::sql::transaction::Transaction;
use crate::store::sql::{Dialect, bind_all, discard};
use crate::store::{Accepted, Filter, HeldFilter, InboxReader, SourcePrefix};
use crate::submission::delivery::{Capacity, ChannelTarget, ClaimRequest, DailyQuota, Route};
use crate::testing::fixture::contact;
use crate::testing::fresh::Fresh;
use crate::testing::inbox::{Options, TestInbox, by_rank, process, transaction};
use frontdesk_limits::{MAX_QUOTA, Quota};
use frontdesk_screening::Repeats;
use frontdesk_screening::verdict::Signal;

const LEASE: Duration = Duration::from_mins(3);

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn replicas_that_start_at_once_make_one_inbox() {
    let fixture = Fixture::new();
    let opened = fixture.at_once(8, |fixture, _| fixture.open().close());
    assert_eq!(opened.len(), 8);
    assert_eq!(fixture.number("SELECT count(*) FROM meta"), 1);
    assert_eq!(fixture.number("SELECT layout FROM frontdesk_layout"), LAYOUT);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn concurrent_copies_at_several_replicas_are_one_submission() {
    let fixture = Fixture::new();
    let accepted = fixture.at_once(6, |fixture, _| {
        let store = fixture.open();
        (0..20).map(|n| accept(&store, &n.to_string()).unwrap()).collect::<Vec<_>>()
    });
    for n in 0..20 {
        let ids: Vec<_> = accepted.iter().map(|replica| replica[n].id()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{n}: {ids:?}");
        let new = accepted.iter().filter(|replica| matches!(replica[n], Accepted::New(_))).count();
        assert_eq!(new, 1, "{n}");
    }
    assert_eq!(fixture.list().iter().map(|submission| submission.repeats).collect::<Vec<_>>(), [5; 20]);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn no_two_replicas_claim_the_same_delivery() {
    let fixture = Fixture::new();
    let store = fixture.open();
    for n in 0..60 {
        accept(&store, &n.to_string()).unwrap();
    }
    let claimed = fixture.at_once(4, |fixture, _| {
        let store = fixture.open();
        let mut claimed = Vec::new();
        loop {
            let claims = claim(&store, Timestamp::now());
            if claims.is_empty() {
                return claimed;
            }
            claimed.extend(claims);
        }
    });
    let mut all: Vec<_> = claimed.into_iter().flatten().collect();
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!((count, all.len()), (60, 60));
    // A replica takes over a delivery once its lease has expired, but not before.
    assert!(claim(&store, Timestamp::now() + LEASE - Duration::from_secs(10)).is_empty());
    assert!(!claim(&store, Timestamp::now() + LEASE + Duration::from_secs(10)).is_empty());
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_start_leaves_alone_what_another_replica_has_begun() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "one").unwrap();
    assert_eq!(claim(&store, Timestamp::now()).len(), 1);
    let other = fixture.open();
    assert_eq!(wait(other.recover(Timestamp::now())).unwrap(), 0);
    assert_eq!(wait(other.requeue_orphans(Vec::new(), Timestamp::now())).unwrap(), 0);
    assert!(claim(&other, Timestamp::now()).is_empty());
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn replicas_share_the_pace_of_high_volume_networks() {
    let fixture = Fixture::new();
    let options = Options {
        channels: vec![Route {
            quota: Some(DailyQuota { account: "desk@mail.example.com".to_owned(), recipients: 1 }),
            ..Route::new("box")
        }],
        intake: crate::intake::IntakeOptions {
            form_quota: Some(Quota { per_minute: MAX_QUOTA, per_hour: MAX_QUOTA }),
            ..crate::intake::IntakeOptions::default()
        },
        ..fixture.options()
    };
    let replicas = [0; 3].map(|_| TestInbox::open(&options).unwrap());
    for n in 0..400 {
        accept(&replicas[0], &n.to_string()).unwrap();
    }
    let claim = |store: &TestInbox| {
        let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
        let want = ClaimRequest { target, capacity: Capacity { any: 400, retries: 0 }, earlier_attempts: 0 };
        // On a busy machine, the others may hold the lock for longer than a claim waits, as for a worker.
        let claims = std::iter::repeat_with(|| {
            wait(store.claim_by_rank(vec![want.clone()], Vec::new(), Timestamp::now(), LEASE))
        });
        let mut claims = claims.skip_while(|claims| matches!(claims, Err(StoreError::Locked)));
        claims.next().unwrap().unwrap().remove(0).claimed.len()
    };
    let claimed: usize = thread::scope(|scope| {
        let claims = replicas.each_ref().map(|store| scope.spawn(move || claim(store)));
        claims.into_iter().map(|claim| claim.join().unwrap()).sum()
    });
    assert!((100..115).contains(&claimed), "{claimed}");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn leases_hold_by_the_servers_clock() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "one").unwrap();
    assert_eq!(claim(&store, Timestamp::now()).len(), 1);
    let ahead = jiff::SignedDuration::from_secs(-600);
    // The replica's clock is ten minutes ahead of the server's. `ahead` is the lead of the server's clock, so
    // it is negative.
    let (connection, secret) = open_to_write(&fixture.server()).unwrap();
    let changing = Transaction { sql: &connection, secret: &secret, ahead };
    let its_now = Timestamp::now() - ahead;
    let claims = changing.claim(&[want()], &[], &[], its_now, LEASE, by_rank).unwrap();
    assert!(claims[0].claimed.is_empty());
    let next = claims[0].next.first.expect("the lease expires");
    let until = next.duration_since(its_now).as_secs();
    assert!((170..=181).contains(&until), "{until}");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn submissions_to_a_replica_with_a_fast_clock_are_due_at_once() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept_at(&store, "one", Timestamp::now() + Duration::from_mins(7)).unwrap();
    assert_eq!(claim(&store, Timestamp::now()).len(), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn an_unresolved_commit_is_removed_once_its_process_has_ended() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "one").unwrap();
    // This open transaction resembles one that is waiting for a standby: its row is not visible yet.
    let (hung, _) = open_to_write(&fixture.server()).unwrap();
    hung.run_statements("BEGIN").unwrap();
    let of = |sql: &str| -> String { (&hung as &dyn Sql).one_value(sql, &[]).unwrap() };
    let backend = of(BACKEND);
    let id = uuid::Uuid::now_v7();
    hung.run_statements(&format!(
        "INSERT INTO submission (id, form, received_at, fields, source)
         SELECT '{id}', form, received_at, fields, source FROM submission"
    ))
    .unwrap();
    let mut unresolved = vec![UnresolvedCommit { id, backend: Some(backend.clone()) }];
    let mut database = PostgresWriter::open(&fixture.server()).unwrap();
    let mut ids = crate::store::ids::Ids::default();
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!(unresolved.len(), 1, "it is still under way");
    hung.run_statements("COMMIT").unwrap();
    assert_eq!(fixture.list().len(), 2);
    drop(hung);
    fixture.wait_for_end_of(&backend);
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!((fixture.list().len(), unresolved.len()), (1, 0));
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_refused_submission_stays_if_another_replica_acknowledged_it() {
    let fixture = Fixture::new();
    let store = fixture.open();
    // As if the commit had not been confirmed, and the visitor had sent the submission again to another
    // replica.
    let id = accept(&store, "one").unwrap().id();
    let doubt = || vec![UnresolvedCommit { id, backend: None }];
    assert_eq!(accept(&fixture.open(), "one").unwrap(), Accepted::Duplicate(id));
    let mut database = PostgresWriter::open(&fixture.server()).unwrap();
    let mut ids = crate::store::ids::Ids::default();
    let mut unresolved = doubt();
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!((fixture.list().len(), unresolved.len()), (1, 0));
    fixture.run("UPDATE submission SET repeats = 0");
    database.commit(&[], &mut [], &mut ids, &mut doubt()).unwrap();
    assert_eq!(fixture.list().len(), 0);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_release_while_a_failure_is_recorded_leaves_nothing_held() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let id = accept(&store, "one").unwrap().id();
    let claims = wait(store.claim_by_rank(vec![want()], Vec::new(), Timestamp::now(), LEASE)).unwrap();
    let lease = claims[0].claimed[0].lease.clone();
    let now = Timestamp::now();
    let mut editor = crate::store::Editor::open(&fixture.fresh.url).unwrap();
    assert!(editor.hold(id, "to be looked at", now).unwrap());
    let (connection, _) = open_to_write(&fixture.server()).unwrap();
    let sql: &dyn Sql = &connection;
    connection.run_statements("BEGIN").unwrap();
    let failed = crate::submission::delivery_outcome::Outcome::failed(
        crate::submission::delivery_outcome::Cause::Channel,
        "451",
    );
    let verdict = crate::submission::schedule::NextStep::RetryAt(now);
    transaction(sql).record(&lease, &failed, verdict, now).unwrap();
    thread::scope(|scope| {
        let release = scope.spawn(move || editor.release(id, &[], now).unwrap());
        // The release waits for the outcome that is being recorded, and takes it into account.
        thread::sleep(Duration::from_millis(300));
        assert!(!release.is_finished());
        connection.run_statements("COMMIT").unwrap();
        assert!(release.join().unwrap());
    });
    assert_eq!(fixture.text("SELECT state FROM delivery"), "waiting");
    assert_eq!(claim(&store, Timestamp::now()), [id]);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_replica_that_stops_while_it_processes_loses_its_turn() {
    let fixture = Fixture::new();
    fixture.open().close();
    let screener = Screener::new(Repeats::new(Instant::now()).into());
    let process = |sql: &dyn Sql| {
        sql.execute("BEGIN", &[]).unwrap();
        let ids = uuid::Uuid::nil()..=uuid::Uuid::max();
        let processed = process(sql, &fixture.options(), &screener, 1, ids).unwrap();
        processed.is_some()
    };
    let (stopped, other) = (fixture.fresh.sql(), fixture.fresh.sql());
    assert!(process(&*stopped), "it has its turn");
    let began = Instant::now();
    while !process(&*other) {
        other.execute("ROLLBACK", &[]).unwrap();
        assert!(began.elapsed() < Duration::from_secs(15), "the lock was not released");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_secs(3), "the other one did not wait for its turn");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_connection_that_is_ended_costs_no_submission() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "before").unwrap();
    for n in 0..5 {
        fixture.end_connections();
        // The writer finds out which submissions were lost with the connection, and commits them again.
        accept(&store, &n.to_string()).unwrap_or_else(|error| panic!("{n}: {error}"));
    }
    assert_eq!(fixture.list().len(), 6);
    assert!(store.health().is_ok());
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn every_answer_is_true_while_connections_are_ended_again_and_again() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let stop = AtomicBool::new(false);
    let accepted = AtomicUsize::new(0);
    let outcomes = thread::scope(|scope| {
        let ender = scope.spawn(|| {
            // A slow machine needs longer than 7 ms for a new connection and a commit.
            let mut pause = Duration::from_millis(7);
            while !stop.load(Ordering::Relaxed) {
                let before = accepted.load(Ordering::Relaxed);
                fixture.end_connections();
                thread::sleep(pause);
                let is_too_fast = accepted.load(Ordering::Relaxed) == before;
                pause = if is_too_fast { pause * 2 } else { Duration::from_millis(7) };
            }
        });
        let accept = |n: i32| {
            let outcome = wait(store.accept(arrival(&n.to_string(), Timestamp::now())));
            accepted.fetch_add(usize::from(outcome.is_ok()), Ordering::Relaxed);
            (n.to_string(), outcome)
        };
        let outcomes: Vec<_> = (0..300).map(accept).collect();
        stop.store(true, Ordering::Relaxed);
        ender.join().unwrap();
        outcomes
    });
    accept(&store, "after").unwrap();
    let there: Vec<String> =
        fixture.list().iter().map(|one| one.get("message").unwrap().to_owned()).collect();
    for (message, outcome) in &outcomes {
        let count = there.iter().filter(|other| *other == message).count();
        assert_eq!(count, usize::from(outcome.is_ok()), "{message}: {outcome:?}");
    }
    assert!(accepted.into_inner() > 10, "hardly any submission was accepted");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_server_that_would_not_keep_what_it_confirms_is_refused() {
    let fixture = Fixture::new();
    let place = fixture.with("-csynchronous_commit%3Doff");
    let error = TestInbox::open(&Options::new(place)).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::NotDurable { setting: "synchronous_commit", .. }), "{error}");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_database_that_cannot_store_every_character_is_refused() {
    let fixture = Fixture::new();
    for encoding in ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"] {
        let name = format!("{}_{}", fixture.text("SELECT current_schema()"), encoding.to_lowercase());
        let place = fixture.create_database(&name, &format!("ENCODING '{encoding}' LOCALE 'C'"));
        let error = TestInbox::open(&Options::new(place)).map(drop).unwrap_err();
        fixture.drop_database(&name);
        assert!(matches!(&error, StoreError::WrongEncoding { found, .. } if found == encoding), "{error}");
        assert!(error.to_string().contains("must be UTF8"), "{error}");
        assert!(error.hint().unwrap().contains("ENCODING 'UTF8'"));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_search_path_without_a_schema_is_refused_with_the_fix() {
    let fixture = Fixture::new();
    for path in ["none_such", "%27%27"] {
        let place = fixture.with(&format!("-csearch_path%3D{path}"));
        let checked = crate::store::check_environment(&place).unwrap_err();
        let opened = TestInbox::open(&Options::new(place)).map(drop).unwrap_err();
        for error in [checked, opened] {
            assert!(matches!(error, StoreError::NoSchema(_)), "{path}: {error}");
            assert!(error.hint().unwrap().contains("RESET search_path"));
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn another_version_of_the_collation_is_a_warning_with_its_fix() {
    let fixture = Fixture::new();
    let name = format!("{}_icu", fixture.text("SELECT current_schema()"));
    let options = "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C.UTF-8'";
    let url = fixture.create_database(&name, options);
    let warnings = |change: &str| {
        fixture.run(change);
        crate::store::check_environment(&url).unwrap()
    };
    let fresh = warnings("SELECT 1");
    let old = warnings(&format!("UPDATE pg_database SET datcollversion = '0.7' WHERE datname = '{name}'"));
    let mended = warnings(&format!("ALTER DATABASE {name} REFRESH COLLATION VERSION"));
    fixture.drop_database(&name);
    assert_eq!((fresh, mended), (None, None));
    let old = old.expect("a warning");
    assert!(old.contains("with version 0.7 of its collation"), "{old}");
    assert!(old.contains(&format!("`ALTER DATABASE {name} REFRESH COLLATION VERSION`")), "{old}");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn another_layout_is_not_touched() {
    let fixture = Fixture::new();
    fixture.open().close();
    for found in [LAYOUT - 1, 99] {
        fixture.run(&format!("UPDATE frontdesk_layout SET layout = {found}"));
        for error in [
            TestInbox::open(&fixture.options()).map(drop).unwrap_err(),
            InboxReader::open(&fixture.fresh.url).map(drop).unwrap_err(),
        ] {
            let is_refused = match error {
                StoreError::TooOld { found: old, known: LAYOUT, .. } => old == found,
                StoreError::TooNew { found: new, known: LAYOUT, .. } => new == found,
                _ => false,
            };
            assert!(is_refused, "{error}");
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn tables_of_another_program_are_left_alone() {
    let fixture = Fixture::new();
    assert!(matches!(InboxReader::open(&fixture.fresh.url), Err(StoreError::Missing(_))));
    fixture.run("CREATE TABLE channel (frequency bigint)");
    let error = TestInbox::open(&fixture.options()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::NotAnInbox(_)), "{error}");
    assert_eq!(fixture.number("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_server_that_is_not_there_is_waited_for() {
    let fixture = Fixture::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let url = format!("postgres://frontdesk:hunter2@127.0.0.1:{port}/inbox");
    let place = DatabaseUrl::Postgres(Server::parse(&url).unwrap());
    let store = TestInbox::open(&Options::new(place)).unwrap();
    let error = accept(&store, "one").unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}/inbox")) && !error.contains("hunter2"), "{error}");
    assert!(store.health().is_err());
    drop(fixture);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_server_that_only_reads_is_an_error_until_it_writes() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "one").unwrap();
    // Like a standby, or a former primary after a failover.
    let place = fixture.with("-cdefault_transaction_read_only%3Don");
    let standby = TestInbox::open(&Options::new(place)).unwrap();
    assert!(accept(&standby, "two").is_err());
    assert!(standby.health().is_err());
    assert_eq!(fixture.list().len(), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn over_tls_the_servers_certificate_and_name_are_verified() {
    let url = std::env::var("FRONTDESK_TEST_POSTGRES_TLS").expect("a URL that requires TLS");
    let connection = PgConnection::open(&Server::parse(&url).unwrap(), READING).unwrap();
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!((&connection as &dyn Sql).one_value::<bool>(encrypted, &[]).unwrap());
    let (base, file) = url.split_once("&sslrootcert=").unwrap();
    for (url, reason) in [
        // No trusted authority has signed it.
        (base.to_owned(), "UnknownIssuer"),
        // The certificate is for a different name.
        (url.replace("@localhost:", "@127.0.0.1:"), "not valid for name"),
        (url.replace("hunter2", "hunter3"), "password authentication failed"),
        (url.replace("verify-full", "disable"), "no encryption"),
        (format!("{base}&sslrootcert={file}x"), "No such file"),
    ] {
        let error =
            PgConnection::open(&Server::parse(&url).unwrap(), READING).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason), "{url}: {error}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn held_submissions_are_found_by_their_own_index() {
    let fixture = Fixture::new();
    fixture.open().close();
    fixture.run(
        "INSERT INTO submission (id, form, received_at, fields, source, held_at)
         SELECT gen_random_uuid(), 'contact', n, '{}', decode(md5(n::text), 'hex'), \
         CASE WHEN n % 1000 = 0 THEN n END
         FROM generate_series(1, 20000) n",
    );
    fixture.run("ANALYZE submission");
    let filter = HeldFilter {
        signal: Some(Signal::Rate),
        before: Some(Timestamp::UNIX_EPOCH),
        source: SourcePrefix::parse("00"),
    };
    for filter in [HeldFilter::default(), filter] {
        let (statement, values) = discard::page_statement(Dialect::Postgres, &filter, discard::START);
        let plan = fixture.fresh.sql().query(&format!("EXPLAIN {statement}"), &bind_all(&values)).unwrap();
        let plan: Vec<_> = plan.iter().map(|row| row.get::<String>("QUERY PLAN").unwrap()).collect();
        assert!(plan.iter().any(|step| step.contains("submission_held")), "{plan:#?}");
        assert!(!plan.iter().any(|step| step.contains("Seq Scan")), "{plan:#?}");
    }
}

struct Fixture {
    fresh: Fresh,
    /// The server's URL.
    url: String,
}

impl Fixture {
    fn new() -> Fixture {
        let fresh = Fresh::place();
        assert!(fresh.url.file().is_none(), "FRONTDESK_TEST_POSTGRES names a server");
        Fixture { fresh, url: std::env::var("FRONTDESK_TEST_POSTGRES").unwrap() }
    }

    fn server(&self) -> Server {
        match &self.fresh.url {
            DatabaseUrl::Postgres(server) => server.clone(),
            DatabaseUrl::Sqlite(_) => unreachable!("there is a server"),
        }
    }

    fn options(&self) -> Options {
        Options { channels: vec![Route::new("box")], ..Options::new(self.fresh.url.clone()) }
    }

    fn open(&self) -> TestInbox {
        TestInbox::open(&self.options()).unwrap()
    }

    /// The URL of the same schema, with one more setting.
    /// Creates a database, which takes many seconds on a busy disk.
    fn create_database(&self, name: &str, options: &str) -> DatabaseUrl {
        self.run_without_limits(&format!("CREATE DATABASE {name} {options} TEMPLATE template0"));
        let (before, after) = self.url.split_once("/frontdesk").expect("the name of the database");
        DatabaseUrl::Postgres(Server::parse(&format!("{before}/{name}{after}")).unwrap())
    }

    fn drop_database(&self, name: &str) {
        self.run_without_limits(&format!("DROP DATABASE {name}"));
    }

    fn run_without_limits(&self, sql: &str) {
        let connection = PgConnection::open(&Server::parse(&self.url).unwrap(), EDITING).unwrap();
        connection.run_statements("SET statement_timeout = 0; SET lock_timeout = 0").unwrap();
        connection.run_statements(sql).unwrap();
    }

    fn with(&self, setting: &str) -> DatabaseUrl {
        let schema = self.text("SELECT current_schema()");
        let url = std::env::var("FRONTDESK_TEST_POSTGRES").unwrap();
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}options=-csearch_path%3D{schema}%20{setting}");
        DatabaseUrl::Postgres(Server::parse(&url).unwrap())
    }

    fn at_once<T: Send>(&self, replicas: usize, act: impl Fn(&Fixture, usize) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let act = &act;
            let threads: Vec<_> = (0..replicas).map(|n| scope.spawn(move || act(self, n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// The number of submissions; zero if there is no inbox.
    fn list_if_any(&self) -> usize {
        InboxReader::open(&self.fresh.url).map_or(0, |_| self.list().len())
    }

    fn list(&self) -> Vec<crate::submission::Submission> {
        let reader = InboxReader::open(&self.fresh.url).unwrap();
        reader.list(&Filter::default()).unwrap().map(Result::unwrap).collect()
    }

    fn run(&self, sql: &str) {
        self.fresh.sql().execute(sql, &[]).unwrap();
    }

    fn number(&self, sql: &str) -> i64 {
        self.fresh.sql().one_value(sql, &[]).unwrap()
    }

    fn text(&self, sql: &str) -> String {
        self.fresh.sql().one_value(&format!("SELECT ({sql})::text"), &[]).unwrap()
    }

    fn wait_for_end_of(&self, backend: &str) {
        while self.fresh.sql().exists(IS_ALIVE, values![backend]).unwrap() {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends all connections to this inbox except the one that executes the statement.
    fn end_connections(&self) {
        let schema = self.text("SELECT current_schema()");
        let connection = PgConnection::open(&self.server(), EDITING).unwrap();
        let locks = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
             WHERE a.pid <> pg_backend_pid() AND a.application_name = ?1";
        let _ = connection.query(locks, values![schema]);
    }
}

fn want() -> ClaimRequest {
    let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
    ClaimRequest { target, capacity: Capacity { any: 3, retries: 2 }, earlier_attempts: 0 }
}

fn claim(store: &TestInbox, now: Timestamp) -> Vec<uuid::Uuid> {
    let claims = wait(store.claim_by_rank(vec![want()], Vec::new(), now, LEASE)).unwrap();
    claims.into_iter().flat_map(|claims| claims.claimed).map(|claimed| claimed.lease.submission).collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn accept(store: &TestInbox, message: &str) -> Result<Accepted, StoreError> {
    accept_at(store, message, Timestamp::now())
}

fn accept_at(store: &TestInbox, message: &str, received_at: Timestamp) -> Result<Accepted, StoreError> {
    wait(store.accept_and_process(arrival(message, received_at)))
}

fn arrival(message: &str, received_at: Timestamp) -> Arrival {
    Arrival { received_at, ..contact(message) }
}

mod lost_commits;
mod poolers;
