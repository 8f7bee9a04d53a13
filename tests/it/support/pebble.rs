//! Pebble, an ACME server for tests, with a name server that resolves every name to this machine.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::port::Port;
use super::tls::Authority;

/// A running ACME server with its name server.
pub struct Pebble {
    authority: Authority,
    port: Port,
    management: Port,
    children: Vec<Child>,
    said: mpsc::Receiver<String>,
    _folder: tempfile::TempDir,
}

impl Pebble {
    /// Starts Pebble, which validates against port `tls` on this machine and rejects the nonce of this
    /// percentage of requests.
    pub fn start(tls: u16, bad_nonces: u8) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new();
        let (certificate, key) = authority.issue();
        let (port, management) = (Port::reserve(), Port::reserve());
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("cert.pem"), certificate).expect("it can be written");
        std::fs::write(path("key.pem"), key).expect("it can be written");
        let config = serde_json::json!({ "pebble": {
            "listenAddress": port.address().to_string(),
            "managementListenAddress": management.address().to_string(),
            "certificate": path("cert.pem"),
            "privateKey": path("key.pem"),
            "httpPort": 9,
            "tlsPort": tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
        }});
        std::fs::write(path("config.json"), config.to_string()).expect("it can be written");

        let (name_server, names) = name_server();
        let mut server = Command::new("pebble")
            .arg("-config")
            .arg(path("config.json"))
            .args(["-dnsserver", &names.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", bad_nonces.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble runs (Debian's package `pebble`)");
        let stdout = BufReader::new(server.stdout.take().expect("it is piped"));
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let children = vec![name_server, server];
        let pebble = Self { authority, port, management, children, said, _folder: folder };
        let began = Instant::now();
        while pebble.client_connects().is_none() {
            assert!(began.elapsed() < PATIENCE, "pebble does not listen: {:?}", pebble.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        pebble
    }

    fn client_connects(&self) -> Option<()> {
        for port in [&self.port, &self.management] {
            self.authority.client().connect(port.address()).ok()?;
        }
        Some(())
    }

    /// The URL of the ACME directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port.number())
    }

    /// The authority that issued Pebble's own certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The root certificate of the authority that issues Pebble's certificates, in PEM format.
    pub fn root(&self) -> Vec<u8> {
        let mut connection = self.authority.client().connect(self.management.address()).expect("it listens");
        connection.request("GET", "/roots/0", &[], b"").expect("it answers").body
    }

    /// Pebble's output since the last call.
    pub fn log(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a name server that resolves every name to this machine. Returns it and its address. A UDP port
/// cannot be reserved for another program. If another program takes the port first, the name server is
/// started again on another one.
fn name_server() -> (Child, SocketAddr) {
    let began = Instant::now();
    loop {
        let management = Port::reserve();
        let names = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
        let mut child = Command::new("pebble-challtestsrv")
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", ""])
            .args(["-tlsalpn01", "", "-dns01", &names.to_string()])
            .args(["-management", &management.address().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble-challtestsrv runs (Debian's package `pebble`)");
        while child.try_wait().expect("it can be asked").is_none() {
            if answers(names) {
                return (child, names);
            }
            assert!(began.elapsed() < PATIENCE, "the name server does not answer");
        }
    }
}

/// Whether a name server answers at this address.
fn answers(address: SocketAddr) -> bool {
    // One question: the address (A, IN) of `example.com`.
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    question.extend(b"\x07example\x03com\0\0\x01\0\x01");
    let asked = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.send_to(&question, address)?;
        socket.recv(&mut [0; 512])
    });
    asked.is_ok()
}
