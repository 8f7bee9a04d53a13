//! The server's memory holds only the current version of the site, and no data of closed connections.
//!
//! The bounds are generous because the allocator returns memory to the system late. The tests look for leaks.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Connection, PATIENCE, TestServer, deadlines, frontdesk};

/// Size in bytes of one of the site's files, of a format that is in memory at any length. A second copy of it
/// would exceed the bound.
const LARGE: usize = 64 << 20;

/// Memory that the server may use besides the large file. It was 25 MiB on a busy machine.
const REST: usize = 32 << 20;

const RELOADS: usize = 10;
const CONNECTIONS: usize = 400;
const SUBMISSIONS: usize = 100;

#[test]
fn memory_holds_the_site_once_after_reloads_connections_and_submissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    std::fs::create_dir_all(site.join("static")).expect("a folder");
    std::fs::write(site.join("static/large.woff2"), vec![b'x'; LARGE]).expect("it can be written");
    let server = TestServer::with(
        &site,
        &deadlines(&[
            ("FRONTDESK_SERVER__WORKERS", "4"),
            ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "1000"),
        ]),
    );
    settles(&server, "the start");

    for reload in 1..=RELOADS {
        let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a process id")).expect("a process");
        kill_process(pid, Signal::HUP).expect("it can be told");
        until(|| server.log().matches("configuration reloaded").count() == reload)
            .unwrap_or_else(|()| panic!("reload {reload}: {}", server.log()));
    }
    settles(&server, "reloads");

    // All of these connections stay open, and another one receives the large file.
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
    }
    let large = server.get("/large.woff2", &[]);
    assert_eq!(large.body.len(), LARGE);
    settles(&server, "connections that are open");
    drop((connections, large));
    for number in 0..SUBMISSIONS {
        let answer = server.post("/api/waitlist", &json!({ "email": format!("ada{number}@example.com") }));
        assert_eq!(answer.status, 200);
    }
    server.expect(SUBMISSIONS);
    settles(&server, "connections and submissions");
}

/// Waits until the server's memory use is within the bound. Panics if this takes too long.
fn settles(server: &TestServer, after: &str) {
    let of_the_server = || anonymous(server.pid());
    until(|| of_the_server() <= LARGE + REST)
        .unwrap_or_else(|()| panic!("after {after} it stays at {} KiB", of_the_server() / 1024));
}

/// Resident memory of a process in bytes, without mapped files.
fn anonymous(pid: u32) -> usize {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says it");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

fn until(holds: impl Fn() -> bool) -> Result<(), ()> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PATIENCE {
            return Err(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
