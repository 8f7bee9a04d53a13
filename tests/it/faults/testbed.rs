//! A server with three channels to scripted receivers, clients that record each response, and the final
//! check.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frontdesk_inbox::store::{Editor, Retry};
use jiff::Timestamp;
use rusqlite::OpenFlags;
use serde_json::json;

use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::smtp_peer::{Received, Script, SmtpPeer};
use crate::support::{Connection, TestServer, frontdesk};

pub const CHANNELS: [&str; 3] = ["box", "hook", "mail"];

/// The maximum time to wait for anything.
const PATIENCE: Duration = Duration::from_mins(2);

/// The response to a submission, as the client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Status 200.
    Kept,
    /// Status 500.
    NotKept,
    /// No response, because the connection broke. The submission may be stored or not.
    Nothing,
}

/// The responses that clients got, by the submission's unique address.
#[derive(Debug, Default)]
pub struct Ledger {
    told: Mutex<BTreeMap<String, Answered>>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Answered>> {
        self.told.lock().expect("no thread panicked")
    }

    /// Sends a new, unique submission on a separate connection.
    pub fn submit(&self, address: SocketAddr) -> Answered {
        let (email, number) = {
            let mut told = self.lock();
            let number = told.len();
            let email = format!("n{number}@example.com");
            told.insert(email.clone(), Answered::Nothing);
            (email, number)
        };
        let (path, body) = if number.is_multiple_of(2) {
            ("/api/waitlist", json!({ "email": email }))
        } else {
            let message = format!(
                "Hello from number {number}.\n.\n\nIt goes on. {}\nThe end.",
                "ö".repeat(number % 900)
            );
            ("/api/contact", json!({ "name": "Ada", "email": email, "message": message }))
        };
        let headers = [("Content-Type", "application/json")];
        let answer = Connection::try_open(address).and_then(|mut connection| {
            connection.request("POST", path, &headers, body.to_string().as_bytes())
        });
        let told = match answer {
            Ok(answer) if answer.status == 200 => Answered::Kept,
            Ok(answer) if answer.status == 500 => Answered::NotKept,
            Ok(answer) => panic!("{}: {}", answer.status, answer.text()),
            Err(_) => Answered::Nothing,
        };
        self.lock().insert(email, told);
        told
    }

    pub fn count(&self, told: Answered) -> usize {
        self.lock().values().filter(|found| **found == told).count()
    }
}

/// The server with its receivers and clients.
pub struct TestBed {
    pub server: TestServer,
    pub ledger: Ledger,
    pub hook: HttpPeer,
    pub mail: SmtpPeer,
    /// The maximum number of concurrent deliveries in each channel.
    concurrency: usize,
    pub kills: usize,
    /// Whether commits have failed. The failed commit of a claim may still be on disk. In that case the
    /// delivery is not sent, but is claimed again after its lease has expired or at the next start.
    pub has_failed: bool,
    /// Holds the site, the Maildir and the logs of strace.
    folder: tempfile::TempDir,
}

impl TestBed {
    /// Starts the server, with peers that accept everything.
    pub fn start(concurrency: usize) -> TestBed {
        let folder = tempfile::tempdir().expect("a folder");
        let maildir = folder.path().join("box");
        TestBed::with(concurrency, folder, &maildir)
    }

    pub fn with(concurrency: usize, folder: tempfile::TempDir, maildir: &Path) -> TestBed {
        let hook = HttpPeer::start([Reply::status(204)]);
        let mail = SmtpPeer::start(vec![Script::usual()]);
        let site = folder.path().join("site");
        let made = frontdesk().arg("init").arg(&site).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        let channels = format!(
            "
[[channel]]
name = \"box\"
kind = \"maildir\"
path = \"{}\"
from = \"desk@example.com\"
to = [\"team@example.com\"]
concurrency = {concurrency}

[[channel]]
name = \"hook\"
kind = \"webhook\"
url = \"{}\"
allow_private = true
concurrency = {concurrency}

[[channel]]
name = \"mail\"
kind = \"smtp\"
host = \"127.0.0.1\"
port = {}
tls = \"none\"
from = \"desk@example.com\"
to = [\"team@example.com\"]
concurrency = {concurrency}
",
            maildir.display(),
            hook.url("/hook"),
            mail.address.port(),
        );
        let file = site.join("frontdesk.toml");
        let text = std::fs::read_to_string(&file).expect("it is there");
        std::fs::write(&file, text + &channels).expect("it can be written");
        let server = TestServer::with(
            &site,
            &[
                ("FRONTDESK_LIMITS__ENABLED", "false"),
                ("FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE", "1000"),
            ],
        );
        TestBed {
            server,
            ledger: Ledger::default(),
            hook,
            mail,
            concurrency,
            kills: 0,
            has_failed: false,
            folder,
        }
    }

    /// The file to which strace writes the calls.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("strace.log")
    }

    /// The Maildir's default path.
    pub fn maildir(&self) -> PathBuf {
        self.folder.path().join("box")
    }

    pub fn database(&self) -> PathBuf {
        self.server.data_dir().join("inbox.sqlite")
    }

    pub fn submit(&self) -> Answered {
        self.ledger.submit(self.server.address)
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
        self.kills += 1;
    }

    /// Kills the server with SIGKILL and starts it again.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.server.restart();
    }

    /// The first column of a query's rows. Opens the inbox read-only, so that the server performs the
    /// recovery after a kill.
    pub fn query<T: rusqlite::types::FromSql>(&self, sql: &str) -> Vec<T> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = rusqlite::Connection::open_with_flags(self.database(), flags).expect("it opens");
        database.busy_timeout(PATIENCE).expect("it can be told");
        let mut statement = database.prepare(sql).expect("it is an inbox");
        let rows = statement.query_map([], |row| row.get(0)).expect("it can be read");
        rows.map(|row| row.expect("a value")).collect()
    }

    pub fn count(&self, sql: &str) -> usize {
        usize::try_from(self.query::<i64>(sql)[0]).expect("a count")
    }

    /// Whether there is nothing left to process, and no delivery is in progress or due.
    pub fn is_quiet(&self) -> bool {
        self.count(&format!(
            "SELECT count(*) + (SELECT count(*) FROM intake) FROM delivery WHERE state = 'sending' OR (state = 'waiting' AND due_at <= {})",
            Timestamp::now().as_millisecond()
        )) == 0
    }

    pub fn undelivered(&self) -> usize {
        self.count("SELECT count(*) + (SELECT count(*) FROM intake) FROM delivery WHERE state <> 'delivered'")
    }

    /// Makes the peers accept everything, restarts the server and retries all waiting and parked deliveries.
    /// Returns once everything has been delivered.
    pub fn settle(&mut self) {
        self.hook.follow([Reply::status(204)]);
        self.mail.follow(vec![Script::usual()]);
        if !self.server.has_ended() {
            self.server.kill();
            self.kills += 1;
        }
        self.server.restart();
        let retry = || {
            let mut editor = Editor::open(self.database()).expect("it is there");
            editor.retry(&Retry::default(), Timestamp::now()).expect("it can be written");
        };
        let deadline = Instant::now() + PATIENCE;
        while self.undelivered() > 0 {
            if self.is_quiet() {
                retry();
            }
            assert!(Instant::now() < deadline, "{} deliveries have not arrived", self.undelivered());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Compares the clients' responses with the inbox and the received messages. Requires a settled server.
    pub fn reckon(&self) -> FinalCheck {
        self.reckon_with(&self.maildir())
    }

    /// Like [`Self::reckon`], with the Maildir at another path.
    pub fn reckon_with(&self, maildir: &Path) -> FinalCheck {
        assert_eq!(self.query::<String>("PRAGMA integrity_check"), ["ok"]);
        let inbox: BTreeMap<String, String> = {
            let rows =
                self.query::<String>("SELECT lower(hex(id)) || ' ' || (fields ->> 'email') FROM accepted");
            let pairs = rows.iter().map(|row| row.split_once(' ').expect("two words"));
            let by_email: BTreeMap<_, _> =
                pairs.map(|(id, email)| (email.to_owned(), id.to_owned())).collect();
            assert_eq!(by_email.len(), rows.len(), "each submission is in the inbox once");
            by_email
        };
        let told = self.ledger.lock();
        let with =
            |what: Answered| told.iter().filter(move |(_, found)| **found == what).map(|(email, _)| email);
        let lost = with(Answered::Kept).filter(|email| !inbox.contains_key(*email)).count();
        let false_500 = with(Answered::NotKept).filter(|email| inbox.contains_key(*email)).count();
        assert!(
            inbox.keys().all(|email| told.contains_key(email)),
            "the inbox has a submission that no client sent"
        );

        let ids: BTreeSet<&str> = inbox.values().map(String::as_str).collect();
        let mut arrived = HashMap::new();
        arrived.insert("hook", self.arrived_at_hook());
        arrived.insert("mail", self.arrived_by_mail());
        arrived.insert("box", arrived_in(maildir, &self.mail));
        let mut duplicates = BTreeMap::new();
        for channel in CHANNELS {
            let arrivals = &arrived[channel];
            let stray = arrivals.keys().filter(|id| !ids.contains(id.as_str())).count();
            assert_eq!(stray, 0, "{channel}: received a message that is not in the inbox");
            for id in &ids {
                let arrival = arrivals.get(*id).copied().unwrap_or_default();
                assert!(arrival.taken > 0, "{channel}: {id} never arrived");
            }
            duplicates.insert(channel, arrivals.values().map(|arrival| arrival.times - 1).sum());
            self.check_attempts(channel, arrivals);
        }
        assert_eq!(duplicates["box"], 0, "a Maildir must not have duplicates");
        let figures = FinalCheck {
            kills: self.kills,
            sent: told.len(),
            acknowledged: with(Answered::Kept).count(),
            refused: with(Answered::NotKept).count(),
            kept: inbox.len(),
            lost,
            false_500,
            duplicates,
        };
        assert_eq!(figures.lost, 0, "{figures}");
        figures
    }

    /// Checks that a receiver got each submission at most once per attempt, that exactly one attempt was
    /// confirmed, and that attempts were interrupted only by kills.
    fn check_attempts(&self, channel: &str, arrivals: &HashMap<String, Arrival>) {
        let rows = self.query::<String>(&format!(
            "SELECT lower(hex(submission)) || ' ' || count(*) || ' ' || total(delivered = 1) || ' ' || total(delivered IS NULL)
             FROM attempt WHERE channel = '{channel}' GROUP BY submission"
        ));
        let mut interrupted = 0.0;
        for row in rows {
            let mut words = row.split(' ');
            let id = words.next().expect("an id");
            let mut number = || words.next().and_then(|word| word.parse::<f64>().ok()).expect("a number");
            let (tried, delivered, unknown) = (number(), number(), number());
            assert!(
                (delivered - 1.0).abs() < 0.1,
                "{channel}: {id} is known to have arrived {delivered} times"
            );
            let times = u32::try_from(arrivals[id].times).expect("not that often");
            assert!(f64::from(times) <= tried, "{channel}: {id} was sent {times} times in {tried} attempts");
            interrupted += unknown;
        }
        let most = u32::try_from(self.kills * self.concurrency).expect("not that many");
        assert!(
            interrupted <= f64::from(most) || self.has_failed,
            "{channel}: {interrupted} attempts interrupted by {} kills",
            self.kills
        );
    }

    /// The webhook's deliveries by submission id.
    fn arrived_at_hook(&self) -> HashMap<String, Arrival> {
        let mut arrivals = HashMap::<String, Arrival>::new();
        for request in self.hook.requests() {
            let id = request.header("webhook-id").expect("each has an id").replace('-', "");
            let body = String::from_utf8(request.body).expect("it is text");
            assert!(body.replace('-', "").contains(&id), "the body has the id too");
            let is_taken = request.answered.is_some_and(|status| (200..300).contains(&status));
            arrivals.entry(id).or_default().note(is_taken);
        }
        arrivals
    }

    /// The mail server's deliveries by submission id.
    fn arrived_by_mail(&self) -> HashMap<String, Arrival> {
        let mut arrivals = HashMap::<String, Arrival>::new();
        for received in &self.mail.record().received {
            arrivals.entry(message_id(&received.message())).or_default().note(received.is_taken);
        }
        arrivals
    }
}

/// How often a message arrived, and how often the receiver accepted it.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    times: usize,
    taken: usize,
}

impl Arrival {
    fn note(&mut self, is_taken: bool) {
        self.times += 1;
        self.taken += usize::from(is_taken);
    }
}

/// The messages in a Maildir. Each must be complete and equal, apart from the date, to the one that the mail
/// server received.
fn arrived_in(maildir: &Path, mail: &SmtpPeer) -> HashMap<String, Arrival> {
    let sent: HashMap<String, Vec<Vec<u8>>> = {
        let record = mail.record();
        let messages = record.received.iter().map(Received::message);
        messages.map(|message| (message_id(&message), comparable_lines(&message))).collect()
    };
    let mut arrivals = HashMap::<String, Arrival>::new();
    for entry in std::fs::read_dir(maildir.join("new")).expect("it is there") {
        let message = std::fs::read(entry.expect("a file").path()).expect("it can be read");
        let id = message_id(&message);
        assert!(sent.get(&id) == Some(&comparable_lines(&message)), "{id} is not whole in the Maildir");
        arrivals.entry(id).or_default().note(true);
    }
    arrivals
}

/// The lines of a message without their ends, and without the date: each channel dates its own message.
fn comparable_lines(message: &[u8]) -> Vec<Vec<u8>> {
    let lines = message.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"Date: "));
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect()
}

/// The submission's id in a message's `Message-ID`.
fn message_id(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let line = text.lines().find_map(|line| line.strip_prefix("Message-ID: <")).expect("it has one");
    line.split('.').next().expect("it begins with the id").replace('-', "")
}

#[derive(Debug)]
pub struct FinalCheck {
    pub kills: usize,
    pub sent: usize,
    pub acknowledged: usize,
    pub refused: usize,
    pub kept: usize,
    pub lost: usize,
    /// Submissions that were stored although the client got a 500.
    pub false_500: usize,
    /// The number of duplicates at each receiver.
    pub duplicates: BTreeMap<&'static str, usize>,
}

impl fmt::Display for FinalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FinalCheck { kills, sent, acknowledged, refused, kept, lost, false_500, duplicates } = self;
        write!(
            f,
            "kills {kills}, sent {sent}, acknowledged {acknowledged}, refused {refused}, kept {kept}, lost {lost}, \
             refused but kept {false_500}, duplicates"
        )?;
        for (number, (channel, count)) in duplicates.iter().enumerate() {
            write!(f, "{}{channel} {count}", if number == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}
