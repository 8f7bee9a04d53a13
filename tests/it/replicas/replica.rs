//! A replica: the real binary on its own network host, with a chosen clock.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::clients;
use super::network::{Host, Net};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// A replica. It ends with it.
pub struct Replica {
    pub host: Host,
    /// Seconds by which its clock is ahead, from its next start on.
    pub ahead: i32,
    folder: PathBuf,
    process: Option<Child>,
}

impl Replica {
    /// One that does not run yet, with its data and its log in this folder.
    pub fn new(host: Host, folder: &Path) -> Replica {
        let folder = folder.join(format!("replica-{}", host.address()));
        std::fs::create_dir(&folder).expect("a folder");
        Replica { host, ahead: 0, folder, process: None }
    }

    /// The port for visitors.
    pub fn address(&self) -> SocketAddr {
        (self.host.address(), 8080).into()
    }

    /// The port for health checks.
    fn ops(&self) -> SocketAddr {
        (self.host.address(), 8081).into()
    }

    /// Starts it, and waits until it serves pages.
    pub fn start(&mut self, net: &Net, site: &Path, environment: &[(String, String)]) {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("it can be written");
        let mut command = net.command(self.host, env!("CARGO_BIN_EXE_frontdesk"), None);
        command.arg("serve").arg(site).arg("--data-dir").arg(self.folder.join("data"));
        command.args(["--listen", &self.address().to_string(), "--ops-listen", &self.ops().to_string()]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if self.ahead != 0 {
            // Time goes on as it always does; only what it is called has changed.
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

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it can be killed");
            process.wait().expect("it ends");
        }
    }

    /// As if its machine stood still.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Takes [`Replica::pause`] back.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("it can be told");
    }

    /// Whether it says that submissions are kept, as far as it answers.
    pub fn is_ready(&self) -> bool {
        clients::get(self.ops(), "/readyz", Duration::from_secs(30)).ok() == Some(200)
    }

    /// Its log over all restarts.
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
