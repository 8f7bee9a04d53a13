//! Faults that random runs would seldom hit, one test each.

use std::time::{Duration, Instant};

use super::Extent;
use super::clients::Told;
use super::servers::End;
use super::stand::{PATIENCE, REPLICAS, Stand};
use crate::support::http_peer::Reply;

/// A commit that waits for the standby becomes visible if an operator cancels the wait, its session is ended,
/// or its server restarts. A replica that finds it must not confirm it: the standby may take over without it.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn no_commit_is_confirmed_that_the_standby_lacks() {
    let mut stand = Stand::start();
    let visitors = stand.visitors();
    std::thread::sleep(Duration::from_millis(500));
    let (primary, standby) = (stand.servers.primary(), stand.servers.standby());
    stand.net.cut(primary, standby);
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        // The server calls it a success then, with a warning.
        let give_up =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        stand.servers.ask("postgres", give_up);
        std::thread::sleep(Duration::from_millis(700));
        stand.end_connections();
        std::thread::sleep(Duration::from_millis(700));
    }
    stand.servers.crash(End::Immediate);
    stand.servers.restart(&stand.net);
    std::thread::sleep(Duration::from_secs(2));
    stand.servers.crash(End::Immediate);
    stand.servers.promote(&stand.net);
    stand.net.mend(primary, standby);
    stand.servers.follow(&stand.net);
    stand.recover("the standby's taking over");
    visitors.end();
    stand.settle(Extent::Short);
    eprintln!("a standby that was cut off takes over:");
    stand.reckon();
}

/// Commits hang until visitors get a 500. Their rows still appear once the standby is back, and must be
/// removed.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn what_was_refused_while_commits_hung_stays_out_of_the_inbox() {
    let mut stand = Stand::start();
    let visitors = stand.visitors();
    std::thread::sleep(Duration::from_millis(500));
    let (primary, standby) = (stand.servers.primary(), stand.servers.standby());
    stand.net.cut(primary, standby);
    let began = Instant::now();
    let refused = |stand: &Stand| {
        let sent = stand.ledger.lock();
        (0..REPLICAS)
            .all(|replica| sent.values().any(|sent| sent.replica == replica && sent.told == Told::NotKept))
    };
    let all = |is: bool| move |stand: &Stand| stand.replicas.iter().all(|replica| replica.is_ready() == is);
    let unready = stand.wait_until("every replica says that it is not ready", PATIENCE, all(false));
    stand.wait_until("every replica has refused something", PATIENCE, refused);
    let refused = began.elapsed();
    assert!(all(false)(&stand), "nobody is ready while nothing can be kept");
    stand.net.mend(primary, standby);
    let took = stand.recover("commits that hung");
    eprintln!(
        "commits that hang: not ready after {unready:.1?}, refused after {refused:.1?}, kept again after {took:.1?}"
    );
    visitors.end();
    stand.settle(Extent::Short);
    stand.reckon();
}

#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn a_replica_that_reaches_no_server_says_so_and_the_others_go_on() {
    let mut stand = Stand::start();
    let visitors = stand.visitors();
    let host = stand.replicas[0].host;
    let servers = [stand.servers.primary(), stand.servers.standby()];
    for server in servers {
        stand.net.cut(host, server);
    }
    let is_unready = |stand: &Stand| !stand.replicas[0].is_ready();
    let unready = stand.wait_until("it says that it is not ready", PATIENCE, is_unready);
    for replica in 1..REPLICAS {
        assert!(stand.replicas[replica].is_ready(), "replica {replica} has nothing to do with it");
        assert_eq!(stand.submit(replica).1, Told::Kept);
    }
    assert!(!stand.replicas[0].is_ready(), "it stays so");
    for server in servers {
        stand.net.mend(host, server);
    }
    let took = stand.recover("having been cut off");
    eprintln!("a replica that is cut off: not ready after {unready:.1?}, kept again after {took:.1?}");
    visitors.end();
    stand.settle(Extent::Short);
    stand.reckon();
}

#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn what_a_replica_with_a_wrong_clock_takes_is_delivered_at_once() {
    let mut stand = Stand::start();
    for (replica, ahead) in [(0, 420), (1, -420)] {
        stand.kill_replica(replica);
        stand.replicas[replica].ahead = ahead;
        stand.start_replica(replica);
    }
    let mut slowest = Duration::ZERO;
    for replica in 0..REPLICAS {
        let (number, told) = stand.submit(replica);
        assert_eq!(told, Told::Kept);
        let id = stand.find(number).expect("it is in the inbox");
        let undelivered = format!(
            "SELECT (SELECT count(*) FROM intake WHERE id = '{id}') + count(*) FROM delivery WHERE submission = '{id}' AND state <> 'delivered'"
        );
        let is_delivered = |stand: &Stand| stand.servers.count(&undelivered) == 0;
        slowest = slowest.max(stand.wait_until("it is delivered", PATIENCE, is_delivered));
    }
    // Less than the clocks are wrong by.
    assert!(slowest < Duration::from_mins(6), "{slowest:.1?}");
    eprintln!("clocks that are seven minutes ahead and behind: the slowest delivery after {slowest:.1?}");
    stand.settle(Extent::Short);
    stand.reckon();
}

/// Waits three minutes in the long run; the short run moves the database's times back by most of that.
#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn a_killed_replicas_delivery_is_taken_over_after_its_lease_expires() {
    let passed = match Extent::get() {
        Extent::Short => Duration::from_secs(170),
        Extent::Long => Duration::ZERO,
    };
    let mut stand = Stand::start();
    stand.settle(Extent::Short);
    let before = stand.received().len();
    stand.receive(&Reply::late(204, Duration::from_mins(1)));
    let (number, told) = stand.submit(0);
    assert_eq!(told, Told::Kept);
    let id = stand.find(number).expect("it is in the inbox");
    stand.wait_until("somebody sends it", PATIENCE, |stand| stand.received().len() > before);
    let began = Instant::now();
    let sender = (0..REPLICAS).find(|replica| stand.has_received(*replica, &id)).expect("one of them has");
    stand.kill_replica(sender);
    stand.receive(&Reply::status(204));
    let of_webhook = format!("submission = '{id}' AND channel = 'hook'");
    let goes_by = format!(
        "UPDATE delivery SET due_at = due_at - {} WHERE {of_webhook} AND state = 'sending'",
        passed.as_millis()
    );
    stand.servers.ask("frontdesk", &goes_by);
    let delivered = format!("SELECT count(*) FROM delivery WHERE {of_webhook} AND state = 'delivered'");
    let is_delivered = |stand: &Stand| stand.servers.count(&delivered) == 1;
    stand.wait_until("another sends it", PATIENCE, is_delivered);
    let took = began.elapsed() + passed;
    eprintln!("a lease of replica {sender}, which was killed: delivered by another after {took:.1?}");
    assert!(took > Duration::from_secs(175), "nobody else sends it while the lease lasts: {took:.1?}");
    assert!(took < Duration::from_mins(6), "it is over after three minutes: {took:.1?}");
    assert!((0..REPLICAS).any(|replica| replica != sender && stand.has_received(replica, &id)));
    stand.start_replica(sender);
}
