//! Random sequences of faults under load.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Scale;
use super::servers::End;
use super::testbed::{RECOVERY, REPLICAS, TestBed};
use crate::support::random::Random;

/// With [`Scale::Long`], a fault's duration exceeds the minimum by less than this, in milliseconds.
const LONGEST: u64 = 9_000;

/// The faults of replicas and their dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillReplica,
    PauseReplica,
    CutReplicaFromServers,
    CutStandbyFromPrimary,
    CutEverything,
    CrashPrimary,
    FailOver,
    SlowReplica,
    SlowPrimary,
    EndConnections,
    FullDisk,
    ReadOnly,
    TooManyConnections,
    CrashCounter,
    PauseCounter,
    CutCounter,
}

const KINDS: [Kind; 16] = [
    Kind::KillReplica,
    Kind::PauseReplica,
    Kind::CutReplicaFromServers,
    Kind::CutStandbyFromPrimary,
    Kind::CutEverything,
    Kind::CrashPrimary,
    Kind::FailOver,
    Kind::SlowReplica,
    Kind::SlowPrimary,
    Kind::EndConnections,
    Kind::FullDisk,
    Kind::ReadOnly,
    Kind::TooManyConnections,
    Kind::CrashCounter,
    Kind::PauseCounter,
    Kind::CutCounter,
];

/// A fault with random parameters.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: Kind,
    /// The fault's duration.
    lasts: Duration,
    /// The affected replica, for faults of replicas.
    replica: usize,
    end: End,
    /// The offset of the replica's clock after its next start, in seconds.
    ahead: i32,
    /// Another replica that is killed during the fault.
    beside: Option<usize>,
}

impl Fault {
    /// A fault of this kind with random parameters.
    fn drawn(kind: Kind, extent: Scale, dice: &mut Random) -> Fault {
        let (least, most) = match extent {
            Scale::Short => (1_000, 2_000),
            Scale::Long => (500, LONGEST),
        };
        let replica = below(dice, REPLICAS);
        let is_about_replica = matches!(
            kind,
            Kind::KillReplica | Kind::PauseReplica | Kind::CutReplicaFromServers | Kind::SlowReplica
        );
        // The test waits until a restarted replica serves pages, so the replica must be reachable.
        let may_be_beside = match extent {
            Scale::Short => is_about_replica,
            Scale::Long => !matches!(kind, Kind::CutEverything | Kind::EndConnections),
        };
        let other = (replica + 1 + below(dice, REPLICAS - 1)) % REPLICAS;
        Fault {
            kind,
            lasts: Duration::from_millis(least + dice.below(most)),
            replica,
            end: [End::Killed, End::Immediate][below(dice, 2)],
            ahead: [0, 420, -420][below(dice, 3)],
            beside: (dice.below(4) == 0 && may_be_beside).then_some(other),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for {:.1?}", self.kind, self.lasts)?;
        match self.kind {
            Kind::KillReplica => {
                write!(f, ", replica {}, whose clock is {:+} s then", self.replica, self.ahead)?;
            }
            Kind::PauseReplica | Kind::CutReplicaFromServers | Kind::SlowReplica => {
                write!(f, ", replica {}", self.replica)?;
            }
            Kind::CrashPrimary | Kind::FailOver => write!(f, ", {:?}", self.end)?,
            _ => {}
        }
        if let Some(beside) = self.beside {
            write!(f, ", and replica {beside} is killed meanwhile")?;
        }
        Ok(())
    }
}

fn below(dice: &mut Random, end: usize) -> usize {
    usize::try_from(dice.below(end as u64)).expect("it is small")
}

#[test]
#[ignore = "needs root, namespaces and PostgreSQL, by `scripts/test replicas`"]
fn no_fault_loses_an_acknowledged_submission() {
    let extent = Scale::get();
    let seed = std::env::var("FRONTDESK_REPLICAS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let rounds = match extent {
        Scale::Short => 1,
        Scale::Long => 8,
    };
    eprintln!("replicas under faults: seed {seed}");
    let mut dice = Random(seed);
    let mut testbed = TestBed::start();
    let visitors = testbed.visitors();
    let (mut faults, mut slow) = (0, Vec::new());
    for _ in 0..rounds {
        // Each kind once per round, in random order.
        let mut kinds = KINDS.to_vec();
        while !kinds.is_empty() {
            let kind = kinds.swap_remove(below(&mut dice, kinds.len()));
            let fault = Fault::drawn(kind, extent, &mut dice);
            testbed.strike(fault);
            faults += 1;
            let took = testbed.recover(&fault.to_string());
            eprintln!("    {fault}: all take submissions again after {took:.1?}");
            if took > RECOVERY {
                slow.push(format!("{fault}: {took:.1?}"));
            }
        }
    }
    visitors.end();
    testbed.settle(extent);
    let (slowest, what) = testbed.slowest.clone();
    eprintln!("replicas under faults: seed {seed}, faults {faults}, slowest recovery {slowest:.1?} ({what})");
    testbed.reckon();
    assert!(slow.is_empty(), "recovery took longer than {RECOVERY:?}: {slow:#?}");
}

impl TestBed {
    /// Causes the fault, waits for its duration, and ends it.
    #[expect(clippy::too_many_lines, reason = "one sequence of steps")]
    fn strike(&mut self, fault: Fault) {
        let replica = fault.replica;
        let host = self.replicas[replica].host;
        let (primary, standby) = (self.servers.primary(), self.servers.standby());
        match fault.kind {
            Kind::KillReplica => {
                self.kill_replica(replica);
                self.last(fault);
                self.replicas[replica].ahead = fault.ahead;
                self.start_replica(replica);
            }
            Kind::PauseReplica => {
                self.presence[replica].ends();
                self.replicas[replica].pause();
                self.last(fault);
                self.replicas[replica].go_on();
                self.presence[replica].begins();
            }
            Kind::CutReplicaFromServers => {
                self.net.cut(host, primary);
                self.net.cut(host, standby);
                self.last(fault);
                self.net.mend(host, primary);
                self.net.mend(host, standby);
            }
            Kind::CutStandbyFromPrimary => {
                self.net.cut(standby, primary);
                self.last(fault);
                self.net.mend(standby, primary);
                self.servers.wait_until_followed();
            }
            Kind::CutEverything => {
                self.presence.iter().for_each(|presence| presence.ends());
                self.set_all_links(false);
                std::thread::sleep(fault.lasts);
                self.set_all_links(true);
                self.servers.wait_until_followed();
                self.presence.iter().for_each(|presence| presence.begins());
            }
            Kind::CrashPrimary => {
                self.servers.crash(fault.end);
                self.last(fault);
                self.servers.restart(&self.net);
                self.servers.wait_until_followed();
            }
            Kind::FailOver => {
                self.servers.crash(fault.end);
                self.last(fault);
                self.servers.promote(&self.net);
                self.servers.follow(&self.net);
            }
            Kind::SlowReplica | Kind::SlowPrimary => {
                let host = if fault.kind == Kind::SlowReplica { host } else { primary };
                self.net.slow_down(host);
                self.last(fault);
                self.net.speed_up(host);
            }
            Kind::EndConnections => {
                let times = 1 + fault.lasts.as_millis() / 500;
                for _ in 0..times {
                    self.end_connections();
                    std::thread::sleep(Duration::from_millis(400));
                }
            }
            Kind::FullDisk => {
                self.servers.fill_disk();
                self.last(fault);
                self.servers.empty_disk();
                if !self.servers.is_up() {
                    self.servers.crash(End::Immediate);
                    self.servers.restart(&self.net);
                }
                self.servers.wait_until_followed();
            }
            Kind::ReadOnly => {
                self.servers.set("default_transaction_read_only = on");
                // The setting does not affect existing sessions.
                self.end_connections();
                self.last(fault);
                self.servers.set("default_transaction_read_only = off");
            }
            Kind::TooManyConnections => {
                let crowd = Crowd::gather(primary.address());
                self.end_connections();
                self.last(fault);
                drop(crowd);
            }
            Kind::CrashCounter | Kind::PauseCounter | Kind::CutCounter => self.strike_counter(fault),
        }
    }

    /// Like [`Self::strike`], for faults of Redis, which affect only limits.
    fn strike_counter(&mut self, fault: Fault) {
        let hosts = self.replicas.each_ref().map(|replica| replica.host);
        match fault.kind {
            Kind::CrashCounter => {
                self.counter.kill();
                self.last(fault);
                self.counter.run(&self.net);
            }
            Kind::PauseCounter => {
                self.counter.pause();
                self.last(fault);
                self.counter.go_on();
            }
            _ => {
                for host in hosts {
                    self.net.cut(host, self.counter.host);
                }
                self.last(fault);
                for host in hosts {
                    self.net.mend(host, self.counter.host);
                }
            }
        }
    }

    /// Waits for the fault's duration. Halfway through, another replica may be killed and restarted.
    fn last(&mut self, fault: Fault) {
        let Some(beside) = fault.beside else { return std::thread::sleep(fault.lasts) };
        std::thread::sleep(fault.lasts / 2);
        self.kill_replica(beside);
        self.start_replica(beside);
        std::thread::sleep(fault.lasts / 2);
    }

    /// Ends all of the replicas' database sessions, regardless of their state.
    pub fn end_connections(&self) {
        self.servers.ask(
            "postgres",
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'frontdesk'",
        );
    }
}

/// Other clients that take all of the primary's connections for ordinary users until dropped.
struct Crowd {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Crowd {
    /// Starts to take the primary's connections.
    fn gather(primary: Ipv4Addr) -> Crowd {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut config = tokio_postgres::Config::new();
                config
                    .host(primary.to_string())
                    .user("frontdesk")
                    .dbname("postgres")
                    .application_name("crowd");
                let mut crowd = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    match config.connect(tokio_postgres::NoTls).await {
                        Ok((client, connection)) => crowd.push((client, tokio::spawn(connection))),
                        // There is no free connection; one may become free.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            });
        });
        // There is no need to wait until all connections are taken. `TestBed::end_connections` ends these
        // clients' connections too, and then they compete with the replicas for free ones.
        Crowd { stop, thread: Some(thread) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }
}
