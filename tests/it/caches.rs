//! Shared caches in front of frontdesk and of other origin servers: which of them serve Markdown to browsers
//! or HTML to agents.

pub mod cache;
pub mod origin;

use std::io::Read as _;
use std::net::SocketAddr;

use frontdesk_http::trusted_proxies::{TRUSTED_HEADERS, X_FORWARDED_FOR};

use crate::support::channel_site::until;
use crate::support::{Answer, Connection, TestServer, small_site};
use cache::{Cache, KINDS, Kind, Mistake};
use origin::{HTML, MARKDOWN, Origin};

/// `Accept` of an agent and of a browser.
const AGENT: &str = "text/markdown, text/html, */*";
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// Each representation after the other one, so that a wrong one can come from the cache.
const ORDERS: [[&str; 3]; 2] = [[AGENT, BROWSER, AGENT], [BROWSER, AGENT, BROWSER]];

fn frontdesk() -> TestServer {
    let environment =
        [("FRONTDESK_LIMITS__ENABLED", "false"), ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1")];
    TestServer::with(&small_site(), &environment)
}

/// Sends a request over a new connection, and unpacks gzip.
fn fetch(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let answer = Connection::open(address).request(method, target, headers, b"");
    let mut answer = answer.unwrap_or_else(|error| panic!("{method} {target} {headers:?}: {error}"));
    if answer.header("content-encoding") == Some("gzip") {
        let packed = std::mem::take(&mut answer.body);
        if !packed.is_empty() {
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut answer.body).expect("gzip");
        }
    }
    answer
}

/// The media type that a client with this `Accept` must get.
fn media_type_for(accept: &str) -> &'static str {
    if accept == AGENT { "text/markdown" } else { "text/html" }
}

/// The media types that clients with these `Accept` headers get one after the other.
fn media_types(address: SocketAddr, target: &str, order: [&str; 3]) -> [String; 3] {
    order.map(|accept| {
        let answer = fetch(address, "GET", target, &[("Accept", accept)]);
        assert_eq!(answer.status, 200, "{target}");
        let media_type = answer.header("content-type").expect("a type");
        media_type.split(';').next().unwrap_or_default().to_owned()
    })
}

/// Panics unless the cache responds as frontdesk does.
fn compare(server: &TestServer, cache: &Cache, method: &str, target: &str, accept: &str, coding: &str) {
    let headers = [("Accept", accept), ("Accept-Encoding", coding)];
    let [direct, cached] = [server.address, cache.address].map(|at| fetch(at, method, target, &headers));
    let context = format!("{:?}: {method} {target} {headers:?}", cache.kind);
    assert_eq!(cached.status, direct.status, "{context}");
    assert_eq!(cached.header("content-type"), direct.header("content-type"), "{context}");
    assert_eq!(cached.body, direct.body, "{context}");
    let vary = cached.headers("vary").join(",").to_ascii_lowercase();
    assert!(vary.split(',').any(|name| name.trim() == "accept"), "{context}: {vary}");
}

/// Whether conditional requests get 304 for the representation that they name. Panics if they get another
/// representation than they accept.
fn are_conditional(cache: &Cache, target: &str, order: [&str; 3], coding: &str) -> bool {
    let get = |accept, etag| {
        let headers = [("Accept", accept), ("Accept-Encoding", coding), ("If-None-Match", etag)];
        fetch(cache.address, "GET", target, &headers)
    };
    let etags = order.map(|accept| get(accept, "\"none\"").header("etag").expect("a validator").to_owned());
    let mut are_conditional = true;
    for accept in order {
        for (etag, of_accept) in etags.iter().zip(order) {
            let answer = get(accept, etag);
            // Not whether the validators are equal: one may have been replaced between two requests.
            if of_accept == accept {
                are_conditional &= answer.status == 304;
                continue;
            }
            let context = format!("{:?}: {target} {accept} {coding} {etag}", cache.kind);
            assert_eq!(answer.status, 200, "{context}");
            let media_type = answer.header("content-type").expect("a type");
            assert!(media_type.starts_with(media_type_for(accept)), "{context}: {media_type}");
        }
    }
    are_conditional
}

/// Compares all responses of the cache at this path and query with those of frontdesk.
fn compare_all(server: &TestServer, cache: &Cache, target: &str, order: [&str; 3], coding: &str) {
    for accept in order {
        for method in ["GET", "HEAD", "GET"] {
            compare(server, cache, method, target, accept, coding);
        }
    }
    if target.starts_with("/missing") {
        return;
    }
    // frontdesk replaces its encodings, and their validators, with stronger ones after the start.
    let found = until(|| are_conditional(cache, target, order, coding).then_some(()));
    assert!(found.is_some(), "{:?}: {target} {coding}: no 304", cache.kind);
    // The cache must not store 406 for clients that accept a representation.
    for accept in ["application/rss+xml", order[0], "application/rss+xml", order[1]] {
        compare(server, cache, "GET", target, accept, coding);
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn documented_caches_respond_as_frontdesk_does() {
    for kind in KINDS {
        let server = frontdesk();
        let cache = Cache::start(kind, false, server.address);
        let mut unused = 0..;
        for coding in ["identity", "gzip"] {
            for order in ORDERS {
                for path in ["/", "/developers/", "/missing"] {
                    let number = unused.next().expect("it is endless");
                    for target in [path, &format!("{path}?{number}")] {
                        compare_all(&server, &cache, target, order, coding);
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn documented_caches_store_each_representation() {
    const TARGET: &str = "/assets/page";
    for kind in KINDS {
        let origin = Origin::varying();
        let cache = Cache::start(kind, false, origin.address);
        let is_stored = |accept| {
            let before = origin.requests_for(TARGET).len();
            let answer = fetch(cache.address, "GET", TARGET, &[("Accept", accept)]);
            assert_eq!(answer.text(), if accept == AGENT { MARKDOWN } else { HTML }, "{kind:?}: {accept}");
            origin.requests_for(TARGET).len() == before
        };
        for accept in ORDERS.concat() {
            // A cache may store a response after its client has received it.
            let stored = kind == Kind::Haproxy || until(|| is_stored(accept).then_some(())).is_some();
            assert!(stored, "{kind:?}: {accept}");
        }
        for accept in ORDERS.concat() {
            // HAProxy stores no response with `Vary: Accept`.
            assert_eq!(is_stored(accept), kind != Kind::Haproxy, "{kind:?}: {accept}");
        }
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn every_cache_mixes_representations_of_a_careless_origin() {
    for kind in KINDS {
        for is_misconfigured in [false, true] {
            let origin = Origin::careless();
            let cache = Cache::start(kind, is_misconfigured, origin.address);
            assert_mixed(&cache, true, "/assets/");
        }
    }
}

/// Panics unless all clients get the representation of the first one (`is_mixed`), or each its own.
fn assert_mixed(cache: &Cache, is_mixed: bool, path: &str) {
    let mut unused = (0..).map(|number| format!("{path}?{number}"));
    for order in ORDERS {
        let expected = order.map(|accept| media_type_for(if is_mixed { order[0] } else { accept }));
        let mut target = unused.next().expect("it is endless");
        if is_mixed {
            // A cache may store a response after its client has received it.
            let got = until(|| {
                let got = media_types(cache.address, &target, order);
                target = unused.next()?;
                (got == expected).then_some(())
            });
            assert!(got.is_some(), "{:?} never served {expected:?}", cache.kind);
        } else {
            for _ in 0..3 {
                assert_eq!(media_types(cache.address, &target, order), expected, "{:?}", cache.kind);
            }
        }
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn misconfigured_caches_mix_representations_in_spite_of_vary() {
    for kind in KINDS {
        let origin = Origin::varying();
        let cache = Cache::start(kind, true, origin.address);
        assert_mixed(&cache, kind.can_ignore_vary(), "/assets/");
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn only_two_mistakes_together_mix_frontdesks_representations() {
    let both = [Mistake::IgnoresVary, Mistake::OverridesFreshness];
    for kind in KINDS {
        for mistakes in [&both[..1], &both[1..], &both] {
            let server = frontdesk();
            let cache = Cache::with(kind, mistakes, server.address);
            let is_mixed = mistakes.len() == 2 && kind.can_ignore_vary();
            eprintln!("{kind:?} {mistakes:?}");
            assert_mixed(&cache, is_mixed, "/developers/");
        }
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn documented_caches_overwrite_trusted_headers() {
    for kind in KINDS {
        let origin = Origin::varying();
        let cache = Cache::start(kind, false, origin.address);
        let forged = TRUSTED_HEADERS.map(|name| (name, "forged"));
        fetch(cache.address, "GET", "/forged", &forged);
        let [request] = &origin.requests_for("/forged")[..] else { panic!("{kind:?}: one request") };
        assert!(
            !request.iter().any(|line| line.contains("forged") && !line.starts_with("get ")),
            "{request:?}"
        );
        assert!(request.contains(&format!("{X_FORWARDED_FOR}: 127.0.0.1")), "{kind:?}: {request:?}");
    }
}

/// The caches without Squid, which serves only the configured name of a site: an audit asks for the address.
fn caches_of_any_name() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|kind| *kind != Kind::Squid)
}

/// The rules that an audit finds broken through a cache, beginning at a path.
fn broken_rules(cache: &Cache, path: &str) -> Vec<String> {
    let url = format!("http://{}{path}", cache.address);
    let output = crate::support::frontdesk().args(["audit", &url, "--json"]).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("error: "), "{:?}: {errors}", cache.kind);
    let findings = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let broken = findings.filter(|finding| finding["severity"] == "broken");
    let mut rules: Vec<_> =
        broken.map(|finding| finding["rule"].as_str().expect("a name").to_owned()).collect();
    rules.dedup();
    rules
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn an_audit_finds_the_caches_that_mix_representations() {
    for kind in caches_of_any_name() {
        let server = frontdesk();
        let good = Cache::start(kind, false, server.address);
        assert_eq!(broken_rules(&good, "/"), Vec::<String>::new(), "{kind:?}");
        let bad = Cache::start(kind, true, server.address);
        let found = broken_rules(&bad, "/");
        let expected = ["cache-serves-html-to-agents", "cache-serves-markdown-to-browsers"];
        assert!(expected.iter().all(|rule| found.iter().any(|found| found == rule)), "{kind:?}: {found:?}");
    }
}

#[test]
#[ignore = "needs nginx, Varnish, Apache, HAProxy and Squid: scripts/test caches"]
fn an_audit_finds_careless_origins_behind_a_cache() {
    for kind in caches_of_any_name() {
        let origin = Origin::careless();
        let cache = Cache::start(kind, false, origin.address);
        // Some of the documented configurations cache only these files.
        let found = broken_rules(&cache, "/assets/");
        let expected =
            ["cache-serves-html-to-agents", "cache-serves-markdown-to-browsers", "vary-missing-page"];
        assert!(expected.iter().all(|rule| found.iter().any(|found| found == rule)), "{kind:?}: {found:?}");
    }
}
