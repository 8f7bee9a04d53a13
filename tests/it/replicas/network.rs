//! A private network: hosts in network namespaces, connected by a router in another namespace, with links
//! that tests cut or slow down.

use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Namespaces with links between them. Dropping the value removes the namespaces; all processes in them
/// should have ended by then.
pub struct Net {
    prefix: String,
    hosts: u8,
}

/// A host, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(u8);

impl Host {
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, self.0, 2)
    }
}

const ROUTER: &str = "router";

impl Net {
    /// Creates a router without hosts. Removes the leftovers of killed tests first.
    pub fn new() -> Net {
        remove_left_behind();
        let net = Net { prefix: format!("frontdesk-{}", std::process::id()), hosts: 0 };
        run("ip", &["netns", "add", &net.name(ROUTER)]);
        net.on_router("ip", &["link", "set", "lo", "up"]);
        net.on_router("sysctl", &["-q", "-w", "net.ipv4.ip_forward=1"]);
        net
    }

    /// Adds a host with a link to the router.
    pub fn host(&mut self) -> Host {
        self.hosts += 1;
        let host = Host(self.hosts);
        let (name, router, link) = (self.namespace(host), self.name(ROUTER), link(host));
        run("ip", &["netns", "add", &name]);
        // Both ends are created in their namespaces, so that names outside cannot conflict.
        let ends = ["link", "add", &link, "netns", &router, "type", "veth", "peer", "name", "eth0", "netns"];
        run("ip", &[&ends[..], &[&name]].concat());
        let gateway = Ipv4Addr::new(10, 99, host.0, 1);
        self.on_router("ip", &["address", "add", &format!("{gateway}/24"), "dev", &link]);
        self.on_router("ip", &["link", "set", &link, "up"]);
        let inside = |arguments: &[&str]| run("ip", &[&["-n", &name][..], arguments].concat());
        inside(&["address", "add", &format!("{}/24", host.address()), "dev", "eth0"]);
        inside(&["link", "set", "lo", "up"]);
        inside(&["link", "set", "eth0", "up"]);
        inside(&["route", "add", "default", "via", &gateway.to_string()]);
        host
    }

    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }

    fn namespace(&self, host: Host) -> String {
        self.name(&host.0.to_string())
    }

    fn on_router(&self, program: &str, arguments: &[&str]) {
        let router = self.name(ROUTER);
        run("ip", &[&["netns", "exec", &router, program][..], arguments].concat());
    }

    /// Moves the calling thread and the processes that it starts to this host.
    pub fn enter(&self, host: Host) {
        let file = std::fs::File::open(Path::new("/run/netns").join(self.namespace(host)));
        let file = file.expect("the namespace is there");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("it can be entered");
    }

    /// Runs a function on this host; processes that it starts run there too.
    pub fn on<T: Send>(&self, host: Host, act: impl FnOnce() -> T + Send) -> T {
        let thread = || {
            self.enter(host);
            act()
        };
        std::thread::scope(|scope| scope.spawn(thread).join().expect("no thread panicked"))
    }

    /// The command for a program on this host. The program is killed when the calling thread ends.
    pub fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>, user: Option<&str>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), "setpriv", "--pdeathsig", "KILL"]);
        if let Some(user) = user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Drops all packets between two hosts until [`Net::mend`].
    pub fn cut(&self, one: Host, other: Host) {
        self.rule("add", one, other);
        self.rule("add", other, one);
    }

    /// Undoes [`Net::cut`].
    pub fn mend(&self, one: Host, other: Host) {
        self.rule("del", one, other);
        self.rule("del", other, one);
    }

    fn rule(&self, verb: &str, from: Host, to: Host) {
        let (from, to) = (from.address().to_string(), to.address().to_string());
        self.on_router("ip", &["rule", verb, "from", &from, "to", &to, "blackhole"]);
    }

    /// Sets a host's link up or down.
    pub fn set_link(&self, host: Host, is_up: bool) {
        self.on_router("ip", &["link", "set", &link(host), if is_up { "up" } else { "down" }]);
    }

    /// Slows traffic to this host to 256 kbit/s. If the kernel has `netem`, also delays it by 100 ms and
    /// drops one packet in fifty. Returns whether the kernel has `netem`.
    pub fn slow_down(&self, host: Host) -> bool {
        let (router, link) = (self.name(ROUTER), link(host));
        let with = |discipline: &[&str]| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &router, "tc", "qdisc", "add", "dev", &link, "root"]);
            command.args(discipline).output().expect("it runs").status.success()
        };
        let has_netem = with(&["netem", "delay", "100ms", "loss", "2%", "rate", "256kbit"]);
        assert!(
            has_netem || with(&["tbf", "rate", "256kbit", "burst", "4kb", "latency", "400ms"]),
            "the kernel has neither netem nor tbf"
        );
        has_netem
    }

    /// Undoes [`Net::slow_down`].
    pub fn speed_up(&self, host: Host) {
        self.on_router("tc", &["qdisc", "del", "dev", &link(host), "root"]);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let hosts = (1..=self.hosts).map(|host| self.namespace(Host(host)));
        for name in hosts.chain([self.name(ROUTER)]) {
            // The namespace may not exist.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// The router's end of a host's link.
fn link(host: Host) -> String {
    format!("to{}", host.0)
}

fn remove_left_behind() {
    let Ok(folder) = std::fs::read_dir("/run/netns") else { return };
    for name in folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix("frontdesk-").and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {} (this needs root)",
        String::from_utf8_lossy(&output.stderr)
    );
}
