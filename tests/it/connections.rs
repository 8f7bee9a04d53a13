//! Connections: the deadline of each phase, limits, the operations address, and graceful shutdown.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::channel_site::until;
use crate::support::port::Port;
use crate::support::{
    Connection, NO_DEADLINES, PATIENCE, TestServer, deadlines, in_ten_attempts, small_site,
};

// Each test shortens only the deadline that it tests, so that nothing else closes a connection, even on a
// busy machine.
const FIRST_BYTE: (&str, &str) = ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "1s");
const HEADER: (&str, &str) = ("FRONTDESK_SERVER__HEADER_TIMEOUT", "1s");
const BODY: (&str, &str) = ("FRONTDESK_SERVER__BODY_TIMEOUT", "1s");
const IDLE: (&str, &str) = ("FRONTDESK_SERVER__IDLE_TIMEOUT", "1s");

/// Asserts that the server closes the connection without sending anything.
fn assert_closed(connection: &mut Connection) {
    match connection.rest() {
        Ok(rest) => assert_eq!(rest, b"", "nothing is sent"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn a_silent_or_slow_connection_is_closed() {
    let server = TestServer::with(&small_site(), &deadlines(&[FIRST_BYTE, HEADER]));
    for beginning in ["", "G", "GET / HTTP/1.1\r\nHost: x\r\n", "PRI * HTT"] {
        let mut connection = server.connect();
        // The server may have closed the connection already.
        let _ = connection.send(beginning.as_bytes());
        assert_closed(&mut connection);
    }
}

#[test]
fn a_slow_header_is_cut_off_in_spite_of_further_bytes() {
    let server = TestServer::with(&small_site(), &deadlines(&[HEADER]));
    let mut connection = server.connect();
    let began = Instant::now();
    let mut open = connection.send(b"GET / HTTP/1.1\r\n").is_ok();
    while open && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(200));
        open = connection.send(b"X-A: b\r\n").is_ok();
    }
    assert!(!open, "each byte must not buy more time");
}

#[test]
fn a_body_that_stalls_gets_408_and_nothing_is_kept() {
    let server = TestServer::with(&small_site(), &deadlines(&[BODY]));
    let mut connection = server.connect();
    let head = "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"email\":";
    connection.send(head.as_bytes()).expect("sent");
    let answer = connection.answer(false).expect("an answer");
    assert_eq!(answer.status, 408);
    assert!(answer.json()["error"].is_string());
    assert!(connection.rest().is_ok_and(|rest| rest.is_empty()), "the connection is closed");
}

#[test]
fn an_idle_connection_is_kept_for_a_while_and_then_closed() {
    let server = TestServer::with(&small_site(), &deadlines(&[("FRONTDESK_SERVER__IDLE_TIMEOUT", "4s")]));
    let mut connection = server.connect();
    // The pauses are longer than the deadline in total, but each is far shorter.
    for _ in 0..3 {
        assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
    assert_closed(&mut connection);
}

#[test]
fn a_later_request_must_be_as_quick_as_the_first() {
    let server = TestServer::with(&small_site(), &deadlines(&[HEADER]));
    let mut connection = server.connect();
    assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
    connection.send(b"GET / HTTP/1.1\r\nX-").expect("sent");
    assert_closed(&mut connection);
}

#[test]
fn a_client_that_does_not_read_its_answer_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(crate::support::frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    std::fs::write(site.join("assets/large.bin"), vec![7; 40 << 20]).expect("it can be written");
    let server = TestServer::with(&site, &deadlines(&[("FRONTDESK_SERVER__IDLE_TIMEOUT", "3s")]));
    // One client reads nothing, the other everything.
    let mut idle = server.connect();
    idle.send(b"GET /assets/large.bin HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let whole = server.get("/assets/large.bin", &[]);
    assert_eq!(whole.body.len(), 40 << 20);
    until(|| (shed_for_idling(&server) == 1).then_some(())).expect("it is closed");
    let read = match idle.rest() {
        Ok(rest) => rest.len(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            0
        }
    };
    assert!(read < 40 << 20, "the response was cut off");
}

/// The number of connections that were closed because they were idle for too long.
fn shed_for_idling(server: &TestServer) -> usize {
    let metrics = server.ops("/metrics");
    let name = "frontdesk_connections_shed_total{reason=\"idle\"} ";
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|count| count.parse().ok()).expect("it is counted")
}

#[test]
fn a_client_that_half_closes_still_gets_its_response() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let body = json!({ "email": "half@example.com" }).to_string();
    let head = format!(
        "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(head.as_bytes()).expect("sent");
    connection.close_writing();
    assert_eq!(connection.answer(false).expect("an answer").status, 200);
    server.expect(1);
}

#[test]
fn an_unread_standard_error_does_not_stop_the_server() {
    let mut server = TestServer::start();
    server.close_stderr();
    // Each of these failures would be logged to standard error.
    let away = server.data_dir().with_extension("away");
    std::fs::rename(server.data_dir(), &away).expect("it can be moved");
    std::fs::write(server.data_dir(), "no folder").expect("something else stands there");
    for number in 0..5 {
        assert_eq!(
            server.post("/api/waitlist", &json!({ "email": format!("a{number}@example.com") })).status,
            500
        );
    }
    assert_eq!(server.get("/", &[]).status, 200);
    std::fs::remove_file(server.data_dir()).expect("it can be removed");
    std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
    let (code, _) = server.terminate();
    assert_eq!(code, Some(0));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = TestServer::start();
    let mut connection = server.connect();
    // More requests than the server answers on one connection before it serves others.
    let paths = ["/nope", "/", "/llms.txt", "/none"].repeat(10);
    let requests: String =
        paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    connection.send(requests.as_bytes()).expect("sent");
    let statuses: Vec<u16> =
        paths.iter().map(|_| connection.answer(false).expect("an answer").status).collect();
    assert_eq!(statuses, [404, 200, 200, 404].repeat(10));
}

#[test]
fn a_request_must_name_its_host_once() {
    let server = TestServer::start();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    ] {
        let mut connection = server.connect();
        connection.send(request.as_bytes()).expect("sent");
        assert_eq!(connection.answer(false).expect("an answer").status, status, "{request:?}");
    }
}

#[test]
fn a_header_that_is_too_long_is_refused() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let long = "x".repeat(20_000);
    let answer = connection.request("GET", "/", &[("X-Long", &long)], b"").expect("an answer");
    assert_eq!(answer.status, 431);
}

#[test]
fn one_source_cannot_take_all_connections() {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "3")]);
    let mut held: Vec<Connection> = (0..3)
        .map(|_| {
            let mut connection = server.connect();
            assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
            connection
        })
        .collect();
    assert!(server.connect().request("GET", "/", &[], b"").is_err(), "the fourth is closed");
    drop(held.pop());
    let is_let_in = || server.connect().request("GET", "/", &[], b"").ok();
    until(is_let_in).expect("a closed connection makes room for another");
    drop(held);
}

#[test]
fn the_private_address_reports_liveness_and_readiness() {
    let server = TestServer::start();
    assert_eq!(server.ops("/livez").status, 200);
    assert_eq!(server.ops("/readyz").status, 200);
    assert_eq!(server.ops("/").status, 404);
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(server.get(path, &[]).status, 404, "{path} is not public");
    }
}

#[test]
fn a_stopping_server_finishes_its_requests() {
    // The port stays reserved, so no other program listens there after the server has stopped.
    let port = Port::reserve();
    let folder = tempfile::tempdir().expect("a folder");
    let (data, address) = (folder.path().join("data"), port.address());
    let listen = ["--listen", &address.to_string()];
    let mut server = TestServer::serving(&small_site(), &data, &listen, &NO_DEADLINES);
    // Shutdown must not wait for an idle connection but must let a request in progress finish.
    let mut idle = server.connect();
    assert_eq!(idle.request("GET", "/", &[], b"").expect("an answer").status, 200);
    let mut busy = server.connect();
    let body = json!({ "email": "late@example.com" }).to_string();
    let head = format!(
        "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    busy.send(head.as_bytes()).expect("sent");
    assert_eq!(busy.answer(false).expect("it waits for the body").status, 100);
    let ops = server.ops;
    let finisher = std::thread::spawn(move || {
        // Meanwhile, new connections are refused, and `/readyz` on the operations address returns 503.
        let connect = || std::net::TcpStream::connect(address).err();
        let is_refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        until(|| connect().filter(is_refused)).expect("the socket is closed");
        let ready = Connection::open(ops).request("GET", "/readyz", &[], b"").expect("it still answers");
        assert_eq!(ready.status, 503);
        busy.send(body.as_bytes()).expect("sent");
        busy.answer(false).expect("an answer").status
    });
    let (code, took) = server.terminate();
    assert_eq!(finisher.join().expect("it ends"), 200);
    assert_eq!(code, Some(0));
    // The idle timeout is an hour, so shutdown did not wait for the idle connection.
    assert!(took < PATIENCE, "{took:?}");
    server.expect(1);
}

#[test]
fn a_response_during_the_stop_closes_the_connection() {
    in_ten_attempts(|| {
        let mut server = TestServer::start();
        let mut asked = server.connect();
        assert_eq!(asked.request("GET", "/", &[], b"").expect("an answer").header("connection"), None);
        let mut silent = server.connect();
        let ops = server.ops;
        let late = std::thread::spawn(move || {
            let is_stopping = || {
                let ready = Connection::try_open(ops)
                    .and_then(|mut connection| connection.request("GET", "/readyz", &[], b""));
                // The server may already have ended.
                ready.map_or(true, |ready| ready.status == 503).then_some(())
            };
            until(is_stopping).expect("it says so");
            // A connection that is waiting for a request stays open for another second.
            [&mut asked, &mut silent].map(|connection| {
                let answer = connection.request("GET", "/", &[], b"").ok()?;
                Some((answer.status, answer.header("connection").map(str::to_owned)))
            })
        });
        let (code, _) = server.terminate();
        assert_eq!(code, Some(0));
        let last = (200, Some("close".to_owned()));
        let [Some(asked), Some(silent)] = late.join().expect("it ends") else { return None };
        assert_eq!([asked, silent], [last.clone(), last]);
        Some(())
    });
}

#[test]
fn a_draining_server_accepts_connections_and_announces_their_close() {
    // Only a second signal ends the server, not a timeout.
    let mut server = TestServer::with(&small_site(), &deadlines(&[("FRONTDESK_SERVER__DRAIN", "1h")]));
    let last = (200, Some("close".to_owned()));
    let ask = |connection: &mut Connection| {
        let answer = connection.request("GET", "/", &[], b"").expect("an answer");
        (answer.status, answer.header("connection").map(str::to_owned))
    };
    let mut kept = server.connect();
    assert_eq!(ask(&mut kept), (200, None));
    let mut idle = server.connect();
    assert_eq!(ask(&mut idle), (200, None));
    assert_eq!(["/readyz", "/readyz?exclude=store"].map(|path| server.ops(path).status), [200; 2]);
    server.signal(Signal::TERM);
    assert!(until(|| (server.ops("/readyz").status == 503).then_some(())).is_some());
    assert_eq!(["/readyz?exclude=store", "/livez"].map(|path| server.ops(path).status), [503, 200]);
    assert_eq!(ask(&mut kept), last);
    assert_eq!(kept.rest().expect("it is closed"), b"");
    // While the server is draining, an idle connection stays open for longer than the second that it would
    // have after the sockets close.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(ask(&mut idle), last);
    assert_eq!(ask(&mut server.connect()), last);
    let post = server.post("/api/waitlist", &json!({ "email": "late@example.com" }));
    assert_eq!((post.status, post.header("connection")), (200, Some("close")));
    assert!(!server.has_ended());
    let (code, took) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(took < PATIENCE, "{took:?}");
    server.expect(1);
}

/// The number of connections that wait to be accepted at a port of the IPv4 loopback address.
fn queue_length(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the kernel lists sockets");
    let local = format!("0100007F:{port:04X}");
    // Local address, remote address, state (0A: listening), and `tx_queue:rx_queue`.
    let queues = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[1] == local && fields[3] == "0A").then(|| fields[4].split_once(':').expect("two numbers").1)
    });
    queues.map(|queue| usize::from_str_radix(queue, 16).expect("a number")).sum()
}

#[test]
fn queued_connections_are_served_before_the_socket_closes() {
    let mut server = TestServer::with(&small_site(), &[("FRONTDESK_SERVER__WORKERS", "1")]);
    server.get("/", &[]);
    // While the server is stopped, the kernel still accepts connections into its queue.
    server.pause();
    let mut waiting: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    for connection in &mut waiting {
        connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    }
    assert!(until(|| (queue_length(server.address.port()) == 100).then_some(())).is_some());
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    for connection in &mut waiting {
        assert_eq!(connection.answer(false).expect("an answer").status, 200);
    }
    assert!(until(|| server.has_ended().then_some(())).is_some());
}

#[test]
fn the_drain_time_is_configurable() {
    let mut server = TestServer::with(&small_site(), &[("FRONTDESK_SERVER__DRAIN", "2s")]);
    let (code, took) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_client_idle_after_many_requests_is_closed_like_any_other() {
    let server = TestServer::with(&small_site(), &deadlines(&[IDLE]));
    for count in [100, 150, 300] {
        let mut connection = server.connect();
        connection.send("HEAD / HTTP/1.1\r\nHost:a\r\n\r\n".repeat(count).as_bytes()).expect("sent");
        for _ in 0..count {
            assert_eq!(connection.answer(true).expect("an answer").status, 200);
        }
        assert_closed(&mut connection);
    }
}
