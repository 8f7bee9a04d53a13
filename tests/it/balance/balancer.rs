//! nginx or HAProxy on a private port, with the packaged configuration.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::replicas::{COUNT, Replicas};
use crate::support::port::Port;
use crate::support::tls::{Authority, Client, Secure};
use crate::support::{PATIENCE, TestServer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    Haproxy,
}

/// The listening address. No client uses it as a source address.
const HERE: [u8; 4] = [127, 0, 2, 1];

/// The main configuration of nginx, which includes the packaged one.
const NGINX: &str = "
daemon off;
worker_processes 2;
pid FOLDER/pid;
error_log stderr warn;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    include FOLDER/packaged;
}
";

/// Directives that need root or a log daemon; the tests remove them.
const NOT_HERE: [&str; 4] = ["user ", "group ", "chroot ", "log /dev/log "];

pub struct Balancer {
    /// The address on which the balancer accepts TLS.
    pub address: SocketAddr,
    /// The address on which the balancer accepts plain HTTP.
    pub plain: SocketAddr,
    client: Client,
    child: Child,
    folder: tempfile::TempDir,
    _ports: [Port; 2],
}

impl Balancer {
    pub fn start(kind: Kind, replicas: &Replicas, authority: &Authority) -> Self {
        Self::before(kind, &[0, 1, 2].map(|number| &replicas.desks[number]), authority)
    }

    /// Starts the balancer in front of these servers, one per configured replica.
    pub fn before(kind: Kind, desks: &[&TestServer; COUNT], authority: &Authority) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = [(); 2].map(|()| Port::reserve_at(HERE.into()));
        let [address, plain] = ports.each_ref().map(Port::address);
        let (certificate, key) = authority.issue();
        for (name, text) in
            [("pem", &certificate), ("key", &key), ("both.pem", &format!("{certificate}{key}"))]
        {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        }
        let packaged = match kind {
            Kind::Nginx => "nginx/frontdesk.conf",
            Kind::Haproxy => "haproxy/frontdesk.cfg",
        };
        let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(packaged);
        let mut text = std::fs::read_to_string(packaged).expect("it is there");
        for (number, server) in desks.iter().enumerate() {
            let example = format!("192.0.2.1{}:8080", number + 1);
            let is_its_own = |line: &str| line.contains(&example) && line.contains(" port 8081");
            let lines = text.lines().map(|line| {
                let line = if is_its_own(line) {
                    line.replace(" port 8081", &format!(" port {}", server.ops.port()))
                } else {
                    line.to_owned()
                };
                line.replace(&example, &server.address.to_string())
            });
            text = lines.collect::<Vec<_>>().join("\n");
        }
        let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
        for (example, ours) in [
            ("listen 443 ", format!("listen {address} ")),
            ("listen 80;", format!("listen {plain};")),
            ("bind :443 ", format!("bind {address} ")),
            ("bind :80\n", format!("bind {plain}\n")),
            // A test machine may not permit enough file descriptors for 4000 connections.
            ("maxconn 4000", "maxconn 400".to_owned()),
            ("/etc/ssl/www.example.com.pem", path("pem")),
            ("/etc/ssl/www.example.com.key", path("key")),
            ("/etc/haproxy/www.example.com.pem", path("both.pem")),
        ] {
            text = text.replace(example, &ours);
        }
        let is_for_here = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("listen [::]") && !NOT_HERE.iter().any(|start| line.starts_with(start))
        };
        let text = text.lines().filter(is_for_here).collect::<Vec<_>>().join("\n") + "\n";
        std::fs::write(folder.path().join("packaged"), text).expect("it can be written");
        std::fs::write(folder.path().join("nginx"), NGINX.replace("FOLDER", &path("")))
            .expect("it can be written");

        let tried = kind.command(folder.path(), true).output().expect("scripts/test balance installs it");
        let said = String::from_utf8_lossy(&tried.stdout) + String::from_utf8_lossy(&tried.stderr);
        assert!(tried.status.success(), "{said}");
        assert!(!["[warn]", "[WARNING]", "[ALERT]"].iter().any(|word| said.contains(word)), "{said}");

        let log = std::fs::File::create(folder.path().join("log")).expect("a file");
        let mut command = kind.command(folder.path(), false);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let balancer = Self { address, plain, client: authority.client(), child, folder, _ports: ports };
        let began = Instant::now();
        let answers = || {
            let mut connection = balancer.client.connect(address)?;
            connection.request("GET", "/developers/", &[], b"")
        };
        while !answers().is_ok_and(|answer| answer.status == 200) {
            assert!(began.elapsed() < PATIENCE, "it never answered: {}", balancer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        balancer
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn connect(&self) -> Secure {
        self.client.connect(self.address).expect("it shakes hands")
    }

    /// Connects from this source address, which must be one of this machine's addresses.
    pub fn connect_from(&self, client: &str) -> Secure {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let client: IpAddr = client.parse().expect("an address");
        socket.bind(&SocketAddr::from((client, 0)).into()).expect("it is one of this machine's");
        socket.connect(&self.address.into()).expect("it listens");
        self.client.greet(TcpStream::from(socket)).expect("it shakes hands")
    }

    /// The balancer's error log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Kind {
    /// The command that starts the balancer in a folder. If `only_tries` is set, the command only checks the
    /// configuration.
    fn command(self, folder: &Path, only_tries: bool) -> Command {
        let file = |name: &str| -> PathBuf { folder.join(name) };
        match self {
            Self::Nginx => {
                let mut command = Command::new("nginx");
                command.args(only_tries.then_some("-t"));
                command.arg("-p").arg(folder).args(["-e", "stderr", "-c"]).arg(file("nginx"));
                command
            }
            Self::Haproxy => {
                let mut command = Command::new("haproxy");
                command.arg(if only_tries { "-c" } else { "-db" }).arg("-f").arg(file("packaged"));
                command
            }
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // Send SIGTERM rather than SIGKILL, so that nginx ends its workers as well.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
