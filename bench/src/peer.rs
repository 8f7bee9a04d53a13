//! A server under measurement: a process with its children, which ends with its value.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::Bench;
use crate::cores::Cores;
use crate::process::{self, Memory, Usage};

pub mod caddy;
pub mod forms;
pub mod frontdesk;
pub mod log;
pub mod nginx;
pub mod postgres;
pub mod redis;
pub mod static_web_server;
pub mod yardstick;

/// A server must answer within this time of its start, and end within it of being told to.
const PATIENCE: Duration = Duration::from_mins(1);

/// One server, running.
#[derive(Debug)]
pub struct Peer {
    /// As it is called in the report.
    pub name: String,
    /// Where it answers.
    pub address: SocketAddr,
    /// Where it answers over TLS, if it does.
    pub secure: Option<SocketAddr>,
    child: Child,
    /// What it reads and writes; goes when it has ended.
    folder: TempDir,
}

impl Peer {
    /// Starts `command` in a process group of its own, on `cores`, and waits until it accepts connections at `address`. What it says
    /// goes into a file in `folder`, and into the error if it ends.
    pub fn start(
        bench: &Bench,
        name: impl Into<String>,
        cores: Cores,
        command: &Command,
        address: SocketAddr,
        folder: TempDir,
    ) -> Result<Self> {
        let name = name.into();
        let log = File::create(folder.path().join("said.log"))?;
        let child = spawn(bench, cores, command, [log.try_clone()?.into(), log.into()])
            .with_context(|| format!("{name} cannot be started"))?;
        let mut peer = Self { name, address, secure: None, child, folder };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = peer.child.try_wait()? {
                bail!("{} has ended with {status}: {}", peer.name, peer.said());
            }
            if began.elapsed() > PATIENCE {
                bail!("{} does not answer at {address}: {}", peer.name, peer.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(peer)
    }

    /// Starts `command` likewise, and takes its addresses from lines that it says on standard output: `read` returns them once it
    /// has heard enough.
    pub fn start_and_listen(
        bench: &Bench,
        name: impl Into<String>,
        cores: Cores,
        command: &Command,
        folder: TempDir,
        mut read: impl FnMut(&str) -> Option<(SocketAddr, Option<SocketAddr>)>,
    ) -> Result<Self> {
        let name = name.into();
        let log = File::create(folder.path().join("said.log"))?;
        let said = [Stdio::piped(), log.into()];
        let mut child =
            spawn(bench, cores, command, said).with_context(|| format!("{name} cannot be started"))?;
        let said = child.stdout.take().context("its standard output is piped")?;
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut peer = Self { name, address: unknown, secure: None, child, folder };
        for line in BufReader::new(said).lines() {
            if let Some((address, secure)) = read(&line?) {
                (peer.address, peer.secure) = (address, secure);
                return Ok(peer);
            }
        }
        bail!("{} does not say where it listens: {}", peer.name, peer.said())
    }

    /// Its process, of which the others descend.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The processor time that it has used so far.
    pub fn usage(&self) -> Usage {
        process::usage(self.process())
    }

    /// What it has in memory.
    pub fn memory(&self) -> Result<Memory> {
        process::memory(self.process())
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The end of what it has said on standard error.
    pub fn said(&self) -> String {
        let said = std::fs::read(self.folder.path().join("said.log")).unwrap_or_default();
        let end = &said[said.len().saturating_sub(2000)..];
        String::from_utf8_lossy(end).trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let told = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && told.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A child inherits its cores from the thread that starts it. It is told to end should this process be killed, which only `setpriv` can
/// arrange for without unsafe code.
fn spawn(bench: &Bench, cores: Cores, command: &Command, said: [Stdio; 2]) -> Result<Child> {
    let [stdout, stderr] = said;
    let mut with_end = Command::new("setpriv");
    with_end.args(["--pdeathsig", "TERM", "--"]).arg(command.get_program()).args(command.get_args());
    with_end.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        with_end.current_dir(folder);
    }
    with_end.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    bench.machine.keep_to(cores)?;
    let child = with_end.spawn();
    bench.machine.keep_to(Cores::Generator)?;
    child.with_context(|| format!("{} cannot be run", command.get_program().display()))
}

/// A free port of the loopback address, for servers that cannot be asked which one they took. It stays reserved until the benchmark
/// ends: only a program that sets `SO_REUSEADDR` can listen on it.
pub fn free_address() -> Result<SocketAddr> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = getsockname(&socket)?.try_into()?;
    std::mem::forget(socket);
    Ok(address)
}

/// A folder for one server's files. A server that gives up its rights must be able to read it.
pub fn folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("frontdesk-bench-").tempdir()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open)?;
    Ok(folder)
}

/// How many threads or processes a server has for its cores.
pub fn workers(cores: Cores) -> usize {
    if cores == Cores::Both { 2 } else { 1 }
}
