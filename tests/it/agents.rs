//! Agents with signed requests. Their key directories are fetched over HTTP and TLS from loopback, no more
//! often than needed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use frontdesk_app::agent_signature::{
    AgentOptions, Agents, FETCH_TIMEOUTS, KEY_TIMEOUT, MEDIA_TYPE, SignatureError, SiteOrigin, WELL_KNOWN,
    signature_base,
};
use frontdesk_fetch::{ExtraRoots, Url};
use http::request::Parts;
use jiff::Timestamp;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use serde_json::{Value, json};
use sfv::{ListEntry, Parser};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::channel_site::until;
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::panics::PanicPoints;
use crate::support::{TestServer, example_site, small_site};

/// An Ed25519 key: the private key, the directory and the thumbprint.
const SEED: &str = "-9xFCaP61R1UK8ZTp4aoWmnWegyCBhjVUiXasx7S6B0";
const DIRECTORY: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JP0Ha7uUG3k-y-4vrJdovTHAo6IjqNPFTLNeFKGN0F4"}]}"#;
const KEY_ID: &str = "PbjnghElN1h35NS4yP5R8F0svEmVKVErChiZu1bQbD8";
const OTHER_KEY_ID: &str = "oooooooooooooooooooooooooooooooooooooooooooo";

/// The `created` time of the tests' signatures, in Unix seconds.
const CREATED: i64 = 1_735_689_600;

/// Long enough for anything that should happen immediately, even on a busy machine.
const AT_ONCE: Duration = crate::support::PATIENCE;

#[tokio::test]
async fn an_agent_is_recognized_by_its_directory_which_is_fetched_once() {
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let agents = agents(&[&peer.url("")]);
    let host = peer.address().to_string();
    for number in 0..3 {
        let head = request(&peer.url(""), KEY_ID, Some(&format!("n{number}")));
        assert_eq!(agents.verify(&head, at(1)).await, Ok(Some(host.clone())));
    }
    let [fetch] = &peer.requests()[..] else { panic!("{:?}", peer.requests()) };
    assert_eq!((&*fetch.method, &*fetch.target), ("GET", WELL_KNOWN));
    assert_eq!(fetch.header("accept"), Some(MEDIA_TYPE));
    assert_eq!(fetch.header("host"), Some(&*host));
}

#[tokio::test]
async fn a_request_that_was_caught_cannot_be_sent_again() {
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let agents = agents(&[&peer.url("")]);
    let head = request(&peer.url(""), KEY_ID, Some("once"));
    assert!(agents.verify(&head, at(1)).await.is_ok_and(|agent| agent.is_some()));
    assert_eq!(agents.verify(&head, at(2)).await, Err(SignatureError::Replayed));
    // A signature without a nonce is also accepted only once while it is valid.
    let head = request(&peer.url(""), KEY_ID, None);
    assert!(agents.verify(&head, at(1)).await.is_ok_and(|agent| agent.is_some()));
    for now in [1, 3599] {
        assert_eq!(agents.verify(&head, at(now)).await, Err(SignatureError::Replayed));
    }
    assert_eq!(agents.verify(&head, at(3600)).await, Err(SignatureError::Expired));
    // The agent's next signature has a different creation time.
    let next = request_at(CREATED + 1, &peer.url(""), KEY_ID, None);
    assert!(agents.verify(&next, at(2)).await.is_ok_and(|agent| agent.is_some()));
    // A forged signature uses up no nonce.
    let fresh = request(&peer.url(""), KEY_ID, Some("fresh"));
    let mut forged = fresh.clone();
    forged.headers.insert("signature", head.headers["signature"].clone());
    assert_eq!(agents.verify(&forged, at(1)).await, Err(SignatureError::Signature));
    assert!(agents.verify(&fresh, at(1)).await.is_ok_and(|agent| agent.is_some()));
}

#[tokio::test]
async fn directories_of_unknown_agents_are_not_fetched() {
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let stranger = HttpPeer::start([directory("max-age=3600")]);
    let agents_of_peer = agents(&[&peer.url("")]);
    let signed = |url: &str| request(url, KEY_ID, None);
    for (head, now, expected) in [
        (signed(&stranger.url("")), 1, SignatureError::Directory),
        (signed(&peer.url("/elsewhere")), 1, SignatureError::Directory),
        (signed(&peer.url("")), -100, SignatureError::Early),
        (signed(&peer.url("")), 3600, SignatureError::Expired),
    ] {
        assert_eq!(agents_of_peer.verify(&head, at(now)).await, Err(expected));
    }
    let mut unsigned = signed(&peer.url(""));
    unsigned.headers.remove("signature-input");
    assert_eq!(agents_of_peer.verify(&unsigned, at(1)).await, Ok(None));
    let nobodys = agents(&[]);
    assert_eq!(nobodys.verify(&signed(&peer.url("")), at(1)).await, Err(SignatureError::Directory));
    assert_eq!(nobodys.verify(&unsigned, at(1)).await, Ok(None));
    assert_eq!((peer.connections(), stranger.connections()), (0, 0));
}

#[tokio::test]
async fn unknown_key_ids_do_not_cause_unlimited_fetches() {
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let agents = agents(&[&peer.url("")]);
    let unknown = request(&peer.url(""), OTHER_KEY_ID, None);
    for now in [0, 1, 59] {
        assert_eq!(agents.verify(&unknown, at(now)).await, Err(SignatureError::Key));
    }
    assert_eq!(peer.connections(), 1);
    assert_eq!(agents.verify(&unknown, at(60)).await, Err(SignatureError::Key));
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn many_at_once_wait_for_one_fetch() {
    let Reply::Answer { status, headers, body, .. } = directory("max-age=3600") else { unreachable!() };
    let late = Reply::Answer { status, headers, body, delay: Duration::from_millis(200) };
    let peer = HttpPeer::start([late]);
    let patient = AgentOptions { key_timeout: AT_ONCE, ..options(&[&peer.url("")]) };
    let agents = Arc::new(Agents::new(&patient));
    let waiting: Vec<_> = (0..20)
        .map(|number| {
            let agents = Arc::clone(&agents);
            let head = request(&peer.url(""), KEY_ID, Some(&format!("n{number}")));
            tokio::spawn(async move { agents.verify(&head, at(1)).await })
        })
        .collect();
    for task in waiting {
        let verified = task.await.expect("it does not panic");
        assert!(verified.is_ok_and(|agent| agent.is_some()));
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_silent_directory_delays_no_other_request() {
    let peer = HttpPeer::start([Reply::Silence]);
    let impatient = AgentOptions { key_timeout: Duration::from_millis(50), ..options(&[&peer.url("")]) };
    let agents = Agents::new(&impatient);
    let head = request(&peer.url(""), KEY_ID, None);
    let began = Instant::now();
    assert_eq!(agents.verify(&head, at(1)).await, Err(SignatureError::Unavailable));
    assert!(began.elapsed() < FETCH_TIMEOUTS.answer, "no request waits until the fetch times out");
}

#[tokio::test]
async fn what_is_no_directory_is_not_asked_for_again_at_once() {
    let html = Reply::Answer {
        status: 200,
        headers: vec![("Content-Type".to_owned(), "text/html".to_owned())],
        body: DIRECTORY.into(),
        delay: Duration::ZERO,
    };
    // Everything except the length is correct: one body is cut off, the other exceeds the limit.
    let saying = |length: usize, body: &str| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n");
        Reply::Raw(format!("{head}{body}").into_bytes())
    };
    let too_long = format!("{DIRECTORY}{}", " ".repeat(64 * 1024));
    for reply in [
        Reply::status(404),
        Reply::with(302, "Location", "http://127.0.0.1:9/"),
        html,
        Reply::CloseAfterRequest,
        Reply::LongBody { status: 200, bytes: 10_000_000_000 },
        saying(DIRECTORY.len() + 1, DIRECTORY),
        saying(too_long.len(), &too_long),
    ] {
        let peer = HttpPeer::start([reply, directory("max-age=3600")]);
        let agents = Agents::new(&AgentOptions { key_timeout: AT_ONCE, ..options(&[&peer.url("")]) });
        let head = request(&peer.url(""), KEY_ID, None);
        for now in [0, 59] {
            assert_eq!(agents.verify(&head, at(now)).await, Err(SignatureError::Unavailable));
        }
        assert_eq!(peer.connections(), 1);
        assert!(agents.verify(&head, at(60)).await.is_ok_and(|agent| agent.is_some()));
    }
}

#[tokio::test]
async fn keys_stay_while_new_ones_cannot_be_had() {
    let peer = Arc::new(HttpPeer::start([directory("max-age=300"), Reply::status(503)]));
    let agents = agents(&[&peer.url("")]);
    let head = |nonce| request(&peer.url(""), KEY_ID, Some(nonce));
    assert!(agents.verify(&head("a"), at(1)).await.is_ok_and(|agent| agent.is_some()));
    assert!(agents.verify(&head("b"), at(301)).await.is_ok_and(|agent| agent.is_some()));
    // A stale directory is refreshed in the background.
    let waiting = Arc::clone(&peer);
    let fetches = tokio::task::spawn_blocking(move || waiting.wait_for(2, AT_ONCE).len());
    assert_eq!(fetches.await.expect("it happens in time"), 2);
    assert!(agents.verify(&head("c"), at(302)).await.is_ok_and(|agent| agent.is_some()));
}

#[tokio::test]
async fn an_agent_that_names_no_directory_is_looked_for_in_all() {
    let (one, other) = (HttpPeer::start([Reply::status(404)]), HttpPeer::start([directory("max-age=300")]));
    let agents = agents(&[&one.url(""), &other.url("")]);
    let head = request("", KEY_ID, None);
    assert_eq!(agents.verify(&head, at(1)).await, Ok(Some(other.address().to_string())));
}

#[tokio::test]
async fn a_signature_for_another_host_is_told_from_a_wrong_one() {
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let elsewhere =
        AgentOptions { origin: SiteOrigin::from_url("https://www.example.org"), ..options(&[&peer.url("")]) };
    let head = request(&peer.url(""), KEY_ID, None);
    assert_eq!(Agents::new(&elsewhere).verify(&head, at(1)).await, Err(SignatureError::Authority));
}

#[tokio::test]
async fn a_directory_is_fetched_over_tls_from_whom_it_belongs_to() {
    let (address, authority) = tls_directory();
    let authority = ExtraRoots::parse(authority.as_bytes()).expect("certificates");
    let url = format!("https://localhost:{}", address.port());
    let head = request(&url, KEY_ID, None);
    let trusting = AgentOptions { extra_roots: Some(authority), key_timeout: AT_ONCE, ..options(&[&url]) };
    let label = format!("localhost:{}", address.port());
    assert_eq!(Agents::new(&trusting).verify(&head, at(1)).await, Ok(Some(label)));
    let strict = AgentOptions { key_timeout: AT_ONCE, ..options(&[&url]) };
    assert_eq!(Agents::new(&strict).verify(&head, at(1)).await, Err(SignatureError::Unavailable));
}

#[test]
fn a_signed_submission_is_labeled_and_no_other_is_treated_differently() {
    let (address, authority) = tls_directory();
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority).expect("it can be written");
    let url = format!("https://localhost:{}", address.port());
    let server = TestServer::with(
        &example_site(),
        &[
            ("FRONTDESK_BASE_URL", "https://www.example.com"),
            ("FRONTDESK_AGENTS__DIRECTORIES", &url),
            ("FRONTDESK_AGENTS__ALLOW_PRIVATE", "true"),
            ("FRONTDESK_AGENTS__CA_FILE", ca_file.to_str().expect("it is text")),
        ],
    );
    let now = Timestamp::now().as_second();
    let signed = request_at(now, &url, KEY_ID, Some("once"));
    let mut forged = signed.clone();
    let other = request_at(now, &url, KEY_ID, Some("twice"));
    forged.headers.insert("signature", other.headers["signature"].clone());
    let unsigned = http::Request::post("/").body(()).expect("a request").into_parts().0;
    let send = |email: &str, head: &Parts| {
        let body = json!({ "name": "Ada", "email": email, "message": "Good day" });
        let mut headers = vec![("Content-Type", "application/json")];
        for name in ["signature-agent", "signature-input", "signature"] {
            if let Some(value) = head.headers.get(name) {
                headers.push((name, value.to_str().expect("it is text")));
            }
        }
        let answer = server.request("POST", "/api/contact", &headers, body.to_string().as_bytes());
        assert_eq!((answer.status, answer.text()), (200, "{\"ok\":true}"));
    };
    let label_of = |email: &str| {
        let inbox = server.inbox();
        let found = inbox.iter().find(|submission| submission["email"] == email);
        found.expect("it is in the inbox")["_agent"].clone()
    };
    let label = json!(format!("localhost:{}", address.port()));
    // The first request waits at most two seconds for the directory. If the directory takes longer, the
    // request is not labeled.
    let mut early = 0;
    until(|| {
        early += 1;
        let email = format!("early{early}@example.com");
        send(&email, &request_at(now, &url, KEY_ID, Some(&format!("early{early}"))));
        (label_of(&email) == label).then_some(())
    })
    .expect("the directory is fetched");
    let emails = ["a@example.com", "b@example.com", "c@example.com"];
    for (email, head) in emails.iter().zip([&signed, &forged, &unsigned]) {
        send(email, head);
    }
    assert_eq!(emails.map(label_of), [label, Value::Null, Value::Null]);
    server.expect(3 + early);
}

#[test]
fn a_directory_whose_fetch_panics_costs_only_the_label() {
    let points = PanicPoints::new(&["agent-key"]);
    let peer = HttpPeer::start([directory("max-age=3600")]);
    let server = TestServer::with(
        &small_site(),
        &[
            points.variable(),
            ("FRONTDESK_BASE_URL", "https://www.example.com"),
            ("FRONTDESK_AGENTS__DIRECTORIES", &peer.url("")),
            ("FRONTDESK_AGENTS__ALLOW_PRIVATE", "true"),
        ],
    );
    let signed = request_at(Timestamp::now().as_second(), &peer.url(""), KEY_ID, Some("once"));
    let mut headers = vec![("Content-Type", "application/json")];
    for (name, value) in &signed.headers {
        headers.push((name.as_str(), value.to_str().expect("it is text")));
    }
    headers.retain(|(name, _)| *name != "host");
    let body = json!({ "name": "Ada", "email": "ada@example.com", "message": "Good day" }).to_string();
    let answer = server.request("POST", "/api/contact", &headers, body.as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(server.inbox()[0]["_agent"], Value::Null);
    assert!(server.ops("/metrics").text().contains("frontdesk_panics_total{part=\"agent_keys\"} 1\n"));
    server.assert_logged("ended the fetch of an agent key directory");
    server.expect(1);
}

fn agents(directories: &[&str]) -> Agents {
    Agents::new(&AgentOptions { key_timeout: AT_ONCE, ..options(directories) })
}

fn options(directories: &[&str]) -> AgentOptions {
    AgentOptions {
        directories: directories.iter().map(|url| Url::parse(url).expect("a URL")).collect(),
        allow_private: false,
        extra_roots: None,
        origin: SiteOrigin::from_url("https://www.example.com"),
        key_timeout: KEY_TIMEOUT,
    }
}

/// A request signed by the agent whose directory is at `url`. If `url` is empty, the request names no
/// directory.
fn request(url: &str, key_id: &str, nonce: Option<&str>) -> Parts {
    request_at(CREATED, url, key_id, nonce)
}

/// Like [`request`], but signed at the given time.
fn request_at(created: i64, url: &str, key_id: &str, nonce: Option<&str>) -> Parts {
    let mut request = http::Request::post("/api/contact").header("host", "www.example.com");
    let mut covered = String::from("\"@authority\"");
    if !url.is_empty() {
        request = request.header("signature-agent", format!("a={url:?}"));
        covered.push_str(" \"signature-agent\";key=\"a\"");
    }
    let nonce = nonce.map(|nonce| format!(";nonce={nonce:?}")).unwrap_or_default();
    let expires = created + 3600;
    let input = format!(
        "({covered});created={created};expires={expires};keyid={key_id:?}{nonce};tag=\"web-bot-auth\""
    );
    let list: sfv::List = Parser::new(&input).parse().expect("a structured field");
    let [ListEntry::InnerList(inner)] = &list[..] else { panic!("{input}") };
    let mut head = request.body(()).expect("a request").into_parts().0;
    let base = signature_base(&head, &SiteOrigin::from_url("https://www.example.com"), inner)
        .expect("all of it is there");
    let seed = URL_SAFE_NO_PAD.decode(SEED).expect("Base64");
    let signature = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed").sign(&base);
    let signature = format!("sig1=:{}:", STANDARD.encode(signature));
    head.headers.insert("signature-input", format!("sig1={input}").parse().expect("a header's value"));
    head.headers.insert("signature", signature.parse().expect("a header's value"));
    head
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(CREATED + second).expect("a time")
}

fn directory(cache_control: &str) -> Reply {
    Reply::Answer {
        status: 200,
        headers: vec![
            ("Content-Type".to_owned(), MEDIA_TYPE.to_owned()),
            ("Cache-Control".to_owned(), cache_control.to_owned()),
        ],
        body: DIRECTORY.into(),
        delay: Duration::ZERO,
    }
}

/// Starts a directory over TLS that answers two connections. Returns its address and the certificate of the
/// authority that issued its certificate, in PEM.
fn tls_directory() -> (SocketAddr, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an issuer");
    let key = KeyPair::generate().expect("a key");
    let names = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = names.signed_by(&key, &issuer).expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the usual protocols")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            key.serialize_der().try_into().expect("a private key"),
        )
        .expect("a configuration");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(2) {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            let mut head = Vec::new();
            let mut byte = [0];
            // A client that does not trust the certificate disconnects.
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {}\r\n\r\n{DIRECTORY}",
                DIRECTORY.len()
            );
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.flush();
        }
    });
    (address, issuer.pem())
}
