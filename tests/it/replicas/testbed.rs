//! Three replicas, two database servers, a receiver and visitors, each on a separate host.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clients::{Answered, Clients, Ledger, Pages, Presence};
use super::network::{Host, Net};
use super::redis::Counter;
use super::replica::Replica;
use super::servers::Servers;
use crate::support::frontdesk;
use crate::support::http_peer::{HttpPeer, Reply, Request};

pub const REPLICAS: usize = 3;

/// The address on which each replica's receiver listens.
const HOOK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8090));

/// The largest possible quota of a source. The quotas of networks and forms are at least as large.
const MOST: &str = "1000000";

/// Time limit for every replica to accept submissions again after a fault. Recovery takes ten seconds on a
/// quiet machine, and several times as long on a busy one.
pub const RECOVERY: Duration = Duration::from_mins(1);
/// Time limit for anything else; longer than a lease.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// All parts of the setup. Fields are dropped in this order.
pub struct TestBed {
    pub replicas: [Replica; REPLICAS],
    pub presence: [Arc<Presence>; REPLICAS],
    pub servers: Servers,
    pub counter: Counter,
    /// A receiver on each replica's host, because nothing may be sent unencrypted between hosts.
    hooks: [Option<HttpPeer>; REPLICAS],
    pub net: Net,
    pub ledger: Arc<Ledger>,
    pub pages: Arc<Pages>,
    /// The replica and the time of each kill.
    pub kills: Vec<(usize, Instant)>,
    /// The slowest recovery, and the fault that preceded it.
    pub slowest: (Duration, String),
    /// Deliveries whose leases were released after their replicas had ended.
    pub freed: BTreeSet<String>,
    outside: Host,
    folder: tempfile::TempDir,
}

impl TestBed {
    /// Starts everything. Moves the calling thread to the visitors' host.
    pub fn start() -> TestBed {
        let folder = tempfile::tempdir().expect("a folder");
        // The database's user must be able to enter the folder.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let mut net = Net::new();
        let outside = net.host();
        let replicas = std::array::from_fn(|_| Replica::new(net.host(), folder.path()));
        let hosts = [net.host(), net.host()];
        let counter = net.host();
        net.enter(outside);
        let hooks = std::array::from_fn(|replica: usize| {
            let start = || HttpPeer::start_at(HOOK, [Reply::status(204)]);
            Some(net.on(replicas[replica].host, start))
        });
        let servers = Servers::start(&net, hosts, folder.path());
        let counter = Counter::start(&net, counter);
        let mut testbed = TestBed {
            replicas,
            presence: std::array::from_fn(|_| Arc::default()),
            servers,
            counter,
            hooks,
            net,
            ledger: Arc::default(),
            pages: Arc::default(),
            kills: Vec::new(),
            slowest: (Duration::ZERO, String::new()),
            freed: BTreeSet::new(),
            outside,
            folder,
        };
        testbed.make_site();
        for replica in 0..REPLICAS {
            testbed.start_replica(replica);
        }
        testbed.recover("the start");
        testbed.slowest = (Duration::ZERO, String::new());
        testbed
    }

    fn make_site(&self) {
        let site = self.site();
        let made = frontdesk().arg("init").arg(&site).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        let channels = format!(
            "
[[channel]]
name = \"box\"
kind = \"maildir\"
path = \"{}\"
from = \"desk@example.com\"
to = [\"team@example.com\"]

[[channel]]
name = \"hook\"
kind = \"webhook\"
url = \"http://{HOOK}/hook\"
allow_private = true
",
            self.maildir().display(),
        );
        let file = site.join("frontdesk.toml");
        let text = std::fs::read_to_string(&file).expect("it is there");
        std::fs::write(&file, text + &channels).expect("it can be written");
    }

    fn site(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// A folder that all replicas share, like a network mount.
    pub fn maildir(&self) -> PathBuf {
        self.folder.path().join("box")
    }

    /// The settings that all replicas share besides the site: the inbox and the shared limits. No client here
    /// exceeds a limit.
    fn environment(&self) -> Vec<(String, String)> {
        let mut hosts =
            [self.servers.primary(), self.servers.standby()].map(|host| host.address().to_string());
        // Sorted, because a failover must not change the configuration.
        hosts.sort();
        let url = format!("postgres://frontdesk@{},{}/frontdesk?sslmode=disable", hosts[0], hosts[1]);
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            set("FRONTDESK_STORE__URL", &url),
            set("FRONTDESK_LIMITS__SHARED_URL", &self.counter.url()),
            set("FRONTDESK_LIMITS__PER_MINUTE", MOST),
            set("FRONTDESK_LIMITS__PER_HOUR", MOST),
            set("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "1000"),
        ]
    }

    pub fn start_replica(&mut self, replica: usize) {
        let environment = self.environment();
        let site = self.site();
        self.replicas[replica].start(&self.net, &site, &environment);
        self.presence[replica].begins();
    }

    pub fn kill_replica(&mut self, replica: usize) {
        self.presence[replica].ends();
        self.kills.push((replica, Instant::now()));
        self.replicas[replica].kill();
    }

    pub fn visitors(&self) -> Clients {
        let replicas: [_; REPLICAS] =
            std::array::from_fn(|replica| (self.replicas[replica].address(), self.presence[replica].clone()));
        Clients::begin(&self.ledger, &self.pages, &replicas)
    }

    pub fn submit(&self, replica: usize) -> (usize, Answered) {
        self.ledger.submit(replica, self.replicas[replica].address())
    }

    /// Waits until every replica has accepted a submission and is ready. Returns the duration and records it
    /// if it is the longest so far.
    pub fn recover(&mut self, what: &str) -> Duration {
        let began = Instant::now();
        let testbed = &*self;
        std::thread::scope(|scope| {
            for replica in 0..REPLICAS {
                scope.spawn(move || {
                    while testbed.submit(replica).1 != Answered::Kept || !testbed.replicas[replica].is_ready()
                    {
                        let log = || testbed.replicas[replica].log();
                        assert!(began.elapsed() < PATIENCE, "replica {replica}, after {what}: {}", log());
                        std::thread::sleep(Duration::from_millis(50));
                    }
                });
            }
        });
        let took = began.elapsed();
        if took > self.slowest.0 {
            self.slowest = (took, what.to_owned());
        }
        took
    }

    /// Runs `frontdesk inbox` with the replicas' site and inbox.
    pub fn inbox(&self, arguments: &[&str]) {
        let output = frontdesk()
            .arg("inbox")
            .args(arguments)
            .arg("--site")
            .arg(self.site())
            .envs(self.environment())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The id of a submission, or `None` if it is not in the inbox.
    pub fn find(&self, number: usize) -> Option<String> {
        let of = format!("SELECT id FROM accepted WHERE fields ->> 'email' = 'n{number}@example.com'");
        let ids = self.servers.ask("frontdesk", &of);
        assert!(ids.len() <= 1, "number {number} is in the inbox once");
        ids.into_iter().next()
    }

    /// Waits until the condition is true. Returns how long that took.
    pub fn wait_until(
        &self,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&TestBed) -> bool,
    ) -> Duration {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < patience, "it took too long until {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
        began.elapsed()
    }

    /// Sets the links of all hosts except the visitors' up or down.
    pub fn set_all_links(&self, is_up: bool) {
        let hosts = self.replicas.iter().map(|replica| replica.host);
        for host in hosts.chain([self.servers.primary(), self.servers.standby()]) {
            assert_ne!(host, self.outside);
            self.net.set_link(host, is_up);
        }
    }

    /// Sets the receivers' reply to all further requests.
    pub fn receive(&self, reply: &Reply) {
        for hook in self.hooks.iter().flatten() {
            hook.follow([reply.clone()]);
        }
    }

    /// Whether a replica's receiver got a submission.
    pub fn has_received(&self, replica: usize, id: &str) -> bool {
        let requests = self.hooks[replica].as_ref().expect("it is there").requests();
        requests.iter().any(|request| request.header("webhook-id") == Some(id))
    }

    /// All messages that the receivers got.
    pub fn received(&self) -> Vec<Request> {
        self.hooks.iter().flatten().flat_map(HttpPeer::requests).collect()
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        for (hook, replica) in self.hooks.iter_mut().zip(&self.replicas) {
            self.net.on(replica.host, || drop(hook.take()));
        }
    }
}
