//! nginx with the exported configuration gives the same responses as frontdesk.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{ENVIRONMENT, Export, awkward_site, build, said, serve};
use crate::support::channel_site::until;
use crate::support::port::Port;
use crate::support::{Answer, Connection, PATIENCE, TestServer, example_site, frontdesk};

/// A configuration as an operator would write it, except for the folders and a single worker in the
/// foreground.
const CONFIGURATION: &str = "
daemon off;
worker_processes 1;
pid FOLDER/pid;
error_log FOLDER/error.log info;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    include EXPORT/nginx/http.conf;
    server {
        listen HERE;
        include EXPORT/nginx/server.conf;
    }
}
";

/// `Accept` headers: first those of real clients, then unusual and malformed ones.
const ACCEPT: [&str; 34] = [
    "",
    "*/*",
    "text/markdown, text/html, */*",
    "text/markdown, text/plain;q=0.9, */*;q=0.8",
    "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1",
    "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, application/pdf;q=0.7, video/*;q=0.7, */*;q=0.5",
    "text/html, */*",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
    "application/rss+xml",
    "application/rss+xml, application/xml;q=0.9, */*;q=0.1",
    "TEXT/Markdown",
    "text/markdown; charset=utf-8",
    "text/markdown;variant=GFM;q=0.4, text/html;q=0.39",
    "text/html;q=0.1, text/*;q=0.9",
    "text/*;q=0.1, */*;q=0.9",
    "text/markdown;q=0, */*",
    "text/html;q=0, text/markdown;q=0",
    "text/*;q=0, */*",
    "*/*;q=0",
    "*/*;q=0, text/markdown;q=0.0001",
    "text/html;q=0.2, text/html;q=0.9, text/markdown;q=0.5",
    "text/markdown;q=0.25, text/html;q=0.3, text/markdown;q=0.251, text/markdown;q=0.3",
    "text/html;x=\"a,text/markdown;q=1\";q=0.1, text/markdown;q=0.05",
    "text/html;x=\"\\\",text/markdown\", */*;q=0",
    "text/markdown;q=x, text/html",
    "text/markdown;q=1.001",
    "text/markdown;q=x",
    "*/markdown",
    ",, ,text/markdown ,",
    "text/markdown\t;\tq\t=\t0.5\t,\ttext/html;q=0.4",
    "text /markdown",
    "image/*, application/json;q=0.5",
];

/// `Accept-Encoding` headers of clients.
const ACCEPT_ENCODING: [&str; 16] = [
    "",
    "gzip, deflate, br, zstd",
    "gzip, deflate, br",
    "gzip, deflate",
    "identity",
    "GZIP;q=0.5, br;q=0.25",
    "x-gzip",
    "*",
    "*;q=0.5, br;q=0",
    "br;q=0.5, identity",
    "identity;q=0.5, gzip;q=0.5",
    "gzip;q=0, zstd;q=0.001, br;q=0.0001",
    "zstd, br;q=0.9",
    "identity;q=0",
    "br;q=x, gzip;q=2",
    "deflate, sdch",
];

/// Values of `Range`: one range, and such that are ignored.
const RANGE_HEADERS: [&str; 5] = ["bytes=0-9", "BYTES=5-", "bytes=-3", "bytes=0-1,3-4", "lines=1-2"];

/// A request that plain nginx answers differently: both answers, and the description in
/// `docs/pages/export.md`.
struct Difference {
    method: &'static str,
    target: &'static str,
    headers: &'static [(&'static str, &'static str)],
    /// Status and media type.
    frontdesk: (u16, &'static str),
    nginx: (u16, &'static str),
    /// A part of the sentence in `docs/pages/export.md` that describes this difference.
    told: &'static str,
    /// The first nginx version without this difference. `None` if all versions have it.
    until: Option<&'static str>,
}

const DIFFERENCES: [Difference; 10] = [
    Difference {
        method: "GET",
        target: "/a//b",
        headers: &[],
        frontdesk: (308, "text/plain"),
        nginx: (400, "text/plain"),
        told: "a path with repeated slashes",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/",
        headers: &[("Accept", "text/html;q=0.5"), ("Accept", "text/markdown")],
        frontdesk: (200, "text/markdown"),
        nginx: (200, "text/html"),
        told: "several `Accept` lines",
        until: Some("1.23"),
    },
    Difference {
        method: "GET",
        target: "/",
        headers: &[("Accept", "text/markdown, text/html;x=\"")],
        frontdesk: (200, "text/markdown"),
        nginx: (200, "text/html"),
        told: "a quote that is never closed",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/",
        headers: &[("Accept", LONG)],
        frontdesk: (200, "text/markdown"),
        nginx: (200, "text/html"),
        told: "longer than 500 bytes",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/",
        headers: &[("If-Match", "\"another\"")],
        frontdesk: (412, "text/plain"),
        nginx: (412, "text/html"),
        told: "`If-Match`",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/",
        headers: &[("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")],
        frontdesk: (200, "text/html"),
        nginx: (412, "text/html"),
        told: "`If-Unmodified-Since`",
        until: None,
    },
    Difference {
        method: "TRACE",
        target: "/nowhere",
        headers: &[],
        frontdesk: (404, "text/html"),
        nginx: (405, "text/plain"),
        told: "`TRACE` for what is missing",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/../developers/",
        headers: &[],
        frontdesk: (400, "text/plain"),
        nginx: (400, "text/plain"),
        told: "a path that nginx itself refuses",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/%zz",
        headers: &[],
        frontdesk: (400, "text/plain"),
        nginx: (400, "text/plain"),
        told: "a path that nginx itself refuses",
        until: None,
    },
    Difference {
        method: "GET",
        target: "/%ff",
        headers: &[],
        frontdesk: (400, "text/plain"),
        nginx: (404, "text/html"),
        told: "not UTF-8",
        until: None,
    },
];

const LONG: &str = {
    const BYTES: [u8; 501] = {
        let mut bytes = [b' '; 501];
        let words = b"text/markdown";
        let mut at = 0;
        while at < words.len() {
            bytes[at] = words[at];
            at += 1;
        }
        bytes[13] = b',';
        bytes[500] = b',';
        bytes
    };
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!("it is text"),
    }
};

#[test]
#[ignore = "needs nginx: scripts/test door"]
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
fn nginx_answers_every_url_as_frontdesk_does() {
    let (site, folder) = (awkward_site(), tempfile::tempdir().expect("a folder"));
    for site in [&example_site(), site.path(), &build(folder.path())] {
        let export = Export::of(site);
        let server = serve(site, &export);
        let nginx = Nginx::start(&export.path());
        let elsewhere = [
            "/nowhere",
            "/nowhere/",
            "/de/nowhere",
            "/d%65/nowhere/",
            "/DE/nowhere",
            "/dex",
            "/DEVELOPERS/",
            "/Readme",
            "/developers/index",
            "/404",
            "/404.md",
            "/index",
            "/.frontdesk/missing",
            "/_headers",
            "/_redirects",
            "/manifest.json",
            "/index.html.br",
            "/frontdesk-files/",
            "/./developers/",
            "/a/../developers/",
            "/a/%2e%2e/developers/",
            "/%2E/",
            "/developers%2f",
            "/a%5Cb",
            "/a%0a",
            "/%7f",
            "/%C2%85",
            "/%64evelopers/",
            "/developers?x=1&y=/../",
            "/developers?",
            "/developers/?x",
            "/api/",
            "/api/nothing",
            "/api/contact/",
            "/api/Contact",
            "/%61pi/nothing?x",
            "/API/nothing",
            "/api",
            "/%2541",
        ];
        let (mut asked, mut asked_ranges) = (0, 0);
        for path in export.urls().map(|(path, _)| path).chain(elsewhere) {
            let mut pair = Pair::of(&server, &nginx);
            for accept in ACCEPT {
                pair.ask("GET", path, &[("Accept", accept), ("Accept-Encoding", "gzip")]);
            }
            for encoding in ACCEPT_ENCODING {
                let answer = pair.ask("GET", path, &[("Accept-Encoding", encoding)]);
                if let Some(etag) = answer.header("etag") {
                    let list = format!("\"a\", W/{etag},\"b\"");
                    for known in [etag, list.as_str(), "*", "\"a\""] {
                        let headers = [("Accept-Encoding", encoding), ("If-None-Match", known)];
                        let again = pair.ask("GET", path, &headers);
                        assert_eq!(again.status == 304, known != "\"a\"", "{path} {known}");
                    }
                }
            }
            let whole = pair.ask("GET", path, &[]);
            let etag = whole.header("etag").unwrap_or_default().to_owned();
            pair.ask("GET", &format!("{path}?x=1"), &[]);
            pair.ask("HEAD", path, &[]);
            pair.ask("HEAD", path, &[("Accept", "image/png")]);
            // nginx refuses ranges beyond the end in its own way.
            let ranges: &[&str] = if whole.body.len() < 10 { &[] } else { &RANGE_HEADERS };
            for range in ranges {
                for if_range in ["", etag.as_str(), "\"a\"", "Sat, 21 Nov 2099 12:00:00 GMT"] {
                    let mut headers = vec![("Range", *range), ("Accept-Encoding", "br")];
                    if !if_range.is_empty() {
                        headers.push(("If-Range", if_range));
                    }
                    let answer = pair.ask("GET", path, &headers);
                    asked_ranges += u32::from(answer.status == 206);
                    pair.ask("HEAD", path, &headers);
                }
            }
            pair.ask("GET", path, &[("If-Modified-Since", "Sat, 21 Nov 2099 12:00:00 GMT")]);
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
                pair.ask(method, path, &[("Accept", "text/markdown")]);
            }
            asked += pair.asked;
        }
        eprintln!("{asked} questions, the same answers");
        assert!(asked > 3_000 && asked_ranges > 10, "{asked}, {asked_ranges}");
        assert_eq!(nginx.trouble(), "", "nginx has nothing to complain of");
    }
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn an_audit_of_the_exported_site_finds_only_what_is_documented() {
    let port = Port::reserve();
    let url = format!("http://{}", port.address());
    let environment = [("FRONTDESK_BASE_URL", &*url)];
    let server = TestServer::with(&example_site(), &environment);
    let replica = server.address.to_string();
    let export = Export::with(&example_site(), &["--replica", &replica], &environment);
    let _nginx = Nginx::start_on(port, &export.path());
    let output = frontdesk().args(["audit", &url, "--json"]).output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let rules = stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["rule"].clone());
    // nginx before 1.23 reads only the first of several `Accept` lines: see DIFFERENCES.
    let is_documented = |rule: &Value| rule.is_null() || rule == "accept-lines-ignored";
    assert!(rules.into_iter().all(|rule| is_documented(&rule)), "{stdout}");
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn nginx_negotiates_as_frontdesk_does() {
    let export = Export::of(&example_site());
    let server = serve(&example_site(), &export);
    let nginx = Nginx::start(&export.path());
    let count =
        std::env::var("FRONTDESK_TEST_ACCEPTS").map_or(5_000, |count| count.parse().expect("a number"));
    let mut dice = Random(0x2545_f491_4f6c_dd1d);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..count / 250 {
        let mut pair = Pair::of(&server, &nginx);
        for _ in 0..250 {
            let (accept, encoding) = (dice.list(&RANGES), dice.list(&CODINGS));
            let answer = pair.ask("GET", "/contact/", &[("Accept", &accept), ("Accept-Encoding", &encoding)]);
            let media = answer.header("content-type").unwrap_or_default().to_owned();
            *seen.entry((media, answer.header("content-encoding").map(str::to_owned))).or_insert(0) += 1;
        }
    }
    eprintln!("{seen:#?}");
    assert!(seen.len() >= 9 && seen.values().all(|count| *count > 10), "each answer came: {seen:?}");
    assert_eq!(nginx.trouble(), "", "nginx has nothing to complain of");
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn documented_differences_of_nginx_are_the_only_ones() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages/export.md"))
        .expect("it is there");
    let export = Export::of(&example_site());
    let server = serve(&example_site(), &export);
    let nginx = Nginx::start(&export.path());
    let version = version();
    let media = |answer: &Answer| {
        answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().to_owned()
    };
    for Difference { method, target, headers, frontdesk, nginx: otherwise, told, until } in &DIFFERENCES {
        assert!(document.contains(told), "docs/pages/export.md does not mention {told}");
        let of_frontdesk = server.request(method, target, headers, b"");
        assert_eq!((of_frontdesk.status, media(&of_frontdesk).as_str()), *frontdesk, "{told}");
        let of_nginx =
            Connection::open(nginx.address).request(method, target, headers, b"").expect("an answer");
        let found = (of_nginx.status, media(&of_nginx));
        let expected =
            if until.is_some_and(|until| number(until) <= number(&version)) { frontdesk } else { otherwise };
        assert_eq!((found.0, found.1.as_str()), *expected, "{told}");
        let is_mended = expected == frontdesk && of_nginx.body == of_frontdesk.body;
        assert_eq!(is_mended, until.is_some_and(|until| number(until) <= number(&version)), "{told}");
    }
    for (range, status, told) in
        [("bytes=9-1", 200, "an invalid `Range`"), ("bytes=99999999-", 416, "beyond the end of the file")]
    {
        assert!(document.contains(told), "docs/pages/export.md does not mention {told}");
        assert_eq!(server.get("/llms.txt", &[("Range", range)]).status, status, "{told}");
        // nginx sends some headers twice, which `Connection` does not accept.
        let request =
            format!("GET /llms.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: {range}\r\n\r\n");
        let mut stream = std::net::TcpStream::connect(nginx.address).expect("nginx is running");
        stream.write_all(request.as_bytes()).expect("it can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 416 ") && answer.contains("bytes */"), "{told}: {answer}");
    }
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn nginx_passes_the_clients_address_with_forms() {
    check_forms("x-forwarded-for", "");
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn nginx_passes_the_clients_address_in_forwarded() {
    check_forms("forwarded", "for=");
}

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn nginx_forwards_links_that_confirm_addresses() {
    let site = awkward_site();
    let text = "---\nsubject: Please confirm\n---\n{confirm_link}\n";
    std::fs::create_dir_all(site.path().join("mails")).expect("a folder");
    std::fs::write(site.path().join("mails/confirm.md"), text).expect("it can be written");
    let path = site.path().join("frontdesk.toml");
    let config = std::fs::read_to_string(&path).expect("a configuration");
    let more = "\n[[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"127.0.0.1\"\ntls = \"none\"\nfrom = \"desk@example.com\"\nto = [\"team@example.com\"]\n";
    std::fs::write(path, config + more).expect("it can be written");
    let asks = [("FRONTDESK_FORMS__WAITLIST__CONFIRM", "mails/confirm.md")];
    let server = TestServer::with(site.path(), &[&ENVIRONMENT[..], &asks].concat());
    let replica = server.address.to_string();
    let export = Export::with(site.path(), &["--replica", &replica], &asks);
    assert_eq!(export.manifest["endpoints"][2], "/_frontdesk/confirm/");
    let nginx = Nginx::start(&export.path());
    for method in ["GET", "POST"] {
        let path = "/_frontdesk/confirm/damaged";
        let mut connection = Connection::open(nginx.address);
        let answer = connection.request(method, path, &[], b"").expect("an answer");
        let expected = server.request(method, path, &[], b"");
        assert_eq!((answer.status, said(&answer)), (404, said(&expected)), "{method}");
        assert!(answer.text().contains("This link is not valid"), "{}", answer.text());
        assert_eq!(answer.body, expected.body);
    }
    let style = Connection::open(nginx.address).request("GET", "/_frontdesk/forms.js", &[], b"");
    assert_eq!(style.expect("an answer").status, 200);
}

/// Sends forms through nginx to a server that reads the client address from `header`, in which `parameter`
/// precedes each address.
fn check_forms(header: &str, parameter: &str) {
    let tells = ("FRONTDESK_SERVER__FORWARDED_HEADER", header);
    let export = |replicas: &str| Export::with(&example_site(), &["--replica", replicas], &[tells]);
    let limits = [
        tells,
        ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
        ("FRONTDESK_LIMITS__ENABLED", "true"),
        ("FRONTDESK_LIMITS__PER_MINUTE", "2"),
        ("FRONTDESK_LOG__REQUESTS", "true"),
    ];
    let server = TestServer::with(&example_site(), &limits);
    // No server listens on the first address.
    let nobody = Port::reserve();
    let there = export(&format!("{},{}", nobody.address(), server.address));
    let nginx = Nginx::start(&there.path());
    let body = json!({ "email": "ada@example.com" }).to_string();
    let post = |nginx: &Nginx, from: &str, path: &str, forged: &str, body: &[u8]| {
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Forwarded-For", forged),
            ("Forwarded", &format!("for={forged}")),
            ("X-Request-Id", "forged-request-id"),
        ];
        let mut connection = Connection::over(connect_from(from.parse().expect("an address"), nginx.address));
        connection.request("POST", path, &headers, body).expect("an answer")
    };
    for (from, forged, expected) in [
        ("127.0.0.2", "192.0.2.1".to_owned(), 200),
        ("127.0.0.2", "192.0.2.2".to_owned(), 200),
        ("127.0.0.2", format!("192.0.2.3, {parameter}127.0.0.1"), 429),
        ("127.0.0.3", "127.0.0.2".to_owned(), 200),
    ] {
        let answer = post(&nginx, from, "/api/waitlist", &forged, body.as_bytes());
        assert_eq!(answer.status, expected, "{from} {forged}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "said once");
    }
    // Each request has the ID that nginx assigned.
    let names = until(|| {
        let log = server.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let names: Vec<String> = lines
            .filter(|line| line["message"] == "answered")
            .filter_map(|line| line["request"].as_str().map(str::to_owned))
            .collect();
        (names.len() >= 4).then_some(names)
    });
    for name in names.expect("the requests are in the log") {
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
    server.expect(1);
    let of_frontdesk = server.get("/api/contact", &[]);
    let answer = Connection::open(nginx.address).request("GET", "/api/contact", &[], b"").expect("an answer");
    assert_eq!((answer.status, said(&answer), &answer.body), (405, said(&of_frontdesk), &of_frontdesk.body));
    for length in [64 << 10, 256 << 10] {
        let answer = post(&nginx, "127.0.0.4", "/api/contact", "", &vec![b' '; length + 1]);
        let sentence = json!({ "error": "The body must not be longer than 64 KiB, counted after decoding." });
        assert_eq!((answer.status, answer.json()), (413, sentence));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let gone = export(&nobody.address().to_string());
    let nginx = Nginx::start(&gone.path());
    let answer = post(&nginx, "127.0.0.5", "/api/waitlist", "", body.as_bytes());
    assert_eq!((answer.status, answer.header("content-type")), (503, Some("application/json")));
    assert!(answer.json()["error"].is_string(), "{}", answer.text());
}

/// Connections to both servers; each request is sent over both.
struct Pair<'a> {
    server: &'a TestServer,
    nginx: &'a Nginx,
    frontdesk: Connection,
    other: Connection,
    asked: usize,
}

impl<'a> Pair<'a> {
    fn of(server: &'a TestServer, nginx: &'a Nginx) -> Self {
        Self { server, nginx, frontdesk: server.connect(), other: Connection::open(nginx.address), asked: 0 }
    }

    /// Sends a request to both servers, checks that their answers are equal, and returns frontdesk's.
    fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let expected = self.frontdesk.request(method, path, headers, b"").expect("an answer");
        let found = self.other.request(method, path, headers, b"").expect("an answer");
        let of = || format!("{method} {path} {headers:?}");
        assert_eq!(found.status, expected.status, "{}", of());
        assert_eq!(said(&found), said(&expected), "{}", of());
        assert!(found.body == expected.body, "{}: {:?}", of(), String::from_utf8_lossy(&found.body));
        // A 304 has no body, but nginx sends the length that the body would have.
        if found.status != 304 {
            assert_eq!(found.header("content-length"), expected.header("content-length"), "{}", of());
        }
        self.asked += 1;
        if found.header("connection") == Some("close") {
            self.other = Connection::open(self.nginx.address);
        }
        if expected.header("connection") == Some("close") {
            self.frontdesk = self.server.connect();
        }
        expected
    }
}

const RANGES: [&str; 10] = [
    "text/html",
    "text/markdown",
    "text/*",
    "*/*",
    "text/markdown",
    "text/html",
    "image/png",
    "Text/HTML",
    "*/html",
    "text",
];
const CODINGS: [&str; 9] = ["gzip", "br", "zstd", "identity", "*", "x-gzip", "deflate", "BR", "g zip"];
const WEIGHTS: [&str; 24] = [
    "",
    "",
    ";q=0",
    ";q=1",
    ";q=0.5",
    "; q=0.25",
    ";q=0.250",
    ";q=0.251",
    ";q=.3",
    ";q=0.3",
    ";q=0.30",
    ";q=0.9",
    " ; Q = 0.95",
    ";q=0.0001",
    ";q=0.000",
    ";q=1.",
    ";q=0.",
    ";q=2",
    ";q=0.5x",
    ";a=b;q=0.7;c",
    ";a=\"q=1, */*;\\\"\";q=0.7",
    ";q=\"1\"",
    ";a;;q=0.95",
    ";q =0.301",
];

/// A deterministic random number generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("it is small") % bound
    }

    /// Up to five of `names` as a header value, each with a weight, which may be malformed.
    fn list(&mut self, names: &[&str]) -> String {
        let members: Vec<String> = (0..self.below(6))
            .map(|_| format!("{}{}", names[self.below(names.len())], WEIGHTS[self.below(WEIGHTS.len())]))
            .collect();
        members.join([",", ", ", " ,", ",,"][self.below(4)])
    }
}

/// Connects from this source address.
fn connect_from(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(from, 0).into()).expect("all of 127.0.0.0/8 is ours");
    socket.connect(&to.into()).expect("it accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    stream
}

/// The version of nginx, such as `1.22.1`.
fn version() -> String {
    let output =
        Command::new("nginx").arg("-v").output().expect("it is installed: scripts/test door does it");
    let said = String::from_utf8(output.stderr).expect("text");
    said.trim().rsplit('/').next().expect("a version").to_owned()
}

fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

/// An nginx process that ends with the test.
struct Nginx {
    address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
    _port: Port,
}

impl Nginx {
    fn start(export: &Path) -> Self {
        Self::start_on(Port::reserve(), export)
    }

    fn start_on(port: Port, export: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = port.address();
        let text = CONFIGURATION
            .replace("FOLDER", folder.path().to_str().expect("a name"))
            .replace("EXPORT", export.to_str().expect("a name"))
            .replace("HERE", &address.to_string());
        let file = folder.path().join("configuration");
        std::fs::write(&file, text).expect("it can be written");
        // If root starts nginx, its worker runs as another user and must be able to read the pages.
        for path in export
            .ancestors()
            .take_while(|path| path.starts_with(std::env::temp_dir()) && *path != std::env::temp_dir())
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        let child = Command::new("nginx")
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it is installed: scripts/test door does it");
        let nginx = Self { address, child, folder, _port: port };
        until(|| TcpStream::connect(address).ok())
            .unwrap_or_else(|| panic!("nginx does not listen: {}", nginx.trouble()));
        nginx
    }

    /// The warnings and errors in nginx's error log.
    fn trouble(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default();
        let is_bad = |line: &&str| {
            ["[emerg]", "[alert]", "[crit]", "[error]", "[warn]"].iter().any(|level| line.contains(level))
        };
        log.lines().filter(is_bad).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM instead of SIGKILL, so that nginx also ends its worker.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
