//! The database's disk fails or fills up at the n-th write or sync. Every 200 and 500 must be correct, and
//! the server must recover without a restart.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Scale;
use super::testbed::{Answered, TestBed};
use super::tracer::{Plan, Tracer};
use crate::support::{Connection, PATIENCE};

const CLIENTS: usize = 3;

/// The two system calls that SQLite may use to sync, depending on its build.
const SYNC: &str = "fsync,fdatasync";

/// Duration of a recurring fault.
const LASTING: Duration = Duration::from_millis(700);

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_failing_disk_makes_no_response_wrong() {
    let cases = cases(Scale::get());
    let mut testbed = TestBed::start(4);
    testbed.has_failed = true;
    let (mut slowest, mut recovery, mut pages) = (Duration::ZERO, Duration::ZERO, 0);
    // The number of faults that caused refusals, and of faults that made processing fail.
    let (mut refusing, mut processing) = (0, 0);
    for case in &cases {
        let (refused, failed) = (testbed.ledger.count(Answered::NotKept), failures_of_processing(&testbed));
        let log = testbed.log();
        let plan = case.plan(&testbed);
        let tracer = Tracer::attach(&mut testbed.server, &plan, &log);
        let load = load(&testbed, case);
        drop(tracer);
        slowest = slowest.max(load.slowest);
        pages += load.pages;
        refusing += usize::from(testbed.ledger.count(Answered::NotKept) > refused);
        recovery = recovery.max(recover(&testbed));
        processing += usize::from(failures_of_processing(&testbed) > failed);
        assert!(!testbed.server.has_ended(), "{case:?}");
    }
    testbed.settle();
    let figures = testbed.reckon();
    eprintln!(
        "failing disks: faults {}, of which refused somebody {refusing}, of which failed processing {processing}, {figures}, pages {pages}, slowest answer {slowest:.1?}, \
         slowest recovery {recovery:.1?}",
        cases.len()
    );
    assert_eq!(figures.false_500, 0, "no submission that got a 500 was stored");
    assert!(refusing > 0, "no fault caused a refusal");
    assert!(processing > 0 || cases.len() < 20, "no fault hit processing");
    testbed.server.expect(figures.kept);
}

/// If the process ends before its next write, the result of a failed sync is unknown: a submission that got a
/// 500 may be stored, but at most once.
#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_kill_while_the_disk_fails_leaves_only_what_was_just_refused_in_doubt() {
    let extent = Scale::get();
    let rounds = extent.of(1, 3, 20);
    let mut testbed = TestBed::start(4);
    testbed.has_failed = true;
    for n in 1..=rounds {
        let case = Case { calls: SYNC, error: "EIO", n, is_lasting: true };
        let (plan, log) = (case.plan(&testbed), testbed.log());
        let tracer = Tracer::attach(&mut testbed.server, &plan, &log);
        load(&testbed, &case);
        // Kill the server before its tracer; otherwise the server would have time for another write.
        testbed.server.kill();
        drop(tracer);
        testbed.kills += 1;
        testbed.server.restart();
        recover(&testbed);
    }
    testbed.settle();
    let figures = testbed.reckon();
    eprintln!("kills while a disk fails: {figures}");
    // In each round, two batches can be in doubt: the one that failed, and the one that found that writes
    // were still failing.
    assert!(figures.false_500 <= 2 * CLIENTS * rounds, "{figures}");
    testbed.server.expect(figures.kept);
}

#[derive(Debug)]
struct Case {
    calls: &'static str,
    error: &'static str,
    n: usize,
    is_lasting: bool,
}

impl Case {
    fn plan(&self, testbed: &TestBed) -> Plan {
        let database = testbed.database();
        let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", database.display()));
        let files = vec![database.clone(), beside("-wal"), beside("-shm")];
        Plan {
            calls: self.calls.to_owned(),
            deed: format!("error={}", self.error),
            when: format!("{}{}", self.n, if self.is_lasting { "+" } else { "" }),
            files,
        }
    }
}

fn cases(extent: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for error in ["EIO", "ENOSPC"] {
        for (calls, last, step) in [
            (SYNC, 8, 3),
            ("pwrite64", 24, 11),
            ("ftruncate", 2, 2),
            ("fsync,fdatasync,pwrite64,ftruncate", 16, 8),
        ] {
            for is_lasting in [false, true] {
                let step = extent.of(usize::MAX, step, 1);
                cases.extend((1..=last).step_by(step).map(|n| Case { calls, error, n, is_lasting }));
            }
        }
    }
    cases.truncate(extent.of(4, usize::MAX, usize::MAX));
    cases
}

struct Load {
    slowest: Duration,
    pages: usize,
}

/// Runs clients that send submissions and one that reads pages. If the fault recurs, they run for
/// [`LASTING`], otherwise until each client has sent enough submissions to cause the fault.
fn load(testbed: &TestBed, case: &Case) -> Load {
    let (stop, pages) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (ledger, address) = (&testbed.ledger, testbed.server.address);
    let submissions = if case.is_lasting { usize::MAX } else { 4 + case.n / 2 };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut slowest = Duration::ZERO;
                    for _ in 0..submissions {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let began = Instant::now();
                        assert_ne!(
                            ledger.submit(address),
                            Answered::Nothing,
                            "each request gets a response: {case:?}"
                        );
                        slowest = slowest.max(began.elapsed());
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    slowest
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut connection = Connection::open(address);
            while !stop.load(Ordering::Relaxed) {
                let answer = connection.request("GET", "/", &[], b"").expect("pages are served");
                assert_eq!(answer.status, 200);
                pages.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        if case.is_lasting {
            std::thread::sleep(LASTING);
            stop.store(true, Ordering::Relaxed);
        }
        let slowest = clients.into_iter().map(|client| client.join().expect("it ends")).max();
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("it ends");
        Load { slowest: slowest.unwrap_or_default(), pages: pages.load(Ordering::Relaxed) }
    })
}

/// The number of log messages about a failure to process the intake.
fn failures_of_processing(testbed: &TestBed) -> usize {
    testbed.server.log().matches("could not process the intake").count()
}

/// Submits until a submission is stored again. Returns the time that this took.
fn recover(testbed: &TestBed) -> Duration {
    let began = Instant::now();
    while testbed.submit() != Answered::Kept {
        assert!(began.elapsed() < PATIENCE, "it does not recover");
        std::thread::sleep(Duration::from_millis(50));
    }
    began.elapsed()
}
