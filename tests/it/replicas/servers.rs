//! A PostgreSQL primary and its synchronous standby, each on its own host and disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::network::{Host, Net};

/// Time limit for a server to start, and for the standby to follow.
const PATIENCE: Duration = Duration::from_mins(2);

/// A commit returns once the standby has written and applied it. Broken connections are detected within
/// seconds.
const SETTINGS: &str = "
listen_addresses = '*'
unix_socket_directories = ''
max_connections = 60
synchronous_commit = remote_apply
synchronous_standby_names = '*'
wal_sender_timeout = 3s
wal_receiver_timeout = 3s
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 500ms
tcp_user_timeout = 5000
tcp_keepalives_idle = 3
tcp_keepalives_interval = 1
tcp_keepalives_count = 3
wal_keep_size = 64MB
min_wal_size = 32MB
max_wal_size = 96MB
shared_buffers = 16MB
log_min_messages = warning
";

/// All clients in the test network have all privileges.
const ACCESS: &str = "
host all all 10.99.0.0/16 trust
host replication all 10.99.0.0/16 trust
";

/// How a server is killed.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// SIGKILL to the main process; the other processes follow.
    Killed,
    /// SIGQUIT, like `pg_ctl stop --mode=immediate`.
    Immediate,
}

struct Node {
    host: Host,
    /// The server's disk: a small file system in memory.
    disk: PathBuf,
    process: Option<Child>,
}

/// The two servers. Dropping this value kills them.
pub struct Servers {
    bin: PathBuf,
    nodes: [Node; 2],
    /// The index of the primary.
    leader: usize,
}

impl Servers {
    /// Creates a primary with an empty database `frontdesk`, and a standby.
    pub fn start(net: &Net, hosts: [Host; 2], folder: &Path) -> Servers {
        let nodes = hosts.map(|host| {
            let disk = folder.join(format!("disk-{}", host.address()));
            std::fs::create_dir(&disk).expect("a folder");
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=400m,mode=700,uid=postgres,gid=postgres", "tmpfs"])
                .arg(&disk)
                .status();
            assert!(mounted.expect("it runs").success(), "mounting needs root");
            Node { host, disk, process: None }
        });
        let mut servers = Servers { bin: programs(), nodes, leader: 0 };
        let data = servers.data(0);
        let mut init = servers.tool(net, 0, "initdb");
        init.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--pgdata"])
            .arg(&data);
        done(init);
        append(&data.join("postgresql.conf"), SETTINGS);
        append(&data.join("pg_hba.conf"), ACCESS);
        servers.run(net, 0);
        servers.follow(net);
        servers.ask("postgres", "CREATE ROLE frontdesk LOGIN");
        servers.ask("postgres", "CREATE DATABASE frontdesk OWNER frontdesk");
        servers
    }

    pub fn primary(&self) -> Host {
        self.nodes[self.leader].host
    }

    pub fn standby(&self) -> Host {
        self.nodes[1 - self.leader].host
    }

    fn data(&self, node: usize) -> PathBuf {
        self.nodes[node].disk.join("data")
    }

    fn tool(&self, net: &Net, node: usize, program: &str) -> Command {
        let mut command = net.command(self.nodes[node].host, self.bin.join(program), Some("postgres"));
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// Starts a server and waits until it answers a query.
    fn run(&mut self, net: &Net, node: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log =
                File::options().create(true).append(true).open(self.nodes[node].disk.with_extension("log"));
            let log = log.expect("it can be written");
            let mut server = self.tool(net, node, "postgres");
            server.arg("-D").arg(self.data(node));
            server.stdout(log.try_clone().expect("it can be shared")).stderr(log);
            let mut process = server.spawn().expect("it runs");
            // The processes of a killed server may still be running.
            loop {
                if process.try_wait().expect("it can be asked").is_some() {
                    break;
                }
                if self.answers(node) {
                    self.nodes[node].process = Some(process);
                    return;
                }
                if Instant::now() > deadline {
                    let _ = process.kill();
                    let _ = process.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(Instant::now() < deadline, "PostgreSQL does not start: {}", self.log(node));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn answers(&self, node: usize) -> bool {
        self.psql(node, "postgres", "SELECT 1").is_ok()
    }

    fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.nodes[node].disk.with_extension("log")).unwrap_or_default()
    }

    /// Recreates the other server from the primary, as its standby.
    pub fn follow(&mut self, net: &Net) {
        let node = 1 - self.leader;
        self.end(node, End::Immediate);
        let data = self.data(node);
        if data.exists() {
            std::fs::remove_dir_all(&data).expect("it can be removed");
        }
        let mut copy = self.tool(net, node, "pg_basebackup");
        copy.args([
            "--checkpoint=fast",
            "--wal-method=stream",
            "--write-recovery-conf",
            "--username=postgres",
            "--host",
        ]);
        copy.arg(self.primary().address().to_string()).arg("--pgdata").arg(&data);
        done(copy);
        self.run(net, node);
        self.wait_until_followed();
    }

    /// Waits until the standby is streaming synchronously, so that commits return.
    pub fn wait_until_followed(&self) {
        let deadline = Instant::now() + PATIENCE;
        let following =
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'";
        while self.psql(self.leader, "postgres", following).ok().as_deref() != Some("1") {
            assert!(
                Instant::now() < deadline,
                "the standby does not replicate: {}",
                self.log(1 - self.leader)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the primary, without a clean shutdown.
    pub fn crash(&mut self, end: End) {
        self.end(self.leader, end);
    }

    /// Restarts the primary on the same host.
    pub fn restart(&mut self, net: &Net) {
        self.run(net, self.leader);
    }

    /// Whether the primary is still running. A primary with a full disk may have ended.
    pub fn is_up(&mut self) -> bool {
        let process = self.nodes[self.leader].process.as_mut();
        process.is_some_and(|process| process.try_wait().expect("it can be asked").is_none())
    }

    /// Promotes the standby. The old primary must have ended, because otherwise both would accept writes.
    pub fn promote(&mut self, net: &Net) {
        let node = 1 - self.leader;
        assert!(self.nodes[self.leader].process.is_none(), "the old primary is still running");
        let mut promote = self.tool(net, node, "pg_ctl");
        promote.args(["promote", "--wait", "--silent", "--pgdata"]).arg(self.data(node));
        done(promote);
        self.leader = node;
    }

    fn end(&mut self, node: usize, end: End) {
        let Some(mut process) = self.nodes[node].process.take() else { return };
        let signal = match end {
            End::Killed => Signal::KILL,
            End::Immediate => Signal::QUIT,
        };
        // The process may already have ended.
        let _ = kill_process(Pid::from_child(&process), signal);
        process.wait().expect("it ends");
    }

    /// Fills the primary's disk completely.
    pub fn fill_disk(&self) {
        let mut file = File::create(self.filler()).expect("it can be made");
        let block = vec![0; 64 * 1024];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    /// Undoes [`Servers::fill_disk`].
    pub fn empty_disk(&self) {
        std::fs::remove_file(self.filler()).expect("it is there");
    }

    fn filler(&self) -> PathBuf {
        self.nodes[self.leader].disk.join("filler")
    }

    /// The primary's reply to a statement: one string per row, with columns separated by `|`.
    pub fn ask(&self, database: &str, statement: &str) -> Vec<String> {
        let said = self
            .psql(self.leader, database, statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        said.lines().map(str::to_owned).collect()
    }

    /// Changes a setting of the primary for new sessions.
    pub fn set(&self, setting: &str) {
        // A read-only server also accepts this.
        self.ask("postgres", &format!("ALTER SYSTEM SET {setting}"));
        self.ask("postgres", "SELECT pg_reload_conf()");
    }

    /// The single number that a statement returns in the inbox's database.
    pub fn count(&self, statement: &str) -> u64 {
        self.ask("frontdesk", statement)[0].parse().expect("a number")
    }

    fn psql(&self, node: usize, database: &str, statement: &str) -> Result<String, String> {
        let host = self.nodes[node].host.address().to_string();
        let output = Command::new(self.bin.join("psql"))
            .arg(format!("host={host} user=postgres dbname={database} connect_timeout=3"))
            .args(["-XAtqc", statement])
            .output()
            .expect("psql runs");
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).expect("it is text").trim_end().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for node in 0..2 {
            self.end(node, End::Immediate);
            let _ = Command::new("umount").arg("--lazy").arg(&self.nodes[node].disk).output();
        }
    }
}

/// The folder with the programs of the newest PostgreSQL on this machine.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions.flatten().max_by_key(|version| {
        version.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).unwrap_or_default()
    });
    newest.expect("PostgreSQL is installed").path().join("bin")
}

fn append(file: &Path, text: &str) {
    let before = std::fs::read_to_string(file).expect("it is there");
    std::fs::write(file, before + text).expect("it can be written");
}

/// Runs a command, which must succeed.
fn done(mut command: Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
