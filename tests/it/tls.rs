//! TLS: handshakes, plain HTTP on a TLS port, certificates that change under load, and ACME.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::support::channel_site::until;
use crate::support::pebble::Pebble;
use crate::support::port::Port;
use crate::support::tls::{Authority, Client, Secure, replace};
use crate::support::{Answer, Connection, PATIENCE, TestServer, deadlines, frontdesk, small_site};

/// A server with a certificate from its own test authority.
struct TlsServer {
    server: TestServer,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl TlsServer {
    fn start(more: &[(&str, &str)]) -> Self {
        Self::serving(&small_site(), more)
    }

    fn serving(site: &std::path::Path, more: &[(&str, &str)]) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
        let (certificate, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        let (chain, own) = authority.issue();
        std::fs::write(&certificate, chain).expect("it can be written");
        std::fs::write(&key, own).expect("it can be written");
        let text = |path: &PathBuf| path.to_str().expect("a name").to_owned();
        let (certificate, key) = (text(&certificate), text(&key));
        let mut environment = vec![
            ("FRONTDESK_LIMITS__ENABLED", "false"),
            ("FRONTDESK_BASE_URL", "https://www.example.com"),
            ("FRONTDESK_TLS__LISTEN", "127.0.0.1:0"),
            ("FRONTDESK_TLS__CERTIFICATE", &*certificate),
            ("FRONTDESK_TLS__KEY", &*key),
        ];
        environment.extend_from_slice(more);
        Self { server: TestServer::with(site, &environment), authority, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self) -> std::net::SocketAddr {
        self.server.tls.expect("it listens for TLS")
    }

    fn connect(&self) -> Secure {
        self.authority.client().connect(self.address()).expect("hands are shaken")
    }

    fn get(&self, path: &str) -> Answer {
        self.connect().request("GET", path, &[], b"").expect("an answer")
    }
}

#[test]
fn both_http_versions_are_served_and_http_1_1_is_the_default() {
    let server = TlsServer::start(&[]);
    for version in [&TLS12, &TLS13] {
        let client = Client::speaking(&server.authority, version);
        let mut connection = client.connect(server.address()).expect("hands are shaken");
        assert_eq!(connection.stream().conn.protocol_version(), Some(version.version));
        assert_eq!(connection.stream().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        for _ in 0..2 {
            assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
        }
    }
    // A client without ALPN is served too. A client that requests another name gets the same certificate.
    let mut silent =
        server.authority.client().offering(&[]).connect(server.address()).expect("hands are shaken");
    assert_eq!(silent.request("GET", "/", &[], b"").expect("an answer").status, 200);
    let error = server.authority.client().asking_for("elsewhere.example.com").connect(server.address());
    assert!(error.expect_err("it is not for that name").to_string().contains("certificate"));
    assert!(server.authority.client().offering(&["spdy/1"]).connect(server.address()).is_err());
}

#[test]
fn a_session_is_resumed_without_being_stored() {
    let server = TlsServer::start(&[]);
    for version in [&TLS12, &TLS13] {
        let client = Client::speaking(&server.authority, version);
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let mut connection = client.connect(server.address()).expect("hands are shaken");
            assert_eq!(connection.stream().conn.handshake_kind(), Some(expected));
            // With TLS 1.3, session tickets arrive with the first response.
            assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
        }
    }
}

#[test]
fn plain_requests_redirect_to_https_and_only_https_has_hsts() {
    let server = TlsServer::start(&[]);
    let secure = server.get("/");
    assert_eq!(secure.header("strict-transport-security"), Some("max-age=31536000"));
    assert_eq!(server.get("/no/such/page/").header("strict-transport-security"), Some("max-age=31536000"));
    for (method, target) in
        [("GET", "/blog/?a=b"), ("HEAD", "/"), ("GET", "/no/such/page"), ("POST", "/api/waitlist")]
    {
        let body: &[u8] = if method == "POST" { br#"{"email":"a@example.com"}"# } else { b"" };
        let mut connection = server.server.connect();
        connection
            .send(&crate::support::compose(method, target, &[("Content-Type", "application/json")], body))
            .expect("sent");
        let answer = connection.answer(method == "HEAD").expect("an answer");
        assert_eq!(answer.status, 308, "{method} {target}");
        assert_eq!(answer.header("location"), Some(&*format!("https://www.example.com{target}")));
        assert_eq!(answer.header("strict-transport-security"), None);
        assert_eq!(answer.header("vary"), Some("Accept"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(server.server.get("/.well-known/acme-challenge/x", &[]).status, 404);
    // The same form over TLS is accepted.
    let answer = server
        .connect()
        .request(
            "POST",
            "/api/waitlist",
            &[("Content-Type", "application/json")],
            br#"{"email":"a@example.com"}"#,
        )
        .expect("an answer");
    assert_eq!(answer.status, 200);
    server.server.expect(1);
}

#[test]
fn the_access_log_omits_the_target_of_a_redirected_request() {
    let server = TlsServer::start(&[("FRONTDESK_LOG__REQUESTS", "true")]);
    assert_eq!(server.server.get("/ada@example.com", &[]).status, 308);
    assert_eq!(server.server.get("/developers/", &[]).status, 308);
    server.server.assert_logged("\"path\":\"/developers/\"");
    server.server.assert_logged("\"path\":\"-\"");
    assert!(!server.server.log().contains("ada@"), "{}", server.server.log());
}

#[test]
fn redirect_and_hsts_can_be_switched_off() {
    let server = TlsServer::start(&[("FRONTDESK_TLS__REDIRECT", "false"), ("FRONTDESK_TLS__HSTS", "off")]);
    assert_eq!(server.server.get("/", &[]).status, 200);
    assert_eq!(server.get("/").header("strict-transport-security"), None);
}

#[test]
fn a_trusted_proxy_states_the_scheme_of_a_request() {
    let server = TlsServer::start(&[("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1")]);
    for (said, status) in [(None, 200), (Some("https"), 200), (Some("http"), 308)] {
        let headers: Vec<_> = said.iter().map(|scheme| ("X-Forwarded-Proto", *scheme)).collect();
        assert_eq!(server.server.get("/", &headers).status, status, "{said:?}");
    }
}

#[test]
fn plain_http_on_the_tls_port_gets_an_explanation() {
    let server = TlsServer::start(&[]);
    let mut connection = Connection::open(server.address());
    let answer = connection.request("GET", "/", &[], b"").expect("an answer");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("https://"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(connection.rest().is_ok_and(|rest| rest.is_empty()), "the connection is closed");
    // The body of a request, which is never read, does not delay or break the answer.
    let mut connection = Connection::open(server.address());
    let answer = connection.request("POST", "/api/contact", &[], &[b'x'; 9000]).expect("an answer");
    assert_eq!((answer.status, connection.rest().map_err(|error| error.kind())), (400, Ok(Vec::new())));
    // Anything else is rejected with an alert or by closing the connection.
    for nonsense in [&b"\x00\x01\x02"[..], b"\x16\x03\x01\xff\xff", b"\x80\x2e\x01\x03\x01"] {
        let mut connection = Connection::open(server.address());
        connection.send(nonsense).expect("sent");
        connection.close_writing();
        let said = connection.rest().unwrap_or_default();
        assert!(said.is_empty() || said[0] == 0x15, "{said:?}");
    }
    assert_eq!(server.get("/").status, 200);
}

/// The beginning of a handshake that announces its length but does not continue.
const HALF_A_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn a_handshake_that_stalls_is_ended() {
    let server = TlsServer::start(&deadlines(&[
        ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "1s"),
        ("FRONTDESK_SERVER__HEADER_TIMEOUT", "1s"),
    ]));
    for beginning in [&b""[..], &HALF_A_HELLO[..1], HALF_A_HELLO, b"GET / HTTP/1.1\r\n"] {
        let mut connection = Connection::open(server.address());
        // The server may have closed the connection already.
        let _ = connection.send(beginning);
        assert!(has_ended(connection.rest()), "{beginning:?}");
    }
    // Single bytes do not extend the deadline.
    let mut trickling = TcpStream::connect(server.address()).expect("it listens");
    let began = Instant::now();
    let mut open = trickling.write_all(HALF_A_HELLO).is_ok();
    while open && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        open = trickling.write_all(b"x").is_ok();
    }
    assert!(!open, "the connection is still open");
}

/// Whether reading ended because the connection ended, and not because of the test's timeout.
fn has_ended(rest: std::io::Result<Vec<u8>>) -> bool {
    rest.err().is_none_or(|error| error.kind() != std::io::ErrorKind::WouldBlock)
}

#[test]
fn the_deadlines_of_http_hold_after_the_handshake() {
    // Long enough for the handshake.
    let server = TlsServer::start(&deadlines(&[
        ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "4s"),
        ("FRONTDESK_SERVER__HEADER_TIMEOUT", "4s"),
    ]));
    let mut silent = [&["http/1.1"][..], &["h2"], &[]].map(|protocols| {
        let client = server.authority.client().offering(protocols);
        client.connect(server.address()).expect("hands are shaken")
    });
    for connection in &mut silent {
        assert!(has_ended(connection.rest()));
    }
}

#[test]
fn two_thousand_stalled_handshakes_are_shed_while_others_are_served() {
    const MANY: usize = 2000;
    let limit = getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, wanted).expect("the limit on open files can be raised");
    let server = TlsServer::start(&deadlines(&[
        ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "5s"),
        ("FRONTDESK_SERVER__HEADER_TIMEOUT", "5s"),
        ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "5000"),
    ]));
    let mut stalled: Vec<TcpStream> = (0..MANY)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            if number % 2 == 0 {
                // The server may have closed the connection already.
                let _ = stream.write_all(HALF_A_HELLO);
            }
            stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
            stream
        })
        .collect();
    assert_eq!(server.get("/").status, 200);
    for stream in &mut stalled {
        let mut rest = Vec::new();
        // A reset also ends the connection; a timeout does not.
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        assert_eq!(rest, b"");
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_large_answer_arrives_whole_and_a_reader_that_stops_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let large: Vec<u8> = (0..20_u32 << 20).map(|at| (at / 7).to_le_bytes()[0]).collect();
    std::fs::write(site.join("assets/large.bin"), &large).expect("it can be written");
    let server = TlsServer::serving(&site, &deadlines(&[("FRONTDESK_SERVER__IDLE_TIMEOUT", "3s")]));
    let mut idle = server.connect();
    idle.send(b"GET /assets/large.bin HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    for version in [&TLS12, &TLS13] {
        let mut connection =
            Client::speaking(&server.authority, version).connect(server.address()).expect("hands");
        let answer = connection.request("GET", "/assets/large.bin", &[], b"").expect("an answer");
        assert!(answer.body == large, "every byte is right");
    }
    let is_closed = || {
        let metrics = server.server.ops("/metrics");
        metrics.text().contains("frontdesk_connections_shed_total{reason=\"idle\"} 1\n").then_some(())
    };
    until(is_closed).expect("it is closed");
    let read = idle.rest().map_or(0, |rest| rest.len());
    assert!(read < large.len(), "the response was cut off");
}

#[test]
fn a_certificate_that_changes_ten_times_costs_no_request() {
    const REQUESTS: usize = 1000;
    let server = TlsServer::start(&deadlines(&[]));
    let (client, address) = (server.authority.client(), server.address());
    let (asked, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while asked.fetch_add(1, Ordering::Relaxed) < REQUESTS || !done.load(Ordering::Relaxed) {
                    let mut connection = client.connect(address).expect("hands are shaken");
                    let answer = connection.request("GET", "/", &[], b"").expect("an answer");
                    assert_eq!(answer.status, 200);
                }
            });
        }
        // Sets the flag on every exit, because the other threads would otherwise run for ever.
        let _ending = Ending(&done);
        let mut open = server.connect();
        for number in 1..=10 {
            let (chain, key) = server.authority.issue();
            // Changes the files in either order, by renaming or by overwriting.
            if number % 2 == 0 {
                replace(&server.file("chain.pem"), &chain);
                replace(&server.file("key.pem"), &key);
            } else {
                std::fs::write(server.file("key.pem"), &key).expect("it can be written");
                std::fs::write(server.file("chain.pem"), &chain).expect("it can be written");
            }
            let began = Instant::now();
            while shown(&server.authority.client().connect(server.address()).expect("hands are shaken"))
                != own_of(&chain)
            {
                assert!(
                    began.elapsed() < PATIENCE,
                    "new connections still get the old certificate: {}",
                    server.server.log()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        server.server.assert_logged_times("certificate reloaded", 10);
        // A connection that was open all the time is still usable.
        assert_eq!(open.request("GET", "/", &[], b"").map(|answer| answer.status).ok(), Some(200));
    });
    assert!(asked.load(Ordering::Relaxed) >= REQUESTS);
}

/// Sets the flag when dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The certificate that the server has presented.
fn shown(connection: &Secure) -> Vec<u8> {
    connection.stream().conn.peer_certificates().expect("it has one")[0].to_vec()
}

/// The first certificate of a chain: the server's.
fn own_of(chain: &str) -> Vec<u8> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(chain.as_bytes()).expect("a certificate").to_vec()
}

#[test]
fn a_pair_that_does_not_fit_leaves_the_old_one_in_place() {
    let server = TlsServer::start(&[]);
    let before = shown(&server.connect());
    let shown = || shown(&server.connect());
    let (chain, key) = server.authority.issue();
    replace(&server.file("chain.pem"), &chain[..chain.len() / 2]);
    server.server.assert_logged("the certificate is not valid PEM");
    assert_eq!(shown(), before);
    replace(&server.file("chain.pem"), &chain);
    server.server.assert_logged("the private key does not belong to the certificate");
    assert_eq!(shown(), before);
    std::fs::remove_file(server.file("key.pem")).expect("it was there");
    server.server.assert_logged("the private key cannot be read from");
    assert_eq!(shown(), before);
    replace(&server.file("key.pem"), &key);
    server.server.assert_logged("certificate reloaded");
    assert_eq!(shown(), own_of(&chain));
}

#[test]
fn a_changed_symbolic_link_is_a_new_certificate() {
    // Like certbot: a folder with symbolic links into an archive.
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| folder.path().join(name);
    for folder in ["archive", "live"] {
        std::fs::create_dir(at(folder)).expect("it can be made");
    }
    let issue = |number: usize| {
        let (chain, key) = authority.issue();
        std::fs::write(at(&format!("archive/chain{number}.pem")), &chain).expect("it can be written");
        std::fs::write(at(&format!("archive/key{number}.pem")), key).expect("it can be written");
        for name in ["chain", "key"] {
            let draft = at("live/draft");
            std::os::unix::fs::symlink(format!("../archive/{name}{number}.pem"), &draft).expect("a link");
            std::fs::rename(&draft, at(&format!("live/{name}.pem"))).expect("it can be renamed");
        }
        chain
    };
    issue(1);
    let (certificate, key) = (at("live/chain.pem"), at("live/key.pem"));
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_TLS__LISTEN", "127.0.0.1:0"),
            ("FRONTDESK_TLS__CERTIFICATE", certificate.to_str().expect("a name")),
            ("FRONTDESK_TLS__KEY", key.to_str().expect("a name")),
        ],
    );
    let chain = issue(2);
    server.assert_logged("certificate reloaded");
    let connection = authority.client().connect(server.tls.expect("it listens")).expect("hands are shaken");
    assert_eq!(connection.stream().conn.peer_certificates().expect("it has one")[0].to_vec(), own_of(&chain));
}

#[test]
fn an_unusable_certificate_is_reported_before_the_server_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let authority = Authority::new();
    std::fs::write(site.join("chain.pem"), authority.issue_for(vec!["example.net".into()]).0)
        .expect("written");
    std::fs::write(site.join("key.pem"), authority.issue().1).expect("written");
    let config = std::fs::read_to_string(site.join("frontdesk.toml")).expect("it is there");
    let tls = "base_url = \"https://www.example.com\"\n[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\n";
    std::fs::write(
        site.join("frontdesk.toml"),
        config.replacen("[tls]\n", "", 1).replacen("[operator]", &format!("{tls}[operator]"), 1),
    )
    .expect("written");
    // Other programs may be using the default ports.
    let serve = ["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];
    for command in [&serve[..], &["check"]] {
        let output = frontdesk().args(command).arg(&site).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(said.contains("`tls.key` does not belong to the certificate"), "{command:?}: {said}");
        assert!(
            said.contains("hint: the key must be the one that the certificate was issued for"),
            "{command:?}: {said}"
        );
    }
    let (chain, key) = authority.issue_for(vec!["example.net".into()]);
    std::fs::write(site.join("chain.pem"), chain).expect("written");
    std::fs::write(site.join("key.pem"), key).expect("written");
    let output = frontdesk().arg("check").arg(&site).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`tls.certificate` is not for \"www.example.com\""), "{said}");
    assert!(said.contains("`tls.key` can be read by every user"), "{said}");
}

#[test]
#[ignore = "needs sslscan; `scripts/test door` runs it"]
fn a_tls_scan_finds_no_old_version_and_no_weak_cipher() {
    let server = TlsServer::start(&[]);
    let output = Command::new("sslscan")
        .args(["--xml=-", "--no-color", &server.address().to_string()])
        .output()
        .expect("sslscan runs");
    let xml = String::from_utf8(output.stdout).expect("XML is text");
    for version in [
        "type=\"ssl\" version=\"2\"",
        "type=\"ssl\" version=\"3\"",
        "type=\"tls\" version=\"1.0\"",
        "type=\"tls\" version=\"1.1\"",
    ] {
        assert!(xml.contains(&format!("<protocol {version} enabled=\"0\"")), "{version}: {xml}");
    }
    for version in ["1.2", "1.3"] {
        assert!(
            xml.contains(&format!("<protocol type=\"tls\" version=\"{version}\" enabled=\"1\"")),
            "{xml}"
        );
    }
    assert!(xml.contains("<renegotiation supported=\"0\""), "{xml}");
    assert!(!xml.contains("<compression supported=\"1\""), "{xml}");
    assert!(!xml.contains("vulnerable=\"1\""), "{xml}");
    let ciphers: Vec<&str> = xml.lines().filter(|line| line.contains("<cipher ")).collect();
    assert!(ciphers.len() >= 6, "{xml}");
    for cipher in ciphers {
        let is_forward_secret =
            cipher.contains("sslversion=\"TLSv1.3\"") || cipher.contains("cipher=\"ECDHE-");
        let is_authenticated = cipher.contains("GCM") || cipher.contains("CHACHA20");
        assert!(is_forward_secret && is_authenticated, "{cipher}");
    }
}

/// A server that gets its certificate from `pebble`.
fn asking(pebble: &Pebble, tls: &Port, data: &std::path::Path) -> TestServer {
    let authority = pebble.authority().file();
    TestServer::at(
        &small_site(),
        data,
        &[
            ("FRONTDESK_TLS__LISTEN", &tls.address().to_string()),
            ("FRONTDESK_TLS__ACME_DOMAINS", "localhost,desk.example.com"),
            ("FRONTDESK_TLS__ACME_EMAIL", "hello@example.com"),
            ("FRONTDESK_TLS__ACME_DIRECTORY", &pebble.directory()),
            ("FRONTDESK_TLS__ACME_CA_FILE", authority.to_str().expect("a name")),
        ],
    )
}

#[test]
#[ignore = "needs pebble; `scripts/test door` runs it"]
fn a_certificate_is_obtained_served_and_kept_over_a_restart() {
    let (tls, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
    // The client repeats a request whose nonce was rejected, with three attempts in total. With this share of
    // rejected nonces, about one order in twelve still fails. Seven failed orders in a row, with a chance of
    // 1/12^7 < 1e-7, would exceed the test's timeout.
    let pebble = Pebble::start(tls.number(), 20);
    let mut server = asking(&pebble, &tls, folder.path());
    // Handshakes fail until the server has a certificate. Plain HTTP is served.
    assert_eq!(server.get("/", &[]).status, 308);
    server.assert_logged("authority issued a certificate");
    server.assert_logged("certificate stored");
    let root = pebble.root();
    let mut issued = Vec::new();
    for name in ["localhost", "desk.example.com"] {
        let mut connection = Client::trusting(&root)
            .asking_for(name)
            .connect(server.tls.expect("it listens"))
            .expect("hands are shaken");
        assert_eq!(connection.request("GET", "/", &[], b"").expect("an answer").status, 200);
        issued = shown(&connection);
    }
    let orders =
        pebble.log().iter().filter(|line| line.contains("There are now") && line.contains("orders")).count();
    assert!(orders > 0, "pebble logs its orders");
    server.terminate();
    server.restart();
    let began = Instant::now();
    let later = loop {
        match Client::trusting(&root).connect(server.tls.expect("it listens")) {
            Ok(connection) => break shown(&connection),
            Err(error) => assert!(began.elapsed() < PATIENCE, "no certificate: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(later, issued, "it is the one of the last run");
    let asked: Vec<String> = pebble.log();
    assert!(!asked.iter().any(|line| line.contains("order")), "nothing is ordered again: {asked:#?}");
}

#[test]
#[ignore = "needs pebble; `scripts/test door` runs it"]
fn a_failed_certificate_order_is_retried() {
    let (tls, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
    // The authority connects to an address without a server, until a forwarder is started there.
    let elsewhere = Port::reserve();
    let pebble = Pebble::start(elsewhere.number(), 0);
    let server = asking(&pebble, &tls, folder.path());
    server.assert_logged("certificate order failed; will retry");
    server.assert_logged("Failed to connect");
    assert!(Client::trusting(&pebble.root()).connect(server.tls.expect("it listens")).is_err());
    assert_eq!(server.get("/", &[]).status, 308);
    let listener = std::net::TcpListener::bind(elsewhere.address()).expect("it is free");
    let tls = tls.address();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(tls) else { return };
            for (mut from, mut to) in [
                (stream.try_clone().expect("a handle"), server.try_clone().expect("a handle")),
                (server, stream),
            ] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    server.assert_logged("authority issued a certificate");
    assert!(Client::trusting(&pebble.root()).connect(server.tls.expect("it listens")).is_ok());
}

#[test]
#[ignore = "needs pebble; `scripts/test door` runs it"]
fn an_account_that_the_authority_does_not_know_is_replaced() {
    let (tls, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
    let pebble = Pebble::start(tls.number(), 0);
    let mut server = asking(&pebble, &tls, folder.path());
    server.assert_logged("certificate stored");
    server.terminate();
    let files: Vec<PathBuf> = std::fs::read_dir(folder.path().join("acme"))
        .expect("a folder")
        .map(|file| file.expect("a file").path())
        .collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        if file.extension().is_some_and(|extension| extension == "json") {
            let known = std::fs::read_to_string(&file).expect("it can be read");
            let unknown = known.replace("my-account/", "my-account/0");
            assert_ne!(known, unknown);
            std::fs::write(&file, unknown).expect("it can be written");
        } else {
            std::fs::remove_file(&file).expect("it can be removed");
        }
    }
    server.restart();
    server.assert_logged("accountDoesNotExist");
    // Each message is logged once before the restart and once after it.
    server.assert_logged_times("ACME account stored", 2);
    server.assert_logged_times("certificate stored", 2);
    assert!(Client::trusting(&pebble.root()).connect(server.tls.expect("it listens")).is_ok());
}
