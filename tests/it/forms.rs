//! The two forms: accepted and refused requests, and repeats.

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, small_site};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn contact(message: &str) -> Value {
    json!({ "name": "Ada Lovelace", "email": "ada@example.com", "message": message })
}

/// The error message in a response whose body is exactly `{"error": "<message>"}`.
fn sentence(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    let members = body.as_object().expect("an object");
    assert_eq!(members.len(), 1, "{body}");
    members["error"].as_str().expect("a sentence").to_owned()
}

#[test]
fn a_valid_submission_is_accepted_and_in_the_inbox_at_once() {
    let server = TestServer::start();
    for (path, body) in [
        ("/api/waitlist", json!({ "email": "grace@example.com" })),
        ("/api/contact", contact("Hello\nthere")),
        (
            "/api/contact",
            json!({ "firstname": "Ada", "lastname": "Lovelace", "email": "ada@example.com", "company": "Example Ltd" }),
        ),
        (
            "/api/contact",
            json!({ "firstname": "Ada", "lastname": "Lovelace", "email": "ada@example.com", "company": "Example Ltd", "message": "Hi", "unknown": [1] }),
        ),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json(), json!({ "ok": true }));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let kept = server.inbox().swap_remove(0);
        assert_eq!(kept["form"], path.trim_start_matches("/api/"));
        assert_eq!(kept["status"], "kept");
        assert!(kept["id"].is_string() && kept["received_at"].is_string());
        for (name, value) in body.as_object().expect("an object") {
            if name != "unknown" {
                assert_eq!(kept[name], *value, "{kept}");
            }
        }
    }
    server.expect(4);
}

#[test]
fn every_field_at_fault_is_named_at_once() {
    let server = TestServer::start();
    for (path, body, fields) in [
        ("/api/waitlist", json!({}), vec!["email"]),
        ("/api/waitlist", json!({ "email": "nobody" }), vec!["email"]),
        ("/api/waitlist", json!({ "email": null }), vec!["email"]),
        ("/api/waitlist", json!({ "email": ["a@example.com"] }), vec!["email"]),
        ("/api/waitlist", json!({ "email": "joe@invalid=domain.com" }), vec!["email"]),
        ("/api/waitlist", json!({ "email": "joe@[127.0.0.300]" }), vec!["email"]),
        ("/api/contact", json!({}), vec!["name", "email", "message"]),
        (
            "/api/contact",
            json!({ "name": "", "email": "x", "message": " \n" }),
            vec!["name", "email", "message"],
        ),
        ("/api/contact", json!({ "name": 1, "email": "a@example.com", "message": "m" }), vec!["name"]),
        (
            "/api/contact",
            json!({ "name": "a\nb", "email": "a@example.com", "message": "a\u{0}b" }),
            vec!["name", "message"],
        ),
        (
            "/api/contact",
            json!({ "name": "n".repeat(201), "email": "a@example.com", "message": "m".repeat(20_001) }),
            vec!["name", "message"],
        ),
        ("/api/contact", json!({ "firstname": "A" }), vec!["lastname", "email", "company"]),
        (
            "/api/contact",
            json!({ "company": "C", "email": "a@example.com", "message": 3 }),
            vec!["firstname", "lastname", "message"],
        ),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 400, "{body}");
        let sentence = sentence(&answer);
        for field in &fields {
            assert!(sentence.contains(&format!("`{field}`")), "{sentence}");
        }
        assert_eq!(sentence.matches('`').count(), fields.len() * 2, "no other field: {sentence}");
    }
}

#[test]
fn a_body_that_is_not_a_json_object_gets_an_explained_400() {
    let server = TestServer::start();
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"3",
        b"null",
        b"\"text\"",
        b"\xff\xfe",
        b"{\"email\":\"\\ud800@example.com\"}",
        b"{}{}",
    ] {
        let answer = server.request("POST", "/api/waitlist", &[JSON], body);
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(body));
        assert!(sentence(&answer).ends_with('.'));
    }
    let deep = format!("{{\"email\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(server.request("POST", "/api/waitlist", &[JSON], deep.as_bytes()).status, 400);
}

#[test]
fn another_content_type_is_400() {
    let server = TestServer::start();
    let body = br#"{"email":"ada@example.com"}"#;
    for headers in
        [&[][..], &[("Content-Type", "text/plain")], &[("Content-Type", "application/x-www-form-urlencoded")]]
    {
        let answer = server.request("POST", "/api/waitlist", headers, body);
        assert_eq!(answer.status, 400);
        assert!(sentence(&answer).contains("application/json"));
    }
    let answer =
        server.request("POST", "/api/waitlist", &[("Content-Type", "Application/JSON; charset=UTF-8")], body);
    assert_eq!(answer.status, 200);
    server.expect(1);
}

#[test]
fn every_other_method_is_405() {
    let server = TestServer::start();
    for path in ["/api/waitlist", "/api/contact"] {
        for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PURGE"] {
            let answer = server.request(method, path, &[], b"");
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
            if method != "HEAD" {
                sentence(&answer);
            }
        }
    }
}

#[test]
fn a_body_that_is_too_long_is_413() {
    let server = TestServer::start();
    let long = json!({ "email": "ada@example.com", "more": "x".repeat(64 * 1024) }).to_string();
    let answer = server.request("POST", "/api/waitlist", &[JSON], long.as_bytes());
    assert_eq!(answer.status, 413);
    sentence(&answer);
    // Without a declared length, the server notices the excess while reading.
    let mut connection = server.connect();
    let head = "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.send(head.as_bytes()).expect("sent");
    connection.send(format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len()).as_bytes()).expect("sent");
    assert_eq!(connection.answer(false).expect("an answer").status, 413);
    // A body of exactly the maximum length is accepted.
    let email = r#"{"email":"ada@example.com","more":""#;
    let fitting = format!("{email}{}\"}}", "x".repeat(64 * 1024 - email.len() - 2));
    assert_eq!(server.request("POST", "/api/waitlist", &[JSON], fitting.as_bytes()).status, 200);
    server.expect(1);
}

#[test]
fn a_long_text_is_accepted_in_any_script_and_encoding() {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_FORMS__HTML_POSTS", "true")]);
    let escaped =
        |text: &str| -> String { text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect() };
    let percent = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let same = ("Sec-Fetch-Site", "same-origin");
    for (text, status) in [
        ("x".repeat(20_000), 200),
        ("请报价".repeat(6_600), 200),
        ("Насос".repeat(4_000), 200),
        ("🙂".repeat(16_000), 200),
        ("🙂".repeat(16_384), 413),
    ] {
        let json = format!(r#"{{"name":"Ada","email":"ada@example.com","message":"{}"}}"#, escaped(&text));
        let posted = format!("name=Ada&email=ada%40example.com&message={}", percent(&text));
        // ASCII that is escaped, too, is longer than what is read.
        if !text.is_ascii() {
            let answer = server.request("POST", "/api/contact", &[JSON], json.as_bytes());
            assert_eq!(answer.status, status, "{}", text.len());
        }
        let answer = server.request("POST", "/api/contact", &[form, same], posted.as_bytes());
        assert_eq!(answer.status, status, "{}", text.len());
    }
    server.expect(4);
}

#[test]
fn an_address_already_on_the_waitlist_gets_the_same_response() {
    let server = TestServer::start();
    let first = server.post("/api/waitlist", &json!({ "email": "Ada@Example.com" }));
    let second = server.post("/api/waitlist", &json!({ "email": "ada@example.com" }));
    let but_date = |answer: &Answer| {
        let headers: Vec<_> = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
        (answer.status, headers, answer.body.clone())
    };
    assert_eq!(but_date(&first), but_date(&second));
    server.expect(1);
}

#[test]
fn a_form_that_is_sent_twice_is_one_submission() {
    let server = TestServer::start();
    assert_eq!(server.post("/api/contact", &contact("Once")).status, 200);
    assert_eq!(server.post("/api/contact", &contact("Once")).status, 200);
    assert_eq!(server.inbox().len(), 1);
    assert_eq!(server.post("/api/contact", &contact("Twice")).status, 200);
    assert_eq!(server.inbox().len(), 2);
    // The same key with different content is not a repeat.
    let keyed = |message: &str| {
        let body = contact(message).to_string();
        server.request(
            "POST",
            "/api/contact",
            &[JSON, ("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")],
            body.as_bytes(),
        )
    };
    assert_eq!(keyed("Three").status, 200);
    assert_eq!(keyed("Three").status, 200);
    assert_eq!(keyed("Three, mended").status, 200);
    server.expect(4);
}

#[test]
fn an_empty_idempotency_key_is_ignored() {
    let server = TestServer::start();
    let mut number = 0;
    for key in ["", " ", "\"\""] {
        for _ in 0..2 {
            number += 1;
            let body = contact(&format!("Number {number}")).to_string();
            assert_eq!(
                server
                    .request("POST", "/api/contact", &[JSON, ("Idempotency-Key", key)], body.as_bytes())
                    .status,
                200
            );
        }
    }
    server.expect(number);
}

#[test]
fn a_response_arrives_although_the_body_was_unwanted() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let long = "x".repeat(100_000);
    for (method, path, headers, status) in [
        ("POST", "/api/contact", &[("Content-Type", "text/plain")][..], 400),
        ("PUT", "/api/contact", &[JSON], 405),
        ("POST", "/api/contact", &[JSON], 413),
        ("POST", "/developers/", &[], 405),
        ("POST", "/no/such/page/", &[], 404),
    ] {
        let answer = connection.request(method, path, headers, long.as_bytes()).expect("an answer");
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{method} {path}");
    }
    assert_eq!(connection.request("GET", "/", &[], b"").expect("the connection is in order").status, 200);

    // A client that waits for `100 Continue` does not get it, and its connection is closed.
    let head = "POST /api/contact HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
    let mut waiting = server.connect();
    waiting.send(head.as_bytes()).expect("sent");
    let answer = waiting.answer(false).expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
}

#[test]
fn a_path_is_decoded_before_it_is_routed() {
    let server = TestServer::start();
    assert_eq!(server.post("/api/%63ontact", &contact("Hello")).status, 200);
    server.expect(1);
}

#[test]
fn an_unknown_endpoint_is_404_in_json() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for path in ["/api/", "/api/nothing", "/api/contact/", "/api/Contact", "/api/v1/contact?x=y", "/%61pi/x"]
    {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QZX"] {
            for accept in ["*/*", "text/html", "text/markdown", "application/json;q=0", "image/png"] {
                let body: &[u8] = if method == "POST" { b"{}" } else { b"" };
                let answer =
                    connection.request(method, path, &[("Accept", accept), JSON], body).expect("an answer");
                let of = || format!("{method} {path} {accept}: {answer:?}");
                assert_eq!(answer.status, 404, "{}", of());
                assert_eq!(answer.header("content-type"), Some("application/json"), "{}", of());
                assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", of());
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{}", of());
                assert_eq!((answer.header("vary"), answer.header("allow")), (None, None), "{}", of());
                if method == "HEAD" {
                    continue;
                }
                let error = answer.json();
                assert_eq!(error.as_object().map(serde_json::Map::len), Some(1), "{}", of());
                let sentence = error["error"].as_str().expect("a sentence");
                assert!(sentence.contains("POST /api/waitlist and POST /api/contact"), "{sentence}");
            }
        }
    }
    // Known endpoints, and paths that are not below `/api/`, do not get this error.
    assert_eq!(connection.request("GET", "/api/contact", &[], b"").expect("an answer").status, 405);
    let page = connection.request("GET", "/api", &[("Accept", "text/html")], b"").expect("an answer");
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
}

#[test]
fn a_page_below_api_is_a_page() {
    let site = tempfile::tempdir().expect("a folder");
    let made = crate::support::frontdesk().arg("init").arg(site.path()).output().expect("it runs");
    assert!(made.status.success(), "{made:?}");
    let guide = site.path().join("pages/api/guide.md");
    std::fs::create_dir_all(guide.parent().expect("a folder")).expect("it can be created");
    let text = "---\ntitle: Guide\ndescription: How the API is used.\n---\nText.\n";
    std::fs::write(guide, text).expect("it can be written");
    let server = TestServer::with(site.path(), &[]);
    let answer = server.get("/api/guide/", &[("Accept", "text/markdown")]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/markdown; charset=utf-8")));
    assert_eq!(server.get("/api/guide", &[]).status, 308);
    assert_eq!(server.request("POST", "/api/guide/", &[], b"").status, 405);
    assert_eq!(server.get("/api/guides", &[]).header("content-type"), Some("application/json"));
}

#[test]
fn a_request_over_the_limit_gets_429_with_retry_after() {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__PER_MINUTE", "3")]);
    for number in 0..3 {
        let answer = server.post("/api/contact", &contact(&format!("Number {number}")));
        assert_eq!(answer.status, 200);
        let policy = "\"minute\";q=3;w=60, \"hour\";q=300;w=3600, \"network-minute\";q=300;w=60, \"network-hour\";q=3000;w=3600";
        assert_eq!(answer.header("ratelimit-policy"), Some(policy));
        let left = format!("\"minute\";r={};", 2 - number);
        assert!(
            answer.header("ratelimit").is_some_and(|state| state.starts_with(&left)),
            "{:?}",
            answer.headers
        );
    }
    let answer = server.post("/api/contact", &contact("One too many"));
    assert_eq!(answer.status, 429);
    let seconds: u64 =
        answer.header("retry-after").and_then(|seconds| seconds.parse().ok()).expect("seconds");
    assert!((1..=20).contains(&seconds), "{seconds}");
    assert!(sentence(&answer).contains(&seconds.to_string()));
    let answer = server.get("/api/contact", &[]);
    assert_eq!(answer.status, 405, "a 405 does not count as a submission");
    assert!(answer.header("ratelimit").is_some_and(|state| state.starts_with("\"minute\";r=0;")));
    assert_eq!(server.get("/", &[]).status, 200, "pages have no limit");
    server.expect(3);
}

#[test]
fn past_a_forms_quota_only_the_networks_of_the_flood_are_held() {
    let settings = [
        ("FRONTDESK_LIMITS__PER_MINUTE", "8"),
        ("FRONTDESK_LIMITS__NETWORK_PER_MINUTE", "8"),
        ("FRONTDESK_LIMITS__FORM_PER_MINUTE", "10"),
        ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
    ];
    let server = TestServer::with(&small_site(), &settings);
    let post = |from: &str, body: &str| {
        server.request("POST", "/api/contact", &[JSON, ("X-Forwarded-For", from)], body.as_bytes())
    };
    // Refused submissions do not count.
    for network in 0..10 {
        for _ in 0..8 {
            assert_eq!(post(&format!("198.51.{network}.1"), "").status, 400);
        }
    }
    let send = |from: &str, number: usize| {
        let answer = post(from, &contact(&format!("Number {number} from {from}")).to_string());
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"{\"ok\":true}".as_slice()), "{from}");
    };
    for number in 0..8 {
        send("192.0.2.1", number);
    }
    for number in 0..8 {
        send("203.0.113.1", number);
    }
    send("2001:db8::1", 0);
    assert_eq!(post("192.0.2.99", "{}").status, 429, "a neighbor of the first");
    let inbox = server.inbox();
    let held: Vec<&Value> = inbox.iter().filter(|kept| kept["status"] == "held").collect();
    // Of the eight submissions from 203.0.113.1, two are within the form's limit, and the third is not yet a
    // flood from its network.
    assert_eq!(held.len(), 5, "{held:#?}");
    assert!(
        held.iter().all(|held| held["message"].as_str().is_some_and(|text| text.ends_with("203.0.113.1")))
    );
    server.expect(17);
}

#[test]
fn with_forwarded_configured_the_other_header_is_not_read() {
    let settings = [
        ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
        ("FRONTDESK_SERVER__FORWARDED_HEADER", "forwarded"),
    ];
    let server = TestServer::with(&small_site(), &settings);
    let post = |forwarded: &str, other: &str, message: &str| {
        let headers = [JSON, ("Forwarded", forwarded), ("X-Forwarded-For", other)];
        server.request("POST", "/api/contact", &headers, contact(message).to_string().as_bytes()).status
    };
    assert_eq!(post("for=192.0.2.1;proto=https", "198.51.100.1", "a"), 200);
    assert_eq!(post("for=\"[2001:db8::1]:4711\"", "198.51.100.1", "b"), 200);
    assert_eq!(post("for=\"203.0.113.7, for=192.0.2.1;proto=https", "198.51.100.2", "c"), 429);
    assert_eq!(post("for=\"[2001:db8::2]\"", "198.51.100.3", "d"), 429, "the same /64");
    server.expect(2);
}

#[test]
fn a_proxys_headers_count_only_if_it_is_trusted() {
    let post = |server: &TestServer, from: &str, message: &str| {
        server
            .request(
                "POST",
                "/api/contact",
                &[JSON, ("X-Forwarded-For", from)],
                contact(message).to_string().as_bytes(),
            )
            .status
    };
    let direct = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__PER_MINUTE", "1")]);
    assert_eq!(post(&direct, "192.0.2.1", "a"), 200);
    assert_eq!(post(&direct, "192.0.2.2", "b"), 429, "any client can send that header");
    direct.expect(1);
    let proxied = TestServer::with(
        &small_site(),
        &[("FRONTDESK_LIMITS__PER_MINUTE", "1"), ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8")],
    );
    assert_eq!(post(&proxied, "192.0.2.1", "a"), 200);
    assert_eq!(post(&proxied, "192.0.2.2", "b"), 200);
    assert_eq!(post(&proxied, "203.0.113.7, 192.0.2.2", "c"), 429, "never the left-most");
    proxied.expect(2);
}
