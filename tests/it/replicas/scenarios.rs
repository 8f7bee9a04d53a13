//! Faults that random runs would seldom produce, with one test each.

use std::time::{Duration, Instant};

use super::Scale;
use super::clients::Answered;
use super::servers::End;
use super::testbed::{PATIENCE, REPLICAS, TestBed};
use crate::support::http_peer::Reply;

/// A commit that is waiting for the standby becomes visible if an operator cancels the wait, its session
/// ends, or its server restarts. A replica that finds such a commit must not confirm it, because the standby
/// may be promoted without it.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn every_confirmed_commit_is_on_the_standby() {
    let mut testbed = TestBed::start();
    let visitors = testbed.visitors();
    std::thread::sleep(Duration::from_millis(500));
    let (primary, standby) = (testbed.servers.primary(), testbed.servers.standby());
    testbed.net.cut(primary, standby);
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        // Cancelling the wait makes the server report success, with a warning.
        let give_up =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        testbed.servers.ask("postgres", give_up);
        std::thread::sleep(Duration::from_millis(700));
        testbed.end_connections();
        std::thread::sleep(Duration::from_millis(700));
    }
    testbed.servers.crash(End::Immediate);
    testbed.servers.restart(&testbed.net);
    std::thread::sleep(Duration::from_secs(2));
    testbed.servers.crash(End::Immediate);
    testbed.servers.promote(&testbed.net);
    testbed.net.mend(primary, standby);
    testbed.servers.follow(&testbed.net);
    testbed.recover("the standby's taking over");
    visitors.end();
    testbed.settle(Scale::Short);
    eprintln!("a standby that was cut off takes over:");
    testbed.reckon();
}

/// Commits hang until visitors get a 500. Their rows appear once the standby is back, and must then be
/// removed.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn submissions_refused_during_hanging_commits_are_not_kept() {
    let mut testbed = TestBed::start();
    let visitors = testbed.visitors();
    std::thread::sleep(Duration::from_millis(500));
    let (primary, standby) = (testbed.servers.primary(), testbed.servers.standby());
    testbed.net.cut(primary, standby);
    let began = Instant::now();
    let refused = |testbed: &TestBed| {
        let sent = testbed.ledger.lock();
        (0..REPLICAS).all(|replica| {
            sent.values().any(|sent| sent.replica == replica && sent.told == Answered::NotKept)
        })
    };
    let all =
        |is: bool| move |testbed: &TestBed| testbed.replicas.iter().all(|replica| replica.is_ready() == is);
    let unready = testbed.wait_until("every replica says that it is not ready", PATIENCE, all(false));
    testbed.wait_until("every replica has refused something", PATIENCE, refused);
    let refused = began.elapsed();
    assert!(all(false)(&testbed), "no replica is ready while submissions cannot be stored");
    testbed.net.mend(primary, standby);
    let took = testbed.recover("commits that hung");
    eprintln!(
        "commits that hang: not ready after {unready:.1?}, refused after {refused:.1?}, kept again after {took:.1?}"
    );
    visitors.end();
    testbed.settle(Scale::Short);
    testbed.reckon();
}

#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn a_disconnected_replica_reports_it_and_others_continue() {
    let mut testbed = TestBed::start();
    let visitors = testbed.visitors();
    let host = testbed.replicas[0].host;
    let servers = [testbed.servers.primary(), testbed.servers.standby()];
    for server in servers {
        testbed.net.cut(host, server);
    }
    let is_unready = |testbed: &TestBed| !testbed.replicas[0].is_ready();
    let unready = testbed.wait_until("it says that it is not ready", PATIENCE, is_unready);
    for replica in 1..REPLICAS {
        assert!(testbed.replicas[replica].is_ready(), "replica {replica} is not affected");
        assert_eq!(testbed.submit(replica).1, Answered::Kept);
    }
    assert!(!testbed.replicas[0].is_ready(), "it is still not ready");
    for server in servers {
        testbed.net.mend(host, server);
    }
    let took = testbed.recover("having been cut off");
    eprintln!("a replica that is cut off: not ready after {unready:.1?}, kept again after {took:.1?}");
    visitors.end();
    testbed.settle(Scale::Short);
    testbed.reckon();
}

#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn submissions_to_a_replica_with_a_wrong_clock_are_delivered() {
    let mut testbed = TestBed::start();
    for (replica, ahead) in [(0, 420), (1, -420)] {
        testbed.kill_replica(replica);
        testbed.replicas[replica].ahead = ahead;
        testbed.start_replica(replica);
    }
    let mut slowest = Duration::ZERO;
    for replica in 0..REPLICAS {
        let (number, told) = testbed.submit(replica);
        assert_eq!(told, Answered::Kept);
        let id = testbed.find(number).expect("it is in the inbox");
        let undelivered = format!(
            "SELECT (SELECT count(*) FROM intake WHERE id = '{id}') + count(*) FROM delivery WHERE submission = '{id}' AND state <> 'delivered'"
        );
        let is_delivered = |testbed: &TestBed| testbed.servers.count(&undelivered) == 0;
        slowest = slowest.max(testbed.wait_until("it is delivered", PATIENCE, is_delivered));
    }
    // Less than the seven minutes by which the clocks are wrong.
    assert!(slowest < Duration::from_mins(6), "{slowest:.1?}");
    eprintln!("clocks that are seven minutes ahead and behind: the slowest delivery after {slowest:.1?}");
    testbed.settle(Scale::Short);
    testbed.reckon();
}

/// The long run waits three minutes. The short run moves the database's times back by most of that.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn a_killed_replicas_delivery_is_taken_over_after_its_lease_expires() {
    let passed = match Scale::get() {
        Scale::Short => Duration::from_secs(170),
        Scale::Long => Duration::ZERO,
    };
    let mut testbed = TestBed::start();
    testbed.settle(Scale::Short);
    let before = testbed.received().len();
    testbed.receive(&Reply::late(204, Duration::from_mins(1)));
    let (number, told) = testbed.submit(0);
    assert_eq!(told, Answered::Kept);
    let id = testbed.find(number).expect("it is in the inbox");
    testbed.wait_until("somebody sends it", PATIENCE, |testbed| testbed.received().len() > before);
    let began = Instant::now();
    let sender = (0..REPLICAS).find(|replica| testbed.has_received(*replica, &id)).expect("one of them has");
    testbed.kill_replica(sender);
    testbed.receive(&Reply::status(204));
    let of_webhook = format!("submission = '{id}' AND channel = 'hook'");
    let goes_by = format!(
        "UPDATE delivery SET due_at = due_at - {} WHERE {of_webhook} AND state = 'sending'",
        passed.as_millis()
    );
    testbed.servers.ask("frontdesk", &goes_by);
    let delivered = format!("SELECT count(*) FROM delivery WHERE {of_webhook} AND state = 'delivered'");
    let is_delivered = |testbed: &TestBed| testbed.servers.count(&delivered) == 1;
    testbed.wait_until("another sends it", PATIENCE, is_delivered);
    let took = began.elapsed() + passed;
    eprintln!("a lease of replica {sender}, which was killed: delivered by another after {took:.1?}");
    assert!(took > Duration::from_secs(175), "another replica sent it during the lease: {took:.1?}");
    assert!(took < Duration::from_mins(6), "the lease should end after three minutes: {took:.1?}");
    assert!((0..REPLICAS).any(|replica| replica != sender && testbed.has_received(replica, &id)));
    testbed.start_replica(sender);
}
