//! Clients that make the server hold memory: the connections that hold the most are closed, and other
//! visitors are served.

use serde_json::json;

use super::many_connections::{connect_from, metric};
use crate::support::channel_site::until;
use crate::support::http2::{DATA, END_HEADERS, Frames, HEADERS, PING, SETTINGS, field, frame, header};
use crate::support::{Connection, NO_DEADLINES, TestServer, small_site};

const MEBIBYTE: usize = 1 << 20;

/// The metric for connections that were closed because memory was short.
const SHED: &str = r#"frontdesk_connections_shed_total{reason="memory"}"#;
const HELD: &str = "frontdesk_connections_memory_bytes";
const RESIDENT: &str = "process_resident_memory_bytes";

/// The maximum number of connections that the attacker opens. Each holds 7 MB (measured with the unoptimised
/// binary).
const MOST_ATTACKS: usize = 60;

/// How much more memory the server may use than it does at rest.
const ROOM: usize = 96 * MEBIBYTE;

/// An HTTP/2 connection from another address of this machine.
fn http2_from(server: &TestServer, source: [u8; 4]) -> Frames {
    Frames::over(connect_from(source, server.address), &[])
}

/// Sends a hundred requests with many header fields and incomplete bodies. Returns `None` if the server has
/// closed the connection.
fn attack(server: &TestServer) -> Option<Frames> {
    let mut frames = http2_from(server, [127, 0, 1, 1]);
    let fields: Vec<Vec<u8>> = (0..400).map(|number| field(&format!("x{number}"), "")).collect();
    let block = [header("POST", "/api/waitlist"), field("content-type", "application/json"), fields.concat()];
    let block = block.concat();
    for number in 0..100 {
        let stream = 2 * number + 1;
        let request = [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, 0, stream, &[b' '; 600])];
        frames.send(&request.concat()).ok()?;
    }
    answers_ping(&mut frames).then_some(frames)
}

fn answers_ping(frames: &mut Frames) -> bool {
    frames.send(&frame(PING, 0, 0, &[0; 8])).is_ok() && frames.next_of(PING).is_some()
}

#[test]
fn the_source_with_the_most_memory_is_shed_and_others_are_served() {
    let at_rest = metric(&TestServer::start(), RESIDENT);
    let limit = at_rest + ROOM;
    let limit_text = format!("{limit}B");
    let options = [&NO_DEADLINES[..], &[("FRONTDESK_SERVER__MAX_MEMORY", &*limit_text)]].concat();
    let server = TestServer::with(&small_site(), &options);
    assert_eq!(metric(&server, "frontdesk_max_memory_bytes"), limit);
    let mut visitor = Connection::over(connect_from([127, 0, 2, 1], server.address));
    let mut browser = http2_from(&server, [127, 0, 2, 2]);
    assert!(browser.next_of(SETTINGS).is_some());
    let mut sent = 0;
    let mut submit = || {
        let body = json!({ "email": format!("ada{sent}@example.com") }).to_string();
        sent += 1;
        let answer = visitor
            .request("POST", "/api/waitlist", &[("Content-Type", "application/json")], body.as_bytes())
            .expect("an answer");
        assert_eq!(answer.status, 200, "submission {sent}");
    };
    let mut crowd = Vec::new();
    let mut attacks = 0;
    while attacks < MOST_ATTACKS {
        attacks += 1;
        crowd.extend(attack(&server));
        submit();
        if metric(&server, SHED) > 0 {
            break;
        }
    }
    until(|| (metric(&server, SHED) > 0).then_some(())).expect("the attacker's connections are closed");
    until(|| (metric(&server, RESIDENT) <= limit).then_some(())).expect("memory is below the limit");
    let held = metric(&server, HELD);
    assert!(held <= limit, "{held}");
    submit();
    assert!(answers_ping(&mut browser), "another source's connection stays open");
    let closed = metric(&server, SHED);
    assert!(closed <= attacks, "{closed} connections were closed, but the attacker had only {attacks}");
    super::cost::row(
        "reach the memory limit",
        "one IPv4 address",
        &format!(
            "no: {closed} of {attacks} connections with a hundred large requests each are closed, and others are served"
        ),
    );
    let warnings = || server.log().matches("memory has nearly reached `server.max_memory`").count();
    // The server writes its log behind the responses.
    until(|| (warnings() > 0).then_some(())).expect("a warning");
    assert_eq!(warnings(), 1, "{}", server.log());
    drop(crowd);
    until(|| (metric(&server, HELD) < MEBIBYTE).then_some(())).expect("what was charged is returned");
    server.expect(sent);
}

#[test]
fn memory_of_connections_is_charged_and_returned() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let holds = |least: usize, most: usize| {
        let is_it = || (least..=most).contains(&metric(&server, HELD));
        until(|| is_it().then_some(())).unwrap_or_else(|| panic!("{} bytes are held", metric(&server, HELD)));
    };
    holds(0, 0);
    // An idle connection, the beginning of a form of 60,000 bytes over HTTP/1.1, and a hundred forms over
    // HTTP/2.
    let idle = server.connect();
    holds(1, 64 * 1024);
    let mut form = connect_from([127, 0, 0, 1], server.address);
    let head = "POST /api/waitlist HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 60001\r\n\r\n";
    let beginning = [head.as_bytes(), &vec![b' '; 60_000]].concat();
    std::io::Write::write_all(&mut form, &beginning).expect("sent");
    holds(60_000, 256 * 1024);
    let forms = attack(&server).expect("it is served");
    holds(4 * MEBIBYTE, 16 * MEBIBYTE);
    drop(forms);
    holds(60_000, 256 * 1024);
    drop(form);
    holds(1, 64 * 1024);
    drop(idle);
    holds(0, 0);
}

#[test]
fn connections_are_not_closed_where_the_site_takes_the_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(crate::support::frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    std::fs::create_dir_all(site.join("static")).expect("a folder");
    std::fs::write(site.join("static/large.woff2"), vec![b'x'; 80 * MEBIBYTE]).expect("it can be written");
    let options = [&NO_DEADLINES[..], &[("FRONTDESK_SERVER__MAX_MEMORY", "64MiB")]].concat();
    let server = TestServer::with(&site, &options);
    let mut visitors: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    let mut get = || {
        for visitor in &mut visitors {
            assert_eq!(visitor.request("GET", "/", &[], b"").expect("an answer").status, 200);
        }
    };
    get();
    let is_told = || server.log().contains("is less than this server needs for its site");
    until(|| is_told().then_some(())).expect("the start warns");
    let is_told = || server.log().contains("connections hold little of it, so none are closed");
    until(|| is_told().then_some(())).expect("the log says why none is closed");
    get();
    assert_eq!(metric(&server, SHED), 0);
}
