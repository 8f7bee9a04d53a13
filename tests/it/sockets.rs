//! Connections over Unix sockets, from proxies that report the client, and to a server that runs out of file
//! descriptors.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Resource, getrlimit, prlimit};
use serde_json::json;

use crate::support::channel_site::until;
use crate::support::{Connection, TestServer, deadlines, small_site};

/// Sends a submission on a connection that begins with `header`. Returns the response's status, or `None` if
/// the connection is closed.
fn submit(server: &TestServer, header: &[u8], forwarded: &str, email: &str) -> Option<u16> {
    let mut connection = server.connect();
    connection.send(header).expect("sent");
    let body = json!({ "email": email }).to_string();
    let headers = [("Content-Type", "application/json"), ("X-Forwarded-For", forwarded)];
    connection.request("POST", "/api/waitlist", &headers, body.as_bytes()).ok().map(|answer| answer.status)
}

#[test]
fn a_trusted_proxy_names_the_client_of_a_connection() {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
            ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
            ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ],
    );
    let of = |client: &str| format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\n").into_bytes();
    assert_eq!(submit(&server, &of("192.0.2.7"), "203.0.113.1", "a@example.com"), Some(200));
    // The client's own header is ignored once the proxy has named the client.
    assert_eq!(submit(&server, &of("192.0.2.7"), "203.0.113.2", "b@example.com"), Some(429));
    assert_eq!(submit(&server, &of("192.0.2.8"), "203.0.113.2", "c@example.com"), Some(200));
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0, 80]);
    assert_eq!(submit(&server, &v2, "", "d@example.com"), Some(429));
    // Without a complete header there is no answer.
    assert_eq!(submit(&server, b"", "", "e@example.com"), None);
    assert_eq!(submit(&server, b"PROXY TCP4 192.0.2.9\r\n", "", "f@example.com"), None);
    server.expect(2);
}

/// PROXY headers without a client: versions 1 and 2, with and without meaningless addresses.
fn headers_without_a_client() -> Vec<Vec<u8>> {
    let version_2 = |command: u8, family: u8, addresses: &[u8]| {
        let length = u16::try_from(addresses.len()).expect("it is short").to_be_bytes();
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | command, family], &length, addresses].concat()
    };
    let addresses = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0, 80];
    vec![
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 192.0.2.7 198.51.100.1 4711 80\r\n".to_vec(),
        version_2(0, 0x00, &[]),
        version_2(0, 0x11, &addresses),
        version_2(1, 0x00, &[]),
        version_2(1, 0x31, &[b'x'; 216]),
    ]
}

#[test]
fn headers_are_ignored_where_the_proxy_names_no_client() {
    for header in ["x-forwarded-for", "forwarded"] {
        let server = TestServer::with(
            &small_site(),
            &[
                ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
                ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
                ("FRONTDESK_SERVER__FORWARDED_HEADER", header),
                ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
            ],
        );
        let mut number = 0;
        let mut post = |connection: &mut Connection, client: &str| {
            number += 1;
            let body = json!({ "email": format!("{number}@example.com") }).to_string();
            let forwarded = format!("for={client}");
            let headers = [
                ("Content-Type", "application/json"),
                ("X-Forwarded-For", client),
                ("Forwarded", forwarded.as_str()),
            ];
            let answer = connection.request("POST", "/api/waitlist", &headers, body.as_bytes());
            answer.expect("an answer").status
        };
        let begin = |proxy: &[u8]| {
            let mut connection = server.connect();
            connection.send(proxy).expect("sent");
            connection
        };
        // All of these submissions count for the proxy, whose quota is exhausted after the first.
        let mut is_first = true;
        for proxy in headers_without_a_client() {
            let mut connection = begin(&proxy);
            for client in ["203.0.113.1", "203.0.113.2"] {
                let expected = if std::mem::take(&mut is_first) { 200 } else { 429 };
                let found = post(&mut connection, client);
                assert_eq!(found, expected, "{header} {client} behind {}", proxy.escape_ascii());
            }
            assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
        }
        // The quotas of the addresses in those headers are unused.
        for client in ["192.0.2.7", "203.0.113.1", "203.0.113.2"] {
            let named = format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\n");
            assert_eq!(post(&mut begin(named.as_bytes()), "203.0.113.3"), 200, "{header} {client}");
        }
        server.expect(4);
    }
}

#[test]
fn a_request_id_is_ignored_where_the_proxy_names_no_client() {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
            ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
            ("FRONTDESK_LOG__REQUESTS", "true"),
        ],
    );
    for (number, proxy) in headers_without_a_client().into_iter().enumerate() {
        let mut connection = server.connect();
        connection.send(&proxy).expect("sent");
        for path in ["/", "/api/contact"] {
            let forged = format!("forged-{number}");
            connection.request("GET", path, &[("X-Request-Id", &forged)], b"").expect("an answer");
        }
    }
    // If the reported client is itself a trusted proxy, its header counts.
    let mut connection = server.connect();
    connection.send(b"PROXY TCP4 127.0.0.1 198.51.100.1 4711 80\r\n").expect("sent");
    connection.request("GET", "/", &[("X-Request-Id", "of-a-proxy")], b"").expect("an answer");
    let log = until(|| {
        let log = server.log();
        log.contains("of-a-proxy").then_some(log)
    });
    let log = log.expect("the request is in the log");
    assert!(!log.contains("forged-"), "{log}");
    assert!(log.matches("/api/contact").count() >= headers_without_a_client().len(), "{log}");
}

#[test]
fn headers_are_ignored_over_a_unix_socket_without_a_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    let listen = format!("127.0.0.1:0,unix:{}", path.display());
    let server = TestServer::serving(
        &small_site(),
        &folder.path().join("data"),
        &["--listen", &listen],
        &[("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"), ("FRONTDESK_LIMITS__PER_MINUTE", "1")],
    );
    let submit = |client: &str, email: &str| {
        let mut connection = Connection::over(UnixStream::connect(&path).expect("it listens"));
        connection.send(b"PROXY UNKNOWN\r\n").expect("sent");
        let headers = [("Content-Type", "application/json"), ("X-Forwarded-For", client)];
        let body = json!({ "email": email }).to_string();
        connection.request("POST", "/api/waitlist", &headers, body.as_bytes()).expect("an answer").status
    };
    assert_eq!(submit("192.0.2.7", "a@example.com"), 200);
    assert_eq!(submit("192.0.2.8", "b@example.com"), 429);
    server.expect(1);
}

#[test]
fn an_untrusted_client_cannot_set_a_source_address() {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "192.0.2.1"),
            ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
            ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ],
    );
    let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n";
    assert_ne!(submit(&server, header, "", "a@example.com"), Some(200), "it is not HTTP");
    assert_eq!(submit(&server, b"", "203.0.113.1", "b@example.com"), Some(200));
    assert_eq!(submit(&server, b"", "203.0.113.2", "c@example.com"), Some(429));
    server.expect(1);
}

#[test]
fn a_local_proxy_connects_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    // The socket file of a killed server must not prevent a start.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("it can be bound"));
    let listen = format!("127.0.0.1:0,unix:{}", path.display());
    let server = TestServer::serving(
        &small_site(),
        &folder.path().join("data"),
        &["--listen", &listen],
        &[("FRONTDESK_LIMITS__PER_MINUTE", "1")],
    );
    let submit = |client: &str, email: &str| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        let body = json!({ "email": email }).to_string();
        let length = body.len();
        write!(
            stream,
            "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nX-Forwarded-For: {client}\r\n\r\n{body}"
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok())
    };
    assert_eq!(submit("192.0.2.7", "a@example.com"), Some(200));
    assert_eq!(submit("192.0.2.7", "b@example.com"), Some(429));
    assert_eq!(submit("192.0.2.8", "c@example.com"), Some(200));
    assert_eq!(server.get("/", &[]).status, 200, "and by TCP as before");
    server.expect(2);
}

#[test]
fn without_descriptors_new_clients_are_closed_until_some_are_free() {
    let server = TestServer::with(&small_site(), &deadlines(&[("FRONTDESK_SERVER__WORKERS", "1")]));
    assert_eq!(server.get("/", &[]).status, 200);
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a process id")).expect("a process");
    let used = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count() as u64;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(used + 10);
    prlimit(Some(pid), Resource::Nofile, limit).expect("it may be lowered");
    let mut held: Vec<Connection> =
        (0..40).filter_map(|_| Connection::try_open(server.address).ok()).collect();
    // The server closes connections for which it has no descriptor. No deadline closes them here.
    let shown_out = held.iter_mut().rev().take(5).filter_map(|connection| connection.rest().ok()).count();
    assert_eq!(shown_out, 5);
    drop(held);
    let answered = || Connection::try_open(server.address)?.request("GET", "/", &[], b"");
    until(|| answered().ok().filter(|answer| answer.status == 200)).expect("others are let in again");
}
