//! The canary: test submissions through the public address, the faults that it names, and that it counts for
//! nothing.

pub(crate) mod faults;
mod tokens;

use std::path::Path;
use std::process::Output;

use frontdesk_inbox::store::{CanaryStatus, DatabaseUrl, InboxReader, Server};
use serde_json::Value;

use super::support::channel_site::{maildir, smtp, until, webhook, write_site};
use super::support::http_peer::{HttpPeer, Reply};
use super::support::smtp_peer::{Script, SmtpPeer};
use super::support::{TestServer, frontdesk, store_of};

/// The shortest permitted time between two runs.
pub(crate) const EVERY: (&str, &str) = ("FRONTDESK_CANARY__EVERY", "10s");

/// A server with a canary.
pub(crate) struct CanarySite {
    pub(crate) server: TestServer,
    _folder: tempfile::TempDir,
}

impl CanarySite {
    /// Starts a server with these channels. The public address is that of the server unless `environment`
    /// sets another.
    pub(crate) fn open(channels: &str, environment: &[(&str, &str)]) -> CanarySite {
        let mut all = vec![EVERY];
        all.extend(environment);
        CanarySite::with(channels, &all)
    }

    /// Starts a server with these channels and this environment.
    pub(crate) fn with(channels: &str, environment: &[(&str, &str)]) -> CanarySite {
        let folder = tempfile::tempdir().expect("a folder");
        let site = write_site(folder.path(), channels);
        CanarySite { server: TestServer::with(&site, environment), _folder: folder }
    }

    /// A running server.
    pub(crate) fn of(server: TestServer) -> CanarySite {
        CanarySite { server, _folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn reader(&self) -> InboxReader {
        let data = self.server.data_dir();
        let place = match store_of(&data) {
            Some((_, url)) => DatabaseUrl::Postgres(Server::parse(&url).expect("a URL")),
            None => DatabaseUrl::Sqlite(data.join("inbox.sqlite")),
        };
        InboxReader::open(place).expect("there is an inbox")
    }

    /// Waits for a run that ends after the one with `earlier`, and returns its result.
    pub(crate) fn next(&self, earlier: Option<&CanaryStatus>) -> CanaryStatus {
        let is_later =
            |found: &CanaryStatus| earlier.is_none_or(|earlier| found.started_at > earlier.started_at);
        until(|| self.reader().canary_status().expect("it can be read").filter(is_later))
            .unwrap_or_else(|| panic!("no run has ended: {}", self.server.log()))
    }

    pub(crate) fn first(&self) -> CanaryStatus {
        self.next(None)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let output = frontdesk()
            .args(arguments)
            .arg("--site")
            .arg(self.server.site())
            .arg("--data-dir")
            .arg(self.server.data_dir())
            .env(EVERY.0, EVERY.1)
            .envs(store_of(&self.server.data_dir()))
            .output();
        output.expect("the command runs")
    }

    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(arguments).stdout).expect("it is UTF-8")
    }
}

/// The outcome and the text of the only step of this kind with this subject.
pub(crate) fn step(status: &CanaryStatus, kind: &str, subject: &str) -> (String, String) {
    let steps = status.report["steps"].as_array().expect("steps");
    let is_it = |step: &&Value| step["step"] == kind && step["subject"] == subject;
    let found: Vec<&Value> = steps.iter().filter(is_it).collect();
    let [found] = found[..] else { panic!("{kind} {subject}: {steps:#?}") };
    let text = |member: &str| found[member].as_str().expect("text").to_owned();
    (text("outcome"), text("text"))
}

/// Checks that a step failed with a text that contains `expected`.
pub(crate) fn assert_failed(status: &CanaryStatus, kind: &str, subject: &str, expected: &str) {
    let (outcome, text) = step(status, kind, subject);
    assert!(outcome == "failed" && text.contains(expected), "{kind} {subject}: {outcome}: {text}");
    assert!(!status.is_ok);
}

/// Waits until a Maildir has this many messages of a topic. A run writes its message before it removes that
/// of the run before.
fn assert_messages(maildir: &Path, topic: &str, count: usize) {
    let mark = format!("-{topic}.");
    let is_it = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().contains(&mark);
    let found = || {
        std::fs::read_dir(maildir.join("new"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|it| is_it(it).then_some(()))
            .count()
    };
    until(|| (found() == count).then_some(())).unwrap_or_else(|| panic!("{} {topic}", found()));
}

#[test]
fn it_reaches_every_channel_and_counts_for_nothing() {
    let (mail, hook) = (SmtpPeer::start(vec![Script::usual()]), HttpPeer::start([Reply::status(204)]));
    let folder = tempfile::tempdir().expect("a folder");
    let boxed = folder.path().join("box");
    let secret = "secret = \"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\"";
    let channels = [
        smtp("mail", mail.address.port(), ""),
        webhook("crm", &hook.url("/hook"), secret),
        maildir("box", &boxed),
    ];
    // One request a minute is not enough for the two forms.
    let limits = [("FRONTDESK_LIMITS__PER_MINUTE", "1"), ("FRONTDESK_LIMITS__PER_HOUR", "1")];
    let site = CanarySite::open(&channels.concat(), &limits);
    let first = site.first();
    assert!(first.is_ok, "{first:#?}\n{}", site.server.log());
    for form in ["waitlist", "contact"] {
        for kind in ["form", "intake"] {
            assert_eq!(step(&first, kind, form).0, "ok");
        }
    }
    for channel in ["mail", "crm", "box"] {
        assert_eq!(step(&first, "channel", channel).0, "ok");
    }
    assert!(step(&first, "channel", "mail").1.contains("it is not known whether it arrives"));
    assert_messages(&boxed, "canary", 1);

    let second = site.next(Some(&first));
    assert!(second.is_ok && second.last_success_at > first.last_success_at, "{second:#?}");
    // The Maildir keeps only the message of the last run.
    assert_messages(&boxed, "canary", 1);
    let message = String::from_utf8(mail.record().received[0].message()).expect("it is ASCII");
    assert!(
        message.contains("\r\nX-Frontdesk-Canary: ")
            && message.contains("\r\nAuto-Submitted: auto-generated\r\n")
    );
    let sent = hook.requests();
    let event: Value = serde_json::from_slice(&sent[0].body).expect("JSON");
    assert_eq!(
        (&event["type"], sent[0].header("webhook-signature").is_some()),
        (&"canary.created".into(), true)
    );

    // No list, count, export, statistic or metric shows it. `TestServer` checks the list again at the end.
    assert!(site.server.inbox().is_empty());
    let metrics = site.server.ops("/metrics").text().to_owned();
    for line in metrics.lines().filter(|line| line.starts_with("frontdesk_submissions_total")) {
        assert!(line.ends_with(" 0"), "{line}");
    }
    for line in [
        "frontdesk_intake_pending 0",
        "frontdesk_canary_ok 1",
        "frontdesk_canary_step_ok{step=\"form\"} 1",
        "frontdesk_canary_step_ok{step=\"channel\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    for name in ["last_run", "last_success"] {
        assert!(metrics.contains(&format!("\nfrontdesk_canary_{name}_timestamp_seconds 1")), "{metrics}");
    }
    assert_eq!(site.text(&["inbox", "export", "--format", "jsonl"]), "");
    let stats = site.text(&["inbox", "stats", "--json"]);
    assert!(!stats.contains("\"contact\"") && !stats.contains("\"waitlist\""), "{stats}");
    assert!(site.text(&["inbox", "digest"]).contains("Nothing needs your attention"));
    assert!(site.text(&["doctor"]).contains("canary: the last run succeeded"));
    // It used up no quota.
    let body = serde_json::json!({ "email": "grace@example.org" });
    assert_eq!(site.server.post("/api/waitlist", &body).status, 200);
    site.server.expect(1);
    assert_eq!(site.server.log().matches("canary").count(), 0, "{}", site.server.log());
}

#[test]
fn a_restart_does_not_repeat_the_run() {
    let mut site = CanarySite::open("", &[]);
    let first = site.first();
    assert!(first.is_ok, "{first:#?}");
    assert_eq!(step(&first, "channel", "").0, "skipped");
    // A new server would run after a second.
    site.server.kill();
    site.server.restart();
    let second = site.next(Some(&first));
    let between = second.started_at.duration_since(first.started_at);
    assert!(second.is_ok && between.as_secs() >= 10, "{between:?}");
}

#[test]
fn of_several_servers_one_runs_the_canary() {
    let hook = HttpPeer::start([Reply::status(204)]);
    let mut site = CanarySite::open(&webhook("crm", &hook.url("/"), ""), &[]);
    let first = site.first();
    let second_server = TestServer::at(&site.server.site(), &site.server.data_dir(), &[EVERY]);
    second_server.expect_anything();
    let second = site.next(Some(&first));
    assert!(second.is_ok, "{second:#?}");
    // The other one takes over.
    site.server.kill();
    let third = site.next(Some(&second));
    assert!(third.is_ok, "{third:#?}");
    let requests = hook.requests();
    assert!(requests.len() >= 3);
    for pair in requests.windows(2) {
        let between = pair[1].at.duration_since(pair[0].at);
        assert!(between.as_secs() >= 5, "{between:?}");
    }
}

#[test]
fn a_reload_switches_it_on_and_off() {
    let site = CanarySite::with("", &[]);
    let file = site.server.site().join("frontdesk.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let status = || site.reader().canary_status().expect("it can be read");
    assert_eq!(status(), None);
    std::fs::write(&file, format!("{text}\n[canary]\nevery = \"10s\"\n")).expect("it can be written");
    site.server.reload();
    assert!(site.first().is_ok);
    std::fs::write(&file, text).expect("it can be written");
    site.server.reload();
    // The last result would soon be misleading.
    until(|| status().is_none().then_some(())).expect("it is removed");
}

#[test]
fn each_success_is_reported_to_an_outside_service() {
    // A failure of the service is a warning, and the canary itself goes on.
    let service = HttpPeer::start([Reply::status(500), Reply::status(200), Reply::status(404)]);
    let url = service.url("/secret-path");
    let site = CanarySite::open("", &[("FRONTDESK_CANARY__PING_URL", &url)]);
    let first = site.first();
    let host = service.address().to_string();
    assert_eq!(step(&first, "ping", &host), ("ok".to_owned(), "the success was reported (200)".to_owned()));
    let requests = service.requests();
    assert_eq!([requests[0].answered, requests[1].answered], [Some(500), Some(200)]);
    assert!(requests.iter().all(|request| request.method == "GET" && request.target == "/secret-path"));
    let second = site.next(Some(&first));
    let (outcome, text) = step(&second, "ping", &host);
    assert!(second.is_ok && outcome == "warning" && text.contains("it answered 404"), "{text}");
    for said in [site.server.log(), second.report.to_string(), site.text(&["config"]), site.text(&["doctor"])]
    {
        assert!(!said.contains("secret-path"), "{said}");
    }
}
