//! A Maildir on a full disk: messages that do not fit are retried and arrive complete once there is space.
//! Also an inbox on a disk that fills up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Scale;
use super::testbed::{Answered, TestBed};
use super::tracer::{Plan, Tracer};
use crate::support::{PATIENCE, TestServer, small_site};

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_maildir_on_a_full_file_system_takes_everything_once_there_is_room() {
    let small = SmallDisk::mount(2);
    let maildir = small.path.join("box");
    let mut testbed = TestBed::with(4, tempfile::tempdir().expect("a folder"), &maildir);
    let filler = small.path.join("filler");
    let times = Scale::get().of(1, 2, 10);
    for _ in 0..times {
        // A few free blocks remain, so that some messages fit and others fit only in part.
        let taken = std::fs::metadata(&filler).map_or(0, |file| file.len());
        fill(&filler, small.free().saturating_sub(3 * 4096) + taken);
        for _ in 0..12 {
            assert_eq!(testbed.submit(), Answered::Kept, "the inbox is elsewhere");
        }
        wait_until("the others were tried", || {
            testbed
                .query::<i64>("SELECT count(*) FROM delivery WHERE channel <> 'box' AND state <> 'delivered'")
                [0]
                == 0
                && testbed
                    .query::<i64>("SELECT count(*) FROM delivery WHERE channel = 'box' AND failures > 0")[0]
                    > 0
        });
        assert_eq!(left_in(&maildir.join("tmp")), 0, "no partial message is left behind");
        std::fs::remove_file(&filler).expect("it can be removed");
        testbed.settle();
    }
    let figures = testbed.reckon_with(&maildir);
    eprintln!("a full file system: times {times}, {figures}");
    testbed.server.expect(figures.kept);
}

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_maildir_whose_disk_fails_at_any_step_has_no_message_in_part() {
    let mut testbed = TestBed::start(4);
    let (mut faults, mut struck) = (0, 0);
    // During this test, the server renames only messages, so renames need not be restricted to a folder. The
    // other calls fail only on the Maildir's `new` folder.
    let new = testbed.maildir().join("new");
    for (calls, file) in Scale::get().of(
        &[("/^rename", None)][..],
        &[("/^rename", None), ("fsync,fdatasync", Some(&new))],
        &[("/^rename", None), ("fsync,fdatasync", Some(&new)), ("openat", Some(&new))],
    ) {
        for error in ["ENOSPC", "EIO"] {
            for when in Scale::get().of(&["1+"][..], &["1", "1+"], &["1", "2", "3", "1+", "2+"]) {
                let plan = Plan {
                    calls: (*calls).to_owned(),
                    deed: format!("error={error}"),
                    when: (*when).to_owned(),
                    files: file.cloned().into_iter().collect(),
                };
                let log = testbed.log();
                let tracer = Tracer::attach(&mut testbed.server, &plan, &log);
                for _ in 0..4 {
                    assert_eq!(testbed.submit(), Answered::Kept, "the inbox is on another disk");
                }
                wait_until("each was tried", || testbed.is_quiet());
                drop(tracer);
                faults += 1;
                struck += usize::from(testbed.undelivered() > 0);
                testbed.settle();
            }
        }
    }
    let figures = testbed.reckon();
    eprintln!("a failing Maildir: faults {faults}, of which delayed something {struck}, {figures}");
    assert!(struck > 0, "no fault was noticed");
    testbed.server.expect(figures.kept);
}

/// When free space is below the reserve, only large submissions are refused. Small ones are refused only when
/// the disk is full.
#[test]
#[ignore = "mounts a file system: scripts/test faults"]
fn the_reserve_is_left_to_small_submissions_until_the_disk_is_full() {
    const MIB: u64 = 1 << 20;
    let small = SmallDisk::mount(64);
    let environment = [("FRONTDESK_LIMITS__ENABLED", "false"), ("FRONTDESK_STORE__MIN_FREE", "32MiB")];
    let server = TestServer::at(&small_site(), &small.path.join("data"), &environment);
    let mut number = 0;
    let mut send = |bytes: usize| {
        number += 1;
        let message = format!("{number} {}", "x".repeat(bytes));
        let body = json!({ "name": "A", "email": "a@example.com", "message": message });
        let answer = server.post("/api/contact", &body);
        (answer.status, answer.header("retry-after").is_some())
    };
    let is_low = |low: &str| server.ops("/metrics").text().contains(&format!("\nfrontdesk_disk_low {low}\n"));
    let filler = small.path.join("filler");
    assert_eq!(send(15_000), (200, false));
    fill(&filler, small.free() - 24 * MIB);
    wait_until("free space is low", || is_low("1"));
    for _ in 0..20 {
        assert_eq!(send(15_000), (500, true));
        assert_eq!(send(3_000), (200, false));
    }
    assert!(small.free() > 16 * MIB, "most of the reserve is still free");
    // The last part of this write fails if the server is writing at the same time. Some submissions still fit
    // afterwards, into pages that the database has freed.
    let rest = vec![b'x'; usize::try_from(small.free()).expect("it is a small disk")];
    let _ = std::fs::write(small.path.join("rest"), rest);
    let mut last = (200, false);
    let accepted = (0..5_000).take_while(|_| {
        last = send(3_000);
        last == (200, false)
    });
    let accepted = accepted.count();
    assert_eq!(last, (500, false), "the disk is full after {accepted} more");
    std::fs::remove_file(small.path.join("rest")).expect("it is there");
    wait_until("the database can be written", || server.ops("/readyz").status == 200);
    assert_eq!(send(15_000), (500, true));
    assert_eq!(send(3_000), (200, false));
    std::fs::remove_file(&filler).expect("it is there");
    wait_until("there is space again", || is_low("0"));
    assert_eq!(send(15_000), (200, false));
    server.expect(1 + 20 + accepted + 1 + 1);
}

/// Waits until the condition is true. Panics after a timeout.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn left_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("it is there").count()
}

fn fill(file: &Path, bytes: u64) {
    let bytes = usize::try_from(bytes).expect("it is a small disk");
    std::fs::write(file, vec![b'x'; bytes]).expect("there is as much room");
}

/// A file system in memory that is unmounted after the test. Needs root, or `sudo` without a password.
struct SmallDisk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system of `size` MiB.
    fn mount(size: u32) -> SmallDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("small");
        std::fs::create_dir(&path).expect("a folder");
        as_root(&["mount", "-t", "tmpfs", "-o", &format!("size={size}m,mode=777"), "tmpfs"], &path);
        SmallDisk { path, _folder: folder }
    }

    /// Free space in bytes.
    fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.path).expect("it can be asked");
        found.f_bavail * found.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        as_root(&["umount", "--lazy"], &self.path);
    }
}

fn as_root(command: &[&str], path: &Path) {
    let sudo = if rustix::process::getuid().is_root() { &[][..] } else { &["sudo", "-n"] };
    let words: Vec<&str> = sudo.iter().chain(command).copied().collect();
    let output = Command::new(words[0]).args(&words[1..]).arg(path).output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
