//! The inbox's web interface, and attacks on it: sessions, tokens, rebinding, forged headers, hostile text.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::corpus;
use crate::support::channel_site::{maildir, smtp, until, write_site};
use crate::support::panics::PanicPoints;
use crate::support::port::Port;
use crate::support::{Answer, Connection, PATIENCE, TestServer, compose, frontdesk, small_site, store_of};

/// The `Host` header that [`Connection::request`] sends, and its origin.
const HOST: (&str, &str) = ("FRONTDESK_INBOX__HOST", "www.example.com");
pub const ORIGIN: (&str, &str) = ("Origin", "http://www.example.com");
pub const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A server with the web interface on a free port.
pub struct Desk {
    pub server: TestServer,
    address: SocketAddr,
}

/// An operator who is logged in.
struct Operator<'a> {
    desk: &'a Desk,
    cookie: String,
}

impl Desk {
    fn start() -> Desk {
        Desk::with(&[])
    }

    fn with(environment: &[(&str, &str)]) -> Desk {
        Desk::of_site(&small_site(), environment)
    }

    pub fn of_site(site: &Path, environment: &[(&str, &str)]) -> Desk {
        let common =
            [HOST, ("FRONTDESK_LIMITS__ENABLED", "false"), ("FRONTDESK_INBOX__LISTEN", "127.0.0.1:0")];
        let server = TestServer::with(site, &[&common[..], environment].concat());
        let began = Instant::now();
        let mut told = String::new();
        let address = loop {
            told += &server.told();
            let line = told.lines().find_map(|line| line.strip_prefix("inbox on http://"));
            if let Some(address) = line {
                break address.parse().expect("an address");
            }
            assert!(began.elapsed() < PATIENCE, "{told}");
            std::thread::yield_now();
        };
        Desk { server, address }
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut connection = Connection::open(self.address);
        connection.request(method, path, headers, body.as_bytes()).expect("it answers")
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.request("GET", path, headers, "")
    }

    /// Runs `frontdesk inbox` with these arguments.
    fn command(&self, arguments: &[&str]) -> (bool, String, String) {
        let output = frontdesk()
            .arg("inbox")
            .args(arguments)
            .arg("--site")
            .arg(self.server.site())
            .arg("--data-dir")
            .arg(self.server.data_dir())
            .envs(store_of(&self.server.data_dir()))
            .output()
            .expect("the command runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    /// The path of a new login link.
    fn login_path(&self) -> String {
        let (is_good, out, err) = self.command(&["open", "--print", "--address", "http://x"]);
        assert!(is_good, "{err}");
        out.trim().strip_prefix("http://x").expect("a link").to_owned()
    }

    fn use_link(&self, path: &str) -> Answer {
        let token = path.rsplit_once('=').expect("a token").1;
        self.request("POST", "/login", &[FORM, ORIGIN], &format!("token={token}"))
    }

    fn log_in(&self) -> Operator<'_> {
        let answer = self.use_link(&self.login_path());
        assert_eq!(answer.status, 303);
        let cookie = answer.header("set-cookie").expect("a cookie").split(';').next().expect("a pair");
        Operator { desk: self, cookie: cookie.to_owned() }
    }

    fn contact(&self, fields: &Value) -> bool {
        self.server.post("/api/contact", fields).status == 200
    }

    /// Sends a contact message, and returns the submission's id.
    pub fn submit(&self, name: &str, message: &str) -> String {
        let fields = json!({ "name": name, "email": "ada@example.com", "message": message });
        assert!(self.contact(&fields));
        let listed = self.server.inbox();
        listed[0]["id"].as_str().expect("an id").to_owned()
    }

    fn log(&self) -> Vec<String> {
        let (_, out, _) = self.command(&["log", "--json"]);
        let entry = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
        out.lines().map(|line| entry(line)["action"].as_str().expect("a name").to_owned()).collect()
    }
}

impl Operator<'_> {
    fn get(&self, path: &str) -> Answer {
        self.desk.get(path, &[("Cookie", &self.cookie)])
    }

    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text().to_owned()
    }

    fn form_token(&self) -> String {
        let page = self.page("/sessions");
        let after = page.split_once("name=\"form_token\" value=\"").expect("a token").1;
        after.split('"').next().expect("its end").to_owned()
    }

    fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.desk.request("POST", path, &[&[("Cookie", self.cookie.as_str())], headers].concat(), body)
    }

    /// Sends a form, and returns the path to which the response leads.
    fn post(&self, path: &str, fields: &str) -> String {
        let body = format!("form_token={}&{fields}", self.form_token());
        let answer = self.post_with(path, &[FORM, ORIGIN], &body);
        assert_eq!(answer.status, 303, "{path} {fields}: {}", answer.text());
        answer.header("location").expect("a location").to_owned()
    }
}

#[test]
fn a_login_link_works_once_and_only_if_its_button_is_pressed() {
    let desk = Desk::start();
    let path = desk.login_path();
    // A program that follows links does not use it up.
    for _ in 0..3 {
        let answer = desk.get(&path, &[]);
        assert_eq!((answer.status, answer.header("set-cookie")), (200, None));
        assert!(answer.text().contains("<button class=\"main\">Log in</button>"));
    }
    let answer = desk.use_link(&path);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/?state=open")));
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(desk.use_link(&path).status, 401);
    assert_eq!(desk.get(&path, &[]).status, 401);
    for token in ["", "0", &"0".repeat(64), &"../".repeat(20)] {
        assert_eq!(desk.use_link(&format!("/login?token={token}")).status, 401, "{token}");
    }
    // The database has neither the token nor the cookie.
    let token = path.rsplit_once('=').expect("a token").1;
    let session = cookie.split(['=', ';']).nth(1).expect("a value");
    let files = std::fs::read_dir(desk.server.data_dir()).expect("a folder").flatten();
    for file in files.filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).expect("a file");
        for secret in [token, session] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{file:?}");
        }
    }
    assert!(!desk.server.log().contains(token) && !desk.server.log().contains(session));
    assert_eq!(desk.log(), ["log-in", "open"]);
}

#[test]
fn a_link_that_leads_nowhere_is_not_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::reserve();
    let listen = port.address().to_string();
    let data = folder.path().join("data");
    let open = |environment: &[(&str, &str)]| {
        let mut command = frontdesk();
        command.args(["inbox", "open"]).arg(small_site()).arg("--data-dir").arg(&data);
        let output = command.env("FRONTDESK_INBOX__LISTEN", &listen).envs(store_of(&data));
        let output = output.envs(environment.iter().copied()).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let mut server = TestServer::at(&small_site(), &data, &[("FRONTDESK_INBOX__LISTEN", &listen)]);
    let (is_good, out, err) = open(&[]);
    assert!(is_good && out.starts_with(&format!("http://{listen}/login?token=")), "{out}{err}");
    assert_eq!(server.terminate().0, Some(0));
    let (is_good, out, err) = open(&[HOST]);
    assert!(is_good && out.starts_with("https://www.example.com/login?token="), "{out}{err}");
    assert!(err.contains("No server on this machine listens at `inbox.listen`"), "{err}");
    let (is_good, out, err) = open(&[]);
    if store_of(&data).is_some() {
        assert!(is_good, "with PostgreSQL, the server may run on another machine: {err}");
    } else {
        assert!(!is_good && out.is_empty(), "{out}");
        assert!(err.contains("no server listens at 127.0.0.1:"), "{err}");
    }
}

#[test]
fn a_page_that_panics_costs_only_that_page() {
    let points = PanicPoints::new(&["inbox-page /statistics"]);
    let desk = Desk::with(&[points.variable()]);
    let operator = desk.log_in();
    assert_eq!(operator.get("/statistics").status, 500);
    assert_eq!(operator.get("/sessions").status, 200);
    assert!(desk.server.ops("/metrics").text().contains("frontdesk_panics_total{part=\"inbox\"} 1\n"));
    desk.server.assert_logged("ended a request to the inbox; the response is a 500");
    points.set(&["export"]);
    // A complete response ends with an empty chunk.
    let is_complete = || {
        let headers = [("Cookie", &*operator.cookie), ("Connection", "close")];
        let mut connection = Connection::open(desk.address);
        connection.send(&compose("GET", "/export.csv", &headers, b"")).expect("it is sent");
        connection.rest().is_ok_and(|received| received.ends_with(b"\r\n0\r\n\r\n"))
    };
    assert!(!is_complete(), "an export that lacks submissions must not look complete");
    points.set(&[]);
    assert!(is_complete());
    assert_eq!(operator.get("/statistics").status, 200);
}

#[test]
fn every_page_needs_a_session_until_it_is_revoked() {
    let desk = Desk::start();
    let id = desk.submit("Ada", "Hello");
    let operator = desk.log_in();
    let other = desk.log_in();
    let paths = [
        "/",
        "/review",
        "/channels",
        "/statistics",
        "/log",
        "/sessions",
        "/export.csv",
        "/export.jsonl",
        "/events",
        "/nosuch",
        &format!("/submissions/{id}"),
    ];
    for path in paths {
        let answer = desk.get(path, &[]);
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.text().contains("Ada"), "{path}");
        for cookie in [operator.cookie.replace('=', "=0"), operator.cookie.replace("inbox", "index")] {
            assert_eq!(desk.get(path, &[("Cookie", &cookie)]).status, 401, "{path} {cookie}");
        }
    }
    assert!(operator.page("/").contains("Ada"));
    let (_, out, _) = desk.command(&["sessions"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    // By the web interface, by the command line, and by logging out.
    let own = operator.page("/sessions");
    let own = own.split("<li ").find(|row| row.contains("this one")).expect("its row");
    let own = own.split_once("name=\"id\" value=\"").expect("an id").1[..8].to_owned();
    assert_eq!(other.post("/sessions", &format!("id={own}")), "/sessions?notice=ended");
    assert_eq!(operator.get("/").status, 401);
    assert_eq!(other.get("/").status, 200);
    assert!(desk.command(&["sessions", "--all"]).0);
    assert_eq!(other.get("/").status, 401);
    let third = desk.log_in();
    assert_eq!(third.post("/sessions", &format!("id={own}")), "/sessions?notice=no-session");
    assert_eq!(third.post("/logout", ""), "/login");
    assert_eq!(third.get("/").status, 401);
    desk.server.expect(1);
}

#[test]
fn a_request_for_another_host_is_refused() {
    let desk = Desk::start();
    let operator = desk.log_in();
    for path in ["/", "/login", "/inbox.css", "/nosuch"] {
        for host in ["evil.example", "www.example.com.evil.example", "127.0.0.1.evil.example", ""] {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\n\r\n", operator.cookie);
            let mut connection = Connection::open(desk.address);
            connection.send(request.as_bytes()).expect("it is sent");
            let answer = connection.answer(false).expect("it answers");
            assert_eq!(answer.status, 403, "{path} {host}");
            assert!(answer.text().contains("inbox.host"));
        }
    }
    let own = format!("GET / HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", desk.address, operator.cookie);
    let mut connection = Connection::open(desk.address);
    connection.send(own.as_bytes()).expect("it is sent");
    assert_eq!(connection.answer(false).expect("it answers").status, 200);
}

#[test]
fn other_sites_can_neither_post_nor_load() {
    let desk = Desk::start();
    let id = desk.submit("Ada", "Hello");
    let operator = desk.log_in();
    let path = format!("/submissions/{id}");
    let body = format!("form_token={}&action=done", operator.form_token());
    let refused = [
        &[FORM][..],
        &[FORM, ("Origin", "null")],
        &[FORM, ("Origin", "http://evil.example")],
        &[FORM, ("Origin", "http://www.example.com:9999")],
        &[FORM, ORIGIN, ("Sec-Fetch-Site", "cross-site")],
        &[FORM, ORIGIN, ("Sec-Fetch-Site", "same-site")],
        &[FORM, ORIGIN, ORIGIN],
    ];
    for headers in refused {
        assert_eq!(operator.post_with(&path, headers, &body).status, 403, "{headers:?}");
    }
    // Without a form's token, or with one of another session.
    let other = desk.log_in();
    let form = [FORM, ORIGIN, ("Sec-Fetch-Site", "same-origin")];
    for token in [String::new(), "0".repeat(64), other.form_token()] {
        let body = format!("form_token={token}&action=done");
        assert_eq!(operator.post_with(&path, &form, &body).status, 403, "{token}");
    }
    assert_eq!(operator.post_with(&path, &form, "action=done").status, 403);
    // Other media types, methods and sizes.
    assert_eq!(operator.post_with(&path, &[("Content-Type", "text/plain"), ORIGIN], &body).status, 400);
    let long = format!("{body}&note={}", "x".repeat(200_000));
    let mut connection = Connection::open(desk.address);
    let sent =
        connection.request("POST", &path, &[FORM, ORIGIN, ("Cookie", &operator.cookie)], long.as_bytes());
    assert!(sent.map_or(true, |answer| answer.status == 400));
    assert_eq!(desk.request("PUT", &path, &[("Cookie", &operator.cookie), ORIGIN], "").status, 405);
    assert_eq!(
        desk.log(),
        ["open", "log-in", "open", "log-in"].map(str::to_owned).into_iter().rev().collect::<Vec<_>>()
    );
    // Scripts, images and frames of other sites.
    for (mode, destination, status) in [
        ("no-cors", "image", 403),
        ("cors", "empty", 403),
        ("navigate", "iframe", 403),
        ("navigate", "document", 200),
    ] {
        let headers = [
            ("Cookie", operator.cookie.as_str()),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", mode),
            ("Sec-Fetch-Dest", destination),
        ];
        assert_eq!(desk.get("/", &headers).status, status, "{mode} {destination}");
    }
    let answer = operator.get("/");
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    // The same form is accepted from the interface's own page.
    assert_eq!(operator.post_with(&path, &form, &body).status, 303);
    assert_eq!(desk.log()[0], "done");
    desk.server.expect(1);
}

#[test]
fn a_users_name_is_believed_from_named_proxies_only() {
    let header = ("FRONTDESK_INBOX__USER_HEADER", "X-Auth-User");
    let ada = ("X-Auth-User", "ada");
    let spoofed = Desk::with(&[header, ("FRONTDESK_INBOX__TRUSTED_PROXIES", "192.0.2.1")]);
    assert_eq!(spoofed.get("/", &[ada]).status, 401);
    assert_eq!(Desk::start().get("/", &[ada]).status, 401, "no header is configured");

    let desk = Desk::with(&[header, ("FRONTDESK_INBOX__TRUSTED_PROXIES", "127.0.0.0/8")]);
    let id = desk.submit("Ada", "Hello");
    assert_eq!(desk.get("/", &[]).status, 401);
    for name in ["", " ", "a\u{202e}b", &"x".repeat(101)] {
        assert_eq!(desk.get("/", &[("X-Auth-User", name)]).status, 401, "{name}");
    }
    assert_eq!(desk.get("/", &[ada, ("X-Auth-User", "root")]).status, 401, "two names");
    let answer = desk.get("/sessions", &[ada, ("X-Forwarded-Proto", "https")]);
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.starts_with("__Host-") && cookie.ends_with("; Secure"), "{cookie}");
    // The cookie alone does not log in, and the form's token belongs to the user.
    let answer = desk.get("/", &[ada]);
    let cookie = answer.header("set-cookie").expect("a cookie").split(';').next().expect("a pair").to_owned();
    let token = answer.text().split_once("name=\"form_token\" value=\"").expect("a token").1;
    let body = format!("form_token={}&action=done", token.split('"').next().expect("its end"));
    let post = |user: &str| {
        let headers = [("X-Auth-User", user), ("Cookie", cookie.as_str()), FORM, ORIGIN];
        desk.request("POST", &format!("/submissions/{id}"), &headers, &body).status
    };
    assert_eq!(desk.get("/", &[("Cookie", &cookie)]).status, 401);
    assert_eq!((post("bob"), post("ada")), (403, 303));
    let (_, log, _) = desk.command(&["log"]);
    assert!(log.contains("  ada  done"), "{log}");
    desk.server.expect(1);
}

#[test]
fn no_response_leads_to_another_site() {
    let desk = Desk::start();
    let id = desk.submit("Ada", "Hello");
    let operator = desk.log_in();
    let views = [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/?q=x\r\nLocation:%20https://evil.example",
        "javascript:alert(1)",
        "?before=//evil.example&q=//evil.example",
        "",
    ];
    for view in views {
        let encoded: String = view.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for action in ["done", "reopen"] {
            let path =
                operator.post(&format!("/submissions/{id}"), &format!("action={action}&view={encoded}"));
            assert!(path.starts_with("/?"), "{view}: {path}");
            assert!(!path.contains("//") && !path.contains(['\r', '\n', '\\']), "{view}: {path}");
        }
    }
    for path in ["//evil.example/", "/login?next=https://evil.example", "/?view=https://evil.example"] {
        let answer = operator.get(path);
        let location = answer.header("location");
        assert!(location.is_none_or(|location| location == "/?state=open"), "{path}: {location:?}");
    }
    for path in ["//evil.example/", "/\\evil.example/", "/;//evil.example"] {
        let answer = desk.get(path, &[]);
        assert!(answer.status == 401 && !answer.text().contains("evil"), "{path}: {}", answer.text());
    }
    assert!(desk.get("/review", &[]).text().contains("<a href=\"/review\">"));
    let notice = operator.page("/?notice=%3Cb%3EYou%20won%3C/b%3E");
    assert!(!notice.contains("You won"));
    desk.server.expect(1);
}

#[test]
fn hostile_text_stays_text_on_every_page() {
    let desk = Desk::start();
    let all = corpus::payloads();
    let html = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "{{ 'zq' ~ 'qz' }}{% raw %}",
        "'\"`<!--",
    ];
    let mut sent = 0;
    for (n, payload) in html.iter().copied().chain(all.iter().step_by(40).map(String::as_str)).enumerate() {
        let fields = [
            json!({ "name": payload, "email": format!("a{n}@example.com"), "message": payload,
                    "desk_page": payload, "desk_referrer": payload, "desk_utm_campaign": payload }),
            json!({ "firstname": payload, "lastname": payload, "company": payload, "email": format!("b{n}@example.com"),
                    "message": format!("{n} {payload}") }),
        ];
        sent += fields.iter().filter(|fields| desk.contact(fields)).count();
    }
    assert!(sent > 20, "{sent}");
    let operator = desk.log_in();
    let statistics = operator.page("/statistics");
    assert!(
        statistics.contains("Where do leads come from?") && statistics.contains("&lt;script&gt;"),
        "{statistics}"
    );
    check_markup(&statistics, "/statistics");
    let ids: Vec<String> =
        desk.server.inbox().iter().map(|found| found["id"].as_str().expect("an id").to_owned()).collect();
    let mut pages =
        vec!["/".to_owned(), "/?q=%3Cscript%3E".to_owned(), "/review".to_owned(), "/log".to_owned()];
    for id in &ids {
        let note = "%3Cscript%3Ealert(2)%3C/script%3E%3C/textarea%3E";
        operator.post(&format!("/submissions/{id}"), &format!("action=note&note={note}"));
        operator.post(&format!("/submissions/{id}"), "action=hold");
        pages.push(format!("/submissions/{id}"));
    }
    for path in &pages {
        let page = operator.page(path);
        check_markup(&page, path);
        assert!(!page.contains("zqqz"), "{path}: a template was executed");
    }
    // The confirmation before a removal.
    let selected: String = ids.iter().map(|id| format!("&id={id}")).collect();
    let body = format!("form_token={}&action=discard&from=review{selected}", operator.form_token());
    let answer = operator.post_with("/selected", &[FORM, ORIGIN], &body);
    assert_eq!(answer.status, 200);
    check_markup(answer.text(), "/review");
    for id in &ids[..3] {
        let body = format!("form_token={}&action=erase", operator.form_token());
        let answer = operator.post_with(&format!("/submissions/{id}"), &[FORM, ORIGIN], &body);
        check_markup(answer.text(), "erase");
    }
    desk.server.expect_anything();
}

/// Fails if a page has an element, an attribute or a comment that its templates do not have.
fn check_markup(page: &str, path: &str) {
    for wrong in ["<script>", "<img src=x", "onerror=alert(1)>", "<!--", "<b>", "</textarea></"] {
        assert!(!page.contains(wrong), "{path}: {wrong}");
    }
    assert_eq!(page.matches("<script").count(), 1, "{path}");
    assert_eq!(page.matches("<html").count() + page.matches("</html>").count(), 2, "{path}");
    // Outside of tags, quotes and apostrophes are escaped as well.
    for text in page.split('>').filter_map(|part| part.split('<').next()) {
        assert!(!text.contains('"') || text.starts_with(['\n', ' ']), "{path}: {text}");
    }
}

#[test]
fn the_public_and_the_monitoring_address_do_not_serve_the_inbox() {
    let desk = Desk::start();
    let operator = desk.log_in();
    let cookie = ("Cookie", operator.cookie.as_str());
    for path in ["/login", "/review", "/inbox.css", "/inbox.js", "/sessions", "/events", "/export.csv"] {
        assert_eq!(desk.server.get(path, &[cookie]).status, 404, "{path}");
        let answer =
            Connection::open(desk.server.ops).request("GET", path, &[cookie], b"").expect("it answers");
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_an_explicit_permission() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |environment: &[(&str, &str)]| {
        let output = frontdesk()
            .arg("check")
            .arg(small_site())
            .envs(environment.iter().copied())
            .env("FRONTDESK_STORE__DATA_DIR", folder.path())
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let listen = |address| ("FRONTDESK_INBOX__LISTEN", address);
    assert!(!check(&[listen("127.0.0.1:8082")]).contains("inbox."));
    assert!(!check(&[listen("[::1]:8082")]).contains("inbox."));
    assert!(!check(&[listen("unix:/run/inbox.sock")]).contains("inbox."));
    for address in [":8082", "0.0.0.0:8082", "192.0.2.1:8082"] {
        assert!(check(&[listen(address)]).contains("is not a loopback address"), "{address}");
        assert!(!check(&[listen(address), ("FRONTDESK_INBOX__ALLOW_REMOTE", "true")]).contains("inbox."));
    }
    let header = ("FRONTDESK_INBOX__USER_HEADER", "x-user");
    assert!(check(&[listen("127.0.0.1:8082"), header]).contains("has no effect without"));
    let proxies = ("FRONTDESK_INBOX__TRUSTED_PROXIES", "192.0.2.7");
    assert!(!check(&[listen("192.0.2.1:8082"), header, proxies]).contains("inbox."));
    for (key, address) in [
        ("FRONTDESK_SERVER__LISTEN", "127.0.0.1:8082"),
        ("FRONTDESK_SERVER__LISTEN", ":8082"),
        ("FRONTDESK_SERVER__OPS_LISTEN", "127.0.0.1:8082"),
    ] {
        let found = check(&[listen("127.0.0.1:8082"), (key, address)]);
        assert!(found.contains("is also another listener's address"), "{key} {address}: {found}");
    }
    for header in ["cookie", "host", "sec-fetch-site", "a b"] {
        assert!(check(&[("FRONTDESK_INBOX__USER_HEADER", header)]).contains("user_header"), "{header}");
    }
}

#[test]
fn the_test_of_a_channel_tells_its_result() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nothing listens on the port.
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let channels = [maildir("box", &folder.path().join("mail")), smtp("mail", closed, "")].concat();
    let desk = Desk::of_site(&write_site(folder.path(), &channels), &[]);
    let operator = desk.log_in();
    let test = |channel: &str| {
        let location = operator.post("/channels/test", &format!("channel={channel}"));
        assert_eq!(location, format!("/channels?tested={channel}"));
        operator.page(&location)
    };
    let page = test("box");
    assert!(
        page.contains("role=\"status\">box: The test mail was written to the mail folder.</p>"),
        "{page}"
    );
    check_markup(&page, "/channels");
    let page = test("mail");
    let sentence = "mail: The test message did not get through. The mail server could not be reached.";
    assert!(page.contains(sentence) && page.contains("127.0.0.1:"), "{page}");
    let unknown = operator.page("/channels?tested=%3Cscript%3Ealert(1)");
    assert!(!unknown.contains("role=\"status\"") && !unknown.contains("alert(1)"), "{unknown}");
}

#[test]
fn statistics_count_leads_of_a_period_without_spam() {
    let desk = Desk::with(&[("FRONTDESK_SERVER__COUNT_VIEWS", "false")]);
    for name in ["Ada", "Grace"] {
        let fields =
            json!({ "name": name, "email": "ada@example.com", "message": name, "desk_page": "/pricing/" });
        assert!(desk.contact(&fields));
    }
    let held = desk.submit("Eve", "Hello");
    assert!(desk.command(&["hold", &held]).0);
    let operator = desk.log_in();
    for (path, period) in [("/statistics", "30 days"), ("/statistics?days=365", "12 months")] {
        let page = operator.page(path);
        assert!(page.contains("<dt>Leads</dt><dd>2 "), "{page}");
        assert!(page.contains(&format!("2 more than in the {period} before")), "{page}");
        assert!(page.contains(&format!("aria-current=\"page\">{period}</a>")), "{page}");
        assert!(
            page.contains("<td>contact</td><td class=\"number\">2</td><td class=\"number\">0</td>"),
            "{page}"
        );
        assert!(page.contains("<td>/pricing/</td><td class=\"number\">2</td>"), "{page}");
        assert!(page.contains("<td>/pricing/</td><td class=\"number\">2 of 0</td>"), "{page}");
        assert!(page.contains("Page views are not counted: <code>count_views</code>"), "{page}");
        check_markup(&page, path);
    }
    desk.server.expect(3);
}

#[test]
fn submissions_are_changed_annotated_and_removed() {
    let desk = Desk::start();
    let id = desk.submit("Ada", "Hello there");
    let operator = desk.log_in();
    let path = format!("/submissions/{id}");
    let mut notices = Vec::new();
    for fields in [
        "action=done",
        "action=done",
        "action=reopen",
        "action=note&note=Call+back%0D%0Atomorrow",
        "action=hold",
        "action=hold",
        "action=retry",
        "action=release",
        "action=release",
        "action=deliver",
        "action=hold",
    ] {
        let location = operator.post(&path, fields);
        let notice = location.split_once("notice=").expect("a notice").1;
        notices.push(notice.split('&').next().unwrap_or_default().to_owned());
    }
    assert_eq!(
        notices,
        [
            "done",
            "unchanged",
            "reopened",
            "note",
            "held",
            "already-held",
            "nothing-to-retry",
            "released-only",
            "not-held",
            "not-queued",
            "held"
        ]
    );
    let page = operator.page(&path);
    assert!(page.contains("Call back\ntomorrow</p>") && page.contains("held by the operator"), "{page}");
    let shown = desk.command(&["show", &id, "--json"]).1;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["_note"], "Call back\ntomorrow");
    let unknown = format!("form_token={}&action=nosuch", operator.form_token());
    assert_eq!(operator.post_with(&path, &[FORM, ORIGIN], &unknown).status, 404);
    // A preview removes nothing.
    for action in ["discard", "erase"] {
        let body = format!("form_token={}&action={action}", operator.form_token());
        let preview = operator.post_with(&path, &[FORM, ORIGIN], &body);
        assert!(preview.status == 200 && preview.text().contains("permanently"), "{action}");
    }
    assert_eq!(desk.server.inbox().len(), 1);
    let release = format!("action=release&from=review&id={id}");
    let location = operator.post("/selected", &release);
    assert!(location.starts_with("/review?notice=released-only&count=1&undo="), "{location}");
    assert_eq!(operator.post("/selected", &release), "/review?notice=not-held");
    operator.post(&path, "action=hold");
    let location = operator.post("/selected", &format!("action=discard&from=review&confirmed=yes&id={id}"));
    assert!(
        ["/review?notice=removed", "/review?notice=not-wiped"].contains(&location.as_str()),
        "{location}"
    );
    assert_eq!(operator.get(&path).status, 404);
    let second = desk.submit("Bob", "Hello again");
    let location = operator.post(&format!("/submissions/{second}"), "action=erase&confirmed=yes");
    assert!(["/?notice=removed", "/?notice=not-wiped"].contains(&location.as_str()), "{location}");
    assert_eq!(operator.post("/selected", "action=release&from=review"), "/review?notice=none-selected");
    let mut log = desk.log();
    log.truncate(8);
    assert_eq!(log, ["erase", "discard", "hold", "release", "hold", "release", "hold", "note"]);
    desk.server.expect(0);
}

#[test]
fn lists_are_filtered_searched_and_exported() {
    let desk = Desk::start();
    let ada = desk.submit("Ada Lovelace", "About the ENGINE");
    desk.submit("Grace", "About compilers");
    let operator = desk.log_in();
    assert_eq!(desk.server.post("/api/waitlist", &json!({ "email": "bob@example.com" })).status, 200);
    desk.server.catch_up();
    operator.post(&format!("/submissions/{ada}"), "action=done");
    let names = |path: &str| {
        let page = operator.page(path);
        ["Ada Lovelace", "Grace", "bob@example.com"]
            .map(|name| page.contains(&format!("dir=\"auto\">{name}")))
    };
    assert_eq!(names("/"), [true; 3]);
    assert_eq!(names("/?state=open"), [false, true, true]);
    assert_eq!(names("/?state=done"), [true, false, false]);
    assert_eq!(names("/?form=waitlist"), [false, false, true]);
    assert_eq!(names("/?q=engine"), [true, false, false]);
    assert_eq!(names("/?q=EXAMPLE.com&form=contact"), [true, true, false]);
    assert_eq!(names("/?status=held"), [false; 3]);
    assert_eq!(names(&format!("/?order=newest&before={ada}")), [false; 3]);
    assert!(operator.page("/?q=nosuch").contains("No submission matches"));
    assert_eq!(names("/?q=%3F"), [false; 3]);
    assert!(operator.page("/?state=open&q=%3F").contains("has no letter or digit to search for"));
    let export = |path: &str| {
        let mut connection = Connection::open(desk.address);
        let headers = [("Cookie", operator.cookie.as_str()), ("Connection", "close")];
        connection.send(&compose("GET", path, &headers, b"")).expect("it is sent");
        String::from_utf8(connection.rest().expect("an answer")).expect("text")
    };
    let csv = export("/export.csv?state=done");
    assert!(
        csv.contains("attachment; filename=\"submissions.csv\"") && csv.contains("Ada Lovelace"),
        "{csv}"
    );
    assert!(!csv.contains("Grace"));
    let lines = export("/export.jsonl?q=compilers");
    assert!(lines.contains("\"name\":\"Grace\"") && !lines.contains("Ada"), "{lines}");
    assert!(!export("/export.jsonl?q=%3F").contains("\"name\""));
    desk.server.expect(3);
}

#[test]
fn selected_submissions_are_changed_together_and_undone() {
    let desk = Desk::start();
    let ids = ["Ada", "Grace", "Bob"].map(|name| desk.submit(name, "Hello, a robot please"));
    let operator = desk.log_in();
    let shown = |path: &str| {
        let page = operator.page(path);
        ["Ada", "Grace", "Bob"].map(|name| page.contains(&format!("dir=\"auto\">{name}")))
    };
    let view = "view=%2F%3Fstate%3Dopen%26q%3Drobot";
    let two = format!("id={}&id={}&id={}&id=nonsense", ids[0], ids[1], ids[0]);
    let undo_of = |location: &str| location.split_once("undo=").expect("an undo").1.to_owned();
    for (action, lists) in [
        ("done", ["/?state=done", "/?state=open"]),
        ("spam", ["/?state=spam", "/?state=open"]),
        ("hold", ["/?status=held", "/?state=open"]),
    ] {
        let location = operator.post("/selected", &format!("action={action}&{view}&{two}"));
        assert!(
            location.starts_with("/?state=open&q=robot&notice=") && location.contains("&count=2&undo="),
            "{location}"
        );
        assert_eq!(lists.map(shown), [[true, true, false], [false, false, true]], "{action}");
        let page = operator.page(&location);
        assert!(page.contains("2 submissions: ") && page.contains("action=\"/undo\""), "{page}");
        let undo = format!("undo={}&{view}", undo_of(&location));
        assert_eq!(operator.post("/undo", &undo), "/?state=open&q=robot&notice=undone");
        assert_eq!(lists.map(shown), [[false; 3], [true; 3]], "{action}");
        assert_eq!(operator.post("/undo", &undo), "/?state=open&q=robot&notice=not-undone");
        assert!(!operator.page(&location).contains("action=\"/undo\""));
    }
    let location = operator.post("/selected", &format!("action=assign&assignee=nobody-here&{view}&{two}"));
    assert_eq!(location, "/?state=open&q=robot&notice=no-such-user");
    operator.post(&format!("/submissions/{}", ids[0]), "action=assign-me");
    let location = operator.post("/selected", &format!("action=assign&assignee=&{view}&{two}"));
    assert!(location.contains("notice=unassigned&count=1&undo="), "{location}");
    assert_eq!(shown("/?state=mine"), [false; 3]);
    operator.post("/undo", &format!("undo={}&{view}", undo_of(&location)));
    assert_eq!(shown("/?state=mine"), [true, false, false]);
    // Another list or site is never the target.
    for wrong in ["%2F%2Fevil.example", "https%3A%2F%2Fevil.example%2F%3Fq%3Da", "%2Fsessions"] {
        let location = operator.post("/selected", &format!("action=done&view={wrong}&id={}", ids[2]));
        assert!(location.starts_with("/?"), "{location}");
    }
    assert_eq!(
        operator.post("/selected", &format!("action=done&{view}")),
        "/?state=open&q=robot&notice=none-selected"
    );
    desk.server.expect(3);
}

#[test]
fn not_spam_delivers_and_an_undone_mark_teaches_nothing() {
    let desk = Desk::start();
    let id = desk.submit("Ada", "We sew velvet curtains by the metre, red and blue.");
    let operator = desk.log_in();
    let path = format!("/submissions/{id}");
    let state = || {
        let abuse: Value =
            serde_json::from_str(&desk.command(&["stats", "--abuse", "--json"]).1).expect("JSON");
        (desk.server.inbox()[0]["status"].clone(), abuse["decisions"]["missed_spam"].clone())
    };
    let offers_not_spam = || operator.page(&path).contains("value=\"not-spam\"");
    assert!(!offers_not_spam());
    let location = operator.post(&path, "action=spam");
    assert!(location.contains("notice=spam&undo="), "{location}");
    assert_eq!(state(), (json!("held"), json!(1)));
    assert!(offers_not_spam() && operator.page("/?state=spam").contains("Not spam"));
    let undo = location.split_once("undo=").expect("an undo").1;
    assert_eq!(operator.post("/undo", &format!("undo={undo}&view=%2F")), "/?notice=undone");
    assert_eq!(state(), (json!("kept"), json!(0)));
    let lessons = || {
        let connection = rusqlite::Connection::open(desk.server.data_dir().join("inbox.sqlite")).expect("it");
        let read = "SELECT group_concat(teaching) FROM lesson";
        connection.query_row(read, [], |row| row.get::<_, Option<String>>(0)).expect("a row")
    };
    let is_sqlite = store_of(&desk.server.data_dir()).is_none();
    assert!(!is_sqlite || lessons().is_none(), "undoing a mistake is no decision");
    operator.post(&path, "action=spam");
    let location = operator.post(&path, "action=not-spam");
    assert!(location.contains("notice=not-spam&undo="), "{location}");
    assert_eq!(state(), (json!("kept"), json!(0)));
    assert!(!is_sqlite || lessons().as_deref() == Some("0"), "it is honest, and has one lesson");
    assert_eq!(desk.log()[..4], ["release", "not-spam", "hold", "spam"]);
    desk.server.expect(1);
}

#[test]
fn a_page_with_its_files_has_at_most_60_kilobytes() {
    let desk = Desk::start();
    let operator = desk.log_in();
    for number in 0..60 {
        let message =
            format!("We need {number} robots. {}", "They inspect the pipes of our plant. ".repeat(50));
        let name = format!("Wilhelmina Featherstonehaugh-Cholmondeley {number}");
        assert!(desk.contact(&json!({ "name": name, "email": "ada@example.com", "message": message })));
    }
    desk.server.catch_up();
    let headers = [("Cookie", operator.cookie.as_str()), ("Accept-Encoding", "gzip")];
    let size = |path: &str| desk.get(path, &headers).body.len();
    let files: usize = ["/inbox.css", "/inbox.js", "/icon.svg"].map(size).iter().sum();
    for path in ["/?state=open&q=robots", "/review", "/statistics?days=365", "/channels", "/log", "/sessions"]
    {
        assert!(files + size(path) <= 60_000, "{path}: {files} and {}", size(path));
    }
    assert_eq!(operator.page("/?state=open").matches("data-row").count(), 40);
    desk.server.expect(60);
}

#[test]
fn opened_submissions_are_read_and_leads_come_before_sign_ups() {
    let desk = Desk::start();
    let ada = desk.submit("Ada", "Hello");
    let operator = desk.log_in();
    assert_eq!(desk.server.post("/api/waitlist", &json!({ "email": "bob@example.com" })).status, 200);
    desk.server.catch_up();
    let order = |path: &str| {
        let page = operator.page(path);
        let at = |name: &str| page.find(&format!("dir=\"auto\">{name}")).expect("a row");
        at("Ada") < at("bob@example.com")
    };
    assert!(order("/") && order("/?state=open") && !order("/?order=newest"));
    let page = operator.page("/");
    assert!(
        page.contains("<h2 class=\"part\">Leads</h2>") && page.contains("<h2 class=\"part\">Sign-ups</h2>")
    );
    let unread = || operator.page("/?state=unread").matches("is-unread").count();
    assert_eq!(unread(), 2);
    operator.page(&format!("/submissions/{ada}"));
    assert_eq!(unread(), 1);
    operator.post(&format!("/submissions/{ada}"), "action=unread");
    assert_eq!(unread(), 2);
    desk.server.expect(2);
}

#[test]
fn lists_of_two_kinds_have_headings_on_each_page() {
    let desk = Desk::start();
    let operator = desk.log_in();
    let lead = |n: usize| {
        let body = json!({ "name": "Ada", "email": "ada@example.com", "message": format!("Hello {n}") });
        assert!(desk.contact(&body));
    };
    for n in 0..41 {
        let body = json!({ "email": format!("bob{n}@example.com") });
        assert_eq!(desk.server.post("/api/waitlist", &body).status, 200);
    }
    (0..40).for_each(lead);
    desk.server.catch_up();
    // The headings and the number of rows of each page of a list.
    let check = |path: &str, expected: &[(&str, usize)]| {
        let (mut pages, mut path) = (Vec::new(), Some(path.to_owned()));
        while let Some(at) = path {
            let page = operator.page(&at);
            let headings = page.split("<h2 class=\"part\">").skip(1);
            let headings: Vec<&str> = headings.filter_map(|part| part.split("</h2>").next()).collect();
            pages.push((headings.join(" and "), page.matches("data-row").count()));
            let next = page.split_once("<p class=\"more\"><a class=\"button\" href=\"");
            let next = next.and_then(|(_, link)| link.split('"').next());
            path = next.map(|link| link.replace("&amp;", "&"));
        }
        let pages: Vec<_> = pages.iter().map(|(headings, rows)| (headings.as_str(), *rows)).collect();
        assert_eq!(pages, expected);
    };
    check("/", &[("Leads", 40), ("Sign-ups", 40), ("Sign-ups", 1)]);
    let finish_leads = || {
        let listed = desk.server.inbox();
        let leads = listed.iter().filter(|submission| submission["form"] == "contact");
        let ids: String = leads.map(|lead| format!("&id={}", lead["id"].as_str().expect("an id"))).collect();
        operator.post("/selected", &format!("action=done&view=%2F{ids}"));
    };
    finish_leads();
    check("/?state=done", &[("", 40)]);
    check("/?state=open", &[("", 40), ("", 1)]);
    lead(40);
    finish_leads();
    check("/?state=done", &[("", 40), ("", 1)]);
    check("/", &[("Leads", 40), ("Leads and Sign-ups", 40), ("Sign-ups", 2)]);
    desk.server.expect(82);
}

#[test]
fn a_list_is_saved_as_a_view_for_all_users() {
    let desk = Desk::start();
    let operator = desk.log_in();
    let view = "view=%2F%3Fstate%3Dopen%26q%3Drobot%26before%3D019a0000-0000-7000-8000-000000000001";
    let saved = operator.post("/views", &format!("action=save&name=Robots+%3Cb%3E&{view}"));
    assert_eq!(saved, "/?state=open&q=robot&notice=view-saved");
    let page = operator.page("/");
    assert!(page.contains("<a href=\"/?state=open&amp;q=robot\""), "{page}");
    assert!(page.contains(">Robots &lt;b&gt;</a>"), "{page}");
    let removed = operator.post("/views", &format!("action=remove&name=Robots+%3Cb%3E&{view}"));
    assert_eq!(removed, "/?state=open&q=robot&notice=view-removed");
    assert!(!operator.page("/").contains("Robots"));
    assert!(operator.post("/views", &format!("action=save&name=&{view}")).ends_with("view-invalid"));
    desk.server.expect(0);
}

/// Requests an export, and reads only the beginning of the response, which is its status.
fn start_export(operator: &Operator<'_>) -> (String, TcpStream) {
    // A small buffer, so that the kernel does not take the whole response.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(&operator.desk.address.into()).expect("the server accepts");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
        .write_all(&compose("GET", "/export.csv", &[("Cookie", &operator.cookie)], b""))
        .expect("it is sent");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("a response");
    (String::from_utf8_lossy(&start).into_owned(), stream)
}

#[test]
fn slow_downloads_of_exports_do_not_block_the_pages() {
    let desk = Desk::start();
    let operator = desk.log_in();
    for number in 0..150 {
        let message = format!("{number} {}", "long ".repeat(3_900));
        assert!(desk.contact(&json!({ "name": "Ada", "email": "ada@example.com", "message": message })));
    }
    desk.server.catch_up();
    let slow: Vec<(String, TcpStream)> = (0..12).map(|_| start_export(&operator)).collect();
    assert!(slow[..4].iter().all(|(status, _)| status == "HTTP/1.1 200"), "{slow:?}");
    assert_eq!(desk.get("/login", &[]).status, 401);
    assert!(operator.page("/").contains("Ada"));
    let refused = operator.get("/export.csv");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("60")));
    drop(slow);
    // The places are free as soon as the server has noticed that the clients are gone.
    until(|| (start_export(&operator).0 == "HTTP/1.1 200").then_some(())).expect("a free place");
    desk.server.expect(150);
}

#[test]
fn half_sent_requests_do_not_keep_operators_out() {
    let desk = Desk::start();
    let half = |address| {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // The server may already have closed it.
        let _ = stream.write_all(b"GET /login HTTP/1.1\r\nHost: ");
        stream
    };
    let mut held: Vec<TcpStream> = (0..200).map(|_| half(desk.address)).collect();
    assert_eq!(desk.get("/login", &[]).status, 401);
    // The first connection has waited longest.
    assert!(matches!(held[0].read(&mut [0]), Ok(0) | Err(_)));
    let operator = desk.log_in();
    operator.page("/");
    desk.server.expect(0);
}

#[test]
fn an_open_list_hears_of_new_submissions() {
    let desk = Desk::start();
    let operator = desk.log_in();
    let mut stream = TcpStream::connect(desk.address).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&compose("GET", "/events", &[("Cookie", &operator.cookie)], b"")).expect("it is sent");
    let mut events = String::new();
    let mut read_until = |wanted: Option<&str>| {
        let mut bytes = [0; 4096];
        while wanted.is_none_or(|wanted| !events.contains(wanted)) {
            match stream.read(&mut bytes).expect("the stream") {
                0 => return wanted.is_none(),
                count => events.push_str(std::str::from_utf8(&bytes[..count]).expect("text")),
            }
        }
        true
    };
    assert!(read_until(Some("\r\ncontent-type: text/event-stream\r\n")));
    assert!(read_until(Some("retry: 5000")));
    desk.submit("Ada", "Hello");
    assert!(read_until(Some("event: changed")));
    // The stream ends with its session.
    assert!(desk.command(&["sessions", "--all"]).0);
    assert!(read_until(Some("\r\n0\r\n\r\n")));
    assert!(!events.contains("Ada"));
    desk.server.expect(1);
}

#[test]
fn the_interface_can_listen_on_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("inbox.sock");
    let listen = format!("unix:{}", path.display());
    let environment = [
        ("FRONTDESK_LIMITS__ENABLED", "false"),
        ("FRONTDESK_INBOX__LISTEN", listen.as_str()),
        ("FRONTDESK_INBOX__USER_HEADER", "x-user"),
        HOST,
    ];
    let server = TestServer::with(&small_site(), &environment);
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "only the server's user and group may connect");
    let get = |headers: &[(&str, &str)]| {
        let stream = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        Connection::over(stream).request("GET", "/", headers, b"").expect("it answers").status
    };
    assert_eq!((get(&[]), get(&[("x-user", "ada")])), (401, 200));
    server.expect(0);
}

#[test]
fn a_new_site_has_the_web_interface() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    let made = frontdesk().arg("init").arg(&site).output().expect("it runs");
    assert!(made.status.success());
    let text = std::fs::read_to_string(site.join("frontdesk.toml")).expect("a file");
    assert!(text.contains("\n[inbox]\n") && text.contains("\nlisten = \"127.0.0.1:8082\"\n"));
    let own = |site: &Path| {
        let output = frontdesk().arg("config").arg(site).arg("--json").output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text.lines().find(|line| line.contains("\"inbox.listen\"")).expect("the key").to_owned();
        serde_json::from_str::<Value>(&line).expect("JSON")["value"].clone()
    };
    assert_eq!(own(&site), "\"127.0.0.1:8082\"");
    assert_eq!(own(&small_site()), "\"off\"");
}

#[test]
fn a_submission_is_assigned_planned_answered_and_leads_to_its_person() {
    let desk = Desk::start();
    let ids = ["one", "two", "three"].map(|message| desk.submit("Ada", message));
    let operator = desk.log_in();
    let path = format!("/submissions/{}", ids[0]);
    let notice = |fields: &str| {
        let location = operator.post(&path, fields);
        let notice = location.split_once("notice=").expect("a notice").1;
        notice.split('&').next().unwrap_or_default().to_owned()
    };
    let mut notices = Vec::new();
    for fields in [
        "action=assign-me",
        "action=assign-me",
        "action=assign&assignee=mallory",
        "action=follow-up&day=2026-02-30",
        "action=follow-up&day=2026-01-02",
        "action=replied",
        "action=note&note=first",
        "action=edit-note&note_id=00000000-0000-0000-0000-000000000001&note=x",
    ] {
        notices.push(notice(fields));
    }
    let expected =
        ["assigned", "unchanged", "no-such-user", "bad-day", "follow-up", "replied", "note", "unchanged"];
    assert_eq!(notices, expected);
    let page = operator.page(&path);
    for shown in ["follow-up overdue", " replied on ", ">first</p>", "3 submissions from this address"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let list = operator.page("/?state=open");
    assert!(list.contains("follow-up overdue") && list.contains(">replied</span>"), "{list}");

    let person =
        page.split("href=\"/people/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    let person = format!("/people/{person}");
    let page = operator.page(&person);
    assert!(page.contains("Ada wrote three times since ") && page.contains("first"), "{page}");
    assert!(!person.contains("example") && page.matches("data-row").count() == 3, "{page}");
    assert_eq!(operator.get("/people/00000000000000000000000000000000").status, 404);

    let preview = format!("form_token={}&action=erase", operator.form_token());
    let preview = operator.post_with(&person, &[FORM, ORIGIN], &preview);
    assert!(preview.status == 200 && preview.text().contains("3 submissions"), "{}", preview.text());
    assert_eq!(desk.server.inbox().len(), 3);
    let location = operator.post(&person, "action=erase&confirmed=yes");
    assert!(["/?notice=removed", "/?notice=not-wiped"].contains(&location.as_str()), "{location}");
    assert_eq!(operator.get(&person).status, 404);
    desk.server.expect(0);
}

#[test]
fn the_first_page_says_whether_the_canary_succeeds() {
    let every = ("FRONTDESK_CANARY__EVERY", "10s");
    let check = |environment: &[(&str, &str)], expected: &str| {
        let desk = Desk::with(environment);
        let operator = desk.log_in();
        let began = Instant::now();
        while !operator.page("/").contains(expected) {
            assert!(began.elapsed() < PATIENCE, "{}", operator.page("/"));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    check(&[every], "The last run of the canary succeeded: ");
    let nowhere = ("FRONTDESK_BASE_URL", "http://nowhere.invalid");
    check(&[every, nowhere], "<p class=\"callout warn\">The canary has been failing since ");
}
