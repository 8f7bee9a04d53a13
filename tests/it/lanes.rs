//! The fast path and the hyper path give the same responses to the same bytes.

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
fn responses_match_their_requests() {
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
    // A connection that has left the fast path is still served.
    let form = "POST /api/contact HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let mixed = told(&format!("{again}{form}{again}"));
    assert_eq!(mixed.matches("Some(304)").count(), 2, "{mixed}");
    assert_eq!(mixed.matches("Some(400)").count(), 1, "{mixed}");
}

/// An answer's status and the value of one header, from a transcript of `Lanes`.
fn status_and(transcript: &str, name: &str) -> (u16, Option<String>) {
    let status = transcript.split("Some(").nth(2).and_then(|rest| rest.split(')').next());
    let status = status.and_then(|status| status.parse().ok()).expect("a status");
    let prefix = format!("{name}: ");
    let value = transcript.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
    (status, value.map(|value| value.replace("\\\"", "\"")))
}

#[test]
fn preconditions_have_the_precedence_of_rfc_9110_in_both_lanes() {
    const PAST: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
    const FUTURE: &str = "Sat, 21 Nov 2099 12:00:00 GMT";
    let lanes = Lanes::new();
    let ask = |method: &str, target: &str, fields: &str| {
        lanes.answers_to(&[format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()])
    };
    // Headers that select a representation, and the `Vary` of each response.
    for (target, selection, vary) in [
        ("/long/", "Accept: text/html\r\n", Some("Accept, Accept-Encoding")),
        ("/long/", "Accept: text/markdown\r\nAccept-Encoding: br\r\n", Some("Accept, Accept-Encoding")),
        ("/long.md", "", Some("Accept-Encoding")),
        ("/plain.txt", "Accept-Encoding: gzip\r\n", Some("Accept-Encoding")),
        ("/data.bin", "", None),
    ] {
        let (_, own) = status_and(&ask("GET", target, selection), "etag");
        let own = own.expect("a validator");
        let cases = [
            (format!("If-Match: {own}"), 200),
            ("If-Match: *".to_owned(), 200),
            (format!("If-Match: \"a\", {own}"), 200),
            (format!("If-Match: \"a\"\r\nIf-Match: {own}"), 200),
            ("If-Match: \"a\"".to_owned(), 412),
            ("If-Match: \"a\", \"b\"".to_owned(), 412),
            // Strong comparison: a weak validator never matches.
            (format!("If-Match: W/{own}"), 412),
            ("If-Match:".to_owned(), 412),
            (format!("If-Match: {}", own.trim_matches('"')), 412),
            // Weak comparison.
            (format!("If-None-Match: W/{own}"), 304),
            ("If-None-Match: \"a\"".to_owned(), 200),
            // If-Match is evaluated before If-None-Match.
            (format!("If-Match: {own}\r\nIf-None-Match: {own}"), 304),
            (format!("If-Match: {own}\r\nIf-None-Match: \"a\""), 200),
            (format!("If-None-Match: {own}\r\nIf-Match: \"a\""), 412),
            ("If-None-Match: *\r\nIf-Match: *".to_owned(), 304),
            // There is no modification date, so dates are ignored, even invalid ones.
            (format!("If-Unmodified-Since: {PAST}"), 200),
            (format!("If-Unmodified-Since: {FUTURE}"), 200),
            ("If-Unmodified-Since: yesterday".to_owned(), 200),
            ("If-Unmodified-Since:".to_owned(), 200),
            (format!("If-Modified-Since: {FUTURE}"), 200),
            ("If-Modified-Since: tomorrow".to_owned(), 200),
            // Dates are also ignored next to a condition on the validator.
            (format!("If-Match: {own}\r\nIf-Unmodified-Since: {PAST}"), 200),
            (format!("If-Match: \"a\"\r\nIf-Unmodified-Since: {FUTURE}"), 412),
            (format!("If-Unmodified-Since: {PAST}\r\nIf-None-Match: {own}"), 304),
            (format!("If-Modified-Since: {PAST}\r\nIf-None-Match: {own}"), 304),
            (format!("If-Modified-Since: {FUTURE}\r\nIf-None-Match: \"a\""), 200),
        ];
        for (fields, expected) in cases {
            for method in ["GET", "HEAD"] {
                let answer = ask(method, target, &format!("{selection}{fields}\r\n"));
                let of = || format!("{method} {target} {selection:?} {fields:?}: {answer}");
                let (status, varies) = status_and(&answer, "vary");
                assert_eq!(status, expected, "{}", of());
                assert_eq!(varies.as_deref(), vary, "{}", of());
                let etag = status_and(&answer, "etag").1;
                let cached = status_and(&answer, "cache-control").1;
                if expected == 412 {
                    let media_type = status_and(&answer, "content-type").1;
                    assert_eq!(media_type.as_deref(), Some("text/plain; charset=utf-8"), "{}", of());
                    assert_eq!((etag, cached.as_deref()), (None, Some("no-store")), "{}", of());
                    assert!(answer.contains("\ncontent-security-policy: "), "{}", of());
                } else {
                    assert_eq!(
                        (etag.as_deref(), cached.as_deref()),
                        (Some(&*own), Some("no-cache")),
                        "{}",
                        of()
                    );
                }
                assert!(answer.ends_with("It waits for more."), "{}", of());
            }
        }
    }
}

#[test]
fn preconditions_do_not_change_an_answer_that_is_no_200() {
    let lanes = Lanes::new();
    for (request, expected) in [
        ("GET /nothing/ HTTP/1.1\r\n", 404),
        ("GET /old/ HTTP/1.1\r\n", 308),
        ("GET /long/ HTTP/1.1\r\nAccept: image/png\r\n", 406),
        ("DELETE /long/ HTTP/1.1\r\n", 405),
        ("GET /api/contact HTTP/1.1\r\n", 405),
        ("POST /api/contact HTTP/1.1\r\nContent-Length: 2\r\n", 400),
    ] {
        let body = if request.starts_with("POST") { "{}" } else { "" };
        for fields in ["", "If-Match: \"a\"\r\n", "If-Match: *\r\n", "If-None-Match: *\r\n"] {
            let answer = lanes.answers_to(&[format!("{request}Host: a\r\n{fields}\r\n{body}").as_bytes()]);
            assert_eq!(status_and(&answer, "vary").0, expected, "{request:?} {fields:?}: {answer}");
        }
    }
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
fn both_paths_have_the_same_size_limits() {
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
fn malformed_requests_get_the_same_response_from_both() {
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
fn an_idle_connection_uses_little_memory() {
    let lanes = Lanes::new();
    let size = lanes.size_of_a_connection();
    assert!(size <= 3 * 1024, "{size} bytes");
}

#[test]
fn a_connection_sends_eight_responses_a_turn() {
    let requests = "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    assert_eq!(Lanes::new().responses_in_a_turn(&requests), 8);
}

#[test]
fn a_request_that_arrives_with_the_end_of_the_grace_period_is_served() {
    let lanes = Lanes::new();
    // The protocol is unknown, the fast path waits, and hyper waits.
    let post = "POST /api/contact HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    for first in ["", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", post] {
        assert_eq!(lanes.served_after_a_pause(40, first), 40, "{first:?}");
    }
}
