//! Operating a running server: metrics, readiness, the log, and notifications to the service manager.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::channel_site::{ChannelSite, maildir, until};
use crate::support::{Connection, PATIENCE, TestServer, deadlines, frontdesk, small_site};

const NO_LIMITS: (&str, &str) = ("FRONTDESK_LIMITS__ENABLED", "false");

#[test]
fn half_sent_requests_do_not_keep_a_monitor_out() {
    let server = TestServer::start();
    let half = || {
        let mut connection = Connection::open(server.ops);
        // The server may already have closed it.
        let _ = connection.send(b"GET /livez HTTP/1.1\r\nHost: ");
        connection
    };
    let held: Vec<Connection> = (0..100).map(|_| half()).collect();
    assert_eq!(server.ops("/livez").text(), "alive\n");
    drop(held);
    server.expect(0);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
fn metrics_count_requests_and_responses() {
    let server = TestServer::start();
    let markdown = [("Accept", "text/markdown")];
    for (path, headers, status) in [
        ("/", &[][..], 200),
        ("/", &markdown[..], 200),
        ("/", &[("Accept", "image/png")], 406),
        ("/index.md", &[], 200),
        ("/llms.txt", &[], 200),
        ("/agents.md", &[], 200),
        ("/developers", &[], 308),
        ("/nothing/here", &markdown, 404),
        ("/%2e%2e/x", &[], 400),
    ] {
        assert_eq!(server.get(path, headers).status, status, "{path}");
    }
    assert_eq!(server.request("DELETE", "/", &[], b"").status, 405);
    let etag = server.get("/", &[]).header("etag").expect("it has one").to_owned();
    assert_eq!(server.get("/", &[("If-None-Match", &etag)]).status, 304);
    let ada = json!({ "email": "ada@example.com" });
    assert_eq!([0, 0, 0].map(|_| server.post("/api/waitlist", &ada).status), [200; 3]);
    assert_eq!(server.post("/api/contact", &json!({})).status, 400);
    let large = json!({ "email": "x".repeat(70_000) });
    assert_eq!(server.post("/api/waitlist", &large).status, 413);
    assert_eq!(server.get("/api/contact", &[]).status, 405);
    server.expect(1);
    assert_eq!(server.inbox().len(), 1, "it is processed");

    // A database that is slow to answer has no figures, and repeats count once they are processed.
    let answer = until(|| {
        let answer = server.ops("/metrics");
        let figures = Figures::of(answer.text());
        let is_readable = figures.find("frontdesk_inbox_readable") == Some(1);
        let is_processed = figures.find("frontdesk_repeats_total") == Some(2);
        (is_readable && is_processed).then_some(answer)
    });
    let answer = answer.expect("the inbox is readable and has processed the repeats");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let figures = Figures::of(answer.text());
    let request = |class: &str, representation: &str, status: u16| {
        figures.get(&format!(
            "frontdesk_requests_total{{class=\"{class}\",representation=\"{representation}\",status=\"{status}\"}}"
        ))
    };
    assert_eq!(request("page", "html", 200), 2);
    assert_eq!(request("page", "markdown", 200), 1);
    assert_eq!(request("page", "html", 304), 1);
    assert_eq!(request("page", "other", 406), 1);
    assert_eq!(request("page", "other", 405), 1);
    assert_eq!(request("twin", "markdown", 200), 1);
    assert_eq!(request("resource", "other", 200), 1);
    assert_eq!(request("resource", "markdown", 200), 1);
    assert_eq!(request("redirect", "other", 308), 1);
    assert_eq!(request("none", "markdown", 404), 1);
    assert_eq!(request("none", "other", 400), 1);
    assert_eq!(request("form", "other", 200), 3);
    assert_eq!(request("form", "other", 405), 1);
    assert_eq!(figures.get("frontdesk_request_duration_seconds_count{class=\"page\"}"), 6);
    assert!(figures.seconds("frontdesk_request_duration_seconds_sum{class=\"form\"}") > 0.0);
    let submissions = |form: &str, verdict: &str| {
        figures.get(&format!("frontdesk_submissions_total{{form=\"{form}\",verdict=\"{verdict}\"}}"))
    };
    assert_eq!(submissions("waitlist", "accepted"), 3);
    assert_eq!(figures.get("frontdesk_repeats_total"), 2);
    assert_eq!(figures.get("frontdesk_intake_pending"), 0);
    assert_eq!(figures.get("frontdesk_intake_set_aside"), 0);
    assert_eq!(submissions("waitlist", "too_large"), 1);
    assert_eq!(submissions("contact", "invalid"), 1);
    assert_eq!(submissions("contact", "accepted"), 0);
    assert_eq!(figures.get("frontdesk_connections_total"), 18);
    assert_eq!(figures.get("frontdesk_inbox_writable"), 1);
    assert_eq!(figures.get("frontdesk_site_generation"), 1);
    assert!(figures.get("process_open_fds") > 5);
    assert!(figures.get("process_max_fds") >= figures.get("process_open_fds"));
    assert!(figures.get("process_resident_memory_bytes") > 1_000_000);
    assert!(figures.seconds("process_cpu_seconds_total") > 0.0);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set").as_secs_f64();
    let age = now - figures.seconds("process_start_time_seconds");
    assert!((-2.0..3600.0).contains(&age), "{age}");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(figures.get(&format!("frontdesk_build_info{{version=\"{version}\"}}")), 1);
}

#[test]
fn the_content_hash_identifies_a_site() {
    let hash = |server: &TestServer| {
        let metrics = server.ops("/metrics").text().to_owned();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("frontdesk_site_info"))
            .expect("the metric is there");
        line.split('"').nth(1).expect("the hash").to_owned()
    };
    let base = ("FRONTDESK_BASE_URL", "https://www.example.com");
    let (one, same) = (TestServer::with(&small_site(), &[base]), TestServer::with(&small_site(), &[base]));
    assert_eq!(hash(&one), hash(&same));
    let other = TestServer::with(&small_site(), &[("FRONTDESK_BASE_URL", "https://example.org")]);
    assert_ne!(hash(&one), hash(&other));
}

#[test]
fn metrics_show_pending_deliveries_and_failing_channels() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocked = folder.path().join("box");
    // A Maildir cannot be created where a file exists.
    std::fs::write(&blocked, "in the way").expect("a file");
    let site = ChannelSite::open(&maildir("box", &blocked), &[]);
    let of = |name: &str| format!("frontdesk_{name}{{channel=\"box\"");
    let look = || Figures::of(site.server.ops("/metrics").text());
    // A scrape waits for the inbox for half a second at most.
    let is_counted = |figures: &Figures| figures.find("frontdesk_inbox_readable") == Some(1);
    let before = until(|| Some(look()).filter(is_counted)).expect("the inbox is counted");
    assert_eq!(before.get(&format!("{},state=\"waiting\"}}", of("deliveries"))), 0);
    assert!(before.seconds(&format!("{}}}", of("deliveries_oldest_waiting_seconds"))) <= 0.0);
    for number in 0..6 {
        site.submit(number);
    }
    site.inbox(&["hold", &site.id(0).to_string()]);
    // The figures are refreshed after a while, and the channel is paused after five failures.
    let after = until(|| {
        Some(look()).filter(|figures| {
            figures.get(&format!("{},obstacle=\"paused\"}}", of("channel_obstructed"))) == 1
        })
    })
    .unwrap_or_else(|| panic!("{}", site.server.log()));
    assert_eq!(after.get("frontdesk_submissions_held"), 1);
    assert_eq!(after.get(&format!("{},state=\"waiting\"}}", of("deliveries"))), 5);
    assert_eq!(after.get(&format!("{},state=\"parked\"}}", of("deliveries"))), 0);
    assert_eq!(after.get(&format!("{},obstacle=\"off\"}}", of("channel_obstructed"))), 0);
    assert!(after.seconds(&format!("{}}}", of("deliveries_oldest_waiting_seconds"))) > 0.0);
    site.server.expect(6);
}

#[test]
fn metrics_respond_in_every_state_of_the_inbox() {
    let server = TestServer::start();
    let readable = || Figures::of(server.ops("/metrics").text()).find("frontdesk_inbox_readable");
    until(|| readable().filter(|readable| *readable == 1)).expect("it can be read");
    let other = rusqlite::Connection::open(server.data_dir().join("inbox.sqlite")).expect("it is there");
    other.execute_batch("BEGIN EXCLUSIVE").expect("it can be locked");
    assert_eq!(server.ops("/metrics").status, 200);
    other.execute_batch("ROLLBACK").expect("it can be unlocked");
    drop(other);

    let away = server.data_dir().with_extension("away");
    std::fs::rename(server.data_dir(), &away).expect("it can be moved");
    std::fs::write(server.data_dir(), "no folder").expect("something else stands there");
    let lost = server.post("/api/waitlist", &json!({ "email": "ada@example.com" }));
    assert_eq!(lost.status, 500);
    assert_eq!(server.ops("/readyz").status, 503);
    assert_eq!(server.ops("/livez").status, 200);
    let figures = Figures::of(server.ops("/metrics").text());
    assert_eq!(figures.get("frontdesk_inbox_writable"), 0);
    assert_eq!(figures.get("frontdesk_submissions_total{form=\"waitlist\",verdict=\"not_kept\"}"), 1);
    std::fs::remove_file(server.data_dir()).expect("it can be removed");
    std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
}

#[test]
fn shed_connections_are_counted_by_limit() {
    let server = TestServer::with(
        &small_site(),
        // Long enough for all connections to be open at once.
        &deadlines(&[
            ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "5s"),
            ("FRONTDESK_SERVER__HEADER_TIMEOUT", "5s"),
            ("FRONTDESK_SERVER__IDLE_TIMEOUT", "5s"),
            ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "4"),
        ]),
    );
    let silent = server.connect();
    let mut half = server.connect();
    half.send(b"GET / HT").expect("sent");
    let mut idle = server.connect();
    assert_eq!(idle.request("GET", "/", &[], b"").expect("an answer").status, 200);
    let mut last = server.connect();
    assert_eq!(last.request("GET", "/", &[], b"").expect("an answer").status, 200);
    let mut fifth = server.connect();
    assert_eq!(fifth.rest().map_or(0, |rest| rest.len()), 0, "there is no room");
    let figures = until(|| {
        let figures = Figures::of(server.ops("/metrics").text());
        Some(figures).filter(|figures| figures.get("frontdesk_connections_open") == 0)
    })
    .expect("all are closed");
    let shed =
        |reason: &str| figures.get(&format!("frontdesk_connections_shed_total{{reason=\"{reason}\"}}"));
    assert_eq!((shed("source"), shed("first_byte"), shed("header"), shed("idle")), (1, 1, 1, 2));
    assert_eq!((shed("all"), shed("exchange"), shed("descriptors")), (0, 0, 0));
    assert_eq!(figures.get("frontdesk_connections_total"), 4);
    drop(silent);
}

#[test]
fn the_private_address_limits_size_time_and_methods() {
    let server = TestServer::with(
        &small_site(),
        &[("FRONTDESK_SERVER__BODY_TIMEOUT", "1s"), ("FRONTDESK_SERVER__EXCHANGE_TIMEOUT", "5s")],
    );
    let ask = |method: &str, path: &str| {
        let mut connection = Connection::open(server.ops);
        let answer = connection.request(method, path, &[], b"").expect("an answer");
        assert_eq!(connection.rest().expect("it is closed"), b"", "one request a connection");
        answer
    };
    assert_eq!(ask("POST", "/metrics").header("allow"), Some("GET, HEAD"));
    assert_eq!(ask("HEAD", "/metrics").status, 200);
    assert_eq!(ask("GET", "/").status, 404);
    // More connections than allowed, all of them silent.
    let mut silent: Vec<Connection> = (0..80).map(|_| Connection::open(server.ops)).collect();
    for connection in &mut silent {
        assert_eq!(connection.rest().map_or(0, |rest| rest.len()), 0);
    }
    assert_eq!(ask("GET", "/livez").status, 200);
}

#[test]
fn the_private_address_may_be_a_socket_in_the_file_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ops.sock");
    let child = frontdesk()
        .arg("serve")
        .arg(small_site())
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .env("FRONTDESK_SERVER__OPS_LISTEN", format!("unix:{}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut child = Child(child);
    let mut stream = until(|| UnixStream::connect(&path).ok()).expect("it listens there");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header and a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(Figures::of(body).get("frontdesk_inbox_writable"), 1);
    assert!(child.0.try_wait().expect("it can be asked").is_none());
}

#[test]
fn a_500_has_a_request_id_that_the_log_explains() {
    let trusting = ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1");
    for (settings, is_taken) in [(vec![NO_LIMITS, trusting], true), (vec![NO_LIMITS], false)] {
        let server = TestServer::with(&small_site(), &settings);
        let send = |email: &str| {
            let headers = [("Content-Type", "application/json"), ("X-Request-Id", "Of-The.Proxy_1")];
            let body = json!({ "email": email }).to_string();
            server.request("POST", "/api/waitlist", &headers, body.as_bytes())
        };
        let kept = send("ada@example.com");
        assert_eq!((kept.status, kept.header("x-request-id")), (200, None));
        let away = server.data_dir().with_extension("away");
        std::fs::rename(server.data_dir(), &away).expect("it can be moved");
        std::fs::write(server.data_dir(), "no folder").expect("something else stands there");
        let failed = send("bob@example.com");
        let id = failed.header("x-request-id").expect("it has a name").to_owned();
        assert_eq!(failed.status, 500);
        assert_eq!(id == "Of-The.Proxy_1", is_taken, "{id}");
        let said = until(|| {
            events(&server).into_iter().find(|event| {
                event["message"]
                    == "the submission could not be stored; the visitor got a 500 and can try again"
            })
        })
        .expect("it is in the log");
        assert_eq!((said["request"].as_str(), said["form"].as_str()), (Some(&*id), Some("waitlist")));
        std::fs::remove_file(server.data_dir()).expect("it can be removed");
        std::fs::rename(&away, server.data_dir()).expect("it can be moved back");
        server.expect(1);
    }
}

#[test]
fn the_access_log_names_requests_and_no_clients() {
    let server = TestServer::with(
        &small_site(),
        &[("FRONTDESK_LOG__REQUESTS", "true"), ("FRONTDESK_LOG__LEVEL", "error")],
    );
    // `tom` has no hexadecimal digits, so no request ID can contain it by chance.
    server.get("/developers/?name=tom", &[("Accept", "text/markdown"), ("User-Agent", "tom")]);
    server.request("HEAD", "/llms.txt", &[], b"");
    server.get("/tom@example.com", &[]);
    server.request("TOM", "/api/contact", &[], b"");
    let answered = || -> Vec<Value> {
        events(&server).into_iter().filter(|event| event["message"] == "answered").collect()
    };
    let events =
        until(|| Some(answered()).filter(|events| events.len() == 4)).expect("each request is logged");
    let said: Vec<Value> = events
        .iter()
        .map(|event| {
            let names = ["method", "path", "class", "status", "representation"];
            names.map(|name| event[name].clone()).to_vec().into()
        })
        .collect();
    assert_eq!(
        said,
        [
            json!(["GET", "/developers/", "page", 200, "markdown"]),
            json!(["HEAD", "/llms.txt", "resource", 200, "other"]),
            json!(["GET", "-", "none", 404, "html"]),
            json!(["other", "/api/contact", "form", 405, "other"]),
        ]
    );
    assert!(events[0]["bytes"].as_u64() > Some(100) && events[1]["bytes"] == 0);
    assert!(events.iter().all(|event| event["took_us"].is_u64()));
    let names: BTreeSet<&str> = events.iter().filter_map(|event| event["request"].as_str()).collect();
    assert_eq!(names.len(), 4, "each request has a separate ID");
    let log = server.log();
    assert!(!log.contains("tom") && !log.contains("TOM") && !log.contains("127.0.0.1"), "{log}");
}

#[test]
fn without_a_terminal_every_log_line_is_json_or_every_one_is_text() {
    let unread = ("FRONTDESK_SERVER__LISEN", "x");
    let mut server = TestServer::with(&small_site(), &[unread]);
    let address = server.address.to_string();
    let is_serving = |event: &Value| event["message"] == "serving";
    // A separate thread writes the log and may be a moment behind.
    let events =
        until(|| Some(events(&server)).filter(|events| events.iter().any(is_serving))).expect("it says so");
    assert_eq!(events[0]["level"], "WARN");
    assert!(events[0]["hint"].as_str().is_some_and(|hint| hint.contains("FRONTDESK_SERVER__LISTEN")));
    let serving = events.iter().find(|event| is_serving(event)).expect("it is among them");
    assert!(serving["public"].as_str().is_some_and(|public| public.contains(&address)), "{serving}");
    assert_eq!(serving["version"], env!("CARGO_PKG_VERSION"));
    assert!(serving["pages"].as_u64() >= Some(4) && serving["inbox"].is_string(), "{serving}");

    // Errors that end the server after logging has started.
    let output = |format: &str| {
        let output = frontdesk()
            .arg("serve")
            .arg(small_site())
            .args(["--listen", &address, "--ops-listen", "off"])
            .env("FRONTDESK_LOG__FORMAT", format)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("it is text")
    };
    let said = output("auto");
    let [line] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let event: Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!(event["level"], "ERROR");
    assert!(line.contains("another program is listening there"), "{line}");
    assert!(output("text").contains("hint: another program is listening there"), "{}", output("text"));
    assert_eq!(server.terminate().0, Some(0));
    let last = self::events(&server);
    assert_eq!(last.last().map(|event| &event["message"]), Some(&"stopped".into()));

    let server = TestServer::with(&small_site(), &[("FRONTDESK_LOG__FORMAT", "text")]);
    let log = until(|| Some(server.log()).filter(|log| log.contains("submissions are stored in")))
        .expect("it says so");
    assert!(log.contains("  listening on http://") && !log.contains('{'), "{log}");
}

#[test]
fn an_unread_standard_error_blocks_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = frontdesk()
        .arg("serve")
        .arg(small_site())
        .args(["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .env("FRONTDESK_LOG__REQUESTS", "true")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut child = Child(child);
    let mut stdout = child.0.stdout.take().expect("it is piped");
    let mut told = String::new();
    let addresses = loop {
        let mut piece = [0; 256];
        let length = stdout.read(&mut piece).expect("it can be read");
        assert_ne!(length, 0, "{told}");
        told.push_str(std::str::from_utf8(&piece[..length]).expect("it is text"));
        let addresses: Vec<_> =
            told.lines().filter_map(|line| line.split_once("http://")?.1.parse().ok()).collect();
        if addresses.len() == 2 && told.ends_with('\n') {
            break addresses;
        }
    };
    let mut connection = Connection::open(addresses[0]);
    // Enough lines to fill the pipe and the queue, and some more.
    for _ in 0..100 {
        let batch = b"GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
        connection.send(&batch).expect("sent");
        for _ in 0..100 {
            assert_eq!(connection.answer(false).expect("an answer").status, 200);
        }
    }
    let metrics = Connection::open(addresses[1]).request("GET", "/metrics", &[], b"").expect("an answer");
    let figures = Figures::of(metrics.text());
    assert!(figures.get("frontdesk_log_lines_lost_total") > 0);
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it can be told");
    assert_eq!(child.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_service_manager_is_notified_of_readiness_and_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("it can listen");
    manager.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    let hear = || {
        let mut text = [0; 1024];
        let length = manager.recv(&mut text).expect("a notification");
        String::from_utf8(text[..length].to_vec()).expect("it is text")
    };
    let mut server = TestServer::with(&small_site(), &[("NOTIFY_SOCKET", path.to_str().expect("a name"))]);
    let ready = hear();
    assert!(ready.starts_with("READY=1\nSTATUS=") && ready.contains(" pages "), "{ready}");
    server.terminate();
    assert!(hear().starts_with("STOPPING=1\n"));
}

/// The log's lines; each must be a JSON object.
fn events(server: &TestServer) -> Vec<Value> {
    let parse = |line: &str| -> Value {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
        event
    };
    server.log().lines().map(parse).collect()
}

/// A process that is killed when dropped.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The samples of Prometheus' text format, checked against its rules and conventions.
pub struct Figures(BTreeMap<String, String>);

impl Figures {
    /// Parses the text. Panics if it violates a rule or a convention.
    pub fn of(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let mut samples = BTreeMap::new();
        let mut families: BTreeMap<&str, &str> = BTreeMap::new();
        let (mut helped, mut current) = ("", ("", ""));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a text");
                assert!(help.ends_with('.') && !help.contains('\\'), "{line}");
                helped = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a kind");
                assert_eq!(name, helped, "HELP comes before TYPE");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(families.insert(name, kind).is_none(), "{name} is declared twice");
                current = (name, kind);
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                let (name, labels) =
                    series.split_once('{').map_or((series, None), |(name, labels)| (name, Some(labels)));
                let is_name = |name: &str| {
                    let mut bytes = name.bytes();
                    bytes.next().is_some_and(|b| b.is_ascii_lowercase())
                        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                };
                assert!(is_name(name), "{line}");
                let family = match current.1 {
                    "histogram" => {
                        ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end))
                    }
                    _ => Some(name),
                };
                assert_eq!(family, Some(current.0), "a sample must follow its family's TYPE: {line}");
                if let Some(labels) = labels {
                    // No label value contains a quote, a comma or a backslash.
                    let labels = labels.strip_suffix('}').expect("a brace");
                    for label in labels.split(',') {
                        let (label, value) = label.split_once('=').expect("a label and its value");
                        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                        assert!(
                            is_name(label) && value.is_some_and(|value| !value.contains(['"', '\\'])),
                            "{line}"
                        );
                    }
                }
                let number: f64 = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
                assert!(number >= 0.0, "{line}");
                assert!(
                    samples.insert(series.to_owned(), value.to_owned()).is_none(),
                    "{series} is listed twice"
                );
            }
        }
        let figures = Self(samples);
        figures.check_histograms(text);
        figures
    }

    /// Checks that buckets are cumulative and that the last one counts all observations.
    fn check_histograms(&self, text: &str) {
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for line in text.lines().filter(|line| line.contains("_bucket{")) {
            let (series, bound) = line.split_once(",le=\"").expect("the bound comes last");
            let value: u64 = line.rsplit_once(' ').expect("a value").1.parse().expect("a number");
            let before = last.insert(series, value).unwrap_or_default();
            assert!(before <= value, "{line}");
            if bound.starts_with("+Inf") {
                assert_eq!(
                    value,
                    self.get(&format!("{}}}", series.replace("_bucket{", "_count{"))),
                    "{line}"
                );
            }
        }
        assert!(!last.is_empty());
    }

    /// The value of a series of integers, such as a counter. Panics if the series is missing.
    pub fn get(&self, series: &str) -> u64 {
        self.text(series).parse().unwrap_or_else(|error| panic!("{series}: {error}"))
    }

    /// The value of a series of integers, or `None` if the series is missing.
    pub fn find(&self, series: &str) -> Option<u64> {
        self.0.get(series)?.parse().ok()
    }

    /// The value of a series in seconds.
    pub fn seconds(&self, series: &str) -> f64 {
        self.text(series).parse().unwrap_or_else(|error| panic!("{series}: {error}"))
    }

    fn text(&self, series: &str) -> &str {
        self.0.get(series).unwrap_or_else(|| panic!("{series} is not among {:#?}", self.0))
    }
}
