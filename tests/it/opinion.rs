//! An outside opinion: rspamd is asked about new submissions, marks them, and delays nothing for long.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::channel_site::{ChannelSite, maildir, until};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::port::Port;
use crate::support::rspamd::{GTUBE, Rspamd};
use crate::support::{TestServer, frontdesk, store_of};

const SPAM: &str = r#"{"action": "add header", "score": 9.2, "required_score": 15.0,
    "symbols": {"RULE_A": {"score": 6, "options": ["ada@example.com"]}, "RULE_B": {"score": 3.2}}}"#;
const CLEAN: &str = r#"{"action": "no action", "score": 0.1, "required_score": 15.0, "symbols": {}}"#;
const URL: &str = "FRONTDESK_SCREENING__RSPAMD_URL";
const TIMEOUT: &str = "FRONTDESK_SCREENING__RSPAMD_TIMEOUT";

/// A site with a Maildir that asks an rspamd.
fn site(mailbox: &Path, environment: &[(&str, &str)]) -> ChannelSite {
    ChannelSite::open(&maildir("box", mailbox), environment)
}

/// The subjects of the mails in a Maildir.
fn subjects(mailbox: &Path) -> Vec<String> {
    let files = std::fs::read_dir(mailbox.join("new")).into_iter().flatten().flatten();
    let subject =
        |text: String| text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned));
    files.filter_map(|file| subject(std::fs::read_to_string(file.path()).ok()?)).collect()
}

fn wait_for_mails(mailbox: &Path, count: usize) -> Vec<String> {
    until(|| Some(subjects(mailbox)).filter(|subjects| subjects.len() == count)).expect("they are delivered")
}

/// The only submission in the inbox.
fn submission(server: &TestServer) -> Value {
    server.inbox().pop().expect("it is in the inbox")
}

fn opinions(server: &TestServer, result: &str) -> u64 {
    let start = format!("frontdesk_opinions_total{{result=\"{result}\"}} ");
    let answer = server.ops("/metrics");
    let count = answer.text().lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
    count.expect("the metric is there")
}

#[test]
fn an_opinion_marks_the_mail_and_gives_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = HttpPeer::start([Reply::saying(200, SPAM)]);
    let site = site(
        folder.path(),
        &[(URL, &peer.url("")), (TIMEOUT, "10s"), ("FRONTDESK_SCREENING__RSPAMD_PASSWORD", "open sesame")],
    );
    site.submit(1);
    let [subject] = &wait_for_mails(folder.path(), 1)[..] else { panic!() };
    assert!(subject.contains("[suspicious]"), "{subject}");
    let submission = submission(&site.server);
    assert_eq!(
        (&submission["_suspicious"], &submission["_score"]),
        (&json!(true), &json!(50)),
        "{submission}"
    );
    let reason =
        json!({"signal": "opinion", "points": 50, "detail": "rspamd: 9.2 of 15 points, RULE_A, RULE_B"});
    assert_eq!(submission["_reasons"], json!([reason]));
    let [request] = &peer.requests()[..] else { panic!() };
    assert_eq!((&*request.method, &*request.target), ("POST", "/checkv2"));
    assert_eq!(request.header("password"), Some("open sesame"));
    assert_eq!(request.header("queue-id"), submission["id"].as_str());
    assert_eq!((opinions(&site.server, "spam"), opinions(&site.server, "clean")), (1, 0));
    assert!(!site.server.log().contains("sesame"));
}

#[test]
fn a_clean_submission_does_not_wait_until_the_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = HttpPeer::start([Reply::saying(200, CLEAN)]);
    let site = site(folder.path(), &[(URL, &peer.url("")), (TIMEOUT, "10s")]);
    site.submit(1);
    let [subject] = &wait_for_mails(folder.path(), 1)[..] else { panic!() };
    assert!(!subject.contains("suspicious"), "{subject}");
    assert_eq!(opinions(&site.server, "clean"), 1);
    assert_eq!(submission(&site.server)["_reasons"], json!([]));
}

#[test]
fn a_misbehaving_rspamd_delays_for_the_timeout_at_most_and_marks_nothing() {
    let endless = Reply::LongBody { status: 200, bytes: 1 << 40 };
    for reply in [
        Reply::Silence,
        Reply::saying(200, "garbage"),
        Reply::saying(500, SPAM),
        Reply::HalfHeader,
        Reply::CloseBeforeRequest,
        Reply::StalledBody { status: 200 },
        endless,
        Reply::EndlessHeaders,
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let peer = HttpPeer::start([reply.clone()]);
        let site = site(folder.path(), &[(URL, &peer.url("")), (TIMEOUT, "300ms")]);
        site.submit(1);
        let [subject] = &wait_for_mails(folder.path(), 1)[..] else { panic!() };
        assert!(!subject.contains("suspicious"), "{reply:?}: {subject}");
        until(|| (opinions(&site.server, "failed") == 1).then_some(())).expect("it fails");
    }
}

#[test]
fn neither_acceptance_nor_processing_waits_for_rspamd() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = HttpPeer::start([Reply::Silence]);
    let site = site(folder.path(), &[(URL, &peer.url("")), (TIMEOUT, "10s")]);
    // More than rspamd is asked about at a time. Each answer arrives, and each submission is processed.
    for number in 0..20 {
        assert_eq!(site.post(number).status, 200);
    }
    let submissions = site.server.inbox();
    assert_eq!(submissions.len(), 20);
    assert!(submissions.iter().all(|submission| submission["status"] == "waiting"), "{submissions:?}");
    assert_eq!(subjects(folder.path()).len(), 0, "the timeout is not over");
    wait_for_mails(folder.path(), 20);
}

#[test]
fn after_failures_rspamd_is_not_asked_and_nothing_waits() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::reserve());
    let url = format!("http://{}", port.address());
    let site = site(folder.path(), &[(URL, &url), (TIMEOUT, "10s")]);
    for number in 1..=5 {
        site.submit(number);
        wait_for_mails(folder.path(), number);
    }
    until(|| (opinions(&site.server, "failed") == 5).then_some(())).expect("nothing listens there");
    for number in 6..=8 {
        site.submit(number);
    }
    wait_for_mails(folder.path(), 8);
    assert_eq!(opinions(&site.server, "failed"), 5);
    let log = site.server.log();
    assert_eq!(log.matches("rspamd gives no usable answer").count(), 1, "{log}");
}

#[test]
fn a_server_that_was_killed_delivers_at_the_stored_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = HttpPeer::start([Reply::Silence]);
    let mut site = site(folder.path(), &[(URL, &peer.url("")), (TIMEOUT, "5s")]);
    site.submit(1);
    peer.wait_for(1, Duration::from_mins(10));
    site.server.kill();
    site.server.restart();
    let [subject] = &wait_for_mails(folder.path(), 1)[..] else { panic!() };
    assert!(!subject.contains("suspicious"), "{subject}");
}

/// The output of `frontdesk doctor` with this URL.
fn doctor(site: &ChannelSite, url: &str) -> String {
    let output = frontdesk()
        .args(["doctor", "--site"])
        .arg(site.server.site())
        .arg("--data-dir")
        .arg(site.server.data_dir())
        .envs(store_of(&site.server.data_dir()))
        .env(URL, url)
        .output()
        .expect("it runs");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn doctor_says_whether_rspamd_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site(folder.path(), &[]);
    for (reply, expected) in [
        (Reply::saying(200, "pong\r\n"), "ok    screening.rspamd_url: rspamd at 127.0.0.1:"),
        (Reply::saying(200, "hello"), "its reply is not that of rspamd"),
        (Reply::status(403), "it refuses the password (403)"),
    ] {
        let peer = HttpPeer::start([reply]);
        let said = doctor(&site, &peer.url(""));
        assert!(said.contains(expected), "{said}");
        let [request] = &peer.requests()[..] else { panic!() };
        assert_eq!((&*request.method, &*request.target), ("GET", "/ping"));
    }
    let port = Port::reserve();
    let said = doctor(&site, &format!("http://{}", port.address()));
    assert!(said.contains("delivered without its opinion"), "{said}");
    assert!(!doctor(&site, "").contains("rspamd"));
}

#[test]
#[ignore = "needs rspamd; run by `scripts/test rspamd`"]
fn a_real_rspamd_marks_its_test_text_and_nothing_else() {
    let (folder, rspamd) = (tempfile::tempdir().expect("a folder"), Rspamd::start());
    let site = site(folder.path(), &[(URL, &rspamd.url()), (TIMEOUT, "10s")]);
    site.submit(1);
    let [subject] = &wait_for_mails(folder.path(), 1)[..] else { panic!() };
    assert!(!subject.contains("suspicious"), "{subject}");
    let body =
        json!({"name": "Ada", "email": "ada@example.com", "message": format!("Good day\n\n{GTUBE}\n")});
    assert_eq!(site.server.post("/api/contact", &body).status, 200);
    let marked = until(|| site.server.inbox().into_iter().find(|found| found["_suspicious"] == true));
    let marked = marked.expect("it is marked");
    assert_eq!(marked["_reasons"][0]["detail"], "rspamd: 15 of 15 points", "{marked}");
    let subjects = wait_for_mails(folder.path(), 2);
    assert_eq!(subjects.iter().filter(|subject| subject.contains("[suspicious]")).count(), 1, "{subjects:?}");
    // Its test message arrives in the same Maildir.
    assert!(doctor(&site, &rspamd.url()).contains("answers in"));
}
