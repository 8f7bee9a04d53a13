//! Memory holds one state of the site, and nothing of what has come and gone.
//!
//! Bounds are wide, and what is free may take its time to go back to the system: it is leaks that are looked
//! for.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Connection, Desk, PATIENCE, deadlines, frontdesk};

/// A file of the site. With a second copy of it the bound would not hold.
const LARGE: usize = 32 << 20;

/// The memory that the server may use besides.
const REST: usize = 24 << 20;

const RELOADS: usize = 10;
const CONNECTIONS: usize = 400;
const SUBMISSIONS: usize = 100;

#[test]
fn memory_holds_the_site_once_after_reloads_connections_and_submissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    std::fs::create_dir_all(site.join("static")).expect("a folder");
    std::fs::write(site.join("static/large.bin"), vec![b'x'; LARGE]).expect("it can be written");
    let desk = Desk::with(
        &site,
        &deadlines(&[
            ("FRONTDESK_SERVER__WORKERS", "4"),
            ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "1000"),
        ]),
    );
    settles(&desk, "the start");

    for reload in 1..=RELOADS {
        let pid = Pid::from_raw(i32::try_from(desk.pid()).expect("a process id")).expect("a process");
        kill_process(pid, Signal::HUP).expect("it can be told");
        until(|| desk.log().matches("configuration reloaded").count() == reload)
            .unwrap_or_else(|()| panic!("reload {reload}: {}", desk.log()));
    }
    settles(&desk, "reloads");

    // All of them stay open, and one more is sent all that there is.
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| desk.connect()).collect();
    for connection in &mut connections {
        assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
    }
    let large = desk.get("/large.bin", &[]);
    assert_eq!(large.body.len(), LARGE);
    settles(&desk, "connections that are open");
    drop((connections, large));
    for number in 0..SUBMISSIONS {
        let answer = desk.post("/api/waitlist", &json!({ "email": format!("ada{number}@example.com") }));
        assert_eq!(answer.status, 200);
    }
    desk.expect(SUBMISSIONS);
    settles(&desk, "connections and submissions");
}

/// Waits until the server's memory is within the bound.
fn settles(desk: &Desk, after: &str) {
    let of_the_server = || anonymous(desk.pid());
    until(|| of_the_server() <= LARGE + REST)
        .unwrap_or_else(|()| panic!("after {after} it stays at {} KiB", of_the_server() / 1024));
}

/// The process's own memory, without what is mapped from files, in bytes.
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
