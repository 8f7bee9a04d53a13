//! `frontdesk audit`: frontdesk's own sites are clean, and faults of other sites are reported.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::channel_site::until;
use crate::support::{Connection, example_site, frontdesk, small_site};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        frontdesk().arg("audit").args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

/// Audits a folder, and asserts that there is neither a finding nor anything that was not judged.
#[track_caller]
fn assert_clean(folder: &Path) {
    let folder = folder.to_str().expect("a path in UTF-8");
    let (code, stdout, stderr) = run(&[folder, "--json", "--pages", "6", "--max-requests", "120"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.contains("fine: nothing to repair"), "{stderr}");
}

#[test]
fn the_example_site_is_clean() {
    assert_clean(&example_site());
}

#[test]
fn the_documentation_is_clean() {
    assert_clean(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"));
}

#[test]
fn a_new_site_is_clean() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("desk");
    let output = frontdesk().arg("init").arg(&site).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_clean(&site);
}

/// Serves the same page for every request, without `Vary`: as Markdown if `Accept` mentions it.
fn serve_carelessly() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer_carelessly(stream);
        }
    });
    url
}

fn answer_carelessly(mut stream: std::net::TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut request = String::new();
    while reader.read_line(&mut request).is_ok_and(|count| count > 2) {}
    let (kind, body) = if request.contains("text/markdown") {
        ("text/markdown", "# A page\n\nSome text of the page.\n")
    } else {
        (
            "text/html",
            "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1><p>Some text of the page.</p></main>",
        )
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

#[test]
fn findings_are_reported_and_fail_the_command() {
    let url = serve_carelessly();
    let (code, stdout, stderr) = run(&[&url]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(
        stdout.contains("\ncaches\n  broken   /: ") && stdout.contains("[vary-missing-page]"),
        "{stdout}"
    );
    assert!(stderr.contains("`frontdesk audit --explain "), "{stderr}");

    let (code, lines, _) = run(&[&url, "--json"]);
    assert_eq!(code, Some(1));
    let findings: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let is_it = |finding: &&Value| finding["rule"] == "vary-missing-page";
    let finding = findings.iter().find(is_it).expect("it is reported");
    assert_eq!((&finding["severity"], &finding["group"]), (&"broken".into(), &"caches".into()));
    assert!(finding["evidence"][0]["response_headers"].is_array(), "{finding}");

    let folder = tempfile::tempdir().expect("a folder");
    let baseline = folder.path().join("known.jsonl");
    std::fs::write(&baseline, lines).expect("it can be written");
    let (code, stdout, stderr) = run(&[&url, "--baseline", baseline.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stderr.contains("not shown: "), "{stderr}");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    for arguments in [
        &["not a url"][..],
        &[],
        &["https://example.com/", "--max-requests", "0"],
        &["https://example.com/", "--header", "no colon"],
        &["http://127.0.0.1:9/", "--submit"],
    ] {
        let (code, _, stderr) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
    let (code, _, stderr) = run(&["http://127.0.0.1:9/"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("cannot fetch http://127.0.0.1:9/"), "{stderr}");
    let (code, _, stderr) = run(&["--explain", "vary-mising-page"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("did you mean `vary-missing-page`?"), "{stderr}");
    let (code, stdout, _) = run(&["--explain", "vary-missing-page"]);
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("### `vary-missing-page`\n"), "{stdout}");
}

#[test]
fn a_folder_that_cannot_be_served_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, stderr) = run(&[folder.path().to_str().expect("UTF-8")]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains(" cannot be served: "), "{stderr}");
}

/// A reload must not bring back the channels and the shared services of the configuration.
#[test]
fn the_server_of_an_audit_stays_isolated_after_a_reload() {
    let site = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| std::fs::write(site.path().join(file), text).expect("a file");
    std::fs::create_dir(site.path().join("pages")).expect("a folder");
    write("frontdesk.toml", "base_url = \"https://www.example.com\"\n");
    let page = |words: &str| {
        let text = format!("---\ntitle: Home\ndescription: A page.\n---\n\n# Home\n\n{words}\n");
        write("pages/index.md", &text);
    };
    page("Before.");
    let mut server = frontdesk()
        .args(["serve", "--isolated"])
        .arg(site.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
    let origin = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
    let address: SocketAddr = origin.strip_prefix("http://").expect("HTTP").parse().expect("an address");
    let get = |path: &str| {
        let answer = Connection::open(address).request("GET", path, &[], b"").expect("an answer");
        answer.text().to_owned()
    };
    assert!(get("/llms.txt").contains(&origin), "{}", get("/llms.txt"));
    page("After.");
    kill_process(Pid::from_child(&server), Signal::HUP).expect("a signal");
    until(|| get("/").contains("After.").then_some(())).expect("it reloads");
    let guide = get("/llms.txt");
    assert!(guide.contains(&origin) && !guide.contains("www.example.com"), "{guide}");
    drop(server.stdin.take());
    assert!(server.wait().expect("a child").success());
}

/// The audit of a folder holds the standard input of its server open, which closes even if it is killed.
#[test]
fn the_server_of_an_audit_ends_with_its_input_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = frontdesk()
        .args(["serve", "--isolated"])
        .arg(small_site())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    let count = || std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(count(), 1, "the inbox");
    drop(server.stdin.take());
    let status = until(|| server.try_wait().expect("a child")).expect("it ends");
    assert!(status.success(), "{status}");
    assert_eq!(count(), 0);
}
