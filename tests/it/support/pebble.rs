//! Pebble, an ACME server for tests, on free ports of this machine, with a name server for which every name is this machine.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::tls::Authority;

/// A running server, with its name server.
pub struct Pebble {
    authority: Authority,
    port: u16,
    management: u16,
    children: Vec<Child>,
    said: mpsc::Receiver<String>,
    _folder: tempfile::TempDir,
}

impl Pebble {
    /// Issues certificates to whoever answers on port `tls` of this machine; this share of all requests, in percent, is told
    /// that their nonce is bad.
    pub fn start(tls: u16, bad_nonces: u8) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new();
        let (certificate, key) = authority.issue();
        let (port, management) = (free_port(), free_port());
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("cert.pem"), certificate).expect("it can be written");
        std::fs::write(path("key.pem"), key).expect("it can be written");
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": path("cert.pem"),
            "privateKey": path("key.pem"),
            "httpPort": 9,
            "tlsPort": tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
        }});
        std::fs::write(path("config.json"), config.to_string()).expect("it can be written");

        let names = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
        let name_server = Command::new("pebble-challtestsrv")
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", ""])
            .args(["-tlsalpn01", "", "-dns01", &names.to_string()])
            .args(["-management", &format!("127.0.0.1:{}", free_port())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble-challtestsrv runs (Debian's package `pebble`)");
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
            assert!(began.elapsed() < Duration::from_secs(30), "pebble does not listen: {:?}", pebble.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        pebble
    }

    fn client_connects(&self) -> Option<()> {
        for port in [self.port, self.management] {
            self.authority.client().connect(([127, 0, 0, 1], port).into()).ok()?;
        }
        Some(())
    }

    /// The address of its directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// Who vouches for the server itself.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Who vouches for the certificates that it issues, in PEM.
    pub fn root(&self) -> Vec<u8> {
        let mut connection =
            self.authority.client().connect(([127, 0, 0, 1], self.management).into()).expect("it listens");
        connection.request("GET", "/roots/0", &[], b"").expect("it answers").body
    }

    /// What it has said since it was last asked.
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

/// A port that nobody listens on at the moment.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}
