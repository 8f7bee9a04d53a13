//! Power cuts: everything that was not synced is lost, and every acknowledged submission is kept.
//!
//! The data folder is on a separate ext4 file system in a file. A cut shuts that file system down
//! (`EXT4_IOC_SHUTDOWN` without flushing the log): from then on nothing reaches the disk, and data that was
//! only in memory is lost. Then the server is killed, the file system is mounted again, which replays its
//! journal, and the server starts with the remaining data. This needs root, or `sudo` without a password, and
//! loop devices; without them the tests fail with a message.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use frontdesk_inbox::store::{Filter, InboxReader};
use frontdesk_inbox::submission::delivery::DeliveryState;
use serde_json::json;

use crate::support::channel_site::{maildir, until, write_site};
use crate::support::{Connection, TestServer};

const NO_LIMITS: [(&str, &str); 1] = [("FRONTDESK_LIMITS__ENABLED", "false")];

/// The number of clients that send concurrently.
const CLIENTS: usize = 12;

/// Each client's pause between submissions, so that some cuts happen while the server is idle.
const PAUSE: Duration = Duration::from_millis(15);

/// The minimum number of submissions that are answered with 200 before a power cut.
const AT_LEAST: usize = 60;

/// The number of power cuts: the value of the environment variable, or a few by default.
fn cuts() -> usize {
    std::env::var("FRONTDESK_TEST_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(2)
}

#[test]
#[ignore = "needs root and strace: scripts/test power"]
fn every_submission_that_got_its_200_survives_a_power_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut drive = Disk::make(folder.path());
    let mailbox = drive.mounted.join("box");
    let site = write_site(folder.path(), &maildir("box", &mailbox));
    let data = drive.mounted.join("data");
    let database = data.join("inbox.sqlite");
    let mut server = TestServer::at(&site, &data, &NO_LIMITS);
    server.expect_anything();

    let (mut acknowledged, mut late, mut refused) = (Vec::new(), Vec::new(), 0);
    // The number of cuts that left accepted but unprocessed submissions, and the number of those submissions.
    let (mut between, mut unprocessed) = (0, 0);
    for round in 0..cuts() {
        let storm = storm(server.address, round, || drive.cut());
        acknowledged.extend(storm.acknowledged);
        late.extend(storm.late);
        refused += storm.refused;
        server.kill();
        drive.mount_again();
        let left = rows_of_the_intake(&database);
        between += usize::from(left > 0);
        unprocessed += left;
        server.restart();
        check_inbox(&database, &acknowledged);
        check_mailbox(&database, &mailbox);
    }
    let kept = addresses(&database);
    let in_doubt = late.iter().filter(|email| !kept.contains_key(*email)).count();
    eprintln!(
        "{} power cuts, {} acknowledged, 0 lost; {} acknowledged while it was cut, of which {in_doubt} are not there; \
         {refused} refused; {} kept; {between} cuts left {unprocessed} submissions to be processed by the next start",
        cuts(),
        acknowledged.len(),
        late.len(),
        kept.len()
    );
    assert!(refused > 0, "the server never noticed that its disk was gone");
    assert!(between > 0 || cuts() < 10, "no cut came between acceptance and processing");

    // Deliveries arrive at least once. In a Maildir they arrive exactly once, because the server finds
    // messages that are already there.
    let delivered = || {
        let channels =
            InboxReader::open(&database).and_then(|reader| reader.channels()).expect("it can be read");
        channels[0].count(DeliveryState::Delivered)
    };
    let mut before = delivered();
    while before < kept.len() {
        before = until(|| Some(delivered()).filter(|now| *now > before))
            .expect("more and more reaches the Maildir");
    }
    assert_eq!(check_mailbox(&database, &mailbox), kept.len());
    server.kill();
}

/// The control experiment: the same server on a disk that lies. Its syncs report success but do nothing.
#[test]
#[ignore = "needs root and strace: scripts/test power"]
fn without_syncs_a_power_cut_takes_submissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut drive = Disk::make(folder.path());
    let site = write_site(folder.path(), "");
    let data = drive.mounted.join("data");
    let mut server = TestServer::at(&site, &data, &NO_LIMITS);
    server.expect_anything();
    // Everything that exists at the start is synced, so that submissions are missing afterwards, not the
    // inbox.
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "before@example.com" })).status, 200);

    let mut liar = swallow_syncs(server.pid(), folder.path());
    let acknowledged = storm(server.address, 0, || drive.cut()).acknowledged;
    server.kill();
    liar.wait().expect("it ends with the server");
    drive.mount_again();
    let kept = addresses(&data.join("inbox.sqlite"));
    assert_eq!(kept.get("before@example.com"), Some(&1), "what was synced is there");
    let lost = acknowledged.iter().filter(|email| !kept.contains_key(*email)).count();
    eprintln!("without syncs: {lost} of {} acknowledged are lost", acknowledged.len());
    assert!(lost > 0, "nothing was lost: this way of cutting the power proves nothing");
}

#[derive(Default)]
struct Burst {
    /// The addresses that got a 200 before the cut began.
    acknowledged: Vec<String>,
    /// The addresses that got a 200 during the cut.
    late: Vec<String>,
    /// The number of refused requests.
    refused: usize,
}

/// Lets clients send until the cut and a little longer.
///
/// Only submissions that were acknowledged before the cut began must be in the inbox. A machine without power
/// sends no more responses, but this one keeps running, and ext4 may report success for a sync that was in
/// progress when the file system was shut down. (A program that does nothing but `pwrite` and `fdatasync`
/// sees the same.)
fn storm(address: SocketAddr, round: usize, cut: impl FnOnce()) -> Burst {
    let (stop, is_cut) = (AtomicBool::new(false), AtomicBool::new(false));
    // Counts acknowledged submissions, refused submissions, and clients whose connection broke.
    let [count, refusals, gone] = [const { AtomicUsize::new(0) }; 3];
    thread::scope(|scope| {
        let (stop, is_cut, count, refusals, gone) = (&stop, &is_cut, &count, &refusals, &gone);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut connection = Connection::open(address);
                scope.spawn(move || {
                    let mut storm = Burst::default();
                    for number in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let email = format!("r{round}c{client}n{number}@example.com");
                        let body = json!({ "email": email }).to_string();
                        let json = [("Content-Type", "application/json")];
                        match connection.request("POST", "/api/waitlist", &json, body.as_bytes()) {
                            Ok(answer) if answer.status == 200 && is_cut.load(Ordering::SeqCst) => {
                                storm.late.push(email);
                            }
                            Ok(answer) if answer.status == 200 => {
                                storm.acknowledged.push(email);
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(answer) => {
                                assert_eq!(answer.status, 500);
                                storm.refused += 1;
                                refusals.fetch_add(1, Ordering::Relaxed);
                            }
                            // A server that does not survive the loss of its disk acknowledges nothing more.
                            Err(_) => {
                                gone.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                        }
                        thread::sleep(PAUSE);
                    }
                    storm
                })
            })
            .collect();
        // Each round cuts the power at a different moment.
        thread::sleep(Duration::from_millis(20 + 37 * (round as u64 % 11)));
        until(|| (count.load(Ordering::Relaxed) >= AT_LEAST).then_some(())).expect("submissions are taken");
        is_cut.store(true, Ordering::SeqCst);
        cut();
        thread::sleep(Duration::from_millis(60));
        let is_noticed = || refusals.load(Ordering::Relaxed) > 0 || gone.load(Ordering::Relaxed) == CLIENTS;
        let noticed = until(|| is_noticed().then_some(()));
        stop.store(true, Ordering::Relaxed);
        assert!(noticed.is_some(), "the server does not notice the cut");
        let mut whole = Burst::default();
        for client in clients {
            let storm = client.join().expect("it ends");
            whole.acknowledged.extend(storm.acknowledged);
            whole.refused += storm.refused;
            whole.late.extend(storm.late);
        }
        whole
    })
}

/// Checks that every acknowledged submission is in the inbox exactly once, and that the database is intact.
fn check_inbox(database: &Path, acknowledged: &[String]) {
    let kept = addresses(database);
    let lost: Vec<_> = acknowledged.iter().filter(|email| !kept.contains_key(*email)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
    assert!(kept.values().all(|times| *times == 1), "exactly once");
    let connection = rusqlite::Connection::open(database).expect("it is there");
    let check = |pragma| connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    assert_eq!(check("PRAGMA integrity_check").expect("it can be read"), "ok");
    assert!(check("PRAGMA foreign_key_check").is_err(), "no row that refers to nothing");
}

/// The number of submissions that are accepted but not processed.
fn rows_of_the_intake(database: &Path) -> usize {
    let connection = rusqlite::Connection::open(database).unwrap_or_else(|error| {
        let folder = database.parent().and_then(Path::parent).expect("the file system");
        let entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
        panic!("{error}; the file system holds {entries:?}")
    });
    let count = connection.query_row("SELECT count(*) FROM intake", [], |row| row.get::<_, i64>(0));
    usize::try_from(count.expect("a count")).expect("a count")
}

/// How often each email address is in the inbox.
fn addresses(database: &Path) -> HashMap<String, usize> {
    let reader = InboxReader::open(database).expect("there is an inbox");
    let mut addresses = HashMap::new();
    for submission in reader.list(&Filter::default()).expect("it can be read") {
        let submission = submission.expect("it can be read");
        *addresses.entry(submission.get("email").expect("an address").to_owned()).or_default() += 1;
    }
    addresses
}

/// Checks that each delivery with the state `delivered` is in the Maildir exactly once. Returns the number of
/// these deliveries.
fn check_mailbox(database: &Path, mailbox: &Path) -> usize {
    let connection = rusqlite::Connection::open(database).expect("it is there");
    let mut delivered = connection
        .prepare("SELECT lower(hex(submission)) FROM delivery WHERE state = 'delivered'")
        .expect("a statement");
    let delivered: Vec<String> =
        delivered.query_map([], |row| row.get(0)).expect("rows").map(|id| id.expect("an id")).collect();
    let mut messages: HashMap<String, usize> = HashMap::new();
    for entry in std::fs::read_dir(mailbox.join("new")).into_iter().flatten() {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        let id = name.split('.').nth(1).and_then(|part| part.strip_suffix("-submission"));
        *messages.entry(id.expect("a message of ours").replace('-', "")).or_default() += 1;
        assert!(entry.metadata().expect("it is there").len() > 500, "a message that is not whole");
    }
    assert!(messages.values().all(|times| *times == 1), "once");
    for id in &delivered {
        assert!(messages.contains_key(id), "{id} is delivered, but not in the Maildir");
    }
    delivered.len()
}

/// An ext4 file system in a file.
struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

impl Disk {
    /// Creates a file system in `folder` and mounts it.
    fn make(folder: &Path) -> Disk {
        let disk = Disk { image: folder.join("disk"), mounted: folder.join("mounted") };
        let file = std::fs::File::create(&disk.image).expect("it can be made");
        file.set_len(512 << 20).expect("it can be that long");
        std::fs::create_dir(&disk.mounted).expect("it can be made");
        run(
            Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F"]).arg(&disk.image),
            "the package `e2fsprogs`",
        );
        disk.mount();
        let whoami = output_of("id", "-u");
        as_root([OsStr::new("chown"), whoami.as_ref(), disk.mounted.as_ref()]);
        disk
    }

    /// Mounts the image. On a busy machine a mount that succeeded was sometimes missing afterwards, perhaps
    /// because `mount` reused a loop device that the kernel was releasing. In that case the image is mounted
    /// again.
    fn mount(&self) {
        let words = ["mount", "-o", "loop"].map(OsStr::new);
        let device = |path: &Path| std::fs::metadata(path).expect("a folder").dev();
        let is_mounted = || device(&self.mounted) != device(self.mounted.parent().expect("a folder above"));
        until(|| {
            as_root(words.into_iter().chain([self.image.as_os_str(), self.mounted.as_os_str()]));
            is_mounted().then_some(())
        })
        .expect("the file system stays mounted");
    }

    /// Cuts the power: nothing reaches the disk any more.
    fn cut(&self) {
        // Without `-f`, which would write out the journal first.
        let shutdown = ["/usr/sbin/xfs_io", "-x", "-c", "shutdown"].map(OsStr::new);
        as_root(shutdown.into_iter().chain([self.mounted.as_ref()]));
        let write = std::fs::write(self.mounted.join("after"), "the cut");
        assert!(write.is_err(), "the disk still accepts writes");
    }

    fn mount_again(&mut self) {
        as_root([OsStr::new("umount"), self.mounted.as_ref()]);
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If the test has failed, the server may not have ended yet.
        let _ = root_command([OsStr::new("umount"), "-l".as_ref(), self.mounted.as_ref()]).status();
    }
}

/// Makes each sync call of the process succeed without doing anything.
fn swallow_syncs(pid: u32, folder: &Path) -> Child {
    let syncs = "fsync,fdatasync,sync_file_range,syncfs,sync";
    let child = root_command(["strace", "-f", "-qq", "-e"])
        .arg(format!("trace={syncs}"))
        .args(["-e", &format!("inject={syncs}:retval=0"), "-p", &pid.to_string(), "-o"])
        .arg(folder.join("syncs"))
        .stdin(Stdio::null())
        .spawn()
        .expect("there is `strace`, of the package of that name");
    let is_traced = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.expect("a task").path().join("status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    };
    let all_traced = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        tasks.into_iter().all(is_traced).then_some(())
    };
    until(all_traced).expect("strace may trace the server");
    child
}

fn root_command<'a>(words: impl IntoIterator<Item = impl AsRef<OsStr> + 'a>) -> Command {
    let mut words = words.into_iter();
    let program = words.next().expect("a program");
    let mut command = if output_of("id", "-u") == "0" {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("-n").arg(program);
        sudo
    };
    command.args(words);
    command
}

fn as_root<'a>(words: impl IntoIterator<Item = impl AsRef<OsStr> + 'a>) {
    run(
        &mut root_command(words),
        "root or `sudo` without a password, loop devices and the package `xfsprogs`",
    );
}

/// Runs a command. If it fails, panics with a message that names its requirements.
fn run(command: &mut Command, needs: &str) {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output();
    let failure = match &output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    panic!("{command:?} has failed after {:?}, and needs {needs}: {failure}", began.elapsed());
}

fn output_of(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().expect("the program is there");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
