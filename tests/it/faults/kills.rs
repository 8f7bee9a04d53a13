//! `kill -9` at every system call with an outside effect, and at random moments under load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Scale;
use super::testbed::{Answered, TestBed};
use super::tracer::{Plan, Tracer};
use crate::support::http_peer::Reply;
use crate::support::random::Random;
use crate::support::smtp_peer::{At, Do, Script};
use crate::support::{TestServer, small_site};

/// System calls through which state leaves the process: for a disk, a peer or another thread.
const CALLS: [&str; 13] = [
    "fsync,fdatasync",
    "connect",
    "sendto",
    "/^rename",
    "openat",
    "pwrite64",
    "writev",
    "sendmsg",
    "write",
    "ftruncate",
    "/^utime",
    "/^unlink",
    "/^mkdir",
];

/// Submissions in each round.
const EACH: usize = 3;

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_kill_at_any_system_call_loses_nothing() {
    let extent = Scale::get();
    // Kills the server at the n-th call of each kind, for increasing n until there is no such call. Short
    // runs skip some values of n.
    let (step, most) = extent.of((5, 1), (7, 4), (1, usize::MAX));
    let calls = extent.of(&CALLS[..4], &CALLS[..], &CALLS[..]);
    let mut testbed = TestBed::start(1);
    let mut struck_at: BTreeMap<String, usize> = BTreeMap::new();
    for calls in calls {
        for n in (1..).step_by(step).take(most) {
            let Some(place) = round(&mut testbed, &Plan::kill(calls, n)) else { break };
            *struck_at.entry(place).or_default() += 1;
        }
    }
    // The writer syncs often, so in the rounds above the first syncs are the database's. These rounds count
    // only the Maildir's syncs, between the rename of a message and the moment at which the rename is
    // durable.
    for n in 1..=extent.of(1, 2, 10) {
        let plan = Plan { files: vec![testbed.maildir().join("new")], ..Plan::kill(CALLS[0], n) };
        let Some(place) = round(&mut testbed, &plan) else { break };
        *struck_at.entry(format!("{place} of new/")).or_default() += 1;
    }
    let at_calls = testbed.kills;
    testbed.settle();
    let figures = testbed.reckon();
    eprintln!("kills at system calls: {figures}");
    for (place, times) in &struck_at {
        eprintln!("    {place}: {times}");
    }
    assert_eq!(figures.false_500, 0);
    for (channel, count) in &figures.duplicates {
        assert!(*count <= figures.kills, "{channel}: {count} duplicates by {} kills", figures.kills);
    }
    let expected = extent.of(
        &["sync", "connect"][..],
        &["sync", "connect", "pwrite", "sendto", "openat", "of new/"],
        &["of new/", "sync", "connect", "pwrite", "sendto", "openat", "rename", "utimensat", "write"],
    );
    for call in expected {
        let hit = struck_at.keys().any(|place| place.contains(call));
        assert!(hit, "no kill at {call} among {at_calls}");
    }
    testbed.server.expect(figures.kept);
}

/// Submits a few times to a server that is killed as planned, and restarts it. Returns the call at which it
/// was killed (the calls of the plan if strace did not log it), or `None` if it did not get that far.
fn round(testbed: &mut TestBed, plan: &Plan) -> Option<String> {
    let log = testbed.log();
    let tracer = Tracer::attach(&mut testbed.server, plan, &log);
    for _ in 0..EACH {
        if testbed.submit() == Answered::Nothing {
            break;
        }
    }
    let mut looks = 0;
    while !testbed.server.has_ended() {
        // The server may be idle between two steps. If it is idle twice in a row, nothing more will happen.
        looks = if testbed.is_quiet() { looks + 1 } else { 0 };
        if looks == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let struck = tracer.let_go();
    if !testbed.server.has_ended() {
        return None;
    }
    assert!(testbed.server.was_killed(), "the server ended by itself");
    testbed.kills += 1;
    testbed.server.restart();
    Some(struck.unwrap_or_else(|| plan.calls.clone()))
}

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_half_created_inbox_is_completed_by_the_next_start() {
    let (step, most) = Scale::get().of((9, 2), (5, 4), (1, usize::MAX));
    let mut server = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("strace.log");
    let mut kills = 0;
    server.kill();
    for calls in ["pwrite64", "fsync,fdatasync", "/^mkdir", "/^unlink", "ftruncate"] {
        for n in (1..).step_by(step).take(most) {
            std::fs::remove_dir_all(server.data_dir()).expect("it can be removed");
            let arguments = Plan::kill(calls, n).arguments(&log);
            let runner: Vec<&str> =
                ["/usr/bin/strace", "-D"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
            if server.try_restart(&runner).is_ok() {
                server.kill();
                break;
            }
            kills += 1;
            server.restart();
            let body = serde_json::json!({ "email": "a@example.com" });
            assert_eq!(server.post("/api/waitlist", &body).status, 200, "after {calls} {n}");
            assert_eq!(server.inbox().len(), 1, "after {calls} {n}");
            server.kill();
        }
    }
    eprintln!("kills while an inbox is made: kills {kills}");
    assert!(kills > 0);
    server.expect_anything();
}

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn kills_at_random_moments_under_load_lose_nothing() {
    const CLIENTS: usize = 3;
    const CONCURRENCY: usize = 4;
    let rounds = Scale::get().of(3, 12, 700);
    let seed = std::env::var("FRONTDESK_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut dice = Random(seed);
    let mut testbed = TestBed::start(CONCURRENCY);
    for _ in 0..rounds {
        testbed.hook.follow((0..40).map(|_| hook_mood(&mut dice)).collect::<Vec<_>>());
        testbed.mail.follow((0..40).map(|_| mail_mood(&mut dice)).collect());
        let moment = Duration::from_micros(dice.below(250_000));
        let stop = AtomicBool::new(false);
        let (ledger, address) = (&testbed.ledger, testbed.server.address);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    for _ in 0..3 {
                        if stop.load(Ordering::Relaxed) || ledger.submit(address) == Answered::Nothing {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(moment);
            let pid = rustix::process::Pid::from_raw(i32::try_from(testbed.server.pid()).expect("a pid"))
                .expect("a pid");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
            stop.store(true, Ordering::Relaxed);
        });
        testbed.kill_and_restart();
    }
    testbed.settle();
    let figures = testbed.reckon();
    eprintln!("kills at random moments (seed {seed}): {figures}");
    assert_eq!(figures.false_500, 0);
    assert!(figures.acknowledged > 0, "no submission was acknowledged");
    testbed.server.expect(figures.kept);
}

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn kills_between_acceptance_and_processing_lose_nothing() {
    const CLIENTS: usize = 4;
    let rounds = Scale::get().of(3, 12, 600);
    let mut dice = Random(u64::from(std::process::id()));
    let mut testbed = TestBed::start(CLIENTS);
    // The number of kills that left accepted submissions for the restarted server to process, and the number
    // of those submissions.
    let (mut struck, mut left) = (0, 0);
    for _ in 0..rounds {
        // Kills the server right after the last response or a moment later, when processing has begun.
        let (each, pause) = (1 + dice.below(4), Duration::from_micros(dice.below(800)));
        let (ledger, address) = (&testbed.ledger, testbed.server.address);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(move || (0..each).all(|_| ledger.submit(address) == Answered::Kept));
            }
        });
        std::thread::sleep(pause);
        testbed.kill();
        let unprocessed: usize = testbed.count("SELECT count(*) FROM intake");
        struck += usize::from(unprocessed > 0);
        left += unprocessed;
        testbed.server.restart();
    }
    testbed.settle();
    let figures = testbed.reckon();
    eprintln!("kills between acceptance and processing: {figures}");
    eprintln!("    {struck} of {rounds} kills left accepted submissions for the next start, {left} in all");
    assert_eq!(figures.false_500, 0);
    assert!(struck * 2 >= rounds || rounds < 100, "most kills came too late");
    testbed.server.expect(figures.kept);
}

/// The receiver's next reply: mostly success.
fn hook_mood(dice: &mut Random) -> Reply {
    match dice.below(10) {
        0 => Reply::status(500),
        1 => Reply::late(204, Duration::from_millis(50 + dice.below(150))),
        2 => Reply::CloseAfterRequest,
        _ => Reply::status(204),
    }
}

fn mail_mood(dice: &mut Random) -> Script {
    match dice.below(10) {
        0 => Script::with(At::Rcpt, Do::Say("451 4.3.0 try again later")),
        1 => Script::with(At::End, Do::Late(Duration::from_millis(50 + dice.below(150)))),
        2 => Script::with(At::End, Do::Close),
        3 => Script::with(At::End, Do::Say("451 4.3.0 try again later")),
        _ => Script::usual(),
    }
}
