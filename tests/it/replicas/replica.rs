//! A replica: the real binary on its own network host, with a chosen clock.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::clients;
use super::network::{Host, Net};

/// Time limit for a start.
const PATIENCE: Duration = Duration::from_mins(2);

/// A replica that ends when dropped.
pub struct Replica {
    pub host: Host,
    /// Seconds by which the replica's clock is ahead after its next start.
    pub ahead: i32,
    folder: PathBuf,
    process: Option<Child>,
}

impl Replica {
    /// A replica that is not running yet, with its data and log in this folder.
    pub fn new(host: Host, folder: &Path) -> Replica {
        let folder = folder.join(format!("replica-{}", host.address()));
        std::fs::create_dir(&folder).expect("a folder");
        Replica { host, ahead: 0, folder, process: None }
    }

    /// The address for visitors.
    pub fn address(&self) -> SocketAddr {
        (self.host.address(), 8080).into()
    }

    /// The address for health checks.
    fn ops(&self) -> SocketAddr {
        (self.host.address(), 8081).into()
    }

    /// Starts the replica, and waits until it serves pages.
    pub fn start(&mut self, net: &Net, site: &Path, environment: &[(String, String)]) {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("it can be written");
        let mut command = net.command(self.host, env!("CARGO_BIN_EXE_frontdesk"), None);
        command.arg("serve").arg(site).arg("--data-dir").arg(self.folder.join("data"));
        command.args(["--listen", &self.address().to_string(), "--ops-listen", &self.ops().to_string()]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if self.ahead != 0 {
            // The monotonic clock keeps running normally; only the wall clock changes.
            let clock = format!("{:+}", self.ahead);
            command.env("LD_PRELOAD", crate::support::libfaketime());
            command.envs([("FAKETIME", clock.as_str()), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("it runs"));
        let deadline = Instant::now() + PATIENCE;
        while clients::get(self.address(), "/", Duration::from_secs(1)).ok() != Some(200) {
            let ended = self.process.as_mut().is_some_and(|process| !matches!(process.try_wait(), Ok(None)));
            assert!(!ended && Instant::now() < deadline, "a replica does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the replica with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it can be killed");
            process.wait().expect("it ends");
        }
    }

    /// Stops the replica with SIGSTOP, as if its machine stalled.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Undoes [`Replica::pause`].
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("it can be told");
    }

    /// Whether the replica reports that it can store submissions. False if it does not respond.
    pub fn is_ready(&self) -> bool {
        clients::get(self.ops(), "/readyz", Duration::from_secs(30)).ok() == Some(200)
    }

    /// The replica's log since its first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}
