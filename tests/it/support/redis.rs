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

/// A running server.
pub struct Redis {
    child: Child,
    port: Port,
    /// Where it speaks TLS, if it does.
    tls_port: Option<Port>,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
}

impl Redis {
    /// One that wants [`PASSWORD`].
    pub fn start() -> Self {
        Self::with(&["--requirepass", PASSWORD])
    }

    /// One with further arguments, which are lines of its configuration.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self::launch(folder, arguments, None)
    }

    /// One that speaks TLS as well, with a certificate of this authority.
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

    /// With the password.
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

    /// Its reply to one command.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("it listens");
        let mut call = redis::Cmd::new();
        for part in command {
            call.arg(*part);
        }
        call.query(&mut connection).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// From now on it takes no processor: connections are there, and nothing comes back.
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

    /// Starts it again at the same port, empty.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.folder.path(), self.port.number(), &self.arguments);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // One that is paused is ended as well.
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
