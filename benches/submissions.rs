//! Measures how many submissions per second are stored durably, by number of concurrent senders:
//! `cargo bench -p frontdesk-benches --bench submissions`.
//!
//! Each submission is on stable storage before its sender begins the next one. With one sender, a submission
//! takes about as long as a sync on this machine.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use frontdesk_forms::{WAITLIST, parse};
use frontdesk_inbox::intake::{Arrival, Intake, IntakeOptions};
use frontdesk_inbox::store::{Store, StoreOptions};
use frontdesk_limits::Source;
use frontdesk_screening::{Evidence, RequestFacts};

const SECONDS: u64 = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for senders in [1, 16, 64, 256] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let options = StoreOptions::new(folder.path().join("inbox.sqlite"));
        let store = Store::open(&options).expect("a store");
        let intake = Intake::start(store, IntakeOptions::default()).expect("a thread");
        let kept = runtime.block_on(run(&intake, senders));
        intake.close();
        println!("{senders:>4} senders: {:>7} submissions per second", kept / SECONDS);
    }
}

/// Submits waitlist requests from `senders` concurrent tasks for [`SECONDS`]. Returns how many were stored.
async fn run(intake: &Intake, senders: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(SECONDS);
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..senders)
        .map(|sender| {
            let intake = intake.clone();
            local.spawn_local(async move {
                let mut kept = 0;
                while Instant::now() < deadline {
                    let body = format!(r#"{{"email":"s{sender}n{kept}@example.com"}}"#);
                    let entry = parse(&WAITLIST, body.as_bytes()).expect("a valid body");
                    let source = Source::from(std::net::IpAddr::from([127, 0, 0, 1]));
                    let received_at = jiff::Timestamp::now();
                    let evidence = Evidence::Facts(RequestFacts::default());
                    let arrival = Arrival {
                        entry,
                        idempotency_key: None,
                        source,
                        received_at,
                        evidence,
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
