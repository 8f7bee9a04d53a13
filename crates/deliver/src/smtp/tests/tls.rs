//! Tests of implicit TLS and STARTTLS with a self-signed certificate.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::smtp_peer::{Shared, converse, lock, serve};

struct TlsPeer {
    port: u16,
    pem: Vec<u8>,
    record: Shared,
}

#[tokio::test]
async fn implicit_tls_encrypts_the_whole_session() {
    let peer = start(SmtpTls::Implicit, "localhost", Script::usual().offering("AUTH PLAIN"));
    let smtp = Smtp::new(with_login(peer.options(SmtpTls::Implicit)));
    for _ in 0..2 {
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    }
    assert_eq!(lock(&peer.record).received.len(), 2);
    assert_eq!(lock(&peer.record).connections, 1);
}

#[tokio::test]
async fn starttls_precedes_login_and_message() {
    let peer = start(SmtpTls::StartTls, "localhost", Script::usual().offering("AUTH PLAIN"));
    let smtp = Smtp::new(with_login(peer.options(SmtpTls::StartTls)));
    for _ in 0..2 {
        let outcome = smtp.send(&notice("x")).await;
        assert!(matches!(outcome, Outcome::Delivered(_)), "{outcome:?}");
    }
    let record = lock(&peer.record);
    assert_eq!(record.received.len(), 2);
    assert_eq!(record.commands[..3], ["EHLO example.com", "STARTTLS", "EHLO example.com"]);
    assert_eq!(record.connections, 1);
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    for tls in [SmtpTls::Implicit, SmtpTls::StartTls] {
        let peer = start(tls, "localhost", Script::usual());
        let smtp = Smtp::new(SmtpOptions { extra_roots: None, ..peer.options(tls) });
        check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "invalid peer certificate");
        assert!(lock(&peer.record).received.is_empty());
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    for tls in [SmtpTls::Implicit, SmtpTls::StartTls] {
        let peer = start(tls, "mail.example.com", Script::usual());
        let smtp = Smtp::new(peer.options(tls));
        check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "invalid peer certificate");
        assert!(lock(&peer.record).received.is_empty());
    }
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_message_nor_login() {
    let peer = SmtpPeer::start(vec![Script::usual().offering("AUTH PLAIN")]);
    let smtp = Smtp::new(with_login(SmtpOptions { tls: SmtpTls::StartTls, ..options(&peer) }));
    check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "STARTTLS: the server does not offer it");
    assert_eq!(peer.record().commands, ["EHLO example.com"]);
}

#[tokio::test]
async fn a_server_that_refuses_starttls_gets_neither_message_nor_login() {
    let script = Script::with(At::StartTls, Do::Say("454 4.7.0 not now")).offering("STARTTLS");
    let peer = SmtpPeer::start(vec![script]);
    let smtp = Smtp::new(SmtpOptions { tls: SmtpTls::StartTls, ..options(&peer) });
    check_outcome(&smtp.send(&notice("x")).await, Cause::Deferred, "454 4.7.0 not now (STARTTLS, ");
    assert!(!peer.record().commands.iter().any(|line| line.starts_with("MAIL")));
}

#[tokio::test]
async fn replies_injected_before_the_handshake_are_ignored() {
    // An attacker on the path appends a forged EHLO reply to the reply to STARTTLS.
    let (pem, config) = certificate("localhost");
    let record = Shared::default();
    let shared = Arc::clone(&record);
    let address = serve(move |stream, _| {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        let mut say = |stream: &mut BufReader<TcpStream>, words: &str| {
            stream.get_mut().write_all(words.as_bytes()).and_then(|()| stream.read_line(&mut line))
        };
        let said = say(&mut stream, "220 hello\r\n")
            .and_then(|_| say(&mut stream, "250-peer\r\n250 STARTTLS\r\n"))
            .and_then(|_| stream.get_mut().write_all(b"220 go ahead\r\n250-forged\r\n250 AUTH PLAIN\r\n"));
        if said.is_ok() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let _ =
                converse(StreamOwned::new(connection, stream.into_inner()), &Script::usual(), &shared, false);
        }
    });
    let options = SmtpOptions {
        port: address.port(),
        extra_roots: Some(ExtraRoots::parse(&pem).expect("a certificate")),
        tls: SmtpTls::StartTls,
        ..bare_options()
    };
    let smtp = Smtp::new(SmtpOptions { host: "localhost".to_owned(), ..options });
    check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "STARTTLS");
    assert!(lock(&record).received.is_empty());
}

#[tokio::test]
async fn a_stalled_handshake_times_out() {
    let address = serve(|stream, _| {
        let _ = BufReader::new(stream).lines().count();
    });
    let mut smtp = Smtp::new(SmtpOptions { port: address.port(), tls: SmtpTls::Implicit, ..bare_options() });
    smtp.options.deadlines.tls = IMPATIENT;
    check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "to the TLS handshake within 5s");
}

impl TlsPeer {
    fn options(&self, tls: SmtpTls) -> SmtpOptions {
        let host = "localhost".to_owned();
        let extra_roots = Some(ExtraRoots::parse(&self.pem).expect("a certificate"));
        SmtpOptions { host, port: self.port, tls, extra_roots, ..bare_options() }
    }
}

fn certificate(name: &str) -> (Vec<u8>, Arc<ServerConfig>) {
    let own = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("a valid key");
    (own.cert.pem().into_bytes(), Arc::new(config))
}

fn start(tls: SmtpTls, name: &str, script: Script) -> TlsPeer {
    let (pem, config) = certificate(name);
    let record = Shared::default();
    let shared = Arc::clone(&record);
    let address = serve(move |stream, _| {
        lock(&shared).connections += 1;
        let stream = if tls == SmtpTls::StartTls {
            let plain = Script::usual().offering("STARTTLS");
            let Ok(Some(stream)) = converse(stream, &plain, &shared, true) else { return };
            stream
        } else {
            stream
        };
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let _ = converse(StreamOwned::new(connection, stream), &script, &shared, tls == SmtpTls::Implicit);
    });
    TlsPeer { port: address.port(), pem, record }
}
