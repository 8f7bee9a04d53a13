//! A private Redis server on a free port, without persistence.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;
use super::port::Port;
use super::tls::Authority;

/// The password that the server requires.
pub const PASSWORD: &str = "open sesame";

/// A running Redis server.
pub struct Redis {
    child: Child,
    port: Port,
    /// The port for TLS, or `None` without TLS.
    tls_port: Option<Port>,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
}

impl Redis {
    /// Starts a server that requires [`PASSWORD`].
    pub fn start() -> Self {
        Self::with(&["--requirepass", PASSWORD])
    }

    /// Starts a server with further command-line arguments, such as `--requirepass`.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self::launch(folder, arguments, None)
    }

    /// Starts a server that also supports TLS, with a certificate from this authority.
    pub fn with_tls(authority: &Authority) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
        let (certificate, key) = authority.issue();
        std::fs::write(path("tls.pem"), certificate).expect("it can be written");
        std::fs::write(path("tls.key"), key).expect("it can be written");
        let port = Port::reserve();
        let arguments = [
            ("--requirepass", PASSWORD.to_owned()),
            ("--tls-port", port.number().to_string()),
            ("--tls-cert-file", path("tls.pem")),
            ("--tls-key-file", path("tls.key")),
            ("--tls-ca-cert-file", authority.file().to_str().expect("a name").to_owned()),
            ("--tls-auth-clients", "no".to_owned()),
        ];
        let arguments = arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        Self::launch(folder, arguments, Some(port))
    }

    fn launch(folder: tempfile::TempDir, arguments: Vec<String>, tls_port: Option<Port>) -> Self {
        let port = Port::reserve();
        let child = spawn(folder.path(), port.number(), &arguments);
        Self { child, port, tls_port, arguments, folder }
    }

    /// The URL with the password.
    pub fn url(&self) -> String {
        self.url_for("", PASSWORD)
    }

    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{}@{}", password.replace(' ', "%20"), self.port.address())
    }

    pub fn tls_url(&self) -> String {
        let port = self.tls_port.as_ref().expect("it speaks TLS");
        format!("rediss://:{}@{}", PASSWORD.replace(' ', "%20"), port.address())
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's reply to a command.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("it listens");
        let mut call = redis::Cmd::new();
        for part in command {
            call.arg(*part);
        }
        call.query(&mut connection).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Stops the server with SIGSTOP: connections remain, but it does not respond.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts the server on the same port with an empty database.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.folder.path(), self.port.number(), &self.arguments);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // SIGKILL also ends a paused server.
        self.kill();
    }
}

fn spawn(folder: &Path, port: u16, arguments: &[String]) -> Child {
    let mut child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
        .arg(port.to_string())
        .arg("--dir")
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed (Debian's package of that name)");
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = child.try_wait().expect("it can be asked");
        assert!(ended.is_none() && begun.elapsed() < PATIENCE, "it does not listen: {ended:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}
