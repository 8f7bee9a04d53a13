//! Visitors cannot forge a token, and cannot use one that they have seen.

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
