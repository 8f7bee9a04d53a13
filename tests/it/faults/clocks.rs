//! A clock that was set while the server was away: what waits is delivered all the same.

use std::time::{Duration, Instant};

use super::Extent;
use super::stand::{Stand, Told};
use crate::support::http_peer::Reply;
use crate::support::{PATIENCE, libfaketime};

#[test]
#[ignore = "needs strace and faketime: scripts/test faults"]
fn a_clock_that_jumps_keeps_nothing_from_being_delivered() {
    let library = libfaketime();
    let library = library.to_str().expect("it is text");
    let mut stand = Stand::start(4);
    // Each start has another clock than the one before it, and finds what that has left behind.
    let clocks = Extent::get().of(
        &["-365d", "+365d"][..],
        &["-365d", "+0", "+365d", "+0"],
        &["-365d", "+0", "+365d", "+0", "-1d", "+365d", "-365d", "-3650d", "+3650d", "+0"],
    );
    let mut slowest = Duration::ZERO;
    for clock in clocks {
        stand.hook.follow([Reply::status(503)]);
        assert_eq!(stand.submit(), Told::Kept);
        wait_until("an attempt has failed", || undelivered(&stand, "failures > 0") == 1);
        stand.desk.kill();
        stand.kills += 1;
        assert_eq!(undelivered(&stand, "state = 'waiting'"), 1, "it waits");
        stand.hook.follow([Reply::status(204)]);
        stand.desk.set(&[
            ("LD_PRELOAD", library),
            ("FAKETIME", clock),
            // Time goes on as it always does; only what it is called has changed.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]);
        stand.desk.restart();
        let began = Instant::now();
        wait_until("it is delivered", || stand.undelivered() == 0);
        slowest = slowest.max(began.elapsed());
    }
    let figures = stand.reckon();
    eprintln!("clocks that jump: jumps {}, {figures}, slowest delivery {slowest:.1?}", clocks.len());
    stand.desk.expect(figures.kept);
}

fn undelivered(stand: &Stand, condition: &str) -> i64 {
    stand.query(&format!("SELECT count(*) FROM delivery WHERE state <> 'delivered' AND {condition}"))[0]
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
