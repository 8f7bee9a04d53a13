//! A new site and configuration replace the old ones while the server is running: completely or not at all.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::load::Load;
use crate::support::tls::Authority;
use crate::support::{PATIENCE, TestServer, frontdesk};

/// A new site in `folder`, created by `init`, whose configuration has all keys.
fn site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    assert!(frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let complete = frontdesk().args(["config", "--all"]).output().expect("it runs");
    assert!(complete.status.success());
    std::fs::write(site.join("frontdesk.toml"), complete.stdout).expect("it can be written");
    site
}

/// Replaces a page atomically, as an editor does.
fn write(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text).expect("it can be written");
    std::fs::rename(&draft, path).expect("it can be renamed");
}

fn page(words: &str) -> String {
    format!(
        "---\ntitle: News\ndescription: What is new at our company, told in a sentence or two.\n---\n\n# News\n\n{words}\n"
    )
}

fn hang_up(server: &TestServer) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a process id")).expect("a process");
    kill_process(pid, Signal::HUP).expect("it can be told");
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn says(server: &TestServer, words: &str) -> bool {
    server.get("/news.md", &[]).text().contains(words)
}

#[test]
fn sighup_reads_pages_and_configuration_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("pages/news.md"), &page("The first state."));
    let server = TestServer::with(&site, &[]);
    assert!(says(&server, "The first state."));
    let before = server.get("/news/", &[]);

    write(&site.join("pages/news.md"), &page("The second state."));
    let configuration = std::fs::read_to_string(site.join("frontdesk.toml")).expect("it is there");
    let mailbox = folder.path().join("mailbox");
    let channel = format!("\n[[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = {mailbox:?}\n");
    let configuration = configuration.replace("# per_minute = 30", "per_minute = 7");
    write(&site.join("frontdesk.toml"), &(configuration + &channel));
    hang_up(&server);
    until("the second state", || says(&server, "The second state."));
    assert_ne!(server.get("/news/", &[]).header("etag"), before.header("etag"));

    let answer = server.post("/api/waitlist", &json!({ "email": "ada@example.com" }));
    assert_eq!(answer.status, 200);
    assert!(answer.header("ratelimit-policy").is_some_and(|policy| policy.contains("q=7;")), "{answer:?}");
    until("the delivery", || std::fs::read_dir(mailbox.join("new")).is_ok_and(|found| found.count() == 1));
    until("the note of it", || server.inbox()[0]["status"] == "delivered");
    server.expect(1);
}

#[test]
fn a_faulty_site_or_configuration_changes_nothing_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("pages/news.md"), &page("The first state."));
    let server = TestServer::with(&site, &[]);
    let configuration = std::fs::read_to_string(site.join("frontdesk.toml")).expect("it is there");
    for (file, faulty, mended, why) in [
        (
            "pages/other.md",
            "---\ntitle: [\n---\n".to_owned(),
            page("Something else.").replace("News", "Other"),
            "pages/other.md",
        ),
        (
            "frontdesk.toml",
            configuration.replace("# per_minute = 30", "per_minutes = 7"),
            configuration,
            "per_minute",
        ),
    ] {
        write(&site.join("pages/news.md"), &page("A state that must not be seen."));
        write(&site.join(file), &faulty);
        hang_up(&server);
        let mut log = String::new();
        until("the refusal", || {
            log = server.log();
            log.matches("reload failed").count() == 1 + usize::from(file == "frontdesk.toml")
        });
        assert!(log.contains(why), "{log}");
        assert!(says(&server, "The first state."), "{file}");
        assert_eq!(server.get("/other/", &[]).status, 404);
        write(&site.join(file), &mended);
        write(&site.join("pages/news.md"), &page("The first state."));
        if file != "frontdesk.toml" {
            std::fs::remove_file(site.join(file)).expect("it is there");
        }
    }
    hang_up(&server);
    until("the last state", || server.log().contains("configuration reloaded"));
    assert!(says(&server, "The first state."));
}

#[test]
fn a_changed_restart_only_key_is_reported_on_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let server = TestServer::with(&site, &[]);
    let configuration = std::fs::read_to_string(site.join("frontdesk.toml")).expect("it is there");
    write(&site.join("frontdesk.toml"), &configuration.replace("# workers = 0", "workers = 7"));
    hang_up(&server);
    until("the note", || server.log().contains("`server.workers` takes effect after a restart"));
}

#[test]
fn restart_only_keys_keep_their_values_on_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    let (chain, key) = Authority::new().issue();
    std::fs::write(site.join("chain.pem"), chain).expect("it can be written");
    std::fs::write(site.join("key.pem"), key).expect("it can be written");
    let server = TestServer::with(&site, &[]);
    let own = server.get("/llms.txt", &[]).text().to_owned();
    let configuration = std::fs::read_to_string(site.join("frontdesk.toml")).expect("it is there");
    let tls = "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\n";
    let configuration = configuration.replace("[tls]\n", tls);
    let configuration = configuration.replace("[store]\n", "[store]\nurl = \"sqlite:other.sqlite\"\n");
    for reloads in 1..=2 {
        write(&site.join("frontdesk.toml"), &configuration);
        hang_up(&server);
        until("the reload", || server.log().matches("configuration reloaded").count() == reloads);
        for key in ["tls.listen", "tls.certificate", "tls.key", "store.url"] {
            let said = format!("`{key}` takes effect after a restart");
            assert_eq!(server.log().matches(&said).count(), reloads, "{key}");
        }
    }
    // No TLS socket is open yet, so plain HTTP must not redirect.
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.get("/llms.txt", &[]).text(), own);
    // A scrape waits only briefly for the inbox, so several may be needed.
    let is_there = || server.ops("/metrics").text().contains("\nfrontdesk_inbox_readable 1\n");
    until("the inbox, which is where it was,", is_there);
    // Invalid values of these settings are still errors.
    std::fs::write(site.join("key.pem"), "none").expect("it can be written");
    hang_up(&server);
    until("the refusal", || server.log().contains("reload failed"));
}

#[test]
fn watch_applies_every_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("pages/news.md"), &page("The first state."));
    // The data folder is inside the site, as by default. Writes to the inbox must not trigger a reload.
    let server = TestServer::serving(&site, &site.join("data"), &["--watch"], &[]);
    assert!(says(&server, "The first state."));
    for state in ["The second state.", "The third state."] {
        write(&site.join("pages/news.md"), &page(state));
        until(state, || says(&server, state));
    }
    // The log line follows a moment later.
    until("the notes", || server.log().matches("configuration reloaded").count() >= 2);
    let reloads = server.log().matches("configuration reloaded").count();
    for number in 0..5 {
        assert_eq!(
            server.post("/api/waitlist", &json!({ "email": format!("a{number}@example.com") })).status,
            200
        );
    }
    write(&site.join("pages/news.md"), &page("The last state."));
    until("the last state", || says(&server, "The last state."));
    until("its note", || server.log().matches("configuration reloaded").count() > reloads);
    assert_eq!(
        server.log().matches("configuration reloaded").count(),
        reloads + 1,
        "a write to the inbox triggered a reload"
    );
    server.expect(5);
}

/// The number of reloads and of requests. `scripts/test door-long` sets larger numbers in the environment.
fn effort() -> (usize, usize) {
    let read = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    (read("FRONTDESK_TEST_RELOADS").unwrap_or(10), read("FRONTDESK_TEST_REQUESTS").unwrap_or(5_000))
}

#[test]
fn no_request_fails_during_repeated_reloads() {
    let (reloads, requests) = effort();
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(&site.join("pages/news.md"), &page("State 0."));
    let server = TestServer::with(&site, &[("FRONTDESK_LIMITS__ENABLED", "false")]);
    let load = Load::begin(
        server.address,
        8,
        |client, n| match n % 1000 {
            0 => (
                "POST",
                "/api/waitlist",
                json!({ "email": format!("c{client}n{n}@example.com") }).to_string(),
            ),
            n if n % 2 == 0 => ("GET", "/news/", String::new()),
            _ => ("GET", "/news.md", String::new()),
        },
        |answer| answer.status == 200 && (answer.body.starts_with(b"{") || answer.text().contains("State ")),
    );
    for reload in 1..=reloads {
        let state = format!("State {reload}.");
        write(&site.join("pages/news.md"), &page(&state));
        // Some reloads fail because of a broken page, and change nothing.
        if reload % 5 == 0 {
            write(&site.join("pages/broken.md"), "---\ntitle: [\n---\n");
            hang_up(&server);
            until("a refusal", || server.log().matches("reload failed").count() == reload / 5);
            std::fs::remove_file(site.join("pages/broken.md")).expect("it is there");
        }
        hang_up(&server);
        until(&state, || says(&server, &state));
    }
    let began = Instant::now();
    while load.answered() < requests && began.elapsed() < Duration::from_mins(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (answered, failures) = load.end();
    eprintln!("{reloads} reloads, {answered} requests answered");
    assert_eq!(failures, Vec::<String>::new(), "of {answered}");
    assert!(answered >= requests, "only {answered}");
    server.expect_anything();
}

/// The validator and length of the page's Brotli encoding, which must decode to the identity body.
fn brotli(server: &TestServer) -> (String, usize) {
    let encoded = server.get("/news/", &[("Accept-Encoding", "br")]);
    assert_eq!(encoded.header("content-encoding"), Some("br"));
    let mut unpacked = Vec::new();
    brotli_decompressor::BrotliDecompress(&mut &encoded.body[..], &mut unpacked).expect("it is whole");
    assert_eq!(unpacked, server.get("/news/", &[]).body);
    (encoded.header("etag").expect("a validator").to_owned(), encoded.body.len())
}

#[test]
fn strong_encodings_are_cached_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path());
    write(
        &site.join("pages/news.md"),
        &page(&"Some words that say the same, and some that do not. ".repeat(20)),
    );
    let data = folder.path().join("data");
    // A folder cannot be created where a file exists, so the server keeps its first encodings.
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("encodings"), "none").expect("it can be written");
    // A fixed base URL, because pages contain their address and each start uses a different port.
    let mut server = TestServer::at(&site, &data, &[("FRONTDESK_BASE_URL", "https://www.example.com")]);
    until("the warning", || server.log().contains("cannot store strongly compressed files"));
    let quick = brotli(&server);

    std::fs::remove_file(data.join("encodings")).expect("it is there");
    server.kill();
    server.restart();
    until("the strong ones", || brotli(&server).0 != quick.0);
    let strong = brotli(&server);
    assert!(strong.1 < quick.1, "{strong:?} {quick:?}");
    let again = server.get("/news/", &[("Accept-Encoding", "br"), ("If-None-Match", &quick.0)]);
    assert_eq!(again.status, 200, "the validator of other bytes");
    server.kill();
    server.restart();
    assert_eq!(brotli(&server), strong, "the stored encodings are used from the first answer");

    let kept = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(data.join("encodings")).expect("a folder").flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let before = kept().len();
    assert!(before > 3);
    server.kill();
    for file in kept() {
        let mut bytes = std::fs::read(&file).expect("it can be read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).expect("it can be written");
    }
    server.restart();
    until("the strong ones again", || brotli(&server) == strong);
    assert_eq!(kept().len(), before);
    // The encodings of a removed page are deleted.
    std::fs::remove_file(site.join("pages/news.md")).expect("it is there");
    hang_up(&server);
    until("the removal", || kept().len() < before);
}
