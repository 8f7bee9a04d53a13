//! HTTP/2 with prior knowledge: the same responses as over HTTP/1.1, its own deadlines, and floods of frames.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, Http2, PING, PREFACE,
    PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, header,
};
use crate::support::{
    Answer, Connection, NO_DEADLINES, PATIENCE, TestServer, deadlines, in_ten_attempts, small_site,
};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// `:status: 200` in the static table (RFC 7541, appendix A).
const OK: u8 = 0x88;

/// A request's method, target, headers and body, and the expected status.
type Asked<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a [u8], u16);

// Each test shortens only the deadline that it tests, so that nothing else closes a connection, even on a
// busy machine.
const HEADER_TIMEOUT: (&str, &str) = ("FRONTDESK_SERVER__HEADER_TIMEOUT", "1s");
const BODY_TIMEOUT: (&str, &str) = ("FRONTDESK_SERVER__BODY_TIMEOUT", "1s");
const IDLE_TIMEOUT: (&str, &str) = ("FRONTDESK_SERVER__IDLE_TIMEOUT", "1s");

#[test]
fn both_versions_give_the_same_answers() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.connect(), Http2::open(server.address));
    let etag = server.get("/developers/", &[]).header("etag").expect("a validator").to_owned();
    let submission = br#"{"email":"ada@example.com"}"#;
    let long = format!(r#"{{"email":"{}"}}"#, "a".repeat(70_000));
    let requests: [Asked<'_>; _] = [
        ("GET", "/", vec![], b"", 200),
        ("GET", "/?from=elsewhere", vec![("Accept", "text/markdown")], b"", 200),
        ("GET", "/developers/", vec![("Accept", "text/markdown, text/html, */*")], b"", 200),
        ("GET", "/developers/", vec![("Accept", "text/html"), ("Accept-Encoding", "br, gzip")], b"", 200),
        ("GET", "/developers/", vec![("Accept-Encoding", "zstd")], b"", 200),
        ("GET", "/developers.md", vec![("Accept", "text/html")], b"", 200),
        ("GET", "/developers/", vec![("Accept", "application/json")], b"", 406),
        ("GET", "/developers/", vec![("If-None-Match", &etag)], b"", 304),
        ("GET", "/developers/", vec![("If-Match", &etag)], b"", 200),
        ("GET", "/developers/", vec![("If-Match", "\"a\""), ("If-None-Match", &etag)], b"", 412),
        ("HEAD", "/developers/", vec![], b"", 200),
        ("HEAD", "/developers/", vec![("Accept", "image/*")], b"", 406),
        ("HEAD", "/nope", vec![], b"", 404),
        ("GET", "/nope", vec![], b"", 404),
        ("GET", "/nope", vec![("Accept", "text/markdown")], b"", 404),
        ("GET", "/developers", vec![], b"", 308),
        ("GET", "/a//b", vec![], b"", 308),
        ("POST", "/a//b", vec![JSON], b"{}", 400),
        ("GET", "/%2e%2e/", vec![], b"", 400),
        ("DELETE", "/", vec![], b"", 405),
        ("POST", "/", vec![], b"{}", 405),
        ("GET", "/openapi.json", vec![], b"", 200),
        ("GET", "/llms.txt", vec![("TE", "trailers")], b"", 200),
        ("POST", "/api/waitlist", vec![JSON], submission, 200),
        ("POST", "/api/waitlist", vec![JSON], b"{}", 400),
        ("POST", "/api/waitlist", vec![JSON], b"{", 400),
        ("POST", "/api/waitlist", vec![], submission, 400),
        ("POST", "/api/waitlist", vec![JSON], long.as_bytes(), 413),
        ("GET", "/api/waitlist", vec![], b"", 405),
        ("HEAD", "/api/contact", vec![], b"", 405),
        ("OPTIONS", "/api/contact", vec![], b"", 405),
        ("GET", "/api/nope", vec![("Accept", "text/html")], b"", 404),
        ("POST", "/api/nope", vec![JSON], b"{}", 404),
    ];
    for (method, target, headers, body, status) in requests {
        let expected = one.request(method, target, &headers, body).expect("an answer");
        let answer = two
            .request(method, target, &headers, body)
            .unwrap_or_else(|error| panic!("{method} {target} {headers:?}: {error:?}"));
        assert_eq!(answer.status, status, "{method} {target} {headers:?}");
        let told = |answer: &Answer| {
            let mut headers = answer.headers.clone();
            headers.retain(|(name, _)| name != "date");
            headers.sort();
            (answer.status, headers, answer.body.clone())
        };
        assert_eq!(told(&answer), told(&expected), "{method} {target} {headers:?}");
        assert!(answer.header("date").is_some());
    }
    // The submissions over HTTP/1.1 and HTTP/2 are the same, so only one is stored.
    server.expect(1);
}

#[test]
fn every_page_is_negotiated_as_over_http_1() {
    let server = TestServer::with_example_site();
    let (mut one, mut two) = (server.connect(), Http2::open(server.address));
    let sitemap = server.get("/sitemap.xml", &[]);
    let base = format!("http://{}", server.address);
    let mut pages = 0;
    for part in sitemap.text().split("<loc>").skip(1) {
        let (address, _) = part.split_once("</loc>").expect("it is closed");
        let path = address.strip_prefix(&base).expect("it is on this site");
        for accept in ["text/html", "text/markdown", "*/*", "application/json", "text/html;q=0, */*"] {
            let expected = one.request("GET", path, &[("Accept", accept)], b"").expect("an answer");
            let answer = two.request("GET", path, &[("Accept", accept)], b"").expect("an answer");
            assert_eq!(answer.status, expected.status, "{path} {accept}");
            for name in ["content-type", "vary", "etag", "link", "content-length"] {
                assert_eq!(answer.header(name), expected.header(name), "{path} {accept} {name}");
            }
            assert_eq!(answer.body, expected.body, "{path} {accept}");
        }
        pages += 1;
    }
    assert!(pages > 15, "{pages}");
}

#[test]
fn a_sources_limit_is_the_same_over_every_protocol() {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__PER_MINUTE", "3")]);
    let mut client = Http2::open(server.address);
    let mut statuses = Vec::new();
    for number in 0..4 {
        let body = json!({ "email": format!("a{number}@example.com") }).to_string();
        let answer = client.request("POST", "/api/waitlist", &[JSON], body.as_bytes()).expect("an answer");
        assert!(answer.header("ratelimit").is_some());
        assert_eq!(answer.header("retry-after").is_some(), answer.status == 429);
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "b@example.com" })).status, 429);
    server.expect(3);
}

#[test]
fn a_request_names_one_host_over_http_2() {
    let server = TestServer::start();
    let mut client = Http2::open(server.address);
    // `:authority` is `www.example.com`.
    for (host, status) in [("www.example.com", 200), ("WWW.example.com", 200), ("www.example.net", 400)] {
        let answer = client.request("GET", "/", &[("Host", host)], b"").expect("an answer");
        assert_eq!(answer.status, status, "{host}");
    }
    // Without `:authority`, the Host header is used.
    let path = [0x82, 0x86, 0x84];
    let host = field("host", "www.example.com");
    for (block, is_ok) in [
        (path.to_vec(), false),
        ([&path[..], &host].concat(), true),
        ([&path[..], &host, &host].concat(), false),
    ] {
        let mut frames = Frames::open(server.address, &[]);
        frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)).expect("sent");
        let answer = frames.next_of(HEADERS).expect("an answer");
        assert_eq!(answer.payload[0] == OK, is_ok, "{block:?}");
    }
}

#[test]
fn a_target_that_is_no_path_gets_no_page() {
    let server = TestServer::start();
    for path in ["*", "http://www.example.com/", "//", "/%00", "/\\"] {
        let mut frames = Frames::open(server.address, &[]);
        frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header("GET", path))).expect("sent");
        let answer = std::iter::from_fn(|| frames.next())
            .find(|frame| frame.kind == HEADERS || frame.kind == RST_STREAM)
            .expect("a word");
        assert!(answer.kind == RST_STREAM || answer.payload[0] != OK, "{path}: {answer:?}");
    }
    // A client uses CONNECT to ask for a tunnel.
    let mut frames = Frames::open(server.address, &[]);
    let connect = [&[0x42, 7][..], b"CONNECT", &[0x01, 15], b"www.example.com"].concat();
    frames.send(&frame(HEADERS, END_HEADERS, 1, &connect)).expect("sent");
    let answer = frames.next_of(HEADERS).expect("an answer");
    assert_ne!(answer.payload[0], OK);
}

/// A client cannot push (RFC 9113 §8.4).
#[test]
fn a_push_promise_is_a_connection_error() {
    let server = TestServer::start();
    let mut frames = Frames::open(server.address, &[]);
    let promise = [&2_u32.to_be_bytes()[..], &header("GET", "/")].concat();
    frames.send(&frame(PUSH_PROMISE, END_HEADERS, 1, &promise)).expect("sent");
    let goodbye = frames.next_of(GOAWAY).expect("an answer");
    assert_eq!(goodbye.payload[4..8], [0, 0, 0, 1], "PROTOCOL_ERROR: {goodbye:?}");
    assert!(frames.is_closed());
}

#[test]
fn an_upgrade_from_http_1_is_not_taken_up() {
    let server = TestServer::start();
    let answer = server.get(
        "/",
        &[
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
        ],
    );
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("upgrade"), None);
}

#[test]
fn a_body_that_stalls_gets_408_over_http_2_and_others_go_on() {
    let server = TestServer::with(&small_site(), &deadlines(&[BODY_TIMEOUT]));
    let mut client = Http2::open(server.address);
    let answer = client.request_and_stall("/api/waitlist", &[JSON], b"{\"email\":").expect("an answer");
    assert_eq!(answer.status, 408);
    assert!(answer.json()["error"].is_string());
    assert_eq!(client.request("GET", "/", &[], b"").expect("the connection stays open").status, 200);
}

#[test]
fn an_unwanted_endless_body_is_abandoned_after_the_response() {
    let server = TestServer::start();
    let mut frames = Frames::open(server.address, &[]);
    frames.send(&frame(HEADERS, END_HEADERS, 1, &header("POST", "/"))).expect("sent");
    frames.send(&frame(DATA, 0, 1, &[b'x'; 1000])).expect("sent");
    let answer: Vec<_> =
        std::iter::from_fn(|| frames.next()).filter(|frame| frame.stream == 1).take(3).collect();
    let kinds: Vec<u8> = answer.iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [HEADERS, DATA, RST_STREAM], "{answer:?}");
    assert_eq!(answer[1].flags & END_STREAM, END_STREAM);
    // NO_ERROR: the answer is complete, and the client need not send the rest of the request (RFC 9113 §8.1).
    assert_eq!(answer[2].payload, [0; 4]);
    // Frames that were already in flight are not errors, and other requests continue.
    frames.send(&frame(DATA, END_STREAM, 1, &[b'x'; 1000])).expect("sent");
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &header("GET", "/"))).expect("sent");
    let next = frames.next_of(HEADERS).expect("an answer");
    assert_eq!((next.stream, next.payload[0]), (3, OK));
}

#[test]
fn a_sender_of_an_oversized_http2_body_gets_the_error() {
    let server = TestServer::start();
    let mut client = Http2::open(server.address);
    let long = vec![b' '; 2_000_000];
    // Some clients lose the answer if the stream is reset while they are still sending.
    let answer = client.request("POST", "/api/waitlist", &[JSON], &long).expect("an answer");
    assert_eq!(answer.status, 413);
    let answer = client.request("POST", "/", &[], &long).expect("an answer");
    assert_eq!(answer.status, 405);
}

#[test]
fn a_stopping_server_finishes_its_http2_requests() {
    let mut server = TestServer::with(&small_site(), &NO_DEADLINES);
    let mut idle = Http2::open(server.address);
    assert_eq!(idle.request("GET", "/", &[], b"").expect("an answer").status, 200);
    let mut busy = Frames::open(server.address, &[]);
    let post = [header("POST", "/api/waitlist"), field("content-type", "application/json")].concat();
    busy.send(&frame(HEADERS, END_HEADERS, 1, &post)).expect("sent");
    // A reply to the PING shows that the server has read the header, which was sent before the PING.
    busy.send(&frame(PING, 0, 0, &[7; 8])).expect("sent");
    assert_eq!(busy.next_of(PING).expect("an answer").payload, [7; 8]);
    let finisher = std::thread::spawn(move || {
        assert!(busy.next_of(GOAWAY).is_some(), "the server announces the shutdown");
        busy.send(&frame(DATA, END_STREAM, 1, br#"{"email":"late@example.com"}"#)).expect("sent");
        busy.next_of(HEADERS).expect("an answer").payload[0]
    });
    let (code, took) = server.terminate();
    assert_eq!(finisher.join().expect("it ends"), OK);
    assert_eq!(code, Some(0));
    // The idle timeout is an hour, so shutdown did not wait for the idle connection.
    assert!(took < PATIENCE, "{took:?}");
    server.expect(1);
}

#[test]
fn a_draining_server_sends_goaway_and_serves_new_http2_connections() {
    let mut server = TestServer::with(&small_site(), &deadlines(&[("FRONTDESK_SERVER__DRAIN", "1h")]));
    let mut before = Frames::open(server.address, &[]);
    before.send(&frame(PING, 0, 0, &[7; 8])).expect("sent");
    assert_eq!(before.next_of(PING).expect("an answer").payload, [7; 8]);
    server.signal(Signal::TERM);
    assert!(before.next_of(GOAWAY).is_some(), "the server announces the end of the connection");
    let mut meanwhile = Http2::open(server.address);
    for _ in 0..3 {
        assert_eq!(meanwhile.request("GET", "/", &[], b"").expect("an answer").status, 200);
    }
    let (code, took) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(took < PATIENCE, "{took:?}");
}

/// Whether the server closes the connection although the frames from `keep` are sent every 50 ms.
fn is_closed(mut frames: Frames, mut keep: impl FnMut() -> Vec<u8>) -> bool {
    let began = Instant::now();
    while frames.send(&keep()).is_ok() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

#[test]
fn only_a_request_extends_the_idle_deadline() {
    let server = TestServer::with(&small_site(), &deadlines(&[IDLE_TIMEOUT]));
    let open = || Frames::open(server.address, &[]);
    let mut silent = open();
    let goodbye = silent.next_of(GOAWAY).expect("a GOAWAY");
    assert_eq!(goodbye.payload[4..8], [0; 4], "NO_ERROR: {goodbye:?}");
    assert!(silent.is_closed(), "the connection is closed without further frames");

    let ping = || frame(PING, 0, 0, &[0; 8]);
    assert!(is_closed(open(), ping), "after PINGs alone");

    // On a busy machine the request may arrive more than a second after the preface, when the connection is
    // already closed.
    let answered = in_ten_attempts(|| {
        let mut answered = open();
        answered.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header("GET", "/"))).ok()?;
        assert_eq!(answered.next_of(HEADERS)?.payload[0], OK);
        Some(answered)
    });
    assert!(is_closed(answered, ping), "after an answer");

    let server = TestServer::with(&small_site(), &deadlines(&[HEADER_TIMEOUT]));
    let mut beginning = Frames::open(server.address, &[]);
    beginning.send(&frame(HEADERS, 0, 1, &header("GET", "/"))).expect("sent");
    assert!(is_closed(beginning, || frame(CONTINUATION, 0, 1, &field("x", "y"))), "in a header");
}

#[test]
fn a_client_that_does_not_open_its_window_is_closed() {
    let server = TestServer::with(&small_site(), &deadlines(&[("FRONTDESK_SERVER__IDLE_TIMEOUT", "4s")]));
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut frames = Frames::open(server.address, &[0, 4, 0, 0, 0, 0]);
    for stream in 0..100 {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, &header("GET", "/"));
        frames.send(&request).expect("sent");
    }
    assert_eq!(frames.next_of(HEADERS).expect("an answer").payload[0], OK);
    // The client never enlarges the window; it only shows that it is alive.
    assert!(is_closed(frames, || frame(PING, 0, 0, &[0; 8])));
    assert_eq!(server.get("/", &[]).status, 200);
}

#[test]
fn a_request_that_crosses_the_end_of_an_idle_connection_is_answered() {
    let server = TestServer::with(&small_site(), &deadlines(&[IDLE_TIMEOUT]));
    in_ten_attempts(|| {
        let mut frames = Frames::open(server.address, &[]);
        assert!(frames.next_of(GOAWAY).is_some(), "it was idle for too long");
        // For a second after its GOAWAY, the server still accepts requests, which the client may have sent
        // before the GOAWAY reached it.
        frames.send(&request(0, END_STREAM)).ok()?;
        assert_eq!(frames.next_of(HEADERS)?.payload[0], OK);
        Some(())
    });
}

/// The memory, in KiB, of a server that has processed a submission, and so has read the phrases of screening,
/// which it does in the background after its start.
fn resident_at_rest(server: &TestServer) -> u64 {
    if server.inbox().is_empty() {
        assert_eq!(server.post("/api/waitlist", &json!({ "email": "ada@example.com" })).status, 200);
        server.catch_up();
        server.expect(1);
    }
    resident(server.pid())
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has a VmRSS line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Requests pages continuously until `over`. Returns the number of requests and the slowest response time.
fn bystander(address: SocketAddr, over: Arc<AtomicBool>) -> std::thread::JoinHandle<(u32, Duration)> {
    std::thread::spawn(move || {
        let (mut asked, mut longest) = (0, Duration::ZERO);
        // At least one request, even if the flood is very short.
        while asked == 0 || !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = Connection::open(address).request("GET", "/", &[], b"").expect("an answer");
            assert_eq!(answer.status, 200);
            (asked, longest) = (asked + 1, longest.max(began.elapsed()));
        }
        (asked, longest)
    })
}

/// Sends `opening`, then repeatedly the result of `more`, until the server closes the connection. The server
/// must close it without growing by more than 32 MiB, and must keep serving others. No deadline closes it:
/// see [`NO_DEADLINES`].
fn flood(server: &TestServer, name: &str, opening: &[u8], mut more: impl FnMut(u32) -> Vec<u8>) {
    let before = resident_at_rest(server);
    let over = Arc::new(AtomicBool::new(false));
    let other = bystander(server.address, over.clone());
    let mut frames = Frames::open(server.address, &[]);
    let began = Instant::now();
    let (mut sent, mut most) = (0_usize, before);
    let mut open = frames.send(opening).is_ok();
    for number in 0.. {
        if !open || began.elapsed() > PATIENCE {
            break;
        }
        let bytes = more(number);
        sent += bytes.len();
        open = frames.send(&bytes).is_ok();
        if number % 64 == 0 {
            most = most.max(resident(server.pid()));
        }
    }
    let took = began.elapsed();
    most = most.max(resident(server.pid()));
    over.store(true, Ordering::Relaxed);
    let (asked, longest) = other.join().expect("other clients are served");
    eprintln!(
        "{name}: ended after {took:?} and {sent} bytes; memory +{} KiB; {asked} other requests, the longest {longest:?}",
        most - before
    );
    assert!(!open, "{name}: it went on for {took:?}");
    assert!(most - before <= 32 * 1024, "{name}: {before} KiB became {most} KiB");
    assert_eq!(server.get("/", &[]).status, 200, "{name}");
}

/// A request on stream `2 * number + 1`.
fn request(number: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, 2 * number + 1, &header("GET", "/"))
}

#[test]
fn floods_of_frames_that_mean_nothing_end_the_connection() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let post = frame(HEADERS, END_HEADERS, 1, &header("POST", "/api/waitlist"));
    let many = |frame: Vec<u8>| move |_| frame.repeat(64);
    flood(&server, "PING", &[], many(frame(PING, 0, 0, &[0; 8])));
    flood(&server, "PING with ACK", &[], many(frame(PING, ACK, 0, &[0; 8])));
    flood(&server, "SETTINGS", &[], many(frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])));
    flood(&server, "long SETTINGS", &[], many(frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0].repeat(2700))));
    flood(&server, "SETTINGS with ACK", &[], many(frame(SETTINGS, ACK, 0, &[])));
    flood(&server, "WINDOW_UPDATE", &[], many(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])));
    flood(&server, "PRIORITY", &[], many(frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 7])));
    flood(&server, "PRIORITY of ever more streams", &[], |number| {
        frame(PRIORITY, 0, 2 * number + 1, &(2 * number + 3).to_be_bytes()).into_iter().chain([7]).collect()
    });
    flood(&server, "PRIORITY on itself", &[], many(frame(PRIORITY, 0, 3, &[0, 0, 0, 3, 7])));
    flood(&server, "unknown frames", &[], many(frame(0x42, 0, 0, &[0; 10])));
    flood(&server, "empty DATA", &post, many(frame(DATA, 0, 1, &[])));
    flood(&server, "padded DATA", &post, many(frame(DATA, 8, 1, &[9; 10])));
    flood(&server, "DATA byte by byte", &post, many(frame(DATA, 0, 1, b" ")));
}

#[test]
fn floods_of_requests_that_are_given_up_end_the_connection() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let cancel = |number: u32| frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]);
    flood(&server, "rapid reset", &[], |number| [request(number, END_STREAM), cancel(number)].concat());
    flood(&server, "rapid reset of posts", &[], |number| {
        let post = frame(HEADERS, END_HEADERS, 2 * number + 1, &header("POST", "/api/waitlist"));
        [post, cancel(number)].concat()
    });
    flood(&server, "reset by an error", &[], |number| {
        // An increment of 0 makes the server reset the stream (RFC 9113 §6.9).
        [request(number, 0), frame(WINDOW_UPDATE, 0, 2 * number + 1, &[0; 4])].concat()
    });
    flood(&server, "more streams than are allowed", &[], |number| {
        frame(HEADERS, END_HEADERS, 2 * number + 1, &header("POST", "/api/waitlist"))
    });
    flood(&server, "requests without a path", &[], |number| {
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &[0x82, 0x86])
    });
    flood(&server, "a huge stream id", &[], |_| request((1 << 30) - 1, END_STREAM));
    flood(&server, "a stream id that was used", &request(5, END_STREAM), |_| request(1, END_STREAM));
    flood(&server, "frames on a closed stream", &[request(0, END_STREAM), cancel(0)].concat(), |_| {
        frame(DATA, 0, 1, &[b'x'; 100]).repeat(16)
    });
    flood(&server, "resets of a closed stream", &request(0, END_STREAM), |_| cancel(0).repeat(16));
}

#[test]
fn floods_of_headers_end_the_connection() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let begun = frame(HEADERS, 0, 1, &header("GET", "/"));
    let fragment = frame(CONTINUATION, 0, 1, &field("x-filler", &"x".repeat(1000)));
    flood(&server, "CONTINUATION", &begun, move |_| fragment.clone());
    let small = frame(CONTINUATION, 0, 1, &field("x", ""));
    flood(&server, "small CONTINUATION", &begun, move |_| small.clone());
    flood(&server, "empty CONTINUATION", &begun, |_| frame(CONTINUATION, 0, 1, &[]));
    flood(&server, "empty HEADERS", &[], |number| frame(HEADERS, END_HEADERS, 2 * number + 1, &[]));
    // A field of 4 KB enters the table once (RFC 7541 §6.2.1). After that, one byte refers to it, thousands
    // of times.
    let entry = [&[0x40, 1, b'x', 127, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    let first = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[header("GET", "/"), entry].concat());
    flood(&server, "header bomb", &first, |number| {
        let block = [header("GET", "/"), vec![0xbe; 16_000]].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 3, &block)
    });
    flood(&server, "headers over the limit", &[], |number| {
        let block = [header("GET", "/"), field("x-long", &"x".repeat(16_200))].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &block)
    });
    flood(&server, "fields without number", &[], |number| {
        let block = [header("GET", "/"), field("x", "").repeat(3000)].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &block)
    });
}

#[test]
fn a_window_that_is_opened_a_byte_at_a_time_ends_the_connection() {
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let before = resident_at_rest(&server);
    let mut frames = Frames::open(server.address, &[0, 4, 0, 0, 0, 0]);
    for number in 0..100 {
        frames.send(&request(number, END_STREAM)).expect("sent");
    }
    assert_eq!(frames.next_of(HEADERS).expect("an answer").payload[0], OK);
    let began = Instant::now();
    let mut number = 0;
    while frames.send(&frame(WINDOW_UPDATE, 0, 2 * (number % 100) + 1, &[0, 0, 0, 1])).is_ok() {
        number += 1;
        assert!(began.elapsed() < PATIENCE, "{number} single bytes were sent");
    }
    let grown = resident(server.pid()).saturating_sub(before);
    eprintln!("window by bytes: ended after {:?} and {number} frames; memory +{grown} KiB", began.elapsed());
    assert!(grown <= 32 * 1024, "{grown} KiB");
    assert_eq!(server.get("/", &[]).status, 200);
}

#[test]
fn a_connection_with_many_requests_costs_bounded_memory() {
    let server = TestServer::start();
    assert_eq!(server.get("/", &[]).status, 200);
    let before = resident_at_rest(&server);
    let mut frames = Frames::open(server.address, &[]);
    // The maximum number of concurrent requests. Each has the maximum number of header fields and sends
    // nearly the maximum length of a body, but never completes it.
    let head = [header("POST", "/api/waitlist"), field("content-type", "application/json")].concat();
    let block = [head, field("x", "").repeat(400)].concat();
    let body = frame(DATA, 0, 0, &[b' '; 15_000]);
    let mut window = 65_535;
    for number in 0..100 {
        let stream = 2 * number + 1;
        frames.send(&frame(HEADERS, END_HEADERS, stream, &block)).expect("sent");
        for _ in 0..4 {
            while window < 15_000 {
                let update = frames.next_of(WINDOW_UPDATE).expect("the server keeps reading");
                if update.stream == 0 {
                    let increment = update.payload.try_into().expect("four bytes");
                    window += u32::from_be_bytes(increment);
                }
            }
            window -= 15_000;
            let data = [&body[..5], &stream.to_be_bytes(), &body[9..]].concat();
            frames.send(&data).expect("sent");
        }
    }
    frames.send(&frame(PING, 0, 0, &[0; 8])).expect("sent");
    assert!(frames.next_of(PING).is_some(), "everything has been read, and the connection stays open");
    let grown = resident(server.pid()).saturating_sub(before);
    eprintln!("100 requests with 6 MB of bodies: memory +{grown} KiB");
    assert!(grown <= 32 * 1024, "{grown} KiB");
    assert_eq!(server.get("/", &[]).status, 200);
}

#[test]
fn a_fast_download_with_many_window_updates_is_not_a_flood() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(crate::support::frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    std::fs::write(site.join("assets/large.bin"), vec![7; 20 << 20]).expect("it can be written");
    let server = TestServer::with(&site, &[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let mut frames = Frames::open(server.address, &[]);
    let path = header("GET", "/assets/large.bin");
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &path)).expect("sent");
    let mut read = 0_usize;
    while let Some(received) = frames.next_of(DATA) {
        read += received.payload.len();
        if received.flags & END_STREAM != 0 {
            break;
        }
        // Enlarges both windows, the stream's and the connection's, after each frame, as simple clients do.
        let increment = u32::try_from(received.payload.len()).expect("it is short").to_be_bytes();
        let updates =
            [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, 1, &increment)].concat();
        frames.send(&updates).expect("sent");
    }
    assert_eq!(read, 20 << 20);
}

#[test]
fn a_browser_that_gives_up_a_page_is_left_alone() {
    let server = TestServer::start();
    let mut frames = Frames::open(server.address, &[]);
    // Opens a hundred pages and cancels them immediately, several times. Some answers are already being sent.
    for round in 0..3 {
        for number in 0..100 {
            frames.send(&request(100 * round + number, END_STREAM)).expect("sent");
        }
        frames.send(&frame(PING, 0, 0, &[0; 8])).expect("sent");
        assert!(frames.next_of(PING).is_some(), "the requests have been read");
        for number in 0..100 {
            let stream = 2 * (100 * round + number) + 1;
            frames.send(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).expect("sent");
        }
    }
    frames.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 64, 0, 0])).expect("sent");
    frames.send(&request(1000, END_STREAM)).expect("sent");
    let answer = std::iter::from_fn(|| frames.next_of(HEADERS)).find(|answer| answer.stream == 2001);
    assert_eq!(answer.expect("an answer").payload[0], OK);
}

#[test]
fn a_preface_that_comes_in_pieces_is_one() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for byte in PREFACE {
        connection.send(&[*byte]).expect("sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    connection.send(&frame(SETTINGS, 0, 0, &[])).expect("sent");
    connection.send(&request(0, END_STREAM)).expect("sent");
    connection.send(&frame(GOAWAY, 0, 0, &[0; 8])).expect("sent");
    let said = connection.rest().expect("the server closes when it has answered");
    // The server's SETTINGS come first.
    assert_eq!(said[3], SETTINGS);
    assert!(said.windows(15).any(|bytes| bytes == b"<!doctype html>"), "the page is there");
}
