//! A running server: a process group that is terminated when the value is dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::process::{self, Usage};
use crate::settings::{Bench, Cores};

pub mod file_server;
pub mod forms;
pub mod frontdesk;
pub mod log;
pub mod yardstick;

/// Name of frontdesk with default settings.
pub const FRONTDESK: &str = "frontdesk";

const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A folder and loopback addresses for a server.
#[derive(Debug)]
pub struct Reserved {
    /// The server's files, which are removed after the process has ended.
    pub folder: TempDir,
    pub address: SocketAddr,
    /// The address for HTTPS, if the server has a certificate.
    pub secure: SocketAddr,
}

impl Reserved {
    pub fn new() -> Result<Self> {
        Self::with_folder(create_folder()?)
    }

    pub fn with_folder(folder: TempDir) -> Result<Self> {
        Ok(Self { folder, address: free_address()?, secure: free_address()? })
    }
}

/// A server that runs in a process group of its own, which ends with this value.
#[derive(Debug)]
pub struct Peer {
    pub name: String,
    pub address: SocketAddr,
    pub secure: SocketAddr,
    child: Child,
    pub folder: TempDir,
}

impl Peer {
    /// Starts `command` in a new process group on `cores`, and waits until it accepts connections. The
    /// server's output goes to a file. If the server does not start, the error contains the end of this
    /// output.
    pub fn start(
        bench: &Bench,
        name: &str,
        cores: Cores,
        command: &mut Command,
        Reserved { folder, address, secure }: Reserved,
    ) -> Result<Self> {
        let log = File::create(folder.path().join("output.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        // A process inherits the cores of the thread that starts it.
        let child = bench.run_on(cores, || command.spawn())?;
        let child = child.with_context(|| format!("cannot start {name}"))?;
        let mut peer = Self { name: name.to_owned(), address, secure, child, folder };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = peer.child.try_wait()?.is_some() || began.elapsed() > START_TIMEOUT;
            ensure!(!ended, "{name} does not accept connections at {address}: {}", peer.last_output());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(peer)
    }

    /// Whether the server is frontdesk, with or without its fast path and on any number of cores.
    pub fn is_frontdesk(&self) -> bool {
        self.name.starts_with(FRONTDESK)
    }

    pub fn usage(&self) -> Usage {
        process::cpu_usage(self.child.id())
    }

    pub fn memory(&self) -> Result<[u64; 4]> {
        process::memory_usage(self.child.id())
    }

    /// The peak of resident memory since the start or since [`Peer::forget_peak`], in bytes.
    pub fn peak(&self) -> Result<u64> {
        process::memory_peak(self.child.id())
    }

    /// Begins to measure the peak of memory anew.
    pub fn forget_peak(&self) -> Result<()> {
        // 5: resets `VmHWM` (proc_pid_clear_refs(5)).
        Ok(std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    /// The last 2,000 bytes that the server has printed to its standard output and standard error.
    pub fn last_output(&self) -> String {
        let text = std::fs::read(self.folder.path().join("output.log")).unwrap_or_default();
        let end = &text[text.len().saturating_sub(2000)..];
        String::from_utf8_lossy(end).trim().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A command that is terminated if this process is killed. Without `setpriv`, this would require unsafe code.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// Reserves a free loopback port until the benchmark ends, by a socket that is never closed: only programs
/// that set `SO_REUSEADDR` can listen on the port.
fn free_address() -> Result<SocketAddr> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = getsockname(&socket)?.try_into()?;
    std::mem::forget(socket);
    Ok(address)
}

/// Creates a temporary folder that servers can read after they have dropped their privileges.
pub fn create_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("frontdesk-bench-").tempdir()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open)?;
    Ok(folder)
}

/// A key and a self-signed certificate, as PEM files.
#[derive(Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Identity {
    /// Creates a key on P-256, and a certificate for `www.example.com` that is valid for 30 days, with
    /// openssl.
    pub fn create(folder: &Path) -> Result<Self> {
        let made = Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        let mut openssl = Command::new("openssl");
        openssl
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30".split(' '))
            .args(["-subj", "/CN=www.example.com"])
            .args(["-addext", "subjectAltName=DNS:www.example.com,IP:127.0.0.1"])
            .args([Path::new("-keyout"), &made.key, Path::new("-out"), &made.certificate]);
        process::output(&mut openssl).map(|_| made)
    }
}
