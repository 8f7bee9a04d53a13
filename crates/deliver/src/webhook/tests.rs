//! Tests attempts against misbehaving peers, over TLS, and with names that resolve to changing or private
//! addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::HeaderMap;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use uuid::Uuid;

use super::*;
use crate::http_peer::{HttpPeer, Reply, Request};
use crate::notification::Topic;
use crate::port::Port;

const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Time limit for steps that should finish at once. Long enough for a busy machine.
const AT_ONCE: Duration = Duration::from_mins(2);

/// Longer than the maximum length of a header.
const MAX_LINE: usize = 40_000;

/// A time limit so short that a test can wait until it expires.
const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_notification_is_one_post_with_all_headers() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let outcome = webhook(&peer.url("/in?key=1"), &[OLD]).send(&notice()).await;
    assert_eq!(outcome, Outcome::Delivered("200 OK".to_owned()));
    let [request] = &peer.requests()[..] else { panic!("{:?}", peer.requests()) };
    assert_eq!((&*request.method, &*request.target), ("POST", "/in?key=1"));
    assert_eq!(request.header("host"), Some(&*peer.address().to_string()));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!(request.header("content-length"), Some(&*request.body.len().to_string()));
    assert_eq!(request.header("user-agent"), Some(concat!("frontdesk/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(request.header("connection"), Some("close"));
    assert_eq!(request.header("transfer-encoding"), None);
    assert_eq!(request.body, WebhookBody::Standard.render(&notice()).unwrap().as_bytes());
    assert_eq!(request.headers.len(), 9, "{:?}", request.headers);
}

#[tokio::test]
async fn a_receiver_can_verify_either_of_two_signatures() {
    let peer = HttpPeer::start([Reply::status(204)]);
    webhook(&peer.url("/"), &[OLD, NEW]).send(&notice()).await;
    let request = peer.requests().remove(0);
    for secret in [OLD, NEW] {
        verify(secret, &request).unwrap();
    }
    verify("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &request).unwrap_err();
    let mut changed = request.clone();
    changed.body[0] = b'[';
    verify(OLD, &changed).unwrap_err();
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed() {
    let peer = HttpPeer::start([Reply::status(200)]);
    webhook(&peer.url("/"), &[]).send(&notice()).await;
    let request = peer.requests().remove(0);
    assert_eq!(request.header("webhook-signature"), None);
    assert_eq!(request.header("webhook-id"), Some(&*notice().id.to_string()));
}

#[tokio::test]
async fn a_second_attempt_differs_only_in_time_and_signature() {
    static SECONDS: AtomicUsize = AtomicUsize::new(0);
    let clock = || {
        let seconds = SECONDS.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_second(1_700_000_000 + i64::try_from(seconds).unwrap()).unwrap()
    };
    let peer = HttpPeer::start([Reply::status(500), Reply::status(200)]);
    let webhook = Webhook::with_clock(options(&peer.url("/"), &[OLD]), NameResolver::System, clock);
    assert_eq!(failure(webhook.send(&notice()).await).cause, Cause::Unclear);
    assert_eq!(webhook.send(&notice()).await, Outcome::Delivered("200 OK".to_owned()));
    let [first, second] = &peer.requests()[..] else { panic!("two requests") };
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.body, second.body);
    assert_eq!(first.header("webhook-timestamp"), Some("1700000000"));
    assert_ne!(first.header("webhook-timestamp"), second.header("webhook-timestamp"));
    assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
    assert!(first.at <= second.at);
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn the_status_determines_the_outcome_which_quotes_the_peer() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let webhook = webhook(&peer.url("/"), &[]);
    for (reply, cause, text) in [
        (
            Reply::saying(422, "no such\nfield"),
            Cause::Notification,
            "422 Unprocessable Entity: no such field",
        ),
        (Reply::saying(410, ""), Cause::Gone, "410 Gone"),
        (Reply::status(404), Cause::Unclear, "404 Not Found"),
        (Reply::status(500), Cause::Unclear, "500 Internal Server Error"),
        (
            Reply::with(301, "Location", &peer.url("/elsewhere")),
            Cause::Unclear,
            &format!(
                "301 Moved Permanently: the redirect to {} was not followed: set the channel's `url` to the final address",
                peer.url("/elsewhere")
            ),
        ),
    ] {
        peer.follow([reply]);
        let AttemptFailure { cause: found, answer, retry_after, .. } = failure(webhook.send(&notice()).await);
        assert_eq!((found, &*answer, retry_after), (cause, text, None));
    }
    assert_eq!(peer.connections(), 5, "no redirect was followed");
    peer.follow([Reply::with(429, "Retry-After", "120")]);
    assert_eq!(failure(webhook.send(&notice()).await).retry_after, Some(Duration::from_mins(2)));
}

#[tokio::test]
async fn a_response_that_is_not_http_has_an_unclear_cause() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let webhook = webhook(&peer.url("/"), &[]);
    for reply in [
        Reply::CloseBeforeRequest,
        Reply::CloseAfterRequest,
        Reply::Raw(b"220 mail.example.com ESMTP\r\n".to_vec()),
        Reply::Raw(b"HTTP/1.1 99 Short\r\n\r\n".to_vec()),
        Reply::Raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec()),
        Reply::Raw(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        Reply::Raw(vec![0xff; 100]),
    ] {
        peer.follow([reply.clone()]);
        let failure = failure(webhook.send(&notice()).await);
        assert_eq!(failure.cause, Cause::Unclear, "{reply:?}: {}", failure.answer);
        let told = failure.answer.starts_with(&format!("{}: waiting for the response: ", peer.address()));
        assert!(told || failure.answer.starts_with("101 "), "{reply:?}: {}", failure.answer);
    }
}

#[tokio::test]
async fn a_readable_status_decides_in_any_response() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "Set-Cookie: c=1\r\n".repeat(900));
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(MAX_LINE));
    let peer = HttpPeer::start([Reply::status(200)]);
    let webhook = webhook(&peer.url("/"), &[]);
    let raw = |bytes: &[u8]| Reply::Raw(bytes.to_vec());
    for reply in [
        Reply::HalfHeader,
        Reply::EndlessHeaders,
        raw(many.as_bytes()),
        raw(long.as_bytes()),
        raw(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n  c; path=/\r\nContent-Length: 0\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nX\xe9: \x00\r\n\r\n"),
        raw(b"HTTP/1.1 200 \xd3\xca\xbc\xfe\r\n\r\n"),
        raw(b"HTTP/1.1 200\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\n\nok"),
        raw(b"HTTP/1.0 200 OK\r\n\r\nok"),
        raw(b"HTTP/2 200 \r\n\r\n"),
        raw(b"HTTP/1.1 200 OK"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: one\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nok"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxyz"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nxyz\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz"),
        raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n"),
    ] {
        peer.follow([reply.clone()]);
        let outcome = webhook.send(&notice()).await;
        assert!(matches!(outcome, Outcome::Delivered(_)), "{reply:?}: {outcome:?}");
    }
    assert!(peer.sent() < 16 * 1024 * 1024, "headers are not read for ever: {}", peer.sent());
    // Malformed header fields do not prevent reading the `Retry-After` and the body of a refusal, either.
    peer.follow([raw(
        b"HTTP/1.1 429 Slow\r\nRetry-After : 7\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nwait",
    )]);
    let failure = failure(webhook.send(&notice()).await);
    assert_eq!((failure.cause, failure.retry_after), (Cause::Deferred, Some(Duration::from_secs(7))));
    assert_eq!(failure.answer, "429 Too Many Requests: wait");
}

#[tokio::test]
async fn waiting_for_a_response_times_out() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let deadlines = FetchTimeouts { answer: SHORT, ..DEADLINES };
    let webhook = Webhook::new(WebhookOptions { deadlines, ..options(&peer.url("/"), &[]) });
    for reply in [Reply::Silence, Reply::late(200, Duration::from_mins(10))] {
        peer.follow([reply]);
        let began = Instant::now();
        let failure = failure(webhook.send(&notice()).await);
        assert!(began.elapsed() < AT_ONCE);
        let text = format!("{}: waiting for the response: timed out after 0.15 s", peer.address());
        assert_eq!((failure.cause, failure.answer), (Cause::Unclear, text));
    }
    assert_eq!(peer.wait_for(2, AT_ONCE).len(), 2);
    peer.follow([Reply::HeaderDrip { every: Duration::from_millis(5) }]);
    assert!(matches!(webhook.send(&notice()).await, Outcome::Delivered(_)), "the status was in time");
}

#[tokio::test]
async fn endless_interim_responses_end_the_attempt_early() {
    let peer = HttpPeer::start([Reply::EndlessInterim]);
    let webhook = Webhook::new(options(&peer.url("/"), &[]));
    let failure = failure(webhook.send(&notice()).await);
    assert_eq!(failure.cause, Cause::Unclear);
    assert!(failure.answer.ends_with("the response is longer than 512 KiB"), "{}", failure.answer);
    assert!(peer.sent() < 16 * 1024 * 1024, "{}", peer.sent());
}

#[tokio::test]
async fn an_endless_body_does_not_change_the_outcome() {
    const TEN_GIGABYTES: u64 = 10_000_000_000;
    let peer = HttpPeer::start([Reply::status(200)]);
    // Long enough to receive the beginning of a body.
    let deadlines = FetchTimeouts { body: Duration::from_secs(2), ..DEADLINES };
    let webhook = Webhook::new(WebhookOptions { deadlines, ..options(&peer.url("/"), &[]) });
    for (reply, expected) in [
        (Reply::LongBody { status: 200, bytes: TEN_GIGABYTES }, "200 OK"),
        (Reply::StalledBody { status: 202 }, "202 Accepted"),
        (Reply::LongBody { status: 503, bytes: TEN_GIGABYTES }, "503 Service Unavailable: xxx"),
        (Reply::StalledBody { status: 400 }, "400 Bad Request: so"),
    ] {
        peer.follow([reply.clone()]);
        let began = Instant::now();
        let outcome = webhook.send(&notice()).await;
        assert!(began.elapsed() < AT_ONCE);
        let is_success = matches!(outcome, Outcome::Delivered(_));
        let (Outcome::Delivered(text) | Outcome::Failed(AttemptFailure { answer: text, .. })) = outcome;
        assert!(text.starts_with(expected) && text.chars().count() < 300, "{reply:?}: {text}");
        assert_eq!(is_success, expected.starts_with('2'));
    }
    // The peer filled only the operating system's buffers.
    assert!(peer.sent() < 64 * 1024 * 1024, "{}", peer.sent());
}

#[tokio::test]
async fn a_closed_port_is_named_in_the_error() {
    let port = Port::reserve();
    let address = port.address();
    let failure = failure(webhook(&format!("http://{address}/"), &[]).send(&notice()).await);
    assert_eq!(failure.cause, Cause::Channel);
    let place = format!("{address}: connecting to 127.0.0.1: Connection refused");
    assert!(failure.answer.starts_with(&place), "{}", failure.answer);
}

#[tokio::test]
async fn each_attempt_checks_the_resolved_addresses_again() {
    // Each attempt resolves the name once, checks the addresses, and connects only to checked addresses.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let answers = ["127.0.0.1", "10.0.0.1"].map(|text| text.parse::<IpAddr>().unwrap());
    let resolver =
        NameResolver::Custom(Box::new(move |_| vec![answers[counted.fetch_add(1, Ordering::SeqCst)]]));
    let peer = HttpPeer::start([Reply::status(200)]);
    let options = options(&format!("http://localhost:{}/", peer.address().port()), &[]);
    let webhook = Webhook::with_clock(options, resolver, Timestamp::now);
    assert_eq!(webhook.send(&notice()).await, Outcome::Delivered("200 OK".to_owned()));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let failure = failure(webhook.send(&notice()).await);
    let text = format!(
        "localhost:{}: the name leads to 10.0.0.1, which is not a loopback address",
        peer.address().port()
    );
    assert_eq!((failure.cause, failure.answer), (Cause::Channel, text));
    assert_eq!((asked.load(Ordering::SeqCst), peer.connections()), (2, 1));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let port = peer.address().port();
    for (addresses, allow_private, part) in [
        (["127.0.0.1", "127.0.0.1"], false, "127.0.0.1 is not on the public Internet"),
        (["127.0.0.1", "8.8.8.8"], false, "127.0.0.1 is not on the public Internet"),
        (["127.0.0.1", "169.254.169.254"], true, "169.254.169.254 belongs to the metadata service"),
    ] {
        let addresses = addresses.map(|text| text.parse::<IpAddr>().unwrap());
        let resolver = NameResolver::Custom(Box::new(move |_| addresses.to_vec()));
        let options =
            WebhookOptions { allow_private, ..options(&format!("https://hooks.example.com:{port}/"), &[]) };
        let failure = failure(Webhook::with_clock(options, resolver, Timestamp::now).send(&notice()).await);
        assert!(failure.answer.contains(part), "{}", failure.answer);
        assert_eq!(failure.cause, Cause::Channel);
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let (issuer, authority) = authority();
    let (address, server) = tls_server(&issuer, "hooks.example.com").await;
    // A second lookup would return an address that has no server.
    let asked = AtomicUsize::new(0);
    let resolver = NameResolver::Custom(Box::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => vec![address.ip()],
        _ => vec!["127.0.0.2".parse().unwrap()],
    }));
    let mut options = options(&format!("https://hooks.example.com:{}/in", address.port()), &[]);
    options.allow_private = true;
    options.extra_roots = Some(authority);
    let webhook = Webhook::with_clock(options, resolver, Timestamp::now);
    assert_eq!(webhook.send(&notice()).await, Outcome::Delivered("200 OK".to_owned()));
    let (name, protocol, head) = server.await.unwrap().unwrap();
    assert_eq!(name.as_deref(), Some("hooks.example.com"));
    assert_eq!(protocol.as_deref(), Some(&b"http/1.1"[..]));
    assert!(head.starts_with("POST /in HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: hooks.example.com:{}\r\n", address.port())), "{head}");
}

#[tokio::test]
async fn a_certificate_may_be_for_an_address() {
    let (issuer, authority) = authority();
    let (address, server) = tls_server(&issuer, "127.0.0.1").await;
    let mut options = options(&format!("https://{address}/"), &[]);
    options.extra_roots = Some(authority);
    assert_eq!(Webhook::new(options).send(&notice()).await, Outcome::Delivered("200 OK".to_owned()));
    let (name, _, _) = server.await.unwrap().unwrap();
    assert_eq!(name, None, "an address is not a server name (RFC 6066 §3)");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let (issuer, _) = authority();
    let (_, another) = authority();
    for roots in [None, Some(another)] {
        let text = over_tls(&issuer, "hooks.example.com", roots).await;
        assert!(text.contains("TLS handshake: invalid peer certificate: UnknownIssuer"), "{text}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (issuer, authority) = authority();
    let text = over_tls(&issuer, "other.example.com", Some(authority)).await;
    assert!(
        text.contains("TLS handshake: invalid peer certificate: certificate not valid for name"),
        "{text}"
    );
}

#[tokio::test]
async fn a_peer_without_tls_is_reported_as_such() {
    let peer = HttpPeer::start([Reply::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())]);
    let deadlines = FetchTimeouts { tls: SHORT, ..DEADLINES };
    let url = peer.url("/").replace("http://", "https://");
    let webhook = Webhook::new(WebhookOptions { deadlines, ..options(&url, &[]) });
    let failure = failure(webhook.send(&notice()).await);
    assert!(failure.answer.contains("TLS handshake"), "{}", failure.answer);
    assert_eq!(failure.cause, Cause::Channel);
}

#[test]
fn roots_are_certificates_in_pem() {
    for pem in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let fault = ExtraRoots::parse(pem.as_bytes()).unwrap_err();
        assert!(fault.contains("BEGIN CERTIFICATE"), "{fault}");
    }
}

#[test]
fn the_deadlines_end_before_the_attempt_does() {
    let FetchTimeouts { resolve, connect, tls, answer, body } = DEADLINES;
    assert!(resolve + connect + tls + answer + body < LONGEST_ATTEMPT);
}

#[test]
fn a_webhook_shows_neither_its_secrets_nor_its_path() {
    let options = options("https://hooks.example.com/services/T0/secret", &[OLD]);
    let shown = format!("{options:?}");
    assert!(!shown.contains("T0") && !shown.contains("C2FV"), "{shown}");
}

fn options(url: &str, secrets: &[&str]) -> WebhookOptions {
    WebhookOptions {
        url: Url::parse(url).unwrap(),
        secrets: secrets.iter().map(|text| SigningKey::parse(text).unwrap()).collect(),
        body: WebhookBody::Standard,
        token: None,
        allow_private: false,
        extra_roots: None,
        deadlines: DEADLINES,
    }
}

fn webhook(url: &str, secrets: &[&str]) -> Webhook {
    Webhook::new(options(url, secrets))
}

fn notice() -> Notification {
    Notification {
        is_suspicious: false,
        may_be_there: true,
        id: Uuid::from_u128(0x0193_4a5b_6c7d_7e8f_9a0b_1c2d_3e4f_5a6b),
        topic: Topic::Submission,
        created_at: "2026-11-20T14:03:05.12Z".parse().unwrap(),
        dated_at: "2026-11-20T14:03:05.12Z".parse().unwrap(),
        form: Some("waitlist".to_owned()),
        definition: None,
        title: "Waitlist: Ada".to_owned(),
        lines: Vec::new(),
        fields: vec![("email".to_owned(), "ada@example.com".into())],
        lead: frontdesk_forms::LeadSource::default(),
    }
}

fn failure(outcome: Outcome) -> AttemptFailure {
    match outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Delivered(text) => panic!("delivered: {text}"),
    }
}

fn verify(secret: &str, request: &Request) -> Result<(), standardwebhooks::WebhookError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    standardwebhooks::Webhook::new(secret).unwrap().verify(&request.body, &headers)
}

/// A certificate authority, and the roots that trust it.
fn authority() -> (CertifiedIssuer<'static, KeyPair>, ExtraRoots) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("Authority {}", COUNT.fetch_add(1, Ordering::SeqCst));
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let roots = ExtraRoots::parse(issuer.pem().as_bytes()).unwrap();
    (issuer, roots)
}

/// The server name, the negotiated protocol and the request header that a TLS server received.
type Seen = (Option<String>, Option<Vec<u8>>, String);

/// A TLS server with a certificate for `name`, which answers one request with 200.
async fn tls_server(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
) -> (SocketAddr, tokio::task::JoinHandle<std::io::Result<Seen>>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = acceptor.accept(stream).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await?;
        stream.flush().await?;
        let connection = stream.get_ref().1;
        let name = connection.server_name().map(str::to_owned);
        Ok((
            name,
            connection.alpn_protocol().map(<[u8]>::to_vec),
            String::from_utf8_lossy(&head).into_owned(),
        ))
    });
    (address, server)
}

/// The error from a delivery attempt to `hooks.example.com` when the server's certificate is for `name`.
async fn over_tls(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    roots: Option<ExtraRoots>,
) -> String {
    let (address, server) = tls_server(issuer, name).await;
    let resolver = NameResolver::Custom(Box::new(move |_| vec![IpAddr::from([127, 0, 0, 1])]));
    let mut options = options(&format!("https://hooks.example.com:{}/", address.port()), &[]);
    options.allow_private = true;
    options.extra_roots = roots;
    let failure = failure(Webhook::with_clock(options, resolver, Timestamp::now).send(&notice()).await);
    assert!(server.await.unwrap().is_err(), "the server received no request");
    assert_eq!(failure.cause, Cause::Channel);
    failure.answer
}

const SIGNED_ID: Uuid = Uuid::from_u128(0x0193_4a5b_6c7d_7e8f_9a0b_1c2d_3e4f_5a6b);

#[test]
fn a_short_key_is_refused_with_a_command_that_creates_one() {
    for text in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &format!("whsec_{}", "A".repeat(84) + "AA==")] {
        assert!(SigningKey::parse(text).is_ok(), "{text}");
    }
    for text in [
        "",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!",
        &format!("whsec_{}", "A".repeat(88)),
    ] {
        let fault = SigningKey::parse(text).unwrap_err();
        assert!(fault.contains("openssl rand") && !fault.contains("MfKQ"), "{text}: {fault}");
    }
}

#[test]
fn a_signature_equals_that_of_openssl() {
    // printf '%s' '01934a5b-6c7d-7e8f-9a0b-1c2d3e4f5a6b.1700000000.{"a":"ü"}' | openssl dgst -sha256 -mac
    // hmac -macopt hexkey:$(echo MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw | base64 -d | xxd -p) -binary | base64
    check_signature(
        &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        Some("v1,/AyhO+rx6k2//RlNaeuTgzEFuogUEbQlsr25GY5Rn1E="),
    );
    check_signature(
        &["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        Some(
            "v1,FhMvvDyfOcbDZv5zWhmGXIeYGCQ3QYfRVP2ZLD3My8s= v1,/AyhO+rx6k2//RlNaeuTgzEFuogUEbQlsr25GY5Rn1E=",
        ),
    );
}

#[test]
fn without_a_key_nothing_is_signed() {
    check_signature(&[], None);
}

fn check_signature(keys: &[&str], signature: Option<&str>) {
    let keys: Vec<SigningKey> = keys.iter().map(|text| SigningKey::parse(text).unwrap()).collect();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let found = signed_headers(&keys, SIGNED_ID, now, r#"{"a":"ü"}"#);
    let found: Vec<(&str, &str)> =
        found.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    let id = ("webhook-id", "01934a5b-6c7d-7e8f-9a0b-1c2d3e4f5a6b");
    let mut expected = vec![id, ("webhook-timestamp", "1700000000")];
    expected.extend(signature.map(|signature| ("webhook-signature", signature)));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_token_is_sent_to_ntfy_and_never_shown() {
    let peer = HttpPeer::start([Reply::status(200)]);
    let body = WebhookBody::Service(ChatService::Ntfy { topic: "desk".to_owned() });
    let mut options = WebhookOptions { body, ..options(&peer.url("/"), &[]) };
    options.token = Some(SecretString::from("tk_sesame".to_owned()));
    assert!(!format!("{options:?}").contains("sesame"), "{options:?}");
    let webhook = Webhook::new(options);
    webhook.send(&notice()).await;
    assert_eq!(peer.requests()[0].header("authorization"), Some("Bearer tk_sesame"));
    peer.follow([Reply::saying(404, "there is nothing at /bottk_sesame/sendMessage")]);
    let answer = failure(webhook.send(&notice()).await).answer;
    assert_eq!(answer, "404 Not Found: there is nothing at /bot…/sendMessage");
}

#[tokio::test]
async fn telegram_gets_its_token_in_the_url_only() {
    let peer = HttpPeer::start([Reply::saying(429, r#"{"parameters":{"retry_after":7}}"#)]);
    let body = WebhookBody::Service(ChatService::Telegram { chat: "-1001".to_owned() });
    let mut options = WebhookOptions { body, ..options(&peer.url("/bot1:sesame/sendMessage"), &[]) };
    options.token = Some(SecretString::from("1:sesame".to_owned()));
    let failure = failure(Webhook::new(options).send(&notice()).await);
    assert_eq!((failure.cause, failure.retry_after), (Cause::Deferred, Some(Duration::from_secs(7))));
    let [request] = &peer.requests()[..] else { panic!("{:?}", peer.requests()) };
    assert_eq!((&*request.target, request.header("authorization")), ("/bot1:sesame/sendMessage", None));
    assert!(!String::from_utf8_lossy(&request.body).contains("sesame"));
}
