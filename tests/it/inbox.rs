//! The `frontdesk inbox` commands, with and without a running server.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PATIENCE, TestServer, frontdesk, small_site, store_of};

const NO_LIMITS: [(&str, &str); 1] = [("FRONTDESK_LIMITS__ENABLED", "false")];

#[test]
fn submissions_are_held_and_released_beside_a_running_server() {
    let server = TestServer::start();
    join(&server, "ada@example.com");
    let id = id(&server, 0);
    let (code, out, err) = inbox(&server, &["hold", &id[..18], "--because", "looks odd"]);
    assert_eq!(
        (code, out, err.as_str()),
        (Some(0), format!("{id} is held until `frontdesk inbox release`.\n"), "")
    );
    assert_eq!(server.inbox()[0]["status"], "held");
    assert_eq!(server.inbox()[0]["_held"]["because"], "looks odd");
    let (_, out, _) = inbox(&server, &["digest"]);
    assert_eq!(
        out,
        "1 submission is held until you release or discard it (frontdesk inbox list --status held).\n"
    );
    let (code, out, err) = inbox(&server, &["retry", &id]);
    assert_eq!((code, out.as_str()), (Some(0), "Nothing to retry: no such delivery is waiting or parked.\n"));
    assert!(err.contains("`frontdesk inbox release` delivers it"), "{err}");
    let (code, out, _) = inbox(&server, &["release", "--all"]);
    assert_eq!((code, out), (Some(0), format!("{id} is released: there is nothing to deliver.\n")));
    assert_eq!(server.inbox()[0]["status"], "kept");
    assert_eq!(inbox(&server, &["release", &id]).1, format!("{id} is not held.\n"));
    assert_eq!(inbox(&server, &["hold", "ffffffff"]).0, Some(1));
    assert_eq!(inbox(&server, &["digest"]).1, "Nothing needs your attention.\n");
    let (code, _, err) = inbox(&server, &["retry"]);
    assert!(code == Some(2) && err.contains("--parked"), "{err}");
    // The commands do not disturb the running server.
    join(&server, "bob@example.com");
    server.expect(2);
}

#[test]
fn a_delivery_is_shown_retried_held_and_released() {
    let folder = tempfile::tempdir().expect("a folder");
    let maildir = folder.path().join("box");
    // A Maildir cannot be created where a file exists.
    std::fs::write(&maildir, "in the way").expect("a file");
    let server = TestServer::with(&site_with_maildir(folder.path(), &maildir), &NO_LIMITS);
    join(&server, "ada@example.com");
    let id = id(&server, 0);
    let failed = wait_for("an attempt fails", || {
        let delivery = delivery(&server, &id);
        (delivery["state"] == "waiting" && delivery["attempts"][0]["delivered"] == false).then_some(delivery)
    });
    assert_eq!(failed["channel"], "box");
    assert!(failed["due_at"].is_string() && failed["attempts"][0]["answer"].is_string(), "{failed}");
    let (_, shown, _) = inbox(&server, &["show", &id]);
    assert!(shown.contains("\nbox: waiting, next try 20") && shown.contains("failed after"), "{shown}");

    let (code, out, err) = inbox(&server, &["hold", &id]);
    assert!(code == Some(0) && out.starts_with(&format!("{id} is held until")), "{out}{err}");
    wait_for("nothing is under way any more", || {
        let (_, _, _) = inbox(&server, &["hold", &id]);
        let state = delivery(&server, &id)["state"].clone();
        (state == "held").then_some(())
    });
    std::fs::remove_file(&maildir).expect("it is there");
    let (code, out, err) = inbox(&server, &["release", &id]);
    assert_eq!(
        (code, out, err.as_str()),
        (
            Some(0),
            format!("{id} is released: 1 delivery is due now, and the running server attempts it.\n"),
            ""
        )
    );
    wait_for("it is delivered", || (server.inbox()[0]["status"] == "delivered").then_some(()));
    let delivered = delivery(&server, &id);
    let last = delivered["attempts"].as_array().and_then(|all| all.last()).expect("an attempt");
    assert_eq!((&last["delivered"], delivered["due_at"].is_null()), (&true.into(), true));
    assert_eq!(mails(&maildir).len(), 1);
    let (_, out, _) = inbox(&server, &["retry", &id]);
    assert_eq!(out, "Nothing to retry: no such delivery is waiting or parked.\n");
    let stats: Value = serde_json::from_str(&inbox(&server, &["stats", "--json"]).1).expect("JSON");
    assert_eq!(
        (&stats["by_status"]["delivered"], &stats["channels"][0]["channel"]),
        (&1.into(), &"box".into())
    );
    server.expect(1);
}

#[test]
fn retry_makes_deliveries_due_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let maildir = folder.path().join("box");
    std::fs::write(&maildir, "in the way").expect("a file");
    let mut server = TestServer::with(&site_with_maildir(folder.path(), &maildir), &NO_LIMITS);
    join(&server, "ada@example.com");
    let id = id(&server, 0);
    wait_for("an attempt fails", || {
        let delivery = delivery(&server, &id);
        (delivery["state"] == "waiting" && delivery["attempts"][0]["delivered"] == false).then_some(())
    });
    // Without a server, the delivery is due at the next start.
    server.terminate();
    std::fs::remove_file(&maildir).expect("it is there");
    let before = delivery(&server, &id)["due_at"].clone();
    let (code, out, err) = inbox(&server, &["retry", "--channel", "box"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(0), "1 retry is due now and will be attempted as soon as the server is running.\n", "")
    );
    assert_ne!(delivery(&server, &id)["due_at"], before);
    server.restart();
    wait_for("it is delivered", || (server.inbox()[0]["status"] == "delivered").then_some(()));
    assert_eq!(mails(&maildir).len(), 1);
    server.expect(1);
}

#[test]
fn erased_submissions_are_in_no_database_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let maildir = folder.path().join("box");
    let server = TestServer::with(&site_with_maildir(folder.path(), &maildir), &NO_LIMITS);
    let message = "a message that nobody else would write";
    for number in 0..30 {
        let message = format!("{message} {number}");
        let body = json!({ "name": "Ada Erasmus", "email": "Ada.Erasmus@example.com", "message": message });
        assert_eq!(server.post("/api/contact", &body).status, 200);
    }
    join(&server, "bob@example.com");
    wait_for("all of it is delivered", || {
        server.inbox().iter().all(|submission| submission["status"] == "delivered").then_some(())
    });
    let sent = ["Erasmus", message];
    assert!(sent.iter().all(|text| !files_with(&server.data_dir(), text).is_empty()), "it is there before");
    let (code, out, _) = inbox(&server, &["erase", "--email", "ada.erasmus@example.com"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "no terminal for the confirmation");
    let (code, out, err) = inbox(&server, &["erase", "--email", "ada.erasmus@EXAMPLE.com", "--yes"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out, "30 submissions removed\n30 deliveries removed\n30 attempts removed\n");
    assert!(err.contains("30 deliveries had arrived: copies are in a mailbox"), "{err}");
    assert!(err.contains("earlier backups"), "{err}");
    assert!(err.contains("The database's log was wiped"), "{err}");
    for text in sent {
        assert_eq!(files_with(&server.data_dir(), text), Vec::<PathBuf>::new(), "{text}");
    }
    let (code, out, err) = inbox(&server, &["erase", "--email", "ada.erasmus@example.com", "--yes"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "nothing\n", ""));
    // The server keeps running, and accepts a new submission with the erased address.
    join(&server, "ada.erasmus@example.com");
    server.expect(2);
}

#[test]
fn a_release_delivers_by_a_channel_that_was_added_after_the_hold() {
    let server = TestServer::start();
    join(&server, "ada@example.com");
    let id = id(&server, 0);
    inbox(&server, &["hold", &id]);
    let folder = tempfile::tempdir().expect("a folder");
    let site = site_with_maildir(folder.path(), &folder.path().join("box"));
    let (code, out, err) = run(&["inbox", "release", &id], &site, &server.data_dir());
    let released = format!("{id} is released: 1 delivery is due now, and the running server attempts it.\n");
    assert_eq!((code, out, err.as_str()), (Some(0), released, ""));
    assert_eq!(server.inbox()[0]["status"], "waiting");
    server.expect(1);
}

#[test]
fn held_submissions_are_discarded_beside_a_running_server() {
    let server = TestServer::with(&small_site(), &[NO_LIMITS[0], ("FRONTDESK_SCREENING__THRESHOLD", "50")]);
    let post = |number: usize, message: &str| {
        let email = format!("ada{number}@example.com");
        server
            .post("/api/contact", &json!({ "name": "Ada Lovelace", "email": email, "message": message }))
            .status
    };
    let links: String = (0..9).map(|n| format!(" https://shop{n}.example.com/")).collect();
    for number in 0..300 {
        assert_eq!(post(number, &format!("Look at these, number {number}:{links}")), 200);
    }
    let is_held = |submission: &Value| submission["status"] == "held";
    let count_held = || server.inbox().into_iter().filter(is_held).count();
    wait_for("all of it is held", || (count_held() == 300).then_some(()));
    let (code, out, _) = inbox(&server, &["discard", "--held"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "no terminal for the confirmation");
    let (code, out, err) = inbox(&server, &["discard", "--held", "--reason", "honeypot", "--yes"]);
    assert_eq!((code, out.as_str()), (Some(0), "nothing\n"), "{err}");
    let (code, out, err) = inbox(&server, &["discard", "--held", "--reason", "linx", "--yes"]);
    assert!(code == Some(2) && out.is_empty() && err.contains("links, shortener"), "{err}");
    let id = server.inbox()[0]["id"].as_str().expect("an id").to_owned();
    let (code, out, err) = inbox(&server, &["discard", &id, "--yes"]);
    assert_eq!((code, out.lines().next()), (Some(0), Some("1 submission removed")), "{err}");

    let data = server.data_dir();
    let discard = std::thread::spawn(move || {
        let arguments = ["inbox", "discard", "--held", "--reason", "links", "--before", "0s", "--yes"];
        run(&arguments, &small_site(), &data)
    });
    let mut accepted = 0;
    while !discard.is_finished() || accepted < 5 {
        let message = format!("We run {accepted} machines and wonder whether your sandbox works on them.");
        assert_eq!(post(1000 + accepted, &message), 200);
        accepted += 1;
    }
    let (code, out, err) = discard.join().expect("it ends");
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "299 submissions removed\n0 deliveries removed\n0 attempts removed\n"),
        "{err}"
    );
    assert_eq!(count_held(), 0);
    server.expect(accepted);
}

#[test]
fn submissions_are_watched_before_there_is_an_inbox_and_across_restarts() {
    let mut server = TestServer::start();
    join(&server, "before@example.com");
    let mut watch = Watch::start(&server);
    watch.expect_said("Watching for submissions");
    join(&server, "ada@example.com");
    assert_eq!(watch.next()["email"], "ada@example.com");
    server.kill();
    server.restart();
    join(&server, "bob@example.com");
    assert_eq!(watch.next()["email"], "bob@example.com");
    // Replaces the database, as a restore does.
    server.terminate();
    std::fs::remove_dir_all(server.data_dir()).expect("it can be removed");
    server.restart();
    join(&server, "cy@example.com");
    assert_eq!(watch.next()["email"], "cy@example.com");
    server.expect(1);

    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, err) = run(&["inbox", "digest"], &small_site(), &folder.path().join("data"));
    assert!(code == Some(0) && err.contains("Nothing has been received yet"), "{err}");
}

#[test]
fn inbox_watch_ends_when_its_output_is_closed() {
    let server = TestServer::start();
    let mut watch = Watch::start(&server);
    watch.expect_said("Watching for submissions");
    drop(watch.child.stdout.take());
    let status = wait_for("it ends", || watch.child.try_wait().expect("it is our child"));
    assert_eq!(status.code(), Some(0));
}

/// A running `frontdesk inbox watch --json`, with a thread that reads its output.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start(server: &TestServer) -> Watch {
        let mut child = frontdesk()
            .args(["inbox", "watch", "--json", "--site"])
            .arg(small_site())
            .arg("--data-dir")
            .arg(server.data_dir())
            .envs(store_of(&server.data_dir()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Watch { child, lines }
    }

    fn expect_said(&self, words: &str) {
        let line = self.lines.recv_timeout(PATIENCE).expect("it says something");
        assert!(line.contains(words), "{line}");
    }

    fn next(&mut self) -> Value {
        if let Some(stdout) = self.child.stdout.take() {
            let (sender, lines) = mpsc::channel();
            let stdout = BufReader::new(stdout);
            std::thread::spawn(move || {
                stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            self.lines = lines;
        }
        let line = self.lines.recv_timeout(PATIENCE).expect("a submission is printed");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn join(server: &TestServer, email: &str) {
    assert_eq!(server.post("/api/waitlist", &json!({ "email": email })).status, 200);
}

fn id(server: &TestServer, line: usize) -> String {
    server.inbox()[line]["id"].as_str().expect("an id").to_owned()
}

/// The only delivery of a submission.
fn delivery(server: &TestServer, id: &str) -> Value {
    let (code, out, err) = inbox(server, &["show", "--json", id]);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str::<Value>(&out).expect("JSON")["_deliveries"][0].clone()
}

fn inbox(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String, String) {
    let arguments: Vec<&str> = ["inbox"].iter().chain(arguments).copied().collect();
    run(&arguments, &small_site(), &server.data_dir())
}

fn run(arguments: &[&str], site: &Path, data: &Path) -> (Option<i32>, String, String) {
    let mut command = frontdesk();
    let command = command.args(arguments).arg("--site").arg(site).arg("--data-dir").arg(data);
    let command = command.envs(store_of(data));
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

/// A copy of the small site with a channel that delivers into that Maildir.
pub fn site_with_maildir(folder: &Path, maildir: &Path) -> PathBuf {
    let site = folder.join("site");
    copy(&small_site(), &site);
    let file = site.join("frontdesk.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let channel =
        format!("[[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"{}\"\n", maildir.display());
    std::fs::write(&file, format!("{text}\n{channel}")).expect("it can be written");
    site
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("it can be copied");
        }
    }
}

fn mails(maildir: &Path) -> Vec<PathBuf> {
    let new = std::fs::read_dir(maildir.join("new")).expect("a Maildir");
    new.map(|entry| entry.expect("an entry").path()).collect()
}

/// The files that contain this text, ignoring case. Skips the folder `encodings`, which holds only pages.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let text = text.to_lowercase().into_bytes();
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .filter(|entry| !entry.is_dir())
        .filter(|file| {
            let bytes = std::fs::read(file).expect("it can be read").to_ascii_lowercase();
            bytes.windows(text.len()).any(|part| part == text)
        })
        .collect()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
