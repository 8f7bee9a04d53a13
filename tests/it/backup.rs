//! Backups contain every submission that was acknowledged before they began. Restores leave either the old
//! inbox or the new one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frontdesk_inbox::store::verify;
use serde_json::{Value, json};

use crate::support::{Connection, NO_DEADLINES, PATIENCE, TestServer, frontdesk, small_site};

/// Number of backups taken of a busy server: `FRONTDESK_TEST_BACKUPS`, or a few by default.
fn backups() -> usize {
    std::env::var("FRONTDESK_TEST_BACKUPS").ok().and_then(|backups| backups.parse().ok()).unwrap_or(5)
}

#[test]
fn every_submission_that_got_its_200_before_a_backup_began_is_in_it() {
    // The connections of the burst are idle while a backup is being verified.
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let folder = tempfile::tempdir().expect("a folder");
    let burst = Burst::begin(&server, 8);
    let mut slowest_backup = Duration::ZERO;
    for number in 0..backups() {
        burst.send_more();
        let acknowledged: Vec<String> = burst.acknowledged.lock().expect("no thread panicked").clone();
        let place = folder.path().join(number.to_string());
        std::fs::create_dir(&place).expect("a folder");
        let file = place.join("inbox.sqlite");
        let began = Instant::now();
        succeeds(
            backup(&file, &server.data_dir()),
            &["Backed up ", " submissions, the newest from ", "inbox.sqlite."],
        );
        slowest_backup = slowest_backup.max(began.elapsed());
        let told = verify(&file).expect("it is whole");
        let held = addresses(&file);
        assert_eq!(told.submissions, held.len() as u64);
        for email in &acknowledged {
            assert!(held.contains(email), "{email} got its 200 before backup {number} began");
        }
        std::fs::remove_dir_all(&place).expect("it can be removed");
    }
    let (acknowledged, slowest_answer) = burst.end();
    eprintln!(
        "{} backups, the slowest took {slowest_backup:?}; {acknowledged} acknowledged, the slowest answer took {slowest_answer:?}",
        backups()
    );
    server.expect(acknowledged);
}

#[test]
fn a_restored_inbox_is_served_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("backup.sqlite");
    let mut server = TestServer::start();
    submit(&server, "one@example.com");
    submit(&server, "two@example.com");
    succeeds(backup(&file, &server.data_dir()), &["Backed up 2 submissions"]);
    server.kill();
    std::fs::remove_dir_all(server.data_dir()).expect("it can be removed");
    succeeds(restore(&file, &server.data_dir(), &[]), &["Restored 2 submissions", "inbox.sqlite.\n"]);
    server.restart();
    assert_eq!(
        emails(&server.data_dir()),
        HashSet::from(["one@example.com", "two@example.com"].map(str::to_owned))
    );
    // The restored inbox still detects duplicates: an address that it lists is not added again.
    submit(&server, "two@example.com");
    submit(&server, "three@example.com");
    server.expect(3);
}

#[test]
fn restore_refuses_a_running_server_and_unforced_replacement() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("backup.sqlite");
    let mut server = TestServer::start();
    submit(&server, "one@example.com");
    succeeds(backup(&file, &server.data_dir()), &["Backed up 1 submission,"]);
    submit(&server, "two@example.com");
    fails(restore(&file, &server.data_dir(), &["--force"]), &["is in use", "hint: stop the server"]);
    fails(backup(&file, &server.data_dir()), &["backup.sqlite already exists", "hint: `--force`"]);
    fails(
        command("backup", &server.data_dir().join("inbox.sqlite"), &server.data_dir(), &["--force"]),
        &["is the inbox itself", "hint: "],
    );
    submit(&server, "three@example.com");
    // The latest submission is only in the write-ahead log.
    server.kill();
    fails(restore(&file, &server.data_dir(), &[]), &["with 3 submissions", "hint: `--force`"]);
    assert_eq!(emails(&server.data_dir()).len(), 3);
    let said = succeeds(
        restore(&file, &server.data_dir(), &["--force"]),
        &["Restored 1 submission,", "is kept as "],
    );
    assert_eq!(emails(&server.data_dir()), HashSet::from(["one@example.com".to_owned()]));
    let kept = kept(&server.data_dir());
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert!(said.contains(&kept.display().to_string()), "{said}");
    assert_eq!(verify(kept).expect("it is whole").submissions, 3);
    server.restart();
    server.expect(1);
}

#[test]
fn a_damaged_backup_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut server = TestServer::start();
    for number in 0..20 {
        let body = json!({ "name": "A", "email": "a@example.com", "message": format!("{number} {}", "x".repeat(5_000)) });
        assert_eq!(server.post("/api/contact", &body).status, 200);
    }
    succeeds(backup(&path("whole"), &server.data_dir()), &["Backed up 20 submissions"]);
    server.kill();
    let whole = std::fs::read(path("whole")).expect("it can be read");
    let write = |name: &str, bytes: &[u8]| std::fs::write(path(name), bytes).expect("it can be written");
    write("truncated", &whole[..whole.len() / 2]);
    let mut flipped = whole.clone();
    // Only stored text has this length. A shorter match may be a remnant in an unused part of an SQLite page.
    let text = whole.windows(2_000).position(|window| window.iter().all(|byte| *byte == b'x'));
    let text = text.expect("the messages are in it");
    flipped[text] ^= 1;
    write("flipped", &flipped);
    let mut torn = whole.clone();
    torn[8192..12288].fill(0);
    write("torn", &torn);
    write("foreign", b"# A text\n".repeat(1000).as_slice());
    write("empty", b"");
    rusqlite::Connection::open(path("other"))
        .expect("a file")
        .execute_batch("CREATE TABLE x (y)")
        .expect("a table");
    let before = listing(&server.data_dir());
    for (name, words) in [
        ("truncated", "truncated is damaged"),
        ("flipped", "flipped is damaged: its content does not match its digest"),
        ("torn", "torn is damaged"),
        ("foreign", "foreign is not a frontdesk inbox"),
        ("other", "other is not a frontdesk inbox"),
        ("empty", "there is no inbox at"),
        ("nowhere", "there is no inbox at"),
    ] {
        fails(
            restore(&path(name), &server.data_dir(), &["--force"]),
            &[words, "hint: the inbox was not changed"],
        );
    }
    assert_eq!(listing(&server.data_dir()), before);
    succeeds(restore(&path("whole"), &server.data_dir(), &["--force"]), &["Restored 20 submissions"]);
    server.restart();
    server.expect(20);
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_inbox_or_the_new_one() {
    const ROUNDS: u32 = 12;
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let server = TestServer::start();
    let fill = |from: usize, to: usize| {
        let mut connection = server.connect();
        for number in from..to {
            let body = json!({ "name": "A", "email": "a@example.com", "message": format!("{number} {}", "x".repeat(15_000)) });
            let answer = connection
                .request(
                    "POST",
                    "/api/contact",
                    &[("Content-Type", "application/json")],
                    body.to_string().as_bytes(),
                )
                .expect("an answer");
            assert_eq!(answer.status, 200);
        }
    };
    fill(0, 10);
    succeeds(backup(&old, &server.data_dir()), &["Backed up 10 submissions"]);
    fill(10, 200);
    succeeds(backup(&new, &server.data_dir()), &["Backed up 200 submissions"]);

    let data = folder.path().join("data");
    let database = data.join("inbox.sqlite");
    let began = Instant::now();
    succeeds(restore(&new, &data, &[]), &["Restored 200 submissions"]);
    let whole = began.elapsed();
    let (mut olds, mut news) = (0, 0);
    for round in 0..=ROUNDS {
        forget_kept(&data);
        succeeds(restore(&old, &data, &["--force"]), &["Restored 10 submissions"]);
        forget_kept(&data);
        let mut child = command("restore", &new, &data, &["--force"]).spawn().expect("it runs");
        // Each round kills the restore at a later moment, the last one around the time when the restore
        // should be finished.
        std::thread::sleep(whole * round / ROUNDS);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        match verify(&database).expect("it is whole").submissions {
            10 => olds += 1,
            200 => {
                news += 1;
                let kept = kept(&data);
                let [kept] = &kept[..] else { panic!("{kept:?}") };
                assert_eq!(verify(kept).expect("it is whole").submissions, 10);
            }
            other => panic!("neither old nor new: {other} submissions"),
        }
    }
    eprintln!("a restore takes {whole:?}; {olds} kills left the old inbox, {news} the new one");
    assert!(olds > 0, "a restore that was killed right after its start replaced the inbox");
    server.expect(200);
}

/// A continuous stream of submissions on several connections. Each submission has a different address.
struct Burst {
    acknowledged: Arc<Mutex<Vec<String>>>,
    /// Limit on the total number of submissions, which keeps the inbox small. `usize::MAX` stops the burst.
    allowed: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<Duration>>,
}

impl Burst {
    /// Submissions per backup: enough that the last ones are sent while the backup is running.
    const EACH: usize = 400;

    /// Opens the connections. Nothing is sent before [`Self::send_more`].
    fn begin(server: &TestServer, connections: usize) -> Self {
        let (acknowledged, allowed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let sent = Arc::new(AtomicUsize::new(0));
        let threads = (0..connections)
            .map(|_| {
                let (address, sent) = (server.address, sent.clone());
                let (acknowledged, allowed) = (acknowledged.clone(), allowed.clone());
                std::thread::spawn(move || {
                    let mut connection = Connection::open(address);
                    let mut slowest = Duration::ZERO;
                    loop {
                        let number = sent.fetch_add(1, Ordering::Relaxed);
                        while number >= allowed.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        if allowed.load(Ordering::Relaxed) == usize::MAX {
                            return slowest;
                        }
                        let email = format!("n{number}@example.com");
                        let body = json!({ "email": email }).to_string();
                        let headers = [("Content-Type", "application/json")];
                        let began = Instant::now();
                        let answer = connection.request("POST", "/api/waitlist", &headers, body.as_bytes());
                        slowest = slowest.max(began.elapsed());
                        assert_eq!(answer.expect("an answer").status, 200);
                        acknowledged.lock().expect("no thread panicked").push(email);
                    }
                })
            })
            .collect();
        Self { acknowledged, allowed, threads }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no thread panicked").len()
    }

    /// Allows [`Self::EACH`] more submissions, and returns once a tenth of them have been acknowledged.
    fn send_more(&self) {
        let before = self.allowed.fetch_add(Self::EACH, Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.count() < before + Self::EACH / 10 {
            assert!(Instant::now() < deadline, "nothing is accepted any more");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the burst. Returns the number of acknowledged submissions and the slowest response time.
    fn end(self) -> (usize, Duration) {
        self.allowed.store(usize::MAX, Ordering::Relaxed);
        let slowest = self.threads.into_iter().map(|thread| thread.join().expect("it ends")).max();
        let count = self.acknowledged.lock().expect("no thread panicked").len();
        (count, slowest.unwrap_or_default())
    }
}

/// The addresses in a backup.
fn addresses(file: &Path) -> HashSet<String> {
    let database = rusqlite::Connection::open(file).expect("it opens");
    let mut statement = database.prepare("SELECT fields ->> 'email' FROM accepted").expect("it is an inbox");
    let addresses = statement.query_map([], |row| row.get(0)).expect("it can be read");
    addresses.map(|address| address.expect("text")).collect()
}

fn command(name: &str, file: &Path, data: &Path, more: &[&str]) -> Command {
    let mut command = frontdesk();
    command.arg(name).arg(file).arg("--site").arg(small_site()).arg("--data-dir").arg(data).args(more);
    command
}

fn backup(to: &Path, data: &Path) -> Command {
    command("backup", to, data, &[])
}

fn restore(from: &Path, data: &Path, more: &[&str]) -> Command {
    command("restore", from, data, more)
}

/// Asserts exit code 0, an empty standard output, and a single line with these words on standard error.
/// Returns that line.
fn succeeds(mut command: Command, words: &[&str]) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let said = String::from_utf8(stderr).expect("it is text");
    assert_eq!((status.code(), stdout.len(), said.lines().count()), (Some(0), 0, 1), "{said}");
    for words in words {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
    said
}

/// Asserts exit code 1, an empty standard output, and these words on standard error.
fn fails(mut command: Command, words: &[&str]) {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let said = String::from_utf8(stderr).expect("it is text");
    assert_eq!((status.code(), stdout.len()), (Some(1), 0), "{command:?}: {said}");
    assert!(said.starts_with("error: "), "{said}");
    for words in words {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
}

fn submit(server: &TestServer, email: &str) {
    assert_eq!(server.post("/api/waitlist", &json!({ "email": email })).status, 200);
}

/// The email addresses that `frontdesk inbox list` prints for the inbox in this folder.
fn emails(data: &Path) -> HashSet<String> {
    let output = frontdesk()
        .args(["inbox", "list", "--json", "--site"])
        .arg(small_site())
        .arg("--data-dir")
        .arg(data)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let email = |line| {
        let submission: Value = serde_json::from_str(line).expect("each line is JSON");
        submission["email"].as_str().expect("an address").to_owned()
    };
    text.lines().map(email).collect()
}

/// The old inboxes that restores have kept.
fn kept(data: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data).expect("a folder").map(|entry| entry.expect("a file").path());
    files.filter(|file| file.to_string_lossy().contains("inbox.sqlite.before-restore-")).collect()
}

/// Removes the old inboxes that restores have kept, so that the next restore can keep one within the same
/// second.
fn forget_kept(data: &Path) {
    for file in kept(data) {
        std::fs::remove_file(file).expect("it can be removed");
    }
}

/// Names and contents of all files. Leaves out the folder of encoded pages, which a running server may change
/// at any time.
fn listing(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(data).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|entry| !entry.is_dir());
    let mut files: Vec<_> =
        files.map(|file| (file.clone(), std::fs::read(file).expect("it can be read"))).collect();
    files.sort();
    files
}
