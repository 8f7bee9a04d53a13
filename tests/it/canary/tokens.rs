//! Visitors cannot forge a token, and cannot use one that they have seen.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::json;

use super::*;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_forged_or_replayed_token_marks_nothing() {
    // The proxy shows the token of a run, and passes nothing on.
    let proxy = HttpPeer::start([Reply::status(502)]);
    let site = CanarySite::open(
        "",
        &[("FRONTDESK_BASE_URL", &proxy.url("")), ("FRONTDESK_LIMITS__ENABLED", "false")],
    );
    let first = site.first();
    let requests = proxy.requests();
    let contact = requests.iter().find(|request| request.target == "/api/contact").expect("a request");
    let token = contact.header("Frontdesk-Canary").expect("a token").to_owned();
    let body: Value = serde_json::from_slice(&contact.body).expect("JSON");
    assert_eq!(body["desk_canary"], token);
    // Its run has ended, so the token is worth nothing, although it is genuine and has not expired.
    let mut forged = token.clone().into_bytes();
    forged[30] = if forged[30] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("it is ASCII");
    for (number, text) in [&token, &token, &forged, &"x".repeat(48), &String::new()].into_iter().enumerate() {
        let mut body = body.clone();
        body["desk_canary"] = json!(text);
        body["message"] = json!(format!("Number {number}"));
        let headers = [JSON, ("Frontdesk-Canary", text.as_str())];
        let answer = site.server.request("POST", "/api/contact", &headers, body.to_string().as_bytes());
        assert_eq!((answer.status, answer.header("Frontdesk-Canary")), (200, None), "{text}");
    }
    // Each is an ordinary submission.
    assert_eq!(site.server.inbox().len(), 5);
    site.server.expect(5);
    let metrics = site.server.ops("/metrics").text().to_owned();
    assert!(
        metrics.contains("frontdesk_submissions_total{form=\"contact\",verdict=\"accepted\"} 5"),
        "{metrics}"
    );
    assert!(!first.is_ok);
    for said in [site.server.log(), first.report.to_string()] {
        assert!(!said.contains(&token), "{said}");
    }
}

#[test]
fn a_token_without_its_use_does_not_lift_the_limits() {
    let proxy = HttpPeer::start([Reply::status(502)]);
    let environment = [
        ("FRONTDESK_BASE_URL", &*proxy.url("")),
        ("FRONTDESK_LIMITS__PER_MINUTE", "1"),
        ("FRONTDESK_LIMITS__PER_HOUR", "1"),
    ];
    let site = CanarySite::open("", &environment);
    site.first();
    let requests = proxy.requests();
    let contact = requests.iter().find(|request| request.target == "/api/contact").expect("a request");
    let token = contact.header("Frontdesk-Canary").expect("a token");
    let post = || {
        site.server
            .request("POST", "/api/contact", &[JSON, ("Frontdesk-Canary", token)], &contact.body)
            .status
    };
    assert_eq!([post(), post(), post()], [200, 429, 429]);
    site.server.expect(1);
}

/// A site whose public address is a proxy. `exchange` gets each request, and a function that sends bytes to
/// the server and returns its response.
fn behind(
    environment: &[(&str, &str)],
    exchange: impl Fn(Vec<u8>, &dyn Fn(&[u8]) -> String) -> String + Send + 'static,
) -> CanarySite {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server: Arc<OnceLock<SocketAddr>> = Arc::default();
    let to = server.clone();
    std::thread::spawn(move || {
        let send = |request: &[u8]| {
            let mut stream = TcpStream::connect(to.wait()).expect("the server listens");
            stream.write_all(request).expect("it is sent");
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("it is text");
            response
        };
        for mut client in listener.incoming().flatten() {
            let request = read_request(&mut client);
            let _ = client.write_all(exchange(request, &send).as_bytes());
        }
    });
    let site = CanarySite::open("", &[&[("FRONTDESK_BASE_URL", &*url)], environment].concat());
    server.set(site.server.address).expect("it is set once");
    site
}

#[test]
fn a_repeated_request_is_an_ordinary_submission() {
    // Some proxies send a request again after a timeout. This one answers with the first response.
    let repeated = Arc::<Mutex<Vec<String>>>::default();
    let responses = repeated.clone();
    let site = behind(&[("FRONTDESK_LIMITS__ENABLED", "false")], move |request, send| {
        let first = send(&request);
        if request.starts_with(b"GET ") {
            return first;
        }
        responses.lock().expect("no panic").push(send(&request));
        first
    });
    let first = site.first();
    assert!(first.is_ok, "{first:#?}");
    let repeated = repeated.lock().expect("no panic").clone();
    assert!(repeated.len() >= 2);
    for response in repeated {
        assert!(response.starts_with("HTTP/1.1 200") && !response.contains("frontdesk-canary"), "{response}");
    }
    let forms: Vec<Value> = site.server.inbox().iter().map(|submission| submission["form"].clone()).collect();
    assert_eq!(forms, ["contact", "waitlist"]);
    site.server.expect(2);
}

#[test]
fn without_the_header_a_test_submission_is_recognized_within_the_limits() {
    let site = behind(
        &[("FRONTDESK_LIMITS__PER_MINUTE", "1"), ("FRONTDESK_LIMITS__PER_HOUR", "1")],
        |request, send| {
            let text = String::from_utf8(request).expect("it is text");
            if text.starts_with("GET ") {
                return send(text.as_bytes());
            }
            let (before, rest) = text.split_once("frontdesk-canary: ").expect("the header");
            send(format!("{before}x-other: {rest}").as_bytes())
        },
    );
    let first = site.first();
    assert_eq!(step(&first, "form", "waitlist").0, "ok");
    let (outcome, text) = step(&first, "form", "contact");
    assert!(
        outcome == "failed" && text.contains("a proxy removes the request header `Frontdesk-Canary`"),
        "{text}"
    );
    // `TestServer` checks that neither has become a submission.
}

/// Reads a request up to the end of its body.
fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).expect("a request");
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
        if body.len() >= length || read == 0 {
            return bytes;
        }
    }
}
