//! Tests of the faults that answers are judged to have.

use super::*;
use std::time::Duration;

const PROOF: &str = "the-proof";

/// A response with this status, these header lines and this body.
fn response(status: u16, headers: &[(&'static str, &str)], body: &str) -> FetchResponse {
    let headers = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
    });
    FetchResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.collect(),
        body: body.as_bytes().to_vec(),
        is_whole: true,
        time_to_header: Duration::ZERO,
    }
}

fn judged(response: &FetchResponse, is_accepted: bool) -> Judgment {
    judge(response, SubmissionFacts { path: "/api/contact", proof: PROOF, is_accepted })
}

/// Checks that a response without the proof is a failure of the form whose text contains `expected`.
fn check(status: u16, headers: &[(&'static str, &str)], body: &str, expected: &str) {
    let judgment = judged(&response(status, headers, body), false);
    assert_eq!((judgment.step, judgment.outcome), (Step::Form, Outcome::Failed), "{judgment:?}");
    assert!(judgment.text.contains(expected), "{judgment:?}");
}

#[test]
fn only_a_proven_or_recorded_success_is_one() {
    let ok = r#"{"ok": true}"#;
    let proven = response(200, &[("frontdesk-canary", PROOF)], ok);
    assert_eq!(judged(&proven, true).outcome, Outcome::Ok);
    assert!(judged(&proven, false).text.contains("no record of it"));
    // A proxy has removed the header of the response.
    assert_eq!(judged(&response(200, &[], ok), true).outcome, Outcome::Ok);
    check(200, &[], ok, "never reached this inbox: the public address leads to another instance");
    check(201, &[], ok, "the answer was 201 Created with `{\"ok\": true}`, but the submission never reached");
}

#[test]
fn a_foreign_answer_with_200_is_named() {
    let login = "<!DOCTYPE html><html><head><TITLE lang=en>Sign\n in</TITLE>";
    check(200, &[], login, "(200 OK with an HTML page \"Sign in\"), such as a login");
    check(200, &[], "<html>", "(200 OK with an HTML page), such as");
    check(200, &[], r#"{"status":"ok"}"#, "with JSON that is not frontdesk's");
    check(202, &[], "", "(202 Accepted without a body)");
    check(200, &[], "OK", "with a text that is not frontdesk's");
    let replaced = judged(&response(200, &[], "<html>"), true);
    assert!(
        replaced.text.contains("was stored, but a proxy replaces this server's response"),
        "{replaced:?}"
    );
}

#[test]
fn a_cached_answer_is_named_with_its_evidence() {
    let ok = r#"{"ok": true}"#;
    let earlier = ("frontdesk-canary", "the-proof-of-another");
    check(200, &[earlier], ok, "a cache answered instead of this server (the response belongs to an earlier");
    check(200, &[earlier, ("age", "31")], ok, "(`Age: 31`)");
    check(200, &[("x-cache", "HIT from proxy")], ok, "(`x-cache: HIT from proxy`)");
    check(200, &[("cf-cache-status", "HIT")], "<html>", "a cache answered");
    check(200, &[("cache-status", "varnish; hit; ttl=3")], ok, "exclude POST requests");
    // A cache that has passed the request on sends these headers, too.
    check(200, &[("x-cache", "MISS"), ("age", "0")], ok, "another instance");
}

#[test]
fn only_a_hit_in_a_header_of_a_cache_is_evidence() {
    for (name, value, expected) in [
        ("cache-status", "varnish; hit; ttl=3", true),
        ("cache-status", "Origin; fwd=miss, \"Edge, A\"; hit", true),
        ("cache-status", "HIT", true),
        ("cache-status", "HIT from proxy", true),
        ("cache-status", "Whitelist; fwd=miss", false),
        ("cache-status", "hit; fwd=miss", false),
        ("cache-status", "Edge; hit=?0", false),
        ("cache-status", "\"a; hit\"; fwd=bypass", false),
        ("x-cache", "RefreshHit from cloudfront", true),
        ("x-cache", "TCP_MEM_HIT", true),
        ("x-cache", "MISS, HIT", true),
        ("x-cache", "MISS from hit.example.com", false),
        ("x-cache", "MISS from whitehit, MISS from b", false),
        ("x-cache-status", "WHITELIST", false),
        ("x-proxy-cache", "hit", true),
    ] {
        let headers = response(200, &[(name, value)], "").headers;
        assert_eq!(evidence_of_cache(&headers, false).is_some(), expected, "{name}: {value}");
    }
    let lines = response(200, &[("x-cache", "MISS from a"), ("x-cache", "HIT from b")], "").headers;
    assert_eq!(evidence_of_cache(&lines, false).as_deref(), Some("`x-cache: HIT from b`"));
}

#[test]
fn each_error_of_a_proxy_is_named() {
    let location = ("location", "https://www.example.com/api/contact");
    check(
        301,
        &[location],
        "",
        "is redirected to https://www.example.com/api/contact (301 Moved Permanently)",
    );
    check(302, &[], "", "redirected to an unknown address (302 Found)");
    check(401, &[], "", "401 Unauthorized: a proxy asks for a password");
    check(403, &[("server", "nginx")], "", "a firewall or proxy refuses the submission (`Server: nginx`)");
    check(403, &[("cf-mitigated", "challenge")], "", "a bot check");
    check(403, &[], "<title>Just a moment...</title>", "a bot check");
    check(404, &[], "", "404 Not Found: `/api/contact` does not lead to this server");
    check(405, &[], "", "POST is not permitted");
    check(413, &[], "", "permit at least 64 KiB");
    check(429, &[], "slow down", "a proxy or firewall limits requests");
    check(429, &[], r#"{"error": "Too many requests."}"#, "removes the request header `Frontdesk-Canary`");
    check(500, &[], "oops", "500 Internal Server Error: a proxy returned this error, not this server");
    check(502, &[], "", "502 Bad Gateway: the proxy cannot reach this server");
    check(418, &[], "", "418 I'm a teapot: a proxy refuses the submission");
}

#[test]
fn errors_of_this_server_are_told_apart_by_the_proof() {
    let check = |status, body: &str, expected: &str| {
        let judgment = judged(&response(status, &[("frontdesk-canary", PROOF)], body), true);
        assert_eq!((judgment.step, judgment.outcome), (Step::Form, Outcome::Failed));
        assert!(judgment.text.contains(expected), "{judgment:?}");
    };
    check(
        400,
        r#"{"error": "`email` is missing."}"#,
        "refuses its own example values: `email` is missing. Correct",
    );
    check(413, r#"{"error": "Too long."}"#, "did not get the body as it was sent");
    check(
        500,
        r#"{"error": "The submission could not be stored."}"#,
        "this server could not store the submission (500 Internal Server Error): The submission could not be stored. The log",
    );
    check(413, "", "did not get the body as it was sent. Check");
    check(403, "", "this server refused the submission with 403 Forbidden.");
}

#[test]
fn a_request_without_a_response_is_named_by_its_phase() {
    use FetchPhase::{Connect, Exchange, Resolve, Tls};
    let error = |phase, is_timeout, certificate| FetchError {
        is_sent: false,
        is_timeout,
        phase,
        certificate,
        sentence: "the cause".to_owned(),
    };
    let check = |error: FetchError, step, expected: &str| {
        let judgment = judge_error(&error, "www.example.com");
        assert_eq!((judgment.step, judgment.outcome), (step, Outcome::Failed));
        assert!(judgment.text.contains(expected) && judgment.text.contains("(the cause)"), "{judgment:?}");
    };
    check(error(Resolve, false, None), Step::Dns, "www.example.com has no usable address");
    check(error(Resolve, true, None), Step::Dns, "the name server did not respond");
    check(error(Connect, false, None), Step::Connect, "no connection (the cause): check that the server");
    check(error(Connect, true, None), Step::Connect, "within the time limit");
    for (fault, expected) in [
        (CertificateFault::Expired, "has expired"),
        (CertificateFault::NotYetValid, "check the clock of this machine, which may be behind"),
        (CertificateFault::WrongName, "is for another name than www.example.com"),
        (CertificateFault::UnknownIssuer, "issuer is unknown"),
        (CertificateFault::Other, "is not accepted"),
    ] {
        check(error(Tls, false, Some(fault)), Step::Tls, expected);
    }
    check(error(Tls, false, None), Step::Tls, "the TLS handshake failed");
    check(error(Exchange, true, None), Step::Form, "no response within the time limit");
    check(error(Exchange, false, None), Step::Form, "ended without a response");
}

#[test]
fn text_of_other_servers_is_shortened_and_made_visible() {
    let long = format!("<title>{}\u{1b}[31m</title>", "x".repeat(500));
    let judgment = judged(&response(200, &[], &long), false);
    assert!(judgment.text.len() < 500 && !judgment.text.contains('\u{1b}'), "{judgment:?}");
}
