//! How many submissions a second are kept durably, by how many are under way: `cargo bench --bench submissions`.
//!
//! Each one is on stable storage before the next of its sender begins. The first column, one sender, is about what one sync
//! costs on this machine: the figure to compare the others with.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use frontdesk::forms::WAITLIST;
use frontdesk::forms::parse::parse;
use frontdesk::limits::Source;
use frontdesk::screening::{Evidence, Facts};
use frontdesk::store::{Arrival, Options, Store};

const SECONDS: u64 = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for senders in [1, 16, 64, 256] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let options = Options::at(folder.path().join("inbox.sqlite"));
        let store = Store::open(&options).expect("a store");
        let kept = runtime.block_on(run(&store, senders));
        store.close();
        println!("{senders:>4} senders: {:>7} a second", kept / SECONDS);
    }
}

async fn run(store: &Store, senders: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(SECONDS);
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..senders)
        .map(|sender| {
            let store = store.clone();
            local.spawn_local(async move {
                let mut kept = 0;
                while Instant::now() < deadline {
                    let body = format!(r#"{{"email":"s{sender}n{kept}@example.com"}}"#);
                    let entry = parse(&WAITLIST, body.as_bytes()).expect("it is valid");
                    let source = Source::from(std::net::IpAddr::from([127, 0, 0, 1]));
                    let received_at = jiff::Timestamp::now();
                    let evidence = Evidence::Facts(Facts::default());
                    let arrival =
                        Arrival { entry, idempotency_key: None, source, received_at, evidence, agent: None };
                    store.accept(arrival).await.expect("it is kept");
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
