//! Where connections come from: Unix sockets, proxies that say on whose behalf, and a server that runs out of descriptors.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Resource, getrlimit, prlimit};
use serde_json::json;

use crate::support::office::until;
use crate::support::{Connection, Desk, deadlines, example_site};

/// What a server with a quota of one a minute says to a submission on a connection that begins with `header`.
fn submit(desk: &Desk, header: &[u8], forwarded: &str, email: &str) -> Option<u16> {
    let mut connection = desk.connect();
    connection.send(header).expect("sent");
    let body = json!({ "email": email }).to_string();
    let headers = [("Content-Type", "application/json"), ("X-Forwarded-For", forwarded)];
    connection.request("POST", "/api/waitlist", &headers, body.as_bytes()).ok().map(|answer| answer.status)
}

#[test]
fn a_trusted_proxy_says_whose_a_connection_is() {
    let desk = Desk::with(
        &example_site(),
        &[
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
            ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
            ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ],
    );
    let of = |client: &str| format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\n").into_bytes();
    assert_eq!(submit(&desk, &of("192.0.2.7"), "203.0.113.1", "a@example.com"), Some(200));
    // What the client itself writes is not believed, once the proxy has said who he is.
    assert_eq!(submit(&desk, &of("192.0.2.7"), "203.0.113.2", "b@example.com"), Some(429));
    assert_eq!(submit(&desk, &of("192.0.2.8"), "203.0.113.2", "c@example.com"), Some(200));
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0, 80]);
    assert_eq!(submit(&desk, &v2, "", "d@example.com"), Some(429));
    // Without a header, or with half of one, nothing is answered.
    assert_eq!(submit(&desk, b"", "", "e@example.com"), None);
    assert_eq!(submit(&desk, b"PROXY TCP4 192.0.2.9\r\n", "", "f@example.com"), None);
    desk.expect(2);
}

#[test]
fn a_stranger_cannot_speak_for_others() {
    let desk = Desk::with(
        &example_site(),
        &[
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "192.0.2.1"),
            ("FRONTDESK_SERVER__PROXY_PROTOCOL", "true"),
            ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ],
    );
    let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n";
    assert_ne!(submit(&desk, header, "", "a@example.com"), Some(200), "it is no HTTP");
    assert_eq!(submit(&desk, b"", "203.0.113.1", "b@example.com"), Some(200));
    assert_eq!(submit(&desk, b"", "203.0.113.2", "c@example.com"), Some(429));
    desk.expect(1);
}

#[test]
fn a_proxy_of_this_machine_comes_by_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    // What a killed server has left must not be in the way.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("it can be bound"));
    let listen = format!("127.0.0.1:0,unix:{}", path.display());
    let desk = Desk::serving(
        &example_site(),
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
    assert_eq!(desk.get("/", &[]).status, 200, "and by TCP as before");
    desk.expect(2);
}

#[test]
fn without_descriptors_whoever_comes_is_shown_out_and_later_let_in_again() {
    let desk = Desk::with(&example_site(), &deadlines(&[("FRONTDESK_SERVER__WORKERS", "1")]));
    assert_eq!(desk.get("/", &[]).status, 200);
    let pid = Pid::from_raw(i32::try_from(desk.pid()).expect("a process id")).expect("a process");
    let used = std::fs::read_dir(format!("/proc/{}/fd", desk.pid())).expect("it runs").count() as u64;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(used + 10);
    prlimit(Some(pid), Resource::Nofile, limit).expect("it may be lowered");
    let mut held: Vec<Connection> = (0..40).filter_map(|_| Connection::try_open(desk.address).ok()).collect();
    // The server closes connections for which it has no descriptor; no deadline would close them.
    let shown_out = held.iter_mut().rev().take(5).filter_map(|connection| connection.rest().ok()).count();
    assert_eq!(shown_out, 5);
    drop(held);
    let answered = || Connection::try_open(desk.address)?.request("GET", "/", &[], b"");
    until(|| answered().ok().filter(|answer| answer.status == 200)).expect("others are let in again");
}
