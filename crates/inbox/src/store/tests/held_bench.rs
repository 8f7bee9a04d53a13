//! Measures how long visitors wait if an inbox has many held submissions, and while many submissions are
//! changed. `scripts/bench held` runs this. `FRONTDESK_BENCH_HELD` and `FRONTDESK_BENCH_BYTES` set the number
//! and size of submissions.

use std::time::Instant;

use super::plans::keyed;
use super::*;
use crate::store::test_statement_recorder::{self as recorder, Executions};
use frontdesk_screening::verdict::Signal;

const LINKS: [(Signal, &str); 1] = [(Signal::Links, "4 links")];

/// Prints how long each statement of the writer thread takes.
#[test]
#[ignore = "a measurement; run by `scripts/bench held`"]
fn durations_of_statements_that_visitors_wait_for() {
    let (held, bytes) = (number("FRONTDESK_BENCH_HELD", 1000), number("FRONTDESK_BENCH_BYTES", 60_000));
    let fixture = Fixture::recorded(Fresh::file);
    fixture.hold_many(held, bytes);
    fixture.accept_new(&keyed("first").held_for(&LINKS));
    fixture.accept_everything();
    let large = |n: u32| contact(&format!("{n} {}", "\u{1f600}".repeat(15_000)));
    for round in 0..20 {
        for n in 0..10 {
            fixture.accept_new(&contact(&format!("one of a visitor's {round} {n}")));
        }
        fixture.accept_new(&large(1000 + round));
        fixture.accept_new(&large(2000 + round).held_for(&LINKS));
    }
    fixture.accept_all(&(0..150).map(large).collect::<Vec<_>>());
    fixture.deliver_everything();
    let before: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    for _ in 0..100 {
        fixture.runtime.block_on(fixture.store.change(move |tx| tx.expire_held(before, before))).unwrap();
    }
    fixture.look_after_everything();
    let (mut worst, mut medians) = (Vec::new(), Vec::new());
    for (sql, Executions { mut times, .. }) in recorder::stop(&fixture.options.url) {
        times.sort_unstable();
        let (median, count) = (times[times.len() / 2], times.len());
        let words: Vec<_> = sql.split_ascii_whitespace().collect();
        let short = words.join(" ").replace("(?", "?").chars().take(110).collect::<String>();
        worst.push((times[count - 1], median, count, short));
        medians.push(median);
    }
    worst.sort_unstable();
    println!("{held} held submissions of {bytes} bytes; worst and median time in milliseconds, executions");
    for (worst, median, count, sql) in worst.iter().rev() {
        let [worst, median] = [worst, median].map(|time| time.as_secs_f64() * 1000.0);
        println!("{worst:9.3} {median:9.3} {count:6}  {sql}");
    }
}

/// Prints how long visitors wait while everything from one address is retried and then erased.
#[test]
#[ignore = "a measurement; run by `scripts/bench held`"]
fn durations_of_acceptance_during_retries_and_erasures() {
    let count = number("FRONTDESK_BENCH_HELD", 1000);
    let fixture = Fixture::in_file_with_channels(&["crm"]);
    fixture.accept_new(&contact("first"));
    fixture.sql(&format!(
        "INSERT INTO submission (id, form, received_at, source, sender, content, fields)
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT {count})
         SELECT unhex(printf('%032x', n)), form, received_at, randomblob(16), sender, randomblob(16), fields FROM number, submission"
    ));
    fixture.sql("INSERT OR IGNORE INTO delivery (submission, channel, state) SELECT id, 'crm', 'parked' FROM submission");
    let place = fixture.options.url.clone();
    let retry = move |place: DatabaseUrl| {
        Editor::open(place).unwrap().retry(&Retry::default(), Timestamp::now()).unwrap()
    };
    let erase =
        move |place: DatabaseUrl| Editor::open(place).unwrap().erase("ada@example.com").unwrap().submissions;
    let mut sent = 0;
    for (what, operation) in [("retried", retry as fn(DatabaseUrl) -> usize), ("erased", erase)] {
        let began = Instant::now();
        let operator = std::thread::spawn({
            let place = place.clone();
            move || operation(place)
        });
        let mut times = Vec::new();
        while !operator.is_finished() {
            let asked = Instant::now();
            fixture.runtime.block_on(fixture.store.accept(waitlist(&format!("{sent}@example.com")))).unwrap();
            times.push(asked.elapsed());
            sent += 1;
        }
        let (count, took) = (operator.join().unwrap(), began.elapsed());
        times.sort_unstable();
        println!(
            "{count} {what} in {took:.1?} beside {} accepted: median {:.1?}, 99 % {:.1?}, worst {:.1?}",
            times.len(),
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            times[times.len() - 1]
        );
    }
}

fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |number| number.parse().unwrap())
}

impl Fixture {
    /// Adds this many held submissions with different content, one received each second from October 2025 on.
    /// Each has a message of `bytes` bytes.
    fn hold_many(&self, held: u32, bytes: u32) {
        let connection = self.connection();
        connection.execute_batch("PRAGMA synchronous = off").unwrap();
        let first = 1_760_000_000_000_u64;
        for from in (0..held).step_by(1000) {
            let to = held.min(from + 1000);
            connection
                .execute_batch(&format!(
                    "BEGIN;
                     INSERT INTO submission (id, form, received_at, source, sender, content, \
                     idempotency_key, score, reasons, withheld, held_at, held_because, fields)
                     WITH RECURSIVE number (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM number \
                     WHERE n + 1 < {to})
                     SELECT unhex(printf('%012x7%019x', {first} + n * 1000, n)), \
                            'contact', {first} + n * 1000, randomblob(16), randomblob(16), randomblob(16), \
                            randomblob(16), 60,
                            '[{{\"signal\":\"links\",\"points\":60,\"detail\":\"4 links\"}}]', 1, {first} + n * 1000,
                            '4 links (60); 60 of 50 points',
                            json_object('name', 'Ada', 'email', 'ada@example.com', 'message', \
                            printf('%.*c', {bytes}, 'x'))
                     FROM number;
                     INSERT INTO delivery (submission, channel, state)
                     SELECT s.id, c.value, 'held' FROM submission s, json_each('[\"box\",\"crm\"]') c
                     WHERE s.id >= unhex(printf('%012x7%019x', {first} + {from} * 1000, {from}))
                     AND s.id < unhex(printf('%012x7%019x', {first} + {to} * 1000, {to}));
                     COMMIT"
                ))
                .unwrap();
        }
    }
}
