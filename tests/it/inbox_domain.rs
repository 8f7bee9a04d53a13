//! The inbox under its own domain: which TLS names and hosts reach it, on the public sockets and on its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::support::channel_site::until;
use crate::support::pebble::Pebble;
use crate::support::port::Port;
use crate::support::tls::{Authority, Client, Secure, replace};
use crate::support::{Answer, Connection, PATIENCE, TestServer, frontdesk, small_site, store_of};

const SITE: &str = "www.example.com";
const DESK: &str = "desk.example.com";

/// A server whose site and inbox have certificates of the same authority.
struct DomainServer {
    server: TestServer,
    authority: Authority,
    folder: tempfile::TempDir,
    /// The address at which the inbox is served over TLS.
    desk: SocketAddr,
}

impl DomainServer {
    /// The inbox is served on the public TLS sockets.
    fn shared() -> Self {
        Self::start(&[])
    }

    /// The inbox has its own address.
    fn own() -> Self {
        Self::start(&[("FRONTDESK_INBOX__LISTEN", "127.0.0.1:0")])
    }

    fn start(more: &[(&str, &str)]) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
        let names = [("site", SITE), ("desk", DESK)];
        let [site, desk] = names.map(|(file, name)| write_certificate(&authority, folder.path(), file, name));
        let environment = [
            ("FRONTDESK_LIMITS__ENABLED", "false"),
            ("FRONTDESK_BASE_URL", "https://www.example.com"),
            ("FRONTDESK_TLS__LISTEN", "127.0.0.1:0"),
            ("FRONTDESK_TLS__CERTIFICATE", &*site[0]),
            ("FRONTDESK_TLS__KEY", &*site[1]),
            ("FRONTDESK_INBOX__DOMAIN", DESK),
            ("FRONTDESK_INBOX__CERTIFICATE", &*desk[0]),
            ("FRONTDESK_INBOX__KEY", &*desk[1]),
        ];
        let server = TestServer::with(&small_site(), &[&environment[..], more].concat());
        let url = inbox_url(&server);
        let desk = url.parse().unwrap_or_else(|_| server.tls.expect("it listens for TLS"));
        Self { server, authority, folder, desk }
    }

    fn public(&self) -> SocketAddr {
        self.server.tls.expect("it listens for TLS")
    }

    fn client(&self, name: &'static str) -> Client {
        self.authority.client().asking_for(name)
    }

    /// A connection that requests the inbox's name.
    fn connect(&self) -> Secure {
        self.client(DESK).connect(self.desk).expect("hands are shaken")
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        ask(&mut self.connect(), "GET", path, DESK, headers, "")
    }

    fn login_link(&self, address: &[&str]) -> String {
        let output = frontdesk()
            .args(["inbox", "open", "--print", "--site"])
            .arg(self.server.site())
            .arg("--data-dir")
            .arg(self.server.data_dir())
            .args(address)
            .envs(store_of(&self.server.data_dir()))
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

fn write_certificate(authority: &Authority, folder: &Path, file: &str, name: &str) -> [String; 2] {
    let (chain, key) = authority.issue_for(vec![name.to_owned()]);
    [(format!("{file}.pem"), chain), (format!("{file}.key"), key)].map(|(file, content)| {
        let path = folder.join(file);
        std::fs::write(&path, content).expect("it can be written");
        path.to_str().expect("a name").to_owned()
    })
}

/// The rest of the line with the address of the inbox, after `https://`.
fn inbox_url(server: &TestServer) -> String {
    let began = Instant::now();
    let mut told = String::new();
    loop {
        told += &server.told();
        if let Some(url) = told.lines().find_map(|line| line.strip_prefix("inbox on https://")) {
            return url.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{told}");
        std::thread::yield_now();
    }
}

/// Sends a request with this `Host`, if it is not empty.
fn ask(
    connection: &mut Connection<impl std::io::Read + std::io::Write>,
    method: &str,
    target: &str,
    host: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = format!("{method} {target} HTTP/1.1\r\n");
    if !host.is_empty() {
        request += &format!("Host: {host}\r\n");
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if method == "POST" {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    connection.send(format!("{request}\r\n{body}").as_bytes()).expect("sent");
    connection.answer(method == "HEAD").expect("an answer")
}

/// Whether the answer is a page of the inbox: here, the one that asks for a login.
fn is_inbox(answer: &Answer) -> bool {
    answer.status == 401 && answer.text().contains("frontdesk inbox open")
}

/// Whether the answer is the site's home page.
fn is_site(answer: &Answer) -> bool {
    answer.status == 200 && answer.header("vary").is_some() && !answer.text().contains("frontdesk inbox open")
}

#[test]
fn only_the_name_and_the_host_together_reach_the_inbox_on_public_sockets() {
    let server = DomainServer::shared();
    assert_eq!(inbox_name(&server), DESK);
    let check = |name: &'static str, host: &str, expected: &str| {
        let mut connection = server.client(name).connect(server.public()).expect("hands are shaken");
        let answer = ask(&mut connection, "GET", "/", host, &[], "");
        let found = match answer.status {
            _ if is_inbox(&answer) => "inbox",
            _ if is_site(&answer) => "site",
            421 => "421",
            other => panic!("{name} {host:?}: {other} {}", answer.text()),
        };
        assert_eq!(found, expected, "{name} {host:?}");
    };
    for host in [DESK, "DESK.example.com", "desk.example.com:443", "desk.example.com:8443"] {
        check(DESK, host, "inbox");
        check(SITE, host, "421");
    }
    check(SITE, "desk.example.com.", "421");
    for host in [SITE, "localhost", "127.0.0.1", "[::1]", "desk.example.com.", "a.desk.example.com"] {
        check(DESK, host, "421");
    }
    for host in [SITE, "localhost", "127.0.0.1", "a.desk.example.com", "desk.example.com.example.net"] {
        check(SITE, host, "site");
    }
}

/// The inbox's URL in the output of `inbox open`, without the scheme and the path.
fn inbox_name(server: &DomainServer) -> String {
    let link = server.login_link(&["--address", "https://desk.example.com"]);
    link.strip_prefix("https://").and_then(|rest| rest.split_once('/')).expect("a link").0.to_owned()
}

#[test]
fn a_client_without_a_name_reaches_the_site_only() {
    let server = DomainServer::shared();
    // A client sends no name if it connects to an IP address. The certificate is not for that address.
    let mut silent = server.authority.client().asking_for("127.0.0.1").connect(server.public());
    assert!(silent.as_mut().is_err_and(|error| error.to_string().contains("certificate")));
    let own = DomainServer::own();
    let refused = own.authority.client().asking_for("127.0.0.1").connect(own.desk);
    assert!(refused.is_err_and(|error| error.to_string().contains("UnrecognisedName")));
}

#[test]
fn other_forms_of_a_request_do_not_cross_over() {
    let server = DomainServer::shared();
    for (name, target, host, expected) in [
        // The authority of an absolute target replaces `Host`.
        (DESK, "https://www.example.com/", DESK, 421),
        (DESK, "https://desk.example.com/", DESK, 401),
        (SITE, "https://desk.example.com/", SITE, 421),
        (DESK, "/", "", 421),
    ] {
        let mut connection = server.client(name).connect(server.public()).expect("hands are shaken");
        let answer = ask(&mut connection, "GET", target, host, &[], "");
        assert_eq!(answer.status, expected, "{name} {target} {host}: {}", answer.text());
    }
    // The fast path and hyper agree, on a connection that has served the site before.
    let mut connection = server.client(SITE).connect(server.public()).expect("hands are shaken");
    for (method, headers) in
        [("GET", &[][..]), ("HEAD", &[]), ("GET", &[("Range", "bytes=0-1")]), ("POST", &[])]
    {
        assert_eq!(ask(&mut connection, "GET", "/", SITE, &[], "").status, 200);
        let answer = ask(&mut connection, method, "/", DESK, headers, "");
        assert_eq!((answer.status, answer.header("cache-control")), (421, Some("no-store")), "{method}");
    }
    // No form of the site is accepted under the inbox's name.
    let json = [("Content-Type", "application/json")];
    let body = r#"{"email":"a@example.com"}"#;
    assert_eq!(ask(&mut connection, "POST", "/api/waitlist", DESK, &json, body).status, 421);
    server.server.expect(0);
}

#[test]
fn http2_serves_the_site_and_never_the_inbox() {
    let server = DomainServer::shared();
    let status = |authority: &str| {
        let config = server.client(SITE).offering(&["h2"]).config();
        request_over_http2(server.public(), config, authority)
    };
    assert_eq!(status(SITE), 200);
    assert_eq!(status(DESK), 421, "as on a connection that a browser shares between names");
    assert_eq!(status("DESK.example.com:443"), 421);
    // The inbox offers no HTTP/2, so no connection to it can be shared.
    let both = server.client(DESK).offering(&["h2", "http/1.1"]).connect(server.public());
    assert_eq!(both.expect("hands are shaken").stream().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(server.client(DESK).offering(&["h2"]).connect(server.public()).is_err());
}

fn request_over_http2(
    address: SocketAddr,
    config: tokio_rustls::rustls::ClientConfig,
    authority: &str,
) -> u16 {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
        let name = ServerName::try_from(SITE).expect("a name");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.expect("hands are shaken");
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("the preface is sent");
        tokio::spawn(connection);
        let request = http::Request::builder().uri(format!("https://{authority}/"));
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
        sender.send_request(request).await.expect("an answer").status().as_u16()
    })
}

#[test]
fn an_own_address_serves_the_domain_only() {
    let server = DomainServer::own();
    for version in [&TLS12, &TLS13] {
        let client = Client::speaking(&server.authority, version).asking_for(DESK);
        let mut connection = client.connect(server.desk).expect("hands are shaken");
        // The connection is kept.
        for _ in 0..2 {
            assert!(is_inbox(&ask(&mut connection, "GET", "/", DESK, &[], "")));
        }
        assert_eq!(ask(&mut connection, "GET", "/", "localhost", &[], "").status, 421);
        assert_eq!(ask(&mut connection, "GET", "/", &server.desk.to_string(), &[], "").status, 421);
    }
    for name in [SITE, "localhost"] {
        let refused = server.client(name).connect(server.desk);
        assert!(refused.is_err_and(|error| error.to_string().contains("UnrecognisedName")), "{name}");
    }
    // On the public sockets, the domain leads nowhere.
    let refused = server.client(DESK).connect(server.public());
    assert!(refused.is_err_and(|error| error.to_string().contains("UnrecognisedName")));
    let mut public = server.client(SITE).connect(server.public()).expect("hands are shaken");
    assert_eq!(ask(&mut public, "GET", "/", DESK, &[], "").status, 421);
    assert!(is_site(&ask(&mut public, "GET", "/", SITE, &[], "")));
    // Plain HTTP gets an explanation.
    let plain = ask(&mut Connection::open(server.desk), "GET", "/", DESK, &[], "");
    assert_eq!(plain.status, 400);
    assert!(plain.text().contains("expects HTTPS"), "{}", plain.text());
}

#[test]
fn plain_http_for_the_domain_is_redirected_and_serves_nothing() {
    for (server, port) in [(DomainServer::shared(), None), (DomainServer::own(), Some(()))] {
        // `base_url` says that the public sockets are reached at port 443.
        let port = port.map(|()| format!(":{}", server.desk.port())).unwrap_or_default();
        let mut connection = server.server.connect();
        for (method, target) in
            [("GET", "/?state=open"), ("HEAD", "/"), ("POST", "/login"), ("GET", "/blog/")]
        {
            let answer = ask(&mut connection, method, target, DESK, &[], "");
            let location = format!("https://{DESK}{port}{target}");
            assert_eq!((answer.status, answer.header("location")), (308, Some(&*location)));
            assert_eq!(answer.header("strict-transport-security"), None);
        }
        // The site's names are redirected as without a domain.
        let answer = ask(&mut connection, "GET", "/blog/", SITE, &[], "");
        assert_eq!(answer.header("location"), Some("https://www.example.com/blog/"));
        // Files that another ACME client writes into the site are served.
        let path = "/.well-known/acme-challenge/x";
        assert_eq!(ask(&mut connection, "GET", path, DESK, &[], "").status, 404);
    }
    // Also if plain requests for the site are not redirected.
    let server = DomainServer::start(&[("FRONTDESK_TLS__REDIRECT", "false")]);
    let mut connection = server.server.connect();
    assert_eq!(ask(&mut connection, "GET", "/", SITE, &[], "").status, 200);
    assert_eq!(ask(&mut connection, "GET", "/", DESK, &[], "").status, 308);
}

#[test]
fn a_login_over_tls_has_secure_cookies_and_hsts() {
    for (server, suffix) in [(DomainServer::shared(), None), (DomainServer::own(), Some(()))] {
        let suffix = suffix.map(|()| format!("-{}", server.desk.port())).unwrap_or_default();
        let link = server.login_link(&["--address", "https://desk.example.com"]);
        let token = link.rsplit_once('=').expect("a token").1;
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let log_in = |origin: &str| {
            let body = format!("token={token}");
            let headers = [form, ("Origin", origin)];
            ask(&mut server.connect(), "POST", "/login", DESK, &headers, &body)
        };
        assert_eq!(log_in("http://desk.example.com").status, 403);
        assert_eq!(log_in("https://www.example.com").status, 403);
        let answer = log_in("https://desk.example.com");
        assert_eq!(answer.status, 303);
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"));
        let cookie = answer.header("set-cookie").expect("a cookie");
        let name = format!("__Host-frontdesk-inbox{suffix}");
        assert!(cookie.starts_with(&format!("{name}=")), "{cookie}");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let pair = cookie.split(';').next().expect("a pair");
        let list = server.get("/?state=open", &[("Cookie", pair)]);
        assert_eq!(list.status, 200);
        assert_eq!(list.header("strict-transport-security"), Some("max-age=31536000"));
        // A cookie without the prefix, which a page without TLS could set, is not read.
        let plain = pair.replacen("__Host-", "", 1);
        assert_eq!(server.get("/", &[("Cookie", &plain)]).status, 401);
        // The cookie has no effect on the site.
        let mut site = server.client(SITE).connect(server.public()).expect("hands are shaken");
        assert!(is_site(&ask(&mut site, "GET", "/", SITE, &[("Cookie", pair)], "")));
    }
}

#[test]
fn forged_headers_of_a_proxy_are_ignored_on_public_sockets() {
    // The client's address is that of a trusted proxy of the site.
    let server = DomainServer::start(&[("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1")]);
    for headers in [&[("X-Auth-User", "ada")][..], &[("Remote-User", "ada"), ("X-Forwarded-Proto", "http")]] {
        assert!(is_inbox(&server.get("/", headers)));
    }
    // A proxy that has terminated TLS does not lead to the site under the inbox's name, or into a loop.
    let mut plain = server.server.connect();
    let https = [("X-Forwarded-Proto", "https")];
    assert_eq!(ask(&mut plain, "GET", "/", DESK, &https, "").status, 421);
    assert_eq!(ask(&mut plain, "GET", "/", DESK, &[("X-Forwarded-Proto", "http")], "").status, 308);
}

#[test]
fn a_source_without_a_login_is_limited_and_others_are_not_affected() {
    let server = DomainServer::shared();
    let mut connection = server.connect();
    let mut statuses = Vec::new();
    for _ in 0..70 {
        statuses.push(ask(&mut connection, "GET", "/", DESK, &[], "").status);
    }
    assert!(statuses[..60].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses[60..].contains(&429), "{statuses:?}");
    let refused = ask(&mut connection, "GET", "/login?token=x", DESK, &[], "");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")));
    assert_eq!(ask(&mut connection, "GET", "/inbox.css", DESK, &[], "").status, 200);
    // The site is not affected.
    let mut site = server.client(SITE).connect(server.public()).expect("hands are shaken");
    assert!(is_site(&ask(&mut site, "GET", "/", SITE, &[], "")));
}

#[test]
fn connections_that_send_nothing_close_neither_the_inbox_nor_the_site() {
    let server = DomainServer::shared();
    // More than the inbox admits from one source: the oldest ones are closed.
    let mut waiting: Vec<Secure> = (0..80).map(|_| server.connect()).collect();
    assert!(is_inbox(&server.get("/", &[])));
    let mut site = server.client(SITE).connect(server.public()).expect("hands are shaken");
    assert!(is_site(&ask(&mut site, "GET", "/", SITE, &[], "")));
    let closed = waiting.iter_mut().take(10).map(|connection| match connection.rest() {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
    });
    let closed = closed.filter(|is_closed| *is_closed).count();
    assert_eq!(closed, 10);
    drop(waiting);
    let are_closed = until(|| {
        let metrics = server.server.ops("/metrics");
        let open = metrics.text().lines().find_map(|line| line.strip_prefix("frontdesk_connections_open "));
        open.filter(|open| open.parse::<u32>().is_ok_and(|open| open <= 2)).map(|_| ())
    });
    assert_eq!(are_closed, Some(()));
}

#[test]
fn idle_connections_to_the_inbox_make_room_for_visitors() {
    let server = DomainServer::start(&[
        ("FRONTDESK_SERVER__MAX_CONNECTIONS", "48"),
        ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "48"),
        ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_NETWORK", "48"),
    ]);
    let mut idle = Vec::new();
    while let Ok(mut connection) = server.client(DESK).connect(server.public()) {
        assert_eq!(ask(&mut connection, "GET", "/inbox.css", DESK, &[], "").status, 200);
        idle.push(connection);
        if idle.len() == 48 {
            break;
        }
    }
    assert!(idle.len() >= 40, "{}", idle.len());
    // A visitor from another network.
    let visit = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok()?;
        socket.bind(&SocketAddr::from(([127, 0, 1, 1], 0)).into()).ok()?;
        socket.connect(&server.public().into()).ok()?;
        let mut connection = server.client(SITE).greet(socket.into()).ok()?;
        Some(ask(&mut connection, "GET", "/", SITE, &[], ""))
    };
    let began = Instant::now();
    for _ in 0..3 {
        assert!(until(visit).is_some_and(|answer| is_site(&answer)));
    }
    // Idle connections of the inbox would otherwise end after twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(idle[0].rest().map_or_else(|error| error.kind() == std::io::ErrorKind::UnexpectedEof, |_| true));
}

#[test]
fn a_renewed_certificate_is_served_without_a_restart() {
    let server = DomainServer::shared();
    let shown = |connection: &Secure| {
        let chain = connection.stream().conn.peer_certificates().expect("a certificate");
        chain[0].to_vec()
    };
    let (before, site) =
        (shown(&server.connect()), shown(&server.client(SITE).connect(server.public()).unwrap()));
    assert_ne!(before, site, "the certificates are separate");
    let (chain, key) = server.authority.issue_for(vec![DESK.to_owned()]);
    replace(&server.folder.path().join("desk.key"), &key);
    replace(&server.folder.path().join("desk.pem"), &chain);
    server.server.signal(Signal::HUP);
    let renewed = until(|| Some(shown(&server.connect())).filter(|shown| *shown != before));
    assert!(renewed.is_some());
    assert_eq!(shown(&server.client(SITE).connect(server.public()).unwrap()), site);
    let metrics = server.server.ops("/metrics");
    let has = |name: &str| metrics.text().lines().any(|line| line.starts_with(&format!("{name} ")));
    assert!(has("frontdesk_certificate_expiry_timestamp_seconds"));
    assert!(has("frontdesk_inbox_certificate_expiry_timestamp_seconds"));
}

#[test]
fn a_shutdown_ends_open_connections_of_the_inbox() {
    let mut server = DomainServer::shared();
    let mut idle = server.connect();
    assert!(is_inbox(&ask(&mut idle, "GET", "/", DESK, &[], "")));
    let (code, took) = server.server.terminate();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(!idle.rest().is_ok_and(|rest| !rest.is_empty()));
}

#[test]
#[ignore = "needs pebble; `scripts/test door` runs it"]
fn the_domain_gets_a_certificate_of_its_own_from_the_authority() {
    let (tls, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
    let pebble = Pebble::start(tls.number(), 0);
    let authority = pebble.authority().file();
    let server = TestServer::at(
        &small_site(),
        folder.path(),
        &[
            ("FRONTDESK_TLS__LISTEN", &tls.address().to_string()),
            ("FRONTDESK_TLS__ACME_DOMAINS", "localhost"),
            ("FRONTDESK_TLS__ACME_EMAIL", "hello@example.com"),
            ("FRONTDESK_TLS__ACME_DIRECTORY", &pebble.directory()),
            ("FRONTDESK_TLS__ACME_CA_FILE", authority.to_str().expect("a name")),
            ("FRONTDESK_INBOX__DOMAIN", DESK),
        ],
    );
    server.assert_logged_times("certificate stored", 2);
    let root = pebble.root();
    let client = |name| Client::trusting(&root).asking_for(name);
    let mut desk = client(DESK).connect(server.tls.expect("it listens")).expect("hands are shaken");
    assert!(is_inbox(&ask(&mut desk, "GET", "/", DESK, &[], "")));
    let site = client("localhost").connect(server.tls.expect("it listens")).expect("hands are shaken");
    let shown = |connection: &Secure| connection.stream().conn.peer_certificates().expect("one")[0].to_vec();
    assert_ne!(shown(&desk), shown(&site));
}
