//! Submissions per second and processor time through a PgBouncer, compared with a direct connection.

use std::path::Path;

use frontdesk_inbox::intake::{Intake, IntakeOptions};
use frontdesk_inbox::store::{Store, StoreOptions};
use frontdesk_inbox::submission::delivery::Route;

use super::{ROUNDS, SECONDS, count, in_schema, place, psql, run};

const SENDERS: u64 = 64;
/// The kernel reports processor time in hundredths of a second.
const MICROSECONDS_PER_TICK: f64 = 10_000.0;

/// Submissions per second, and the processor time for each in microseconds: of this process, of PostgreSQL,
/// and of PgBouncer.
type Figures = [f64; 4];

/// The two connections take turns writing to separate schemas. Prints the median of each figure.
pub fn compare(pooled: &str, direct: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let data = psql(direct, "SHOW data_directory");
    let pid = std::fs::read_to_string(Path::new(&data).join("postmaster.pid")).expect("a running server");
    let server: u32 = pid.lines().next().and_then(|line| line.parse().ok()).expect("a process id");
    let bouncer: u32 = std::env::var("FRONTDESK_TEST_POOLER_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .expect("its process id");
    let places = [("direct", direct), ("pooled", pooled)];
    let intakes = places.map(|(name, url)| {
        let schema = format!("bench_{name}");
        psql(direct, &format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"));
        let url = place(&in_schema(url, &schema));
        let store = Store::open(&StoreOptions { url, channels: vec![Route::new("team")] }).expect("a store");
        Intake::start(store, IntakeOptions::default()).expect("a thread")
    });
    let mut rounds: [Vec<Figures>; 2] = Default::default();
    let mut number = 0;
    for _ in 0..=ROUNDS {
        for (((name, _), intake), rounds) in places.iter().zip(&intakes).zip(&mut rounds) {
            let before = ticks(server, bouncer);
            let kept = count(runtime.block_on(run(intake, SENDERS, &mut number)));
            // Include processing, which follows the responses, so that it is not counted in the next round.
            let left = format!("SELECT count(*) FROM bench_{name}.intake");
            while psql(direct, &left) != "0" {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            let after = ticks(server, bouncer);
            let cost = |at: usize| (after[at] - before[at]) * MICROSECONDS_PER_TICK / kept;
            rounds.push([kept / count(SECONDS), cost(0), cost(1), cost(2)]);
        }
    }
    println!("{:>8} {:>10} {:>10} {:>11} {:>10}", "", "per second", "frontdesk", "PostgreSQL", "PgBouncer");
    for ((name, _), rounds) in places.iter().zip(&mut rounds) {
        // The first round prepares statements and fills caches.
        rounds.remove(0);
        let [rate, ours, theirs, between] = [0, 1, 2, 3].map(|at| {
            rounds.sort_by(|a, b| a[at].total_cmp(&b[at]));
            rounds[ROUNDS / 2][at]
        });
        println!("{name:>8} {rate:>10.0} {ours:>7.1} µs {theirs:>8.1} µs {between:>7.1} µs");
    }
    for intake in intakes {
        intake.close();
    }
}

/// The processor time of this process, the server with its sessions, and the pooler, in the kernel's ticks.
fn ticks(server: u32, pooler: u32) -> [f64; 3] {
    let (mut sessions, mut others) = (0, [0, 0]);
    for entry in std::fs::read_dir("/proc").expect("the kernel's files").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program, in parentheses, may contain spaces.
        let Some((_, rest)) = text.rsplit_once(") ") else { continue };
        let fields: Vec<u64> = rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
        let own = fields[11] + fields[12];
        if pid == std::process::id() {
            others[0] = own;
        } else if pid == pooler {
            others[1] = own;
        } else if pid == server {
            // With the sessions that have ended.
            sessions += own + fields[13] + fields[14];
        } else if fields[1] == u64::from(server) {
            sessions += own;
        }
    }
    [others[0], sessions, others[1]].map(count)
}
