//! The fast lane and hyper's give the same answers to the same bytes.

use proptest::prelude::*;

use crate::support::lanes::{FIELDS, Lanes, TARGETS, compose};

#[test]
fn every_target_and_every_field_is_answered_alike() {
    let lanes = Lanes::new();
    for target in TARGETS {
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            for version in ["HTTP/1.1", "HTTP/1.0"] {
                check(&lanes, &format!("{method} {target} {version}\r\nHost: a\r\n\r\n"));
            }
        }
    }
    for field in FIELDS {
        for (method, target) in
            [("GET", "/long/"), ("HEAD", "/"), ("GET", "/plain.txt"), ("GET", "/nothing/")]
        {
            check(&lanes, &format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
            check(&lanes, &format!("{method} {target} HTTP/1.1\r\n{field}\r\n\r\n"));
        }
        for other in FIELDS {
            check(&lanes, &format!("GET /long/ HTTP/1.1\r\nHost: a\r\n{field}\r\n{other}\r\n\r\n"));
        }
    }
}

#[test]
fn what_is_answered_is_what_was_asked_for() {
    let lanes = Lanes::new();
    let told = |request: &str| lanes.answers_to(&[request.as_bytes()]);
    let whole = told("GET /long/ HTTP/1.1\r\nHost: a\r\nAccept: text/markdown\r\n\r\n");
    assert!(whole.starts_with("Some(1) Some(200) Some(\"OK\")\n"), "{whole}");
    assert!(whole.contains("\ncontent-type: text/markdown; charset=utf-8\n"), "{whole}");
    assert!(whole.ends_with("It waits for more."), "{whole}");
    let etag =
        whole.lines().find(|line| line.starts_with("etag: ")).expect("a validator").replace("\\\"", "\"");
    let etag = etag.trim_start_matches("etag: ");
    let again =
        format!("GET /long/ HTTP/1.1\r\nHost: a\r\nAccept: text/markdown\r\nIf-None-Match: {etag}\r\n\r\n");
    let unmodified = told(&again);
    assert!(unmodified.starts_with("Some(1) Some(304)"), "{unmodified}");
    let missing = told("GET /nothing/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(missing.starts_with("Some(1) Some(404)"), "{missing}");
    // A connection that has left the lane is served all the same.
    let form = "POST /api/contact HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let mixed = told(&format!("{again}{form}{again}"));
    assert_eq!(mixed.matches("Some(304)").count(), 2, "{mixed}");
    assert_eq!(mixed.matches("Some(400)").count(), 1, "{mixed}");
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let lanes = Lanes::new();
    let requests =
        "GET /long/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    let whole = lanes.answers_to(&[requests.as_bytes()]);
    assert_eq!(whole.matches("Some(200)").count(), 2, "{whole}");
    for cut in 1..requests.len() {
        let (first, second) = requests.as_bytes().split_at(cut);
        assert_eq!(lanes.answers_to(&[first, second]), whole, "cut at {cut}");
        assert_eq!(lanes.answers_slowly(&[first, second]), whole, "cut at {cut}, read slowly");
    }
    let bytes: Vec<&[u8]> = requests.as_bytes().chunks(1).collect();
    assert_eq!(lanes.answers_to(&bytes), whole);
}

#[test]
fn as_much_may_come_in_both() {
    let lanes = Lanes::new();
    for length in [4_000, 15_900, 16_300, 16_384, 16_400, 20_000, 70_000] {
        let padding = "x".repeat(length);
        check(&lanes, &format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {padding}\r\n\r\n"));
        check(&lanes, &format!("GET /{padding} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for count in [50, 62, 63, 64, 65, 99, 100, 101] {
        let fields: String = (0..count).map(|n| format!("x-{n}: y\r\n")).collect();
        check(&lanes, &format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    }
    let many = "GET /long/ HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1500);
    let whole = lanes.answers_to(&[many.as_bytes()]);
    assert_eq!(whole.matches("Some(200)").count(), 1500);
    assert_eq!(lanes.answers_slowly(&[many.as_bytes()]), whole);
}

#[test]
fn what_is_nearly_a_request_is_answered_alike() {
    let lanes = Lanes::new();
    let cases =
        std::env::var("FRONTDESK_TEST_SCRIPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(500);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest!(config, |(script in prop::collection::vec(any::<u8>(), 0..24))| {
        let pieces = compose(&script);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        lanes.answers_to(&pieces);
    });
}

fn check(lanes: &Lanes, request: &str) {
    lanes.answers_to(&[request.as_bytes()]);
}

#[test]
fn a_connection_that_waits_is_small() {
    let lanes = Lanes::new();
    let size = lanes.size_of_a_connection();
    assert!(size <= 3 * 1024, "{size} bytes");
}
