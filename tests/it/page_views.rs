//! Page views are counted on both paths of HTTP/1.1 and over HTTP/2, and shown by `frontdesk stats`.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http2::Http2;
use crate::support::{Connection, PATIENCE, TestServer, frontdesk, small_site, store_of};

const CHROME: (&str, &str) =
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36");
const GPTBOT: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
);
const MARKDOWN: (&str, &str) = ("Accept", "text/markdown");
const NO_LIMITS: (&str, &str) = ("FRONTDESK_LIMITS__ENABLED", "false");

#[test]
fn views_are_counted_alike_on_every_path_and_shown() {
    for fast_lane in ["true", "false"] {
        let mut server =
            TestServer::with(&small_site(), &[NO_LIMITS, ("FRONTDESK_SERVER__FAST_LANE", fast_lane)]);
        view_everything(&server);
        assert_eq!(server.terminate().0, Some(0));
        let found = stats_json(&small_site(), &server.data_dir(), &[]);
        let expected = json!({
            "views": 9, "markdown": 3, "ai": 3, "people": 5, "markdown_or_ai": 3,
            "pages": [
                { "path": "/", "views": 5, "markdown": 1, "ai": 1, "people": 3, "markdown_or_ai": 1 },
                { "path": "/developers/", "views": 4, "markdown": 2, "ai": 2, "people": 2, "markdown_or_ai": 2 },
            ],
            "agents": [
                { "agent": "browser", "class": "browser", "views": 5, "markdown": 0 },
                { "agent": "GPTBot", "class": "ai", "views": 3, "markdown": 3 },
                { "agent": "unknown", "class": "unknown", "views": 1, "markdown": 0 },
            ],
            "referred": 2, "referrer_count": 2,
            "referrers": [{ "host": null, "views": 1 }, { "host": "news.example.net", "views": 1 }],
        });
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&found[name], value, "{name}, fast_lane = {fast_lane}: {found:#}");
        }
    }
}

/// Views two pages nine times, and requests much that is not a view.
fn view_everything(server: &TestServer) {
    let get = |path: &str, headers: &[(&str, &str)], status: u16| {
        let answer = server.get(path, headers);
        assert_eq!(answer.status, status, "{path} {headers:?}");
        answer
    };
    let etag = get("/", &[CHROME], 200).header("etag").expect("a validator").to_owned();
    get("/", &[CHROME, ("If-None-Match", &etag)], 304);
    get("/?a=b", &[CHROME, ("Referer", "https://News.Example.net/item?id=ada")], 200);
    get("/", &[], 200);
    get("/developers/", &[CHROME, ("Referer", "http://192.0.2.1/")], 200);
    get("/", &[GPTBOT, MARKDOWN], 200);
    get("/developers.md", &[GPTBOT], 200);
    get("/developers/", &[GPTBOT, MARKDOWN], 200);
    // From this site.
    get("/developers/", &[CHROME, ("Referer", &format!("http://{}/", server.address))], 200);

    assert_eq!(server.request("HEAD", "/", &[CHROME], b"").status, 200);
    get("/", &[CHROME, ("Sec-Purpose", "prefetch;prerender")], 200);
    get("/", &[CHROME, ("Purpose", "prefetch")], 200);
    get("/", &[CHROME, ("Accept", "image/png")], 406);
    get("/", &[CHROME, ("If-Match", "\"other\"")], 412);
    get("/nothing/", &[CHROME], 404);
    get("/developers", &[CHROME], 308);
    get("/llms.txt", &[GPTBOT], 200);
    get("/agents.md", &[GPTBOT], 200);
    get("/api/contact", &[CHROME], 405);
}

#[test]
fn views_over_http2_are_counted() {
    let mut server = TestServer::start();
    let mut client = Http2::open(server.address);
    for referer in ["http://www.example.com/developers/", "https://search.example/"] {
        let answer = client.request("GET", "/", &[CHROME, ("referer", referer)], b"").expect("an answer");
        assert_eq!(answer.status, 200);
    }
    drop(client);
    assert_eq!(server.terminate().0, Some(0));
    let found = stats_json(&small_site(), &server.data_dir(), &[]);
    assert_eq!(found["views"], 2);
    assert_eq!(found["referrers"], json!([{ "host": "search.example", "views": 1 }]));
}

#[test]
fn a_flood_of_paths_and_referrers_adds_a_bounded_number_of_rows() {
    let mut server = TestServer::start();
    let mut connection = Connection::open(server.address);
    for n in 0..2000 {
        let referer = format!("https://h{n}.example/");
        let agent = format!("Agent-{n}");
        let headers = [("Referer", referer.as_str()), ("User-Agent", agent.as_str())];
        let path = if n % 2 == 0 { "/".to_owned() } else { format!("/{n}/") };
        connection.request("GET", &path, &headers, b"").expect("an answer");
    }
    drop(connection);
    assert_eq!(server.terminate().0, Some(0));
    let found = stats_json(&small_site(), &server.data_dir(), &["--top", "5000"]);
    assert_eq!(
        (&found["views"], &found["page_count"], &found["referred"]),
        (&json!(1000), &json!(1), &json!(1000))
    );
    let hosts = found["referrers"].as_array().expect("a list");
    assert!(hosts.len() <= 257 && hosts[0]["host"].is_null(), "{} hosts", hosts.len());
}

#[test]
fn a_reload_between_two_views_loses_neither() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let page = |name: &str| {
        let text = format!(
            "---\ntitle: {name}\ndescription: A page about {name}, in a sentence or two.\n---\n\nText.\n"
        );
        std::fs::write(site.join(format!("pages/{name}.md")), text).expect("it can be written");
    };
    page("old");
    let mut server = TestServer::with(&site, &[NO_LIMITS]);
    assert_eq!(server.get("/old/", &[CHROME]).status, 200);
    assert_eq!(server.get("/", &[CHROME]).status, 200);
    std::fs::remove_file(site.join("pages/old.md")).expect("it is there");
    page("new");
    server.signal(Signal::HUP);
    let began = Instant::now();
    while server.request("HEAD", "/new/", &[], b"").status != 200 {
        assert!(began.elapsed() < PATIENCE, "the reload took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.get("/new/", &[CHROME]).status, 200);
    assert_eq!(server.get("/", &[CHROME]).status, 200);
    assert_eq!(server.terminate().0, Some(0));
    let found = stats_json(&site, &server.data_dir(), &[]);
    let count = |path: &str| {
        let pages = found["pages"].as_array().expect("a list");
        pages.iter().find(|page| page["path"] == path).map(|page| page["views"].clone())
    };
    assert_eq!(
        [count("/old/"), count("/new/"), count("/")],
        [Some(json!(1)), Some(json!(1)), Some(json!(2))]
    );
}

#[test]
fn counts_of_several_runs_add_up_unless_counting_is_off() {
    let mut server = TestServer::start();
    assert_eq!(server.get("/", &[CHROME]).status, 200);
    assert_eq!(server.terminate().0, Some(0));
    server.restart();
    assert_eq!(server.get("/", &[CHROME]).status, 200);
    assert_eq!(server.terminate().0, Some(0));
    server.set(&[("FRONTDESK_SERVER__COUNT_VIEWS", "false")]);
    server.restart();
    assert_eq!(server.get("/", &[CHROME]).status, 200);
    assert_eq!(server.terminate().0, Some(0));
    assert_eq!(stats_json(&small_site(), &server.data_dir(), &[])["views"], 2);
}

#[test]
fn stats_are_a_table_or_say_that_nothing_was_counted() {
    let mut server = TestServer::start();
    let data = server.data_dir();
    let (out, err) = stats(&small_site(), &data, &[]);
    assert!(out.is_empty() && err.contains("No views have been counted since 20"), "{out}{err}");
    assert_eq!(server.get("/developers/", &[CHROME]).status, 200);
    assert_eq!(server.get("/", &[GPTBOT]).status, 200);
    assert_eq!(server.terminate().0, Some(0));
    let (out, err) = stats(&small_site(), &data, &["--days", "2"]);
    assert!(err.is_empty(), "{err}");
    for line in ["2 views, 0 % as Markdown, 50 % by AI agents", "GPTBot (AI)", "/developers/", "DAY "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let (out, _) = stats(&small_site(), &data, &["--page", "developers/"]);
    assert!(out.contains("1 view of /developers/,") && !out.contains("GPTBot"), "{out}");
    let (out, err) = stats(&small_site(), &data, &["--since", "2099-01-01"]);
    assert!(out.is_empty() && err.contains("since 2099-01-01"), "{out}{err}");
    let missing = tempfile::tempdir().expect("a folder");
    if std::env::var_os("FRONTDESK_TEST_POSTGRES").is_none() {
        let (out, err) = stats(&small_site(), &missing.path().join("none"), &[]);
        assert!(out.is_empty() && err.contains("No views have been counted"), "{out}{err}");
    }
}

/// At any time, one of these zones has another date than UTC.
#[test]
fn views_count_for_the_day_of_the_local_time_zone() {
    for zone in ["Etc/GMT-14", "Etc/GMT+12"] {
        let today = || jiff::Timestamp::now().in_tz(zone).expect("a zone").date().to_string();
        let mut server = TestServer::with(&small_site(), &[NO_LIMITS, ("TZ", zone)]);
        let before = today();
        assert_eq!(server.get("/", &[CHROME]).status, 200);
        assert_eq!(server.terminate().0, Some(0));
        let found = stats_json(&small_site(), &server.data_dir(), &["--since", "2000-01-01"]);
        let day = found["days"][0]["day"].as_str().expect("a day");
        assert!([before, today()].iter().any(|today| today == day), "{zone}: {found:#}");
    }
}

fn stats(site: &Path, data: &Path, arguments: &[&str]) -> (String, String) {
    let mut command = frontdesk();
    let command =
        command.arg("stats").arg(site).args(arguments).arg("--data-dir").arg(data).envs(store_of(data));
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{err}");
    (out, err)
}

fn stats_json(site: &Path, data: &Path, arguments: &[&str]) -> Value {
    let (out, _) = stats(site, data, &[&["--json"], arguments].concat());
    serde_json::from_str(&out).expect("JSON")
}
