//! Features for authors: `--watch`, `--drafts`, pages with a date in the future, and permitted hosts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Answer, PATIENCE, TestServer, frontdesk};

const SCRIPT: &str = "<script defer src=\"/_frontdesk/reload.js\"></script></head>";

/// A private site, created by `init`.
fn site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    site
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("it can be written");
    std::fs::rename(&new, path).expect("it can be renamed");
}

/// A page whose front matter has these further lines.
fn page(title: &str, matter: &str) -> String {
    format!(
        "---\ntitle: {title}\ndescription: What this page says, in a sentence or two.\n{matter}---\nWords.\n"
    )
}

fn serve(site: &Path, arguments: &[&str]) -> TestServer {
    TestServer::serving(site, &site.join("data"), arguments, &[("FRONTDESK_LIMITS__ENABLED", "false")])
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Requests the reload state. If `known` is the current version, the server responds after a change or a
/// timeout.
fn state(server: &TestServer, known: &str) -> Value {
    let answer = server.request("POST", &format!("/_frontdesk/reload?{known}"), &[], b"");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()
}

/// The responses from the fast path and from the HTTP library, which serves a connection after a POST.
fn from_both_lanes(server: &TestServer, path: &str) -> [Answer; 2] {
    let mut other = server.connect();
    other.request("POST", "/nowhere/", &[], b"").expect("an answer");
    [server.get(path, &[]), other.request("GET", path, &[], b"").expect("an answer")]
}

#[test]
fn a_watched_site_tells_open_pages_about_reloads_and_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let server = serve(&site, &["--watch"]);
    until("the note", || server.log().contains("`--watch` is for authors, not for production"));
    for path in ["/", "/contact/", "/nowhere/"] {
        assert!(server.get(path, &[]).text().contains(SCRIPT), "{path}");
    }
    assert!(!server.get("/index.md", &[]).text().contains("reload.js"));
    let script = server.get("/_frontdesk/reload.js", &[]);
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));

    let first = state(&server, "");
    assert_eq!(first["errors"], serde_json::json!([]));
    // The server responds after the change, because the client already has the old version.
    let next = |before: &Value| loop {
        let state = state(&server, &before["version"].to_string());
        if state["version"] != before["version"] {
            return state;
        }
    };
    write(&site.join("pages/news.md"), "---\ntitle: News\ndate: soon\n---\n");
    let broken = next(&first);
    assert_eq!(broken["site"], first["site"], "the site is the same: {broken}");
    let error = &broken["errors"][0];
    assert_eq!((&error["place"], &error["line"]), (&"pages/news.md".into(), &3.into()), "{broken}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("`date` must be a date")), "{broken}");

    write(&site.join("pages/news.md"), "---\ntitle: News\nunknown: 1\n---\nWords.\n");
    let mended = next(&broken);
    assert_eq!((&mended["site"], &mended["errors"]), (&mended["version"], &serde_json::json!([])));
    assert_eq!(server.get("/news/", &[]).status, 200);
    until("the warning", || {
        let expected =
            r#""message":"unknown key `unknown` in the front matter","place":"pages/news.md","line":3"#;
        server.log().contains(expected)
    });

    write(&site.join("pages/other.md"), "---\ntitle: Other\ndate: soon\n---\n");
    let broken = next(&mended);
    assert_eq!(broken["errors"][0]["place"], "pages/other.md", "{broken}");
    assert_ne!(mended["warnings"]["count"], 0, "{mended}");
    assert_eq!(broken["warnings"], mended["warnings"], "the site with these warnings is still served");
}

#[test]
fn stopping_does_not_wait_for_open_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let mut server = serve(&site, &["--watch"]);
    let known = state(&server, "")["version"].to_string();
    let mut waiting = server.connect();
    waiting
        .send(
            format!("POST /_frontdesk/reload?{known} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                .as_bytes(),
        )
        .expect("it is sent");
    server.signal(Signal::TERM);
    let answer = waiting.answer(false).expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
    until("the end", || server.has_ended());
    until("the last line", || server.log().contains("\"stopped\""));
}

#[test]
fn without_watch_nothing_tells_of_reloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let server = serve(&site, &[]);
    assert!(!server.get("/", &[]).text().contains("reload"));
    assert_eq!(server.get("/_frontdesk/reload.js", &[]).status, 404);
    assert_eq!(server.request("POST", "/_frontdesk/reload", &[], b"").status, 404);
}

#[test]
fn a_watched_build_reloads_open_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    std::fs::create_dir(&build).expect("a folder");
    let html =
        |words: &str| format!("<!doctype html><html><head><title>A</title></head><body><p>{words}</p>");
    write(&build.join("index.html"), &html("First."));
    let data = folder.path().join("data");
    let server = TestServer::serving(&build, &data, &["--watch"], &[]);
    assert!(server.get("/", &[]).text().contains(SCRIPT));
    let known = state(&server, "")["version"].clone();
    write(&build.join("index.html"), &html("Second."));
    until("the second page", || {
        let state = state(&server, &known.to_string());
        state["version"] != known && state["site"] == state["version"]
    });
    assert!(server.get("/", &[]).text().contains("<p>Second.</p>"));
}

#[test]
fn drafts_and_future_pages_are_shown_only_in_a_preview() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("posts/2026-02-01-draft.md"), &page("Unfinished", "draft: true\ntags: [secret]\n"));
    write(&site.join("pages/later.md"), &page("Later", "date: 9000-01-02T03:04:05+01:00\n"));
    write(&site.join("posts/9000-01-02-scheduled.md"), &page("Scheduled", ""));
    let hidden = ["/blog/draft/", "/later/", "/blog/scheduled/", "/blog/tags/secret/"];
    let lists = ["/blog/rss.xml", "/sitemap.xml", "/sitemap.md", "/llms.txt", "/llms-full.txt", "/agents.md"];
    let names = ["/blog/draft", "/later", "/blog/scheduled", "/blog/tags/secret", "Unfinished"];
    let public = {
        let server = serve(&site, &[]);
        for path in hidden {
            assert_eq!(server.get(path, &[]).status, 404, "{path}");
        }
        assert!(!server.get("/blog/", &[]).text().contains("Unfinished"));
        lists.map(|path| server.get(path, &[]).text().to_owned())
    };
    let server = serve(&site, &["--drafts"]);
    let note = |path: &str| {
        let answer = server.get(path, &[]);
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.text().to_owned();
        let note = text.split_once("<p class=\"draft\">").map(|(_, rest)| rest.split('<').next());
        note.flatten().map(str::to_owned)
    };
    assert_eq!(note("/blog/draft/").as_deref(), Some("Draft: not published."));
    assert_eq!(note("/later/").as_deref(), Some("Not published until 2 January 9000, 02:04 UTC."));
    assert_eq!(note("/blog/scheduled/").as_deref(), Some("Not published until 2 January 9000, 00:00 UTC."));
    assert_eq!(note("/blog/tags/secret/").as_deref(), Some("Draft: not published."));
    assert_eq!(note("/blog/hello/"), None);
    assert!(server.get("/blog/", &[]).text().contains("Unfinished"));
    for (path, public) in lists.iter().zip(public) {
        // The lists contain the site's address, which has a different port on this server.
        let address = |text: &str| text.matches("http://127.0.0.1:").count();
        let text = server.get(path, &[]).text().to_owned();
        assert!(names.iter().all(|name| !text.contains(name)), "{path}: {text}");
        assert_eq!(address(&text), address(&public), "{path}");
    }
}

#[test]
fn a_page_is_published_at_its_time_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let at = jiff::Timestamp::now() + Duration::from_secs(3);
    write(&site.join("pages/soon.md"), &page("Soon", &format!("date: {at}\n")));
    let server = serve(&site, &[]);
    until("the page", || server.get("/soon/", &[]).status == 200);
    assert!(jiff::Timestamp::now() >= at, "the page was published too early");
}

#[test]
fn check_lists_scheduled_pages_without_failing() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("posts/9000-01-02-scheduled.md"), &page("Scheduled", ""));
    write(&site.join("pages/draft.md"), &page("Draft", "draft: true\n"));
    write(
        &site.join("pages/later.md"),
        &page("Later", "date: 8000-01-02\n").replace("Words.", "[x](/gone/)"),
    );
    let check = |arguments: &[&str]| {
        let output = frontdesk().arg("check").args(arguments).arg(&site).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, said) = check(&[]);
    assert_eq!(code, Some(0), "{said}");
    let notes: Vec<&str> = said.lines().filter(|line| line.starts_with("note: p")).collect();
    assert_eq!(
        notes,
        [
            "note: pages/later.md will be published on 2 January 8000, 00:00 UTC",
            "note: posts/9000-01-02-scheduled.md will be published on 2 January 9000, 00:00 UTC",
            "note: pages/draft.md is a draft",
        ]
    );
    let (code, said) = check(&["--drafts"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("pages/later.md:6: "), "{said}");
}

#[test]
fn permitted_hosts_are_in_every_policy_after_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    std::fs::create_dir_all(site.join("dist")).expect("a folder");
    std::fs::create_dir_all(site.join("pages")).expect("a folder");
    write(&site.join("pages/index.md"), &page("Home", ""));
    write(&site.join("dist/index.html"), "<!doctype html><title>Built</title><p>Words.");
    write(&site.join("dist/a.css"), "p { color: red }");
    write(&site.join("dist/_headers"), "/docs/a.css\n  X-Own: yes\n");
    let configuration = |more: &str| {
        let text =
            "operator.name = \"A\"\nsite.title = \"A\"\nsite.description = \"A site about something.\"\n";
        format!("{text}site.prebuilt = \"dist\"\nsite.prebuilt_path = \"/docs/\"\n{more}")
    };
    write(&site.join("frontdesk.toml"), &configuration(""));
    let server = serve(&site, &[]);
    let policies = |expected: &str| {
        // A page, a generated resource, a 404, and an error from an endpoint.
        for path in ["/", "/llms.txt", "/nowhere/", "/api/waitlist"] {
            for answer in from_both_lanes(&server, path) {
                let policy = answer.header("content-security-policy").expect("a policy");
                assert!(policy.contains(expected), "{path}: {policy}");
            }
        }
    };
    policies("; script-src 'self'; ");
    assert_eq!(server.get("/docs/a.css", &[]).header("x-own"), Some("yes"));
    let built = || {
        let policy = |path| server.get(path, &[]).header("content-security-policy").map(str::to_owned);
        ["/docs/", "/docs/a.css"].map(policy)
    };
    let before = built();

    let allow = "security.allow = { script = [\"https://plausible.example.com\"] }\n";
    write(&site.join("frontdesk.toml"), &configuration(allow));
    server.signal(Signal::HUP);
    until("the reload", || server.log().contains("configuration reloaded"));
    policies("; script-src 'self' https://plausible.example.com; ");
    assert_eq!(built(), before, "pages of a build may load scripts from every host");

    let output = folder.path().join("out");
    let export = frontdesk()
        .arg("export")
        .arg(&site)
        .arg("--output")
        .arg(&output)
        .env("FRONTDESK_BASE_URL", "https://www.example.com")
        .output()
        .expect("it runs");
    assert!(export.status.success(), "{export:?}");
    for file in ["public/_headers", "nginx/server.conf"] {
        let text = std::fs::read_to_string(output.join(file)).expect("a file");
        assert!(text.contains("script-src 'self' https://plausible.example.com;"), "{file}: {text}");
    }
}
