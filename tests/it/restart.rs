//! Restarts with inherited sockets: no request is lost.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::load::Load;
use crate::support::{Connection, frontdesk, small_site};

/// Starts a server as a service manager does: two sockets as descriptors 3 and 4, with their names and the
/// server's process ID in the environment.
fn start(public: &TcpListener, private: OwnedFd, data: &Path) -> Child {
    let handed_over = public.try_clone().expect("a socket has handles");
    let server = frontdesk();
    let script = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$ exec \"$0\" \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.env_clear().args(["-c", script]).arg(server.get_program());
    command
        .arg("serve")
        .arg(small_site())
        // Inherited sockets take precedence, even if the address of `--listen` is not available.
        .args(["--listen", "127.0.0.1:1", "--data-dir"])
        .arg(data)
        .env("LISTEN_FDS", "2")
        .env("LISTEN_FDNAMES", "http:ops")
        .env("FRONTDESK_LIMITS__ENABLED", "false")
        .stdin(Stdio::from(OwnedFd::from(handed_over)))
        .stdout(Stdio::from(private))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Reads the server's output to its end, because a full pipe would block the server.
fn hear(child: &mut Child) -> std::thread::JoinHandle<Vec<String>> {
    let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).collect())
}

fn terminate(child: &mut Child) {
    kill_process(Pid::from_child(child), Signal::TERM).expect("it can be told");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

fn sockets(folder: &Path) -> (TcpListener, SocketAddr, UnixListener) {
    let public = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&public, 4096).expect("it listens");
    let address = public.local_addr().expect("an address");
    (public, address, UnixListener::bind(folder.join("ops.sock")).expect("a socket"))
}

fn handle(private: &UnixListener) -> OwnedFd {
    private.try_clone().expect("a socket has handles").into()
}

#[test]
fn sockets_that_are_handed_over_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let (public, address, private) = sockets(folder.path());
    let mut child = start(&public, handle(&private), &folder.path().join("data"));
    let said = hear(&mut child);
    let answer = Connection::open(address).request("GET", "/", &[], b"").expect("an answer");
    assert_eq!(answer.status, 200);
    let mut ops =
        std::os::unix::net::UnixStream::connect(folder.path().join("ops.sock")).expect("it listens");
    std::io::Write::write_all(&mut ops, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut ready = String::new();
    std::io::Read::read_to_string(&mut ops, &mut ready).expect("an answer");
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    terminate(&mut child);
    said.join().expect("it was heard");
}

/// The number of restarts and of requests. `scripts/test door-long` sets larger numbers in the environment.
fn effort() -> (usize, usize) {
    let read = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    (read("FRONTDESK_TEST_RESTARTS").unwrap_or(3), read("FRONTDESK_TEST_REQUESTS").unwrap_or(5_000))
}

#[test]
fn no_request_fails_while_the_server_is_restarted() {
    let (restarts, requests) = effort();
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (public, address, private) = sockets(folder.path());
    let mut child = start(&public, handle(&private), &data);
    let mut said = hear(&mut child);
    let load = Load::begin(
        address,
        8,
        |client, n| match n % 500 {
            0 => (
                "POST",
                "/api/waitlist",
                json!({ "email": format!("c{client}n{n}@example.com") }).to_string(),
            ),
            _ => ("GET", "/developers/", String::new()),
        },
        |answer| answer.status == 200,
    );
    let mut longest = Duration::ZERO;
    for _ in 0..restarts {
        // Each server answers its share of the requests before it is stopped.
        let before = load.answered();
        let began = Instant::now();
        while load.answered() < before + requests / restarts && began.elapsed() < Duration::from_mins(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let began = Instant::now();
        // Stops the old server before starting the next one, as a service manager does. Meanwhile clients
        // wait in the socket's queue.
        terminate(&mut child);
        said.join().expect("it was heard");
        child = start(&public, handle(&private), &data);
        said = hear(&mut child);
        let before = load.answered();
        while load.answered() == before && began.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        longest = longest.max(began.elapsed());
    }
    let began = Instant::now();
    while load.answered() < requests && began.elapsed() < Duration::from_mins(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (answered, failures) = load.end();
    terminate(&mut child);
    said.join().expect("it was heard");
    eprintln!("{restarts} restarts, {answered} requests answered, none for {longest:?} at most");
    assert_eq!(failures, Vec::<String>::new(), "of {answered}");
    assert!(answered >= requests, "only {answered}");
}
