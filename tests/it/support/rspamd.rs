//! A private rspamd server on a free port, without Debian's rules and without lookups in the network.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::port::Port;

/// The text that rspamd takes for spam by default.
pub const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

/// A running rspamd.
pub struct Rspamd {
    child: Child,
    port: Port,
    _folder: tempfile::TempDir,
}

impl Rspamd {
    pub fn start() -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::reserve());
        let path = folder.path().display().to_string();
        // The name server does not exist, and no rule asks one.
        let config = format!(
            "options {{ pidfile = \"{path}/pid\"; control_socket = \"{path}/control mode=0600\"; tempdir = \"{path}\"; \
             hs_cache_dir = \"{path}\"; filters = \"\"; \
             dns {{ nameserver = [\"127.0.0.1:9\"]; timeout = 100ms; retransmits = 1; }} }}\n\
             logging {{ type = \"console\"; level = \"error\"; }}\n\
             actions {{ reject = 15; add_header = 6; greylist = 4; }}\n\
             worker \"normal\" {{ bind_socket = \"{}\"; count = 1; }}\n",
            port.address()
        );
        let file = folder.path().join("rspamd.conf");
        std::fs::write(&file, config).expect("it can be written");
        let mut child = Command::new("rspamd")
            .args(["--no-fork", "--insecure", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("rspamd is installed (Debian's package of that name)");
        let begun = Instant::now();
        while TcpStream::connect(port.address()).is_err() {
            let ended = child.try_wait().expect("it can be asked");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "it does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, _folder: folder }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }
}

impl Drop for Rspamd {
    fn drop(&mut self) {
        // SIGTERM lets it end its workers.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
