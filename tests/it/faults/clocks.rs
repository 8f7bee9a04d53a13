//! The clock changes while the server is stopped. Pending deliveries must still go out.

use std::time::{Duration, Instant};

use super::Scale;
use super::testbed::{Answered, TestBed};
use crate::support::http_peer::Reply;
use crate::support::{PATIENCE, libfaketime};

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_clock_jump_prevents_no_delivery() {
    let library = libfaketime();
    let library = library.to_str().expect("it is text");
    let mut testbed = TestBed::start(4);
    // Each run of the server uses a clock that differs from that of the run before it, and must handle the
    // data that the earlier run left behind.
    let clocks = Scale::get().of(
        &["-365d", "+365d"][..],
        &["-365d", "+0", "+365d", "+0"],
        &["-365d", "+0", "+365d", "+0", "-1d", "+365d", "-365d", "-3650d", "+3650d", "+0"],
    );
    let mut slowest = Duration::ZERO;
    for clock in clocks {
        testbed.hook.follow([Reply::status(503)]);
        assert_eq!(testbed.submit(), Answered::Kept);
        wait_until("an attempt has failed", || undelivered(&testbed, "failures > 0") == 1);
        testbed.server.kill();
        testbed.kills += 1;
        assert_eq!(undelivered(&testbed, "state = 'waiting'"), 1, "it waits");
        testbed.hook.follow([Reply::status(204)]);
        testbed.server.set(&[
            ("LD_PRELOAD", library),
            ("FAKETIME", clock),
            // The monotonic clock keeps running normally; only the wall clock changes.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]);
        testbed.server.restart();
        let began = Instant::now();
        wait_until("it is delivered", || testbed.undelivered() == 0);
        slowest = slowest.max(began.elapsed());
    }
    let figures = testbed.reckon();
    eprintln!("clocks that jump: jumps {}, {figures}, slowest delivery {slowest:.1?}", clocks.len());
    testbed.server.expect(figures.kept);
}

fn undelivered(testbed: &TestBed, condition: &str) -> i64 {
    testbed.query(&format!("SELECT count(*) FROM delivery WHERE state <> 'delivered' AND {condition}"))[0]
}

/// Waits until the condition is true. Panics after a timeout.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
