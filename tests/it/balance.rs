//! Replicas behind load balancers: the packaged configurations of nginx and HAProxy, with test addresses, in
//! front of three replicas that share one PostgreSQL inbox.

mod balancer;
mod replicas;
mod visitors;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::channel_site::until;
use crate::support::tls::Authority;
use balancer::{Balancer, Kind};
use replicas::{COUNT, Replicas};
use visitors::Crowd;

/// Time after which the balancer uses a restarted replica again: longer than nginx's `fail_timeout` and than
/// two of HAProxy's checks.
const BACK: Duration = Duration::from_secs(4);

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn a_rolling_restart_behind_nginx_fails_no_request() {
    roll(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn a_rolling_restart_behind_haproxy_fails_no_request() {
    roll(Kind::Haproxy);
}

/// Deploys a new version of the site to one replica after another and restarts each replica, while visitors
/// read pages and send forms.
fn roll(kind: Kind) {
    let mut replicas = Replicas::start(&[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let balancer = Balancer::start(kind, &replicas, &Authority::new());
    let before = replicas.hashes();
    assert_eq!(before.len(), 1, "all replicas serve the same site");
    let crowd = Crowd::gather(&balancer, 6);
    for number in 0..COUNT {
        crowd.wait_for(500);
        replicas.deploy(number);
        let (code, took) = replicas.desks[number].terminate();
        assert_eq!(code, Some(0));
        assert!(took >= replicas::DRAIN, "it has drained for {took:?}");
        replicas.desks[number].restart();
        // Two versions are served until all replicas have the new one. `/metrics` names the version of each
        // replica.
        let hashes = replicas.hashes();
        assert_eq!(hashes.contains(&before[0]), number + 1 < COUNT, "{hashes:?}");
        assert_eq!(hashes.len(), if number + 1 < COUNT { 2 } else { 1 }, "{hashes:?}");
        std::thread::sleep(BACK);
    }
    crowd.wait_for(500);
    let outcome = crowd.leave();
    eprintln!("{kind:?}: {COUNT} restarts, {} pages and {} forms", outcome.pages, outcome.kept.len());
    assert_eq!(outcome.lost_pages, Vec::<String>::new(), "{}", balancer.log());
    assert_eq!(outcome.lost_forms, Vec::<String>::new(), "{}", balancer.log());
    assert!(outcome.pages >= 2_000, "only {} pages", outcome.pages);
    assert!(outcome.kept.len() >= 200, "only {} forms", outcome.kept.len());
    assert_eq!(replicas.addresses_in_inbox(), sorted(outcome.kept));
}

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn a_killed_replica_behind_nginx_loses_no_page_and_no_submission() {
    kill(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn a_killed_replica_behind_haproxy_loses_no_page_and_no_submission() {
    kill(Kind::Haproxy);
}

/// Kills one replica after another while visitors read pages and send forms. No page and no acknowledged
/// submission may be lost.
fn kill(kind: Kind) {
    let mut replicas = Replicas::start(&[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let balancer = Balancer::start(kind, &replicas, &Authority::new());
    let crowd = Crowd::gather(&balancer, 6);
    for number in 0..COUNT {
        crowd.wait_for(300);
        replicas.desks[number].kill();
        // The other replicas keep serving.
        crowd.wait_for(300);
        replicas.desks[number].restart();
        std::thread::sleep(BACK);
    }
    let outcome = crowd.leave();
    eprintln!(
        "{kind:?}: {COUNT} kills, {} pages, {} forms kept, {} not: {:?}",
        outcome.pages,
        outcome.kept.len(),
        outcome.lost_forms.len(),
        outcome.lost_forms
    );
    assert_eq!(outcome.lost_pages, Vec::<String>::new(), "{}", balancer.log());
    assert!(outcome.lost_forms.len() <= 20, "{:?}", outcome.lost_forms);
    let inbox = replicas.addresses_in_inbox();
    let mut unique = inbox.clone();
    unique.dedup();
    assert_eq!(unique, inbox, "each is stored once");
    let missing: Vec<_> = outcome.kept.iter().filter(|address| !inbox.contains(address)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn behind_nginx_each_client_has_limits_of_its_own() {
    clients(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn behind_haproxy_each_client_has_limits_of_its_own() {
    clients(Kind::Haproxy);
}

/// Limits in memory are separate for each replica, so all requests go to one replica.
fn clients(kind: Kind) {
    let replicas = Replicas::start(&[("FRONTDESK_LIMITS__PER_MINUTE", "3")]);
    let balancer = Balancer::before(kind, &[&replicas.desks[0]; COUNT], &Authority::new());
    let send = |client: &str, number: usize, headers: &[(&str, &str)]| {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend(headers);
        let body = json!({ "email": format!("{number}@{client}.example.com") }).to_string();
        let mut connection = balancer.connect_from(client);
        connection.request("POST", "/api/waitlist", &all, body.as_bytes()).expect("an answer").status
    };
    assert_eq!([0, 1, 2, 3].map(|number| send("127.0.0.2", number, &[])), [200, 200, 200, 429]);
    for header in ["X-Forwarded-For", "Forwarded", "X-Real-IP"] {
        for value in ["198.51.100.7", "for=198.51.100.7", "127.0.0.1", "198.51.100.7, 127.0.0.1"] {
            assert_eq!(send("127.0.0.2", 4, &[(header, value)]), 429, "{header}: {value}");
        }
    }
    // Another client has sent nothing yet.
    assert_eq!([0, 1, 2, 3].map(|number| send("127.0.0.3", number, &[])), [200, 200, 200, 429]);
}

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn behind_nginx_pages_survive_a_database_outage_and_forms_recover() {
    outage(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn behind_haproxy_pages_survive_a_database_outage_and_forms_recover() {
    outage(Kind::Haproxy);
}

/// Stops the database. Pages must still be served, and forms must be accepted again once the database is
/// back.
fn outage(kind: Kind) {
    let replicas = Replicas::start(&[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let balancer = Balancer::start(kind, &replicas, &Authority::new());
    let page = |balancer: &Balancer| {
        balancer.connect().request("GET", "/developers/", &[], b"").expect("an answer").status
    };
    let send = |name: &str| {
        let body = json!({ "email": format!("{name}@example.com") }).to_string();
        let headers = [("Content-Type", "application/json")];
        let answer = balancer.connect().request("POST", "/api/waitlist", &headers, body.as_bytes());
        answer.expect("an answer")
    };
    assert_eq!((page(&balancer), send("before").status), (200, 200));
    replicas.stop_database();
    // The balancer or a replica may respond: either response is an error in the API's documented form.
    let is_told = until(|| {
        assert_eq!(page(&balancer), 200);
        let answer = send("meanwhile");
        assert!([500, 503].contains(&answer.status), "{}", answer.status);
        let error: Value = answer.json();
        assert!(
            error["error"].is_string() && error.as_object().is_some_and(|error| error.len() == 1),
            "{error}"
        );
        if kind == Kind::Nginx {
            // nginx generates request IDs of 32 digits; frontdesk's own IDs are longer.
            assert_eq!(answer.header("x-request-id").map(str::len), Some(32));
        }
        // HAProxy's health checks detect the outage, so HAProxy responds itself. nginx has no health checks.
        let is_settled = answer.status == if kind == Kind::Nginx { 500 } else { 503 };
        is_settled.then_some(())
    });
    assert!(is_told.is_some(), "{}", balancer.log());
    // If the health checks for pages failed during the outage, pages would become unavailable within this
    // time.
    let began = Instant::now();
    while began.elapsed() < BACK {
        assert_eq!(page(&balancer), 200);
    }
    replicas.start_database();
    assert!(until(|| (send("after").status == 200).then_some(())).is_some(), "{}", balancer.log());
    assert_eq!(page(&balancer), 200);
    let kept = replicas.addresses_in_inbox();
    assert_eq!(kept, ["after@example.com", "before@example.com"], "a 500 means that nothing was stored");
}

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn nginx_passes_responses_on_unchanged() {
    untouched(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn haproxy_passes_responses_on_unchanged() {
    untouched(Kind::Haproxy);
}

/// Requests a page directly from a replica and through the balancer, and compares the responses. Then checks
/// that the balancer answers a conditional request with 304. Returns the first difference.
fn compare_through(
    balancer: &Balancer,
    replicas: &Replicas,
    accept: &str,
    coding: &str,
) -> Result<(), String> {
    let headers = [("Accept", accept), ("Accept-Encoding", coding)];
    let direct = replicas.desks[0].get("/developers/", &headers);
    let passed = balancer.connect().request("GET", "/developers/", &headers, b"").expect("an answer");
    for name in
        ["etag", "vary", "cache-control", "content-encoding", "content-type", "link", "content-length"]
    {
        if passed.header(name) != direct.header(name) {
            return Err(format!("{name}: {:?} instead of {:?}", passed.header(name), direct.header(name)));
        }
    }
    assert_eq!(passed.header("strict-transport-security"), Some("max-age=31536000"));
    if passed.body != direct.body {
        return Err("another body".to_owned());
    }
    let etag = direct.header("etag").expect("it has one");
    let again = [("Accept", accept), ("Accept-Encoding", coding), ("If-None-Match", etag)];
    let again = balancer.connect().request("GET", "/developers/", &again, b"").expect("an answer");
    if again.status != 304 {
        return Err(format!("{} instead of 304", again.status));
    }
    Ok(())
}

/// Validators, encodings and caching headers pass through unchanged, and the size limit for forms is the same
/// as without a balancer.
fn untouched(kind: Kind) {
    let replicas = Replicas::start(&[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let authority = Authority::new();
    let balancer = Balancer::start(kind, &replicas, &authority);
    for accept in ["text/html", "text/markdown"] {
        for coding in ["identity", "gzip", "br", "zstd"] {
            // The replicas replace their encodings with stronger ones at different times after the start.
            let mut last = String::new();
            let passed = until(|| match compare_through(&balancer, &replicas, accept, coding) {
                Ok(()) => Some(()),
                Err(difference) => {
                    last = difference;
                    None
                }
            });
            assert!(passed.is_some(), "{accept} {coding}: {last}");
        }
    }
    for (bytes, status) in [(60_000, 200), (65_537, 413), (200_000, 413)] {
        let start = r#"{"email":"grace@example.com","padding":""#;
        let body = format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2));
        let headers = [("Content-Type", "application/json")];
        let mut connection = balancer.connect();
        let answer =
            connection.request("POST", "/api/waitlist", &headers, body.as_bytes()).expect("an answer");
        assert_eq!(answer.status, status, "{bytes}");
        assert_eq!(answer.json()["error"].is_string(), status != 200, "{bytes}");
    }
    assert_eq!(replicas.addresses_in_inbox(), ["grace@example.com"]);
    let client = authority.client().offering(&["h2", "http/1.1"]);
    let secure = client.connect(balancer.address).expect("it shakes hands");
    assert_eq!(secure.stream().conn.alpn_protocol(), Some(&b"h2"[..]));
    let plain = crate::support::Connection::open(balancer.plain).request("GET", "/developers/", &[], b"");
    let plain = plain.expect("an answer");
    assert_eq!((plain.status, plain.header("location")), (308, Some("https://www.example.com/developers/")));
}

#[test]
#[ignore = "needs nginx and PostgreSQL: scripts/test balance"]
fn behind_nginx_a_site_is_deployed_without_a_restart() {
    deploy(Kind::Nginx);
}

#[test]
#[ignore = "needs HAProxy and PostgreSQL: scripts/test balance"]
fn behind_haproxy_a_site_is_deployed_without_a_restart() {
    deploy(Kind::Haproxy);
}

/// While only one replica has the new version, its assets are available through every replica. In the end
/// none is missing.
fn deploy(kind: Kind) {
    let mut replicas = Replicas::start(&[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let balancer = Balancer::start(kind, &replicas, &Authority::new());
    let get = |path: &str| balancer.connect().request("GET", path, &[], b"").expect("an answer");
    let missing = replicas.desks[0].get(replicas::NEXT_ASSET, &[]);
    assert_eq!(missing.status, 404);
    let passed = get(replicas::NEXT_ASSET);
    assert_eq!((passed.status, passed.body), (404, missing.body));
    for number in 0..COUNT {
        replicas.deploy(number);
        replicas.desks[number].signal(Signal::HUP);
        let has_it = || (replicas.desks[number].get(replicas::NEXT_ASSET, &[]).status == 200).then_some(());
        assert!(until(has_it).is_some(), "{}", replicas.desks[number].log());
        assert_eq!(replicas.hashes().len(), if number + 1 < COUNT { 2 } else { 1 });
        for _ in 0..3 * COUNT {
            assert_eq!(get(replicas::NEXT_ASSET).status, 200);
        }
    }
    for server in &mut replicas.desks {
        server.kill();
    }
    assert!([502, 503].contains(&get("/").status));
    let post = || {
        let headers = [("Content-Type", "application/json")];
        let mut connection = balancer.connect();
        connection
            .request("POST", "/api/waitlist", &headers, br#"{"email":"ada@example.com"}"#)
            .expect("an answer")
    };
    let told =
        until(|| Some(post()).filter(|answer| answer.status == 503)).expect("a 503 once no replica runs");
    assert_eq!(told.header("content-type"), Some("application/json"));
    assert_eq!((told.header("retry-after"), told.header("cache-control")), (Some("5"), Some("no-store")));
    assert!(told.json()["error"].is_string());
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}
