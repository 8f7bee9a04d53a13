//! 200 means stored, 500 means not stored: killed processes, full disks, locked and missing databases.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit, setrlimit};
use serde_json::json;

use crate::support::channel_site::until;
use crate::support::{Connection, PATIENCE, TestServer, frontdesk, small_site};

const MANY: [(&str, &str); 2] =
    [("FRONTDESK_LIMITS__ENABLED", "false"), ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "20000")];

/// Number of kills: the value of the environment variable, or a few by default.
fn kills() -> usize {
    std::env::var("FRONTDESK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(2)
}

/// Number of concurrent submissions.
const CONCURRENT: usize = 5_000;

#[test]
fn every_submission_that_got_its_200_survives_kill_9() {
    raise_descriptor_limit();
    let mut server = TestServer::with(&small_site(), &MANY);
    let mut acknowledged: Vec<String> = Vec::new();
    let mut sent = 0;
    for round in 0..kills() {
        // Each round kills the server at a different moment.
        let moment = Duration::from_millis(20 + 23 * (round as u64 % 20));
        let (pid, address) = (server.pid(), server.address);
        // At least one round must have a submission to lose, even on a slow machine.
        let is_last = round + 1 == kills() && acknowledged.is_empty();
        let kept = storm(address, round, moment, pid, is_last);
        sent += CONCURRENT;
        acknowledged.extend(kept);
        server.kill();
        server.restart();
    }
    let inbox = server.inbox();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for submission in &inbox {
        *seen.entry(submission["email"].as_str().expect("an address")).or_default() += 1;
    }
    assert!(!acknowledged.is_empty(), "no round got a single 200 before it was killed");
    for email in &acknowledged {
        assert_eq!(seen.get(email.as_str()), Some(&1), "{email} got its 200");
    }
    assert!(seen.values().all(|times| *times == 1), "exactly once");
    eprintln!("{} kills, {sent} sent, {} acknowledged, {} kept", kills(), acknowledged.len(), inbox.len());
    server.expect_anything();
}

/// Sends [`CONCURRENT`] submissions at once, each on a separate connection, and kills the server after
/// `moment`. If `wait_for_one` is set, also waits until one of them has been acknowledged. Returns the
/// acknowledged addresses.
fn storm(address: SocketAddr, round: usize, moment: Duration, pid: u32, wait_for_one: bool) -> Vec<String> {
    const THREADS: usize = 50;
    let begin = Arc::new(Barrier::new(THREADS + 1));
    let kept = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (begin, kept) = (begin.clone(), kept.clone());
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || {
                    let each = CONCURRENT / THREADS;
                    let mut connections: Vec<(String, Connection)> = (0..each)
                        .map(|number| (format!("r{round}t{thread}n{number}@example.com"), Connection::open(address)))
                        .collect();
                    begin.wait();
                    connections.retain_mut(|(email, connection)| {
                        let body = json!({ "email": email }).to_string();
                        let head = format!(
                            "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        connection.send(head.as_bytes()).is_ok()
                    });
                    for (email, mut connection) in connections {
                        if connection.answer(false).is_ok_and(|answer| answer.status == 200) {
                            kept.lock().expect("no thread panicked").push(email);
                        }
                    }
                })
                .expect("a thread")
        })
        .collect();
    begin.wait();
    std::thread::sleep(moment);
    let deadline = Instant::now() + PATIENCE;
    while wait_for_one && kept.lock().expect("no thread panicked").is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    for thread in threads {
        thread.join().expect("the thread ends");
    }
    std::mem::take(&mut kept.lock().expect("no thread panicked"))
}

#[test]
fn a_full_disk_gives_500_and_pages_go_on_until_there_is_room_again() {
    let server = TestServer::start();
    let submit = |number: usize| {
        let body = json!({ "name": "A", "email": "a@example.com", "message": format!("{number} {}", "x".repeat(15_000)) });
        server.post("/api/contact", &body).status
    };
    assert_eq!(submit(0), 200);
    // Limit the size of files that the server can write, which has the same effect as a full disk.
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a pid")).expect("a pid");
    let full = Rlimit { current: Some(256 * 1024), maximum: None };
    prlimit(Some(pid), Resource::Fsize, full).expect("it can be limited");
    let statuses: Vec<u16> = (1..60).map(submit).collect();
    let kept = 1 + statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.contains(&500), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 500)), "{statuses:?}");
    let answer = server.post(
        "/api/contact",
        &json!({ "name": "A", "email": "a@example.com", "message": "x".repeat(19_000) }),
    );
    assert_eq!(answer.status, 500);
    assert_eq!(answer.json().as_object().map(serde_json::Map::len), Some(1), "exactly an error");
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.inbox().len(), kept, "a submission that got 500 was not stored");
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: None, maximum: None })
        .expect("the limit can be lifted");
    wait_for_200(&server, "recovered@example.com");
    server.expect(kept + 1);
}

#[test]
fn a_locked_database_gives_500_and_recovers_when_it_is_free() {
    let server = TestServer::start();
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "before@example.com" })).status, 200);
    let lock = rusqlite::Connection::open(server.data_dir().join("inbox.sqlite")).expect("it is there");
    lock.execute_batch("BEGIN IMMEDIATE").expect("it can be locked");
    // The response must not wait for the lock, which is released only afterwards.
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "during@example.com" })).status, 500);
    assert_eq!(server.get("/", &[]).status, 200);
    lock.execute_batch("ROLLBACK").expect("it can be freed");
    wait_for_200(&server, "after@example.com");
    server.expect(2);
}

#[test]
fn a_data_folder_that_vanishes_gives_500_until_it_can_be_written_again() {
    let server = TestServer::start();
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "before@example.com" })).status, 200);
    let away = server.data_dir().with_extension("away");
    std::fs::rename(server.data_dir(), &away).expect("it can be moved");
    std::fs::write(server.data_dir(), "no folder").expect("something else stands there");
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "during@example.com" })).status, 500);
    assert_eq!(server.ops("/readyz").status, 503);
    assert_eq!(server.get("/", &[]).status, 200);
    std::fs::remove_file(server.data_dir()).expect("it can be removed");
    std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
    wait_for_200(&server, "after@example.com");
    assert_eq!(server.ops("/readyz").status, 200);
    server.expect(2);
}

/// Nothing may be written to the mount point of an unmounted file system: the mount would hide it later.
#[test]
fn a_data_folder_that_vanishes_is_not_recreated() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let server = TestServer::with(&site, &[("FRONTDESK_LIMITS__ENABLED", "false")]);
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "before@example.com" })).status, 200);
    let encodings = server.data_dir().join("encodings");
    until(|| encodings.is_dir().then_some(())).expect("encodings are kept");
    let away = server.data_dir().with_extension("away");
    std::fs::rename(server.data_dir(), &away).expect("it can be moved");
    for _ in 0..3 {
        assert_eq!(server.post("/api/waitlist", &json!({ "email": "during@example.com" })).status, 500);
    }
    assert!(!server.data_dir().exists(), "the writer has recreated it");
    until(|| server.log().contains("created only when the server starts").then_some(())).expect("the reason");
    // A changed page is compressed again, but its encodings cannot be stored.
    let page = site.join("pages/index.md");
    let text = std::fs::read_to_string(&page).expect("it is there");
    std::fs::write(&page, text + "\nThe data folder is away at the moment.\n").expect("it can be written");
    server.signal(Signal::HUP);
    until(|| server.log().contains("cannot store strongly compressed files").then_some(()))
        .expect("a warning");
    assert!(!server.data_dir().exists(), "the encoder has recreated it");
    std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
    wait_for_200(&server, "after@example.com");
    server.expect(2);
}

#[test]
fn pages_are_served_even_if_the_inbox_cannot_be_opened_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let unlimited = [("FRONTDESK_LIMITS__ENABLED", "false")];
    let mut server = TestServer::serving(&small_site(), &data, &["--pages-only"], &unlimited);
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "before@example.com" })).status, 200);
    server.kill();
    let away = server.data_dir().with_extension("away");
    std::fs::rename(server.data_dir(), &away).expect("it can be moved");
    std::fs::write(server.data_dir(), "no folder").expect("something else stands there");
    server.restart();
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.ops("/readyz").status, 503);
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "during@example.com" })).status, 500);
    std::fs::remove_file(server.data_dir()).expect("it can be removed");
    std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
    wait_for_200(&server, "after@example.com");
    server.expect(2);
}

#[test]
fn a_server_does_not_start_if_the_inbox_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::write(&data, "no folder").expect("it can be written");
    let output = crate::support::frontdesk()
        .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "off", "--data-dir"])
        .arg(&data)
        .arg(small_site())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write to the inbox") && said.contains("--pages-only"), "{said}");
}

#[test]
fn a_submission_is_listed_before_its_response_arrives() {
    let server = TestServer::start();
    let stop = Arc::new(AtomicBool::new(false));
    let (address, stopped) = (server.address, stop.clone());
    let noise = std::thread::spawn(move || {
        let mut connection = Connection::open(address);
        let mut sent = 0;
        while !stopped.load(Ordering::Relaxed) {
            let body = json!({ "email": format!("noise{sent}@example.com") }).to_string();
            let answer = connection.request(
                "POST",
                "/api/waitlist",
                &[("Content-Type", "application/json")],
                body.as_bytes(),
            );
            assert_eq!(answer.expect("an answer").status, 200);
            sent += 1;
        }
        sent
    });
    for number in 0..10 {
        let email = format!("mine{number}@example.com");
        assert_eq!(server.post("/api/waitlist", &json!({ "email": email })).status, 200);
        assert!(server.inbox().iter().any(|submission| submission["email"] == email));
    }
    stop.store(true, Ordering::Relaxed);
    server.expect(10 + noise.join().expect("it ends"));
}

/// Waits until the server has recovered without a restart.
fn wait_for_200(server: &TestServer, email: &str) {
    let accepted = || server.post("/api/waitlist", &json!({ "email": email })).status == 200;
    until(|| accepted().then_some(())).expect("it recovers");
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the limit on open files can be raised");
    let possible = raised.current.unwrap_or(u64::MAX);
    assert!(
        possible > CONCURRENT as u64 + 200,
        "this test needs more than {CONCURRENT} open files, {possible} are allowed"
    );
}
