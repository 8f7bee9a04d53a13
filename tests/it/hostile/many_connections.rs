//! Many connections: deadlines close idle and slow ones, limits per source and in total hold, and other
//! clients are not affected.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::support::channel_site::until;
use crate::support::tls::Authority;
use crate::support::{Connection, NO_DEADLINES, PATIENCE, TestServer, small_site};

/// The number of connections of each kind.
const CROWD: usize = 2_000;

/// The maximum difference between the 99th percentiles of other clients' response times with and without
/// these connections. On a slow machine, the limit is the percentile without them, if that is larger.
const TOLERATED: Duration = Duration::from_millis(50);

/// The maximum number of attempts. One may fail because the machine is busy with something else.
const TRIES: usize = 5;

/// All connections come from this machine, so one source must be allowed to open them all.
const ONE_SOURCE: (&str, &str) = ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "10000");

/// The beginning of a TLS record with a ClientHello of 512 bytes.
const HALF_A_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03frontdesk";

#[test]
#[ignore = "two thousand connections and the default deadlines take a minute: scripts/test door"]
fn many_silent_connections_are_shed() {
    let server = TestServer::with(&small_site(), &[ONE_SOURCE]);
    for (name, beginning) in
        [("silent", &b""[..]), ("one byte", b"G"), ("half a preface", b"PRI * HTTP/2.0\r\n\r\nSM")]
    {
        check(&server, name, || Crowd::of(CROWD, server.address, beginning));
    }
}

#[test]
#[ignore = "two thousand connections and the default deadlines take half a minute: scripts/test door"]
fn many_connections_without_a_handshake_are_shed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (chain, key) = Authority::new().issue();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("a name").to_owned()
    };
    let (chain, key) = (write("chain.pem", &chain), write("key.pem", &key));
    let server = TestServer::with(
        &small_site(),
        &[
            ONE_SOURCE,
            ("FRONTDESK_TLS__LISTEN", "127.0.0.1:0"),
            ("FRONTDESK_TLS__CERTIFICATE", &chain),
            ("FRONTDESK_TLS__KEY", &key),
        ],
    );
    let address = server.tls.expect("it listens for TLS");
    for (name, beginning) in [("silent, TLS", &b""[..]), ("half a ClientHello, TLS", HALF_A_HELLO)] {
        check(&server, name, || Crowd::of(CROWD, address, beginning));
    }
}

#[test]
#[ignore = "needs slowhttptest: scripts/test door"]
fn many_slow_headers_are_shed() {
    slow("slow headers", &["-H"], "/");
}

#[test]
#[ignore = "needs slowhttptest: scripts/test door"]
fn many_slow_bodies_are_shed() {
    let mode = ["-B", "-s", "8192", "-f", "application/json"];
    slow("slow bodies", &mode, "/api/waitlist");
}

/// Readers get more time than writers: the kernel buffers part of a response, and a client that reads at the
/// minimum rate, 16 KiB a second, reads from that buffer for many seconds before the server sees any
/// progress.
#[test]
#[ignore = "needs slowhttptest: scripts/test door"]
fn many_slow_readers_are_shed() {
    slow("slow reading", &["-X", "-w", "1", "-y", "64", "-z", "5", "-n", "5"], "/");
}

/// Runs `slowhttptest` with the options in `mode` against `path`.
fn slow(name: &str, mode: &[&str], path: &str) {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__ENABLED", "false"), ONE_SOURCE]);
    let (count, url) = (CROWD.to_string(), format!("http://{}{path}", server.address));
    check(&server, name, || {
        let child = Command::new("slowhttptest")
            .args(mode)
            .args(["-c", &count, "-r", &count, "-i", "1", "-l", "600", "-p", "3", "-v", "0", "-u", &url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed: scripts/test door does it");
        Tool(child)
    });
}

#[test]
fn one_source_cannot_take_more_than_its_share() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let crowd = Crowd::of(400, server.address, b"");
    let refused = || metric(&server, r#"frontdesk_connections_shed_total{reason="source"}"#);
    until(|| (refused() == 400 - 256).then_some(()))
        .expect("connections above the limit are closed immediately");
    // A connection is admitted before the task that counts it runs.
    until(|| (metric(&server, "frontdesk_connections_open") == 256).then_some(()))
        .expect("connections up to the limit stay open");
    // Other clients are not affected.
    let other = connect_from([127, 0, 0, 2], server.address);
    let answer = Connection::over(other).request("GET", "/", &[], b"").expect("an answer");
    assert_eq!(answer.status, 200);
    drop(crowd);
}

#[test]
fn a_nearly_full_server_closes_idle_connections_of_the_largest_source() {
    const MOST: usize = 64;
    let most = MOST.to_string();
    let options = [&NO_DEADLINES[..], &[("FRONTDESK_SERVER__MAX_CONNECTIONS", &*most)]].concat();
    let server = TestServer::with(&small_site(), &options);
    let from = |host: u8| Connection::over(connect_from([127, 0, 0, host], server.address));
    let get =
        |connection: &mut Connection| connection.request("GET", "/", &[], b"").expect("an answer").status;
    // A visitor whose browser keeps its connection open, and a source that takes all other connections.
    let mut visitor = from(2);
    assert_eq!(get(&mut visitor), 200);
    let crowd = Crowd::of(MOST - 1, server.address, b"");
    for host in 3..40 {
        // The server may still be accepting connections and be full for a moment.
        let first_page = until(|| from(host).request("GET", "/", &[], b"").ok());
        assert_eq!(first_page.expect("the server has room again").status, 200, "{host}");
    }
    assert_eq!(get(&mut visitor), 200, "its source is the smallest");
    let evicted = metric(&server, r#"frontdesk_connections_shed_total{reason="evicted"}"#);
    assert!((1..MOST).contains(&evicted), "{evicted}");
    assert_eq!(metric(&server, r#"frontdesk_connections_shed_total{reason="source"}"#), 0);
    drop(crowd);
}

/// Opens the connections and waits until the deadlines have closed them. Meanwhile, compares the response
/// times of other clients with response times of another server on the same machine, which does not have
/// these connections. Without deadlines the connections would stay open for ten minutes.
fn check<C>(server: &TestServer, name: &str, come: impl Fn() -> C) {
    more_descriptors();
    let quiet = TestServer::start();
    let mut excess = Duration::MAX;
    for _ in 0..TRIES {
        let before = metric(server, "frontdesk_connections_total");
        let others = [quiet.address, server.address].map(Others::begin);
        let began = Instant::now();
        let crowd = come();
        let mut most = 0;
        let shed_after = loop {
            let open = metric(server, "frontdesk_connections_open");
            most = most.max(open);
            let arrived = metric(server, "frontdesk_connections_total") - before;
            // Some of the counted connections belong to the other clients.
            if arrived >= others[1].count() + CROWD * 9 / 10 && open < 10 {
                break began.elapsed();
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{name}: {arrived} connections arrived, but {open} are still open"
            );
            std::thread::sleep(Duration::from_millis(50));
        };
        let [without, with] = others.map(Others::end);
        drop(crowd);
        eprintln!(
            "{name}: {most} at once, all shed within {:.1} s; p99 of others {:.1} ms without, {:.1} ms with it ({} and {} requests)",
            shed_after.as_secs_f64(),
            p99(&without).as_secs_f64() * 1e3,
            p99(&with).as_secs_f64() * 1e3,
            without.len(),
            with.len()
        );
        excess = excess.min(p99(&with).saturating_sub(p99(&without)));
        if excess <= TOLERATED.max(p99(&without)) {
            return;
        }
    }
    panic!("{name}: others waited {excess:?} longer at best");
}

fn p99(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100]
}

/// A client that requests the home page continuously, each time on a new connection.
struct Others {
    stop: Arc<AtomicBool>,
    /// The number of connections that it has opened.
    connections: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Others {
    fn begin(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                let began = Instant::now();
                let answer = Connection::open(address).request("GET", "/", &[], b"").expect("an answer");
                times.push(began.elapsed());
                assert!([200, 308].contains(&answer.status), "{}", answer.status);
                std::thread::sleep(Duration::from_millis(5));
            }
            times
        });
        Self { stop, connections, thread }
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Stops the client. Returns the duration of each request.
    fn end(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("other clients are answered")
    }
}

/// Open connections on which the same first bytes were sent, and nothing else.
struct Crowd(#[expect(dead_code, reason = "they are held")] Vec<TcpStream>);

impl Crowd {
    /// Opens `count` connections and sends `beginning` on each.
    fn of(count: usize, address: SocketAddr, beginning: &[u8]) -> Self {
        let open = |_| {
            let mut stream = TcpStream::connect(address).expect("the server accepts");
            // The server may have closed the connection already because of a limit.
            let _ = stream.write_all(beginning);
            stream
        };
        Self((0..count).map(open).collect())
    }
}

/// A running program that opens connections; killed when dropped.
struct Tool(Child);

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The value of a metric in `/metrics`.
pub(super) fn metric(server: &TestServer, name: &str) -> usize {
    let metrics = server.ops("/metrics");
    let figure = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    figure.unwrap_or_else(|| panic!("there is no {name}"))
}

/// Raises the limit on open files as far as possible, for this process and the servers that it starts.
pub(super) fn more_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("it may be raised so far");
}

/// Connects from another address of this machine.
pub(super) fn connect_from(source: [u8; 4], address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((source, 0))).expect("all of 127.0.0.0/8 is this machine");
    connect(&socket, &address).expect("the server accepts");
    TcpStream::from(socket)
}
