//! Measures how many submissions per second frontdesk stores in PostgreSQL, and compares this rate with
//! `pgbench`, which inserts the same rows in transactions of the same size:
//! `FRONTDESK_TEST_POSTGRES=URL cargo bench --bench postgres`, or `scripts/bench postgres`.
//!
//! The two take turns writing to separate schemas on one server. `pgbench` sends one transaction after
//! another over one connection. In each transaction, the server generates and inserts a batch of submissions
//! and their deliveries. Unlike `pgbench`, frontdesk also reads before it writes.
//!
//! `scripts/bench pooler` compares a PgBouncer in transaction mode with the server itself instead.
//! `FRONTDESK_TEST_POSTGRES_DIRECT` then has the server's URL.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use frontdesk_forms::{CONTACT, parse};
use frontdesk_inbox::intake::{Arrival, Intake, IntakeOptions};
use frontdesk_inbox::store::{DatabaseUrl, Server, Store, StoreOptions};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_limits::Source;
use frontdesk_screening::{Evidence, RequestFacts};

#[path = "postgres/pooler.rs"]
mod pooler;

const ROUNDS: usize = 5;
const SECONDS: u64 = 2;
/// Length of a message in characters.
const MESSAGE: usize = 500;

fn main() -> ExitCode {
    let Ok(url) = std::env::var("FRONTDESK_TEST_POSTGRES") else {
        println!(
            "set FRONTDESK_TEST_POSTGRES to the URL of a server, such as postgres:///bench?host=/run/postgresql"
        );
        return ExitCode::FAILURE;
    };
    if let Ok(direct) = std::env::var("FRONTDESK_TEST_POSTGRES_DIRECT") {
        pooler::compare(&url, &direct);
        return ExitCode::SUCCESS;
    }
    let (ours, theirs) = (in_schema(&url, "bench_frontdesk"), in_schema(&url, "bench_pgbench"));
    for schema in ["bench_frontdesk", "bench_pgbench"] {
        let fresh = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
        psql(&url, &format!("SET client_min_messages = warning; {fresh}"));
    }
    // Create the same tables for pgbench as for frontdesk.
    frontdesk_inbox::store::create_if_missing(&place(&theirs)).expect("tables");
    let store = Store::open(&StoreOptions { url: place(&ours), channels: vec![Route::new("team")] })
        .expect("a store");
    let intake = Intake::start(store, IntakeOptions::default()).expect("a thread");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let script = tempfile::NamedTempFile::new().expect("a file");
    println!("{:>8} {:>14} {:>8} {:>14} {:>7}", "senders", "frontdesk/s", "batch", "pgbench rows/s", "ratio");
    let mut number = 0;
    for senders in [1_u64, 16, 64, 256] {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = commits(&ours);
            let kept = runtime.block_on(run(&intake, senders, &mut number));
            // The mean number of submissions per transaction.
            let batch = (kept / (commits(&ours) - before).max(1)).max(1);
            std::fs::write(script.path(), transaction(batch)).expect("a writable file");
            let (kept, rows) = (count(kept), count(batch) * pgbench(&theirs, script.path()));
            let rate = kept / count(SECONDS);
            rounds.push((rate / rows, rate, batch, rows));
        }
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, rate, batch, rows) = rounds[ROUNDS / 2];
        let (least, most) = (rounds[0].0, rounds[ROUNDS - 1].0);
        println!("{senders:>8} {rate:>14.0} {batch:>8} {rows:>14.0} {ratio:>7.2} ({least:.2}–{most:.2})");
    }
    intake.close();
    ExitCode::SUCCESS
}

fn in_schema(url: &str, schema: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options=-csearch_path%3D{schema}")
}

fn place(url: &str) -> DatabaseUrl {
    DatabaseUrl::Postgres(Server::parse(url).expect("a URL"))
}

fn count(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn psql(url: &str, sql: &str) -> String {
    let output = Command::new("psql").args([url, "-qAtc", sql]).output().expect("psql runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// The number of write transactions so far, read from the next transaction id: PostgreSQL assigns an id only
/// to transactions that write.
fn commits(url: &str) -> u64 {
    psql(url, "SELECT pg_snapshot_xmax(pg_current_snapshot())").parse().expect("a number")
}

/// The SQL transaction that inserts a batch of `rows` submissions.
fn transaction(rows: u64) -> String {
    let message = "x".repeat(MESSAGE);
    format!(
        "BEGIN;
CREATE TEMP TABLE IF NOT EXISTS batch (id uuid, key bytea) ON COMMIT DELETE ROWS;
INSERT INTO batch SELECT gen_random_uuid(), uuid_send(gen_random_uuid()) FROM generate_series(1, {rows});
INSERT INTO submission (id, form, received_at, fields, source, sender, content, score)
    SELECT id, 'contact', 1700000000000,
      '{{\"name\":\"Ada\",\"email\":\"ada@example.com\",\"message\":\"{message}\"}}', key, key, key, 0 FROM batch;
INSERT INTO delivery (submission, channel, state, due_at)
    SELECT id, 'team', 'waiting', 1700000000000 FROM batch;
COMMIT;
"
    )
}

/// Runs `script` with pgbench. Returns the number of transactions per second.
fn pgbench(url: &str, script: &std::path::Path) -> f64 {
    let seconds = SECONDS.to_string();
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--client=1", "--time", &seconds, "--file"])
        .arg(script)
        .arg(url)
        .output()
        .expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let figure = line.and_then(|line| line.split(' ').next()).and_then(|figure| figure.parse().ok());
    figure.unwrap_or_else(|| panic!("{output:?}"))
}

/// Submits messages from `senders` concurrent tasks for [`SECONDS`]. Returns how many were stored. Increments
/// `number`, so that each run sends other messages.
async fn run(intake: &Intake, senders: u64, number: &mut u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(SECONDS);
    let local = tokio::task::LocalSet::new();
    let message = "x".repeat(MESSAGE);
    *number += 1;
    let run = *number;
    let tasks: Vec<_> = (0..senders)
        .map(|sender| {
            let (intake, message) = (intake.clone(), message.clone());
            local.spawn_local(async move {
                let mut kept = 0_u64;
                while Instant::now() < deadline {
                    let body = format!(
                        r#"{{"name":"Ada","email":"s{sender}@example.com","message":"{message} {run} {sender} {kept}"}}"#
                    );
                    let arrival = Arrival {
                        entry: parse(&CONTACT, body.as_bytes()).expect("a valid body"),
                        idempotency_key: None,
                        source: Source::from(std::net::IpAddr::from([192, 0, 2, 1])),
                        received_at: jiff::Timestamp::now(),
                        evidence: Evidence::Facts(RequestFacts::default()),
                        agent: None,
                        lead: frontdesk_forms::LeadSource::default(),
                    };
                    intake.accept(arrival).await.expect("the submission is stored");
                    kept += 1;
                }
                kept
            })
        })
        .collect();
    local
        .run_until(async {
            let mut sum = 0;
            for task in tasks {
                sum += task.await.expect("the sender ends");
            }
            sum
        })
        .await
}
